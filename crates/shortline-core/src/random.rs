//! Random choices of the dispatcher, fixed so that a seed gives the same decisions in every version.
//!
//! The generator is named ([`Generator`]), and the few draws a decision needs are written here instead of taken from
//! a library whose output may change: a change of these lines is *value-breaking* and said so in the changelog.

use rand::Rng;

/// The generator of gateway and simulator: xoshiro256++ (Blackman and Vigna, 2019).
pub type Generator = rand::rngs::Xoshiro256PlusPlus;

/// A uniform number in `0..n`. One draw, also for `n = 1`: a branch that skipped it would cost more.
///
/// Lemire's multiplication with rejection (2019, "Fast random integer generation in an interval"): exact, and a second
/// draw in one of about `2^32 / n` calls only.
///
/// # Panics
/// In debug builds if `n` is 0.
#[inline(always)]
pub fn below<R: Rng + ?Sized>(rng: &mut R, n: u32) -> u32 {
    debug_assert!(n > 0, "there is no number below 0");
    let mut product = (rng.next_u64() >> 32) * u64::from(n);
    if (product as u32) < n {
        product = without_bias(rng, n, product);
    }
    (product >> 32) as u32
}

#[cold]
fn without_bias<R: Rng + ?Sized>(rng: &mut R, n: u32, mut product: u64) -> u64 {
    let least = n.wrapping_neg() % n;
    while (product as u32) < least {
        product = (rng.next_u64() >> 32) * u64::from(n);
    }
    product
}

/// The position of a uniformly chosen set bit of `mask`.
///
/// # Panics
/// In debug builds if no bit is set.
#[inline(always)]
pub(crate) fn set_bit<R: Rng + ?Sized>(rng: &mut R, mask: u64) -> u32 {
    let counts = cumulative_counts(mask);
    select(mask, counts, below(rng, (counts >> 56) as u32))
}

/// [`set_bit`] of a short mask: the same choice in fewer steps.
#[inline(always)]
pub(crate) fn set_bit_of_16<R: Rng + ?Sized>(rng: &mut R, mask: u16) -> u32 {
    let [low, high] = mask.to_le_bytes();
    let count = |byte: u8| u32::from(BITS_IN_BYTE[byte as usize]);
    let below_high = count(low);
    let n = below(rng, below_high + count(high));
    let (byte, n, place) = if n < below_high { (low, n, 0) } else { (high, n - below_high, 8) };
    place + u32::from(SELECT_IN_BYTE[byte as usize][n as usize & 7])
}

/// The position of set bit number `n`, counted from 0.
#[inline]
pub(crate) fn nth_set_bit(mask: u64, n: u32) -> u32 {
    debug_assert!(n < mask.count_ones(), "bit {n} asked for among {}", mask.count_ones());
    select(mask, cumulative_counts(mask), n)
}

const ONES: u64 = 0x0101_0101_0101_0101;

/// Byte `i` holds the number of set bits in bytes `0..=i` of `mask`.
#[inline(always)]
fn cumulative_counts(mask: u64) -> u64 {
    let pairs = mask - (mask >> 1 & 0x5555_5555_5555_5555);
    let fours = (pairs & 0x3333_3333_3333_3333) + (pairs >> 2 & 0x3333_3333_3333_3333);
    ((fours + (fours >> 4)) & 0x0f0f_0f0f_0f0f_0f0f).wrapping_mul(ONES)
}

/// Select without branches: the byte whose cumulative count first exceeds `n`, then a table (Vigna, 2008, "Broadword
/// implementation of rank/select queries", algorithm 2). A loop that clears bits would be mispredicted at every call.
#[inline(always)]
fn select(mask: u64, counts: u64, n: u32) -> u32 {
    const HIGH: u64 = 0x80 * ONES;
    let passed = ((((u64::from(n) * ONES) | HIGH) - counts) & HIGH) >> 7;
    let place = (passed.wrapping_mul(ONES) >> 56) * 8;
    let before = (counts << 8 >> place) as u32 & 0xff;
    let byte = (mask >> place) as usize & 0xff;
    place as u32 + u32::from(SELECT_IN_BYTE[byte][(n - before) as usize & 7])
}

/// Number of set bits of each byte.
static BITS_IN_BYTE: [u8; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = byte.count_ones() as u8;
        byte += 1;
    }
    table
};

/// Position of set bit number `n` of each byte.
static SELECT_IN_BYTE: [[u8; 8]; 256] = {
    let mut table = [[0; 8]; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut n, mut bit) = (0, 0);
        while bit < 8 {
            if byte >> bit & 1 == 1 {
                table[byte][n] = bit as u8;
                n += 1;
            }
            bit += 1;
        }
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn the_nth_set_bit_is_the_one_found_by_counting() {
        let mut rng = Generator::seed_from_u64(3);
        let masks = (0..64).map(|i| 1 << i).chain([u64::MAX, 0x8000_0000_0000_0001]);
        let sparse_and_dense =
            (0..2000).map(|i| if i % 2 == 0 { rng.next_u64() } else { rng.next_u64() & rng.next_u64() });
        for mask in masks.chain(sparse_and_dense).filter(|&mask| mask != 0) {
            let by_counting = (0..64).filter(|i| mask >> i & 1 == 1);
            for (n, position) in by_counting.enumerate() {
                assert_eq!(nth_set_bit(mask, n as u32), position, "bit {n} of {mask:#x}");
            }
        }
    }

    #[test]
    fn a_short_mask_is_chosen_from_like_a_long_one() {
        let mut masks = Generator::seed_from_u64(11);
        for seed in 0..2000 {
            let mask = (masks.next_u64() as u16).max(1);
            let [mut a, mut b] = [seed; 2].map(Generator::seed_from_u64);
            assert_eq!(set_bit_of_16(&mut a, mask), set_bit(&mut b, u64::from(mask)), "{mask:#x}");
        }
    }

    /// Chi-square over 7 cells, 70,000 draws; false-alarm probability 1e-6 (quantile 38.3 at 6 degrees of freedom).
    #[test]
    fn numbers_below_n_are_uniform() {
        let mut rng = Generator::seed_from_u64(5);
        let mut counts = [0_u32; 7];
        (0..70_000).for_each(|_| counts[below(&mut rng, 7) as usize] += 1);
        let chi2: f64 = counts.iter().map(|&c| (f64::from(c) - 10_000.0).powi(2) / 10_000.0).sum();
        assert!(chi2 < 38.3, "chi-square {chi2}");
    }
}
