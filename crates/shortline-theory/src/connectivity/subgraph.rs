//! The compatibility graph of the fastest classes, with all that is exchangeable merged.
//!
//! Job types on the same servers of `R_m` are cut off together, so they are one *port* with the sum of their shares;
//! servers of `R_m` with the same ports are one *group*, whatever their speed, because a largest set `I` that misses
//! given job types holds all of a group or none of it. A complete graph is one port and one group at any size.
//!
//! Job types that never arrive do not count. Those without a server in `R_m` are cut off by every `I`: they are no
//! ports, and their share is [`Subgraph::unreachable`]. Servers of `R_m` that serve no arriving job type are one group
//! without ports.

use std::collections::BTreeMap;

use shortline_core::{Fleet, ServerId};

use crate::max_flow::{Bipartite, index};
use crate::reduced::Reduced;

/// Ports and groups of a set of servers.
#[derive(Clone, Debug)]
pub(crate) struct Subgraph {
    /// `p_l`, share of all arrivals, by port; above 0.
    pub(crate) shares: Vec<f64>,
    /// `p_0`, share of the arrivals that have no server here.
    pub(crate) unreachable: f64,
    /// Servers of each group, ascending.
    pub(crate) members: Vec<Vec<ServerId>>,
    /// Edges between ports and groups.
    pub(crate) graph: Bipartite,
    /// `n`, all servers.
    pub(crate) servers: usize,
}

impl Subgraph {
    /// The part of a fleet on those of its groups that `kept` names; shares are in proportion to `weight` of a job type,
    /// of which one is above 0.
    pub(crate) fn new(
        fleet: &Fleet,
        reduced: &Reduced,
        weight: impl Fn(usize) -> f64,
        kept: impl Fn(usize) -> bool,
    ) -> Self {
        let mut rates = vec![0.0; reduced.ports.len()];
        for (job_type, &port) in reduced.port_of.iter().enumerate() {
            rates[port as usize] += weight(job_type);
        }
        let total: f64 = rates.iter().sum();

        let mut known: BTreeMap<Vec<u32>, usize> = BTreeMap::new();
        let (mut rows, mut shares, mut unreachable) = (Vec::new(), Vec::new(), 0.0);
        for (port, rate) in rates.into_iter().enumerate().filter(|&(_, rate)| rate > 0.0) {
            let mut row: Vec<u32> = reduced.graph.row(port).iter().copied().filter(|&g| kept(g as usize)).collect();
            if row.is_empty() {
                unreachable += rate / total;
                continue;
            }
            row.sort_unstable();
            let next = rows.len();
            let at = *known.entry(row.clone()).or_insert(next);
            if at == next {
                rows.push(row);
                shares.push(0.0);
            }
            shares[at] += rate / total;
        }

        let mut columns: Vec<Vec<u32>> = vec![Vec::new(); reduced.groups.len()];
        for (port, row) in rows.iter().enumerate() {
            row.iter().for_each(|&g| columns[g as usize].push(index(port)));
        }
        let mut known: BTreeMap<&[u32], u32> = BTreeMap::new();
        let group_of: Vec<Option<u32>> = columns
            .iter()
            .enumerate()
            .map(|(g, column)| {
                let next = index(known.len());
                kept(g).then(|| *known.entry(column).or_insert(next))
            })
            .collect();
        let mut members = vec![Vec::new(); known.len()];
        for (server, group) in fleet.servers().zip(&reduced.group_of) {
            if let Some(group) = group.and_then(|g| group_of[g as usize]) {
                members[group as usize].push(server);
            }
        }

        let (mut starts, mut heads) = (vec![0], Vec::new());
        for row in &rows {
            let start = heads.len();
            heads.extend(row.iter().filter_map(|&g| group_of[g as usize]));
            heads[start..].sort_unstable();
            let mut last = None;
            let mut end = start;
            for at in start..heads.len() {
                if last.replace(heads[at]) != Some(heads[at]) {
                    heads[end] = heads[at];
                    end += 1;
                }
            }
            heads.truncate(end);
            starts.push(index(end));
        }
        let servers = members.iter().map(Vec::len).sum();
        let graph = Bipartite::new(starts, heads, members.len());
        Self { shares, unreachable, members, graph, servers }
    }

    /// Servers of a group.
    pub(crate) fn size(&self, group: usize) -> f64 {
        self.members[group].len() as f64
    }

    /// The servers of these groups, ascending.
    pub(crate) fn servers_of(&self, groups: &[usize]) -> Vec<ServerId> {
        let mut servers: Vec<ServerId> = groups.iter().flat_map(|&g| self.members[g].iter().copied()).collect();
        servers.sort_unstable();
        servers
    }

    /// `|N(l)|` within these servers, by port.
    pub(crate) fn degree(&self, port: usize) -> usize {
        self.graph.row(port).iter().map(|&g| self.members[g as usize].len()).sum()
    }

    /// `p(N(r))`: share of the arrivals that a server of the group can take.
    pub(crate) fn coverage(&self, group: usize) -> f64 {
        self.graph.column(group).iter().map(|&(port, _)| self.shares[port as usize]).sum()
    }

    /// Share of the ports with none of these groups.
    pub(crate) fn cut_off(&self, groups: &[usize]) -> f64 {
        let mut touched = vec![false; self.shares.len()];
        for (port, _) in groups.iter().flat_map(|&g| self.graph.column(g)) {
            touched[*port as usize] = true;
        }
        self.shares.iter().zip(touched).filter(|&(_, touched)| !touched).map(|(share, _)| share).sum()
    }

    /// `1 - p_0`: share of the arrivals that have a server here.
    pub(crate) fn reachable(&self) -> f64 {
        self.shares.iter().sum()
    }
}

/// A random graph of up to so many servers and ports, of rates over two decades, with an unreachable share now and then.
#[cfg(test)]
pub(crate) fn random(seed: u64, servers: u32, ports: u32) -> Subgraph {
    use rand::{RngExt, SeedableRng};
    use shortline_core::random::Generator;

    let mut rng = Generator::seed_from_u64(seed);
    let servers = rng.random_range(1..=servers);
    let density = rng.random_range(0.1..0.8);
    let (mut starts, mut heads, mut shares) = (vec![0], vec![], vec![]);
    for _ in 0..rng.random_range(1..=ports) {
        let certain = rng.random_range(0..servers);
        heads.extend((0..servers).filter(|&r| r == certain || rng.random_bool(density)));
        starts.push(index(heads.len()));
        shares.push(100_f64.powf(rng.random::<f64>()));
    }
    let unreachable = if rng.random_bool(0.2) { 0.1 } else { 0.0 };
    let scale = (1.0 - unreachable) / shares.iter().sum::<f64>();
    shares.iter_mut().for_each(|share| *share *= scale);
    let members: Vec<Vec<ServerId>> = (0..servers).map(|r| vec![ServerId::new(r as usize)]).collect();
    let graph = Bipartite::new(starts, heads, members.len());
    Subgraph { shares, unreachable, servers: members.len(), members, graph }
}
