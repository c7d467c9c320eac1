//! Integration tests of the simulator.
#![expect(clippy::unwrap_used, reason = "the helpers of tests may panic")]

mod coverage;
mod engines;
mod exact;
mod fleets;
mod growth;
mod idle;
mod limits;
mod mean_field;
mod paired;
mod queues;
mod refusals;
mod reproducible;
mod seen;
mod split;
mod trajectory;
