//! `sed`, shortest expected delay: smallest `max(1, (jobs + 1) / slots) / rate`, ties to the fastest, then uniformly.
//! Needs the values of the speeds.

use rand::Rng;

use super::Policy;
use crate::ids::{JobTypeId, ServerId};
use crate::state::State;

/// The compatible server with room whose expected delay is smallest.
#[derive(Clone, Copy, Debug, Default)]
pub struct ShortestExpectedDelay;

impl Policy for ShortestExpectedDelay {
    #[inline]
    fn choose<R: Rng>(&mut self, state: &State, job_type: JobTypeId, rng: &mut R) -> Option<ServerId> {
        state.shortest_delay(job_type, rng)
    }
}
