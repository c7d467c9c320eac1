//! When has a run that started empty settled? The end of the warm-up, told from the number of jobs over time.

use crate::estimate::{half_width, mean};

/// MSER-5 (White, 1997; White, Cobb, Spratt, 2000): how much of the start of a series to drop.
///
/// The series is averaged in groups of 5; dropping the first `d` groups of `n` leaves the squared standard error
/// `sum_{i > d} (y_i - mean)^2 / (n - d)^2`, and the `d` that makes it smallest is taken. Returned is the number of
/// values to drop, or `None` if that is more than half: the series has not settled.
pub(crate) fn mser5(series: &[f64]) -> Option<usize> {
    let groups: Vec<f64> = series.chunks_exact(5).map(mean).collect();
    let n = groups.len();
    let (mut sum, mut squares, mut best) = (0.0, 0.0, (f64::INFINITY, n));
    let centre = mean(&groups);
    // From the end; the last 5 groups alone say too little.
    for (d, group) in groups.iter().enumerate().rev() {
        let value = group - centre;
        sum += value;
        squares += value * value;
        let kept = (n - d) as f64;
        let error = (squares - sum * sum / kept) / (kept * kept);
        if n - d >= 5 && error <= best.0 {
            best = (error, d);
        }
    }
    (2 * best.1 <= n && n >= 10).then_some(5 * best.1)
}

/// Whether a series has levelled off: what is left of its climb after its end is at most `tolerance`, relative.
/// MSER-5 alone asks of a large fleet, whose noise is small, a bias far below what matters.
///
/// Either the means of the last two quarters hardly differ; or the steps from quarter to quarter shrink by a factor `r
/// <= 1/2`. A climb that ends like `e^(-t)` has `d r / (1 - r)` before it from the mean of its last quarter on, if `d` is
/// the last step, and `-ln(r) r / (1 - r)` of that from its end on. A slow part of the climb shows late, so `r` is the
/// larger of two: that of the last three quarters, and that of the last three eighths, squared.
pub(crate) fn levels_off(series: &[f64], tolerance: f64) -> bool {
    let t = series.len();
    if t < 16 {
        return false;
    }
    // The last step between parts of this length, and its ratio to the step before.
    let step = |part: usize| {
        let mean_of = |i: usize| mean(&series[t - (i + 1) * part..t - i * part]);
        let (last, before) = (mean_of(0) - mean_of(1), mean_of(1) - mean_of(2));
        (last, last / before)
    };
    let ((last, by_quarter), (_, by_eighth)) = (step(t / 4), step(t / 8));
    let allowed = tolerance * mean(&series[t - t / 4..]);
    let r = by_quarter.max(by_eighth * by_eighth);
    last.abs() <= allowed || (by_quarter > 0.0 && r <= 0.5 && -last.abs() * r.ln() * (r / (1.0 - r)).powi(2) <= allowed)
}

/// Probability with which a comparison of [`climbs`] calls a settled system climbing.
const FALSE_CLIMB: f64 = 0.1;

/// Whether the replications still climb together, by more than `tolerance`, relative: a slow chain wanders so far that its
/// climb looks like noise in a sum of series, but not in the replications side by side.
///
/// Each replication's mean over its last half is compared with that over the quarter before, and its last quarter with the
/// one before; one-sided t-tests over the replications, each at level [`FALSE_CLIMB`]. A queue at its edge, which climbs like
/// the square root of time, is seen to climb in 99 of 100 tests of 32 replications. A climb that is certain but below
/// the tolerance is none.
pub(crate) fn climbs(series: &[&[f64]], tolerance: f64) -> bool {
    let t = series.iter().map(|values| values.len()).min().unwrap_or(0);
    if t < 16 {
        return false;
    }
    let steps = |from: usize, middle: usize, to: usize| -> Vec<f64> {
        series.iter().map(|values| mean(&values[middle..to]) - mean(&values[from..middle])).collect()
    };
    let level = series.iter().map(|values| mean(&values[t - t / 4..t])).sum::<f64>() / series.len() as f64;
    [steps(t / 4, t / 2, t), steps(t / 2, t - t / 4, t)].iter().any(|steps| {
        let chance = half_width(steps, 1.0 - FALSE_CLIMB).unwrap_or(f64::INFINITY);
        mean(steps) > chance.max(tolerance * level)
    })
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng};
    use shortline_core::random::Generator;

    use super::*;

    /// 32 queues in discrete time, up with probability `up`, else down, from empty; how often they are said to climb in 200
    /// tries.
    fn said_to_climb(up: f64, steps: usize) -> usize {
        let mut words = Generator::seed_from_u64(1);
        let mut walk = || {
            let mut jobs = 0_i32;
            let mut series = Vec::new();
            for i in 0..steps {
                let arrives = (words.next_u64() as f64) < up * 2_f64.powi(64);
                jobs = (jobs + if arrives { 1 } else { -1 }).max(0);
                if i % (steps / 128) == 0 {
                    series.push(f64::from(jobs));
                }
            }
            series
        };
        let mut climb = || {
            let series: Vec<Vec<f64>> = (0..32).map(|_| walk()).collect();
            climbs(&series.iter().map(Vec::as_slice).collect::<Vec<_>>(), 1e-3)
        };
        (0..200).filter(|_| climb()).count()
    }

    #[test]
    fn a_slow_queue_is_seen_to_climb_and_a_settled_one_is_not() {
        // At the edge; and at load 0.6, which has settled after a few hundred steps. False alarms are two comparisons at
        // 10 %: 200 tries have at most 60 with probability 1 - 1e-5.
        assert!(said_to_climb(0.5, 4096) >= 196);
        assert!(said_to_climb(0.375, 4096) <= 60);
    }

    #[test]
    fn a_settled_series_is_kept_and_a_ramp_is_not() {
        let noise = |i: u32| f64::from(i.wrapping_mul(2_654_435_761) >> 16) / 65536.0;
        let settled: Vec<f64> = (0..200).map(noise).collect();
        assert!(mser5(&settled).unwrap() <= 50);
        let filling: Vec<f64> = (0..200).map(|i| 20.0 * (1.0 - (-f64::from(i) / 8.0).exp()) + noise(i)).collect();
        let dropped = mser5(&filling).unwrap();
        assert!((15..=60).contains(&dropped), "{dropped}");
        let ramp: Vec<f64> = (0..200).map(|i| f64::from(i) + noise(i)).collect();
        assert_eq!(mser5(&ramp), None);
    }

    #[test]
    fn a_series_that_still_rises_has_not_levelled_off() {
        let filling = |scale: f64| (0..200).map(|i| 1.0 - (-f64::from(i) / scale).exp()).collect::<Vec<f64>>();
        assert!(levels_off(&filling(10.0), 1e-3));
        assert!(!levels_off(&filling(100.0), 1e-3));
        // What is left after the end is told by the steps before they are as small.
        assert!(levels_off(&filling(24.0), 1e-3) && !levels_off(&filling(40.0), 1e-3));
        // A slow part of a tenth, of which a fifth is left, behind a quick one.
        let slow_part = |i: u32| 1.0 - 0.9 * (-f64::from(i) / 10.0).exp() - 0.1 * (-f64::from(i) / 120.0).exp();
        assert!(!levels_off(&(0..200).map(slow_part).collect::<Vec<f64>>(), 1e-3));
        assert!(!levels_off(&[1.0; 15], 1e-3));
    }
}
