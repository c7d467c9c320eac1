//! Bernoulli graphs: pairs are edges independently of each other.
//!
//! With one probability for all pairs (`kind = "bernoulli"`), one per job type ([`bernoulli_by_job_type`]) or one per
//! pair ([`bernoulli_by_pair`]). Non-edges are [skipped](super::skip): O(edges + job types) time. Degrees are binomial,
//! so a job type may be left without a server; the report counts those.

use rand::Rng;

use super::row_writer::RowWriter;
use super::skip::{Skip, threshold};
use super::{Demand, GenerateError, rng};
use crate::graph::{EdgeProbability, Edges};
use crate::random::Generator;

/// One probability for all pairs.
pub(super) fn equal(
    edges: &EdgeProbability,
    servers: u32,
    job_types: u32,
    rng: &mut Generator,
) -> Result<Edges, GenerateError> {
    let p = probability(edges, servers)?;
    if p >= 1.0 {
        return Ok(Edges::Complete);
    }
    // All pairs are one long row of trials, job type by job type.
    let pairs = u64::from(servers) * u64::from(job_types);
    let mut rows = RowWriter::new(p * pairs as f64, job_types as usize)?;
    if p > 0.0 {
        let (skip, mut next, mut row_start) = (Skip::new(p, pairs), 0, 0);
        while let Some(pair) = skip.success(next, pairs, rng) {
            while pair - row_start >= u64::from(servers) {
                row_start += u64::from(servers);
                rows.end_row();
            }
            rows.push((pair - row_start) as u32);
            next = pair + 1;
        }
    }
    Ok(rows.finish())
}

fn probability(edges: &EdgeProbability, servers: u32) -> Result<f64, GenerateError> {
    let out_of_range = |field, value, most: String| {
        Err(GenerateError::OutOfRange { field, value, range: format!("between 0 and {most}") })
    };
    match *edges {
        EdgeProbability::Each(p) if (0.0..=1.0).contains(&p) => Ok(p),
        EdgeProbability::Each(p) => out_of_range("probability", p, "1".to_owned()),
        EdgeProbability::MeanDegree(degree) if (0.0..=f64::from(servers)).contains(&degree) => {
            Ok(degree / f64::from(servers.max(1)))
        }
        EdgeProbability::MeanDegree(degree) => {
            out_of_range("degree", degree, format!("{servers}, the number of servers"))
        }
    }
}

/// A graph in which job type `l` has each server independently with probability `probabilities[l]`.
///
/// ```
/// use shortline_core::graph::generate::{GraphReport, bernoulli_by_job_type};
/// let edges = bernoulli_by_job_type(&[0.0, 1.0, 0.5], 1000, 7)?;
/// assert_eq!(edges.row(0).map(<[u32]>::len), Some(0));
/// assert_eq!(edges.row(1).map(<[u32]>::len), Some(1000));
/// assert!(edges.row(2).is_some_and(|row| (400..600).contains(&row.len())));
/// # Ok::<(), shortline_core::graph::generate::GenerateError>(())
/// ```
///
/// # Errors
/// [`GenerateError::Probability`] for a number outside `[0, 1]`, and [`GenerateError::TooManyEdges`].
pub fn bernoulli_by_job_type(probabilities: &[f64], servers: usize, seed: u64) -> Result<Edges, GenerateError> {
    by_row(probabilities, servers, &mut rng(seed), |_, _, _| Ok(true))
}

/// A graph in which job type `l` has server `r` with probability `probability(l, r)`, independently.
///
/// `bounds[l]` is an upper bound on the probabilities of job type `l` (1.0 always is); the cost is the sum of the
/// bounds times the number of servers, so close bounds make sparse graphs cheap. Candidates are drawn at the bound and
/// kept in proportion.
///
/// ```
/// use shortline_core::graph::generate::bernoulli_by_pair;
/// // Job type 0 on even servers only, each with probability 1.
/// let edges = bernoulli_by_pair(&[1.0], 6, |_, server| f64::from((server + 1) % 2), 7)?;
/// assert_eq!(edges.row(0), Some(&[0, 2, 4][..]));
/// # Ok::<(), shortline_core::graph::generate::GenerateError>(())
/// ```
///
/// # Errors
/// [`GenerateError::Probability`] for a bound outside `[0, 1]` or a probability outside `[0, bound]` among those that
/// are asked for, and [`GenerateError::TooManyEdges`].
pub fn bernoulli_by_pair(
    bounds: &[f64],
    servers: usize,
    probability: impl Fn(usize, u32) -> f64,
    seed: u64,
) -> Result<Edges, GenerateError> {
    by_row(bounds, servers, &mut rng(seed), |rng, l, server| {
        let (p, most) = (probability(l, server), bounds[l]);
        if !(0.0..=most).contains(&p) {
            return Err(GenerateError::Probability { job_type: l, server: Some(server), probability: p, most });
        }
        Ok(p >= most || rng.next_u64() < threshold(p / most))
    })
}

/// Candidates with a probability per row, kept if `keep` says so.
fn by_row(
    probabilities: &[f64],
    servers: usize,
    rng: &mut Generator,
    keep: impl Fn(&mut Generator, usize, u32) -> Result<bool, GenerateError>,
) -> Result<Edges, GenerateError> {
    let (servers, _) = Demand::of_size(servers, probabilities.len()).checked_size()?;
    if let Some(l) = probabilities.iter().position(|p| !(0.0..=1.0).contains(p)) {
        return Err(GenerateError::Probability { job_type: l, server: None, probability: probabilities[l], most: 1.0 });
    }
    let expected = probabilities.iter().sum::<f64>() * f64::from(servers);
    let mut rows = RowWriter::new(expected, probabilities.len())?;
    for (l, &p) in probabilities.iter().enumerate() {
        if p > 0.0 {
            let (skip, mut next) = (Skip::new(p, servers.into()), 0);
            while let Some(server) = skip.success(next, servers.into(), rng) {
                if keep(rng, l, server as u32)? {
                    rows.push(server as u32);
                }
                next = server + 1;
            }
        }
        rows.end_row();
    }
    Ok(rows.finish())
}
