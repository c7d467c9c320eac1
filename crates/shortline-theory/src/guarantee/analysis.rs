//! All bounds of the theorems for one fleet, whether they say anything or not.

use shortline_core::Fleet;

use super::deep_queues::DeepQueues;
use super::idle::Idle;
use super::jobs::{self, JobTerms};
use super::loss::Shares;
use super::scope::{NotApplicable, Numbers, PolicyClass};
use super::search::Effort;
use super::simple::{self, SimpleBound, SimpleSet};
use super::system::System;
use super::waiting::Waiting;
use super::{Profile, Theorem};

/// Fewer waiting jobs per server, and a smaller blocking probability, are not worth an effort.
const NEGLIGIBLE: f64 = 1e-9;

/// A bound on the blocking probability of job types that have a server, and where it comes from.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Blocking {
    pub(super) probability: f64,
    pub(super) theorem: Theorem,
    pub(super) m: usize,
    pub(super) e: usize,
}

/// The bounds of all theorems, `m` by `m`. [`evaluate`](super::evaluate) makes a [`Guarantee`](super::Guarantee) of them,
/// and says which of them say nothing; here they are as they come.
///
/// All are about the job types that have a server.
#[derive(Clone, Debug)]
pub struct Analysis {
    system: System,
    idle: Vec<Idle>,
    shares: Shares,
    deep: Option<DeepQueues>,
    waiting: f64,
    blocking: Blocking,
    jobs: JobTerms,
}

impl Analysis {
    /// Computes them for a policy of this class. `profile(m, i)` is `delta_m(i)` or an upper bound on it, see
    /// [`evaluate`](super::evaluate).
    ///
    /// # Errors
    /// If the fleet is none that the theorems are about.
    pub fn new(fleet: &Fleet, class: PolicyClass, profile: Profile<'_>) -> Result<Self, NotApplicable> {
        let numbers = Numbers::of(fleet)?;
        Ok(Self::of(&numbers, class, profile, Effort::thorough(numbers.servers())))
    }

    pub(super) fn of(numbers: &Numbers, class: PolicyClass, profile: Profile<'_>, effort: Effort) -> Self {
        let system = System::new(numbers, profile, effort);
        let idle: Vec<Idle> = system.sets.iter().map(|set| Idle::new(&system, set)).collect();
        let mut shares = Shares::new(&system, &idle, system.needed);
        let mut theorem = Theorem::Loss;
        for (t, set) in system.sets.iter().enumerate().skip(system.needed) {
            let Some(simple) = SimpleSet::new(&system, set).best() else { continue };
            if simple.chi < shares.all() {
                theorem = Theorem::Simple;
            }
            shares.improve(t, simple.chi, simple.m, simple.e);
        }
        let probability = shares.all();
        let mut blocking = Blocking { probability, theorem, m: shares.m, e: shares.spare };
        let mut waiting = system.arrivals_per_s * probability * system.all().longest_wait_s;
        let mut deep = None;
        let is_worth_more = waiting / system.all().servers as f64 > NEGLIGIBLE || probability > NEGLIGIBLE;
        if class == PolicyClass::JoinFastestShortest && is_worth_more {
            let queues = DeepQueues::new(&system, probability);
            blocking.improve(queues.blocking(), Theorem::DeepQueues, queues.m, queues.e);
            waiting = waiting.min(queues.waiting(&system));
            deep = Some(queues);
            let squares = Waiting::new(&system, &idle, probability, waiting);
            blocking.improve(squares.blocking, Theorem::Waiting, system.all().m, squares.e);
            waiting = waiting.min(squares.mean);
        }
        let jobs = jobs::best(&system, &idle, &shares, waiting, blocking.probability);
        Self { system, idle, shares, deep, waiting, blocking, jobs }
    }

