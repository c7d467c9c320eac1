//! `jsq(d)`, `jfsq(d)` and `jsq(d1,d2)`: the shortest of a few sampled queues.
//!
//! The sample is drawn uniformly without replacement among the compatible servers that are up, full ones included: if
//! the shortest of it is full, there is no place (Vvedenskaya, Dobrushin, Karpelevich, 1996; Mitzenmacher, 1996).

use rand::Rng;

use super::Policy;
use crate::ids::{JobTypeId, ServerId};
use crate::state::{Among, Sample, State, Ties};

/// `jsq(d)`, `jfsq(d)`: `d` distinct compatible servers sampled (all, if fewer), the shortest of them, ties uniformly
/// or to the fastest.
#[derive(Clone, Debug)]
pub struct ShortestOfSampled {
    d: u32,
    ties: Ties,
    sample: Sample,
}

impl ShortestOfSampled {
    /// The policy with `d` samples.
    #[must_use]
    pub fn new(d: u32, ties: Ties) -> Self {
        Self { d, ties, sample: Sample::default() }
    }
}

impl Policy for ShortestOfSampled {
    #[inline]
    fn choose<R: Rng>(&mut self, state: &State, job_type: JobTypeId, rng: &mut R) -> Option<ServerId> {
        let degree = state.fleet().graph().degree(job_type.index());
        // A sample of everything is `jsq`, which is faster; with unequal buffers a full server may be the shortest.
        if self.d as usize >= degree && state.has_equal_capacities() {
            return state.shortest(job_type, self.ties, rng);
        }
        self.sample.clear();
        state.sample(job_type, Among::All, self.d, &mut self.sample, rng);
        state.shortest_of(job_type, self.sample.servers(), self.ties, rng)
    }
}

/// `jsq(d1,d2)`: `d1` distinct sampled among the compatible fast servers and `d2` among the other compatible ones
/// (all, if fewer), where fast means the largest rate in the fleet for the job's type; of the sample the shortest,
/// then the fastest, then uniformly.
///
/// This is our reading of JSQ-(2,2); the literature has others.
#[derive(Clone, Debug)]
pub struct FastAndOther {
    fast: u32,
    other: u32,
    sample: Sample,
}

impl FastAndOther {
    /// The policy with `fast` samples among the fast servers and `other` among the others.
    #[must_use]
    pub fn new(fast: u32, other: u32) -> Self {
        Self { fast, other, sample: Sample::default() }
    }
}

impl Policy for FastAndOther {
    #[inline]
    fn choose<R: Rng>(&mut self, state: &State, job_type: JobTypeId, rng: &mut R) -> Option<ServerId> {
        self.sample.clear();
        state.sample(job_type, Among::Fast, self.fast, &mut self.sample, rng);
        state.sample(job_type, Among::Other, self.other, &mut self.sample, rng);
        state.shortest_of(job_type, self.sample.servers(), Ties::Fastest, rng)
    }
}
