//! How far the clock may run before services are shorter than its steps.

use std::sync::Arc;

use shortline_core::JobTypeId;
use shortline_core::fleet::settings::{Arrivals, SizeLaw};
use shortline_sim::{Engine, Simulation, SimulationError, TraceJob, Unobserved, Until};

use super::with_law;
use crate::fleets::{fleet, policy};

fn is_clock(error: &SimulationError) -> bool {
    matches!(error, SimulationError::Clock { .. })
}

/// Jobs of size 1, one every so many seconds.
fn recorded(gap_s: f64) -> Arc<Vec<TraceJob>> {
    Arc::new((0..64).map(|i| TraceJob::new(f64::from(i) * gap_s, JobTypeId::new(0), Some(1.0))).collect())
}

/// 2^52 millionths of a service: 4.5e9.
#[test]
fn a_trace_lasts_as_long_as_the_clock_can_tell_its_services() {
    let fleet = fleet(&[(1.0, 1, 1)], &[1.0]).build();
    let run = |gap_s, load_factor| {
        let simulation = Simulation::new(&fleet).policy(policy("jsq")).trace(recorded(gap_s)).load_factor(load_factor);
        simulation.run().map(|mut report| report.policies.remove(0).means.unwrap().mean_service_s.unwrap().mean)
    };
    assert!((run(7e7, 1.0).unwrap() - 1.0).abs() < 1e-6, "63 gaps of 7e7 s are 4.4e9 s");
    let error = run(7.3e7, 1.0).unwrap_err();
    assert!(is_clock(&error), "{error}");
    assert_eq!(
        error.to_string(),
        "the last job of the trace arrives after 4600000000 s, and a clock that has run so far ticks in steps of 1.02e-6 s: too \
         coarse beside a mean service of 1 s; it may run to 4500000000 s"
    );
    assert!(is_clock(&run(1.0, 1e-14).unwrap_err()), "stretched by --load");
    assert!(run(1e17, 1e15).is_ok(), "compressed");
}

#[test]
fn a_run_that_would_last_longer_is_refused_at_once() {
    for (rate, arrivals) in [(1e90, 1.0), (1.0, 1e-90)] {
        let fleet = with_law(fleet(&[(rate, 1, 1)], &[arrivals]), SizeLaw::Deterministic);
        let error = Simulation::new(&fleet).policy(policy("jsq")).run().unwrap_err();
        assert!(is_clock(&error), "{rate}: {error}");
    }
    let fleet = with_law(fleet(&[(1.0, 1, 1)], &[1e-4]), SizeLaw::Deterministic);
    let run = |events| Simulation::new(&fleet).policy(policy("jsq")).until(Until::Events(events)).run();
    assert!(run(10_000).is_ok());
    assert!(is_clock(&run(1_000_000_000_000).unwrap_err()));
    let walk = |end_s| Simulation::new(&fleet).policy(policy("jsq")).trajectory(&[end_s], 2, &Unobserved);
    assert!(walk(1e6).is_ok());
    assert!(is_clock(&walk(1e10).unwrap_err()));
}

/// Chains of counts add up gaps: no clock to run out.
#[test]
fn exponential_fleets_know_no_such_limit() {
    let fleet = fleet(&[(1e90, 1, 1)], &[1.0]).build();
    let report = Simulation::new(&fleet).policy(policy("jsq")).until(Until::Events(50_000)).run().unwrap();
    let policy = &report.policies[0];
    assert!(policy.engine != Engine::Calendar);
    assert!((policy.means.as_ref().unwrap().mean_response_s.unwrap().mean / 1e-90 - 1.0).abs() < 0.05);
}

/// A silence of 1e12 s between bursts.
#[test]
fn a_clock_that_jumped_too_far_leaves_no_means() {
    let arrivals = Arrivals::Piecewise(vec![(0.0, 1.0), (100.0, 0.0), (1e12, 1.0), (1e12 + 100.0, 0.0), (2e12, 1.0)]);
    let fleet = fleet(&[(1.0, 1, 1)], &[0.5]).settings(|settings| settings.arrivals = arrivals).build();
    let report = Simulation::new(&fleet).policy(policy("jsq")).until(Until::Events(50_000)).run();
    match report {
        Err(error) => assert!(is_clock(&error), "{error}"),
        Ok(report) => {
            let policy = &report.policies[0];
            assert!(policy.means.is_none() && !policy.converged);
            assert!(policy.why.as_ref().unwrap().contains("ticks in steps"), "{:?}", policy.why);
        }
    }
}
