//! The pooled bound: all servers as one, always the fastest of them busy.
//!
//! With `j` jobs present any policy's departure rate is at most `D(j)`, the sum of the `min(j, N)` largest rates, and
//! `D` does not decrease; so the number of jobs stochastically dominates the birth-death chain with birth rate `Lambda`
//! and death rates `D(j)`, and `E[jobs]` is at least that chain's mean. It tightens the fluid bound at finite `N`, and
//! for equal rates it is the M/M/N queue (Erlang C).
//!
//! Needs Poisson arrivals, exponential sizes and no losses; finite when `Lambda < D(N)`. In a fleet that is not uniform
//! each server counts with its best rate over the job types it holds. A server with `c` slots is `c` servers.
//!
//! **Computation.** Backwards from `j = N`, where the chain is geometric: `q_j = P(i = j | i >= j)` and
//! `x_j = E[i - j | i >= j]` follow from those of `j + 1` with `a = Lambda / D(j + 1)` by
//! `1 - q_j = a / (q_(j+1) + a)`, `x_j = (1 - q_j) (1 + x_(j+1))`. All terms are positive and bounded: no overflow, no
//! cancellation, `O(slots)`; a million servers at load 0.9999 lose no digits.

use shortline_core::Fleet;
use shortline_core::fleet::settings::{Arrivals, SizeLaw};

use super::{Bound, BoundKind, Validity, validity_of_means};
use crate::TheoryError;
use crate::reduced::Reduced;

/// The pooled bound; valid only without losses, for Poisson arrivals and exponential sizes.
///
/// # Errors
/// If rates are missing or all 0, or no server holds a job type.
pub fn pooled(fleet: &Fleet) -> Result<Bound, TheoryError> {
    let reduced = Reduced::new(fleet)?;
    let arrivals = reduced.arrivals();
    let validity = match validity_of_means(fleet) {
        Validity::Holds if fleet.settings().arrivals != Arrivals::Poisson => Validity::Arrivals,
        Validity::Holds if fleet.settings().service.law != SizeLaw::Exponential => Validity::Sizes,
        other => other,
    };
    let mean_jobs = mean_of_chain(arrivals, &reduced.slots_fastest_first());
    Ok(Bound::new(BoundKind::Pooled, arrivals, mean_jobs, validity))
}

/// Mean of the birth-death chain with slots `(rate, how many)`, fastest first; infinite if it is not stable.
fn mean_of_chain(arrivals: f64, classes: &[(f64, f64)]) -> f64 {
    // Sum of the rates of the classes before each class, and of all.
    let mut before = Vec::with_capacity(classes.len());
    let mut all = 0.0;
    for &(rate, slots) in classes {
        before.push(all);
        all += rate * slots;
    }
    if arrivals >= all {
        return f64::INFINITY;
    }
    // At j = N and beyond, the ratio of neighbours is Lambda / D(N).
    let mut alone = (all - arrivals) / all;
    let mut excess = arrivals / (all - arrivals);
    for (&(rate, slots), &faster) in classes.iter().zip(&before).rev() {
        let mut busy = slots;
        while busy > 0.0 {
            let ratio = arrivals / (faster + busy * rate);
            let more = ratio / (alone + ratio);
            excess = more * (1.0 + excess);
            alone /= alone + ratio;
            busy -= 1.0;
        }
    }
    excess
}
