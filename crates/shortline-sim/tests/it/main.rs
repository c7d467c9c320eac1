//! Integration tests of the simulator.
#![expect(clippy::unwrap_used, reason = "the helpers of tests may panic")]

mod calendar;
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
mod rare;
mod refusals;
mod reproducible;
mod scales;
mod seen;
mod slots;
mod split;
mod trajectory;
