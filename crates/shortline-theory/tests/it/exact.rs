//! Exact chains against closed forms, against each other, and against the bounds.

use shortline_core::Fleet;
use shortline_core::fleet::settings::{Discipline, Overflow, SizeLaw};
use shortline_core::policy::PolicySpec;
use shortline_theory::TheoryError;
use shortline_theory::bounds::{FluidBound, GraphBound, pooled};
use shortline_theory::exact::{Exact, solve};

use crate::fleets::{Build, random};

fn near(a: f64, b: f64, tolerance: f64) -> bool {
    (a - b).abs() <= tolerance * a.abs().max(b.abs())
}

fn policies() -> Vec<PolicySpec> {
    let names = "random,jsq,jfsq,jiq,jfiq,jsq(1),jsq(2),jfsq(2),jsq(1,1),jsq(2,2),sed,nq,split,central";
    PolicySpec::parse_list(names).expect("these are policies")
}

fn exact(fleet: &Fleet, policy: &str) -> Exact {
    let policy = policy.parse().expect("a policy");
    solve(fleet, policy, None).expect("a small Markovian fleet")
}

/// Mean jobs and blocking probability of M/M/c/k.
fn birth_death(arrivals: f64, rate: f64, slots: u32, room: u32) -> (f64, f64) {
    let mut weights = vec![1.0];
    for j in 1..=room {
        weights.push(weights[weights.len() - 1] * arrivals / (rate * f64::from(j.min(slots))));
    }
    let total: f64 = weights.iter().sum();
    let jobs: f64 = weights.iter().enumerate().map(|(j, w)| j as f64 * w).sum();
    (jobs / total, weights[room as usize] / total)
}

#[test]
fn one_server_is_a_queue_with_finite_room_under_every_policy() {
    for (slots, room) in [(1, 1), (1, 3), (2, 5), (3, 3)] {
        let fleet = Build::servers(&[0.7]).slots(slots).buffer(room).job_type_on_all(1.1, 1.0).done();
        let (jobs, blocked) = birth_death(1.1, 0.7, slots, room);
        for policy in policies().into_iter().filter(|&p| p != PolicySpec::Central) {
            let exact = solve(&fleet, policy, None).unwrap();
            assert!(near(exact.all.mean_jobs, jobs, 1e-13), "{policy}");
            assert!(near(exact.all.blocking_probability, blocked, 1e-13), "{policy}");
            assert!(near(exact.all.mean_response_s, jobs / (1.1 * (1.0 - blocked)), 1e-13), "{policy}");
            assert!(near(exact.all.mean_service_s, 1.0 / 0.7, 1e-13), "{policy}");
            assert!(near(exact.per_job_type[0].mean_response_s, exact.all.mean_response_s, 1e-12), "{policy}");
        }
    }
}

#[test]
fn central_on_equal_servers_is_one_queue_and_waits_with_erlangs_probability() {
    // 3 servers, a line of at most 20: M/M/3/23.
    let fleet = Build::servers(&[]).class(3, 1.0, 1).job_type_on_all(2.4, 1.0);
    let fleet = fleet.settings(|s| s.lines.size = Some(20)).done();
    let exact = exact(&fleet, "central");
    let (jobs, blocked) = birth_death(2.4, 1.0, 3, 23);
    assert!(near(exact.all.mean_jobs, jobs, 1e-12));
    assert!(near(exact.all.blocking_probability, blocked, 1e-12));
    assert!(near(exact.mean_jobs_in_front, jobs - 2.4 * (1.0 - blocked), 1e-11));
    assert!(near(exact.all.mean_service_s, 1.0, 1e-12));
}

#[test]
fn central_is_the_fastest_idle_server_with_a_line_in_front() {
    let build = || {
        let build = Build::servers(&[2.0, 1.0, 0.5]).slots(2).job_type(1.5, 1.0, &[0, 1]).job_type(1.0, 1.0, &[1, 2]);
        build.settings(|s| s.lines.size = Some(3))
    };
    let central = exact(&build().done(), "central");
    let jfiq = exact(&build().buffer(2).settings(|s| s.overflow = Overflow::Wait).done(), "jfiq");
    assert!(near(central.all.mean_response_s, jfiq.all.mean_response_s, 1e-12));
    assert!(near(central.all.fraction_waiting, jfiq.all.fraction_waiting, 1e-12));
}

#[test]
fn truncating_unbounded_buffers_far_out_gives_the_open_queue() {
    let fleet = Build::servers(&[1.0]).job_type_on_all(0.5, 1.0).done();
    let exact = solve(&fleet, PolicySpec::Jsq, Some(60)).unwrap();
    assert!(near(exact.all.mean_response_s, 2.0, 1e-12));
    assert!(near(exact.all.fraction_waiting, 0.5, 1e-12));
    assert!(near(exact.all.mean_waiting_s, 1.0, 1e-12));
    assert!(exact.all.blocking_probability < 1e-17);
}

