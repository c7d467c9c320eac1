//! Guarantees of large fleets; figures and how to repeat them are in `README.md` beside this file.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use shortline_core::Fleet;
use shortline_core::fleet::{
    ArrivalRates, FleetParts, JobTypeParts, Names, ServerParts, ServerTypeParts, Settings, Speed,
};
use shortline_core::graph::Edges;
use shortline_core::policy::PolicySpec;
use shortline_theory::guarantee::{Profile, evaluate};

/// `n` servers of these speeds in equal parts, one job type on all of them, buffers of 5.
fn fleet(n: u32, speeds: &[f64], load: f64) -> Fleet {
    let parts = u32::try_from(speeds.len()).expect("a handful of speeds");
    let server_type =
        |(i, &rate): (usize, &f64)| ServerTypeParts { name: format!("t{i}"), speed: Speed::Rate(rate), slots: 1 };
    let servers = |i: usize| {
        let names = Names { base: format!("s{i}"), count: Some(n / parts) };
        ServerParts { names, server_type: i, buffer: Some(5), addresses: vec![] }
    };
    let rate = load * f64::from(n / parts) * speeds.iter().sum::<f64>();
    let fleet = Fleet::new(FleetParts {
        name: "large".into(),
        server_types: speeds.iter().enumerate().map(server_type).collect(),
        servers: (0..speeds.len()).map(servers).collect(),
        job_types: vec![JobTypeParts {
            names: Names { base: "j".into(), count: None },
            arrivals: ArrivalRates::Each(rate),
            size: 1.0,
        }],
        rates: vec![],
        edges: Edges::Complete,
        settings: Settings::default(),
    });
    fleet.expect("the fleet is right")
}

fn guarantee(c: &mut Criterion) {
    let mut group = c.benchmark_group("guarantee");
    group.sample_size(10);
    let many: Vec<f64> = (0..200).map(|i| 1.0 - f64::from(i) / 250.0).collect();
    let fleets = [
        ("1,000,000 servers, 3 speeds, load 0.9", fleet(1_000_000, &[1.0, 0.5, 0.25], 0.9)),
        ("1,000,000 servers, 3 speeds, load 0.9999", fleet(1_000_000, &[1.0, 0.5, 0.25], 0.9999)),
        ("1,000,000 servers, 200 speeds, load 0.9", fleet(1_000_000, &many, 0.9)),
        ("10,000 servers, 200 speeds, load 0.9", fleet(10_000, &many, 0.9)),
    ];
    // Delta: 0 as on a complete graph; falling as on a random one; a number that makes the bounds say nothing.
    let complete = |_m: usize, i: usize| if i == 0 { 1.0 } else { 0.0 };
    let falling = |_m: usize, i: usize| (-0.0005 * i as f64).exp();
    let poor = |_m: usize, i: usize| if i == 0 { 1.0 } else { 0.5 };
    for (name, fleet) in &fleets {
        for (graph, profile) in [("complete", &complete as Profile<'_>), ("falling", &falling), ("poor", &poor)] {
            let run = || evaluate(black_box(fleet), PolicySpec::Jfsq, profile);
            group.bench_function(format!("{name}, {graph}"), |b| b.iter(run));
        }
    }
    group.finish();
}

criterion_group!(benches, guarantee);
criterion_main!(benches);
