//! Integration tests of the command line and of the workspace's structure.

mod architecture;
