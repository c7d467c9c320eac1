//! What a point found: named numbers, each with the interval it is known to.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub(crate) use crate::number::{Number, plain};

/// The result of a point: its numbers by name, and what is to be known about them.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Found {
    pub(crate) numbers: BTreeMap<String, Number>,
    /// Said below the tables: why numbers are missing, or wider than asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) note: Option<String>,
}

impl Found {
    /// Adds a number; one that could not be measured stays out, and every judge then says so.
    pub(crate) fn set(&mut self, name: &str, number: Option<Number>) {
        if let Some(number) = number.filter(|number| number.mean.is_finite()) {
            self.numbers.insert(name.to_owned(), number);
        }
    }
}

/// The results of all points of an experiment, by key.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Data(pub(crate) BTreeMap<String, Found>);

impl Data {
    /// The number `name` of the point `key`, if it could be measured.
    pub(crate) fn number(&self, key: &str, name: &str) -> Option<Number> {
        self.0.get(key)?.numbers.get(name).copied()
    }

    /// The notes of the points, with their keys.
    pub(crate) fn notes(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().filter_map(|(key, found)| Some((key.as_str(), found.note.as_deref()?)))
    }
}
