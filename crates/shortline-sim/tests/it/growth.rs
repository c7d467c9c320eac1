//! Unstable is called unstable, and nothing else is.
//!
//! 20 random fleets at 0.95 and 1.05 of their largest load. False alarms: at most 1e-5 a look, some ten looks a run.

use std::sync::Arc;

use rand::{Rng, SeedableRng};
use shortline_core::graph::Edges;
use shortline_core::random::{Generator, below};
use shortline_core::{Fleet, JobTypeId};
use shortline_sim::{PolicyReport, Simulation, Unobserved, Until};
use shortline_theory::stability;

use crate::fleets::{fleet, policy, simulate};

pub(crate) fn random_fleet(seed: u64) -> Arc<Fleet> {
    let mut rng = Generator::seed_from_u64(seed);
    let (servers, job_types) = (4 + below(&mut rng, 12), 2 + below(&mut rng, 10) as usize);
    let slow = 1 + below(&mut rng, servers - 1);
    let arrivals: Vec<f64> = (0..job_types).map(|_| 0.2 + (rng.next_u64() >> 40) as f64 / 2.0_f64.powi(24)).collect();
    let row = |rng: &mut Generator| (0..1 + below(rng, 4)).map(|_| below(rng, servers)).collect::<Vec<_>>();
    let edges = Edges::from_rows((0..job_types).map(|_| row(&mut rng)).collect::<Vec<_>>());
    fleet(&[(1.0, 1, servers - slow), (0.4, 1, slow)], &arrivals).edges(edges).build()
}

pub(crate) fn at_load(fleet: &Arc<Fleet>, name: &str, load: f64) -> PolicyReport {
    let largest = stability::analyse(fleet).unwrap().max_load_factor;
    let simulation = Simulation::new(fleet)
        .policy(policy(name))
        .seed(5)
        .load_factor(load * largest)
        .until(Until::RelativeError { error: 0.05, most_events: 200_000_000 });
    simulation.run().unwrap().policies.remove(0)
}

#[test]
fn below_the_largest_load_twenty_fleets_are_stable() {
    for seed in 0..20 {
        let report = at_load(&random_fleet(seed), "jsq", 0.95);
        assert!(!report.unstable, "fleet {seed} grows by {:?} jobs/s", report.growth_jobs_per_s);
        assert!(report.converged, "fleet {seed} did not converge");
    }
}

#[test]
fn above_the_largest_load_twenty_fleets_are_unstable() {
    for seed in 0..20 {
        let report = at_load(&random_fleet(seed), "jsq", 1.05);
        assert!(report.unstable, "fleet {seed} is called stable: {:?}", report.means.unwrap().mean_response_s);
        assert!(report.growth_jobs_per_s.unwrap() > 0.0);
        assert!(report.means.is_none());
    }
}

/// "Tell me the highest rate before saturation": 2 % below the largest load factor a run has means; 2 % above it the jobs of the
/// bottleneck pile up at 2 % of what its servers can do, evenly: as many in the second half of the time as in the first.
#[test]
fn demand_20_just_below_the_largest_load_a_fleet_is_stable_and_just_above_it_grows_linearly() {
    for seed in 0..2 {
        let fleet = random_fleet(seed);
        let stability = stability::analyse(&fleet).unwrap();
        let at = |factor: f64| {
            let simulation = Simulation::new(&fleet).policy(policy("jsq")).seed(5).threads(1);
            simulation.load_factor(factor * stability.max_load_factor).until(Until::Events(4_000_000))
        };
        let below = at(0.98).run().unwrap().policies.remove(0);
        assert!(!below.unstable && below.means.is_some(), "fleet {seed}: {:?}", below.why);
        let above = at(1.02).run().unwrap().policies.remove(0);
        assert!(above.unstable && above.means.is_none(), "fleet {seed}");
        let bottleneck = stability.bottleneck.servers.iter();
        let capacity_per_s: f64 = bottleneck.map(|&r| fleet.service_rate(JobTypeId::new(0), r)).sum();
        let growth = above.growth_jobs_per_s.unwrap() / (0.02 * capacity_per_s);
        assert!((growth - 1.0).abs() < 0.15, "fleet {seed}: {growth} of what is too much");
        let times_s = [1.0, 2.0, 3.0].map(|i| i * 50_000.0 / capacity_per_s);
        let filling = at(1.02).trajectory(&times_s, 32, &Unobserved).unwrap().trajectories.remove(0);
        let jobs: Vec<f64> = filling.points.iter().map(|point| point.mean_jobs.unwrap().mean).collect();
        let steps = (jobs[2] - jobs[1]) / (jobs[1] - jobs[0]);
        assert!((steps - 1.0).abs() < 0.25, "fleet {seed}: {jobs:?}");
    }
}

