//! The command line as its users see it, and the structure of the workspace.

mod architecture;
mod processes;
mod serving;
mod usage;
