//! Does the theory hold live? One fleet, once simulated and once over real sockets.
//!
//! For each load and policy: `shortline serve --emulate` with `shortline replay` in front (Poisson arrivals, exponential sizes),
//! beside `shortline simulate` on the same fleet file. Both means must agree within three standard errors of their
//! difference and [`ON_THE_WIRE_S`], the time that sockets and two processes on a busy machine may add. Ends with 1 if
//! they do not.
//!
//! Three standard errors: 0.3 % false alarms a row, if the wire took exactly nothing.
//!
//! ```text
//! cargo bench -p shortline --bench theory_live            # or: -- REQUESTS POLICIES LOADS, lists with commas
//! ```

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a measuring program reports by printing and panicking")]

#[path = "../tests/it/processes.rs"]
#[expect(dead_code, reason = "a bench needs fewer of them than the tests")]
mod processes;

use std::path::Path;
use std::process::{Command, ExitCode};

use processes::{Gateway, shortline};
use serde_json::Value;

const FLEET: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/fleet.toml");
const REQUESTS: &str = "25000";
const POLICIES: &str = "jsq,jfsq,nq,central";
const LOADS: &str = "0.5,0.7,0.9";
/// What the way through client, gateway and server may add to a response time, seconds.
const ON_THE_WIRE_S: f64 = 0.002;

fn main() -> ExitCode {
    let given: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let or = |i: usize, default: &str| given.get(i).cloned().unwrap_or_else(|| default.to_owned());
    let (requests, policies, loads) = (or(0, REQUESTS), or(1, POLICIES), or(2, LOADS));
    println!("mean response times in ms with 95 % intervals; allowed: 3 standard errors + {} ms", ON_THE_WIRE_S * 1e3);
    println!(
        "| load | policy | bound | simulated | live | live - simulated | allowed | agree |\n|---|---|---|---|---|---|---|---|"
    );
    let mut agree = true;
    for load in loads.split(',') {
        let simulated = simulated(load, &policies);
        for report in simulated["policies"].as_array().expect("a list of policies") {
            let policy = report["policy"].as_str().expect("a name");
            let (theory, live) = (&report["mean_response_s"], live(load, policy, &requests));
            let (Some(theory), Some(live)) = (Mean::of(theory), Mean::of(&live)) else {
                println!("| {load} | {policy} | | {} | | | | no mean |", report["why"]);
                agree = false;
                continue;
            };
            let difference = live.mean - theory.mean;
            let allowed = 3.0 * live.standard_error().hypot(theory.standard_error()) + ON_THE_WIRE_S;
            let within = difference.abs() <= allowed;
            agree &= within;
            println!(
                "| {load} | `{policy}` | {:.2} | {theory} | {live} | {:+.2} | {:.2} | {} |",
                report["bound"]["mean_response_s"].as_f64().map_or(f64::NAN, |bound| bound * 1e3),
                difference * 1e3,
                allowed * 1e3,
                if within { "yes" } else { "NO" },
            );
        }
    }
    if agree { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A mean with its 95 % interval, in seconds.
struct Mean {
    mean: f64,
    low: f64,
    high: f64,
}

impl Mean {
    fn of(estimate: &Value) -> Option<Self> {
        let end = |i: usize| estimate["ci95"][i].as_f64();
        Some(Self { mean: estimate["mean"].as_f64()?, low: end(0)?, high: end(1)? })
    }

    /// From the interval, which is Student's and a little wider than 1.96 of them: on the safe side by less than 5 %.
    fn standard_error(&self) -> f64 {
        (self.high - self.low) / (2.0 * 1.96)
    }
}

impl std::fmt::Display for Mean {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.2} [{:.2}, {:.2}]", self.mean * 1e3, self.low * 1e3, self.high * 1e3)
    }
}

fn simulated(load: &str, policies: &str) -> Value {
    json_of(
        shortline()
            .args(["simulate", FLEET, "--json", "--relative-error", "0.003"])
            .args(["--load", load, "--policy", policies]),
    )
}

/// The mean response time through the gateway, as an estimate.
fn live(load: &str, policy: &str, requests: &str) -> Value {
    let gateway = Gateway::start(Path::new(FLEET), &["--policy", policy]);
    let target = format!("http://{}", gateway.requests);
    let slice = format!("0..{requests}");
    let report = json_of(shortline().args(["replay", "--json", "--fleet", FLEET, "--target", &target]).args([
        "--load",
        load,
        "--requests",
        &slice,
    ]));
    assert_eq!(report["outcomes"]["200"], report["sent"], "every request is answered: {report}");
    assert_eq!(report["misrouted"], 0, "no request goes to a server that does not hold its job type");
    report["mean_response_s"].clone()
}

fn json_of(command: &mut Command) -> Value {
    let output = command.output().expect("the binary runs");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("--json prints JSON")
}
