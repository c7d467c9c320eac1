//! Recorded jobs, and one path through them.
//!
//! A trace is simulated once, from its first job until the last one has left, from an empty fleet; nothing is dropped and
//! nothing repeated. Its figures are those of this one path. Their intervals are by *batch means*: the path is cut into up
//! to 32 parts with equally many arrivals (at least 8 each), which are treated like independent replications. They tell how far
//! the figures of another trace of the same kind would lie, if parts of this length forget each other. Where all jobs leave in one
//! part there is nothing to compare, and no interval.

use std::sync::Arc;

use shortline_core::Fleet;
use shortline_core::policy::Policy;
use shortline_core::{JobTypeId, ServerId};

use super::chain::CalendarChain;
use super::reach::Reach;
use crate::SimulationError;
use crate::chain::Chain;
use crate::model::Model;
use crate::record::Record;
use crate::simulation::Observer;

/// A recorded job.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TraceJob {
    /// When it arrived, in seconds.
    pub arrival_s: f64,
    /// Its size, seconds on a server of rate 1; NaN = unknown.
    size: f64,
    /// Its type.
    pub job_type: JobTypeId,
}

impl TraceJob {
    /// A job of this type that arrived then. Without a `size`, one is drawn by the fleet's `[service]`.
    #[must_use]
    pub fn new(arrival_s: f64, job_type: JobTypeId, size: Option<f64>) -> Self {
        Self { arrival_s, size: size.unwrap_or(f64::NAN), job_type }
    }

    /// Its size, if it is known.
    #[must_use]
    pub fn size(&self) -> Option<f64> {
        (!self.size.is_nan()).then_some(self.size)
    }
}

/// What became of a job of a trace.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Fate {
    /// The server that served it; `None` if it was blocked, gave up, or has not left.
    pub server: Option<ServerId>,
    /// When its service began, in seconds; not a number without a server.
    pub started_s: f64,
    /// When it left, in seconds; not a number without a server.
    pub completed_s: f64,
}

impl Default for Fate {
    fn default() -> Self {
        Self { server: None, started_s: f64::NAN, completed_s: f64::NAN }
    }
}

/// The fleet under the traffic of these jobs: each type's rate is its share of the `n - 1` gaps over their span (of jobs that
/// all come at once, per second), its size the mean of its jobs' sizes; a job without one has the mean size of the file, and
/// so has a type without jobs. Sizes of a fleet are positive: of jobs without any work it is a millionth of the file's.
///
/// # Errors
/// [`SimulationError::Trace`] if they are no trace for the fleet.
pub fn fleet_under(fleet: &Fleet, jobs: &[TraceJob]) -> Result<Fleet, SimulationError> {
    check(jobs, fleet.job_type_count())?;
    let Traffic { counts, mut sizes } = Traffic::of(fleet, jobs);
    let mut works = vec![false; sizes.len()];
    jobs.iter().for_each(|job| works[job.job_type.index()] |= job.size().is_none_or(|size| size > 0.0));
    for ((size, works), &count) in sizes.iter_mut().zip(works).zip(&counts) {
        *size *= if count > 0.0 && !works { NO_WORK } else { 1.0 };
    }
    let (n, span_s) = (jobs.len() as f64, span_s(jobs));
    let per_s = if span_s > 0.0 { (n - 1.0) / n / span_s } else { 1.0 };
    let rates = counts.iter().map(|count| count * per_s).collect();
    Ok(fleet.with_traffic(rates, sizes).expect("rates and sizes of a checked trace are finite"))
}

/// What stands for a size of 0, as a part of the file's: load and bounds are too high by no more than that.
const NO_WORK: f64 = 1e-6;

/// By job type: how many jobs, and their mean size, that of the file for a type without jobs or work.
struct Traffic {
    counts: Vec<f64>,
    sizes: Vec<f64>,
}

impl Traffic {
    fn of(fleet: &Fleet, jobs: &[TraceJob]) -> Self {
        let mut counts = vec![0.0; fleet.job_type_count()];
        let mut work = vec![0.0; fleet.job_type_count()];
        for job in jobs {
            counts[job.job_type.index()] += 1.0;
            work[job.job_type.index()] += job.size().unwrap_or_else(|| fleet.size(job.job_type));
        }
        let size = |l: JobTypeId| {
            let (count, work): (f64, f64) = (counts[l.index()], work[l.index()]);
            if work > 0.0 { work / count } else { fleet.size(l) }
        };
        let sizes = fleet.job_types().map(size).collect();
        Self { counts, sizes }
    }
}

