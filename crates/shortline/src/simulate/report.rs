//! `--report`: all of it on one page that stands alone.
//!
//! | file | question |
//! |---|---|
//! | `picture.rs` | what is the fleet? |
//! | [`check`] | what does theory know of it? |
//! | `policies.rs` | what did a simulation find? |
//! | `curves.rs` | what did a sweep find? |
//! | `bars.rs`, [`figure`](crate::figure), `numbers.rs`, [`page`] | how is it drawn and written? |
//!
//! The page says nothing of the machine or the time it took, so that the same command makes the same page everywhere. Its
//! size does not grow with the fleet: what is long is cut, and the page says so.

mod bars;
mod curves;
mod numbers;
mod picture;
mod policies;

use std::path::Path;
use std::sync::Arc;

use maud::{Markup, html};
use shortline_core::Fleet;
use shortline_core::fleet::Parts;
use shortline_core::graph::Row;
use shortline_core::policy::PolicySpec;

use super::long_run::Simulated;
use super::recorded::Recorded;
use super::{Args, sweep, tables};
use crate::failure::Failure;
use crate::{check, outputs, page};
use numbers::{counted, grouped};

/// The points of a sweep are shown one by one as long as the page stays below this.
const MOST_BYTES: usize = 1_500_000;

/// Theory looks at a fleet of more listed edges for a minute or more.
const MOST_EDGES: u64 = 200_000;

/// Job types in the table of the only simulation, and of each point of a sweep.
const JOB_TYPES_LISTED: [usize; 2] = [100, 20];

/// What was asked for, and what came of it.
pub(super) struct Asked<'a> {
    pub(super) args: &'a Args,
    pub(super) file: &'a Parts,
    pub(super) policies: &'a [PolicySpec],
    /// The trace, if the jobs are recorded ones.
    pub(super) recorded: Option<&'a Recorded>,
    /// Points of the sweep, those not reached included.
    pub(super) points: usize,
}

/// Writes the page.
pub(super) fn write(path: &Path, asked: &Asked<'_>, done: &[Simulated]) -> Result<(), Failure> {
    let fleet = match asked.recorded {
        Some(recorded) => recorded.fleet_at(asked.args.load)?,
        None => Arc::new(sweep::fleet_of(asked.file.fleet.clone(), asked.args.load)?),
    };
    let text = page::document(&format!("{}: simulation", fleet.name()), &body(asked, &fleet, done)?);
    outputs::write(path, &text)
}

fn body(asked: &Asked<'_>, fleet: &Fleet, done: &[Simulated]) -> Result<Markup, Failure> {
    let is_sweep = asked.args.sweep.is_some();
    let found = if is_sweep {
        html! { h2 { "Sweep" } (curves::section(done)?) (one_by_one(done)?) }
    } else {
        policies::sections(&done[0].report, JOB_TYPES_LISTED[0])?
    };
    Ok(html! {
        h1 { (fleet.name()) }
        p.quiet {
            (counted(fleet.server_count() as u64, "server")) ", " (counted(fleet.job_type_count() as u64, "job type")) ", "
            (counted(fleet.graph().edge_count(), "edge"))
            @if !is_sweep { @if let Some(load) = done[0].report.offered_load { ", offered load " (page::number(load, &tables::load(load))) } }
        }
        @if let Some(recorded) = asked.recorded { p { (recorded.described(asked.args)) } }
        (provenance(asked, done))
        h2 { "The fleet" }
        @if asked.recorded.is_some() { p.quiet { "Arrival rates are those of the trace" @if is_sweep { ", as recorded" } "." } }
        @else if is_sweep { p.quiet { "As in the fleet file; the sweep changes it." } }
        (picture::of(fleet))
        (found)
        h2 { "What theory knows of the fleet" }
        @if asked.recorded.is_some() {
            p.quiet {
                "At the mean rates and sizes of the trace"
                @if is_sweep { ", as recorded" }
                ". That the load can be carried in the long run says nothing of a single burst."
            }
        }
        @else if is_sweep { p.quiet { "At the arrival rates of the fleet file" @if asked.args.load.is_some() { ", scaled to --load" } "." } }
        @if listed_edges(fleet) <= MOST_EDGES {
            (check::findings(fleet, &asked.file.warnings, asked.policies))
        } @else {
            p { "Not looked at here: the graph is large, and this would take longer than the page is worth. " code { "shortline check" } " says it." }
        }
    })
}

