//! Which engine simulates a policy on a fleet, and the chains it makes.

use std::fmt;
use std::sync::{Arc, OnceLock};

use shortline_core::fleet::Fleet;
use shortline_core::fleet::settings::Overflow;
use shortline_core::policy::{Policy, PolicySpec, PolicyVisitor, with_policy};
use shortline_core::state::Places;

use crate::SimulationError;
use crate::calendar::Blueprint;
use crate::calendar::arrivals::Start;
use crate::calendar::chain::CalendarChain;
use crate::calendar::reach::Reach;
use crate::calendar::trace::{self, RunPath};
use crate::chain::{Chain, Streams, Walk};
use crate::fates::Fates;
use crate::lumped::{self, Lumpable, LumpableVisitor, with_lumpable};
use crate::markov::{Clock, MarkovChain};
use crate::model::{self, Model};
use crate::report::Engine;
use crate::seen;
use crate::tracked::{ThinnedClock, TrackedChain};

/// A fleet, with what the chains of one engine share.
#[derive(Debug)]
pub(crate) struct Workshop {
    pub(crate) model: Arc<Model>,
    clock: OnceLock<Arc<Clock>>,
    thinned: OnceLock<Arc<ThinnedClock>>,
    may_lump: bool,
    /// Jobs are so few that counting ticks of idle servers would take for ever.
    is_sparse: bool,
    /// With an event calendar, and why.
    calendar: Option<(Arc<Blueprint>, &'static str)>,
    walks: bool,
}

/// Makes a replication from its streams.
pub(crate) type MakeChain = Box<dyn Fn(Streams) -> Box<dyn Chain> + Send>;

/// The same, to be looked at when the time comes.
pub(crate) type MakeWalk = Box<dyn Fn(Streams) -> Box<dyn Walk> + Send>;

/// Which engine to choose, where there is a choice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Choice {
    /// The fastest.
    Lumped,
    /// The fastest that drives the dispatcher.
    Unlumped,
    /// The event calendar.
    Calendar,
}

/// A policy ready to be simulated.
pub(crate) struct Contender {
    pub(crate) name: String,
    pub(crate) engine: Engine,
    pub(crate) why: &'static str,
    /// Jobs may pile up without end.
    pub(crate) unbounded: bool,
    /// Jobs that the fleet may take in before it levels off ([`Workshop::filling`]).
    pub(crate) filling: f64,
    pub(crate) fates: Fates,
    pub(crate) chain: MakeChain,
    /// Where the workshop makes walks.
    pub(crate) walk: Option<MakeWalk>,
    /// Where the jobs are those of a trace.
    pub(crate) path: Option<RunPath>,
}

impl fmt::Debug for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Contender").field("name", &self.name).field("engine", &self.engine).finish_non_exhaustive()
    }
}

const LUMPED: &str = "exponential sizes, every job type on every server: servers of a type are exchangeable";
const COUNTS: &str =
    "exponential sizes, rates that do not depend on the job type, nobody gives up waiting: counts suffice";
const RATES: &str = "exponential sizes; rates depend on the job type: each job is followed";
const FEW: &str = "exponential sizes; few jobs on many servers: each job is followed, and only busy servers tick";
const ASKED: &str = "the event calendar was asked for";
const TRACE: &str = "recorded jobs: the event calendar, one path; intervals by batch means";
const TIMEOUTS: &str = "exponential sizes; jobs that wait in front may give up: each job is followed";

impl Workshop {
    /// For contenders that run as long as it takes.
    pub(crate) fn new(model: Model, choice: Choice) -> Result<Self, SimulationError> {
        let model = Arc::new(model);
        let why = match choice {
            Choice::Calendar => Some(ASKED),
            Choice::Lumped | Choice::Unlumped => model::beyond_markov(&model.fleet),
        };
        let calendar = match why {
            Some(why) => Some((Arc::new(Blueprint::new(&model, None, 1.0)?), why)),
            None => None,
        };
        Ok(Self {
            is_sparse: model.is_sparse(),
            may_lump: choice == Choice::Lumped && calendar.is_none() && lumped::is_exchangeable(&model),
            calendar,
            model,
            clock: OnceLock::new(),
            thinned: OnceLock::new(),
            walks: false,
        })
    }

