//! Nanoseconds per event of the simulator, everything of its report on; see `benches/README.md`.
//!
//! `speed SYSTEM POLICIES EVENTS [THREADS [calendar]]` (with `calendar`: on the event calendar, whatever the system), where SYSTEM is `complete:N:LOAD` (equal unit rates, unbounded buffers,
//! one job type), `random:N:L:DEGREE` (three speeds, buffer 5, load 0.9, seed 1) or a fleet file.

use std::sync::Arc;
use std::time::Instant;

use shortline_core::Fleet;
use shortline_core::fleet::{Source, read};
use shortline_core::policy::PolicySpec;
use shortline_sim::{Observer, PerType, Simulation, Until};

/// CPU time of this process.
struct Cpu;

impl Observer for Cpu {
    fn cpu_s(&self) -> f64 {
        cpu_time::ProcessTime::try_now().map_or(0.0, |time| time.as_duration().as_secs_f64())
    }
}

fn fleet(system: &str) -> Result<Fleet, Box<dyn std::error::Error>> {
    let words: Vec<&str> = system.split(':').collect();
    let text = match words.as_slice() {
        ["complete", n, load] => {
            let rate = n.parse::<f64>()? * load.parse::<f64>()?;
            format!(
                "[[server_type]]\nname = 'a'\nrate = 1.0\n[[server]]\nname = 's'\ncount = {n}\ntype = 'a'\nserves = ['*']\n\
                 [[job_type]]\nname = 'j'\nrate = {rate}\n"
            )
        }
        ["random", n, l, degree] => {
            let n: u64 = n.parse()?;
            let (fast, middle) = (n / 4, n / 4);
            let slow = n - fast - middle;
            let rate = 0.9 * (fast as f64 + 0.5 * middle as f64 + 0.25 * slow as f64);
            format!(
                "[fleet]\nbuffer = 5\n[graph]\nkind = 'port-degree'\ndegree = {degree}\nseed = 1\n\
                 [[server_type]]\nname = 'a'\nrate = 1.0\n[[server_type]]\nname = 'b'\nrate = 0.5\n\
                 [[server_type]]\nname = 'c'\nrate = 0.25\n[[server]]\nname = 'a'\ncount = {fast}\ntype = 'a'\n\
                 [[server]]\nname = 'b'\ncount = {middle}\ntype = 'b'\n[[server]]\nname = 'c'\ncount = {slow}\ntype = 'c'\n\
                 [[job_type]]\nname = 'j'\ncount = {l}\ntotal_rate = {rate}\nzipf = 0\n"
            )
        }
        _ => std::fs::read_to_string(system)?,
    };
    let folder = std::path::Path::new(system).parent().unwrap_or(std::path::Path::new(".")).to_owned();
    Ok(read(&Source { name: system, text: &text }, &|file| std::fs::read_to_string(folder.join(file)))
        .map_err(|faults| faults.to_string())?
        .fleet)
}

#[expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "to measure and to say so is what this program is for"
)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().collect();
    let [_, system, policies, events, threads @ ..] = words.as_slice() else {
        return Err("usage: speed SYSTEM POLICIES EVENTS [THREADS [calendar]]".into());
    };
    let started = Instant::now();
    let fleet = Arc::new(fleet(system)?);
    println!("{system}: built in {:.2} s", started.elapsed().as_secs_f64());
    let calendar = threads.get(1).is_some_and(|word| word == "calendar");
    let threads = threads.first().map_or(Ok(1), |threads| threads.parse())?;
    let events = Until::Events(events.parse::<f64>()? as u64);
    for policy in PolicySpec::parse_list(policies)? {
        let started = Instant::now();
        let simulation = Simulation::new(&fleet).policy(policy).seed(1).threads(threads).until(events);
        let simulation = if calendar { simulation.calendar(true) } else { simulation };
        let report = simulation.per_type(PerType::Top(100)).run_observed(&Cpu)?;
        let wall_s = started.elapsed().as_secs_f64();
        let policy = &report.policies[0];
        let mean = policy.means.as_ref().and_then(|means| means.mean_response_s);
        println!(
            "{} ({:?}): {:.2} ns of CPU per event, {} events, {wall_s:.2} s, mean response {mean:?}",
            policy.policy,
            policy.engine,
            policy.cpu_s * 1e9 / policy.events as f64,
            policy.events
        );
    }
    Ok(())
}
