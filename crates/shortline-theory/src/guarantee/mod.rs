//! What is guaranteed for a fleet of finite size: upper bounds on blocking, jobs and response time.
//!
//! For every policy that sends a job to the **fastest idle** compatible server whenever one is idle (`jfsq`, `jfiq`, `nq`),
//! on servers of one slot with finite buffers, Poisson arrivals and exponential sizes whose mean does not depend on the job
//! type. The bounds hold for the stationary law of the fleet as it is, not in a limit. They play the role of Theorem 1 of
//! W. Weng, X. Zhou, R. Srikant (2020); statements and proofs are in the book, chapter "Guarantee".
//!
//! * [`evaluate`] says what is guaranteed, or that the bounds say nothing at this size, why, and what would mend it.
//! * [`Analysis`] has the theorems' numbers one by one.
//!
//! | theorem | bounds | in |
//! |---|---|---|
//! | S1 | idle fast servers | `idle.rs`, `idle_rates.rs` |
//! | L | arrivals that are not sent at once to an idle server | `loss.rs` |
//! | S3 | jobs and response time, from these | `jobs.rs` |
//! | S4, S5 | for `jfsq`: deep queues; waiting jobs | `deep_queues.rs`, `waiting.rs` |
//! | simple form | all of it in closed form, weaker | `simple.rs` |
//!
//! # Symbols
//! | symbol | name |
//! |---|---|
//! | `mu_1 > ... > mu_M`, `R_m`, `n_m`, `g_m`, `K` | speed classes, see [`Model`] |
//! | `X_m`, `W` | idle servers in `R_m`; jobs that wait |
//! | `delta_m(i)` | largest share of the arrivals that has no server in a set of at least `i` servers of `R_m` |
//! | `a_m`, `chi = a_M` | share of arrivals not sent at once to an idle server of `R_m`; of any |
//! | `b` | buffer: most jobs at a server, the one in service included |

mod analysis;
mod deep_queues;
mod idle;
mod idle_rates;
mod jobs;
mod loss;
mod scope;
mod search;
mod simple;
mod system;
mod vacuous;
mod waiting;

use shortline_core::Fleet;
use shortline_core::policy::PolicySpec;

use crate::Model;
pub use analysis::Analysis;
pub use jobs::JobTerms;
use scope::Numbers;
pub use scope::{NotApplicable, PolicyClass};
use search::Effort;
pub use simple::SimpleBound;
use vacuous::Part;
pub use vacuous::{Cause, MOST_BLOCKED, Mend, Quantity, Vacuous};

/// The connectivity profile: `profile(m, i)` is `delta_m(i)`, or an upper bound on it. See [`evaluate`].
pub type Profile<'a> = &'a dyn Fn(usize, usize) -> f64;

/// Which theorem gave a bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Theorem {
    /// The simple form.
    Simple,
    /// Theorem L.
    Loss,
    /// Theorem S4, for `jfsq`.
    DeepQueues,
    /// Theorem S5, for `jfsq`.
    Waiting,
}

/// What is guaranteed; each part is a bound, or the reason why it says nothing.
#[derive(Clone, PartialEq, Debug)]
pub struct Guarantee {
    /// What is known of the policy.
    pub class: PolicyClass,
    /// Bound on the share of arrivals that are not sent at once to an idle server (job types that have a server); 1 says
    /// nothing.
    pub chi: f64,
    /// The `m` behind `chi`: idle servers of the first `m` speed classes were counted.
    pub m: usize,
    /// The idle servers behind `chi`: more than `e` of them would not make the bound smaller.
    pub e: usize,
    /// The blocking probability.
    pub blocking: Result<BlockingGuarantee, Vacuous>,
    /// Mean jobs and mean response time.
    pub jobs: Result<JobsGuarantee, Vacuous>,
}

/// At most so many jobs are blocked.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BlockingGuarantee {
    /// Bound on the blocking probability, job types without a server included.
    pub probability: f64,
    /// The theorem that gave it, with its `m` and `e`.
    pub theorem: Theorem,
    /// Speed classes counted.
    pub m: usize,
    /// Idle servers.
    pub e: usize,
}

/// At most so many jobs are in the fleet in the mean, and they stay no longer than this.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct JobsGuarantee {
    /// Bound on the mean number of jobs in the fleet.
    pub mean_jobs: f64,
    /// Bound on the mean response time of accepted jobs, seconds.
    pub mean_response_s: f64,
    /// `mean_response_s` over the fluid bound `L* / Lambda`; `None` if more arrives than the servers can do.
    pub ratio_to_fluid: Option<f64>,
    /// What it is made of.
    pub terms: JobTerms,
}

