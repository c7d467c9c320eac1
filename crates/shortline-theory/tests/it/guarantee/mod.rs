//! The guarantee: exact chains, tables, special cases, and what it does not apply to.

mod cases;
mod exact_chains;
mod small;
mod statements;
mod tables;

use shortline_core::Fleet;

use crate::fleets::Build;

/// Every job type on every server.
fn complete(_m: usize, i: usize) -> f64 {
    if i == 0 { 1.0 } else { 0.0 }
}

/// Speeds 1, 1/2, 1/4 in shares 1/4, 1/4, 1/2; `load` of the whole capacity.
fn three_speeds(n: u32, load: f64, buffer: u32) -> Fleet {
    let build = Build::servers(&[]).class(n / 4, 1.0, 1).class(n / 4, 0.5, 1).class(n / 2, 0.25, 1);
    build.buffer(buffer).job_type_on_all(load * 0.5 * f64::from(n), 1.0).done()
}

/// Servers of rate 1.
fn one_speed(n: u32, load: f64, buffer: u32) -> Fleet {
    Build::servers(&[]).class(n, 1.0, 1).buffer(buffer).job_type_on_all(load * f64::from(n), 1.0).done()
}
