//! Values that must not change: a different graph for an old seed is value-breaking and belongs in the changelog.

use shortline_core::graph::generate::{
    Demand, SpeedClass, bernoulli_by_job_type, bernoulli_by_pair, generate, port_degrees,
};
use shortline_core::graph::{EdgeProbability, Edges, GraphSpec, LeftOut, Sparsity};

use super::{generate_for, rows};

/// FNV-1a over row lengths and servers.
fn fingerprint(edges: &Edges) -> u64 {
    let Edges::Rows { starts, servers } = edges else { panic!("a graph with rows") };
    let words = starts.iter().map(|&start| start as u64).chain(servers.iter().map(|&server| server.into()));
    words
        .flat_map(u64::to_le_bytes)
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

#[test]
fn seed_7_gives_these_rows() {
    let first_rows = |spec| rows(&generate_for(&spec, 10, 6).edges, 10, 6)[..3].to_vec();
    insta::assert_debug_snapshot!([
        first_rows(GraphSpec::PortDegree { degree: 3, seed: 7 }),
        first_rows(GraphSpec::ServerDegree { degree: 2, biregular: false, seed: 7 }),
        first_rows(GraphSpec::ServerDegree { degree: 2, biregular: true, seed: 7 }),
        first_rows(GraphSpec::Bernoulli { edges: EdgeProbability::Each(0.3), seed: 7 }),
    ].map(|rows| format!("{rows:?}")), @r#"
    [
        "[[0, 1, 7], [3, 4, 8], [2, 5, 9]]",
        "[[0, 4, 5, 6, 7, 8, 9], [0, 3, 5, 8], [1, 2, 7]]",
        "[[4, 8, 9], [1, 7, 8], [2, 3, 6]]",
        "[[1, 8], [6], [5]]",
    ]
    "#);
}

#[test]
fn seed_7_gives_these_graphs() {
    let of = |spec| fingerprint(&generate_for(&spec, 1000, 800).edges);
    let shares: Vec<f64> = (1..=800).map(|l| 1.0 / f64::from(l)).collect();
    let servers: Vec<u32> = (0..1000).collect();
    let classes = [
        SpeedClass { rate_per_s: 4.0, servers: &servers[..300] },
        SpeedClass { rate_per_s: 1.0, servers: &servers[300..] },
    ];
    let rates: Vec<f64> = shares.iter().map(|share| share * 100.0).collect();
    let demand = Demand { servers: 1000, job_types: 800, arrival_rates: Some(&rates), speed_classes: Some(&classes) };
    let well_connected =
        GraphSpec::WellConnected { delta: 0.1, left_out: LeftOut::Fraction(0.1), confidence: 0.99, seed: 7 };
    let sparse = |density| of(GraphSpec::ProportionallySparse { density, seed: 7 });
    let graphs = [
        ("port degree 16", of(GraphSpec::PortDegree { degree: 16, seed: 7 })),
        ("port degree 900", of(GraphSpec::PortDegree { degree: 900, seed: 7 })),
        ("server degree 16", of(GraphSpec::ServerDegree { degree: 16, biregular: false, seed: 7 })),
        ("biregular 16", of(GraphSpec::ServerDegree { degree: 16, biregular: true, seed: 7 })),
        ("biregular 500", of(GraphSpec::ServerDegree { degree: 500, biregular: true, seed: 7 })),
        ("bernoulli 0.01", of(GraphSpec::Bernoulli { edges: EdgeProbability::Each(0.01), seed: 7 })),
        ("bernoulli degree 16", of(GraphSpec::Bernoulli { edges: EdgeProbability::MeanDegree(16.0), seed: 7 })),
        ("well-connected", fingerprint(&generate(&well_connected, &demand).unwrap().edges)),
        ("sparse guaranteed", sparse(Sparsity::Guaranteed { epsilon: 0.3, eta: 0.2, confidence: 0.99 })),
        ("sparse log", sparse(Sparsity::Log)),
        ("sparse root", sparse(Sparsity::Sqrt)),
        ("degrees one by one", fingerprint(&port_degrees(&[3, 0, 999, 40], 1000, 7).unwrap())),
        ("by job type", fingerprint(&bernoulli_by_job_type(&shares, 1000, 7).unwrap())),
        (
            "by pair",
            fingerprint(&bernoulli_by_pair(&shares, 1000, |l, r| shares[l] / f64::from(1 + r % 2), 7).unwrap()),
        ),
    ];
    insta::assert_debug_snapshot!(graphs.map(|(name, value)| format!("{name}: {value:016x}")), @r#"
    [
        "port degree 16: 631bf934e50ef3ca",
        "port degree 900: eb13eadf1179bae9",
        "server degree 16: 403b91f9217624a7",
        "biregular 16: 40b59542129993e4",
        "biregular 500: 6eb2999a242a0c72",
        "bernoulli 0.01: ff5c9357288d9cc8",
        "bernoulli degree 16: 0fdd42db701c56a7",
        "well-connected: e0c306d00b6ce5c9",
        "sparse guaranteed: 898ffb5cc867163b",
        "sparse log: 650fdd541fc5e904",
        "sparse root: 34c08e5210735fb4",
        "degrees one by one: a32a2853997c8946",
        "by job type: db6a98094cb4dd54",
        "by pair: 93a3c77ff04aef45",
    ]
    "#);
}