    /// For contenders that walk.
    pub(crate) fn for_walks(model: Model, choice: Choice) -> Result<Self, SimulationError> {
        let choice = if choice == Choice::Lumped { Choice::Unlumped } else { choice };
        Ok(Self { walks: true, ..Self::new(model, choice)? })
    }

    /// For contenders whose jobs are these, arriving so many times as fast.
    pub(crate) fn for_trace(model: Model, jobs: trace::Jobs, load_factor: f64) -> Result<Self, SimulationError> {
        let model = Arc::new(model);
        Ok(Self {
            calendar: Some((Arc::new(Blueprint::new(&model, Some(jobs), load_factor)?), TRACE)),
            may_lump: false,
            is_sparse: false,
            model,
            clock: OnceLock::new(),
            thinned: OnceLock::new(),
            walks: false,
        })
    }

    /// Prepares one of the policies that have a name.
    pub(crate) fn named(&self, spec: PolicySpec) -> Result<Contender, SimulationError> {
        if self.may_lump
            && !self.is_sparse
            && let Some(chain) = with_lumpable(spec, self.model.fleet.server_count(), Lump(self))
        {
            let unbounded = self.has_unbounded_servers();
            let (name, engine) = (spec.to_string(), Engine::Lumped);
            let fates = self.fates(Places::Buffers);
            let filling = self.filling(weighs_speed(spec));
            return Ok(Contender {
                name,
                engine,
                why: LUMPED,
                unbounded,
                filling,
                fates,
                chain,
                walk: None,
                path: None,
            });
        }
        let fleet = &self.model.fleet;
        let contender = with_policy(spec, fleet, Prepare { workshop: self, seen: fleet, name: spec.to_string() })?;
        Ok(Contender { filling: self.filling(weighs_speed(spec)), ..contender })
    }

    /// Prepares one of them that decides on the fleet `seen`; servers are not lumped.
    pub(crate) fn seeing(&self, spec: PolicySpec, seen: &Arc<Fleet>) -> Result<Contender, SimulationError> {
        seen::check(&self.model.fleet, seen)?;
        let name = format!("{spec} seeing {}", seen.name());
        let contender = with_policy(spec, seen, Prepare { workshop: self, seen, name })?;
        Ok(Contender { filling: self.filling(weighs_speed(spec)), ..contender })
    }

    /// Prepares any policy.
    pub(crate) fn prepare<P: Policy>(&self, name: String, policy: P) -> Contender {
        self.prepare_seeing(&self.model.fleet, name, policy)
    }

    /// Prepares a policy that decides on the fleet `seen`, on the engine that suits it.
    fn prepare_seeing<P: Policy>(&self, seen: &Arc<Fleet>, name: String, policy: P) -> Contender {
        let fleet = &self.model.fleet;
        let lines = P::PLACES == Places::Slots || fleet.settings().overflow == Overflow::Wait;
        let unbounded_servers = P::PLACES == Places::Buffers && self.has_unbounded_servers();
        // Who gives up after a time leaves a line that is as long as what arrives in it, whatever the load.
        let settings = &fleet.settings().lines;
        let unbounded = unbounded_servers || (lines && settings.size.is_none() && settings.timeout_s.is_none());
        if let Some((plan, why)) = &self.calendar {
            let (fates, filling) = (self.fates(P::PLACES), self.filling(true));
            let (chain, walk, path) = self.by_calendar(seen, plan, policy);
            return Contender { name, engine: Engine::Calendar, why, unbounded, filling, fates, chain, walk, path };
        }
        let walk = self.walks.then(|| self.walk(seen, policy.clone()));
        let timeouts = lines && fleet.settings().lines.timeout_s.is_some();
        let why = if timeouts {
            Some(TIMEOUTS)
        } else if self.model.uniform_rates.is_none() {
            Some(RATES)
        } else {
            self.is_sparse.then_some(FEW)
        };
        let (why, chain) = match why {
            Some(why) => (why, self.tracked(seen, policy)),
            None => (COUNTS, self.counted(seen, policy)),
        };
        let fates = self.fates(P::PLACES);
        let filling = self.filling(true);
        Contender { name, engine: Engine::Markov, why, unbounded, filling, fates, chain, walk, path: None }
    }

