//! The graph bound against its defining linear program, and against the fluid bound.

use rand::{RngExt, SeedableRng};
use shortline_core::random::Generator;
use shortline_theory::bounds::{GraphBound, Validity, fluid, graph};
use shortline_theory::stability::analyse;

use crate::fleets::{Build, random, with_rates};
use crate::linear_programs::fewest_busy_slots;

fn near(a: f64, b: f64, tolerance: f64) -> bool {
    (a - b).abs() <= tolerance * a.abs().max(b.abs())
}

#[test]
fn flows_by_speed_class_give_the_optimum_of_the_linear_program() {
    let mut feasible = 0;
    for seed in 0..300 {
        let fleet = random(seed, seed % 3 != 0).done();
        let bound = graph(&fleet).unwrap();
        let expected = fewest_busy_slots(&fleet, None);
        assert_eq!(bound.mean_jobs.is_finite(), expected.is_some(), "seed {seed}");
        if let Some(expected) = expected {
            assert!(near(bound.mean_jobs, expected, 1e-9), "seed {seed}: {} {expected}", bound.mean_jobs);
            feasible += 1;
        }
    }
    assert!((50..250).contains(&feasible), "both answers occur: {feasible} of 300 are feasible");
}

#[test]
fn at_accepted_throughput_it_is_the_program_with_that_total_in_uniform_fleets() {
    for seed in 0..200 {
        let fleet = random(seed, false).buffer(3).done();
        let bound = GraphBound::new(&fleet).unwrap();
        let arrivals: f64 = fleet.job_types().map(|l| fleet.arrival_rate(l).unwrap()).sum();
        for share in [0.2, 0.5, 0.8, 1.0] {
            let Some(expected) = fewest_busy_slots(&fleet, Some(share * arrivals)) else { continue };
            let bound = bound.at(share * arrivals).unwrap();
            assert!(bound.is_valid());
            assert!(near(bound.mean_jobs, expected, 1e-8), "seed {seed}, {share}: {} {expected}", bound.mean_jobs);
        }
    }
}

#[test]
fn where_sizes_differ_it_lies_at_most_at_the_program_with_that_total() {
    for seed in 0..200 {
        let fleet = if seed % 2 == 0 { random(seed, true) } else { with_rates(seed) }.done();
        let bound = GraphBound::new(&fleet).unwrap();
        let arrivals: f64 = fleet.job_types().map(|l| fleet.arrival_rate(l).unwrap()).sum();
        for share in [0.2, 0.5, 0.8, 1.0] {
            let Some(expected) = fewest_busy_slots(&fleet, Some(share * arrivals)) else { continue };
            let found = bound.at(share * arrivals).unwrap().mean_jobs;
            assert!(found <= expected * (1.0 + 1e-6), "seed {seed}, {share}: {found} {expected}");
            assert!(share < 1.0 || near(found, expected, 1e-6), "seed {seed}: {found} {expected}");
        }
    }
}

#[test]
fn rates_per_job_type_go_to_a_linear_program_over_merged_job_types_and_servers() {
    for seed in 0..200 {
        let fleet = with_rates(seed).done();
        let bound = graph(&fleet).unwrap();
        match fewest_busy_slots(&fleet, None) {
            Some(expected) => {
                assert!(near(bound.mean_jobs, expected, 1e-7), "seed {seed}: {} {expected}", bound.mean_jobs)
            }
            None => assert_eq!(bound.validity, Validity::Overloaded, "seed {seed}"),
        }
    }
}

#[test]
fn it_is_never_below_the_fluid_bound_and_finite_up_to_the_load_factor() {
    for seed in 0..300 {
        let build = match seed % 3 {
            0 => random(seed, false),
            1 => random(seed, true),
            _ => with_rates(seed),
        };
        let fleet = build.clone().done();
        assert!(graph(&fleet).unwrap().mean_jobs >= fluid(&fleet).unwrap().mean_jobs * (1.0 - 1e-9), "seed {seed}");
        let factor = analyse(&fleet).unwrap().max_load_factor;
        for (scale, is_finite) in [(factor * (1.0 - 1e-6), true), (factor * (1.0 + 1e-6), false)] {
            let bound = graph(&build.clone().scale_arrivals(scale).done()).unwrap();
            assert_eq!(bound.mean_jobs.is_finite(), is_finite, "seed {seed}, {scale}");
        }
    }
}

#[test]
fn it_grows_with_the_throughput_and_stays_finite_beyond_what_is_possible() {
    let mut rng = Generator::seed_from_u64(5);
    for seed in 0..100 {
        let bound = GraphBound::new(&random(seed, true).buffer(2).done()).unwrap();
        let mut throughputs: Vec<f64> = (0..10).map(|_| rng.random_range(0.01..9.0)).collect();
        throughputs.sort_by(f64::total_cmp);
        let jobs: Vec<f64> = throughputs.iter().map(|&th| bound.at(th).unwrap().mean_jobs).collect();
        assert!(jobs.is_sorted() && jobs.iter().all(|jobs| jobs.is_finite()), "seed {seed}: {jobs:?}");
    }
}

#[test]
fn work_that_the_fast_server_cannot_have_is_counted_at_the_slow_one() {
    // 0.6 of type 0 fits on the fast server; 0.2 of type 1 needs the slow one: 0.6 / 1 + 0.2 / 0.25.
    let fleet = Build::servers(&[1.0, 0.25]).job_type(0.6, 1.0, &[0, 1]).job_type(0.2, 1.0, &[1]).done();
    let bound = graph(&fleet).unwrap();
    assert!(near(bound.mean_jobs, 1.4, 1e-14));
    assert!(near(bound.mean_response_s, 1.4 / 0.8, 1e-14));
    assert!(near(fluid(&fleet).unwrap().mean_response_s, 1.0, 1e-14));
}

#[test]
fn a_throughput_that_is_none_is_refused() {
    let bound = GraphBound::new(&Build::servers(&[1.0]).job_type_on_all(0.5, 1.0).done()).unwrap();
    for throughput in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(bound.at(throughput).is_err());
    }
}

#[test]
fn a_fleet_beyond_the_linear_program_has_a_bound_between_the_fluid_bound_and_what_splitting_attains() {
    // 150 x 150, every job type on every server and of its own speed on each of 140 server types: 22,350 edges.
    let n = 150_u32;
    let mut rng = Generator::seed_from_u64(11);
    let mut build = Build::servers(&vec![1.0; n as usize]);
    for l in 0..n as usize {
        // All but one server, so that no two rows are alike.
        let row: Vec<u32> = (0..n).filter(|&r| r as usize != l).collect();
        build = build.job_type(0.8, 1.0, &row);
        for m in 0..n as usize {
            build = build.rate(l, m, rng.random_range(0.5..2.0));
        }
    }
    let fleet = build.done();
    let (found, least) = (graph(&fleet).unwrap(), fluid(&fleet).unwrap());
    assert!(found.is_valid());
    // 150 job types on servers of speed at most 2 each keep at least 0.8 / 2 of them busy.
    assert!(found.mean_jobs >= least.mean_jobs * (1.0 - 1e-9), "{} {}", found.mean_jobs, least.mean_jobs);
    // Each job type to its fastest server keeps that busy below 1 only in part; the bound cannot exceed 0.8 / 1.9 by much.
    assert!(found.mean_jobs <= 150.0 * 0.8 / 1.9, "{}", found.mean_jobs);
    assert!(GraphBound::new(&fleet).unwrap().at(60.0).unwrap().mean_jobs <= found.mean_jobs);
}
