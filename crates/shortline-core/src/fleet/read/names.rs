//! Names of server types, servers and job types: given once, looked up by the other sections.

use super::super::document::{Node, Span};
use super::super::names::{NameIndex, Names};
use super::collect::{Faults, Read};
use super::section::{At, Section};
use super::words::{counted, list, meant, quoted};

/// Most servers, and most job types, of one fleet. Beyond it memory would run out first; it is 25 bytes a server.
const MOST: usize = 100_000_000;
/// Most entries that an unknown name is compared with.
const MOST_COMPARED: usize = 10_000;

/// The names of one kind of thing and the places where they are given.
#[derive(Debug)]
pub(super) struct NameTable {
    what: &'static str,
    pub(super) index: NameIndex,
    pub(super) places: Vec<Span>,
    /// Some names could not be read, so that a name which is not here need not be wrong.
    pub(super) is_partial: bool,
}

/// `name` of an entry.
pub(super) fn single(section: &mut Section<'_, '_>) -> Read<At<Names>> {
    let name = section.string("name");
    let At { value, place } = section.required("name", name)?;
    printable(section.faults, value, &place)?;
    Ok(At { value: Names { base: value.to_owned(), count: None }, place })
}

/// `name` and `count` of an entry.
pub(super) fn numbered(section: &mut Section<'_, '_>) -> Read<At<Names>> {
    let count = section.integer("count", 1..=MOST as u64);
    let mut names = single(section)?;
    names.value.count = count?.map(|count| u32::try_from(count.value).expect("MOST fits in 32 bits"));
    Ok(names)
}

/// Names stand in headers, metrics and tables.
fn printable(faults: &Faults<'_>, name: &str, place: &Span) -> Read<()> {
    if name != "*" && !name.chars().any(char::is_control) && name.trim() == name {
        return Ok(());
    }
    let rule = "a name has no control characters, no blanks at its ends, and is not `*`";
    Err(faults.at(place, format!("{} cannot be a name", quoted(name))).help(rule).report())
}

impl NameTable {
    /// Takes the names of all entries; repeated ones and too many are faults. `is_partial`: some have no readable
    /// name, which has been reported.
    pub(super) fn new(faults: &Faults<'_>, what: &'static str, names: Vec<At<Names>>, is_partial: bool) -> Self {
        let is_partial = is_partial || faults.is_partial;
        let (names, places): (Vec<Names>, Vec<Span>) = names.into_iter().map(|at| (at.value, at.place)).unzip();
        let table = Self { what, index: NameIndex::new(names), places, is_partial };
        for duplicate in table.index.duplicates() {
            let message = format!("there are two {what}s called {}", quoted(&duplicate.name));
            let draft = faults.at(&table.places[duplicate.second], message).help("names are given once");
            draft.also(&table.places[duplicate.first], "the first").report();
        }
        if let (true, Some(last)) = (table.index.len() > MOST, table.places.last()) {
            let message = format!("the file describes {}", counted(table.index.len(), what));
            faults.at(last, message).help(format!("at most {MOST} are possible")).report();
        }
        table
    }

    /// Number of the thing called `name`; a fault if there is none.
    pub(super) fn find(&self, faults: &Faults<'_>, name: &str, place: &Span) -> Read<usize> {
        match self.index.find(name) {
            Some(number) => Ok(number),
            None if self.is_partial => Err(faults.follows_from_others()),
            None => {
                let draft = faults.at(place, format!("there is no {} {}", self.what, quoted(name)));
                Err(if faults.is_full() { draft } else { draft.help(self.remedy(name)) }.report())
            }
        }
    }

    /// As [`find`](Self::find), for a node that has to be a string.
    pub(super) fn find_node(&self, faults: &Faults<'_>, what: &str, node: &Node<'_>) -> Read<usize> {
        self.find(faults, super::section::string(faults, what, node)?, &node.span)
    }

    /// What a wrong name is probably meant to be.
    fn remedy(&self, name: &str) -> String {
        let runs = || (0..self.places.len().min(MOST_COMPARED)).map(|entry| self.index.names(entry));
        let (base, number) = match name.rsplit_once('-').map(|(base, number)| (base, number.parse::<usize>())) {
            Some((base, Ok(number))) => (base, number),
            _ => (name, 0),
        };
        if let Some(run) = runs().find(|run| run.count.is_some() && run.base == base) {
            return format!("the names of {} are {}", quoted(base), spelled(run));
        }
        let nearest: Vec<String> = runs().map(|run| run.get(number.min(run.len().saturating_sub(1)))).collect();
        let spelled: Vec<String> = runs().map(spelled).collect();
        match meant(name, nearest.iter().map(String::as_str)) {
            Some(known) => format!("did you mean {}?", quoted(known)),
            None if spelled.is_empty() => format!("the file has no {}", self.what),
            None => format!("the {}s are {}", self.what, list(spelled.iter().map(String::as_str))),
        }
    }
}

/// `gpu`, or `gpu-0 ... gpu-3`.
fn spelled(run: &Names) -> String {
    match run.len() {
        1 => run.get(0),
        count => format!("{} ... {}", run.get(0), run.get(count - 1)),
    }
}
