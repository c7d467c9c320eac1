//! The graph generators: structure, laws, guarantees, refusals, and values that must not change.

mod laws;
mod refusals;
mod stability;
mod structure;
mod weighted_degrees;
mod well_connected;

use shortline_core::graph::generate::{Demand, GenerateError, Generated, generate};
use shortline_core::graph::{Edges, GraphSpec};

fn generate_for(spec: &GraphSpec, servers: usize, job_types: usize) -> Generated {
    generate(spec, &Demand::of_size(servers, job_types)).expect("a graph that exists")
}

fn refusal(spec: &GraphSpec, servers: usize, job_types: usize) -> GenerateError {
    generate(spec, &Demand::of_size(servers, job_types)).expect_err("a graph that does not exist")
}

/// The servers of each job type, written out.
fn rows(edges: &Edges, servers: usize, job_types: usize) -> Vec<Vec<u32>> {
    (0..job_types).map(|l| edges.row(l).map_or((0..servers as u32).collect(), <[u32]>::to_vec)).collect()
}

/// Row `l` as a number, bit r for server r; at most 32 servers.
fn masks(edges: &Edges, servers: usize, job_types: usize) -> Vec<u32> {
    rows(edges, servers, job_types).iter().map(|row| row.iter().map(|&r| 1 << r).sum()).collect()
}
