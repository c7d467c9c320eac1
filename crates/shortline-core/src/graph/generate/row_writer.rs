//! Rows written edge by edge, into memory reserved for the expected number of edges.

use super::GenerateError;
use super::error::check_edges;
use crate::graph::Edges;

/// Collects the servers of one job type after the other.
#[derive(Debug)]
pub(super) struct RowWriter {
    job_types: usize,
    starts: Vec<usize>,
    servers: Vec<u32>,
}

impl RowWriter {
    /// A writer of `job_types` rows; refuses too large an expected number of edges.
    pub(super) fn new(expected_edges: f64, job_types: usize) -> Result<Self, GenerateError> {
        check_edges(expected_edges)?;
        // Six standard deviations of a binomial number above its mean: growing (and copying) next to never happens.
        let capacity = (expected_edges + 6.0 * expected_edges.sqrt()) as usize + 16;
        let mut starts = Vec::with_capacity(job_types + 1);
        starts.push(0);
        Ok(Self { job_types, starts, servers: Vec::with_capacity(capacity) })
    }

    /// Adds a server, larger than those before it, to the current row.
    #[inline]
    pub(super) fn push(&mut self, server: u32) {
        self.servers.push(server);
    }

    /// Ends the current row.
    #[inline]
    pub(super) fn end_row(&mut self) {
        self.starts.push(self.servers.len());
    }

    /// Ends the current row, whose servers may have been pushed in any order.
    pub(super) fn sort_and_end_row(&mut self) {
        let first = self.starts[self.starts.len() - 1];
        self.servers[first..].sort_unstable();
        self.end_row();
    }

    /// The graph; rows not reached are empty.
    pub(super) fn finish(mut self) -> Edges {
        self.starts.resize(self.job_types + 1, self.servers.len());
        Edges::Rows { starts: self.starts, servers: self.servers }
    }
}
