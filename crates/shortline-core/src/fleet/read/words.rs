//! Putting names into messages: shortened, with suggestions, as lists that stay readable.

/// Names longer than this are shortened in messages, and not compared with others.
const LONGEST_NAME: usize = 60;
/// Most names that a list in a message spells out.
const LONGEST_LIST: usize = 12;

/// A name as it is shown: in backquotes, without control characters, shortened.
pub(super) fn quoted(name: &str) -> String {
    let mut shown: String = name.chars().take(LONGEST_NAME).flat_map(char::escape_debug).collect();
    if name.chars().nth(LONGEST_NAME).is_some() {
        shown.push('…');
    }
    format!("`{}`", shown.replace("\\\"", "\"").replace("\\'", "'"))
}

/// The known name that `written` is probably a slip of: at most a third of its letters differ (letters or pairs
/// swapped: optimal string alignment, upper and lower case alike).
pub(super) fn meant<'k>(written: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    if written.is_empty() || written.len() > LONGEST_NAME {
        return None;
    }
    let lower = written.to_lowercase();
    let distance = |known: &str| strsim::osa_distance(&lower, &known.to_lowercase());
    let near = known.into_iter().filter(|known| known.len() <= 2 * LONGEST_NAME);
    let (name, distance) = near.map(|known| (known, distance(known))).min_by_key(|&(_, distance)| distance)?;
    let letters = lower.chars().count();
    (distance < letters && distance <= (letters / 3).max(1)).then_some(name)
}

/// `did you mean ...?`, or else `allowed are ...`.
pub(super) fn suggestion<'k>(written: &str, known: impl IntoIterator<Item = &'k str> + Clone) -> String {
    match meant(written, known.clone()) {
        Some(known) => format!("did you mean {}?", quoted(known)),
        None => format!("allowed are {}", list(known)),
    }
}

/// `a, b and c`; long lists are cut.
pub(super) fn list<'k>(names: impl IntoIterator<Item = &'k str>) -> String {
    let mut names = names.into_iter();
    let mut shown: Vec<String> = names.by_ref().take(LONGEST_LIST).map(quoted).collect();
    let rest = names.count();
    let last = if rest > 0 { Some(format!("{rest} more")) } else { shown.pop() };
    match (shown.join(", "), last) {
        (_, None) => "none".to_owned(),
        (front, Some(last)) if front.is_empty() => last,
        (front, Some(last)) => format!("{front} and {last}"),
    }
}

/// `1 server`, `2 servers`.
pub(super) fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognised_and_other_words_are_not() {
        let known = ["rate", "rank", "slots"];
        assert_eq!(meant("rat", known), Some("rate"));
        assert_eq!(meant("SLOTS", known), Some("slots"));
        assert_eq!(meant("solts", known), Some("slots"));
        assert_eq!(meant("colour", known), None);
        assert_eq!(meant("", known), None);
        assert_eq!(meant("b", ["a"]), None);
    }

    #[test]
    fn lists_read_as_sentences() {
        assert_eq!(list([]), "none");
        assert_eq!(list(["a"]), "`a`");
        assert_eq!(list(["a", "b", "c"]), "`a`, `b` and `c`");
        assert!(list(["a"; 20]).ends_with("and 8 more"));
    }

    #[test]
    fn long_and_odd_names_are_tamed() {
        assert_eq!(quoted("a\nb"), "`a\\nb`");
        assert_eq!(quoted(&"x".repeat(100)), format!("`{}…`", "x".repeat(60)));
        assert_eq!(quoted("jsq(\"log\")"), "`jsq(\"log\")`");
    }
}
