//! Policies that look at a random sample: how far can the arrival rates grow?
//!
//! A job that joins the shortest of a uniformly random sample `A` of `d` compatible servers is a job of type `(l, A)`,
//! held by exactly the servers of `A`, under plain `jsq`. So `jsq(d)` is stable exactly when `jsq` is on that *sampled
//! graph*: with `c(U)` the capacity of a set of servers, the critical factor on all arrival rates is
//!
//! `s_d = min over U of c(U) / sum_l lambda_l P(A_l lies in U)`,
//! `P(A_l in U) = C(|N(l) in U|, d) / C(deg l, d)`.
//!
//! `jsq(d1,d2)` is the same with samples of two parts, and the probability is a product. Between `random` (`d = 1`) and
//! `jsq` (`d >= deg l`), and computed in one of two ways:
//!
//! * **Exactly**, if the sampled graph has at most [`LARGEST_SAMPLED_GRAPH`] edges: it is built (exchangeable servers
//!   make samples exchangeable) and solved by maximum flows as the fleet itself.
//! * **As a bracket** else. The loads that a job type can put on its servers form the base polytope of a supermodular
//!   function (J. Edmonds 1970); the least sum of `load^2 / capacity` over all job types is approached by Frank and
//!   Wolfe's method (1956), whose linear step is what `jsq(d)` does in the fluid limit: sample, and take the least
//!   loaded. Any loads reached are a static rule within the samples: `s_d >= min c_r / load_r`. Any set of servers is a
//!   cut: `s_d <= min` over the sets of most loaded servers. Both hold whenever the iteration stops.

use std::collections::BTreeMap;

use super::newton::{Cut, Optimum};
use super::progress::{Observer, Progress};
use crate::max_flow::{Bipartite, index};
use crate::reduced::{Port, Reduced};

/// Up to this many edges between samples and servers, the critical factor is exact.
pub(super) const LARGEST_SAMPLED_GRAPH: usize = 300_000;

/// Samples larger than this are not written out one by one, unless they are everything.
const LARGEST_SAMPLE: usize = 64;
/// Edges that the bracket's iteration looks at in all, for a graph of any size; but at least [`FEWEST_SWEEPS`].
const MOST_VISITS: usize = 24_000_000;
const FEWEST_SWEEPS: usize = 16;
const MOST_SWEEPS: usize = 4_096;
/// The iteration ends once the bracket is this narrow, relative ...
const NARROW: f64 = 1e-2;

/// How servers are sampled: so many of each part of a job type's servers, all where there are fewer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Sampling {
    /// Which of two parts each group belongs to.
    pub(super) part: Vec<u8>,
    /// How many are sampled of each part.
    pub(super) count: [usize; 2],
}

/// A critical factor between certified bounds.
#[derive(Clone, Debug)]
pub(super) struct Bracket {
    pub(super) at_least: f64,
    pub(super) at_most: f64,
    /// The groups of the set of servers that gives `at_most`.
    pub(super) tight: Vec<bool>,
}

/// The critical factor of the job types that are on some server. The iteration of a bracket goes on until it is
/// narrow and leaves 1 on one side, or effort ends.
pub(super) fn critical_factor(reduced: &Reduced, sampling: &Sampling, observer: &mut Observer<'_>) -> Bracket {
    if let Some(sampled) = sampled_graph(reduced, sampling, LARGEST_SAMPLED_GRAPH) {
        let optimum = Optimum::by_flows(&sampled, Cut::everything(&sampled), &mut |_| ());
        return Bracket { at_least: optimum.factor, at_most: optimum.factor, tight: optimum.tight_groups };
    }
    bracket(reduced, sampling, observer)
}

impl Sampling {
    /// Servers of each part of a port.
    fn sizes(&self, reduced: &Reduced, port: usize) -> [usize; 2] {
        let mut sizes = [0; 2];
        for &g in reduced.graph.row(port) {
            sizes[usize::from(self.part[g as usize])] += reduced.groups[g as usize].servers;
        }
        sizes
    }

    /// Probability that a sample of a port with parts of these `sizes` lies within `inside` servers of each part.
    fn contained(&self, sizes: [usize; 2], inside: [usize; 2]) -> f64 {
        let one = |i: usize| contained(inside[i], sizes[i], self.count[i].min(sizes[i]));
        one(0) * one(1)
    }
}

