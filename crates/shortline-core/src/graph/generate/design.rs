//! The constants of the well-connected design, for the servers of the `m` fastest classes.
//!
//! Let `n = |R_m|`, `p_l` = job type l's share of all arrivals, `e` = servers left out, `delta(e)` = the largest share of
//! the arrivals whose job types have no server in I, over all I in R_m with `|I| >= e`. Join job type l to each server
//! of R_m independently with probability
//!
//! `z_l = min(1, (theta p_l + a) / e)`, `theta = (ln C(n, e) + L e^-a + s) / delta`.
//!
//! Then `delta(e) <= delta` with probability at least `1 - e^-s`, for every `a >= 0`. Proof: for one I of size e, job type l
//! is isolated with probability `q_l = (1 - z_l)^e <= e^-(theta p_l + a)` (0 if `z_l = 1`), independently, so the
//! isolated share D has `E e^(theta D) <= exp(sum q_l e^(theta p_l)) <= exp(L e^-a)` and exceeds `delta` with
//! probability at most `exp(L e^-a - theta delta) = e^-s / C(n, e)`. There are `C(n, e)` such sets; larger ones isolate
//! less. The idea is that of Weng, Zhou and Srikant (2020, "Optimal Load Balancing in Bipartite Graphs"); the constants
//! are this project's. Here `theta` is per share of the arrivals, `theta Lambda` where rates are not normalised.
//!
//! `a` is the multiple of 1/16 with the fewest expected edges. Once the probabilities stand, [`Design::delta`] is what
//! they guarantee: the same bound without its simplifications,
//! `min over theta of (ln C(n, e) + s + sum ln(1 + q_l (e^(theta p_l) - 1))) / theta`.

use super::ln_choose::ln_choose;

/// Steps of the scan over `a` per unit; a power of two keeps `a` exact.
const STEPS: u32 = 16;

/// The design for the servers of the fastest server types.
#[derive(Clone, PartialEq, Debug)]
pub struct Design {
    /// Number of fastest server types, m.
    pub fastest_types: usize,
    /// Number of servers of these types, n.
    pub servers: usize,
    /// Size of the smallest server sets that must be seen, e.
    pub left_out: usize,
    /// Weight of a job type's share of the arrivals.
    pub theta: f64,
    /// What every job type gets whatever its share.
    pub a: f64,
    /// The share of the arrivals that the probabilities used guarantee not to exceed: at most what was asked for.
    pub delta: f64,
    /// Probability that this guarantee fails is at most `exp(-s)`.
    pub s: f64,
}

/// Shares of the arrivals, prepared for the scan.
#[derive(Debug)]
pub(super) struct Shares {
    /// Largest first.
    descending: Vec<f64>,
    /// `tail[i]` = sum of `descending[i..]`.
    tail: Vec<f64>,
}

impl Shares {
    pub(super) fn new(shares: &[f64]) -> Self {
        let mut descending = shares.to_vec();
        descending.sort_unstable_by(|a, b| b.total_cmp(a));
        let mut tail = vec![0.0; shares.len() + 1];
        for i in (0..shares.len()).rev() {
            tail[i] = tail[i + 1] + descending[i];
        }
        Self { descending, tail }
    }

    /// The smallest share; `None` without job types.
    pub(super) fn least(&self) -> Option<f64> {
        self.descending.last().copied()
    }

    /// Expected servers per server of R_m, summed over job types: `sum min(1, (theta p_l + a) / e)`.
    fn expected_degree(&self, theta: f64, a: f64, e: f64) -> f64 {
        let full = self.descending.partition_point(|&share| theta * share + a >= e);
        full as f64 + (theta * self.tail[full] + a * (self.descending.len() - full) as f64) / e
    }
}

impl Design {
    /// The design with the fewest expected edges for `delta` and failure probability `exp(-s)`.
    pub(super) fn new(
        fastest_types: usize,
        (servers, left_out): (usize, usize),
        (delta, s): (f64, f64),
        shares: &Shares,
    ) -> Self {
        let design = Self { fastest_types, servers, left_out, theta: 0.0, a: 0.0, delta, s };
        let (a, theta) = design
            .scan(shares.descending.len())
            .map(|(a, exponent)| (a, round_up(exponent / delta)))
            .min_by(|x, y| {
                let edges = |&(a, theta): &(f64, f64)| shares.expected_degree(theta, a, left_out as f64);
                edges(x).total_cmp(&edges(y))
            })
            .expect("the scan begins at a = 0");
        Self { theta, a, ..design }
    }

