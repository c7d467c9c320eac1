//! How much can be cut off when servers are taken away? The connectivity that guarantees rest on.
//!
//! `R_m` are the `n_m` servers of the `m` fastest speed classes ([`Model`]), `p_l = lambda_l / Lambda` the share of job
//! type `l` in the arrivals. A set `I` of servers *cuts off* the job types that have no server in it. Then
//!
//! `delta_m(e) = max { p(J) : J is cut off by some I in R_m with at least e servers }`,
//!
//! nonincreasing in `e`, with `delta_m(0) = 1`: when some `e` servers of `R_m` are idle, whichever they are, at
//! most this share of the arrivals finds none of them. The smaller for small `e`, the better connected; on a complete
//! graph it is 0 from `e = 1` on.
//! It is what W. Weng, X. Zhou, R. Srikant (2020, Assumption 2) ask to be small. Equivalently: the largest share of a
//! set of job types that have at most `n_m - e` servers in `R_m` together. Computing it is NP-hard, so there are
//! three answers, and each says which it is:
//!
//! * **exact**, by enumeration where after merging what is exchangeable one side has at most 22 members, and by branch
//!   and bound where that ends within a fixed budget;
//! * **witness**, a lower bound: a set `I` found by local search, with the job types that it cuts off;
//! * **certificate**, an upper bound, mostly from the second singular value of the graph with well chosen weights.
//!
//! Servers count, not slots: a server is in `I` or it is not. Statements and proofs are in `docs/src/theory/connectivity.md`.

mod branch;
mod certificate;
mod deviation;
mod exact;
mod kernel;
pub mod sparsity;
mod spectrum;
mod subgraph;
mod witness;

use shortline_core::{Fleet, JobTypeId, ServerId};

use crate::reduced::{Reduced, arrival_rates};
use crate::{Model, TheoryError};
use branch::Search;
use exact::Exact;
use subgraph::Subgraph;

/// Most classes whose certificates are computed of their own; see [`Connectivity::upper`].
const MOST_PROFILES: usize = 16;

/// Edges that branch and bound may look at for the profile of a class, for all `e` together.
const PROFILE_LOOKS: usize = 20_000_000;
/// The same for one bracket.
const BRACKET_LOOKS: usize = 30_000_000;

/// Certified connectivity of a fleet, for every `m` and `e`.
///
/// ```
/// # use shortline_core::{Fleet, fleet::*, graph::Edges};
/// # let names = |base: &str, count| Names { base: base.into(), count: Some(count) };
/// // Four servers; job type j-0 is on s-0 and s-1, j-1 on s-2 and s-3.
/// # let fleet = Fleet::new(FleetParts {
/// #     name: String::new(),
/// #     server_types: vec![ServerTypeParts { name: "t".into(), speed: Speed::Rate(1.0), slots: 1 }],
/// #     servers: vec![ServerParts { names: names("s", 4), server_type: 0, buffer: None, addresses: vec![] }],
/// #     job_types: vec![JobTypeParts { names: names("j", 2), arrivals: ArrivalRates::Each(0.5), size: 1.0 }],
/// #     rates: vec![], edges: Edges::from_rows([vec![0, 1], vec![2, 3]]), settings: Settings::default(),
/// # })?;
/// let connectivity = shortline_theory::connectivity::Connectivity::new(&fleet)?;
/// let half = connectivity.bracket(1, 2).unwrap();
/// assert_eq!((half.lower, half.upper, half.exact), (0.5, 0.5, true));
/// assert_eq!(half.witness.servers.len(), 2);
/// assert_eq!(half.witness.job_types.len(), 1);
/// assert_eq!(connectivity.upper(1, 3), 0.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Connectivity<'a> {
    fleet: &'a Fleet,
    reduced: Reduced,
    /// Class of each group of the reduced fleet, counted from 1.
    class_of_group: Vec<usize>,
    /// `n_m` by `m - 1`.
    servers: Vec<usize>,
    /// Classes with certificates of their own, ascending, with them; the last is among them.
    profiles: Vec<(usize, Profile)>,
}

/// Bounds for one `m`.
#[derive(Clone, Debug)]
struct Profile {
    sub: Subgraph,
    upper: Vec<f64>,
    exact: Option<Exact>,
}

impl Profile {
    fn new(sub: Subgraph) -> Self {
        let exact = Exact::new(&sub);
        let upper = exact.as_ref().map_or_else(|| certified(&sub), |exact| exact.delta.clone());
        Self { sub, upper, exact }
    }
}

/// `lower <= delta_m(e) <= upper`.
#[derive(Clone, PartialEq, Debug)]
pub struct Bracket {
    /// `m`.
    pub fastest_types: usize,
    /// `e`.
    pub servers_left_out: usize,
    /// Share that [`Bracket::witness`] cuts off.
    pub lower: f64,
    /// Certified: no set of `e` servers cuts off more.
    pub upper: f64,
    /// Whether both are `delta_m(e)` itself.
    pub exact: bool,
    /// A set of servers that cuts off `lower`.
    pub witness: Witness,
}

