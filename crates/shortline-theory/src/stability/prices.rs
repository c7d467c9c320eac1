//! `s*` from both sides, for fleets that are not of product form and too large for a linear program.
//!
//! `tau_pg = work_p / (v_pg slots_g)` is the part of the time of group `g` that all work of port `p` would take there. Both
//! sides are certified by what they consist of, whatever the method that finds them:
//!
//! * **Shares** `h_pg >= 0`, `sum_g h_pg = 1`, are a static rule that is stable up to
//!   `1 / max_g sum_p tau_pg h_pg <= s*`.
//! * **Prices** `y_g >= 0` on the time of the groups say, by weak duality, `s* <= sum_g y_g / sum_p min_g tau_pg y_g`.
//!
//! **Method.** Port after port sends all of its work where `tau_pg y_g` is least, and that price rises by the factor
//! `exp(step tau_pg s)`: a packing linear program by multiplicative prices. The shares are the means over a stage of many
//! rounds, the prices its geometric means. Stages grow and their steps shrink until the sides are within [`NARROW`] or
//! [`MOST_VISITS`] edges were looked at.
//!
//! Sources: N. Garg, J. Koenemann, "Faster and simpler algorithms for multicommodity flow and other fractional packing
//! problems" (1998); L. Fleischer, "Approximating fractional multicommodity flow independent of the number of
//! commodities" (2000), for the order of the ports.

use shortline_core::Fleet;
use shortline_core::policy::PolicySpec;

use super::policies::{self, PolicyStability};
use super::progress::{Observer, Progress};
use crate::TheoryError;
use crate::reduced::Reduced;
use crate::shares::Shares;

/// Edges looked at in all: a few seconds.
const MOST_VISITS: usize = 200_000_000;
/// Rounds of the first stage; each later one has twice as many.
const FIRST_STAGE: usize = 8;
/// Change of a price in the first stage's rounds, relative, per full use of a group's time; it falls with the square
/// root of the rounds.
const FIRST_STEP: f64 = 0.5;
/// The iteration ends once the two sides are this close, relative.
const NARROW: f64 = 2e-3;
/// Both sides are moved outwards by this for rounding in sums of positive terms.
const ROUNDING: f64 = 1e-12;

/// `at_least <= s* <= at_most`, where `s*` itself is out of reach. See [`load_factor_between`].
#[derive(Clone, Debug)]
pub struct LoadFactorBounds {
    /// Some static shares keep every server's queue finite at all factors below this; 0 if a job type that arrives is on
    /// no server.
    pub at_least: f64,
    /// No policy is stable at this factor on the arrival rates, or above.
    pub at_most: f64,
    /// The shares that prove `at_least`: under them no server is busier than `1 / at_least`. As if there were no work, if
    /// a job type that arrives is on no server.
    pub shares: Shares,
}

/// Bounds on the largest load factor of any fleet, exact or not: for those that [`analyse`](super::analyse) refuses with
/// [`TheoryError::TooLarge`]. Buffers are taken as unbounded.
///
/// Within about a percent of each other on fleets of some hundred servers; 200,000,000 edges are looked at, or 8 rounds over all
/// of them if that is more.
///
/// # Errors
/// If rates are missing or all 0, or no server holds a job type.
pub fn load_factor_between(fleet: &Fleet, observer: &mut Observer<'_>) -> Result<LoadFactorBounds, TheoryError> {
    let reduced = Reduced::new(fleet)?;
    let (at_least, at_most, shares) = if reduced.has_orphans() {
        (0.0, 0.0, vec![0.0; reduced.graph.edge_count()])
    } else {
        bracket(&reduced, observer)
    };
    Ok(LoadFactorBounds { at_least, at_most, shares: Shares::new(reduced, &shares) })
}

impl LoadFactorBounds {
    /// Whether some policy is stable; `None` if the bounds leave it open.
    #[must_use]
    pub fn is_stable(&self) -> Option<bool> {
        match () {
            () if self.at_most <= 1.0 + super::CRITICAL => Some(false),
            () if self.at_least > 1.0 + super::CRITICAL => Some(true),
            () => None,
        }
    }

