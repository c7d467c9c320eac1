//! How to generate a compatibility graph: what the `[graph]` section of a fleet file says.
//!
//! A [`GraphSpec`] names a family and its parameters, nothing about the fleet. [`generate`](super::generate::generate)
//! turns it into [`Edges`](super::Edges) for a given number of servers and job types, and refuses what cannot be.
//! The same specification, fleet and seed give the same graph on every platform.

/// A family of graphs and its parameters.
///
/// `N` is the number of servers, `L` the number of job types (the ports of the graph).
#[derive(Clone, PartialEq, Debug)]
pub enum GraphSpec {
    /// Every server holds every job type.
    Complete,
    /// Every job type is held by `degree` servers, distinct and uniformly random, independently of other job types.
    PortDegree {
        /// Servers per job type, `1..=N`.
        degree: u32,
        /// Seed of the generator.
        seed: u64,
    },
    /// Every server holds `degree` job types, distinct and random.
    ServerDegree {
        /// Job types per server, `1..=L`.
        degree: u32,
        /// `false`: servers choose independently. `true`: the job types' degrees are balanced as well, to the floor
        /// or ceiling of `N degree / L`.
        biregular: bool,
        /// Seed of the generator.
        seed: u64,
    },
    /// Every pair of a job type and a server is an edge independently with the same probability.
    Bernoulli {
        /// That probability.
        edges: EdgeProbability,
        /// Seed of the generator.
        seed: u64,
    },
    /// The random design whose well-connectedness is guaranteed: with the given confidence, whichever servers are
    /// busy but for the number left out, the job types that find none of the others have at most the share `delta`
    /// of all arrivals.
    WellConnected {
        /// Largest share of the arrivals that may be isolated, in `(0, 1)`.
        delta: f64,
        /// Size of the server sets that must be seen.
        left_out: LeftOut,
        /// Probability that the guarantee holds, in `(0, 1)`.
        confidence: f64,
        /// Seed of the generator.
        seed: u64,
    },
    /// Few edges, yet every set of servers is seen by almost all job types in proportion to its size.
    ProportionallySparse {
        /// How many edges.
        density: Sparsity,
        /// Seed of the generator.
        seed: u64,
    },
    /// The edges stand in a file, with the header `job_type,server`.
    File {
        /// Path of the file, relative to the fleet file.
        path: String,
    },
}

/// The probability of an edge, the same for every pair.
#[derive(Clone, PartialEq, Debug)]
pub enum EdgeProbability {
    /// The probability itself, in `[0, 1]`.
    Each(f64),
    /// The expected number of servers per job type, in `[0, N]`: probability `degree / N`.
    MeanDegree(f64),
}

/// The size `e` of the smallest server sets that a well-connected graph takes into account.
#[derive(Clone, PartialEq, Debug)]
pub enum LeftOut {
    /// This many servers, at least 1.
    Servers(u32),
    /// This fraction `epsilon` of the servers considered, in `(0, 1]`: `e = ceil(epsilon n)`.
    Fraction(f64),
}

/// How dense a proportionally sparse graph is.
#[derive(Clone, PartialEq, Debug)]
pub enum Sparsity {
    /// As few servers per job type as the proof allows: with the given confidence, for every server set `U` all but
    /// a fraction `eta` of the job types have a share of their servers in `U` within `epsilon` of `|U| / N`.
    Guaranteed {
        /// Largest deviation of the share, in `(0, 1)`.
        epsilon: f64,
        /// Largest fraction of job types that deviate more, in `(0, 1)`.
        eta: f64,
        /// Probability that the guarantee holds, in `(0, 1)`.
        confidence: f64,
    },
    /// At most this many job types per server, on balance all of them used; at least 1.
    Cap(f64),
    /// The cap `ceil(ln N)`, at least 1.
    Log,
    /// The cap `ceil(sqrt N)`.
    Sqrt,
}
