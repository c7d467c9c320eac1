//! Theorem S5, for `jfsq`: waiting jobs without the factor `b - 1`.
//!
//! All servers (`m = M`), equal buffers `b`. `nu` = arrival rate at the busiest server if jobs chose by some stochastic kernel
//! on the edges (evenly, here). Fix `e` with `eta = g - Lambda - Mt(e-1) > 0`, and `zeta >= 0` with slopes
//! `1 = s(1) = ... = s(e) >= s(e+1) >= ... >= s(n) >= 0`, `s(n+1) = 0` such that
//!
//! `Lambda (s(i) + delta(i)(1 - s(i))) - (g - Mt(i)) s(i+1) <= zeta` for `e <= i <= n`.
//!
//! With `C = [((b-1) n + e) E_F + (Lambda + g) / 2] / eta`, if `mu_M > nu zeta / eta`:
//!
//! * `E[W] <= [Lambda a_M + Lambda delta(e) (b-2)^+ + nu C] / (mu_M - nu zeta / eta)`,
//! * `p_block <= delta(e) + nu w1 / (Lambda (b-1))`, `w1 = (zeta / eta) E[W] + C`, if `b >= 2`.
//!
//! Why: the drift of the square of waiting jobs plus missing idle servers bounds `E[W; X < e]`; the drift of the sum of
//! `Q (Q - 1) / 2` bounds `E[W]` by what joining jobs find, which under `jfsq` is no more than the kernel's mean. Proof in
//! the book, chapter "Guarantee".

use super::idle::Idle;
use super::idle_rates::IdleRates;
use super::search::{smallest, spread};
use super::system::System;

/// The bounds of Theorem S5 at their best `e`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Waiting {
    /// Bound on `E[W]`, infinite if there is none.
    pub(super) mean: f64,
    /// Bound on `p_block`, and its `e`.
    pub(super) blocking: f64,
    pub(super) e: usize,
}

impl Waiting {
    /// The best over `e` and the choice of idle rates, each quantity for itself. `of_all` bounds `a_M`, `known` bounds `E[W]`.
    pub(super) fn new(system: &System, idle: &[Idle], of_all: f64, known: f64) -> Self {
        let mut best = Self { mean: f64::INFINITY, blocking: 1.0, e: 0 };
        if !system.has_equal_buffers() || system.largest_buffer < 2 || system.is_overloaded {
            return best;
        }
        let t = system.sets.len() - 1;
        for rates in IdleRates::choices(system, idle, t) {
            let ratios = rates.ratios(system.all(), system.arrivals_per_s);
            let last = ratios.partition_point(|&ratio| ratio < 1.0);
            for e in spread(1, last, system.effort.most_e) {
                let Some(found) = at(system, &rates, &ratios, e, of_all, known) else { continue };
                best.mean = best.mean.min(found.mean);
                if found.blocking < best.blocking {
                    (best.blocking, best.e) = (found.blocking, e);
                }
            }
        }
        best
    }
}

/// Everything over `Lambda`: `eta`, `zeta` and capacities are numbers without unit here.
fn at(system: &System, rates: &IdleRates, ratios: &[f64], e: usize, of_all: f64, known: f64) -> Option<Waiting> {
    let set = system.all();
    let arrivals = system.arrivals_per_s;
    let b = f64::from(system.largest_buffer);
    let eta = 1.0 / ratios[e - 1] - 1.0;
    let delta = set.delta[e];
    let excess = rates.excess_per_s / arrivals;
    let spread = (1.0 + set.capacity_per_s() / arrivals) / 2.0;
    let c = ((set.waiting_places + e as f64) * excess + spread) / eta;
    let nu = system.busiest_per_s;
    let least = (arrivals * of_all + arrivals * delta * (b - 2.0).max(0.0) + nu * c) / set.slowest_per_s;
    if least >= known && delta + nu * c / (arrivals * (b - 1.0)) >= of_all {
        return None;
    }
    // A larger zeta would neither leave anything of mu_M nor bound blocking better than it is known.
    let of_use = (arrivals * (b - 1.0) * (of_all - delta) / nu - c) / known;
    let most = (eta * (set.slowest_per_s / nu).max(of_use)).min(1.0);
    let (zeta, ()) = smallest(system.effort, most, |zeta| trial(&set.delta, ratios, e, zeta))?;
    let rest = set.slowest_per_s - nu * zeta / eta;
    let own = if rest > 0.0 { least * set.slowest_per_s / rest } else { f64::INFINITY };
    let first = zeta / eta * own.min(known) + c;
    Some(Waiting { mean: own, blocking: delta + nu * first / (arrivals * (b - 1.0)), e })
}

/// Whether slopes exist for `zeta` (over `Lambda`).
fn trial(delta: &[f64], ratios: &[f64], e: usize, zeta: f64) -> Option<()> {
    let mut slope: f64 = 1.0;
    for i in e..delta.len() {
        let excess = slope + delta[i] * (1.0 - slope) - zeta;
        if excess > 0.0 {
            let next = excess * ratios[i];
            if next > slope {
                return None;
            }
            slope = next;
        } else if delta[i] <= zeta {
            return Some(());
        } else {
            slope = 0.0;
        }
    }
    Some(())
}
