//! Integration tests of the core: one binary, a file per behaviour.

mod fleets;
mod properties;
mod rules;
mod transcripts;
