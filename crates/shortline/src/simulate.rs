//! `shortline simulate`: policies side by side on one fleet, with confidence intervals and the bound.

mod points;
mod sweep;
mod tables;
mod trajectory;
mod watch;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use shortline_core::Fleet;
use shortline_core::fleet::Parts;
use shortline_core::policy::PolicySpec;
use shortline_sim::{Bound, Observer, PerType, PolicyReport, Report, Simulation, SimulationError, Until};
use shortline_theory::bounds::{self, GraphBound};
use shortline_theory::stability;

use crate::failure::Failure;
use crate::{fleet_file, split};
pub(crate) use sweep::at_load;
use sweep::{Point, Sweep};
use trajectory::Times;
use watch::{Watch, on_interrupt};

/// Simulate policies side by side, against the bound
///
/// Sizes are exponential and arrivals Poisson. Every figure comes with its 95 % confidence interval; the run ends when
/// the mean response time of every policy is known to --relative-error. All policies see the same arrivals, so that
/// their ratios are known better than the means. A policy under which jobs pile up without end is called unstable.
#[derive(Debug, clap::Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "Examples:
  shortline simulate examples/papers-fleet.toml --policy 'jfsq,jsq,jsq(2),random'
  shortline simulate examples/papers-fleet.toml --sweep load=0.5..0.98:0.04 --csv sweep.csv
  shortline simulate examples/papers-fleet.toml --sweep degree=2,4,8,16
  shortline simulate examples/papers-fleet.toml --trajectory 20:0.5
  shortline simulate examples/image-generation.toml --service exponential --policy jfsq,jsq,split"
)]
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
    #[arg(long, value_name = "SECONDS", value_parser = crate::replay::not_negative)]
    time: Option<f64>,
    /// Scale all arrival rates to this offered load
    #[arg(long)]
    load: Option<f64>,
    /// One row per point: load=A..B:STEP or load=A,B,C scale the rates; degree=2,4,8 generates the `[graph]` anew;
    /// servers=64,128 scales the counts of servers (and, with a `[graph]`, of job types) at the same offered load
    #[arg(long, value_name = "WHAT=POINTS", value_parser = Sweep::parse)]
    sweep: Option<Sweep>,
    /// Occupancy over time from the empty fleet instead of long-run means: END (50 steps), END:STEP, A..B:STEP or A,B,C,
    /// in seconds
    #[arg(
        long,
        value_name = "TIMES",
        value_parser = Times::parse,
        conflicts_with_all = ["sweep", "events", "relative_error", "strict", "per_type"]
    )]
    trajectory: Option<Times>,
    /// Independent replications of a trajectory, at least 2
    #[arg(long, default_value_t = 100, requires = "trajectory", value_parser = clap::value_parser!(u32).range(2..))]
    replications: u32,
    /// exponential: instead of the file's `[service]`, with the same mean sizes, first in first out
    #[arg(long)]
    service: Option<ServiceInstead>,
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
    /// Exit with status 1 if a policy is unstable or did not converge
    #[arg(long)]
    strict: bool,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

/// `--service`.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum ServiceInstead {
    Exponential,
}

/// The report of one point of a sweep, or of the only one.
struct Simulated {
    point: Option<Point>,
    report: Report,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let file = open(args)?;
    let policies = match &args.policy {
        Some(list) => PolicySpec::parse_list(list).map_err(Failure::usage)?,
        None => file.fleet.settings.policy.into_iter().collect(),
    };
    let watch = Watch::new(args);
    let interrupt = on_interrupt(watch.stop.clone())?;
    let outcome = match &args.trajectory {
        Some(times) => follow(args, &file, &policies, times, &watch),
        None => simulate_all(args, &file, &policies, &watch),
    };
    interrupt.shutdown_background();
    outcome
}

/// The file's parts, altered as the options ask.
#[expect(clippy::print_stderr, reason = "the command line talks to its user")]
fn open(args: &Args) -> Result<Parts, Failure> {
    let mut file = fleet_file::open_parts(&args.fleet)?;
    let settings = &mut file.fleet.settings;
    if let Some(ServiceInstead::Exponential) = args.service
        && settings.service != Default::default()
    {
        eprintln!(
            "note: --service exponential: sizes are exponential with the file's means, first in first out; its [service] is not used"
        );
        settings.service = Default::default();
    }
    if args.load.is_some() && args.sweep.as_ref().is_some_and(|sweep| sweep.points.iter().any(|p| p.load().is_some())) {
        return Err(Failure::usage("--load and --sweep load exclude each other"));
    }
    Ok(file)
}

fn simulate_all(args: &Args, file: &Parts, policies: &[PolicySpec], watch: &Watch) -> Result<(), Failure> {
    let points = args.sweep.as_ref().map_or(vec![None], |sweep| sweep.points.iter().copied().map(Some).collect());
    let mut done = Vec::new();
    for point in &points {
        let fleet = match point {
            None => sweep::fleet_of(file.fleet.clone(), args.load)?,
            Some(point) => point.fleet(file, args.load)?,
        };
        let report = simulate(args, &split::with_shares(Arc::new(fleet), policies)?, policies, watch)?;
        done.push(Simulated { point: *point, report });
        if watch.is_stopped() {
            break;
        }
    }
    watch.bar.finish_and_clear();
    if let Some(path) = &args.csv {
        write(path, &tables::csv(&done))?;
    }
    print(args, &done, points.len())?;
    let mut policies = done.iter().flat_map(|point| &point.report.policies);
    let all = done.len() == points.len() && policies.all(|policy| policy.converged);
    if args.strict && !all {
        return Err(Failure::run("a policy is unstable or has not converged, and --strict was asked for"));
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|error| Failure::run(format!("cannot write `{}`: {error}", path.display())))
}

