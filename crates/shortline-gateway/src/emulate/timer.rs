//! A clock that wakes on time: tokio's timer rounds up to whole milliseconds, which at a time scale of 0.01 is a
//! tenth of a second of emulated service.
//!
//! One thread keeps a heap of deadlines. It sleeps until [`SPIN`] before the next one - a sleeping thread wakes 50 to
//! 200 µs late - and spins over what is left. Actions run on that thread, so they must be short: advance a queue,
//! wake a task.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

/// Woken this long before a deadline, the thread spins. Measured here: a sleep of 1 ms ends 96 µs late in the median
/// (50 µs of it the kernel's timer slack), 184 µs at the 99th percentile; so most wakes come just before the deadline
/// and spinning costs about 10 µs of one core per deadline.
const SPIN: Duration = Duration::from_micros(100);

/// The timer thread's handle; the thread ends with [`close`](Self::close).
#[derive(Debug)]
pub(super) struct Timer {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    deadlines: BinaryHeap<Deadline>,
    entered: u64,
    closed: bool,
}

struct Deadline {
    due: Instant,
    /// Deadlines of one instant run in the order they were entered.
    number: u64,
    action: Box<dyn FnOnce() + Send>,
}

impl Timer {
    /// Starts the thread.
    pub(super) fn start() -> io::Result<Self> {
        let shared = Arc::new(Shared { state: Mutex::default(), changed: Condvar::new() });
        let theirs = Arc::clone(&shared);
        std::thread::Builder::new().name("emulated-time".into()).spawn(move || theirs.run())?;
        Ok(Self { shared })
    }

    /// Runs `action` on the timer thread at `due`, or as soon as possible after it. After
    /// [`close`](Self::close) the action is dropped.
    pub(super) fn at(&self, due: Instant, action: impl FnOnce() + Send + 'static) {
        let mut state = self.shared.lock();
        if state.closed {
            return;
        }
        let is_next = state.deadlines.peek().is_none_or(|next| due < next.due);
        let number = state.entered;
        state.entered += 1;
        state.deadlines.push(Deadline { due, number, action: Box::new(action) });
        drop(state);
        if is_next {
            self.shared.changed.notify_one();
        }
    }

    /// Waits until `due`. Returns at once when the timer is closed.
    pub(super) async fn sleep_until(&self, due: Instant) {
        let (wake, woken) = oneshot::channel::<()>();
        self.at(due, move || drop(wake));
        let _ended_either_way = woken.await;
    }

    /// Ends the thread and drops all actions.
    pub(super) fn close(&self) {
        let mut state = self.shared.lock();
        state.closed = true;
        let dropped = std::mem::take(&mut state.deadlines);
        drop(state);
        drop(dropped);
        self.shared.changed.notify_one();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut state = self.lock();
        while !state.closed {
            let now = Instant::now();
            let Some(next) = state.deadlines.peek().map(|deadline| deadline.due) else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = next.saturating_duration_since(now);
            if left > SPIN {
                let waited = self.changed.wait_timeout(state, left - SPIN);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            } else if left > Duration::ZERO {
                drop(state);
                while Instant::now() < next {
                    std::hint::spin_loop();
                }
                state = self.lock();
            } else if let Some(deadline) = state.deadlines.pop() {
                drop(state);
                (deadline.action)();
                state = self.lock();
            }
        }
    }
}

impl PartialEq for Deadline {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Deadline {}

impl PartialOrd for Deadline {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Deadline {
    /// The earliest is the greatest, for [`BinaryHeap`].
    fn cmp(&self, other: &Self) -> Ordering {
        (other.due, other.number).cmp(&(self.due, self.number))
    }
}

impl std::fmt::Debug for Deadline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Deadline").field("due", &self.due).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn actions_run_in_the_order_of_their_deadlines_and_never_early() {
        let timer = Timer::start().unwrap();
        let (sender, ran) = mpsc::channel();
        let start = Instant::now();
        for ms in [30, 10, 20, 10] {
            let sender = sender.clone();
            timer.at(start + Duration::from_millis(ms), move || sender.send((ms, Instant::now())).unwrap());
        }
        let order: Vec<_> = (0..4).map(|_| ran.recv().unwrap()).collect();
        assert_eq!(order.iter().map(|&(ms, _)| ms).collect::<Vec<_>>(), [10, 10, 20, 30]);
        for (ms, at) in order {
            assert!(at >= start + Duration::from_millis(ms), "ran before its deadline");
        }
        timer.close();
    }

    #[tokio::test]
    async fn a_closed_timer_lets_its_sleepers_go() {
        let timer = Arc::new(Timer::start().unwrap());
        let sleeper = Arc::clone(&timer);
        let asleep = tokio::spawn(async move { sleeper.sleep_until(Instant::now() + Duration::from_secs(600)).await });
        tokio::task::yield_now().await;
        timer.close();
        asleep.await.unwrap();
        timer.sleep_until(Instant::now() + Duration::from_secs(600)).await;
    }
}
