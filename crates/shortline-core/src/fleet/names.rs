//! Names of servers and job types: written one by one, or numbered by `count`.
//!
//! A fleet of a million counted servers stores one name; names are made when asked for and found by their first part.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;

/// A run of equally named things: `name` alone, or `name-0 ... name-(count - 1)`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Names {
    /// The name, or its first part.
    pub base: String,
    /// The number of things, `None` for one without a number.
    pub count: Option<u32>,
}

impl Names {
    /// How many things the run names.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count.map_or(1, |count| count as usize)
    }

    /// Whether it names nothing (`count = 0`).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The name of thing `i`.
    #[must_use]
    pub fn get(&self, i: usize) -> String {
        if self.count.is_some() { format!("{}-{i}", self.base) } else { self.base.clone() }
    }

    /// The number of `name` in this run, if it is one of its names.
    #[must_use]
    pub fn position(&self, name: &str) -> Option<usize> {
        let Some(count) = self.count else { return (name == self.base).then_some(0) };
        let digits = name.strip_prefix(self.base.as_str())?.strip_prefix('-')?;
        let canonical = digits == "0" || (!digits.starts_with('0') && digits.bytes().all(|b| b.is_ascii_digit()));
        digits.parse::<u32>().ok().filter(|&i| canonical && i < count).map(|i| i as usize)
    }
}

/// A name that two entries give.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Duplicate {
    /// The name.
    pub name: String,
    /// The entry that gives it first.
    pub first: usize,
    /// The entry that gives it again.
    pub second: usize,
}

/// Finds a name in a list of [`Names`]: exact names by hash, numbered ones by their first part.
#[derive(Clone, Debug, Default)]
pub struct NameIndex {
    groups: HashMap<String, Vec<u32>>,
    starts: Vec<usize>,
    names: Vec<Names>,
}

impl NameIndex {
    /// Indexes `names`; things are numbered through in their order.
    #[must_use]
    pub fn new(names: Vec<Names>) -> Self {
        let mut index = Self { groups: HashMap::new(), starts: vec![0], names };
        for (g, group) in index.names.iter().enumerate() {
            let group_number = u32::try_from(g).expect("a fleet file has fewer than 2^32 entries");
            index.groups.entry(group.base.clone()).or_default().push(group_number);
            index.starts.push(index.starts[g] + group.len());
        }
        index
    }

    /// The names of entry `entry`.
    ///
    /// # Panics
    /// If there is no such entry.
    #[must_use]
    pub fn names(&self, entry: usize) -> &Names {
        &self.names[entry]
    }

    /// Names that two entries give: `gpu` and `gpu`, or `gpu-2` and `gpu` with `count = 3`. One for each later
    /// entry at most. O(entries).
    #[must_use]
    pub fn duplicates(&self) -> Vec<Duplicate> {
        let mut single: HashMap<&str, usize> = HashMap::new();
        let mut counted: HashMap<&str, usize> = HashMap::new();
        let mut duplicates = Vec::new();
        for (second, names) in self.names.iter().enumerate() {
            let seen = if names.count.is_some() { &mut counted } else { &mut single };
            match seen.entry(names.base.as_str()) {
                Entry::Vacant(entry) => _ = entry.insert(second),
                Entry::Occupied(first) => {
                    duplicates.push(Duplicate { name: names.get(0), first: *first.get(), second })
                }
            }
        }
        for (&name, &alone) in &single {
            let run = name.rsplit_once('-').and_then(|(base, _)| counted.get(base).copied());
            if let Some(run) = run.filter(|&run| self.names[run].position(name).is_some()) {
                duplicates.push(Duplicate { name: name.to_owned(), first: run.min(alone), second: run.max(alone) });
            }
        }
        duplicates.sort_by_key(|duplicate| (duplicate.second, duplicate.first));
        duplicates
    }

    /// How many things are named.
    #[must_use]
    pub fn len(&self) -> usize {
        self.starts[self.names.len()]
    }

    /// Whether nothing is named.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of the thing called `name`.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<usize> {
        let in_group = |&g: &u32| Some(self.starts[g as usize] + self.names[g as usize].position(name)?);
        let find_base = |base: &str| self.groups.get(base)?.iter().find_map(in_group);
        find_base(name).or_else(|| find_base(name.rsplit_once('-')?.0))
    }

    /// The name of thing `i`.
    ///
    /// # Panics
    /// If there is no thing `i`.
    #[must_use]
    pub fn name(&self, i: usize) -> String {
        let group = self.group_of(i);
        self.names[group].get(i - self.starts[group])
    }

    /// Which entry names thing `i`.
    ///
    /// # Panics
    /// If there is no thing `i`.
    #[must_use]
    pub fn group_of(&self, i: usize) -> usize {
        assert!(i < self.len(), "there are {} names, asked for number {i}", self.len());
        self.starts.partition_point(|&start| start <= i) - 1
    }

    /// The numbers of the things that entry `group` names.
    #[must_use]
    pub fn range(&self, group: usize) -> Range<usize> {
        self.starts[group]..self.starts[group + 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(names: &[(&str, Option<u32>)]) -> NameIndex {
        NameIndex::new(names.iter().map(|&(base, count)| Names { base: base.to_owned(), count }).collect())
    }

    #[test]
    fn a_counted_name_and_a_single_one_may_collide_in_either_order() {
        let found = index(&[("gpu-2", None), ("gpu", Some(3)), ("gpu-3", None), ("gpu-02", None)]).duplicates();
        assert_eq!(found, [Duplicate { name: "gpu-2".to_owned(), first: 0, second: 1 }]);
    }

    #[test]
    fn names_given_twice_are_found_once_for_each_later_entry() {
        let found = index(&[("a", None), ("b", Some(2)), ("a", None), ("b", Some(1)), ("a", None)]).duplicates();
        let pairs: Vec<_> = found.iter().map(|d| (d.name.as_str(), d.first, d.second)).collect();
        assert_eq!(pairs, [("a", 0, 2), ("b-0", 1, 3), ("a", 0, 4)]);
    }

    #[test]
    fn every_name_is_found_where_it_was_made() {
        let index = index(&[("a", None), ("a", Some(12)), ("a-1-0", None)]);
        for i in 0..index.len() {
            assert_eq!(index.find(&index.name(i)), Some(i));
        }
        assert_eq!(index.find("a-012"), None);
        assert_eq!(index.find("a-12"), None);
    }
}
