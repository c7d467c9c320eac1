//! Is the fleet stable, by how much, and what is in the way?
//!
//! A fleet with unbounded buffers has a stable policy if and only if for every set `S` of job types
//! `sum_{l in S} lambda_l e_l < c(N(S))`, with `e_l` the work of a job and `c` the work per second of the servers that
//! hold some job type of `S`. The largest factor by which all arrival rates can grow is therefore
//!
//! `s* = min over S of c(N(S)) / sum_{l in S} lambda_l e_l`,
//!
//! and the minimising `S` and `N(S)` are the [`Bottleneck`]. `s* < 1`: overloaded, whatever the policy.
//!
//! **Method.** Newton's iteration on cuts (Dinkelbach, 1967): at a factor `s`, a maximum flow either carries all work,
//! or leaves a cut `S` whose ratio is smaller; that ratio is the next `s`. Every `s` is the ratio of an actual cut, so
//! the result is never below `s*`, and it is exact up to rounding: a handful of flows. Where service rates are not of
//! product form, `s*` is a linear program, solved together with its dual: the two must agree. Where that is too large,
//! [`load_factor_between`] says between which numbers `s*` lies.
//!
//! Servers that fail ([`under_failures`], [`in_the_end`]) have less capacity in the long run; the functions here take servers as up
//! all the time.
//!
//! What follows from it: which **policies** are stable ([`by_policy`]); how far each job type alone can grow
//! ([`Stability::slacks`]); what each server's loss costs ([`Stability::losses`]); where one more copy of a job type
//! helps most ([`Stability::best_edge`]).
//!
//! Sources: the condition is the cut condition of L. Ford and D. Fulkerson (1956) for the flow of work from job types to
//! servers; W. Dinkelbach, "On nonlinear fractional programming" (1967) for the iteration.
//!
//! ```
//! # use shortline_core::{Fleet, fleet::*, graph::Edges};
//! # fn job_type(name: &str, rate: f64) -> JobTypeParts {
//! #     JobTypeParts { names: Names { base: name.into(), count: None }, arrivals: ArrivalRates::Each(rate), size: 1.0 }
//! # }
//! // Two servers of rate 1; job type "popular" is on the first only, "rare" on both.
//! # let fleet = Fleet::new(FleetParts {
//! #     name: String::new(),
//! #     server_types: vec![ServerTypeParts { name: "A10".into(), speed: Speed::Rate(1.0), slots: 1 }],
//! #     servers: vec![ServerParts { names: Names { base: "gpu".into(), count: Some(2) }, server_type: 0, buffer: None, addresses: vec![] }],
//! #     job_types: vec![job_type("popular", 0.8), job_type("rare", 0.4)],
//! #     rates: vec![], edges: Edges::from_rows([vec![0], vec![0, 1]]), settings: Settings::default(),
//! # })?;
//! let stability = shortline_theory::stability::analyse(&fleet)?;
//! assert!((stability.max_load_factor - 1.25).abs() < 1e-12, "gpu-0 takes 0.8 * 1.25 of `popular`");
//! assert!((stability.offered_load - 0.6).abs() < 1e-12);
//! assert_eq!(stability.bottleneck.job_types, [fleet.find_job_type("popular").unwrap()]);
//! assert_eq!(stability.bottleneck.servers, [fleet.find_server("gpu-0").unwrap()]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod advice;
mod failures;
mod losses;
mod newton;
mod policies;
mod prices;
mod progress;
mod relief;
mod sampled;
mod slacks;

use shortline_core::{Fleet, JobTypeId, ServerId};

use crate::TheoryError;
use crate::reduced::{Reduced, Speeds};
use crate::shares::Shares;
pub use advice::{EdgeSearch, NewEdge};
pub(crate) use failures::why_not_always_up;
pub use failures::{availability, down_in_the_end, in_the_end, under_failures};
pub use losses::Loss;
use newton::Cut;
pub(crate) use newton::Optimum;
pub use policies::{PolicyStability, by_policy};
pub use prices::{LoadFactorBounds, load_factor_between};
pub use progress::{Effort, Factor, Observer, Progress};
pub use slacks::Slack;

/// What limits the arrival rates of a fleet. See the [module](self).
#[derive(Clone, Debug)]
pub struct Stability {
    /// `s*`: the largest factor by which all arrival rates can grow; 0 if a job type that arrives is on no server.
    pub max_load_factor: f64,
    /// Load against capacity, see [`offered_load`]. 1 or more: overloaded.
    pub offered_load: f64,
    /// The job types and servers that determine `s*`.
    pub bottleneck: Bottleneck,
    /// Static shares under which no server is busier than `1/s*`.
    pub shares: Shares,
    optimum: Optimum,
    /// All job types, and the bottleneck, in a fleet of product form: each bounds what one change can do.
    cuts: Vec<Cut>,
}

