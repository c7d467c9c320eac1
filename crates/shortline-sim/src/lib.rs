//! What happens over a long run, with what certainty?
//!
//! Simulates the policies of a [`Fleet`](shortline_core::Fleet) side by side, on the very [`Dispatcher`] of the
//! gateway: [`Simulation`] is asked, [`Report`] is the answer. Where sizes are exponential and arrivals Poisson, the
//! fleet is a Markov chain and needs no event calendar:
//!
//! - `markov`: counts at each server; uniform fleets. The fast one.
//! - `tracked`: each job followed; service rates that depend on the job type, lines in front.
//! - `lumped`: exchangeable servers as counts.
//!
//! For everything else (other sizes and arrivals, processor sharing, failures, old or divided information, recorded jobs)
//! there is one:
//!
//! - `calendar`: events in the order of time.
//!
//! Every figure has an interval from independent replications ([`Estimate`]); a policy that lets jobs pile up without
//! end is found and called unstable. Same seed, same report, on any number of threads. No I/O and no clock.
//!
//! [`Dispatcher`]: shortline_core::Dispatcher

mod calendar;
mod chain;
mod clock_table;
mod engine;
mod erlang;
mod error;
mod estimate;
mod fates;
mod growth;
mod histogram;
mod idle;
mod lumped;
mod markov;
mod model;
mod observe;
mod record;
mod report;
mod response;
mod rounds;
mod seen;
mod settling;
mod simulation;
mod tally;
mod ticks;
mod tracked;
mod trajectory;
mod watch;

pub use calendar::trace::{Fate, TraceJob, fleet_under};
pub use error::SimulationError;
pub use estimate::Estimate;
pub use growth::FALSE_ALARM_PER_LOOK;
pub use report::{
    Bound, CdfPoint, Difference, Engine, IdleServers, JobTypeReport, Means, PolicyReport, Report, ServerTypeReport,
};
pub use simulation::{Observer, PerType, Round, Simulation, Unobserved, Until};
pub use trajectory::{Moment, MomentOfType, Trajectories, Trajectory};
