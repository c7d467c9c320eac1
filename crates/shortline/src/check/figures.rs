//! Numbers and lists of names in words.

pub(super) use crate::digits::{counted, short};

/// The number, or a dash.
pub(super) fn or_dash(x: Option<f64>, unit: &str) -> String {
    x.map_or("-".to_owned(), |x| format!("{}{unit}", short(x)))
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
    fn lists_say_how_much_they_leave_out() {
        let names = ["a", "b", "c"].map(str::to_owned);
        assert_eq!(
            [3, 2, 1, 0].map(|top| listed(&names, top)),
            ["a, b and c", "a, b and 1 more", "a and 2 more", "a and 2 more"]
        );
        assert_eq!(listed(&[], 3), "none");
    }
}
