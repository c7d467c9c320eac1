//! Interim answers (1xx: early hints, processing) on their way to the client.
//!
//! A proxy passes on what its server says before the answer (RFC 9110, 15.2). The HTTP library cannot, so
//! [`ClientStream`](crate::client_stream) writes them between its bytes, and only where they cannot mix with any others:
//! - at a flush: all bytes so far are out, and the request is not answered yet;
//! - before the first bytes after a flush, which are those of the answer's head or of a `100 Continue`.
//!
//! Interim answers that find neither (another answer's bytes were still on their way, and this one's followed at once)
//! are left out: none is ever written within or behind an answer. They belong to one request: what a server says too late
//! finds its request [ended](Hints::end). The client must speak HTTP/1.1 (HTTP/1.0 has none, RFC 9110, 15.2).
//!
//! They are no answer: a request may still be sent to another server, whose hints follow then (RFC 8297 allows several),
//! and no time limit begins anew. `100 Continue` is between neighbours, the gateway's own; 101 is an answer.

use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Waker;

use atomic_waker::AtomicWaker;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, StatusCode};

use crate::headers;
use crate::link::Link;

/// Most bytes that wait for a client which does not read.
const MOST_BYTES: usize = 64 << 10;

/// The interim answers of one connection; of its requests there is one at a time.
#[derive(Default, Debug)]
pub(crate) struct Hints {
    /// Odd while a request is not answered yet: its number. Changed by the connection's task alone.
    turn: AtomicU64,
    /// Whether some wait to be written.
    any: AtomicBool,
    waiting: Mutex<Waiting>,
    /// Of the connection.
    task: AtomicWaker,
}

/// What waits to be written.
#[derive(Default, Debug)]
struct Waiting {
    /// For this request.
    request: u64,
    bytes: Vec<u8>,
}

/// Passes the interim answers for one request on.
#[derive(Clone, Debug)]
pub(crate) struct HintSender {
    /// Weak: a connection that has ended is not kept by what its requests have left behind.
    link: Weak<Link>,
    request: u64,
}

impl Hints {
    /// A request begins, on the task of this waker.
    pub(crate) fn begin(link: &Arc<Link>, waker: &Waker) -> HintSender {
        link.hints.task.register(waker);
        let request = (link.hints.turn.load(Relaxed) + 1) | 1;
        link.hints.turn.store(request, Release);
        HintSender { link: Arc::downgrade(link), request }
    }

    /// The request is answered: its head follows.
    pub(crate) fn end(&self) {
        let turn = self.turn.load(Relaxed);
        self.turn.store(turn + (turn & 1), Release);
    }

    /// Whether some wait to be written.
    pub(crate) fn any(&self) -> bool {
        self.any.load(Relaxed)
    }

    /// At a flush: what is to be written now.
    pub(crate) fn at_flush(&self) -> Vec<u8> {
        let turn = self.turn.load(Relaxed);
        self.take(|request| request == turn)
    }

    /// Before other bytes are written, the first after a flush or not: what is to be written before them.
    pub(crate) fn before(&self, first: bool) -> Vec<u8> {
        let turn = self.turn.load(Relaxed);
        match (first, turn & 1 == 1) {
            // The first bytes of the answer, if it has just begun.
            (true, _) => self.take(|request| request == turn || request + 1 == turn),
            // They can wait for the next flush.
            (false, true) => Vec::new(),
            (false, false) => self.take(|_| false),
        }
    }

    /// Takes what waits, if it is for the right request; else it is too late.
    fn take(&self, is_for: impl FnOnce(u64) -> bool) -> Vec<u8> {
        let mut waiting = self.lock();
        self.any.store(false, Relaxed);
        let bytes = std::mem::take(&mut waiting.bytes);
        if is_for(waiting.request) { bytes } else { Vec::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HintSender {
    /// The server says this.
    pub(crate) fn pass(&self, status: StatusCode, mut headers: HeaderMap) {
        let Some(link) = self.link.upgrade() else { return };
        let hints = &link.hints;
        let mut waiting = hints.lock();
        if hints.turn.load(Acquire) != self.request || status == StatusCode::CONTINUE {
            return;
        }
        if waiting.request != self.request {
            *waiting = Waiting { request: self.request, bytes: Vec::new() };
        }
        headers::to_client(&mut headers, None);
        headers.remove(CONTENT_LENGTH);
        let written = write(status, &headers);
        if waiting.bytes.len() + written.len() > MOST_BYTES {
            return tracing::debug!(%status, "a client does not read: an interim answer is left out");
        }
        waiting.bytes.extend_from_slice(&written);
        hints.any.store(true, Relaxed);
        hints.task.wake();
    }
}

/// As it goes over the wire.
fn write(status: StatusCode, headers: &HeaderMap) -> Vec<u8> {
    let reason = status.canonical_reason().unwrap_or_default();
    let mut bytes = format!("HTTP/1.1 {} {reason}\r\n", status.as_str()).into_bytes();
    for (name, value) in headers {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            bytes.extend_from_slice(part);
        }
    }
    bytes.extend_from_slice(b"\r\n");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const HINT: &[u8] = b"HTTP/1.1 103 Early Hints\r\n\r\n";

    fn link() -> (Arc<Link>, HintSender) {
        let link = Arc::new(Link::default());
        let sender = Hints::begin(&link, Waker::noop());
        (link, sender)
    }

    fn hint(sender: &HintSender) {
        sender.pass(StatusCode::EARLY_HINTS, HeaderMap::new());
    }

    #[test]
    fn hints_are_written_at_a_flush_until_the_request_is_answered_and_then_only_before_the_head() {
        let (link, sender) = link();
        assert!(!link.hints.any());
        hint(&sender);
        assert!(link.hints.any());
        assert!(link.hints.before(false).is_empty(), "bytes of another answer are on their way");
        assert_eq!(link.hints.at_flush(), HINT);
        assert!(!link.hints.any() && link.hints.at_flush().is_empty(), "once");
        hint(&sender);
        link.hints.end();
        assert_eq!(link.hints.before(true), HINT);
        assert!(link.hints.before(true).is_empty());
    }

    #[test]
    fn hints_are_left_out_where_they_would_be_within_an_answer() {
        for too_late in [|hints: &Hints| hints.at_flush(), |hints: &Hints| hints.before(false)] {
            let (link, sender) = link();
            hint(&sender);
            link.hints.end();
            assert!(too_late(&link.hints).is_empty());
            assert!(!link.hints.any() && link.hints.before(true).is_empty(), "for good");
        }
    }

    #[test]
    fn what_is_said_after_the_end_of_a_request_is_not_said_in_the_next_one() {
        let (link, late) = link();
        link.hints.end();
        hint(&late);
        assert!(!link.hints.any());
        let _next = Hints::begin(&link, Waker::noop());
        hint(&late);
        assert!(!link.hints.any());
    }

    #[test]
    fn a_client_that_does_not_read_keeps_no_more_than_the_limit() {
        let (link, sender) = link();
        (0..10_000).for_each(|_| hint(&sender));
        let held = link.hints.at_flush();
        assert!(held.len() <= MOST_BYTES && held.len() > MOST_BYTES - HINT.len());
        assert_eq!(held.len() % HINT.len(), 0, "whole ones");
    }
}