/// `C(k, d) / C(n, d)`.
fn contained(k: usize, n: usize, d: usize) -> f64 {
    if k < d {
        return 0.0;
    }
    let mut product = 1.0;
    if d <= n - k {
        for i in 0..d {
            product *= (k - i) as f64 / (n - i) as f64;
        }
    } else {
        for i in k + 1..=n {
            product *= (i - d) as f64 / i as f64;
        }
    }
    product
}

/// The fleet whose job types are the samples; `None` if it has more than `most` edges.
fn sampled_graph(reduced: &Reduced, sampling: &Sampling, most: usize) -> Option<Reduced> {
    let (mut ports, mut starts, mut heads) = (Vec::new(), vec![0], Vec::new());
    for p in (0..reduced.ports.len()).filter(|&p| reduced.ports[p].work > 0.0) {
        for (support, probability) in supports(reduced, sampling, p, most - heads.len())? {
            let work = reduced.ports[p].work * probability;
            ports.push(Port { work, most_work: work, least_job: reduced.ports[p].least_job });
            heads.extend(support);
            starts.push(index(heads.len()));
        }
        if heads.len() > most {
            return None;
        }
    }
    let graph = Bipartite::new(starts, heads, reduced.groups.len());
    Some(Reduced { ports, graph, port_of: vec![], job_types: vec![], ..reduced.clone() })
}

/// The groups that a sample of a port may have members in, with probabilities; `None` if there are more than `most`.
fn supports(reduced: &Reduced, sampling: &Sampling, port: usize, most: usize) -> Option<BTreeMap<Vec<u32>, f64>> {
    let sizes = sampling.sizes(reduced, port);
    let mut found = BTreeMap::from([(vec![], 1.0)]);
    for (part, (&size, &count)) in sizes.iter().zip(&sampling.count).enumerate() {
        let in_part = |g: &&u32| usize::from(sampling.part[**g as usize]) == part;
        let groups: Vec<u32> = reduced.graph.row(port).iter().filter(in_part).copied().collect();
        let count = count.min(size);
        // (support, left to sample) after each group, and the servers not yet looked at.
        let mut partial: BTreeMap<(Vec<u32>, usize), f64> =
            found.into_iter().map(|(support, probability)| ((support, count), probability)).collect();
        let mut rest = size;
        for g in groups {
            let here = reduced.groups[g as usize].servers;
            rest -= here;
            let mut next = BTreeMap::new();
            for ((support, left), probability) in partial {
                for k in left.saturating_sub(rest)..=left.min(here) {
                    let with: Vec<u32> = if k > 0 { [&support[..], &[g]].concat() } else { support.clone() };
                    *next.entry((with, left - k)).or_insert(0.0) += probability * hypergeometric(k, here, rest, left)?;
                }
                if next.len() > most {
                    return None;
                }
            }
            partial = next;
        }
        found = partial.into_iter().map(|((support, _), probability)| (support, probability)).collect();
    }
    Some(found)
}

/// Probability that of `d` distinct ones out of `here + rest`, `k` are here. `None` for samples too large to write out.
fn hypergeometric(k: usize, here: usize, rest: usize, d: usize) -> Option<f64> {
    if d == here + rest {
        return Some(if k == here { 1.0 } else { 0.0 });
    }
    if d > LARGEST_SAMPLE {
        return None;
    }
    let mut probability = 1.0;
    for i in 0..d {
        let from = if i < k { here - i } else { rest - (i - k) };
        probability *= from as f64 / (here + rest - i) as f64;
    }
    // In any of C(d, k) orders.
    Some((0..k).fold(probability, |product, i| product * (d - i) as f64 / (k - i) as f64))
}

/// Loads under which each job type samples, in the making.
struct Loads<'a> {
    reduced: &'a Reduced,
    sampling: &'a Sampling,
    sizes: Vec<[usize; 2]>,
    capacity: Vec<f64>,
    /// Work per second by edge and by group.
    on_edge: Vec<f64>,
    at_group: Vec<f64>,
    /// What a port would do now, by the position in its row; and the row's positions, least loaded first.
    aim: Vec<f64>,
    order: Vec<(f64, usize)>,
}

