//! `random`: a uniformly random compatible server that is up; no place if it is full.
//!
//! Looks at no queue: the baseline of what knowing nothing costs. Stable iff every server keeps up with its share,
//! `sum over its job types of lambda_l / deg(l) < mu_r`.

use rand::Rng;

use super::Policy;
use crate::ids::{JobTypeId, ServerId};
use crate::state::State;

/// A uniformly random compatible server.
#[derive(Clone, Copy, Debug, Default)]
pub struct Random;

impl Policy for Random {
    #[inline]
    fn choose<R: Rng>(&mut self, state: &State, job_type: JobTypeId, rng: &mut R) -> Option<ServerId> {
        state.uniform(job_type, rng)
    }
}
