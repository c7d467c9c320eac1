//! Ticks drawn ahead of the chain.
//!
//! Which clock ticks next does not depend on the state, so ticks are drawn a block at a time: the generator and the
//! table then work in parallel with the chain instead of in front of each of its steps, and a branch on a tick is
//! settled as soon as it is met. One word of the stream a tick, as if they were drawn one by one.

use rand::Rng;
use shortline_core::random::Generator;

use crate::alias::Alias;

/// Ticks in a block: 512 bytes, a small part of the first cache.
const BLOCK: usize = 128;

/// A stream of ticks, some of them drawn already.
#[derive(Clone, Debug)]
pub(crate) struct Ticks {
    stream: Generator,
    drawn: [u32; BLOCK],
    /// How many of them were taken.
    taken: usize,
}

impl Ticks {
    pub(crate) fn new(stream: Generator) -> Self {
        Self { stream, drawn: [0; BLOCK], taken: BLOCK }
    }

    /// The ticks that come next, at least one; [`take`](Self::take) says how many were used.
    #[inline]
    pub(crate) fn ahead(&mut self, table: &Alias) -> &[u32] {
        if self.taken == BLOCK {
            self.draw(table);
        }
        &self.drawn[self.taken..]
    }

    #[inline(never)]
    fn draw(&mut self, table: &Alias) {
        let mut stream = self.stream.clone();
        for tick in &mut self.drawn {
            *tick = table.draw(stream.next_u64());
        }
        (self.stream, self.taken) = (stream, 0);
    }

    /// So many ticks have been used.
    #[inline]
    pub(crate) fn take(&mut self, ticks: usize) {
        self.taken += ticks;
    }
}
