//! What the fleet consists of: servers by type, job types, edges.

use serde::Serialize;
use shortline_core::Fleet;
use shortline_core::fleet::Speed;
use shortline_core::fleet::settings::Overflow;
use shortline_core::graph::Row;

use crate::digits::without_noise;

/// The fleet in figures.
#[derive(Debug, Serialize)]
pub(super) struct FleetSection {
    pub(super) fleet: String,
    pub(super) servers: usize,
    pub(super) job_types: usize,
    pub(super) edges: u64,
    pub(super) server_types: Vec<ServerTypeRow>,
    /// Servers per job type.
    pub(super) servers_per_job_type: Spread,
    /// Job types that one server alone holds.
    pub(super) job_types_on_one_server: usize,
    /// `Lambda`, 1/s; null if the file does not give all rates.
    pub(super) arrivals_per_s: Option<f64>,
    /// Whether service rates do not depend on the job type; null if the file ranks its types.
    #[serde(skip)]
    pub(super) uniform: Option<bool>,
    /// Parts of the graph that share neither a server nor a job type.
    pub(super) parts: usize,
    /// What becomes of a job without a place: `reject` or `wait`.
    pub(super) overflow: &'static str,
}

/// The servers of one type.
#[derive(Debug, Serialize)]
pub(super) struct ServerTypeRow {
    pub(super) name: String,
    pub(super) servers: usize,
    pub(super) slots: u32,
    /// Size units per second of one slot; null if the file ranks its types.
    pub(super) rate: Option<f64>,
    /// 1 = fastest; null if the file gives rates.
    pub(super) rank: Option<u32>,
    /// Least and largest buffer; null = unbounded.
    pub(super) buffer: (Option<u32>, Option<u32>),
    /// Job types that a server holds.
    pub(super) job_types_held: Spread,
}

/// Least, mean and largest of a set of counts; all 0 of none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Spread {
    pub(super) min: u64,
    pub(super) mean: f64,
    pub(super) max: u64,
}

impl Spread {
    fn of(counts: impl Iterator<Item = u64> + Clone) -> Self {
        let number = counts.clone().count();
        if number == 0 {
            return Self::default();
        }
        let min = counts.clone().min().unwrap_or(0);
        let max = counts.clone().max().unwrap_or(0);
        Self { min, mean: counts.map(|count| count as f64).sum::<f64>() / number as f64, max }
    }
}

impl FleetSection {
    pub(super) fn of(fleet: &Fleet) -> Self {
        let degrees = ServerDegrees::of(fleet);
        let server_type = |m| {
            let parts = fleet.server_type_parts(m);
            let range = fleet.servers_of_type(m);
            let buffers = || range.clone().map(|r| fleet.buffer(shortline_core::ServerId::new(r)));
            ServerTypeRow {
                name: parts.name.clone(),
                servers: range.len(),
                slots: parts.slots,
                rate: if let Speed::Rate(rate) = parts.speed { Some(rate) } else { None },
                rank: if let Speed::Rank(rank) = parts.speed { Some(rank) } else { None },
                buffer: (
                    buffers().flatten().min(),
                    if buffers().any(|b| b.is_none()) { None } else { buffers().flatten().max() },
                ),
                job_types_held: Spread::of(range.clone().map(|r| degrees.held[r])),
            }
        };
        let graph = fleet.graph();
        let per_job_type = (0..fleet.job_type_count()).map(|l| graph.degree(l));
        let rates: Option<Vec<f64>> = fleet.job_types().map(|l| fleet.arrival_rate(l)).collect();
        Self {
            fleet: fleet.name().to_owned(),
            servers: fleet.server_count(),
            job_types: fleet.job_type_count(),
            edges: graph.edge_count(),
            server_types: fleet.server_types().map(server_type).collect(),
            servers_per_job_type: Spread::of(per_job_type.clone().map(|degree| degree as u64)),
            job_types_on_one_server: per_job_type.filter(|&degree| degree == 1).count(),
            arrivals_per_s: rates.map(|rates| without_noise(rates.iter().sum())),
            uniform: fleet.has_rates().then(|| fleet.is_uniform()),
            parts: degrees.parts,
            overflow: match fleet.settings().overflow {
                Overflow::Reject => "reject",
                Overflow::Wait => "wait",
            },
        }
    }
}

impl FleetSection {
    /// Whether some server has a finite buffer, and jobs without a place are lost.
    pub(super) fn has_finite_buffers(&self) -> bool {
        self.overflow == "reject" && self.server_types.iter().any(|row| row.servers > 0 && row.buffer.0.is_some())
    }
}

/// One pass over the distinct rows of the graph.
struct ServerDegrees {
    /// Job types that each server holds.
    held: Vec<u64>,
    /// Connected components with an edge.
    parts: usize,
}

impl ServerDegrees {
    fn of(fleet: &Fleet) -> Self {
        let graph = fleet.graph();
        let mut job_types_of_row = vec![0_u64; graph.distinct_row_count()];
        let mut first_of_row = vec![0; graph.distinct_row_count()];
        for l in (0..fleet.job_type_count()).rev() {
            job_types_of_row[graph.row_number(l)] += 1;
            first_of_row[graph.row_number(l)] = l;
        }
        let mut on_all = 0;
        let mut held = vec![0; fleet.server_count()];
        let mut parent: Vec<usize> = (0..fleet.server_count()).collect();
        for (&l, &job_types) in first_of_row.iter().zip(&job_types_of_row) {
            if matches!(graph.row(l), Row::All) {
                on_all += job_types;
                continue;
            }
            let mut first = None;
            graph.for_each(l, |r| {
                held[r.index()] += job_types;
                join(&mut parent, *first.get_or_insert(r.index()), r.index());
            });
        }
        held.iter_mut().for_each(|held| *held += on_all);
        let parts =
            if on_all > 0 { 1 } else { (0..held.len()).filter(|&r| held[r] > 0 && root(&mut parent, r) == r).count() };
        Self { held, parts }
    }
}

/// The representative of a set, halving the path to it (R. Tarjan, J. van Leeuwen, 1984).
fn root(parent: &mut [usize], mut i: usize) -> usize {
    while parent[i] != i {
        parent[i] = parent[parent[i]];
        i = parent[i];
    }
    i
}

fn join(parent: &mut [usize], a: usize, b: usize) {
    let (a, b) = (root(parent, a), root(parent, b));
    parent[a.max(b)] = a.min(b);
}
