//! The long run: the policies of every point of a sweep (or of the one fleet) against the bound, until they are certain.
//!
//! A point is reported as soon as it is done, to the CSV file at least; what is printed comes at the end.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use shortline_core::Fleet;
use shortline_core::fleet::Parts;
use shortline_core::fleet::settings::{Overflow, SizeLaw};
use shortline_core::policy::PolicySpec;
use shortline_sim::{Observer, PolicyReport, Report, Until};

use super::kept::Kept;
use super::mean_field::{self, AtRest, Predicted};
use super::recorded::{Jobs, Recorded};
use super::report::{self, Asked};
use super::sweep::{self, Point};
use super::theory::{Theory, Traffic};
use super::watch::Watch;
use super::{Args, ServiceInstead, asked, refused, tables};
use crate::digits::{counted, without_noise};
use crate::failure::Failure;
use crate::load::Load;
use crate::split;
use crate::terminal::{self, aside, say};

/// Events per policy at which a run that does not converge gives up.
const MOST_EVENTS: u64 = 2_000_000_000;

/// The report of one point of a sweep, or of the only one.
pub(super) struct Simulated {
    pub(super) point: Option<Point>,
    /// The load that was asked for.
    pub(super) load: Option<f64>,
    pub(super) report: Report,
    /// Where theory knows it no better than that.
    pub(super) offered_between: Option<[f64; 2]>,
    /// By policy: known to be unstable by theory, not by the run.
    unstable_by_theory: Vec<bool>,
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
        let report = Report::deserialize(json).map_err(unread)?;
        let offered_between =
            json.get("offered_load_between").map(Deserialize::deserialize).transpose().map_err(unread)?;
        let named: Option<Vec<String>> =
            json.get("unstable_by_theory").map(Deserialize::deserialize).transpose().map_err(unread)?;
        let is_named = |policy: &PolicyReport| named.as_ref().is_some_and(|named| named.contains(&policy.policy));
        let unstable_by_theory = report.policies.iter().map(is_named).collect();
        Ok(Self { point, load, offered_between, unstable_by_theory, mean_field, report })
    }

    fn has_converged(&self) -> bool {
        self.report.policies.iter().all(|policy| policy.converged)
    }
}

