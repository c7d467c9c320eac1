//! Why a question about a fleet has no answer.

/// Why theory cannot be computed for a fleet. Each message names what to change.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum TheoryError {
    /// The fleet orders its server types but does not say how fast they are.
    #[error(
        "server type `{server_type}` has a `rank` only; bounds and stability need every [[server_type]] to have a `rate`"
    )]
    RanksOnly {
        /// The first of the server types.
        server_type: String,
    },
    /// Some job types have no arrival rate.
    #[error(
        "job type `{job_type}`{} no arrival rate; give every [[job_type]] a `rate` (or `total_rate`)",
        others(*.count)
    )]
    MissingRates {
        /// The first job type without one.
        job_type: String,
        /// How many have none.
        count: usize,
    },
    /// All arrival rates are 0.
    #[error("all arrival rates are 0, so there is no load; give some [[job_type]] a `rate` above 0")]
    NoArrivals,
    /// No server holds any job type.
    #[error("no server holds any job type; name job types in `serves`, or give a [graph] with edges")]
    NoEdges,
    /// The throughput at which a bound was asked for is not one.
    #[error(
        "a bound at an accepted throughput of {throughput} jobs per second does not exist; it must be positive and finite"
    )]
    Throughput {
        /// What was asked for.
        throughput: f64,
    },
    /// The problem is beyond what the method can solve.
    #[error("{what}: {value}, and at most {limit} can be solved; {remedy}")]
    TooLarge {
        /// What was counted.
        what: &'static str,
        /// How many there are.
        value: usize,
        /// How many there can be.
        limit: usize,
        /// What helps.
        remedy: &'static str,
    },
    /// The method does not cover this fleet.
    #[error("{what} is not covered by {method}: {remedy}")]
    NotCovered {
        /// Where in the fleet the reason lies.
        what: &'static str,
        /// What was to be computed.
        method: &'static str,
        /// What helps.
        remedy: &'static str,
    },
    /// The linear-program solver gave up, or its answers contradict each other.
    #[error(
        "the linear program for {what} could not be solved: {why}; the spread of the fleet's rates may be beyond double precision"
    )]
    LinearProgram {
        /// What was to be computed.
        what: &'static str,
        /// What the solver says.
        why: String,
    },
    /// Unbounded queues grow without end.
    #[error("there is no steady state: {why}")]
    NoSteadyState {
        /// Which queues, and by what.
        why: String,
    },
    /// A trajectory was asked for that is none.
    #[error("this trajectory does not exist: {why}")]
    Trajectory {
        /// What is wrong with its start or its times.
        why: String,
    },
    /// An iteration did not arrive.
    #[error("{what} was not found: {why}; take a smaller system")]
    Iteration {
        /// What was to be computed.
        what: &'static str,
        /// How far it came.
        why: String,
    },
}

fn others(count: usize) -> String {
    match count {
        1 => " has".to_owned(),
        2 => " and 1 other have".to_owned(),
        n => format!(" and {} others have", n - 1),
    }
}
