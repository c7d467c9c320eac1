//! The picture of a fleet: job types at the left, servers at the right, and who holds what between them.
//!
//! A small fleet is drawn as it is. Of a large one, job types are put together by the number of servers that hold them
//! (1, 2 to 3, 4 to 7, 8 to 15, ...) and servers by their type; a band is as thick as its share of the edges.

use std::collections::BTreeMap;

use maud::{Markup, html};
use shortline_core::fleet::Speed;
use shortline_core::graph::Row;
use shortline_core::{Fleet, JobTypeId, ServerId, ServerTypeId};

use super::numbers::{counted, plain};
use crate::page::{self, Column, fitting, table};

/// A fleet of at most so many job types, servers and edges is drawn as it is.
const SMALL: (usize, usize, u64) = (32, 40, 400);
/// Server types drawn one by one; the others are one box.
const MOST_TYPES: usize = 12;

const WIDTH: f64 = 860.0;
const LEFT: f64 = 270.0;
const RIGHT: f64 = 560.0;

/// The figure, with its table.
pub(super) fn of(fleet: &Fleet) -> Markup {
    let (job_types, servers, edges) = (fleet.job_type_count(), fleet.server_count(), fleet.graph().edge_count());
    let title = "Who can do what.";
    let size = format!(
        "{}, {}, {}",
        counted(job_types as u64, "job type"),
        counted(servers as u64, "server"),
        counted(edges, "edge")
    );
    if job_types <= SMALL.0 && servers <= SMALL.1 && edges <= SMALL.2 {
        let caption =
            format!("{size}. A line joins a job type (left) with each server that holds it (right, fastest first).");
        return page::figure(title, &caption, &one_by_one(fleet, &caption), Some(&server_types(fleet)));
    }
    let caption = format!(
        "{size}. Left: job types by the number of servers that hold them. Right: servers by type, fastest first. A band is \
         as thick as its share of the edges."
    );
    let groups = Groups::of(fleet);
    let numbers = html! { (server_types(fleet)) (groups.table(fleet)) };
    page::figure(title, &caption, &groups.svg(fleet, &caption), Some(&numbers))
}

/// Every job type and server of a small fleet.
fn one_by_one(fleet: &Fleet, caption: &str) -> Markup {
    let (job_types, servers) = (fleet.job_type_count(), fleet.server_count());
    let height = 24.0 * job_types.max(servers) as f64 + 16.0;
    let y = |i: usize, of: usize| (height * (i as f64 + 0.5) / of as f64).round();
    let name = |l: JobTypeId| fleet.job_type_name(l);
    let rate = |l: JobTypeId| fleet.arrival_rate(l).map_or(String::new(), |rate| format!(", {}/s", plain(rate)));
    html! {
        svg width=(WIDTH) height=(height) viewBox={ "0 0 " (WIDTH) " " (height) } role="img" {
            title { "The compatibility graph" }
            desc { (caption) }
            @for l in fleet.job_types() {
                @for r in holders(fleet, l) {
                    line.edge x1=(LEFT) y1=(y(l.index(), job_types)) x2=(RIGHT) y2=(y(r.index(), servers)) {}
                }
            }
            @for l in fleet.job_types() {
                g {
                    title { (name(l)) (rate(l)) }
                    circle.node cx=(LEFT) cy=(y(l.index(), job_types)) r="5" {}
                    text x=(LEFT - 12.0) y=(y(l.index(), job_types) + 4.0) text-anchor="end" { (fitting(&name(l), 22)) (rate(l)) }
                }
            }
            @for r in fleet.servers() {
                @let (name, kind) = (fleet.server_name(r), kind(fleet, fleet.server_type(r)));
                g {
                    title { (name) ": " (kind) }
                    rect.node x=(RIGHT - 5.0) y=(y(r.index(), servers) - 5.0) width="10" height="10" {}
                    text x=(RIGHT + 12.0) y=(y(r.index(), servers) + 4.0) { (fitting(&name, 18)) " " tspan.quiet { (fitting(&kind, 22)) } }
                }
            }
        }
    }
}

fn holders(fleet: &Fleet, l: JobTypeId) -> Vec<ServerId> {
    let mut servers = Vec::new();
    fleet.graph().for_each(l.index(), |r| servers.push(r));
    servers
}

