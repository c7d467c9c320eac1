//! What theory says to a run that is over: the bound on each policy's mean response time, the load where the simulator does
//! not know it, and whether a policy that was not seen to be unstable is.
//!
//! Just above the largest load factor jobs pile up so slowly that no run of reasonable length shows it: the test for
//! growth finds nothing, and the warm-up does not settle, or seems to. Theory knows the factor. What it says goes into
//! `why`; `unstable` stays what the run itself showed.

use std::cell::OnceCell;
use std::sync::Arc;

use shortline_core::fleet::settings::Overflow;
use shortline_core::policy::PolicySpec;
use shortline_core::{Fleet, JobTypeId};
use shortline_sim::{Bound, Estimate, PolicyReport};
use shortline_theory::TheoryError;
use shortline_theory::bounds::{self, GraphBound};
use shortline_theory::stability::{self, LoadFactorBounds, Stability};

use crate::digits::{exact, short, without_noise};
use crate::load::{self, Load};

/// What theory says to the policies of a run.
pub(super) struct Theory {
    /// The offered load, if it is known.
    pub(super) offered: Option<Load>,
    /// By policy: the bound, or why there is none.
    pub(super) bounds: Vec<Result<Bound, String>>,
    /// By policy: why it is unstable, where the run showed nothing and theory knows.
    pub(super) unstable: Vec<Option<String>>,
}

/// The fleet and its traffic.
pub(super) struct Traffic {
    /// At the rates that the offered load is of.
    pub(super) offered: Arc<Fleet>,
    /// At those of the long run: where rates are piecewise, their mean over a period.
    pub(super) mean: Arc<Fleet>,
    /// The jobs are recorded ones, and there is an end to them.
    pub(super) is_path: bool,
}

impl Theory {
    /// Of these policies, which were simulated with these results.
    pub(super) fn of(traffic: &Traffic, policies: &[PolicySpec], reports: &[PolicyReport]) -> Self {
        let fleet = &*traffic.mean;
        let graph = GraphBound::new(fleet).map_err(|error| error.to_string());
        let may_be_stable = fleet.settings().failures.is_none()
            && graph.as_ref().map_or(true, |graph| graph.without_losses().mean_response_s.is_finite());
        let known = OnceCell::new();
        // Where no job is lost for want of a server that is up, all servers together are up a share of the time only.
        let available = stability::under_failures(fleet);
        let judge = |(&policy, report): (&PolicySpec, &PolicyReport)| {
            // Where the run has means and the load can be carried there is nothing to explain.
            let is_open = !traffic.is_path && !report.unstable && (report.means.is_none() || !may_be_stable);
            (is_open && keeps_all_jobs(fleet, policy)).then(|| why_unstable(&available, policy, &known)).flatten()
        };
        let bound = |report: &PolicyReport| {
            let graph = graph.as_ref().map_err(Clone::clone);
            if traffic.is_path { bound_of_path(fleet, report) } else { bound(fleet, graph, report) }
        };
        Self {
            offered: Load::of(&traffic.offered).ok(),
            bounds: reports.iter().map(bound).collect(),
            unstable: policies.iter().zip(reports).map(judge).collect(),
        }
    }
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
    let measured = means.throughput_per_s.ok_or("no throughput was measured")?;
    let is_impossible = |share: Option<Estimate>| share.is_some_and(|share| share.ci95[1] <= 0.0);
    let keeps_all = is_impossible(means.blocking_probability) && is_impossible(means.reneged_probability);
    // Where no job can be lost, all that arrive are served, and chance is no part of it.
    let arrivals = || fleet.job_types().filter_map(|l| fleet.arrival_rate(l)).sum();
    let throughput = if keeps_all { arrivals() } else { measured.mean };
    let bound = graph.at(throughput).map_err(|error| error.to_string())?;
    if bound.is_valid() { Ok(named(bound)) } else { Err(bound.validity.why().to_owned()) }
}

