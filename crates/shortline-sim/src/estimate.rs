//! How certain is it? Intervals, the end of the warm-up, and the test for growth without end.
//!
//! All statistics rest on independent replications: the figure of each is one observation, so intervals are Student's
//! whatever the correlation in time.

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// A mean with its 95 % confidence interval.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Estimate {
    /// The mean over the replications.
    pub mean: f64,
    /// Student's interval over the replications: `mean -+ t sd / sqrt(replications)`.
    pub ci95: [f64; 2],
}

impl Estimate {
    /// The estimate from one observation per replication; `None` if one of them is missing (not a number).
    #[must_use]
    pub fn from_observations(values: &[f64]) -> Option<Self> {
        let half_width = half_width(values, 0.975)?;
        let mean = mean(values);
        Some(Self { mean, ci95: [mean - half_width, mean + half_width] })
    }

    /// Half the width of the interval, relative to the mean; 0 for a mean of exactly 0.
    #[must_use]
    pub fn relative_half_width(&self) -> f64 {
        let half_width = 0.5 * (self.ci95[1] - self.ci95[0]);
        if half_width > 0.0 { half_width / self.mean.abs() } else { 0.0 }
    }

    /// The same quantity in another unit.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Self {
        Self { mean: self.mean * factor, ci95: self.ci95.map(|end| end * factor) }
    }

    /// The same, the interval cut to the range that the quantity has.
    #[must_use]
    pub fn within(self, low: f64, high: f64) -> Self {
        Self { ci95: self.ci95.map(|end| end.clamp(low, high)), ..self }
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// `t_{n-1}(level) sd / sqrt(n)`.
fn half_width(values: &[f64], level: f64) -> Option<f64> {
    if values.len() < 2 || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let (n, mean) = (values.len() as f64, mean(values));
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
    Some(student(level, values.len()) * (variance / n).sqrt())
}

/// Quantile of Student's law for `n` observations.
fn student(level: f64, n: usize) -> f64 {
    StudentsT::new(0.0, 1.0, n as f64 - 1.0).expect("there are two observations or more").inverse_cdf(level)
}

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
/// <= 1/2`, so that a step `d` is followed by `d r / (1 - r)` in all. A slow part of the climb shows late, so `r` is the
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
    last.abs() <= allowed || (by_quarter > 0.0 && r <= 0.5 && last.abs() * r / (1.0 - r) <= allowed)
}

/// Probability that one look of the drift test is wrong on a stable system.
pub const FALSE_ALARM_PER_LOOK: f64 = 1e-5;

/// Whether a system that started empty grows without end.
///
/// One series per replication, equally spaced from the start; a series is a norm of the numbers of jobs. With `a`, `b`,
/// `c` its means over the times (T/8, T/4), (T/4, T/2), (T/2, T), growth `t^p` gives `c - b = 2^p (b - a)`. A stable
/// system levels off, and one at the very edge grows like the square root: `2^p <= 1.42`. One that is overloaded grows
/// linearly: `2^p = 2`. The test rejects "`c - b <= 1.5 (b - a)` in the mean" by a one-sided t-test over the
/// replications at level [`FALSE_ALARM_PER_LOOK`].
pub(crate) fn grows_without_end(series: &[&[f64]]) -> bool {
    let excess = |values: &&[f64]| {
        let t = values.len();
        let (a, b, c) = (mean(&values[t / 8..t / 4]), mean(&values[t / 4..t / 2]), mean(&values[t / 2..]));
        (c - b) - 1.5 * (b - a)
    };
    if series.iter().any(|values| values.len() < 16) {
        return false;
    }
    let excesses: Vec<f64> = series.iter().map(excess).collect();
    half_width(&excesses, 1.0 - FALSE_ALARM_PER_LOOK).is_some_and(|half_width| mean(&excesses) > half_width)
}

/// Slope of a series over its second half, per step.
pub(crate) fn slope(values: &[f64]) -> f64 {
    let t = values.len();
    let (early, late) = (mean(&values[t / 2..3 * t / 4]), mean(&values[3 * t / 4..]));
    (late - early) / (t as f64 / 4.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_students() {
        // t_{3}(0.975) = 3.182446; sd of 1..4 is 1.290994.
        let estimate = Estimate::from_observations(&[1.0, 2.0, 3.0, 4.0]).unwrap();
        assert!((estimate.ci95[1] - 2.5 - 3.182_446 * 1.290_994 / 2.0).abs() < 1e-5);
        assert_eq!(Estimate::from_observations(&[1.0, f64::NAN]), None);
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

    #[test]
    fn linear_growth_is_found_and_growth_like_the_square_root_is_not() {
        let noise = |i: u32| f64::from(i.wrapping_mul(2_654_435_761) >> 16) / 65536.0;
        let series = |f: &dyn Fn(f64) -> f64| -> Vec<Vec<f64>> {
            (0..8).map(|r| (1..200).map(|i| 100.0 * f(f64::from(i)) + noise(i + 1000 * r)).collect()).collect()
        };
        let found = |f: &dyn Fn(f64) -> f64| {
            let series = series(f);
            grows_without_end(&series.iter().map(Vec::as_slice).collect::<Vec<_>>())
        };
        assert!(found(&|t| 5.0 + t));
        assert!(!found(&f64::sqrt));
        assert!(!found(&|t| 1.0 - (-t / 50.0).exp()));
        assert!(!found(&|_| 1.0));
    }
}
