//! `jfsq`, join the fastest of the shortest queues: as `jsq`, ties to the fastest server for the job's type, what is
//! still tied uniformly (Weng, Zhou, Srikant, 2020). Uses the order of the speeds only, not their values.

use rand::Rng;

use super::Policy;
use crate::ids::{JobTypeId, ServerId};
use crate::state::{State, Ties};

/// The fastest of the compatible servers with fewest jobs per slot.
#[derive(Clone, Copy, Debug, Default)]
pub struct JoinFastestShortestQueue;

impl Policy for JoinFastestShortestQueue {
    #[inline(always)]
    fn choose<R: Rng>(&mut self, state: &State, job_type: JobTypeId, rng: &mut R) -> Option<ServerId> {
        state.shortest(job_type, Ties::Fastest, rng)
    }
}
