//! Faults of a fleet file: where, what, and what would be right.
//!
//! A run of the reader collects every fault it finds. A [`Fault`] prints alone (`file:line:column: message`, by
//! [`Fault::plain`]) and is a [`miette::Diagnostic`] that shows the line; [`FleetFaults`] is all of them, in the
//! order of their places, at most [`MOST_SHOWN`] of each kind with the rest counted.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use miette::{Diagnostic, LabeledSpan, Severity, SourceCode};

use super::text::Text;

/// Most faults, and most warnings, that are kept of one run; further ones are counted.
pub const MOST_SHOWN: usize = 100;

/// The remedy of the warning that job types have no rate: a command that takes the rates from elsewhere has nothing to warn of.
pub const RATES_ARE_MEASURED: &str = "serve measures it, a trace brings it; check and simulate need it";

/// One thing that is wrong with a fleet file, or (a warning) that is probably not meant.
#[derive(Clone, Debug)]
pub struct Fault {
    pub(super) severity: Severity,
    pub(super) message: String,
    pub(super) help: Option<String>,
    /// The place of the fault first, then other places that matter.
    pub(super) labels: Vec<(Range<usize>, Option<String>)>,
    pub(super) source: Arc<Text>,
    pub(super) line: usize,
    pub(super) column: usize,
}

impl Fault {
    /// What is wrong, without the place.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What would be right.
    #[must_use]
    pub fn remedy(&self) -> Option<&str> {
        self.help.as_deref()
    }

    /// Whether the file is usable in spite of it.
    #[must_use]
    pub fn is_warning(&self) -> bool {
        self.severity == Severity::Warning
    }

    /// Name of the file it is in: the fleet file's, or the edge file's.
    #[must_use]
    pub fn file(&self) -> &str {
        self.source.name()
    }

    /// Line of the place, from 1.
    #[must_use]
    pub fn line(&self) -> usize {
        self.line
    }

    /// Column of the place in characters, from 1.
    #[must_use]
    pub fn column(&self) -> usize {
        self.column
    }

    /// The bytes of the file it is about.
    #[must_use]
    pub fn span(&self) -> Range<usize> {
        self.labels[0].0.clone()
    }

    /// `file:line:column: message; remedy`, on one line.
    #[must_use]
    pub fn plain(&self) -> impl fmt::Display + '_ {
        fmt::from_fn(|f| {
            let Self { message, line, column, .. } = self;
            let kind = if self.is_warning() { "warning: " } else { "" };
            write!(f, "{}:{line}:{column}: {kind}{message}", self.file())?;
            self.help.as_ref().map_or(Ok(()), |help| write!(f, "; {help}"))
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Fault {}

impl Diagnostic for Fault {
    fn severity(&self) -> Option<Severity> {
        Some(self.severity)
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.help.as_ref().map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        Some(&*self.source)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let (place, others) = self.labels.split_first()?;
        let primary = LabeledSpan::new_primary_with_span(place.1.clone(), place.0.clone());
        let others = others.iter().map(|(span, text)| LabeledSpan::new_with_span(text.clone(), span.clone()));
        Some(Box::new(std::iter::once(primary).chain(others)))
    }
}

/// All faults of a fleet file that cannot be used, in the order of their places; an edge file's come last.
#[derive(Clone, Debug)]
pub struct FleetFaults {
    pub(super) file: String,
    pub(super) faults: Vec<Fault>,
    pub(super) omitted: usize,
}

impl FleetFaults {
    /// The faults that are kept.
    #[must_use]
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// How many faults were found beyond the ones that are kept.
    #[must_use]
    pub fn omitted(&self) -> usize {
        self.omitted
    }

    /// How many faults were found.
    #[must_use]
    pub fn count(&self) -> usize {
        self.faults.len() + self.omitted
    }

    /// The faults one a line, as [`Fault::plain`] prints them.
    #[must_use]
    pub fn plain(&self) -> impl fmt::Display + '_ {
        fmt::from_fn(|f| {
            self.faults.iter().try_for_each(|fault| writeln!(f, "{}", fault.plain()))?;
            if self.omitted > 0 { writeln!(f, "{}: {} more faults", self.file, self.omitted) } else { Ok(()) }
        })
    }
}

impl fmt::Display for FleetFaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.count();
        let plural = if count == 1 { "" } else { "s" };
        write!(f, "{} is not a usable fleet file: {count} fault{plural}", self.file)?;
        if self.omitted > 0 {
            write!(f, ", {} of them not shown", self.omitted)?;
        }
        Ok(())
    }
}

impl std::error::Error for FleetFaults {}

impl Diagnostic for FleetFaults {
    fn related<'a>(&'a self) -> Option<Box<dyn Iterator<Item = &'a dyn Diagnostic> + 'a>> {
        Some(Box::new(self.faults.iter().map(|fault| fault as &dyn Diagnostic)))
    }
}