impl Stability {
    /// Whether some policy keeps the queues of the fleet (with unbounded buffers) finite: `s* > 1`, by more than rounding
    /// ([`CRITICAL`]).
    #[must_use]
    pub fn is_stable(&self) -> bool {
        self.max_load_factor > 1.0 + CRITICAL
    }

    fn reduced(&self) -> &Reduced {
        self.shares.reduced()
    }
}

/// A load factor within this of 1 counts as critical, and critical is not stable.
pub const CRITICAL: f64 = 1e-12;

/// Job types whose work, scaled by `s*`, takes all that the servers holding them can do.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Bottleneck {
    /// The job types, ascending.
    pub job_types: Vec<JobTypeId>,
    /// All servers that hold one of them, ascending.
    pub servers: Vec<ServerId>,
}

/// Stability, bottleneck and static shares of a fleet.
///
/// With product form `O(flows * edges)` for a handful of flows, where rows and servers that are alike count once. Else
/// a linear program of at most [`LARGEST_PROGRAM`](crate::LARGEST_PROGRAM) edges.
///
/// A job type that never arrives limits nothing. Buffers are taken as unbounded, whatever the file says.
///
/// # Errors
/// If rates are missing or all 0, no server holds a job type, or the linear program is too large.
pub fn analyse(fleet: &Fleet) -> Result<Stability, TheoryError> {
    analyse_observed(fleet, &mut |_| ())
}

/// [`analyse`], telling `observer` how far it has come.
///
/// # Errors
/// As [`analyse`].
pub fn analyse_observed(fleet: &Fleet, observer: &mut Observer<'_>) -> Result<Stability, TheoryError> {
    let reduced = Reduced::new(fleet)?;
    let optimum = Optimum::of(&reduced, observer)?;
    let has_orphans = reduced.has_orphans();
    let max_load_factor = if has_orphans { 0.0 } else { optimum.factor };
    let cuts = if matches!(reduced.speeds, Speeds::Product(_)) {
        vec![Cut::everything(&reduced), Cut::of(&reduced, optimum.tight_ports.clone(), None)]
    } else {
        vec![]
    };
    Ok(Stability {
        max_load_factor,
        offered_load: if fleet.is_uniform() { capacity_share(&reduced) } else { 1.0 / max_load_factor },
        bottleneck: if has_orphans {
            let orphans: Vec<bool> = (0..reduced.ports.len()).map(|p| reduced.is_orphan(p)).collect();
            bottleneck(&reduced, &orphans, &vec![false; reduced.groups.len()])
        } else {
            bottleneck(&reduced, &optimum.tight_ports, &optimum.tight_groups)
        },
        shares: Shares::new(reduced, &optimum.work_on_edge),
        optimum,
        cuts,
    })
}

/// The load as the fleet file means it: in a uniform fleet `sum_l lambda_l size_l / sum_r slots_r rate_r` over the
/// servers with at least one job type, else `1/s*`. Scaling all arrival rates scales it.
///
/// A uniform fleet costs one pass over the edges; another as much as [`analyse`]. Infinite if the fleet is not uniform
/// and a job type that arrives is on no server.
///
/// # Errors
/// As [`analyse`].
pub fn offered_load(fleet: &Fleet) -> Result<f64, TheoryError> {
    if fleet.is_uniform() {
        return Ok(capacity_share(&Reduced::new(fleet)?));
    }
    analyse(fleet).map(|stability| stability.offered_load)
}

/// Work that arrives over work that all servers with a job type can do, for a fleet of product form.
fn capacity_share(reduced: &Reduced) -> f64 {
    let work: f64 = reduced.ports.iter().map(|port| port.work).sum();
    let capacity: f64 = (0..reduced.groups.len()).map(|g| reduced.capacity(g)).sum();
    work / capacity
}

/// The job types and servers of these ports and groups.
fn bottleneck(reduced: &Reduced, ports: &[bool], groups: &[bool]) -> Bottleneck {
    let arrives = |l: usize| reduced.job_types[l].0 > 0.0;
    let tight_job_type = |l: &usize| ports[reduced.port_of[*l] as usize] && arrives(*l);
    let tight_server = |r: &usize| reduced.group_of[*r].is_some_and(|g| groups[g as usize]);
    Bottleneck {
        job_types: (0..reduced.port_of.len()).filter(tight_job_type).map(JobTypeId::new).collect(),
        servers: (0..reduced.group_of.len()).filter(tight_server).map(ServerId::new).collect(),
    }
}
