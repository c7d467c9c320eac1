//! What the crate promises, one file per behaviour.

mod fleet_file;
