//! The run itself: all policies side by side, in rounds, until all are certain enough.
//!
//! 1. **Warm-up.** Every replication starts empty and runs, a fifth further each round, until for every policy MSER-5
//!    of the number of jobs (averaged over the replications) drops less than half, or what is left of its climb is
//!    less than a tenth of the relative error asked for; until the replications, side by side, are not seen to climb
//!    any more; and until the slowest server has had the time for ten services. All of it is then dropped (in small
//!    fleets, after once more its length): what is measured starts in the second half of a settled run. Without that, at [`LONGEST_WARM_UP`] or when the run is
//!    stopped, there are no means.
//! 2. **Growth.** After each round every policy whose jobs may pile up is tested for growth; a policy that grows is
//!    unstable and stops.
//! 3. **Measuring.** Rounds go on until the intervals of all mean response times are narrow enough, or a limit is
//!    reached. All policies run equally far.
//!
//! Nothing here depends on threads or time: rounds are cut by events, replications are reduced in order.

use rayon::prelude::*;

use crate::chain::{Chain, Streams};
use crate::engine::Contender;
use crate::estimate::{self, Estimate};
use crate::growth;
use crate::observe::response_parts;
use crate::record::Record;
use crate::settling;
use crate::simulation::{Observer, Round, Until};
use crate::watch::Watch;

/// The warm-up stops growing at this many times its first length, settled or not; or, if that is later, at the most
/// events that may be counted: who allows more of them gets a longer warm-up where one is needed.
const LONGEST_WARM_UP: u64 = 256;
/// From so many replications on, those of small fleets, a settled warm-up is run for its length once more: a slow chain that
/// chance made look settled has come further then.
const CHEAP: usize = 32;
/// Turns in which a round is run.
const TURNS: u64 = 8;
/// Events without which a replication says nothing.
pub(crate) const FEWEST_EVENTS: u64 = 16;
/// Values of the number of jobs in the first round.
const FIRST_VALUES: u64 = 64;

/// How long to run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) replications: usize,
    /// First length of the warm-up, events per replication.
    pub(crate) warm_up: u64,
    /// The warm-up is at least so long, where that is no longer than the longest.
    pub(crate) least_warm_up: u64,
    pub(crate) until: Until,
    /// Growth is not looked for before: what goes up and down with the traffic, or with failures, is none.
    pub(crate) patience_s: f64,
    /// Relative half-width at which a mean has converged.
    pub(crate) error: f64,
}

impl Plan {
    /// Most events to be counted per policy.
    fn most_events(&self) -> u64 {
        match self.until {
            Until::Events(events) => events,
            Until::RelativeError { most_events, .. } => most_events,
        }
    }
}

/// One policy's replications.
#[derive(Debug)]
pub(crate) struct Racer {
    pub(crate) contender: Contender,
    lanes: Vec<Lane>,
    pub(crate) growth_jobs_per_s: Option<f64>,
    pub(crate) growing_replications: usize,
    /// What became of the warm-up.
    pub(crate) warm_up: WarmUp,
    pub(crate) warm_up_events: u64,
    pub(crate) looks: u32,
    pub(crate) cpu_s: f64,
}

/// What became of a warm-up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WarmUp {
    /// The number of jobs had settled.
    Settled,
    /// It had not when the warm-up was as long as it may be.
    TooShort,
    /// The run was stopped.
    Stopped,
}

#[derive(Debug)]
struct Lane {
    chain: Box<dyn Chain>,
    watch: Watch,
    warm_up_events: u64,
}

impl Racer {
    fn new(contender: Contender, plan: &Plan) -> Self {
        let lane = |replication| Lane {
            chain: (contender.chain)(Streams::new(plan.seed, replication)),
            watch: Watch::new((plan.warm_up / FIRST_VALUES).max(1)),
            warm_up_events: 0,
        };
        let lanes = (0..plan.replications as u64).map(lane).collect();
        Self {
            contender,
            lanes,
            growth_jobs_per_s: None,
            growing_replications: 0,
            warm_up: WarmUp::Stopped,
            warm_up_events: 0,
            looks: 0,
            cpu_s: 0.0,
        }
    }

