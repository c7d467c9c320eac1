//! A job that sees all servers: the limit of many servers drawn, and of complete graphs.
//!
//! The right side is discontinuous. Jobs go to the best tier that is not empty. A better tier `t` may be empty and yet
//! take jobs: servers come into it (completions bring a server from `i + 1` jobs to `i`; a job that joins brings one from
//! `i - 1`), and each is chosen at once, within a time of order `1/N`. So, from the best tier on, with the rate `left`
//! of arrivals not yet placed (at first `lambda`):
//!
//! * a tier with servers takes all that is left, its cells in proportion to their servers;
//! * an empty tier into which servers come at rate `r` takes `min(r, left)`, its cells in proportion to `r_c`; if `r >
//!   left` it fills.
//!
//! An empty tier with `r <= left` stays empty: its cells have derivative 0. This is the sliding motion of the
//! differential inclusion (Filippov) and the limit `k -> inf` of the sampled law; see the chapter "Mean field" of the
//! book.
//!
//! **Fixed point.** Let `t` be the best tier with servers that jobs find by looking, and `theta` jobs per second the
//! flow to each of its servers. Servers of better tiers are replaced at once: a server of class `m` never has fewer than
//! `s_m` jobs, the first number whose tier is not better than `t`. From there on it is a birth-death chain with births
//! at rate `theta` in tier `t` and none in worse ones. All flows then balance but the total, which gives `theta`:
//!
//! `lambda = sum_m alpha_m sum_i p_(m,i) mu_m(i) + theta (fraction of full servers in tier t)`.
//!
//! The right side, `H(t, theta)`, grows in `theta`, and `H(t, inf) = H(t + 1, 0)`: one bisection.

use super::class::ServerClass;
use super::preference::{Cell, Tiers};

/// A tier with no more than this fraction of the servers counts as empty along a trajectory: what the integrator does
/// not resolve.
pub(super) const EMPTY: f64 = 1e-10;

/// Jobs per second into each cell, by cell index, per server of the fleet; what goes to full cells is blocked. Returns
/// what found no tier at all. `masses`: fraction of servers by cell.
pub(super) fn flows<'a>(
    arrivals_per_s: f64,
    classes: &[ServerClass],
    tiers: impl Iterator<Item = &'a [Cell]>,
    masses: &[f64],
    flows: &mut [f64],
) -> f64 {
    flows.fill(0.0);
    let mut left = arrivals_per_s;
    for tier in tiers {
        let mass: f64 = tier.iter().map(|cell| masses[cell.index].max(0.0)).sum();
        if mass > EMPTY {
            for cell in tier {
                flows[cell.index] = left * masses[cell.index].max(0.0) / mass;
            }
            return 0.0;
        }
        let mut into_tier = 0.0;
        for cell in tier {
            let into = servers_into(*cell, &classes[cell.class], masses, flows);
            flows[cell.index] = into;
            into_tier += into;
        }
        if into_tier > left {
            tier.iter().for_each(|cell| flows[cell.index] *= left / into_tier);
            return 0.0;
        }
        left -= into_tier;
    }
    left
}

/// Servers that come into a cell of an empty tier per second, per server of the fleet: after completions, and after jobs
/// that joined with one job fewer there.
fn servers_into(cell: Cell, class: &ServerClass, masses: &[f64], flows: &[f64]) -> f64 {
    let joined = if cell.jobs == 0 { 0.0 } else { flows[cell.index - 1] };
    if cell.is_top {
        return joined;
    }
    joined + masses[cell.index + 1].max(0.0) * class.service_per_s(cell.jobs + 1)
}

/// What the servers of a class do at the fixed point.
#[derive(Clone, Debug)]
pub(super) struct ClassAtRest {
    /// `s_m`: no server has fewer jobs.
    pub(super) fewest: usize,
    /// Probability of `s_m + j` jobs.
    pub(super) law: Vec<f64>,
    /// Births per second and server in the cells of `law`.
    pub(super) births_per_s: Vec<f64>,
}

/// The fixed point by class, and the jobs per second that it takes in, blocked ones of full cells included; less than
/// `arrivals_per_s` if even the last tier does not take all.
///
/// `top`: most jobs of a class, or more than any server has at the fixed point.
pub(super) fn at_rest(
    arrivals_per_s: f64,
    classes: &[ServerClass],
    tiers: &Tiers,
    top: &[usize],
) -> (Vec<ClassAtRest>, f64) {
    let mut tier_of: Vec<Vec<usize>> = top.iter().map(|&top| vec![0; top + 1]).collect();
    let mut count = 0;
    for (t, tier) in tiers.iter().enumerate() {
        tier.iter().for_each(|cell| tier_of[cell.class][cell.jobs] = t);
        count = t + 1;
    }
    let rest = |t: usize, theta: f64| -> Vec<ClassAtRest> {
        let of_class = |(class, tier_of): (&ServerClass, &Vec<usize>)| {
            let last = tier_of.len() - 1;
            let fewest = tier_of.iter().position(|&tier| tier >= t).unwrap_or(last);
            let births = |jobs: usize| if tier_of[jobs] == t { theta } else { 0.0 };
            let law = class.stationary(fewest, last, births);
            let births_per_s = (0..law.len()).map(|j| births(fewest + j)).collect();
            ClassAtRest { fewest, law, births_per_s }
        };
        classes.iter().zip(&tier_of).map(of_class).collect()
    };
    let taken =
        |rest: &[ClassAtRest]| -> f64 { rest.iter().zip(classes).map(|(rest, class)| rest.taken_per_s(class)).sum() };
    // The first tier beyond which there are no jobs left to place.
    let t = (0..count).find(|&t| taken(&rest(t + 1, 0.0)) > arrivals_per_s).unwrap_or(count - 1);
    let mut low = 0.0;
    let mut high = arrivals_per_s;
    while taken(&rest(t, high)) < arrivals_per_s && high < 1e30 * arrivals_per_s {
        low = high;
        high *= 2.0;
    }
    // To the last bit.
    loop {
        let middle = if low > 0.0 { low + 0.5 * (high - low) } else { 0.5 * high };
        if !(low < middle && middle < high) || high < f64::MIN_POSITIVE {
            break;
        }
        if taken(&rest(t, middle)) < arrivals_per_s { low = middle } else { high = middle }
    }
    let rest = rest(t, high);
    let taken = taken(&rest);
    (rest, taken)
}

impl ClassAtRest {
    /// Fraction of servers with 1, 2, ... jobs or more.
    pub(super) fn occupancy(&self) -> Vec<f64> {
        let mut from_above: Vec<f64> = Vec::with_capacity(self.fewest + self.law.len());
        let mut sum = 0.0;
        for p in self.law[1..].iter().rev() {
            sum += p;
            from_above.push(sum);
        }
        from_above.extend(vec![1.0; self.fewest]);
        from_above.reverse();
        from_above
    }

    /// Jobs per second, per server of the fleet: those completed, and those that full servers turn away.
    fn taken_per_s(&self, class: &ServerClass) -> f64 {
        let of_level = |(j, (p, births)): (usize, (&f64, &f64))| {
            let jobs = self.fewest + j;
            p * (class.service_per_s(jobs) + if class.is_full(jobs) { *births } else { 0.0 })
        };
        class.share * self.law.iter().zip(&self.births_per_s).enumerate().map(of_level).sum::<f64>()
    }
}
