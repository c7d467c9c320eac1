//! `shortline replay`: open-loop load against a URL, and what came back.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use comfy_table::{Table, presets};
use indicatif::{ProgressBar, ProgressStyle};
use shortline_gateway::replay::{self, BoundOf, Estimate, LoadOf, MAX_OUTSTANDING, Options, Report, Source};
use shortline_gateway::trace::{Columns, Trace};

use crate::failure::Failure;
use crate::terminal::say;
use crate::{bounds, fleet_file};

/// Send open-loop load to a URL and measure
///
/// Requests are sent when their time has come, whatever happened to the ones before, and response times count from
/// then. With --trace the recorded requests; with --fleet alone Poisson arrivals at the file's rates; with both, the
/// fleet gives the bound and the server types beside the trace. The exit status is 0 when the run completed, whatever
/// the statuses were.
#[derive(Debug, clap::Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "Examples:
  shortline replay --target http://127.0.0.1:8080 --fleet examples/image-generation.toml --load 0.8 --duration 20
  shortline replay --target http://127.0.0.1:8080 --trace requests.csv --requests 9050..11050 --fleet fleet.toml --load 0.5"
)]
pub(crate) struct Args {
    /// Where to send requests: `http://HOST[:PORT][/PATH]`
    #[arg(long)]
    target: replay::Target,
    /// Recorded requests as CSV: `arrival_s,job_type[,service_s]`; - is standard input
    #[arg(long)]
    trace: Option<PathBuf>,
    /// Fleet file: Poisson arrivals at its rates, or beside --trace its loads, bound and server types
    #[arg(long)]
    fleet: Option<PathBuf>,
    /// Divide all times, arrivals and sizes, by this; the load stays
    #[arg(long, default_value_t = 1.0, value_parser = positive)]
    speedup: f64,
    /// Compress arrival times alone to this mean offered load (needs --fleet)
    #[arg(long, value_parser = positive, requires = "fleet")]
    load: Option<f64>,
    /// Only requests A up to B, B excluded, counted from 0; times are shifted to start at A
    #[arg(long, value_name = "A..B", value_parser = range)]
    requests: Option<Range<u64>>,
    /// Stop sending after this many seconds
    #[arg(long, value_parser = positive)]
    duration: Option<f64>,
    /// Requests under way at most; beyond it requests are not sent, and that is reported
    #[arg(long, default_value_t = MAX_OUTSTANDING)]
    max_outstanding: usize,
    /// Seconds that an answer may take before the request is given up
    #[arg(long, default_value_t = 600.0, value_parser = positive)]
    timeout: f64,
    /// Other names of the trace's columns, as arrival_s=NAME, job_type=NAME, service_s=NAME
    #[arg(long, value_delimiter = ',', value_name = "COLUMN=NAME")]
    columns: Vec<String>,
    /// Seed of Poisson arrivals and their sizes
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if args.trace.is_none() && args.fleet.is_none() {
        let message = "nothing to send: give --trace CSV, --fleet FLEET (Poisson arrivals at its rates), or both";
        return Err(Failure::usage(message));
    }
    let fleet = args.fleet.as_deref().map(fleet_file::open).transpose()?;
    let source = match &args.trace {
        Some(path) => {
            let trace = read_trace(path, &args.columns, args.requests.clone())?;
            Source::Trace(Arc::new(trace))
        }
        None => Source::Poisson { requests: args.requests.clone() },
    };
    if let Some(fleet) = &fleet {
        let settings = fleet.settings();
        fleet_file::say_not_honoured(
            "replay",
            &[
                ("[failures]", settings.failures.is_some()),
                ("[information]", settings.information != Default::default()),
            ],
        );
    }
    let bar = progress_bar();
    let moving = bar.clone();
    let with_fleet = fleet.clone().zip(fleet.clone());
    let (load_of, bound_of) = with_fleet
        .map(|(load_fleet, bound_fleet)| -> (LoadOf, BoundOf) {
            (
                Box::new(move |offered| bounds::load_of(&load_fleet, offered)),
                Box::new(move |offered| bounds::fluid(&bound_fleet, offered)),
            )
        })
        .unzip();
    let options = Options {
        speedup: args.speedup,
        load: args.load,
        duration: args.duration.map(Duration::from_secs_f64),
        max_outstanding: args.max_outstanding,
        timeout: Duration::from_secs_f64(args.timeout),
        seed: args.seed,
        load_of,
        bound_of,
        progress: Some(Box::new(move |progress| show(&moving, progress))),
        ..Options::new(args.target.clone(), source, fleet)
    };
    let stop = options.stop.clone();
    let report = crate::runtime()?.block_on(async {
        let interrupt = tokio::spawn(async move {
            // Without the signal the replay runs to its end.
            if tokio::signal::ctrl_c().await.is_ok() {
                stop.cancel();
            }
        });
        let report = replay::replay(options).await;
        interrupt.abort();
        report
    });
    bar.finish_and_clear();
    print(&report.map_err(Failure::usage)?, args.json)
}

