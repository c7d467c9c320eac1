//! What a client's connection and the requests on it tell each other.
//!
//! The connection tells of a [`Fault`] in the stream: the request that stands for the faulty one is then refused. A
//! request that is answered by a switch of protocols leaves the [`Tunnel`] to its connection, which runs it when HTTP
//! has ended. The connection also tells when all of an answer that it was given is written, for which further pieces wait
//! ([`Paced`](crate::paced::Paced)).

use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};

use http::{Method, StatusCode};
use tokio::time::Instant;

use crate::client_stream::framing::{Fault, REPLACED_METHOD};
use crate::errors::{OTHER_CODINGS, Refusal};
use crate::hints::Hints;
use crate::tunnel::Tunnel;

/// With so many bytes to be written, an answer pauses: enough to write many small pieces at once.
const ENOUGH: usize = 16 << 10;

/// Between one client's connection and its requests.
#[derive(Default, Debug)]
pub(crate) struct Link {
    fault: OnceLock<Fault>,
    /// When the connection turned out to be one of HTTP/2.
    http2: OnceLock<Instant>,
    asked: AtomicU8,
    /// Interim answers.
    pub(crate) hints: Hints,
    tunnel: Mutex<Option<Tunnel>>,
    /// Bytes of an answer that were handed over since all of it was written.
    unwritten: AtomicUsize,
    /// The answer that pauses because they are many.
    paused: Mutex<Option<Waker>>,
}

const NOTHING: u8 = 0;
const ASKED: u8 = 1;
const DECLINED: u8 = 2;
const SWITCHED: u8 = 3;

impl Link {
    /// The stream is faulty from here on; a request stands for the first faulty one.
    pub(crate) fn set_fault(&self, fault: Fault) {
        self.fault.get_or_init(|| fault);
    }

    /// The connection is one of HTTP/2.
    pub(crate) fn set_http2(&self) {
        self.http2.get_or_init(Instant::now);
    }

    /// Since when it is known to be one of HTTP/2; `None`: it is not.
    pub(crate) fn http2_since(&self) -> Option<Instant> {
        self.http2.get().copied()
    }

    /// The refusal of the request with this method, if it stands for the faulty one.
    pub(crate) fn refusal(&self, method: &Method) -> Option<Refusal> {
        let fault = self.fault.get().filter(|_| method.as_str() == REPLACED_METHOD)?;
        Some(match *fault {
            Fault::Malformed(what) => Refusal::Malformed(what),
            Fault::Coding => Refusal::Unsupported(OTHER_CODINGS),
            Fault::TargetTooLong => Refusal::TargetTooLong,
            Fault::HeadTooLarge => Refusal::HeadTooLarge,
            Fault::HeadTooSlow => Refusal::HeadTooSlow,
        })
    }

    /// A request asks for another protocol.
    pub(crate) fn ask(&self) {
        self.asked.store(ASKED, Relaxed);
    }

    /// A request is answered.
    pub(crate) fn answer(&self, status: StatusCode) {
        if status == StatusCode::SWITCHING_PROTOCOLS {
            self.asked.store(SWITCHED, Relaxed);
        } else if self.asked.load(Relaxed) == ASKED {
            self.asked.store(DECLINED, Relaxed);
        }
    }

    /// Whether the request that asked for another protocol got it; `None`: it is not answered.
    pub(crate) fn answered(&self) -> Option<bool> {
        match self.asked.load(Relaxed) {
            NOTHING | ASKED => None,
            switched => Some(switched == SWITCHED),
        }
    }

    /// So many bytes of an answer are handed over to be written.
    pub(crate) fn hand_over(&self, bytes: usize) {
        self.unwritten.fetch_add(bytes, Relaxed);
    }

    /// All that was handed over is written.
    pub(crate) fn all_written(&self) {
        if self.unwritten.load(Relaxed) > 0
            && self.unwritten.swap(0, Relaxed) >= ENOUGH
            && let Some(answer) = self.paused.lock().unwrap_or_else(PoisonError::into_inner).take()
        {
            answer.wake();
        }
    }

    /// Ready if more may be handed over. Asked by the task that writes: with HTTP/1.1 it is the same.
    pub(crate) fn poll_room(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.unwritten.load(Relaxed) < ENOUGH {
            return Poll::Ready(());
        }
        *self.paused.lock().unwrap_or_else(PoisonError::into_inner) = Some(cx.waker().clone());
        Poll::Pending
    }

    pub(crate) fn set_tunnel(&self, tunnel: Tunnel) {
        *self.tunnel.lock().unwrap_or_else(PoisonError::into_inner) = Some(tunnel);
    }

    pub(crate) fn take_tunnel(&self) -> Option<Tunnel> {
        self.tunnel.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
