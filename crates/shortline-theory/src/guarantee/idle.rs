//! Theorem S1: idle fast servers are dominated by a birth-death chain.
//!
//! `X_m` = idle servers in `R_m`. Let `Z_m` live on `x_0..=n_m`, `x_0` the largest `x` with `delta_m(x) = 1`, and
//!
//! `P(Z_m = x + 1) / P(Z_m = x) = (g_m - M-_m(x)) / ((1 - delta_m(x + 1)) Lambda)`
//!
//! with `M-_m(x)` the sum of the `x` smallest rates of `R_m`. Then `X_m <= Z_m` stochastically, for every `m`.
//!
//! Why: the cut between `x` and `x + 1` is crossed upwards by completions of busy servers, at most `g_m - M-_m(x)`, and
//! downwards by arrivals that find one of `x + 1` idle servers, at least `(1 - delta_m(x + 1)) Lambda`: likelihood-ratio
//! order. Proof in the book, chapter "Guarantee". Logarithms throughout; `O(n_m)`.

use super::system::{FastSet, System};

/// The law of `Z_m`, as its mean excesses.
#[derive(Clone, Debug)]
pub(super) struct Idle {
    /// Entry `f` is `E(Z_m - f)^+`, `f = 0..=n_m`.
    excess: Vec<f64>,
    /// `n_m - E[Z_m]`.
    mean_busy: f64,
}

impl Idle {
    pub(super) fn new(system: &System, set: &FastSet) -> Self {
        let n = set.servers;
        let start = set.delta.iter().rposition(|&delta| delta >= 1.0).expect("the profile is 1 at 0");
        let mut weights = vec![f64::NEG_INFINITY; n + 1];
        weights[start] = 0.0;
        for x in start..n {
            // All but the `x` smallest rates of the set are its `n - x` largest.
            let up = system.largest[n - x];
            weights[x + 1] = weights[x] + (up / system.arrivals_per_s).ln() - (-set.delta[x + 1]).ln_1p();
        }
        let top = weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        weights.iter_mut().for_each(|w| *w = (*w - top).exp());
        let total: f64 = weights.iter().sum();
        let mean_busy = weights.iter().rev().enumerate().map(|(busy, w)| busy as f64 * w).sum::<f64>() / total;
        let mut excess = vec![0.0; n + 1];
        let mut above = 0.0;
        for f in (0..n).rev() {
            above += weights[f + 1] / total;
            excess[f] = excess[f + 1] + above;
        }
        Self { excess, mean_busy }
    }

    /// `E[Z_m] >= E[X_m]`.
    pub(super) fn mean(&self) -> f64 {
        self.excess[0]
    }

    /// `n_m - E[Z_m]`, at most the mean number of busy servers in `R_m`; without cancellation.
    pub(super) fn mean_busy(&self) -> f64 {
        self.mean_busy
    }

    /// `E(Z_m - f)^+ >= E(X_m - f)^+`.
    pub(super) fn excess(&self, f: usize) -> f64 {
        self.excess.get(f).copied().unwrap_or(0.0)
    }

    /// The smallest `f` with `E(Z_m - f)^+ <= limit`.
    pub(super) fn smallest_with_excess(&self, limit: f64) -> usize {
        self.excess.partition_point(|&excess| excess > limit)
    }
}
