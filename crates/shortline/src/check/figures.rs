//! Numbers and lists of names in words.

/// Four significant digits, without trailing zeros: `1.108`, `115.2`, `0.9`, `6.1e-8`.
pub(super) fn short(x: f64) -> String {
    if x == 0.0 || !x.is_finite() {
        return x.to_string();
    }
    let exponent = x.abs().log10().floor();
    if !(-4.0..6.0).contains(&exponent) {
        let text = format!("{x:.3e}");
        let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
        return format!("{}e{power}", trimmed(digits));
    }
    trimmed(&format!("{x:.*}", (3.0 - exponent).max(0.0) as usize)).to_owned()
}

fn trimmed(digits: &str) -> &str {
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits }
}

/// The number, or a dash.
pub(super) fn or_dash(x: Option<f64>, unit: &str) -> String {
    x.map_or("-".to_owned(), |x| format!("{}{unit}", short(x)))
}

/// `1 server`, `3 servers`.
pub(super) fn counted(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// `a`, `a and b`, `a, b and 3 more`.
pub(super) fn listed(names: &[String], top: usize) -> String {
    let shown = names.len().min(top.max(1));
    match (shown, names.len() - shown) {
        (0, _) => "none".to_owned(),
        (1, 0) => names[0].clone(),
        (_, 0) => format!("{} and {}", names[..shown - 1].join(", "), names[shown - 1]),
        (_, more) => format!("{} and {more} more", names[..shown].join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_four_digits_and_no_trailing_zeros() {
        let shown = [0.0, 0.9, 1.0 / 0.6, 115.2, 4096.0, 123_456.7, 1e6, 6.13e-8, -2.5].map(short);
        assert_eq!(shown, ["0", "0.9", "1.667", "115.2", "4096", "123457", "1e6", "6.13e-8", "-2.5"]);
    }

    #[test]
    fn lists_say_how_much_they_leave_out() {
        let names = ["a", "b", "c"].map(str::to_owned);
        assert_eq!(
            [3, 2, 1, 0].map(|top| listed(&names, top)),
            ["a, b and c", "a, b and 1 more", "a and 2 more", "a and 2 more"]
        );
        assert_eq!(listed(&[], 3), "none");
    }
}
