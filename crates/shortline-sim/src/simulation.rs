//! A simulation as one asks for it: which fleet, which policies, how certain, from which seed.

mod answer;
mod plan;
mod recorded;

use std::fmt;
use std::sync::Arc;

use shortline_core::fleet::Fleet;
use shortline_core::policy::{Policy, PolicySpec};

use crate::SimulationError;
use crate::calendar::trace::TraceJob;
use crate::engine::{Choice, Contender, Workshop};
use crate::model::Model;
use crate::report::Report;
use crate::rounds::{self, Plan};
use crate::trajectory::{self, Trajectories, Trajectory};

/// When to stop.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Until {
    /// When exactly this many events were counted per policy, the warm-up not among them.
    Events(u64),
    /// When every policy's mean response time has an interval of at most this relative half-width.
    RelativeError {
        /// Half-width over mean.
        error: f64,
        /// Most events to be counted per policy before giving up.
        most_events: u64,
    },
}

/// Which job types the report lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PerType {
    /// The most frequent ones.
    Top(usize),
    /// All.
    All,
}

/// What a round brought.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Round {
    /// Events counted so far per policy.
    pub counted_events: u64,
    /// Events of each policy's warm-up, before these.
    pub warm_up_events: u64,
    /// The largest relative half-width of the policies' mean response times.
    pub widest_relative_error: f64,
}

/// Looks on while a simulation runs, and may stop it. The defaults see nothing and stop nothing.
pub trait Observer: Sync {
    /// So many more events were simulated; called from all threads.
    fn advanced(&self, events: u64) {
        let _ = events;
    }
    /// The warm-up goes on, up to so many events of each policy at least.
    fn warming_up(&self, events: u64) {
        let _ = events;
    }
    /// A round of measuring ended.
    fn round_ended(&self, round: &Round) {
        let _ = round;
    }
    /// Whether to stop now. The report is of what there is, not converged.
    fn is_stopped(&self) -> bool {
        false
    }
    /// CPU time of the process so far; the simulator itself reads no clock.
    fn cpu_s(&self) -> f64 {
        0.0
    }
}

/// Sees nothing and stops nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl Observer for Unobserved {}

/// Prepares a policy of one's own for a fleet.
type Prepare = dyn Fn(&Workshop, String) -> Contender;

enum Rule {
    Named(PolicySpec),
    Seeing(PolicySpec, Arc<Fleet>),
    Own { name: String, prepare: Box<Prepare> },
}

/// A simulation to be run.
///
/// ```
/// use std::sync::Arc;
/// use shortline_core::fleet::*;
/// use shortline_core::graph::Edges;
/// use shortline_sim::{Simulation, Until};
///
/// # let parts = FleetParts {
/// #     name: "two servers".into(),
/// #     server_types: vec![ServerTypeParts { name: "A10".into(), speed: Speed::Rate(1.0), slots: 1 }],
/// #     servers: vec![ServerParts { names: Names { base: "gpu".into(), count: Some(2) }, server_type: 0, buffer: None, addresses: vec![] }],
/// #     job_types: vec![JobTypeParts { names: Names { base: "m".into(), count: None }, arrivals: ArrivalRates::Each(1.0), size: 1.0 }],
/// #     rates: vec![], edges: Edges::Complete, settings: Settings::default(),
/// # };
/// // Two servers of rate 1, one job type at 1/s.
/// let fleet = Arc::new(Fleet::new(parts)?);
/// let report = Simulation::new(&fleet)
///     .policy("central".parse()?)
///     .policy("random".parse()?)
///     .seed(1)
///     .until(Until::Events(1_000_000))
///     .run()?;
/// let mean_s = |i: usize| report.policies[i].means.as_ref().unwrap().mean_response_s.unwrap().mean;
/// assert!((mean_s(0) - 4.0 / 3.0).abs() < 0.03, "M/M/2 at load 1/2");
/// assert!((mean_s(1) - 2.0).abs() < 0.05, "M/M/1 at load 1/2");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Simulation {
    fleet: Arc<Fleet>,
    rules: Vec<Rule>,
    seed: u64,
    until: Until,
    most_warm_up: Option<u64>,
    replications: Option<usize>,
    load_factor: f64,
    threads: Option<usize>,
    per_type: PerType,
    choice: Choice,
    idle_of_fastest: Option<usize>,
    trace: Option<Arc<Vec<TraceJob>>>,
}

