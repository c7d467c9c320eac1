//! The judges: from numbers with intervals to an answer. Each is a pure function, and honest about the intervals: see
//! [`verdict`](super::verdict).

use super::number::{Number, plain};
use super::verdict::{Answer, Judgement, worst};

/// A number over something: `(x, y)`, ascending in `x`. `None` = could not be measured.
pub(crate) type Series = [(f64, Option<Number>)];

/// `x <= limit`.
pub(crate) fn at_most(x: Option<Number>, limit: f64) -> Judgement {
    let Some(x) = x else { return not_measured() };
    Judgement::new(side(x.high <= limit, x.low > limit), format!("{x} against at most {}", plain(limit)))
}

/// `x >= limit`.
pub(crate) fn at_least(x: Option<Number>, limit: f64) -> Judgement {
    let Some(x) = x else { return not_measured() };
    Judgement::new(side(x.low >= limit, x.high < limit), format!("{x} against at least {}", plain(limit)))
}

/// `a < b`: the intervals are apart.
pub(crate) fn below(a: Option<Number>, b: Option<Number>) -> Judgement {
    let (Some(a), Some(b)) = (a, b) else { return not_measured() };
    Judgement::new(side(a.high < b.low, a.low > b.high), format!("{a} against {b}"))
}

/// `|x - target| <= tolerance`.
pub(crate) fn close_to(x: Option<Number>, target: f64, tolerance: f64) -> Judgement {
    let Some(x) = x else { return not_measured() };
    let (least, most) = (target - tolerance, target + tolerance);
    let answer = side(x.low >= least && x.high <= most, x.high < least || x.low > most);
    Judgement::new(answer, format!("{x} against {} +- {}", plain(target), plain(tolerance)))
}

/// `a` and `b` differ by at most `tolerance` of `b`. They are independent: the error of their ratio is taken as the root of
/// the sum of squares of their relative errors.
pub(crate) fn agree(a: Option<Number>, b: Option<Number>, tolerance: f64) -> Judgement {
    let (Some(a), Some(b)) = (a, b) else { return not_measured() };
    let ratio = a.mean / b.mean;
    let half_width = ratio.abs() * (a.half_width() / a.mean).hypot(b.half_width() / b.mean);
    let ratio = Number { mean: ratio, low: ratio - half_width, high: ratio + half_width };
    if !ratio.mean.is_finite() || !half_width.is_finite() {
        return Judgement::new(Answer::Inconclusive, format!("{a} and {b} have no ratio"));
    }
    let judgement = close_to(Some(ratio), 1.0, tolerance);
    Judgement { because: format!("ratio {}", judgement.because), ..judgement }
}

/// Falls to `target` as `x` grows: the last number is within `tolerance` of it, and below the first one, unless the first
/// one is as close already.
pub(crate) fn falls_to(series: &Series, target: f64, tolerance: f64) -> Judgement {
    let [(first_x, first), .., (last_x, last)] = *series else { return not_measured() };
    let arrived = close_to(last, target, tolerance);
    if arrived.answer != Answer::Holds || close_to(first, target, tolerance).answer == Answer::Holds {
        return arrived.of(format_args!("at {}", plain(last_x)));
    }
    let (fallen, places) = (below(last, first), format!("at {} and at {}", plain(last_x), plain(first_x)));
    Judgement::new(fallen.answer, format!("{places}: {}, the former {}", fallen.because, arrived.because))
}

/// `y ~ x^slope` with a slope in `[least, most]`: the slope of `ln y` over `ln x`, each number weighed by its interval.
///
/// Least squares with weights `1 / s_i^2`, `s_i = (half-width of y_i) / (1.96 y_i)`; the interval of the slope is its
/// standard error times 1.96, times the square root of chi-square per degree of freedom where that is above 1: points
/// that do not lie on a line make it wider.
pub(crate) fn slope_within(series: &Series, least: f64, most: f64) -> Judgement {
    match log_log_slope(series) {
        Err(why) => Judgement::new(Answer::Inconclusive, why),
        Ok(slope) => {
            let answer = side(slope.low >= least && slope.high <= most, slope.high < least || slope.low > most);
            Judgement::new(answer, format!("slope {slope} against {} to {}", plain(least), plain(most)))
        }
    }
}

