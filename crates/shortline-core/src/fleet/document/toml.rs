//! TOML to nodes. After a syntax fault the parser goes on, so that all of them are found in one run.

use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

use super::{Document, Key, Node, SyntaxFault, Table, Value, opening};

pub(super) fn parse(text: &str) -> Document<'_> {
    let (root, errors) = DeTable::parse_recoverable(text);
    let faults = errors
        .into_iter()
        .map(|e| SyntaxFault { span: e.span().unwrap_or(0..0), message: e.message().to_owned() })
        .collect();
    Document { span: 0..0, root: table(text, root.into_inner()), faults }
}

fn node<'t>(text: &'t str, value: Spanned<DeValue<'t>>) -> Node<'t> {
    let span = value.span();
    match value.into_inner() {
        DeValue::String(string) => Node { span, value: Value::String(string) },
        DeValue::Integer(integer) => Node { span, value: number(&integer) },
        DeValue::Float(float) => Node { span, value: Value::Float(float.as_str().parse().unwrap_or(f64::NAN)) },
        DeValue::Boolean(boolean) => Node { span, value: Value::Boolean(boolean) },
        DeValue::Datetime(_) => Node { span, value: Value::Other("a date or time") },
        DeValue::Array(array) => {
            Node { span, value: Value::Array(array.into_iter().map(|item| node(text, item)).collect()) }
        }
        DeValue::Table(inner) => Node { span: opening(text, span), value: Value::Table(table(text, inner)) },
    }
}

fn table<'t>(text: &'t str, table: DeTable<'t>) -> Table<'t> {
    let entries = table.into_iter().map(|(key, value)| {
        let key = Key { span: key.span(), name: key.into_inner() };
        (key, node(text, value))
    });
    Table { entries: entries.collect() }
}

/// Beyond `i128` a decimal number is a float; one of another radix saturates, which no field accepts either.
fn number<'t>(integer: &DeInteger<'_>) -> Value<'t> {
    match i128::from_str_radix(integer.as_str(), integer.radix()) {
        Ok(value) => Value::Integer(value),
        Err(_) if integer.radix() == 10 => Value::Float(integer.as_str().parse().unwrap_or(f64::NAN)),
        Err(_) => Value::Integer(i128::MAX),
    }
}
