//! Numbers with the interval that they are known to, and how they are written.

use serde::{Deserialize, Serialize};
use shortline_sim::Estimate;

/// A number with its 95 % confidence interval; a computed one has an interval without width.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Number {
    pub(crate) mean: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Number {
    /// A number that was computed, not measured.
    pub(crate) fn exact(value: f64) -> Self {
        Self { mean: value, low: value, high: value }
    }

    /// The same quantity in another unit, `factor > 0`.
    pub(crate) fn scaled(self, factor: f64) -> Self {
        Self { mean: self.mean * factor, low: self.low * factor, high: self.high * factor }
    }

    /// The sum, whatever the dependence between the two: the ends are added.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self { mean: self.mean + other.mean, low: self.low + other.low, high: self.high + other.high }
    }

    /// The difference of two numbers that were measured independently: the error is the root of the sum of squares.
    pub(crate) fn minus_independent(self, other: Self) -> Self {
        let mean = self.mean - other.mean;
        let half_width = self.half_width().hypot(other.half_width());
        Self { mean, low: mean - half_width, high: mean + half_width }
    }

    /// Half the width of the interval.
    pub(crate) fn half_width(self) -> f64 {
        0.5 * (self.high - self.low)
    }
}

/// Without an interval, exact.
impl From<Estimate> for Number {
    fn from(estimate: Estimate) -> Self {
        let [low, high] = if estimate.has_interval() { estimate.ci95 } else { [estimate.mean; 2] };
        Self { mean: estimate.mean, low, high }
    }
}

/// `1.0123 [1.0101, 1.0145]`, with as many digits as the interval bears: two digits of its half-width.
impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let half_width = self.half_width();
        if half_width.is_nan() || half_width <= 0.0 {
            return f.write_str(&plain(self.mean));
        }
        let digits = (1.0 - half_width.log10().floor()).clamp(0.0, 12.0) as usize;
        if digits > 6 {
            let small =
                |value: f64| if value.abs() < f64::MIN_POSITIVE { "0".to_owned() } else { format!("{value:.1e}") };
            return write!(f, "{} [{}, {}]", small(self.mean), small(self.low), small(self.high));
        }
        write!(f, "{:.digits$} [{:.digits$}, {:.digits$}]", self.mean, self.low, self.high)
    }
}

/// A number without an interval, to four significant digits, whole ones as they are.
pub(crate) fn plain(value: f64) -> String {
    let magnitude = value.abs();
    if value.fract() == 0.0 && magnitude < 1e12 {
        format!("{value}")
    } else if (1e-3..1e5).contains(&magnitude) {
        let digits = (3.0 - magnitude.log10().floor()).max(0.0) as usize;
        let text = format!("{value:.digits$}");
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
    } else {
        format!("{value:.3e}")
    }
}

#[cfg(test)]
mod tests {
    use super::{Number, plain};

    #[test]
    fn sums_are_safe_and_differences_take_independence_into_account() {
        let number = |mean: f64, half_width: f64| Number { mean, low: mean - half_width, high: mean + half_width };
        assert_eq!(number(5.0, 3.0).plus(number(1.0, 4.0)), number(6.0, 7.0));
        assert_eq!(number(5.0, 3.0).minus_independent(number(1.0, 4.0)), number(4.0, 5.0));
    }

    #[test]
    fn numbers_show_the_digits_that_their_interval_bears() {
        let number = |mean, low, high| Number { mean, low, high }.to_string();
        assert_eq!(number(1.01234, 1.0101, 1.0145), "1.0123 [1.0101, 1.0145]");
        assert_eq!(number(12.0, 9.0, 15.0), "12.0 [9.0, 15.0]");
        assert_eq!(number(2e-8, 1e-8, 3e-8), "2.0e-8 [1.0e-8, 3.0e-8]");
        assert_eq!(number(0.0, 0.0, 5.2e-6), "0 [0, 5.2e-6]");
        assert_eq!(Number::exact(0.5).to_string(), "0.5");
        assert_eq!(plain(1.0 / 3.0), "0.3333");
        assert_eq!(plain(2048.0), "2048");
        assert_eq!(plain(1.5e-7), "1.500e-7");
    }
}