/// `y` shrinks at least like `x^most`, or grows at most like it: the slope of [`slope_within`] is `most` or less.
pub(crate) fn slope_at_most(series: &Series, most: f64) -> Judgement {
    match log_log_slope(series) {
        Err(why) => Judgement::new(Answer::Inconclusive, why),
        Ok(slope) => {
            let judgement = at_most(Some(slope), most);
            Judgement { because: format!("slope {}", judgement.because), ..judgement }
        }
    }
}

/// The slope of [`slope_within`], or why there is none.
pub(crate) fn log_log_slope(series: &Series) -> Result<Number, String> {
    let mut points = Vec::new();
    for &(x, y) in series {
        let y = y.ok_or("could not be measured everywhere")?;
        let error = y.half_width() / (NORMAL_975 * y.mean);
        if !(x > 0.0 && y.low > 0.0) {
            return Err(format!("at {} the interval of {y} reaches 0, which has no logarithm", plain(x)));
        }
        points.push((x.ln(), y.mean.ln(), error.max(LEAST_ERROR).powi(-2)));
    }
    if points.len() < 3 {
        return Err(format!("a slope with its interval needs 3 points, there are {}", points.len()));
    }
    let weight: f64 = points.iter().map(|p| p.2).sum();
    let mean = |of: fn(&(f64, f64, f64)) -> f64| points.iter().map(|p| p.2 * of(p)).sum::<f64>() / weight;
    let (mean_x, mean_y) = (mean(|p| p.0), mean(|p| p.1));
    let spread: f64 = points.iter().map(|p| p.2 * (p.0 - mean_x).powi(2)).sum();
    let slope = points.iter().map(|p| p.2 * (p.0 - mean_x) * (p.1 - mean_y)).sum::<f64>() / spread;
    let misfit: f64 = points.iter().map(|p| p.2 * (p.1 - mean_y - slope * (p.0 - mean_x)).powi(2)).sum();
    let wider = (misfit / (points.len() - 2) as f64).max(1.0).sqrt();
    let half_width = NORMAL_975 * wider / spread.sqrt();
    Ok(Number { mean: slope, low: slope - half_width, high: slope + half_width })
}

/// 97.5 % quantile of the normal law.
const NORMAL_975: f64 = 1.96;
/// Least relative error of a point of a fit, so that exact numbers do not weigh infinitely.
const LEAST_ERROR: f64 = 1e-9;

/// All of them hold. Names the ones that give the answer, at most [`MOST_NAMED`], and counts all by their answer.
pub(crate) fn all(judgements: impl IntoIterator<Item = Judgement>) -> Judgement {
    let judgements: Vec<Judgement> = judgements.into_iter().collect();
    let answer = worst(judgements.iter().map(|judgement| judgement.answer));
    let decisive: Vec<&str> =
        judgements.iter().filter(|judgement| judgement.answer == answer).map(|j| j.because.as_str()).collect();
    let mut because = decisive.iter().take(MOST_NAMED).copied().collect::<Vec<_>>().join("; ");
    if decisive.len() > MOST_NAMED {
        because += &format!("; and {} more", decisive.len() - MOST_NAMED);
    }
    if judgements.len() > 1 {
        because += &format!(" ({})", tally(&judgements));
    }
    Judgement {
        is_measured: judgements.iter().any(|judgement| judgement.is_measured),
        ..Judgement::new(answer, because)
    }
}

