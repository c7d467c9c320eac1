//! Integration tests of the simulator.

mod engines;
mod exact;
mod fleets;
mod growth;
mod queues;
mod refusals;
mod reproducible;
