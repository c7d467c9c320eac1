//! How long an event of the lumped engine takes: whole simulations of a million counted events, warm-up and report
//! included, on one thread. The first three systems take the loop of equal servers, the others the general one. Figures
//! beside the yardstick are in README.md; this is for changes of the code.

use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use shortline_core::Fleet;
use shortline_core::fleet::{
    ArrivalRates, FleetParts, JobTypeParts, Names, ServerParts, ServerTypeParts, Settings, Speed,
};
use shortline_core::graph::Edges;
use shortline_sim::{Engine, Report, Simulation, Until};

/// Servers by rate and number, one job type, unbounded, at load 0.9.
fn fleet(servers: &[(f64, u32)]) -> Arc<Fleet> {
    let capacity: f64 = servers.iter().map(|&(rate, count)| rate * f64::from(count)).sum();
    let name = |i: usize| format!("t{i}");
    let server_type = |(i, &(rate, _))| ServerTypeParts { name: name(i), speed: Speed::Rate(rate), slots: 1 };
    let group = |(i, &(_, count))| ServerParts {
        names: Names { base: name(i), count: Some(count) },
        server_type: i,
        buffer: None,
        addresses: Vec::new(),
    };
    let parts = FleetParts {
        name: String::new(),
        server_types: servers.iter().enumerate().map(server_type).collect(),
        servers: servers.iter().enumerate().map(group).collect(),
        job_types: vec![JobTypeParts {
            names: Names { base: "j".into(), count: None },
            arrivals: ArrivalRates::Each(0.9 * capacity),
            size: 1.0,
        }],
        rates: Vec::new(),
        edges: Edges::Complete,
        settings: Settings::default(),
    };
    Arc::new(Fleet::new(parts).expect("the bench's fleet is valid"))
}

fn run(fleet: &Arc<Fleet>, policy: &str) -> Report {
    let policy = policy.parse().expect("the bench's policies exist");
    let simulation = Simulation::new(fleet).policy(policy).seed(1).threads(1).until(Until::Events(1_000_000));
    simulation.run().expect("the bench's fleets can be simulated")
}

fn events(c: &mut Criterion) {
    let mut group = c.benchmark_group("lumped");
    group.sample_size(20);
    let (hundred, thousand) = (fleet(&[(1.0, 100)]), fleet(&[(1.0, 1000)]));
    let three = fleet(&[(1.0, 64), (0.5, 64), (0.25, 128)]);
    let systems = [
        ("100 equal servers, jsq", &hundred, "jsq"),
        ("1000 equal servers, jsq(2)", &thousand, "jsq(2)"),
        ("100 equal servers, random", &hundred, "random"),
        ("100 equal servers, jiq", &hundred, "jiq"),
        ("256 servers of three types, jfsq", &three, "jfsq"),
        ("256 servers of three types, jsq(2)", &three, "jsq(2)"),
    ];
    for (name, fleet, policy) in systems {
        let report = run(fleet, policy);
        assert_eq!(report.policies[0].engine, Engine::Lumped, "{name}");
        group.throughput(Throughput::Elements(report.policies[0].events));
        group.bench_function(name, |b| b.iter(|| run(fleet, policy)));
    }
    group.finish();
}

criterion_group!(benches, events);
criterion_main!(benches);