    /// What may happen to a job under a policy that looks for such places.
    fn fates(&self, places: Places) -> Fates {
        let arriving = match &self.calendar {
            Some((plan, _)) => plan.arriving(),
            None => self.model.arrival_rates.iter().map(|&rate| rate > 0.0).collect(),
        };
        Fates::of(&self.model.fleet, places, |l| arriving[l.index()])
    }

    /// How far the clock may run, where there is one.
    pub(crate) fn reach(&self) -> Option<Reach> {
        self.calendar.as_ref().map(|(plan, _)| plan.reach)
    }

    fn by_calendar<P: Policy>(
        &self,
        seen: &Arc<Fleet>,
        plan: &Arc<Blueprint>,
        policy: P,
    ) -> (MakeChain, Option<MakeWalk>, Option<RunPath>) {
        let make = {
            let (plan, seen) = (Arc::clone(plan), Arc::clone(seen));
            move |streams, start| CalendarChain::new(&plan, &seen, policy.clone(), streams, start)
        };
        let (walk, path) = (make.clone(), make.clone());
        let jobs = plan.trace_len() as u64;
        (
            Box::new(move |streams| Box::new(make(streams, Start::Anywhere))),
            self.walks.then(|| -> MakeWalk { Box::new(move |streams| Box::new(walk(streams, Start::AtZero))) }),
            plan.has_trace().then(|| -> RunPath {
                Box::new(move |seed, observer, fates| {
                    trace::run(path(Streams::of_path(seed), Start::AtZero), jobs, observer, fates)
                })
            }),
        )
    }

    /// Jobs that the fleet may take in before it levels off: while it fills, its number of jobs climbs as straight as that of
    /// an unstable one. Each of `G` dispatchers fills servers by the jobs that it has sent there; who weighs
    /// speeds takes a server of rate `mu_r` until `mu_r / mu_min` jobs are there before the slowest gets one; and with counts
    /// that are `delay` old, jobs go on to where they were few: `G sum_r slots_r w_r + 2 lambda delay`, `w_r = mu_r / mu_min`
    /// or 1. O(edges).
    fn filling(&self, weighs_speed: bool) -> f64 {
        let fleet = &self.model.fleet;
        let rates = self.model.largest_rates();
        let slowest = rates.iter().copied().filter(|&rate| rate > 0.0).fold(f64::INFINITY, f64::min);
        let weight = |rate: f64| if weighs_speed { rate / slowest } else { 1.0 };
        let places = fleet.servers().zip(rates).map(|(r, rate)| f64::from(fleet.slots(r)) * weight(rate)).sum::<f64>();
        let information = &fleet.settings().information;
        f64::from(information.gateways) * places + 2.0 * self.model.arrival_rate * information.delay_s
    }

    fn has_unbounded_servers(&self) -> bool {
        self.model.fleet.servers().any(|r| self.model.fleet.buffer(r).is_none())
    }

    fn counted<P: Policy>(&self, seen: &Arc<Fleet>, policy: P) -> MakeChain {
        let (model, seen, clock) = (Arc::clone(&self.model), Arc::clone(seen), self.clock());
        Box::new(move |streams| Box::new(MarkovChain::new(&model, &seen, &clock, policy.clone(), streams)))
    }

    fn clock(&self) -> Arc<Clock> {
        Arc::clone(self.clock.get_or_init(|| Arc::new(Clock::new(&self.model))))
    }

    fn walk<P: Policy>(&self, seen: &Arc<Fleet>, policy: P) -> MakeWalk {
        let (model, seen) = (Arc::clone(&self.model), Arc::clone(seen));
        let clock = Arc::clone(self.thinned.get_or_init(|| Arc::new(ThinnedClock::new(&model))));
        Box::new(move |streams| Box::new(TrackedChain::new(&model, &seen, &clock, policy.clone(), streams)))
    }

    fn tracked<P: Policy>(&self, seen: &Arc<Fleet>, policy: P) -> MakeChain {
        let (model, seen) = (Arc::clone(&self.model), Arc::clone(seen));
        let clock = Arc::clone(self.thinned.get_or_init(|| Arc::new(ThinnedClock::new(&model))));
        Box::new(move |streams| Box::new(TrackedChain::new(&model, &seen, &clock, policy.clone(), streams)))
    }
}

struct Prepare<'a> {
    workshop: &'a Workshop,
    seen: &'a Arc<Fleet>,
    name: String,
}

