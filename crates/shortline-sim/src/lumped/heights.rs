//! As [`levels`](super::levels), for the loop in which a job that comes and a job that leaves are the same code.

use wide::i32x8;

/// Levels in the vector.
pub(crate) const HEAD: usize = 8;

/// A change: a job joins a server, or leaves it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// Lanes in which a server that has `k` jobs has one more afterwards, and in which it has one less.
    up: i32x8,
    down: i32x8,
    /// The first lane, if the server has a job afterwards in any case.
    first: i32x8,
}

impl Step {
    /// A job joins, if its server has fewer than `capacity >= 1`.
    pub(crate) fn join(capacity: usize) -> Self {
        let up = i32x8::from(std::array::from_fn(|k| if k < capacity { -1 } else { 0 }));
        Self { up, down: i32x8::splat(0), first: i32x8::new([-1, 0, 0, 0, 0, 0, 0, 0]) }
    }

    /// A job leaves, if its server has any.
    pub(crate) fn leave() -> Self {
        Self { up: i32x8::splat(0), down: i32x8::splat(-1), first: i32x8::splat(0) }
    }
}

/// In lane `k`, how many servers have more than `k` jobs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head(i32x8);

impl Head {
    /// All servers without jobs.
    pub(crate) fn new() -> Self {
        Self(i32x8::splat(0))
    }

    /// Server number `i` gets a job or loses one, if there is room or a job; returns how many it had, [`HEAD`] for more.
    #[inline(always)]
    pub(crate) fn step(&mut self, i: u32, step: &Step) -> usize {
        let above = self.0.simd_gt(i32x8::splat(i as i32));
        let [a, b, c, d, e, f, g, h] = above.to_array();
        let (up, down) = (i32x8::new([0, a, b, c, d, e, f, g]), i32x8::new([b, c, d, e, f, g, h, 0]));
        // Lane k: whether it will have more than k jobs.
        let after = (up & step.up) | (down & step.down) | step.first;
        self.0 = self.0 + above - after;
        (!above.to_bitmask() | 1 << HEAD).trailing_zeros() as usize
    }

    /// Puts back the job that a server with more than [`HEAD`] lost in the vector.
    #[inline(always)]
    pub(crate) fn restore(&mut self) {
        self.0 += i32x8::new([0, 0, 0, 0, 0, 0, 0, 1]);
    }

    pub(crate) fn to_array(self) -> [u32; HEAD] {
        self.0.to_array().map(|servers| servers as u32)
    }
}
