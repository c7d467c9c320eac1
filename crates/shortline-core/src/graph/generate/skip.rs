//! From one success to the next in a row of independent trials, without looking at the failures.
//!
//! The number of failures before a success is geometric: `P(G >= g) = q^g` with `q = 1 - p`. The binary digits of a
//! geometric number are independent: digit `j` is 1 with probability `q^(2^j) / (1 + q^(2^j))` (its generating
//! function `sum q^g` factors into `prod (1 + q^(2^j))`). So a gap is one comparison of 64 random bits per digit -
//! the usual `ln(u) / ln(q)` would depend on the platform's logarithm in the last place.
//!
//! Digits past those that reach the end of the row are drawn together, as the one event "no further success", with
//! probability `q^(2^J)`. Cost per gap: at most `log2(trials)` and about `log2(37 / p)` draws, whichever is less.

use rand::Rng;

use crate::random::Generator;

/// Gaps between successes of probability `p` in rows of at most a given length.
#[derive(Debug)]
pub(super) struct Skip {
    /// Threshold of "past the end".
    past_end: u64,
    /// Threshold of each digit, the lowest first.
    digits: [u64; 64],
    count: usize,
}

impl Skip {
    /// Gaps for probability `0 < p <= 1` in rows of up to `trials` trials.
    pub(super) fn new(p: f64, trials: u64) -> Self {
        debug_assert!(p > 0.0 && p <= 1.0, "probability {p}");
        let mut skip = Self { past_end: 0, digits: [0; 64], count: 0 };
        // 1 - q^(2^j): kept instead of the power itself, since it starts at p and stays exact for small p.
        let mut success_within = p;
        while skip.count < 64 && 1_u64.checked_shl(skip.count as u32).is_some_and(|reach| reach < trials) {
            let failure = 1.0 - success_within;
            skip.digits[skip.count] = threshold(failure / (1.0 + failure));
            if failure <= 0.0 {
                return skip;
            }
            skip.count += 1;
            success_within *= 2.0 - success_within;
        }
        skip.past_end = threshold(1.0 - success_within);
        skip
    }

    /// The first success at or after trial `from` in a row of `trials` trials, or `None` if there is none.
    #[inline]
    pub(super) fn success(&self, from: u64, trials: u64, rng: &mut Generator) -> Option<u64> {
        if from >= trials {
            return None;
        }
        let at = from.checked_add(self.gap(rng)?)?;
        (at < trials).then_some(at)
    }

    /// Failures before the next success, or `None` if that is past the end of the longest row.
    #[inline]
    fn gap(&self, rng: &mut Generator) -> Option<u64> {
        if self.past_end > 0 && rng.next_u64() < self.past_end {
            return None;
        }
        let digit = |gap, (j, &threshold): (usize, &u64)| gap | u64::from(rng.next_u64() < threshold) << j;
        Some(self.digits[..self.count].iter().enumerate().fold(0, digit))
    }
}

/// The number that 64 random bits stay below with this probability.
pub(super) fn threshold(probability: f64) -> u64 {
    // A cast to an integer saturates, so that 1 becomes 1 - 2^-64.
    (probability * 2_f64.powi(64)) as u64
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use statrs::distribution::{ChiSquared, ContinuousCDF};

    use super::*;

    /// Counts of the gaps 0, 1, ..., `cells - 2` and of all longer ones, against `q^g p`; chi-square, false alarm
    /// 1e-6 for each `p`.
    #[test]
    fn gaps_are_geometric() {
        for (p, trials) in [(0.5, 1 << 40), (0.1, 1 << 40), (0.003, 1 << 40), (0.3, 16), (0.02, 64)] {
            let (skip, mut rng) = (Skip::new(p, trials), Generator::seed_from_u64(3));
            let cells = 12_usize;
            let width = (1.0 / (p * 6.0)).ceil().min((trials / cells as u64) as f64);
            let draws = 400_000;
            let mut seen = vec![0_u32; cells];
            for _ in 0..draws {
                let gap = skip.gap(&mut rng).map_or(f64::INFINITY, |gap| gap as f64);
                seen[((gap / width) as usize).min(cells - 1)] += 1;
            }
            let survive = |cell: usize| (1.0_f64 - p).powf(width * cell as f64);
            let statistic: f64 = (0..cells)
                .map(|cell| {
                    let beyond = if cell + 1 < cells { survive(cell + 1) } else { 0.0 };
                    let expected = f64::from(draws) * (survive(cell) - beyond);
                    (f64::from(seen[cell]) - expected).powi(2) / expected
                })
                .sum();
            let p_value = ChiSquared::new(cells as f64 - 1.0).unwrap().sf(statistic);
            assert!(p_value > 1e-6, "p = {p}: chi-square {statistic}, p-value {p_value}");
        }
    }

    #[test]
    fn certain_success_leaves_no_gap_and_costs_no_draw() {
        let (skip, mut rng) = (Skip::new(1.0, 1000), Generator::seed_from_u64(4));
        let before = rng.clone();
        assert_eq!(skip.gap(&mut rng), Some(0));
        assert_eq!(rng, before);
    }

    #[test]
    fn hopeless_success_ends_the_row_at_once() {
        let (skip, mut rng) = (Skip::new(1e-300, u64::MAX), Generator::seed_from_u64(5));
        assert_eq!(skip.success(0, u64::MAX, &mut rng), None);
    }
}