/// Servers and what they cut off.
#[derive(Clone, PartialEq, Debug)]
pub struct Witness {
    /// `I`: at least `e` servers of `R_m`, ascending.
    pub servers: Vec<ServerId>,
    /// The job types with none of these servers, ascending; those that never arrive included.
    pub job_types: Vec<JobTypeId>,
}

/// The certificate, with exact values for the largest `e`, as many as branch and bound finds within its budget.
fn certified(sub: &Subgraph) -> Vec<f64> {
    let mut upper = certificate::profile(sub);
    let mut budget = PROFILE_LOOKS;
    let mut share = -1.0;
    for e in (1..=sub.servers).rev() {
        match branch::search(sub, e, share, &mut budget) {
            Search::IncumbentIsBest => {}
            Search::Best(best, _) => share = best,
            Search::Unfinished => break,
        }
        upper[e] = upper[e].min(share + sub.unreachable);
    }
    upper
}

/// Servers of a set of at least `e` that cuts off much, and whether it is proved that none cuts off more.
fn best_set(sub: &Subgraph, exact: Option<&Exact>, e: usize) -> (Vec<ServerId>, bool) {
    if let Some(exact) = exact {
        return (sub.servers_of(&exact.witness(sub, e)), true);
    }
    let found = witness::search(sub, e);
    let (groups, proved) = match branch::search(sub, e, sub.cut_off(&found), &mut BRACKET_LOOKS.clone()) {
        Search::IncumbentIsBest => (found, true),
        Search::Best(_, groups) => (groups, true),
        Search::Unfinished => (found, false),
    };
    (sub.servers_of(&groups), proved)
}

impl<'a> Connectivity<'a> {
    /// Certificates for all classes; witnesses are searched when [`Self::bracket`] asks for them.
    ///
    /// `O(200 edges)` for each of a few kernels and each of at most 16 classes.
    ///
    /// # Errors
    /// As for [`Model::new`]: rates missing or all 0, no edges, or service rates that depend on the job type, so that
    /// there are no speed classes; [`Self::of_all_servers`] needs none.
    pub fn new(fleet: &'a Fleet) -> Result<Self, TheoryError> {
        let model = Model::new(fleet)?;
        let classes: Vec<&[ServerId]> = model.classes().iter().map(|class| class.servers.as_slice()).collect();
        Self::of_classes(fleet, &classes, model.needed_classes())
    }

    /// All servers with a job type as one class, `m = 1`, whatever their speeds.
    ///
    /// # Errors
    /// If rates are missing or all 0, or no server holds a job type.
    pub fn of_all_servers(fleet: &'a Fleet) -> Result<Self, TheoryError> {
        arrival_rates(fleet)?;
        let all: Vec<ServerId> = fleet.servers().collect();
        Self::of_classes(fleet, &[&all], Some(1))
    }

    fn of_classes(fleet: &'a Fleet, classes: &[&[ServerId]], needed: Option<usize>) -> Result<Self, TheoryError> {
        let reduced = Reduced::new(fleet)?;
        let mut class_of_group = vec![0; reduced.groups.len()];
        for (i, class) in classes.iter().enumerate() {
            for group in class.iter().filter_map(|server| reduced.group_of[server.index()]) {
                class_of_group[group as usize] = i + 1;
            }
        }
        let mut servers = vec![0; classes.len()];
        for (&class, group) in class_of_group.iter().zip(&reduced.groups) {
            servers[class - 1] += group.servers;
        }
        for i in 1..servers.len() {
            servers[i] += servers[i - 1];
        }
        let mut connectivity = Self { fleet, reduced, class_of_group, profiles: Vec::new(), servers };
        for m in connectivity.classes_of_their_own(needed) {
            let profile = Profile::new(connectivity.subgraph(m));
            connectivity.profiles.push((m, profile));
        }
        Ok(connectivity)
    }

    /// The classes whose certificates are computed: all, or of very many those that split the servers most evenly, with
    /// the first, the last and `K`.
    fn classes_of_their_own(&self, needed: Option<usize>) -> Vec<usize> {
        let count = self.servers.len();
        if count <= MOST_PROFILES {
            return (1..=count).collect();
        }
        let last = self.servers[count - 1];
        let at = |k: usize| self.servers.partition_point(|&n| n * MOST_PROFILES < last * k) + 1;
        let mut classes: Vec<usize> = (1..=MOST_PROFILES).map(at).chain(needed).chain([1]).collect();
        classes.sort_unstable();
        classes.dedup();
        classes
    }

    fn subgraph(&self, m: usize) -> Subgraph {
        let rate = |job_type: usize| self.reduced.job_types[job_type].0;
        Subgraph::new(self.fleet, &self.reduced, rate, |group| self.class_of_group[group] <= m)
    }

    /// `M`, the number of speed classes.
    #[must_use]
    pub fn class_count(&self) -> usize {
        self.servers.len()
    }

