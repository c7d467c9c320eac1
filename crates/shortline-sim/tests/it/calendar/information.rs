//! Old counts, and gateways that know their own jobs only.

use std::sync::Arc;

use shortline_core::Fleet;
use shortline_core::fleet::settings::{Information, SizeLaw};
use shortline_sim::{Estimate, Simulation, Until};

use super::means;
use super::traces::recorded;
use crate::fleets::{Sketch, assert_meets, fleet, policy};

fn informed(sketch: Sketch, delay_s: f64, gateways: u32) -> Arc<Fleet> {
    sketch.settings(|settings| settings.information = Information { delay_s, gateways }).build()
}

fn mixed() -> Sketch {
    let rows: &[&[u32]] = &[&[0, 1, 2], &[2, 3, 4], &[0, 4]];
    let sketch = fleet(&[(2.0, 1, 2), (0.8, 2, 3)], &[1.4, 1.2, 0.9]).buffer(4).rows(rows);
    sketch.settings(|settings| settings.service.law = SizeLaw::Erlang { k: 2 })
}

/// The reports of the policies on the same recorded jobs, as JSON, and what became of each job.
fn outcome(fleet: &Arc<Fleet>, policies: &[&str]) -> (String, String) {
    let simulation = Simulation::new(fleet).seed(3).trace(Arc::new(recorded(20_000, 5.0, 3, 6)));
    let simulation = policies.iter().fold(simulation, |simulation, name| simulation.policy(policy(name)));
    (serde_json::to_string(&simulation.run().unwrap()).unwrap(), format!("{:?}", simulation.fates().unwrap()))
}

/// A delay too short for anything to happen meanwhile takes every decision by way of the old counts. With lines, policies that
/// draw are asked twice, so only others are compared.
#[test]
fn no_delay_and_one_gateway_are_as_if_nothing_had_been_said() {
    let rejects: fn() -> Sketch = mixed;
    let waits: fn() -> Sketch = || mixed().waits(Some(5), Some(1.0));
    for (sketch, policies) in [(rejects, &["jfsq", "jsq(2)", "jiq", "random"][..]), (waits, &["jfsq", "central"][..])] {
        let plain = outcome(&sketch().build(), policies);
        assert_eq!(plain, outcome(&informed(sketch(), 0.0, 1), policies));
        assert_eq!(plain, outcome(&informed(sketch(), 1e-300, 1), policies));
        assert_ne!(plain, outcome(&informed(sketch(), 0.5, 1), policies), "old counts decide otherwise");
    }
}

/// Who sees counts from before the beginning sees empty servers, and takes any.
#[test]
fn counts_that_never_arrive_make_jsq_a_random_choice() {
    let fleet = informed(fleet(&[(1.0, 1, 4)], &[2.8]), 1e12, 1);
    assert_meets(means(&fleet, "jsq", 1_500_000).mean_response_s, 1.0 / 0.3, "four M/M/1 queues");
}

/// The jobs of one among hundreds of gateways are too few to meet each other. Off by O(1 / gateways): 3 % allowed.
#[test]
fn hundreds_of_gateways_choose_at_random() {
    let fleet = informed(fleet(&[(1.0, 1, 4)], &[2.0]), 0.0, 300);
    let mean = means(&fleet, "jsq", 1_500_000).mean_response_s.unwrap().mean;
    assert!((mean / 2.0 - 1.0).abs() < 0.03, "{mean}");
}

/// Sixteen gateways each fill the fastest servers until their own jobs there say otherwise: for a thousand seconds jobs pile up
/// as if without end, then they stay at some 2,200. Seed fixed; what is looked for afterwards has a false-alarm rate of 1e-5 a look.
#[test]
fn gateways_that_have_yet_to_learn_are_not_called_unstable() {
    let rows: Vec<Vec<u32>> = (0..128_u32).map(|l| (0..16).map(|i| (l * 37 + i * 41) % 128).collect()).collect();
    let rows: Vec<&[u32]> = rows.iter().map(Vec::as_slice).collect();
    let sketch = fleet(&[(1.0, 1, 16), (0.5, 1, 48), (0.25, 1, 64)], &[0.35; 128]).rows(&rows);
    let sketch = informed(sketch, 0.0, 16);
    let simulation = Simulation::new(&sketch).policy(policy("sed"));
    let report = simulation.until(Until::Events(8_000_000)).seed(1).run().unwrap();
    let sed = &report.policies[0];
    assert!(!sed.unstable, "{:?} jobs/s", sed.growth_jobs_per_s);
    let jobs = sed.means.as_ref().unwrap().mean_jobs.unwrap().mean;
    assert!((2_000.0..2_500.0).contains(&jobs), "{jobs}");
}