/// A server reached by its own job type and, as fallback, by everybody's random choices: at 0.9 of the largest load
/// `jfsq` keeps it free, `jfiq` does not.
#[test]
fn a_random_fallback_can_be_unstable_where_the_fleet_is_stable() {
    let mut rng = Generator::seed_from_u64(9);
    let rows: Vec<Vec<u32>> = (0..12).map(|_| (0..6).map(|_| below(&mut rng, 24)).collect()).collect();
    let fleet = fleet(&[(1.0, 1, 6), (0.2, 1, 18)], &[0.5; 12]).edges(Edges::from_rows(rows)).build();
    assert!(at_load(&fleet, "jfiq", 0.9).unstable);
    assert!(!at_load(&fleet, "jfsq", 0.9).unstable);
}

#[test]
fn lines_in_front_grow_without_end_too() {
    let overloaded = fleet(&[(1.0, 1, 3)], &[3.2]).build();
    let report = at_load(&overloaded, "central", 1.1);
    assert!(report.unstable);
    let growth = report.growth_jobs_per_s.unwrap();
    assert!((growth / 0.3 - 1.0).abs() < 0.1, "3.3 come, 3 go: {growth}/s");
}

/// A policy that draws a full server while others are idle begins a line; from then on only places that free are offered,
/// so that the idle servers stay idle and the line may grow for ever. False alarms: as above.
#[test]
fn lines_beside_idle_servers_are_found_to_grow() {
    for (name, rate, buffer) in [("random", 6.0, 5), ("jsq(2)", 7.0, 2), ("jsq(2)", 6.0, 3)] {
        for seed in 1..4 {
            let waiting = fleet(&[(1.0, 1, 10)], &[rate]).buffer(buffer).waits(None, None).build();
            let simulation = Simulation::new(&waiting).policy(policy(name)).seed(seed).until(Until::Events(40_000_000));
            let report = simulation.run().unwrap().policies.remove(0);
            assert!(report.unstable, "{name} at {rate}/s with room for {buffer}, seed {seed}: {:?}", report.why);
        }
    }
    let waiting = fleet(&[(1.0, 1, 10)], &[7.0]).buffer(2).waits(None, None).build();
    for name in ["jsq", "jiq", "central"] {
        assert!(!simulate(&waiting, name, 1_000_000).unstable, "{name} lets nobody wait beside an idle server");
    }
}

/// Where that takes long to happen, it happens to some replications first.
#[test]
fn replications_that_chance_carries_away_are_counted() {
    let waiting = fleet(&[(1.0, 1, 10)], &[5.0]).buffer(3).waits(None, None).build();
    let simulation = Simulation::new(&waiting).policy(policy("jsq(2)")).seed(1);
    let report = simulation.run().unwrap().policies.remove(0);
    let growing = report.growing_replications.unwrap();
    assert!(report.unstable && (1..report.replications).contains(&growing), "{growing} of {}", report.replications);
}

/// M/M/1 at load 1.2 with a line whose jobs give up after 300 s: it fills as if without end until they do.
#[test]
fn a_line_whose_jobs_give_up_is_never_unstable() {
    let fleet = fleet(&[(1.0, 1, 1)], &[1.2]).buffer(1).waits(None, Some(300.0)).build();
    let report = Simulation::new(&fleet).policy(policy("jsq")).seed(3).until(Until::Events(2_000_000)).run().unwrap();
    let jsq = &report.policies[0];
    assert!(!jsq.unstable, "{:?}", jsq.growth_jobs_per_s);
    // What comes beyond the server's rate gives up: 1 - 1 / 1.2.
    let gave_up = jsq.means.as_ref().unwrap().reneged_probability.unwrap().mean;
    assert!((gave_up - 1.0 / 6.0).abs() < 0.01, "{gave_up}");
}

/// One server of rate 1 and 1,000 of rate 1/1000, jobs at 1.1/s: the fast one fills to 1,000 jobs, straight, before `sed` finds the
/// slow ones worth a job; then all stay at some 1,100. Seed fixed; false-alarm rate 1e-5 a look.
#[test]
fn a_fast_server_that_fills_before_slow_ones_are_worth_a_job_is_no_growth() {
    let fleet = fleet(&[(1.0, 1, 1), (0.001, 1, 1000)], &[1.1]).build();
    let simulation = Simulation::new(&fleet).policy(policy("sed")).seed(3).calendar(true);
    let report = simulation.until(Until::Events(6_000_000)).run().unwrap();
    let sed = &report.policies[0];
    assert!(!sed.unstable, "{:?}", sed.growth_jobs_per_s);
}