/// `108 comparisons: 84 hold, 4 do not hold, 2 inconclusive, 18 not measured`.
pub(crate) fn tally(judgements: &[Judgement]) -> String {
    let count = |answer, is_measured| {
        judgements.iter().filter(|judgement| (judgement.answer, judgement.is_measured) == (answer, is_measured)).count()
    };
    let counts = [
        (count(Answer::Holds, true), "hold"),
        (count(Answer::DoesNotHold, true), "do not hold"),
        (count(Answer::Inconclusive, true), "inconclusive"),
        (count(Answer::Inconclusive, false), "not measured"),
    ];
    let number = |&(count, what): &(usize, &str)| match (count, what) {
        (1, "hold") => "1 holds".to_owned(),
        (1, "do not hold") => "1 does not hold".to_owned(),
        _ => format!("{count} {what}"),
    };
    let some: Vec<String> = counts.iter().filter(|(count, _)| *count > 0).map(number).collect();
    format!("{} comparisons: {}", judgements.len(), some.join(", "))
}

/// Most comparisons that a claim about many names; the tables have them all.
const MOST_NAMED: usize = 4;

fn side(holds: bool, fails: bool) -> Answer {
    match (holds, fails) {
        (true, _) => Answer::Holds,
        (false, true) => Answer::DoesNotHold,
        (false, false) => Answer::Inconclusive,
    }
}

