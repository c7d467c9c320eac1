//! Connectivity against brute force that knows nothing of groups, kernels or spectra.

use rand::{RngExt, SeedableRng};
use shortline_core::random::Generator;
use shortline_core::{Fleet, JobTypeId, ServerId};
use shortline_theory::connectivity::{Connectivity, Witness};
use shortline_theory::{Model, TheoryError};

use crate::fleets::Build;

/// Differences of this size are rounding.
const ROUNDING: f64 = 1e-11;

/// A random fleet of up to `servers` servers in up to 3 classes, with job types of very different rates, some of rate 0
/// and some without a server.
fn random_fleet(seed: u64, servers: u32, job_types: u32) -> Fleet {
    let mut rng = Generator::seed_from_u64(seed);
    let mut build = Build::servers(&[]);
    let mut count = 0;
    for class in 0..rng.random_range(1..=3) {
        let size = rng.random_range(1..=servers / 3);
        count += size;
        build = build.class(size, 1.0 / f64::from(1 + class), 1);
    }
    let density = rng.random_range(0.1..0.9);
    for l in 0..rng.random_range(1..=job_types) {
        let row: Vec<u32> = (0..count).filter(|_| rng.random_bool(density)).collect();
        let row = if row.is_empty() && rng.random_bool(0.7) { vec![rng.random_range(0..count)] } else { row };
        let row = if l == 0 && row.is_empty() { vec![0] } else { row };
        let rate = if l > 0 && rng.random_bool(0.1) { 0.0 } else { 0.01 * 100_f64.powf(rng.random::<f64>()) };
        build = build.job_type(rate, 1.0, &row);
    }
    build.done()
}

/// `delta_m(e)` for `e = 0..=n_m` by trying every set of servers.
fn brute_force(fleet: &Fleet, servers: &[ServerId]) -> Vec<f64> {
    let rate = |l: JobTypeId| fleet.arrival_rate(l).expect("all have rates");
    let total: f64 = fleet.job_types().map(rate).sum();
    let mut delta = vec![0.0_f64; servers.len() + 1];
    for set in 0..1_u32 << servers.len() {
        let inside = |i: &usize| set >> i & 1 == 1;
        let chosen: Vec<ServerId> = (0..servers.len()).filter(inside).map(|i| servers[i]).collect();
        let cut_off = fleet.job_types().filter(|l| !chosen.iter().any(|&r| fleet.graph().contains(l.index(), r)));
        let share = cut_off.map(rate).sum::<f64>() / total;
        for delta in &mut delta[..=chosen.len()] {
            *delta = delta.max(share);
        }
    }
    delta
}

/// `R_m`, from the fleet's model.
fn fastest(fleet: &Fleet, m: usize) -> Vec<ServerId> {
    let model = Model::new(fleet).expect("the fleet is uniform");
    model.classes()[..m].iter().flat_map(|class| class.servers.clone()).collect()
}

/// Asserts that a witness is what it says and gives the share that it cuts off, counted by hand.
fn checked_share(fleet: &Fleet, witness: &Witness, servers: &[ServerId], e: usize) -> f64 {
    assert!(witness.servers.len() >= e && witness.servers.iter().all(|r| servers.contains(r)));
    let meets = |l: &JobTypeId| witness.servers.iter().any(|&r| fleet.graph().contains(l.index(), r));
    let cut_off: Vec<JobTypeId> = fleet.job_types().filter(|l| !meets(l)).collect();
    assert_eq!(cut_off, witness.job_types);
    let rate = |l: &JobTypeId| fleet.arrival_rate(*l).expect("all have rates");
    cut_off.iter().map(rate).sum::<f64>() / fleet.job_types().map(|l| rate(&l)).sum::<f64>()
}

