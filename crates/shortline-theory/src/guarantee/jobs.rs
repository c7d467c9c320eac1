//! Theorem S3: from idle and waiting servers to jobs and response times.
//!
//! For every class `k` (best near `K`), with `L_k = n_(k-1) + (Lambda - g_(k-1)) / mu_k`, which is `L*` for `k = K`:
//!
//! `E[jobs] <= A - Lambda p_block / mu_k`,
//! `A = L_k + sum over m < k of ((mu_m - mu_(m+1)) / mu_k) E[Z_m] + Lambda sum over k <= m < M of a_m (1/mu_(m+1) - 1/mu_m) + E[W]`
//!
//! and with any `p >= p_block`, by Little's law,
//!
//! `T <= max(A / Lambda, (A - Lambda p / mu_k) / (Lambda (1 - p)))`.
//!
//! `R_m` for `m` that are not tabulated: at least as many of its servers are busy as in the tabulated set before it, and as
//! in the one after it less the servers between.
//!
//! Why: an identity for the busy servers, given what the classes complete per second; the last step because a quotient of
//! linear functions of `p_block` is monotone. Proof in the book, chapter "Guarantee". The paper's `K` is not needed in the
//! proof; `k` is chosen to make `T` smallest.

use super::idle::Idle;
use super::loss::Shares;
use super::system::System;

/// A bound on `E[jobs]` and `T`, with its terms.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct JobTerms {
    /// The class `k` around which the busy servers are counted.
    pub k: usize,
    /// `L_k`: busy servers if those of the first `k - 1` classes never idled.
    pub busy: f64,
    /// What idle servers of the first `k - 1` classes add, since slower ones do their work.
    pub idle: f64,
    /// What jobs at servers slower than class `k` add.
    pub slower: f64,
    /// Bound on `E[W]`, jobs that wait.
    pub waiting: f64,
    /// `A` in the formula: the sum of the terms, a bound on the mean number of jobs in the fleet.
    pub mean_jobs: f64,
    /// Bound on the mean response time of accepted jobs, seconds.
    pub mean_response_s: f64,
}

/// The best of the bounds over `k`.
pub(super) fn best(system: &System, idle: &[Idle], shares: &Shares, waiting: f64, blocking: f64) -> JobTerms {
    let from = system.needed;
    let terms = (from..system.sets.len()).map(|t| around(system, idle, shares, t, waiting, blocking));
    let best = terms.min_by(|a, b| a.mean_response_s.total_cmp(&b.mean_response_s));
    best.expect("the set of K servers is tabulated")
}

/// `k` is the class that ends `sets[t]`.
fn around(system: &System, idle: &[Idle], shares: &Shares, t: usize, waiting: f64, blocking: f64) -> JobTerms {
    let arrivals = system.arrivals_per_s;
    let k = system.sets[t].m;
    let mu = system.rates[k - 1];
    let rate = |s: usize| system.sets[s].slowest_per_s;
    let slower = |s: usize| arrivals * shares.by_set[s] * (1.0 / rate(s + 1) - 1.0 / rate(s));
    let slower = (t..system.sets.len() - 1).map(slower).fold(0.0, |sum, jobs| sum + jobs);
    let busy = system.busy_if_first_classes_are_full(k);
    let busy_and_idle = (arrivals - relief(system, idle, k)) / mu;
    let mean_jobs = busy_and_idle + slower + waiting;
    let with_losses = (mean_jobs - arrivals * blocking / mu) / (arrivals * (1.0 - blocking));
    let mean_response_s = if blocking < 1.0 { (mean_jobs / arrivals).max(with_losses) } else { f64::INFINITY };
    JobTerms { k, busy, idle: busy_and_idle - busy, slower, waiting, mean_jobs, mean_response_s }
}

/// `sum over m < k of (mu_m - mu_(m+1)) E[busy in R_m]`, at least. With it the first two terms of `A` are
/// `(Lambda - relief) / mu_k`: the same sum, but not a small difference of large numbers at small loads.
fn relief(system: &System, idle: &[Idle], k: usize) -> f64 {
    let busy_in = |m: usize| {
        let above = system.sets.partition_point(|set| set.m < m);
        let set = &system.sets[above];
        let missing = (set.servers - system.ends[m - 1]) as f64;
        let below = if missing > 0.0 && above > 0 { idle[above - 1].mean_busy() } else { 0.0 };
        below.max(idle[above].mean_busy() - missing)
    };
    (1..k).map(|m| (system.rates[m - 1] - system.rates[m]) * busy_in(m)).sum()
}
