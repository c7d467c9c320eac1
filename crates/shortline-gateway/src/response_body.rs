//! The body of an answer on its way to the client.
//!
//! Passed on frame by frame, as it comes: nothing is collected, so server-sent events keep their timing, and a client
//! that reads slowly slows its server. The frame that ends the body gives back the job's place and the connection.
//! A server that breaks off, or is silent for too long, breaks off the client's answer too: a client never takes half
//! an answer for a whole one.
//!
//! What goes wrong right behind the head is still a refusal: [`Streamed::begin`] looks at the body once before the head
//! goes to the client. Later the client gets all that came before the break: the break is reported one turn late, so
//! that head and pieces which are still in the connection's buffer are sent first.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep};

use crate::exchange::Exchange;
use crate::health::{Failing, Report};
use crate::outcome::Outcome;
use crate::request_body::Progress;
use crate::upstream::{AnswerBody, AnswerError, Lease};

/// The body of an answer.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all are streamed: a box for each would cost more than it saves")]
pub(crate) enum ResponseBody {
    /// The gateway's own.
    Own(Bytes),
    /// A server's.
    Streamed(Streamed),
}

/// A server's answer under way.
#[derive(Debug)]
pub(crate) struct Streamed {
    /// What was read before the answer was judged.
    ahead: VecDeque<Frame<Bytes>>,
    /// What was read before the head was passed on.
    next: Option<Frame<Bytes>>,
    incoming: AnswerBody,
    exchange: Exchange,
    connection: Option<Lease>,
    /// The request's body, if it may still be under way.
    upload: Option<Arc<Progress>>,
    idle: Duration,
    /// Rings when the server is silent for too long; made when it first pauses.
    alarm: Option<Pin<Box<Sleep>>>,
    /// Whether something came since the alarm was set.
    moved: bool,
    /// Why it broke off, to be reported at the next turn.
    broken: Option<BrokenOff>,
}

/// What an answer comes from: the connection, and the request's body on it.
#[derive(Debug)]
pub(crate) struct Sender {
    pub(crate) lease: Lease,
    pub(crate) upload: Option<Arc<Progress>>,
    /// What of the answer's body was read already.
    pub(crate) ahead: VecDeque<Frame<Bytes>>,
}

impl Sender {
    pub(crate) fn new(lease: Lease, upload: Option<Arc<Progress>>) -> Self {
        Self { lease, upload, ahead: VecDeque::new() }
    }
}

/// Why an answer is broken off.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BrokenOff {
    /// The server broke off.
    #[error("the server broke off its answer")]
    Server(#[source] AnswerError),
    /// The server reset its answer before the end, without an error.
    #[error("the server reset its answer before the end")]
    CutShort,
    /// The server was silent for too long.
    #[error("the server paused its answer for longer than idle_s")]
    Idle,
}

