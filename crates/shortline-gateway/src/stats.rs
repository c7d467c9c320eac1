//! What was counted since the start: per job type and outcome, response and waiting times, connections.
//!
//! Plain atomics, written without locks; `/metrics` and `/status` read the same ones. A job type's counts take memory
//! from its first request on, and outlive an exchange of the fleet. Requests without a known job type share one entry,
//! whatever they named.

use std::error::Error;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::histogram::Histogram;
use crate::outcome::Outcome;
use crate::rates::Meter;
use crate::retry::RetryCounts;
use crate::supply::SupplyBoard;
use crate::upstream::h2_cause;

/// Counts of all requests together, and of those without a known job type.
#[derive(Debug)]
pub(crate) struct Stats {
    unknown: JobTypeCounts,
    /// Requests that were cut off.
    cut_off: AtomicU64,
    /// Arrival to the end of the answer, of requests whose server's answer was passed on whole.
    pub(crate) response_s: Histogram,
    /// Arrival to a place at a server.
    pub(crate) waiting_s: Histogram,
    /// Requests that were sent to another server.
    pub(crate) retries: RetryCounts,
    /// Client connections that are open.
    pub(crate) connections: AtomicU64,
    /// Connections of clients that had as many as they may.
    pub(crate) turned_away: AtomicU64,
    /// Connections of clients that flooded it with what HTTP/2 has besides requests (resets, settings, pings).
    pub(crate) flooded: AtomicU64,
    /// Connections of clients that broke other rules of HTTP/2.
    pub(crate) broke_rules: AtomicU64,
    /// Requests that have arrived and not ended.
    pub(crate) running: AtomicU64,
}

/// A job type as the gateway knows it, by its name: the same object in each fleet that has a job type of this name.
#[derive(Debug)]
pub(crate) struct JobTypeRecord {
    name: Box<str>,
    counts: OnceLock<Box<JobTypeCounts>>,
    /// How fast its requests come.
    arrivals: Meter,
    /// Until when no server is blamed for not having its model, since all have said so; and whether there is such a time.
    nowhere_until: Mutex<Option<Instant>>,
    nowhere: AtomicBool,
    /// Whether a server is up for it.
    supply: SupplyBoard,
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
    pub(crate) fn new() -> Self {
        Self {
            unknown: JobTypeCounts::default(),
            cut_off: AtomicU64::new(0),
            response_s: Histogram::from_milliseconds(),
            waiting_s: Histogram::from_milliseconds(),
            retries: RetryCounts::default(),
            connections: AtomicU64::new(0),
            turned_away: AtomicU64::new(0),
            flooded: AtomicU64::new(0),
            broke_rules: AtomicU64::new(0),
            running: AtomicU64::new(0),
        }
    }

    /// A client's connection has failed: was it closed for what the client did in HTTP/2?
    pub(crate) fn hung_up(&self, error: &(dyn Error + 'static)) {
        let Some(error) = h2_cause(error).filter(|error| error.is_go_away() && error.is_library()) else { return };
        match error.reason() {
            Some(h2::Reason::ENHANCE_YOUR_CALM) => self.flooded.fetch_add(1, Relaxed),
            _ => self.broke_rules.fetch_add(1, Relaxed),
        };
    }

    /// Counts of requests without a known job type.
    pub(crate) fn unknown(&self) -> &JobTypeCounts {
        &self.unknown
    }

    /// A request has ended.
    pub(crate) fn ended(&self, job_type: Option<&JobTypeRecord>, outcome: Outcome, response: Duration) {
        let counts = job_type.map_or(&self.unknown, JobTypeRecord::entry);
        counts.outcomes[outcome as usize].fetch_add(1, Relaxed);
        if outcome.is_answered() {
            counts.response_ns.fetch_add(u64::try_from(response.as_nanos()).unwrap_or(u64::MAX), Relaxed);
            self.response_s.observe(response);
        } else if outcome == Outcome::CutOff {
            self.cut_off.fetch_add(1, Relaxed);
        }
    }

    /// How many requests were cut off, of all job types.
    pub(crate) fn cut_off(&self) -> u64 {
        self.cut_off.load(Relaxed)
    }
}

impl JobTypeRecord {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            counts: OnceLock::new(),
            arrivals: Meter::default(),
            nowhere_until: Mutex::new(None),
            nowhere: AtomicBool::new(false),
            supply: SupplyBoard::default(),
        }
    }

    /// Whether a server is up for it; true as long as some of it are in line.
    pub(crate) fn supply(&self) -> &SupplyBoard {
        &self.supply
    }

    /// All its servers say that they do not have its model, and none is to be blamed for that until then; `None`: one has
    /// it.
    pub(crate) fn set_nowhere(&self, until: Option<Instant>) {
        if until.is_some() || self.nowhere.load(Relaxed) {
            *self.nowhere_until.lock().unwrap_or_else(PoisonError::into_inner) = until;
            self.nowhere.store(until.is_some(), Relaxed);
        }
    }

    /// Whether no server is to be blamed for not having its model.
    pub(crate) fn is_nowhere(&self, now: Instant) -> bool {
        self.nowhere_until.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|until| now < until)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Its counts, if a request of it ever came.
    pub(crate) fn counts(&self) -> Option<&JobTypeCounts> {
        self.counts.get().map(Box::as_ref)
    }

    /// How many of its requests have ended like this.
    pub(crate) fn ended(&self, outcome: Outcome) -> u64 {
        self.counts().map_or(0, |counts| counts.ended(outcome))
    }

    /// A request of this job type has come.
    pub(crate) fn arrived(&self) {
        self.entry().arrivals.fetch_add(1, Relaxed);
    }

    /// Requests per second that come, measured.
    pub(crate) fn arrival_rate(&self) -> f64 {
        self.arrivals.rate()
    }

    /// The same; `None` as long as nothing was measured.
    pub(crate) fn measured_rate(&self) -> Option<f64> {
        self.arrivals.is_measured().then(|| self.arrivals.rate())
    }

    /// Measures over the `dt_s` seconds since the last call.
    pub(crate) fn measure(&self, dt_s: f64) {
        self.arrivals.tick(dt_s, self.counts().map_or(0, |counts| counts.arrivals.load(Relaxed)));
    }

    /// The rate at which the job type's servers complete requests, computed by `now` once a tick.
    pub(crate) fn drain_rate(&self, tick: u32, now: impl FnOnce() -> f64) -> f64 {
        let drain = &self.entry().drain;
        let known = drain.load(Relaxed);
        if known >> 32 == u64::from(tick) + 1 {
            return f64::from(f32::from_bits(known as u32));
        }
        let rate = now();
        drain.store((u64::from(tick) + 1) << 32 | u64::from((rate as f32).to_bits()), Relaxed);
        rate
    }

    fn entry(&self) -> &JobTypeCounts {
        self.counts.get_or_init(Box::default)
    }
}

impl JobTypeCounts {
    pub(crate) fn ended(&self, outcome: Outcome) -> u64 {
        self.outcomes[outcome as usize].load(Relaxed)
    }

    /// Mean time from arrival to the end of the answer; `None` before the first.
    pub(crate) fn mean_response_s(&self) -> Option<f64> {
        let answered: u64 = Outcome::ALL.iter().filter(|o| o.is_answered()).map(|&o| self.ended(o)).sum();
        (answered > 0).then(|| self.response_ns.load(Relaxed) as f64 * 1e-9 / answered as f64)
    }
}
