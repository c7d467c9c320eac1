//! `jfiq`, join the fastest of the idle queues: the fastest idle compatible server, ties uniformly; if none is idle, a
//! uniformly random compatible one, and no place if that one is full (Weng, Zhou, Srikant, 2020).
//!
//! The random fallback can make it unstable where the fleet is stable; `jfsq` falls back to the shortest queue instead.

use rand::Rng;

use super::Policy;
use crate::ids::{JobTypeId, ServerId};
use crate::state::{State, Ties};

/// The fastest idle compatible server, else a random compatible one.
#[derive(Clone, Copy, Debug, Default)]
pub struct JoinFastestIdleQueue;

impl Policy for JoinFastestIdleQueue {
    #[inline]
    fn choose<R: Rng>(&mut self, state: &State, job_type: JobTypeId, rng: &mut R) -> Option<ServerId> {
        state.idle(job_type, Ties::Fastest, rng).or_else(|| state.uniform(job_type, rng))
    }
}
