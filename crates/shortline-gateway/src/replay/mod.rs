//! Open-loop replay: sends the requests of a trace, or Poisson arrivals of a fleet file, to a URL, and measures.
//!
//! **Open loop**: a request is sent when its time has come, whatever happened to the ones before; a slow target meets
//! the same traffic as a fast one. Response times count from the *intended* time of sending, so that a replay that
//! falls behind does not flatter the target (no coordinated omission). Requests are sent by a thread of their own
//! that never waits for an answer. When [`Options::max_outstanding`] requests are under way, further ones are *not
//! sent* and counted ([`Report::not_sent`], [`Report::outstanding_cap_hit`]): from then on the traffic is lighter than
//! asked for, and the means describe that lighter traffic.
//!
//! A request is a `POST` of `{"model": NAME}` with the headers `x-job-type` and, when its size is known,
//! `x-service-s`. How times of trace, fleet file and wire relate is in `schedule.rs`. All times of the
//! [`Report`] are real seconds as measured on the wire; divide by [`Report::time_scale`] for the file's seconds.

mod client;
mod estimate;
mod offered;
mod record;
mod report;
mod schedule;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use shortline_core::Fleet;
use tokio_util::sync::CancellationToken;

use crate::trace::Trace;
use client::{Client, Run};
use record::Record;
use schedule::Schedule;
use shortline_core::sizes::SizeLawError;

pub use client::Target;
pub use estimate::{Estimate, MOST_BATCHES};
pub use offered::{Bound, Offered};
pub use report::{JobTypeReport, Lag, Report, ServerTypeReport};

/// Requests under way at most, unless told otherwise.
pub const MAX_OUTSTANDING: usize = 10_000;

/// How long an answer may take, unless told otherwise.
pub const TIMEOUT: Duration = Duration::from_secs(600);

/// Computes the offered load of traffic on the fleet (`1/s*` where the fleet is not uniform).
pub type LoadOf = Box<dyn Fn(&Offered) -> f64 + Send + Sync>;

/// Computes the bound for the traffic that was answered, in the fleet file's seconds.
pub type BoundOf = Box<dyn Fn(&Offered) -> Option<Bound> + Send + Sync>;

/// Called about ten times a second.
pub type OnProgress = Box<dyn Fn(Progress) + Send + Sync>;

/// Where the requests come from.
#[derive(Clone, Debug)]
pub enum Source {
    /// A trace, read with the slice of requests that is wanted.
    Trace(Arc<Trace>),
    /// Poisson arrivals at the fleet file's rates, sizes drawn from `[service]`.
    Poisson {
        /// Only arrivals `A..B`, counted from 0, the times shifted to start at the first. `None`: no end but
        /// [`Options::duration`].
        requests: Option<Range<u64>>,
    },
}

/// What to replay, where, and how.
pub struct Options {
    /// Where requests go.
    pub target: Target,
    /// Where they come from.
    pub source: Source,
    /// The fleet behind the target: gives Poisson rates, loads, `time_scale`, the bound and the server types.
    pub fleet: Option<Arc<Fleet>>,
    /// Divides all times, arrivals and sizes.
    pub speedup: f64,
    /// Compresses arrival times to this mean offered load. Needs a fleet.
    pub load: Option<f64>,
    /// Stops sending after this real time.
    pub duration: Option<Duration>,
    /// Requests under way at most.
    pub max_outstanding: usize,
    /// From sending to the end of the answer; longer is an aborted request.
    pub timeout: Duration,
    /// Seed of Poisson arrivals and their sizes.
    pub seed: u64,
    /// The load of traffic on this fleet; `None`: work over capacity, which is right for uniform fleets.
    pub load_of: Option<LoadOf>,
    /// The bound beside the measured mean; `None`: the fluid bound.
    pub bound_of: Option<BoundOf>,
    /// Called while the replay runs.
    pub progress: Option<OnProgress>,
    /// Cancelled from outside, it stops sending; what is under way is still waited for.
    pub stop: CancellationToken,
}

