//! How good can a fleet be, is it stable, and what happens in it exactly?
//!
//! * [`stability`]: the largest factor `s*` by which all arrival rates can grow, the bottleneck, the offered load and
//!   the static shares that attain `s*`.
//! * [`bounds`]: lower bounds on the mean response time of *every* policy, each with its kind and its validity.
//! * [`guarantee`]: upper bounds on blocking, jobs and response time of a finite fleet under a policy that takes the
//!   fastest idle server.
//! * [`exact`]: the stationary law of small systems under each policy.
//! * [`mean_field`]: large fleets as a differential equation, its trajectory and its fixed point.
//!
//! Everything here is a function of the [`Fleet`](shortline_core::Fleet): no clock, no randomness.
//!
//! # Symbols
//! | symbol | name | unit |
//! |---|---|---|
//! | `lambda_l` | arrival rate of job type `l`; `Lambda` is their sum | 1/s |
//! | `size_l` | mean size of a job of type `l` | size units |
//! | `mu_lr` | service rate `rate(l, type of r) / size_l` of one slot of server `r` for job type `l` | 1/s |
//! | `N(l)` | servers that hold job type `l` | |
//! | `s*` | largest factor on all arrival rates at which some policy is stable | |
//! | `th` | accepted throughput, `Lambda` less what is blocked | 1/s |
//!
//! A server with `c` slots counts as `c` servers. A server without a job type does not count.

pub mod bounds;
pub mod connectivity;
mod error;
pub mod exact;
pub mod guarantee;
mod linear_program;
mod max_flow;
pub mod mean_field;
mod model;
mod reduced;
mod shares;
pub mod stability;

pub use error::TheoryError;
pub use linear_program::LARGEST_PROGRAM;
pub use model::{Model, SpeedClass};
pub use shares::Shares;
