//! The connection to a server: TCP, with or without TLS.
//!
//! A server may answer before it has the whole request, and close (413, for one). What the gateway still sends meets a
//! closed port then, but the answer has arrived. So a write that fails because the other end is gone is no failure of
//! the connection: [`Tcp`] falls silent, and reading tells whether an answer is there (on Linux what has arrived can be
//! read after a reset). The write has used up the system's word that it was a reset, so the end of what can be read is an
//! error then, and no answer that lasts until its connection closes is whole. Behind an answer that switches the protocol a
//! failed write is a failure.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio_rustls::client::TlsStream;

use crate::write_together;

/// TCP to a server.
#[derive(Debug)]
pub(crate) struct Tcp {
    stream: TcpStream,
    /// Whether the other end takes nothing more.
    deaf: bool,
    /// Whether it may still have an answer to what it did not take.
    may_answer: bool,
    /// The room for the connection; last, so that it is given back when the connection is closed.
    _socket: OwnedSemaphorePermit,
}

/// A connection to a server.
#[derive(Debug)]
pub(crate) enum ServerStream {
    Plain(Tcp),
    Tls(Box<TlsStream<Tcp>>),
}

impl Tcp {
    pub(super) fn new(stream: TcpStream, socket: OwnedSemaphorePermit) -> Self {
        Self { stream, deaf: false, may_answer: true, _socket: socket }
    }

    /// The outcome of a write: the other end's absence is not one.
    fn heard<T>(&mut self, write: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        match write {
            Poll::Ready(Err(error)) if self.may_answer && is_gone(&error) => {
                self.deaf = true;
                Poll::Pending
            }
            write => write,
        }
    }
}

impl ServerStream {
    /// From now on a write that fails is a failure.
    pub(super) fn no_more_answers(&mut self) {
        let tcp = match self {
            Self::Plain(tcp) => tcp,
            Self::Tls(stream) => stream.get_mut().0,
        };
        tcp.may_answer = false;
    }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted
    )
}

impl AsyncRead for Tcp {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        if self.deaf && matches!(read, Poll::Ready(Ok(()))) && buf.filled().len() == before && buf.remaining() > 0 {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        read
    }
}

impl AsyncWrite for Tcp {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.deaf {
            return Poll::Pending;
        }
        let write = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.heard(write)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.deaf {
            return Poll::Pending;
        }
        let write = write_together::poll_write(&mut self.stream, cx, bufs);
        self.heard(write)
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

impl AsyncRead for ServerStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for ServerStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
