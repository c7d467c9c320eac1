//! Integration tests of the core: one binary, a file per behaviour.

#![expect(clippy::unwrap_used, reason = "helpers of tests, outside test functions, may panic too")]

mod fleets;
mod interleavings;
mod live;
mod properties;
mod rules;
mod ties;
mod transcripts;
mod value_stability;
