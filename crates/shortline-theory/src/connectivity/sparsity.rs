//! Does every set of servers get its fair part of nearly every job type? Proportional sparsity at finite size.
//!
//! A graph is *(epsilon, eta)-proportionally sparse* if for every set `U` of servers at most a share `eta` of the job
//! types, each counting once, is *off*:
//!
//! `| |N(l) & U| / |N(l)| - |U| / N | >= epsilon`.
//!
//! D. Rutten, D. Mukherjee (2020) show that join-the-shortest-queue policies on sequences of graphs that are so for
//! every epsilon and eta in the limit behave as on the complete graph. The finite form is derived in `docs/src/theory/connectivity.md`. For
//! a given graph the least `eta`, over all `U` of a given size, is bracketed:
//!
//! * **certificate**: with `P_lr = 1/|N(l)|` on the edges, `A = P - 1/N` and `s^2 = (N/L) ||A||^2`, at most the share
//!   `p_0 + s^2 u (1 - u) / epsilon^2`, `u = |U|/N`, is off, where `p_0` is the share of job types without a server.
//!   Proof: `A 1_U = A (1_U - u) = h - u` with `h_l = |N(l) & U|/|N(l)|`, and `|1_U - u|^2 = N u (1 - u)`; every job type
//!   that is off adds at least `epsilon^2` to `|h - u|^2`. QED. The norm is bounded as in [`super`], with certainty.
//! * **witness**: a set found by local search.
//!
//! Job types without a server are always off. Servers without a job type do not count; slots and speeds do not matter.

use rand::SeedableRng;
use shortline_core::random::{Generator, below};
use shortline_core::{Fleet, ServerId};

use super::deviation::norm_squared;
use super::subgraph::Subgraph;
use crate::TheoryError;
use crate::max_flow::index;
use crate::reduced::Reduced;

/// Sets that local search starts from.
const STARTS: usize = 25;
/// Exchanges that it tries, from all of them together.
const EXCHANGES: usize = 100_000;
/// Exchanges are fewer where servers hold many job types: this many of those are looked at.
const LOOKS: usize = 20_000_000;
const SEED: u64 = 0x5eed_0f5b_ec72_a003;

/// Proportional sparsity of a fleet's graph.
///
/// ```
/// # use shortline_core::{Fleet, fleet::*, graph::Edges};
/// # let names = |base: &str, count| Names { base: base.into(), count: Some(count) };
/// // Two halves that share nothing: a half of the servers has all of one half's servers and none of the other's.
/// # let fleet = Fleet::new(FleetParts {
/// #     name: String::new(),
/// #     server_types: vec![ServerTypeParts { name: "t".into(), speed: Speed::Rate(1.0), slots: 1 }],
/// #     servers: vec![ServerParts { names: names("s", 4), server_type: 0, buffer: None, addresses: vec![] }],
/// #     job_types: vec![JobTypeParts { names: names("j", 2), arrivals: ArrivalRates::Each(0.5), size: 1.0 }],
/// #     rates: vec![], edges: Edges::from_rows([vec![0, 1], vec![2, 3]]), settings: Settings::default(),
/// # })?;
/// let sparsity = shortline_theory::connectivity::sparsity::Sparsity::new(&fleet)?;
/// let half = sparsity.bracket(2, 0.25).unwrap();
/// assert_eq!((half.lower, half.upper), (1.0, 1.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Sparsity {
    sub: Subgraph,
    /// `s^2`, or what bounds it.
    norm_squared: f64,
}

/// `lower <= least eta <= upper` for one size of `U` and one epsilon.
#[derive(Clone, PartialEq, Debug)]
pub struct SparsityBracket {
    /// `|U|`.
    pub servers: usize,
    /// `epsilon`.
    pub epsilon: f64,
    /// Share of job types that are off for [`SparsityBracket::witness`].
    pub lower: f64,
    /// Certified: for no set of this size are more job types off.
    pub upper: f64,
    /// A set `U` for which the share `lower` is off, ascending.
    pub witness: Vec<ServerId>,
}

impl Sparsity {
    /// Bounds the norm; witnesses are searched by [`Self::bracket`]. `O(200 edges)`.
    ///
    /// # Errors
    /// If rates are missing or all 0, or no server holds a job type.
    pub fn new(fleet: &Fleet) -> Result<Self, TheoryError> {
        let reduced = Reduced::new(fleet)?;
        let sub = Subgraph::new(fleet, &reduced, |_| 1.0, |_| true);
        let norm_squared = norm_squared(&sub);
        Ok(Self { sub, norm_squared })
    }

    /// `N`, servers with a job type.
    #[must_use]
    pub fn server_count(&self) -> usize {
        self.sub.servers
    }

    /// A certified upper bound on the share of job types that are off for some set of `servers` servers; 1 where nothing
    /// is proved.
    #[must_use]
    pub fn upper(&self, servers: usize, epsilon: f64) -> f64 {
        let u = servers as f64 / self.sub.servers as f64;
        self.bound(u * (1.0 - u), epsilon)
    }

    /// The same for sets of any size: `p_0 + s^2 / (4 epsilon^2)`.
    #[must_use]
    pub fn upper_for_all_sizes(&self, epsilon: f64) -> f64 {
        self.bound(0.25, epsilon)
    }

    fn bound(&self, spread: f64, epsilon: f64) -> f64 {
        let bound = self.sub.unreachable + self.norm_squared * spread.max(0.0) / (epsilon * epsilon);
        if bound < 1.0 { bound } else { 1.0 }
    }

