//! How often the 95 % intervals hold the exact value; see `benches/README.md`.
//!
//! `coverage SYSTEM LIMIT RUNS`, where SYSTEM is `mm1:LOAD` (one server of rate 1, unbounded) or `POLICY` (two servers
//! of rates 1 and 0.5, buffer 4, load 0.9, solved exactly), and LIMIT a number of counted events (`20000`) or a relative
//! error (`0.01`). Runs differ in their seeds, 1, 2, ...; every run has one thread.

use std::sync::Arc;

use shortline_core::Fleet;
use shortline_core::fleet::{Source, read};
use shortline_core::policy::PolicySpec;
use shortline_sim::{Estimate, Means, Simulation, Until};
use shortline_theory::exact;

/// The figures compared, with their exact values.
struct Exact([(&'static str, f64); 4]);

fn figures(means: &Means) -> [Option<Estimate>; 4] {
    [means.mean_response_s, means.mean_waiting_s, means.mean_jobs, means.fraction_waiting]
}

fn system(name: &str) -> Result<(Arc<Fleet>, PolicySpec, Exact), Box<dyn std::error::Error>> {
    let file = |text: &str| {
        let fleet = read(&Source { name, text }, &|file| std::fs::read_to_string(file));
        fleet.map(|read| Arc::new(read.fleet)).map_err(|faults| faults.to_string())
    };
    let names = ["response", "waiting", "jobs", "fraction waiting"];
    if let Some(load) = name.strip_prefix("mm1:") {
        let rho: f64 = load.parse()?;
        let fleet = file(&format!(
            "[[server_type]]\nname = 'a'\nrate = 1.0\n[[server]]\nname = 's'\ntype = 'a'\nserves = ['*']\n\
             [[job_type]]\nname = 'j'\nrate = {rho}\n"
        ))?;
        let values = [1.0 / (1.0 - rho), rho / (1.0 - rho), rho / (1.0 - rho), rho];
        return Ok((fleet, "jsq".parse()?, Exact(std::array::from_fn(|i| (names[i], values[i])))));
    }
    let fleet = file(
        "[fleet]\nbuffer = 4\n[[server_type]]\nname = 'a'\nrate = 1.0\n[[server_type]]\nname = 'b'\nrate = 0.5\n\
         [[server]]\nname = 'a'\ntype = 'a'\nserves = ['*']\n[[server]]\nname = 'b'\ntype = 'b'\nserves = ['*']\n\
         [[job_type]]\nname = 'j'\nrate = 1.35\n",
    )?;
    let policy = name.parse()?;
    let all = exact::solve(&fleet, policy, None)?.all;
    let values = [all.mean_response_s, all.mean_waiting_s, all.mean_jobs, all.fraction_waiting];
    Ok((fleet, policy, Exact(std::array::from_fn(|i| (names[i], values[i])))))
}

#[expect(clippy::print_stdout, reason = "to measure and to say so is what this program is for")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().collect();
    let [_, name, limit, runs] = words.as_slice() else {
        return Err("coverage SYSTEM LIMIT RUNS".into());
    };
    let (fleet, policy, Exact(exact)) = system(name)?;
    let limit: f64 = limit.parse()?;
    let until = if limit >= 1.0 {
        Until::Events(limit as u64)
    } else {
        Until::RelativeError { error: limit, most_events: 2_000_000_000 }
    };
    let runs: u64 = runs.parse()?;
    let run = |seed| Simulation::new(&fleet).policy(policy).seed(seed).threads(1).until(until).run();
    let cores = std::thread::available_parallelism()?.get() as u64;
    let reports: Vec<_> = std::thread::scope(|scope| {
        let share = |core| (1 + core..=runs).step_by(cores as usize).map(run).collect::<Result<Vec<_>, _>>();
        let threads: Vec<_> = (0..cores).map(|core| scope.spawn(move || share(core))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a run does not panic")).collect::<Result<Vec<_>, _>>()
    })?
    .concat();
    let means: Vec<&Means> = reports.iter().filter_map(|report| report.policies[0].means.as_ref()).collect();
    let events = reports.iter().map(|report| report.policies[0].events as f64).sum::<f64>() / runs as f64;
    let shown = means.len() as f64;
    println!("{name}, {limit}: {runs} runs of {events:.0} events, {shown} of them with means");
    for (i, (what, exact)) in exact.iter().enumerate() {
        let estimates: Vec<Estimate> = means.iter().filter_map(|means| figures(means)[i]).collect();
        let n = estimates.len() as f64;
        let share = |is: &dyn Fn(&Estimate) -> bool| estimates.iter().filter(|e| is(e)).count() as f64 / n;
        let (below, above) = (share(&|e| e.ci95[1] < *exact), share(&|e| e.ci95[0] > *exact));
        let covered = 1.0 - below - above;
        let bias = estimates.iter().map(|e| e.mean / exact - 1.0).sum::<f64>() / n;
        let spread = estimates.iter().map(|e| (e.mean / exact - 1.0 - bias).powi(2)).sum::<f64>() / n;
        let half = estimates.iter().map(Estimate::relative_half_width).sum::<f64>() / n;
        println!(
            "{what:>17}: covered {:.1} % (standard error {:.1}), interval below {:.1} %, above {:.1} %; bias {:+.2} % \
             (standard error {:.2}), mean half-width {:.2} %",
            100.0 * covered,
            100.0 * (covered * (1.0 - covered) / n).sqrt(),
            100.0 * below,
            100.0 * above,
            100.0 * bias,
            100.0 * (spread / n).sqrt(),
            100.0 * half,
        );
    }
    Ok(())
}
