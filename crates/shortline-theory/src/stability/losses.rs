//! What a server is worth: the largest load factor without it.
//!
//! `s*(without r) = min over S of c(N(S) without r) / work(S)`, 0 if some job type that arrives is on `r` only.
//!
//! **Which are computed.** Upper bounds come at once from sets that contain a job type of `r`: each of its job types
//! alone, the bottleneck, all job types; and `s*` itself. Exchangeable servers count once. The worst by this bound are
//! computed exactly: at the factor `u` of the bound, the flow that carries everything is kept, what went through `r` is
//! rerouted, and if that succeeds the bound is exact; else Newton's iteration goes on from the cut that is left.
//! Candidates are taken in ascending `u`, the worst first, so that one flow serves them all.

use shortline_core::ServerId;

use super::Stability;
use super::newton::{Cut, Offered};
use super::progress::{Effort, Factor, Observer, Progress};
use crate::{TheoryError, linear_program};

/// The largest load factor of a fleet that has lost one server.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Loss {
    /// The server.
    pub server: ServerId,
    /// `s*` without it; 0, as `s*` itself, where a job type that arrives is on no server at all.
    pub max_load_factor: Factor,
}

/// Servers that are alike.
#[derive(Clone, Copy)]
struct Candidate {
    group: usize,
    factor: Factor,
}

impl Stability {
    /// The largest load factor without each server that holds a job type, the smallest first. Those with `is_exact`
    /// false were not computed: without them the factor is at most the one shown.
    ///
    /// # Errors
    /// If a linear program fails (fleets that are not of product form).
    pub fn losses(&self, effort: Effort, observer: &mut Observer<'_>) -> Result<Vec<Loss>, TheoryError> {
        let reduced = self.reduced();
        let mut candidates: Vec<Candidate> = self
            .factors_at_most()
            .into_iter()
            .enumerate()
            .map(|(group, value)| Candidate { group, factor: Factor { value, is_exact: false } })
            .collect();
        let worst_first =
            |a: &Candidate, b: &Candidate| a.factor.value.total_cmp(&b.factor.value).then(a.group.cmp(&b.group));
        candidates.sort_by(worst_first);
        // With a job type on no server all of them are 0, at no cost.
        let effort = if reduced.has_orphans() { Effort::All } else { effort }.within_reason(reduced);
        let chosen = effort.chosen(&candidates, |candidate| self.optimum.tight_groups[candidate.group]);
        let of = Some(chosen.iter().filter(|&&chosen| chosen).count());
        let mut exact = Removals::new(self, effort.most_visits);
        let chosen = candidates.iter_mut().zip(&chosen).filter(|(_, chosen)| **chosen).map(|(candidate, _)| candidate);
        for (done, candidate) in chosen.enumerate() {
            observer(Progress { doing: "what the loss of servers costs", done: done + 1, of });
            let Some(value) = exact.without_one_of(candidate.group, candidate.factor.value)? else { break };
            candidate.factor = Factor { value, is_exact: true };
        }
        let mut of_group = vec![None; reduced.groups.len()];
        candidates.iter().for_each(|candidate| of_group[candidate.group] = Some(candidate.factor));
        let loss = |(r, group): (usize, &Option<u32>)| {
            let max_load_factor = of_group[(*group)? as usize]?;
            Some(Loss { server: ServerId::new(r), max_load_factor })
        };
        let mut losses: Vec<Loss> = reduced.group_of.iter().enumerate().filter_map(loss).collect();
        losses
            .sort_by(|a, b| a.max_load_factor.value.total_cmp(&b.max_load_factor.value).then(a.server.cmp(&b.server)));
        Ok(losses)
    }

    /// By group, a certified upper bound on `s*` without one of its servers.
    fn factors_at_most(&self) -> Vec<f64> {
        let reduced = self.reduced();
        let lost =
            |p: usize, g: usize| reduced.groups[g].slots / reduced.groups[g].servers as f64 * reduced.speed(p, g);
        // Not the optimum's factor, which leaves out job types that are on no server.
        let mut bounds = vec![self.max_load_factor; reduced.groups.len()];
        for p in (0..reduced.ports.len()).filter(|&p| reduced.ports[p].work > 0.0) {
            let row = reduced.graph.row(p).iter().map(|&g| g as usize);
            let capacity: f64 = row.clone().map(|g| reduced.groups[g].slots * reduced.speed(p, g)).sum();
            let only = reduced.graph.row(p).len() == 1;
            for g in row {
                // The only server of a job type: exactly nothing is left, whatever the rounding.
                let left = if only && reduced.groups[g].servers == 1 { 0.0 } else { capacity - lost(p, g) };
                bounds[g] = bounds[g].min(left.max(0.0) / reduced.ports[p].work);
            }
        }
        for cut in &self.cuts {
            for (g, bound) in bounds.iter_mut().enumerate().filter(|&(g, _)| cut.groups[g]) {
                *bound = bound.min((cut.capacity - lost(0, g)).max(0.0) / cut.work);
            }
        }
        bounds
    }
}

/// Computes `s*` without a server, one by one.
struct Removals<'a> {
    stability: &'a Stability,
    offered: Option<Offered<'a>>,
}

impl<'a> Removals<'a> {
    fn new(stability: &'a Stability, most_visits: u64) -> Self {
        let amounts = stability.optimum.amounts.clone();
        let resume = |amounts| {
            let mut offered = Offered::resume(stability.reduced(), amounts, stability.optimum.factor);
            offered.flow.give_up_after(most_visits);
            offered
        };
        Self { stability, offered: amounts.map(resume) }
    }

    /// `None` once effort is spent.
    fn without_one_of(&mut self, group: usize, at_most: f64) -> Result<Option<f64>, TheoryError> {
        let reduced = self.stability.reduced();
        if at_most <= 0.0 {
            return Ok(Some(0.0));
        }
        let Some(offered) = &mut self.offered else {
            return linear_program::max_load_factor_without(reduced, group).map(Some);
        };
        offered.set_factor(at_most);
        offered.begin_trial();
        let one = reduced.capacity(group) / reduced.groups[group].servers as f64;
        offered.take_capacity(group, one);
        let factor = match offered.violated_cut() {
            None => at_most,
            Some(cut) => offered.newton_below(at_most, cut),
        };
        offered.end_trial();
        Ok((!offered.flow.has_given_up()).then_some(factor))
    }
}

impl Offered<'_> {
    /// Newton's iteration from a violated cut, if its ratio is below `at_most`.
    fn newton_below(&mut self, at_most: f64, cut: Cut) -> f64 {
        if cut.ratio() >= at_most {
            return at_most;
        }
        self.newton(cut, &mut |_| ()).ratio()
    }
}
