//! The oracle's routing probabilities against the dispatcher's decisions.
//!
//! Goal: both programs follow the same law. Method: drive a dispatcher at random; now and then freeze it and let 1,000
//! copies route the same job. Decisions of probability 0 must never occur; the others are compared by a chi-square
//! statistic summed over all frozen states. Seeds are fixed; a new seed fails a correct program with probability below
//! 1e-5 per policy.

use std::sync::Arc;

use rand::{RngExt, SeedableRng};
use shortline_core::policy::{Policy, PolicySpec, PolicyVisitor, with_policy};
use shortline_core::random::Generator;
use shortline_core::{Dispatcher, Fleet, JobTypeId, ServerId};
use shortline_theory::exact::{PolicyRule, Rule};
use shortline_theory::stability::analyse;
use statrs::distribution::{ChiSquared, ContinuousCDF};

use crate::fleets::{Build, random, with_rates};

const COPIES: u32 = 1_000;
const FALSE_ALARM: f64 = 1e-5;

struct Compare<'a> {
    fleet: Arc<Fleet>,
    rule: &'a PolicyRule,
    seed: u64,
}

/// Chi-square statistic and degrees of freedom.
#[derive(Default)]
struct Distance(f64, f64);

impl PolicyVisitor for Compare<'_> {
    type Output = Distance;

    fn visit<P: Policy>(self, policy: P) -> Distance {
        let mut rng = Generator::seed_from_u64(self.seed);
        let mut dispatcher = Dispatcher::<P, ()>::new(Arc::clone(&self.fleet), policy);
        let mut distance = Distance::default();
        for step in 0..60 {
            let job_type = JobTypeId::new(rng.random_range(0..self.fleet.job_type_count()));
            if step % 4 == 3 {
                distance.add(&self.frozen(&dispatcher, job_type, &mut rng));
            }
            if rng.random_bool(0.7) {
                dispatcher.route(job_type, || (), &mut rng);
            }
            let server = ServerId::new(rng.random_range(0..self.fleet.server_count()));
            if rng.random_bool(0.5) && dispatcher.state().jobs(server) > 0 {
                dispatcher.complete(server);
            }
        }
        distance
    }
}

impl Compare<'_> {
    /// Per decision (the last: no place) its probability and how often it was taken.
    fn frozen<P: Policy>(
        &self,
        dispatcher: &Dispatcher<P, ()>,
        job_type: JobTypeId,
        rng: &mut Generator,
    ) -> Vec<(f64, u32)> {
        let jobs: Vec<u32> = self.fleet.servers().map(|r| dispatcher.state().jobs(r)).collect();
        let room: Vec<u32> = self.fleet.servers().map(|r| self.fleet.buffer(r).expect("buffers are finite")).collect();
        let mut cells = vec![(0.0, 0); jobs.len() + 1];
        for (server, probability) in self.rule.places(&jobs, &room, job_type) {
            cells[server.index()].0 += probability;
        }
        cells[jobs.len()].0 = (1.0 - cells.iter().map(|cell| cell.0).sum::<f64>()).max(0.0);
        for _ in 0..COPIES {
            let decision = dispatcher.clone().route(job_type, || (), rng);
            cells[decision.server().map_or(jobs.len(), ServerId::index)].1 += 1;
        }
        cells
    }
}

impl Distance {
    fn add(&mut self, cells: &[(f64, u32)]) {
        let mut possible = 0;
        for &(probability, taken) in cells {
            if probability < 1e-12 {
                assert_eq!(taken, 0, "a decision of probability 0: {cells:?}");
                continue;
            }
            let expected = probability * f64::from(COPIES);
            self.0 += (f64::from(taken) - expected).powi(2) / expected;
            possible += 1;
        }
        self.1 += f64::from(possible - 1);
    }
}

fn fleets() -> Vec<Build> {
    let unequal_buffers = |build: Build, seed: u64| {
        let mut build = build.buffer(3);
        let first = &mut build.parts.servers[0];
        first.buffer = Some(if seed.is_multiple_of(2) { 2 } else { 4 });
        build
    };
    let build = |seed| if seed % 2 == 0 { random(seed, false) } else { with_rates(seed) };
    (100..130).map(|seed| unequal_buffers(build(seed), seed)).collect()
}

#[test]
fn the_dispatcher_decides_with_the_oracles_probabilities() {
    let policies = "random,jsq,jfsq,jiq,jfiq,jsq(1),jsq(2),jsq(3),jfsq(2),jsq(1,1),jsq(2,1),sed,nq,split";
    for policy in PolicySpec::parse_list(policies).unwrap() {
        let mut total = Distance::default();
        for (seed, build) in (0..).zip(fleets()) {
            let fleet = build.done();
            let fleet = Arc::new(analyse(&fleet).unwrap().shares.give_to(&fleet));
            let rule = PolicyRule::new(&fleet, policy).unwrap();
            let compare = Compare { fleet: Arc::clone(&fleet), rule: &rule, seed };
            let Distance(statistic, freedom) = with_policy(policy, &fleet, compare).unwrap();
            total.0 += statistic;
            total.1 += freedom;
        }
        assert!(total.1 > 20.0, "{policy}: {} free decisions", total.1);
        let surprise = ChiSquared::new(total.1).unwrap().sf(total.0);
        assert!(surprise > FALSE_ALARM, "{policy}: chi-square {} of {}: {surprise:e}", total.0, total.1);
    }
}
