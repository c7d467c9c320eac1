//! The pooled bound against Erlang C, M/M/1 and a direct sum over the chain.

use shortline_core::fleet::settings::{Arrivals, SizeLaw};
use shortline_theory::bounds::{Validity, fluid, pooled};

use crate::fleets::{Build, random};

fn near(a: f64, b: f64, tolerance: f64) -> bool {
    (a - b).abs() <= tolerance * a.abs().max(b.abs())
}

/// Mean jobs in M/M/n by Erlang's recursion for the blocking probability.
fn erlang_c_mean_jobs(servers: u32, load: f64) -> f64 {
    let a = f64::from(servers) * load;
    let b = (1..=servers).fold(1.0, |b, k| a * b / (f64::from(k) + a * b));
    let c = b / (1.0 - load * (1.0 - b));
    a + c * load / (1.0 - load)
}

#[test]
fn one_server_is_the_single_server_queue() {
    let bound = pooled(&Build::servers(&[2.0]).job_type_on_all(1.5, 1.0).done()).unwrap();
    assert!(near(bound.mean_response_s, 1.0 / (2.0 - 1.5), 1e-14));
    assert!(bound.is_valid());
}

#[test]
fn equal_servers_or_slots_are_erlang_c() {
    for (servers, load) in [(1, 0.5), (2, 0.9), (10, 0.3), (64, 0.95), (1_000, 0.99)] {
        let rate = f64::from(servers) * load;
        let expected = erlang_c_mean_jobs(servers, load);
        let by_servers = Build::servers(&[]).class(servers, 1.0, 1).job_type_on_all(rate, 1.0).done();
        assert!(near(pooled(&by_servers).unwrap().mean_jobs, expected, 1e-12), "{servers} servers at {load}");
        let by_slots = Build::servers(&[]).class(1, 1.0, servers).job_type_on_all(rate, 1.0).done();
        assert!(near(pooled(&by_slots).unwrap().mean_jobs, expected, 1e-12), "{servers} slots at {load}");
    }
}

#[test]
fn a_million_servers_at_load_0_9999_lose_no_digits() {
    let (servers, load) = (1_000_000, 0.9999);
    let fleet = Build::servers(&[]).class(servers, 1.0, 1).job_type_on_all(f64::from(servers) * load, 1.0).done();
    let expected = erlang_c_mean_jobs(servers, load);
    let found = pooled(&fleet).unwrap().mean_jobs;
    assert!(near(found, expected, 1e-11), "{found} {expected}");
    assert!(found > fluid(&fleet).unwrap().mean_jobs);
}

#[test]
fn servers_of_different_speed_are_the_birth_death_chain_summed_directly() {
    for seed in 0..200 {
        let fleet = random(seed, false).done();
        let mut rates: Vec<f64> = fleet
            .servers()
            .filter(|&r| fleet.job_types().any(|l| fleet.graph().contains(l.index(), r)))
            .flat_map(|r| vec![fleet.service_rate(shortline_core::JobTypeId::new(0), r); fleet.slots(r) as usize])
            .collect();
        rates.sort_by(|a, b| b.total_cmp(a));
        let arrivals: f64 = fleet.job_types().map(|l| fleet.arrival_rate(l).unwrap()).sum();
        let capacity: f64 = rates.iter().sum();
        let bound = pooled(&fleet).unwrap();
        if arrivals >= capacity {
            assert_eq!(bound.validity, Validity::Overloaded);
            continue;
        }
        let (mut weight, mut total, mut jobs, mut j) = (1.0, 1.0, 0.0, 0_usize);
        while weight > 1e-18 * total || j < rates.len() {
            weight *= arrivals / rates.iter().take(j + 1).sum::<f64>();
            j += 1;
            total += weight;
            jobs += weight * j as f64;
        }
        assert!(near(bound.mean_jobs, jobs / total, 1e-9), "seed {seed}: {} {}", bound.mean_jobs, jobs / total);
        assert!(bound.mean_jobs >= fluid(&fleet).unwrap().mean_jobs, "seed {seed}");
    }
}

#[test]
fn it_says_where_it_does_not_hold() {
    let build = || Build::servers(&[1.0]).job_type_on_all(0.5, 1.0);
    let validity = |build: Build| pooled(&build.done()).unwrap().validity;
    assert_eq!(validity(build().buffer(5)), Validity::Losses);
    assert_eq!(validity(build().settings(|s| s.service.law = SizeLaw::Deterministic)), Validity::Sizes);
    assert_eq!(validity(build().settings(|s| s.arrivals = Arrivals::Renewal { cv2: 4.0 })), Validity::Arrivals);
    // The fluid bound knows means only.
    let renewal = build().settings(|s| s.arrivals = Arrivals::Renewal { cv2: 4.0 });
    assert_eq!(fluid(&renewal.done()).unwrap().validity, Validity::Holds);
    assert_eq!(fluid(&build().settings(|s| s.service.law = SizeLaw::Trace).done()).unwrap().validity, Validity::Sizes);
}
