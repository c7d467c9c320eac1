//! Traces: recorded requests as CSV, `arrival_s,job_type[,service_s]`.
//!
//! The first line names the columns (any order, further columns are ignored; [`Columns`] maps other names).
//! `arrival_s` is in seconds, not negative and never falling; `service_s` is a *size*: seconds on a server of
//! rate 1. Quotes as in RFC 4180, `\n` or `\r\n`, a byte-order mark is passed over.
//!
//! Nothing is skipped: a line that is not a request is a [`Fault`] with its line number and its remedy, and a trace
//! with a fault is refused as a whole. A field may not contain a line break. Memory: 24 bytes a kept request plus
//! each job type's name once; of a slice `A..B` only the slice is kept and nothing after `B` is read.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, BufRead};
use std::ops::Range;
use std::path::Path;

/// Faults listed one by one; further ones are only counted.
const FAULTS_SHOWN: usize = 20;

/// Which columns hold what.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Columns {
    /// Arrival time in seconds; `arrival_s`.
    pub arrival: String,
    /// Job type; `job_type`.
    pub job_type: String,
    /// Size in seconds on a server of rate 1. `None`: `service_s` if the trace has such a column.
    pub service: Option<String>,
}

impl Default for Columns {
    fn default() -> Self {
        Self { arrival: "arrival_s".into(), job_type: "job_type".into(), service: None }
    }
}

/// One recorded request.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Arrival {
    /// When it arrived, in seconds, as written.
    pub at_s: f64,
    /// Its size; NaN when the trace has no sizes.
    size: f64,
    job_type: u32,
}

impl Arrival {
    /// Its size in seconds on a server of rate 1, if the trace has sizes.
    #[must_use]
    pub fn size(&self) -> Option<f64> {
        (!self.size.is_nan()).then_some(self.size)
    }

    /// Its job type, as an index into [`Trace::job_types`].
    #[must_use]
    pub fn job_type(&self) -> usize {
        self.job_type as usize
    }
}

/// A checked trace: at least one request, times never falling.
#[derive(Clone, PartialEq, Debug)]
pub struct Trace {
    job_types: Vec<String>,
    arrivals: Vec<Arrival>,
    has_sizes: bool,
}

/// A line that is not a request, or a header that does not name the columns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The line, counted from 1.
    pub line: u64,
    /// What is wrong and what would be right.
    pub what: String,
}

/// Why a trace cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file could not be read.
    #[error("cannot read the trace `{name}`: {source}")]
    Read {
        /// The trace.
        name: String,
        /// What the system says.
        source: io::Error,
    },
    /// Lines that are no requests.
    #[error("{}", listed(name, faults, *further))]
    Faults {
        /// The trace.
        name: String,
        /// The first faults.
        faults: Vec<Fault>,
        /// How many more there are.
        further: u64,
    },
    /// The slice asked for is not there.
    #[error("the trace `{name}` has {count} requests; requests {}..{} were asked for (counted from 0)", requests.start, requests.end)]
    TooShort {
        /// The trace.
        name: String,
        /// How many requests it has.
        count: u64,
        /// The slice.
        requests: Range<u64>,
    },
    /// The slice asked for is empty.
    #[error("requests {}..{} are none; give A..B with A below B", .0.start, .0.end)]
    EmptySlice(Range<u64>),
}

