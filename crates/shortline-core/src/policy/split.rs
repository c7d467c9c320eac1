//! `split`: each job type is divided over its servers in fixed shares, whatever the queues.
//!
//! A server is drawn with its share; no place if it is full. The baseline of static load balancing: with the shares of
//! the flow that attains the largest load factor `s*`, no server is busier than `1/s*`. Where the shares come from is
//! not this crate's business: a fleet brings them along ([`Fleet::with_split_shares`]), and `shortline-theory` computes
//! them.
//!
//! **Down servers.** Shares are renormalised over the servers that are up. If no server with a share is up, the job goes
//! to a uniformly random compatible server that is.
//!
//! **Cost.** One word of randomness and one cell of an alias table (Walker, 1977; Vose, 1991). While servers are down,
//! draws are repeated until one is up, at most [`MOST_DRAWS`] times; then the table is walked, O(servers of the type).

use std::collections::BTreeSet;
use std::sync::Arc;

use rand::Rng;

use super::Policy;
use crate::fleet::Fleet;
use crate::ids::{JobTypeId, ServerId};
use crate::state::State;

/// Draws before the table is walked: by then it is likely that the servers that are up have small shares.
const MOST_DRAWS: usize = 32;

/// A server drawn with fixed shares.
#[derive(Clone, Debug)]
pub struct Split {
    shares: Arc<SplitShares>,
}

impl Split {
    /// The policy with these shares.
    #[must_use]
    pub fn new(shares: Arc<SplitShares>) -> Self {
        Self { shares }
    }
}

impl Policy for Split {
    #[inline]
    fn choose<R: Rng>(&mut self, state: &State, job_type: JobTypeId, rng: &mut R) -> Option<ServerId> {
        let cells = self.shares.cells_of(job_type);
        if cells.is_empty() {
            return state.uniform(job_type, rng);
        }
        let first = draw(cells, rng.next_u64());
        if state.is_up(first) { Some(first) } else { one_that_is_up(state, job_type, cells, rng) }
    }
}

#[cold]
fn one_that_is_up<R: Rng>(state: &State, job_type: JobTypeId, cells: &[Cell], rng: &mut R) -> Option<ServerId> {
    let again = (1..MOST_DRAWS).map(|_| draw(cells, rng.next_u64())).find(|&server| state.is_up(server));
    again.or_else(|| walk(state, cells, rng)).or_else(|| state.uniform(job_type, rng))
}

/// Draws among the servers that are up by the probabilities in the cells; `None` if no server with a share is up.
fn walk<R: Rng>(state: &State, cells: &[Cell], rng: &mut R) -> Option<ServerId> {
    let outcomes = || {
        let halves = |cell: &Cell| {
            let own = cell.threshold as f64;
            [(cell.own, own), (cell.other, u64::MAX as f64 - own)]
        };
        cells.iter().flat_map(halves).filter(|&(server, weight)| weight > 0.0 && state.is_up(server))
    };
    let total: f64 = outcomes().map(|(_, weight)| weight).sum();
    let mut left = unit(rng) * total;
    let mut last = None;
    for (server, weight) in outcomes() {
        last = Some(server);
        left -= weight;
        if left < 0.0 {
            break;
        }
    }
    last
}

/// A uniform number in [0, 1).
fn unit<R: Rng>(rng: &mut R) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

/// Which share of each job type goes to each of its servers, as tables to draw from. 16 bytes per server of each
/// different distribution.
#[derive(Clone, Debug)]
pub struct SplitShares {
    /// Distribution by job type.
    distribution_of: Vec<u32>,
    /// Cells by distribution.
    starts: Vec<usize>,
    cells: Vec<Cell>,
}

#[derive(Clone, Copy, Debug)]
struct Cell {
    /// Low halves of the draw below this take `own`.
    threshold: u64,
    own: ServerId,
    other: ServerId,
}

/// Why shares cannot be used with a fleet.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum SplitSharesError {
    /// Not one distribution per job type.
    #[error("there are distributions for {given} job types, and the fleet has {job_types}; give one each")]
    Count {
        /// Job types with a distribution.
        given: usize,
        /// Job types of the fleet.
        job_types: usize,
    },
    /// A distribution that was not given.
    #[error("distribution {distribution} of job type `{job_type}` does not exist; there are {count}")]
    Dangling {
        /// The job type.
        job_type: String,
        /// Its distribution.
        distribution: u32,
        /// How many there are.
        count: usize,
    },
    /// A share that is none.
    #[error("the share of `{job_type}` at `{server}` is {share}, must be positive and finite")]
    Share {
        /// The job type.
        job_type: String,
        /// The server.
        server: String,
        /// Its share.
        share: f64,
    },
    /// A share at a server that does not hold the job type.
    #[error("`{server}` has a share of `{job_type}` and does not hold it; shares go to compatible servers")]
    Incompatible {
        /// The job type.
        job_type: String,
        /// The server.
        server: String,
    },
}

