//! `shortline reproduce`: the papers' experiments, from the points to the verdict.
//!
//! | file | question |
//! |---|---|
//! | `experiment.rs` | what is an experiment, and which are there? |
//! | `optimality_in_n.rs`, ... | one experiment each: points, tables, figures, verdicts |
//! | `papers.rs`, `measure.rs`, `occupancy.rs` | the papers' fleets; one policy simulated on one of them: times, levels |
//! | `run.rs`, `ledger.rs` | the points on several threads, each kept as soon as it is done |
//! | `number.rs`, `judge.rs`, `verdict.rs` | numbers with intervals, and what they say about a claim |
//! | `by_policy.rs` | figures and tables of policies side by side |
//! | `table.rs`, [`figure`], `page.rs` | CSV, SVG and markdown |

mod beyond;
mod buffers;
mod by_policy;
mod collapse;
mod connectivity;
mod experiment;
mod guarantee;
mod homogeneous;
mod judge;
mod ledger;
#[cfg(test)]
mod made_data;
mod measure;
mod number;
mod occupancy;
mod optimality_in_load;
mod optimality_in_n;
mod order_only;
mod page;
mod papers;
mod proportional_sparsity;
mod regimes;
mod run;
mod table;
mod verdict;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use crate::failure::Failure;
use crate::figure;
use crate::outputs::write;
use crate::simulate::on_interrupt;
use crate::terminal::say;
use experiment::{ALL, Experiment, Findings, Scale};
use ledger::Settings;
use run::{How, Outcome};
use verdict::Answer;

/// The seed without `--seed`.
const DEFAULT_SEED: u64 = 1;

/// The papers' experiments: tables, figures, verdicts
///
/// Without a name, lists the experiments. Each writes into its own folder of --out: a page (README.md), its tables (CSV)
/// and figures (SVG), and a verdict computed from the data: the claim holds, does not hold, or the intervals cannot tell.
/// Points that are done are kept (points.jsonl): the same command goes on where it was interrupted, or killed.
///
/// Exit status: 0 done, 1 a claim does not hold or the run did not come to its end, 2 wrong usage.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  shortline reproduce
  shortline reproduce optimality-in-n --quick
  shortline reproduce all --out results")]
pub(crate) struct Args {
    /// An experiment of the list, or all
    name: Option<String>,
    /// Fewer points and wider intervals: seconds instead of minutes
    #[arg(long)]
    quick: bool,
    /// Folder for the results, one folder per experiment in it [default: reproduced]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Seed; the same seed gives the same results, on any number of threads [default: 1]
    #[arg(long)]
    seed: Option<u64>,
    /// Threads, 1 to 1024 [default: all cores]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Print the list or the verdicts as JSON
    #[arg(long)]
    json: bool,
}

/// Folder for the results without `--out`.
const DEFAULT_OUT: &str = "reproduced";

impl Args {
    /// An option that is of no use without a name.
    fn of_a_run(&self) -> Option<&'static str> {
        let given = [
            (self.quick, "--quick"),
            (self.out.is_some(), "--out"),
            (self.seed.is_some(), "--seed"),
            (self.threads.is_some(), "--threads"),
        ];
        given.into_iter().find(|&(is_given, _)| is_given).map(|(_, option)| option)
    }

    fn seed(&self) -> u64 {
        self.seed.unwrap_or(DEFAULT_SEED)
    }
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let Some(name) = &args.name else {
        return match args.of_a_run() {
            None => list(args.json),
            Some(option) => Err(Failure::usage(format!(
                "{option} is for running an experiment, and none is named: type `shortline reproduce {0}` or another name, with the \
                 same options; there are {1}, and all",
                ALL[0].about().name,
                names()
            ))),
        };
    };
    let chosen = chosen(name)?;
    let stop = Arc::new(AtomicBool::new(false));
    let interrupt = on_interrupt(stop.clone())?;
    let outcome = chosen.iter().map(|experiment| reproduce(*experiment, args, &stop)).collect::<Result<Vec<_>, _>>();
    interrupt.shutdown_background();
    let answers = outcome?;
    if args.json {
        print_json(&answers)?;
    }
    let failed: Vec<&str> =
        answers.iter().filter(|done| done.findings.answer() == Answer::DoesNotHold).map(|done| done.name).collect();
    if failed.is_empty() {
        Ok(())
    } else {
        Err(Failure::run(format!("a claim does not hold: {}; its page says which", failed.join(", "))))
    }
}

