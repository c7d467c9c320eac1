//! Where one more copy of a job type helps most.
//!
//! A bottleneck `S` is relieved by an edge from a job type of `S` to a server outside `N(S)`, and by no other single
//! edge: all others leave the cut as it is. (Where service rates are not of product form, a faster server inside helps
//! too.) Of the job types with most work in `S` and the servers with most capacity to spare at `s*`, a handful of pairs is
//! tried; `s*` with the edge is computed exactly for each.

use shortline_core::fleet::speeds_equal;
use shortline_core::{Fleet, JobTypeId, ServerId};

use super::Stability;
use super::newton::{Cut, Optimum};
use super::progress::{Observer, Progress};
use crate::reduced::{Reduced, Speeds};
use crate::{TheoryError, linear_program};

/// An edge that the fleet does not have, and the largest load factor with it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NewEdge {
    /// The job type to add ...
    pub job_type: JobTypeId,
    /// ... to this server.
    pub server: ServerId,
    /// `s*` with the edge: exact for this edge, and the largest of those that were tried.
    pub max_load_factor: f64,
}

/// Job types of the bottleneck that are tried.
const MOST_JOB_TYPES: usize = 3;

impl Stability {
    /// The best of at most `most_tried` edges that relieve the bottleneck. `None` if no single edge can raise the load
    /// factor: all servers are in the bottleneck already, or every edge tried leaves another one as tight.
    ///
    /// `fleet` is the fleet that was analysed. Where a job type arrives and is on no server, edges for it are tried.
    ///
    /// # Errors
    /// If a linear program fails (fleets that are not of product form).
    pub fn best_edge(
        &self,
        fleet: &Fleet,
        most_tried: usize,
        observer: &mut Observer<'_>,
    ) -> Result<Option<NewEdge>, TheoryError> {
        let mut best: Option<NewEdge> = None;
        for (done, (job_type, server)) in self.promising_edges(fleet, most_tried).into_iter().enumerate() {
            observer(Progress { doing: "where one more copy helps", done: done + 1, of: Some(most_tried) });
            let least = best.map_or(self.max_load_factor, |edge| edge.max_load_factor);
            let Some(changed) = self.reduced().with_edge(fleet, job_type, server) else { continue };
            if let Some(max_load_factor) = self.factor_if_above(least, &changed)? {
                best = Some(NewEdge { job_type, server, max_load_factor });
            }
        }
        Ok(best)
    }

    /// Pairs of a job type of the bottleneck and a server outside of it, the most spare capacity first.
    fn promising_edges(&self, fleet: &Fleet, most: usize) -> Vec<(JobTypeId, ServerId)> {
        let reduced = self.reduced();
        let mut job_types = self.bottleneck.job_types.clone();
        let work = |l: JobTypeId| reduced.job_types[l.index()].0 * reduced.job_types[l.index()].1;
        job_types.sort_by(|&a, &b| work(b).total_cmp(&work(a)).then(a.cmp(&b)));
        job_types.truncate(MOST_JOB_TYPES);
        let outside: Vec<ServerId> = self.one_of_each_kind(fleet);
        let spare = |l: JobTypeId, r: ServerId| {
            let busy = (self.optimum.factor * self.shares.utilisation(r)).min(1.0);
            f64::from(fleet.slots(r)) * fleet.service_rate(l, r) * (1.0 - busy)
        };
        let pairs = job_types.iter().flat_map(|&l| outside.iter().map(move |&r| (l, r)));
        let mut pairs: Vec<(f64, f64, JobTypeId, ServerId)> = pairs
            .filter(|&(l, r)| self.may_help(fleet, l, r))
            .map(|(l, r)| (spare(l, r), fleet.service_rate(l, r), l, r))
            .collect();
        pairs.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.total_cmp(&a.1)).then((a.2, a.3).cmp(&(b.2, b.3))));
        pairs.into_iter().map(|(.., l, r)| (l, r)).take(most).collect()
    }

    /// Of servers outside the bottleneck (of all, without product form) the first of each group, and of those without a
    /// job type the first of each type.
    fn one_of_each_kind(&self, fleet: &Fleet) -> Vec<ServerId> {
        let reduced = self.reduced();
        let is_cut = self.max_load_factor > 0.0 && matches!(reduced.speeds, Speeds::Product(_));
        let mut known_group: Vec<bool> = match is_cut {
            true => self.optimum.tight_groups.clone(),
            false => vec![false; reduced.groups.len()],
        };
        let mut known_type = vec![false; fleet.server_type_count()];
        let is_new = |r: &ServerId| match reduced.group_of[r.index()] {
            Some(g) => !std::mem::replace(&mut known_group[g as usize], true),
            None => !std::mem::replace(&mut known_type[fleet.server_type(*r).index()], true),
        };
        fleet.servers().filter(is_new).collect()
    }

    /// Whether the edge is missing, and the job type would be as fast on the server as its other servers imply.
    fn may_help(&self, fleet: &Fleet, job_type: JobTypeId, server: ServerId) -> bool {
        let reduced = self.reduced();
        let keeps_product_form = match &reduced.speeds {
            Speeds::PerPort(_) => true,
            Speeds::Product(speeds) => {
                let implied = speeds[fleet.server_type(server).index()] / reduced.job_types[job_type.index()].1;
                speeds_equal(implied, fleet.service_rate(job_type, server))
            }
        };
        keeps_product_form && !fleet.graph().contains(job_type.index(), server)
    }

    /// `s*` of the changed fleet, if it is above `least`.
    fn factor_if_above(&self, least: f64, changed: &Reduced) -> Result<Option<f64>, TheoryError> {
        if changed.has_orphans() {
            return Ok(None);
        }
        let above = |factor: f64| (factor > least * (1.0 + 1e-9)).then_some(factor);
        if matches!(changed.speeds, Speeds::PerPort(_)) {
            return Ok(above(linear_program::max_load_factor(changed)?.factor));
        }
        // A port that was split off had the work of its old one.
        let mut ports = self.optimum.tight_ports.clone();
        ports.resize(changed.ports.len(), true);
        let old_bottleneck = Cut::of(changed, ports, None);
        let everything = Cut::everything(changed);
        let start = if old_bottleneck.ratio() < everything.ratio() { old_bottleneck } else { everything };
        if above(start.ratio()).is_none() {
            return Ok(None);
        }
        Ok(above(Optimum::by_flows(changed, start, &mut |_| ()).factor))
    }
}
