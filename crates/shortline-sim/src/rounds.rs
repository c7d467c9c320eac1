//! The run itself: all policies side by side, in rounds, until all are certain enough.
//!
//! 1. **Warm-up.** Every replication starts empty and runs, a fifth further each round, until MSER-5
//!    of the number of jobs (averaged over the replications) drops less than half, or what is left of its climb is
//!    less than a tenth of the relative error asked for; until the replications, side by side, are not seen to climb
//!    any more; and until the slowest server has had the time for ten services. A policy that has settled rests until the others
//!    have, then follows as far as the slowest of them went. All of it is then dropped (in small
//!    fleets, after once more its length): what is measured starts in the second half of a settled run. A policy that has not
//!    settled at [`LONGEST_WARM_UP`] has no means and is measured no further; when the run is stopped before, none has means.
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
/// events that may be counted: who allows more of them gets a longer warm-up where one is needed. Unless a limit is given.
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
    /// Events of a policy's warm-up, over all replications, if a limit was given.
    pub(crate) most_warm_up: Option<u64>,
    pub(crate) until: Until,
    /// Growth is not looked for before: what goes up and down with the traffic, or with failures, is none.
    pub(crate) patience_s: f64,
    /// Relative half-width at which a mean has converged.
    pub(crate) error: f64,
}

impl Plan {
    /// Longest warm-up, events per replication.
    fn longest_warm_up(&self) -> u64 {
        let r = self.replications as u64;
        let unless_given = || (LONGEST_WARM_UP * self.warm_up).max(self.most_events() / r);
        self.most_warm_up.map_or_else(unless_given, |events| (events / r).max(self.warm_up))
    }

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
    /// What became of the warm-up; [`WarmUp::Stopped`] until it has ended.
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

    /// Whether its warm-up goes on.
    fn is_unsettled(&self) -> bool {
        self.is_stable() && self.warm_up == WarmUp::Stopped
    }

    /// Whether it can be measured.
    fn is_measured(&self) -> bool {
        self.is_stable() && self.warm_up == WarmUp::Settled
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
        let risen = self.lanes.iter().map(|lane| growth::risen_to(lane.watch.jobs())).sum::<f64>();
        if risen < self.contender.filling * self.lanes.len() as f64 {
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

    fn end_warm_up(&mut self) {
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
    /// Runs all replications of these policies to their targets, in turns: where a run is stopped they are about equally far.
    fn advance(&mut self, targets: &[u64], who: impl Fn(&Racer) -> bool) {
        let mut running: Vec<&mut Racer> = self.racers.iter_mut().filter(|racer| who(racer)).collect();
        for parts in (1..=TURNS).rev() {
            running.iter_mut().for_each(|racer| racer.advance(targets, parts, self.observer));
            if self.observer.is_stopped() {
                break;
            }
        }
        let patience_s = self.plan.patience_s;
        running.iter_mut().for_each(|racer| racer.look_for_growth(patience_s));
    }

    /// Returns its length, events per replication.
    fn warm_up(&mut self) -> u64 {
        let length = match self.settle() {
            Ok(settled) => self.catch_up(settled),
            Err(stopped) => {
                self.racers.iter_mut().for_each(|racer| racer.warm_up = WarmUp::Stopped);
                stopped
            }
        };
        self.racers.iter_mut().for_each(Racer::end_warm_up);
        length
    }

    /// Runs on until all have settled or are given up. Returns how far the last of those that settled went, in events per
    /// replication; or else how far the others were when the run was stopped.
    fn settle(&mut self) -> Result<u64, u64> {
        let plan = self.plan;
        let longest = plan.longest_warm_up();
        let least = plan.least_warm_up.min(longest);
        let (mut length, mut settled) = (plan.warm_up, 0);
        loop {
            self.observer.warming_up(plan.replications as u64 * length.max(least));
            self.advance(&vec![length; plan.replications], Racer::is_unsettled);
            if self.observer.is_stopped() {
                return Err(length);
            }
            for racer in self.racers.iter_mut().filter(|racer| racer.is_unsettled()) {
                if length >= least && racer.has_settled(plan.error) {
                    (racer.warm_up, settled) = (WarmUp::Settled, length);
                }
            }
            if length >= longest {
                self.give_up();
            }
            if !self.racers.iter().any(Racer::is_unsettled) {
                return Ok(settled);
            }
            length = longest.min(length + length / 5);
        }
    }

    /// Those that have not settled by now have no means, and the others need not wait for them.
    fn give_up(&mut self) {
        let unsettled = self.racers.iter_mut().filter(|racer| racer.is_unsettled());
        unsettled.for_each(|racer| racer.warm_up = WarmUp::TooShort);
    }

    /// Those that settled follow as far as the last of them went, and beyond where that is cheap. Returns how far.
    fn catch_up(&mut self, settled: u64) -> u64 {
        let r = self.plan.replications;
        let length = if r >= CHEAP { 2 * settled } else { settled };
        self.observer.warming_up(r as u64 * length);
        self.advance(&vec![length; r], Racer::is_measured);
        length
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
            self.advance(&(0..r).map(target).collect::<Vec<_>>(), Racer::is_measured);
            let widest = self.racers.iter().filter(|racer| racer.is_measured()).map(Racer::relative_error);
            let widest = widest.fold(0.0, f64::max);
            self.observer.round_ended(&Round {
                counted_events: counted,
                warm_up_events: r * warm_up,
                widest_relative_error: widest,
            });
            if self.observer.is_stopped()
                || !self.racers.iter().any(Racer::is_measured)
                || counted >= limit
                || widest <= error
            {
                return;
            }
            // The half-width shrinks like the square root of the length.
            let wanted = (1.1 * (widest / error).powi(2)).clamp(1.2, 2.0);
            counted = limit.min((counted as f64 * wanted).ceil() as u64);
        }
    }
}
