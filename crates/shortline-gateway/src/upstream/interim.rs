//! Interim answers (1xx) of a server over HTTP/1.1, read beside the HTTP library, which skips them.
//!
//! An answer begins with the first byte that comes after its request was sent, since requests on one connection follow
//! each other. While those bytes are `HTTP/1.x 1..`, whole heads are passed to the client ([`crate::hints`]); anything
//! else ends the looking until the next request. So an answer without interim ones costs one comparison.
//!
//! (The library would call back, for four allocations a request whether or not there is anything to say.)

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::stream::ServerStream;
use crate::hints::HintSender;

/// Longest head of an interim answer.
const MOST_BYTES: usize = 64 << 10;
/// Most header lines of one: what the HTTP library takes.
const MOST_LINES: usize = 100;

/// Whom the interim answers of the request under way are for.
#[derive(Default, Debug)]
pub(super) struct Interim {
    awaited: AtomicBool,
    /// Whether a byte has come since the request.
    came: AtomicBool,
    to: Mutex<Option<HintSender>>,
}

/// A connection of HTTP/1.1.
#[derive(Debug)]
pub(super) struct Watched {
    stream: ServerStream,
    interim: Arc<Interim>,
    /// A head that has begun to come.
    head: Vec<u8>,
}

impl Interim {
    /// A request is about to be sent.
    pub(super) fn expect(&self, to: Option<&HintSender>) {
        if to.is_some() {
            *self.to.lock().unwrap_or_else(PoisonError::into_inner) = to.cloned();
        }
        self.awaited.store(to.is_some(), Relaxed);
        self.came.store(false, Relaxed);
    }

    /// Whether anything has come since the request was about to be sent.
    pub(super) fn has_come(&self) -> bool {
        self.came.load(Relaxed)
    }

    fn pass(&self, status: StatusCode, headers: HeaderMap) {
        if let Some(to) = &*self.to.lock().unwrap_or_else(PoisonError::into_inner) {
            to.pass(status, headers);
        }
    }
}

impl Watched {
    pub(super) fn new(stream: ServerStream, interim: Arc<Interim>) -> Self {
        Self { stream, interim, head: Vec::new() }
    }

    /// Looks at bytes that have come while the head of an answer is awaited.
    fn look(&mut self, bytes: &[u8]) {
        if self.head.is_empty() && !may_be_interim(bytes) {
            return self.interim.awaited.store(false, Relaxed);
        }
        self.head.extend_from_slice(bytes);
        while !self.head.is_empty() {
            match first_interim(&self.head) {
                Found::Interim(length, status, headers) => {
                    self.interim.pass(status, headers);
                    self.head.drain(..length);
                }
                Found::Part if self.head.len() <= MOST_BYTES => return,
                Found::Part | Found::Other => {
                    self.head.clear();
                    self.interim.awaited.store(false, Relaxed);
                }
            }
        }
    }
}

/// What bytes begin with.
#[derive(Debug)]
enum Found {
    /// An interim answer of so many bytes.
    Interim(usize, StatusCode, HeaderMap),
    /// Perhaps one: more is needed to know.
    Part,
    /// Something else.
    Other,
}

/// Whether bytes begin as an interim answer does, as far as they go.
fn may_be_interim(bytes: &[u8]) -> bool {
    const BEGIN: &[u8] = b"HTTP/1.? 1";
    BEGIN.iter().zip(bytes).all(|(&expected, &byte)| expected == byte || expected == b'?')
}

fn first_interim(bytes: &[u8]) -> Found {
    if !may_be_interim(bytes) {
        return Found::Other;
    }
    let mut lines = [httparse::EMPTY_HEADER; MOST_LINES];
    let mut answer = httparse::Response::new(&mut lines);
    let length = match answer.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Found::Part,
        Err(_) => return Found::Other,
    };
    match answer.code.and_then(|code| StatusCode::from_u16(code).ok()) {
        Some(status) if status.is_informational() && status != StatusCode::SWITCHING_PROTOCOLS => {
            let header = |line: &httparse::Header<'_>| {
                let name = HeaderName::from_bytes(line.name.as_bytes()).ok()?;
                Some((name, HeaderValue::from_bytes(line.value).ok()?))
            };
            let mut headers = HeaderMap::new();
            for (name, value) in answer.headers.iter().filter_map(header) {
                headers.append(name, value);
            }
            Found::Interim(length, status, headers)
        }
        _ => Found::Other,
    }
}

impl AsyncRead for Watched {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        if buf.filled().len() > before {
            self.interim.came.store(true, Relaxed);
        }
        if self.interim.awaited.load(Relaxed) {
            self.look(&buf.filled()[before..]);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Watched {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interim_answer_is_told_from_others_however_little_of_it_has_come() {
        let whole = b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\nlink: </b>\r\n\r\nHTTP/1.1 200 OK\r\n\r\n";
        let end = whole.len() - b"HTTP/1.1 200 OK\r\n\r\n".len();
        for n in 0..end {
            assert!(matches!(first_interim(&whole[..n]), Found::Part), "{n} bytes");
        }
        for n in end..whole.len() {
            let Found::Interim(length, status, headers) = first_interim(&whole[..n]) else { panic!("{n} bytes") };
            assert_eq!((length, status.as_u16(), headers.get_all("link").iter().count()), (end, 103, 2));
        }
        for other in [&whole[end..], b"HTTP/1.1 101 Switching\r\n\r\n", b"HTTP/2", b"1", b"HTTP/1.1 1xx\r\n\r\n"] {
            assert!(matches!(first_interim(other), Found::Other), "{other:?}");
        }
    }
}
