//! Runs that cannot be long: stopped ones, tiny ones, and fleets on which hardly anything happens.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use shortline_core::graph::Edges;
use shortline_sim::{Observer, PolicyReport, Round, Simulation, SimulationError, Until};
use shortline_theory::exact;

use crate::exact::agrees;
use crate::fleets::{assert_meets, fleet, policy, simulate};

/// Stops the run when it is asked for the so manieth time.
struct StopsAt(u32, AtomicU32);

impl Observer for StopsAt {
    fn is_stopped(&self) -> bool {
        self.1.fetch_add(1, Ordering::Relaxed) >= self.0
    }
}

fn stopped_at(fleet: &std::sync::Arc<shortline_core::Fleet>, asked: u32) -> PolicyReport {
    let simulation = Simulation::new(fleet).policy(policy("jsq")).threads(1);
    simulation.run_observed(&StopsAt(asked, AtomicU32::new(0))).unwrap().policies.remove(0)
}

#[test]
fn a_run_stopped_in_its_warm_up_has_no_means_and_says_why() {
    let report = stopped_at(&fleet(&[(1.0, 1, 2)], &[1.0]).build(), 0);
    assert!(report.means.is_none() && !report.converged && !report.unstable);
    assert!(report.why.unwrap().contains("stopped in its warm-up"));
}

/// Stops the run some looks after its first measuring round.
struct StopsMeasuring(AtomicBool, StopsAt);

impl Observer for StopsMeasuring {
    fn round_ended(&self, _: &Round) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Relaxed) && self.1.is_stopped()
    }
}

#[test]
fn a_run_stopped_later_has_what_there_is() {
    let fleet = fleet(&[(1.0, 1, 1)], &[0.9]).build();
    let observer = StopsMeasuring(AtomicBool::new(false), StopsAt(100, AtomicU32::new(0)));
    let report = Simulation::new(&fleet).policy(policy("jsq")).threads(1).run_observed(&observer).unwrap();
    let report = &report.policies[0];
    assert!(!report.converged && report.why.is_none(), "{report:?}");
    assert!(report.means.as_ref().unwrap().mean_response_s.unwrap().ci95[0] > 5.0);
}

/// A job at a server of rate 1 beside one of rate 1e12: a million million ticks to an event. Without a bound on the ticks
/// this test does not end.
#[test]
fn a_run_on_which_nothing_happens_is_stopped_all_the_same() {
    let fleet = fleet(&[(1e12, 1, 1), (1.0, 1, 1)], &[0.5, 0.5]).rows(&[&[0], &[1]]).build();
    for lump in [true, false] {
        let simulation = Simulation::new(&fleet).policy(policy("jsq")).lump(lump).threads(1);
        let report = simulation.run_observed(&StopsAt(20, AtomicU32::new(0))).unwrap();
        assert!(report.policies[0].means.is_none());
    }
}

#[test]
fn a_single_event_is_counted_and_gives_no_interval() {
    let report = simulate(&fleet(&[(1.0, 1, 2)], &[1.0]).build(), "jsq", 1);
    assert_eq!(report.events - report.warmup_events, 1);
    assert!(report.means.is_none() && !report.converged);
    assert!(report.why.unwrap().contains("512 are the least"));
}

/// Loads of 1e-9 are as quick as others: only busy servers tick. Each server is an M/M/1 queue.
#[test]
fn rare_jobs_are_simulated_exactly_and_at_once() {
    let rare = fleet(&[(2.0, 1, 50), (1.0, 1, 50)], &[1e-7]).build();
    let report = simulate(&rare, "jfsq", 300_000);
    let means = report.means.unwrap();
    assert_meets(means.mean_response_s, 0.5, "response");
    assert_meets(means.p95_response_s, 20.0_f64.ln() / 2.0, "95 %");
    assert_meets(means.mean_jobs, 0.5e-7, "jobs");
    let few = fleet(&[(1.0, 1, 100)], &[0.9]).build();
    let means = simulate(&few, "random", 6_000_000).means.unwrap();
    assert_meets(means.mean_response_s, 1.0 / (1.0 - 0.009), "response of random");
    assert_meets(means.fraction_waiting, 0.009, "fraction waiting of random");
}

/// Two speeds, two slots, rates per pair, at loads at which only busy servers tick; as `exact.rs`, 8 figures each.
#[test]
fn rare_jobs_have_the_law_of_the_exact_chain() {
    let sketch = || fleet(&[(2.0, 2, 1), (0.7, 1, 1)], &[0.02, 0.02]).buffer(3).rows(&[&[0, 1], &[1]]);
    for fleet in [sketch().build(), sketch().pair_rates(&[(1, 1, 0.3)]).build()] {
        for name in ["jsq", "random"] {
            agrees(name, &simulate(&fleet, name, 3_000_000), &exact::solve(&fleet, policy(name), None).unwrap());
        }
    }
}