/// Edges that are listed one by one: equal rows of the graph count once, rows of all servers not at all.
fn listed_edges(fleet: &Fleet) -> u64 {
    let graph = fleet.graph();
    let mut seen = vec![false; graph.distinct_row_count()];
    let is_new = |l: &usize| !std::mem::replace(&mut seen[graph.row_number(*l)], true);
    let listed = (0..fleet.job_type_count()).filter(is_new).filter(|&l| !matches!(graph.row(l), Row::All));
    listed.map(|l| graph.degree(l) as u64).sum()
}

/// The command, and what the figures depend on.
fn provenance(asked: &Asked<'_>, done: &[Simulated]) -> Markup {
    let args = asked.args;
    let until = match args.events {
        _ if asked.recorded.is_some() => {
            "once, from an empty fleet at the first arrival until the last job has left; intervals are by batch means"
                .to_owned()
        }
        Some(events) => format!("{} events per policy after the warm-up", grouped(events)),
        None => format!(
            "until the 95 % interval of each mean response time is at most {} % to either side",
            numbers::plain(100.0 * args.relative_error)
        ),
    };
    html! {
        (page::facts(&[
            ("Command", html! { pre { (command()) } }),
            ("Seed", html! { (args.seed) }),
            ("Version", html! { "shortline " (env!("CARGO_PKG_VERSION")) }),
            ("Length", html! { (until) }),
            ("Units", html! { "seconds; a ± is half of a 95 % confidence interval" }),
        ]))
        @if done.len() < asked.points { p.warn { "Stopped after " (done.len()) " of " (asked.points) " points." } }
    }
}

/// The single points of a sweep, folded, as long as there is room.
fn one_by_one(done: &[Simulated]) -> Result<Markup, Failure> {
    let mut shown: Vec<Markup> = Vec::new();
    let mut bytes = 0;
    for simulated in done {
        let sections = policies::sections(&simulated.report, JOB_TYPES_LISTED[1])?;
        bytes += sections.0.len();
        if bytes > MOST_BYTES {
            break;
        }
        shown.push(html! { details { summary { (curves::title(simulated)) } (sections) } });
    }
    let left = done.len() - shown.len();
    Ok(html! {
        h2 { "Single points" }
        @for point in &shown { (point) }
        @if left > 0 { p { "And " (left) " more, which would make the page too long; " code { "--json" } " has them." } }
    })
}

/// The command line as one types it.
fn command() -> String {
    let arguments = std::env::args_os().skip(1).map(|argument| quoted(&argument.to_string_lossy()));
    ["shortline".to_owned()].into_iter().chain(arguments).collect::<Vec<_>>().join(" ")
}

/// An argument as a shell reads it.
fn quoted(argument: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:+@%".contains(c);
    if !argument.is_empty() && argument.chars().all(is_plain) {
        return argument.to_owned();
    }
    format!("'{}'", argument.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use shortline_core::fleet::{Source, read};

    use super::{MOST_EDGES, listed_edges, quoted};

    #[test]
    fn a_complete_graph_is_small_however_many_edges_it_has() {
        let fleet = |graph: &str| {
            let text = format!(
                "[[server_type]]\nname = \"t\"\nrate = 1.0\n[[server]]\nname = \"s\"\ncount = 30000\ntype = \"t\"\n\
                 [[job_type]]\nname = \"j\"\ncount = 30000\nrate = 0.5\n[graph]\n{graph}\n"
            );
            read(&Source { name: "fleet.toml", text: &text }, &|_| Err(std::io::ErrorKind::NotFound.into()))
                .unwrap()
                .fleet
        };
        assert_eq!(listed_edges(&fleet("kind = \"complete\"")), 0);
        let sparse = fleet("kind = \"port-degree\"\ndegree = 8\nseed = 1");
        assert!(listed_edges(&sparse) > MOST_EDGES && listed_edges(&sparse) <= 240_000);
    }

    #[test]
    fn arguments_are_quoted_where_a_shell_would_read_more_into_them() {
        assert_eq!(
            ["--sweep", "load=0.5..0.9:0.1", "jsq(2)", "it's", ""].map(quoted),
            ["--sweep", "load=0.5..0.9:0.1", "'jsq(2)'", r"'it'\''s'", "''"]
        );
    }
}
