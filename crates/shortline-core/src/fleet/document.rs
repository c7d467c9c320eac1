//! The text of a fleet file as one tree that remembers where everything stands.
//!
//! TOML and JSON become the same [`Node`]s, so that one walker reads both. A node is a value with its span (bytes of
//! the text); a table is a list of entries in the file's order, with duplicates still in it. Strings borrow from the
//! text where they can: a file of a million names is not copied.

mod json;
mod toml;

use std::borrow::Cow;
use std::ops::Range;

/// Bytes of the text.
pub(super) type Span = Range<usize>;

/// A value and where it stands.
#[derive(Debug)]
pub(super) struct Node<'t> {
    pub(super) span: Span,
    pub(super) value: Value<'t>,
}

/// What a value is. An integer too large for `i128` is a float.
#[derive(Debug)]
pub(super) enum Value<'t> {
    String(Cow<'t, str>),
    Integer(i128),
    Float(f64),
    Boolean(bool),
    /// TOML dates and JSON `null`: legal there, never meant here.
    Other(&'static str),
    Array(Vec<Node<'t>>),
    Table(Table<'t>),
}

/// `key = value` pairs in the file's order.
#[derive(Debug, Default)]
pub(super) struct Table<'t> {
    pub(super) entries: Vec<(Key<'t>, Node<'t>)>,
}

/// A key and where it stands.
#[derive(Debug)]
pub(super) struct Key<'t> {
    pub(super) span: Span,
    pub(super) name: Cow<'t, str>,
}

/// A place where the text breaks the rules of its format.
#[derive(Debug)]
pub(super) struct SyntaxFault {
    pub(super) span: Span,
    pub(super) message: String,
}

/// A parsed text: as much of the tree as could be made out, and what is wrong with the text.
#[derive(Debug)]
pub(super) struct Document<'t> {
    pub(super) span: Span,
    pub(super) root: Table<'t>,
    pub(super) faults: Vec<SyntaxFault>,
}

/// Parses `text` as JSON if it is called `*.json` or begins with `{`, else as TOML.
pub(super) fn parse<'t>(name: &str, text: &'t str) -> Document<'t> {
    let called_json = name.len() >= 5 && name.as_bytes()[name.len() - 5..].eq_ignore_ascii_case(b".json");
    if called_json || text.trim_start().starts_with('{') { json::parse(text) } else { toml::parse(text) }
}

impl Value<'_> {
    /// What a reader of a message would call it.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::String(_) => "a string",
            Self::Integer(_) => "a whole number",
            Self::Float(_) => "a number",
            Self::Boolean(_) => "a boolean",
            Self::Other(kind) => kind,
            Self::Array(_) => "a list",
            Self::Table(_) => "a table",
        }
    }
}

/// The span of a table as it is shown: its header or its first brace, not its whole body.
fn opening(text: &str, span: Span) -> Span {
    if text.as_bytes().get(span.start) == Some(&b'{') { span.start..span.start + 1 } else { span }
}
