//! The compatibility graph: which server may serve which job type.
//!
//! Two shapes, for two moments. [`Edges`] is the graph as it is written or generated: for each job type the servers
//! in the *file's* order. [`Graph`] is the graph as the dispatcher reads it: rows of [server ids](crate::ServerId), fastest first for
//! the job type, equal rows stored once. A complete graph of a million servers and a million job types is one row.

pub mod generate;
mod rows;
pub mod spec;

pub use rows::{Graph, Row, ServerSet};
pub(crate) use rows::{GraphBuilder, LONGEST_SCAN, RowOrder};
pub use spec::{EdgeProbability, GraphSpec, LeftOut, Sparsity};

/// A graph as written or generated: per job type the servers that hold it, as indices in the file's order.
///
/// Rows are ascending and free of duplicates. Compressed sparse rows: 4 bytes an edge and 8 a job type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edges {
    /// Every server holds every job type.
    Complete,
    /// The rows one after the other; row `l` is `servers[starts[l]..starts[l + 1]]`.
    Rows {
        /// Where each row starts; one more entry than there are job types.
        starts: Vec<usize>,
        /// Server indices in the file's order, ascending within a row.
        servers: Vec<u32>,
    },
}

impl Edges {
    /// Edges from one list of servers per job type; the lists are sorted and freed of duplicates.
    #[must_use]
    pub fn from_rows<I>(rows: I) -> Self
    where
        I: IntoIterator,
        I::Item: IntoIterator<Item = u32>,
    {
        let mut edges = Self::rows();
        let mut row = Vec::new();
        for servers in rows {
            row.clear();
            row.extend(servers);
            edges.push_row(&mut row);
        }
        edges
    }

    /// Edges without any job type yet, to be filled by [`push_row`](Self::push_row).
    #[must_use]
    pub fn rows() -> Self {
        Self::Rows { starts: vec![0], servers: Vec::new() }
    }

    /// Appends the row of the next job type; sorts `row` and removes duplicates on the way.
    ///
    /// # Panics
    /// On [`Edges::Complete`], which has no rows to append to.
    pub fn push_row(&mut self, row: &mut Vec<u32>) {
        let Self::Rows { starts, servers } = self else {
            panic!("a complete graph has no list of rows to append to");
        };
        row.sort_unstable();
        row.dedup();
        servers.extend_from_slice(row);
        starts.push(servers.len());
    }

    /// The servers of job type `l`, or `None` when it is all of them.
    ///
    /// # Panics
    /// If there is no job type `l`.
    #[must_use]
    pub fn row(&self, l: usize) -> Option<&[u32]> {
        match self {
            Self::Complete => None,
            Self::Rows { starts, servers } => Some(&servers[starts[l]..starts[l + 1]]),
        }
    }
}