#[test]
fn certificate_exact_value_and_witness_are_in_order_on_1000_random_fleets() {
    let (mut compared, mut sharp) = (0, 0);
    for seed in 0..1000 {
        let fleet = random_fleet(seed, 10, 10);
        let connectivity = Connectivity::new(&fleet).unwrap();
        for m in 1..=connectivity.class_count() {
            let servers = fastest(&fleet, m);
            assert_eq!(connectivity.server_count(m), servers.len());
            let certificate = connectivity.certificate(m);
            for (e, &delta) in brute_force(&fleet, &servers).iter().enumerate() {
                let place = format!("seed {seed}, m = {m}, e = {e}");
                assert!(certificate[e] >= delta - ROUNDING, "{place}: certificate {} < {delta}", certificate[e]);
                let bracket = connectivity.bracket(m, e).unwrap();
                assert!(bracket.exact && (bracket.lower - delta).abs() < ROUNDING, "{place}: {bracket:?}, {delta}");
                assert!((bracket.upper - delta).abs() < ROUNDING, "{place}: {bracket:?}, {delta}");
                assert!((connectivity.upper(m, e) - delta).abs() < ROUNDING);
                assert!((checked_share(&fleet, &bracket.witness, &servers, e) - delta).abs() < ROUNDING, "{place}");
                let found = connectivity.search_witness(m, e).unwrap();
                let found = checked_share(&fleet, &found, &servers, e);
                assert!(found <= delta + ROUNDING && found >= delta / 2.0, "{place}: found {found} of {delta}");
                compared += 1;
                sharp += usize::from(certificate[e] < 1.0 && certificate[e] > 0.0);
            }
        }
    }
    assert!(compared > 5_000 && sharp > 2_000, "{compared} compared, {sharp} of them neither 0 nor 1");
}

#[test]
fn an_empty_class_count_is_refused() {
    let fleet = Build::servers(&[1.0]).job_type(1.0, 1.0, &[]).done();
    assert!(matches!(Connectivity::new(&fleet), Err(TheoryError::NoEdges)));
}

/// `servers` of three speeds, `job_types` of Zipf rates with exponent `zipf`, each on `degree` random servers.
fn port_degree(servers: u32, job_types: u32, degree: usize, zipf: f64, seed: u64) -> Fleet {
    let mut rng = Generator::seed_from_u64(seed);
    let mut build = Build::servers(&[]).class(servers / 4, 1.0, 1);
    build = build.class(servers / 4, 0.5, 1).class(servers - servers / 4 * 2, 0.25, 1);
    for l in 0..job_types {
        let mut row = Vec::with_capacity(degree);
        while row.len() < degree {
            let server = rng.random_range(0..servers);
            if !row.contains(&server) {
                row.push(server);
            }
        }
        build = build.job_type(f64::from(l + 1).powf(-zipf), 1.0, &row);
    }
    build.done()
}

#[test]
#[ignore = "10 s: run with --ignored --nocapture"]
fn large_trial() {
    for zipf in [0.0, 1.0] {
        let fleet = port_degree(100_000, 100_000, 16, zipf, 1);
        let start = std::time::Instant::now();
        let connectivity = Connectivity::new(&fleet).unwrap();
        println!("new {:?}", start.elapsed());
        for m in 1..=3 {
            let n = connectivity.server_count(m);
            for u in [0.01, 0.05, 0.1, 0.25, 0.5] {
                let e = (n as f64 * u) as usize;
                let start = std::time::Instant::now();
                let b = connectivity.bracket(m, e).unwrap();
                println!(
                    "m {m} u {u} {:.4} {:.4} {:.4} {} {:?}",
                    b.lower,
                    b.upper,
                    connectivity.certificate(m)[e],
                    b.exact,
                    start.elapsed()
                );
            }
        }
    }
}

#[test]
#[ignore = "trial"]
fn medium_trial() {
    for (servers, job_types, degree, zipf) in [
        (256, 256, 16, 0.0),
        (256, 256, 16, 1.0),
        (256, 2048, 16, 0.0),
        (1024, 1024, 32, 0.0),
        (256, 256, 128, 0.0),
        (256, 256, 64, 0.0),
        (128, 128, 32, 0.0),
        (128, 128, 8, 0.0),
        (64, 64, 8, 0.0),
        (48, 48, 8, 0.0),
        (32, 32, 6, 0.0),
    ] {
        let fleet = port_degree(servers, job_types, degree, zipf, 1);
        let start = std::time::Instant::now();
        let connectivity = Connectivity::new(&fleet).unwrap();
        println!("{servers} {job_types} {degree} {zipf} new {:?}", start.elapsed());
        let m = 3;
        let n = connectivity.server_count(m);
        for u in [0.02, 0.05, 0.1, 0.25, 0.5, 0.75] {
            let e = (n as f64 * u) as usize;
            let start = std::time::Instant::now();
            let b = connectivity.bracket(m, e).unwrap();
            println!(
                "m {m} u {u} {:.4} {:.4} {:.4} {} {:?}",
                b.lower,
                b.upper,
                connectivity.certificate(m)[e],
                b.exact,
                start.elapsed()
            );
        }
    }
}
