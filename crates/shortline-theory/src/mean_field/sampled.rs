//! A job that sees finitely many random servers: where it goes.
//!
//! Let `A_t` be the fraction of servers in tier `t` or a worse one. Of `k` servers drawn at random, all are in tier `t`
//! or worse with probability `A_t^k`, so the best of them is in tier `t` with probability `A_t^k - A_(t+1)^k`, and it
//! is equally likely to be any server of the tier. With arrivals at rate `lambda` (per second and server of the fleet),
//! cell `c` of tier `t`, which holds the fraction `p_c` of the servers, gets
//!
//! `lambda p_c (A_t^k - A_(t+1)^k) / (A_t - A_(t+1))`   jobs per second and server of the fleet.
//!
//! Ports of different degree mix these over `k`; `jsq(d1,d2)` draws from two pools, and then the probability is a
//! product of two powers. Source: derived in the chapter "Mean field" of the book; for equal servers it is that of
//! N. Vvedenskaya, R. Dobrushin, F. Karpelevich (1996).

use super::preference::Cell;

/// How many servers a share of the jobs sees: from the pool of the fast ones and that of the others, or, where the
/// policy makes no difference, from the first pool, which then has all.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Sample {
    pub(super) share: f64,
    pub(super) drawn: [u32; 2],
}

/// The samples of all jobs.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Samples {
    /// Shares sum to 1; a job that sees no server is blocked.
    pub(super) samples: Vec<Sample>,
    /// The pool of each class.
    pub(super) pool_of: Vec<usize>,
    /// The fraction of servers in each pool.
    pub(super) pools: [f64; 2],
}

impl Samples {
    /// The share of jobs that see no server.
    pub(super) fn share_without_servers(&self) -> f64 {
        self.samples.iter().filter(|sample| sample.drawn == [0, 0]).map(|sample| sample.share).sum()
    }

    /// Probability that all servers of a job's sample are among fractions `among` of the servers, by pool.
    pub(super) fn all_among(&self, among: [f64; 2]) -> f64 {
        self.samples
            .iter()
            .map(|sample| sample.share * (0..2).map(|p| self.power(sample, among, p)).product::<f64>())
            .sum()
    }

    /// Jobs per second into each cell, by cell index, per server of the fleet. `masses`: fraction of servers by cell.
    pub(super) fn flows<'a>(
        &self,
        arrivals_per_s: f64,
        tiers: impl DoubleEndedIterator<Item = &'a [Cell]>,
        masses: &[f64],
        flows: &mut [f64],
    ) {
        let mut worse = [0.0; 2];
        for tier in tiers.rev() {
            let pool = self.pool_of[tier[0].class];
            let mass: f64 = tier.iter().map(|cell| masses[cell.index]).sum();
            let with_tier = worse[pool] + mass;
            let other = 1 - pool;
            let slope: f64 = self
                .samples
                .iter()
                .map(|sample| {
                    let k = sample.drawn[pool];
                    sample.share
                        * self.power(sample, worse, other)
                        * secant(with_tier / self.pools[pool], mass / self.pools[pool], k)
                        / self.pools[pool]
                })
                .sum();
            for cell in tier {
                flows[cell.index] = arrivals_per_s * masses[cell.index] * slope;
            }
            worse[pool] = with_tier;
        }
    }

    fn power(&self, sample: &Sample, among: [f64; 2], pool: usize) -> f64 {
        match sample.drawn[pool] {
            0 => 1.0,
            k => power((among[pool] / self.pools[pool]).max(0.0), k),
        }
    }
}

fn power(base: f64, k: u32) -> f64 {
    i32::try_from(k).map_or_else(|_| base.powf(f64::from(k)), |k| base.powi(k))
}

/// `(a^k - (a - m)^k) / m`, without cancellation; its limit `k a^(k-1)` for `m = 0`. Negative `m` occur where derivatives are
/// taken by differences.
fn secant(a: f64, m: f64, k: u32) -> f64 {
    match k {
        0 => 0.0,
        1 => 1.0,
        _ if m < 0.0 => secant(a - m, -m, k),
        _ if a <= 0.0 => 0.0,
        _ if m < 1e-300 => f64::from(k) * power(a, k - 1),
        _ => power(a, k) * -(f64::from(k) * (-(m / a).min(1.0)).ln_1p()).exp_m1() / m,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_secant_is_a_sum_of_powers() {
        for (a, m) in [(1.0, 1.0), (0.9, 0.2), (0.5, 1e-9), (0.5, 1e-17), (0.3, 0.0), (0.3, -1e-9)] {
            for k in [0_u32, 1, 2, 3, 17] {
                let c: f64 = a - m;
                let sum: f64 = (0..k).map(|j| f64::powi(a, j as i32) * c.powi((k - 1 - j) as i32)).sum();
                assert!((secant(a, m, k) - sum).abs() <= 1e-13 * sum, "{a} {m} {k}");
            }
        }
    }
}
