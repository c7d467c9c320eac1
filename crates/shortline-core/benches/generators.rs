//! Time to generate a graph of a million servers, a million job types and 16 million edges.
//!
//! `cargo bench -p shortline-core --bench generators`; one family: append its name.

use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use shortline_core::graph::generate::{Demand, SpeedClass, generate};
use shortline_core::graph::{EdgeProbability, GraphSpec, LeftOut, Sparsity};

const SIZE: usize = 1_000_000;

fn families(c: &mut Criterion) {
    let servers: Vec<u32> = (0..SIZE as u32).collect();
    let (fast, slow) = servers.split_at(SIZE / 2);
    let classes = [SpeedClass { rate_per_s: 4.0, servers: fast }, SpeedClass { rate_per_s: 1.0, servers: slow }];
    let rates = vec![1.0; SIZE];
    let demand = Demand { servers: SIZE, job_types: SIZE, arrival_rates: Some(&rates), speed_classes: Some(&classes) };
    let mut group = c.benchmark_group("generate 16M edges");
    group.sample_size(10).warm_up_time(Duration::from_millis(1)).measurement_time(Duration::from_secs(5));
    for (name, spec) in [
        ("port-degree", GraphSpec::PortDegree { degree: 16, seed: 7 }),
        ("server-degree", GraphSpec::ServerDegree { degree: 16, biregular: false, seed: 7 }),
        ("biregular", GraphSpec::ServerDegree { degree: 16, biregular: true, seed: 7 }),
        ("bernoulli", GraphSpec::Bernoulli { edges: EdgeProbability::MeanDegree(16.0), seed: 7 }),
        // About 14 servers per job type.
        (
            "well-connected",
            GraphSpec::WellConnected { delta: 0.3, left_out: LeftOut::Fraction(0.3), confidence: 0.99, seed: 7 },
        ),
        ("proportionally-sparse", GraphSpec::ProportionallySparse { density: Sparsity::Log, seed: 7 }),
    ] {
        group.bench_function(name, |b| b.iter(|| generate(&spec, &demand).map(|graph| graph.report.edges)));
    }
    group.finish();
}

criterion_group!(benches, families);
criterion_main!(benches);
