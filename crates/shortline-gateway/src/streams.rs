//! The requests on one connection of HTTP/2, and the connection's own time.
//!
//! Each request is a task ([`Streams`] starts it). What HTTP/1.1 has by reading and writing one connection has to be
//! watched here:
//! - **A client that does not read** keeps the window of its stream shut, and the library does not ask the body for more.
//!   After `idle_s` in which no piece was taken the task ends, and with it the stream (`RST_STREAM`), the body and
//!   the job. While the body itself has nothing to give, its server is the one who is late, and is watched elsewhere.
//! - **A client that asks for nothing**: the first request has to be whole `header_s` after the connection's first bytes,
//!   the next ones `idle_s` after the end of the last that ran. Else the connection is told to end (`GOAWAY`), and ends
//!   [`FAREWELL`] later whether the client understands or not, unless a request has come meanwhile.
//!
//! A header block that has begun lets nothing else through on its connection, so it needs no clock of its own.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{
    AtomicUsize,
    Ordering::{AcqRel, Acquire},
};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use atomic_waker::AtomicWaker;
use tokio::time::Instant;

use crate::alarm::Alarm;

/// How long a connection that was told to end may last without requests.
const FAREWELL: Duration = Duration::from_secs(2);

thread_local! {
    /// What the body of the stream that has its turn has said.
    static TURN: Cell<Turn> = const { Cell::new(Turn::Silent) };
}

/// What the body of an answer did in a turn of its stream, last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Turn {
    /// Nothing: nobody asked it.
    Silent,
    /// It handed something over.
    Gave,
    /// It has nothing yet.
    Waits,
}

/// The answer, or a piece of it, is handed over: it is the client's turn.
pub(crate) fn gave() {
    TURN.set(Turn::Gave);
}

/// The next piece is not there yet: it is the server's turn.
pub(crate) fn waits() {
    TURN.set(Turn::Waits);
}

/// The requests that run on a connection; starts their tasks.
#[derive(Clone, Debug)]
pub(crate) struct Streams(Arc<State>);

#[derive(Debug)]
struct State {
    /// Longest pause in reading an answer, and between requests.
    idle: Duration,
    running: AtomicUsize,
    /// When the last one ended.
    ended: Mutex<Option<Instant>>,
    /// Who watches the connection, while some run.
    watcher: AtomicWaker,
}

impl Streams {
    pub(crate) fn new(idle: Duration) -> Self {
        let (running, ended, watcher) = Default::default();
        Self(Arc::new(State { idle, running, ended, watcher }))
    }

    /// Since when no request has run; `since` if there never was one. `None`: some run; the task is woken when the last
    /// has ended.
    fn quiet_since(&self, since: Instant, cx: &Context<'_>) -> Option<(Instant, bool)> {
        self.0.watcher.register(cx.waker());
        if self.0.running.load(Acquire) > 0 {
            return None;
        }
        let ended = *self.0.ended.lock().unwrap_or_else(PoisonError::into_inner);
        Some((ended.unwrap_or(since), ended.is_some()))
    }
}

/// A request that runs.
struct Running(Arc<State>);

impl Running {
    fn begin(state: &Arc<State>) -> Self {
        state.running.fetch_add(1, AcqRel);
        Self(Arc::clone(state))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        *self.0.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        if self.0.running.fetch_sub(1, AcqRel) == 1 {
            self.0.watcher.wake();
        }
    }
}

impl<F> hyper::rt::Executor<F> for Streams
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn execute(&self, stream: F) {
        let running = Running::begin(&self.0);
        drop(tokio::spawn(async move {
            unless_unread(stream, running.0.idle).await;
            drop(running);
        }));
    }
}

/// Runs a stream to its end, or until its client has taken nothing of the answer for `idle`.
async fn unless_unread<F: Future>(stream: F, idle: Duration) {
    let mut stream = pin!(stream);
    let (mut began, mut deadline, mut alarm) = (false, None, Alarm::default());
    poll_fn(|cx| {
        TURN.set(Turn::Silent);
        if stream.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        match TURN.get() {
            Turn::Silent if !began => return Poll::Pending,
            Turn::Silent => _ = deadline.get_or_insert_with(|| Instant::now() + idle),
            Turn::Gave => (began, deadline) = (true, Some(Instant::now() + idle)),
            Turn::Waits => (began, deadline) = (true, None),
        }
        deadline.map_or(Poll::Pending, |deadline| alarm.poll(deadline, cx))
    })
    .await;
}

/// Watches over a connection on which nothing is asked for.
#[derive(Debug)]
pub(crate) struct Silence {
    streams: Streams,
    header: Duration,
    alarm: Alarm,
    /// When the connection was told to end.
    told: Option<Instant>,
}

/// What silence leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Over {
    /// The connection is to be told to end.
    Tell,
    /// It ends.
    End,
}

impl Silence {
    pub(crate) fn new(streams: Streams, header: Duration) -> Self {
        Self { streams, header, alarm: Alarm::default(), told: None }
    }

    /// Ready when silence has lasted too long on a connection that began `since`. To be asked whenever the connection has
    /// had a turn.
    pub(crate) fn poll(&mut self, since: Instant, cx: &mut Context<'_>) -> Poll<Over> {
        let Some((quiet, had_requests)) = self.streams.quiet_since(since, cx) else { return Poll::Pending };
        let deadline = match self.told {
            Some(told) => quiet.max(told) + FAREWELL,
            None if had_requests => quiet + self.streams.0.idle,
            None => quiet + self.header,
        };
        std::task::ready!(self.alarm.poll(deadline, cx));
        Poll::Ready(match self.told.replace(Instant::now()) {
            None => Over::Tell,
            Some(_) => Over::End,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Duration = Duration::from_secs(3);

    #[tokio::test(start_paused = true)]
    async fn a_stream_ends_when_nothing_was_taken_for_idle_s_and_not_while_its_server_is_silent() {
        let began = Instant::now();
        let mut ticks = tokio::time::interval(Duration::from_secs(1));
        let stream = poll_fn(|cx| {
            while ticks.poll_tick(cx).is_ready() {}
            match began.elapsed().as_secs() {
                0 | 6 => gave(),
                1..6 => waits(),
                _ => {}
            }
            Poll::<()>::Pending
        });
        unless_unread(stream, IDLE).await;
        assert_eq!(began.elapsed().as_secs(), 9);
    }

    #[tokio::test(start_paused = true)]
    async fn silence_is_counted_from_the_first_byte_and_then_from_the_end_of_the_last_request() {
        let began = Instant::now();
        let streams = Streams::new(IDLE);
        let mut silence = Silence::new(streams.clone(), Duration::from_secs(1));
        assert_eq!(poll_fn(|cx| silence.poll(began, cx)).await, Over::Tell);
        assert_eq!(began.elapsed().as_secs(), 1);
        let mut silence = Silence::new(streams.clone(), Duration::from_secs(1));
        let running = Running::begin(&streams.0);
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(60)).await;
            drop(running);
        });
        assert_eq!(poll_fn(|cx| silence.poll(began, cx)).await, Over::Tell);
        assert_eq!(began.elapsed().as_secs(), 64);
        assert_eq!(poll_fn(|cx| silence.poll(began, cx)).await, Over::End);
        assert_eq!(began.elapsed().as_secs(), 66);
    }
}
