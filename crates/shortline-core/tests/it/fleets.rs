//! Fleets for tests, built in code: a few calls, everything by name or by position in the order of the calls.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use rand::SeedableRng;
use shortline_core::fleet::settings::{LineSettings, Overflow, Settings};
use shortline_core::fleet::{ArrivalRates, JobTypeParts, Names, RateOverride, ServerParts, ServerTypeParts, Speed};
use shortline_core::graph::Edges;
use shortline_core::policy::{Policy, PolicySpec, PolicyVisitor, with_policy};
use shortline_core::random::Generator;
use shortline_core::{Decision, Dispatcher, Fleet, FleetParts, JobTypeId, ServerId};

use crate::rules::{Law, law};

/// A fleet under construction.
#[derive(Clone, Default)]
pub(crate) struct Draft {
    pub(crate) types: Vec<DraftType>,
    pub(crate) servers: Vec<DraftServer>,
    pub(crate) job_types: Vec<DraftJobType>,
    pub(crate) rates: Vec<RateOverride>,
    /// `overflow = "wait"`, with the longest line per job type.
    pub(crate) wait: Option<Option<u32>>,
}

#[derive(Clone, Debug)]
pub(crate) struct DraftType {
    pub(crate) name: String,
    pub(crate) rate: f64,
    pub(crate) slots: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct DraftServer {
    pub(crate) name: String,
    pub(crate) server_type: usize,
    pub(crate) buffer: Option<u32>,
}

#[derive(Clone, Debug)]
pub(crate) struct DraftJobType {
    pub(crate) name: String,
    /// Positions of its servers.
    pub(crate) servers: Vec<u32>,
}

/// A failing random fleet is read by people: one line each.
impl fmt::Debug for Draft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let types: Vec<String> = self.types.iter().map(|t| format!("{} {} x{}", t.name, t.rate, t.slots)).collect();
        let servers: Vec<String> = self
            .servers
            .iter()
            .map(|s| format!("{} {} {:?}", s.name, self.types[s.server_type].name, s.buffer))
            .collect();
        writeln!(f, "types   {}\nservers {}", types.join(", "), servers.join(", "))?;
        self.job_types.iter().try_for_each(|j| writeln!(f, "serves  {}: {:?}", j.name, j.servers))?;
        writeln!(f, "rates   {:?}\nwait    {:?}", self.rates, self.wait)
    }
}

impl Draft {
    pub(crate) fn server_type(mut self, name: &str, rate: f64, slots: u32) -> Self {
        self.types.push(DraftType { name: name.into(), rate, slots });
        self
    }

    pub(crate) fn server(mut self, name: &str, server_type: usize, buffer: Option<u32>) -> Self {
        self.servers.push(DraftServer { name: name.into(), server_type, buffer });
        self
    }

    pub(crate) fn job_type(mut self, name: &str, servers: impl IntoIterator<Item = u32>) -> Self {
        self.job_types.push(DraftJobType { name: name.into(), servers: servers.into_iter().collect() });
        self
    }

    pub(crate) fn rate(mut self, job_type: usize, server_type: usize, rate: f64) -> Self {
        self.rates.push(RateOverride { job_type, server_type, rate });
        self
    }

    /// `overflow = "wait"`, lines of at most `size`.
    pub(crate) fn wait(mut self, size: Option<u32>) -> Self {
        self.wait = Some(size);
        self
    }

    /// One more job type per server, which only that server holds: by these a test puts jobs where it wants them,
    /// whatever the policy. The type of server number `i` is number `job types before + i`.
    pub(crate) fn with_private_types(self) -> Self {
        let names: Vec<String> = self.servers.iter().map(|s| format!("only {}", s.name)).collect();
        names.iter().zip(0..).fold(self, |draft, (name, i)| draft.job_type(name, [i]))
    }

    pub(crate) fn build(&self) -> Arc<Fleet> {
        let one = |name: &str| Names { base: name.into(), count: None };
        let parts = FleetParts {
            name: "test".into(),
            server_types: self
                .types
                .iter()
                .map(|t| ServerTypeParts { name: t.name.clone(), speed: Speed::Rate(t.rate), slots: t.slots })
                .collect(),
            servers: self
                .servers
                .iter()
                .map(|s| ServerParts {
                    names: one(&s.name),
                    server_type: s.server_type,
                    buffer: s.buffer,
                    addresses: vec![],
                })
                .collect(),
            job_types: self
                .job_types
                .iter()
                .map(|j| JobTypeParts { names: one(&j.name), arrivals: ArrivalRates::Unknown, size: 1.0 })
                .collect(),
            rates: self.rates.clone(),
            edges: Edges::from_rows(self.job_types.iter().map(|j| j.servers.iter().copied())),
            settings: Settings {
                overflow: if self.wait.is_some() { Overflow::Wait } else { Overflow::Reject },
                lines: LineSettings { size: self.wait.flatten(), timeout_s: None, hold_s: None },
                ..Settings::default()
            },
        };
        Arc::new(Fleet::new(parts).unwrap())
    }
}

