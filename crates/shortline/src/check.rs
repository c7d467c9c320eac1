//! `shortline check`: what can be said of a fleet before it runs, without simulating it.
//!
//! Is the fleet stable, and under which policies? What saturates first, and what would raise it? How short can the mean
//! response time be at best (bounds), how long at most (guarantee), and how well connected is the graph? All of it is
//! theory; this command only asks, and says which answers do not apply and why.
//!
//! Each section of the report is one file: it is gathered from the theory, goes to JSON as it is, and prints itself.

mod advice;
mod bounds;
mod connectivity;
mod figures;
mod fleet;
mod guarantee;
mod html;
mod model;
mod problems;
mod report;
mod stability;
mod text;

use std::path::PathBuf;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use shortline_core::Fleet;
use shortline_core::fleet::Fault;
use shortline_core::policy::PolicySpec;

use crate::failure::Failure;
use crate::terminal::say;
use crate::{fleet_file, load};
use report::Report;

/// Say what theory knows of a fleet: stability, bounds, guarantee, bottleneck
///
/// Nothing is simulated. Exit status: 0 the fleet is stable, 1 it is not, 2 the file is not usable or lacks rates.
#[derive(Debug, clap::Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "Examples:
  shortline check examples/image-generation.toml
  shortline check examples/papers-fleet.toml --load 0.98 --policy 'jfsq,jfiq,jsq(2)'
  curl -s http://127.0.0.1:8081/fleet | shortline check - --json"
)]
pub(crate) struct Args {
    /// Fleet file; - is standard input
    fleet: PathBuf,
    /// Policies whose stability is looked at, split at commas outside parentheses [default: all, with d = 2]
    #[arg(long)]
    policy: Option<String>,
    /// Scale all arrival rates to this offered load
    #[arg(long)]
    load: Option<f64>,
    /// Slack of every job type and loss of every server, not only of the bottleneck and the 100 worst; witnesses with
    /// their names
    #[arg(long)]
    all: bool,
    /// Names and rows shown of each long list; JSON always has all that was computed
    #[arg(long, value_name = "N", default_value_t = 5)]
    top: usize,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

/// Policies of the report without `--policy`: all that there are.
const ALL_POLICIES: &str = "jfsq,jsq,jfiq,jiq,nq,sed,central,jfsq(2),jsq(2),jsq(2,2),random,split";

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let policies = PolicySpec::parse_list(args.policy.as_deref().unwrap_or(ALL_POLICIES)).map_err(Failure::usage)?;
    let progress = Progress::new();
    progress.at("reading the fleet file");
    let loaded = fleet_file::load(&args.fleet)?;
    let fleet = match args.load {
        Some(load) => load::at_load(&loaded.fleet, load)?,
        None => loaded.fleet,
    };
    let report = Report::of(&fleet, &loaded.warnings, &policies, args.all, &progress);
    progress.bar.finish_and_clear();
    if args.json {
        say!("{}", serde_json::to_string_pretty(&report).map_err(Failure::run)?)?;
    } else {
        say!("{}", text::page(&report, args.top))?;
    }
    report.verdict()
}

/// What theory knows of a fleet, as a part of a page.
pub(crate) fn findings(fleet: &Fleet, warnings: &[Fault], policies: &[PolicySpec]) -> maud::Markup {
    let progress = Progress::new();
    let report = Report::of(fleet, warnings, policies, false, &progress);
    progress.bar.finish_and_clear();
    html::findings(&report)
}

/// Says on standard error what is being computed; a fleet of 100,000 servers takes a while.
struct Progress {
    bar: ProgressBar,
}

impl Progress {
    fn new() -> Self {
        let style = ProgressStyle::with_template("{spinner} {elapsed_precise} {msg}");
        let bar = ProgressBar::new_spinner().with_style(style.expect("the template names known fields"));
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { bar }
    }

    /// A step of the theory.
    fn step(&self, step: shortline_theory::stability::Progress) {
        let of = step.of.map_or(String::new(), |of| format!(" of {of}"));
        self.bar.set_message(format!("{}: {}{of}", step.doing, step.done));
    }

    /// What comes next.
    fn at(&self, what: &str) {
        self.bar.set_message(what.to_owned());
    }
}