    fn is_stable(&self) -> bool {
        self.growth_jobs_per_s.is_none()
    }

    /// Runs replication `i` the first of `parts` equal parts of the way to `targets[i]` events, warm-up included.
    fn advance(&mut self, targets: &[u64], parts: u64, observer: &dyn Observer) {
        let before = observer.cpu_s();
        self.lanes.par_iter_mut().zip(targets).for_each(|(lane, &target)| {
            let events = (target - lane.chain.progress().events.min(target)).div_ceil(parts);
            lane.watch.run(&mut *lane.chain, events, |events| {
                observer.advanced(events);
                !observer.is_stopped()
            });
        });
        self.cpu_s += observer.cpu_s() - before;
    }

    fn look_for_growth(&mut self, patience_s: f64) {
        let is_early = |lane: &Lane| lane.chain.progress().time_s < patience_s;
        if !self.contender.unbounded || !self.is_stable() || self.lanes.iter().any(is_early) {
            return;
        }
        self.looks += 1;
        let series: Vec<&[f64]> = self.lanes.iter().map(|lane| lane.watch.norms()).collect();
        let growing = growth::growing(&series);
        if !growing.is_empty() {
            let slope = |i: &usize| {
                let lane = &self.lanes[*i];
                let progress = lane.chain.progress();
                let step_s = lane.watch.step() as f64 * progress.time_s / progress.events as f64;
                growth::slope(lane.watch.jobs()) / step_s
            };
            self.growth_jobs_per_s = Some(growing.iter().map(slope).sum::<f64>() / growing.len() as f64);
            self.growing_replications = growing.len();
        }
    }

    fn has_settled(&self, error: f64) -> bool {
        let values = self.lanes.iter().map(|lane| lane.watch.jobs().len()).min().unwrap_or(0);
        let at = |i: usize| self.lanes.iter().map(|lane| lane.watch.jobs()[i]).sum::<f64>();
        let series: Vec<f64> = (0..values).map(at).collect();
        let of = |series: fn(&Watch) -> &[f64]| -> Vec<&[f64]> {
            self.lanes.iter().map(|lane| &series(&lane.watch)[..values]).collect()
        };
        let tolerance = 0.1 * error;
        let levels_off = settling::levels_off(&series, tolerance);
        let climbs = || settling::climbs(&of(Watch::jobs), tolerance) || settling::climbs(&of(Watch::norms), tolerance);
        (levels_off && self.is_quiet(values, tolerance))
            || ((levels_off || settling::mser5(&series).is_some()) && !climbs())
    }

    /// Whether chance moves the number of jobs, averaged over the replications, by less than this, relative.
    fn is_quiet(&self, values: usize, tolerance: f64) -> bool {
        let means = |lane: &Lane| estimate::mean(&lane.watch.jobs()[values - values / 4..values]);
        let means: Vec<f64> = self.lanes.iter().map(means).collect();
        estimate::half_width(&means, 0.975).is_some_and(|chance| chance <= tolerance * estimate::mean(&means))
    }

    fn end_warm_up(&mut self, warm_up: WarmUp) {
        self.warm_up = warm_up;
        self.warm_up_events = self.events();
        for lane in &mut self.lanes {
            lane.chain.forget();
            lane.warm_up_events = lane.chain.progress().events;
        }
    }

    pub(crate) fn events(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.chain.progress().events).sum()
    }

    pub(crate) fn replications(&self) -> usize {
        self.lanes.len()
    }

    pub(crate) fn time_s(&self) -> f64 {
        self.lanes.iter().map(|lane| lane.chain.progress().time_s).sum()
    }

    /// Of the replication that lasted longest.
    pub(crate) fn longest_s(&self) -> f64 {
        self.lanes.iter().map(|lane| lane.chain.progress().time_s).fold(0.0, f64::max)
    }

    pub(crate) fn records(&self) -> Vec<Record> {
        self.lanes.iter().map(|lane| lane.chain.record()).collect()
    }

    /// What each replication adds to the two sides of the mean response time.
    pub(crate) fn response_parts(&self) -> Vec<(f64, f64)> {
        self.lanes.iter().map(|lane| response_parts(&lane.chain.record())).collect()
    }

    /// Events counted by the replication that counted fewest.
    pub(crate) fn fewest_counted(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.chain.progress().events - lane.warm_up_events).min().unwrap_or(0)
    }

    /// Relative half-width of the interval of the mean response time; infinite if there is none.
    pub(crate) fn relative_error(&self) -> f64 {
        Estimate::of_ratio(&self.response_parts()).map_or(f64::INFINITY, |estimate| estimate.relative_half_width())
    }
}

