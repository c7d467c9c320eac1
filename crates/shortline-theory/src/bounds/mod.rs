//! Lower bounds on the mean response time, whatever the policy.
//!
//! By Little's law the mean response time of the accepted jobs is `T = E[jobs] / th` with `th` the accepted
//! throughput; without losses `th = Lambda`. Each bound is one on `E[jobs]`:
//!
//! | bound | what it knows | needs |
//! |---|---|---|
//! | [`fluid`] | how many servers must be busy, the fastest first | mean sizes |
//! | [`graph`] | the same, and who may serve what: never below `fluid` | mean sizes |
//! | [`pooled`] | as if every server could do every job, and jobs could move: a birth-death chain | no losses; Poisson arrivals, exponential sizes |
//!
//! **With losses** (finite buffers) they are false at `Lambda`; [`FluidBound::at`] and [`GraphBound::at`] are the
//! forms that hold at an accepted throughput, for any size distribution. The pooled bound has no such form. Both grow
//! with the throughput, so a value below the true one gives a valid bound.
//!
//! Each [`Bound`] says whether it holds for its fleet, and if not, why. [`largest`] picks the one to print.

mod fluid;
mod graph;
mod pooled;
mod prices;

use std::fmt;

use shortline_core::Fleet;
use shortline_core::fleet::settings::{Arrivals, Overflow, SizeLaw};

use crate::TheoryError;
use crate::reduced::Reduced;
pub use fluid::{FluidBound, fluid};
pub use graph::{GraphBound, graph};
pub use pooled::pooled;

/// Which lower bound.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BoundKind {
    /// Busy servers needed, see [`fluid`].
    Fluid,
    /// Busy servers needed on the compatibility graph, see [`graph`].
    Graph,
    /// All servers pooled, see [`pooled`].
    Pooled,
}

impl BoundKind {
    /// The name in reports: `fluid`, `graph` or `pooled`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fluid => "fluid",
            Self::Graph => "graph",
            Self::Pooled => "pooled",
        }
    }
}

impl fmt::Display for BoundKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A lower bound: no policy has fewer jobs in the mean, or a shorter mean response time.
#[derive(Clone, PartialEq, Debug)]
pub struct Bound {
    /// Which bound it is.
    pub kind: BoundKind,
    /// The throughput it is for, jobs per second: `Lambda`, or what is accepted.
    pub throughput_per_s: f64,
    /// Least mean number of jobs in the fleet; infinite if the throughput is beyond what the servers can do.
    pub mean_jobs: f64,
    /// Least mean response time in seconds, `mean_jobs / throughput_per_s`.
    pub mean_response_s: f64,
    /// Whether it holds for the fleet it was computed for.
    pub validity: Validity,
}

/// Whether a bound holds, and if not, which of its assumptions fails first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Validity {
    /// It holds for every policy.
    Holds,
    /// Jobs can be lost, and what is lost needs no server.
    Losses,
    /// No policy is stable at the arrival rates.
    Overloaded,
    /// The arrival rates of the file are not the mean rates, or the arrivals are not Poisson where that matters.
    Arrivals,
    /// Job sizes are not those of the file, or not exponential where that matters.
    Sizes,
}

impl Validity {
    /// In words.
    #[must_use]
    pub fn why(self) -> &'static str {
        match self {
            Self::Holds => "holds for every policy",
            Self::Losses => "jobs can be lost, and lost jobs need no server; use the bound at the accepted throughput",
            Self::Overloaded => {
                "the servers cannot do the work that arrives, so queues grow without end or jobs are lost"
            }
            Self::Arrivals => "[arrivals] departs from what the bound assumes of the arrivals",
            Self::Sizes => "[service] departs from what the bound assumes of the job sizes",
        }
    }
}

impl Bound {
    fn new(kind: BoundKind, throughput_per_s: f64, mean_jobs: f64, validity: Validity) -> Self {
        let validity = if mean_jobs.is_finite() { validity } else { Validity::Overloaded };
        Self { kind, throughput_per_s, mean_jobs, mean_response_s: mean_jobs / throughput_per_s, validity }
    }

    /// Whether it holds for the fleet.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.validity == Validity::Holds
    }
}

