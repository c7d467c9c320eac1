//! The long run: the policies of every point of a sweep (or of the one fleet) against the bound, until they are certain.
//!
//! A point is reported as soon as it is done, to the CSV file at least; what is printed comes at the end.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use shortline_core::Fleet;
use shortline_core::fleet::Parts;
use shortline_core::fleet::settings::Overflow;
use shortline_core::policy::PolicySpec;
use shortline_sim::{Bound, Observer, PolicyReport, Report, Until};
use shortline_theory::bounds::{self, GraphBound};
use shortline_theory::stability;

use super::kept::Kept;
use super::mean_field::{self, AtRest, Predicted};
use super::report::{self, Asked};
use super::sweep::{self, Point};
use super::watch::Watch;
use super::{Args, ServiceInstead, asked, refused, tables};
use crate::digits::without_noise;
use crate::failure::Failure;
use crate::split;

/// Events per policy at which a run that does not converge gives up.
const MOST_EVENTS: u64 = 2_000_000_000;

/// The report of one point of a sweep, or of the only one.
pub(super) struct Simulated {
    pub(super) point: Option<Point>,
    /// The load that was asked for.
    pub(super) load: Option<f64>,
    pub(super) report: Report,
    /// With `--mean-field`, one per policy.
    pub(super) mean_field: Option<Vec<Predicted<AtRest>>>,
}

impl Simulated {
    /// Reads what [`json`] wrote.
    pub(super) fn from_json(point: Option<Point>, load: Option<f64>, json: &Value) -> Result<Self, Failure> {
        let unread = |error: serde_json::Error| Failure::run(format!("a kept point cannot be read: {error}"));
        let predicted = json["policies"].as_array().into_iter().flatten().filter_map(|policy| policy.get("mean_field"));
        let predicted: Vec<Predicted<AtRest>> =
            predicted.map(Predicted::deserialize).collect::<Result<_, _>>().map_err(unread)?;
        let mean_field = (!predicted.is_empty()).then_some(predicted);
        Ok(Self { point, load, report: Report::deserialize(json).map_err(unread)?, mean_field })
    }

    fn has_converged(&self) -> bool {
        self.report.policies.iter().all(|policy| policy.converged)
    }
}

/// Runs every point and prints the reports.
pub(super) fn run(args: &Args, file: &Parts, policies: &[PolicySpec], watch: &Watch) -> Result<(), Failure> {
    let points = args.sweep.as_ref().map_or(vec![None], |sweep| sweep.points.iter().copied().map(Some).collect());
    let mut kept = Kept::open(args, file, policies)?;
    let mut done = Vec::new();
    for &point in &points {
        let load = point.and_then(Point::load).or(args.load);
        let simulated = match kept.found(point, load)? {
            Some(found) => found,
            None => {
                let simulated = simulate_point(args, file, policies, point, watch)?;
                if !watch.is_stopped() || simulated.has_converged() {
                    kept.add(point, || json(args, &simulated))?;
                }
                simulated
            }
        };
        kept.write_rows(&simulated)?;
        done.push(simulated);
        if watch.is_stopped() {
            break;
        }
    }
    watch.bar.finish_and_clear();
    warn(args, file, policies, &done, points.len(), watch);
    if let Some(path) = &args.report {
        report::write(path, &Asked { args, file, policies, points: points.len() }, &done)?;
    }
    print(args, policies, &done)?;
    let all = done.len() == points.len() && done.iter().all(Simulated::has_converged);
    if args.strict && !all {
        return Err(Failure::run("a policy is unstable or has not converged, and --strict was asked for"));
    }
    Ok(())
}

/// The fleet at a point of the sweep, or the only one, simulated.
fn simulate_point(
    args: &Args,
    file: &Parts,
    policies: &[PolicySpec],
    point: Option<Point>,
    watch: &Watch,
) -> Result<Simulated, Failure> {
    let fleet = match point {
        None => sweep::fleet_of(file.fleet.clone(), args.load)?,
        Some(point) => point.fleet(file, args.load)?,
    };
    let fleet = split::with_shares(Arc::new(fleet), policies)?;
    let report = simulate(args, &fleet, policies, watch)?;
    let mean_field = args.mean_field.then(|| mean_field::at_rest(&fleet, policies));
    Ok(Simulated { point, load: point.and_then(Point::load).or(args.load), report, mean_field })
}

fn simulate(args: &Args, fleet: &Arc<Fleet>, policies: &[PolicySpec], watch: &Watch) -> Result<Report, Failure> {
    let until = match args.events {
        Some(events) => Until::Events(events),
        None => Until::RelativeError { error: args.relative_error, most_events: MOST_EVENTS },
    };
    watch.begin(policies.len().max(1));
    let mut report = asked(args, fleet, policies).until(until).run_observed(watch).map_err(refused)?;
    report.offered_load = report.offered_load.or_else(|| stability::offered_load(fleet).ok()).map(without_noise);
    let graph = GraphBound::new(fleet);
    for policy in &mut report.policies {
        let bound = bound(fleet, graph.as_ref().map_err(ToString::to_string), policy);
        policy.compare_with(bound);
    }
    Ok(report)
}