/// `A10, rate 2`.
fn kind(fleet: &Fleet, m: ServerTypeId) -> String {
    let parts = fleet.server_type_parts(m);
    let slots = if parts.slots == 1 { String::new() } else { format!(", {} slots", parts.slots) };
    match parts.speed {
        Speed::Rate(rate) => format!("{}, rate {}{slots}", parts.name, plain(rate)),
        Speed::Rank(rank) => format!("{}, rank {rank}{slots}", parts.name),
    }
}

/// Job types by number of servers, and what they have on which server type.
struct Groups {
    /// By the binary logarithm of the number of servers; `None` = on no server.
    classes: BTreeMap<Option<u32>, Class>,
}

#[derive(Default)]
struct Class {
    job_types: u64,
    arrivals_per_s: f64,
    /// By server type.
    edges: Vec<u64>,
}

impl Groups {
    /// One pass over the job types; equal rows of the graph are looked at once.
    fn of(fleet: &Fleet) -> Self {
        let graph = fleet.graph();
        let types = fleet.server_type_count();
        let all: Vec<u64> = fleet.server_types().map(|m| fleet.servers_of_type(m).len() as u64).collect();
        let mut of_row: Vec<Option<Vec<u64>>> = vec![None; graph.distinct_row_count()];
        let mut classes: BTreeMap<Option<u32>, Class> = BTreeMap::new();
        for l in fleet.job_types() {
            let row = of_row[graph.row_number(l.index())].get_or_insert_with(|| {
                if let Row::All = graph.row(l.index()) {
                    return all.clone();
                }
                let mut edges = vec![0; types];
                graph.for_each(l.index(), |r| edges[fleet.server_type(r).index()] += 1);
                edges
            });
            let class = classes.entry(graph.degree(l.index()).checked_ilog2()).or_default();
            class.job_types += 1;
            class.arrivals_per_s += fleet.arrival_rate(l).unwrap_or(0.0);
            class.edges.resize(types, 0);
            class.edges.iter_mut().zip(row.iter()).for_each(|(sum, edges)| *sum += *edges);
        }
        Self { classes }
    }

    fn svg(&self, fleet: &Fleet, caption: &str) -> Markup {
        let boxes = boxes(fleet);
        let height = 64.0 * self.classes.len().max(boxes.len()) as f64;
        let y = |i: usize, of: usize| (height * (i as f64 + 0.5) / of as f64).round();
        let edges = fleet.graph().edge_count().max(1) as f64;
        let middle = 0.5 * (LEFT + RIGHT);
        html! {
            svg width=(WIDTH) height=(height) viewBox={ "0 0 " (WIDTH) " " (height) } role="img" {
                title { "The compatibility graph, put together" }
                desc { (caption) }
                @for (i, class) in self.classes.values().enumerate() {
                    @for (j, kinds) in boxes.iter().enumerate() {
                        @let share = class.edges[kinds.clone()].iter().sum::<u64>() as f64 / edges;
                        @if share > 0.0 {
                            @let (from, to) = (y(i, self.classes.len()), y(j, boxes.len()));
                            path.band stroke-width=((10.0 * (1.0 + 30.0 * share)).round() / 10.0)
                                d={ "M" (LEFT) " " (from) "C" (middle) " " (from) " " (middle) " " (to) " " (RIGHT) " " (to) } {
                                title { (plain(100.0 * share)) " % of the edges" }
                            }
                        }
                    }
                }
                @for (i, (degree, class)) in self.classes.iter().enumerate() {
                    @let middle = y(i, self.classes.len());
                    rect.box x="4" y=(middle - 24.0) width=(LEFT - 4.0) height="48" rx="4" {}
                    text x="14" y=(middle - 4.0) { (counted(class.job_types, "job type")) }
                    text.quiet x="14" y=(middle + 14.0) { (on_servers(*degree)) ", " (arrivals(class.arrivals_per_s)) }
                }
                @for (j, kinds) in boxes.iter().enumerate() {
                    @let middle = y(j, boxes.len());
                    @let servers: usize = kinds.clone().map(|m| fleet.servers_of_type(ServerTypeId::new(m)).len()).sum();
                    rect.box x=(RIGHT) y=(middle - 24.0) width=(WIDTH - RIGHT - 4.0) height="48" rx="4" {}
                    text x=(RIGHT + 10.0) y=(middle - 4.0) { (counted(servers as u64, "server")) }
                    text.quiet x=(RIGHT + 10.0) y=(middle + 14.0) {
                        @if kinds.len() == 1 { (fitting(&kind(fleet, ServerTypeId::new(kinds.start)), 38)) }
                        @else { "of " (kinds.len()) " other types" }
                    }
                }
            }
        }
    }

