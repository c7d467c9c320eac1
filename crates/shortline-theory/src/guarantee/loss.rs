//! Theorem L: the share of arrivals that are not sent to an idle server of `R_m`.
//!
//! `a_m` = that share; blocked jobs are in `a_M`. Let `z >= 0` and `t(1..=n) >= 0`, `t(n + 1) = 0` satisfy
//!
//! * `1 - g t(1) <= z`,
//! * `Lambda t(i) + delta(i) (1 - Lambda t(i))^+ - (g - Mt(i)) t(i + 1) <= z` for `1 <= i <= n`.
//!
//! With `tau` the largest `t(i)`: `a_m <= z + tau (Lambda a_M + E_F)`, without the term `a_M` if no job can wait in `R_m`;
//! and `a_M <= a_m`, so that `a_M <= (z + tau E_F) / (1 - Lambda tau)` from every `m` with `Lambda tau < 1`.
//!
//! Why: `phi(X_m) = sum of t(j) over j > X_m` is stationary; its drift, put beside `a_m`, is at most the right side. On a
//! complete graph of equal speeds the bound is Erlang's B without waiting places and Erlang's C with them. Proof in the
//! book, chapter "Guarantee". The least `t(i)` is a forward recursion, the least `z` a bisection: `O(n)` per trial.
//!
//! In the code `u(i) = Lambda t(i)`, a number without unit.

use super::idle::Idle;
use super::idle_rates::IdleRates;
use super::search::smallest;
use super::system::{FastSet, System};

/// What Theorem L says of `R_m` with one choice of idle rates.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Solution {
    z: f64,
    /// `Lambda tau`.
    tau: f64,
    /// `E_F / Lambda`.
    excess: f64,
    /// Whether a job can wait in `R_m`.
    waits: bool,
    spare: usize,
}

impl Solution {
    /// `a_m`, given a bound on `a_M`.
    fn share(&self, of_all: f64) -> f64 {
        self.z + self.tau * (self.excess + if self.waits { of_all } else { 0.0 })
    }

    /// `a_m` if `a_M` is not larger.
    fn own_share(&self) -> f64 {
        if !self.waits {
            return self.share(0.0);
        }
        if self.tau < 1.0 { (self.z + self.tau * self.excess) / (1.0 - self.tau) } else { f64::INFINITY }
    }
}

/// Bounds on the shares `a_m` of arrivals that are not sent at once to an idle server of `R_m`.
#[derive(Clone, Debug)]
pub(super) struct Shares {
    /// By tabulated set; nonincreasing; at most 1.
    pub(super) by_set: Vec<f64>,
    /// The `m` that bounds `a_M` best.
    pub(super) m: usize,
    /// There, the number of idle servers from which on the test function is flat: more of them make no difference.
    pub(super) spare: usize,
}

impl Shares {
    /// `a_M`.
    pub(super) fn all(&self) -> f64 {
        self.by_set.last().copied().unwrap_or(1.0)
    }

    /// The bounds for the sets from `sets[first]` on; shares before it are taken to be 1.
    pub(super) fn new(system: &System, idle: &[Idle], first: usize) -> Self {
        let mut best = (1.0, system.all().m, 0);
        let mut solutions: Vec<Vec<Solution>> = vec![vec![]; first];
        for (t, set) in system.sets.iter().enumerate().skip(first) {
            let mut of_set: Vec<Solution> = Vec::new();
            for rates in IdleRates::choices(system, idle, t) {
                // A solution with a larger z cannot be the best: z alone is part of every share.
                let known = of_set.iter().map(|solution| solution.share(best.0)).fold(1.0, f64::min);
                let Some(solution) = solve(system, set, &rates, known) else { continue };
                if solution.own_share() < best.0 {
                    best = (solution.own_share(), set.m, solution.spare);
                }
                of_set.push(solution);
            }
            solutions.push(of_set);
        }
        let mut least: f64 = 1.0;
        let by_set = solutions.iter().map(|solutions| {
            least = solutions.iter().map(|solution| solution.share(best.0)).fold(least, f64::min);
            least
        });
        let mut by_set: Vec<f64> = by_set.collect();
        if let Some(all) = by_set.last_mut() {
            *all = all.min(best.0);
        }
        Self { by_set, m: best.1, spare: best.2 }
    }

    /// Replaces `a_m` and all later ones by another bound on `a_m`, where that is smaller.
    pub(super) fn improve(&mut self, t: usize, share: f64, m: usize, spare: usize) {
        if share < self.all() {
            (self.m, self.spare) = (m, spare);
        }
        self.by_set[t..].iter_mut().for_each(|known| *known = known.min(share));
    }
}

fn solve(system: &System, set: &FastSet, rates: &IdleRates, most_z: f64) -> Option<Solution> {
    let ratios = rates.ratios(set, system.arrivals_per_s);
    let (z, (tau, spare)) = smallest(system.effort, most_z, |z| trial(set, &ratios, z))?;
    let excess = rates.excess_per_s / system.arrivals_per_s;
    Some(Solution { z, tau, excess, waits: set.has_waiting_places(), spare })
}

/// The largest `u(i)` of the least solution at `z`, and the first `i` after which it is 0; `None` if there is none.
fn trial(set: &FastSet, ratios: &[f64], z: f64) -> Option<(f64, usize)> {
    let mut u = (1.0 - z) * ratios[0];
    let mut tau = u;
    for ((i, &delta), ratio) in set.delta.iter().enumerate().zip(ratios).skip(1) {
        let excess = u + delta * (1.0 - u).max(0.0) - z;
        if excess > 0.0 {
            u = excess * ratio;
            if u == f64::INFINITY {
                return None;
            }
            tau = tau.max(u);
        } else if delta <= z {
            // From here on 0 solves all inequalities: the profile does not grow.
            return Some((tau, i));
        } else {
            u = 0.0;
        }
    }
    Some((tau, set.servers))
}
