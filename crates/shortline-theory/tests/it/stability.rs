//! `s*`, bottleneck, offered load and shares: hand cases, linear programs, brute force over all cuts.

use shortline_core::{Fleet, JobTypeId, ServerId};
use shortline_theory::TheoryError;
use shortline_theory::stability::{analyse, offered_load};

use crate::fleets::{Build, random, with_rates};
use crate::linear_programs;

/// `s*` by trying every set of job types.
fn smallest_cut_ratio(fleet: &Fleet) -> f64 {
    let job_types = fleet.job_type_count();
    (1..1_u32 << job_types).map(|set| cut_ratio(fleet, |l| set >> l.index() & 1 == 1)).fold(f64::INFINITY, f64::min)
}

/// Work that the servers of some job types can do, over the work of these job types.
fn cut_ratio(fleet: &Fleet, contains: impl Fn(JobTypeId) -> bool) -> f64 {
    let inside: Vec<JobTypeId> = fleet.job_types().filter(|&l| contains(l)).collect();
    let work: f64 =
        inside.iter().map(|&l| fleet.arrival_rate(l).expect("test fleets have rates") * fleet.size(l)).sum();
    let holds = |r: ServerId| inside.iter().any(|l| fleet.graph().contains(l.index(), r));
    let capacity = |r: ServerId| f64::from(fleet.slots(r)) * fleet.rate(JobTypeId::new(0), fleet.server_type(r));
    fleet.servers().filter(|&r| holds(r)).map(capacity).sum::<f64>() / work
}

fn near(a: f64, b: f64, tolerance: f64) -> bool {
    (a - b).abs() <= tolerance * a.abs().max(b.abs())
}

#[test]
fn the_load_factor_is_the_smallest_ratio_over_all_sets_of_job_types() {
    for seed in 0..400 {
        let fleet = random(seed, seed % 2 == 0).done();
        let stability = analyse(&fleet).unwrap();
        let expected = smallest_cut_ratio(&fleet);
        assert!(
            near(stability.max_load_factor, expected, 1e-12),
            "seed {seed}: {} {expected}",
            stability.max_load_factor
        );
    }
}

#[test]
fn demand_20_the_load_factor_is_the_optimum_of_the_linear_program() {
    for seed in 0..300 {
        let fleet = if seed % 2 == 0 { random(seed, seed % 4 == 0) } else { with_rates(seed) }.done();
        let (found, expected) = (analyse(&fleet).unwrap().max_load_factor, linear_programs::max_load_factor(&fleet));
        assert!(near(found, expected, 1e-9), "seed {seed}: {found} {expected}");
    }
}

#[test]
fn rates_per_job_type_keep_the_shares_within_the_inverse_load_factor() {
    for seed in 0..200 {
        let fleet = with_rates(seed).done();
        let stability = analyse(&fleet).unwrap();
        for l in fleet.job_types() {
            assert!(near(stability.shares.of(l).map(|(_, share)| share).sum(), 1.0, 1e-9), "seed {seed}");
        }
        let busiest = fleet.servers().map(|r| stability.shares.utilisation(r)).fold(0.0, f64::max);
        assert!(near(busiest, 1.0 / stability.max_load_factor, 1e-7), "seed {seed}");
        assert!(!stability.bottleneck.job_types.is_empty() && !stability.bottleneck.servers.is_empty(), "seed {seed}");
        for r in &stability.bottleneck.servers {
            assert!(near(stability.shares.utilisation(*r), busiest, 1e-7), "seed {seed}: {r:?} is not tight");
        }
    }
}

#[test]
fn rates_per_job_type_that_only_rescale_sizes_are_a_flow_again() {
    // Job type 1 is half as fast everywhere: the same as size 2.
    let rows = |build: Build| build.job_type(0.5, 1.0, &[0, 1]);
    let by_rates = rows(Build::servers(&[2.0, 1.0])).job_type(0.3, 1.0, &[0, 1]).rate(1, 0, 1.0).rate(1, 1, 0.5).done();
    let by_size = rows(Build::servers(&[2.0, 1.0])).job_type(0.3, 2.0, &[0, 1]).done();
    let factor = |fleet| analyse(fleet).unwrap().max_load_factor;
    assert!(near(factor(&by_rates), 3.0 / 1.1, 1e-14));
    assert!(near(factor(&by_size), 3.0 / 1.1, 1e-14));
}

#[test]
fn reversed_speeds_send_each_job_type_to_its_own_fast_server() {
    let fleet = Build::servers(&[1.0, 1.0])
        .job_type(1.0, 1.0, &[0, 1])
        .job_type(1.0, 1.0, &[0, 1])
        .rate(0, 0, 4.0)
        .rate(1, 1, 4.0)
        .done();
    let stability = analyse(&fleet).unwrap();
    assert!(near(stability.max_load_factor, 4.0, 1e-9));
    let shares = |l| stability.shares.of(JobTypeId::new(l)).collect::<Vec<_>>();
    assert_eq!(shares(0), [(ServerId::new(0), 1.0)]);
    assert_eq!(shares(1), [(ServerId::new(1), 1.0)]);
}