    /// Stability of each of these policies on `fleet`, the fleet that the bounds are of: all are unstable if no policy is
    /// stable; else `random` is decided, and the others are not known.
    #[must_use]
    pub fn of_policies(&self, fleet: &Fleet, policies: &[PolicySpec]) -> Vec<PolicyStability> {
        policies
            .iter()
            .map(|&policy| policies::between(fleet, self.shares.reduced(), (self.at_least, self.at_most), policy))
            .collect()
    }
}

/// Lower and upper bound on `s*` of the ports that have work (all of them are on some group), and by edge the shares that
/// prove the lower one.
fn bracket(reduced: &Reduced, observer: &mut Observer<'_>) -> (f64, f64, Vec<f64>) {
    let search = Search::new(reduced);
    let mut log_prices = vec![0.0; reduced.groups.len()];
    let (mut at_least, mut at_most) = (0.0_f64, search.dual(&log_prices));
    let mut best = Vec::new();
    let (mut rounds, mut step) = (FIRST_STAGE, FIRST_STEP);
    let mut visits = 0;
    loop {
        let (shares, prices) = search.stage(&mut log_prices, rounds, step * at_most);
        let proved = search.primal(&shares);
        if proved > at_least {
            (at_least, best) = (proved, shares);
        }
        at_most = at_most.min(search.dual(&prices)).min(search.dual(&log_prices));
        observer(Progress { doing: "bounds on the largest load factor", done: rounds, of: None });
        visits += rounds * reduced.graph.edge_count();
        if at_most <= at_least * (1.0 + NARROW) || visits + 2 * rounds * reduced.graph.edge_count() > MOST_VISITS {
            return (at_least * (1.0 - ROUNDING), at_most * (1.0 + ROUNDING), best);
        }
        (rounds, step) = (2 * rounds, step / std::f64::consts::SQRT_2);
    }
}

/// `tau` by edge, of the ports that have work.
struct Search<'a> {
    reduced: &'a Reduced,
    tau: Vec<f64>,
    ports: Vec<usize>,
}

impl<'a> Search<'a> {
    fn new(reduced: &'a Reduced) -> Self {
        let tau = |p: usize, g: usize| reduced.ports[p].work / (reduced.speed(p, g) * reduced.groups[g].slots);
        let graph = &reduced.graph;
        let tau = (0..graph.port_count()).flat_map(|p| graph.row(p).iter().map(move |&g| tau(p, g as usize))).collect();
        Self { reduced, tau, ports: (0..graph.port_count()).filter(|&p| reduced.ports[p].work > 0.0).collect() }
    }

    /// The group where the port's work is cheapest, its edge and the price of the work, given prices of time.
    fn cheapest(&self, port: usize, prices: &[f64]) -> (usize, usize, f64) {
        let edges = self.reduced.graph.edges(port);
        let costs =
            edges.zip(self.reduced.graph.row(port)).map(|(e, &g)| (e, g as usize, self.tau[e] * prices[g as usize]));
        costs.min_by(|a, b| a.2.total_cmp(&b.2)).expect("a port with work is on some group")
    }

    /// Rounds of rising prices: the mean shares by edge, and the means of the logarithms of the prices.
    fn stage(&self, log_prices: &mut [f64], rounds: usize, step: f64) -> (Vec<f64>, Vec<f64>) {
        let mut shares = vec![0.0; self.tau.len()];
        let mut means = vec![0.0; log_prices.len()];
        let each = 1.0 / rounds as f64;
        for _ in 0..rounds {
            let mut prices = relative(log_prices);
            for &port in &self.ports {
                let (edge, group, _) = self.cheapest(port, &prices);
                shares[edge] += each;
                // All work of one port at one group can be many times its time; one rise is at most e-fold.
                let rise = (step * self.tau[edge]).min(1.0);
                log_prices[group] += rise;
                prices[group] *= rise.exp();
            }
            means.iter_mut().zip(&*log_prices).for_each(|(mean, price)| *mean += each * price);
        }
        (shares, means)
    }

    /// What shares prove: `1 / max_g sum_p tau_pg h_pg`.
    fn primal(&self, shares: &[f64]) -> f64 {
        let mut busy = vec![0.0; self.reduced.groups.len()];
        for &port in &self.ports {
            let edges = self.reduced.graph.edges(port);
            // They add up to 1 but for rounding, which is divided out.
            let sum: f64 = shares[edges.clone()].iter().sum();
            for (edge, &group) in edges.zip(self.reduced.graph.row(port)) {
                busy[group as usize] += self.tau[edge] * shares[edge] / sum;
            }
        }
        1.0 / busy.into_iter().fold(0.0, f64::max)
    }