    /// The `m` for which [`mean_idle`](Self::mean_idle) and [`not_immediate`](Self::not_immediate) are computed, ascending:
    /// all, or a selection in a fleet of many speeds.
    pub fn fast_sets(&self) -> impl Iterator<Item = usize> + '_ {
        self.system.sets.iter().map(|set| set.m)
    }

    /// Bound on the mean number of idle servers in `R_m`, Theorem S1; `None` if `m` is not in [`fast_sets`](Self::fast_sets).
    #[must_use]
    pub fn mean_idle(&self, m: usize) -> Option<f64> {
        Some(self.idle[self.index(m)?].mean())
    }

    /// Bound on `E(X_m - f)^+`, the mean number of idle servers in `R_m` beyond `f`, Theorem S1.
    #[must_use]
    pub fn mean_idle_beyond(&self, m: usize, f: usize) -> Option<f64> {
        Some(self.idle[self.index(m)?].excess(f))
    }

    /// `a_m`: bound on the share of arrivals that are not sent at once to an idle server of `R_m`, Theorem L; 1 for `m < K`.
    #[must_use]
    pub fn not_immediate(&self, m: usize) -> Option<f64> {
        Some(self.shares.by_set[self.index(m)?])
    }

    /// `chi = a_M`: bound on the share of arrivals that are not sent at once to an idle server.
    #[must_use]
    pub fn chi(&self) -> f64 {
        self.shares.all()
    }

    /// Bound on the blocking probability of the job types that have a server.
    #[must_use]
    pub fn blocking_probability(&self) -> f64 {
        self.blocking.probability
    }

    /// `abar_j`: bound on the share of arrivals that find at least `j` jobs at every compatible server, Theorem S4; `None` if
    /// it was not needed, `j` is 0 or beyond the levels computed.
    #[must_use]
    pub fn deep_queues(&self, j: usize) -> Option<f64> {
        self.deep.as_ref()?.shares.get(j.checked_sub(1)?).copied()
    }

    /// Bound on the mean number of waiting jobs.
    #[must_use]
    pub fn mean_waiting(&self) -> f64 {
        self.waiting
    }

    /// Theorem S3.
    #[must_use]
    pub fn jobs(&self) -> JobTerms {
        self.jobs
    }

    /// `L* / Lambda` in seconds, the fluid bound; `None` if the servers cannot do what arrives.
    #[must_use]
    pub fn fluid_response_s(&self) -> Option<f64> {
        let k = self.system.sets[self.system.needed].m;
        let busy = self.system.busy_if_first_classes_are_full(k);
        (!self.system.is_overloaded).then_some(busy / self.system.arrivals_per_s)
    }

    /// The simple form for one `m` and `e`; `None` if `eta <= 0` or `m` is not in [`fast_sets`](Self::fast_sets).
    #[must_use]
    pub fn simple(&self, m: usize, e: usize) -> Option<SimpleBound> {
        let simple = SimpleSet::new(&self.system, &self.system.sets[self.index(m)?]);
        (1..=simple.last_e()).contains(&e).then(|| simple.at(e))
    }

    /// The simple form's bound on the mean number of idle servers in `R_m` for one `e >= 0`.
    #[must_use]
    pub fn simple_mean_idle(&self, m: usize, e: usize) -> Option<f64> {
        Some(simple::idle(&self.system, &self.system.sets[self.index(m)?], e))
    }

    /// The simple form's bounds on the mean number of jobs and the mean response time, in seconds, at its best; with
    /// `m = K` only, or over all `m`. `None` if it has none.
    #[must_use]
    pub fn simple_jobs(&self, only_needed: bool) -> Option<(f64, f64)> {
        simple::jobs(&self.system, only_needed)
    }

    pub(super) fn system(&self) -> &System {
        &self.system
    }

    pub(super) fn shares(&self) -> &Shares {
        &self.shares
    }

    pub(super) fn blocking(&self) -> Blocking {
        self.blocking
    }

    fn index(&self, m: usize) -> Option<usize> {
        self.system.sets.iter().position(|set| set.m == m)
    }
}

