//! The gateway over real sockets.

mod admin;
mod faults;
mod http;
mod job_types;
mod lines;
mod routing;
mod shutdown;
mod streaming;
mod support;
