//! How faithful is the emulator, and how much can emulator and replay do on this machine?
//!
//! `cargo run --release -p shortline-gateway --features lab --example lab_timing -- 1000 10`: 24 emulated servers of
//! one slot, each fed by a replay of its own at load 0.6, 1,000 requests a second in all for 10 seconds; all in one
//! process. Prints how late answers were against their intended times, how late requests were sent, and CPU time.

use std::error::Error;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Instant;

use rand::SeedableRng;
use rand_distr::{Distribution, Exp};
use shortline_core::fleet::settings::Settings;
use shortline_core::fleet::{ArrivalRates, JobTypeParts, Names, ServerParts, ServerTypeParts, Speed};
use shortline_core::graph::Edges;
use shortline_core::random::Generator;
use shortline_core::{Fleet, FleetParts};
use shortline_gateway::emulate::{Bind, Emulator};
use shortline_gateway::replay::{Options, Source, replay};
use shortline_gateway::trace::{Columns, Trace};

const SERVERS: u32 = 24;
const LOAD: f64 = 0.6;

#[tokio::main]
#[expect(clippy::print_stdout, reason = "an example prints")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let rate: f64 = arguments.next().unwrap_or_else(|| "1000".into()).parse()?;
    let seconds: f64 = arguments.next().unwrap_or_else(|| "10".into()).parse()?;
    let per_server = rate / f64::from(SERVERS);

    let emulator = Emulator::start(Arc::new(fleet()?), 1, Bind::Loopback).await?;
    let (cpu, start) = (cpu_s()?, Instant::now());
    let mut replays = Vec::new();
    for (seed, address) in (0..).zip(emulator.addresses()) {
        let trace = Arc::new(poisson(seed, per_server, LOAD / per_server, seconds)?);
        let target = format!("http://{address}/").parse()?;
        replays.push(tokio::spawn(replay(Options::new(target, Source::Trace(trace), None))));
    }
    let (mut sent, mut ok, mut lag_p50, mut lag_p99, mut mean): (_, _, f64, f64, _) = (0, 0, 0.0, 0.0, 0.0);
    for running in replays {
        let report = running.await??;
        sent += report.sent;
        ok += report.outcomes.get("200").copied().unwrap_or(0);
        lag_p50 = lag_p50.max(report.send_lag_s.p50);
        lag_p99 = lag_p99.max(report.send_lag_s.p99);
        mean += report.mean_response_s.map_or(0.0, |mean| mean.mean) / f64::from(SERVERS);
    }
    let (cpu, elapsed) = (cpu_s()? - cpu, start.elapsed().as_secs_f64());
    let late = emulator.lateness();
    let us = |s: f64| (s * 1e6).round();
    println!("{sent} requests, {ok} answered 200, {:.0} a second", sent as f64 / elapsed);
    println!("answers late: p50 {} us, p99 {} us, max {} us", us(late.p50_s), us(late.p99_s), us(late.max_s));
    println!("sent late (worst server): p50 {} us, p99 {} us", us(lag_p50), us(lag_p99));
    let theory = LOAD / per_server / (1.0 - LOAD);
    println!("mean response {:.3} ms, M/M/1 {:.3} ms", mean * 1e3, theory * 1e3);
    println!("CPU {:.0} % of a core, {:.0} us a request", 100.0 * cpu / elapsed, us(cpu / sent as f64));
    Ok(())
}

/// Server `s-i` holds job type `m-i` only.
fn fleet() -> Result<Fleet, Box<dyn Error>> {
    let names = |base: &str| Names { base: base.into(), count: Some(SERVERS) };
    Ok(Fleet::new(FleetParts {
        name: "timing".into(),
        server_types: vec![ServerTypeParts { name: "t".into(), speed: Speed::Rate(1.0), slots: 1 }],
        servers: vec![ServerParts { names: names("s"), server_type: 0, buffer: None, addresses: Vec::new() }],
        job_types: vec![JobTypeParts { names: names("m"), arrivals: ArrivalRates::Unknown, size: 1.0 }],
        rates: Vec::new(),
        edges: Edges::from_rows((0..SERVERS).map(|i| [i])),
        settings: Settings::default(),
    })?)
}

/// A trace of Poisson arrivals with exponential sizes for one server.
fn poisson(server: u64, rate: f64, mean_size: f64, seconds: f64) -> Result<Trace, Box<dyn Error>> {
    let mut rng = Generator::seed_from_u64(server);
    let law = Exp::new(1.0)?;
    let mut exponential = |mean: f64| mean * law.sample(&mut rng);
    let mut text = "arrival_s,job_type,service_s\n".to_owned();
    let mut at_s = 0.0;
    while at_s < seconds {
        writeln!(text, "{at_s},m-{server},{}", exponential(mean_size))?;
        at_s += exponential(1.0 / rate);
    }
    Ok(Trace::parse(text.as_bytes(), "poisson", &Columns::default(), None)?)
}

/// CPU time of this process so far, in seconds.
fn cpu_s() -> Result<f64, Box<dyn Error>> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let after_name = stat.rsplit_once(')').ok_or("/proc/self/stat has no name")?.1;
    let ticks: Vec<f64> = after_name.split_whitespace().skip(11).take(2).flat_map(str::parse).collect();
    Ok(ticks.iter().sum::<f64>() / 100.0)
}
