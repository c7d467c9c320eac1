//! Pages of HTML that stand alone: one file, no script, nothing fetched; light and dark, on screen and on paper.
//!
//! Every figure has its table behind it, so that nothing can be seen only. Numbers are `<data value=...>` elements: what is
//! shown is rounded, the value is whole. All text goes through the template library, which escapes it.

use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("page.css");

/// The whole page.
pub(crate) fn document(title: &str, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                // Nothing of the page can load or run anything.
                meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'";
                style { (PreEscaped(STYLE)) }
            }
            body { main { (body) } }
        }
    };
    page.into_string()
}

/// What a column holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Column {
    Words,
    Numbers,
}

/// A table with a caption; the first cell of each row names it.
pub(crate) fn table(caption: &str, columns: &[(&str, Column)], rows: &[Vec<Markup>]) -> Markup {
    let class = |i: usize| columns.get(i).is_some_and(|(_, kind)| *kind == Column::Numbers).then_some("n");
    html! {
        div.scroll tabindex="0" role="region" aria-label=(caption) {
            table {
                caption { (caption) }
                thead { tr { @for (i, (name, _)) in columns.iter().enumerate() { th scope="col" class=[class(i)] { (name) } } } }
                tbody {
                    @for row in rows {
                        tr {
                            @for (i, cell) in row.iter().enumerate() {
                                @if i == 0 { th scope="row" class=[class(0)] { (cell) } } @else { td class=[class(i)] { (cell) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A figure with its caption, and the numbers behind it, folded.
pub(crate) fn figure(title: &str, caption: &str, drawing: &Markup, numbers: Option<&Markup>) -> Markup {
    html! {
        figure {
            figcaption { strong { (title) } " " (caption) }
            div.scroll tabindex="0" role="region" aria-label=(title) { (drawing) }
            @if let Some(numbers) = numbers { details { summary { "The numbers" } (numbers) } }
        }
    }
}

/// Names and what is known of them.
pub(crate) fn facts(facts: &[(&str, Markup)]) -> Markup {
    html! { dl { @for (name, fact) in facts { div { dt { (name) } dd { (fact) } } } } }
}

/// A number: shown so, and its value for machines.
pub(crate) fn number(value: f64, shown: &str) -> Markup {
    html! { data value=(value) { (shown) } }
}

/// A name that has to fit: its beginning and three dots, if it is longer than `most` characters.
pub(crate) fn fitting(name: &str, most: usize) -> String {
    if name.chars().count() <= most { name.to_owned() } else { name.chars().take(most - 1).chain(['…']).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_text_and_numbers_keep_their_digits() {
        let cell = number(0.1 + 0.2, "0.3 <s>");
        assert_eq!(cell.into_string(), "<data value=\"0.30000000000000004\">0.3 &lt;s&gt;</data>");
        let rows = [vec![html! { "<script>" }, html! { "1" }]];
        let table = table("a & b", &[("name", Column::Words), ("x", Column::Numbers)], &rows).into_string();
        assert!(
            table.contains("<caption>a &amp; b</caption>") && table.contains("<th scope=\"row\">&lt;script&gt;</th>")
        );
        assert!(table.contains("<td class=\"n\">1</td>"), "{table}");
    }

    #[test]
    fn long_names_are_cut_with_dots() {
        assert_eq!([fitting("abcd", 4), fitting("abcde", 4), fitting("äöüß!", 4)], ["abcd", "abc…", "äöü…"]);
    }
}
