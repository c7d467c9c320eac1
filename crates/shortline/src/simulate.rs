//! `shortline simulate`: policies side by side on one fleet, with confidence intervals and the bound.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use comfy_table::{CellAlignment, Table, presets};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use shortline_core::Fleet;
use shortline_core::policy::PolicySpec;
use shortline_sim::{Bound, Estimate, Observer, PerType, PolicyReport, Report, Round, Simulation, Until};
use shortline_theory::bounds::{self, GraphBound};
use shortline_theory::stability;

use crate::failure::Failure;
use crate::fleet_file;

/// Simulate policies side by side, against the bound
///
/// Sizes are exponential and arrivals Poisson. Every figure comes with its 95 % confidence interval; the run ends when
/// the mean response time of every policy is known to --relative-error. All policies see the same arrivals, so that
/// their ratios are known better than the means. A policy under which jobs pile up without end is called unstable.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  shortline simulate examples/image-generation.toml --policy jfsq,jsq,random
  shortline simulate fleet.toml --policy 'jfsq,jsq(2)' --sweep load=0.5..0.98:0.04 --csv sweep.csv")]
pub(crate) struct Args {
    /// Fleet file; - is standard input
    fleet: PathBuf,
    /// Policies, split at commas outside parentheses [default: the fleet file's]
    #[arg(long)]
    policy: Option<String>,
    /// Half-width of the 95 % interval over the mean response time, at which to stop
    #[arg(long, default_value_t = 0.01)]
    relative_error: f64,
    /// Count exactly so many events per policy (arrivals and departures after the warm-up) instead
    #[arg(long, value_parser = events)]
    events: Option<u64>,
    /// Stop after so many seconds, converged or not
    #[arg(long, value_name = "SECONDS")]
    time: Option<f64>,
    /// Scale all arrival rates to this offered load
    #[arg(long)]
    load: Option<f64>,
    /// One row per point: load=A..B:STEP or load=A,B,C
    #[arg(long, value_name = "WHAT=POINTS", value_parser = sweep, conflicts_with = "load")]
    sweep: Option<Sweep>,
    /// Seed; the same seed gives the same figures, on any number of threads
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Threads [default: all cores]
    #[arg(long)]
    threads: Option<usize>,
    /// Job types to report: top=N (the most frequent) or all
    #[arg(long, default_value = "top=100", value_parser = per_type)]
    per_type: PerType,
    /// Write one row per policy (and point of the sweep) as CSV to this file
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Exit with status 1 if a policy did not converge
    #[arg(long)]
    strict: bool,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

/// `--sweep`.
#[derive(Clone, Debug)]
struct Sweep {
    loads: Vec<f64>,
}

/// A point of a sweep.
#[derive(Serialize)]
struct Point {
    load: f64,
    #[serde(flatten)]
    report: Report,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let fleet = fleet_file::open(&args.fleet)?;
    let policies = match &args.policy {
        Some(list) => PolicySpec::parse_list(list).map_err(Failure::usage)?,
        None => Vec::new(),
    };
    let watch = Watch::new(args);
    let interrupt = on_interrupt(watch.stop.clone())?;
    let reports = match &args.sweep {
        None => vec![simulate(args, &at_load(&fleet, args.load)?, &policies, &watch)?],
        Some(sweep) => sweep
            .loads
            .iter()
            .take_while(|_| !watch.is_stopped())
            .map(|&load| simulate(args, &at_load(&fleet, Some(load))?, &policies, &watch))
            .collect::<Result<_, _>>()?,
    };
    watch.bar.finish_and_clear();
    interrupt.shutdown_background();
    if let Some(path) = &args.csv {
        let write = std::fs::write(path, csv(&reports));
        write.map_err(|error| Failure::run(format!("cannot write `{}`: {error}", path.display())))?;
    }
    print(args, &reports)?;
    let converged = |policy: &PolicyReport| policy.converged || policy.unstable;
    if args.strict && !reports.iter().flat_map(|report| &report.policies).all(converged) {
        return Err(Failure::run("not converged, and --strict was asked for"));
    }
    Ok(())
}

/// The fleet with its arrival rates scaled to an offered load.
fn at_load(fleet: &Arc<Fleet>, load: Option<f64>) -> Result<Arc<Fleet>, Failure> {
    let Some(load) = load else { return Ok(Arc::clone(fleet)) };
    if !(load > 0.0 && load.is_finite()) {
        return Err(Failure::usage(format!("the load is {load}, must be positive and finite")));
    }
    let factor = load / stability::offered_load(fleet).map_err(Failure::usage)?;
    let rates = fleet.job_types().map(|l| fleet.arrival_rate(l).map_or(0.0, |rate| rate * factor)).collect();
    let sizes = fleet.job_types().map(|l| fleet.size(l)).collect();
    Ok(Arc::new(fleet.with_traffic(rates, sizes).map_err(Failure::usage)?))
}

fn simulate(args: &Args, fleet: &Arc<Fleet>, policies: &[PolicySpec], watch: &Watch) -> Result<Report, Failure> {
    let until = match args.events {
        Some(events) => Until::Events(events),
        None => Until::RelativeError { error: args.relative_error, most_events: MOST_EVENTS },
    };
    watch.begin(policies.len().max(1));
    let simulation = Simulation::new(fleet).seed(args.seed).until(until).per_type(args.per_type);
    let simulation = args.threads.into_iter().fold(simulation, Simulation::threads);
    let simulation = policies.iter().fold(simulation, |simulation, &policy| simulation.policy(policy));
    let mut report = simulation.run_observed(watch).map_err(Failure::usage)?;
    if report.offered_load.is_none() {
        report.offered_load = stability::offered_load(fleet).ok();
    }
    let graph = GraphBound::new(fleet);
    for policy in &mut report.policies {
        let bound = bound(fleet, graph.as_ref().map_err(ToString::to_string), policy);
        policy.compare_with(bound);
    }
    Ok(report)
}

/// Events per policy at which a run that does not converge gives up.
const MOST_EVENTS: u64 = 2_000_000_000;

/// The largest valid bound; where jobs are lost, the graph bound at the throughput that was measured.
fn bound(fleet: &Fleet, graph: Result<&GraphBound, String>, policy: &PolicyReport) -> Result<Bound, String> {
    let Some(means) = &policy.means else { return Err("the policy is unstable".into()) };
    let named =
        |bound: bounds::Bound| Bound { kind: bound.kind.name().to_owned(), mean_response_s: bound.mean_response_s };
    let graph = graph?;
    let others = [bounds::fluid(fleet), bounds::pooled(fleet)].into_iter().flatten();
    if let Some(bound) = bounds::largest(others.chain([graph.without_losses()])) {
        return Ok(named(bound));
    }
    let throughput = means.throughput_per_s.ok_or("no throughput was measured")?;
    let bound = graph.at(throughput.mean).map_err(|error| error.to_string())?;
    if bound.is_valid() { Ok(named(bound)) } else { Err(bound.validity.why().to_owned()) }
}

/// Looks on: progress bar, Ctrl-C, time limit, CPU time.
struct Watch {
    bar: ProgressBar,
    stop: Arc<AtomicBool>,
    deadline: Option<Instant>,
    target: Option<f64>,
    policies: AtomicU64,
    per_policy: Option<u64>,
}

impl Watch {
    fn new(args: &Args) -> Self {
        let style = "{elapsed_precise} {wide_bar} {human_pos} events, {msg}ready in {eta}";
        let style = ProgressStyle::with_template(style).expect("the template names known fields");
        let bar = ProgressBar::no_length().with_style(style);
        bar.enable_steady_tick(Duration::from_millis(200));
        Self {
            bar,
            stop: Arc::new(AtomicBool::new(false)),
            deadline: args.time.map(|seconds| Instant::now() + Duration::from_secs_f64(seconds.max(0.0))),
            target: args.events.is_none().then_some(args.relative_error),
            policies: AtomicU64::new(1),
            per_policy: args.events,
        }
    }

