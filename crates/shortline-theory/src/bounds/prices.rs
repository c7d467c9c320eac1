//! The graph bound of large fleets that are not of product form, from below: prices instead of a linear program.
//!
//! Put a price `y_g >= 0` on the busy time of each group of servers beyond what it has. By weak duality the fewest busy
//! slots that do all work are, for *every* choice of prices, at least
//!
//! `sum_p min over g of tau_pg (1 + y_g) - sum_g slots_g y_g`,
//!
//! where `tau_pg` is the number of slots of `g` that all work of port `p` would keep busy. For part of the work, `W`, the
//! first sum takes the cheapest `W` of it. So whatever the method that finds the prices, the bound holds; the better the
//! prices, the closer it comes to the program's value. `y = 0` sends each job type to its fastest server.
//!
//! **Method.** Subgradient ascent: the price of an overbooked group rises, that of an underbooked one falls, by steps
//! `~ 1 / sqrt(k)`; the best prices met are kept. A fixed number of passes over the edges, no tolerance.
//!
//! Source: N. Shor, "Minimization methods for non-differentiable functions" (1985).

use crate::reduced::Reduced;

/// Edges looked at in all; but at least [`FEWEST_ROUNDS`].
const MOST_VISITS: usize = 100_000_000;
const FEWEST_ROUNDS: usize = 100;
const MOST_ROUNDS: usize = 5_000;
/// First change of a price, relative to one slot's time, per relative overbooking.
const FIRST_STEP: f64 = 0.3;

/// What the best prices found say.
#[derive(Clone, Debug)]
pub(super) struct PricedBound {
    /// Ports by what their work costs at the prices, cheapest first: (slots per unit of work, work).
    ports: Vec<(f64, f64)>,
    /// `sum_g slots_g y_g`.
    paid: f64,
}

impl PricedBound {
    /// Ports without a server are left out.
    pub(super) fn new(reduced: &Reduced) -> Self {
        let mut prices = vec![0.0; reduced.groups.len()];
        let mut best = Self::at(reduced, &prices, &mut vec![0.0; prices.len()]);
        let rounds = (MOST_VISITS / reduced.graph.edge_count()).clamp(FEWEST_ROUNDS, MOST_ROUNDS);
        let mut busy = vec![0.0; prices.len()];
        for round in 1..=rounds {
            let now = Self::at(reduced, &prices, &mut busy);
            if now.of_all() > best.of_all() {
                best = now;
            }
            let step = FIRST_STEP / (round as f64).sqrt();
            for (g, price) in prices.iter_mut().enumerate() {
                let overbooked = busy[g] / reduced.groups[g].slots - 1.0;
                *price = (*price + step * overbooked.min(1.0)).max(0.0);
            }
        }
        best
    }

    /// The bound at these prices; `busy` becomes the slots that the cheapest choices would keep busy.
    fn at(reduced: &Reduced, prices: &[f64], busy: &mut [f64]) -> Self {
        busy.fill(0.0);
        let mut ports = Vec::new();
        for (p, port) in reduced.ports.iter().enumerate().filter(|(_, port)| port.work > 0.0) {
            let slots = |g: usize| 1.0 / reduced.speed(p, g);
            let row =
                reduced.graph.row(p).iter().map(|&g| (g as usize, slots(g as usize) * (1.0 + prices[g as usize])));
            if let Some((g, cost)) = row.min_by(|a, b| a.1.total_cmp(&b.1)) {
                busy[g] += port.work * slots(g);
                ports.push((cost, port.work));
            }
        }
        let paid = prices.iter().zip(&reduced.groups).map(|(price, group)| price * group.slots).sum();
        Self { ports, paid }.sorted()
    }

    fn sorted(mut self) -> Self {
        self.ports.sort_by(|a, b| a.0.total_cmp(&b.0));
        self
    }

    /// Busy slots that all work needs at least.
    pub(super) fn of_all(&self) -> f64 {
        (self.ports.iter().map(|(cost, work)| cost * work).sum::<f64>() - self.paid).max(0.0)
    }

    /// Busy slots that `work` of it needs at least.
    pub(super) fn of(&self, work: f64) -> f64 {
        let mut left = work;
        let mut busy = -self.paid;
        for &(cost, all) in &self.ports {
            let taken = all.min(left);
            busy += cost * taken;
            left -= taken;
        }
        busy.max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linear_program;
    use crate::max_flow::{Bipartite, index};
    use crate::reduced::{Group, Port, Speeds};

    /// `n` ports with `work` each on `degree` of `n` groups of one server, speeds of every pair from a linear congruence.
    fn fleet(n: usize, degree: usize, work: f64) -> Reduced {
        let mut state = 12_345_u64;
        let mut draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f64 / (1_u64 << 24) as f64
        };
        let row = |p: usize| (0..degree).map(move |i| index((p * 7 + i * i * 3 + i) % n));
        let rows: Vec<Vec<u32>> = (0..n)
            .map(|p| {
                let mut row: Vec<u32> = row(p).collect();
                row.sort_unstable();
                row.dedup();
                row
            })
            .collect();
        let mut starts = vec![0];
        rows.iter().for_each(|row| starts.push(starts[starts.len() - 1] + index(row.len())));
        let server_type = shortline_core::ServerTypeId::new;
        Reduced {
            ports: vec![Port { work, most_work: work, least_job: 1.0 }; n],
            groups: (0..n).map(|g| Group { server_type: server_type(g), servers: 1, slots: 1.0 }).collect(),
            graph: Bipartite::new(starts, rows.concat(), n),
            speeds: Speeds::PerPort((0..n).map(|_| (0..n).map(|_| 0.5 + 1.5 * draw()).collect()).collect()),
            port_of: (0..n).map(index).collect(),
            group_of: (0..n).map(|g| Some(index(g))).collect(),
            job_types: vec![(work, 1.0); n],
        }
    }

    #[test]
    fn prices_never_exceed_the_linear_program_and_come_within_two_percent() {
        for (n, degree, work) in [(5, 2, 0.5), (12, 3, 0.9), (30, 4, 1.1), (30, 6, 1.4), (60, 5, 1.2)] {
            let reduced = fleet(n, degree, work);
            let exact = linear_program::fewest_busy_slots(&reduced).unwrap().expect("the servers can do it");
            let found = PricedBound::new(&reduced);
            assert!(found.of_all() <= exact * (1.0 + 1e-9), "{n} {degree} {work}: {} {exact}", found.of_all());
            assert!(found.of_all() >= exact * 0.98, "{n} {degree} {work}: {} {exact}", found.of_all());
            for share in [0.2, 0.6, 1.0] {
                let part = share * work * n as f64;
                let exact = linear_program::fewest_busy_slots_for(&reduced, part).unwrap();
                assert!(
                    found.of(part) <= exact * (1.0 + 1e-6),
                    "{n} {degree} {work} {share}: {} {exact}",
                    found.of(part)
                );
            }
        }
    }
}
