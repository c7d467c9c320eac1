//! What is the fleet, and which server gets this job?
//!
//! The core of Shortline: the [`fleet`] a file describes, its compatibility [`graph`], the [policies](policy) and the
//! [dispatcher](Dispatcher) that decides by them, in the simulator and in the gateway alike. No I/O, no clock, no
//! async: time and randomness come in as arguments.

pub mod alias;
pub mod dispatcher;
pub mod fleet;
pub mod graph;
pub mod huge_pages;
pub mod ids;
mod lines;
pub mod live;
pub mod policy;
pub mod random;
pub mod sizes;
pub mod state;

pub use dispatcher::{Blocked, Decision, Dispatcher, Started};
pub use fleet::{Fleet, FleetError, FleetParts};
pub use ids::{JobTypeId, ServerId, ServerTypeId};
pub use lines::{Arrival, Ticket};
pub use live::LiveDispatcher;