/// The experiments of that name.
fn chosen(name: &str) -> Result<Vec<&'static dyn Experiment>, Failure> {
    if name == "all" {
        return Ok(ALL.to_vec());
    }
    match ALL.iter().find(|experiment| experiment.about().name == name) {
        Some(experiment) => Ok(vec![*experiment]),
        None => Err(Failure::usage(format!("there is no experiment `{name}`; there are {}, and all", names()))),
    }
}

fn names() -> String {
    ALL.iter().map(|experiment| experiment.about().name).collect::<Vec<_>>().join(", ")
}

fn list(json: bool) -> Result<(), Failure> {
    let abouts = ALL.iter().map(|experiment| experiment.about());
    if json {
        let entries: Vec<_> = abouts
            .map(|a| json!({"name": a.name, "claim": a.claim, "quick_s": a.quick_s, "full_s": 60 * a.full_min}))
            .collect();
        say!("{}", serde_json::to_string_pretty(&entries).map_err(Failure::run)?)?;
        return Ok(());
    }
    for about in abouts {
        say!("{} (about {} min of one core, --quick {} s)", about.name, about.full_min, about.quick_s)?;
        say!("    {}", about.claim)?;
    }
    say!("\n[W] Weng, Zhou, Srikant (2020); [R] Rutten, Mukherjee (2020). `shortline reproduce all` runs them all.")?;
    Ok(())
}

/// An experiment that came to its end.
struct Done {
    name: &'static str,
    page: PathBuf,
    findings: Findings,
}

/// Runs one experiment and writes its results.
fn reproduce(experiment: &dyn Experiment, args: &Args, stop: &AtomicBool) -> Result<Done, Failure> {
    let about = experiment.about();
    let scale = if args.quick { Scale::Quick } else { Scale::Full };
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from(DEFAULT_OUT));
    let folder = out.join(about.name);
    std::fs::create_dir_all(&folder)
        .map_err(|error| Failure::run(format!("cannot create `{}`: {error}", folder.display())))?;
    let settings = Settings {
        experiment: about.name.to_owned(),
        version: about.version,
        scale: scale.name().to_owned(),
        seed: args.seed(),
    };
    let (mut ledger, found) = ledger::open(&folder, settings)?;
    let bar = progress_bar(about.name);
    let threads = args.threads.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from);
    let how = How { seed: args.seed(), threads, stop, bar: &bar };
    let outcome = run::run(&experiment.points(scale), found, &mut ledger, &how);
    bar.finish_and_clear();
    match outcome? {
        Outcome::Stopped { done, of } => Err(Failure::run(format!(
            "{}: stopped after {done} of {of} points; the same command goes on from there",
            about.name
        ))),
        Outcome::Complete(data) => {
            let findings = experiment.findings(scale, &data);
            findings.write(&folder)?;
            let page = folder.join("README.md");
            write(&page, &page::page(experiment, scale, args.seed(), &data, &findings))?;
            let done = Done { name: about.name, page, findings };
            if !args.json {
                print(&done)?;
            }
            Ok(done)
        }
    }
}

fn progress_bar(name: &str) -> ProgressBar {
    let style = "{elapsed_precise} {msg} {wide_bar} {percent} %, ready in {eta}";
    let style = ProgressStyle::with_template(style).expect("the template names known fields");
    let bar = ProgressBar::no_length().with_style(style).with_message(name.to_owned());
    bar.enable_steady_tick(std::time::Duration::from_millis(200));
    bar
}

fn print(done: &Done) -> Result<(), Failure> {
    say!("{}: {} ({})", done.name, done.findings.answer(), done.page.display())?;
    for verdict in &done.findings.verdicts {
        say!("  {}: {}", verdict.judgement.answer, verdict.claim)?;
    }
    Ok(())
}

fn print_json(all: &[Done]) -> Result<(), Failure> {
    let entries: Vec<_> = all
        .iter()
        .map(|done| {
            let (answer, verdicts) = (done.findings.answer(), &done.findings.verdicts);
            json!({"name": done.name, "answer": answer, "page": done.page, "verdicts": verdicts})
        })
        .collect();
    say!("{}", serde_json::to_string_pretty(&entries).map_err(Failure::run)?)?;
    Ok(())
}