fn progress_bar() -> ProgressBar {
    let style = "{elapsed_precise} {wide_bar} {pos}/{len} answered, {msg}, ready in {eta}";
    let style = ProgressStyle::with_template(style).expect("the template names known fields");
    ProgressBar::new(0).with_style(style)
}

fn show(bar: &ProgressBar, progress: replay::Progress) {
    match progress.total {
        Some(total) => bar.set_length(total),
        None => bar.unset_length(),
    }
    bar.set_position(progress.done);
    bar.set_message(format!("{} under way", progress.sent - progress.done));
}

fn print(report: &Report, json: bool) -> Result<(), Failure> {
    if json {
        say!("{}", serde_json::to_string_pretty(report).map_err(Failure::run)?)?;
        return Ok(());
    }
    let outcomes = report.outcomes.iter().map(|(outcome, n)| format!("{outcome}: {n}")).collect::<Vec<_>>().join(", ");
    say!("{} sent in {:.1} s; {outcomes}", report.sent, report.duration_s)?;
    if let Some(load) = report.offered_load {
        say!("offered load {load:.3}")?;
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    for (name, estimate) in [
        ("mean response", report.mean_response_s),
        ("median", report.p50_response_s),
        ("95th percentile", report.p95_response_s),
        ("99th percentile", report.p99_response_s),
    ] {
        table.add_row(vec![name.to_owned(), estimate.map_or("none answered".to_owned(), in_ms)]);
    }
    if let Some(bound) = &report.bound {
        let ratio = report
            .mean_response_s
            .map_or(String::new(), |e| format!(" (mean is {:.3} x)", e.mean / bound.mean_response_s));
        table.add_row(vec![
            format!("{} bound on the mean", bound.kind),
            format!("{:.3} ms{ratio}", bound.mean_response_s * 1e3),
        ]);
    }
    for server_type in &report.per_server_type {
        table.add_row(vec![format!("share of {}", server_type.name), format!("{:.1} %", 100.0 * server_type.share)]);
    }
    if !report.per_server_type.is_empty() {
        table.add_row(vec!["misrouted".to_owned(), report.misrouted.to_string()]);
    }
    say!("{table}")?;
    if (report.time_scale - 1.0).abs() > 0.0 {
        say!("times are as measured; one second of the fleet file lasted {} s", report.time_scale)?;
    }
    for (reason, n) in &report.aborted_because {
        say!("aborted, {reason}: {n}")?;
    }
    if report.outstanding_cap_hit {
        say!(
            "warning: {} requests were not sent because too many were under way; see --max-outstanding",
            report.not_sent
        )?;
    }
    for warning in &report.warnings {
        say!("warning: {warning}")?;
    }
    Ok(())
}

fn in_ms(estimate: Estimate) -> String {
    match estimate.ci95 {
        Some([low, high]) => format!("{:.3} ms (95 %: {:.3} to {:.3})", estimate.mean * 1e3, low * 1e3, high * 1e3),
        None => format!("{:.3} ms (too few for an interval)", estimate.mean * 1e3),
    }
}

/// Reads a trace; `-` is standard input.
pub(crate) fn read_trace(path: &Path, mapped: &[String], requests: Option<Range<u64>>) -> Result<Trace, Failure> {
    let columns = columns(mapped)?;
    if path == Path::new("-") {
        Trace::parse(std::io::stdin().lock(), "standard input", &columns, requests)
    } else {
        Trace::read(path, &columns, requests)
    }
    .map_err(Failure::usage)
}

fn columns(mappings: &[String]) -> Result<Columns, Failure> {
    let mut columns = Columns::default();
    for mapping in mappings {
        match mapping.split_once('=') {
            Some(("arrival_s", name)) => name.clone_into(&mut columns.arrival),
            Some(("job_type", name)) => name.clone_into(&mut columns.job_type),
            Some(("service_s", name)) => columns.service = Some(name.to_owned()),
            _ => {
                let message = format!("--columns {mapping}: write arrival_s=NAME, job_type=NAME or service_s=NAME");
                return Err(Failure::usage(message));
            }
        }
    }
    Ok(columns)
}

pub(crate) fn positive(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|x: &f64| x.is_finite() && *x > 0.0).ok_or("must be a positive number".to_owned())
}

/// A number of seconds that may be 0.
pub(crate) fn not_negative(text: &str) -> Result<f64, String> {
    let in_range = |x: &f64| (0.0..=1e9).contains(x);
    text.parse().ok().filter(in_range).ok_or("must be a number from 0 to 1e9".to_owned())
}

pub(crate) fn range(text: &str) -> Result<Range<u64>, String> {
    let bounds = text.split_once("..").and_then(|(a, b)| Some(a.parse().ok()?..b.parse().ok()?));
    bounds.filter(|range| range.start < range.end).ok_or("must be A..B with A below B".to_owned())
}
