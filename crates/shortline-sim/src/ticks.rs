//! Ticks drawn ahead of the chain.
//!
//! Which clock ticks next does not depend on the state, so ticks are drawn a block at a time: the generator and the
//! table then work in parallel with the chain instead of in front of each of its steps, and a branch on a tick is
//! settled as soon as it is met. The words of the stream are used as if ticks were drawn one by one.

use shortline_core::random::Generator;

/// Ticks in a block: at most 1 KiB, a small part of the first cache.
pub(crate) const BLOCK: usize = 128;

/// A stream of ticks, some of them drawn already.
#[derive(Clone, Debug)]
pub(crate) struct Ticks<T> {
    stream: Generator,
    drawn: [T; BLOCK],
    /// How many of them were taken.
    taken: usize,
}

impl<T: Copy + Default> Ticks<T> {
    pub(crate) fn new(stream: Generator) -> Self {
        Self { stream, drawn: [T::default(); BLOCK], taken: BLOCK }
    }

    /// Draws the next block by `tick`, if the last one is used up; whether it did.
    #[inline(always)]
    pub(crate) fn draw(&mut self, tick: impl Fn(&mut Generator) -> T) -> bool {
        if self.taken < BLOCK {
            return false;
        }
        let mut stream = self.stream.clone();
        for drawn in &mut self.drawn {
            *drawn = tick(&mut stream);
        }
        (self.stream, self.taken) = (stream, 0);
        true
    }

    /// The ticks that come next, at least one after [`draw`](Self::draw); [`take`](Self::take) says how many were used.
    #[inline(always)]
    pub(crate) fn ahead(&self) -> &[T] {
        &self.drawn[self.taken..]
    }

    /// The same, to be completed by what does not depend on the ticks alone.
    #[inline(always)]
    pub(crate) fn ahead_mut(&mut self) -> &mut [T] {
        &mut self.drawn[self.taken..]
    }

    /// The next tick, for those who take them one by one.
    #[inline(always)]
    pub(crate) fn next(&mut self, tick: impl Fn(&mut Generator) -> T) -> T {
        self.draw(tick);
        self.taken += 1;
        self.drawn[self.taken - 1]
    }

    /// So many ticks have been used.
    #[inline]
    pub(crate) fn take(&mut self, ticks: usize) {
        self.taken += ticks;
    }
}
