//! How far a clock may run.
//!
//! A moment is a number of seconds since the start, in 53 binary digits: at time `t` moments are up to `2^-52 t` apart, and a
//! service that is much shorter than that takes no time at all. So the clock runs to
//!
//! `t <= 2^52 min(1e-6 s, 1e-3 s_l)`, `s` the mean service time of a job and `s_l` that of the job type with the shortest,
//!
//! each at the fastest server that holds it: 4.5e9 mean services. What would run longer is refused where that is known
//! before, and has no figures where it shows afterwards (one of a million idle years in `[arrivals]`, say). The engines that are
//! Markov chains know no such limit: they add up gaps, not moments.

use shortline_core::JobTypeId;

use crate::SimulationError;
use crate::model::Model;

/// How far apart moments may be, of the mean service time.
const OF_THE_MEAN: f64 = 1e-6;
/// And of that of any job type.
const OF_A_JOB_TYPE: f64 = 1e-3;

/// The last moment that a clock may show.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Reach {
    /// Mean service time of a job, where it is fastest.
    service_s: f64,
    pub(crate) until_s: f64,
}

impl Reach {
    /// Of jobs of these types, of so many of each (in any unit), with these mean sizes. O(edges) where rates depend on the job
    /// type.
    pub(crate) fn new(model: &Model, counts: &[f64], mean_sizes: &[f64]) -> Self {
        let (mut jobs, mut sum_s, mut shortest_s) = (0.0, 0.0, f64::INFINITY);
        let fastest = model.fastest_rates();
        for (l, &count) in counts.iter().enumerate() {
            let service_s = mean_sizes[l] / fastest[l];
            if count > 0.0 && service_s > 0.0 && service_s.is_finite() {
                jobs += count;
                sum_s += count * service_s;
                shortest_s = shortest_s.min(service_s);
            }
        }
        let service_s = if jobs > 0.0 { sum_s / jobs } else { f64::INFINITY };
        let until_s = (OF_THE_MEAN * service_s).min(OF_A_JOB_TYPE * shortest_s) / f64::EPSILON;
        Self { service_s, until_s }
    }

    /// Of the fleet's own traffic.
    pub(crate) fn of(model: &Model) -> Self {
        let sizes: Vec<f64> = model.fleet.job_types().map(|l: JobTypeId| model.fleet.size(l)).collect();
        Self::new(model, &model.arrival_rates, &sizes)
    }

    /// Refuses a clock that runs so far; `what` takes that long.
    pub(crate) fn check(&self, what: &'static str, time_s: f64) -> Result<(), SimulationError> {
        let Self { service_s, until_s } = *self;
        if time_s <= until_s {
            return Ok(());
        }
        Err(SimulationError::Clock { what, time_s, service_s, until_s })
    }
}