fn not_measured() -> Judgement {
    Judgement { is_measured: false, ..Judgement::new(Answer::Inconclusive, "not measured") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Answer::{DoesNotHold, Holds, Inconclusive};

    fn number(low: f64, high: f64) -> Option<Number> {
        Some(Number { mean: 0.5 * (low + high), low, high })
    }

    #[test]
    fn a_limit_is_kept_broken_or_within_the_interval() {
        assert_eq!(at_most(number(1.0, 1.1), 1.2).answer, Holds);
        assert_eq!(at_most(number(1.0, 1.1), 1.05).answer, Inconclusive);
        assert_eq!(at_most(number(1.0, 1.1), 0.9).answer, DoesNotHold);
        assert_eq!(at_least(number(1.0, 1.1), 0.9).answer, Holds);
        assert_eq!(at_least(number(1.0, 1.1), 1.05).answer, Inconclusive);
        assert_eq!(at_least(number(1.0, 1.1), 1.2).answer, DoesNotHold);
        assert_eq!(at_most(None, 1.0).answer, Inconclusive);
        assert_eq!(at_least(None, 1.0).answer, Inconclusive);
    }

    #[test]
    fn a_comparison_needs_intervals_that_are_apart() {
        assert_eq!(below(number(1.0, 1.1), number(1.2, 1.3)).answer, Holds);
        assert_eq!(below(number(1.0, 1.25), number(1.2, 1.3)).answer, Inconclusive);
        assert_eq!(below(number(1.2, 1.3), number(1.0, 1.1)).answer, DoesNotHold);
        assert_eq!(below(None, number(1.0, 1.1)).answer, Inconclusive);
    }

    #[test]
    fn a_number_is_close_far_or_neither() {
        assert_eq!(close_to(number(0.98, 1.02), 1.0, 0.05).answer, Holds);
        assert_eq!(close_to(number(1.04, 1.06), 1.0, 0.05).answer, Inconclusive);
        assert_eq!(close_to(number(1.06, 1.07), 1.0, 0.05).answer, DoesNotHold);
        assert_eq!(close_to(number(0.90, 0.94), 1.0, 0.05).answer, DoesNotHold);
    }

    #[test]
    fn two_numbers_agree_differ_or_are_too_uncertain() {
        assert_eq!(agree(number(0.99, 1.01), number(0.99, 1.01), 0.05).answer, Holds);
        assert_eq!(
            agree(number(0.96, 1.04), number(0.96, 1.04), 0.05).answer,
            Inconclusive,
            "0.04 sqrt 2 is above 0.05"
        );
        assert_eq!(agree(number(1.19, 1.21), number(0.99, 1.01), 0.05).answer, DoesNotHold);
        assert_eq!(agree(number(0.0, 0.0), number(0.0, 0.0), 0.05).answer, Inconclusive);
        assert_eq!(agree(None, number(0.99, 1.01), 0.05).answer, Inconclusive);
    }

    #[test]
    fn a_series_falls_to_its_target_or_stays_away() {
        let series = |first, last| [(32.0, first), (64.0, number(0.0, 9.0)), (128.0, last)];
        let far = number(1.3, 1.4);
        assert_eq!(falls_to(&series(far, number(1.01, 1.02)), 1.0, 0.05).answer, Holds);
        assert_eq!(falls_to(&series(far, number(1.04, 1.06)), 1.0, 0.05).answer, Inconclusive);
        assert_eq!(falls_to(&series(far, number(1.2, 1.21)), 1.0, 0.05).answer, DoesNotHold);
        assert_eq!(falls_to(&series(number(1.01, 1.02), number(1.02, 1.03)), 1.0, 0.05).answer, Holds, "there already");
        assert_eq!(falls_to(&series(number(0.8, 0.9), number(1.0, 1.02)), 1.0, 0.05).answer, DoesNotHold, "it rises");
        assert_eq!(falls_to(&[], 1.0, 0.05).answer, Inconclusive);
    }

    #[test]
    fn a_slope_is_within_outside_or_not_known_well_enough() {
        let series = |exponent: f64, error: f64| {
            [32.0, 128.0, 512.0, 2048.0].map(|x: f64| {
                let y = x.powf(exponent);
                (x, number(y * (1.0 - error), y * (1.0 + error)))
            })
        };
        assert_eq!(slope_within(&series(-0.5, 0.01), -0.6, -0.4).answer, Holds);
        assert_eq!(slope_within(&series(-0.5, 0.9), -0.6, -0.4).answer, Inconclusive);
        assert_eq!(slope_within(&series(-1.0, 0.01), -0.6, -0.4).answer, DoesNotHold);
        assert_eq!(slope_within(&series(-1.0, 1.5), -0.6, -0.4).answer, Inconclusive, "an interval that reaches 0");
        assert_eq!(slope_within(&series(-0.5, 0.01)[..2], -0.6, -0.4).answer, Inconclusive, "two points fit any line");
        assert_eq!(slope_at_most(&series(-0.5, 0.01), -0.4).answer, Holds);
        assert_eq!(slope_at_most(&series(-0.5, 0.9), -0.4).answer, Inconclusive);
        assert_eq!(slope_at_most(&series(-0.5, 0.01), -0.6).answer, DoesNotHold);
        assert_eq!(slope_at_most(&series(-1.0, 1.5), -0.6).answer, Inconclusive, "an interval that reaches 0");
    }

    #[test]
    fn a_slope_agrees_with_hand_computation_and_a_bad_fit_widens_it() {
        let exact = |x: f64, y: f64| (x, Some(Number { mean: y, low: y * 0.99, high: y * 1.01 }));
        let line = log_log_slope(&[exact(1.0, 8.0), exact(2.0, 4.0), exact(4.0, 2.0)]).unwrap();
        // Standard error 0.01 / 1.96 over sqrt(2) ln 2.
        assert!(
            (line.mean + 1.0).abs() < 1e-12
                && (line.half_width() - 0.01 / (2.0_f64.sqrt() * 2.0_f64.ln())).abs() < 1e-9
        );
        let bent = log_log_slope(&[exact(1.0, 8.0), exact(2.0, 6.0), exact(4.0, 2.0)]).unwrap();
        assert!(bent.half_width() > 10.0 * line.half_width());
    }

    #[test]
    fn all_is_as_good_as_its_worst_and_names_it() {
        let holds = Judgement::new(Holds, "fine");
        let fails = Judgement::new(DoesNotHold, "broken");
        let judged = all([holds.clone(), fails, holds.clone()]);
        assert_eq!(judged, Judgement::new(DoesNotHold, "broken (3 comparisons: 2 hold, 1 does not hold)"));
        assert_eq!(all([holds.clone(), holds.clone()]).because, "fine; fine (2 comparisons: 2 hold)");
        let wide = at_most(number(0.9, 1.1), 1.0);
        let unmeasured = || at_most(None, 1.0).of("there");
        assert_eq!(
            all([holds, wide, unmeasured(), unmeasured()]).because,
            "1.00 [0.90, 1.10] against at most 1; there: not measured; there: not measured (4 comparisons: 1 holds, 1 \
             inconclusive, 2 not measured)"
        );
        assert_eq!(all([]).answer, Inconclusive);
    }
}
