//! Servers that stand still, and rates that come and go: queues with two phases.

use shortline_core::fleet::settings::{Arrivals, Discipline, FailureEvent, Failures, SizeLaw};
use shortline_sim::{Simulation, Until};
use shortline_theory::stability;

use super::{means, with_law};
use crate::fleets::{assert_meets, fleet, policy};

type Matrix = [[f64; 2]; 2];

fn product(a: Matrix, b: Matrix) -> Matrix {
    std::array::from_fn(|i| std::array::from_fn(|j| a[i][0] * b[0][j] + a[i][1] * b[1][j]))
}

fn sum(a: Matrix, b: Matrix) -> Matrix {
    std::array::from_fn(|i| std::array::from_fn(|j| a[i][j] + b[i][j]))
}

fn inverse(a: Matrix) -> Matrix {
    let determinant = a[0][0] * a[1][1] - a[0][1] * a[1][0];
    [[a[1][1] / determinant, -a[0][1] / determinant], [-a[1][0] / determinant, a[0][0] / determinant]]
}

/// Mean number of jobs of a queue whose arrival and service rates depend on a phase that is left at these rates: the law of
/// `n` jobs is `p_0 R^n`, with `R` the least root of `A0 + R A1 + R^2 A2 = 0` (Neuts, 1981).
fn mean_jobs(arrivals: [f64; 2], services: [f64; 2], leaves: [f64; 2]) -> f64 {
    let diagonal = |d: [f64; 2]| [[d[0], 0.0], [0.0, d[1]]];
    let changes = [[-leaves[0], leaves[0]], [leaves[1], -leaves[1]]];
    let (up, down) = (diagonal(arrivals), diagonal(services));
    let local = sum(changes, diagonal([-arrivals[0] - services[0], -arrivals[1] - services[1]]));
    let minus = inverse(local).map(|row| row.map(|x| -x));
    let mut r = [[0.0; 2]; 2];
    for _ in 0..20_000 {
        r = product(sum(up, product(product(r, r), down)), minus);
    }
    let empty = sum(sum(changes, diagonal(arrivals.map(|rate| -rate))), product(r, down));
    // p_0 empty = 0, p_0 (1 - R)^-1 1 = 1.
    let direction = [-empty[1][0], empty[0][0]];
    let rest = inverse(sum([[1.0, 0.0], [0.0, 1.0]], r.map(|row| row.map(|x| -x))));
    let total = |m: Matrix| direction[0] * (m[0][0] + m[0][1]) + direction[1] * (m[1][0] + m[1][1]);
    total(product(product(r, rest), rest)) / total(rest)
}

#[test]
fn the_method_meets_the_mm1_queue() {
    assert!((mean_jobs([0.7; 2], [1.0; 2], [0.3, 0.2]) - 7.0 / 3.0).abs() < 1e-9);
}

/// M/M/1 whose server breaks down at any time and goes on where it was (Gaver, 1962; Avi-Itzhak and Naor, 1963).
#[test]
fn a_server_that_fails_makes_its_queue_wait() {
    for (mean_up_s, mean_down_s) in [(10.0, 2.0), (1.0, 0.5)] {
        let fleet = fleet(&[(1.0, 1, 1)], &[0.5])
            .waits(None, None)
            .settings(|s| s.failures = Some(Failures::Random { mean_up_s, mean_down_s }))
            .build();
        let exact = mean_jobs([0.5; 2], [1.0, 0.0], [1.0 / mean_up_s, 1.0 / mean_down_s]);
        let means = means(&fleet, "jsq", 1_500_000);
        assert_meets(means.mean_jobs, exact, &format!("up {mean_up_s} s"));
        assert_meets(means.mean_response_s, exact / 0.5, &format!("up {mean_up_s} s: Little"));
        assert_meets(means.blocking_probability, 0.0, "jobs wait for the repair");
    }
}

/// Exponential sizes have no memory, so that sharing makes the numbers of jobs the same chain.
#[test]
fn a_server_that_fails_and_shares_has_as_many_jobs() {
    let (mean_up_s, mean_down_s) = (4.0, 1.0);
    let fleet = fleet(&[(1.0, 1, 1)], &[0.5])
        .waits(None, None)
        .settings(|s| {
            s.failures = Some(Failures::Random { mean_up_s, mean_down_s });
            s.service.discipline = Discipline::ProcessorSharing;
        })
        .build();
    let exact = mean_jobs([0.5; 2], [1.0, 0.0], [1.0 / mean_up_s, 1.0 / mean_down_s]);
    let means = means(&fleet, "jsq", 1_500_000);
    assert_meets(means.mean_jobs, exact, "jobs");
    assert_meets(means.mean_response_s, exact / 0.5, "Little");
}

