//! Why a simulation cannot run.

use shortline_core::policy::PolicyError;

/// Why a simulation cannot run.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum SimulationError {
    /// The fleet asks for something that is no Markov chain of job counts.
    #[error(
        "{section} asks for {what}: that needs the general engine, which is not built yet; without it, sizes are exponential and arrivals Poisson"
    )]
    NeedsGeneralEngine {
        /// The section or key of the fleet file.
        section: &'static str,
        /// What it asks for.
        what: &'static str,
    },
    /// The speeds are known by their order only.
    #[error("the server types give a `rank`; a simulation needs the `rate` of every [[server_type]]")]
    RanksOnly,
    /// Nobody said how often a job type arrives.
    #[error("job type `{job_type}` has no arrival rate; give its [[job_type]] a `rate` or `total_rate`")]
    NoArrivalRate {
        /// Its name.
        job_type: String,
    },
    /// Nothing would happen.
    #[error("the arrival rates sum to {total}/s; a simulation needs a positive, finite sum")]
    NoArrivals {
        /// The sum.
        total: f64,
    },
    /// Whatever comes finds no server.
    #[error(
        "no job type that arrives is on a server, so no job is ever served; give a [[server]] in `serves`, or the [graph], a job type whose rate is positive"
    )]
    NothingServed,
    /// No policy was asked for.
    #[error("no policy: name one with `policy`, or give the fleet file a [fleet] `policy`")]
    NoPolicy,
    /// The policy cannot be used with the fleet.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// A policy sees another fleet than the one that is simulated.
    #[error(
        "the fleet as a policy sees it (`{name}`) differs from the simulated one in {what}; only the values of the speeds may differ"
    )]
    SeenFleet {
        /// Its name.
        name: String,
        /// In what it differs.
        what: &'static str,
    },
    /// An option outside its range.
    #[error("{option} is {value}, must be {range}")]
    Option {
        /// Which option.
        option: &'static str,
        /// Its value.
        value: f64,
        /// The accepted range.
        range: &'static str,
    },
    /// The threads could not be started.
    #[error("cannot start {threads} threads: {why}")]
    Threads {
        /// How many.
        threads: usize,
        /// What the system says.
        why: String,
    },
}
