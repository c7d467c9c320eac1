//! Does a system that started empty grow without end? The test for growth.

use crate::estimate::{half_width, mean, student};

/// Probability that one look of the test for growth is wrong on a stable system.
pub const FALSE_ALARM_PER_LOOK: f64 = 1e-5;

/// Which replications grow without end; empty if none is known to.
///
/// One series per replication, equally spaced from the empty start; a series is a norm of the numbers of jobs. With `a`,
/// `b`, `c` its means over the times (T/8, T/4), (T/4, T/2), (T/2, T), growth `t^p` gives `c - b = 2^p (b - a)`. A stable
/// system levels off, and one at the very edge grows like the square root: `2^p <= 1.42`. One that is overloaded grows
/// linearly: `2^p = 2`. So what is looked at is the excess `c - b - 1.5 (b - a)`: twice, each at half the level
/// [`FALSE_ALARM_PER_LOOK`].
///
/// 1. **All together**: one-sided t-test of "no excess in the mean" over the replications; all of them grow.
/// 2. **Each alone**, for systems that are stable until chance carries them away, some replications earlier than others:
///    the excess against its standard deviation for a series that wanders without drift (a Brownian motion with the
///    variance of the series' own steps), by Student's law, the level divided among the replications. The slow part
///    of the noise of a stable system is weaker than that of a wandering one, so the level holds there.
pub(crate) fn growing(series: &[&[f64]]) -> Vec<usize> {
    if series.iter().any(|values| values.len() < FEWEST_VALUES) {
        return Vec::new();
    }
    let level = 0.5 * FALSE_ALARM_PER_LOOK;
    let risen =
        series.iter().map(|values| mean(&values[values.len() / 2..]) - mean(&values[..values.len() / 4])).sum::<f64>();
    if risen < LEAST_RISE {
        return Vec::new();
    }
    let excesses: Vec<f64> = series.iter().map(|values| excess(values)).collect();
    if half_width(&excesses, 1.0 - level).is_some_and(|half_width| mean(&excesses) > half_width) {
        return (0..series.len()).collect();
    }
    let limit = student(1.0 - level / series.len() as f64, PIECES);
    let alone = |&i: &usize| excesses[i] > limit * WANDERING * deviation_of_pieces(series[i]) * (PIECES as f64).sqrt();
    (0..series.len()).filter(alone).collect()
}

/// Values without which nothing is said.
const FEWEST_VALUES: usize = 64;

/// Jobs, over all replications, by which the series have to rise before anything is called growth: what grows without end
/// gets there. With few jobs in the system its numbers are no noise but a pattern: arrival, departure, arrival, ...
const LEAST_RISE: f64 = 50.0;

/// Pieces of a series whose steps give its variance.
const PIECES: usize = 32;

/// Standard deviation of the excess of a Brownian motion over (0, 1) with unit variance: the root of the integral of the
/// squared weights with which its increments enter. Those of `c - 2.5 b + 1.5 a` go linearly from 0 at 1/8 to -1.5 at
/// 1/4, to 1 at 1/2 and to 0 at 1: `1.5^2/3 / 8 + (1.5^2 - 1.5 + 1)/3 / 4 + 1/3 / 2 = 0.40625`.
const WANDERING: f64 = 0.637_377_439_199_098;

fn excess(values: &[f64]) -> f64 {
    let t = values.len();
    let (a, b, c) = (mean(&values[t / 8..t / 4]), mean(&values[t / 4..t / 2]), mean(&values[t / 2..]));
    (c - b) - 1.5 * (b - a)
}

/// Standard deviation of the steps of a series from piece to piece.
fn deviation_of_pieces(values: &[f64]) -> f64 {
    let at = |piece: usize| values[piece * (values.len() - 1) / PIECES];
    let steps: Vec<f64> = (0..PIECES).map(|piece| at(piece + 1) - at(piece)).collect();
    let mean = mean(&steps);
    (steps.iter().map(|step| (step - mean).powi(2)).sum::<f64>() / (PIECES as f64 - 1.0)).sqrt()
}

