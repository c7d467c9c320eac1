//! Fact F: the rate of idle servers, aware that the fast ones are hardly ever idle.
//!
//! The theorems need the total rate `c` of the idle servers of `R_m`, of which there are `i`. Always `c <= M(i)`. And
//! `c = mu_m i + F` with `F = sum over j < m of (mu_j - mu_(j+1)) X_j` (summation by parts), where `X_j` is small most of
//! the time. So for any `f_j >= 0`, with `f = sum of (mu_j - mu_(j+1)) f_j`:
//!
//! `c <= Mt(i) + (F - f)^+`, `Mt(i) = min(M(i), mu_m i + f)`, `E(F - f)^+ <= E_F = sum of (mu_j - mu_(j+1)) E(Z_j - f_j)^+`.
//!
//! Every choice of the `f_j` is valid; `f = infinity`, `E_F = 0` gives back `M(i)`. A handful of choices is tried. With
//! the classes `p + 1..m` not tabulated, `X_j <= X_m = i` for them: `mu_m i` becomes `mu_(p+1) i`.

use super::idle::Idle;
use super::system::{FastSet, System};

/// `E_F` is made about this part of the set's capacity, or a smaller one.
const QUALITY: [f64; 6] = [1e-4, 1e-5, 1e-6, 1e-8, 1e-10, 1e-13];

/// One choice of the `f_j`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct IdleRates {
    /// `mu_m`, or `mu_(p+1)`.
    each_per_s: f64,
    /// `f`.
    offset_per_s: f64,
    /// `E_F`.
    pub(super) excess_per_s: f64,
}

impl IdleRates {
    /// `M(i)` itself.
    const PLAIN: Self = Self { each_per_s: 0.0, offset_per_s: f64::INFINITY, excess_per_s: 0.0 };

    /// The choices worth trying for the set `sets[t]`; `idle` has the laws of the sets before it.
    pub(super) fn choices(system: &System, idle: &[Idle], t: usize) -> Vec<Self> {
        let set = &system.sets[t];
        let mut choices = vec![Self::PLAIN];
        for quality in QUALITY.iter().step_by(system.effort.quality_step).filter(|_| t > 0) {
            let mut choice = Self { each_per_s: set.next_after_previous_per_s, offset_per_s: 0.0, excess_per_s: 0.0 };
            for (s, idle) in idle[..t].iter().enumerate() {
                let weight = system.fall(s);
                let f = idle.smallest_with_excess(quality * set.capacity_per_s() / (weight * t as f64));
                choice.offset_per_s += weight * f as f64;
                choice.excess_per_s += weight * idle.excess(f);
            }
            if !choices.contains(&choice) {
                choices.push(choice);
            }
        }
        choices
    }

    /// `g_m - Mt(i)`.
    pub(super) fn left(&self, set: &FastSet, i: usize) -> f64 {
        set.left[i].max(set.capacity_per_s() - (self.each_per_s * i as f64 + self.offset_per_s))
    }

    /// `Lambda / (g_m - Mt(i))` for `i = 0..=n_m`; infinite where nothing is left, so for `i = n_m`: all are idle.
    pub(super) fn ratios(&self, set: &FastSet, arrivals_per_s: f64) -> Vec<f64> {
        let ratio = |i| arrivals_per_s / self.left(set, i).max(0.0);
        (0..set.servers).map(ratio).chain([f64::INFINITY]).collect()
    }
}
