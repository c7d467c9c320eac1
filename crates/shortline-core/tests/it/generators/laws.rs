//! The laws of the random families, by chi-square tests on fixed seeds.
//!
//! Each test compares counts over many seeds with the law in the generator's description. A test fails when its
//! statistic lies beyond the 1 - 1e-6 quantile: with a generator that follows its law, one of a million choices of the
//! seeds would fail it, so the ten or so tests together raise a false alarm for one choice in 100,000.

use std::collections::BTreeMap;

use shortline_core::graph::generate::{Demand, bernoulli_by_job_type, bernoulli_by_pair, generate, port_degrees};
use shortline_core::graph::{EdgeProbability, Edges, GraphSpec, Sparsity};
use statrs::distribution::{Binomial, ChiSquared, ContinuousCDF, Discrete};

use super::masks;

const FALSE_ALARM: f64 = 1e-6;

fn assert_chi_square(what: &str, statistic: f64, freedom: usize) {
    let p_value = ChiSquared::new(freedom as f64).expect("positive freedom").sf(statistic);
    assert!(p_value > FALSE_ALARM, "{what}: chi-square {statistic:.1} with {freedom} degrees, p-value {p_value:.2e}");
}

/// Pearson's statistic of counts against expected counts.
fn pearson(cells: impl Iterator<Item = (f64, f64)>) -> f64 {
    cells.map(|(seen, expected)| (seen - expected).powi(2) / expected).sum()
}

/// All outcomes in `outcomes` equally likely and no other ever.
fn assert_uniform(what: &str, outcomes: usize, samples: impl Iterator<Item = Vec<u32>>) {
    let mut seen: BTreeMap<Vec<u32>, u32> = BTreeMap::new();
    samples.for_each(|sample| *seen.entry(sample).or_default() += 1);
    assert_eq!(seen.len(), outcomes, "{what}: number of different outcomes");
    let expected = f64::from(seen.values().sum::<u32>()) / outcomes as f64;
    assert_chi_square(what, pearson(seen.values().map(|&count| (count.into(), expected))), outcomes - 1);
}

fn graphs(
    spec: impl Fn(u64) -> GraphSpec,
    servers: usize,
    job_types: usize,
    seeds: u64,
) -> impl Iterator<Item = Edges> {
    (0..seeds).map(move |seed| {
        generate(&spec(seed), &Demand::of_size(servers, job_types)).expect("a graph that exists").edges
    })
}

/// Counts of each pair over graphs of a law in which all pairs are alike and all degrees fixed.
///
/// By symmetry the deviations are isotropic on the matrices whose rows and columns sum to 0; with probability p per
/// pair their variance there is `R p (1 - p) N L / ((N - 1)(L - 1))` after R graphs.
fn assert_pairs_alike(what: &str, servers: usize, job_types: usize, p: f64, samples: impl Iterator<Item = Edges>) {
    let (mut counts, mut graphs) = (vec![0_u32; servers * job_types], 0.0);
    for edges in samples {
        graphs += 1.0;
        for (l, mask) in masks(&edges, servers, job_types).into_iter().enumerate() {
            (0..servers).for_each(|r| counts[l * servers + r] += mask >> r & 1);
        }
    }
    let freedom = (servers - 1) * (job_types - 1);
    let variance = graphs * p * (1.0 - p) * (servers * job_types) as f64 / freedom as f64;
    let squares: f64 = counts.iter().map(|&count| (f64::from(count) - graphs * p).powi(2)).sum();
    assert_chi_square(what, squares / variance, freedom);
}

#[test]
fn port_degree_rows_are_uniform_and_independent() {
    // 2 of 5 servers in two rows: 10 * 10 pairs of subsets. 4 of 6: the complement is drawn.
    let spec = |degree| move |seed| GraphSpec::PortDegree { degree, seed };
    assert_uniform("2 of 5", 100, graphs(spec(2), 5, 2, 40_000).map(|edges| masks(&edges, 5, 2)));
    assert_uniform("4 of 6", 225, graphs(spec(4), 6, 2, 40_000).map(|edges| masks(&edges, 6, 2)));
}

