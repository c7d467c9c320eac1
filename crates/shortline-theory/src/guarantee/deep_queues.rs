//! Theorem S4, for `jfsq`: deep queues are exponentially rare.
//!
//! `abar_j` = share of arrivals that find at least `j` jobs at every compatible server (full servers with fewer places
//! counted as such). Fix `m` with `g > Lambda`, an integer `e` with `g - M(e-1) > Lambda` and `theta` in
//! `(0, ln((g - M(e-1)) / Lambda))`; let `kappa = (g - M(e-1))(1 - exp(-theta)) - Lambda (exp(theta) - 1)`. Slopes start at
//! `s(e) = 1` and go on, while they do not grow, with
//!
//! `B_i = Lambda [(exp(theta s(i)) - 1) + delta(i)(exp(theta) - exp(theta s(i)))]`, `s(i+1) = -ln(1 - B_i / (g - M(i))) / theta`.
//!
//! For every stop `i'`, with `B = B_i'`, `Phi = s(e+1) + ... + s(i')`, `y` the longest wait `(b-1)/mu` in `R_m` and
//! `w1 = B y / (exp(-theta s(i')) - exp(-theta))`:
//!
//! `abar_j <= delta(e) + (B / kappa) exp(theta (w1 - Phi) - theta ((j - 1)(n - e + 1) + 1))`.
//!
//! Then `E[W] <= (Lambda / mu_M) (abar_1 + ... + abar_(b-1))` and `p_block <= abar_b`.
//!
//! Why: an exponential test function of the waiting jobs and the missing idle servers; if `n - e + 1` servers have `j` jobs,
//! `(j - 1)(n - e + 1)` jobs wait. Where buffers differ, `j` is replaced by the smallest buffer of `R_m` if that is less: full
//! servers hold at least so many. Proof in the book, chapter "Guarantee". Logarithms throughout.

use std::ops::RangeInclusive;

use super::search::spread;
use super::system::{FastSet, System};

/// Levels beyond this one are counted as this one: every `abar_j` bounds the later ones.
const DEEPEST: usize = 64;
/// Values of `theta`, as parts of its range.
const PARTS: [f64; 14] = [0.01, 0.03, 0.07, 0.12, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.88, 0.94, 0.98];
/// Larger `theta` would leave the range of numbers.
const WIDEST: f64 = 300.0;
/// Blocks of slopes double in length after about so many of them.
const STEPS_PER_DOUBLING: usize = 512;
/// Slopes below this make no difference.
const FLAT: f64 = 1e-250;

/// Bounds on the shares `abar_1 >= abar_2 >= ...`.
#[derive(Clone, Debug)]
pub(super) struct DeepQueues {
    /// Entry `j - 1` is `abar_j`, up to the largest buffer or [`DEEPEST`].
    pub(super) shares: Vec<f64>,
    /// The set and `e` that bound the last one best.
    pub(super) m: usize,
    pub(super) e: usize,
    /// Levels that the last entry stands for: the largest buffer less the entries, plus one.
    last_counts: f64,
}

impl DeepQueues {
    /// The best over `m`, `e` and `theta`; `of_all` bounds `a_M`, and so every `abar_j`.
    pub(super) fn new(system: &System, of_all: f64) -> Self {
        let levels = (system.largest_buffer as usize).min(DEEPEST);
        let last_counts = f64::from(system.largest_buffer) - levels as f64;
        let mut best = Self { shares: vec![of_all.min(1.0); levels], m: system.all().m, e: 0, last_counts };
        for set in system.sets[system.needed..].iter().filter(|set| set.capacity_per_s() > system.arrivals_per_s) {
            let last = set.left.partition_point(|&left| left > system.arrivals_per_s);
            for e in spread(1, last, system.effort.most_e) {
                best.improve(system, set, e);
            }
        }
        best
    }

    fn improve(&mut self, system: &System, set: &FastSet, e: usize) {
        let widest = (set.left[e - 1] / system.arrivals_per_s).ln().min(WIDEST);
        if set.delta[e] >= self.shares[0] {
            return;
        }
        for part in PARTS.iter().step_by(system.effort.theta_step) {
            let theta = part * widest;
            let log_r = log_r(system, set, e, theta, STEPS_PER_DOUBLING, |_, _| ());
            for j in 1..=self.shares.len() {
                let level = j.min(set.smallest_buffer as usize);
                let exponent = ((level - 1) as f64 * (set.servers - e + 1) as f64 + 1.0) * theta;
                let share = set.delta[e] + (log_r - exponent).exp();
                if share < self.shares[j - 1] {
                    self.shares[j - 1] = share;
                    if j == self.shares.len() {
                        (self.m, self.e) = (set.m, e);
                    }
                }
            }
        }
    }

