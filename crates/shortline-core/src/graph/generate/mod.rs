//! Generators of compatibility graphs, one file per family.
//!
//! [`generate`] turns a [`GraphSpec`] into [`Edges`] for a given [`Demand`] and reports what came out. All families:
//!
//! * cost O(edges) time and hold little beyond the edges themselves; a graph may have up to [`MOST_EDGES`] edges;
//! * give rows that are ascending and free of duplicates;
//! * draw from `Generator::seed_from_u64(seed)` by integer arithmetic: one seed, one graph, on every platform (only
//!   the constants of the well-connected design come from logarithms; they are rounded to 24 bits before use);
//! * refuse what cannot be with a [`GenerateError`] that names the value and the way out.
//!
//! Beside the families of the fleet file there are three functions for programs:
//! [`arrival_weighted_degrees`] with [`port_degrees`], [`bernoulli_by_job_type`] and [`bernoulli_by_pair`].

mod bernoulli;
mod biregular;
mod demand;
mod design;
mod error;
mod ln_choose;
mod port_degree;
mod proportionally_sparse;
mod report;
mod row_writer;
mod server_degree;
mod skip;
mod subset;
mod well_connected;

pub use bernoulli::{bernoulli_by_job_type, bernoulli_by_pair};
pub use demand::{Demand, SpeedClass};
pub use design::Design;
pub use error::GenerateError;
pub use port_degree::{arrival_weighted_degrees, port_degrees};
pub use report::{Degrees, GraphReport};
pub use well_connected::WellConnectedReport;

use rand::SeedableRng;

use super::{Edges, GraphSpec};
use crate::random::Generator;

/// The largest number of edges that is generated: 2^32 - 1, which takes 16 GiB.
pub const MOST_EDGES: u64 = u32::MAX as u64;

/// A generated graph and what can be said about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Generated {
    /// The graph, servers in the file's order.
    pub edges: Edges,
    /// Its realised degrees and guarantees.
    pub report: GraphReport,
}

/// The graph that `spec` describes, for the servers and job types of `demand`.
///
/// A specification that makes every pair an edge gives [`Edges::Complete`], whatever its family.
///
/// ```
/// use shortline_core::graph::GraphSpec;
/// use shortline_core::graph::generate::{Demand, generate};
///
/// let spec = GraphSpec::ServerDegree { degree: 6, biregular: true, seed: 7 };
/// let graph = generate(&spec, &Demand::of_size(24, 72))?;
/// assert_eq!(graph.report.edges, 24 * 6);
/// assert_eq!((graph.report.per_server.min, graph.report.per_server.max), (6, 6));
/// assert_eq!((graph.report.per_job_type.min, graph.report.per_job_type.max), (2, 2));
/// # Ok::<(), shortline_core::graph::generate::GenerateError>(())
/// ```
///
/// # Errors
/// [`GenerateError`] if a parameter is out of range, the fleet does not allow it, or the demand lacks what the family
/// needs; [`GenerateError::File`] for [`GraphSpec::File`], whose edges are read and not generated.
pub fn generate(spec: &GraphSpec, demand: &Demand<'_>) -> Result<Generated, GenerateError> {
    let (servers, job_types) = demand.checked_size()?;
    let mut well_connected = None;
    let edges = match *spec {
        GraphSpec::Complete => Edges::Complete,
        GraphSpec::PortDegree { degree, seed } => port_degree::equal(degree, servers, job_types, &mut rng(seed))?,
        GraphSpec::ServerDegree { degree, biregular: false, seed } => {
            server_degree::generate(degree, servers, job_types, &mut rng(seed))?
        }
        GraphSpec::ServerDegree { degree, biregular: true, seed } => {
            biregular::generate(degree, servers, job_types, &mut rng(seed))?
        }
        GraphSpec::Bernoulli { ref edges, seed } => bernoulli::equal(edges, servers, job_types, &mut rng(seed))?,
        GraphSpec::ProportionallySparse { ref density, seed } => {
            proportionally_sparse::generate(density, servers, job_types, &mut rng(seed))?
        }
        GraphSpec::WellConnected { delta, ref left_out, confidence, seed } => {
            let target = well_connected::Target { delta, left_out, confidence };
            let (edges, report) = well_connected::generate(&target, demand, &mut rng(seed))?;
            well_connected = Some(report);
            edges
        }
        GraphSpec::File { ref path } => return Err(GenerateError::File { path: path.clone() }),
    };
    let report = GraphReport { well_connected, ..GraphReport::of(&edges, demand.servers, demand.job_types) };
    Ok(Generated { edges, report })
}

fn rng(seed: u64) -> Generator {
    Generator::seed_from_u64(seed)
}