fn listed(name: &str, faults: &[Fault], further: u64) -> String {
    let mut text = format!("the trace `{name}` is not usable:");
    for fault in faults {
        text.push_str(&format!("\n  {fault}"));
    }
    if further > 0 {
        text.push_str(&format!("\n  and {further} more"));
    }
    text
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

impl Trace {
    /// Reads a trace file, whole or the requests `A..B` (counted from 0, `B` exclusive).
    ///
    /// # Errors
    /// [`TraceError`]; faulty lines are listed together, up to the first 20.
    pub fn read(path: &Path, columns: &Columns, requests: Option<Range<u64>>) -> Result<Self, TraceError> {
        let name = path.display().to_string();
        let file = std::fs::File::open(path).map_err(|source| TraceError::Read { name: name.clone(), source })?;
        Self::parse(io::BufReader::with_capacity(1 << 16, file), &name, columns, requests)
    }

    /// Reads a trace; `name` is what errors call it.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn parse(
        input: impl BufRead,
        name: &str,
        columns: &Columns,
        requests: Option<Range<u64>>,
    ) -> Result<Self, TraceError> {
        if let Some(empty) = requests.as_ref().filter(|r| r.is_empty()) {
            return Err(TraceError::EmptySlice(empty.clone()));
        }
        let read_error = |source| TraceError::Read { name: name.to_owned(), source };
        let faults_error = |faults: Faults| TraceError::Faults {
            name: name.to_owned(),
            faults: faults.first,
            further: faults.further,
        };
        let mut lines = Lines::new(input);
        let mut faults = Faults::default();

        let layout = match lines.next().map_err(read_error)? {
            None => Err("the file is empty; the first line must name the columns".to_owned()),
            Some(Err(what)) => Err(what),
            Some(Ok(())) => Layout::new(&lines.fields(), columns),
        };
        let layout = match layout {
            Ok(layout) => layout,
            Err(what) => {
                faults.push(1, what);
                return Err(faults_error(faults));
            }
        };

        let slice = requests.clone().unwrap_or(0..u64::MAX);
        let mut rows = Rows::new(layout.service.is_some());
        let mut count = 0;
        while count < slice.end {
            let Some(line) = lines.next().map_err(read_error)? else { break };
            if let Some(blank) = lines.blank.take() {
                faults.push(blank, "a blank line between requests".to_owned());
            }
            let kept = line.and_then(|()| rows.push(&lines.fields(), &layout, slice.contains(&count)));
            if let Err(what) = kept {
                faults.push(lines.number, what);
            }
            count += 1;
        }
        if faults.first.is_empty() && count == 0 {
            faults.push(1, "the trace has a header but no requests".to_owned());
        }
        if !faults.first.is_empty() {
            return Err(faults_error(faults));
        }
        match requests {
            Some(requests) if count < requests.end => {
                Err(TraceError::TooShort { name: name.to_owned(), count, requests })
            }
            _ => Ok(rows.trace),
        }
    }

    /// Names of the job types that occur, in order of first appearance.
    #[must_use]
    pub fn job_types(&self) -> &[String] {
        &self.job_types
    }

    /// The requests, in order of arrival, with no copy of them left here.
    #[must_use]
    pub fn into_arrivals(self) -> Vec<Arrival> {
        self.arrivals
    }

    /// The requests, in order of arrival.
    #[must_use]
    pub fn arrivals(&self) -> &[Arrival] {
        &self.arrivals
    }

    /// Whether every request has a size.
    #[must_use]
    pub fn has_sizes(&self) -> bool {
        self.has_sizes
    }
}

#[derive(Default)]
struct Faults {
    first: Vec<Fault>,
    further: u64,
}

impl Faults {
    fn push(&mut self, line: u64, what: String) {
        if self.first.len() < FAULTS_SHOWN {
            self.first.push(Fault { line, what });
        } else {
            self.further += 1;
        }
    }
}

/// Where the columns are.
struct Layout {
    arrival: usize,
    job_type: usize,
    service: Option<usize>,
    width: usize,
}

impl Layout {
    fn new(header: &[&[u8]], columns: &Columns) -> Result<Self, String> {
        let names: Vec<_> = header.iter().map(|field| String::from_utf8_lossy(field).trim().to_owned()).collect();
        let find = |wanted: &str| {
            let mut found = names.iter().enumerate().filter(|(_, name)| *name == wanted).map(|(i, _)| i);
            match (found.next(), found.next()) {
                (Some(i), None) => Ok(i),
                (Some(_), Some(_)) => Err(format!("the column `{wanted}` occurs twice")),
                (None, _) => {
                    Err(format!("no column `{wanted}`; the header names {} (columns can be mapped)", quoted(&names)))
                }
            }
        };
        let service = match &columns.service {
            Some(wanted) => Some(find(wanted)?),
            None if names.iter().any(|name| name == "service_s") => Some(find("service_s")?),
            None => None,
        };
        Ok(Self { arrival: find(&columns.arrival)?, job_type: find(&columns.job_type)?, service, width: names.len() })
    }
}

fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// The requests kept so far.
struct Rows {
    trace: Trace,
    numbers: HashMap<String, u32>,
    last_s: f64,
}

impl Rows {
    fn new(has_sizes: bool) -> Self {
        let trace = Trace { job_types: Vec::new(), arrivals: Vec::new(), has_sizes };
        Self { trace, numbers: HashMap::new(), last_s: 0.0 }
    }

    /// Checks the line and keeps its request if it belongs to the slice.
    fn push(&mut self, fields: &[&[u8]], layout: &Layout, keep: bool) -> Result<(), String> {
        if fields.len() != layout.width {
            return Err(format!("{} fields where the header has {}", fields.len(), layout.width));
        }
        let at_s = number(fields[layout.arrival], "the arrival time")?;
        if at_s < self.last_s {
            let last_s = self.last_s;
            return Err(format!("arrival {at_s} after {last_s}; sort the trace by arrival time"));
        }
        let size = match layout.service {
            Some(i) => number(fields[i], "the service time")?,
            None => f64::NAN,
        };
        let name = std::str::from_utf8(fields[layout.job_type]).map_err(|_| "the job type is not UTF-8".to_owned())?;
        if name.is_empty() {
            return Err("the job type is empty".to_owned());
        }
        self.last_s = at_s;
        if keep {
            let job_type = self.number_of(name)?;
            self.trace.arrivals.push(Arrival { at_s, size, job_type });
        }
        Ok(())
    }

