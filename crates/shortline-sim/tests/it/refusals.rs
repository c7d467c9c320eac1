//! What cannot be simulated is refused, with the place and the remedy.

use std::sync::Arc;

use shortline_core::JobTypeId;
use shortline_core::fleet::Settings;
use shortline_core::fleet::settings::{Arrivals, SizeLaw};
use shortline_sim::{Simulation, SimulationError, TraceJob, Until};

use crate::fleets::{fleet, policy};

#[test]
fn jobs_of_a_trace_need_one() {
    let refusal = |change: fn(&mut Settings)| {
        let fleet = fleet(&[(1.0, 1, 1)], &[0.5]).settings(change).build();
        Simulation::new(&fleet).policy(policy("jsq")).run().unwrap_err().to_string()
    };
    for (message, key) in [
        (refusal(|s| s.arrivals = Arrivals::Trace), "[arrivals] process"),
        (refusal(|s| s.service.law = SizeLaw::Trace), "[service] distribution"),
    ] {
        assert!(message.contains(key) && message.contains("there is no trace"), "{message}");
    }
}

#[test]
fn more_slots_than_can_be_followed_are_refused() {
    let fleet = fleet(&[(1.0, 1 << 29, 1)], &[0.5]).build();
    let error = Simulation::new(&fleet).policy(policy("jsq")).calendar(true).run().unwrap_err();
    assert_eq!(error, SimulationError::TooManySlots { slots: 1 << 29, most: 1 << 28 });
}

#[test]
fn more_gateways_than_memory_holds_are_refused() {
    let fleet = fleet(&[(1.0, 1, 2)], &[0.5]).settings(|settings| settings.information.gateways = 100_000).build();
    let error = Simulation::new(&fleet).policy(policy("jsq")).run().unwrap_err();
    assert_eq!(error, SimulationError::TooManyGateways { gateways: 100_000, most: 13_158 });
}

#[test]
fn jobs_that_cannot_be_are_named() {
    let fleet = fleet(&[(1.0, 1, 1)], &[0.5]).build();
    let refusal = |jobs: Vec<TraceJob>| {
        let simulation = Simulation::new(&fleet).policy(policy("jsq")).trace(Arc::new(jobs));
        simulation.run().unwrap_err().to_string()
    };
    let job = |at_s: f64, size: f64| TraceJob::new(at_s, JobTypeId::new(0), Some(size));
    assert!(refusal(vec![]).contains("job 0 of the trace (counted from 0): there is none"));
    assert!(
        refusal(vec![job(1.0, 1.0), job(0.5, 1.0)])
            .contains("job 1 of the trace (counted from 0): it arrives at 0.5 s")
    );
    assert!(refusal(vec![job(f64::NAN, 1.0)]).contains("it arrives at NaN s"));
    assert!(refusal(vec![job(0.0, -1.0)]).contains("its size is -1"));
    assert!(refusal(vec![TraceJob::new(0.0, JobTypeId::new(7), None)]).contains("its job type is number 7, of 1"));
}

#[test]
fn a_fleet_without_arrivals_is_refused() {
    let fleet = fleet(&[(1.0, 1, 1)], &[0.0]).build();
    let error = Simulation::new(&fleet).policy(policy("jsq")).run().unwrap_err();
    assert_eq!(error, SimulationError::NoArrivals { total: 0.0 });
}

#[test]
fn a_simulation_needs_a_policy() {
    let fleet = fleet(&[(1.0, 1, 1)], &[0.5]).build();
    assert_eq!(Simulation::new(&fleet).run().unwrap_err(), SimulationError::NoPolicy);
}

#[test]
fn options_outside_their_range_are_named() {
    let fleet = fleet(&[(1.0, 1, 1)], &[0.5]).build();
    let with = |until| Simulation::new(&fleet).policy(policy("jsq")).until(until).run().unwrap_err().to_string();
    assert!(with(Until::Events(0)).contains("the number of events"));
    assert!(with(Until::RelativeError { error: 1.5, most_events: 1 }).contains("the relative error is 1.5"));
    let error = Simulation::new(&fleet).policy(policy("jsq")).load_factor(-1.0).run().unwrap_err();
    assert!(error.to_string().contains("the load factor is -1"));
}
