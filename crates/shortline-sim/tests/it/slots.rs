//! Servers with many slots cost no more than others.

use std::sync::Arc;
use std::time::Instant;

use shortline_core::Fleet;
use shortline_sim::{Engine, Simulation, Until};

use crate::fleets::{fleet, policy};

/// Seconds per event, the report included.
#[expect(clippy::disallowed_methods, reason = "it measures real time")]
fn event_s(fleet: &Arc<Fleet>) -> f64 {
    let started = Instant::now();
    let simulation = Simulation::new(fleet).policy(policy("jsq")).seed(1).threads(1);
    let report = simulation.until(Until::Events(500_000)).run().unwrap();
    assert_eq!(report.policies[0].engine, Engine::Lumped);
    assert!(report.policies[0].means.is_some(), "{:?}", report.policies[0].why);
    started.elapsed().as_secs_f64() / report.policies[0].events as f64
}

/// Goal: the cost of an event hardly grows with the slots. Method: the better of two runs each, on one machine; 500 times as
/// many slots may cost 15 times as much (larger tables, and a longer report). With a walk along the levels instead of halving
/// it does not end within minutes. Times on a busy machine are no proof: `cargo test -p shortline-sim --test it slots:: --
/// --ignored`.
#[test]
#[ignore = "compares times, which needs a machine without other work"]
fn servers_with_thousands_of_slots_are_simulated_as_fast_as_others() {
    let of = |slots: u32| {
        let fleet = fleet(&[(1.0, slots, 2)], &[1.8 * f64::from(slots)]).build();
        event_s(&fleet).min(event_s(&fleet))
    };
    let (few, many) = (of(10), of(5000));
    assert!(many < 15.0 * few, "{:.0} ns instead of {:.0}", 1e9 * many, 1e9 * few);
}
