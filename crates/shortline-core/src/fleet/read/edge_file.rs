//! `[graph] kind = "file"`: a CSV file with the header `job_type,server` and one edge a line.
//!
//! The columns may stand in either order; quotes, CRLF, empty lines and a byte-order mark are fine. O(edges log edges).

use csv::{ReaderBuilder, StringRecord};

use super::super::document::Span;
use super::collect::{Collected, Faults, Read};
use super::names::NameTable;
use super::words::{list, quoted, suggestion};
use crate::graph::Edges;

const COLUMNS: [&str; 2] = ["job_type", "server"];

/// One line of the file: an edge, and where it stands.
struct Edge {
    job_type: u32,
    server: u32,
    line_start: u32,
}

/// The graph that the text of the file `name` lists. Its faults go to `collected`.
pub(super) fn edges(
    name: &str,
    text: &str,
    job_types: &NameTable,
    servers: &NameTable,
    collected: &mut Collected,
) -> Read<Edges> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let faults = Faults::new(name, text, job_types.is_partial || servers.is_partial);
    let result = records(&faults, text, job_types, servers).and_then(|(mut edges, all_read)| {
        let distinct = check_repeated(&faults, &mut edges, text, job_types, servers);
        all_read.and(distinct).map(|()| rows(&edges, job_types.index.len()))
    });
    faults.finish(collected);
    result
}

/// The edges that can be read, and whether these are all.
fn records(faults: &Faults<'_>, text: &str, job_types: &NameTable, servers: &NameTable) -> Read<(Vec<Edge>, Read<()>)> {
    if u32::try_from(text.len()).is_err() {
        return Err(faults.at(&(0..0), "the edge file is larger than 4 GiB").report());
    }
    let mut reader = ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text.as_bytes());
    let mut record = StringRecord::new();
    let mut columns = None;
    let (mut edges, mut all_read) = (Vec::new(), Ok(()));
    while reader.read_record(&mut record).map_err(|error| faults.at(&(0..0), error.to_string()).report())? {
        let start = record.position().map_or(0, csv::Position::byte) as usize;
        let place = line_at(text, start);
        let Some((job_type_at, server_at)) = columns else {
            columns = Some(header(faults, &record, &place)?);
            continue;
        };
        let edge = edge(faults, &record, (job_type_at, server_at), &place, job_types, servers);
        match edge {
            Ok(edge) => edges.push(edge),
            Err(reported) => all_read = Err(reported),
        }
    }
    if columns.is_none() {
        return Err(faults.at(&(0..0), "the edge file is empty").help("its first line is job_type,server").report());
    }
    Ok((edges, all_read))
}

/// A line as its place: the reader gives where a record begins, perhaps before empty lines.
fn line_at(text: &str, start: usize) -> Span {
    let start = start + text[start..].len() - text[start..].trim_start_matches(['\r', '\n']).len();
    let line = text[start..].lines().next().unwrap_or_default();
    start..start + line.len()
}

fn header(faults: &Faults<'_>, record: &StringRecord, place: &Span) -> Read<(usize, usize)> {
    let position = |name: &str| record.iter().position(|field| field.trim() == name);
    match (position(COLUMNS[0]), position(COLUMNS[1])) {
        (Some(job_type), Some(server)) if record.len() == 2 => Ok((job_type, server)),
        _ => {
            let odd = record.iter().map(str::trim).find(|field| !COLUMNS.contains(field));
            let slip = odd.map_or_else(|| format!("allowed are {}", list(COLUMNS)), |odd| suggestion(odd, COLUMNS));
            let message = "the first line of an edge file has to be `job_type,server`";
            Err(faults.at(place, message).help(slip).report())
        }
    }
}

fn edge(
    faults: &Faults<'_>,
    record: &StringRecord,
    (job_type_at, server_at): (usize, usize),
    place: &Span,
    job_types: &NameTable,
    servers: &NameTable,
) -> Read<Edge> {
    if record.len() != 2 {
        let message = format!("a line of an edge file has 2 fields, this one has {}", record.len());
        return Err(faults.at(place, message).help("write job_type,server").report());
    }
    let number = |names: &NameTable, at: usize| -> Read<u32> {
        let number = names.find(faults, record[at].trim(), place)?;
        Ok(u32::try_from(number).expect("the numbers of servers and job types are limited"))
    };
    let (job_type, server) = (number(job_types, job_type_at), number(servers, server_at));
    let line_start = u32::try_from(place.start).expect("the file is smaller than 4 GiB");
    Ok(Edge { job_type: job_type?, server: server?, line_start })
}

/// Sorts the edges; two that are the same are a fault.
fn check_repeated(
    faults: &Faults<'_>,
    edges: &mut [Edge],
    text: &str,
    job_types: &NameTable,
    servers: &NameTable,
) -> Read<()> {
    edges.sort_unstable_by_key(|edge| (edge.job_type, edge.server, edge.line_start));
    let mut distinct = Ok(());
    for pair in edges.windows(2) {
        let (first, second) = (&pair[0], &pair[1]);
        if (first.job_type, first.server) == (second.job_type, second.server) {
            let place = |edge: &Edge| line_at(text, edge.line_start as usize);
            let job_type = quoted(&job_types.index.name(second.job_type as usize));
            let server = quoted(&servers.index.name(second.server as usize));
            let draft = faults.at(&place(second), format!("the edge from {job_type} to {server} is listed twice"));
            distinct = Err(draft.help("keep one of them").also(&place(first), "the first").report());
        }
    }
    distinct
}

fn rows(sorted: &[Edge], job_types: usize) -> Edges {
    let mut starts = vec![0; job_types + 1];
    sorted.iter().for_each(|edge| starts[edge.job_type as usize + 1] += 1);
    for l in 0..job_types {
        starts[l + 1] += starts[l];
    }
    Edges::Rows { starts, servers: sorted.iter().map(|edge| edge.server).collect() }
}