    fn number_of(&mut self, name: &str) -> Result<u32, String> {
        if let Some(&number) = self.numbers.get(name) {
            return Ok(number);
        }
        let number = u32::try_from(self.numbers.len()).map_err(|_| "more than 2^32 job types".to_owned())?;
        self.numbers.insert(name.to_owned(), number);
        self.trace.job_types.push(name.to_owned());
        Ok(number)
    }
}

fn number(field: &[u8], what: &str) -> Result<f64, String> {
    let text = std::str::from_utf8(field).unwrap_or("\u{fffd}").trim();
    if text.is_empty() {
        return Err(format!("{what} is empty"));
    }
    let value: f64 = text.parse().map_err(|_| format!("{what} is `{text}`, not a number"))?;
    if value.is_finite() && value >= 0.0 {
        // -0.0 passes the test above; adding 0.0 makes it 0.0.
        Ok(value + 0.0)
    } else {
        Err(format!("{what} is {text}, must be finite and not negative"))
    }
}

/// Lines of a CSV file as fields, with exact line numbers.
struct Lines<R> {
    input: R,
    /// Number of the current line, from 1.
    number: u64,
    line: Vec<u8>,
    /// A blank line that turned out not to be at the end of the file.
    blank: Option<u64>,
    /// The fields of the current line, one after the other, and where each ends.
    text: Vec<u8>,
    ends: Vec<usize>,
}

impl<R: BufRead> Lines<R> {
    fn new(input: R) -> Self {
        Self { input, number: 0, line: Vec::new(), blank: None, text: Vec::new(), ends: Vec::new() }
    }

    /// Goes to the next line that is not blank; `None` at the end of the file.
    fn next(&mut self) -> io::Result<Option<Result<(), String>>> {
        let mut blank = None;
        loop {
            self.line.clear();
            if self.input.read_until(b'\n', &mut self.line)? == 0 {
                return Ok(None);
            }
            self.number += 1;
            if !self.line.trim_ascii().is_empty() {
                self.blank = blank;
                return Ok(Some(self.split()));
            }
            blank.get_or_insert(self.number);
        }
    }

