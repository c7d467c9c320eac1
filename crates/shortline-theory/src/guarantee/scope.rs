//! Which fleets and policies the guarantee covers, and the numbers it needs of them.
//!
//! The theorems are about the Markov chain of job counts of a fleet with one service rate per server (not per job
//! type), one slot per server, exponential sizes, Poisson arrivals, finite buffers and `overflow = "reject"`. Exponential
//! service makes FIFO and processor sharing the same chain: both are covered. Everything else is refused, with the reason.
//!
//! Buffers may differ from server to server: `b` is then the largest one where the proofs bound what a job may find, the
//! smallest one where they count what full servers hold, and `(b - 1) / mu` becomes its maximum over the servers.

use shortline_core::fleet::settings::{Arrivals, Overflow, SizeLaw};
use shortline_core::policy::PolicySpec;
use shortline_core::{Fleet, ServerId};

use crate::reduced::arrival_rates;
use crate::stability::why_not_always_up;
use crate::{Model, TheoryError};

/// The policies that the theorems are about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PolicyClass {
    /// Every policy that sends a job to the fastest idle compatible server whenever one is idle, whatever it does
    /// otherwise: `jfiq`, `nq`, `jfsq`.
    FastestIdle,
    /// Of these, the one that joins the fastest of the shortest queues: `jfsq`. More is known about it.
    JoinFastestShortest,
}

impl PolicyClass {
    /// The class of a policy on this fleet; `None` if the policy may pass over the fastest idle server.
    ///
    /// With equal speeds every idle server is a fastest one: then `jsq`, `sed` and `nq` are `jfsq`, and `jiq` is `jfiq`.
    #[must_use]
    pub fn of(policy: PolicySpec, model: &Model) -> Option<Self> {
        let equal_speeds = model.classes().len() == 1;
        match policy {
            PolicySpec::Jfsq => Some(Self::JoinFastestShortest),
            PolicySpec::Jsq | PolicySpec::Sed | PolicySpec::Nq if equal_speeds => Some(Self::JoinFastestShortest),
            PolicySpec::Jfiq | PolicySpec::Nq => Some(Self::FastestIdle),
            PolicySpec::Jiq if equal_speeds => Some(Self::FastestIdle),
            _ => None,
        }
    }
}

/// Why a fleet or a policy has no guarantee of this kind, whatever its load.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum NotApplicable {
    /// The policy may pass over the fastest idle server.
    #[error("policy `{policy}` may pass over the fastest idle server; a guarantee is known for jfsq, jfiq and nq{}", 
        if *.equal_speeds { ", and for jsq, jiq and sed on servers of one speed" } else { "" })]
    Policy {
        /// The policy's name.
        policy: PolicySpec,
        /// Whether all servers have one speed.
        equal_speeds: bool,
    },
    /// The fleet is none that the theorems are about.
    #[error("the guarantee does not apply: {what}; {remedy}")]
    Fleet {
        /// What is in the way.
        what: &'static str,
        /// What to change.
        remedy: &'static str,
    },
    /// The fleet has no speed classes or no load.
    #[error(transparent)]
    Theory(#[from] TheoryError),
}

/// What the theorems know of a speed class.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Class {
    pub(super) rate_per_s: f64,
    pub(super) servers: usize,
    pub(super) smallest_buffer: u32,
    pub(super) largest_buffer: u32,
    /// Sum of the buffers.
    pub(super) places: f64,
}

/// What the theorems know of a fleet, but for its connectivity. Job types on no server are left out: all their jobs are
/// blocked, and the others do not see them.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Numbers {
    pub(super) arrivals_per_s: f64,
    /// Share of all arrivals whose job type is on no server.
    pub(super) without_server: f64,
    pub(super) classes: Vec<Class>,
    /// `nu`: arrival rate at the busiest server if each job type chose evenly among its servers.
    pub(super) busiest_per_s: f64,
}

impl Numbers {
    pub(super) fn of(fleet: &Fleet) -> Result<Self, NotApplicable> {
        let model = uniform_model(fleet)?;
        check_scope(fleet, &model)?;
        let rates = arrival_rates(fleet)?;
        let has_server = |l: &usize| fleet.graph().degree(*l) > 0;
        let arrivals_per_s: f64 = (0..rates.len()).filter(has_server).map(|l| rates[l]).sum();
        if arrivals_per_s <= 0.0 {
            return Err(NotApplicable::Fleet {
                what: "no job type that arrives is on a server",
                remedy: "every job is blocked; name the job types in `serves`",
            });
        }
        let total: f64 = rates.iter().sum();
        let classes = model.classes().iter().map(|class| Class::of(fleet, class.rate_per_s, &class.servers));
        Ok(Self {
            arrivals_per_s,
            without_server: ((total - arrivals_per_s) / total).max(0.0),
            classes: classes.collect(),
            busiest_per_s: busiest_server(fleet, &rates),
        })
    }

