//! `jiq`, join an idle queue: a uniformly random idle compatible server; if none is idle, a uniformly random compatible
//! one, and no place if that one is full (Lu et al., 2011).

use rand::Rng;

use super::Policy;
use crate::ids::{JobTypeId, ServerId};
use crate::state::{State, Ties};

/// A random idle compatible server, else a random compatible one.
#[derive(Clone, Copy, Debug, Default)]
pub struct JoinIdleQueue;

impl Policy for JoinIdleQueue {
    #[inline]
    fn choose<R: Rng>(&mut self, state: &State, job_type: JobTypeId, rng: &mut R) -> Option<ServerId> {
        state.idle(job_type, Ties::Uniform, rng).or_else(|| state.uniform(job_type, rng))
    }
}
