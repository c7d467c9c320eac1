//! Means and quantiles of one run, with intervals that allow for the dependence between neighbours.
//!
//! Answers close in time share queues, so they are not independent. The sequence, in order of arrival, is cut into
//! `b` batches of equal length (up to `b - 1` answers at the end stay out of the interval, never out of the value):
//!
//! - **Mean**: batch means `Y_1 .. Y_b` with mean `Y`; `Y +- t sqrt(sum (Y_i - Y)^2 / (b (b - 1)))`, `t` the 97.5 %
//!   quantile of Student's law with `b - 1` degrees of freedom.
//! - **Quantile**: sectioning (Asmussen and Glynn, *Stochastic Simulation*, III.5a): the value `Q` is that of the whole
//!   sequence, the spread that of the batches around it: `Q +- t sqrt(sum (Q_i - Q)^2 / (b (b - 1)))`. The `q`-quantile
//!   of `n` numbers is the one of rank `ceil(q n)`.
//!
//! `b` is [`MOST_BATCHES`], or less so that a batch has 10 answers and one is expected above the quantile; below two
//! batches there is no interval. Batches much shorter than a busy period are still dependent: then the interval is too
//! short, which a longer run mends.

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Batches of a long run.
pub const MOST_BATCHES: usize = 20;

/// A number measured, and where it may lie.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Estimate {
    /// The value.
    pub mean: f64,
    /// Its 95 % confidence interval; `None` when the run is too short for one.
    pub ci95: Option<[f64; 2]>,
}

/// The mean of the values, in order of arrival; `None` when there are none.
#[must_use]
pub(super) fn mean(values: &[f64]) -> Option<Estimate> {
    let average = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    if values.is_empty() {
        return None;
    }
    let batches = batches(values.len(), 0.5);
    let means: Vec<f64> = cut(values, batches).map(average).collect();
    let centre = if means.is_empty() { f64::NAN } else { average(&means) };
    let mean = average(values);
    Some(Estimate { mean, ci95: half_width(&means, centre).map(|half| [(mean - half).max(0.0), mean + half]) })
}

/// The `q`-quantile of the values, in order of arrival; `None` when there are none.
#[must_use]
pub(super) fn quantile(values: &[f64], q: f64) -> Option<Estimate> {
    let of = |values: &[f64]| {
        let mut sorted = values.to_vec();
        let rank = (q * values.len() as f64).ceil() as usize;
        *sorted.select_nth_unstable_by(rank.clamp(1, values.len()) - 1, f64::total_cmp).1
    };
    if values.is_empty() {
        return None;
    }
    let value = of(values);
    let quantiles: Vec<f64> = cut(values, batches(values.len(), q)).map(of).collect();
    Some(Estimate {
        mean: value,
        ci95: half_width(&quantiles, value).map(|half| [(value - half).max(0.0), value + half]),
    })
}

/// How many batches `n` answers make, for a `q`-quantile.
#[must_use]
pub(super) fn batches(n: usize, q: f64) -> usize {
    let shortest = (1.0 / (1.0 - q)).round().max(10.0) as usize;
    let batches = (n / shortest).min(MOST_BATCHES);
    if batches < 2 { 0 } else { batches }
}

fn cut(values: &[f64], batches: usize) -> impl Iterator<Item = &[f64]> {
    values.chunks_exact(values.len().checked_div(batches).unwrap_or(usize::MAX)).take(batches)
}

fn half_width(batches: &[f64], centre: f64) -> Option<f64> {
    let b = batches.len() as f64;
    let student = StudentsT::new(0.0, 1.0, b - 1.0).ok()?;
    let squares: f64 = batches.iter().map(|value| (value - centre).powi(2)).sum();
    Some(student.inverse_cdf(0.975) * (squares / (b * (b - 1.0))).sqrt())
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_distr::{Distribution, Exp1};
    use shortline_core::random::Generator;

    use super::*;

    #[test]
    fn two_batches_by_hand() {
        // Batch means 101 and 103, t(1) = 12.7062: 102 +- 12.7062 * sqrt(2 / 2).
        let values = [[101.0; 10], [103.0; 10]].concat();
        let estimate = mean(&values).unwrap();
        let [low, high] = estimate.ci95.unwrap();
        assert!((estimate.mean - 102.0).abs() < 1e-12);
        assert!((low - (102.0 - 12.7062)).abs() < 1e-3 && (high - (102.0 + 12.7062)).abs() < 1e-3, "{low} {high}");
    }

    #[test]
    fn no_interval_reaches_below_0() {
        let [low, high] = mean(&[[1.0; 10], [3.0; 10]].concat()).unwrap().ci95.unwrap();
        assert!(low == 0.0 && high > 14.0, "{low} {high}");
    }

    #[test]
    fn too_few_answers_have_a_value_but_no_interval_and_none_have_none() {
        assert_eq!(mean(&[1.0, 2.0]), Some(Estimate { mean: 1.5, ci95: None }));
        assert_eq!(quantile(&[3.0, 1.0, 2.0], 0.5), Some(Estimate { mean: 2.0, ci95: None }));
        assert_eq!((mean(&[]), quantile(&[], 0.5)), (None, None));
        assert_eq!((batches(19, 0.5), batches(20, 0.5), batches(199, 0.99), batches(10_000, 0.99)), (0, 2, 0, 20));
    }

    #[test]
    fn quantiles_are_ranks() {
        let values: Vec<f64> = (1..=1_000).rev().map(f64::from).collect();
        for (q, rank) in [(0.5, 500.0), (0.95, 950.0), (0.99, 990.0)] {
            assert!((quantile(&values, q).unwrap().mean - rank).abs() < 1e-9);
        }
    }

    /// Goal: intervals cover the truth as often as they say. Method: 400 runs of 2,000 independent exponentials; the
    /// number of covers is binomial(400, 0.95), standard error 1.1 %; required within 4 of them for the mean and above
    /// 90 % for quantiles, whose sectioned intervals are only asymptotically exact. False alarms: 1e-4; seed fixed.
    #[test]
    fn intervals_cover_as_often_as_they_say() {
        let mut rng = Generator::seed_from_u64(3);
        let (runs, mut covered) = (400, [0; 3]);
        for _ in 0..runs {
            let values: Vec<f64> = (0..2_000).map(|_| Exp1.sample(&mut rng)).collect();
            let estimates = [mean(&values), quantile(&values, 0.5), quantile(&values, 0.95)];
            for ((covered, estimate), truth) in
                covered.iter_mut().zip(estimates).zip([1.0, 0.5_f64.ln(), 0.05_f64.ln()])
            {
                let [low, high] = estimate.unwrap().ci95.unwrap();
                *covered += usize::from((low..=high).contains(&truth.abs()));
            }
        }
        let share = covered.map(|covered| covered as f64 / f64::from(runs));
        assert!((share[0] - 0.95).abs() < 0.044, "mean covered in {}", share[0]);
        assert!(share[1] > 0.9 && share[2] > 0.9, "quantiles covered in {share:?}");
    }
}
