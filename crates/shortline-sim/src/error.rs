//! Why a simulation cannot run.

use shortline_core::policy::PolicyError;
use shortline_core::sizes::SizeLawError;

/// Why a simulation cannot run.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum SimulationError {
    /// The fleet's jobs come with a trace, and there is none.
    #[error("{section} is \"trace\" and there is no trace to take it from; give one that has it")]
    NeedsTrace {
        /// The key of the fleet file.
        section: &'static str,
    },
    /// A recorded job that cannot be.
    #[error("job {job} of the trace (counted from 0): {what}")]
    Trace {
        /// Which job.
        job: usize,
        /// What is wrong with it.
        what: String,
    },
    /// A law of sizes that does not exist.
    #[error(transparent)]
    Sizes(#[from] SizeLawError),
    /// Too many jobs in service to follow each of them.
    #[error("the servers have {slots} slots together; the general engine follows each, up to {most}")]
    TooManySlots {
        /// All slots.
        slots: u64,
        /// The most.
        most: u64,
    },
    /// Too many gateways to keep what each of them knows.
    #[error(
        "[information] gateways = {gateways}; with so many servers up to {most} fit into memory, and more are as good as a random choice"
    )]
    TooManyGateways {
        /// As many as the fleet says.
        gateways: u32,
        /// The most.
        most: u64,
    },
    /// The clock would run so far that services are shorter than its steps.
    #[error(
        "{what} {} s, and a clock that has run so far ticks in steps of {} s: too coarse beside a mean service of {} s; it may run \
         to {} s",
        rough(*.time_s), rough(time_s * f64::EPSILON), rough(*.service_s), rough(*.until_s)
    )]
    Clock {
        /// What takes that long.
        what: &'static str,
        /// How long it takes, in seconds.
        time_s: f64,
        /// Mean service time where a job is fastest, in seconds.
        service_s: f64,
        /// How far the clock may run, in seconds.
        until_s: f64,
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
    #[error("the arrival rates sum to {}/s; a simulation needs a positive, finite sum", without_zeros(*.total))]
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
    #[error("{option} is {}, must be {range}", without_zeros(*.value))]
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

/// The number, with a power of ten where it would be a row of zeros.
fn without_zeros(x: f64) -> String {
    if x == 0.0 || (1e-5..1e16).contains(&x.abs()) { x.to_string() } else { format!("{x:e}") }
}

/// Three digits of it.
fn rough(x: f64) -> String {
    format!("{x:.2e}").parse().map_or_else(|_| x.to_string(), without_zeros)
}
