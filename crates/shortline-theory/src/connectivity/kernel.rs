//! Weights on the edges, and what their spectrum proves about cut-off job types.
//!
//! A *kernel* is any weight `K_lr >= 0` on the edges, of sum 1. Its row sums `q_l` are a law on ports, its column sums
//! `nu_r` a law on servers, and `S = diag(q)^(-1/2) K diag(nu)^(-1/2)` has largest singular value 1, with singular
//! vectors `sqrt q` and `sqrt nu`. Let `phi` be the **second** one. For a set `I` of at least `e` servers, `nu(I) >= v`,
//! the sum of the `e` smallest `nu_r`; and the ports `J` that `I` cuts off have
//!
//! `q(J) <= x / (1 + x)`, `x = phi^2 (1 - v) / v`.
//!
//! Proof. `h = (K 1_I)_l / q_l` has `q`-mean `nu(I)`, and `sum q (h - nu(I))^2 = |S sqrt(nu) (1_I - nu(I))|^2 <=
//! phi^2 nu(I) (1 - nu(I))`, since that vector is orthogonal to `sqrt nu`. On `J`, `h = 0`; elsewhere its mean is
//! `nu(I) / (1 - q(J))`: the variance is at least `nu(I)^2 q(J) / (1 - q(J))`. Divide. QED (It is Haemers' bound on
//! independent sets, 1979, with weights.)
//!
//! What counts are arrival shares `p`, not `q`. Where the two differ, `p(J)` is at most the fractional knapsack: the
//! ports with the largest `p_l / q_l` until their `q` add up to `x / (1 + x)`. A port of weight 0 is thereby given up:
//! its share is added, and it does not weaken the bound for the others.

use super::spectrum::largest_eigenvalue_bound;
use super::subgraph::Subgraph;

/// Rounds of Sinkhorn's iteration; twice as many changed bounds by less than 1e-4 in trials.
const ROUNDS: usize = 50;
/// Most by which a server's column sum is raised over that of an even spread; best of 0.7 to 3 on random graphs.
const STRETCH: f64 = 2.0;
/// Added to every singular value for rounding in `K`, `q` and `nu`, which are right to about 1e-15.
const ROUNDING: f64 = 1e-10;

/// Weights by edge of a [`Subgraph`], for all servers of the group together; their sum is 1.
#[derive(Clone, Debug)]
pub(crate) struct Kernel {
    weights: Vec<f64>,
    /// `q_l`.
    port_law: Vec<f64>,
    /// `nu`, by group.
    group_law: Vec<f64>,
}

impl Kernel {
    fn new(sub: &Subgraph, weight: &[f64], factors: &[f64]) -> Option<Self> {
        let total: f64 = weight.iter().sum();
        let mut weights = Vec::with_capacity(sub.graph.edge_count());
        let mut group_law = vec![0.0; sub.members.len()];
        let mut port_law = vec![0.0; sub.shares.len()];
        for (port, mass) in port_law.iter_mut().enumerate() {
            each_part(sub, port, weight[port] / total, factors, |group, part| {
                weights.push(part);
                group_law[group] += part;
                *mass += part;
            });
        }
        let sum: f64 = port_law.iter().sum();
        ((sum - 1.0).abs() < ROUNDING).then_some(Self { weights, port_law, group_law })
    }

    /// Each port spreads its weight `q_l` over its servers in proportion to factors by server, which Sinkhorn's iteration
    /// (1967) drives towards given column sums: equal ones, which make `v` largest, `e/n`, but for servers whose
    /// column sum under an even spread is far below the mean. Those get at most [`STRETCH`] times that: a server with few
    /// edges that carry much has a large singular value of its own. Where no flow attains the column sums this stops at
    /// some other kernel, and any is valid. `None` if all weights are 0.
    pub(crate) fn balanced(sub: &Subgraph, weight: &[f64]) -> Option<Self> {
        let mut factors = vec![1.0; sub.members.len()];
        let even = loads(sub, weight, &factors);
        let mean = even.iter().sum::<f64>() / sub.servers as f64;
        let mut targets: Vec<f64> =
            even.iter().enumerate().map(|(g, load)| (mean * sub.size(g)).min(STRETCH * load)).collect();
        let scale = even.iter().sum::<f64>() / targets.iter().sum::<f64>();
        targets.iter_mut().for_each(|target| *target *= scale);
        for _ in 0..ROUNDS {
            let loads = loads(sub, weight, &factors);
            for ((factor, load), target) in factors.iter_mut().zip(loads).zip(&targets) {
                if load > 0.0 {
                    *factor *= target / load;
                }
            }
        }
        Self::new(sub, weight, &factors)
    }

