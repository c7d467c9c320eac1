//! Policies that need no look at the state: with servers of one type, numbered by falling number of jobs, the shortest
//! of a sample is the one with the largest number, whoever that is.

use rand::Rng;
use shortline_core::random::{Generator, below};

/// Largest sample of `jsq(d)`.
pub(crate) const MOST_SAMPLED: u32 = 16;

/// Where among servers numbered by falling number of jobs a policy's choice is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Position {
    /// The last number: one with fewest jobs.
    Last,
    /// The largest of so many distinct ones, at most [`MOST_SAMPLED`].
    LargestOf(u32),
}

impl Position {
    /// A number below `servers`, which are at least as many as are sampled.
    #[inline(always)]
    pub(crate) fn draw(self, servers: u32, rng: &mut Generator) -> u32 {
        match self {
            Self::Last => servers - 1,
            Self::LargestOf(1) => below(rng, servers),
            Self::LargestOf(2) => larger_of_two(servers, rng),
            Self::LargestOf(d) => distinct(d, servers, rng).fold(0, u32::max),
        }
    }
}

/// So many distinct numbers below `n`, each set of them with the same probability.
#[inline]
pub(crate) fn distinct(d: u32, n: u32, rng: &mut Generator) -> impl Iterator<Item = u32> + use<> {
    let mut sampled = [0; MOST_SAMPLED as usize];
    for i in 0..d as usize {
        sampled[i] = loop {
            let number = below(rng, n);
            if !sampled[..i].contains(&number) {
                break number;
            }
        };
    }
    sampled.into_iter().take(d as usize)
}

/// The larger of two distinct numbers below `n >= 2`, each pair with the same probability: one word for both, and as in
/// [`below`] another one if a half of it would be biased.
#[inline(always)]
fn larger_of_two(n: u32, rng: &mut Generator) -> u32 {
    let draw = |rng: &mut Generator| {
        let word = rng.next_u64();
        ((word >> 32) * u64::from(n), (word & 0xffff_ffff) * u64::from(n - 1))
    };
    let (mut first, mut second) = draw(rng);
    if (first as u32) < n || (second as u32) < n - 1 {
        while (first as u32) < n.wrapping_neg() % n || (second as u32) < (n - 1).wrapping_neg() % (n - 1) {
            (first, second) = draw(rng);
        }
    }
    let (first, second) = ((first >> 32) as u32, (second >> 32) as u32);
    first.max(second + u32::from(second >= first))
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use statrs::distribution::{ChiSquared, ContinuousCDF};

    use super::*;

    /// Goal: the law `P(largest of d < k) = C(k, d) / C(n, d)`. Method: chi-square of 50,000 draws for each d; level 1e-6
    /// a test, false-alarm probability 4e-6 were the seed free.
    #[test]
    fn the_largest_of_a_sample_has_the_law_of_order_statistics() {
        let (n, draws) = (9_u32, 50_000);
        let mut rng = Generator::seed_from_u64(4);
        for d in [1, 2, 3, 5] {
            let choose =
                |k: u32| (0..d).map(|i| (f64::from(k) - f64::from(i)).max(0.0) / f64::from(d - i)).product::<f64>();
            let mut counts = vec![0_u32; n as usize];
            (0..draws).for_each(|_| counts[Position::LargestOf(d).draw(n, &mut rng) as usize] += 1);
            assert!(counts[..d as usize - 1].iter().all(|&count| count == 0), "{d}: {counts:?}");
            let chi2: f64 = (d - 1..n)
                .map(|k| {
                    let expected = f64::from(draws) * (choose(k + 1) - choose(k)) / choose(n);
                    (f64::from(counts[k as usize]) - expected).powi(2) / expected
                })
                .sum();
            let p = ChiSquared::new(f64::from(n - d)).unwrap().sf(chi2);
            assert!(p > 1e-6, "{d}: p = {p}, {counts:?}");
        }
    }
}