    fn begin(&self, policies: usize) {
        self.policies.store(policies as u64, Ordering::Relaxed);
        self.bar.reset();
        if let Some(events) = self.per_policy {
            self.bar.set_length(events * policies as u64);
        }
    }
}

impl Observer for Watch {
    fn advanced(&self, events: u64) {
        self.bar.inc(events);
    }

    fn round_ended(&self, round: &Round) {
        let error = round.widest_relative_error;
        if error.is_finite() {
            self.bar.set_message(format!("+-{:.2} % so far, ", 100.0 * error));
            if let Some(target) = self.target {
                // The half-width shrinks like the square root of the length.
                let wanted = round.counted_events as f64 * (error / target).powi(2).max(1.0);
                self.bar.set_length((wanted as u64).saturating_mul(self.policies.load(Ordering::Relaxed)));
            }
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    fn cpu_s(&self) -> f64 {
        cpu_time::ProcessTime::try_now().map_or(0.0, |time| time.as_duration().as_secs_f64())
    }
}

/// Ctrl-C stops the run; what there is is printed. A second one ends the process.
fn on_interrupt(stop: Arc<AtomicBool>) -> Result<tokio::runtime::Runtime, Failure> {
    let runtime = crate::runtime()?;
    runtime.spawn(async move {
        while tokio::signal::ctrl_c().await.is_ok() {
            if stop.swap(true, Ordering::Relaxed) {
                std::process::exit(130);
            }
        }
    });
    Ok(runtime)
}

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "the command line talks to its user")]
fn print(args: &Args, reports: &[Report]) -> Result<(), Failure> {
    for policy in reports.iter().flat_map(|report| &report.policies).filter(|p| !p.converged && !p.unstable) {
        eprintln!("warning: `{}` has not converged", policy.policy);
    }
    if args.json {
        let json = match &args.sweep {
            None => serde_json::to_string_pretty(&reports[0]),
            Some(sweep) => {
                let points = sweep.loads.iter().zip(reports);
                let points: Vec<Point> = points.map(|(&load, report)| Point { load, report: report.clone() }).collect();
                serde_json::to_string_pretty(&points)
            }
        };
        println!("{}", json.map_err(Failure::run)?);
        return Ok(());
    }
    for report in reports {
        let load = report.offered_load.map_or("unknown".to_owned(), |load| format!("{load:.4}"));
        println!(
            "{}: {} servers, {} job types, {} edges, offered load {load}",
            report.fleet, report.servers, report.job_types, report.edges
        );
        println!("{}", table(report));
    }
    Ok(())
}

const COLUMNS: [&str; 9] =
    ["policy", "mean response", "over the bound", "waiting", "service", "95 % below", "waits", "blocked", "engine"];

fn table(report: &Report) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(COLUMNS);
    for policy in &report.policies {
        table.add_row(row(policy));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn row(policy: &PolicyReport) -> Vec<String> {
    let engine = format!("{:?}", policy.engine).to_lowercase();
    let Some(means) = &policy.means else {
        let growth = policy.growth_jobs_per_s.unwrap_or(f64::NAN);
        return vec![policy.policy.clone(), format!("unstable: +{growth:.3} jobs/s")];
    };
    let or_dash = |text: Option<String>| text.unwrap_or("-".to_owned());
    let seconds = |estimate: Option<Estimate>| or_dash(estimate.map(|e| with_error(&e, 1.0, " s")));
    let percent = |estimate: Option<Estimate>| or_dash(estimate.map(|e| with_error(&e, 100.0, " %")));
    vec![
        policy.policy.clone(),
        seconds(means.mean_response_s),
        or_dash(policy.ratio_to_bound.map(|e| with_error(&e, 1.0, ""))),
        seconds(means.mean_waiting_s),
        seconds(means.mean_service_s),
        seconds(means.p95_response_s),
        percent(means.fraction_waiting),
        percent(means.blocking_probability),
        engine,
    ]
}

fn with_error(estimate: &Estimate, factor: f64, unit: &str) -> String {
    let half_width = 0.5 * (estimate.ci95[1] - estimate.ci95[0]) * factor;
    let mean = estimate.mean * factor;
    // Two digits of the half-width.
    let digits = if half_width > 0.0 { (1.0 - half_width.log10().floor()).clamp(0.0, 9.0) as usize } else { 3 };
    format!("{mean:.digits$} ±{half_width:.digits$}{unit}")
}

fn csv(reports: &[Report]) -> String {
    let mut text =
        "fleet,servers,job_types,edges,offered_load,policy,unstable,converged,mean_response_s,mean_response_low_s,\
        mean_response_high_s,mean_waiting_s,mean_service_s,p50_response_s,p95_response_s,p99_response_s,\
        fraction_waiting,blocking_probability,bound,bound_s,events\n"
            .to_owned();
    for report in reports {
        for policy in &report.policies {
            text += &csv_row(report, policy);
        }
    }
    text
}

fn csv_row(report: &Report, policy: &PolicyReport) -> String {
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let number = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
    let means = policy.means.as_ref();
    let mean = |of: fn(&shortline_sim::Means) -> Option<Estimate>| number(means.and_then(of).map(|e| e.mean));
    let response = means.and_then(|means| means.mean_response_s);
    [
        quoted(&report.fleet),
        report.servers.to_string(),
        report.job_types.to_string(),
        report.edges.to_string(),
        number(report.offered_load),
        quoted(&policy.policy),
        policy.unstable.to_string(),
        policy.converged.to_string(),
        number(response.map(|e| e.mean)),
        number(response.map(|e| e.ci95[0])),
        number(response.map(|e| e.ci95[1])),
        mean(|means| means.mean_waiting_s),
        mean(|means| means.mean_service_s),
        mean(|means| means.p50_response_s),
        mean(|means| means.p95_response_s),
        mean(|means| means.p99_response_s),
        mean(|means| means.fraction_waiting),
        mean(|means| means.blocking_probability),
        policy.bound.as_ref().map_or(String::new(), |bound| bound.kind.clone()),
        number(policy.bound.as_ref().map(|bound| bound.mean_response_s)),
        policy.events.to_string(),
    ]
    .join(",")
        + "\n"
}

/// `1000000` or `1e6`.
fn events(written: &str) -> Result<u64, String> {
    let number: f64 = written.parse().map_err(|_| "a whole number, as 1000000 or 1e6".to_owned())?;
    if number >= 1.0 && number.fract() == 0.0 && number < 1e18 {
        Ok(number as u64)
    } else {
        Err("a whole number from 1".to_owned())
    }
}

fn per_type(written: &str) -> Result<PerType, String> {
    match written.strip_prefix("top=") {
        None if written == "all" => Ok(PerType::All),
        Some(number) => number.parse().map(PerType::Top).map_err(|_| "top=N, with a whole number N, or all".to_owned()),
        None => Err("top=N or all".to_owned()),
    }
}

fn sweep(written: &str) -> Result<Sweep, String> {
    let (what, points) = written.split_once('=').ok_or("WHAT=POINTS, as load=0.5..0.98:0.04")?;
    if what != "load" {
        return Err(format!("`{what}` cannot be swept over; `load` can"));
    }
    let number = |text: &str| text.trim().parse::<f64>().map_err(|_| format!("`{text}` is not a number"));
    let loads = match points.split_once("..") {
        None => points.split(',').map(number).collect::<Result<Vec<f64>, _>>()?,
        Some((from, rest)) => {
            let (to, step) = rest.split_once(':').ok_or("a range needs a step, as 0.5..0.98:0.04")?;
            let (from, to, step) = (number(from)?, number(to)?, number(step)?);
            if !(step > 0.0 && to >= from && (to - from) / step < 10_000.0) {
                return Err("a range goes up in at most 10,000 steps".to_owned());
            }
            // A hair beyond the end, so that rounding does not lose it.
            let steps = ((to - from) / step + 1e-9).floor() as usize;
            (0..=steps).map(|i| from + i as f64 * step).collect()
        }
    };
    if loads.iter().all(|load| *load > 0.0 && load.is_finite()) {
        Ok(Sweep { loads })
    } else {
        Err("loads are positive".to_owned())
    }
}