/// Runs the contenders; they come back in their order.
pub(crate) fn run(contenders: Vec<Contender>, plan: &Plan, observer: &dyn Observer) -> Vec<Racer> {
    let mut race = Race {
        racers: contenders.into_iter().map(|contender| Racer::new(contender, plan)).collect(),
        plan: *plan,
        observer,
    };
    let warm_up = race.warm_up();
    race.measure(warm_up);
    race.racers
}

struct Race<'a> {
    racers: Vec<Racer>,
    plan: Plan,
    observer: &'a dyn Observer,
}

impl Race<'_> {
    fn runs_on(&self) -> bool {
        !self.observer.is_stopped() && self.racers.iter().any(Racer::is_stable)
    }

    /// Runs all replications of all policies to their targets, in turns: where a run is stopped they are about equally far.
    fn advance(&mut self, targets: &[u64]) {
        for parts in (1..=TURNS).rev() {
            for racer in self.racers.iter_mut().filter(|racer| racer.is_stable()) {
                racer.advance(targets, parts, self.observer);
            }
            if self.observer.is_stopped() {
                break;
            }
        }
        let patience_s = self.plan.patience_s;
        self.racers.iter_mut().for_each(|racer| racer.look_for_growth(patience_s));
    }

    /// Returns its length, events per replication.
    fn warm_up(&mut self) -> u64 {
        let mut length = self.plan.warm_up;
        let longest = (LONGEST_WARM_UP * length).max(self.plan.most_events() / self.plan.replications as u64);
        let r = self.plan.replications as u64;
        loop {
            self.observer.warming_up(r * length.max(self.plan.least_warm_up.min(longest)));
            self.advance(&vec![length; self.plan.replications]);
            let settled = length >= self.plan.least_warm_up.min(longest)
                && self.racers.iter().all(|racer| !racer.is_stable() || racer.has_settled(self.plan.error));
            let stopped = self.observer.is_stopped();
            if settled || stopped || !self.runs_on() || length >= longest {
                let warm_up = match (stopped, settled) {
                    (true, _) => WarmUp::Stopped,
                    (false, true) => WarmUp::Settled,
                    (false, false) => WarmUp::TooShort,
                };
                if warm_up == WarmUp::Settled && self.plan.replications >= CHEAP {
                    length *= 2;
                    self.observer.warming_up(r * length);
                    self.advance(&vec![length; self.plan.replications]);
                }
                self.racers.iter_mut().for_each(|racer| racer.end_warm_up(warm_up));
                return length;
            }
            length = longest.min(length + length / 5);
        }
    }

    fn measure(&mut self, warm_up: u64) {
        let r = self.plan.replications as u64;
        // Events to be counted, over all replications.
        let limit = self.plan.most_events();
        let error = if let Until::RelativeError { error, .. } = self.plan.until { error } else { 0.0 };
        let mut counted = limit.min(r * warm_up.max(3 * self.plan.warm_up));
        loop {
            // The first replications take one more where it does not divide.
            let target = |i| warm_up + counted / r + u64::from(i < counted % r);
            self.advance(&(0..r).map(target).collect::<Vec<_>>());
            let widest = self.racers.iter().filter(|racer| racer.is_stable()).map(Racer::relative_error);
            let widest = widest.fold(0.0, f64::max);
            self.observer.round_ended(&Round {
                counted_events: counted,
                warm_up_events: r * warm_up,
                widest_relative_error: widest,
            });
            if !self.runs_on() || counted >= limit || widest <= error {
                return;
            }
            // The half-width shrinks like the square root of the length.
            let wanted = (1.1 * (widest / error).powi(2)).clamp(1.2, 2.0);
            counted = limit.min((counted as f64 * wanted).ceil() as u64);
        }
    }
}