/// From the first arrival to the last; 0 of no jobs.
pub(super) fn span_s(jobs: &[TraceJob]) -> f64 {
    jobs.last().map_or(0.0, |last| last.arrival_s - jobs[0].arrival_s)
}

/// How far the clock of these jobs may run.
pub(super) fn reach(model: &Model, jobs: &[TraceJob]) -> Reach {
    let Traffic { counts, sizes } = Traffic::of(&model.fleet, jobs);
    Reach::new(model, &counts, &sizes)
}

/// Refuses what is no trace for so many job types.
pub(crate) fn check(jobs: &[TraceJob], job_types: usize) -> Result<(), SimulationError> {
    let fault = |job: usize, what: String| Err(SimulationError::Trace { job, what });
    if jobs.is_empty() {
        return fault(0, "there is none".to_owned());
    }
    let mut before_s = 0.0;
    for (i, job) in jobs.iter().enumerate() {
        let at_s = job.arrival_s;
        if !(at_s >= before_s && at_s.is_finite()) {
            return fault(
                i,
                format!("it arrives at {at_s} s, after one at {before_s} s; times are finite and do not fall"),
            );
        }
        if job.size < 0.0 || job.size.is_infinite() {
            return fault(i, format!("its size is {}; sizes are finite and not negative", job.size));
        }
        if job.job_type.index() >= job_types {
            return fault(i, format!("its job type is number {}, of {job_types}", job.job_type.index()));
        }
        before_s = at_s;
    }
    Ok(())
}

/// Most batches.
const MOST_BATCHES: u64 = 32;
/// Fewest arrivals of a batch.
const FEWEST_ARRIVALS: u64 = 8;

/// Fewer jobs are one batch, and have no intervals.
pub(crate) const FEWEST_JOBS_FOR_INTERVALS: u64 = 2 * FEWEST_ARRIVALS;

/// What one path brought.
#[derive(Debug)]
pub(crate) struct Path {
    pub(crate) batches: Vec<Record>,
    /// Jobs that arrived in these.
    pub(crate) arrived_in_batches: u64,
    pub(crate) events: u64,
    pub(crate) time_s: f64,
    /// Jobs that have not left, and will not.
    pub(crate) unfinished: u64,
    /// The observer did not stop it.
    pub(crate) complete: bool,
    pub(crate) fates: Vec<Fate>,
}

/// Runs the path of one policy: from a seed, looked on, with the fates of the jobs or without.
pub(crate) type RunPath = Box<dyn Fn(u64, &dyn Observer, bool) -> Path + Send>;

/// Runs a chain of a trace of so many jobs to its end.
pub(crate) fn run<P: Policy>(mut chain: CalendarChain<P>, jobs: u64, observer: &dyn Observer, fates: bool) -> Path {
    if fates {
        chain.keep_fates();
    }
    let is_stopped = |events: u64| {
        observer.advanced(events);
        observer.is_stopped()
    };
    let batches = (jobs / FEWEST_ARRIVALS).clamp(1, MOST_BATCHES);
    let (mut records, mut arrived_in_batches, mut complete) = (Vec::new(), 0, true);
    for batch in 1..=batches {
        // The last one runs on until nobody is left.
        let until = if batch == batches { u64::MAX } else { jobs * batch / batches };
        complete = chain.run_until_arrived(until, &is_stopped);
        if !complete {
            break;
        }
        records.push(chain.record());
        arrived_in_batches = jobs * batch / batches;
        chain.forget();
        if batch < batches && observer.is_stopped() {
            complete = false;
            break;
        }
    }
    let progress = chain.progress();
    Path {
        batches: as_one_unless_they_compare(records),
        arrived_in_batches,
        events: progress.events,
        time_s: progress.time_s,
        unfinished: chain.unfinished(),
        complete,
        fates: chain.take_fates(),
    }
}

/// The batches; or all of them as one where jobs left in one of them only, which cannot be left out: when jobs come so fast that they
/// leave after the last one has come.
fn as_one_unless_they_compare(batches: Vec<Record>) -> Vec<Record> {
    let left = |batch: &&Record| batch.job_types.iter().any(|tally| tally.responses > 0);
    if batches.iter().filter(left).count() == 1 { Record::pooled(&batches).into_iter().collect() } else { batches }
}

/// The jobs of a trace, shared by the policies.
pub(crate) type Jobs = Arc<Vec<TraceJob>>;