/// The largest valid of several bounds: *the* bound. `None` if none holds.
#[must_use]
pub fn largest(bounds: impl IntoIterator<Item = Bound>) -> Option<Bound> {
    let valid = bounds.into_iter().filter(Bound::is_valid);
    valid.max_by(|a, b| a.mean_response_s.total_cmp(&b.mean_response_s))
}

/// Whether the bounds that know mean rates and mean sizes hold for this fleet at `Lambda`.
fn validity_of_means(fleet: &Fleet) -> Validity {
    if matches!(fleet.settings().arrivals, Arrivals::Piecewise(_) | Arrivals::Trace) {
        Validity::Arrivals
    } else if fleet.settings().service.law == SizeLaw::Trace {
        Validity::Sizes
    } else if can_lose_jobs(fleet) {
        Validity::Losses
    } else {
        Validity::Holds
    }
}

/// Whether the bounds at an accepted throughput hold for this fleet.
fn validity_at_throughput(fleet: &Fleet) -> Validity {
    if fleet.settings().service.law == SizeLaw::Trace { Validity::Sizes } else { Validity::Holds }
}

/// Whether a job can be blocked or give up. Where nobody waits in front, a job that no server holds is blocked, or whose servers
/// are all down.
fn can_lose_jobs(fleet: &Fleet) -> bool {
    let lines = fleet.settings().lines;
    let is_unserved = |l| fleet.arrival_rate(l) > Some(0.0) && fleet.graph().degree(l.index()) == 0;
    match fleet.settings().overflow {
        Overflow::Wait => lines.size.is_some() || lines.timeout_s.is_some(),
        Overflow::Reject => {
            fleet.servers().any(|server| fleet.buffer(server).is_some())
                || fleet.settings().failures.is_some()
                || fleet.job_types().any(is_unserved)
        }
    }
}

/// Job types by the work of one job, least first: (work of a job, jobs per second).
#[derive(Clone, Debug)]
struct LeastWork(Vec<(f64, f64)>);

impl LeastWork {
    fn new(reduced: &Reduced) -> Self {
        let mut jobs: Vec<(f64, f64)> = reduced.job_types.iter().map(|&(rate, work)| (work, rate)).collect();
        jobs.sort_by(|a, b| a.0.total_cmp(&b.0));
        Self(jobs)
    }

    /// `W(th)`: work per second of `throughput` jobs per second, the smallest ones.
    fn of(&self, throughput: f64) -> f64 {
        let mut left = throughput;
        let mut work = 0.0;
        for &(work_of_job, rate) in &self.0 {
            let taken = rate.min(left);
            work += taken * work_of_job;
            left -= taken;
        }
        work
    }
}

fn check_throughput(throughput: f64) -> Result<(), TheoryError> {
    if throughput.is_finite() && throughput > 0.0 { Ok(()) } else { Err(TheoryError::Throughput { throughput }) }
}

/// Busy slots as a function of what they do per second, the fastest class first: convex, piecewise linear, 0 at 0.
#[derive(Clone, Debug, Default)]
struct BusySlots {
    /// After each class: (done per second, busy slots), both growing.
    corners: Vec<(f64, f64)>,
}

impl BusySlots {
    /// Adds a class of speed `speed` per slot that does up to `amount` more per second.
    fn push(&mut self, amount: f64, speed: f64) {
        let (done, busy) = self.most();
        self.corners.push((done + amount, busy + amount / speed));
    }

    /// All that can be done, and the slots busy then.
    fn most(&self) -> (f64, f64) {
        self.corners.last().copied().unwrap_or((0.0, 0.0))
    }

    /// Fewest busy slots that do `amount`; `None` beyond [`most`](Self::most).
    fn at(&self, amount: f64) -> Option<f64> {
        let class = self.corners.partition_point(|&(done, _)| done < amount);
        let &(done, busy) = self.corners.get(class)?;
        let (done_before, busy_before) = if class == 0 { (0.0, 0.0) } else { self.corners[class - 1] };
        if amount >= done {
            return Some(busy);
        }
        Some(busy_before + (amount - done_before) * (busy - busy_before) / (done - done_before))
    }
}