/// `--trajectory`.
#[expect(clippy::print_stdout, clippy::print_stderr, reason = "the command line talks to its user")]
fn follow(args: &Args, file: &Parts, policies: &[PolicySpec], times: &Times, watch: &Watch) -> Result<(), Failure> {
    let fleet = split::with_shares(Arc::new(sweep::fleet_of(file.fleet.clone(), args.load)?), policies)?;
    let trajectories = asked(args, &fleet, policies).trajectory(&times.0, args.replications as usize, watch);
    let trajectories = trajectories.map_err(refused)?;
    watch.bar.finish_and_clear();
    if let Some(path) = &args.csv {
        write(path, &trajectory::csv(&trajectories))?;
    }
    if !trajectories.complete {
        eprintln!("warning: stopped before the last moment");
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&trajectories).map_err(Failure::run)?);
        return Ok(());
    }
    for trajectory in &trajectories.trajectories {
        println!(
            "{}: policy {}, from empty, {} replications",
            trajectories.fleet, trajectory.policy, trajectories.replications
        );
        println!("{}", trajectory::table(trajectory));
    }
    Ok(())
}

/// The simulation that the options ask for.
fn asked(args: &Args, fleet: &Arc<Fleet>, policies: &[PolicySpec]) -> Simulation {
    let simulation = Simulation::new(fleet).seed(args.seed).per_type(args.per_type);
    let simulation = args.threads.into_iter().fold(simulation, Simulation::threads);
    policies.iter().fold(simulation, |simulation, &policy| simulation.policy(policy))
}

/// Why the simulator refuses, and what to do about it on the command line.
fn refused(error: SimulationError) -> Failure {
    let remedy = match &error {
        SimulationError::NeedsGeneralEngine { section, .. } if section.starts_with("[service]") => {
            "; `--service exponential` simulates the fleet with exponential sizes of the same means instead".to_owned()
        }
        SimulationError::NeedsGeneralEngine { section, .. } => {
            format!("; a copy of the fleet file without {section} can be simulated")
        }
        SimulationError::NoPolicy => "; or pass --policy".to_owned(),
        _ => String::new(),
    };
    Failure::usage(format!("{error}{remedy}"))
}

fn simulate(args: &Args, fleet: &Arc<Fleet>, policies: &[PolicySpec], watch: &Watch) -> Result<Report, Failure> {
    let until = match args.events {
        Some(events) => Until::Events(events),
        None => Until::RelativeError { error: args.relative_error, most_events: MOST_EVENTS },
    };
    watch.begin(policies.len().max(1));
    let mut report = asked(args, fleet, policies).until(until).run_observed(watch).map_err(refused)?;
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

/// A report as JSON, with what the report itself does not show: the point of the sweep, and a `--service`.
#[derive(Serialize)]
struct Shown<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    load: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    degree: Option<u32>,
    /// `--service`, if it was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    service: Option<&'static str>,
    #[serde(flatten)]
    report: &'a Report,
}

impl<'a> Shown<'a> {
    fn new(args: &Args, simulated: &'a Simulated) -> Self {
        let point = simulated.point;
        Self {
            load: point.and_then(Point::load),
            degree: point.and_then(Point::degree),
            service: args.service.map(|ServiceInstead::Exponential| "exponential"),
            report: &simulated.report,
        }
    }
}

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "the command line talks to its user")]
fn print(args: &Args, done: &[Simulated], points: usize) -> Result<(), Failure> {
    for Simulated { point, report } in done {
        for policy in report.policies.iter().filter(|policy| !policy.converged && !policy.unstable) {
            let at = point.map_or(String::new(), |point| format!(" at {}", point.title()));
            eprintln!("warning: `{}` has not converged{at}", policy.policy);
        }
    }
    if done.len() < points {
        eprintln!("warning: stopped after {} of {points} points", done.len());
    }
    if args.json {
        let json = match &args.sweep {
            None => serde_json::to_string_pretty(&Shown::new(args, &done[0])),
            Some(_) => {
                let shown: Vec<Shown<'_>> = done.iter().map(|simulated| Shown::new(args, simulated)).collect();
                serde_json::to_string_pretty(&shown)
            }
        };
        println!("{}", json.map_err(Failure::run)?);
        return Ok(());
    }
    for Simulated { point, report } in done {
        let load = report.offered_load.map_or("unknown".to_owned(), |load| format!("{load:.4}"));
        let point = point.map_or(String::new(), |point| format!(" (sweep: {})", point.title()));
        println!(
            "{}{point}: {} servers, {} job types, {} edges, offered load {load}",
            report.fleet, report.servers, report.job_types, report.edges
        );
        println!("{}", tables::table(report));
    }
    Ok(())
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
