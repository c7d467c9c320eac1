//! Policies that see other speeds than the true ones.

use std::sync::Arc;

use shortline_core::Fleet;
use shortline_sim::{Report, Simulation, Until};

use crate::fleets::{Sketch, fleet, policy};

const TRUE: [f64; 2] = [1.0, 0.4];

fn with_speeds([fast, slow]: [f64; 2]) -> Sketch {
    fleet(&[(fast, 1, 3), (slow, 1, 3)], &[1.5, 1.5]).rows(&[&[0, 1, 3, 4], &[1, 2, 4, 5]]).buffer(4)
}

/// Each policy on the true speeds, and seeing others.
fn run(true_fleet: &Arc<Fleet>, seen: &Arc<Fleet>, name: &str) -> Report {
    let simulation = Simulation::new(true_fleet).policy(policy(name)).policy_seeing(policy(name), seen);
    simulation.seed(1).until(Until::Events(300_000)).run().unwrap()
}

/// Same seed, same decisions: no chance in it.
#[test]
fn policies_that_compare_speeds_decide_the_same_on_all_that_are_ordered_alike() {
    let (truth, seen) = (with_speeds(TRUE).build(), with_speeds([1000.0, 999.0]).build());
    for name in ["jsq", "jfsq", "jiq", "jfiq", "jfsq(2)", "jsq(1,1)", "random"] {
        let report = run(&truth, &seen, name);
        assert_eq!(report.policies[0].means, report.policies[1].means, "{name}");
        assert_eq!(report.policies[1].policy, format!("{name} seeing test"));
    }
    for name in ["sed", "nq"] {
        let report = run(&truth, &seen, name);
        assert_ne!(report.policies[0].means, report.policies[1].means, "{name}");
    }
}

#[test]
fn jobs_that_are_followed_one_by_one_are_served_at_the_true_speeds_too() {
    let (truth, seen) = (with_speeds(TRUE).sizes(&[1.0, 0.5]), with_speeds([3.0, 0.1]).sizes(&[1.0, 0.5]));
    let report = run(&truth.build(), &seen.build(), "jfsq");
    assert_eq!(report.policies[0].means, report.policies[1].means);
}

#[test]
fn a_fleet_that_differs_in_more_than_the_values_of_its_speeds_is_refused() {
    let truth = with_speeds(TRUE).build();
    let refusal = |seen: Sketch| {
        let simulation = Simulation::new(&truth).policy_seeing(policy("jfsq"), &seen.build());
        simulation.run().unwrap_err().to_string()
    };
    assert!(refusal(with_speeds([0.4, 1.0])).contains("the order of the speeds"));
    assert!(refusal(with_speeds(TRUE).buffer(5)).contains("slots or buffers"));
    assert!(refusal(with_speeds(TRUE).rows(&[&[0, 1], &[2, 3, 4, 5]])).contains("which server holds which job type"));
    assert!(refusal(with_speeds(TRUE).waits(None, None)).contains("its settings"));
    assert!(refusal(fleet(&[(1.0, 1, 3)], &[1.0])).contains("how many servers"));
}