/// A server that is up a share `A = 0.75` of the time carries `lambda < mu A`, and theory says so.
#[test]
fn a_queue_is_stable_below_the_share_of_time_that_its_server_is_up() {
    for (load, is_stable) in [(0.95, true), (1.1, false)] {
        let fleet = fleet(&[(1.0, 1, 1)], &[0.75 * load])
            .waits(None, None)
            .settings(|s| s.failures = Some(Failures::Random { mean_up_s: 3.0, mean_down_s: 1.0 }))
            .build();
        let factor = stability::analyse(&stability::under_failures(&fleet)).unwrap().max_load_factor;
        assert!((factor - 1.0 / load).abs() < 1e-9, "{factor}");
        let simulation = Simulation::new(&fleet).policy(policy("jsq")).seed(8).until(Until::Events(1_000_000));
        assert_eq!(simulation.run().unwrap().policies[0].unstable, !is_stable, "at {load} of the capacity");
    }
}

/// Machines that are repaired as soon as they fail, each by its own repairman: they are down independently, `d = 0.6` of the
/// time each. Jobs so short that none meets another are lost where all the servers of their type are down: `k` given ones
/// together with probability `d^k`, for every `k`, which is the binomial law of the number down.
#[test]
fn machines_with_repairmen_of_their_own_are_down_independently() {
    let fleet = fleet(&[(1e4, 1, 4)], &[0.25; 4])
        .rows(&[&[0], &[1, 2], &[0, 2, 3], &[0, 1, 2, 3]])
        .settings(|s| s.failures = Some(Failures::Random { mean_up_s: 2.0, mean_down_s: 3.0 }))
        .build();
    let means = means(&fleet, "jsq", 1_500_000);
    for (k, job_type) in (1..).zip(&means.per_job_type) {
        assert_meets(job_type.blocking_probability, 0.6_f64.powi(k), &format!("{k} of them"));
    }
}

/// One place that is up with probability `A = up / (up + down)`: it is up and free with probability `A / (1 + rho)`, whatever
/// the law of sizes.
#[test]
fn a_place_takes_jobs_while_it_is_up_and_free() {
    let (up, rho) = (0.75, 0.8);
    for law in [SizeLaw::Exponential, SizeLaw::Deterministic, SizeLaw::Hyperexponential { cv2: 4.0 }] {
        let sketch = fleet(&[(1.0, 1, 1)], &[rho])
            .buffer(1)
            .settings(|s| s.failures = Some(Failures::Random { mean_up_s: 6.0, mean_down_s: 2.0 }));
        let means = means(&with_law(sketch, law), "jfsq", 1_500_000);
        assert_meets(means.blocking_probability, 1.0 - up / (1.0 + rho), &format!("{law:?}"));
        // What it holds while it is down stays: busy or standing still.
        assert_meets(means.mean_service_s, 1.0 / up, &format!("{law:?}: service stretches"));
    }
}

/// Ten machines of rate 0.1 and repairs as in the machine-repair model, as many as are down (each its own repairman): the
/// number up is binomial, and without buffers a job is lost if it finds none up and free. With jobs so short that none
/// meets another, the loss is the chance that all are down.
#[test]
fn all_servers_are_down_together_as_often_as_chance_has_it() {
    let fleet = fleet(&[(1e4, 1, 3)], &[1.0])
        .settings(|s| s.failures = Some(Failures::Random { mean_up_s: 2.0, mean_down_s: 3.0 }))
        .build();
    assert_meets(means(&fleet, "jsq", 1_500_000).blocking_probability, 0.6_f64.powi(3), "all down");
}

#[test]
fn what_the_last_event_leaves_is_what_stays() {
    let down = |at_s, server, up| FailureEvent { at_s, server, up };
    let events = vec![down(0.0, 0, false), down(1.0, 1, false), down(2.0, 1, true)];
    let fleet = fleet(&[(1.0, 1, 2)], &[0.7]).settings(|s| s.failures = Some(Failures::Events(events))).build();
    assert_meets(means(&fleet, "jsq", 1_000_000).mean_response_s, 1.0 / 0.3, "one of two servers is left");
}

/// MMPP/M/1.
#[test]
fn arrivals_that_come_and_go_make_a_queue_with_two_phases() {
    for (peak, on_s, off_s) in [(2.0, 5.0, 10.0), (3.0, 2.0, 4.0)] {
        let fleet =
            fleet(&[(1.0, 1, 1)], &[0.4]).settings(|s| s.arrivals = Arrivals::OnOff { peak, on_s, off_s }).build();
        let off = (on_s + off_s - peak * on_s) / off_s;
        let exact = mean_jobs([0.4 * peak, 0.4 * off], [1.0; 2], [1.0 / on_s, 1.0 / off_s]);
        let means = means(&fleet, "jsq", 1_500_000);
        assert_meets(means.mean_jobs, exact, &format!("peak {peak}"));
        assert_meets(means.mean_response_s, exact / 0.4, &format!("peak {peak}: Little"));
    }
}
