//! `nq`, never queue: the fastest idle compatible server if any is idle, else shortest expected delay
//! (Shenker and Weinrib, 1989).

use rand::Rng;

use super::Policy;
use crate::ids::{JobTypeId, ServerId};
use crate::state::{State, Ties};

/// The fastest idle compatible server, else the one with the shortest expected delay.
#[derive(Clone, Copy, Debug, Default)]
pub struct NeverQueue;

impl Policy for NeverQueue {
    #[inline]
    fn choose<R: Rng>(&mut self, state: &State, job_type: JobTypeId, rng: &mut R) -> Option<ServerId> {
        state.idle(job_type, Ties::Fastest, rng).or_else(|| state.shortest_delay(job_type, rng))
    }
}
