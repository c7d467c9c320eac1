//! Numbers as people read them, the same in every command.
//!
//! [`short`] for what was computed, [`exact`] for what the user gave, [`measured`] for what was measured. A number far
//! from 1 (below 1e-4 or from 1e6 on) is written with a power of ten by the first and the last, one below 1e-5 or from
//! 1e16 on by the second: never a row of zeros.

/// Four significant digits, without trailing zeros: `1.108`, `115.2`, `0.9`, `6.1e-8`.
pub(crate) fn short(x: f64) -> String {
    significant(x, 4)
}

/// `1 server`, `3 servers`.
pub(crate) fn counted(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// So many significant digits, without trailing zeros.
fn significant(x: f64, digits: usize) -> String {
    if x == 0.0 || !x.is_finite() {
        return x.to_string();
    }
    if is_far(x) {
        let text = format!("{x:.*e}", digits - 1);
        let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
        return format!("{}e{power}", trimmed(digits));
    }
    trimmed(&format!("{x:.*}", (digits as f64 - 1.0 - x.abs().log10().floor()).max(0.0) as usize)).to_owned()
}

/// All digits that tell the number from its neighbours: `0.9`, `-1`, `1e300`.
pub(crate) fn exact(x: f64) -> String {
    if x == 0.0 || (1e-5..1e16).contains(&x.abs()) { x.to_string() } else { format!("{x:e}") }
}

/// A number and half the width of its interval, with two digits of the latter unless it is rounding only: `2.249 ±0.013`,
/// `(4.000 ±0.020)e-5`.
fn with_error(mean: f64, half_width: f64) -> String {
    let largest = mean.abs().max(half_width);
    if largest > 0.0 && largest.is_finite() && is_far(largest) {
        let power = largest.log10().floor();
        let scaled = |x: f64| x / 10.0_f64.powf(power);
        return format!("({})e{power}", with_error(scaled(mean), scaled(half_width)));
    }
    let digits = if half_width > 1e-12 * mean.abs() { digits_of(half_width) } else { 3 };
    format!("{mean:.digits$} ±{half_width:.digits$}")
}

/// What was measured of a quantity that is never negative, with its interval: [`with_error`], or both ends where half the
/// width exceeds the number (`0.016 (0.0021 to 0.074)`), or the limit where it was never seen (`none seen (below 0.012)`);
/// [`short`] where there is no interval.
pub(crate) fn measured(mean: f64, [low, high]: [f64; 2], unit: &str) -> String {
    let half_width = 0.5 * (high - low);
    let two = |x| significant(x, 2);
    match mean {
        _ if half_width.is_nan() => short(mean) + unit,
        _ if half_width <= 0.0 && mean.abs() <= 0.0 => format!("0{unit}"),
        0.0 => format!("none seen (below {}{unit})", two(high)),
        _ if half_width > mean => format!("{} ({} to {}){unit}", two(mean), two(low), two(high)),
        _ => with_error(mean, half_width) + unit,
    }
}

/// Decimals that show two digits of `x`.
fn digits_of(x: f64) -> usize {
    (1.0 - x.log10().floor()).clamp(0.0, 9.0) as usize
}

fn is_far(x: f64) -> bool {
    !(1e-4..1e6).contains(&x.abs())
}

fn trimmed(digits: &str) -> &str {
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits }
}

/// The number to 13 digits: what sums of rates leave behind them is noise, and a load of 0.3 is to read 0.3.
pub(crate) fn without_noise(value: f64) -> f64 {
    format!("{value:.12e}").parse().expect("what was printed as a number reads as one")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_four_digits_and_no_trailing_zeros() {
        let shown = [0.0, 0.9, 1.0 / 0.6, 115.2, 4096.0, 123_456.7, 1e6, 6.13e-8, -2.5].map(short);
        assert_eq!(shown, ["0", "0.9", "1.667", "115.2", "4096", "123457", "1e6", "6.13e-8", "-2.5"]);
        assert_eq!([1e300, -1e-300, f64::INFINITY].map(short), ["1e300", "-1e-300", "inf"]);
    }

    #[test]
    fn what_was_given_is_repeated_in_full_but_not_in_zeros() {
        let shown = [0.0, 0.9, -1.0, 64.0, 1e5, 1e-5, 123_456_789.25, 1e300, 2.5e-300].map(exact);
        assert_eq!(shown, ["0", "0.9", "-1", "64", "100000", "0.00001", "123456789.25", "1e300", "2.5e-300"]);
    }

    #[test]
    fn the_error_says_how_many_digits_are_worth_showing() {
        assert_eq!(with_error(2.2491, 0.0132), "2.249 ±0.013");
        assert_eq!(with_error(78.0, 12.3), "78 ±12");
        assert_eq!(with_error(1.0, 0.0), "1.000 ±0.000");
        assert_eq!(with_error(4e-5, 2e-7), "(4.000 ±0.020)e-5");
        assert_eq!(with_error(1.5e300, 2e298), "(1.500 ±0.020)e300");
        assert_eq!(with_error(0.0, 1e-300), "(0.0 ±1.0)e-300");
        assert_eq!(with_error(2e-320, 0.0), "(2.000 ±0.000)e-320");
    }

    #[test]
    fn no_interval_reaches_below_zero_and_never_seen_is_not_never() {
        assert_eq!(measured(2.2491, [2.236, 2.2622], " s"), "2.249 ±0.013 s");
        assert_eq!(measured(0.0, [0.0, 0.0], " %"), "0 %");
        assert_eq!(measured(0.0, [0.0, 0.00369], " %"), "none seen (below 0.0037 %)");
        assert_eq!(measured(2.2491, [f64::NAN; 2], " s"), "2.249 s");
        assert_eq!(measured(0.016, [0.0, 0.0741], " %"), "0.016 (0 to 0.074) %");
        assert_eq!(measured(1.6e-7, [1e-8, 7.41e-7], ""), "1.6e-7 (1e-8 to 7.4e-7)");
    }

    #[test]
    fn the_noise_of_sums_goes_and_nothing_else() {
        let shown = [0.900_000_000_000_003_8, 0.1 + 0.2, 1e-300, f64::INFINITY, 0.0, 1.0 / 3.0].map(without_noise);
        assert_eq!(shown.map(|x| x.to_string()), ["0.9", "0.3", &1e-300.to_string(), "inf", "0", "0.3333333333333"]);
    }
}
