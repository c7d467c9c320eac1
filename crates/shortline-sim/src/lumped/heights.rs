//! As [`levels`](super::levels), for the loop in which a job that comes and a job that leaves are the same code.
//!
//! Server number `i` has more than `k` jobs iff lane `k` is above `i`. A job that joins moves that pattern of lanes by one
//! place, up to the lane of the capacity; a job that leaves moves it back by one. The lanes that differ before and after
//! change by one server. Which way it goes is a choice of masks, not a branch.

use wide::i16x8;

/// Levels in the vector.
pub(crate) const HEAD: usize = 8;

/// A change: a job joins a server, or leaves it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// Lanes in which a server that has `k` jobs has one more afterwards, and in which it has one less.
    up: i16x8,
    down: i16x8,
    /// The first lane, if the server has a job afterwards in any case.
    first: i16x8,
}

impl Step {
    /// A job joins, if its server has fewer than `capacity >= 1`.
    pub(crate) fn join(capacity: usize) -> Self {
        let up = i16x8::from(std::array::from_fn(|k| if k < capacity { -1 } else { 0 }));
        Self { up, down: i16x8::splat(0), first: i16x8::new([-1, 0, 0, 0, 0, 0, 0, 0]) }
    }

    /// A job leaves, if its server has any.
    pub(crate) fn leave() -> Self {
        Self { up: i16x8::splat(0), down: i16x8::splat(-1), first: i16x8::splat(0) }
    }
}

/// In lane `k`, how many servers have more than `k` jobs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head(i16x8);

impl Head {
    /// Most servers that can be counted.
    pub(crate) const MOST_SERVERS: usize = i16::MAX as usize;

    /// All servers without jobs.
    pub(crate) fn new() -> Self {
        Self(i16x8::splat(0))
    }

    /// Server number `i` gets a job or loses one, if there is room or a job; returns how many it had, [`HEAD`] for more.
    #[inline(always)]
    pub(crate) fn step(&mut self, i: u32, step: &Step) -> usize {
        let above = self.0.simd_gt(i16x8::splat(i as i16));
        let [a, b, c, d, e, f, g, h] = above.to_array();
        let (up, down) = (i16x8::new([0, a, b, c, d, e, f, g]), i16x8::new([b, c, d, e, f, g, h, 0]));
        // Lane k: whether it will have more than k jobs.
        let after = (up & step.up) | (down & step.down) | step.first;
        self.0 = self.0 + above - after;
        (!above.to_bitmask() | 1 << HEAD).trailing_zeros() as usize
    }

    /// Puts back the job that a server with more than [`HEAD`] lost in the vector.
    #[inline(always)]
    pub(crate) fn restore(&mut self) {
        self.0 += i16x8::new([0, 0, 0, 0, 0, 0, 0, 1]);
    }

    pub(crate) fn to_array(self) -> [u32; HEAD] {
        self.0.to_array().map(|servers| servers.unsigned_abs().into())
    }
}

/// How many servers have more than [`HEAD`] jobs, more than one more than that, and so on; ends with 0.
#[derive(Clone, Debug)]
pub(crate) struct Tail(Vec<u32>);

impl Tail {
    /// No server has so many jobs.
    pub(crate) fn new() -> Self {
        Self(vec![0])
    }

    /// Server number `i` with at least [`HEAD`] jobs gets one, if it has fewer than `capacity`, or loses one that is
    /// counted here. Returns how many it had beyond [`HEAD`].
    #[inline(never)]
    pub(crate) fn step(&mut self, i: u32, leaves: bool, capacity: usize) -> usize {
        let beyond = self.0.partition_point(|&servers| servers > i);
        if leaves && beyond > 0 {
            self.0[beyond - 1] -= 1;
        } else if !leaves && HEAD + beyond < capacity {
            self.0[beyond] += 1;
            if beyond + 1 == self.0.len() {
                self.0.push(0);
            }
        }
        beyond
    }

    /// Level by level.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        self.0.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use shortline_core::random::{Generator, below};

    use super::super::levels::Levels;
    use super::*;

    #[test]
    fn steps_are_those_of_a_join_and_a_leave() {
        let mut rng = Generator::seed_from_u64(1);
        for (servers, capacity) in [(1, 1), (5, 3), (40, 8), (40, usize::MAX), (Head::MOST_SERVERS as u32, 2)] {
            let (mut head, mut tail, mut levels) = (Head::new(), Tail::new(), Levels::new(servers));
            let steps = [Step::join(capacity), Step::leave()];
            for _ in 0..20_000 {
                // Up and down by turns.
                let (i, leaves) = (below(&mut rng, servers), below(&mut rng, 2) == 1);
                let jobs = levels.jobs_of(i);
                match leaves {
                    true => _ = levels.leave(i, 0),
                    false if jobs < capacity => _ = levels.join(i),
                    false => {}
                }
                let found = head.step(i, &steps[usize::from(leaves)]);
                let beyond = if found == HEAD { tail.step(i, leaves, capacity) } else { 0 };
                assert_eq!(found + beyond, jobs);
                if leaves && beyond > 0 {
                    head.restore();
                }
                let heights: Vec<u32> = head.to_array().into_iter().chain(tail.iter()).collect();
                let at_least: Vec<u32> = (1..=heights.len()).map(|jobs| levels.at_least(jobs)).collect();
                assert_eq!(heights, at_least, "{servers} servers, number {i} had {jobs}, leaves: {leaves}");
            }
        }
    }
}