#[test]
fn job_types_apart_are_queues_of_their_own() {
    let fleet = Build::servers(&[1.0, 3.0]).buffer(3).job_type(0.8, 1.0, &[0]).job_type(2.0, 1.0, &[1]).done();
    for policy in policies().into_iter().filter(|&p| p != PolicySpec::Central && p != "jsq(1,1)".parse().unwrap()) {
        let exact = solve(&fleet, policy, None).unwrap();
        for (l, (arrivals, rate)) in [(0.8, 1.0), (2.0, 3.0)].into_iter().enumerate() {
            let (jobs, blocked) = birth_death(arrivals, rate, 1, 3);
            assert!(near(exact.per_job_type[l].mean_jobs, jobs, 1e-12), "{policy}");
            assert!(near(exact.per_job_type[l].blocking_probability, blocked, 1e-12), "{policy}");
            let server = fleet.server_at_file_index(l);
            assert!(near(exact.per_server[server.index()].mean_jobs, jobs, 1e-12), "{policy}");
        }
    }
}

#[test]
fn keeping_the_job_types_gives_the_same_law_as_counting_jobs() {
    // A speed that no job sees makes the fleet formally not uniform: the chain then keeps the job types.
    let build = || {
        let build = Build::servers(&[1.0, 0.4, 7.0]).class(1, 0.4, 2).buffer(2);
        build.job_type(0.6, 1.0, &[0, 1]).job_type(0.5, 1.0, &[1, 3])
    };
    let (counted, kept) = (build().done(), build().rate(0, 2, 1.0).done());
    assert!(counted.is_uniform() && !kept.is_uniform());
    for policy in policies().into_iter().filter(|&p| p != PolicySpec::Central) {
        // Fast means fastest of the fleet for the job type, which the unseen speed changes.
        if matches!(policy, PolicySpec::JsqFastOther { .. }) {
            continue;
        }
        let (a, b) = (solve(&counted, policy, None).unwrap(), solve(&kept, policy, None).unwrap());
        assert!(b.states > a.states);
        for (a, b) in a.per_job_type.iter().zip(&b.per_job_type) {
            assert!(near(a.mean_response_s, b.mean_response_s, 1e-11), "{policy}: {a:?} {b:?}");
            assert!(near(a.blocking_probability, b.blocking_probability, 1e-11), "{policy}");
            assert!(near(a.fraction_waiting, b.fraction_waiting, 1e-11), "{policy}");
            assert!(near(a.mean_service_s, b.mean_service_s, 1e-11), "{policy}");
        }
    }
}

#[test]
fn job_types_of_different_speed_at_one_server_match_a_chain_written_by_hand() {
    // Room for one job; rates 2 and 0.5: three states, pi_l = pi_0 lambda_l / mu_l.
    let fleet = Build::servers(&[2.0]).buffer(1).job_type(0.6, 1.0, &[0]).job_type(0.3, 4.0, &[0]).done();
    let exact = exact(&fleet, "jsq");
    let empty = 1.0 / (1.0 + 0.3 + 0.6);
    assert_eq!(exact.states, 3);
    assert!(near(exact.per_job_type[0].mean_jobs, 0.3 * empty, 1e-14));
    assert!(near(exact.per_job_type[1].mean_jobs, 0.6 * empty, 1e-14));
    assert!(near(exact.per_job_type[1].mean_response_s, 2.0, 1e-14));
    assert!(near(exact.all.blocking_probability, 1.0 - empty, 1e-14));
}

#[test]
fn what_arrives_is_blocked_or_served_and_totals_are_sums_over_job_types() {
    for seed in 0..60 {
        let build = random(seed, false);
        if build.parts.servers.iter().map(|s| s.names.len()).sum::<usize>() > 5 {
            continue;
        }
        let fleet = build.buffer(2).done();
        for policy in policies().into_iter().filter(|&p| p != PolicySpec::Central) {
            let exact = solve(&fleet, policy, None).unwrap();
            assert!(exact.residual < 1e-12, "seed {seed}, {policy}");
            let jobs: f64 = exact.per_job_type.iter().map(|l| l.mean_jobs).sum();
            assert!(near(exact.all.mean_jobs, jobs, 1e-10), "seed {seed}, {policy}: {} {jobs}", exact.all.mean_jobs);
            let served: f64 = fleet
                .servers()
                .map(|r| {
                    let rate = fleet.service_rate(shortline_core::JobTypeId::new(0), r) * f64::from(fleet.slots(r));
                    exact.per_server[r.index()].utilisation * rate
                })
                .sum();
            let accepted = exact.all.arrival_rate_per_s * (1.0 - exact.all.blocking_probability);
            assert!(near(served, accepted, 1e-10), "seed {seed}, {policy}: {served} {accepted}");
        }
    }
}

