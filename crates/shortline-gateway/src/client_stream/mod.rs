//! A client's connection, guarded: what comes in is HTTP that has one meaning only, and nobody waits for ever.
//!
//! - **Reading**: [`framing`] follows the messages. A head is held back until it is whole and good; for one that is not,
//!   a stand-in passes ([`framing::REPLACED`]), which is refused in words, and nothing after it. A body that goes
//!   wrong fails.
//! - **Slow heads**: a head has `header_s` from its first byte to its last, and `idle_s` to begin at all.
//! - **Writing**: while the client takes nothing of an answer that is under way, its job stays at the server. After
//!   `idle_s` of that the connection fails, and the job leaves.
//! - **Leaving**: the HTTP library notices the end of the stream when it reads, and it does not read while nobody takes
//!   a body (its request waits in line, or its server takes nothing) or while another request is there already. Then
//!   [`Readable`] looks for the end, behind whatever bytes are still unread, and the connection fails at once.
//! - **Closing** in the middle of a request, because it was answered early: what still comes is read and thrown away
//!   for at most [`LINGER`], or until the client closes. Closing at once would reset the connection, and the client
//!   might lose the answer that it has not read yet (RFC 9112, 9.6).

pub(crate) mod framing;
mod readable;

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};

use crate::link::Link;
use crate::write_together;
use framing::{Fault, Framing, HeadLimits, Step};
use readable::Readable;

/// Bytes of an answer that the system may hold unsent for a client, and a piece more. Half of it has to go before the
/// client counts as reading. By itself the system holds up to 4 MiB, and shows no progress before a third of that is gone.
pub(crate) const UNSENT: u32 = 32 << 10;

/// How long a client may go on sending after an early answer.
const LINGER: Duration = Duration::from_secs(2);

/// Most bytes taken of what comes before a request for another protocol is answered.
const EARLY_BYTES: usize = 64 << 10;

/// Limits on what a client sends, and how slowly.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientLimits {
    pub(crate) head: HeadLimits,
    /// Longest time for a head.
    pub(crate) header: Duration,
    /// Longest pause in reading an answer.
    pub(crate) idle: Duration,
}

/// The connection.
#[derive(Debug)]
pub(crate) struct ClientStream {
    stream: TcpStream,
    readable: Readable,
    link: Arc<Link>,
    limits: ClientLimits,
    framing: Framing,
    /// What has come and not passed; of it the first `good` bytes may.
    held: Vec<u8>,
    good: usize,
    end: End,
    /// Rings when a head has taken too long, or the first one does not come; made when it is waited for.
    slow: Option<Pin<Box<Sleep>>>,
    /// Rings when the client has read nothing for too long; made when it first pauses.
    alarm: Option<Pin<Box<Sleep>>>,
    /// Whether a write waits for the client.
    waits: bool,
    /// Whether nothing was written since the last flush.
    flushed: bool,
    /// Interim answers that are being written.
    interim: Vec<u8>,
    /// Set when the sending side is shut.
    lingers: Option<Pin<Box<Sleep>>>,
}

/// How reading ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    /// Not by a fault.
    Open,
    /// With a request that is refused.
    Refused,
    /// Within a body.
    Broken,
}

impl ClientStream {
    pub(crate) fn new(stream: TcpStream, link: Arc<Link>, limits: ClientLimits) -> Self {
        bound_unsent(&stream);
        Self {
            stream,
            readable: Readable::default(),
            link,
            limits,
            framing: Framing::new(limits.head),
            held: Vec::new(),
            good: 0,
            end: End::Open,
            slow: None,
            alarm: None,
            waits: false,
            flushed: true,
            interim: Vec::new(),
            lingers: None,
        }
    }

    /// Notes how far what is held may pass.
    fn note(&mut self, step: Step) {
        match step {
            Step::Pass(good) => self.good = good,
            Step::Fault { good, in_body: true, .. } => {
                self.held.truncate(good);
                (self.good, self.end) = (good, End::Broken);
            }
            Step::Fault { good, fault, in_body: false } => {
                self.held.truncate(good);
                self.held.extend_from_slice(framing::REPLACED);
                (self.good, self.end) = (self.held.len(), End::Refused);
                self.link.set_fault(fault);
            }
        }
        if self.framing.awaits_answer() && self.good > 0 {
            self.link.ask();
        }
    }

    /// Passes what is held and good.
    fn pass(&mut self, buf: &mut ReadBuf<'_>) {
        let passed = self.good.min(buf.remaining());
        buf.put_slice(&self.held[..passed]);
        self.held.drain(..passed);
        self.good -= passed;
    }