impl Guarantee {
    /// Whether nothing is known about jobs and response times.
    #[must_use]
    pub fn is_vacuous(&self) -> bool {
        self.jobs.is_err()
    }
}

/// The guarantee of a fleet under a policy.
///
/// `profile(m, i)` is `delta_m(i)` or an upper bound on it: the largest share of the arrivals whose job type has no server
/// in a set of at least `i` servers of the first `m` speed classes of [`Model`], `m` from 1, `i` from 1 to `n_m`. Values above
/// 1 and NaN say nothing; a value holds for all larger `i` too. On a complete graph it is 0.
///
/// Different buffers are allowed. Job types on no server are taken as blocked. `O(N)` per speed class (at most 24 of them
/// are looked at) for each of some hundred passes.
///
/// ```
/// # use shortline_core::{Fleet, fleet::*, graph::Edges, policy::PolicySpec};
/// use shortline_theory::guarantee::evaluate;
/// // 2,048 servers of speeds 1, 1/2 and 1/4, every job type on each, at 0.9 of their capacity.
/// # let server_type = |name: &str, rate| ServerTypeParts { name: name.into(), speed: Speed::Rate(rate), slots: 1 };
/// # let servers = |name: &str, count, server_type| ServerParts { names: Names { base: name.into(), count: Some(count) }, server_type, buffer: Some(5), addresses: vec![] };
/// # let fleet = |n: u32| Fleet::new(FleetParts {
/// #     name: String::new(),
/// #     server_types: vec![server_type("a", 1.0), server_type("b", 0.5), server_type("c", 0.25)],
/// #     servers: vec![servers("a", n / 4, 0), servers("b", n / 4, 1), servers("c", n / 2, 2)],
/// #     job_types: vec![JobTypeParts { names: Names { base: "m".into(), count: None }, arrivals: ArrivalRates::Each(0.45 * f64::from(n)), size: 1.0 }],
/// #     rates: vec![], edges: Edges::Complete, settings: Settings::default(),
/// # });
/// let complete = |_m: usize, i: usize| if i == 0 { 1.0 } else { 0.0 };
/// let guarantee = evaluate(&fleet(2_048)?, PolicySpec::Jfiq, &complete)?;
/// let jobs = guarantee.jobs.expect("the fleet is large enough");
/// assert!(jobs.ratio_to_fluid.unwrap() < 1.005, "within half a percent of the best that any policy could do");
///
/// let small = evaluate(&fleet(16)?, PolicySpec::Jfiq, &complete)?;
/// let why = small.jobs.unwrap_err().to_string();
/// assert!(why.contains("load <= 0.8"), "{why}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`NotApplicable`] if the theorems are not about this policy or this fleet.
pub fn evaluate(fleet: &Fleet, policy: PolicySpec, profile: Profile<'_>) -> Result<Guarantee, NotApplicable> {
    let numbers = Numbers::of(fleet)?;
    let model = Model::new(fleet)?;
    let equal_speeds = model.classes().len() == 1;
    let class = PolicyClass::of(policy, &model).ok_or(NotApplicable::Policy { policy, equal_speeds })?;
    let analysis = Analysis::of(&numbers, class, profile, Effort::thorough(numbers.servers()));
    let vacuous = |part| vacuous::check(&numbers, class, profile, &analysis, part);
    let blocking = vacuous(Part::Blocking).map_or_else(|| Ok(blocking(&numbers, &analysis)), Err);
    let jobs = vacuous(Part::Jobs).map_or_else(|| Ok(jobs_guarantee(&analysis)), Err);
    Ok(Guarantee { class, chi: analysis.chi(), m: analysis.shares().m, e: analysis.shares().spare, blocking, jobs })
}

fn blocking(numbers: &Numbers, analysis: &Analysis) -> BlockingGuarantee {
    let bound = analysis.blocking();
    let orphans = numbers.without_server;
    let probability = orphans + (1.0 - orphans) * bound.probability;
    BlockingGuarantee { probability, theorem: bound.theorem, m: bound.m, e: bound.e }
}

fn jobs_guarantee(analysis: &Analysis) -> JobsGuarantee {
    let terms = analysis.jobs();
    JobsGuarantee {
        mean_jobs: terms.mean_jobs,
        mean_response_s: terms.mean_response_s,
        ratio_to_fluid: analysis.fluid_response_s().map(|fluid| terms.mean_response_s / fluid),
        terms,
    }
}
