//! `serves` of the servers, turned around: which servers hold each job type.
//!
//! If every server holds everything the graph is complete and nothing is stored. Else the rows are filled in two
//! passes (count, then place) in the file's order of servers, so that they come out ascending. O(edges).

use std::collections::HashMap;

use super::super::document::{Node, Span};
use super::super::settings::Overflow;
use super::collect::{Faults, Read};
use super::job_types::JobTypes;
use super::names::NameTable;
use super::section::{array, string};
use super::servers::{Entry, Servers};
use super::words::{counted, list, quoted};
use crate::graph::Edges;

/// Most edges that are stored; 4 bytes each.
const MOST_EDGES: u64 = 1 << 31;

/// What one `[[server]]` entry holds.
enum Held {
    All,
    /// Job types, no duplicates.
    These(Vec<u32>),
}

/// The graph that the `serves` lists describe.
pub(super) fn edges(faults: &Faults<'_>, servers: &Servers<'_, '_>, job_types: &JobTypes) -> Read<Edges> {
    let entries = &servers.entries;
    if let (Some(first), true) = (entries.first(), entries.iter().all(|entry| entry.serves.is_none())) {
        let remedy = "add `serves = [...]` to every [[server]] ([\"*\"] = all job types), or a [graph] section";
        return Err(faults.missing(&first.place, "nothing says which server holds which job type", remedy));
    }
    let held: Vec<Read<Held>> = entries.iter().map(|entry| held(faults, entry, job_types)).collect();
    let held = held.into_iter().collect::<Read<Vec<Held>>>()?;
    if held.iter().all(|held| matches!(held, Held::All)) {
        return Ok(Edges::Complete);
    }
    check_number(faults, servers, &held, job_types.names.index.len())?;
    Ok(turned_around(&held, servers, job_types.names.index.len()))
}

fn held(faults: &Faults<'_>, entry: &Entry<'_, '_>, job_types: &JobTypes) -> Read<Held> {
    let Some(node) = entry.serves else {
        let remedy = "add `serves = [...]`: the job types it holds, [\"*\"] for all, [] for none";
        return Err(faults.missing(&entry.place, "this [[server]] has no `serves`", remedy));
    };
    let items = array(faults, "serves", node)?;
    let star = items.iter().find(|item| string(faults, "serves", item).is_ok_and(|name| name == "*"));
    if let (Some(star), true) = (star, items.len() > 1) {
        let message = "`*` means all job types; nothing can stand beside it";
        return Err(faults.at(&star.span, message).help("write [\"*\"], or name the job types").report());
    }
    if star.is_some() { Ok(Held::All) } else { these(faults, items, job_types).map(Held::These) }
}

fn these(faults: &Faults<'_>, items: &[Node<'_>], job_types: &JobTypes) -> Read<Vec<u32>> {
    let mut first_place: HashMap<u32, &Span> = HashMap::with_capacity(items.len());
    let one = |item| {
        let number = job_types.names.find_node(faults, "serves", item)?;
        let number = u32::try_from(number).expect("the number of job types is limited");
        match first_place.insert(number, &item.span) {
            None => Ok(number),
            Some(first) => {
                let message = format!("{} is listed twice", quoted(&job_types.names.index.name(number as usize)));
                Err(faults.at(&item.span, message).help("name each job type once").also(first, "the first").report())
            }
        }
    };
    let read: Vec<Read<u32>> = items.iter().map(one).collect();
    read.into_iter().collect()
}

fn check_number(faults: &Faults<'_>, servers: &Servers<'_, '_>, held: &[Held], job_types: usize) -> Read<()> {
    let count = |(entry, held): (usize, &Held)| {
        let each = if let Held::These(list) = held { list.len() } else { job_types };
        servers.names.index.range(entry).len() as u64 * each as u64
    };
    let (edges, largest) = held.iter().enumerate().fold((0_u64, (0, 0)), |(sum, largest), (entry, held)| {
        let edges = count((entry, held));
        (sum.saturating_add(edges), largest.max((edges, entry)))
    });
    if edges <= MOST_EDGES {
        return Ok(());
    }
    let message = format!("the `serves` lists describe {edges} edges; at most 2^31 = {MOST_EDGES} can be stored");
    let help = "a complete graph needs none: give every server `serves = [\"*\"]`";
    Err(faults.at(&servers.entries[largest.1].place, message).help(help).label("most of them here").report())
}

fn turned_around(held: &[Held], servers: &Servers<'_, '_>, job_types: usize) -> Edges {
    let servers_of = |entry: usize| servers.names.index.range(entry);
    let mut starts = vec![0_usize; job_types + 1];
    let mut on_all = 0;
    for (entry, held) in held.iter().enumerate() {
        match held {
            Held::All => on_all += servers_of(entry).len(),
            Held::These(list) => list.iter().for_each(|&l| starts[l as usize + 1] += servers_of(entry).len()),
        }
    }
    for l in 0..job_types {
        starts[l + 1] += starts[l] + on_all;
    }
    let mut next = starts.clone();
    let mut rows = vec![0_u32; starts[job_types]];
    let mut place = |l: usize, server: usize| {
        rows[next[l]] = u32::try_from(server).expect("the number of servers is limited");
        next[l] += 1;
    };
    for (entry, held) in held.iter().enumerate() {
        match held {
            Held::All => (0..job_types).for_each(|l| servers_of(entry).for_each(|r| place(l, r))),
            Held::These(list) => list.iter().for_each(|&l| servers_of(entry).for_each(|r| place(l as usize, r))),
        }
    }
    Edges::Rows { starts, servers: rows }
}

/// Warns of job types that no server holds, and of servers that hold none.
pub(super) fn warn_of_gaps(
    faults: &Faults<'_>,
    edges: &Edges,
    overflow: Overflow,
    servers: &NameTable,
    job_types: &NameTable,
) {
    let Edges::Rows { starts, servers: rows } = edges else { return };
    let empty = |&l: &usize| starts[l] == starts[l + 1];
    warn(
        faults,
        job_types,
        (0..job_types.index.len()).filter(empty),
        "job type",
        "on no server",
        match overflow {
            Overflow::Reject => "such jobs are refused",
            Overflow::Wait => {
                "such jobs wait in line until `queue_timeout_s` or `queue_size` refuses them; `serve` refuses them after `hold_s`, or at once"
            }
        },
    );
    let mut holds_any = vec![false; servers.index.len()];
    rows.iter().for_each(|&r| holds_any[r as usize] = true);
    let idle = (0..holds_any.len()).filter(|&r| !holds_any[r]);
    warn(faults, servers, idle, "server", "without a job type", "no job ever goes there");
}

fn warn(
    faults: &Faults<'_>,
    names: &NameTable,
    which: impl Iterator<Item = usize> + Clone,
    what: &str,
    state: &str,
    help: &str,
) {
    let count = which.clone().count();
    let Some(first) = which.clone().next() else { return };
    let shown: Vec<String> = which.take(13).map(|i| names.index.name(i)).collect();
    let more = count - shown.len();
    let message = match more {
        0 => format!("{} {state}: {}", counted(count, what), list(shown.iter().map(String::as_str))),
        _ => format!("{} {state}, {} first", counted(count, what), quoted(&shown[0])),
    };
    faults.warn(&names.places[names.index.group_of(first)], message).help(help).report();
}