impl fmt::Debug for Simulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulation").field("seed", &self.seed).field("until", &self.until).finish_non_exhaustive()
    }
}

impl Simulation {
    /// Simulates this fleet: to 1 % with seed 0, on all cores, with the fleet's own arrival rates.
    #[must_use]
    pub fn new(fleet: &Arc<Fleet>) -> Self {
        Self {
            fleet: Arc::clone(fleet),
            rules: Vec::new(),
            seed: 0,
            until: Until::RelativeError { error: 0.01, most_events: 2_000_000_000 },
            most_warm_up: None,
            replications: None,
            load_factor: 1.0,
            threads: None,
            per_type: PerType::Top(100),
            choice: Choice::Lumped,
            idle_of_fastest: None,
            trace: None,
        }
    }

    /// One more policy. Without any, the fleet's own is taken.
    #[must_use]
    pub fn policy(mut self, policy: PolicySpec) -> Self {
        self.rules.push(Rule::Named(policy));
        self
    }

    /// One more policy, which decides on the fleet `seen`: the same but for the values of the speeds, in the same order. The
    /// jobs are served at the true speeds. Its name in the report is `POLICY seeing NAME`, with the name of that fleet.
    ///
    /// What does it cost to declare wrong speeds? Ranks do for the policies that need no more; with the same seed they decide
    /// as they do on the true speeds.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use shortline_core::fleet::*;
    /// use shortline_core::graph::Edges;
    /// use shortline_sim::{Simulation, Until};
    ///
    /// let fleet = |name: &str, speeds: [Speed; 2]| {
    ///     let server_type = |speed| ServerTypeParts { name: String::new(), speed, slots: 1 };
    ///     let server = |base: &str, server_type| ServerParts {
    ///         names: Names { base: base.into(), count: None }, server_type, buffer: Some(5), addresses: vec![],
    ///     };
    ///     Fleet::new(FleetParts {
    ///         name: name.into(),
    ///         server_types: vec![
    ///             ServerTypeParts { name: "fast".into(), ..server_type(speeds[0]) },
    ///             ServerTypeParts { name: "slow".into(), ..server_type(speeds[1]) },
    ///         ],
    ///         servers: vec![server("a", 0), server("b", 1)],
    ///         job_types: vec![JobTypeParts { names: Names { base: "m".into(), count: None }, arrivals: ArrivalRates::Each(1.0), size: 1.0 }],
    ///         rates: vec![], edges: Edges::Complete, settings: Settings::default(),
    ///     }).map(Arc::new)
    /// };
    /// let truth = fleet("true", [Speed::Rate(1.0), Speed::Rate(0.5)])?;
    /// let ranks = fleet("ranks", [Speed::Rank(1), Speed::Rank(2)])?;
    /// let wrong = fleet("wrong", [Speed::Rate(1.0), Speed::Rate(0.9)])?;
    /// let report = Simulation::new(&truth)
    ///     .lump(false)
    ///     .policy("jfsq".parse()?)
    ///     .policy_seeing("jfsq".parse()?, &ranks)
    ///     .policy("sed".parse()?)
    ///     .policy_seeing("sed".parse()?, &wrong)
    ///     .until(Until::Events(400_000))
    ///     .run()?;
    /// assert_eq!(report.policies[1].policy, "jfsq seeing ranks");
    /// assert_eq!(report.policies[0].means, report.policies[1].means);
    /// assert_ne!(report.policies[2].means, report.policies[3].means);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn policy_seeing(mut self, policy: PolicySpec, seen: &Arc<Fleet>) -> Self {
        self.rules.push(Rule::Seeing(policy, Arc::clone(seen)));
        self
    }

    /// One more policy, of your own.
    ///
    /// ```
    /// use rand::Rng;
    /// use shortline_core::policy::Policy;
    /// use shortline_core::state::State;
    /// use shortline_core::{JobTypeId, ServerId};
    /// use shortline_sim::{Simulation, Until};
    ///
    /// /// The shortest queue; ties to whoever comes first in the row.
    /// #[derive(Clone, Debug)]
    /// struct FirstShortest;
    ///
    /// impl Policy for FirstShortest {
    ///     fn choose<R: Rng>(&mut self, state: &State, l: JobTypeId, _: &mut R) -> Option<ServerId> {
    ///         let mut best = None;
    ///         state.fleet().graph().for_each(l.index(), |server| {
    ///             if state.has_room(server) && best.is_none_or(|(load, _)| state.load(server) < load) {
    ///                 best = Some((state.load(server), server));
    ///             }
    ///         });
    ///         best.map(|(_, server)| server)
    ///     }
    /// }
    ///
    /// # use std::sync::Arc;
    /// # use shortline_core::{fleet::*, graph::Edges};
    /// # let parts = FleetParts {
    /// #     name: "four servers".into(),
    /// #     server_types: vec![ServerTypeParts { name: "A10".into(), speed: Speed::Rate(1.0), slots: 1 }],
    /// #     servers: vec![ServerParts { names: Names { base: "gpu".into(), count: Some(4) }, server_type: 0, buffer: None, addresses: vec![] }],
    /// #     job_types: vec![JobTypeParts { names: Names { base: "m".into(), count: None }, arrivals: ArrivalRates::Each(3.0), size: 1.0 }],
    /// #     rates: vec![], edges: Edges::Complete, settings: Settings::default(),
    /// # };
    /// # let fleet = Arc::new(Fleet::new(parts)?);
    /// let report = Simulation::new(&fleet)
    ///     .own_policy("first shortest", FirstShortest)
    ///     .policy("jsq".parse()?)
    ///     .until(Until::Events(400_000))
    ///     .run()?;
    /// // On equal servers it does not matter who wins a tie.
    /// let ratio = report.differences[0].mean_response_ratio.unwrap().mean;
    /// assert!((ratio - 1.0).abs() < 0.02);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn own_policy<P: Policy>(mut self, name: impl Into<String>, policy: P) -> Self {
        let prepare = move |workshop: &Workshop, name: String| workshop.prepare(name, policy.clone());
        self.rules.push(Rule::Own { name: name.into(), prepare: Box::new(prepare) });
        self
    }

    /// The seed; the same seed gives the same report, on any number of threads.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// When to stop.
    #[must_use]
    pub fn until(mut self, until: Until) -> Self {
        self.until = until;
        self
    }

    /// Most events of a policy's warm-up, over all replications, at least those of its first look. Without a limit it may take as
    /// many events as may be counted, and 256 times those of the first look if that is more. A policy that has not settled by then
    /// has no means; the others go on.
    #[must_use]
    pub fn most_warm_up_events(mut self, events: u64) -> Self {
        self.most_warm_up = Some(events);
        self
    }

    /// Number of independent replications, from 2 to 1024; by default 32, for fleets of thousands of servers or job types 16, 8
    /// or 4. Each of them has a warm-up: fewer make a short run cheaper, and its intervals wider.
    #[must_use]
    pub fn replications(mut self, replications: usize) -> Self {
        self.replications = Some(replications);
        self
    }

    /// Multiplies all arrival rates; divides the arrival times of a [`trace`](Self::trace).
    #[must_use]
    pub fn load_factor(mut self, factor: f64) -> Self {
        self.load_factor = factor;
        self
    }

    /// Number of threads, from 1 to 1024; all cores by default. More than there are replications (32 at most) are idle.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// Which job types the report lists; the 100 most frequent by default.
    #[must_use]
    pub fn per_type(mut self, per_type: PerType) -> Self {
        self.per_type = per_type;
        self
    }

    /// Whether exchangeable servers may be simulated as counts (they are by default); if not, the dispatcher decides
    /// there too.
    #[must_use]
    pub fn lump(mut self, may_lump: bool) -> Self {
        self.choice = if may_lump { Choice::Lumped } else { Choice::Unlumped };
        self
    }

    /// Whether to use the event calendar also where a Markov chain would do, which is faster: to compare the two.
    #[must_use]
    pub fn calendar(mut self, calendar: bool) -> Self {
        self.choice = if calendar { Choice::Calendar } else { Choice::Lumped };
        self
    }

    /// Also asks for the law of the number of idle servers among those of the `server_types` fastest types:
    /// [`Means::idle_servers`](crate::Means::idle_servers). It costs an addition an event. It has none where each job is followed
    /// (rates that depend on the job type, jobs that give up waiting, few jobs on many servers).
    #[must_use]
    pub fn idle_of_fastest(mut self, server_types: usize) -> Self {
        self.idle_of_fastest = Some(server_types);
        self
    }

    /// Runs it.
    ///
    /// # Errors
    /// [`SimulationError`] naming what of the fleet or the options cannot be simulated.
    pub fn run(&self) -> Result<Report, SimulationError> {
        self.run_observed(&Unobserved)
    }

    /// Runs it, looked on by `observer`.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_observed(&self, observer: &dyn Observer) -> Result<Report, SimulationError> {
        self.check_options()?;
        if let Some(jobs) = &self.trace {
            return self.run_trace(jobs, observer);
        }
        let model = Model { idle_of_fastest: self.idle_of_fastest, ..Model::new(&self.fleet, self.load_factor)? };
        let workshop = Workshop::new(model, self.choice)?;
        let contenders = self.contenders(&workshop)?;
        let plan = self.plan(&workshop.model);
        if let Some(reach) = workshop.reach() {
            reach.check("a replication would last", plan.least_s(&workshop.model))?;
        }
        let racers = self.pool()?.install(|| rounds::run(contenders, &plan, observer));
        Ok(self.report(&workshop.model, workshop.reach(), &plan, &racers))
    }

    /// How the fleet fills from empty: the numbers of jobs at these times (ascending), averaged over `replications`
    /// independent runs. Says nothing about when to stop: [`until`](Self::until) is not used.
    ///
    /// Observed like a run; stopped early, it has the moments that all replications reached.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use shortline_core::{fleet::*, graph::Edges};
    /// # let parts = FleetParts {
    /// #     name: "one server".into(),
    /// #     server_types: vec![ServerTypeParts { name: "A10".into(), speed: Speed::Rate(1.0), slots: 1 }],
    /// #     servers: vec![ServerParts { names: Names { base: "gpu".into(), count: None }, server_type: 0, buffer: Some(1), addresses: vec![] }],
    /// #     job_types: vec![JobTypeParts { names: Names { base: "m".into(), count: None }, arrivals: ArrivalRates::Each(1.0), size: 1.0 }],
    /// #     rates: vec![], edges: Edges::Complete, settings: Settings::default(),
    /// # };
    /// use shortline_sim::{Simulation, Unobserved};
    ///
    /// // One server of rate 1 with room for one job, jobs at 1/s: busy with probability (1 - e^-2t) / 2.
    /// let fleet = Arc::new(Fleet::new(parts)?);
    /// let simulation = Simulation::new(&fleet).policy("jsq".parse()?).seed(1);
    /// let filling = simulation.trajectory(&[0.0, 0.5, 10.0], 4000, &Unobserved)?;
    /// let busy = |i: usize| filling.trajectories[0].points[i].mean_jobs.unwrap().mean;
    /// assert_eq!(busy(0), 0.0);
    /// assert!((busy(1) - 0.316).abs() < 0.03 && (busy(2) - 0.5).abs() < 0.03);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`run`](Self::run); and if there are fewer than two replications, or times that do not ascend from 0 on.
    pub fn trajectory(
        &self,
        times_s: &[f64],
        replications: usize,
        observer: &dyn Observer,
    ) -> Result<Trajectories, SimulationError> {
        self.check_options()?;
        if replications < 2 {
            let (option, value) = ("the number of replications", replications as f64);
            return Err(SimulationError::Option { option, value, range: "at least 2, for an interval" });
        }
        let mut earlier = 0.0;
        for &time_s in times_s {
            if !(time_s >= earlier && time_s.is_finite()) {
                let (option, range) = ("a time of the trajectory", "finite, and not before 0 or the one before it");
                return Err(SimulationError::Option { option, value: time_s, range });
            }
            earlier = time_s;
        }
        let workshop = Workshop::for_walks(Model::new(&self.fleet, self.load_factor)?, self.choice)?;
        if let (Some(reach), Some(&last_s)) = (workshop.reach(), times_s.last()) {
            reach.check("the trajectory lasts", last_s)?;
        }
        let contenders = self.contenders(&workshop)?;
        let (fleet, seed) = (&*self.fleet, self.seed);
        let follow = |contender: Contender| {
            let make = contender.walk.expect("this workshop makes walks");
            let points = trajectory::follow(&make, fleet, times_s, seed, replications, observer);
            Trajectory { policy: contender.name, points }
        };
        let trajectories: Vec<Trajectory> = self.pool()?.install(|| contenders.into_iter().map(follow).collect());
        Ok(Trajectories {
            fleet: self.fleet.name().to_owned(),
            servers: self.fleet.server_count(),
            job_types: self.fleet.job_type_count(),
            edges: self.fleet.graph().edge_count(),
            replications,
            seed: self.seed,
            complete: trajectories.iter().all(|trajectory| trajectory.points.len() == times_s.len()),
            trajectories,
        })
    }

    fn check_options(&self) -> Result<(), SimulationError> {
        let fault = |option, value, range| Err(SimulationError::Option { option, value, range });
        match self.until {
            Until::Events(0) => fault("the number of events", 0.0, "at least 1"),
            Until::RelativeError { error, .. } if !(error > 0.0 && error < 1.0) => {
                fault("the relative error", error, "between 0 and 1")
            }
            _ if self.threads.is_some_and(|threads| !(1..=MOST_THREADS).contains(&threads)) => {
                let threads = self.threads.unwrap_or(0) as f64;
                fault(
                    "the number of threads",
                    threads,
                    "from 1 to 1024; replications run on them, at most 32 at a time",
                )
            }
            _ if self.replications.is_some_and(|replications| !(2..=1024).contains(&replications)) => fault(
                "the number of replications",
                self.replications.unwrap_or(0) as f64,
                "from 2, for an interval, to 1024",
            ),
            _ if !(self.load_factor > 0.0 && self.load_factor.is_finite()) => {
                fault("the load factor", self.load_factor, "positive and finite")
            }
            _ => Ok(()),
        }
    }

    fn plan(&self, model: &Model) -> Plan {
        let plan = Plan::new(model, self.seed, self.until);
        Plan { replications: self.replications.unwrap_or(plan.replications), most_warm_up: self.most_warm_up, ..plan }
    }

    fn contenders(&self, workshop: &Workshop) -> Result<Vec<Contender>, SimulationError> {
        if self.rules.is_empty() {
            let own = self.fleet.settings().policy.ok_or(SimulationError::NoPolicy)?;
            return Ok(vec![workshop.named(own)?]);
        }
        let prepare = |rule: &Rule| match rule {
            Rule::Named(spec) => workshop.named(*spec),
            Rule::Seeing(spec, seen) => workshop.seeing(*spec, seen),
            Rule::Own { name, prepare } => Ok(prepare(workshop, name.clone())),
        };
        self.rules.iter().map(prepare).collect()
    }

    fn pool(&self) -> Result<rayon::ThreadPool, SimulationError> {
        let threads = self.threads.unwrap_or(0);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        pool.map_err(|error| SimulationError::Threads { threads, why: error.to_string() })
    }
}

/// Most threads; there are never as many replications.
const MOST_THREADS: usize = 1024;
