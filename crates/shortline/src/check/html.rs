//! The report as a part of a page: what a reader of a simulation wants to know of the fleet beforehand.

use maud::{Markup, html};

use super::bounds::BoundRow;
use super::connectivity::ConnectivitySection;
use super::figures::{listed, short};
use super::guarantee::GuaranteeRow;
use super::report::Report;
use super::stability::StabilitySection;
use crate::page::{Column, facts, number, table};

/// Names shown of a list; the command line has them all.
const NAMES: usize = 8;

/// Stability, bounds, connectivity, guarantee, problems, advice.
pub(super) fn findings(report: &Report) -> Markup {
    html! {
        (stability(&report.stability))
        (policies(&report.stability, report.fleet.has_finite_buffers()))
        (bounds(&report.bounds))
        (connectivity(&report.connectivity))
        (guarantee(&report.guarantee.guarantees))
        (items("Problems", &report.problems))
        (items("Advice", &report.advice))
    }
}

fn stability(stability: &StabilitySection) -> Markup {
    let verdict = match stability.stable {
        Some(true) => html! { "yes" },
        Some(false) => html! { span.warn { "no" } },
        None => html! { span.warn { "not known" } },
    };
    let mut rows = vec![("Stable", html! { (verdict) ": " (stability.stable_why) })];
    if let Some(why) = &stability.capacity.why {
        rows.push(("Capacity", html! { (why) }));
    }
    if let Some(load) = stability.offered_load {
        rows.push(("Offered load", number(load, &short(load))));
    }
    let grows = "times today's arrival rates can be served at most";
    if let Some(factor) = stability.max_load_factor {
        rows.push(("Largest load factor", html! { (number(factor, &short(factor))) ": so many " (grows) }));
    }
    if let Some([least, most]) = stability.max_load_factor_between {
        rows.push((
            "Largest load factor",
            html! { "between " (number(least, &short(least))) " and " (number(most, &short(most))) ": so many " (grows) },
        ));
    }
    let bottleneck = &stability.bottleneck;
    if bottleneck.whole_fleet {
        rows.push(("Bottleneck", html! { "all servers together" }));
    } else if !bottleneck.job_types.is_empty() {
        let (job_types, servers) = (listed(&bottleneck.job_types, NAMES), listed(&bottleneck.servers, NAMES));
        rows.push(("Bottleneck", html! { "job types " (job_types) "; servers " (servers) }));
    }
    facts(&rows)
}

fn policies(stability: &StabilitySection, has_finite_buffers: bool) -> Markup {
    let row = |row: &super::stability::PolicyRow| {
        let stable = match row.stable {
            Some(true) => html! { "yes" },
            Some(false) => html! { span.warn { "no" } },
            None => html! { "not known" },
        };
        vec![html! { (row.policy) }, stable, html! { (row.why.trim_start_matches("not known: ")) }]
    };
    let rows: Vec<Vec<Markup>> = stability.stability_by_policy.iter().map(row).collect();
    let columns = [("policy", Column::Words), ("stable", Column::Words), ("why", Column::Words)];
    html! {
        @if !rows.is_empty() {
            (table("Stability by policy", &columns, &rows))
            @if has_finite_buffers {
                p.quiet { "Buffers are taken as unbounded here: with the file's own, jobs are lost where queues would grow without end." }
            }
        }
    }
}

fn bounds(rows: &[BoundRow]) -> Markup {
    let row = |row: &BoundRow| {
        let holds = if row.valid { "yes" } else { "no" };
        vec![
            html! { (row.kind) },
            seconds(row.mean_response_s),
            plain(row.mean_jobs),
            html! { (holds) ": " (row.why) },
            html! { (row.assumes) },
        ]
    };
    let columns = [
        ("bound", Column::Words),
        ("mean response", Column::Numbers),
        ("mean jobs", Column::Numbers),
        ("holds", Column::Words),
        ("assumes", Column::Words),
    ];
    let rows: Vec<Vec<Markup>> = rows.iter().map(row).collect();
    table("Bounds: no policy has a shorter mean response time", &columns, &rows)
}

fn connectivity(section: &ConnectivitySection) -> Markup {
    if let Some(why) = &section.connectivity_why {
        return html! { p { "Connectivity: none, " (why) } };
    }
    let rows: Vec<Vec<Markup>> = section
        .connectivity
        .iter()
        .map(|row| {
            vec![
                html! { (row.fastest_types) },
                html! { (row.servers) },
                html! { (row.servers_left_out) },
                plain(Some(row.lower)),
                if row.exact {
                    html! { "exact" }
                } else {
                    plain(Some(row.upper))
                },
            ]
        })
        .collect();
    let columns = [
        ("fastest types m", Column::Numbers),
        ("servers", Column::Numbers),
        ("e", Column::Numbers),
        ("at least", Column::Numbers),
        ("at most", Column::Numbers),
    ];
    table("Connectivity: the share of the arrivals that some e servers have no copy of", &columns, &rows)
}

fn guarantee(rows: &[GuaranteeRow]) -> Markup {
    let row = |row: &GuaranteeRow| {
        vec![
            html! { @if row.policies.is_empty() { "none" } @else { (row.policies.join(", ")) } },
            seconds(row.mean_response_s),
            plain(row.ratio_to_fluid),
            plain(row.mean_jobs),
            plain(row.blocking_probability),
            html! { (row.why) },
        ]
    };
    let columns = [
        ("policies", Column::Words),
        ("mean response", Column::Numbers),
        ("over fluid", Column::Numbers),
        ("mean jobs", Column::Numbers),
        ("blocked", Column::Numbers),
        ("why", Column::Words),
    ];
    let rows: Vec<Vec<Markup>> = rows.iter().map(row).collect();
    table("Guarantee: no more than this, in the long run", &columns, &rows)
}

fn items(heading: &str, lines: &[String]) -> Markup {
    html! { @if !lines.is_empty() { h3 { (heading) } ul { @for line in lines { li { (line) } } } } }
}

fn seconds(value: Option<f64>) -> Markup {
    value.map_or(html! { "–" }, |value| number(value, &format!("{} s", short(value))))
}

fn plain(value: Option<f64>) -> Markup {
    value.map_or(html! { "–" }, |value| number(value, &short(value)))
}