    /// Both sides for sets of `servers` servers; `None` if there are fewer servers, or epsilon is not above 0 and at most
    /// 1.
    #[must_use]
    pub fn bracket(&self, servers: usize, epsilon: f64) -> Option<SparsityBracket> {
        if servers > self.sub.servers || !(epsilon > 0.0 && epsilon <= 1.0) {
            return None;
        }
        let mut set = Set::first(&self.sub, servers, epsilon);
        set.improve();
        let lower = set.share_off();
        let witness = set.servers();
        Some(SparsityBracket { servers, epsilon, lower, upper: self.upper(servers, epsilon).max(lower), witness })
    }
}

/// A set of servers of fixed size.
struct Set<'a> {
    sub: &'a Subgraph,
    epsilon: f64,
    /// `|U|/N`.
    fraction: f64,
    /// The group of each server; servers of the set come first.
    order: Vec<(u32, ServerId)>,
    size: usize,
    /// `|N(l) & U|` and `|N(l)|` by port.
    inside: Vec<usize>,
    degrees: Vec<usize>,
}

impl<'a> Set<'a> {
    /// The servers of job types one by one, as long as they fit, then any: the job types that fit are off as far as can
    /// be.
    fn first(sub: &'a Subgraph, size: usize, epsilon: f64) -> Self {
        let mut order = Vec::with_capacity(sub.servers);
        let mut chosen = vec![false; sub.members.len()];
        let mut take = |g: usize, order: &mut Vec<(u32, ServerId)>| {
            if !std::mem::replace(&mut chosen[g], true) {
                order.extend(sub.members[g].iter().map(|&server| (index(g), server)));
            }
        };
        for port in 0..sub.shares.len() {
            sub.graph.row(port).iter().for_each(|&g| take(g as usize, &mut order));
        }
        (0..sub.members.len()).for_each(|g| take(g, &mut order));
        let degrees: Vec<usize> = (0..sub.shares.len()).map(|port| sub.degree(port)).collect();
        let mut set = Self {
            sub,
            epsilon,
            fraction: size as f64 / sub.servers as f64,
            order,
            size,
            inside: vec![0; degrees.len()],
            degrees,
        };
        for at in 0..size {
            set.count(at, 1);
        }
        set
    }

    /// Adds the server at a place of the order to the counts, or takes it off.
    fn count(&mut self, at: usize, change: isize) {
        for &(port, _) in self.sub.graph.column(self.order[at].0 as usize) {
            self.inside[port as usize] = self.inside[port as usize].wrapping_add_signed(change);
        }
    }

    fn deviation(&self, port: usize) -> f64 {
        (self.inside[port] as f64 / self.degrees[port] as f64 - self.fraction).abs()
    }

    fn is_off(&self, port: usize) -> bool {
        self.deviation(port) >= self.epsilon
    }

    fn share_off(&self) -> f64 {
        let off = (0..self.degrees.len()).filter(|&port| self.is_off(port));
        off.fold(self.sub.unreachable, |sum, port| sum + self.sub.shares[port]).min(1.0)
    }

    /// What an exchange is judged by: ports that are off count fully, others by the square of how near they are.
    fn value(&self, port: usize) -> f64 {
        let near = (self.deviation(port) / self.epsilon).min(1.0);
        self.sub.shares[port] * if self.is_off(port) { 1.0 } else { 0.5 * near * near }
    }

    /// Value of the ports of two servers, as if it stood alone; ports of both count twice before and after.
    fn value_around(&self, a: usize, b: usize) -> f64 {
        let ports = [a, b].into_iter().flat_map(|at| self.sub.graph.column(self.order[at].0 as usize));
        ports.map(|&(port, _)| self.value(port as usize)).sum()
    }

    /// Random exchanges of a server of the set with another, kept when they lose nothing; from the first set, then from
    /// random ones. Ends at the best set seen.
    fn improve(&mut self) {
        let (size, others) = (self.size, self.sub.servers - self.size);
        if size == 0 || others == 0 {
            return;
        }
        let mut rng = Generator::seed_from_u64(SEED);
        let degree = (self.sub.graph.edge_count() / self.sub.members.len()).max(1);
        let exchanges = EXCHANGES.min(LOOKS / degree) / STARTS;
        let mut best = (self.share_off(), self.order.clone());
        for start in 0..STARTS {
            for _ in 0..if start == 0 { 0 } else { size.min(others) } {
                self.exchange(below(&mut rng, index(size)) as usize, size + below(&mut rng, index(others)) as usize);
            }
            for _ in 0..exchanges {
                let a = below(&mut rng, index(size)) as usize;
                let b = size + below(&mut rng, index(others)) as usize;
                let before = self.value_around(a, b);
                self.exchange(a, b);
                if self.value_around(a, b) < before {
                    self.exchange(a, b);
                }
            }
            let found = self.share_off();
            if found > best.0 {
                best = (found, self.order.clone());
            }
        }
        self.order = best.1;
        self.inside.fill(0);
        (0..size).for_each(|at| self.count(at, 1));
    }

    fn exchange(&mut self, a: usize, b: usize) {
        self.count(a, -1);
        self.order.swap(a, b);
        self.count(a, 1);
    }

    fn servers(&self) -> Vec<ServerId> {
        let mut servers: Vec<ServerId> = self.order[..self.size].iter().map(|&(_, server)| server).collect();
        servers.sort_unstable();
        servers
    }
}
