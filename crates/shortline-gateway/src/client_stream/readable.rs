//! Reading from a client, and seeing that it has gone while nobody reads.
//!
//! The end of a stream lies behind its unread bytes, and who does not read them does not meet it. The system tells of it
//! all the same (`EPOLLRDHUP`, `EV_EOF`), and the runtime keeps that beside "there is something to read". A task
//! that wants to be woken for the former must not be ready by the latter, so [`Readable::poll_gone`] makes the runtime
//! forget that there are bytes: whatever happens next, more bytes or the end, wakes. From then on the next read asks
//! the system itself, until that has no more bytes.
//!
//! No byte is read ahead, so nothing is held, however long the body. Looking costs no call of the system, and next to
//! nothing while somebody reads: a read that waits is woken by the end anyway.

use std::future::Future;
use std::io::{self, Read};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker, ready};

use socket2::SockRef;
use tokio::io::{AsyncRead, Interest, ReadBuf};
use tokio::net::TcpStream;

/// What is known of the reading side of a connection.
#[derive(Default, Debug)]
pub(super) struct Readable {
    /// Whether a read has begun to wait for bytes since the last look.
    awaited: bool,
    /// Whether there may be bytes that the runtime has forgotten.
    forgotten: bool,
}

impl Readable {
    /// Reads some bytes; none: the end.
    pub(super) fn poll_read(
        &mut self,
        stream: &mut TcpStream,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.forgotten {
            match (&*SockRef::from(&*stream)).read(buf.initialize_unfilled()) {
                Ok(bytes) => {
                    buf.advance(bytes);
                    return Poll::Ready(Ok(()));
                }
                // What comes after this moment the runtime sees.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.forgotten = false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        let polled = Pin::new(stream).poll_read(cx, buf);
        self.awaited = polled.is_pending();
        polled
    }

    /// Ready once the client has closed, shut its sending side or reset the connection. To be asked after the reads of a
    /// turn: one that waits is woken by that as well, so nothing more is needed then.
    pub(super) fn poll_gone(&mut self, stream: &TcpStream, cx: &mut Context<'_>) -> Poll<()> {
        if std::mem::take(&mut self.awaited) {
            return Poll::Pending;
        }
        loop {
            if is_closed(stream) {
                return Poll::Ready(());
            }
            // An operation that would block makes the runtime forget; this one never does anything else.
            let forgotten = &mut self.forgotten;
            let _: io::Result<()> = stream.try_io(Interest::READABLE, || {
                *forgotten = true;
                Err(io::ErrorKind::WouldBlock.into())
            });
            if ready!(stream.poll_read_ready(cx)).is_err() {
                return Poll::Ready(());
            }
        }
    }
}

/// Whether the system has said that nothing follows the bytes that are there.
fn is_closed(stream: &TcpStream) -> bool {
    // A look, without a waker: it is over at once when something is known.
    let looked = pin!(stream.ready(Interest::READABLE)).poll(&mut Context::from_waker(Waker::noop()));
    match looked {
        Poll::Ready(Ok(ready)) => ready.is_read_closed(),
        Poll::Ready(Err(_)) => true,
        Poll::Pending => false,
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::time::Duration;

    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (client, listener.accept().await.unwrap().0)
    }

    async fn read(readable: &mut Readable, stream: &mut TcpStream, most: usize) -> Vec<u8> {
        let mut space = vec![0; most];
        let mut buf = ReadBuf::new(&mut space);
        let read = poll_fn(|cx| readable.poll_read(stream, cx, &mut buf));
        tokio::time::timeout(Duration::from_secs(20), read).await.expect("bytes are lost").unwrap();
        buf.filled().to_vec()
    }

    #[tokio::test]
    async fn the_end_is_seen_behind_unread_bytes_and_the_bytes_are_all_read_later() {
        let (mut client, mut server) = pair().await;
        let mut readable = Readable::default();
        client.write_all(b"abc").await.unwrap();
        server.readable().await.unwrap();
        let gone = poll_fn(|cx| readable.poll_gone(&server, cx));
        assert!(tokio::time::timeout(Duration::from_millis(20), gone).await.is_err(), "it is still there");
        client.write_all(b"de").await.unwrap();
        assert_eq!(read(&mut readable, &mut server, 2).await, b"ab", "what the runtime has forgotten is read");
        drop(client);
        let gone = poll_fn(|cx| readable.poll_gone(&server, cx));
        tokio::time::timeout(Duration::from_secs(20), gone).await.expect("it has gone");
        let mut rest = Vec::new();
        loop {
            match read(&mut readable, &mut server, 9).await {
                some if some.is_empty() => break,
                some => rest.extend(some),
            }
        }
        assert_eq!(rest, b"cde");
    }

    #[tokio::test]
    async fn bytes_that_come_after_all_was_read_wake_a_read() {
        let (mut client, mut server) = pair().await;
        let mut readable = Readable::default();
        client.write_all(b"a").await.unwrap();
        server.readable().await.unwrap();
        let looked = poll_fn(|cx| Poll::Ready(readable.poll_gone(&server, cx))).await;
        assert!(looked.is_pending());
        assert_eq!(read(&mut readable, &mut server, 9).await, b"a");
        let ((), came) = tokio::join!(
            async {
                tokio::time::sleep(Duration::from_millis(20)).await;
                client.write_all(b"b").await.unwrap();
            },
            read(&mut readable, &mut server, 9)
        );
        assert_eq!(came, b"b");
    }
}
