//! `[[server]]`: names, types, buffers, addresses; which job types they hold is for [`serves`](super::serves).

use std::collections::BTreeSet;

use super::super::document::{Node, Span, Value};
use super::super::settings::{Address, Protocol};
use super::super::{Names, ServerParts};
use super::addresses::{self, KnownAddresses};
use super::collect::{Faults, Read};
use super::names::{NameTable, numbered};
use super::section::{At, Field, Section, integer32, value_or, wrong_type};
use super::server_types::ServerTypes;
use super::words::quoted;

const PROTOCOLS: [(&str, Protocol); 3] =
    [("auto", Protocol::Auto), ("http1", Protocol::Http1), ("h2", Protocol::Http2)];

/// All servers of the file.
pub(super) struct Servers<'r, 't> {
    pub(super) names: NameTable,
    /// In the order of the entries of `names`.
    pub(super) entries: Vec<Entry<'r, 't>>,
}

/// One `[[server]]`.
pub(super) struct Entry<'r, 't> {
    pub(super) parts: Read<ServerParts>,
    /// What it holds, as written.
    pub(super) serves: Option<&'r Node<'t>>,
    /// Its header.
    pub(super) place: Span,
    /// Whether the fleet's `buffer` applies to it.
    has_default_buffer: bool,
}

impl<'r, 't> Servers<'r, 't> {
    pub(super) fn read(root: &mut Section<'r, 't>, types: &ServerTypes, buffer: &Field<Option<u32>>) -> Self {
        let sections = root.some_sections("server", "server", "`name`, `type` and `serves`");
        let (mut is_partial, mut names, mut entries) = (sections.is_partial, Vec::new(), Vec::new());
        let default = buffer.as_ref().map_or(None, |buffer| buffer.as_ref().and_then(|at| at.value));
        let mut known = KnownAddresses::default();
        for section in sections.list {
            let (name, entry) = entry(section, types, default, &mut known);
            let Ok(name) = name else {
                is_partial = true;
                continue;
            };
            names.push(name);
            entries.push(entry);
        }
        check_default_buffer(root.faults, types, buffer, &entries);
        Self { names: NameTable::new(root.faults, "server", names, is_partial), entries }
    }
}

fn entry<'r, 't>(
    mut section: Section<'r, 't>,
    types: &ServerTypes,
    default_buffer: Option<u32>,
    known: &mut KnownAddresses,
) -> (Read<At<Names>>, Entry<'r, 't>) {
    let faults = section.faults;
    let names = numbered(&mut section);
    let type_name = section.string("type");
    let server_type = section.required("type", type_name).and_then(|name| types.find(faults, name.value, &name.place));
    let own_buffer = buffer(&mut section);
    if let (Ok(server_type), Ok(Some(own))) = (server_type, &own_buffer) {
        check_buffer(faults, types, server_type, own);
    }
    let protocol = section.word("protocol", &PROTOCOLS);
    let tls_name = section.string("tls_name").and_then(|name| addresses::tls_name(faults, name));
    let addresses = match (&names, section.node("address")) {
        (Ok(names), Some(node)) => addresses::read(faults, node, names.value.len(), known),
        _ => Ok(Vec::new()),
    };
    let addresses =
        addresses.and_then(|addresses| Ok(spoken_to(addresses, value_or(protocol, Protocol::Auto)?, tls_name?)));
    let serves = section.node("serves");
    let place = section.place.clone();
    section.finish();
    let has_default_buffer = matches!(own_buffer, Ok(None));
    let parts = || {
        Ok(ServerParts {
            names: names.as_ref().map_err(|&reported| reported)?.value.clone(),
            server_type: server_type?,
            buffer: own_buffer?.map_or(default_buffer, |own| own.value),
            addresses: addresses?,
        })
    };
    let entry = Entry { parts: parts(), serves, place, has_default_buffer };
    (names, entry)
}

/// Addresses with what to speak there.
fn spoken_to(mut addresses: Vec<Address>, protocol: Protocol, tls_name: Option<String>) -> Vec<Address> {
    for address in &mut addresses {
        address.protocol = protocol;
        address.tls_name.clone_from(&tls_name);
    }
    addresses
}

/// `buffer`: a whole number, or `"unbounded"`.
pub(super) fn buffer(section: &mut Section<'_, '_>) -> Field<Option<u32>> {
    let faults = section.faults;
    let read = |node: &Node<'_>| match &node.value {
        Value::String(word) if word == "unbounded" => Ok(None),
        Value::String(_) => Err(wrong_type(faults, "buffer", node, "a whole number or \"unbounded\"")),
        _ => integer32(faults, "buffer", node, 1..=u32::MAX).map(Some),
    };
    section.node("buffer").map(|node| Ok(At { value: read(node)?, place: node.span.clone() })).transpose()
}

/// The fleet's buffer has to hold the jobs in service of every server that has none of its own.
fn check_default_buffer(
    faults: &Faults<'_>,
    types: &ServerTypes,
    buffer: &Field<Option<u32>>,
    entries: &[Entry<'_, '_>],
) {
    let Ok(Some(buffer)) = buffer else { return };
    let type_of = |entry: &Entry<'_, '_>| entry.parts.as_ref().ok().map(|parts| parts.server_type);
    let affected: BTreeSet<usize> = entries.iter().filter(|e| e.has_default_buffer).filter_map(type_of).collect();
    for server_type in affected {
        check_buffer(faults, types, server_type, buffer);
    }
}

fn check_buffer(faults: &Faults<'_>, types: &ServerTypes, server_type: usize, buffer: &At<Option<u32>>) {
    let (Ok(parts), Some(places)) = (&types.types[server_type], buffer.value) else { return };
    if places < parts.slots {
        let (name, slots) = (quoted(&parts.name), parts.slots);
        let message = format!("`buffer` is {places}, but servers of type {name} have {slots} slots");
        let help = format!("the buffer counts jobs in service, too: at least {slots}, or \"unbounded\"");
        faults.at(&buffer.place, message).help(help).also(&types.names.places[server_type], "this type").report();
    }
}