impl Blocking {
    fn improve(&mut self, probability: f64, theorem: Theorem, m: usize, e: usize) {
        if probability < self.probability {
            *self = Self { probability, theorem, m, e };
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use shortline_core::fleet::{
        ArrivalRates, FleetParts, JobTypeParts, Names, ServerParts, ServerTypeParts, Settings, Speed,
    };
    use shortline_core::graph::Edges;
    use shortline_core::policy::PolicySpec;
    use shortline_core::random::Generator;

    use super::*;
    use crate::exact;
    use crate::guarantee::scope::Class;

    /// 7 servers of 7 speeds, fastest first; three job types on random servers, as bit masks.
    fn seven_speeds(rng: &mut Generator) -> (Fleet, Vec<(f64, u32)>) {
        let names = |base: String| Names { base, count: None };
        let rate = |i: i32| 2.0 * 0.8_f64.powi(i);
        let server_type = |i: i32| ServerTypeParts { name: format!("t{i}"), speed: Speed::Rate(rate(i)), slots: 1 };
        let server = |i: usize| ServerParts {
            names: names(format!("s{i}")),
            server_type: i,
            buffer: Some(if i.is_multiple_of(3) { 2 } else { 1 }),
            addresses: vec![],
        };
        // The first job type is on every server, so that each has a job type.
        let rows: Vec<(f64, u32)> = [127, rng.random_range(1..128), rng.random_range(1..128)]
            .into_iter()
            .map(|row| (rng.random_range(0.1..2.5), row))
            .collect();
        let job_type = |(i, row): (usize, &(f64, u32))| JobTypeParts {
            names: names(format!("j{i}")),
            arrivals: ArrivalRates::Each(row.0),
            size: 1.0,
        };
        let fleet = Fleet::new(FleetParts {
            name: String::new(),
            server_types: (0..7).map(server_type).collect(),
            servers: (0..7).map(server).collect(),
            job_types: rows.iter().enumerate().map(job_type).collect(),
            rates: vec![],
            edges: Edges::from_rows(
                rows.iter().map(|row| (0..7).filter(|r| row.1 >> r & 1 == 1).collect::<Vec<u32>>()),
            ),
            settings: Settings::default(),
        });
        (fleet.expect("the fleet is right"), rows)
    }

    /// `delta_m(i)` by enumeration; class `m` is server `m - 1`.
    fn delta(rows: &[(f64, u32)], m: usize, i: usize) -> f64 {
        let total: f64 = rows.iter().map(|row| row.0).sum();
        let isolated = |set: u32| rows.iter().filter(|row| row.1 & set == 0).map(|row| row.0).sum::<f64>() / total;
        (0..1_u32 << m).filter(|set| set.count_ones() as usize >= i).map(isolated).fold(0.0, f64::max)
    }

    #[test]
    fn bounds_through_a_selection_of_speeds_are_above_exact_chains() {
        let rng = &mut Generator::seed_from_u64(5);
        let mut selected = 0;
        for _ in 0..60 {
            let (fleet, rows) = seven_speeds(rng);
            let numbers = Numbers::of(&fleet).expect("the fleet is in scope");
            let effort = Effort { most_sets: 5, ..Effort::thorough(7) };
            for (policy, class) in
                [(PolicySpec::Jfiq, PolicyClass::FastestIdle), (PolicySpec::Jfsq, PolicyClass::JoinFastestShortest)]
            {
                let bounds = Analysis::of(&numbers, class, &|m, i| delta(&rows, m, i), effort);
                let exact = exact::solve(&fleet, policy, None).expect("the chain is small");
                let pairs = [
                    (exact.all.blocking_probability, bounds.blocking_probability()),
                    (exact.all.mean_jobs, bounds.jobs().mean_jobs),
                    (exact.all.mean_response_s, bounds.jobs().mean_response_s),
                ];
                assert!(pairs.iter().all(|(exact, bound)| *exact <= bound * (1.0 + 1e-9)), "{rows:?}: {pairs:?}");
                for m in bounds.fast_sets() {
                    let idle: f64 = exact.per_server[..m].iter().map(|server| 1.0 - server.utilisation).sum();
                    assert!(idle <= bounds.mean_idle(m).unwrap() * (1.0 + 1e-9));
                }
                selected += usize::from(bounds.fast_sets().count() < 6);
            }
        }
        assert!(selected >= 100, "{selected}");
    }

    #[test]
    fn a_selection_of_speeds_costs_little() {
        let class = |i: u32| {
            let rate_per_s = 1.0 - f64::from(i) / 40.0;
            Class { rate_per_s, servers: 8, smallest_buffer: 3, largest_buffer: 3, places: 24.0 }
        };
        let classes: Vec<Class> = (0..30).map(class).collect();
        let capacity: f64 = classes.iter().map(|class| 8.0 * class.rate_per_s).sum();
        for load in [0.1, 0.3, 0.5, 0.7, 0.9] {
            let classes = classes.clone();
            let arrivals_per_s = load * capacity;
            let numbers = Numbers { arrivals_per_s, without_server: 0.0, classes, busiest_per_s: load };
            let jobs = |most_sets| {
                let effort = Effort { most_sets, ..Effort::thorough(240) };
                let profile = |_: usize, i: usize| (-0.2 * i as f64).exp();
                Analysis::of(&numbers, PolicyClass::JoinFastestShortest, &profile, effort).jobs().mean_jobs
            };
            assert!(jobs(8) < 1.3 * jobs(30), "load {load}: {} {}", jobs(8), jobs(30));
        }
    }
}