    /// Reads more behind what is held; whether there was more.
    fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let mut space = [0; 4096];
        let mut more = ReadBuf::new(&mut space);
        if self.readable.poll_read(&mut self.stream, cx, &mut more)?.is_pending() {
            return self.poll_slow(cx);
        }
        self.held.extend_from_slice(more.filled());
        let step = self.framing.advance(&self.held);
        self.note(step);
        if self.framing.is_http2() {
            self.link.set_http2();
        }
        if self.good > 0 {
            self.slow = None;
        }
        Poll::Ready(Ok(!more.filled().is_empty()))
    }

    /// A part of a head is held: refuses it when its time is over.
    fn poll_slow(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        if self.framing.awaits_answer() {
            return Poll::Pending;
        }
        let header = self.limits.header;
        let slow = self.slow.get_or_insert_with(|| Box::pin(tokio::time::sleep(header)));
        ready!(slow.as_mut().poll(cx));
        self.note(Step::Fault { good: 0, fault: Fault::HeadTooSlow, in_body: false });
        Poll::Ready(Ok(true))
    }

    /// Nothing comes: the end, if nothing ever did and the time is over. (Later the HTTP library watches over that.)
    fn poll_silent(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.framing.is_untouched() {
            return Poll::Pending;
        }
        let idle = self.limits.idle;
        self.slow.get_or_insert_with(|| Box::pin(tokio::time::sleep(idle))).as_mut().poll(cx).map(Ok)
    }

    /// The outcome of a write, or a time-out if the client lets it wait for too long.
    fn in_time<T>(&mut self, write: Poll<io::Result<T>>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        if write.is_ready() {
            self.waits = false;
            return write;
        }
        let idle = self.limits.idle;
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(tokio::time::sleep(idle)));
        if !std::mem::replace(&mut self.waits, true) {
            alarm.as_mut().reset(Instant::now() + idle);
        }
        ready!(alarm.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client has read nothing for idle_s")))
    }

    /// Before other bytes: writes the interim answers that are due.
    fn poll_interim(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.link.hints.any() {
            self.interim.extend(self.link.hints.before(self.flushed));
        }
        self.flushed = false;
        self.poll_write_interim(cx)
    }

    fn poll_write_interim(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.interim.is_empty() {
            let write = Pin::new(&mut self.stream).poll_write(cx, &self.interim);
            let written = ready!(self.in_time(write, cx))?;
            self.interim.drain(..written);
        }
        Poll::Ready(Ok(()))
    }

    /// Fails once the client has gone, if nobody reads. A refused request is answered whether or not more comes; what
    /// follows a switch of protocols is another's.
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.end != End::Open || self.framing.is_other() {
            return Poll::Pending;
        }
        ready!(self.readable.poll_gone(&self.stream, cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::ConnectionAborted, "the client has gone")))
    }

    /// Throws away what comes until the client closes or the time is over.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let lingers = self.lingers.get_or_insert_with(|| Box::pin(tokio::time::sleep(LINGER)));
        if lingers.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        let mut space = [0; 4096];
        loop {
            let mut thrown = ReadBuf::new(&mut space);
            match ready!(self.readable.poll_read(&mut self.stream, cx, &mut thrown)) {
                Ok(()) if !thrown.filled().is_empty() => {}
                _ => return Poll::Ready(()),
            }
        }
    }
}

/// Bounds what the system holds unsent, where it can: see [`UNSENT`].
fn bound_unsent(stream: &TcpStream) {
    #[cfg(target_os = "linux")]
    if let Err(error) = socket2::SockRef::from(stream).set_tcp_notsent_lowat(UNSENT) {
        tracing::debug!(%error, "what the system holds for a client is not bounded");
    }
}

impl AsyncRead for ClientStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        loop {
            if this.good > 0 {
                this.pass(buf);
                return Poll::Ready(Ok(()));
            }
            match this.end {
                End::Open => {}
                // The end of the stream would look as if the client had gone before it was refused.
                End::Refused => return Poll::Pending,
                End::Broken => return Poll::Ready(Err(io::ErrorKind::InvalidData.into())),
            }
            if this.framing.awaits_answer() {
                match this.link.answered() {
                    Some(switched) => {
                        this.framing.answered(switched);
                        let step = this.framing.advance(&this.held);
                        this.note(step);
                        continue;
                    }
                    None if this.held.len() >= EARLY_BYTES => return Poll::Pending,
                    None => {}
                }
            }
            if !this.held.is_empty() {
                if ready!(this.poll_more(cx))? {
                    continue;
                }
                return Poll::Ready(Ok(()));
            }
            let before = buf.filled().len();
            if this.readable.poll_read(&mut this.stream, cx, buf)?.is_pending() {
                return this.poll_silent(cx);
            }
            this.slow = None;
            let came = &buf.filled()[before..];
            if came.is_empty() {
                return Poll::Ready(Ok(()));
            }
            let step = this.framing.advance(came);
            if this.framing.is_http2() {
                this.link.set_http2();
            }
            if step == Step::Pass(came.len()) && !this.framing.awaits_answer() {
                return Poll::Ready(Ok(()));
            }
            this.held.extend_from_slice(came);
            buf.set_filled(before);
            this.note(step);
        }
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_interim(cx))?;
        let write = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.in_time(write, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_interim(cx))?;
        let write = write_together::poll_write(&mut self.stream, cx, bufs);
        self.in_time(write, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// hyper flushes when it has written all it has, and whenever it has had a turn.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.flushed = true;
        if self.link.hints.any() {
            let due = self.link.hints.at_flush();
            self.interim.extend(due);
        }
        ready!(self.poll_write_interim(cx))?;
        self.link.all_written();
        if let Poll::Ready(Err(gone)) = self.poll_gone(cx) {
            return Poll::Ready(Err(gone));
        }
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.lingers.is_none() {
            ready!(Pin::new(&mut self.stream).poll_shutdown(cx))?;
        }
        if self.end != End::Open || self.framing.is_in_body() {
            ready!(self.poll_linger(cx));
        }
        Poll::Ready(Ok(()))
    }
}
