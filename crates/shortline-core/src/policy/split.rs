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
use crate::alias::Alias;
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
        let shares = self.shares.of(job_type);
        if shares.is_empty() {
            return state.uniform(job_type, rng);
        }
        let first = draw(shares, rng);
        if state.is_up(first) { Some(first) } else { one_that_is_up(state, job_type, shares, rng) }
    }
}

#[inline(always)]
fn draw<R: Rng>(shares: &Alias, rng: &mut R) -> ServerId {
    ServerId::new(shares.draw(rng.next_u64()) as usize)
}

#[cold]
fn one_that_is_up<R: Rng>(state: &State, job_type: JobTypeId, shares: &Alias, rng: &mut R) -> Option<ServerId> {
    let again = (1..MOST_DRAWS).map(|_| draw(shares, rng)).find(|&server| state.is_up(server));
    again.or_else(|| walk(state, shares, rng)).or_else(|| state.uniform(job_type, rng))
}

/// Draws among the servers that are up by the probabilities in the table; `None` if no server with a share is up.
fn walk<R: Rng>(state: &State, shares: &Alias, rng: &mut R) -> Option<ServerId> {
    let outcomes = || {
        let weights = shares.parts().map(|(server, width)| (ServerId::new(server as usize), width as f64));
        weights.filter(|&(server, weight)| weight > 0.0 && state.is_up(server))
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
    /// Servers, by distribution.
    tables: Vec<Alias>,
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
        Ok(Self { distribution_of, tables: distributions.iter().map(|distribution| table(distribution)).collect() })
    }

    /// Number of job types.
    #[must_use]
    pub fn job_type_count(&self) -> usize {
        self.distribution_of.len()
    }

    #[inline]
    fn of(&self, job_type: JobTypeId) -> &Alias {
        &self.tables[self.distribution_of[job_type.index()] as usize]
    }
}

/// The table of these servers.
fn table(shares: &[(ServerId, f64)]) -> Alias {
    let weights: Vec<f64> = shares.iter().map(|&(_, share)| share).collect();
    let id = |server: ServerId| u32::try_from(server.index()).expect("a server id has 32 bits");
    Alias::new(&weights).rename(|i| id(shares[i as usize].0))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_the_law_of_its_shares() {
        let shares = [0.5, 1e-9, 3.0, 0.125, 0.125, 1e3].map(|share| (ServerId::new((share * 8.0) as usize), share));
        let total: f64 = shares.iter().map(|(_, share)| share).sum();
        let table = table(&shares);
        for server in shares.iter().map(|&(server, _)| server) {
            let wanted: f64 = shares.iter().filter(|(other, _)| *other == server).map(|(_, share)| share / total).sum();
            let widths = table.parts().filter(|&(outcome, _)| outcome as usize == server.index());
            let probability = widths.map(|(_, width)| width as f64 / 2_f64.powi(64)).sum::<f64>() / shares.len() as f64;
            assert!((probability - wanted).abs() < 1e-15, "{server:?}: {probability} instead of {wanted}");
        }
    }
}
