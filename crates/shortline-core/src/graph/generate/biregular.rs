//! Biregular graphs: every server holds exactly `d` job types, every job type is on `k` or `k + 1` servers.
//!
//! The configuration model without multi-edges. Each of the `N` servers has `d` half-edges; in random order they fill
//! the rows of the `L` job types, whose lengths are the floor or the ceiling of `N d / L` (which ones are longer is
//! random too). Where a server stands twice in a row, one copy is swapped with a random half-edge such that neither
//! row has a multi-edge by it, so every swap leaves fewer multi-edges than before.
//!
//! **It always ends.** Past half of all edges the complement is drawn instead, so let `d <= L / 2`; then row lengths are
//! at most `k' <= (N + 1) / 2`. Let server r stand twice in row l. Half-edges of servers that are not in row l number at
//! least `(N - k' + 1) d >= k' d`. At most `d - 2` other rows hold r, with at most `k' - 1` other half-edges each. So at
//! least `k' d - (d - 2)(k' - 1) = d + 2 k' - 2 > 0` half-edges can be swapped: after [`RANDOM_TRIES`] a search in turn
//! from a random one finds the next.
//!
//! The law is that of random order up to these few swaps: symmetric in servers and in job types (each pair is an edge
//! with probability `d / L`), close to uniform over all such graphs when sparse, not exactly uniform.

use super::GenerateError;
use super::error::check_edges;
use super::subset::{Marks, SubsetSampler, shuffle};
use crate::graph::Edges;
use crate::random::{Generator, below};

/// Random tries per multi-edge before the search in turn. One in four succeeds in the densest graphs that are drawn,
/// so the search, which costs up to O(edges), is next to never needed.
const RANDOM_TRIES: usize = 256;

/// `degree` job types on each server, job types balanced.
pub(super) fn generate(degree: u32, servers: u32, job_types: u32, rng: &mut Generator) -> Result<Edges, GenerateError> {
    if degree == 0 || degree > job_types {
        return Err(GenerateError::ServerDegree { degree, job_types });
    }
    if u64::from(servers) * u64::from(degree) < u64::from(job_types) {
        return Err(GenerateError::EmptyJobTypes { degree, servers, job_types });
    }
    if degree == job_types {
        return Ok(Edges::Complete);
    }
    check_edges(f64::from(degree) * f64::from(servers))?;
    let complement = degree > job_types / 2;
    let rows = Rows::random(if complement { job_types - degree } else { degree }, servers, job_types, rng);
    Ok(if complement { rows.complement() } else { rows.sorted() })
}

/// The rows of a multigraph that becomes simple.
struct Rows {
    server_count: u32,
    starts: Vec<usize>,
    servers: Vec<u32>,
}

impl Rows {
    fn random(degree: u32, server_count: u32, job_types: u32, rng: &mut Generator) -> Self {
        let half_edges = (0..server_count).flat_map(|r| std::iter::repeat_n(r, degree as usize));
        let mut servers = Vec::with_capacity(degree as usize * server_count as usize);
        servers.extend(half_edges);
        shuffle(&mut servers, rng);
        let starts = balanced_starts(servers.len(), job_types, rng);
        let mut rows = Self { server_count, starts, servers };
        rows.repair(rng);
        rows
    }

    /// Swaps multi-edges away, row after row; a row that is simple stays simple.
    fn repair(&mut self, rng: &mut Generator) {
        let mut in_row = Marks::new(self.server_count as usize);
        let mut repeated = Vec::new();
        for l in 0..self.starts.len() - 1 {
            let row = self.starts[l]..self.starts[l + 1];
            repeated.extend(row.clone().filter(|&i| !in_row.insert(self.servers[i])));
            for i in repeated.drain(..) {
                let j = self.partner(i, &in_row, rng);
                self.servers.swap(i, j);
                in_row.insert(self.servers[i]);
            }
            in_row.remove_all(&self.servers[row]);
        }
    }

    /// A half-edge whose swap with the repeated one at `i`, in the row marked, makes no multi-edge.
    fn partner(&self, i: usize, in_row: &Marks, rng: &mut Generator) -> usize {
        let fits = |&j: &usize| !in_row.contains(self.servers[j]) && !self.row_of(j).contains(&self.servers[i]);
        let count = self.servers.len();
        let draw = |rng: &mut Generator| below(rng, u32::try_from(count).expect("no more than MOST_EDGES")) as usize;
        let tried = (0..RANDOM_TRIES).map(|_| draw(rng)).find(fits);
        tried.unwrap_or_else(|| {
            let first = draw(rng);
            (first..count).chain(0..first).find(fits).expect("a half-edge to swap with exists, see the proof above")
        })
    }

    fn row_of(&self, half_edge: usize) -> &[u32] {
        let l = self.starts.partition_point(|&start| start <= half_edge) - 1;
        &self.servers[self.starts[l]..self.starts[l + 1]]
    }

    fn sorted(mut self) -> Edges {
        for ends in self.starts.windows(2) {
            self.servers[ends[0]..ends[1]].sort_unstable();
        }
        Edges::Rows { starts: self.starts, servers: self.servers }
    }

    fn complement(self) -> Edges {
        let mut in_row = Marks::new(self.server_count as usize);
        let mut starts = vec![0];
        let mut servers = Vec::with_capacity((self.starts.len() - 1) * self.server_count as usize - self.servers.len());
        for ends in self.starts.windows(2) {
            for &server in &self.servers[ends[0]..ends[1]] {
                in_row.insert(server);
            }
            in_row.drain_into(&mut servers, self.server_count, false);
            starts.push(servers.len());
        }
        Edges::Rows { starts, servers }
    }
}

/// Starts of `job_types` rows for `places` half-edges, whose lengths differ by at most 1.
fn balanced_starts(places: usize, job_types: u32, rng: &mut Generator) -> Vec<usize> {
    let (short, longer) = (places / job_types as usize, places % job_types as usize);
    let mut longer_rows = Vec::with_capacity(longer);
    let longer = u32::try_from(longer).expect("a remainder is below the number of job types");
    SubsetSampler::new(job_types).append(longer, rng, &mut longer_rows);
    let mut starts = Vec::with_capacity(job_types as usize + 1);
    let (mut end, mut longer_rows) = (0, longer_rows.into_iter().peekable());
    starts.push(0);
    for l in 0..job_types {
        end += short + usize::from(longer_rows.next_if_eq(&l).is_some());
        starts.push(end);
    }
    starts
}