#[test]
fn a_server_that_is_full_of_others_jobs_refuses() {
    for gateways in [1, 2, 7] {
        let fleet = informed(fleet(&[(1.0, 1, 3)], &[2.4]).buffer(2), 0.0, gateways);
        let rho: f64 = 0.8;
        let exact = rho.powi(2) / (1.0 + rho + rho.powi(2));
        let means = means(&fleet, "random", 1_500_000);
        assert_meets(means.blocking_probability, exact, &format!("{gateways} gateways: M/M/1/2"));
    }
}

/// Mean response time of ten servers of one speed at load 0.8.
fn response_s(name: &str, delay_s: f64, gateways: u32) -> Estimate {
    let fleet = informed(fleet(&[(1.0, 1, 10)], &[8.0]), delay_s, gateways);
    means(&fleet, name, 400_000).mean_response_s.unwrap()
}

/// The older the counts, the longer the response; with seeds fixed.
#[test]
fn older_counts_are_worse() {
    let by_delay = [0.0, 0.3, 1.0, 4.0].map(|delay_s| response_s("jsq", delay_s, 1).mean);
    assert!(by_delay.is_sorted() && by_delay[3] > 2.0 * by_delay[0], "{by_delay:?}");
}

/// The more gateways, each of which sees its own jobs only, the longer the response: by policy, in multiples of that with one. Seeds
/// are fixed. A random choice sees nothing and pays nothing: its servers are M/M/1 queues, in four 99.9 % intervals.
#[test]
fn demand_16_what_1_2_4_and_8_gateways_cost_by_policy() {
    for gateways in [1, 2, 4, 8] {
        assert_meets(Some(response_s("random", 0.0, gateways)), 5.0, &format!("random, {gateways} gateways"));
    }
    for (name, least) in [("jsq", 1.2), ("jfsq", 1.2), ("sed", 1.2), ("jiq", 1.2), ("jsq(2)", 1.1)] {
        let [one, two, four, eight] = [1, 2, 4, 8].map(|gateways| response_s(name, 0.0, gateways).mean);
        let cost = [two / one, four / one, eight / one];
        assert!(cost[0] > 1.0 && cost.is_sorted() && cost[2] > least && eight < 5.0, "{name}: {cost:?}");
    }
}

/// Jobs that wait in front are started by places as they are, not as they were: a line does not lock.
#[test]
fn a_line_never_waits_for_news() {
    let fleet = informed(fleet(&[(1.0, 1, 1)], &[0.7]), 50.0, 1);
    assert_meets(means(&fleet, "central", 1_000_000).mean_response_s, 1.0 / 0.3, "M/M/1");
}

/// Several gateways with old counts, where neither can matter: a server that all jobs go to refuses when it is full, whoever
/// sent them (M/M/1/b); and a random choice looks at nothing (M/M/1 each).
#[test]
fn gateways_with_old_counts_are_no_matter_where_there_is_no_choice() {
    let (rho, b) = (0.9_f64, 3);
    let one = informed(fleet(&[(1.0, 1, 1)], &[rho]).buffer(b), 1.5, 3);
    let blocked = (1.0 - rho) * rho.powi(3) / (1.0 - rho.powi(4));
    for name in ["jsq", "random"] {
        assert_meets(means(&one, name, 1_500_000).blocking_probability, blocked, &format!("M/M/1/3, {name}"));
    }
    let many = informed(fleet(&[(1.0, 1, 4)], &[2.8]), 1.5, 3);
    assert_meets(means(&many, "random", 1_500_000).mean_response_s, 1.0 / 0.3, "M/M/1");
}

/// Counts that never arrive, at every gateway: to jfsq all servers are empty, and the fastest one gets all.
#[test]
fn gateways_that_never_hear_send_all_to_the_fastest() {
    let fleet = informed(fleet(&[(2.0, 1, 1), (1.0, 1, 3)], &[1.2]), 1e8, 4);
    assert_meets(means(&fleet, "jfsq", 1_500_000).mean_response_s, 1.0 / 0.8, "M/M/1 at the fast one");
}
