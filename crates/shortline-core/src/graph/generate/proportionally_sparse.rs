//! Proportionally sparse graphs (Rutten and Mukherjee, 2020, "Load Balancing Under Strict Compatibility Constraints"):
//! few edges, yet almost every job type sees every set of servers in proportion to its size, which keeps the mean-field
//! limit of the complete graph.
//!
//! * **By a cap** `c` on the job types per server: the paper takes edge probability `c / L` or a biregular graph; this is
//!   the biregular one, with exactly `min(floor(c), L)` job types per server and `k = N c / L` servers per job type. The
//!   limit is kept if `c` and `k / ln N` grow without bound, so `c = "log"` and `c = "sqrt"` (the ceilings of `ln N` and
//!   of the root of N) sit below and above that border when L = N.
//! * **By a guarantee** for the fleet at hand: the least port degree `k` for which, with the given confidence, for *every*
//!   server set U at most a fraction `eta` of the job types have `| |N(l) & U| / k - |U| / N | >= epsilon`.
//!
//! Proof of the latter: each of L independent job types deviates at U with probability at most `pi = 2 exp(-2 epsilon^2 k)`
//! (Hoeffding, sampling without replacement), more than `eta L` of them with probability at most
//! `exp(-L KL(eta || pi))` if `pi < eta`; there are `2^N` sets. So `L KL(eta || pi) >= N ln 2 - ln(1 - confidence)` is
//! enough.

use super::error::check_share;
use super::{GenerateError, biregular, port_degree};
use crate::graph::{Edges, Sparsity};
use crate::random::Generator;

pub(super) fn generate(
    density: &Sparsity,
    servers: u32,
    job_types: u32,
    rng: &mut Generator,
) -> Result<Edges, GenerateError> {
    let capped = |cap: u32, rng| biregular::generate(cap.min(job_types), servers, job_types, rng);
    match *density {
        Sparsity::Guaranteed { epsilon, eta, confidence } => {
            let degree = guaranteed_degree(epsilon, eta, confidence, servers, job_types)?;
            port_degree::equal(degree, servers, job_types, rng)
        }
        Sparsity::Cap(c) if c >= 1.0 => capped(c as u32, rng),
        Sparsity::Cap(c) => {
            Err(GenerateError::OutOfRange { field: "c", value: c, range: "a number from 1".to_owned() })
        }
        Sparsity::Log => capped((f64::from(servers).ln().ceil() as u32).max(1), rng),
        Sparsity::Sqrt => {
            let floor = servers.isqrt();
            capped(floor + u32::from(floor * floor < servers), rng)
        }
    }
}

/// The least number of servers per job type with the guarantee; it grows with every demand, so bisection finds it.
fn guaranteed_degree(
    epsilon: f64,
    eta: f64,
    confidence: f64,
    servers: u32,
    job_types: u32,
) -> Result<u32, GenerateError> {
    check_share("epsilon", epsilon)?;
    check_share("eta", eta)?;
    check_share("confidence", confidence)?;
    let needed = f64::from(servers) * std::f64::consts::LN_2 - (-confidence).ln_1p();
    let suffices = |degree: u64| {
        let ln_pi = std::f64::consts::LN_2 - 2.0 * epsilon * epsilon * degree as f64;
        ln_pi < eta.ln() && f64::from(job_types) * divergence(eta, ln_pi) >= needed
    };
    let (mut too_few, mut enough) = (0_u64, 1_u64);
    while !suffices(enough) && enough < 1 << 62 {
        (too_few, enough) = (enough, enough * 2);
    }
    while enough - too_few > 1 {
        let middle = too_few + (enough - too_few) / 2;
        if suffices(middle) { enough = middle } else { too_few = middle }
    }
    let within = u32::try_from(enough).ok().filter(|&degree| degree <= servers);
    within.ok_or(GenerateError::TooSparse { epsilon, eta, degree: enough, servers })
}

/// Kullback-Leibler divergence of Bernoulli laws, `KL(eta || pi)`, with `pi` given by its logarithm.
fn divergence(eta: f64, ln_pi: f64) -> f64 {
    eta * (eta.ln() - ln_pi) + (1.0 - eta) * ((-eta).ln_1p() - (-ln_pi.exp()).ln_1p())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_degree_is_the_least_that_satisfies_the_condition() {
        let (epsilon, eta, confidence, servers, job_types) = (0.25, 0.1, 0.99, 1000_u32, 2000_u32);
        let degree = guaranteed_degree(epsilon, eta, confidence, servers, job_types).unwrap();
        // The condition written out plainly.
        let holds = |k: u32| {
            let pi = 2.0 * (-2.0 * epsilon * epsilon * f64::from(k)).exp();
            let kl = eta * (eta / pi).ln() + (1.0 - eta) * ((1.0 - eta) / (1.0 - pi)).ln();
            pi < eta && f64::from(job_types) * kl >= f64::from(servers) * 2_f64.ln() + 100_f64.ln()
        };
        assert!(holds(degree) && !holds(degree - 1), "{degree}");
    }

    #[test]
    fn a_guarantee_beyond_the_fleet_is_refused_with_the_degree_it_takes() {
        let error = guaranteed_degree(0.01, 0.01, 0.99, 100, 100).unwrap_err();
        assert!(matches!(error, GenerateError::TooSparse { degree: 100_000.., servers: 100, .. }), "{error}");
    }
}