    /// `n_m`, servers of the `m` fastest classes; 0 for `m = 0`.
    ///
    /// # Panics
    /// If there are fewer than `m` classes.
    #[must_use]
    pub fn server_count(&self, m: usize) -> usize {
        if m == 0 { 0 } else { self.servers[m - 1] }
    }

    /// A certified upper bound on `delta_m(i)`: 1 at `i = 0`, nonincreasing, 0 where a set of `i` servers provably
    /// meets every job type. 0 for `i > n_m`, where there is no such set. In constant time.
    ///
    /// Right to about 1e-12 in floating point. Bounds are computed for each class, of more than 16 for 16 of them; all
    /// are combined with those of their neighbours: `delta_m(i) <= delta_(m+1)(i)`, since `R_m` lies in `R_(m+1)`, and
    /// `delta_m(i) <= delta_(m-1)(i - (n_m - n_(m-1)))`, since a set loses at most the servers of class `m`.
    ///
    /// # Panics
    /// If `m` is not in `1..=M`.
    #[must_use]
    pub fn upper(&self, m: usize, i: usize) -> f64 {
        let n = self.servers[m - 1];
        if i > n {
            return 0.0;
        }
        // The profiles from m on, and those before it.
        let at = self.profiles.partition_point(|&(k, _)| k < m);
        let above = self.profiles[at..].iter().take(2);
        let own = above.clone().find(|&&(k, _)| k == m);
        if let Some((_, Profile { upper, exact: Some(_), .. })) = own {
            return upper[i];
        }
        let above = above.map(|(_, profile)| profile.upper[i]);
        let below = self.profiles[..at].last();
        let below = below.map(|(k, profile)| profile.upper[(i + self.servers[k - 1]).saturating_sub(n)]);
        above.chain(below).fold(1.0, f64::min)
    }

    /// Both sides of `delta_m(e)`; `None` if `m` is not in `1..=M` or `e > n_m`.
    ///
    /// Searches a witness, on large fleets for seconds.
    #[must_use]
    pub fn bracket(&self, m: usize, e: usize) -> Option<Bracket> {
        if m == 0 || m > self.servers.len() || e > self.servers[m - 1] {
            return None;
        }
        let (groups, exact) = match self.profiles.binary_search_by_key(&m, |&(k, _)| k) {
            Ok(at) => {
                let Profile { sub, exact, .. } = &self.profiles[at].1;
                best_set(sub, exact.as_ref(), e)
            }
            Err(_) => {
                let sub = self.subgraph(m);
                best_set(&sub, Exact::new(&sub).as_ref(), e)
            }
        };
        let witness = self.witness(groups);
        // The witness is the simpler proof: where it differs from the certificate by rounding, it is right.
        let lower = self.share(&witness.job_types);
        let upper = if exact { lower } else { self.upper(m, e).max(lower) };
        Some(Bracket { fastest_types: m, servers_left_out: e, lower, upper, exact, witness })
    }

    /// The certificate of class `m` alone, without enumeration or neighbours: upper bounds on `delta_m(e)` for
    /// `e = 0..=n_m`. [`Self::upper`] is never above it; this is for those who want to see how good it is.
    ///
    /// # Panics
    /// If `m` is not in `1..=M`.
    #[must_use]
    pub fn certificate(&self, m: usize) -> Vec<f64> {
        assert!((1..=self.servers.len()).contains(&m), "class {m} is not one of 1 to {}", self.servers.len());
        certificate::profile(&self.subgraph(m))
    }

    /// The witness that local search finds, also where enumeration could do better; `None` as for [`Self::bracket`].
    #[must_use]
    pub fn search_witness(&self, m: usize, e: usize) -> Option<Witness> {
        if m == 0 || m > self.servers.len() || e > self.servers[m - 1] {
            return None;
        }
        let sub = self.subgraph(m);
        Some(self.witness(sub.servers_of(&witness::search(&sub, e))))
    }

    /// What a set of servers cuts off, read off the fleet itself.
    fn witness(&self, servers: Vec<ServerId>) -> Witness {
        let graph = self.fleet.graph();
        let mut inside = vec![false; self.fleet.server_count()];
        servers.iter().for_each(|server| inside[server.index()] = true);
        let mut cut_off: Vec<Option<bool>> = vec![None; graph.distinct_row_count()];
        let job_types = self.fleet.job_types().filter(|l| {
            let row = &mut cut_off[graph.row_number(l.index())];
            *row.get_or_insert_with(|| {
                let mut met = false;
                graph.for_each(l.index(), |server| met |= inside[server.index()]);
                !met
            })
        });
        let job_types = job_types.collect();
        Witness { servers, job_types }
    }

    /// `p(J)`.
    #[must_use]
    pub fn share(&self, job_types: &[JobTypeId]) -> f64 {
        let rates = job_types.iter().map(|l| self.reduced.job_types[l.index()].0);
        rates.fold(0.0, |sum, rate| sum + rate) / self.reduced.arrivals()
    }
}