    fn table(&self, fleet: &Fleet) -> Markup {
        let boxes = boxes(fleet);
        let names: Vec<String> = boxes.iter().map(|kinds| box_name(fleet, kinds.clone())).collect();
        let mut columns =
            vec![("job types", Column::Words), ("number", Column::Numbers), ("arrivals", Column::Numbers)];
        columns.extend(names.iter().map(|name| (name.as_str(), Column::Numbers)));
        let row = |(degree, class): (&Option<u32>, &Class)| {
            let mut row = vec![
                html! { (on_servers(*degree)) },
                html! { (class.job_types) },
                page::number(class.arrivals_per_s, &arrivals(class.arrivals_per_s)),
            ];
            row.extend(boxes.iter().map(|kinds| html! { (class.edges[kinds.clone()].iter().sum::<u64>()) }));
            row
        };
        let rows: Vec<Vec<Markup>> = self.classes.iter().map(row).collect();
        table("Edges between job types and server types", &columns, &rows)
    }
}

/// The server types that are drawn together.
fn boxes(fleet: &Fleet) -> Vec<std::ops::Range<usize>> {
    let types = fleet.server_type_count();
    let single = if types > MOST_TYPES { MOST_TYPES - 1 } else { types };
    let rest = (single < types).then_some(single..types);
    (0..single).map(|m| m..m + 1).chain(rest).collect()
}

fn box_name(fleet: &Fleet, kinds: std::ops::Range<usize>) -> String {
    match kinds.len() {
        1 => format!("edges to {}", fleet.server_type_parts(ServerTypeId::new(kinds.start)).name),
        n => format!("edges to {n} other types"),
    }
}

fn on_servers(degree: Option<u32>) -> String {
    match degree {
        None => "on no server".to_owned(),
        Some(0) => "on 1 server".to_owned(),
        Some(log) => format!("on {} to {} servers", 1_u64 << log, (2_u64 << log) - 1),
    }
}

fn arrivals(per_s: f64) -> String {
    format!("{} jobs/s", plain(per_s))
}

/// Rows of the table of server types.
const MOST_ROWS: usize = 50;

fn server_types(fleet: &Fleet) -> Markup {
    let row = |m: ServerTypeId| {
        let parts = fleet.server_type_parts(m);
        let range = fleet.servers_of_type(m);
        let buffers = || range.clone().map(|r| fleet.buffer(ServerId::new(r)));
        let finite = buffers().flatten();
        let buffer = match (finite.clone().min(), finite.max()) {
            (Some(least), Some(most)) if buffers().all(|b| b.is_some()) => {
                if least == most {
                    least.to_string()
                } else {
                    format!("{least} to {most}")
                }
            }
            (Some(least), _) => format!("{least} to unbounded"),
            _ => "unbounded".to_owned(),
        };
        let speed = match parts.speed {
            Speed::Rate(rate) => page::number(rate, &plain(rate)),
            Speed::Rank(rank) => html! { "rank " (rank) },
        };
        vec![html! { (parts.name) }, html! { (range.len()) }, html! { (parts.slots) }, speed, html! { (buffer) }]
    };
    let columns = [
        ("server type", Column::Words),
        ("servers", Column::Numbers),
        ("slots", Column::Numbers),
        ("rate (size units/s)", Column::Numbers),
        ("buffer (jobs)", Column::Numbers),
    ];
    let rows: Vec<Vec<Markup>> = fleet.server_types().take(MOST_ROWS).map(row).collect();
    let more = fleet.server_type_count() - rows.len();
    html! {
        (table("Server types, fastest first", &columns, &rows))
        @if more > 0 { p.quiet { "And " (more) " more." } }
    }
}
