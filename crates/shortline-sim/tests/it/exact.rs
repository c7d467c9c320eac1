//! The simulator against exactly solved chains, for every policy.
//!
//! Goal: no figure is off by more than chance. Method: the exact value of each figure lies in the simulation's 99.9 %
//! interval, whose half-width is below 0.5 % of the mean response time. Seeds are fixed; were they free, one figure in
//! a thousand would raise a false alarm: with 8 figures, 10 systems and 12 policies, 960 figures, one is expected in
//! a fresh run. So the seed, 8, is one that has none: an earlier version of the engines missed one figure with seed 7
//! (`jiq`, response of j0), which a run of 1e8 events then met: 1.41377 +- 0.00044 s against 1.41380 s.

use shortline_sim::PolicyReport;
use shortline_theory::exact::{self, Exact};

use crate::fleets::{Sketch, assert_is_precise, assert_meets, fleet, policy, simulate, with_split_shares};

const POLICIES: [&str; 12] =
    ["random", "jsq", "jfsq", "jiq", "jfiq", "jsq(2)", "jfsq(2)", "jsq(1,1)", "sed", "nq", "split", "central"];

const EVENTS: u64 = 4_000_000;

/// Where each job is followed, waiting is measured, not expected: that takes more of them.
const EVENTS_OF_FOLLOWED_JOBS: u64 = 12_000_000;

pub(crate) fn agrees(name: &str, report: &PolicyReport, exact: &Exact) {
    let means = report.means.as_ref().unwrap_or_else(|| panic!("{name} is stable"));
    let all = &exact.all;
    assert_is_precise(means.mean_response_s, name);
    assert_meets(means.mean_response_s, all.mean_response_s, &format!("{name}: response"));
    assert_meets(means.mean_waiting_s, all.mean_waiting_s, &format!("{name}: waiting"));
    assert_meets(means.mean_service_s, all.mean_service_s, &format!("{name}: service"));
    assert_meets(means.mean_jobs, all.mean_jobs, &format!("{name}: jobs"));
    assert_meets(means.fraction_waiting, all.fraction_waiting, &format!("{name}: fraction waiting"));
    assert_meets(means.blocking_probability, all.blocking_probability, &format!("{name}: blocking"));
    let first = &exact.per_job_type[0];
    let reported = means.per_job_type.iter().find(|job_type| job_type.name == "j0").unwrap();
    assert_meets(reported.mean_response_s, first.mean_response_s, &format!("{name}: response of j0"));
    assert_meets(reported.blocking_probability, first.blocking_probability, &format!("{name}: blocking of j0"));
}

/// Simulates and solves a system for every policy. Its lines in front hold 2 jobs a type, so that its chain is finite
/// under `central` too.
fn all_policies_agree(sketch: Sketch) {
    let fleet = sketch.settings(|settings| settings.lines.size = Some(2)).build();
    let fleet = with_split_shares(&fleet);
    for name in POLICIES {
        let exact = exact::solve(&fleet, policy(name), None).unwrap();
        let events = if fleet.is_uniform() && name != "central" { EVENTS } else { EVENTS_OF_FOLLOWED_JOBS };
        agrees(name, &simulate(&fleet, name, events), &exact);
    }
}

#[test]
fn on_two_equal_servers() {
    all_policies_agree(fleet(&[(1.0, 1, 2)], &[1.4]).buffer(3));
}

#[test]
fn on_three_unequal_servers_that_serve_all() {
    all_policies_agree(fleet(&[(2.0, 1, 1), (1.0, 1, 1), (0.5, 1, 1)], &[1.0, 1.5]).buffer(2));
}

#[test]
fn on_two_equal_servers_and_a_slower_one_in_a_chain() {
    all_policies_agree(fleet(&[(1.0, 1, 2), (0.4, 1, 1)], &[0.5, 0.7, 0.4]).buffer(3).rows(&[
        &[0, 1],
        &[1, 2],
        &[0, 2],
    ]));
}

#[test]
fn on_four_servers_of_two_speeds_with_few_edges() {
    let rows: &[&[u32]] = &[&[0, 2], &[1, 3], &[0, 1, 2], &[3]];
    all_policies_agree(fleet(&[(1.5, 1, 2), (0.6, 1, 2)], &[0.6, 0.8, 0.7, 0.3]).buffer(2).rows(rows));
}

#[test]
fn on_a_job_type_with_one_server_beside_one_with_all() {
    all_policies_agree(fleet(&[(0.5, 1, 1), (0.125, 1, 2)], &[0.3, 0.2]).buffer(2).rows(&[&[0], &[0, 1, 2]]));
}

#[test]
fn without_room_to_wait() {
    all_policies_agree(fleet(&[(1.0, 1, 2), (0.5, 1, 2)], &[1.2, 1.0]).buffer(1).rows(&[&[0, 1, 2], &[1, 2, 3]]));
}

#[test]
fn on_servers_with_two_slots() {
    all_policies_agree(fleet(&[(1.0, 2, 1), (1.5, 1, 2)], &[1.5, 1.3]).buffer(3).rows(&[&[0, 1], &[0, 1, 2]]));
}

#[test]
fn on_servers_of_a_type_with_two_slots_that_serve_all() {
    all_policies_agree(fleet(&[(1.0, 2, 2), (0.5, 2, 1)], &[2.2, 1.3]).buffer(3));
}

#[test]
fn with_rates_that_depend_on_the_job_type() {
    let rates = [(0, 0, 0.5), (0, 1, 1.5)];
    all_policies_agree(fleet(&[(2.0, 1, 1), (0.7, 1, 1)], &[0.5, 0.9]).buffer(3).pair_rates(&rates));
}

#[test]
fn with_sizes_that_depend_on_the_job_type_and_two_slots() {
    all_policies_agree(fleet(&[(1.0, 2, 1), (0.8, 1, 1)], &[0.9, 0.4]).buffer(2).sizes(&[0.7, 2.0]));
}

/// Here the job types in line are part of the state, so the lines are short.
#[test]
fn with_lines_in_front() {
    let sketch = fleet(&[(1.0, 1, 1), (0.6, 1, 1)], &[0.5, 0.6]).buffer(2).rows(&[&[0], &[0, 1]]).waits(Some(3), None);
    let fleet = sketch.build();
    for name in ["jsq", "jfsq", "jiq", "sed", "nq", "central", "jsq(2)"] {
        let exact = exact::solve(&fleet, policy(name), None).unwrap();
        agrees(name, &simulate(&fleet, name, EVENTS_OF_FOLLOWED_JOBS), &exact);
    }
}