    /// The same fleet with all arrival rates times `factor`.
    pub(super) fn at_load(&self, factor: f64) -> Self {
        Self {
            arrivals_per_s: self.arrivals_per_s * factor,
            busiest_per_s: self.busiest_per_s * factor,
            ..self.clone()
        }
    }

    /// A fleet of `factor` times as many servers of each class and as many arrivals.
    pub(super) fn times(&self, factor: usize) -> Self {
        let grown =
            |class: &Class| Class { servers: class.servers * factor, places: class.places * factor as f64, ..*class };
        Self {
            arrivals_per_s: self.arrivals_per_s * factor as f64,
            classes: self.classes.iter().map(grown).collect(),
            ..self.clone()
        }
    }

    pub(super) fn servers(&self) -> usize {
        self.classes.iter().map(|class| class.servers).sum()
    }

    /// `Lambda / g_M`.
    pub(super) fn load(&self) -> f64 {
        self.arrivals_per_s / self.classes.iter().map(|class| class.rate_per_s * class.servers as f64).sum::<f64>()
    }
}

impl Class {
    fn of(fleet: &Fleet, rate_per_s: f64, servers: &[ServerId]) -> Self {
        let buffers = || servers.iter().filter_map(|&r| fleet.buffer(r));
        Self {
            rate_per_s,
            servers: servers.len(),
            smallest_buffer: buffers().min().expect("the scope admits finite buffers only"),
            largest_buffer: buffers().max().expect("the scope admits finite buffers only"),
            places: buffers().map(f64::from).sum(),
        }
    }
}

fn uniform_model(fleet: &Fleet) -> Result<Model, NotApplicable> {
    arrival_rates(fleet)?;
    if !fleet.is_uniform() {
        return Err(NotApplicable::Fleet {
            what: "service rates depend on the job type",
            remedy: "give all job types the same size and drop the [[rate]] entries",
        });
    }
    Ok(Model::new(fleet)?)
}

fn check_scope(fleet: &Fleet, model: &Model) -> Result<(), NotApplicable> {
    let settings = fleet.settings();
    let some_server =
        |has: &dyn Fn(ServerId) -> bool| model.classes().iter().any(|c| c.servers.iter().any(|&r| has(r)));
    let failing = why_not_always_up(fleet);
    let obstacles = [
        (settings.overflow == Overflow::Wait, "jobs without a place wait in front", "use overflow = \"reject\""),
        (
            settings.service.law != SizeLaw::Exponential,
            "sizes are not exponential",
            "use [service] distribution = \"exponential\"",
        ),
        (settings.arrivals != Arrivals::Poisson, "arrivals are not Poisson", "leave [arrivals] out"),
        (failing.is_some(), failing.unwrap_or_default().0, failing.unwrap_or_default().1),
        (settings.information.delay_s > 0.0, "the dispatcher sees old counts", "leave [information] delay_s out"),
        (settings.information.gateways > 1, "several gateways share the servers", "use one gateway"),
        (some_server(&|r| fleet.slots(r) > 1), "a server has several slots", "write a server of c slots as c servers"),
        (some_server(&|r| fleet.buffer(r).is_none()), "a buffer is unbounded", "give [fleet] `buffer` a number"),
    ];
    match obstacles.into_iter().find(|&(applies, ..)| applies) {
        Some((_, what, remedy)) => Err(NotApplicable::Fleet { what, remedy }),
        None => Ok(()),
    }
}

/// `max over r of sum over l of lambda_l / |N(l)|`, equal rows taken together.
fn busiest_server(fleet: &Fleet, rates: &[f64]) -> f64 {
    let graph = fleet.graph();
    let mut by_row = vec![(0.0, None); graph.distinct_row_count()];
    for (l, rate) in rates.iter().enumerate() {
        let (sum, first) = &mut by_row[graph.row_number(l)];
        *sum += rate;
        *first = Some(l);
    }
    let mut at_server = vec![0.0; fleet.server_count()];
    for (rate, job_type) in by_row {
        let Some(l) = job_type else { continue };
        let share = rate / graph.degree(l).max(1) as f64;
        graph.for_each(l, |r| at_server[r.index()] += share);
    }
    at_server.into_iter().fold(0.0, f64::max)
}
