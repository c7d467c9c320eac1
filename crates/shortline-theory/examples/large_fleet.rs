//! Stability of a fleet of 100,000 servers and as many job types: what each part costs.
//!
//! `cargo run --release -p shortline-theory --example large_fleet [DEGREE [SERVERS]]`
#![expect(clippy::print_stdout, reason = "this program prints what it measures")]

use std::error::Error;

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

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = std::env::args().skip(1).map(|argument| argument.parse()).collect::<Result<Vec<u32>, _>>()?;
    let (degree, servers) = (arguments.first().unwrap_or(&16), arguments.get(1).unwrap_or(&100_000));
    let fleet = seconds("build the fleet", || fleet(*servers, *degree));
    let stability = seconds("s*", || analyse(&fleet))?;
    println!("  {}, {} job types in the bottleneck", stability.max_load_factor, stability.bottleneck.job_types.len());
    for policy in PolicySpec::parse_list("random,jsq,jsq(2),jsq(3),jfsq(log),jsq(2,2),jfiq,split")? {
        let found = seconds(&policy.to_string(), || stability.of_policies(&fleet, &[policy], &mut |_| ()));
        println!("  {:?}: {:.4} {:.4}", found[0].stable, found[0].stable_below, found[0].unstable_above);
    }
    let slacks = seconds("slacks", || stability.slacks(Effort::default(), &mut |_| ()))?;
    println!("  {} exact, the smallest {:?}", slacks.iter().filter(|s| s.factor.is_exact).count(), slacks[0]);
    let losses = seconds("losses", || stability.losses(Effort::default(), &mut |_| ()))?;
    println!("  {} exact, the worst {:?}", losses.iter().filter(|l| l.max_load_factor.is_exact).count(), losses[0]);
    let edge = seconds("the best edge", || stability.best_edge(&fleet, Effort::MOST_VISITS, &mut |_| ()))?;
    println!("  {edge:?}");
    Ok(())
}
