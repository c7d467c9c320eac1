//! Where one more copy of a job type helps most.
//!
//! Every pair of a job type and a kind of server that does not hold it has an upper bound on `s*` with that edge, from
//! prices of work ([`relief`](super::relief)): those of the bottleneck, equal ones, and the job type's alone. The pair
//! with the largest bound is computed exactly. The prices that are optimal with it are new bounds for all other pairs; so
//! on, until no bound is above the best that was found. Then **that edge is the best of all**, or none helps. Where the
//! effort is spent before, the largest bound left says what is still possible.

use std::cmp::Ordering;

use shortline_core::fleet::speeds_equal;
use shortline_core::{Fleet, JobTypeId, ServerId};

use super::Stability;
use super::newton::{Cut, Optimum};
use super::progress::{Observer, Progress};
use super::relief::{MissingEdge, Prices, work_of};
use crate::reduced::{Reduced, Speeds};
use crate::{TheoryError, linear_program};

/// An edge that the fleet does not have, and the largest load factor with it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NewEdge {
    /// The job type to add ...
    pub job_type: JobTypeId,
    /// ... to this server.
    pub server: ServerId,
    /// `s*` with the edge.
    pub max_load_factor: f64,
}

/// What is known of all edges that could be added one by one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct EdgeSearch {
    /// The best of those computed, if one raises the load factor.
    pub best: Option<NewEdge>,
    /// Edges whose load factor was computed; exchangeable servers count once.
    pub tried: usize,
    /// No single edge raises `s*` above this; at least `s*` itself.
    pub at_most: f64,
    /// Whether `best` is proved to be the best of all edges or, where it is `None`, that no single edge helps.
    pub is_settled: bool,
}

/// Pairs that are weighed one by one.
const MOST_PAIRS: usize = 1_000_000;
/// A gain below this, relative, is the rounding of linear programs.
const GAIN: f64 = 1e-7;

impl Stability {
    /// The single edge that raises the load factor most.
    ///
    /// `fleet` is the fleet that was analysed. The search ends when `most_visits` edges were looked at (see
    /// [`Effort::MOST_VISITS`](super::Effort::MOST_VISITS)), after one pair at the least; `u64::MAX` settles every fleet whose
    /// pairs do not exceed a million. Where one job type arrives that is on no server, only edges for it can help; where
    /// there are several, none can.
    ///
    /// # Errors
    /// If a linear program fails (fleets that are not of product form).
    pub fn best_edge(
        &self,
        fleet: &Fleet,
        most_visits: u64,
        observer: &mut Observer<'_>,
    ) -> Result<EdgeSearch, TheoryError> {
        let mut search = Search::new(self, fleet);
        while search.tried == 0 || search.visits <= most_visits {
            let Some(pair) = search.take_most_promising() else { break };
            observer(Progress { doing: "where one more copy helps", done: search.tried + 1, of: None });
            search.compute(&pair)?;
        }
        Ok(search.result())
    }

    /// `s*` of the changed fleet, what determines it, and edges looked at.
    fn optimum_of(&self, changed: &Reduced) -> Result<(Optimum, u64), TheoryError> {
        if matches!(changed.speeds, Speeds::PerPort(_)) {
            let optimum = linear_program::max_load_factor(changed)?;
            let rows = (changed.ports.len() + changed.groups.len()) as u64;
            return Ok((optimum, VISITS_PER_ENTRY * rows * changed.graph.edge_count() as u64));
        }
        // A port that was split off had the work of its old one.
        let mut ports = self.optimum.tight_ports.clone();
        ports.resize(changed.ports.len(), true);
        let old_bottleneck = Cut::of(changed, ports, None);
        let everything = Cut::everything(changed);
        let start = if old_bottleneck.ratio() < everything.ratio() { old_bottleneck } else { everything };
        let optimum = Optimum::by_flows(changed, start, &mut |_| ());
        let visits = optimum.visits;
        Ok((optimum, visits))
    }
}

/// A linear program costs about as much as looking at so many edges for each of its rows and columns.
const VISITS_PER_ENTRY: u64 = 50;

/// A pair that has not been computed.
struct Pair {
    edge: MissingEdge,
    server: ServerId,
    /// Upper bound on `s*` with it.
    at_most: f64,
}

struct Search<'a> {
    stability: &'a Stability,
    fleet: &'a Fleet,
    open: Vec<Pair>,
    best: Option<NewEdge>,
    tried: usize,
    visits: u64,
    /// The largest bound of pairs that will not be computed.
    left_out: f64,
}

impl<'a> Search<'a> {
    fn new(stability: &'a Stability, fleet: &'a Fleet) -> Self {
        let left_out = stability.max_load_factor;
        let mut search = Self { stability, fleet, open: vec![], best: None, tried: 0, visits: 0, left_out };
        search.weigh_pairs();
        search
    }

