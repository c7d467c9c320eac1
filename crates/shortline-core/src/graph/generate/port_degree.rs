//! Port-degree graphs: every job type on a given number of servers, distinct and uniformly random.
//!
//! Rows are independent, and every set of servers of the right size is equally likely. Degrees may be equal
//! (`kind = "port-degree"`), given one by one ([`port_degrees`]), or follow the arrival rates
//! ([`arrival_weighted_degrees`]).

use super::demand::check_rates;
use super::error::check_edges;
use super::subset::SubsetSampler;
use super::{Demand, GenerateError, rng};
use crate::graph::Edges;
use crate::random::Generator;

/// The same degree for all job types.
pub(super) fn equal(degree: u32, servers: u32, job_types: u32, rng: &mut Generator) -> Result<Edges, GenerateError> {
    if degree == 0 || degree > servers {
        return Err(GenerateError::PortDegree { degree, servers });
    }
    if degree == servers {
        return Ok(Edges::Complete);
    }
    check_edges(f64::from(degree) * f64::from(job_types))?;
    Ok(rows(std::iter::repeat_n(degree, job_types as usize), servers, rng))
}

/// A graph in which job type `l` is on `degrees[l]` of the servers, distinct and uniformly random.
///
/// # Errors
/// [`GenerateError::PortDegree`] if a degree is larger than the number of servers (0 is allowed here), and
/// [`GenerateError::TooManyEdges`].
pub fn port_degrees(degrees: &[u32], servers: usize, seed: u64) -> Result<Edges, GenerateError> {
    let (servers, _) = Demand::of_size(servers, degrees.len()).checked_size()?;
    if let Some(&degree) = degrees.iter().find(|&&degree| degree > servers) {
        return Err(GenerateError::PortDegree { degree, servers });
    }
    check_edges(degrees.iter().map(|&degree| f64::from(degree)).sum())?;
    Ok(rows(degrees.iter().copied(), servers, &mut rng(seed)))
}

/// Appends a random row for each degree.
fn rows(degrees: impl ExactSizeIterator<Item = u32> + Clone, servers: u32, rng: &mut Generator) -> Edges {
    let mut sampler = SubsetSampler::new(servers);
    let mut starts = Vec::with_capacity(degrees.len() + 1);
    let mut list = Vec::with_capacity(degrees.clone().map(|degree| degree as usize).sum());
    starts.push(0);
    for degree in degrees {
        sampler.append(degree, rng, &mut list);
        starts.push(list.len());
    }
    Edges::Rows { starts, servers: list }
}

/// Degrees in proportion to the arrival rates, with the given mean.
///
/// Job type `l` gets `c rate_l` servers, but at least 1 and at most all of them, where `c` makes the mean exactly
/// `mean_degree`. Fractions are rounded down, and the servers this leaves over go to the largest fractions (the
/// earlier job type first). O(L log L).
///
/// ```
/// use shortline_core::graph::generate::arrival_weighted_degrees;
/// assert_eq!(arrival_weighted_degrees(&[8.0, 3.0, 1.0, 0.0], 3, 100)?, [7, 3, 1, 1]);
/// # Ok::<(), shortline_core::graph::generate::GenerateError>(())
/// ```
///
/// # Errors
/// [`GenerateError`] if a rate is negative or not finite, if `mean_degree` is not in `1..=servers`, or if it cannot be
/// reached because job types without arrivals get no more than one server.
pub fn arrival_weighted_degrees(
    arrival_rates: &[f64],
    mean_degree: u32,
    servers: usize,
) -> Result<Vec<u32>, GenerateError> {
    let (servers, _) = Demand::of_size(servers, arrival_rates.len()).checked_size()?;
    check_rates(arrival_rates)?;
    if mean_degree == 0 || mean_degree > servers {
        return Err(GenerateError::PortDegree { degree: mean_degree, servers });
    }
    let total = u64::from(mean_degree) * arrival_rates.len() as u64;
    let arriving = arrival_rates.iter().filter(|&&rate| rate > 0.0).count() as u64;
    let reachable = arriving * u64::from(servers) + (arrival_rates.len() as u64 - arriving);
    if total > reachable {
        return Err(GenerateError::OutOfRange {
            field: "degree",
            value: f64::from(mean_degree),
            range: format!(
                "at most {}, since a job type without arrivals gets one server only",
                reachable / arrival_rates.len() as u64
            ),
        });
    }
    let shares = shares_at_least_one(arrival_rates, total as f64, f64::from(servers));
    Ok(round_to_sum(&shares, total, servers))
}

/// `clamp(c rate, 1, most)` with `c` such that the sum is `total`, found by bisection to the last place.
fn shares_at_least_one(rates: &[f64], total: f64, most: f64) -> Vec<f64> {
    let Some(least) = rates.iter().copied().filter(|&rate| rate > 0.0).min_by(f64::total_cmp) else {
        return vec![1.0; rates.len()];
    };
    let clamped = |rate: f64, scale: f64| ((rate / least).min(f64::MAX) * scale).clamp(1.0, most);
    let sum = |scale: f64| rates.iter().map(|&rate| clamped(rate, scale)).sum::<f64>();
    let (mut low, mut high) = (0.0, most);
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        if sum(middle) <= total { low = middle } else { high = middle }
    }
    rates.iter().map(|&rate| clamped(rate, low)).collect()
}

/// Whole numbers of the given sum, each the floor of its share or one more: largest remainders first.
fn round_to_sum(shares: &[f64], total: u64, most: u32) -> Vec<u32> {
    let mut degrees: Vec<u32> = shares.iter().map(|&share| share as u32).collect();
    let mut order: Vec<usize> = (0..shares.len()).collect();
    order.sort_by(|&a, &b| shares[b].fract().total_cmp(&shares[a].fract()));
    let mut left = total - degrees.iter().map(|&degree| u64::from(degree)).sum::<u64>();
    for l in order {
        if left > 0 && degrees[l] < most {
            degrees[l] += 1;
            left -= 1;
        }
    }
    debug_assert_eq!(left, 0, "the fractions of shares that sum to {total} are worth fewer than their number");
    degrees
}
