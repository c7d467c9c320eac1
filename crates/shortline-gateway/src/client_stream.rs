//! A client's connection that does not wait for ever for the client to read.
//!
//! While the client takes nothing of an answer that is under way, its job stays at the server. After `idle_s` of that
//! the connection fails, and the job leaves. Reading is left alone: a client may think as long as it likes.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};

/// The connection.
#[derive(Debug)]
pub(crate) struct ClientStream {
    stream: TcpStream,
    idle: Duration,
    /// Rings when the client has read nothing for too long; made when it first pauses.
    alarm: Option<Pin<Box<Sleep>>>,
    /// Whether a write waits for the client.
    waits: bool,
}

impl ClientStream {
    pub(crate) fn new(stream: TcpStream, idle: Duration) -> Self {
        Self { stream, idle, alarm: None, waits: false }
    }

    /// The outcome of a write, or a time-out if the client lets it wait for too long.
    fn in_time<T>(&mut self, write: Poll<io::Result<T>>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        if write.is_ready() {
            self.waits = false;
            return write;
        }
        let idle = self.idle;
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(tokio::time::sleep(idle)));
        if !std::mem::replace(&mut self.waits, true) {
            alarm.as_mut().reset(Instant::now() + idle);
        }
        ready!(alarm.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client has read nothing for idle_s")))
    }
}

impl AsyncRead for ClientStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let write = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.in_time(write, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let write = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.in_time(write, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
