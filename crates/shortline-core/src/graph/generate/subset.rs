//! Uniformly random subsets of a fixed size, in ascending order.
//!
//! Floyd's algorithm (Bentley and Floyd, 1987, "A sample of brilliance") on a bitset: `k` draws for `k` of `n`, or
//! `n - k` where the complement is smaller; every subset equally likely, by integers only. The set comes out
//! ascending, by sorting the draws when they are few and by reading the bitset when they are many: O(k log k) or
//! O(n / 64 + k), whichever is less. Nothing is allocated per subset.

use crate::random::{Generator, below};

/// A set of numbers below a fixed limit, one bit each.
#[derive(Debug)]
pub(super) struct Marks {
    words: Vec<u64>,
}

impl Marks {
    /// The empty set of numbers below `limit`.
    pub(super) fn new(limit: usize) -> Self {
        Self { words: vec![0; limit.div_ceil(64)] }
    }

    /// Inserts `i`; whether it is new.
    #[inline]
    pub(super) fn insert(&mut self, i: u32) -> bool {
        let (word, bit) = (&mut self.words[i as usize / 64], 1 << (i % 64));
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    /// Whether `i` is in the set.
    #[inline]
    pub(super) fn contains(&self, i: u32) -> bool {
        self.words[i as usize / 64] >> (i % 64) & 1 == 1
    }

    /// Takes these numbers out.
    #[inline]
    pub(super) fn remove_all(&mut self, numbers: &[u32]) {
        for &i in numbers {
            self.words[i as usize / 64] &= !(1 << (i % 64));
        }
    }

    /// Appends the numbers below `limit` that are in the set (or those that are not) in ascending order; the set is
    /// empty afterwards.
    pub(super) fn drain_into(&mut self, out: &mut Vec<u32>, limit: u32, members: bool) {
        let mut base = 0_u32;
        for word in &mut self.words {
            let below_limit = u64::MAX >> (64 - (limit - base).min(64));
            let mut rest = if members { *word } else { !*word & below_limit };
            *word = 0;
            while rest != 0 {
                out.push(base + rest.trailing_zeros());
                rest &= rest - 1;
            }
            base = base.saturating_add(64);
        }
    }
}

/// Draws subsets of `0..n`.
#[derive(Debug)]
pub(super) struct SubsetSampler {
    n: u32,
    marks: Marks,
}

impl SubsetSampler {
    /// A sampler of subsets of `0..n`.
    pub(super) fn new(n: u32) -> Self {
        Self { n, marks: Marks::new(n as usize) }
    }

    /// Appends a uniformly random subset of `k <= n` numbers to `out`, ascending.
    pub(super) fn append(&mut self, k: u32, rng: &mut Generator, out: &mut Vec<u32>) {
        debug_assert!(k <= self.n, "{k} distinct numbers below {}", self.n);
        let first = out.len();
        if sorting_is_cheaper(k, self.n) {
            self.draw(k, rng, |i| out.push(i));
            out[first..].sort_unstable();
            self.marks.remove_all(&out[first..]);
        } else {
            let members = k <= self.n / 2;
            self.draw(if members { k } else { self.n - k }, rng, |_| ());
            self.marks.drain_into(out, self.n, members);
        }
    }

    /// Marks `k` numbers, reporting each.
    #[inline]
    fn draw(&mut self, k: u32, rng: &mut Generator, mut chosen: impl FnMut(u32)) {
        for largest in self.n - k..self.n {
            // largest + 1 <= n, so it fits.
            let i = below(rng, largest + 1);
            if self.marks.insert(i) {
                chosen(i);
            } else {
                self.marks.insert(largest);
                chosen(largest);
            }
        }
    }
}

/// Sorting costs about `k log2 k` steps, reading the bitset one per word.
fn sorting_is_cheaper(k: u32, n: u32) -> bool {
    u64::from(k) * u64::from(k.checked_ilog2().unwrap_or(0) + 1) < u64::from(n / 64)
}

/// Puts `items` in uniformly random order (Fisher and Yates, from the end). At most 2^32 - 1 items.
pub(super) fn shuffle(items: &mut [u32], rng: &mut Generator) {
    for last in (1..items.len()).rev() {
        let count = u32::try_from(last + 1).expect("no more items than MOST_EDGES");
        items.swap(last, below(rng, count) as usize);
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn subsets_are_ascending_and_of_the_size_asked_for_whichever_way_they_are_drawn() {
        let mut rng = Generator::seed_from_u64(1);
        for n in [1, 2, 63, 64, 65, 128, 1000, 10_000] {
            let mut sampler = SubsetSampler::new(n);
            for k in [0, 1, 2, 5, 16, n / 2, n - 1, n] {
                let mut out = vec![77];
                sampler.append(k.min(n), &mut rng, &mut out);
                let subset = &out[1..];
                assert_eq!(subset.len() as u32, k.min(n));
                assert!(subset.is_sorted_by(|a, b| a < b) && subset.iter().all(|&i| i < n), "{k} of {n}");
            }
        }
    }

    #[test]
    fn a_shuffle_keeps_the_items() {
        let mut items: Vec<u32> = (0..1000).collect();
        shuffle(&mut items, &mut Generator::seed_from_u64(2));
        assert!(!items.is_sorted());
        items.sort_unstable();
        assert_eq!(items, (0..1000).collect::<Vec<_>>());
    }
}