    /// Pairs of `a` and `ln C(n, e) + L e^-a + s`. Past `a = ln L + 10` the middle term is nothing, past `a = e` all
    /// probabilities are 1.
    fn scan(&self, job_types: usize) -> impl Iterator<Item = (f64, f64)> + use<> {
        let l = job_types as f64;
        let exponent = ln_choose(self.servers, self.left_out) + self.s;
        let most = (l.max(1.0).ln() + 10.0).min(self.left_out as f64);
        (0..=(most * f64::from(STEPS)) as u32).map(move |step| {
            let a = f64::from(step) / f64::from(STEPS);
            (a, exponent + l * (-a).exp())
        })
    }

    /// The probability with which a job type of this share is joined to each of the servers, by this design alone.
    #[must_use]
    pub fn probability(&self, share: f64) -> f64 {
        ((self.theta * share + self.a) / self.left_out as f64).min(1.0)
    }

    /// The smallest `delta` above which some job type would not be joined to every server.
    pub(super) fn least_delta(&self, shares: &Shares) -> f64 {
        let least_share = shares.least().unwrap_or(0.0);
        let at = |(a, exponent): (f64, f64)| least_share * exponent / (self.left_out as f64 - a).max(0.0);
        self.scan(shares.descending.len()).map(at).filter(|delta| !delta.is_nan()).fold(f64::INFINITY, f64::min)
    }

    /// The share that joining job type l with at least `probability(l)` guarantees, at most `self.delta`.
    ///
    /// Any `theta` gives a valid bound, so a coarse minimum is one too: the bound falls and then rises in `theta`, and
    /// golden-section search on its logarithm narrows a factor of 64 down to 1 %.
    pub(super) fn guaranteed(&self, shares: &[f64], probability: impl Fn(f64) -> f64) -> f64 {
        let isolated = |p: f64| (self.left_out as f64 * (-probability(p)).ln_1p()).exp();
        let at_risk: Vec<(f64, f64)> =
            shares.iter().map(|&p| (p, isolated(p))).filter(|&(p, q)| p > 0.0 && q > 0.0).collect();
        if at_risk.is_empty() {
            return 0.0;
        }
        let exponent = ln_choose(self.servers, self.left_out) + self.s;
        let bound = |ln_factor: f64| {
            let theta = self.theta * ln_factor.exp();
            (exponent + at_risk.iter().map(|&(p, q)| ln_moment(q, theta * p)).sum::<f64>()) / theta
        };
        // No isolated job type at all is a bound, too.
        let everything = at_risk.iter().map(|&(p, _)| p).sum::<f64>();
        least(bound, 0.5_f64.ln(), 32_f64.ln()).min(everything).min(self.delta)
    }
}

/// `ln(1 + q (e^x - 1))`, the logarithm of the moment generating function of one job type.
fn ln_moment(q: f64, x: f64) -> f64 {
    if x < 700.0 { (q * x.exp_m1()).ln_1p() } else { x + q.ln() }
}

/// The least value seen by golden-section search on `[low, high]`.
fn least(value: impl Fn(f64) -> f64, mut low: f64, mut high: f64) -> f64 {
    let golden = 0.5 * (5_f64.sqrt() - 1.0);
    let (mut left, mut right) = (high - golden * (high - low), low + golden * (high - low));
    let (mut at_left, mut at_right) = (value(left), value(right));
    let mut best = at_left.min(at_right);
    while high - low > 0.01 {
        if at_left <= at_right {
            (high, right, at_right) = (right, left, at_left);
            left = high - golden * (high - low);
            at_left = value(left);
        } else {
            (low, left, at_left) = (left, right, at_right);
            right = low + golden * (high - low);
            at_right = value(right);
        }
        best = best.min(at_left).min(at_right);
    }
    best
}

/// Up to 24 significant bits: rounding up keeps the proof, and hides differences of logarithms in the last place.
fn round_up(x: f64) -> f64 {
    let nearest = x as f32;
    f64::from(if f64::from(nearest) < x { nearest.next_up() } else { nearest })
}
