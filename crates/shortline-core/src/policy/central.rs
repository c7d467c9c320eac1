//! `central`: no queues at the servers. The fastest compatible server with a free slot, else the job waits in front and
//! takes the first place that frees; the same as `jfiq` with buffers equal to slots and `overflow = "wait"`.

use rand::Rng;

use super::Policy;
use crate::ids::{JobTypeId, ServerId};
use crate::state::{Places, State, Ties};

/// The fastest compatible server with a free slot; jobs wait in front.
#[derive(Clone, Copy, Debug, Default)]
pub struct Central;

impl Policy for Central {
    const PLACES: Places = Places::Slots;

    #[inline]
    fn choose<R: Rng>(&mut self, state: &State, job_type: JobTypeId, rng: &mut R) -> Option<ServerId> {
        state.idle(job_type, Ties::Fastest, rng)
    }
}
