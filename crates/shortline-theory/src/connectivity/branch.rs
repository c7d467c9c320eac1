//! `delta(e)` by branch and bound, for graphs beyond enumeration: exact where it ends within its budget.
//!
//! A set `J` of ports is built port by port while its servers number at most `n - e`. At each node the ports that still
//! fit (the *open* ones) are bounded together: let every open port spread its share evenly over those of its
//! servers that are not yet needed by `J`. Whatever open ports are added, all of their shares lie on at most
//! `room = n - e - |N(J)|` further servers, so they add at most the `room` largest sums by server. (This is a feasible
//! point of the dual of the linear relaxation, so it is never better than the relaxation, and it costs one pass over the
//! edges.) The best port is first taken, then given up.
//!
//! Work is counted in edges looked at, not in time, so that the same fleet gives the same answer on every machine.

use super::subgraph::Subgraph;
use crate::max_flow::index;

/// Most ports of `J`, so that the recursion stays shallow; beyond it the search counts as unfinished.
const DEEPEST: usize = 500;
/// Improvements below this are not searched for.
const RESOLUTION: f64 = 1e-12;

/// What is known after a search.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Search {
    /// No set of at least `e` servers cuts off more than the incumbent.
    IncumbentIsBest,
    /// This is best: the share of connected ports, and the groups of the set `I`.
    Best(f64, Vec<usize>),
    /// The budget ran out.
    Unfinished,
}

/// Looks for a set of at least `e` servers that cuts off more than `incumbent` (a share of connected ports; below 0 if
/// there is none), taking the edges looked at off `budget`.
pub(crate) fn search(sub: &Subgraph, e: usize, incumbent: f64, budget: &mut usize) -> Search {
    let mut tree = Tree {
        sub,
        needed: vec![false; sub.members.len()],
        heat: vec![0.0; sub.members.len()],
        best: incumbent,
        best_needed: None,
        budget,
    };
    let ports = (0..index(sub.shares.len())).collect();
    match tree.visit(ports, 0.0, sub.servers - e, 0) {
        None => Search::Unfinished,
        Some(()) => match tree.best_needed {
            None => Search::IncumbentIsBest,
            Some(needed) => Search::Best(tree.best, (0..needed.len()).filter(|&g| !needed[g]).collect()),
        },
    }
}

struct Tree<'a> {
    sub: &'a Subgraph,
    /// Groups of `N(J)`.
    needed: Vec<bool>,
    /// Shares of the open ports spread over servers, by group; all 0 between uses.
    heat: Vec<f64>,
    best: f64,
    best_needed: Option<Vec<bool>>,
    budget: &'a mut usize,
}

/// A port that fits, with its servers that are not needed yet.
type Open = (u32, usize);

impl Tree<'_> {
    /// All choices among `ports`, given `J` with `share` and room for more servers; `None` if the budget runs out.
    fn visit(&mut self, mut ports: Vec<u32>, mut share: f64, room: usize, depth: usize) -> Option<()> {
        if depth > DEEPEST {
            return None;
        }
        loop {
            let looks = ports.iter().map(|&port| self.row(port).len()).sum::<usize>() + 1;
            *self.budget = self.budget.checked_sub(looks)?;
            let mut open: Vec<Open> = Vec::with_capacity(ports.len());
            for port in ports {
                match self.new_servers(port) {
                    0 => share += self.share(port),
                    new if new <= room => open.push((port, new)),
                    _ => {}
                }
            }
            if share > self.best + RESOLUTION {
                self.best = share;
                self.best_needed = Some(self.needed.clone());
            }
            if share + self.bound(&open, room) <= self.best + RESOLUTION {
                return Some(());
            }
            let value = |&(port, new): &Open| self.share(port) / new as f64;
            let (at, &(port, new)) = open.iter().enumerate().max_by(|a, b| value(a.1).total_cmp(&value(b.1)))?;
            ports = open.iter().map(|&(port, _)| port).collect();
            ports.swap_remove(at);

            let added: Vec<u32> = self.row(port).iter().copied().filter(|&g| !self.needed[g as usize]).collect();
            added.iter().for_each(|&g| self.needed[g as usize] = true);
            self.visit(ports.clone(), share + self.share(port), room - new, depth + 1)?;
            added.iter().for_each(|&g| self.needed[g as usize] = false);
        }
    }

    fn row(&self, port: u32) -> &[u32] {
        self.sub.graph.row(port as usize)
    }

    fn share(&self, port: u32) -> f64 {
        self.sub.shares[port as usize]
    }

    fn new_servers(&self, port: u32) -> usize {
        let new = self.row(port).iter().filter(|&&g| !self.needed[g as usize]);
        new.map(|&g| self.sub.members[g as usize].len()).sum()
    }

    /// An upper bound on what open ports add within `room` servers.
    fn bound(&mut self, open: &[Open], room: usize) -> f64 {
        let mut warm = Vec::new();
        let mut all = 0.0;
        for &(port, new) in open {
            let each = self.share(port) / new as f64;
            all += self.share(port);
            for &g in self.sub.graph.row(port as usize).iter().filter(|&&g| !self.needed[g as usize]) {
                let heat = &mut self.heat[g as usize];
                if *heat <= 0.0 {
                    warm.push(g as usize);
                }
                *heat += each;
            }
        }
        let mut sums: Vec<(f64, usize)> =
            warm.into_iter().map(|g| (std::mem::take(&mut self.heat[g]), self.sub.members[g].len())).collect();
        sums.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut left = room;
        let mut bound = 0.0;
        for (heat, servers) in sums {
            let taken = servers.min(left);
            bound += heat * taken as f64;
            left -= taken;
        }
        bound.min(all)
    }
}

#[cfg(test)]
mod tests {
    use super::super::exact::Exact;
    use super::super::subgraph::random;
    use super::*;

    #[test]
    fn branch_and_bound_agrees_with_enumeration_from_any_incumbent() {
        let mut improved = 0;
        for seed in 0..200 {
            let sub = random(seed, 11, 11);
            let exact = Exact::new(&sub).expect("11 groups are few");
            for e in 1..=sub.servers {
                let delta = exact.delta[e] - sub.unreachable;
                let unlimited = || 1_000_000_000;
                match search(&sub, e, -1.0, &mut unlimited()) {
                    Search::Best(share, groups) => {
                        let servers: usize = groups.iter().map(|&g| sub.members[g].len()).sum();
                        assert!(servers >= e && (sub.cut_off(&groups) - share).abs() < 1e-12, "seed {seed}, e = {e}");
                        assert!((share - delta).abs() < 1e-11, "seed {seed}, e = {e}: {share}, {delta}");
                    }
                    other => panic!("seed {seed}, e = {e}: {other:?}"),
                }
                assert_eq!(search(&sub, e, delta, &mut unlimited()), Search::IncumbentIsBest);
                let below = search(&sub, e, delta - 1e-6, &mut unlimited());
                improved += usize::from(matches!(below, Search::Best(..)));
            }
        }
        assert!(improved > 1_000, "{improved}");
    }

    #[test]
    fn a_budget_that_runs_out_is_said() {
        let sub = random(3, 11, 11);
        let mut budget = 5;
        assert_eq!(search(&sub, sub.servers / 2, -1.0, &mut budget), Search::Unfinished);
    }
}
