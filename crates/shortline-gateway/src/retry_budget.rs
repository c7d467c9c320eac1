//! How many requests may be sent again: so many per request that comes, and so many per second beyond that.
//!
//! When servers fail, every retry is one more request for those that are left. Without a limit, retries of retries can
//! keep a fleet overloaded that would recover by itself. A bucket of tokens: each request puts in `budget` (0.2: in the
//! long run at most one retry for five requests), each second `floor_per_s` (so that a quiet gateway retries, too), each
//! retry takes one. It holds what [`FLOOR_S`] seconds and [`REQUESTS`] requests put in, which bounds a burst; at the
//! start, what the seconds do.
//!
//! A request costs one relaxed addition; the sums are done when a token is asked for.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use shortline_core::fleet::settings::Retry;
use tokio::time::Instant;

const FLOOR_S: f64 = 10.0;
const REQUESTS: f64 = 5000.0;

/// The budget of all retries.
#[derive(Debug)]
pub(crate) struct RetryBudget {
    requests: AtomicU64,
    bucket: Mutex<Bucket>,
}

#[derive(Debug)]
struct Bucket {
    tokens: f64,
    /// Requests and time up to which tokens were put in.
    requests: u64,
    at: Instant,
}

impl RetryBudget {
    /// A bucket at its start.
    pub(crate) fn new(settings: &Retry) -> Self {
        let bucket = Bucket { tokens: settings.floor_per_s * FLOOR_S, requests: 0, at: Instant::now() };
        Self { requests: AtomicU64::new(0), bucket: Mutex::new(bucket) }
    }

    /// A request has come.
    pub(crate) fn deposit(&self) {
        self.requests.fetch_add(1, Relaxed);
    }

    /// Puts back a token that was not used.
    pub(crate) fn refund(&self) {
        self.bucket.lock().unwrap_or_else(PoisonError::into_inner).tokens += 1.0;
    }

    /// Takes a token, if there is one.
    pub(crate) fn withdraw(&self, settings: &Retry) -> bool {
        let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        let (now, requests) = (Instant::now(), self.requests.load(Relaxed));
        let dt_s = now.saturating_duration_since(bucket.at).as_secs_f64();
        let new = requests.saturating_sub(bucket.requests) as f64 * settings.budget + dt_s * settings.floor_per_s;
        let most = settings.floor_per_s * FLOOR_S + settings.budget * REQUESTS;
        *bucket = Bucket { tokens: (bucket.tokens + new).min(most), requests, at: now };
        // Ten times a tenth is not quite one.
        let has_one = bucket.tokens >= 1.0 - 1e-9;
        if has_one {
            bucket.tokens -= 1.0;
        }
        has_one
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn withdrawn(budget: &RetryBudget, settings: &Retry, tries: u32) -> u32 {
        (0..tries).map(|_| u32::from(budget.withdraw(settings))).sum()
    }

    #[tokio::test(start_paused = true)]
    async fn retries_are_a_share_of_the_requests_and_a_floor_per_second() {
        let settings = Retry { budget: 0.25, floor_per_s: 2.0, ..Retry::default() };
        let budget = RetryBudget::new(&settings);
        assert_eq!(withdrawn(&budget, &settings, 100), 20, "ten seconds of the floor to begin with");
        (0..40).for_each(|_| budget.deposit());
        assert_eq!(withdrawn(&budget, &settings, 100), 10);
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(withdrawn(&budget, &settings, 100), 6);
        (0..1_000_000).for_each(|_| budget.deposit());
        assert_eq!(withdrawn(&budget, &settings, 10_000), 20 + 1250, "what is not used does not add up for ever");
    }

    #[test]
    fn a_budget_of_nothing_gives_nothing() {
        let settings = Retry { budget: 0.0, floor_per_s: 0.0, ..Retry::default() };
        let budget = RetryBudget::new(&settings);
        budget.deposit();
        assert!(!budget.withdraw(&settings));
    }
}
