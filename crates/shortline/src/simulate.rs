//! `shortline simulate`: policies side by side on one fleet, with confidence intervals and the bound.

mod kept;
mod long_run;
mod mean_field;
mod points;
mod recorded;
mod report;
mod sweep;
mod tables;
mod theory;
mod trajectory;
mod watch;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use shortline_core::Fleet;
use shortline_core::fleet::{Parts, RATES_ARE_MEASURED};
use shortline_core::policy::PolicySpec;
use shortline_sim::{PerType, Simulation, SimulationError};

use crate::failure::Failure;
use crate::terminal::aside;
use crate::{fleet_file, outputs};
use sweep::Sweep;
use trajectory::Times;
use watch::Watch;
pub(crate) use watch::on_interrupt;

/// Simulate policies side by side, against the bound
///
/// Arrivals, sizes, failures and what the dispatcher knows are as the fleet file says; with --trace, arrivals and sizes are
/// the recorded ones. Every figure comes with its 95 % confidence interval; the run ends when
/// the mean response time of every policy is known to --relative-error. All policies see the same arrivals, so that
/// their ratios are known better than the means. A policy under which jobs pile up without end is called unstable.
#[derive(Debug, clap::Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "Examples:
  shortline simulate examples/papers-fleet.toml --policy 'jfsq,jsq,jsq(2),random'
  shortline simulate examples/papers-fleet.toml --sweep load=0.5..0.98:0.04 --csv sweep.csv
  shortline simulate examples/papers-fleet.toml --sweep load=0.5..0.98:0.04 --csv sweep.csv --resume
  shortline simulate examples/papers-fleet.toml --sweep degree=2,4,8,16
  shortline simulate examples/papers-fleet.toml --policy jfsq,jsq --report report.html
  shortline simulate examples/papers-fleet.toml --trajectory 20:0.5
  shortline simulate examples/papers-fleet.toml --policy 'jfsq,jsq(2)' --mean-field
  shortline simulate examples/image-generation.toml --policy jfsq,jsq,split
  shortline simulate fleet.toml --trace requests.csv --sweep load=0.5,0.7,0.9"
)]
pub(crate) struct Args {
    /// Fleet file; - is standard input
    fleet: PathBuf,
    /// Policies, split at commas outside parentheses [default: the fleet file's, else jfsq]
    #[arg(long)]
    policy: Option<String>,
    /// Half-width of the 95 % interval over the mean response time, at which to stop
    #[arg(long, default_value_t = 0.01)]
    relative_error: f64,
    /// Count exactly so many events per policy (arrivals and departures after the warm-up) instead
    #[arg(long, value_parser = events)]
    events: Option<u64>,
    /// Stop so many seconds after the start of the command, converged or not; without means if that is before the end of
    /// the warm-up
    #[arg(long, value_name = "SECONDS", value_parser = crate::replay::not_negative)]
    time: Option<f64>,
    /// Scale all arrival rates to this offered load; of a --trace, compress its arrival times
    #[arg(long)]
    load: Option<f64>,
    /// Recorded jobs as CSV, `arrival_s,job_type[,service_s]`, instead of drawn ones: simulated once, from an empty fleet until
    /// the last one has left, intervals by batch means; - is standard input
    #[arg(
        long,
        value_name = "CSV",
        conflicts_with_all = ["events", "relative_error", "trajectory", "mean_field", "service"]
    )]
    trace: Option<PathBuf>,
    /// Only jobs A up to B of the trace, B excluded, counted from 0; times are shifted to start at A
    #[arg(long, value_name = "A..B", value_parser = crate::replay::range, requires = "trace")]
    requests: Option<Range<u64>>,
    /// Other names of the trace's columns, as arrival_s=NAME, job_type=NAME, service_s=NAME
    #[arg(long, value_delimiter = ',', value_name = "COLUMN=NAME", requires = "trace")]
    columns: Vec<String>,
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
    /// Put the mean field, the limit of large fleets, beside the simulation
    #[arg(long)]
    mean_field: bool,
    /// exponential: instead of the file's `[service]`, with the same mean sizes, first in first out
    #[arg(long)]
    service: Option<ServiceInstead>,
    /// Seed; the same seed gives the same figures, on any number of threads
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Threads, 1 to 1024 [default: all cores]; at most 32 replications run at a time
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Job types to report: top=N (the most frequent) or all
    #[arg(long, default_value = "top=100", value_parser = per_type)]
    per_type: PerType,
    /// Write one row per policy (and point of the sweep, as soon as it is done) as CSV to this file; of a sweep, FILE.jsonl
    /// beside it has all figures, for --resume
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write all figures of each point of the sweep, as soon as it is done, as a line of JSON to this file
    #[arg(long, value_name = "FILE", requires = "sweep")]
    jsonl: Option<PathBuf>,
    /// Go on with the sweep that was interrupted, or killed: points in the file of --jsonl, or beside that of --csv, are not
    /// simulated again
    #[arg(long, requires = "sweep")]
    resume: bool,
    /// Write all of it, the fleet and what theory knows of it too, as one page of HTML to this file
    #[arg(long, value_name = "FILE", conflicts_with = "trajectory")]
    report: Option<PathBuf>,
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

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let watch = Watch::new(args);
    let named = args.policy.as_deref().map(PolicySpec::parse_list).transpose().map_err(Failure::usage)?;
    let interrupt = on_interrupt(watch.stop.clone())?;
    let outcome = simulate(args, named, &watch);
    interrupt.shutdown_background();
    outcome
}