/// The graph bound of one path: over it, no job is at a server for less than its service takes, and the sizes are what the
/// fleet says. If some jobs were not served, the sizes of the others are not known here.
fn bound_of_path(fleet: &Fleet, policy: &PolicyReport) -> Result<Bound, String> {
    let Some(means) = &policy.means else { return Err("there are no means to compare".into()) };
    let some = |estimate: Option<Estimate>| estimate.is_some_and(|estimate| estimate.mean > 0.0);
    if policy.unfinished > 0 || some(means.blocking_probability) || some(means.reneged_probability) {
        return Err("not every job of the trace was served; the bound knows the mean size of all, not of those".into());
    }
    let throughput = means.throughput_per_s.ok_or("no throughput was measured")?;
    // All types are served, each at its share of the jobs, over the time from the first arrival to the last departure.
    let rate = |l: JobTypeId| fleet.arrival_rate(l).unwrap_or(0.0);
    let factor = throughput.mean / fleet.job_types().map(rate).sum::<f64>();
    let rates = fleet.job_types().map(|l| rate(l) * factor).collect();
    let served = fleet.with_traffic(rates, fleet.job_types().map(|l| fleet.size(l)).collect());
    let served = served.map_err(|error| error.to_string())?;
    let bound =
        GraphBound::new(&served).and_then(|graph| graph.at(throughput.mean)).map_err(|error| error.to_string())?;
    let (kind, mean_response_s) = (bound.kind.name().to_owned(), without_noise(bound.mean_response_s));
    if bound.is_valid() { Ok(Bound { kind, mean_response_s }) } else { Err(bound.validity.why().to_owned()) }
}

/// Whether jobs that cannot be served pile up: none is refused and none gives up.
fn keeps_all_jobs(fleet: &Fleet, policy: PolicySpec) -> bool {
    let is_orphan = |l: JobTypeId| fleet.arrival_rate(l) > Some(0.0) && fleet.graph().degree(l.index()) == 0;
    let lines = &fleet.settings().lines;
    let has_lines = policy == PolicySpec::Central || fleet.settings().overflow == Overflow::Wait;
    let keeps = if has_lines {
        lines.size.is_none() && lines.timeout_s.is_none()
    } else {
        fleet.settings().failures.is_none() && fleet.servers().all(|r| fleet.buffer(r).is_none())
    };
    keeps && !fleet.job_types().any(is_orphan)
}

/// The largest load factor, as far as it can be computed.
enum Known {
    Exactly(Box<Stability>),
    Between(Box<LoadFactorBounds>),
    Nothing,
}

impl Known {
    fn of(fleet: &Fleet) -> Self {
        match stability::analyse(fleet) {
            Ok(found) => Self::Exactly(Box::new(found)),
            Err(TheoryError::TooLarge { .. }) => {
                load::bounds(fleet).map_or(Self::Nothing, |bounds| Self::Between(Box::new(bounds)))
            }
            Err(_) => Self::Nothing,
        }
    }
}

/// Why the policy is unstable, if theory knows that it is.
fn why_unstable(fleet: &Fleet, policy: PolicySpec, known: &OnceCell<Known>) -> Option<String> {
    const UNSEEN: &str = "jobs pile up, too slowly for this run to show it";
    match known.get_or_init(|| Known::of(fleet)) {
        Known::Exactly(found) if !found.is_stable() => Some(format!("{}: {UNSEEN}", no_policy(found.max_load_factor))),
        Known::Between(bounds) if bounds.is_stable() == Some(false) => {
            Some(format!("{}: {UNSEEN}", no_policy(bounds.at_most)))
        }
        // What is known of single policies is known of unbounded servers, without lines in front.
        Known::Exactly(found)
            if fleet.servers().all(|r| fleet.buffer(r).is_none()) && policy != PolicySpec::Central =>
        {
            let found = found.of_policies(fleet, &[policy], &mut |_| ()).pop()?;
            (found.stable == Some(false)).then(|| format!("the policy is unstable ({}): {UNSEEN}", found.why))
        }
        _ => None,
    }
}

/// That no policy is stable, `max_load_factor` being 1 at most.
fn no_policy(max_load_factor: f64) -> String {
    let more = 100.0 * (1.0 / max_load_factor - 1.0);
    let arrives = if more > 1e-10 {
        format!("{} % more work arrives than the fleet can do", short(more))
    } else {
        "as much work arrives as the fleet can do".to_owned()
    };
    let factor = exact(without_noise(max_load_factor));
    format!("{arrives} (largest load factor {factor}), so that no policy is stable")
}
