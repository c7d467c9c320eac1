//! Random choices of the dispatcher, fixed so that a seed gives the same decisions in every version.
//!
//! The generator is named ([`Generator`]), and the few draws a decision needs are written here instead of taken from
//! a library whose output may change: a change of these lines is *value-breaking* and said so in the changelog.

use rand::Rng;

/// The generator of gateway and simulator: xoshiro256++ (Blackman and Vigna, 2019).
pub type Generator = rand::rngs::Xoshiro256PlusPlus;

/// A uniform number in `0..n`; no draw for `n = 1`.
///
/// Lemire's multiplication with rejection (2019, "Fast random integer generation in an interval"): exact, and with a
/// division in one of about `2^32 / n` calls only.
///
/// # Panics
/// In debug builds if `n` is 0.
#[inline]
pub fn below<R: Rng + ?Sized>(rng: &mut R, n: u32) -> u32 {
    debug_assert!(n > 0, "there is no number below 0");
    if n == 1 {
        return 0;
    }
    let mut product = u64::from((rng.next_u64() >> 32) as u32) * u64::from(n);
    if (product as u32) < n {
        let least = n.wrapping_neg() % n;
        while (product as u32) < least {
            product = u64::from((rng.next_u64() >> 32) as u32) * u64::from(n);
        }
    }
    (product >> 32) as u32
}

/// The position of a uniformly chosen set bit of `mask`.
///
/// # Panics
/// In debug builds if no bit is set.
#[inline]
pub(crate) fn set_bit<R: Rng + ?Sized>(rng: &mut R, mask: u64) -> u32 {
    nth_set_bit(mask, below(rng, mask.count_ones()))
}

/// The position of set bit number `n`, counted from 0.
#[inline]
pub(crate) fn nth_set_bit(mut mask: u64, n: u32) -> u32 {
    debug_assert!(n < mask.count_ones(), "bit {n} asked for among {}", mask.count_ones());
    for _ in 0..n {
        mask &= mask - 1;
    }
    mask.trailing_zeros()
}
