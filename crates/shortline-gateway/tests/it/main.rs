//! The gateway over real sockets.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod access_log;
mod admin;
mod faults;
mod http;
mod job_types;
mod lines;
mod routing;
mod shutdown;
mod streaming;
mod support;
