//! One table of the file, read key by key.
//!
//! A [`Section`] notes which keys it was asked for. What the file has beyond those is an unknown key, and the keys
//! asked for are the ones to suggest: there is no second list of keys that could disagree.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use super::super::document::{Node, Span, Table, Value};
use super::collect::{Faults, Read, Reported};
use super::words::{list, quoted, suggestion};

/// A value with its place.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct At<T> {
    pub(super) value: T,
    pub(super) place: Span,
}

/// What a key may hold: nothing, a value, or one that was reported as wrong.
pub(super) type Field<T> = Read<Option<At<T>>>;

/// Numbers of a file stay between one over this and this, so that their quotients and sums are finite.
const LARGEST: f64 = 1e100;

/// A range of numbers, and how it is called.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    holds: fn(f64) -> bool,
    words: &'static str,
}

pub(super) const POSITIVE: Bounds = Bounds { holds: |x| x > 0.0, words: "above 0" };
pub(super) const NOT_NEGATIVE: Bounds = Bounds { holds: |x| x >= 0.0, words: "0 or more" };
pub(super) const AT_LEAST_ONE: Bounds = Bounds { holds: |x| x >= 1.0, words: "1 or more" };
pub(super) const ABOVE_ONE: Bounds = Bounds { holds: |x| x > 1.0, words: "above 1" };
pub(super) const PROBABILITY: Bounds = Bounds { holds: |x| (0.0..=1.0).contains(&x), words: "from 0 to 1" };
pub(super) const PROPER_FRACTION: Bounds = Bounds { holds: |x| x > 0.0 && x < 1.0, words: "above 0 and below 1" };
pub(super) const FRACTION: Bounds = Bounds { holds: |x| x > 0.0 && x <= 1.0, words: "above 0 and at most 1" };
pub(super) const WHOLE: Bounds = Bounds {
    holds: |x| x >= 1.0 && x <= f64::from(u32::MAX) && x.fract().abs() <= 0.0,
    words: "a whole number from 1 up",
};

/// A table being read.
pub(super) struct Section<'r, 't> {
    pub(super) faults: &'r Faults<'t>,
    /// How the file calls it, as `[graph]`.
    pub(super) title: String,
    /// Its header.
    pub(super) place: Span,
    table: &'r Table<'t>,
    asked: Vec<&'static str>,
}

/// The tables of a list.
pub(super) struct Sections<'r, 't> {
    pub(super) list: Vec<Section<'r, 't>>,
    /// Some of the list is no table, which has been reported.
    pub(super) is_partial: bool,
}

impl<'r, 't> Section<'r, 't> {
    pub(super) fn new(faults: &'r Faults<'t>, title: &str, place: Span, table: &'r Table<'t>) -> Self {
        report_repeated_keys(faults, table);
        Self { faults, title: title.to_owned(), place, table, asked: Vec::new() }
    }

    /// What the key holds, as it stands.
    pub(super) fn node(&mut self, key: &'static str) -> Option<&'r Node<'t>> {
        self.asked.push(key);
        self.table.entries.iter().find(|(known, _)| known.name == key).map(|(_, node)| node)
    }