    /// An upper bound on `phi^2`.
    pub(crate) fn second_singular_value_squared(&self, sub: &Subgraph) -> f64 {
        let root: Vec<f64> = self.group_law.iter().map(|nu| nu.sqrt()).collect();
        let inverse = |mass: f64| if mass > 0.0 { 1.0 / mass.sqrt() } else { 0.0 };
        let by_group: Vec<f64> = self.group_law.iter().map(|&nu| inverse(nu)).collect();
        let mut entries = self.weights.clone();
        for (port, &mass) in self.port_law.iter().enumerate() {
            for (entry, &group) in entries[sub.graph.edges(port)].iter_mut().zip(sub.graph.row(port)) {
                *entry *= inverse(mass) * by_group[group as usize];
            }
        }
        // S^T S - sqrt(nu) sqrt(nu)^T: the singular pair of the value 1 is taken out.
        let bound = largest_eigenvalue_bound(root.len(), entries.len(), |x, y| {
            let mean: f64 = root.iter().zip(x).map(|(w, x)| w * x).sum();
            y.iter_mut().zip(&root).for_each(|(y, w)| *y = -w * mean);
            for port in 0..self.port_law.len() {
                let (entries, row) = (&entries[sub.graph.edges(port)], sub.graph.row(port));
                let image: f64 = entries.iter().zip(row).map(|(s, &g)| s * x[g as usize]).sum();
                entries.iter().zip(row).for_each(|(s, &g)| y[g as usize] += s * image);
            }
        });
        (bound + ROUNDING).min(1.0)
    }

    /// Upper bounds on the share of the arrivals that sets of `e = 0..=n` servers cut off, unreachable ones included,
    /// given an upper bound on `phi^2`; 1 is one.
    pub(crate) fn profile(&self, sub: &Subgraph, phi: f64) -> Vec<f64> {
        let knapsack = Knapsack::new(&sub.shares, &self.port_law);
        let mut groups: Vec<(f64, usize)> = self
            .group_law
            .iter()
            .zip(&sub.members)
            .map(|(nu, servers)| (nu / servers.len() as f64, servers.len()))
            .collect();
        groups.sort_by(|a, b| a.0.total_cmp(&b.0));
        let bound = |v: f64| {
            let x = phi * (1.0 - v);
            sub.unreachable + knapsack.largest(if x + v > 0.0 { x / (x + v) } else { 1.0 })
        };
        let mut v = 0.0;
        let mut profile = vec![bound(v)];
        for (each, count) in groups {
            for k in 1..=count {
                profile.push(bound((v + k as f64 * each).min(1.0)));
            }
            v += count as f64 * each;
        }
        profile
    }
}

/// Calls `visit` with each group of a port and its part of `weight`, in proportion to `servers * factor`.
fn each_part(sub: &Subgraph, port: usize, weight: f64, factors: &[f64], mut visit: impl FnMut(usize, f64)) {
    let part = |&g: &u32| sub.size(g as usize) * factors[g as usize];
    let row = sub.graph.row(port);
    let scale = weight / row.iter().map(part).sum::<f64>();
    row.iter().for_each(|g| visit(*g as usize, scale * part(g)));
}

/// Column sums by group.
fn loads(sub: &Subgraph, weight: &[f64], factors: &[f64]) -> Vec<f64> {
    let mut loads = vec![0.0; sub.members.len()];
    for (port, &weight) in weight.iter().enumerate() {
        each_part(sub, port, weight, factors, |group, part| loads[group] += part);
    }
    loads
}

/// The most arrivals in ports of a given weight.
struct Knapsack {
    /// Running sums of `q` and of `p`, over the ports from the largest `p/q` down.
    sums: Vec<(f64, f64)>,
}

impl Knapsack {
    fn new(shares: &[f64], law: &[f64]) -> Self {
        let mut ports: Vec<(f64, f64)> = law.iter().copied().zip(shares.iter().copied()).collect();
        // A weight of 0 gives an infinite ratio and comes first.
        ports.sort_by(|a, b| (b.1 / b.0).total_cmp(&(a.1 / a.0)));
        let (mut q, mut p) = (0.0, 0.0);
        let mut sums = vec![(0.0, 0.0)];
        for (weight, share) in ports {
            q += weight;
            p += share;
            sums.push((q, p));
        }
        Self { sums }
    }

