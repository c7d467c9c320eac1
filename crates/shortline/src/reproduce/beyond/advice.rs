//! Which policy when, computed from the data.
//!
//! The *regret* of a policy is its mean response time over that of the best of the eight, in the same case at the same load. A
//! policy is *as good* as the best where the interval of its ratio to it reaches 1. For several cases at once the advice is the
//! policy whose largest regret is the smallest (minimax regret, L. J. Savage, 1951); one without means has an infinite one. The
//! best is chosen by the data that judge it, so that among equals chance decides: look at those that are as good.

use shortline_core::policy::PolicySpec;

use super::super::number::Number;
use super::compared::{POLICIES, Point};

/// The best of a point, and those as good as it.
pub(super) fn best(point: Point<'_>) -> Option<(PolicySpec, Vec<PolicySpec>)> {
    let mean = |policy: &PolicySpec| point.over_bound(*policy).map(|ratio| ratio.mean);
    let best = POLICIES.into_iter().filter(|policy| mean(policy).is_some()).min_by(|a, b| {
        let of = |policy| mean(policy).unwrap_or(f64::INFINITY);
        of(a).total_cmp(&of(b))
    })?;
    let is_as_good =
        |policy: &PolicySpec| *policy != best && point.ratio(*policy, best).is_some_and(|ratio| ratio.low <= 1.0);
    Some((best, POLICIES.into_iter().filter(is_as_good).collect()))
}

/// The regret of a policy at a point; `None` without means.
pub(super) fn regret(point: Point<'_>, policy: PolicySpec) -> Option<Number> {
    point.ratio(policy, best(point)?.0)
}

/// A policy for several points.
pub(super) struct Choice<'a> {
    pub(super) policy: PolicySpec,
    /// Its largest regret, and at which point that is.
    pub(super) regret: Number,
    pub(super) worst: &'a str,
    /// Largest ends of the intervals of its regrets.
    range: [f64; 2],
}

/// The policy with the smallest largest regret, and those as good: with a largest regret that may be as small, as far as the
/// intervals tell. `None` if every policy lacks means somewhere.
pub(super) fn choice<'a>(points: &[Point<'a>]) -> Option<(Choice<'a>, Vec<PolicySpec>)> {
    let worst = |policy: PolicySpec| {
        let regrets = points.iter().map(|&point| Some((regret(point, policy)?, point.key)));
        let regrets: Vec<(Number, &str)> = regrets.collect::<Option<_>>()?;
        let largest = |end: fn(&Number) -> f64| regrets.iter().map(|(regret, _)| end(regret)).fold(0.0, f64::max);
        let range = [largest(|regret| regret.low), largest(|regret| regret.high)];
        let &(regret, worst) = regrets.iter().max_by(|a, b| a.0.mean.total_cmp(&b.0.mean))?;
        Some(Choice { policy, regret, worst, range })
    };
    let mut choices: Vec<Choice<'a>> = POLICIES.into_iter().filter_map(worst).collect();
    let first = (0..choices.len()).min_by(|&a, &b| choices[a].regret.mean.total_cmp(&choices[b].regret.mean))?;
    let first = choices.remove(first);
    let is_as_good = |other: &&Choice<'_>| other.range[0] <= first.range[1];
    let as_good = choices.iter().filter(is_as_good).map(|other| other.policy).collect();
    Some((first, as_good))
}
