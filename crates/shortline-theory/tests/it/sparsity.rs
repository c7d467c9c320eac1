//! Proportional sparsity against every set of servers of a given size.

use rand::{RngExt, SeedableRng};
use shortline_core::random::Generator;
use shortline_core::{Fleet, ServerId};
use shortline_theory::connectivity::sparsity::Sparsity;

use crate::fleets::Build;

/// Differences of this size are rounding.
const ROUNDING: f64 = 1e-9;

fn random_fleet(seed: u64) -> Fleet {
    let mut rng = Generator::seed_from_u64(seed);
    let servers = rng.random_range(2..=9);
    let density = rng.random_range(0.3..0.95);
    let mut build = Build::servers(&[]).class(servers, 1.0, 1);
    for l in 0..rng.random_range(2..=9) {
        let row: Vec<u32> = (0..servers).filter(|_| l == 0 || rng.random_bool(density)).collect();
        build = build.job_type(rng.random_range(0.0..1.0), 1.0, &row);
    }
    build.done()
}

/// Share of job types that are off, by the definition.
fn share_off(fleet: &Fleet, set: &[ServerId], epsilon: f64) -> f64 {
    let u = set.len() as f64 / fleet.server_count() as f64;
    let off = fleet.job_types().filter(|l| {
        let row: Vec<ServerId> = fleet.servers().filter(|&r| fleet.graph().contains(l.index(), r)).collect();
        let inside = row.iter().filter(|r| set.contains(r)).count() as f64;
        row.is_empty() || (inside / row.len() as f64 - u).abs() >= epsilon
    });
    off.count() as f64 / fleet.job_type_count() as f64
}

#[test]
fn certificate_and_witness_bracket_every_set_on_500_random_graphs() {
    let (mut proper, mut found_all, mut cases) = (0, 0, 0);
    for seed in 0..500 {
        let fleet = random_fleet(seed);
        let sparsity = Sparsity::new(&fleet).expect("there are edges");
        let n = fleet.server_count();
        assert_eq!(sparsity.server_count(), n, "the first job type is on all servers");
        let servers: Vec<ServerId> = fleet.servers().collect();
        // No difference of fractions of up to 9 servers is this.
        let epsilon = [0.123_45, 0.299_9, 0.456_7][seed as usize % 3];
        let k = 1 + seed as usize % n;
        let sets = (0..1_u32 << n).filter(|set| set.count_ones() as usize == k);
        let sets = sets.map(|set| (0..n).filter(|i| set >> i & 1 == 1).map(|i| servers[i]).collect::<Vec<_>>());
        let worst = sets.map(|set| share_off(&fleet, &set, epsilon)).fold(0.0, f64::max);
        let bracket = sparsity.bracket(k, epsilon).expect("sizes and epsilon are in range");
        let place = format!("seed {seed}, k = {k}, epsilon = {epsilon}: {worst}, {bracket:?}");
        assert_eq!(bracket.witness.len(), k);
        assert!((share_off(&fleet, &bracket.witness, epsilon) - bracket.lower).abs() < ROUNDING, "{place}");
        assert!(bracket.lower <= worst + ROUNDING && bracket.lower >= worst / 2.0 - ROUNDING, "{place}");
        assert!(sparsity.upper(k, epsilon) >= worst - ROUNDING, "{place}");
        assert!(sparsity.upper_for_all_sizes(epsilon) >= sparsity.upper(k, epsilon));
        cases += usize::from(worst > 0.0);
        proper += usize::from(bracket.upper < 1.0);
        found_all += usize::from(bracket.lower >= worst - ROUNDING);
    }
    assert!(cases > 250 && proper > 100 && found_all > 450, "{cases} {proper} {found_all}");
}

#[test]
fn a_complete_graph_is_sparse_in_this_sense_and_halves_are_not() {
    let all: Vec<u32> = (0..1_000).collect();
    let complete = Build::servers(&[]).class(1_000, 1.0, 1).job_type(1.0, 1.0, &all).job_type(2.0, 1.0, &all).done();
    let complete = Sparsity::new(&complete).expect("there are edges");
    assert!(complete.upper_for_all_sizes(0.01) < 1e-4);
    let bracket = complete.bracket(300, 0.01).expect("in range");
    assert!(bracket.lower == 0.0 && bracket.upper < 1e-4);

    let halves =
        Build::servers(&[]).class(1_000, 1.0, 1).job_type(1.0, 1.0, &all[..500]).job_type(2.0, 1.0, &all[500..]);
    let halves = Sparsity::new(&halves.done()).expect("there are edges");
    let bracket = halves.bracket(500, 0.4).expect("in range");
    assert!(bracket.lower > 1.0 - ROUNDING && bracket.upper > 1.0 - ROUNDING, "{bracket:?}");
}

#[test]
fn a_random_graph_of_degree_64_is_certified_and_job_types_without_a_server_are_off() {
    let mut rng = Generator::seed_from_u64(1);
    let mut build = Build::servers(&[]).class(256, 1.0, 1);
    for _ in 0..256 {
        let row: Vec<u32> = (0..256).filter(|_| rng.random_bool(0.25)).collect();
        build = build.job_type(1.0, 1.0, &row);
    }
    let served = build.clone().done();
    let lonely = build.job_type(0.0, 1.0, &[]).done();
    let (served, lonely) = (Sparsity::new(&served).expect("edges"), Sparsity::new(&lonely).expect("edges"));
    let bracket = served.bracket(128, 0.25).expect("in range");
    assert!(bracket.lower > 0.0 && bracket.upper < 0.25 && bracket.lower <= bracket.upper, "{bracket:?}");
    assert!((lonely.upper(0, 0.25) - 1.0 / 257.0).abs() < ROUNDING && served.upper(0, 0.25) < ROUNDING);
    assert!(served.bracket(257, 0.25).is_none() && served.bracket(1, 0.0).is_none());
    assert!(served.bracket(1, f64::NAN).is_none() && served.upper(1, f64::NAN) >= 1.0);
}
