//! Deadlines that move often and are hardly ever reached.
//!
//! Every request sets a few and takes them away again a moment later; an entry in the runtime's clock for each costs more
//! than finding the request's server. An [`Alarm`] keeps its entry where it is while the deadline moves later, and moves
//! it on when it rings too early: about one move per length of the deadline instead of two changes per request.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::rt;
use tokio::time::{Instant, Sleep};

/// One deadline after the other.
#[derive(Default, Debug)]
pub(crate) struct Alarm {
    /// Rings at a deadline, or earlier.
    entry: Option<Pin<Box<Sleep>>>,
}

impl Alarm {
    /// Ready once `deadline` is over.
    pub(crate) fn poll(&mut self, deadline: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let entry = self.entry.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        if entry.deadline() > deadline {
            entry.as_mut().reset(deadline);
        }
        while entry.as_mut().poll(cx).is_ready() {
            if entry.deadline() >= deadline {
                return Poll::Ready(());
            }
            entry.as_mut().reset(deadline);
        }
        Poll::Pending
    }
}

/// hyper's timer for one connection of HTTP/1, on which at most one deadline is waited for at a time.
#[derive(Clone, Default, Debug)]
pub(crate) struct ConnectionTimer(Arc<Mutex<Alarm>>);

/// A deadline of hyper's.
struct Deadline {
    alarm: Arc<Mutex<Alarm>>,
    at: Instant,
}

impl rt::Timer for ConnectionTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn rt::Sleep>> {
        self.sleep_until((Instant::now() + duration).into())
    }

    fn sleep_until(&self, deadline: std::time::Instant) -> Pin<Box<dyn rt::Sleep>> {
        Box::pin(Deadline { alarm: Arc::clone(&self.0), at: deadline.into() })
    }

    fn now(&self) -> std::time::Instant {
        Instant::now().into()
    }
}

impl Future for Deadline {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.alarm.lock().unwrap_or_else(PoisonError::into_inner).poll(self.at, cx)
    }
}

impl rt::Sleep for Deadline {}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_rings_at_the_deadline_of_the_moment_however_that_has_moved() {
        let mut alarm = Alarm::default();
        let begin = Instant::now();
        let after = |s| begin + Duration::from_secs(s);
        let mut rings = async |at| {
            poll_fn(|cx| alarm.poll(at, cx)).await;
            assert_eq!(Instant::now(), at);
        };
        rings(after(3)).await;
        rings(after(5)).await;
        let mut pending = async |at| {
            poll_fn(|cx| {
                assert!(alarm.poll(at, cx).is_pending());
                Poll::Ready(())
            })
            .await;
        };
        pending(after(60)).await;
        pending(after(20)).await;
        pending(after(30)).await;
        poll_fn(|cx| alarm.poll(after(40), cx)).await;
        assert_eq!(Instant::now(), after(40));
        poll_fn(|cx| alarm.poll(after(39), cx)).await;
        assert_eq!(Instant::now(), after(40), "over is over");
    }
}