/// Runs every point and prints the reports.
pub(super) fn run(args: &Args, file: &Arc<Parts>, policies: &[PolicySpec], watch: &Watch) -> Result<(), Failure> {
    let points = args.sweep.as_ref().map_or(vec![None], |sweep| sweep.points.iter().copied().map(Some).collect());
    let recorded = args.trace.as_deref().map(|path| Recorded::read(args, path, &file.fleet)).transpose()?;
    let mut kept = Kept::open(args, file, recorded.as_ref(), policies)?;
    let mut done = Vec::new();
    for &point in &points {
        let load = point.and_then(Point::load).or(args.load);
        let simulated = match kept.found(point, load)? {
            Some(found) => found,
            None => {
                let jobs = recorded.as_ref().map(|recorded| recorded.at(point, args.load)).transpose()?;
                let Some(fleet) = set_up(args, file, recorded.as_ref(), policies, point, watch) else { break };
                let simulated = simulate(args, &fleet?, jobs.as_ref(), policies, point, watch)?;
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
    if done.is_empty() {
        return Err(watch.nothing_simulated());
    }
    watch.bar.finish_and_clear();
    warn(args, file, policies, &done, points.len(), watch);
    if let Some(path) = &args.report {
        let recorded = recorded.as_ref();
        report::write(path, &Asked { args, file, policies, recorded, points: points.len() }, &done)?;
    }
    print(args, policies, &done)?;
    let all = done.len() == points.len() && done.iter().all(Simulated::has_converged);
    if args.strict && !all {
        return Err(Failure::run("a policy is unstable or has not converged, and --strict was asked for"));
    }
    Ok(())
}

/// The fleet of a point; `None` if the run was stopped before it was ready.
fn set_up(
    args: &Args,
    file: &Arc<Parts>,
    recorded: Option<&Recorded>,
    policies: &[PolicySpec],
    point: Option<Point>,
    watch: &Watch,
) -> Option<Result<Arc<Fleet>, Failure>> {
    let (file, policies, load) = (Arc::clone(file), policies.to_vec(), args.load);
    let under_jobs = recorded.map(|recorded| Arc::clone(&recorded.fleet));
    watch.unless_stopped("setting up the fleet", move || {
        let fleet = match (under_jobs, point) {
            (Some(fleet), _) => return split::with_shares(fleet, &policies),
            (None, None) => sweep::fleet_of(file.fleet.clone(), load)?,
            (None, Some(point)) => point.fleet(&file, load)?,
        };
        split::with_shares(Arc::new(fleet), &policies)
    })
}

/// The run at a point, and what theory says to it.
fn simulate(
    args: &Args,
    fleet: &Arc<Fleet>,
    jobs: Option<&Jobs>,
    policies: &[PolicySpec],
    point: Option<Point>,
    watch: &Watch,
) -> Result<Simulated, Failure> {
    let until = match args.events {
        Some(events) => Until::Events(events),
        None => Until::RelativeError { error: args.relative_error, most_events: MOST_EVENTS },
    };
    watch.begin(policies.len());
    let simulation = asked(args, fleet, policies).until(until);
    let simulation = match jobs {
        Some(jobs) => simulation.trace(Arc::clone(&jobs.jobs)).load_factor(jobs.load_factor),
        None => simulation,
    };
    let mut report = simulation.run_observed(watch).map_err(refused)?;
    let offered = at_rates(fleet, jobs.map_or(1.0, |jobs| jobs.load_factor))?;
    let traffic = Traffic {
        mean: at_rates(&offered, fleet.settings().arrivals.mean_factor())?,
        offered,
        is_path: jobs.is_some(),
    };
    let (offered, unstable_by_theory) = compare(&mut report, traffic, policies, watch);
    report.offered_load = match offered {
        Some(Load::Exact(load)) => report.offered_load.or(Some(load)).map(without_noise),
        _ => report.offered_load.map(without_noise),
    };
    Ok(Simulated {
        point,
        load: point.and_then(Point::load).or(args.load),
        offered_between: match offered {
            Some(Load::Between(low, high)) => Some([low, high].map(without_noise)),
            _ => None,
        },
        unstable_by_theory,
        mean_field: args.mean_field.then(|| mean_field(fleet, policies, watch)),
        report,
    })
}

/// The fleet with its arrival rates multiplied.
pub(super) fn at_rates(fleet: &Arc<Fleet>, factor: f64) -> Result<Arc<Fleet>, Failure> {
    if (factor - 1.0).abs() < 1e-15 {
        return Ok(Arc::clone(fleet));
    }
    let rates = fleet.job_types().map(|l| fleet.arrival_rate(l).map_or(0.0, |rate| rate * factor)).collect();
    let sizes = fleet.job_types().map(|l| fleet.size(l)).collect();
    fleet.with_traffic(rates, sizes).map(Arc::new).map_err(Failure::usage)
}

/// Puts what theory says into the report. Returns the offered load, and which policies theory alone knows to be unstable.
fn compare(report: &mut Report, traffic: Traffic, policies: &[PolicySpec], watch: &Watch) -> (Option<Load>, Vec<bool>) {
    let (asked, reports) = (policies.to_vec(), report.policies.clone());
    let theory = watch.unless_stopped("computing the bound", move || Theory::of(&traffic, &asked, &reports));
    let Some(theory) = theory else {
        let policies = report.policies.iter_mut();
        policies.for_each(|policy| policy.compare_with(Err("the run was stopped before its bound was known".into())));
        return (None, vec![false; report.policies.len()]);
    };
    for (policy, bound) in report.policies.iter_mut().zip(theory.bounds) {
        policy.compare_with(bound);
    }
    let unstable = theory.unstable.iter().map(Option::is_some).collect();
    for (i, why) in theory.unstable.into_iter().enumerate() {
        if let Some(why) = why {
            report.withdraw(i, why);
        }
    }
    (theory.offered, unstable)
}

fn mean_field(fleet: &Arc<Fleet>, policies: &[PolicySpec], watch: &Watch) -> Vec<Predicted<AtRest>> {
    let (of, asked) = (Arc::clone(fleet), policies.to_vec());
    let found = watch.unless_stopped("computing the mean field", move || mean_field::at_rest(&of, &asked));
    found.unwrap_or_else(|| policies.iter().map(|_| Predicted::stopped()).collect())
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
    /// Where `offered_load` is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    offered_load_between: Option<[f64; 2]>,
    /// Policies that theory, not the run, knows to be unstable.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unstable_by_theory: Vec<&'a str>,
    #[serde(flatten)]
    report: &'a Report,
}

impl<'a> Shown<'a> {
    fn new(args: &Args, simulated: &'a Simulated) -> Self {
        Self {
            load: simulated.load,
            degree: simulated.point.and_then(Point::degree),
            service: args.service.map(|ServiceInstead::Exponential| "exponential"),
            offered_load_between: simulated.offered_between,
            unstable_by_theory: {
                let policies = simulated.report.policies.iter().zip(&simulated.unstable_by_theory);
                policies.filter(|&(_, &unstable)| unstable).map(|(policy, _)| policy.policy.as_str()).collect()
            },
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
fn warn(args: &Args, file: &Parts, policies: &[PolicySpec], done: &[Simulated], points: usize, watch: &Watch) {
    if args.trace.is_some() {
        let to_the_end = if watch.is_stopped() { "; it was stopped before that" } else { "" };
        aside!(
            "note: the trace is simulated once, from an empty fleet until its last job has left{to_the_end}; intervals treat parts of \
             it like independent runs; each policy is over a bound of its own, that of the throughput it had: compare policies by \
             their means"
        );
        for Simulated { point, report, .. } in done {
            if let Some(load) = report.offered_load.filter(|&load| load >= 1.0) {
                let at = point.map_or(String::new(), |point| format!(" at {}", point.title()));
                aside!(
                    "note: the trace brings more work than the servers can do while it lasts{at} (offered load {}): jobs pile up to its \
                     end, and the longer it is, the longer the times",
                    tables::load(load)
                );
            }
        }
    }
    if args.trace.is_none()
        && let SizeLaw::Pareto { shape } = file.fleet.settings.service.law
        && shape <= 3.0
    {
        let (whose, means) = match shape <= 2.0 {
            true => ("sizes", "may not exist"),
            false => ("waits behind a queue", "are underestimated"),
        };
        aside!(
            "note: {whose} have an infinite variance (pareto, shape {shape}): intervals are narrower than they should be, and means \
             behind a queue {means}; compare percentiles"
        );
    }
    let remedy = match (watch.is_stopped(), args.time, args.events) {
        (true, Some(_), _) => "; raise --time",
        (true, None, _) => "",
        (false, _, Some(_)) => "; raise --events",
        (false, _, None) => "",
    };
    // The same for all policies and points, mostly.
    let mut notes = BTreeSet::new();
    for Simulated { point, report, unstable_by_theory, .. } in done {
        let at = point.map_or(String::new(), |point| format!(" at {}", point.title()));
        for (policy, &is_known) in report.policies.iter().zip(unstable_by_theory) {
            if policy.converged || policy.unstable {
                if let (Some(why), Some(means)) = (&policy.why, &policy.means)
                    && means.mean_response_s.is_some_and(|mean| !mean.has_interval())
                {
                    notes.insert(why);
                }
                continue;
            }
            // No length of the run is a remedy there.
            let remedy = if is_known { "" } else { remedy };
            match (&policy.means, &policy.why) {
                _ if policy.unfinished > 0 => aside!(
                    "warning: under `{}` {} of the trace did not leave{at}, and never will: servers stay down, or none holds the \
                     job type",
                    policy.policy,
                    counted(policy.unfinished as usize, "job")
                ),
                (None, Some(why)) => aside!("warning: `{}` has no means{at}: {why}{remedy}", policy.policy),
                (Some(_), Some(why)) if args.trace.is_some() => {
                    aside!("warning: `{}` has not come to the end of the trace{at}: {why}{remedy}", policy.policy);
                }
                _ => aside!("warning: `{}` has not converged{at}{remedy}", policy.policy),
            }
        }
    }
    notes.iter().for_each(|note| aside!("note: {note}"));
    if done.len() < points {
        aside!("warning: stopped after {} of {points} points", done.len());
    }
    for policy in policies.iter().filter(|policy| may_lock(file, **policy)) {
        aside!(
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
        say!("{}", json.map_err(Failure::run)?)?;
        return Ok(());
    }
    for Simulated { point, report, mean_field, offered_between, .. } in done {
        let load = match (report.offered_load, offered_between) {
            (Some(load), _) => tables::load(load),
            (None, Some([low, high])) => format!("{} to {}", tables::load(*low), tables::load(*high)),
            (None, None) => "unknown".to_owned(),
        };
        let point = point.map_or(String::new(), |point| format!(" (sweep: {})", point.title()));
        say!(
            "{}{point}: {}, {}, {}, offered load {load}",
            report.fleet,
            counted(report.servers, "server"),
            counted(report.job_types, "job type"),
            counted(report.edges as usize, "edge")
        )?;
        say!("{}", tables::table(report, mean_field.as_deref()))?;
        if let Some(predicted) = mean_field {
            terminal::write(format_args!("{}", mean_field::notes(policies, predicted)))?;
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
