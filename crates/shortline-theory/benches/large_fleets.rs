//! Stability and bounds of large fleets; figures and how to repeat them are in `README.md` beside this file.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use rand::{RngExt, SeedableRng};
use shortline_core::Fleet;
use shortline_core::fleet::{
    ArrivalRates, FleetParts, JobTypeParts, Names, RateOverride, ServerParts, ServerTypeParts, Settings, Speed,
};
use shortline_core::graph::Edges;
use shortline_core::random::Generator;
use shortline_theory::{bounds, stability};

/// As many job types as servers; speeds 1, 1/2, 1/4 in shares 1/4, 1/4, 1/2; load 0.9 of all servers.
fn fleet(n: u32, edges: Edges, rates: Vec<RateOverride>) -> Fleet {
    let server_type = |name: &str, rate| ServerTypeParts { name: name.into(), speed: Speed::Rate(rate), slots: 1 };
    let servers = |name: &str, count, server_type| {
        let names = Names { base: name.into(), count: Some(count) };
        ServerParts { names, server_type, buffer: None, addresses: vec![] }
    };
    let total = 0.9 * f64::from(n) * 0.5;
    let names = Names { base: "j".into(), count: Some(n) };
    let fleet = Fleet::new(FleetParts {
        name: "large".into(),
        server_types: vec![server_type("a", 1.0), server_type("b", 0.5), server_type("c", 0.25)],
        servers: vec![servers("a", n / 4, 0), servers("b", n / 4, 1), servers("c", n - n / 4 * 2, 2)],
        job_types: vec![JobTypeParts { names, arrivals: ArrivalRates::Split { total, exponent: 0.0 }, size: 1.0 }],
        rates,
        edges,
        settings: Settings::default(),
    });
    fleet.expect("the fleet is right")
}

/// Each job type on `degree` random servers.
fn port_degree(n: u32, degree: u32) -> Edges {
    let mut rng = Generator::seed_from_u64(7);
    let mut edges = Edges::rows();
    for _ in 0..n {
        edges.push_row(&mut (0..degree).map(|_| rng.random_range(0..n)).collect());
    }
    edges
}

/// A speed of its own for every job type on every server type.
fn rates(n: u32) -> Vec<RateOverride> {
    let mut rng = Generator::seed_from_u64(8);
    let pairs = (0..n as usize).flat_map(|l| (0..3).map(move |m| (l, m)));
    let rate = |(job_type, server_type)| RateOverride { job_type, server_type, rate: rng.random_range(0.5..2.0) };
    pairs.map(rate).collect()
}

fn large_fleets(c: &mut Criterion) {
    let mut group = c.benchmark_group("large_fleets");
    group.sample_size(10);
    let cases = [
        ("100,000 x 100,000, degree 16", fleet(100_000, port_degree(100_000, 16), vec![])),
        ("100,000 x 100,000, degree 3", fleet(100_000, port_degree(100_000, 3), vec![])),
        ("1,000,000 x 1,000,000, complete", fleet(1_000_000, Edges::Complete, vec![])),
        ("500 x 500, degree 8, rates per pair", fleet(500, port_degree(500, 8), rates(500))),
    ];
    for (name, fleet) in &cases {
        group.bench_function(format!("analyse {name}"), |b| b.iter(|| stability::analyse(black_box(fleet))));
        group.bench_function(format!("graph bound {name}"), |b| b.iter(|| bounds::graph(black_box(fleet))));
        group.bench_function(format!("pooled bound {name}"), |b| b.iter(|| bounds::pooled(black_box(fleet))));
    }
    group.finish();
}

criterion_group!(benches, large_fleets);
criterion_main!(benches);
