//! Reading ahead, for fleets that are larger than the caches.
//!
//! A decision about a job follows a chain: its row, the ids in it, their levels; with a million servers every link is a
//! cache miss, and a decision waits for four of them in turn. Who knows the next job types before they are decided
//! about (the simulator does) has the links of many of them read side by side: the misses overlap.

use std::hint::black_box;

use super::State;
use crate::ids::{JobTypeId, ServerId};

impl State {
    /// Reads what decisions about these job types, and completions at these servers, are going to read. Changes nothing.
    /// Worth its time only if most of it is in no cache, for some tens to hundreds of them at once.
    pub fn read_ahead(&self, job_types: &[JobTypeId], servers: &[ServerId]) {
        let graph = self.fleet.graph();
        let rows = || job_types.iter().filter_map(|l| graph.short_row(l.index()));
        // Each pass reads one link of all chains; the passes after it find it in the cache.
        let heads = job_types.iter().fold(0, |sum, l| sum ^ graph.row_head(l.index()));
        let ends = |row: crate::graph::ServerSet<'_>| match row.servers {
            [first, .., last] => first.index() ^ last.index(),
            _ => 0,
        };
        let ids = rows().fold(0, |sum, row| sum ^ ends(row));
        let level = |r: &ServerId| self.levels[r.index()];
        let levels = rows().flat_map(|row| row.servers).fold(0, |sum, r| sum ^ level(r));
        let completions = servers.iter().map(level).fold(0, |a, b| a ^ b);
        black_box((heads, ids, levels, completions));
    }
}
