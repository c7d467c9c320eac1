//! `[[server_type]]`: speed classes.

use std::collections::BTreeSet;

use super::super::document::Span;
use super::super::{ServerTypeParts, Speed};
use super::collect::{Faults, Read};
use super::names::{NameTable, single};
use super::section::{POSITIVE, Section, value_or};
use super::words::quoted;

/// All server types of the file.
pub(super) struct ServerTypes {
    pub(super) names: NameTable,
    /// In the order of `names`.
    pub(super) types: Vec<Read<ServerTypeParts>>,
    /// Where a rank stands, if some type is ranked.
    pub(super) rank_place: Option<Span>,
}

impl ServerTypes {
    pub(super) fn read(root: &mut Section<'_, '_>) -> Self {
        let sections = root.some_sections("server_type", "server type", "`name` and `rate`");
        let (mut is_partial, mut names, mut types) = (sections.is_partial, Vec::new(), Vec::new());
        let (mut rated, mut ranked): (Option<Span>, Option<Span>) = (None, None);
        for mut section in sections.list {
            let name = single(&mut section);
            let speed = speed(&mut section);
            let slots = section.integer32("slots", 1);
            match speed {
                Ok(Speed::Rate(_)) => rated = rated.or_else(|| section.place_of("rate").cloned()),
                Ok(Speed::Rank(_)) => ranked = ranked.or_else(|| section.place_of("rank").cloned()),
                Err(_) => {}
            }
            section.finish();
            let Ok(name) = name else {
                is_partial = true;
                continue;
            };
            types.push(speed.and_then(|speed| {
                Ok(ServerTypeParts { name: name.value.base.clone(), speed, slots: value_or(slots, 1)? })
            }));
            names.push(name);
        }
        if let (Some(rated), Some(ranked)) = (rated, &ranked) {
            let draft = root.faults.at(ranked, "some server types have a `rate` and others a `rank`");
            draft.help("give all of them one or the other").also(&rated, "a rate").report();
        }
        let names = NameTable::new(root.faults, "server type", names, is_partial);
        let types = Self { names, types, rank_place: ranked };
        types.check_slots(root.faults);
        types
    }

    /// Loads are compared exactly, in units of one over a common multiple of the slot counts.
    fn check_slots(&self, faults: &Faults<'_>) {
        let mut common = 1_u64;
        for (entry, slots) in self.types.iter().enumerate().filter_map(|(i, t)| Some((i, t.as_ref().ok()?.slots))) {
            common = common / super::super::build::gcd(common, u64::from(slots)) * u64::from(slots);
            if common > u64::from(u32::MAX) {
                let message = format!("the slot counts up to this {slots} have no common multiple below 2^32");
                let help = "jobs per slot could not be compared exactly; use rounder counts of `slots`";
                faults.at(&self.names.places[entry], message).help(help).report();
                return;
            }
        }
    }

    /// A server type by its name.
    pub(super) fn find(&self, faults: &Faults<'_>, name: &str, place: &Span) -> Read<usize> {
        self.names.find(faults, name, place)
    }

    /// Warns of types without a server.
    pub(super) fn warn_unused(&self, faults: &Faults<'_>, used: impl Iterator<Item = usize>) {
        let used: BTreeSet<usize> = used.collect();
        for (entry, place) in self.names.places.iter().enumerate().filter(|(entry, _)| !used.contains(entry)) {
            let message = format!("no server is of the type {}", quoted(&self.names.index.name(entry)));
            faults.warn(place, message).help("remove it, or add a [[server]] of this type").report();
        }
    }
}

fn speed(section: &mut Section<'_, '_>) -> Read<Speed> {
    let rate = section.number("rate", POSITIVE);
    let rank = section.integer32("rank", 1);
    section.at_most_one_of(&["rate", "rank"])?;
    match (rate?, rank?) {
        (Some(rate), _) => Ok(Speed::Rate(rate.value)),
        (None, Some(rank)) => Ok(Speed::Rank(rank.value)),
        (None, None) => Err(section.missing_either("rate", "rank")),
    }
}