/// The largest valid bound; where jobs are lost, the graph bound at the throughput that was measured.
fn bound(fleet: &Fleet, graph: Result<&GraphBound, String>, policy: &PolicyReport) -> Result<Bound, String> {
    let Some(means) = &policy.means else { return Err("there are no means to compare".into()) };
    let named = |bound: bounds::Bound| Bound {
        kind: bound.kind.name().to_owned(),
        mean_response_s: without_noise(bound.mean_response_s),
    };
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
        Self {
            load: simulated.load,
            degree: simulated.point.and_then(Point::degree),
            service: args.service.map(|ServiceInstead::Exponential| "exponential"),
            report: &simulated.report,
        }
    }
}

/// The report as JSON, with what the mean field says.
fn json(args: &Args, simulated: &Simulated) -> Result<Value, Failure> {
    let mut shown = serde_json::to_value(Shown::new(args, simulated)).map_err(Failure::run)?;
    mean_field::insert(&mut shown, "policies", simulated.mean_field.as_deref().unwrap_or_default())?;
    Ok(shown)
}

/// The reports as JSON, with what the mean field says.
fn with_mean_field(args: &Args, done: &[Simulated]) -> Result<Value, Failure> {
    let json = |simulated: &Simulated| json(args, simulated);
    if args.sweep.is_none() { json(&done[0]) } else { done.iter().map(json).collect() }
}

/// Says on standard error what is to be known before the figures are believed.
#[expect(clippy::print_stderr, reason = "the command line talks to its user")]
fn warn(args: &Args, file: &Parts, policies: &[PolicySpec], done: &[Simulated], points: usize, watch: &Watch) {
    let remedy = match (watch.is_stopped(), args.time, args.events) {
        (true, Some(_), _) => "; raise --time",
        (true, None, _) => "",
        (false, _, Some(_)) => "; raise --events",
        (false, _, None) => "",
    };
    for Simulated { point, report, .. } in done {
        let at = point.map_or(String::new(), |point| format!(" at {}", point.title()));
        for policy in report.policies.iter().filter(|policy| !policy.converged && !policy.unstable) {
            match (&policy.means, &policy.why) {
                (None, Some(why)) => eprintln!("warning: `{}` has no means{at}: {why}{remedy}", policy.policy),
                _ => eprintln!("warning: `{}` has not converged{at}{remedy}", policy.policy),
            }
        }
    }
    if done.len() < points {
        eprintln!("warning: stopped after {} of {points} points", done.len());
    }
    for policy in policies.iter().filter(|policy| may_lock(file, **policy)) {
        eprintln!(
            "note: `{policy}` with overflow = \"wait\" begins a line before all servers are busy, and no job of the line goes \
             to a server that is idle: chance may make it unstable later than this run could show"
        );
    }
}

/// Whether the policy may send a job into an unbounded line while a server that could serve it is idle.
fn may_lock(file: &Parts, policy: PolicySpec) -> bool {
    let draws = matches!(
        policy,
        PolicySpec::Random
            | PolicySpec::Split
            | PolicySpec::JsqD(_)
            | PolicySpec::JfsqD(_)
            | PolicySpec::JsqFastOther { .. }
    );
    let settings = &file.fleet.settings;
    let lines =
        settings.overflow == Overflow::Wait && settings.lines.size.is_none() && settings.lines.timeout_s.is_none();
    draws && lines && file.fleet.servers.iter().any(|server| server.buffer.is_some())
}

#[expect(clippy::print_stdout, reason = "the command line talks to its user")]
fn print(args: &Args, policies: &[PolicySpec], done: &[Simulated]) -> Result<(), Failure> {
    if args.json {
        let json = match &args.sweep {
            _ if args.mean_field => serde_json::to_string_pretty(&with_mean_field(args, done)?),
            None => serde_json::to_string_pretty(&Shown::new(args, &done[0])),
            Some(_) => {
                let shown: Vec<Shown<'_>> = done.iter().map(|simulated| Shown::new(args, simulated)).collect();
                serde_json::to_string_pretty(&shown)
            }
        };
        println!("{}", json.map_err(Failure::run)?);
        return Ok(());
    }
    for Simulated { point, report, mean_field, .. } in done {
        let load = report.offered_load.map_or("unknown".to_owned(), tables::load);
        let point = point.map_or(String::new(), |point| format!(" (sweep: {})", point.title()));
        println!(
            "{}{point}: {} servers, {} job types, {} edges, offered load {load}",
            report.fleet, report.servers, report.job_types, report.edges
        );
        println!("{}", tables::table(report, mean_field.as_deref()));
        if let Some(predicted) = mean_field {
            print!("{}", mean_field::notes(policies, predicted));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::without_noise;

    #[test]
    fn the_noise_of_sums_is_not_printed() {
        assert_eq!(without_noise(0.1 + 0.2).to_string(), "0.3");
        assert_eq!(without_noise(1.0 / 3.0).to_string(), "0.3333333333333");
        assert_eq!(without_noise(2e-9).to_string(), "0.000000002");
    }
}
