//! A set of servers that cuts off much: a lower bound on `delta(e)` that anyone can check by looking.
//!
//! Two greedy starts: servers join `I` one by one, always the one that costs the least of what is still cut off; and
//! job types join `J` one by one, always the one with most arrivals per further server, while `I`, what is outside
//! their servers, keeps `e`. From the better one a local search takes a few servers out at random, sometimes puts a random
//! one in, and fills up with the cheapest, keeping what is no worse. Random choices come from a fixed seed: the same fleet, the same set.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rand::SeedableRng;
use shortline_core::random::{Generator, below};

use super::subgraph::Subgraph;
use crate::max_flow::index;

/// Rounds of local search on a small graph.
const ROUNDS: usize = 3_000;
/// A round looks at every group; on large graphs this many looks are all there are.
const LOOKS: usize = 30_000_000;
const SEED: u64 = 0x5eed_0f5b_ec72_a002;

/// Groups of a set `I` of at least `e` servers; `e` is at most all servers.
pub(crate) fn search(sub: &Subgraph, e: usize) -> Vec<usize> {
    let mut by_servers = Set::empty(sub);
    by_servers.fill(e);
    let mut by_ports = Set::empty(sub);
    outside_of_ports(sub, e).into_iter().for_each(|g| by_ports.add(g));
    let mut set = if by_ports.cut_off > by_servers.cut_off { by_ports } else { by_servers };
    set.improve(e);
    set.groups()
}

/// Groups outside the servers of the ports that a greedy choice cuts off.
fn outside_of_ports(sub: &Subgraph, e: usize) -> Vec<usize> {
    let mut room = sub.servers - e;
    let mut new_servers: Vec<usize> = (0..sub.shares.len()).map(|port| sub.degree(port)).collect();
    let value = |port: usize, new: usize| Ordered(sub.shares[port] / new as f64);
    let mut queue: BinaryHeap<(Ordered, usize, usize)> =
        new_servers.iter().enumerate().map(|(port, &new)| (value(port, new), port, new)).collect();
    let mut needed = vec![false; sub.members.len()];
    while let Some((_, port, new)) = queue.pop() {
        if new != new_servers[port] || new > room {
            continue;
        }
        room -= new;
        for &g in sub.graph.row(port) {
            if !std::mem::replace(&mut needed[g as usize], true) {
                for &(other, _) in sub.graph.column(g as usize) {
                    let other = other as usize;
                    new_servers[other] -= sub.members[g as usize].len();
                    queue.push((value(other, new_servers[other]), other, new_servers[other]));
                }
            }
        }
    }
    (0..needed.len()).filter(|&g| !needed[g]).collect()
}

/// A set of groups, with what each further group would cost.
struct Set<'a> {
    sub: &'a Subgraph,
    inside: Vec<bool>,
    /// Groups of the set that each port is on.
    touched: Vec<u32>,
    /// Share of the ports of each group that no group of the set touches.
    loss: Vec<f64>,
    servers: usize,
    cut_off: f64,
}

impl<'a> Set<'a> {
    fn empty(sub: &'a Subgraph) -> Self {
        let loss = (0..sub.members.len()).map(|g| sub.coverage(g)).collect();
        let (inside, touched) = (vec![false; sub.members.len()], vec![0; sub.shares.len()]);
        Self { sub, inside, touched, loss, servers: 0, cut_off: sub.reachable() }
    }

    fn add(&mut self, group: usize) {
        self.inside[group] = true;
        self.servers += self.sub.members[group].len();
        for &(port, _) in self.sub.graph.column(group) {
            let port = port as usize;
            self.touched[port] += 1;
            if self.touched[port] == 1 {
                self.cut_off -= self.sub.shares[port];
                self.sub.graph.row(port).iter().for_each(|&g| self.loss[g as usize] -= self.sub.shares[port]);
            }
        }
    }

    fn remove(&mut self, group: usize) {
        self.inside[group] = false;
        self.servers -= self.sub.members[group].len();
        for &(port, _) in self.sub.graph.column(group) {
            let port = port as usize;
            self.touched[port] -= 1;
            if self.touched[port] == 0 {
                self.cut_off += self.sub.shares[port];
                self.sub.graph.row(port).iter().for_each(|&g| self.loss[g as usize] += self.sub.shares[port]);
            }
        }
    }

    /// Adds the group of least loss per server until `e` servers are in. Losses only fall on the way, so a heap
    /// whose stale entries are put back finds the least.
    fn fill(&mut self, e: usize) {
        let mut queue: BinaryHeap<Reverse<(Ordered, usize)>> = BinaryHeap::new();
        let key = |set: &Self, g: usize| Ordered(set.loss[g] / set.sub.size(g));
        queue.extend((0..self.inside.len()).filter(|&g| !self.inside[g]).map(|g| Reverse((key(self, g), g))));
        while self.servers < e {
            let Some(Reverse((_, group))) = queue.pop() else { return };
            if self.inside[group] {
                continue;
            }
            let ports = self.sub.graph.column(group).iter().map(|&(port, _)| port as usize);
            let newly: Vec<usize> = ports.filter(|&port| self.touched[port] == 0).collect();
            self.add(group);
            for g in newly.into_iter().flat_map(|port| self.sub.graph.row(port)) {
                if !self.inside[*g as usize] {
                    queue.push(Reverse((key(self, *g as usize), *g as usize)));
                }
            }
        }
    }

    /// Local search.
    fn improve(&mut self, e: usize) {
        let rounds = ROUNDS.min(LOOKS / self.inside.len().max(1));
        let mut rng = Generator::seed_from_u64(SEED);
        let mut best = (self.cut_off, self.groups());
        for _ in 0..rounds {
            let members = self.groups();
            let before = self.cut_off;
            if members.is_empty() || members.len() == self.inside.len() {
                break;
            }
            let mut changes = Vec::new();
            for _ in 0..=below(&mut rng, 3) {
                let group = members[below(&mut rng, index(members.len())) as usize];
                if self.inside[group] {
                    self.remove(group);
                    changes.push((group, false));
                }
            }
            if below(&mut rng, 2) == 0 {
                let group = below(&mut rng, index(self.inside.len())) as usize;
                if !self.inside[group] {
                    self.add(group);
                    changes.push((group, true));
                }
            }
            while self.servers < e {
                let outside = (0..self.inside.len()).filter(|&g| !self.inside[g]);
                let cost = |&g: &usize| Ordered(self.loss[g] / self.sub.size(g));
                let Some(group) = outside.min_by_key(cost) else { break };
                self.add(group);
                changes.push((group, true));
            }
            if self.cut_off < before - 1e-12 {
                for &(group, added) in changes.iter().rev() {
                    if added { self.remove(group) } else { self.add(group) }
                }
            } else if self.cut_off > best.0 {
                best = (self.cut_off, self.groups());
            }
        }
        let current = self.groups();
        current.into_iter().for_each(|g| self.remove(g));
        best.1.into_iter().for_each(|g| self.add(g));
    }

    fn groups(&self) -> Vec<usize> {
        (0..self.inside.len()).filter(|&g| self.inside[g]).collect()
    }
}

/// A number in the order of [`f64::total_cmp`].
#[derive(Clone, Copy, Debug)]
struct Ordered(f64);

impl PartialEq for Ordered {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ordered {}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ordered {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}
