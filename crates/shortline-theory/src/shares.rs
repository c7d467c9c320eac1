//! Static shares: the best that a policy can do which never looks at the queues.
//!
//! The flow of work that attains `s*` sends a fixed share of each job type to each of its servers. Under these shares
//! no server is busier than `1/s*`, so a fleet is stable with them exactly when some policy is stable at all. Exchangeable
//! servers get equal shares. What lies away from the bottleneck is not balanced further than that.

use shortline_core::policy::SplitShares;
use shortline_core::{Fleet, JobTypeId, ServerId};

use crate::max_flow::index;
use crate::reduced::Reduced;

/// The share of each job type that goes to each server; policy `split` draws servers with these probabilities.
///
/// A job type that never arrives is spread over its servers in proportion to their capacity; one without a server has
/// no shares.
#[derive(Clone, Debug)]
pub struct Shares {
    reduced: Reduced,
    /// Share of a port per edge, over all servers of the group.
    fraction: Vec<f64>,
    /// Servers by group.
    member_starts: Vec<u32>,
    members: Vec<ServerId>,
    /// Fraction of time the slots of a group are busy at the fleet's arrival rates.
    utilisation: Vec<f64>,
}

impl Shares {
    pub(crate) fn new(reduced: Reduced, work_on_edge: &[f64]) -> Self {
        let mut fraction = vec![0.0; reduced.graph.edge_count()];
        for p in 0..reduced.ports.len() {
            let edges = reduced.graph.edges(p);
            let total: f64 = work_on_edge[edges.clone()].iter().sum();
            let groups = reduced.graph.row(p).iter().map(|&g| g as usize);
            let capacity = |g: usize| reduced.groups[g].slots * reduced.speed(p, g);
            let row_capacity: f64 = groups.clone().map(capacity).sum();
            for (e, g) in edges.zip(groups) {
                fraction[e] = if total > 0.0 { work_on_edge[e] / total } else { capacity(g) / row_capacity };
            }
        }
        let utilisation = |g: usize| {
            let busy = |&(p, e): &(u32, u32)| {
                let p = p as usize;
                fraction[e as usize] * reduced.ports[p].work / reduced.speed(p, g)
            };
            reduced.graph.column(g).iter().map(busy).sum::<f64>() / reduced.groups[g].slots
        };
        let utilisation = (0..reduced.groups.len()).map(utilisation).collect();
        let (member_starts, members) = members(&reduced);
        Self { reduced, fraction, member_starts, members, utilisation }
    }

    pub(crate) fn reduced(&self) -> &Reduced {
        &self.reduced
    }

    /// The servers of a group.
    pub(crate) fn members_of(&self, group: usize) -> &[ServerId] {
        &self.members[self.member_starts[group] as usize..self.member_starts[group + 1] as usize]
    }

    /// The servers of a job type with their shares, which add up to 1. Servers with share 0 are left out.
    pub fn of(&self, job_type: JobTypeId) -> impl Iterator<Item = (ServerId, f64)> + '_ {
        let port = self.distribution(job_type);
        let groups = self.reduced.graph.row(port).iter().map(|&g| g as usize);
        self.reduced.graph.edges(port).zip(groups).filter(|&(e, _)| self.fraction[e] > 0.0).flat_map(|(e, g)| {
            let members = self.members_of(g);
            let each = self.fraction[e] / members.len() as f64;
            members.iter().map(move |&server| (server, each))
        })
    }

    /// Which of the different distributions job type uses: job types with equal numbers have the same shares, so that
    /// tables for drawing need to be built and stored once per number.
    #[must_use]
    pub fn distribution(&self, job_type: JobTypeId) -> usize {
        self.reduced.port_of[job_type.index()] as usize
    }

    /// How many different distributions there are.
    #[must_use]
    pub fn distribution_count(&self) -> usize {
        self.reduced.ports.len()
    }

    /// The fleet these shares were computed for, with the shares for policy `split`.
    ///
    /// # Panics
    /// If `fleet` is not the fleet of the shares.
    #[must_use]
    pub fn give_to(&self, fleet: &Fleet) -> Fleet {
        let mut distributions = vec![None; self.distribution_count()];
        for l in fleet.job_types() {
            distributions[self.distribution(l)].get_or_insert_with(|| self.of(l).collect::<Vec<_>>());
        }
        let distributions: Vec<Vec<(ServerId, f64)>> =
            distributions.into_iter().map(Option::unwrap_or_default).collect();
        let distribution_of = self.reduced.port_of.clone();
        let shares = SplitShares::new(fleet, distribution_of, &distributions);
        fleet.with_split_shares(shares.expect("the shares are those of this fleet"))
    }

    /// Fraction of time a slot of `server` is busy under these shares, at the fleet's arrival rates and without losses;
    /// 0 for a server without a job type. At most `1/s*`; above 1 it is overloaded.
    #[must_use]
    pub fn utilisation(&self, server: ServerId) -> f64 {
        self.reduced.group_of[server.index()].map_or(0.0, |g| self.utilisation[g as usize])
    }
}

/// Servers by group, and where each group starts.
fn members(reduced: &Reduced) -> (Vec<u32>, Vec<ServerId>) {
    let mut starts = vec![0_u32];
    for group in &reduced.groups {
        starts.push(starts[starts.len() - 1] + index(group.servers));
    }
    let mut next = starts.clone();
    let mut members = vec![ServerId::new(0); starts[starts.len() - 1] as usize];
    for (r, group) in reduced.group_of.iter().enumerate() {
        if let Some(g) = group {
            members[next[*g as usize] as usize] = ServerId::new(r);
            next[*g as usize] += 1;
        }
    }
    (starts, members)
}
