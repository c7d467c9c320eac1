//! JSON to nodes: strict JSON, without comments or trailing commas. The first syntax fault ends the parse.

use jsonc_parser::ast::{self, ObjectPropName};
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

use super::{Document, Key, Node, Span, SyntaxFault, Table, Value, opening};

const STRICT: ParseOptions = ParseOptions {
    allow_comments: false,
    allow_loose_object_property_names: false,
    allow_trailing_commas: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

pub(super) fn parse(text: &str) -> Document<'_> {
    let broken =
        |span, message| Document { span: 0..0, root: Table::default(), faults: vec![SyntaxFault { span, message }] };
    match parse_to_ast(text, &CollectOptions::default(), &STRICT).map(|parsed| parsed.value) {
        Ok(Some(ast::Value::Object(root))) => {
            let span = opening(text, span(&root));
            Document { span, root: table(text, root), faults: Vec::new() }
        }
        Ok(Some(other)) => broken(span(&other), "a fleet is an object, { ... }".to_owned()),
        Ok(None) => broken(0..0, "the file is empty".to_owned()),
        Err(error) => broken(error.range().start..error.range().end, lower_first(&error.kind().to_string())),
    }
}

fn node<'t>(text: &'t str, value: ast::Value<'t>) -> Node<'t> {
    let span = span(&value);
    match value {
        ast::Value::StringLit(string) => Node { span, value: Value::String(string.value) },
        ast::Value::NumberLit(number_lit) => Node { span, value: number(number_lit.value) },
        ast::Value::BooleanLit(boolean) => Node { span, value: Value::Boolean(boolean.value) },
        ast::Value::NullKeyword(_) => Node { span, value: Value::Other("null") },
        ast::Value::Array(array) => {
            Node { span, value: Value::Array(array.elements.into_iter().map(|item| node(text, item)).collect()) }
        }
        ast::Value::Object(object) => Node { span: opening(text, span), value: Value::Table(table(text, object)) },
    }
}

fn table<'t>(text: &'t str, object: ast::Object<'t>) -> Table<'t> {
    let entries = object.properties.into_iter().map(|property| {
        let span = span(&property.name);
        let name = match property.name {
            ObjectPropName::String(name) => name.value,
            ObjectPropName::Word(name) => name.value.into(),
        };
        (Key { span, name }, node(text, property.value))
    });
    Table { entries: entries.collect() }
}

fn number(written: &str) -> Value<'_> {
    written.parse().map_or_else(|_| Value::Float(written.parse().unwrap_or(f64::NAN)), Value::Integer)
}

fn span(node: &impl Ranged) -> Span {
    node.range().start..node.range().end
}

/// Messages begin in lower case here.
fn lower_first(message: &str) -> String {
    let mut chars = message.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}
