//! What was counted since the start: per job type and outcome, response and waiting times, connections.
//!
//! Plain atomics, written without locks; `/metrics` and `/status` read the same ones. A job type costs memory from
//! its first request on. Requests without a known job type share one entry, whatever they named.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use shortline_core::JobTypeId;

use crate::histogram::Histogram;
use crate::outcome::Outcome;

/// All counts.
#[derive(Debug)]
pub(crate) struct Stats {
    job_types: Vec<OnceLock<Box<JobTypeCounts>>>,
    unknown: JobTypeCounts,
    /// Arrival to the end of the answer, of requests whose server's answer was passed on whole.
    pub(crate) response_s: Histogram,
    /// Arrival to a place at a server.
    pub(crate) waiting_s: Histogram,
    /// Client connections that are open.
    pub(crate) connections: AtomicU64,
    /// Connections of clients that had as many as they may.
    pub(crate) turned_away: AtomicU64,
    /// Requests that have arrived and not ended.
    pub(crate) running: AtomicU64,
}

/// Counts of one job type.
#[derive(Default, Debug)]
pub(crate) struct JobTypeCounts {
    arrivals: AtomicU64,
    outcomes: [AtomicU64; Outcome::ALL.len()],
    response_ns: AtomicU64,
    /// The drain rate when it was last asked for: the tick plus one (0: never) above, the bits of an `f32` below.
    drain: AtomicU64,
}

impl Stats {
    pub(crate) fn new(job_types: usize) -> Self {
        Self {
            job_types: std::iter::repeat_with(OnceLock::new).take(job_types).collect(),
            unknown: JobTypeCounts::default(),
            response_s: Histogram::from_milliseconds(),
            waiting_s: Histogram::from_milliseconds(),
            connections: AtomicU64::new(0),
            turned_away: AtomicU64::new(0),
            running: AtomicU64::new(0),
        }
    }

    /// Counts of a job type, if a request of it ever came; `None`: of those without a known one.
    pub(crate) fn of(&self, job_type: Option<JobTypeId>) -> Option<&JobTypeCounts> {
        match job_type {
            Some(l) => self.job_types[l.index()].get().map(Box::as_ref),
            None => Some(&self.unknown),
        }
    }

    /// A request of this job type has come.
    pub(crate) fn arrived(&self, job_type: JobTypeId) {
        self.entry(Some(job_type)).arrivals.fetch_add(1, Relaxed);
    }

    /// A request has ended.
    pub(crate) fn ended(&self, job_type: Option<JobTypeId>, outcome: Outcome, response: Duration) {
        let counts = self.entry(job_type);
        counts.outcomes[outcome as usize].fetch_add(1, Relaxed);
        if outcome.is_answered() {
            counts.response_ns.fetch_add(u64::try_from(response.as_nanos()).unwrap_or(u64::MAX), Relaxed);
            self.response_s.observe(response);
        }
    }

    /// How many requests have ended like this.
    pub(crate) fn total(&self, outcome: Outcome) -> u64 {
        let known = self.job_types.iter().filter_map(OnceLock::get).map(|counts| counts.ended(outcome));
        known.sum::<u64>() + self.unknown.ended(outcome)
    }

    /// The rate at which the job type's servers complete requests, computed by `now` once a tick.
    pub(crate) fn drain_rate(&self, job_type: JobTypeId, tick: u32, now: impl FnOnce() -> f64) -> f64 {
        let drain = &self.entry(Some(job_type)).drain;
        let known = drain.load(Relaxed);
        if known >> 32 == u64::from(tick) + 1 {
            return f64::from(f32::from_bits(known as u32));
        }
        let rate = now();
        drain.store((u64::from(tick) + 1) << 32 | u64::from((rate as f32).to_bits()), Relaxed);
        rate
    }

    fn entry(&self, job_type: Option<JobTypeId>) -> &JobTypeCounts {
        match job_type {
            Some(l) => self.job_types[l.index()].get_or_init(Box::default),
            None => &self.unknown,
        }
    }
}

impl JobTypeCounts {
    pub(crate) fn arrivals(&self) -> u64 {
        self.arrivals.load(Relaxed)
    }

    pub(crate) fn ended(&self, outcome: Outcome) -> u64 {
        self.outcomes[outcome as usize].load(Relaxed)
    }

    /// Mean time from arrival to the end of the answer; `None` before the first.
    pub(crate) fn mean_response_s(&self) -> Option<f64> {
        let answered: u64 = Outcome::ALL.iter().filter(|o| o.is_answered()).map(|&o| self.ended(o)).sum();
        (answered > 0).then(|| self.response_ns.load(Relaxed) as f64 * 1e-9 / answered as f64)
    }
}
