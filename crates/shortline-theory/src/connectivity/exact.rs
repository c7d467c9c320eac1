//! `delta` by enumeration of the smaller side.
//!
//! With `k` groups of servers, a best `I` is a union of groups, and for all `2^k` of them the share that is cut off
//! is one *subset sum*: of the shares of the ports whose groups all lie outside. With `k` ports the roles are
//! exchanged: for each set `J` of ports, the servers that miss all of it are the groups whose ports all lie outside.
//! Both are the zeta transform of the lattice of subsets, `O(k 2^k)` (F. Yates 1937), and give all `e` at once.

use super::subgraph::Subgraph;

/// Most groups or ports (after merging, whichever are fewer) that are enumerated.
pub(crate) const LARGEST_SIDE: usize = 22;

/// `delta(e)` for `e = 0..=n`, with what attains it.
#[derive(Clone, Debug)]
pub(crate) struct Exact {
    /// `delta(e)`.
    pub(crate) delta: Vec<f64>,
    /// For each `e`, the set of the enumerated side that attains `delta(e)`.
    best: Vec<u32>,
    side: Side,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Side {
    /// Sets are `I`; bits are groups with ports, in order.
    Groups,
    /// Sets are `J`; bits are ports.
    Ports,
}

impl Exact {
    /// `None` if both sides are larger than [`LARGEST_SIDE`].
    pub(crate) fn new(sub: &Subgraph) -> Option<Self> {
        let (ports, groups) = (sub.shares.len(), serving(sub).count());
        let side = if groups <= ports { Side::Groups } else { Side::Ports };
        if groups.min(ports) > LARGEST_SIDE {
            return None;
        }
        let idle: f64 = (0..sub.members.len()).filter(|&g| sub.graph.column(g).is_empty()).map(|g| sub.size(g)).sum();
        let (own, other) = match side {
            Side::Groups => {
                let mut bit_of = vec![0; sub.members.len()];
                serving(sub).enumerate().for_each(|(bit, g)| bit_of[g] = 1_u32 << bit);
                let mask = |port: usize| sub.graph.row(port).iter().map(|&g| bit_of[g as usize]).sum();
                let own: Vec<f64> = serving(sub).map(|g| sub.size(g)).collect();
                let other: Vec<(u32, f64)> = (0..ports).map(|port| (mask(port), sub.shares[port])).collect();
                (own, other)
            }
            Side::Ports => {
                let mask = |g: usize| sub.graph.column(g).iter().map(|&(port, _)| 1_u32 << port).sum();
                let other: Vec<(u32, f64)> = serving(sub).map(|g| (mask(g), sub.size(g))).collect();
                (sub.shares.clone(), other)
            }
        };
        let inside = sums_of_subsets(own.len(), &other);
        let mut own_sum = vec![0.0; inside.len()];
        let mut delta = vec![-1.0; sub.servers + 1];
        let mut best = vec![0; sub.servers + 1];
        let all = inside.len() - 1;
        for set in 0..inside.len() {
            if set > 0 {
                own_sum[set] = own_sum[set & (set - 1)] + own[set.trailing_zeros() as usize];
            }
            let missed = inside[all ^ set];
            let (servers, share) = match side {
                Side::Groups => (own_sum[set] + idle, missed),
                Side::Ports => (missed + idle, own_sum[set]),
            };
            let e = servers.round() as usize;
            if share > delta[e] {
                delta[e] = share;
                best[e] = u32::try_from(set).expect("a side of 22 has sets of 22 bits");
            }
        }
        for e in (0..sub.servers).rev() {
            if delta[e + 1] >= delta[e] {
                (delta[e], best[e]) = (delta[e + 1], best[e + 1]);
            }
        }
        delta.iter_mut().for_each(|share| *share = (*share + sub.unreachable).min(1.0));
        delta[0] = 1.0;
        Some(Self { delta, best, side })
    }

    /// Groups of a set `I` of at least `e` servers that cuts off `delta(e)`.
    pub(crate) fn witness(&self, sub: &Subgraph, e: usize) -> Vec<usize> {
        let set = self.best[e];
        match self.side {
            Side::Groups => {
                let chosen = serving(sub).enumerate().filter(|&(bit, _)| set >> bit & 1 == 1).map(|(_, g)| g);
                chosen.chain((0..sub.members.len()).filter(|&g| sub.graph.column(g).is_empty())).collect()
            }
            Side::Ports => {
                let misses = |&g: &usize| sub.graph.column(g).iter().all(|&(port, _)| set >> port & 1 == 0);
                (0..sub.members.len()).filter(misses).collect()
            }
        }
    }
}

/// Groups with ports.
fn serving(sub: &Subgraph) -> impl Iterator<Item = usize> + '_ {
    (0..sub.members.len()).filter(|&g| !sub.graph.column(g).is_empty())
}

/// For each subset of `0..k`, the sum of the weights whose mask lies in it.
fn sums_of_subsets(k: usize, weights: &[(u32, f64)]) -> Vec<f64> {
    let mut sums = vec![0.0; 1 << k];
    for &(mask, weight) in weights {
        sums[mask as usize] += weight;
    }
    for bit in 0..k {
        for set in 0..sums.len() {
            if set >> bit & 1 == 1 {
                sums[set] += sums[set ^ (1 << bit)];
            }
        }
    }
    sums
}