impl PolicyVisitor for Prepare<'_> {
    type Output = Contender;

    fn visit<P: Policy>(self, policy: P) -> Self::Output {
        self.workshop.prepare_seeing(self.seen, self.name, policy)
    }
}

struct Lump<'a>(&'a Workshop);

impl LumpableVisitor for Lump<'_> {
    type Output = MakeChain;

    fn visit<L: Lumpable>(self, rule: L) -> MakeChain {
        let (model, clock) = (Arc::clone(&self.0.model), self.0.clock());
        Box::new(move |streams| lumped::chain(&model, &clock, rule, streams))
    }
}

/// Whether a policy sends jobs to fast servers that have some rather than to slow ones that have none.
fn weighs_speed(spec: PolicySpec) -> bool {
    matches!(spec, PolicySpec::Sed | PolicySpec::Nq)
}

#[cfg(test)]
mod tests {
    use shortline_core::fleet::{
        ArrivalRates, FleetParts, JobTypeParts, Names, ServerParts, ServerTypeParts, Settings, Speed,
    };
    use shortline_core::graph::Edges;

    use super::*;

    /// Four servers of one type, two job types of these sizes at this rate each.
    fn workshop(rate: f64, sizes: [f64; 2]) -> Workshop {
        let names = |base: &str, count| Names { base: base.into(), count };
        let job_type = |i: usize| JobTypeParts {
            names: names(&format!("j{i}"), None),
            arrivals: ArrivalRates::Each(rate),
            size: sizes[i],
        };
        let parts = FleetParts {
            name: String::new(),
            server_types: vec![ServerTypeParts { name: "a".into(), speed: Speed::Rate(1.0), slots: 1 }],
            servers: vec![ServerParts {
                names: names("s", Some(4)),
                server_type: 0,
                buffer: Some(5),
                addresses: vec![],
            }],
            job_types: vec![job_type(0), job_type(1)],
            rates: vec![],
            edges: Edges::Complete,
            settings: Settings::default(),
        };
        Workshop::new(Model::new(&Arc::new(Fleet::new(parts).unwrap()), 1.0).unwrap(), Choice::Lumped).unwrap()
    }

    /// Every engine, in each of its forms.
    fn contenders() -> Vec<Contender> {
        let (lumped, followed, sparse) = (workshop(1.5, [1.0; 2]), workshop(1.5, [1.0, 0.9]), workshop(0.01, [1.0; 2]));
        let counted = Workshop { may_lump: false, ..workshop(1.5, [1.0; 2]) };
        let contenders = [&lumped, &counted, &followed, &sparse].map(|w| w.named("jsq(2)".parse().unwrap()).unwrap());
        assert_eq!(contenders.each_ref().map(|contender| contender.why), [LUMPED, COUNTS, RATES, FEW]);
        let model = Model::new(&lumped.model.fleet, 1.0).unwrap();
        let calendar = Workshop::new(model, Choice::Calendar).unwrap().named("jsq(2)".parse().unwrap()).unwrap();
        contenders.into_iter().chain([calendar]).collect()
    }

    #[test]
    fn every_engine_returns_after_so_many_ticks() {
        for contender in contenders() {
            let mut chain = (contender.chain)(Streams::new(1, 0));
            let events = chain.run(1_000_000, 1000);
            assert!((1..=1200).contains(&events), "{}: {events} events", contender.why);
            assert_eq!(chain.progress().events, events);
        }
    }

    #[test]
    fn where_a_run_is_cut_changes_nothing() {
        for contender in contenders() {
            let (mut whole, mut cut) = ((contender.chain)(Streams::new(1, 0)), (contender.chain)(Streams::new(1, 0)));
            assert_eq!(whole.run(5000, u64::MAX), 5000);
            let mut left = 5000;
            while left > 0 {
                left -= cut.run(left, 77);
            }
            let (a, b) = (whole.progress(), cut.progress());
            assert_eq!(a.events, b.events);
            assert!((a.time_s - b.time_s).abs() < 1e-9 * a.time_s, "{}: {a:?} and {b:?}", contender.why);
            let (a, b) = (whole.record().law.times(), cut.record().law.times());
            assert_eq!((a.jobs, a.waited), (b.jobs, b.waited), "{}", contender.why);
        }
    }
}
