//! The eight policies side by side on the same jobs, in one case at one load.
//!
//! | number | meaning |
//! |---|---|
//! | `P over bound` | mean response time over the graph bound, which holds for any sizes and arrivals |
//! | `P over Q` | ratio of the mean response times, its interval from the pairs of replications, which met the same jobs |
//! | `P unstable` | 1 where jobs pile up without end |
//!
//! No job is lost, so that the bound is that of all that arrives.

use shortline_core::policy::{Choices, PolicySpec};
use shortline_theory::bounds::GraphBound;

use super::super::experiment::Context;
use super::super::judge::at_most;
use super::super::measure::{Precision, simulation};
use super::super::number::{Data, Found, Number};
use super::super::verdict::{Answer, Judgement};
use super::cases::Case;
use crate::failure::Failure;
use crate::split;

/// The shorter of two sampled queues.
pub(super) const JSQ2: PolicySpec = PolicySpec::JsqD(Choices::Number(2));

/// Longest warm-up, as a multiple of the events that may be counted.
pub(super) const WARM_UP: u64 = 16;

/// All that are compared.
pub(super) const POLICIES: [PolicySpec; 8] = [
    PolicySpec::Jfsq,
    PolicySpec::Jfiq,
    PolicySpec::Sed,
    PolicySpec::Nq,
    PolicySpec::Central,
    PolicySpec::Jsq,
    JSQ2,
    PolicySpec::Split,
];

/// Name of the ratio to the bound.
pub(super) fn over_bound(policy: PolicySpec) -> String {
    format!("{policy} over bound")
}

/// Name of the ratio of two policies.
pub(super) fn pair(a: PolicySpec, b: PolicySpec) -> String {
    format!("{a} over {b}")
}

fn unstable(policy: PolicySpec) -> String {
    format!("{policy} unstable")
}

/// Simulates them.
pub(super) fn compared(
    case: Case,
    servers: u32,
    load: f64,
    (precision, replications): (Precision, usize),
    context: &Context<'_>,
) -> Result<Found, Failure> {
    let fleet = split::with_shares(case.fleet(servers, load, context.seed)?, &POLICIES)?;
    let bound_s = GraphBound::new(&fleet).map_err(Failure::run)?.without_losses().mean_response_s;
    // Each replication has a warm-up of its own: few of them where a rough answer will do. A policy that does not settle (its
    // queues wander, or grow too slowly to be seen to) is given up.
    let blank = simulation(&fleet, precision, context)
        .calendar(true)
        .replications(replications)
        .most_warm_up_events(WARM_UP * precision.most_events);
    let simulation = POLICIES.into_iter().fold(blank, |simulation, policy| simulation.policy(policy));
    let report = simulation.run_observed(context).map_err(Failure::run)?;
    let (mut found, mut wide, mut notes) = (Found::default(), Vec::new(), Vec::new());
    for (policy, of) in POLICIES.into_iter().zip(&report.policies) {
        if of.unstable {
            found.set(&unstable(policy), Some(Number::exact(1.0)));
        }
        match &of.means {
            Some(means) => {
                let response_s = means.mean_response_s.map(Number::from);
                found.set(&over_bound(policy), response_s.map(|response_s| response_s.scaled(1.0 / bound_s)));
                if !of.converged {
                    wide.push(policy.to_string());
                }
            }
            None => notes.push(format!("{policy} has no means: {}", of.why.as_deref().unwrap_or("not said why"))),
        }
    }
    let name_of = |name: &str| POLICIES.into_iter().find(|policy| policy.to_string() == name);
    for difference in &report.differences {
        let (Some(a), Some(b)) = (name_of(&difference.a), name_of(&difference.b)) else { continue };
        let ratio = difference.mean_response_ratio.map(Number::from);
        found.set(&pair(a, b), ratio);
        found.set(&pair(b, a), ratio.filter(|ratio| ratio.low > 0.0).map(inverse));
    }
    if !wide.is_empty() {
        notes.push(format!("stopped before the interval was as narrow as asked for: {}", wide.join(", ")));
    }
    found.note = (!notes.is_empty()).then(|| notes.join("; "));
    Ok(found)
}

fn inverse(ratio: Number) -> Number {
    Number { mean: 1.0 / ratio.mean, low: 1.0 / ratio.high, high: 1.0 / ratio.low }
}

/// What a point says of two policies.
#[derive(Clone, Copy)]
pub(super) struct Point<'a> {
    pub(super) data: &'a Data,
    pub(super) key: &'a str,
}

impl Point<'_> {
    /// Mean response time over the bound.
    pub(super) fn over_bound(self, policy: PolicySpec) -> Option<Number> {
        self.data.number(self.key, &over_bound(policy))
    }

    /// Mean response time of `a` over that of `b`: 1 to itself, 0 to one that is unstable.
    pub(super) fn ratio(self, a: PolicySpec, b: PolicySpec) -> Option<Number> {
        if a == b {
            return Some(Number::exact(1.0));
        }
        if self.is_unstable(b) && !self.is_unstable(a) {
            return self.over_bound(a).map(|_| Number::exact(0.0));
        }
        self.data.number(self.key, &pair(a, b))
    }

    /// Whether jobs pile up without end.
    pub(super) fn is_unstable(self, policy: PolicySpec) -> bool {
        self.data.number(self.key, &unstable(policy)).is_some()
    }

    /// The response time of `a` is at most `limit` times that of `b`.
    pub(super) fn at_most(self, a: PolicySpec, b: PolicySpec, limit: f64) -> Judgement {
        if self.is_unstable(a) && self.over_bound(b).is_some() {
            return Judgement::new(Answer::DoesNotHold, format!("{a} is unstable and {b} is not"));
        }
        at_most(self.ratio(a, b), limit)
    }
}
