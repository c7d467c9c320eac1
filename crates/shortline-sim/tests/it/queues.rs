//! Queues with a formula.
//!
//! Each exact value lies in the 99.9 % interval of a fixed seed: false-alarm probability 1e-3 a figure for a free one.

use std::sync::Arc;

use shortline_core::Fleet;
use shortline_theory::exact;

use crate::fleets::{assert_meets, fleet, policy, simulate};

/// P(wait) of M/M/c at offered traffic `a`.
fn erlang_c(c: u32, a: f64) -> f64 {
    let blocking = erlang_b(c, a);
    blocking / (1.0 - a / f64::from(c) * (1.0 - blocking))
}

/// Blocking probability of M/M/c/c at offered traffic `a`.
fn erlang_b(c: u32, a: f64) -> f64 {
    (1..=c).fold(1.0, |b, k| a * b / (f64::from(k) + a * b))
}

#[test]
fn one_server_is_an_mm1_queue_with_its_whole_response_law() {
    let report = simulate(&fleet(&[(1.0, 1, 1)], &[0.7]).build(), "jsq", 6_000_000);
    let means = report.means.unwrap();
    assert_meets(means.mean_response_s, 1.0 / 0.3, "response");
    assert_meets(means.mean_jobs, 0.7 / 0.3, "jobs");
    assert_meets(means.fraction_waiting, 0.7, "fraction waiting");
    for (quantile, q) in [(means.p50_response_s, 0.5_f64), (means.p95_response_s, 0.95), (means.p99_response_s, 0.99)] {
        assert_meets(quantile, -(1.0 - q).ln() / 0.3, "quantile");
    }
}

#[test]
fn one_server_with_a_buffer_blocks_as_mm1b() {
    let rho: f64 = 1.2;
    let report = simulate(&fleet(&[(1.0, 1, 1)], &[rho]).buffer(4).build(), "random", 6_000_000);
    let exact = (1.0 - rho) * rho.powi(4) / (1.0 - rho.powi(5));
    assert_meets(report.means.unwrap().blocking_probability, exact, "blocking");
}

#[test]
fn slots_and_central_on_equal_servers_are_both_mmc() {
    let exact = 1.0 + erlang_c(4, 3.2) / (4.0 - 3.2);
    let slots = simulate(&fleet(&[(1.0, 4, 1)], &[3.2]).build(), "jsq", 6_000_000).means.unwrap();
    assert_meets(slots.mean_response_s, exact, "slots");
    assert_meets(slots.fraction_waiting, erlang_c(4, 3.2), "slots: fraction waiting");
    let central = simulate(&fleet(&[(1.0, 1, 4)], &[3.2]).build(), "central", 6_000_000).means.unwrap();
    assert_meets(central.mean_response_s, exact, "central");
    assert_meets(central.fraction_waiting, erlang_c(4, 3.2), "central: fraction waiting");
    assert_meets(central.p95_response_s, slots.p95_response_s.unwrap().mean, "central: 95 %");
}

/// Simulators that are right at low load have been found 28 to 71 % too optimistic at high load. Erlang C for equal servers, exact
/// chains for mixed ones, at loads 0.5, 0.9, 0.95; each interval is narrow enough to tell. 18 figures.
#[test]
fn demand_19_at_high_load_too_exact_values_are_inside_narrow_intervals() {
    let meets = |name: &str, fleet: &Arc<Fleet>, response_s: f64, waits: f64| {
        let means = simulate(fleet, name, 12_000_000).means.unwrap();
        let error = means.mean_response_s.unwrap().relative_half_width();
        assert!(error < 0.05, "{name}: {error}");
        assert_meets(means.mean_response_s, response_s, name);
        assert_meets(means.fraction_waiting, waits, &format!("{name}: fraction waiting"));
    };
    for load in [0.5, 0.9, 0.95] {
        let a = 4.0 * load;
        let (waits, response_s) = (erlang_c(4, a), 1.0 + erlang_c(4, a) / (4.0 - a));
        meets("jsq", &fleet(&[(1.0, 4, 1)], &[a]).build(), response_s, waits);
        meets("central", &fleet(&[(1.0, 1, 4)], &[a]).build(), response_s, waits);
        let mixed = fleet(&[(1.0, 1, 1), (0.4, 1, 2)], &[1.2 * load, 0.6 * load]).buffer(6);
        let mixed = mixed.rows(&[&[0, 1], &[0, 1, 2]]).build();
        let exact = exact::solve(&mixed, policy("jfsq"), None).unwrap().all;
        meets("jfsq", &mixed, exact.mean_response_s, exact.fraction_waiting);
    }
}

#[test]
fn servers_without_room_to_wait_block_as_erlang_b() {
    for name in ["jsq", "jfiq"] {
        let report = simulate(&fleet(&[(1.0, 1, 10)], &[8.0]).buffer(1).build(), name, 6_000_000);
        assert_meets(report.means.unwrap().blocking_probability, erlang_b(10, 8.0), name);
    }
}

/// `x_i = rho^(2^i - 1)` as N grows (Vvedenskaya, Dobrushin, Karpelevich, 1996); off by O(1/N): 5 / N allowed.
#[test]
fn two_choices_among_a_thousand_meet_the_mean_field() {
    let rho: f64 = 0.9;
    let report = simulate(&fleet(&[(1.0, 1, 1000)], &[1000.0 * rho]).build(), "jsq(2)", 20_000_000);
    let occupancy = &report.means.unwrap().per_server_type[0].occupancy;
    for i in 1..=6 {
        let limit = rho.powi(2_i32.pow(i) - 1);
        let off = (occupancy[i as usize - 1] - limit).abs();
        assert!(off < 5.0 / 1000.0, "x_{i} = {}, limit {limit}", occupancy[i as usize - 1]);
    }
}

/// One server, no buffer beyond its slot, jobs that give up after a fixed time: M/M/1 + D (Barrer, 1957). With
/// unit rate, load `rho` and patience `d`, the offered wait has density `p0 rho e^{-(1 - rho) w}` up to `d` and then
/// `p0 rho e^{rho d - w}`; a job reneges iff its offered wait exceeds `d`.
#[test]
fn jobs_give_up_after_the_queue_timeout() {
    let (rho, d) = (0.8_f64, 1.5_f64);
    let report = simulate(&fleet(&[(1.0, 1, 1)], &[rho]).buffer(1).waits(None, Some(d)).build(), "jsq", 6_000_000);
    let below = rho * (1.0 - (-(1.0 - rho) * d).exp()) / (1.0 - rho);
    let above = rho * (-(1.0 - rho) * d).exp();
    let means = report.means.unwrap();
    assert_meets(means.reneged_probability, above / (1.0 + below + above), "reneged");
    assert_meets(means.blocking_probability, 0.0, "blocked");
}
