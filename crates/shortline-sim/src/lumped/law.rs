//! Counts choose in the law of the dispatcher.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rand::{Rng, SeedableRng};
use shortline_core::fleet::{
    ArrivalRates, Fleet, FleetParts, JobTypeParts, Names, ServerParts, ServerTypeParts, Settings, Speed,
};
use shortline_core::graph::Edges;
use shortline_core::policy::{Policy, PolicyVisitor, with_policy};
use shortline_core::random::{Generator, below};
use shortline_core::state::State;
use shortline_core::{Dispatcher, JobTypeId, ServerId};
use statrs::distribution::{ChiSquared, ContinuousCDF};

use super::counts::Counts;
use super::rules::{Lumpable, LumpableVisitor, with_lumpable};
use crate::model::Model;

const DRAWS: u32 = 20_000;
const NOBODY: u32 = u32::MAX;

/// Sends a job where it is told to, or else where the policy wants it.
#[derive(Clone, Debug)]
struct Told<P> {
    server: Arc<AtomicU32>,
    policy: P,
}

impl<P: Policy> Policy for Told<P> {
    fn choose<R: Rng>(&mut self, state: &State, job_type: JobTypeId, rng: &mut R) -> Option<ServerId> {
        match self.server.load(Ordering::Relaxed) {
            NOBODY => self.policy.choose(state, job_type, rng),
            server => Some(ServerId::new(server as usize)),
        }
    }
}

/// How often the dispatcher, and the counts, choose a server of this class with so many jobs; `None` = no place.
type Choices = BTreeMap<Option<(usize, usize)>, [u32; 2]>;

/// The state: jobs of each server.
struct Choose<'a>(&'a Arc<Fleet>, &'a [usize]);

impl PolicyVisitor for Choose<'_> {
    type Output = Choices;

    fn visit<P: Policy>(self, policy: P) -> Choices {
        let Self(fleet, jobs) = self;
        let server = Arc::new(AtomicU32::new(NOBODY));
        let told = Told { server: Arc::clone(&server), policy };
        let mut dispatcher = Dispatcher::new(Arc::clone(fleet), told);
        let (any, mut rng) = (JobTypeId::new(0), Generator::seed_from_u64(1));
        for (r, &jobs) in jobs.iter().enumerate() {
            server.store(r as u32, Ordering::Relaxed);
            (0..jobs).for_each(|_| assert!(dispatcher.route(any, || (), &mut rng).server().is_some()));
        }
        server.store(NOBODY, Ordering::Relaxed);
        let mut choices = Choices::new();
        for _ in 0..DRAWS {
            let server = dispatcher.route(any, || (), &mut rng).server();
            let kind = server.map(|r| (fleet.server_type(r).index(), jobs[r.index()]));
            choices.entry(kind).or_default()[0] += 1;
            server.into_iter().for_each(|server| assert!(dispatcher.complete(server).is_none()));
        }
        choices
    }
}

/// The same state as counts.
struct ChooseByCounts<'a>(&'a Counts, &'a mut Choices);

impl LumpableVisitor for ChooseByCounts<'_> {
    type Output = ();

    fn visit<L: Lumpable>(self, rule: L) {
        let mut rng = Generator::seed_from_u64(2);
        for _ in 0..DRAWS {
            let server = rule.choose(self.0, &mut rng).filter(|&server| self.0.has_room(server));
            self.1.entry(server.map(|server| (server.0, self.0.jobs(server)))).or_default()[1] += 1;
        }
    }
}

fn fleet(servers: &[(f64, u32, u32)], buffer: u32) -> Arc<Fleet> {
    let speed = |&(rate, slots, _): &(f64, u32, u32)| ServerTypeParts {
        name: format!("{rate} {slots}"),
        speed: Speed::Rate(rate),
        slots,
    };
    let entry = |(i, &(.., count)): (usize, &(f64, u32, u32))| ServerParts {
        names: Names { base: format!("s{i}"), count: Some(count) },
        server_type: i,
        buffer: Some(buffer),
        addresses: vec![],
    };
    let parts = FleetParts {
        name: String::new(),
        server_types: servers.iter().map(speed).collect(),
        servers: servers.iter().enumerate().map(entry).collect(),
        job_types: vec![JobTypeParts {
            names: Names { base: "j".into(), count: None },
            arrivals: ArrivalRates::Each(1.0),
            size: 1.0,
        }],
        rates: vec![],
        edges: Edges::Complete,
        settings: Settings::default(),
    };
    Arc::new(Fleet::new(parts).unwrap())
}

/// Two-sample chi-square with as many draws each; cells with few draws are left out. P(larger) by chance.
fn p_value(choices: &Choices) -> f64 {
    let cells = choices.values().filter(|[a, b]| a + b >= 20);
    let (cells, chi2) = cells
        .fold((0, 0.0), |(n, sum), &[a, b]| (n + 1, sum + (f64::from(a) - f64::from(b)).powi(2) / f64::from(a + b)));
    if cells < 2 { 1.0 } else { ChiSquared::new(f64::from(cells - 1)).unwrap().sf(chi2) }
}

/// Goal: counts choose in the law of the dispatcher. Method: chi-square on the kinds chosen in 40 random states for
/// each of 3 fleets and 10 policies, 1,200 tests at level 1e-6: false-alarm probability 1.2e-3 were the seeds free.
#[test]
fn counts_choose_in_the_law_of_the_dispatcher() {
    let fleets = [
        fleet(&[(2.0, 1, 3), (1.0, 1, 4), (0.5, 1, 2)], 4),
        fleet(&[(1.0, 2, 3), (1.0, 1, 3), (0.5, 4, 2)], 5),
        fleet(&[(1.0, 3, 6)], 6),
    ];
    let mut rng = Generator::seed_from_u64(3);
    for fleet in &fleets {
        let model = Model::new(fleet, 1.0).unwrap();
        for state in 0..40 {
            // From light to heavy states.
            let most = 1 + below(&mut rng, 6);
            let jobs = fleet.servers().map(|r| below(&mut rng, most.min(fleet.buffer(r).unwrap()) + 1) as usize);
            let jobs: Vec<usize> = jobs.collect();
            let mut counts = Counts::new(&model);
            for (r, &jobs) in jobs.iter().enumerate() {
                let class = fleet.server_type(ServerId::new(r)).index();
                for found in 0..jobs {
                    let server = counts.classes[class].levels.at_least(found) - 1;
                    assert_eq!(counts.join((class, server)), found);
                }
            }
            for name in ["random", "jsq", "jfsq", "jiq", "jfiq", "jsq(2)", "jfsq(2)", "jsq(5)", "sed", "nq"] {
                let spec = name.parse().unwrap();
                let mut choices = with_policy(spec, fleet, Choose(fleet, &jobs)).unwrap();
                let by_counts = ChooseByCounts(&counts, &mut choices);
                with_lumpable(spec, fleet.server_count(), by_counts).expect("counts can tell it");
                let p = p_value(&choices);
                assert!(p > 1e-6, "{name}, state {state}: p = {p}, {choices:?}, {jobs:?}");
            }
        }
    }
}