    /// What prices prove: `sum_g y_g / sum_p min_g tau_pg y_g`.
    fn dual(&self, log_prices: &[f64]) -> f64 {
        let prices = relative(log_prices);
        let paid: f64 = self.ports.iter().map(|&port| self.cheapest(port, &prices).2).sum();
        prices.iter().sum::<f64>() / paid
    }
}

/// Prices over the largest of them.
fn relative(log_prices: &[f64]) -> Vec<f64> {
    let largest = log_prices.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    log_prices.iter().map(|price| (price - largest).exp()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linear_program;
    use crate::max_flow::{Bipartite, index};
    use crate::reduced::{Group, Port, Speeds};

    /// `ports` with work of 0.2 to 1.2 on `degree` (or fewer) of the groups, of unlike sizes, speeds of every pair from 0.25
    /// to 1.25, all from a linear congruence.
    fn fleet(seed: u64, ports: usize, groups: usize, degree: usize) -> Reduced {
        let mut state = seed;
        let mut draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f64 / (1_u64 << 24) as f64
        };
        let (mut starts, mut heads) = (vec![0], vec![]);
        for _ in 0..ports {
            let mut row: Vec<u32> = (0..degree).map(|_| index((draw() * groups as f64) as usize)).collect();
            row.sort_unstable();
            row.dedup();
            heads.extend(row);
            starts.push(index(heads.len()));
        }
        let server_type = shortline_core::ServerTypeId::new;
        let group = |g: usize| Group { server_type: server_type(g), servers: 1 + g % 3, slots: (1 + g % 3) as f64 };
        let works: Vec<f64> = (0..ports).map(|_| 0.2 + draw()).collect();
        Reduced {
            ports: works.iter().map(|&work| Port { work, most_work: work, least_job: 1.0 }).collect(),
            groups: (0..groups).map(group).collect(),
            graph: Bipartite::new(starts, heads, groups),
            speeds: Speeds::PerPort((0..ports).map(|_| (0..groups).map(|_| 0.25 + draw()).collect()).collect()),
            port_of: (0..ports).map(index).collect(),
            group_of: (0..groups).map(|g| Some(index(g))).collect(),
            job_types: works.iter().map(|&work| (work, 1.0)).collect(),
        }
    }

    #[test]
    fn the_bounds_enclose_the_linear_program_and_are_within_two_percent() {
        for (seed, ports, groups, degree) in
            [(1, 1, 1, 1), (2, 5, 3, 2), (3, 30, 20, 4), (4, 20, 40, 6), (5, 60, 15, 5)]
        {
            let reduced = fleet(seed, ports, groups, degree);
            let exact = linear_program::max_load_factor(&reduced).unwrap().factor;
            let (at_least, at_most, shares) = bracket(&reduced, &mut |_| ());
            assert!((Search::new(&reduced).primal(&shares) / at_least - 1.0).abs() < 1e-9, "the shares prove it");
            let found = format!("seed {seed}: {at_least} <= {exact} <= {at_most}");
            assert!(at_least <= exact * (1.0 + 1e-9) && exact <= at_most * (1.0 + 1e-9), "{found}");
            assert!(at_most <= at_least * 1.02, "{found}");
        }
    }

    #[test]
    fn any_shares_and_any_prices_are_bounds() {
        for seed in 10..40 {
            let reduced = fleet(seed, 8, 6, 3);
            let exact = linear_program::max_load_factor(&reduced).unwrap().factor;
            let search = Search::new(&reduced);
            let mut log_prices: Vec<f64> = (0..6).map(|g| f64::from(g) * 0.3).collect();
            assert!(search.dual(&log_prices) >= exact * (1.0 - 1e-9));
            let (shares, prices) = search.stage(&mut log_prices, 3, 1.0);
            assert!(search.primal(&shares) <= exact * (1.0 + 1e-9));
            assert!(search.dual(&prices) >= exact * (1.0 - 1e-9));
        }
    }
}