#[test]
fn no_policy_is_below_the_bounds_at_its_throughput() {
    for seed in 0..60 {
        let build = random(seed, seed % 2 == 0);
        let servers: usize = build.parts.servers.iter().map(|s| s.names.len()).sum();
        let small = if seed % 2 == 0 { servers <= 2 && build.parts.job_types.len() <= 3 } else { servers <= 5 };
        if !small {
            continue;
        }
        let fleet = build.buffer(2).done();
        let (fluid, graph) = (FluidBound::new(&fleet).unwrap(), GraphBound::new(&fleet).unwrap());
        for policy in policies().into_iter().filter(|&p| p != PolicySpec::Central) {
            let exact = solve(&fleet, policy, None).unwrap();
            let throughput = exact.all.arrival_rate_per_s * (1.0 - exact.all.blocking_probability);
            for bound in [fluid.at(throughput).unwrap(), graph.at(throughput).unwrap()] {
                let (least, found) = (bound.mean_response_s, exact.all.mean_response_s);
                assert!(least <= found * (1.0 + 1e-9), "seed {seed}, {policy}, {}: {least} {found}", bound.kind);
            }
        }
    }
}

#[test]
fn without_losses_the_pooled_bound_lies_below_the_best_policy_and_is_met_by_central() {
    let fleet = Build::servers(&[]).class(2, 1.0, 1).job_type_on_all(1.2, 1.0).done();
    let bound = pooled(&fleet).unwrap().mean_response_s;
    let response = |policy: &str| solve(&fleet, policy.parse().unwrap(), Some(80)).unwrap().all.mean_response_s;
    assert!(near(response("central"), bound, 1e-9));
    assert!(response("jsq") > bound * 1.01);
    assert!(response("random") > response("jsq") * 1.2);
}

#[test]
fn jobs_in_front_take_the_first_place_that_frees_and_types_keep_their_order() {
    // One server without queue, two job types, lines of one: states by hand are 1 + 1 + 2 + 2.
    let fleet = Build::servers(&[1.0]).buffer(1).job_type(0.4, 1.0, &[0]).job_type(0.4, 1.0, &[0]);
    let wait = |s: &mut shortline_core::fleet::Settings| {
        s.overflow = Overflow::Wait;
        s.lines.size = Some(1);
    };
    let exact = exact(&fleet.settings(wait).done(), "jsq");
    assert_eq!(exact.states, 6);
    // Total jobs: arrivals 0.8, 0.8, then only the other type's 0.4: a birth-death chain.
    let weights = [1.0, 0.8, 0.64, 0.256];
    let total: f64 = weights.iter().sum();
    let jobs = (0.8 + 2.0 * 0.64 + 3.0 * 0.256) / total;
    assert!(near(exact.all.mean_jobs, jobs, 1e-13));
    let blocked = (0.5 * 0.64 + 0.256) / total;
    assert!(near(exact.all.blocking_probability, blocked, 1e-13));
    assert!(near(exact.per_job_type[0].mean_response_s, exact.per_job_type[1].mean_response_s, 1e-13));
}

#[test]
fn while_a_line_exists_arrivals_join_it_though_a_server_has_room() {
    // `random` waits at a full server's door. By hand, with one job in line: states 0, 1, 1 + line, 2, 2 + line in
    // proportions 1, 1, 1/2, 1/4, 1/8; in 1 + line every arrival is blocked.
    let fleet = Build::servers(&[]).class(2, 1.0, 1).buffer(1).job_type_on_all(1.0, 1.0);
    let wait = |s: &mut shortline_core::fleet::Settings| {
        s.overflow = Overflow::Wait;
        s.lines.size = Some(1);
    };
    let exact = exact(&fleet.settings(wait).done(), "random");
    assert!(near(exact.all.mean_jobs, 1.0, 1e-13));
    assert!(near(exact.all.blocking_probability, 0.625 / 2.875, 1e-13));
    assert!(near(exact.mean_jobs_in_front, 0.625 / 2.875, 1e-13));
}

#[test]
fn large_chains_are_swept_and_say_how_exact_they_are() {
    let fleet = Build::servers(&[1.0, 0.5, 0.5, 0.25]).buffer(6).job_type_on_all(1.8, 1.0).done();
    let exact = exact(&fleet, "jfsq");
    assert_eq!(exact.states, 7_usize.pow(4));
    assert!(exact.residual < 1e-12);
    let accepted = exact.all.arrival_rate_per_s * (1.0 - exact.all.blocking_probability);
    let served: f64 = exact.per_server.iter().zip([1.0, 0.5, 0.5, 0.25]).map(|(s, rate)| s.utilisation * rate).sum();
    assert!(near(accepted, served, 1e-11));
}

#[test]
fn what_the_chain_does_not_cover_is_refused_by_name() {
    let build = || Build::servers(&[1.0]).buffer(2).job_type_on_all(0.5, 1.0);
    let refused = |build: Build| match solve(&build.done(), PolicySpec::Jsq, None) {
        Err(TheoryError::NotCovered { what, .. }) => what,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(build().settings(|s| s.service.law = SizeLaw::Deterministic)), "[service] distribution");
    assert_eq!(
        refused(build().settings(|s| s.service.discipline = Discipline::ProcessorSharing)),
        "[service] discipline"
    );
    assert_eq!(refused(build().settings(|s| s.information.gateways = 2)), "[information] gateways");
    let unbounded = Build::servers(&[1.0]).job_type_on_all(0.5, 1.0);
    assert_eq!(refused(unbounded), "an unbounded buffer or line");
}