/// 3 of 300 are drawn and sorted, unlike the small cases; each server is in `R L 3 / 300` rows, rows having fixed
/// sums: variance `p (1 - p) N / (N - 1)` per row and N - 1 degrees of freedom.
#[test]
fn port_degree_reaches_every_server_of_a_large_fleet_alike() {
    let (rows, p) = (100_000, 0.01);
    let edges = generate(&GraphSpec::PortDegree { degree: 3, seed: 11 }, &Demand::of_size(300, rows)).unwrap().edges;
    let mut counts = vec![0_u32; 300];
    (0..rows).for_each(|l| edges.row(l).unwrap().iter().for_each(|&r| counts[r as usize] += 1));
    let expected = rows as f64 * p;
    let squares: f64 = counts.iter().map(|&count| (f64::from(count) - expected).powi(2)).sum();
    assert_chi_square("3 of 300", squares / (expected * (1.0 - p) * 300.0 / 299.0), 299);
}

#[test]
fn port_degrees_given_one_by_one_are_uniform() {
    let samples = (0..30_000).map(|seed| masks(&port_degrees(&[1, 3, 0], 5, seed).unwrap(), 5, 3));
    assert_uniform("1, 3 and 0 of 5", 50, samples);
}

#[test]
fn server_degree_servers_choose_uniformly_and_independently() {
    // Two servers choose 2 of 4 job types each: 6 * 6 graphs.
    let spec = |seed| GraphSpec::ServerDegree { degree: 2, biregular: false, seed };
    assert_uniform("2 of 4", 36, graphs(spec, 2, 4, 30_000).map(|edges| masks(&edges, 2, 4)));
}

#[test]
fn server_degree_leaves_job_types_a_binomial_degree() {
    let (servers, job_types, degree) = (40, 200, 10);
    let binomial = Binomial::new(degree as f64 / job_types as f64, servers as u64).unwrap();
    let mut counts = [0_u32; 8];
    let spec = |seed| GraphSpec::ServerDegree { degree, biregular: false, seed };
    // One row of each graph: rows of one graph are not independent.
    let samples = 20_000;
    for edges in graphs(spec, servers, job_types, samples) {
        counts[edges.row(17).unwrap().len().min(7)] += 1;
    }
    let tail = 1.0 - (0..7).map(|degree| binomial.pmf(degree)).sum::<f64>();
    let law = (0..7).map(|degree| binomial.pmf(degree)).chain([tail]);
    let cells = counts.iter().zip(law).map(|(&seen, p)| (f64::from(seen), p * samples as f64));
    assert_chi_square("degrees", pearson(cells), 7);
}

#[test]
fn biregular_pairs_are_alike() {
    let spec = |degree| move |seed| GraphSpec::ServerDegree { degree, biregular: true, seed };
    for (servers, job_types, degree) in [(6, 6, 2), (6, 6, 3), (8, 4, 1), (6, 9, 6), (12, 8, 4)] {
        let p = f64::from(degree) / job_types as f64;
        let samples = graphs(spec(degree), servers, job_types, 20_000);
        assert_pairs_alike(&format!("{servers} x {job_types}, degree {degree}"), servers, job_types, p, samples);
    }
}

#[test]
fn biregular_graphs_of_degree_one_and_their_complements_are_uniform() {
    let spec = |degree| move |seed| GraphSpec::ServerDegree { degree, biregular: true, seed };
    assert_uniform("permutations", 24, graphs(spec(1), 4, 4, 20_000).map(|edges| masks(&edges, 4, 4)));
    assert_uniform("their complements", 24, graphs(spec(3), 4, 4, 20_000).map(|edges| masks(&edges, 4, 4)));
}

/// 5 places for 3 job types: two have one server more, and which two is uniform.
#[test]
fn biregular_remainders_fall_on_job_types_alike() {
    let spec = |seed| GraphSpec::ServerDegree { degree: 1, biregular: true, seed };
    let lengths = graphs(spec, 5, 3, 20_000).map(|edges| (0..3).map(|l| edges.row(l).unwrap().len() as u32).collect());
    assert_uniform("lengths 2, 2, 1", 3, lengths);
}

#[test]
fn proportionally_sparse_pairs_are_alike() {
    let spec = |seed| GraphSpec::ProportionallySparse { density: Sparsity::Cap(2.5), seed };
    assert_pairs_alike("cap 2.5", 9, 6, 1.0 / 3.0, graphs(spec, 9, 6, 20_000));
}