    /// Largest `p(J)` with `q(J) <= weight`, items divisible.
    fn largest(&self, weight: f64) -> f64 {
        let at = self.sums.partition_point(|&(q, _)| q <= weight);
        let (q, p) = self.sums[at - 1];
        self.sums.get(at).map_or(p, |&(next_q, next_p)| p + (next_p - p) * (weight - q) / (next_q - q))
    }
}

#[cfg(test)]
mod tests {
    use super::super::exact::Exact;
    use super::super::subgraph::random;
    use super::*;

    /// Kernels of a graph: balanced for the shares, and for weights that have nothing to do with them.
    fn kernels(sub: &Subgraph) -> [Kernel; 2] {
        let odd: Vec<f64> = (0..sub.shares.len()).map(|port| if port % 3 == 2 { 0.0 } else { 1.0 }).collect();
        [&sub.shares, &odd].map(|weight| Kernel::balanced(sub, weight).expect("weights are not all 0"))
    }

    /// How often bounds lie below `delta`, over random graphs, all of their kernels and all `e`.
    fn violations(bounds: impl Fn(&Subgraph, &Kernel) -> Vec<f64>) -> (usize, usize) {
        let (mut violations, mut cases) = (0, 0);
        for seed in 0..400 {
            let sub = random(seed, 10, 10);
            let exact = Exact::new(&sub).expect("10 groups are few");
            for kernel in kernels(&sub) {
                let bounds = bounds(&sub, &kernel);
                assert_eq!(bounds.len(), exact.delta.len());
                cases += bounds.len() - 1;
                violations += (1..bounds.len()).filter(|&e| bounds[e] < exact.delta[e] - 1e-11).count();
            }
        }
        (violations, cases)
    }

    /// The second singular value squared, as it is to be.
    fn phi(sub: &Subgraph, kernel: &Kernel) -> f64 {
        kernel.second_singular_value_squared(sub)
    }

    #[test]
    fn every_kernel_bounds_delta() {
        let (violations, cases) = violations(|sub, kernel| kernel.profile(sub, phi(sub, kernel)));
        assert!(violations == 0 && cases > 3_000, "{violations} of {cases}");
    }

    #[test]
    fn wrong_forms_are_caught() {
        // v as the sum of the e largest nu.
        let largest = |sub: &Subgraph, kernel: &Kernel| {
            let mut wrong = kernel.clone();
            let mut each: Vec<f64> = wrong.group_law.clone();
            each.sort_by(|a, b| b.total_cmp(a));
            // All groups are single servers: prefix sums from the top instead of from the bottom.
            let knapsack = Knapsack::new(&sub.shares, &wrong.port_law);
            wrong.group_law = each;
            let phi = phi(sub, kernel);
            let mut v = 0.0;
            let tops = wrong.group_law.iter().map(|nu| {
                v += nu;
                let x = phi * (1.0 - v).max(0.0);
                sub.unreachable + knapsack.largest(x / (x + v))
            });
            std::iter::once(1.0).chain(tops).collect()
        };
        let too_small = |sub: &Subgraph, kernel: &Kernel| kernel.profile(sub, 0.8 * phi(sub, kernel));
        let forgets = |sub: &Subgraph, kernel: &Kernel| {
            kernel.profile(sub, phi(sub, kernel)).into_iter().map(|bound| bound - sub.unreachable).collect()
        };
        let in_q = |sub: &Subgraph, kernel: &Kernel| {
            let mut wrong = sub.clone();
            wrong.shares = kernel.port_law.iter().map(|q| q * sub.reachable()).collect();
            kernel.profile(&wrong, phi(sub, kernel))
        };
        for (name, (violations, cases)) in [
            ("the e largest", violations(largest)),
            ("a singular value too small", violations(too_small)),
            ("without the unreachable", violations(forgets)),
            ("port weights for arrival shares", violations(in_q)),
        ] {
            assert!(violations > 10, "{name}: {violations} of {cases}");
        }
    }

    #[test]
    fn the_singular_value_is_right_where_it_is_known() {
        // Two ports, each spread evenly over its two of three servers: S S^T has rows (3/4, 1/4), so phi^2 is 1/2.
        let graph = crate::max_flow::Bipartite::new(vec![0, 2, 4], vec![0, 1, 1, 2], 3);
        let members = (0..3).map(|r| vec![shortline_core::ServerId::new(r)]).collect();
        let sub = Subgraph { shares: vec![0.5, 0.5], unreachable: 0.0, members, graph, servers: 3 };
        let kernel = Kernel::new(&sub, &sub.shares, &[1.0; 3]).expect("weights are not all 0");
        let phi = phi(&sub, &kernel);
        assert!((0.5..0.52).contains(&phi), "{phi}");
    }
}