/// Where a series that grows linearly from 0 would end, by how far its mean rises from the first quarter to the second half:
/// `5/8` of it.
pub(crate) fn risen_to(values: &[f64]) -> f64 {
    match values.len() < FEWEST_VALUES {
        true => 0.0,
        false => (mean(&values[values.len() / 2..]) - mean(&values[..values.len() / 4])) / 0.625,
    }
}

/// Slope of a series over its second half, per step.
pub(crate) fn slope(values: &[f64]) -> f64 {
    let t = values.len();
    let (early, late) = (mean(&values[t / 2..3 * t / 4]), mean(&values[3 * t / 4..]));
    (late - early) / (t as f64 / 4.0)
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng};
    use shortline_core::random::Generator;

    use super::*;

    /// Replications in step, as where jobs are rare: no noise, and an excess of a hair.
    #[test]
    fn a_pattern_of_few_jobs_is_no_growth() {
        let series: Vec<Vec<f64>> = vec![(0..77).map(|i| f64::from(i % 2) + 1e-3 * f64::from(i)).collect(); 8];
        assert_eq!(growing(&series.iter().map(Vec::as_slice).collect::<Vec<_>>()), Vec::<usize>::new());
    }

    /// The sum of `n` fair steps of 1 up or down and the drift.
    fn wandering(rng: &mut Generator, n: usize, drift: f64) -> Vec<f64> {
        let mut at = 0.0;
        let mut step = || {
            at += drift + if rng.next_u64() >> 63 == 0 { 1.0 } else { -1.0 };
            at
        };
        (0..n).map(|_| step()).collect()
    }

    /// Goal: the level of the second test on series that wander. Method: it is set to reject one in a hundred instead;
    /// 20,000 series, so at most 200 expected (it finds some 120: the excess is among the steps whose variance it is
    /// compared with), standard deviation 14 at most. False-alarm probability below 1e-3 were the seed free.
    #[test]
    fn a_series_that_wanders_without_drift_is_seldom_called_growing() {
        let mut rng = Generator::seed_from_u64(5);
        let limit = student(0.99, PIECES) * WANDERING * (PIECES as f64).sqrt();
        let exceeds = |values: &[f64]| excess(values) > limit * deviation_of_pieces(values);
        let found = (0..20_000).filter(|_| exceeds(&wandering(&mut rng, 256, 0.0))).count();
        assert!((70..=245).contains(&found), "{found} of 20000");
    }

    /// As when chance carries some replications away and leaves others.
    #[test]
    fn one_growing_replication_among_steady_ones_is_found() {
        let mut rng = Generator::seed_from_u64(6);
        let mut series: Vec<Vec<f64>> = (0..16).map(|_| wandering(&mut rng, 200, 0.0)).collect();
        series[5] = wandering(&mut rng, 200, 5.0);
        let found = growing(&series.iter().map(Vec::as_slice).collect::<Vec<_>>());
        assert_eq!(found, [5]);
    }

    #[test]
    fn a_line_has_risen_to_its_end() {
        let line: Vec<f64> = (0..1000).map(f64::from).collect();
        assert!((risen_to(&line) - 999.0).abs() < 2.0);
        assert!(risen_to(&[7.0; 100]).abs() < 1e-12 && risen_to(&line[..10]).abs() < 1e-12);
    }

    #[test]
    fn linear_growth_is_found_and_growth_like_the_square_root_is_not() {
        let noise = |i: u32| f64::from(i.wrapping_mul(2_654_435_761) >> 16) / 65536.0;
        let series = |f: &dyn Fn(f64) -> f64| -> Vec<Vec<f64>> {
            (0..8).map(|r| (1..200).map(|i| 100.0 * f(f64::from(i)) + noise(i + 1000 * r)).collect()).collect()
        };
        let found = |f: &dyn Fn(f64) -> f64| {
            let series = series(f);
            growing(&series.iter().map(Vec::as_slice).collect::<Vec<_>>()).len() == 8
        };
        assert!(found(&|t| 5.0 + t));
        assert!(!found(&f64::sqrt));
        assert!(!found(&|t| 1.0 - (-t / 50.0).exp()));
        assert!(!found(&|_| 1.0));
    }
}