impl SplitShares {
    /// Job type `l` is divided by the shares `distributions[distribution_of[l]]`: servers and positive weights, which
    /// need not add up to 1. A job type with an empty distribution goes to uniformly random compatible servers.
    ///
    /// O(servers in all distributions, with their compatibility checked once per distribution and row of the graph).
    ///
    /// # Errors
    /// [`SplitSharesError`] naming the job type and the server at fault.
    pub fn new(
        fleet: &Fleet,
        distribution_of: Vec<u32>,
        distributions: &[Vec<(ServerId, f64)>],
    ) -> Result<Self, SplitSharesError> {
        check(fleet, &distribution_of, distributions)?;
        let mut shares = Self { distribution_of, starts: vec![0], cells: Vec::new() };
        for distribution in distributions {
            shares.cells.extend(table(distribution));
            shares.starts.push(shares.cells.len());
        }
        Ok(shares)
    }

    /// Number of job types.
    #[must_use]
    pub fn job_type_count(&self) -> usize {
        self.distribution_of.len()
    }

    #[inline]
    fn cells_of(&self, job_type: JobTypeId) -> &[Cell] {
        let distribution = self.distribution_of[job_type.index()] as usize;
        &self.cells[self.starts[distribution]..self.starts[distribution + 1]]
    }
}

fn check(
    fleet: &Fleet,
    distribution_of: &[u32],
    distributions: &[Vec<(ServerId, f64)>],
) -> Result<(), SplitSharesError> {
    if distribution_of.len() != fleet.job_type_count() {
        return Err(SplitSharesError::Count { given: distribution_of.len(), job_types: fleet.job_type_count() });
    }
    let mut seen = BTreeSet::new();
    for (l, &distribution) in fleet.job_types().zip(distribution_of) {
        let name = || fleet.job_type_name(l);
        let Some(shares) = distributions.get(distribution as usize) else {
            return Err(SplitSharesError::Dangling { job_type: name(), distribution, count: distributions.len() });
        };
        if !seen.insert((fleet.graph().row_number(l.index()), distribution)) {
            continue;
        }
        for &(server, share) in shares {
            if !(share > 0.0 && share.is_finite()) {
                return Err(SplitSharesError::Share { job_type: name(), server: fleet.server_name(server), share });
            }
            if !fleet.graph().contains(l.index(), server) {
                return Err(SplitSharesError::Incompatible { job_type: name(), server: fleet.server_name(server) });
            }
        }
    }
    Ok(())
}

/// The server of a uniformly random word: the high half of its product with the number of cells is the cell, the low
/// half the coin.
#[inline(always)]
fn draw(cells: &[Cell], word: u64) -> ServerId {
    let product = u128::from(word) * cells.len() as u128;
    let cell = &cells[(product >> 64) as usize];
    if (product as u64) < cell.threshold { cell.own } else { cell.other }
}

/// An alias table: a light outcome shares its cell with a heavy one, so that all cells are equally likely.
fn table(shares: &[(ServerId, f64)]) -> Vec<Cell> {
    let n = shares.len();
    let total: f64 = shares.iter().map(|(_, share)| share).sum();
    let mut rest: Vec<f64> = shares.iter().map(|(_, share)| share / total * n as f64).collect();
    let whole = |&(server, _): &(ServerId, f64)| Cell { threshold: u64::MAX, own: server, other: server };
    let mut cells: Vec<Cell> = shares.iter().map(whole).collect();
    let (mut light, mut heavy): (Vec<usize>, Vec<usize>) = (0..n).partition(|&i| rest[i] < 1.0);
    while let (Some(small), Some(&large)) = (light.pop(), heavy.last()) {
        cells[small].threshold = (rest[small] * 2_f64.powi(64)) as u64;
        cells[small].other = shares[large].0;
        rest[large] -= 1.0 - rest[small];
        if rest[large] < 1.0 {
            heavy.pop();
            light.push(large);
        }
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_the_law_of_its_shares() {
        let shares = [0.5, 1e-9, 3.0, 0.125, 0.125, 1e3].map(|share| (ServerId::new((share * 8.0) as usize), share));
        let total: f64 = shares.iter().map(|(_, share)| share).sum();
        let cells = table(&shares);
        for server in shares.iter().map(|&(server, _)| server) {
            let wanted: f64 = shares.iter().filter(|(other, _)| *other == server).map(|(_, share)| share / total).sum();
            let of = |cell: &Cell| {
                let own = cell.threshold as f64 / 2_f64.powi(64);
                f64::from(u8::from(cell.own == server)) * own + f64::from(u8::from(cell.other == server)) * (1.0 - own)
            };
            let probability = cells.iter().map(of).sum::<f64>() / cells.len() as f64;
            assert!((probability - wanted).abs() < 1e-15, "{server:?}: {probability} instead of {wanted}");
        }
    }
}
