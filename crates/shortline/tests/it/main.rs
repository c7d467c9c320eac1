//! The command line as its users see it, and the structure of the workspace.

#![expect(clippy::unwrap_used, reason = "helpers of tests, outside test functions, may panic too")]

mod architecture;
mod check;
mod docs;
mod logs;
mod mean_field;
mod processes;
mod recorded;
mod reloading;
mod report;
mod reproduce;
mod resume;
mod serving;
mod simulate;
mod usage;