    /// Bound on `E[W]`.
    pub(super) fn waiting(&self, system: &System) -> f64 {
        let (last, before) = self.shares.split_last().expect("a server has a place");
        let sum: f64 = before.iter().sum::<f64>() + last * self.last_counts;
        system.arrivals_per_s / system.all().slowest_per_s * sum
    }

    /// Bound on `p_block`.
    pub(super) fn blocking(&self) -> f64 {
        self.shares.last().copied().unwrap_or(1.0)
    }
}

/// `ln R`, the least over the stops; infinite if there is none.
///
/// A slope may be held over a block of servers as long as the recursion, with the block's first `delta` and least capacity,
/// would not raise it: larger slopes `s(i + 1)` drain more. Blocks grow with the distance from `e`, so that the number of steps
/// grows with the logarithm of the fleet.
///
/// `held` is told each block and its slope.
fn log_r(
    system: &System,
    set: &FastSet,
    e: usize,
    theta: f64,
    steps_per_doubling: usize,
    mut held: impl FnMut(RangeInclusive<usize>, f64),
) -> f64 {
    let arrivals = system.arrivals_per_s;
    let log_kappa = (set.left[e - 1] / arrivals * -(-theta).exp_m1() - theta.exp_m1()).ln();
    if log_kappa.is_nan() {
        return f64::INFINITY;
    }
    let mut best = f64::INFINITY;
    let (mut slope, mut phi) = (1.0_f64, 0.0);
    let mut i = e;
    while i <= set.servers {
        let block = 1 + (i - e) / steps_per_doubling;
        // B_i / Lambda, and the difference of exponentials without cancellation.
        let steep = (theta * (1.0 - slope)).exp_m1();
        let b = (theta * slope).exp_m1() + set.delta[i] * (theta * slope).exp() * steep;
        let wait =
            if set.longest_wait_s > 0.0 { arrivals * b * set.longest_wait_s / ((-theta).exp() * steep) } else { 0.0 };
        if wait.is_finite() {
            best = best.min(b.ln() - log_kappa + theta * (wait - phi));
        }
        let last = (i + block - 1).min(set.servers);
        let drained = b * arrivals / set.left[last];
        if drained >= 1.0 || drained.is_nan() || slope < FLAT {
            return best;
        }
        let next = -(-drained).ln_1p() / theta;
        if next > slope {
            return best;
        }
        held(i..=last, slope);
        phi += slope * (last - i) as f64 + next;
        slope = next;
        i = last + 1;
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guarantee::scope::{Class, Numbers};
    use crate::guarantee::search::Effort;

    #[test]
    fn slopes_held_over_blocks_satisfy_the_theorem_at_every_server() {
        let class = |rate_per_s, servers: usize| {
            let places = 3.0 * servers as f64;
            Class { rate_per_s, servers, smallest_buffer: 3, largest_buffer: 3, places }
        };
        let classes = vec![class(1.0, 500), class(0.5, 1_500)];
        let numbers = Numbers { arrivals_per_s: 1_000.0, without_server: 0.0, classes, busiest_per_s: 0.5 };
        let profile = |_: usize, i: usize| 1e-3 + (-0.01 * i as f64).exp();
        let system = System::new(&numbers, &profile, Effort::thorough(2_000));
        let set = system.all();
        let mut longest = 0;
        for (e, theta) in [1, 10, 100].into_iter().flat_map(|e| [0.01, 0.05, 0.1, 0.15].map(|theta| (e, theta))) {
            let mut slopes = Vec::new();
            log_r(&system, set, e, theta, 16, |block, slope| {
                longest = longest.max(block.clone().count());
                slopes.extend(block.map(|_| slope));
            });
            for (i, pair) in (e..).zip(slopes.windows(2)) {
                let (steep, flat) = ((theta * pair[0]).exp(), (theta * pair[1]).exp());
                let b = system.arrivals_per_s * ((steep - 1.0) + set.delta[i] * (theta.exp() - steep));
                let drained = set.left[i] * (1.0 - 1.0 / flat);
                assert!(b <= drained * (1.0 + 1e-9), "e {e} theta {theta} i {i}: {b} {drained}");
                assert!(pair[1] <= pair[0], "e {e} theta {theta} i {i}");
            }
        }
        assert!(longest > 5, "{longest}");
    }
}
