//! x

#[cfg(feature = "lab")]
pub mod emulate;
#[cfg(feature = "lab")]
pub mod replay;
#[cfg(feature = "lab")]
pub mod sizes;
#[cfg(feature = "lab")]
pub mod trace;