fn bracket(reduced: &Reduced, sampling: &Sampling, observer: &mut Observer<'_>) -> Bracket {
    let mut loads = Loads::new(reduced, sampling);
    let mut best = loads.certificate();
    let sweeps = (MOST_VISITS / reduced.graph.edge_count()).clamp(FEWEST_SWEEPS, MOST_SWEEPS);
    for sweep in 1..=sweeps {
        observer(Progress { doing: "what samples can carry", done: sweep, of: Some(sweeps) });
        loads.sweep();
        // A certificate costs as much as a sweep: after 1, 2, 4, 8, ... of them.
        if !sweep.is_power_of_two() && sweep < sweeps {
            continue;
        }
        let now = loads.certificate();
        best.at_least = best.at_least.max(now.at_least);
        if now.at_most < best.at_most {
            (best.at_most, best.tight) = (now.at_most, now.tight);
        }
        let is_decided = best.at_least > 1.0 || best.at_most <= 1.0;
        if is_decided && best.at_most - best.at_least <= NARROW * best.at_most {
            break;
        }
    }
    // Both are the same number, and rounding may cross them.
    best.at_least = best.at_least.min(best.at_most);
    best
}

impl<'a> Loads<'a> {
    /// Job types one after the other, each by the loads so far.
    fn new(reduced: &'a Reduced, sampling: &'a Sampling) -> Self {
        let graph = &reduced.graph;
        let mut loads = Self {
            reduced,
            sampling,
            sizes: (0..graph.port_count()).map(|p| sampling.sizes(reduced, p)).collect(),
            capacity: (0..reduced.groups.len()).map(|g| reduced.capacity(g)).collect(),
            on_edge: vec![0.0; graph.edge_count()],
            at_group: vec![0.0; reduced.groups.len()],
            aim: Vec::new(),
            order: Vec::new(),
        };
        for p in 0..graph.port_count() {
            loads.aim_at_the_least_loaded(p);
            loads.step(p, |_, _| 1.0);
        }
        loads
    }

    /// One step of every job type towards what it would do at the present loads.
    fn sweep(&mut self) {
        for p in 0..self.reduced.graph.port_count() {
            self.aim_at_the_least_loaded(p);
            // The step that minimises the sum of squares on the way.
            self.step(p, |slope, curvature| if slope < 0.0 { (-slope / curvature).min(1.0) } else { 0.0 });
        }
    }

    fn level(&self, group: u32) -> f64 {
        self.at_group[group as usize] / self.capacity[group as usize]
    }

    /// Where the samples of a port go if each takes its least loaded server: into `aim`, by position in the row.
    fn aim_at_the_least_loaded(&mut self, port: usize) {
        let row = self.reduced.graph.row(port);
        let mut order = std::mem::take(&mut self.order);
        order.clear();
        order.extend(row.iter().map(|&g| self.level(g)).zip(0..));
        order.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        self.aim.clear();
        self.aim.resize(row.len(), 0.0);
        let sizes = self.sizes[port];
        let (mut left, mut within) = (sizes, 1.0);
        for &(_, i) in &order {
            let g = row[i] as usize;
            left[usize::from(self.sampling.part[g])] -= self.reduced.groups[g].servers;
            let still_within = self.sampling.contained(sizes, left);
            self.aim[i] = self.reduced.ports[port].work * (within - still_within);
            within = still_within;
        }
        self.order = order;
    }

    /// Moves a port towards its aim by the fraction that `length(slope, curvature)` says.
    fn step(&mut self, port: usize, length: impl Fn(f64, f64) -> f64) {
        let edges = self.reduced.graph.edges(port);
        let row = self.reduced.graph.row(port);
        let (mut slope, mut curvature) = (0.0, 0.0);
        for ((e, &g), &aim) in edges.clone().zip(row).zip(&self.aim) {
            let change = aim - self.on_edge[e];
            slope += self.level(g) * change;
            curvature += change * change / self.capacity[g as usize];
        }
        let length = length(slope, curvature);
        for ((e, &g), &aim) in edges.zip(row).zip(&self.aim) {
            let change = length * (aim - self.on_edge[e]);
            self.on_edge[e] += change;
            self.at_group[g as usize] += change;
        }
    }