    fn reduced(&self) -> &'a Reduced {
        self.stability.reduced()
    }

    /// What an edge must exceed to be the best.
    fn least(&self) -> f64 {
        self.best.map_or(self.stability.max_load_factor, |edge| edge.max_load_factor) * (1.0 + GAIN)
    }

    /// Bounds all pairs that may help.
    fn weigh_pairs(&mut self) {
        let reduced = self.reduced();
        let optimal = Prices::new(reduced, self.stability.optimum.work_prices.clone(), None);
        let pool: Vec<Prices> =
            optimal.clone().into_iter().chain(Prices::new(reduced, vec![1.0; reduced.ports.len()], None)).collect();
        let mut job_types = self.job_types(optimal.as_ref());
        let servers = self.one_of_each_kind();
        let fitting = (MOST_PAIRS / servers.len().max(1)).max(1);
        for l in job_types.split_off(job_types.len().min(fitting)) {
            let port = reduced.port_of[l] as usize;
            let bounds = pool.iter().map(|prices| prices.without(reduced, l, port, work_of(reduced, l)));
            self.left_out = self.left_out.max(bounds.fold(f64::INFINITY, f64::min));
        }
        self.visits += (job_types.len() * servers.len()) as u64;
        for l in job_types {
            let (port, work) = (reduced.port_of[l] as usize, work_of(reduced, l));
            let row = reduced.graph.row(port).iter().map(|&g| g as usize);
            let own: f64 = row.map(|g| reduced.groups[g].slots * reduced.speed(port, g)).sum();
            for &server in &servers {
                let group = reduced.group_of[server.index()].map(|g| g as usize);
                let job_type = JobTypeId::new(l);
                let rate = f64::from(self.fleet.slots(server))
                    * self.fleet.service_rate(job_type, server)
                    * reduced.job_types[l].1;
                let edge = MissingEdge { job_type: l, port, group, work, rate };
                let bounds = pool.iter().map(|prices| prices.at_most(reduced, &edge));
                let at_most = bounds.fold((own + rate) / work, f64::min);
                if at_most > self.least() && !self.fleet.graph().contains(l, server) {
                    self.open.push(Pair { edge, server, at_most });
                }
            }
        }
    }

    /// Job types of which an edge may help, those with most work first: the one that is on no server, or those whose
    /// work has a price at the optimum.
    fn job_types(&self, optimal: Option<&Prices>) -> Vec<usize> {
        let reduced = self.reduced();
        let arriving = (0..reduced.job_types.len()).filter(|&l| reduced.job_types[l].0 > 0.0);
        let port = |l: usize| reduced.port_of[l] as usize;
        if reduced.has_orphans() {
            let orphans: Vec<usize> = arriving.filter(|&l| reduced.is_orphan(port(l))).collect();
            return if orphans.len() == 1 { orphans } else { vec![] };
        }
        let has_price = |&l: &usize| optimal.is_some_and(|prices| prices.of(l, port(l)) > 0.0);
        let mut job_types: Vec<usize> = arriving.filter(has_price).collect();
        job_types.sort_by(|&a, &b| work_of(reduced, b).total_cmp(&work_of(reduced, a)).then(a.cmp(&b)));
        job_types
    }

    /// The first server of each group, and of those without a job type the first of each server type. In a uniform fleet
    /// servers of the bottleneck cannot help it.
    fn one_of_each_kind(&self) -> Vec<ServerId> {
        let (fleet, reduced) = (self.fleet, self.reduced());
        let mut known_group = match fleet.is_uniform() && !reduced.has_orphans() {
            true => self.stability.optimum.tight_groups.clone(),
            false => vec![false; reduced.groups.len()],
        };
        let mut known_type = vec![false; fleet.server_type_count()];
        let is_new = |r: &ServerId| match reduced.group_of[r.index()] {
            Some(g) => !std::mem::replace(&mut known_group[g as usize], true),
            None => !std::mem::replace(&mut known_type[fleet.server_type(*r).index()], true),
        };
        fleet.servers().filter(is_new).collect()
    }

    /// The pair with the largest bound; of equal ones the fastest server. Pairs that cannot be the best are dropped.
    fn take_most_promising(&mut self) -> Option<Pair> {
        let least = self.least();
        self.open.retain(|pair| pair.at_most > least);
        self.visits += self.open.len() as u64;
        let first = (0..self.open.len()).max_by(|&a, &b| promise(&self.open[a], &self.open[b]))?;
        Some(self.open.swap_remove(first))
    }

    /// `s*` with the edge, and what its prices say about all others.
    fn compute(&mut self, pair: &Pair) -> Result<(), TheoryError> {
        let (reduced, l) = (self.reduced(), pair.edge.job_type);
        let job_type = JobTypeId::new(l);
        self.tried += 1;
        let changed = reduced.with_edge(self.fleet, job_type, pair.server).expect("the edge is missing");
        let (optimum, visits) = match self.stability.optimum_of(&changed) {
            Ok(found) => found,
            Err(TheoryError::TooLarge { .. }) => {
                self.left_out = self.left_out.max(pair.at_most);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        self.visits += visits;
        if optimum.factor > self.least() {
            self.best = Some(NewEdge { job_type, server: pair.server, max_load_factor: optimum.factor });
        }
        let mut of_port = optimum.work_prices;
        let split_off = of_port.split_off(reduced.ports.len());
        let exception = split_off.first().map(|&price| (l, price));
        if let Some(prices) = Prices::new(reduced, of_port, exception) {
            for pair in &mut self.open {
                pair.at_most = pair.at_most.min(prices.at_most(reduced, &pair.edge));
            }
            self.visits += self.open.len() as u64 + reduced.graph.edge_count() as u64;
        }
        Ok(())
    }

    fn result(self) -> EdgeSearch {
        let least = self.least();
        let open = self.open.iter().map(|pair| pair.at_most).fold(self.left_out, f64::max);
        let reached = self.best.map_or(self.stability.max_load_factor, |edge| edge.max_load_factor);
        EdgeSearch {
            best: self.best,
            tried: self.tried,
            at_most: open.max(reached),
            is_settled: open <= least || reached >= open,
        }
    }
}

fn promise(a: &Pair, b: &Pair) -> Ordering {
    let key = |pair: &Pair| (pair.edge.job_type, pair.server);
    let by_bound = if speeds_equal(a.at_most, b.at_most) { Ordering::Equal } else { a.at_most.total_cmp(&b.at_most) };
    by_bound.then(a.edge.rate.total_cmp(&b.edge.rate)).then(key(b).cmp(&key(a)))
}
