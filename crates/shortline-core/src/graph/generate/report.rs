//! What came out: the realised degrees of a graph.

use super::WellConnectedReport;
use crate::graph::Edges;

/// Realised degrees of a graph and, for a well-connected one, what is guaranteed.
#[derive(Clone, PartialEq, Debug)]
pub struct GraphReport {
    /// Number of edges.
    pub edges: u64,
    /// Servers per job type.
    pub per_job_type: Degrees,
    /// Job types per server.
    pub per_server: Degrees,
    /// Job types that no server holds: their jobs can never be served.
    pub job_types_without_server: usize,
    /// Servers that hold no job type: they stay idle.
    pub servers_without_job_type: usize,
    /// Constants and guarantees of the well-connected design; `None` for other families.
    pub well_connected: Option<WellConnectedReport>,
}

/// Least, mean and largest degree; all 0 if there is nothing to have one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Degrees {
    /// The least.
    pub min: usize,
    /// The mean.
    pub mean: f64,
    /// The largest.
    pub max: usize,
}

impl GraphReport {
    /// Counts the degrees of `edges`, a graph of `servers` and `job_types`. O(edges), 4 bytes a server.
    ///
    /// # Panics
    /// If a row names a server that is not below `servers`.
    #[must_use]
    pub fn of(edges: &Edges, servers: usize, job_types: usize) -> Self {
        match edges {
            Edges::Complete => {
                let row = std::iter::repeat_n;
                Self::of_degrees(row(servers, job_types), row(job_types, servers))
            }
            Edges::Rows { starts, servers: list } => {
                let mut per_server = vec![0_u32; servers];
                for &server in list {
                    per_server[server as usize] += 1;
                }
                let per_job_type = starts.windows(2).map(|ends| ends[1] - ends[0]);
                Self::of_degrees(per_job_type, per_server.iter().map(|&degree| degree as usize))
            }
        }
    }

    fn of_degrees(per_job_type: impl Iterator<Item = usize>, per_server: impl Iterator<Item = usize>) -> Self {
        let (edges, per_job_type, job_types_without_server) = summary(per_job_type);
        let (_, per_server, servers_without_job_type) = summary(per_server);
        let well_connected = None;
        Self { edges, per_job_type, per_server, job_types_without_server, servers_without_job_type, well_connected }
    }
}

/// Sum, summary and number of zeros.
fn summary(degrees: impl Iterator<Item = usize>) -> (u64, Degrees, usize) {
    let (mut count, mut sum, mut zeros, mut min, mut max) = (0_u64, 0_u64, 0, usize::MAX, 0);
    for degree in degrees {
        count += 1;
        sum += degree as u64;
        zeros += usize::from(degree == 0);
        min = min.min(degree);
        max = max.max(degree);
    }
    if count == 0 {
        return (0, Degrees { min: 0, mean: 0.0, max: 0 }, 0);
    }
    (sum, Degrees { min, mean: sum as f64 / count as f64, max }, zeros)
}
