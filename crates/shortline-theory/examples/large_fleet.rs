//! Stability of a fleet of 100,000 servers and as many job types: what each part costs.
//!
//! `cargo run --release -p shortline-theory --example large_fleet [DEGREE [SERVERS]]`

use std::process::ExitCode;

use cpu_time::ProcessTime;
use rand::{RngExt, SeedableRng};
use shortline_core::fleet::{
    ArrivalRates, Fleet, FleetParts, JobTypeParts, Names, ServerParts, ServerTypeParts, Settings, Speed,
};
use shortline_core::graph::Edges;
use shortline_core::policy::PolicySpec;
use shortline_core::random::Generator;
use shortline_theory::stability::{Effort, analyse};

fn seconds<T>(what: &str, run: impl FnOnce() -> T) -> T {
    let start = ProcessTime::now();
    let result = run();
    println!("{what}: {:.2} s of CPU", start.elapsed().as_secs_f64());
    result
}

/// Speeds 1, 1/2, 1/4 in shares 1/4, 1/4, 1/2; popularity `i^-0.5`; load 0.9 of all servers.
fn fleet(n: u32, degree: u32) -> Fleet {
    let server_type = |name: &str, rate| ServerTypeParts { name: name.into(), speed: Speed::Rate(rate), slots: 1 };
    let servers = |name: &str, count, server_type| {
        let names = Names { base: name.into(), count: Some(count) };
        ServerParts { names, server_type, buffer: None, addresses: vec![] }
    };
    let mut rng = Generator::seed_from_u64(7);
    let mut edges = Edges::rows();
    for _ in 0..n {
        edges.push_row(&mut (0..degree).map(|_| rng.random_range(0..n)).collect());
    }
    let names = Names { base: "j".into(), count: Some(n) };
    let arrivals = ArrivalRates::Split { total: 0.9 * f64::from(n) * 0.5, exponent: 0.2 };
    let parts = FleetParts {
        name: "large".into(),
        server_types: vec![server_type("a", 1.0), server_type("b", 0.5), server_type("c", 0.25)],
        servers: vec![servers("a", n / 4, 0), servers("b", n / 4, 1), servers("c", n - n / 4 * 2, 2)],
        job_types: vec![JobTypeParts { names, arrivals, size: 1.0 }],
        rates: vec![],
        edges,
        settings: Settings::default(),
    };
    Fleet::new(parts).expect("the fleet is right")
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u32>());
    let (degree, servers) = match (arguments.next().unwrap_or(Ok(16)), arguments.next().unwrap_or(Ok(100_000))) {
        (Ok(degree), Ok(servers)) => (degree, servers),
        (degree, servers) => {
            eprintln!("DEGREE and SERVERS are whole numbers: {degree:?}, {servers:?}");
            return ExitCode::from(2);
        }
    };
    let fleet = seconds("build the fleet", || fleet(servers, degree));
    let stability = match seconds("s*", || analyse(&fleet)) {
        Ok(stability) => stability,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    println!(
        "s* = {}, {} job types in the bottleneck",
        stability.max_load_factor,
        stability.bottleneck.job_types.len()
    );
    let policies = ["random", "jsq", "jsq(2)", "jsq(3)", "jfsq(log)", "jsq(2,2)", "jfiq", "split"];
    for policy in policies.map(|name| name.parse::<PolicySpec>().expect("a policy")) {
        let found = seconds(&policy.to_string(), || stability.of_policies(&fleet, &[policy], &mut |_| ()));
        println!(
            "  {:?} [{:.4}, {:.4}]: {}",
            found[0].stable, found[0].stable_below, found[0].unstable_above, found[0].why
        );
    }
    let slacks = seconds("100 slacks", || stability.slacks(Effort::default(), &mut |_| ()));
    println!("  {:?}", slacks.map(|slacks| slacks[..3.min(slacks.len())].to_vec()));
    let losses = seconds("100 losses", || stability.losses(Effort::default(), &mut |_| ()));
    println!("  {:?}", losses.map(|losses| losses[..3.min(losses.len())].to_vec()));
    let edge = seconds("the best edge of 4", || stability.best_edge(&fleet, 4, &mut |_| ()));
    println!("  {edge:?}");
    ExitCode::SUCCESS
}
