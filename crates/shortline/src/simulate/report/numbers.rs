//! How the page writes numbers.

use maud::{Markup, html};
use shortline_sim::Estimate;

use crate::page;
use crate::simulate::tables::shown;

pub(super) use crate::number::plain;

/// `2.249 ±0.013 s`, with the ends of the interval for machines; a dash where nothing was measured.
pub(super) fn estimate(estimate: Option<Estimate>, factor: f64, unit: &str) -> Markup {
    match estimate {
        None => html! { "–" },
        Some(e) if !e.has_interval() => html! { data value=(e.mean) { (shown(&e, factor, unit)) } },
        Some(e) => {
            html! { data value=(e.mean) data-low=(e.ci95[0]) data-high=(e.ci95[1]) { (shown(&e, factor, unit)) } }
        }
    }
}

pub(super) fn seconds(e: Option<Estimate>) -> Markup {
    estimate(e, 1.0, " s")
}

pub(super) fn percent(e: Option<Estimate>) -> Markup {
    estimate(e, 100.0, " %")
}

/// A number without an interval, with its unit.
pub(super) fn value(value: Option<f64>, factor: f64, unit: &str) -> Markup {
    value.map_or(html! { "–" }, |value| page::number(value, &format!("{}{unit}", plain(factor * value))))
}

/// `1 server`, `2,048 servers`.
pub(super) fn counted(n: u64, what: &str) -> String {
    format!("{} {what}{}", grouped(n), if n == 1 { "" } else { "s" })
}

/// `1,234,567`.
pub(super) fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_numbers_are_grouped() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([1, 2000].map(|n| counted(n, "edge")), ["1 edge", "2,000 edges"]);
    }
}
