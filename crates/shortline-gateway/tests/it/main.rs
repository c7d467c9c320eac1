//! The gateway crate seen from outside: one file per behaviour.

#[cfg(feature = "lab")]
mod emulate;
#[cfg(feature = "lab")]
mod lab;
#[cfg(feature = "lab")]
mod replay;
