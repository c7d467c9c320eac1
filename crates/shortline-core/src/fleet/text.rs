//! A named text that finds its lines fast and shows a place of it.
//!
//! miette's own sources search from the start for every label and print whole lines. Fleet files may be a million
//! lines, or one line of megabytes (JSON as machines write it): lines are indexed here, and of a long line only the
//! surroundings of the place are shown.

use std::ops::Range;

use miette::{MietteError, MietteSpanContents, SourceCode, SourceSpan, SpanContents};

/// Lines longer than this, in bytes, are shown in part.
const LONG_LINE: usize = 400;
/// This much of a long line is shown on both sides of the place.
const SURROUNDINGS: usize = 60;
/// Longest place that is marked; more would hide the message.
const LONGEST_MARK: usize = 120;
/// Most lines that one excerpt holds: places further apart are shown one by one.
const TALLEST_EXCERPT: usize = 12;

/// A file's name, its text and where its lines start.
#[derive(Debug)]
pub(super) struct Text {
    name: String,
    text: String,
    line_starts: Vec<usize>,
}

impl Text {
    pub(super) fn new(name: &str, text: &str) -> Self {
        let starts = text.bytes().enumerate().filter(|&(_, byte)| byte == b'\n').map(|(at, _)| at + 1);
        Self { name: name.to_owned(), line_starts: std::iter::once(0).chain(starts).collect(), text: text.to_owned() }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Line and column (in characters) of a byte, both from 0.
    pub(super) fn position(&self, at: usize) -> (usize, usize) {
        let line = self.line_of(at);
        (line, self.text[self.line_starts[line]..at].chars().count())
    }

    /// The part of `span` that can be marked: within the text and its first line, on whole characters, not too long.
    pub(super) fn markable(&self, span: Range<usize>) -> Range<usize> {
        let start = self.text.floor_char_boundary(span.start);
        let line = self.line(self.line_of(start));
        let end = span.end.min(line.end).min(start + LONGEST_MARK).max(start);
        start..self.text.floor_char_boundary(end).max(start)
    }

    fn line_of(&self, at: usize) -> usize {
        self.line_starts.partition_point(|&start| start <= at) - 1
    }

    /// Bytes of a line without its end.
    fn line(&self, line: usize) -> Range<usize> {
        let start = self.line_starts[line];
        let end = self.line_starts.get(line + 1).map_or(self.text.len(), |&next| next - 1);
        start..end - usize::from(self.text[start..end].ends_with('\r'))
    }

    fn is_long(&self, line: usize) -> bool {
        self.line(line).len() > LONG_LINE
    }

    /// The bytes to show for `span` with context lines around.
    fn excerpt(&self, span: &Range<usize>, before: usize, after: usize) -> Option<Range<usize>> {
        let (first, last) = (self.line_of(span.start), self.line_of(span.end));
        if last - first > TALLEST_EXCERPT {
            return None;
        }
        if (first..=last).any(|line| self.is_long(line)) {
            let line = self.line(first);
            let start = self.text.floor_char_boundary(span.start.saturating_sub(SURROUNDINGS)).max(line.start);
            let end = self.text.ceil_char_boundary(span.end + SURROUNDINGS).min(line.end);
            return (last == first && end - start <= LONG_LINE).then_some(start..end.max(span.end));
        }
        let above = (first.saturating_sub(before)..first).rev().take_while(|&line| !self.is_long(line)).last();
        let below = (last + 1..self.line_starts.len().min(last + 1 + after)).take_while(|&line| !self.is_long(line));
        Some(self.line(above.unwrap_or(first)).start..self.line(below.last().unwrap_or(last)).end.max(span.end))
    }
}

impl SourceCode for Text {
    fn read_span<'a>(
        &'a self,
        span: &SourceSpan,
        context_lines_before: usize,
        context_lines_after: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        let span = span.offset()..span.offset() + span.len();
        if span.end > self.text.len() {
            return Err(MietteError::OutOfBounds);
        }
        let shown = if context_lines_before == 0 && context_lines_after == 0 {
            span
        } else {
            self.excerpt(&span, context_lines_before, context_lines_after).ok_or(MietteError::OutOfBounds)?
        };
        let (line, column) = self.position(shown.start);
        let lines = self.line_of(shown.end) - line + 1;
        let bytes = &self.text.as_bytes()[shown.clone()];
        let span = (shown.start, shown.len()).into();
        Ok(Box::new(MietteSpanContents::new_named(self.name.clone(), bytes, span, line, column, lines)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &Text, span: Range<usize>) -> Option<String> {
        let contents = text.read_span(&(span.start, span.len()).into(), 1, 1).ok()?;
        Some(String::from_utf8(contents.data().to_vec()).unwrap())
    }

    #[test]
    fn a_place_is_shown_with_the_lines_around_it() {
        let text = Text::new("f", "one\ntwo\r\nthree\nfour\n");
        assert_eq!(shown(&text, 4..7).unwrap(), "one\ntwo\r\nthree");
        assert_eq!(shown(&text, 0..3).unwrap(), "one\ntwo");
        assert_eq!(text.position(text.text.len()), (4, 0));
    }

    #[test]
    fn of_a_long_line_only_the_surroundings_are_shown() {
        let long = "é".repeat(5000);
        let text = Text::new("f", &format!("a\n{long}\nb"));
        let part = shown(&text, 3000..3010).unwrap();
        assert!(part.len() < 200 && part.chars().all(|c| c == 'é'), "{part}");
        assert_eq!(shown(&text, 0..1).unwrap(), "a", "a long neighbour is left out");
        assert_eq!(shown(&text, 10..5010), None, "places far apart are not joined");
    }

    #[test]
    fn marks_stay_within_the_first_line_and_on_whole_characters() {
        let text = Text::new("f", "ab\ncd é");
        assert_eq!(text.markable(1..5), 1..2);
        assert_eq!(text.markable(7..7), 6..6);
        assert_eq!(text.markable(900..1000), 8..8);
        assert_eq!(Text::new("f", &"x".repeat(500)).markable(10..400), 10..10 + LONGEST_MARK);
    }
}