impl Streamed {
    /// The body of an answer whose head has come.
    ///
    /// # Errors
    /// The exchange back, if the server has broken off already.
    pub(crate) fn begin(
        mut exchange: Exchange,
        incoming: AnswerBody,
        sender: Sender,
        idle: Duration,
    ) -> Result<Self, Box<Exchange>> {
        let Sender { mut lease, upload, ahead } = sender;
        exchange.passed_on(ahead.iter().filter_map(Frame::data_ref).map(Bytes::len).sum());
        if upload.as_ref().is_some_and(|upload| !upload.is_sent()) {
            // The client may take nothing of the answer before the server has all of the request.
            lease.run_by_itself();
        }
        let connection = Some(lease);
        let mut body = Self {
            ahead,
            next: None,
            incoming,
            exchange,
            connection,
            upload,
            idle,
            alarm: None,
            moved: true,
            broken: None,
        };
        if body.incoming.is_end_stream() {
            body.end();
            return Ok(body);
        }
        // Looked at without a waker: it is polled again, for the client, before anybody waits.
        match body.poll_incoming(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Some(Err(error))) => {
                tracing::debug!(%error, "a server broke off right behind the head of its answer");
                return Err(Box::new(body.exchange));
            }
            Poll::Ready(Some(Ok(frame))) => body.next = Some(frame),
            Poll::Ready(None) | Poll::Pending => {}
        }
        Ok(body)
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        if let Some(frame) = self.ahead.pop_front().or_else(|| self.next.take()) {
            return Poll::Ready(Some(Ok(frame)));
        }
        if let Some(broken) = self.broken.take() {
            return Poll::Ready(Some(Err(broken)));
        }
        let polled = self.poll_incoming(cx);
        one_turn_late(polled, &mut self.broken, cx)
    }

    fn poll_incoming(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        let Some(lease) = &mut self.connection else { return Poll::Ready(None) };
        match lease.poll_frame(&mut self.incoming, cx) {
            Poll::Ready(Some(Ok(frame))) => {
                self.moved = true;
                match frame.trailers_ref() {
                    Some(trailers) => self.exchange.trailed_by(trailers),
                    None => self.exchange.passed_on(frame.data_ref().map_or(0, Bytes::len)),
                }
                // Behind trailers nothing comes, and who passes them on does not ask.
                if frame.is_trailers() || self.incoming.is_end_stream() {
                    self.end();
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => {
                self.break_off(Outcome::UpstreamAbort);
                Poll::Ready(Some(Err(BrokenOff::Server(error))))
            }
            Poll::Ready(None) if self.is_cut_short() => {
                self.break_off(Outcome::UpstreamAbort);
                Poll::Ready(Some(Err(BrokenOff::CutShort)))
            }
            Poll::Ready(None) => {
                self.end();
                Poll::Ready(None)
            }
            Poll::Pending => self.poll_alarm(cx),
        }
    }

    /// Whether the answer ends without its end: over HTTP/2 a reset without an error looks like one. (While the request is
    /// still being sent a server may reset it behind its whole answer, which looks the same: RFC 9113, 8.1.)
    fn is_cut_short(&self) -> bool {
        self.connection.as_ref().is_some_and(Lease::is_shared)
            && !self.incoming.is_end_stream()
            && self.upload.as_ref().is_none_or(|upload| upload.is_sent())
    }

    fn poll_alarm(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        let idle = self.idle;
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(tokio::time::sleep(idle)));
        if std::mem::take(&mut self.moved) {
            alarm.as_mut().reset(Instant::now() + idle);
        }
        std::task::ready!(alarm.as_mut().poll(cx));
        self.break_off(Outcome::UpstreamTimeout);
        Poll::Ready(Some(Err(BrokenOff::Idle)))
    }

    /// All of it was read. A server that answers before it has the whole request gets no more of it: its connection
    /// closes instead of lying in the pool half used.
    fn end(&mut self) {
        if let Some(lease) = self.connection.take() {
            self.exchange.complete();
            if self.upload.as_ref().is_none_or(|upload| upload.is_sent()) {
                self.exchange.gateway.give_back(lease);
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        let ahead =
            self.ahead.iter().chain(&self.next).filter_map(Frame::data_ref).map(|data| data.len() as u64).sum::<u64>();
        let rest = self.incoming.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower() + ahead);
        // A length would leave no room for trailers.
        let has_trailers = self.ahead.iter().any(Frame::is_trailers);
        if let Some(upper) = rest.upper().filter(|_| !has_trailers) {
            hint.set_upper(upper + ahead);
        }
        hint
    }

    fn break_off(&mut self, outcome: Outcome) {
        // A client that breaks off its request, or lets the answer wait for it, is not the server's fault.
        let of_client = match (&self.upload, outcome) {
            (Some(upload), _) if upload.is_broken() => Some(Outcome::ClientAbort),
            (Some(upload), Outcome::UpstreamTimeout) if upload.is_up_to_client() => Some(Outcome::ClientTimeout),
            _ => None,
        };
        match of_client {
            Some(outcome) => {
                self.exchange.set_outcome(outcome);
                self.exchange.says_nothing();
            }
            None => {
                let failing = if outcome == Outcome::UpstreamTimeout { Failing::Idle } else { Failing::BrokenAnswer };
                self.exchange.set_outcome(outcome);
                self.exchange.report(Report::Failed(failing));
            }
        }
        self.exchange.leave_server();
        self.connection = None;
    }
}

/// Puts a break off to the next turn, which comes at once; in between hyper sends what it holds.
fn one_turn_late<T, E>(
    polled: Poll<Option<Result<T, E>>>,
    broken: &mut Option<E>,
    cx: &Context<'_>,
) -> Poll<Option<Result<T, E>>> {
    match polled {
        Poll::Ready(Some(Err(error))) => {
            *broken = Some(error);
            cx.waker().wake_by_ref();
            Poll::Pending
        }
        polled => polled,
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        match self.get_mut() {
            Self::Own(bytes) if bytes.is_empty() => Poll::Ready(None),
            Self::Own(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Self::Streamed(streamed) => streamed.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Own(bytes) => bytes.is_empty(),
            Self::Streamed(streamed) => {
                streamed.ahead.is_empty() && streamed.next.is_none() && streamed.incoming.is_end_stream()
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Own(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Streamed(streamed) => streamed.size_hint(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_break_is_reported_at_the_next_turn_and_the_turn_comes_by_itself() {
        let (mut broken, mut turns) = (None, 0);
        let error = std::future::poll_fn(|cx| {
            turns += 1;
            match broken.take() {
                Some(error) => Poll::Ready(Some(Err(error))),
                None => one_turn_late(Poll::Ready(Some(Err::<(), _>("broken"))), &mut broken, cx),
            }
        });
        assert_eq!(error.await, Some(Err("broken")));
        assert_eq!(turns, 2);
    }
}