/// The 16 graphs of 2 servers and 2 job types, against the product law.
#[test]
fn bernoulli_pairs_are_independent() {
    let p = [[0.3, 0.3], [0.3, 0.3]];
    let spec = |seed| GraphSpec::Bernoulli { edges: EdgeProbability::Each(0.3), seed };
    assert_product_law("one probability", p, graphs(spec, 2, 2, 40_000));

    let p = [[0.2, 0.2], [0.7, 0.7]];
    let samples = (0..40_000).map(|seed| bernoulli_by_job_type(&[0.2, 0.7], 2, seed).unwrap());
    assert_product_law("by job type", p, samples);

    let p = [[0.2, 0.5], [0.9, 0.35]];
    let pair = |l: usize, r: u32| p[l][r as usize];
    let samples = (0..40_000).map(|seed| bernoulli_by_pair(&[0.6, 1.0], 2, pair, seed).unwrap());
    assert_product_law("by pair", p, samples);
}

fn assert_product_law(what: &str, p: [[f64; 2]; 2], samples: impl Iterator<Item = Edges>) {
    let (mut counts, mut total) = ([[0_u32; 4]; 4], 0.0);
    for edges in samples {
        let masks = masks(&edges, 2, 2);
        counts[masks[0] as usize][masks[1] as usize] += 1;
        total += 1.0;
    }
    let row = |l: usize, mask: usize| -> f64 {
        (0..2).map(|r| if mask >> r & 1 == 1 { p[l][r] } else { 1.0 - p[l][r] }).product()
    };
    let cells = (0..16).map(|graph| {
        let (first, second) = (graph % 4, graph / 4);
        (f64::from(counts[first][second]), total * row(0, first) * row(1, second))
    });
    assert_chi_square(what, pearson(cells), 15);
}

/// One sparse graph, where gaps span rows: each pair `p`, so counts in a grid of blocks are binomial, hence nearly
/// normal (2,000 expected edges a block).
#[test]
fn bernoulli_edges_are_spread_evenly_over_a_sparse_graph() {
    let (servers, job_types, mean_degree) = (10_000, 20_000, 10.0);
    let spec = GraphSpec::Bernoulli { edges: EdgeProbability::MeanDegree(mean_degree), seed: 5 };
    let edges = generate(&spec, &Demand::of_size(servers, job_types)).unwrap().edges;
    let mut counts = [[0_u32; 10]; 10];
    for l in 0..job_types {
        edges.row(l).unwrap().iter().for_each(|&r| counts[l / 2000][r as usize / 1000] += 1);
    }
    let p = mean_degree / servers as f64;
    let (expected, variance) = (2e6 * p, 2e6 * p * (1.0 - p));
    let squares: f64 = counts.iter().flatten().map(|&count| (f64::from(count) - expected).powi(2)).sum();
    assert_chi_square("blocks", squares / variance, 100);
}

#[test]
fn bernoulli_degrees_are_binomial() {
    let (servers, rows, p) = (64, 50_000, 0.1);
    let probabilities = vec![p; rows];
    let spec = GraphSpec::Bernoulli { edges: EdgeProbability::Each(p), seed: 6 };
    let whole = generate(&spec, &Demand::of_size(servers, rows)).unwrap().edges;
    let by_row = bernoulli_by_job_type(&probabilities, servers, 6).unwrap();
    let binomial = Binomial::new(p, servers as u64).unwrap();
    for (what, edges) in [("in one go", whole), ("row by row", by_row)] {
        let mut counts = [0_u32; 16];
        (0..rows).for_each(|l| counts[edges.row(l).unwrap().len().min(15)] += 1);
        let tail = 1.0 - (0..15).map(|degree| binomial.pmf(degree)).sum::<f64>();
        let law = (0..15).map(|degree| binomial.pmf(degree)).chain([tail]);
        let cells = counts.iter().zip(law).map(|(&seen, p)| (f64::from(seen), p * rows as f64));
        assert_chi_square(what, pearson(cells), 15);
    }
}

#[test]
fn bernoulli_extremes_are_exact() {
    let empty = GraphSpec::Bernoulli { edges: EdgeProbability::Each(0.0), seed: 7 };
    assert_eq!(generate(&empty, &Demand::of_size(4, 3)).unwrap().edges, Edges::from_rows([[0_u32; 0]; 3]));
    assert_eq!(masks(&bernoulli_by_job_type(&[0.0, 1.0], 4, 7).unwrap(), 4, 2), [0, 15]);
}
