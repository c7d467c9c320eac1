//! What every generated graph is, whatever its family and seed.

use proptest::prelude::*;
use shortline_core::graph::generate::{Demand, GraphReport, SpeedClass, generate};
use shortline_core::graph::{EdgeProbability, Edges, GraphSpec, LeftOut, Sparsity};

use super::{generate_for, rows};

fn spec(servers: u32, job_types: u32) -> impl Strategy<Value = GraphSpec> {
    let seed = any::<u64>();
    prop_oneof![
        Just(GraphSpec::Complete),
        (1..=servers, seed).prop_map(|(degree, seed)| GraphSpec::PortDegree { degree, seed }),
        (1..=job_types, any::<bool>(), seed).prop_map(move |(degree, biregular, seed)| {
            let degree = if biregular { degree.max(job_types.div_ceil(servers)) } else { degree };
            GraphSpec::ServerDegree { degree, biregular, seed }
        }),
        (0.0..=1.0, seed).prop_map(|(p, seed)| GraphSpec::Bernoulli { edges: EdgeProbability::Each(p), seed }),
        (0.0..=1.0, seed).prop_map(move |(share, seed)| GraphSpec::Bernoulli {
            edges: EdgeProbability::MeanDegree(share * f64::from(servers)),
            seed
        }),
        (1.0..=f64::from(job_types), seed).prop_map(move |(c, seed)| {
            let density = Sparsity::Cap(c.max(f64::from(job_types.div_ceil(servers))));
            GraphSpec::ProportionallySparse { density, seed }
        }),
    ]
}

fn sized_spec() -> impl Strategy<Value = (usize, usize, GraphSpec)> {
    (1_u32..150, 1_u32..90).prop_flat_map(|(servers, job_types)| {
        spec(servers, job_types).prop_map(move |spec| (servers as usize, job_types as usize, spec))
    })
}

fn assert_well_formed(edges: &Edges, servers: usize, job_types: usize) {
    if let Edges::Rows { starts, servers: list } = edges {
        assert_eq!(starts.len(), job_types + 1);
        assert_eq!((starts[0], starts[job_types]), (0, list.len()));
        assert!(starts.is_sorted());
    }
    for row in rows(edges, servers, job_types) {
        assert!(row.is_sorted_by(|a, b| a < b), "ascending and distinct: {row:?}");
        assert!(row.iter().all(|&r| (r as usize) < servers), "in range: {row:?}");
    }
}

