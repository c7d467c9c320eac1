//! An exact chain of a few million states: what it costs.
//!
//! `cargo run --release -p shortline-theory --example exact_chain [SERVERS [BUFFER [POLICY [LOAD]]]]`
#![expect(clippy::print_stdout, reason = "this program prints what it measures")]

use std::error::Error;

use cpu_time::ProcessTime;
use shortline_core::fleet::{
    ArrivalRates, Fleet, FleetParts, JobTypeParts, Names, ServerParts, ServerTypeParts, Settings, Speed,
};
use shortline_core::graph::Edges;
use shortline_core::policy::PolicySpec;
use shortline_theory::exact::solve;

/// Speeds 1, 1/2, 1/4 in turn; as many job types as servers, each on three neighbours.
fn fleet(servers: u32, buffer: u32, load: f64) -> Result<Fleet, Box<dyn Error>> {
    let class = |i: u32| ["fast", "middle", "slow"][i as usize % 3].to_owned();
    let server_types = [("fast", 1.0), ("middle", 0.5), ("slow", 0.25)];
    let server_types =
        server_types.map(|(name, rate)| ServerTypeParts { name: name.into(), speed: Speed::Rate(rate), slots: 1 });
    let server = |i: u32| ServerParts {
        names: Names { base: format!("{}-{i}", class(i)), count: None },
        server_type: i as usize % 3,
        buffer: Some(buffer),
        addresses: vec![],
    };
    let capacity: f64 = (0..servers).map(|i| [1.0, 0.5, 0.25][i as usize % 3]).sum();
    let names = Names { base: "j".into(), count: Some(servers) };
    let arrivals = ArrivalRates::Each(load * capacity / f64::from(servers));
    Ok(Fleet::new(FleetParts {
        name: "chain".into(),
        server_types: server_types.into(),
        servers: (0..servers).map(server).collect(),
        job_types: vec![JobTypeParts { names, arrivals, size: 1.0 }],
        rates: vec![],
        edges: Edges::from_rows((0..servers).map(|i| vec![i, (i + 1) % servers, (i + 2) % servers])),
        settings: Settings::default(),
    })?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |i: usize, otherwise: &'static str| arguments.get(i).map_or(otherwise, String::as_str).to_owned();
    let policy: PolicySpec = argument(2, "jfsq").parse()?;
    let fleet = fleet(argument(0, "9").parse()?, argument(1, "4").parse()?, argument(3, "0.9").parse()?)?;
    let start = ProcessTime::now();
    let exact = solve(&fleet, policy, None)?;
    println!(
        "{policy}: {} states, {:.1} s of CPU, residual {:e}, mean response {:.6} s, blocked {:.3e}",
        exact.states,
        start.elapsed().as_secs_f64(),
        exact.residual,
        exact.all.mean_response_s,
        exact.all.blocking_probability,
    );
    Ok(())
}
