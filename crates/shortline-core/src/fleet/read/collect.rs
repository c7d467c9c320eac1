//! Collecting faults while the reader goes on.
//!
//! All parts of the reader share one [`Faults`] per file. What could not be read is an `Err(`[`Reported`]`)`: only
//! reporting a fault makes one, so nothing is dropped in silence, and nothing is said twice about it.

use std::cell::RefCell;
use std::sync::Arc;

use miette::Severity;

use super::super::document::Span;
use super::super::fault::{Fault, MOST_SHOWN};
use super::super::text::Text;

/// Proof that a fault has been reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Reported(());

/// A value, or the proof that the reason for its absence has been reported.
pub(super) type Read<T> = Result<T, Reported>;

/// The faults of one file.
#[derive(Debug)]
pub(super) struct Faults<'t> {
    name: &'t str,
    text: &'t str,
    /// The text has syntax faults: what seems to be missing may be what could not be parsed.
    pub(super) is_partial: bool,
    found: RefCell<Found>,
}

#[derive(Debug, Default)]
struct Found {
    notes: Vec<Note>,
    errors: usize,
    warnings: usize,
}

/// A fault before its place is looked up.
#[derive(Debug)]
struct Note {
    severity: Severity,
    message: String,
    help: Option<String>,
    labels: Vec<(Span, Option<String>)>,
}

/// A fault being put into words; ends with [`report`](Self::report).
#[must_use = "a fault is reported by `report`"]
pub(super) struct Draft<'f, 't> {
    faults: &'f Faults<'t>,
    note: Note,
}

/// The faults of all files that were read.
#[derive(Debug, Default)]
pub(super) struct Collected {
    pub(super) faults: Vec<Fault>,
    pub(super) errors: usize,
    pub(super) omitted: usize,
}

impl<'t> Faults<'t> {
    pub(super) fn new(name: &'t str, text: &'t str, is_partial: bool) -> Self {
        Self { name, text, is_partial, found: RefCell::default() }
    }

    /// A fault at a place.
    pub(super) fn at(&self, place: &Span, message: impl Into<String>) -> Draft<'_, 't> {
        self.draft(Severity::Error, place, message.into())
    }

    /// A warning at a place.
    pub(super) fn warn(&self, place: &Span, message: impl Into<String>) -> Draft<'_, 't> {
        self.draft(Severity::Warning, place, message.into())
    }

    fn draft(&self, severity: Severity, place: &Span, message: String) -> Draft<'_, 't> {
        let note = Note { severity, message, help: None, labels: vec![(place.clone(), None)] };
        Draft { faults: self, note }
    }

    /// Something that is not in the file. Not reported when the text could be parsed in part only: it may be there.
    pub(super) fn missing(&self, place: &Span, message: impl Into<String>, remedy: impl Into<String>) -> Reported {
        if self.is_partial { Reported(()) } else { self.at(place, message).help(remedy).report() }
    }

    /// A reference to something that could not be read, which has been reported at its own place.
    pub(super) fn follows_from_others(&self) -> Reported {
        debug_assert!(self.is_partial || self.any_errors(), "nothing that others could follow from");
        Reported(())
    }

    /// Whether further faults are only counted, so that putting them into words is wasted.
    pub(super) fn is_full(&self) -> bool {
        self.found.borrow().errors >= MOST_SHOWN
    }

    pub(super) fn any_errors(&self) -> bool {
        self.found.borrow().errors > 0
    }

    /// Puts what was found before what is in `collected`, with lines and columns.
    pub(super) fn finish(self, collected: &mut Collected) {
        let found = self.found.into_inner();
        if found.notes.is_empty() {
            return;
        }
        collected.errors += found.errors;
        collected.omitted += found.errors.saturating_sub(MOST_SHOWN);
        let text = Arc::new(Text::new(self.name, self.text));
        let mut faults: Vec<Fault> = found.notes.into_iter().map(|note| note.placed(&text)).collect();
        faults.sort_by_key(|fault| fault.labels[0].0.start);
        faults.append(&mut collected.faults);
        collected.faults = faults;
    }
}

impl Note {
    fn placed(self, text: &Arc<Text>) -> Fault {
        let Self { severity, message, help, labels } = self;
        let labels: Vec<_> = labels.into_iter().map(|(span, label)| (text.markable(span), label)).collect();
        let (line, column) = text.position(labels[0].0.start);
        Fault { severity, message, help, labels, source: Arc::clone(text), line: line + 1, column: column + 1 }
    }
}

impl Draft<'_, '_> {
    /// What is allowed, or meant.
    pub(super) fn help(mut self, help: impl Into<String>) -> Self {
        self.note.help = Some(help.into());
        self
    }

    /// Words at the marked place.
    pub(super) fn label(mut self, label: impl Into<String>) -> Self {
        self.note.labels[0].1 = Some(label.into());
        self
    }

    /// Another place that matters.
    pub(super) fn also(mut self, place: &Span, label: impl Into<String>) -> Self {
        self.note.labels.push((place.clone(), Some(label.into())));
        self
    }

    /// Adds the fault to the others.
    pub(super) fn report(self) -> Reported {
        let mut found = self.faults.found.borrow_mut();
        let count = if self.note.severity == Severity::Error { &mut found.errors } else { &mut found.warnings };
        *count += 1;
        if *count <= MOST_SHOWN {
            found.notes.push(self.note);
        }
        Reported(())
    }
}