#[test]
fn the_bottleneck_is_a_cut_of_that_ratio_with_all_of_its_servers() {
    for seed in 0..400 {
        let fleet = random(seed, true).done();
        let stability = analyse(&fleet).unwrap();
        let bottleneck = &stability.bottleneck;
        let ratio = cut_ratio(&fleet, |l| bottleneck.job_types.contains(&l));
        assert!(near(ratio, stability.max_load_factor, 1e-12), "seed {seed}");
        let holds = |r: &ServerId| bottleneck.job_types.iter().any(|l| fleet.graph().contains(l.index(), *r));
        let servers: Vec<ServerId> = fleet.servers().filter(holds).collect();
        assert_eq!(bottleneck.servers, servers, "seed {seed}");
    }
}

#[test]
fn under_the_static_shares_no_server_is_busier_than_the_inverse_load_factor() {
    for seed in 0..400 {
        let fleet = random(seed, true).done();
        let stability = analyse(&fleet).unwrap();
        let mut busy = vec![0.0; fleet.server_count()];
        for l in fleet.job_types() {
            let total: f64 = stability.shares.of(l).map(|(_, share)| share).sum();
            assert!(near(total, 1.0, 1e-12), "seed {seed}: the shares of {l:?} add up to {total}");
            for (r, share) in stability.shares.of(l) {
                assert!(fleet.graph().contains(l.index(), r));
                let rate = fleet.arrival_rate(l).unwrap() * share;
                busy[r.index()] += rate / (fleet.service_rate(l, r) * f64::from(fleet.slots(r)));
            }
        }
        for r in fleet.servers() {
            assert!(busy[r.index()] <= (1.0 + 1e-12) / stability.max_load_factor, "seed {seed}");
            assert!((busy[r.index()] - stability.shares.utilisation(r)).abs() < 1e-12, "seed {seed}");
        }
        let everywhere =
            stability.bottleneck.servers.iter().all(|r| near(busy[r.index()], 1.0 / stability.max_load_factor, 1e-9));
        assert!(everywhere, "seed {seed}: the servers of the bottleneck are the busiest");
    }
}

#[test]
fn offered_load_of_a_uniform_fleet_counts_only_servers_with_a_job_type() {
    let fleet = Build::servers(&[2.0, 1.0, 5.0]).slots(2).job_type(1.0, 1.0, &[0]).job_type(0.5, 1.0, &[0, 1]).done();
    assert!(near(offered_load(&fleet).unwrap(), 1.5 / 6.0, 1e-14));
    assert!(near(analyse(&fleet).unwrap().offered_load, 1.5 / 6.0, 1e-14));
}

#[test]
fn offered_load_of_another_fleet_is_the_inverse_load_factor() {
    let fleet = Build::servers(&[2.0, 1.0]).job_type(1.0, 1.5, &[0]).job_type(0.5, 1.0, &[0, 1]).done();
    assert!(near(offered_load(&fleet).unwrap(), 0.75, 1e-12), "1.5 of 2 at the first server");
}

#[test]
fn a_job_type_on_no_server_is_the_bottleneck_and_the_others_keep_their_shares() {
    let fleet = Build::servers(&[1.0, 1.0]).job_type(0.5, 1.0, &[0, 1]).job_type(0.1, 1.0, &[]).done();
    let stability = analyse(&fleet).unwrap();
    assert!(!stability.is_stable());
    assert!(stability.max_load_factor.abs() < f64::MIN_POSITIVE);
    assert_eq!(stability.bottleneck.job_types, [JobTypeId::new(1)]);
    assert!(stability.bottleneck.servers.is_empty());
    let shares: Vec<f64> = stability.shares.of(JobTypeId::new(0)).map(|(_, share)| share).collect();
    assert_eq!(shares.len(), 2);
    assert!(stability.shares.of(JobTypeId::new(1)).next().is_none());
}

#[test]
fn a_job_type_that_never_arrives_limits_nothing() {
    let fleet = Build::servers(&[1.0, 1.0]).job_type(0.5, 1.0, &[0, 1]).job_type(0.0, 1.0, &[]).done();
    assert!(near(analyse(&fleet).unwrap().max_load_factor, 4.0, 1e-14));
}

#[test]
fn rates_that_differ_by_eleven_orders_of_magnitude_are_told_apart() {
    let fleet = Build::servers(&[1e3, 1e-8]).job_type(500.0, 1.0, &[0]).job_type(0.9e-8, 1.0, &[1]).done();
    let stability = analyse(&fleet).unwrap();
    assert!(near(stability.max_load_factor, 1.0 / 0.9, 1e-12), "{}", stability.max_load_factor);
    assert_eq!(stability.bottleneck.job_types, [JobTypeId::new(1)]);
}

#[test]
fn what_is_missing_is_named() {
    use shortline_core::fleet::{ArrivalRates, Speed};
    let build = Build::servers(&[1.0]).job_type(0.5, 1.0, &[0]);
    let error = |change: fn(&mut Build)| {
        let mut changed = build.clone();
        change(&mut changed);
        analyse(&changed.done()).unwrap_err()
    };
    assert_eq!(
        error(|b| b.parts.job_types[0].arrivals = ArrivalRates::Unknown),
        TheoryError::MissingRates { job_type: "j-0".into(), count: 1 }
    );
    assert_eq!(error(|b| b.parts.job_types[0].arrivals = ArrivalRates::Each(0.0)), TheoryError::NoArrivals);
    assert_eq!(
        error(|b| b.parts.server_types[0].speed = Speed::Rank(1)),
        TheoryError::RanksOnly { server_type: "t-0".into() }
    );
    assert_eq!(analyse(&Build::servers(&[1.0]).job_type(0.5, 1.0, &[]).done()).unwrap_err(), TheoryError::NoEdges);
}
