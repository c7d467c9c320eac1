//! `jsq`, join the shortest queue: the compatible server with fewest jobs per slot, ties uniformly; no place only if
//! all compatible servers are full (Winston, 1977, for equal servers).

use rand::Rng;

use super::Policy;
use crate::ids::{JobTypeId, ServerId};
use crate::state::{State, Ties};

/// The compatible server with fewest jobs per slot; ties uniformly.
#[derive(Clone, Copy, Debug, Default)]
pub struct JoinShortestQueue;

impl Policy for JoinShortestQueue {
    #[inline(always)]
    fn choose<R: Rng>(&mut self, state: &State, job_type: JobTypeId, rng: &mut R) -> Option<ServerId> {
        state.shortest(job_type, Ties::Uniform, rng)
    }
}
