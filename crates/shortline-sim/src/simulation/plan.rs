//! How long a run of a fleet is to be: replications, warm-up, patience.

use super::Until;
use crate::calendar::failures;
use crate::model::Model;
use crate::rounds::Plan;

/// What counts as converged where the number of events was given.
const DEFAULT_ERROR: f64 = 0.01;

impl Plan {
    /// More replications make better intervals, fewer take less memory and warm-up: 32, fewer for large fleets, whose
    /// servers average among themselves.
    pub(super) fn new(model: &Model, seed: u64, until: Until) -> Self {
        let servers = model.fleet.server_count();
        let replications = match servers.max(model.fleet.job_type_count()) {
            0..2_000 => 32,
            2_000..20_000 => 16,
            20_000..200_000 => 8,
            _ => 4,
        };
        // About five mean service times of a busy fleet, and enough to say anything of a small one.
        let warm_up = (10 * servers as u64).max(12_000);
        let error = match until {
            Until::Events(_) => DEFAULT_ERROR,
            Until::RelativeError { error, .. } => error,
        };
        // Slow servers beside fast ones fill so slowly that no total shows it: all must have had time to serve.
        let slowest = model.largest_rates().into_iter().filter(|&rate| rate > 0.0).fold(f64::INFINITY, f64::min);
        let settings = model.fleet.settings();
        let cycle_s = settings.arrivals.period_s() + failures::cycle_s(settings.failures.as_ref());
        // What one of many gateways knows of a server, from the jobs that it has sent there, follows so many times as slowly.
        let information = &settings.information;
        let lag_s = match information.gateways > 1 || information.delay_s > 0.0 {
            true => f64::from(information.gateways) / slowest + information.delay_s.min(OLDEST_NEWS / slowest),
            false => 0.0,
        };
        let least_s = (SERVICES_OF_THE_SLOWEST / slowest).max(CYCLES_OF_WARM_UP * cycle_s);
        let least_s = least_s.max(SERVICES_OF_THE_SLOWEST * lag_s);
        let rate = model.arrival_rate * settings.arrivals.mean_factor();
        let patience_s = CYCLES_BEFORE_GROWTH * cycle_s;
        let least_warm_up = (least_s * 2.0 * rate) as u64;
        Self { seed, replications, warm_up, least_warm_up, most_warm_up: None, until, patience_s, error }
    }

    /// The least that a replication lasts: about `events / (2 rate)` for the events of its warm-up and those that were asked
    /// for.
    pub(super) fn least_s(&self, model: &Model) -> f64 {
        let counted = match self.until {
            Until::Events(events) => events / self.replications as u64,
            Until::RelativeError { .. } => 0,
        };
        let rate = model.arrival_rate * model.fleet.settings().arrivals.mean_factor();
        self.warm_up.saturating_add(counted) as f64 / (2.0 * rate)
    }
}

/// Mean service times of the slowest server that a warm-up lasts, unless that is longer than any warm-up.
const SERVICES_OF_THE_SLOWEST: f64 = 10.0;
/// Patterns of the arrivals, or of failures, that a warm-up lasts, with the same exception: all have been met once.
const CYCLES_OF_WARM_UP: f64 = 2.0;
/// So many that rise and fall are no growth.
const CYCLES_BEFORE_GROWTH: f64 = 20.0;
/// Mean service times of the slowest server after which counts say nothing any more, however old they are.
const OLDEST_NEWS: f64 = 64.0;
