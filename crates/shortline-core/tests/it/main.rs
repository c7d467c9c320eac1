//! What the crate promises, one file per behaviour.

#![expect(clippy::unwrap_used, reason = "helpers of tests, outside test functions, may panic too")]

mod fleet_file;
mod fleets;
mod generators;
mod interleavings;
mod live;
mod properties;
mod rules;
mod split;
mod ties;
mod transcripts;
mod value_stability;