    fn fields(&self) -> Vec<&[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.text[start..end]).collect()
    }

    /// RFC 4180, one line: `"` around a field, `""` for a quote in it.
    fn split(&mut self) -> Result<(), String> {
        self.text.clear();
        self.ends.clear();
        let mut rest = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
        rest = rest.strip_suffix(b"\r").unwrap_or(rest);
        if self.number == 1 {
            rest = rest.strip_prefix("\u{feff}".as_bytes()).unwrap_or(rest);
        }
        loop {
            match rest.strip_prefix(b"\"") {
                Some(mut quoted) => loop {
                    let Some(quote) = quoted.iter().position(|&byte| byte == b'"') else {
                        return Err("a quoted field is not closed on its line".to_owned());
                    };
                    self.text.extend_from_slice(&quoted[..quote]);
                    rest = &quoted[quote + 1..];
                    match rest.strip_prefix(b"\"") {
                        Some(after) => {
                            self.text.push(b'"');
                            quoted = after;
                        }
                        None => break,
                    }
                },
                None => {
                    let end = rest.iter().position(|&byte| byte == b',').unwrap_or(rest.len());
                    self.text.extend_from_slice(&rest[..end]);
                    rest = &rest[end..];
                }
            }
            self.ends.push(self.text.len());
            match rest.split_first() {
                None => return Ok(()),
                Some((b',', after)) => rest = after,
                Some(_) => return Err("text after the closing quote of a field".to_owned()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Trace, TraceError> {
        Trace::parse(text.as_bytes(), "t.csv", &Columns::default(), None)
    }

    fn faults(text: &str) -> Vec<(u64, String)> {
        match parse(text) {
            Err(TraceError::Faults { faults, .. }) => faults.into_iter().map(|f| (f.line, f.what)).collect(),
            other => panic!("{text:?} should be faulty, is {other:?}"),
        }
    }

    #[test]
    fn a_plain_trace_is_read_in_order() {
        let trace = parse("arrival_s,job_type,service_s\n0,a,2\n0.5,b,1.5\n0.5,a,0\n").unwrap();
        assert_eq!(trace.job_types(), ["a", "b"]);
        let rows: Vec<_> = trace.arrivals().iter().map(|r| (r.at_s, r.job_type(), r.size())).collect();
        assert_eq!(rows, [(0.0, 0, Some(2.0)), (0.5, 1, Some(1.5)), (0.5, 0, Some(0.0))]);
    }

    #[test]
    fn windows_line_ends_quotes_mark_and_missing_last_line_end_are_read() {
        let trace = parse("\u{feff}\"job_type\",arrival_s,note\r\n\"a, \"\"b\"\"\",1e-3,x\r\nc,2,").unwrap();
        assert_eq!(trace.job_types(), ["a, \"b\"", "c"]);
        assert!(!trace.has_sizes());
        assert_eq!(trace.arrivals()[0].size(), None);
    }

    #[test]
    fn columns_are_mapped_by_name() {
        let columns = Columns { arrival: "t".into(), job_type: "model".into(), service: Some("exec".into()) };
        let text = "model,exec,t\nm,3,7\n";
        let trace = Trace::parse(text.as_bytes(), "t.csv", &columns, None).unwrap();
        assert_eq!((trace.arrivals()[0].at_s, trace.arrivals()[0].size()), (7.0, Some(3.0)));
        let absent = Columns { service: Some("exec_s".into()), ..columns };
        let error = Trace::parse(text.as_bytes(), "t.csv", &absent, None).unwrap_err().to_string();
        assert!(error.contains("no column `exec_s`; the header names `model`, `exec`, `t`"), "{error}");
    }

    #[test]
    fn every_faulty_line_is_named_with_its_number() {
        let text =
            "arrival_s,job_type,service_s\n0,a,1\nx,a,1\n-1,a,1\nNaN,a,1\n,a,1\n5,,1\n5,a,\n5,a,inf\n5,a\n4,a,1\n";
        let found = faults(text);
        let lines: Vec<u64> = found.iter().map(|f| f.0).collect();
        assert_eq!(lines, [3, 4, 5, 6, 7, 8, 9, 10], "{found:?}");
        assert!(found[0].1.contains("`x`, not a number"));
        assert!(found[7].1.contains("2 fields where the header has 3"));
    }

    #[test]
    fn a_time_that_falls_is_a_fault() {
        let found = faults("arrival_s,job_type\n5,a\n4,a\n6,a\n");
        assert_eq!(found, [(3, "arrival 4 after 5; sort the trace by arrival time".to_owned())]);
    }

    #[test]
    fn quotes_that_do_not_close_and_blank_lines_in_between_are_faults() {
        let found = faults("arrival_s,job_type\n1,\"a\n2,\"a\"b\n\n  \n3,a\n\n\n");
        assert_eq!(
            found,
            [
                (2, "a quoted field is not closed on its line".to_owned()),
                (3, "text after the closing quote of a field".to_owned()),
                (4, "a blank line between requests".to_owned()),
            ]
        );
    }

    #[test]
    fn a_file_without_header_or_requests_is_refused() {
        assert!(faults("")[0].1.contains("the file is empty"));
        assert!(faults("0,a,1\n1,a,1\n")[0].1.contains("no column `arrival_s`"));
        assert!(faults("arrival_s,job_type\n\n")[0].1.contains("no requests"));
        assert!(faults("arrival_s,job_type,job_type\n1,a,b\n")[0].1.contains("occurs twice"));
    }

    #[test]
    fn only_the_first_faults_are_listed_and_the_rest_counted() {
        let text = format!("arrival_s,job_type\n{}", "x,a\n".repeat(30));
        let error = parse(&text).unwrap_err().to_string();
        assert!(error.contains("line 21:") && !error.contains("line 22:") && error.ends_with("and 10 more"), "{error}");
    }

    #[test]
    fn a_slice_keeps_only_its_requests_and_reads_no_further() {
        let text = "arrival_s,job_type\n0,a\n1,b\n2,c\n3,d\nbroken\n";
        let slice = |requests| Trace::parse(text.as_bytes(), "t.csv", &Columns::default(), Some(requests));
        let trace = slice(1..3).unwrap();
        assert_eq!(trace.job_types(), ["b", "c"]);
        assert_eq!(trace.arrivals().len(), 2);
        assert!(matches!(slice(1..5).unwrap_err(), TraceError::Faults { .. }), "line 6 lies in the slice");
        let short = Trace::parse(&text.as_bytes()[..27], "t.csv", &Columns::default(), Some(1..3)).unwrap_err();
        assert!(matches!(short, TraceError::TooShort { count: 2, .. }), "{short}");
        assert!(matches!(slice(2..2).unwrap_err(), TraceError::EmptySlice(_)));
    }
}
