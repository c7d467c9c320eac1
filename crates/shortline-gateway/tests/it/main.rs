//! The gateway over real sockets, and with the feature `lab` its emulated servers and replay: one file per behaviour.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod access_log;
mod admin;
mod answers;
mod demands;
mod doubt;
#[cfg(feature = "lab")]
mod emulate;
mod failures;
mod faults;
mod health;
mod health_kept;
mod hints;
mod http;
mod http2;
mod job_types;
#[cfg(feature = "lab")]
mod lab;
mod leaving;
mod limits;
mod lines;
mod models;
mod once_more;
mod outcomes;
mod reload;
#[cfg(feature = "lab")]
mod replay;
mod retries;
mod routing;
mod shutdown;
mod slow_http2;
mod smuggling;
mod streaming;
mod support;
mod tls;
mod tunnel;
mod websocket;
mod whose_fault;