    /// What the present loads prove.
    fn certificate(&self) -> Bracket {
        let graph = &self.reduced.graph;
        let mut order: Vec<u32> = (0..index(graph.server_count())).collect();
        order.sort_by(|&a, &b| self.level(b).total_cmp(&self.level(a)).then(a.cmp(&b)));
        let at_least = 1.0 / self.level(order[0]);
        let mut inside = vec![[0; 2]; graph.port_count()];
        let (mut capacity, mut work) = (0.0, 0.0);
        let (mut at_most, mut members) = (f64::INFINITY, 0);
        for (i, &g) in order.iter().enumerate() {
            capacity += self.capacity[g as usize];
            for &(p, _) in graph.column(g as usize) {
                let (p, part) = (p as usize, usize::from(self.sampling.part[g as usize]));
                let before = self.sampling.contained(self.sizes[p], inside[p]);
                inside[p][part] += self.reduced.groups[g as usize].servers;
                let now = self.sampling.contained(self.sizes[p], inside[p]);
                work += self.reduced.ports[p].work * (now - before);
            }
            if capacity / work < at_most {
                (at_most, members) = (capacity / work, i + 1);
            }
        }
        let mut tight = vec![false; graph.server_count()];
        order[..members].iter().for_each(|&g| tight[g as usize] = true);
        Bracket { at_least, at_most, tight }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reduced::{Group, Speeds};

    /// Ports on these groups of (servers, capacity of one), each with work 1.
    fn fleet(rows: &[&[u32]], groups: &[(usize, f64)]) -> Reduced {
        let server_type = |i| shortline_core::ServerTypeId::new(i);
        let group = |(i, &(servers, _)): (usize, &(usize, f64))| Group {
            server_type: server_type(i),
            servers,
            slots: servers as f64,
        };
        let mut starts = vec![0];
        rows.iter().for_each(|row| starts.push(starts[starts.len() - 1] + index(row.len())));
        Reduced {
            ports: vec![Port { work: 1.0, most_work: 1.0, least_job: 1.0 }; rows.len()],
            groups: groups.iter().enumerate().map(group).collect(),
            graph: Bipartite::new(starts, rows.concat(), groups.len()),
            speeds: Speeds::Product(groups.iter().map(|&(_, speed)| speed).collect()),
            port_of: vec![],
            group_of: vec![],
            job_types: vec![],
        }
    }

    fn near(a: f64, b: f64, tolerance: f64) -> bool {
        (a - b).abs() <= tolerance * a.abs().max(b.abs())
    }

    #[test]
    fn the_bracket_closes_on_the_exact_factor() {
        let rows: [&[u32]; 4] = [&[0, 1, 2], &[1, 3, 4], &[0, 4, 5], &[2, 3, 5]];
        let groups = [(3, 0.9), (1, 0.2), (4, 0.3), (2, 1.0), (5, 0.15), (2, 0.4)];
        let reduced = fleet(&rows, &groups);
        for count in [[1, 0], [2, 0], [3, 0], [5, 0], [1, 1], [2, 1], [1, 3]] {
            let part = if count[1] == 0 { vec![0; 6] } else { vec![0, 1, 1, 0, 1, 1] };
            let sampling = Sampling { part, count };
            let exact = critical_factor(&reduced, &sampling, &mut |_| ()).at_most;
            let found = bracket(&reduced, &sampling, &mut |_| ());
            assert!(found.at_least <= exact * (1.0 + 1e-9) && exact <= found.at_most * (1.0 + 1e-9), "{count:?}");
            assert!(found.at_most <= found.at_least * 1.02, "{count:?}: {exact} {} {}", found.at_least, found.at_most);
        }
    }

    #[test]
    fn samples_that_share_their_groups_are_one_with_the_sum_of_their_probabilities() {
        // Two of 2 + 3 servers: both in the first 1/10, one in each 6/10, both in the second 3/10.
        let reduced = fleet(&[&[0, 1]], &[(2, 1.0), (3, 1.0)]);
        let found = supports(&reduced, &Sampling { part: vec![0, 0], count: [2, 0] }, 0, 100).unwrap();
        for (support, expected) in [(vec![0], 0.1), (vec![0, 1], 0.6), (vec![1], 0.3)] {
            assert!(near(found[&support], expected, 1e-14), "{found:?}");
        }
    }

    #[test]
    fn both_ways_to_multiply_give_the_share_of_subsets_inside() {
        let binomial = |n: usize, d: usize| (0..d).fold(1.0, |product, i| product * (n - i) as f64 / (i + 1) as f64);
        for (k, n, d) in [(3, 10, 2), (9, 10, 4), (9, 10, 9), (10, 10, 10), (1, 5, 2), (0, 3, 0)] {
            let expected = if k < d { 0.0 } else { binomial(k, d) / binomial(n, d) };
            assert!((contained(k, n, d) - expected).abs() < 1e-14, "{k} {n} {d}");
        }
    }
}
