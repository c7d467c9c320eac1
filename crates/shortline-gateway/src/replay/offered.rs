//! What traffic asks of a fleet: rates and sizes by job type, the load they make, and the fluid bound.
//!
//! - **Offered load** of a uniform fleet: `sum_l lambda_l size_l / sum_r slots_r rate_r`, over servers that hold at
//!   least one job type. A fleet that is not uniform has offered load `1/s*`, which takes an optimisation: the caller
//!   of the replay hands it in ([`Options::load_of`](super::Options::load_of)).
//! - **Fluid bound**: to serve work at rate `w = sum_l lambda_l size_l`, at least `L*` slots must be busy on average,
//!   `L*` = the fewest slots, fastest first, whose rates sum to `w` (the last one in part). A job is at a server at
//!   least while it is served, so by Little's law the mean response time is at least `L* / sum_l lambda_l` (Weng, Zhou
//!   and Srikant 2020, Proposition 1). With per-pair rates each server type counts with its fastest. It holds for
//!   every policy, every size law and every arrival process, and for a single run when rates are answers over the time
//!   from the first arrival to the last answer.

use serde::Serialize;
use shortline_core::{Fleet, JobTypeId};

/// Traffic on a fleet, in the fleet file's seconds (before `time_scale`).
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Offered {
    /// Arrival rate of each job type (by [`JobTypeId`](shortline_core::JobTypeId)), in 1/s.
    pub rates_per_s: Vec<f64>,
    /// Mean size of each job type; of one that does not arrive, the file's.
    pub sizes: Vec<f64>,
}

/// A proven lower bound on the mean response time.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Bound {
    /// Which bound: `fluid`, `graph`, ...
    pub kind: &'static str,
    /// Its value.
    pub mean_response_s: f64,
}

impl Offered {
    /// Traffic from counts and work (the sum of sizes) by job type; a count of 1 is a rate of `per_s`. Job types that did
    /// not occur keep the size `otherwise`.
    pub(super) fn measured(counts: &[f64], work: &[f64], per_s: f64, otherwise: impl Fn(JobTypeId) -> f64) -> Self {
        let size = |(l, (&count, work)): (usize, (&f64, f64))| {
            if count > 0.0 { work / count } else { otherwise(JobTypeId::new(l)) }
        };
        Self {
            rates_per_s: counts.iter().map(|count| count * per_s).collect(),
            sizes: counts.iter().zip(work.iter().copied()).enumerate().map(size).collect(),
        }
    }

    /// Sum of the arrival rates, in 1/s.
    #[must_use]
    pub fn total_rate_per_s(&self) -> f64 {
        self.rates_per_s.iter().sum()
    }

    /// Work that arrives per second, `sum_l lambda_l size_l`.
    #[must_use]
    pub fn work(&self) -> f64 {
        self.rates_per_s.iter().zip(&self.sizes).map(|(rate, size)| rate * size).sum()
    }

    /// Work over capacity: the offered load of a uniform fleet.
    #[must_use]
    pub fn load(&self, fleet: &Fleet) -> f64 {
        self.work() / slots_fastest_first(fleet).map(|(slots, rate)| slots * rate).sum::<f64>()
    }

    /// The fluid bound; `None` for more work than the fleet can do, for no traffic, and for a fleet without rates.
    #[must_use]
    pub fn fluid_bound(&self, fleet: &Fleet) -> Option<Bound> {
        let (mut left, mut busy) = (self.work(), 0.0);
        for (slots, rate) in slots_fastest_first(fleet) {
            let here = (left / rate).min(slots);
            busy += here;
            left = if here < slots { 0.0 } else { left - slots * rate };
        }
        let mean_response_s = busy / self.total_rate_per_s();
        let holds = fleet.has_rates() && left <= 0.0 && mean_response_s.is_finite();
        holds.then_some(Bound { kind: "fluid", mean_response_s })
    }
}

/// Slots of the servers that hold something, and their rate (the largest of any job type), fastest first.
fn slots_fastest_first(fleet: &Fleet) -> impl Iterator<Item = (f64, f64)> {
    let mut holds = vec![false; fleet.server_count()];
    let mut seen = vec![false; fleet.graph().distinct_row_count()];
    for l in fleet.job_types() {
        let row = fleet.graph().row_number(l.index());
        if !std::mem::replace(&mut seen[row], true) {
            fleet.graph().for_each(l.index(), |server| holds[server.index()] = true);
        }
    }
    let mut classes: Vec<(f64, f64)> = (fleet.server_types())
        .map(|m| {
            let servers = fleet.servers_of_type(m).filter(|&server| holds[server]).count() as f64;
            let fastest = fleet.job_types().map(|l| fleet.rate(l, m)).fold(0.0, f64::max);
            (servers * f64::from(fleet.server_type_parts(m).slots), fastest)
        })
        .collect();
    classes.sort_by(|a, b| b.1.total_cmp(&a.1));
    classes.into_iter()
}

#[cfg(test)]
mod tests {
    use shortline_core::FleetParts;
    use shortline_core::fleet::settings::Settings;
    use shortline_core::fleet::{ArrivalRates, JobTypeParts, Names, ServerParts, ServerTypeParts, Speed};
    use shortline_core::graph::Edges;

    use super::*;

    /// Two slots of rate 4 at one server, one of rate 1 at another, one of rate 9 at a third that holds nothing.
    fn fleet() -> Fleet {
        let types = [("fast", 4.0, 2), ("slow", 1.0, 1), ("idle", 9.0, 1)];
        let names = |base: &str| Names { base: base.into(), count: None };
        Fleet::new(FleetParts {
            name: "f".into(),
            server_types: (types.iter())
                .map(|&(name, rate, slots)| ServerTypeParts { name: name.into(), speed: Speed::Rate(rate), slots })
                .collect(),
            servers: (0..3)
                .map(|i| ServerParts { names: names(types[i].0), server_type: i, buffer: None, addresses: vec![] })
                .collect(),
            job_types: vec![JobTypeParts { names: names("a"), arrivals: ArrivalRates::Unknown, size: 2.0 }],
            rates: Vec::new(),
            edges: Edges::from_rows([[0, 1]]),
            settings: Settings::default(),
        })
        .unwrap()
    }

    #[test]
    fn load_is_work_over_the_capacity_of_servers_that_hold_something() {
        let offered = Offered { rates_per_s: vec![1.8], sizes: vec![2.0] };
        assert!((offered.load(&fleet()) - 3.6 / 9.0).abs() < 1e-12);
    }

    #[test]
    fn the_fluid_bound_fills_the_fastest_slots_first() {
        let bound = |rate: f64| {
            let offered = Offered { rates_per_s: vec![rate], sizes: vec![2.0] };
            offered.fluid_bound(&fleet()).map(|bound| bound.mean_response_s)
        };
        // Work 4 keeps one fast slot busy: 1 / 2. Work 8.5: both, and the slow one half: 2.5 / 4.25.
        assert!((bound(2.0).unwrap() - 0.5).abs() < 1e-12);
        assert!((bound(4.25).unwrap() - 2.5 / 4.25).abs() < 1e-12);
        assert_eq!((bound(5.0), bound(0.0)), (None, None), "more than the fleet can do, and nothing");
    }
}
