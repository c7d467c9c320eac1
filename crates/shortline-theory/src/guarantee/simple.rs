//! The theorem in its simple form: everything in closed form, for given `m` and `e`. The sharp forms are checked against it.
//!
//! For `m` with `g = g_m > Lambda` and an integer `e >= 1` with `eta = g - Lambda - M(e-1) > 0` let `s` be the product of
//! `Lambda / (g - M(i))` over `i = e, e+1, ...` while `g - M(i) > Lambda`, and `x = Lambda (delta(e) + s) / eta`. Then
//!
//! 1. `P(X_m < e) <= x / (1 + x)`, and at most `chi = delta(e) + (1 - delta(e)) x / (1 + x)` of the arrivals are not sent at
//!    once to an idle server of `R_m`; the blocked ones are among them;
//! 2. waiting jobs in `R_m` and jobs at slower servers are at most `Lambda chi max((b-1)/mu in R_m, b/mu at slower ones)`;
//! 3. for every `e >= 0`, with `d = delta(e+1)`, `G = mu_m e + (1-d) Lambda - g`:
//!    `E[X_m] <= min(n_m, e + (-G + sqrt(G^2 + 2 mu_m (Lambda + g))) / (2 mu_m))`, for any `m`;
//! 4. with `m = K` in 2: `E[jobs] <= L* + sum over m < K of ((mu_m - mu_(m+1)) / mu_K) E[X_m] + (2)`, and
//!    `T <= E[jobs] / (Lambda (1 - chi))`; a larger class in the place of `K` gives a bound too (with its `L_k`, see `jobs.rs`).
//!
//! Source: the idea is that of W. Weng, X. Zhou, R. Srikant (2020), Theorem 1; constants and proof in the book, chapter
//! "Guarantee".

use super::search::spread;
use super::system::{FastSet, System};

/// Allowance for the rounding of a sum, relative to its largest terms.
const ROUNDING: f64 = 16.0 * f64::EPSILON;

/// Parts 1 and 2 for one `m` and `e`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SimpleBound {
    /// Speed classes in `R_m`.
    pub m: usize,
    /// Idle servers.
    pub e: usize,
    /// Bound on the probability that fewer than `e` servers of `R_m` are idle.
    pub few_idle: f64,
    /// Bound on the share of arrivals that are not sent at once to an idle server of `R_m`.
    pub chi: f64,
    /// Bound on the mean number of jobs that wait in `R_m` or are at slower servers.
    pub extra_jobs: f64,
}

/// Parts 1 and 2 for all `e` of a set: `O(n)` once, then `O(1)` each.
#[derive(Debug)]
pub(super) struct SimpleSet<'a> {
    set: &'a FastSet,
    arrivals_per_s: f64,
    /// Most time that a job not sent to an idle server of the set adds.
    longest_s: f64,
    /// Entry `i` is the sum of `ln(Lambda / (g - M(j)))` over `j < i`, as far as `g - M(j) > Lambda`.
    log_product: Vec<f64>,
}

impl<'a> SimpleSet<'a> {
    pub(super) fn new(system: &'a System, set: &'a FastSet) -> Self {
        let arrivals = system.arrivals_per_s;
        let mut log_product = vec![0.0];
        let mut sum = 0.0;
        for left in set.left.iter().take_while(|&&left| left > arrivals) {
            sum += (arrivals / left).ln();
            log_product.push(sum);
        }
        let slower = system.classes_after(set).map(|(rate, buffer)| f64::from(buffer) / rate);
        Self { set, arrivals_per_s: arrivals, longest_s: slower.fold(set.longest_wait_s, f64::max), log_product }
    }

    /// The largest `e` with `eta > 0`; 0 if there is none.
    pub(super) fn last_e(&self) -> usize {
        self.log_product.len() - 1
    }

    /// `e` from 1 to [`last_e`](Self::last_e).
    pub(super) fn at(&self, e: usize) -> SimpleBound {
        let delta = self.set.delta[e];
        let eta = self.set.left[e - 1] / self.arrivals_per_s - 1.0;
        let s = (self.log_product[self.last_e()] - self.log_product[e]).exp();
        let x = (delta + s) / eta;
        let few_idle = 1.0 / (1.0 + 1.0 / x);
        let chi = delta + (1.0 - delta) * few_idle;
        SimpleBound { m: self.set.m, e, few_idle, chi, extra_jobs: self.arrivals_per_s * chi * self.longest_s }
    }

    /// The `e` with the smallest `chi`.
    pub(super) fn best(&self) -> Option<SimpleBound> {
        (1..=self.last_e()).map(|e| self.at(e)).min_by(|a, b| a.chi.total_cmp(&b.chi))
    }
}

/// Part 3 for one `e >= 0`.
pub(super) fn idle(system: &System, set: &FastSet, e: usize) -> f64 {
    let n = set.servers as f64;
    let Some(delta) = set.delta.get(e + 1) else { return n };
    let (mu, g, arrivals) = (set.slowest_per_s, set.capacity_per_s(), system.arrivals_per_s);
    let drift = mu * e as f64 + (1.0 - delta) * arrivals - g;
    let root = (drift * drift + 2.0 * mu * (arrivals + g)).sqrt();
    n.min(e as f64 + (root - drift) / (2.0 * mu))
}

/// Part 4 at its best: bounds on `E[jobs]` and `T`; `None` if the servers cannot do what arrives, or `chi >= 1`. With
/// `only_needed` around `K`; else around the best class.
pub(super) fn jobs(system: &System, only_needed: bool) -> Option<(f64, f64)> {
    if system.is_overloaded {
        return None;
    }
    let last = if only_needed { system.needed } else { system.sets.len() - 1 };
    let bounds = (system.needed..=last).filter_map(|t| jobs_around(system, t));
    bounds.min_by(|a, b| a.1.total_cmp(&b.1))
}

/// Part 4 with the class that ends `sets[t]` in the place of `K`.
fn jobs_around(system: &System, t: usize) -> Option<(f64, f64)> {
    let set = &system.sets[t];
    let simple = SimpleSet::new(system, set).best().filter(|simple| simple.chi < 1.0)?;
    let idle_of = |set: &FastSet| {
        let bounds = spread(0, set.servers, 4_000).into_iter().map(|e| idle(system, set, e));
        bounds.fold(f64::INFINITY, f64::min)
    };
    let faster: f64 = (0..t).map(|s| system.fall(s) * idle_of(&system.sets[s])).sum();
    let own = (set.next_after_previous_per_s - set.slowest_per_s) * idle_of(set);
    let (busy, idle) = (system.busy_if_first_classes_are_full(set.m), (faster + own) / set.slowest_per_s);
    // At small loads these two almost cancel: rounding must not make the bound too small.
    let rounding = ROUNDING * (set.servers as f64 + busy.abs() + idle);
    let jobs = busy + idle + simple.extra_jobs + rounding;
    Some((jobs, jobs / (system.arrivals_per_s * (1.0 - simple.chi))))
}
