//! Well-connected graphs: whichever servers are busy but for a few, almost all arrivals find one of the few.
//!
//! Random graphs for which `delta_m(e) <= delta` for **every** m from K to M at once, with the given confidence. K is the
//! least number of fastest classes whose servers can carry all arrivals, `g_K > Lambda` (M, all classes, if the fleet is
//! overloaded). Each m has a [`Design`] of its own with an equal part of the failure probability. A pair of a job type and
//! a server is an edge with the largest of the probabilities that the designs with this server in `R_m` ask for: servers
//! of the K fastest classes take part in all designs, those of class m > K in the designs from m on. More edges than a
//! design asks for never hurt it. Cost: O(edges + job types * (M - K + 1)), besides sorting.

use super::design::Shares;
use super::error::check_share;
use super::row_writer::RowWriter;
use super::skip::Skip;
use super::{Demand, Design, GenerateError, SpeedClass};
use crate::graph::{Edges, LeftOut};
use crate::random::Generator;

/// What is asked for.
pub(super) struct Target<'a> {
    pub(super) delta: f64,
    pub(super) left_out: &'a LeftOut,
    pub(super) confidence: f64,
}

/// What a well-connected graph was drawn with, and what that guarantees.
#[derive(Clone, PartialEq, Debug)]
pub struct WellConnectedReport {
    /// One design per m = K, ..., M.
    pub designs: Vec<Design>,
    /// Probability that the guarantees of all designs hold together, at least.
    pub confidence: f64,
    /// Expected number of edges.
    pub expected_edges: f64,
    /// Smallest probability used for any pair.
    pub least_probability: f64,
    /// Largest probability used for any pair.
    pub largest_probability: f64,
}

impl WellConnectedReport {
    /// The probability with which a job type of this share of the arrivals was joined to each server of a class.
    ///
    /// `class` counts the speed classes from 0, the fastest.
    ///
    /// # Panics
    /// If there is no such class.
    #[must_use]
    pub fn probability(&self, class: usize, share: f64) -> f64 {
        let fastest = self.designs[0].fastest_types;
        probability(&self.designs[(class + 1).saturating_sub(fastest)..], share)
    }
}

/// The largest probability that any of these designs asks for.
fn probability(designs: &[Design], share: f64) -> f64 {
    designs.iter().map(|design| design.probability(share)).reduce(f64::max).expect("a server is in some design")
}

pub(super) fn generate(
    target: &Target<'_>,
    demand: &Demand<'_>,
    rng: &mut Generator,
) -> Result<(Edges, WellConnectedReport), GenerateError> {
    check_share("delta", target.delta)?;
    check_share("confidence", target.confidence)?;
    let rates = demand.checked_arrival_rates()?;
    let classes = demand.checked_speed_classes()?;
    let total: f64 = rates.iter().sum();
    if total <= 0.0 {
        return Err(GenerateError::NoArrivalRates);
    }
    let shares: Vec<f64> = rates.iter().map(|rate| rate / total).collect();
    let groups = groups(classes, total);
    let mut designs = designs(target, &groups, classes.len(), &Shares::new(&shares))?;
    for i in 0..designs.len() {
        designs[i].delta = designs[i].guaranteed(&shares, |share| probability(&designs[i..], share));
    }
    draw(&shares, &groups, designs, target.confidence, rng)
}

/// The servers of the K fastest classes, then those of each further class; ascending.
fn groups(classes: &[SpeedClass<'_>], arrival_rate: f64) -> Vec<Vec<u32>> {
    let mut capacity = 0.0;
    let carries = |class: &SpeedClass<'_>| {
        capacity += class.rate_per_s * class.servers.len() as f64;
        capacity > arrival_rate
    };
    let k = classes.iter().position(carries).map_or(classes.len(), |last| last + 1);
    let mut groups = vec![classes[..k].iter().flat_map(|class| class.servers).copied().collect::<Vec<u32>>()];
    groups.extend(classes[k..].iter().map(|class| class.servers.to_vec()));
    groups.iter_mut().for_each(|group| group.sort_unstable());
    groups
}

fn designs(
    target: &Target<'_>,
    groups: &[Vec<u32>],
    class_count: usize,
    shares: &Shares,
) -> Result<Vec<Design>, GenerateError> {
    let s = (groups.len() as f64).ln() - (-target.confidence).ln_1p();
    let mut servers = 0;
    let mut designs = Vec::with_capacity(groups.len());
    for (i, group) in groups.iter().enumerate() {
        servers += group.len();
        let fastest_types = class_count + 1 + i - groups.len();
        let left_out = servers_left_out(target.left_out, fastest_types, servers)?;
        designs.push(Design::new(fastest_types, (servers, left_out), (target.delta, s), shares));
    }
    // The last design reaches every server, so if it asks for all edges nothing is left to draw.
    let last = &designs[designs.len() - 1];
    if shares.least().is_none_or(|share| last.probability(share) >= 1.0) {
        let least_delta = last.least_delta(shares);
        return Err(GenerateError::CompleteDesign { delta: target.delta, least_delta });
    }
    Ok(designs)
}

/// The number e for a set of `servers` servers.
fn servers_left_out(left_out: &LeftOut, fastest_types: usize, servers: usize) -> Result<usize, GenerateError> {
    match *left_out {
        LeftOut::Fraction(_) if servers == 0 => Err(GenerateError::LeftOut { left_out: 1, fastest_types, servers }),
        LeftOut::Servers(e) if e >= 1 && e as usize <= servers => Ok(e as usize),
        LeftOut::Servers(left_out) => Err(GenerateError::LeftOut { left_out, fastest_types, servers }),
        // The slack undoes rounding: 0.1 of 30 servers are 3. Rounding e down asks for more, never for less.
        LeftOut::Fraction(epsilon) if epsilon > 0.0 && epsilon <= 1.0 => {
            Ok(((epsilon * servers as f64 * (1.0 - 1e-12)).ceil() as usize).max(1))
        }
        LeftOut::Fraction(value) => {
            Err(GenerateError::OutOfRange { field: "epsilon", value, range: "more than 0 and at most 1".to_owned() })
        }
    }
}

fn draw(
    shares: &[f64],
    groups: &[Vec<u32>],
    designs: Vec<Design>,
    confidence: f64,
    rng: &mut Generator,
) -> Result<(Edges, WellConnectedReport), GenerateError> {
    let (mut expected_edges, mut least_probability, mut largest_probability) = (0.0, 1.0_f64, 0.0_f64);
    for &share in shares {
        for (i, group) in groups.iter().enumerate() {
            let p = probability(&designs[i..], share);
            expected_edges += p * group.len() as f64;
            least_probability = least_probability.min(p);
            largest_probability = largest_probability.max(p);
        }
    }
    let mut rows = RowWriter::new(expected_edges, shares.len())?;
    for &share in shares {
        for (i, group) in groups.iter().enumerate() {
            let p = probability(&designs[i..], share);
            if p > 0.0 {
                let (trials, mut next) = (group.len() as u64, 0);
                let skip = Skip::new(p, trials);
                while let Some(at) = skip.success(next, trials, rng) {
                    rows.push(group[at as usize]);
                    next = at + 1;
                }
            }
        }
        rows.sort_and_end_row();
    }
    let report = WellConnectedReport { designs, confidence, expected_edges, least_probability, largest_probability };
    Ok((rows.finish(), report))
}