proptest! {
    #[test]
    fn rows_are_ascending_distinct_and_in_range((servers, job_types, spec) in sized_spec()) {
        let graph = generate_for(&spec, servers, job_types);
        assert_well_formed(&graph.edges, servers, job_types);
    }

    #[test]
    fn the_degrees_asked_for_are_exact((servers, job_types, spec) in sized_spec()) {
        let report = generate_for(&spec, servers, job_types).report;
        match spec {
            GraphSpec::PortDegree { degree, .. } => {
                prop_assert_eq!((report.per_job_type.min, report.per_job_type.max), (degree as usize, degree as usize));
            }
            GraphSpec::ServerDegree { degree, biregular, .. } => {
                prop_assert_eq!((report.per_server.min, report.per_server.max), (degree as usize, degree as usize));
                if biregular {
                    let places = servers * degree as usize;
                    prop_assert_eq!(report.per_job_type.min, places / job_types);
                    prop_assert_eq!(report.per_job_type.max, places.div_ceil(job_types));
                }
            }
            GraphSpec::ProportionallySparse { density: Sparsity::Cap(c), .. } => {
                prop_assert_eq!((report.per_server.min, report.per_server.max), (c as usize, c as usize));
            }
            _ => {}
        }
    }

    #[test]
    fn the_report_counts_what_is_there((servers, job_types, spec) in sized_spec()) {
        let graph = generate_for(&spec, servers, job_types);
        let rows = rows(&graph.edges, servers, job_types);
        let holds = |r: usize| rows.iter().filter(|row| row.contains(&(r as u32))).count();
        let per_server: Vec<usize> = (0..servers).map(holds).collect();
        let report = graph.report;
        prop_assert_eq!(report.edges as usize, rows.iter().map(Vec::len).sum::<usize>());
        prop_assert_eq!(report.job_types_without_server, rows.iter().filter(|row| row.is_empty()).count());
        prop_assert_eq!(report.servers_without_job_type, per_server.iter().filter(|&&degree| degree == 0).count());
        prop_assert_eq!(Some(report.per_server.max), per_server.iter().max().copied());
        prop_assert_eq!(Some(report.per_job_type.min), rows.iter().map(Vec::len).min());
        prop_assert!((report.per_server.mean * servers as f64 - report.edges as f64).abs() < 1e-6);
    }

    #[test]
    fn one_seed_gives_one_graph((servers, job_types, spec) in sized_spec()) {
        prop_assert_eq!(generate_for(&spec, servers, job_types), generate_for(&spec, servers, job_types));
    }

    #[test]
    fn well_connected_rows_are_well_formed_with_classes_in_any_order(
        seed in any::<u64>(), delta in 0.05..0.9, epsilon in 0.05..1.0, load in 0.1..1.5
    ) {
        let (fast, slow): (Vec<u32>, Vec<u32>) = (0..60).partition(|r| r % 3 == 1);
        let classes = [SpeedClass { rate_per_s: 2.0, servers: &fast }, SpeedClass { rate_per_s: 1.0, servers: &slow }];
        let rates: Vec<f64> = (0..300).map(|l| 80.0 * load / 300.0 * f64::from(l % 3)).collect();
        let demand = Demand {
            servers: 60, job_types: 300, arrival_rates: Some(&rates), speed_classes: Some(&classes),
        };
        let spec = GraphSpec::WellConnected { delta, left_out: LeftOut::Fraction(epsilon), confidence: 0.9, seed };
        let graph = generate(&spec, &demand).unwrap();
        assert_well_formed(&graph.edges, 60, 300);
        let designs = graph.report.well_connected.unwrap().designs;
        prop_assert!(designs.iter().all(|design| design.delta <= delta));
    }
}

#[test]
fn a_complete_graph_of_a_million_by_a_million_costs_nothing() {
    let graph = generate_for(&GraphSpec::Complete, 1_000_000, 1_000_000);
    assert_eq!(graph.edges, Edges::Complete);
    assert_eq!(graph.report.edges, 1_000_000_000_000);
}

#[test]
fn specifications_that_ask_for_every_edge_give_the_complete_graph() {
    for spec in [
        GraphSpec::PortDegree { degree: 9, seed: 7 },
        GraphSpec::ServerDegree { degree: 5, biregular: false, seed: 7 },
        GraphSpec::ServerDegree { degree: 5, biregular: true, seed: 7 },
        GraphSpec::Bernoulli { edges: EdgeProbability::MeanDegree(9.0), seed: 7 },
        GraphSpec::ProportionallySparse { density: Sparsity::Cap(100.0), seed: 7 },
    ] {
        assert_eq!(generate_for(&spec, 9, 5).edges, Edges::Complete, "{spec:?}");
    }
}

#[test]
fn graphs_without_job_types_have_no_rows() {
    let graph = generate_for(&GraphSpec::PortDegree { degree: 2, seed: 7 }, 4, 0);
    assert_eq!(graph.edges, Edges::rows());
    assert_eq!((graph.report.per_job_type.max, graph.report.servers_without_job_type), (0, 4));
    let empty = GraphReport::of(&Edges::rows(), 0, 0);
    assert_eq!((empty.edges, empty.per_server.min), (0, 0));
}

#[test]
fn caps_by_size_are_the_ceilings_of_logarithm_and_root() {
    let degree = |density, servers| {
        let report = generate_for(&GraphSpec::ProportionallySparse { density, seed: 7 }, servers, servers).report;
        (report.per_server.min, report.per_server.max)
    };
    assert_eq!(degree(Sparsity::Log, 1000), (7, 7));
    assert_eq!(degree(Sparsity::Log, 1), (1, 1));
    assert_eq!(degree(Sparsity::Sqrt, 100), (10, 10));
    assert_eq!(degree(Sparsity::Sqrt, 101), (11, 11));
    assert_eq!(degree(Sparsity::Cap(3.9), 50), (3, 3));
}