/// The server of this name.
pub(crate) fn server(fleet: &Fleet, name: &str) -> ServerId {
    fleet.find_server(name).unwrap_or_else(|| panic!("the fleet has no server `{name}`"))
}

/// The job type of this name.
pub(crate) fn job_type(fleet: &Fleet, name: &str) -> JobTypeId {
    fleet.find_job_type(name).unwrap_or_else(|| panic!("the fleet has no job type `{name}`"))
}

/// Every policy that is built, the sampling ones with a few numbers of choices.
pub(crate) fn policies() -> Vec<PolicySpec> {
    let names = "random,jsq,jfsq,jiq,jfiq,jsq(1),jsq(2),jsq(5),jsq(40),jfsq(2),jfsq(3),jsq(1,1),jsq(2,2),jsq(1,40),\
                 sed,nq,central";
    PolicySpec::parse_list(names).unwrap()
}

/// A live state to look at: a fleet, jobs put at its servers, some servers taken down, and a policy to ask.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    pub(crate) draft: Draft,
    /// Jobs at each server (fewer where they do not fit), in the draft's order.
    pub(crate) jobs: Vec<u64>,
    /// Whether each server is down, in the draft's order.
    pub(crate) down: Vec<bool>,
}

/// What a policy decided about jobs of one type in a state that did not change meanwhile.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Asked {
    /// How often each decision came; `None` = no place.
    pub(crate) decisions: BTreeMap<Option<ServerId>, u64>,
    /// What the rule says, and for how many draws it was asked.
    pub(crate) law: Law,
    pub(crate) draws: u64,
}

impl Scene {
    /// Draws the policy's decision about each of the draft's job types as often as `draws` asks when it is told the law.
    pub(crate) fn ask(&self, policy: PolicySpec, seed: u64, draws: impl Fn(&Law) -> u64) -> Vec<Asked> {
        let fleet = self.draft.clone().with_private_types().build();
        let ask = Ask { scene: self, fleet: Arc::clone(&fleet), policy, seed, draws };
        with_policy(policy, &fleet, ask).unwrap()
    }
}

struct Ask<'a, D> {
    scene: &'a Scene,
    fleet: Arc<Fleet>,
    policy: PolicySpec,
    seed: u64,
    draws: D,
}

impl<D: Fn(&Law) -> u64> PolicyVisitor for Ask<'_, D> {
    type Output = Vec<Asked>;

    fn visit<P: Policy>(self, mut policy: P) -> Vec<Asked> {
        let mut rng = Generator::seed_from_u64(self.seed);
        let mut dispatcher = self.staged(policy.clone(), &mut rng);
        let job_types = (0..self.scene.draft.job_types.len()).map(JobTypeId::new);
        let mut ask = |job_type| {
            let state = dispatcher.state();
            let law = law(self.policy, state, job_type);
            let draws = (self.draws)(&law);
            let mut decisions = BTreeMap::new();
            for _ in 0..draws {
                let chosen = policy.choose(state, job_type, &mut rng).filter(|&server| state.has_room(server));
                *decisions.entry(chosen).or_insert(0) += 1;
            }
            let decision = dispatcher.route(job_type, || (), &mut rng);
            assert!(law.contains_key(&decision.server()), "the dispatcher decides by another rule: {decision:?}");
            undo(&mut dispatcher, decision);
            Asked { decisions, law, draws }
        };
        job_types.map(&mut ask).collect()
    }
}

impl<D> Ask<'_, D> {
    /// A dispatcher with the scene's jobs at their servers and its servers down.
    fn staged<P: Policy>(&self, policy: P, rng: &mut Generator) -> Dispatcher<P, ()> {
        let mut dispatcher = Dispatcher::new(Arc::clone(&self.fleet), policy);
        let first_private = self.scene.draft.job_types.len();
        for (i, &jobs) in self.scene.jobs.iter().enumerate() {
            for _ in 0..jobs {
                let decision = dispatcher.route(JobTypeId::new(first_private + i), || (), rng);
                if decision.server().is_none() {
                    undo(&mut dispatcher, decision);
                    break;
                }
            }
        }
        for (i, _) in self.scene.down.iter().enumerate().filter(|(_, down)| **down) {
            dispatcher.set_up(self.fleet.server_at_file_index(i), false);
        }
        dispatcher
    }
}

/// As if the job had never come.
fn undo<P: Policy>(dispatcher: &mut Dispatcher<P, ()>, decision: Decision) {
    match decision {
        Decision::Joined(server) => assert_eq!(dispatcher.complete(server), None, "nobody else waits"),
        Decision::Waiting(ticket) => assert_eq!(dispatcher.cancel(ticket), Some(())),
        Decision::Blocked(_) => {}
    }
}
