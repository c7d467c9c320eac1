//! Why a graph cannot be generated, with the values at fault and the way out.

/// A graph that was asked for and cannot be. [`field`](Self::field) names the key of `[graph]` to point at.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GenerateError {
    /// A job type cannot be on that many servers.
    #[error("degree = {degree}: a job type can be on 1 to {servers} servers here; choose `degree` in that range")]
    PortDegree {
        /// Servers per job type asked for.
        degree: u32,
        /// Servers there are.
        servers: u32,
    },
    /// A server cannot hold that many job types.
    #[error("degree = {degree}: a server can hold 1 to {job_types} job types here; choose `degree` in that range")]
    ServerDegree {
        /// Job types per server asked for.
        degree: u32,
        /// Job types there are.
        job_types: u32,
    },
    /// Balanced degrees would leave job types without a server.
    #[error(
        "{servers} servers with {degree} job types each have {} places for {job_types} job types, so some would be on \
         no server; at least {} job types per server are needed",
        u64::from(*.servers) * u64::from(*.degree), least_server_degree(*.servers, *.job_types)
    )]
    EmptyJobTypes {
        /// Job types per server asked for.
        degree: u32,
        /// Servers there are.
        servers: u32,
        /// Job types there are.
        job_types: u32,
    },
    /// A parameter outside its range.
    #[error("{field} = {value}: it must be {range}")]
    OutOfRange {
        /// The parameter.
        field: &'static str,
        /// What was given.
        value: f64,
        /// What is allowed.
        range: String,
    },
    /// The server sets to be seen are larger than the set they are taken from.
    #[error(
        "servers_left_out = {left_out}: the {fastest_types} fastest server types have {servers} servers, so between 1 \
         and {servers} can be left out; lower `servers_left_out` or give `epsilon`"
    )]
    LeftOut {
        /// Servers left out.
        left_out: u32,
        /// How many of the fastest server types are considered.
        fastest_types: usize,
        /// How many servers these have.
        servers: usize,
    },
    /// The well-connected design needs to know how often each job type arrives.
    #[error(
        "a well-connected graph needs the arrival rates of all job types, not all of them 0; give every `[[job_type]]` \
         a `rate`, or use kind \"port-degree\""
    )]
    NoArrivalRates,
    /// The well-connected design needs to know how fast servers are.
    #[error(
        "a well-connected graph needs the speeds of all server types; give every `[[server_type]]` a `rate`, or use \
         kind \"port-degree\""
    )]
    NoServiceRates,
    /// An arrival rate that is none.
    #[error("job type {job_type} (counted from 0) has arrival rate {rate}; it must be a finite number from 0")]
    ArrivalRate {
        /// Index of the job type.
        job_type: usize,
        /// Its rate.
        rate: f64,
    },
    /// The well-connected design would join every job type to every server.
    #[error(
        "delta = {delta}: so small a share of isolated arrivals would take every edge there is; {}",
        delta_remedy(*.least_delta)
    )]
    CompleteDesign {
        /// The share asked for.
        delta: f64,
        /// The share above which the design leaves an edge out.
        least_delta: f64,
    },
    /// The guarantee of proportional sparsity takes more servers per job type than there are.
    #[error(
        "epsilon = {epsilon}, eta = {eta}: the guarantee takes {degree} servers per job type and there are {servers}; \
         raise `epsilon` or `eta`, or give `c` in their place"
    )]
    TooSparse {
        /// Deviation allowed.
        epsilon: f64,
        /// Fraction of job types that may deviate more.
        eta: f64,
        /// Servers per job type that the guarantee takes.
        degree: u64,
        /// Servers there are.
        servers: u32,
    },
    /// A probability given by a program is none.
    #[error(
        "the probability of job type {job_type} at {} is {probability}; it must be between 0 and {most}",
        .server.map_or("its servers".to_owned(), |r| format!("server {r}"))
    )]
    Probability {
        /// Index of the job type.
        job_type: usize,
        /// Index of the server, where probabilities differ by server.
        server: Option<u32>,
        /// The probability.
        probability: f64,
        /// The largest allowed: 1, or the bound given for the job type.
        most: f64,
    },
    /// More edges than are generated.
    #[error(
        "about {edges:.0} edges: at most {most} are generated; lower the degree or the probability, or use kind \
         \"complete\", which stores none",
        most = super::MOST_EDGES
    )]
    TooManyEdges {
        /// Expected number of edges.
        edges: f64,
    },
    /// The edges stand in a file.
    #[error("kind \"file\": the edges of `{path}` are to be read, not generated; load them with the fleet file")]
    File {
        /// The file.
        path: String,
    },
    /// The program's description of the fleet contradicts itself.
    #[error("the fleet to generate a graph for is not consistent: {what}")]
    Demand {
        /// What does not fit.
        what: String,
    },
}

impl GenerateError {
    /// The key of the `[graph]` section that is best changed, to place a message; `kind` if there is none.
    #[must_use]
    pub fn field(&self) -> &'static str {
        match self {
            Self::PortDegree { .. } | Self::ServerDegree { .. } => "degree",
            Self::OutOfRange { field, .. } => field,
            Self::LeftOut { .. } => "servers_left_out",
            Self::CompleteDesign { .. } => "delta",
            Self::TooSparse { .. } => "epsilon",
            Self::File { .. } => "path",
            Self::EmptyJobTypes { .. }
            | Self::NoArrivalRates
            | Self::NoServiceRates
            | Self::ArrivalRate { .. }
            | Self::Probability { .. }
            | Self::TooManyEdges { .. }
            | Self::Demand { .. } => "kind",
        }
    }
}

fn least_server_degree(servers: u32, job_types: u32) -> u32 {
    if servers == 0 { job_types } else { job_types.div_ceil(servers) }
}

fn delta_remedy(least_delta: f64) -> String {
    if least_delta < 1.0 {
        format!("use kind \"complete\", or a `delta` above {least_delta:.3}, or leave more servers out")
    } else {
        "no `delta` below 1 takes fewer in so small a fleet; use kind \"complete\", or leave more servers out"
            .to_owned()
    }
}

/// Refuses `value` unless it lies strictly between 0 and 1.
pub(super) fn check_share(field: &'static str, value: f64) -> Result<(), GenerateError> {
    if value > 0.0 && value < 1.0 {
        return Ok(());
    }
    Err(GenerateError::OutOfRange { field, value, range: "more than 0 and less than 1".to_owned() })
}

/// Refuses more than [`MOST_EDGES`](super::MOST_EDGES) edges.
pub(super) fn check_edges(edges: f64) -> Result<(), GenerateError> {
    if edges <= super::MOST_EDGES as f64 { Ok(()) } else { Err(GenerateError::TooManyEdges { edges }) }
}
