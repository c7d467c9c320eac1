//! What the crate promises, one file per behaviour.

mod fleet_file;
mod fleets;
mod generators;
mod properties;
mod rules;
mod transcripts;