fn simulate(args: &Args, named: Option<Vec<PolicySpec>>, watch: &Watch) -> Result<(), Failure> {
    if args.load.is_some() && args.sweep.as_ref().is_some_and(|sweep| sweep.points.iter().any(|p| p.load().is_some())) {
        return Err(Failure::usage("--load and --sweep load exclude each other"));
    }
    for path in [&args.report, &args.csv, &args.jsonl].into_iter().flatten() {
        outputs::check(path)?;
    }
    let (path, service, has_trace) = (args.fleet.clone(), args.service, args.trace.is_some());
    if has_trace && path == Path::new("-") && args.trace == Some(path.clone()) {
        return Err(Failure::usage("the fleet file and the trace cannot both be standard input; name a file for one"));
    }
    let file = watch.unless_stopped("reading the fleet file", move || open(&path, service, has_trace));
    let file = Arc::new(file.ok_or_else(|| watch.nothing_simulated())??);
    let policies = named.unwrap_or_else(|| vec![file.fleet.settings.policy.unwrap_or(PolicySpec::Jfsq)]);
    match &args.trajectory {
        Some(times) => trajectory::run(args, &file, &policies, times, watch),
        None => long_run::run(args, &file, &policies, watch),
    }
}

/// The file's parts, altered as the options ask.
fn open(path: &Path, service: Option<ServiceInstead>, has_trace: bool) -> Result<Parts, Failure> {
    // The rates are those of the trace, if there is one.
    let mut file = fleet_file::open_parts(path, |warning| !has_trace || warning.remedy() != Some(RATES_ARE_MEASURED))?;
    let settings = &mut file.fleet.settings;
    if let Some(ServiceInstead::Exponential) = service
        && settings.service != Default::default()
    {
        aside!(
            "note: --service exponential: sizes are exponential with the file's means, first in first out; its [service] is not used"
        );
        settings.service = Default::default();
    }
    Ok(file)
}

/// The simulation that the options ask for.
fn asked(args: &Args, fleet: &Arc<Fleet>, policies: &[PolicySpec]) -> Simulation {
    let simulation = Simulation::new(fleet).seed(args.seed).per_type(args.per_type);
    let simulation =
        args.threads.into_iter().fold(simulation, |simulation, threads| simulation.threads(threads.into()));
    policies.iter().fold(simulation, |simulation, &policy| simulation.policy(policy))
}

/// Why the simulator refuses, and what to do about it on the command line.
fn refused(error: SimulationError) -> Failure {
    let remedy = match &error {
        SimulationError::NeedsTrace { section } if section.starts_with("[service]") => {
            ": `--trace CSV` with a column service_s, or `--service exponential` for exponential sizes of the file's means"
        }
        SimulationError::NeedsTrace { .. } => ": `--trace CSV`",
        SimulationError::Clock { what, .. } if what.contains("trace") => {
            "; take a part of the trace with --requests A..B, or compress its arrival times with --load"
        }
        SimulationError::Clock { .. } => {
            "; let more jobs arrive, or ask for fewer --events or an earlier end (exponential sizes and Poisson arrivals need no such \
             clock)"
        }
        _ => "",
    };
    Failure::usage(format!("{error}{remedy}"))
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
