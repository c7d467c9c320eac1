//! What cannot be simulated is refused, with the place and the remedy.

use shortline_core::fleet::Settings;
use shortline_core::fleet::settings::{Arrivals, Discipline, Failures, Information, SizeLaw};
use shortline_sim::{Simulation, SimulationError, Until};

use crate::fleets::{fleet, policy};

fn refusal(change: impl FnOnce(&mut Settings)) -> String {
    let fleet = fleet(&[(1.0, 1, 1)], &[0.5]).settings(change).build();
    Simulation::new(&fleet).policy(policy("jsq")).run().unwrap_err().to_string()
}

#[test]
fn what_is_no_markov_chain_needs_the_general_engine() {
    let asked: [(String, &str); 5] = [
        (refusal(|s| s.service.law = SizeLaw::Deterministic), "[service] distribution"),
        (refusal(|s| s.service.discipline = Discipline::ProcessorSharing), "[service] discipline"),
        (refusal(|s| s.arrivals = Arrivals::Renewal { cv2: 4.0 }), "[arrivals] process"),
        (refusal(|s| s.failures = Some(Failures::Random { mean_up_s: 1.0, mean_down_s: 1.0 })), "[failures]"),
        (refusal(|s| s.information = Information { delay_s: 1.0, gateways: 1 }), "[information]"),
    ];
    for (message, section) in asked {
        assert!(message.contains(section) && message.contains("needs the general engine"), "{message}");
    }
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
