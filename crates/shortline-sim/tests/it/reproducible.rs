//! Same seed, same report: on any number of threads, in every version.

use std::sync::Arc;

use shortline_core::Fleet;
use shortline_sim::{Report, Simulation, Until};

use crate::fleets::{fleet, policy};

fn report(fleet: &Arc<Fleet>, policies: &[&str], seed: u64, threads: usize) -> Report {
    let simulation = Simulation::new(fleet).seed(seed).threads(threads).until(Until::Events(300_001));
    policies.iter().fold(simulation, |simulation, name| simulation.policy(policy(name))).run().unwrap()
}

fn mixed_fleet() -> Arc<Fleet> {
    let rows: &[&[u32]] = &[&[0, 1, 2], &[2, 3, 4], &[0, 4]];
    fleet(&[(2.0, 1, 2), (0.8, 2, 3)], &[1.4, 1.2, 0.9]).buffer(4).rows(rows).build()
}

#[test]
fn one_thread_and_many_give_the_same_bytes() {
    let fleet = mixed_fleet();
    let json = |threads| serde_json::to_string(&report(&fleet, &["jfsq", "jsq(2)", "central"], 11, threads)).unwrap();
    let one = json(1);
    assert_eq!(one, json(2));
    assert_eq!(one, json(7));
}

#[test]
fn another_seed_gives_another_report() {
    let fleet = mixed_fleet();
    assert_ne!(report(&fleet, &["jfsq"], 1, 2).policies[0].means, report(&fleet, &["jfsq"], 2, 2).policies[0].means);
}

#[test]
fn exactly_the_events_asked_for_are_counted() {
    for policy in report(&mixed_fleet(), &["jsq", "central"], 1, 2).policies {
        assert_eq!(policy.events - policy.warmup_events, 300_001, "{}", policy.policy);
    }
}

/// A change of these numbers is value-breaking and said so in the changelog.
#[test]
fn seed_7_gives_these_values_on_every_engine() {
    let mean = |fleet: &Arc<Fleet>, name: &str| {
        report(fleet, &[name], 7, 1).policies[0].means.as_ref().unwrap().mean_response_s.unwrap().mean
    };
    let equal = fleet(&[(1.0, 1, 5)], &[4.0]).buffer(5).build();
    let lumped = fleet(&[(1.0, 1, 3), (0.5, 2, 2)], &[4.0]).buffer(5).build();
    let counted = [mean(&mixed_fleet(), "jfsq"), mean(&mixed_fleet(), "central")];
    let values = [counted, [mean(&equal, "jsq(2)"), mean(&lumped, "jsq(2)")]].concat();
    let values: Vec<String> = values.iter().map(|value| format!("{value:.9}")).collect();
    assert_eq!(values, ["0.920418784", "0.910636266", "2.092180856", "2.265997527"]);
}

/// On the same ticks the ratio of two policies is far more certain than the two means alone suggest.
#[test]
fn paired_ratios_are_narrower_than_unpaired_ones() {
    let report = report(&mixed_fleet(), &["jfsq", "jsq"], 3, 2);
    let of = |i: usize| report.policies[i].means.as_ref().unwrap().mean_response_s.unwrap();
    let ratio = report.differences[0].mean_response_ratio.unwrap();
    let unpaired = of(0).relative_half_width().hypot(of(1).relative_half_width());
    assert!((ratio.mean - of(0).mean / of(1).mean).abs() < 0.01);
    assert!(ratio.relative_half_width() < 0.7 * unpaired, "{} against {unpaired}", ratio.relative_half_width());
}