impl Options {
    /// The defaults: no speed-up, the source's own load, up to its end.
    #[must_use]
    pub fn new(target: Target, source: Source, fleet: Option<Arc<Fleet>>) -> Self {
        Self {
            target,
            source,
            fleet,
            speedup: 1.0,
            load: None,
            duration: None,
            max_outstanding: MAX_OUTSTANDING,
            timeout: TIMEOUT,
            seed: 1,
            load_of: None,
            bound_of: None,
            progress: None,
            stop: CancellationToken::new(),
        }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options").field("target", &self.target).finish_non_exhaustive()
    }
}

/// How far a replay is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Progress {
    /// Requests sent.
    pub sent: u64,
    /// Requests answered or aborted.
    pub done: u64,
    /// Requests that will be sent, if known.
    pub total: Option<u64>,
    /// Since the start.
    pub elapsed: Duration,
}

/// Why a replay cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The target is no `http://` URL.
    #[error("the target `{target}` is not usable: {why}; give http://HOST[:PORT][/PATH]")]
    Target {
        /// As given.
        target: String,
        /// What is wrong with it.
        why: String,
    },
    /// A factor out of range.
    #[error("{what} is {value}, must be positive and finite")]
    NotPositive {
        /// Which factor.
        what: &'static str,
        /// Its value.
        value: f64,
    },
    /// Something that only a fleet file can say.
    #[error("{0} needs a fleet file")]
    NoFleet(&'static str),
    /// A job type of the fleet without arrival rate.
    #[error("job type `{0}` has no `rate` in the fleet file; Poisson arrivals need the rates of all job types")]
    NoRate(String),
    /// All rates are 0.
    #[error("all arrival rates of the fleet file are 0; there is nothing to send")]
    NoTraffic,
    /// Poisson arrivals go on for ever.
    #[error("Poisson arrivals have no end; give a duration or a range of requests")]
    NoEnd,
    /// No request is in the range.
    #[error("requests {}..{} are none; give A..B with A below B", .0.start, .0.end)]
    EmptySlice(Range<u64>),
    /// The traffic has no load that could be scaled.
    #[error(
        "the traffic's own load on the fleet is {0}, so it cannot be scaled to another; it needs requests at more than one time, of job types of the fleet"
    )]
    NoLoad(f64),
    /// Sizes cannot be drawn.
    #[error(transparent)]
    Sizes(#[from] SizeLawError),
    /// A name that no header can carry.
    #[error("job type {0:?} cannot be sent in the header `x-job-type`: it has control characters")]
    Unsendable(String),
}

/// Runs a replay to its end on the current tokio runtime.
///
/// # Errors
/// [`ReplayError`] when it cannot start; once it runs, every failure is an outcome in the report.
///
/// # Panics
/// Outside a tokio runtime.
pub async fn replay(options: Options) -> Result<Report, ReplayError> {
    if matches!(options.source, Source::Poisson { requests: None }) && options.duration.is_none() {
        return Err(ReplayError::NoEnd);
    }
    let mut schedule = Schedule::new(&options)?;
    let requests = std::mem::replace(&mut schedule.requests, Box::new(std::iter::empty()));
    let record = Record::new(schedule.job_types.len(), options.fleet.clone(), schedule.in_fleet.clone());
    let client = Client::new(&options.target, &schedule.job_types)?;
    let run = Arc::new(Run::new(client, record, &options));

    let sender = Arc::clone(&run);
    let runtime = tokio::runtime::Handle::current();
    let mut sending = tokio::task::spawn_blocking(move || sender.send_all(requests, &runtime));
    let mut done = std::pin::pin!(async {
        let sent = (&mut sending).await;
        run.all_answered().await;
        sent
    });
    let mut tick = tokio::time::interval(Duration::from_millis(100));
    let sent = loop {
        tokio::select! {
            sent = &mut done => break sent,
            _ = tick.tick() => {
                if let Some(progress) = &options.progress {
                    progress(run.progress(schedule.total));
                }
            }
        }
    };
    if let Err(panic) = sent {
        std::panic::resume_unwind(panic.into_panic());
    }
    if let Some(progress) = &options.progress {
        progress(run.progress(schedule.total));
    }
    if run.ended_behind.load(Ordering::Relaxed) {
        let behind = "sending fell behind its schedule and ended with its time: the traffic was lighter than asked for";
        schedule.warnings.push(behind.to_owned());
    }
    let not_sent = run.not_sent.load(Ordering::Relaxed);
    Ok(report::report(&options, &schedule, &run.take_record(), not_sent))
}
