//! Lower bounds on the mean response time, each with what it assumes and whether that is so.

use serde::Serialize;
use shortline_core::Fleet;
use shortline_theory::TheoryError;

use super::figures::{listed, short};
use super::guarantee::GuaranteeSection;
use crate::digits::without_noise;
use shortline_theory::bounds::{self, Bound, BoundKind, Validity};

/// One bound, at the arrival rates of the file: no job is lost.
#[derive(Debug, Serialize)]
pub(super) struct BoundRow {
    pub(super) kind: &'static str,
    /// Null if there is no such bound.
    pub(super) mean_response_s: Option<f64>,
    /// Null if there is no such bound.
    pub(super) mean_jobs: Option<f64>,
    /// Whether it holds for this fleet, for every policy.
    pub(super) valid: bool,
    /// Why it holds, or does not.
    pub(super) why: String,
    /// What it needs to hold.
    pub(super) assumes: &'static str,
}

/// All bounds, from the simplest on. In a fleet that is not stable there is no mean to bound.
pub(super) fn of(fleet: &Fleet, is_unstable: bool) -> Vec<BoundRow> {
    let rows = [
        BoundRow::of(BoundKind::Fluid, bounds::fluid(fleet)),
        BoundRow::of(BoundKind::Graph, bounds::graph(fleet)),
        BoundRow::of(BoundKind::Pooled, bounds::pooled(fleet)),
    ];
    rows.into_iter().map(|row| if is_unstable { row.without_a_mean() } else { row }).collect()
}

/// The largest valid one: *the* bound.
pub(super) fn largest(rows: &[BoundRow]) -> Option<&BoundRow> {
    let valid = rows.iter().filter(|row| row.valid);
    valid.max_by(|a, b| a.mean_response_s.unwrap_or(0.0).total_cmp(&b.mean_response_s.unwrap_or(0.0)))
}

impl BoundRow {
    fn of(kind: BoundKind, bound: Result<Bound, TheoryError>) -> Self {
        let (name, assumes) = (kind.name(), assumes(kind));
        match bound {
            Ok(bound) => Self {
                kind: name,
                mean_response_s: Some(bound.mean_response_s).filter(|mean| mean.is_finite()).map(without_noise),
                mean_jobs: Some(bound.mean_jobs).filter(|mean| mean.is_finite()).map(without_noise),
                valid: bound.is_valid(),
                why: why(bound.validity).to_owned(),
                assumes,
            },
            Err(error) => Self {
                kind: name,
                mean_response_s: None,
                mean_jobs: None,
                valid: false,
                why: error.to_string(),
                assumes,
            },
        }
    }

    /// Where jobs can be lost, but policies are known to lose next to none, the bound holds for these: it grows with the
    /// throughput, by a share of the order of what is lost. The pooled bound has no such form.
    pub(super) fn look_at(&mut self, guarantee: &GuaranteeSection) {
        if self.why != LOSSES {
            return;
        }
        if self.kind == BoundKind::Pooled.name() {
            self.why = "jobs can be lost, and this bound has no form for that".to_owned();
        } else if let Some((policies, lost)) = guarantee.losing_at_most(NEXT_TO_NONE) {
            self.valid = true;
            self.why = format!(
                "holds under {}, up to a relative error of the order of what they lose: at most {} of the jobs, by the \
                 guarantee",
                listed(&policies, policies.len()),
                short(lost)
            );
        }
    }

    /// The row for a fleet that is overloaded, in whole or in a part that this bound does not see.
    fn without_a_mean(self) -> Self {
        let why = if self.mean_jobs.is_some() { Validity::Overloaded.why().to_owned() } else { self.why };
        Self { mean_response_s: None, mean_jobs: None, valid: false, why, ..self }
    }
}

/// Jobs may be lost as if none were.
const NEXT_TO_NONE: f64 = 1e-6;

const LOSSES: &str = "jobs can be lost, and lost jobs need no server: it holds at the accepted throughput only, which \
                      `simulate` measures";

fn why(validity: Validity) -> &'static str {
    if validity == Validity::Losses { LOSSES } else { validity.why() }
}

fn assumes(kind: BoundKind) -> &'static str {
    match kind {
        BoundKind::Fluid => "no losses; any sizes of the file's means; servers pooled",
        BoundKind::Graph => "no losses; any sizes of the file's means",
        BoundKind::Pooled => "no losses; Poisson arrivals, exponential sizes; servers pooled",
    }
}