#[test]
fn a_fleet_that_can_serve_nothing_is_told_so_at_once() {
    let nowhere = Edges::from_rows([vec![0], Vec::<u32>::new()]);
    let fleet = fleet(&[(1.0, 1, 2)], &[0.0, 1.0]).edges(nowhere).build();
    let error = Simulation::new(&fleet).policy(policy("jsq")).run().unwrap_err();
    assert_eq!(error, SimulationError::NothingServed);
    assert!(error.to_string().contains("no job is ever served"));
}

#[test]
fn numbers_of_threads_that_make_no_sense_are_refused() {
    let fleet = fleet(&[(1.0, 1, 1)], &[0.5]).build();
    for threads in [0, 1025, 100_000] {
        let error = Simulation::new(&fleet).policy(policy("jsq")).threads(threads).run().unwrap_err();
        assert!(error.to_string().contains(&format!("the number of threads is {threads}, must be from 1 to 1024")));
    }
    let few = Simulation::new(&fleet).policy(policy("jsq")).threads(1024).until(Until::Events(1000));
    few.run().unwrap();
}

#[test]
fn numbers_of_replications_that_make_no_sense_are_refused() {
    let fleet = fleet(&[(1.0, 1, 1)], &[0.5]).build();
    let run = |replications| {
        let simulation = Simulation::new(&fleet).policy(policy("jsq")).threads(1).until(Until::Events(40_000));
        simulation.replications(replications).run()
    };
    for replications in [0, 1, 1025, usize::MAX] {
        let error = run(replications).unwrap_err().to_string();
        assert!(error.starts_with("the number of replications is") && error.contains("to 1024"), "{error}");
    }
    for replications in [2, 1024] {
        assert_eq!(run(replications).unwrap().policies[0].replications, replications);
    }
}

/// At random, the slow server has load 0.99 and settles after some 40,000 services; by queues, the fleet has load 0.4 and settles at
/// once. Seeds are fixed.
fn slow_and_quick(most_warm_up_events: Option<u64>) -> Vec<PolicyReport> {
    let fleet = fleet(&[(1.0, 1, 1), (0.25, 1, 1)], &[0.495]).build();
    let simulation = Simulation::new(&fleet).seed(1).threads(1).until(Until::Events(200_000));
    let simulation = most_warm_up_events.into_iter().fold(simulation, Simulation::most_warm_up_events);
    simulation.policy(policy("random")).policy(policy("jsq")).run().unwrap().policies
}

#[test]
fn a_policy_that_does_not_settle_leaves_the_others_their_means() {
    let [random, jsq] = <[PolicyReport; 2]>::try_from(slow_and_quick(Some(1_000_000))).unwrap();
    assert!(random.means.is_none() && !random.unstable && !random.converged, "{random:?}");
    let why = random.why.unwrap();
    assert!(why.starts_with("the number of jobs had not settled after"), "{why}");
    assert_eq!(random.events, random.warmup_events, "it is given up, not measured");
    let means = jsq.means.unwrap();
    assert_eq!((jsq.why, jsq.events - jsq.warmup_events), (None, 200_000));
    // Alone it has the same means, but for chance: it need not follow anybody.
    let fleet = fleet(&[(1.0, 1, 1), (0.25, 1, 1)], &[0.495]).build();
    let alone = simulate(&fleet, "jsq", 2_000_000).means.unwrap();
    crate::fleets::assert_agree(means.mean_response_s, alone.mean_response_s, "jsq beside one that is given up");
}

#[test]
fn a_warm_up_ends_at_its_limit_and_goes_on_without_one() {
    // 32 replications, which have had 12,000 events each at the first look.
    for (limit, longest) in [(0, 32 * 12_000), (32 * 12_000, 32 * 12_000), (1_000_000, 1_000_000)] {
        let random = slow_and_quick(Some(limit)).remove(0);
        assert!(random.means.is_none() && random.warmup_events <= longest, "{limit}: {}", random.warmup_events);
        assert!(random.warmup_events > longest - 32, "{limit}: all of it was tried, {}", random.warmup_events);
    }
    let random = slow_and_quick(None).remove(0);
    assert!(random.means.is_some() && random.warmup_events > 1_000_000, "{:?}", random.why);
}