    /// Where a key stands, without counting it as read.
    pub(super) fn place_of(&self, key: &str) -> Option<&'r Span> {
        self.table.entries.iter().find(|(known, _)| known.name == key).map(|(known, _)| &known.span)
    }

    /// All keys with the places of their values.
    pub(super) fn places(&self) -> Vec<(String, Span)> {
        self.table.entries.iter().map(|(key, node)| (key.name.clone().into_owned(), node.span.clone())).collect()
    }

    fn field<T>(&mut self, key: &'static str, read: impl FnOnce(&Faults<'t>, &'r Node<'t>) -> Read<T>) -> Field<T> {
        let faults = self.faults;
        self.node(key).map(|node| Ok(At { value: read(faults, node)?, place: node.span.clone() })).transpose()
    }

    /// Text, not empty.
    pub(super) fn string(&mut self, key: &'static str) -> Field<&'r str> {
        self.field(key, |faults, node| string(faults, key, node))
    }

    pub(super) fn boolean(&mut self, key: &'static str) -> Field<bool> {
        self.field(key, |faults, node| match node.value {
            Value::Boolean(value) => Ok(value),
            _ => Err(wrong_type(faults, key, node, "true or false")),
        })
    }

    /// A number; whole ones count as numbers, too.
    pub(super) fn number(&mut self, key: &'static str, bounds: Bounds) -> Field<f64> {
        self.field(key, |faults, node| number(faults, key, node, bounds))
    }

    pub(super) fn integer(&mut self, key: &'static str, range: RangeInclusive<u64>) -> Field<u64> {
        self.field(key, |faults, node| integer(faults, key, node, range))
    }

    /// A count that fits in 32 bits.
    pub(super) fn integer32(&mut self, key: &'static str, least: u32) -> Field<u32> {
        self.field(key, |faults, node| integer32(faults, key, node, least..=u32::MAX))
    }

    /// One of a few words.
    pub(super) fn word<T: Copy>(&mut self, key: &'static str, words: &[(&str, T)]) -> Field<T> {
        self.field(key, |faults, node| word(faults, key, node, words))
    }

    pub(super) fn array(&mut self, key: &'static str) -> Field<&'r [Node<'t>]> {
        self.field(key, |faults, node| array(faults, key, node))
    }

    /// A section within this one.
    pub(super) fn section(&mut self, key: &'static str) -> Option<Section<'r, 't>> {
        let title = format!("[{key}]");
        let node = self.node(key)?;
        match &node.value {
            Value::Table(table) => Some(Section::new(self.faults, &title, node.span.clone(), table)),
            Value::Array(_) => {
                let message = format!("there is one `{key}`, not a list of them");
                self.faults.at(&node.span, message).help(format!("write {title}")).report();
                None
            }
            _ => {
                wrong_type(self.faults, key, node, "a table");
                None
            }
        }
    }

    /// The sections of a list of them.
    pub(super) fn sections(&mut self, key: &'static str) -> Sections<'r, 't> {
        let title = format!("[[{key}]]");
        let Some(node) = self.node(key) else { return Sections { list: Vec::new(), is_partial: false } };
        let Value::Array(items) = &node.value else {
            let message = format!("`{key}` is {}, must be a list of tables", node.value.kind());
            self.faults.at(&node.span, message).help(format!("write {title}")).report();
            return Sections { list: Vec::new(), is_partial: true };
        };
        let section = |item: &'r Node<'t>| match &item.value {
            Value::Table(table) => Some(Section::new(self.faults, &title, item.span.clone(), table)),
            _ => {
                wrong_type(self.faults, key, item, "a list of tables");
                None
            }
        };
        let list: Vec<_> = items.iter().filter_map(section).collect();
        Sections { is_partial: list.len() < items.len(), list }
    }

    /// The sections of a list that must not be empty.
    pub(super) fn some_sections(&mut self, key: &'static str, what: &str, remedy: &str) -> Sections<'r, 't> {
        let sections = self.sections(key);
        if sections.list.is_empty() && !sections.is_partial {
            self.faults.missing(&self.place, format!("there is no {what}"), format!("add a [[{key}]] with {remedy}"));
        }
        sections
    }

    /// The value of a key that has to be there.
    pub(super) fn required<T>(&self, key: &str, field: Field<T>) -> Read<At<T>> {
        field?.ok_or_else(|| self.missing(key))
    }

    /// Says that a key is not there.
    pub(super) fn missing(&self, key: &str) -> Reported {
        let remedy = format!("add `{key} = ...` below {}", self.title);
        self.faults.missing(&self.place, format!("{} has no `{key}`", self.title), remedy)
    }

    /// As [`missing`](Self::missing), where either of two keys would do.
    pub(super) fn missing_either(&self, one: &str, other: &str) -> Reported {
        let remedy = format!("add `{one} = ...` or `{other} = ...` below {}", self.title);
        self.faults.missing(&self.place, format!("{} has neither `{one}` nor `{other}`", self.title), remedy)
    }

    /// Of several keys, those that stand in the file.
    fn present(&self, keys: &[&'static str]) -> Vec<(&'static str, &'r Span)> {
        keys.iter().filter_map(|&key| Some((key, self.place_of(key)?))).collect()
    }

    /// Says so if more than one of these keys is given.
    pub(super) fn at_most_one_of(&self, keys: &[&'static str]) -> Read<()> {
        match self.present(keys)[..] {
            [(first, first_place), (second, second_place), ..] => Err(self
                .faults
                .at(second_place, format!("{} has both `{first}` and `{second}`", self.title))
                .help("give one of them")
                .also(first_place, "and here")
                .report()),
            _ => Ok(()),
        }
    }

    /// Reports every key that nobody asked for.
    pub(super) fn finish(self) {
        for (key, _) in &self.table.entries {
            if !self.asked.iter().any(|&asked| asked == key.name) && !self.faults.is_full() {
                let message = format!("unknown key {} in {}", quoted(&key.name), self.title);
                self.faults.at(&key.span, message).help(suggestion(&key.name, self.asked.iter().copied())).report();
            }
        }
    }
}

/// TOML's parser refuses repeated keys itself; JSON's does not.
fn report_repeated_keys(faults: &Faults<'_>, table: &Table<'_>) {
    let mut places: HashMap<&str, &Span> = HashMap::with_capacity(table.entries.len());
    for (key, _) in &table.entries {
        if let Some(first) = places.insert(&key.name, &key.span) {
            let message = format!("the key {} is given twice", quoted(&key.name));
            faults.at(&key.span, message).help("keep one of them").also(first, "and here").report();
        }
    }
}

pub(super) fn wrong_type(faults: &Faults<'_>, what: &str, node: &Node<'_>, wanted: &str) -> Reported {
    faults.at(&node.span, format!("`{what}` is {}, must be {wanted}", node.value.kind())).report()
}

pub(super) fn string<'r>(faults: &Faults<'_>, what: &str, node: &'r Node<'_>) -> Read<&'r str> {
    match &node.value {
        Value::String(text) if text.is_empty() => Err(faults.at(&node.span, format!("`{what}` is empty")).report()),
        Value::String(text) => Ok(text),
        _ => Err(wrong_type(faults, what, node, "a string")),
    }
}

pub(super) fn array<'r, 't>(faults: &Faults<'_>, what: &str, node: &'r Node<'t>) -> Read<&'r [Node<'t>]> {
    match &node.value {
        Value::Array(items) => Ok(items),
        _ => Err(wrong_type(faults, what, node, "a list")),
    }
}

pub(super) fn number(faults: &Faults<'_>, what: &str, node: &Node<'_>, bounds: Bounds) -> Read<f64> {
    let value = match node.value {
        Value::Integer(value) => value as f64,
        Value::Float(value) => value,
        _ => return Err(wrong_type(faults, what, node, "a number")),
    };
    in_bounds(faults, what, &node.span, value, bounds)
}

pub(super) fn in_bounds(faults: &Faults<'_>, what: &str, place: &Span, value: f64, bounds: Bounds) -> Read<f64> {
    let has_usual_size = value.abs() <= LARGEST && (value.abs() >= 1.0 / LARGEST || value.abs() <= 0.0);
    if has_usual_size && (bounds.holds)(value) {
        return Ok(value);
    }
    let size = if has_usual_size { "" } else { "a number between 1e-100 and 1e100, and " };
    Err(faults.at(place, format!("`{what}` is {}, must be {size}{}", shown(value), bounds.words)).report())
}

/// Numbers as people write them: `3`, `0.25`, `1e300`.
pub(super) fn shown(value: f64) -> String {
    let is_plain = !value.is_finite() || (1e-5..1e16).contains(&value.abs()) || value.abs() <= 0.0;
    if is_plain { value.to_string() } else { format!("{value:e}") }
}

pub(super) fn integer(faults: &Faults<'_>, what: &str, node: &Node<'_>, range: RangeInclusive<u64>) -> Read<u64> {
    let upper = if *range.end() >= u64::from(u32::MAX) { "up".to_owned() } else { format!("to {}", range.end()) };
    let wanted = format!("a whole number from {} {upper}", range.start());
    let Value::Integer(value) = node.value else { return Err(wrong_type(faults, what, node, &wanted)) };
    match u64::try_from(value) {
        Ok(fitting) if range.contains(&fitting) => Ok(fitting),
        _ if value > i128::from(*range.end()) => Err(faults
            .at(&node.span, format!("`{what}` is {value}, which is too large"))
            .help(format!("at most {} is possible", range.end()))
            .report()),
        _ => Err(faults.at(&node.span, format!("`{what}` is {value}, must be {wanted}")).report()),
    }
}

pub(super) fn integer32(faults: &Faults<'_>, what: &str, node: &Node<'_>, range: RangeInclusive<u32>) -> Read<u32> {
    let value = integer(faults, what, node, u64::from(*range.start())..=u64::from(*range.end()))?;
    Ok(u32::try_from(value).expect("the range ends within 32 bits"))
}

pub(super) fn word<T: Copy>(faults: &Faults<'_>, what: &str, node: &Node<'_>, words: &[(&str, T)]) -> Read<T> {
    let names = words.iter().map(|&(name, _)| name);
    let Value::String(written) = &node.value else {
        return Err(wrong_type(faults, what, node, &format!("one of {}", list(names))));
    };
    words.iter().find(|&&(name, _)| name == written).map(|&(_, value)| value).ok_or_else(|| {
        let message = format!("`{what}` cannot be {}", quoted(written));
        faults.at(&node.span, message).help(suggestion(written, names)).report()
    })
}

/// The value without its place, or a default.
pub(super) fn value_or<T>(field: Field<T>, default: T) -> Read<T> {
    field.map(|value| value.map_or(default, |at| at.value))
}
