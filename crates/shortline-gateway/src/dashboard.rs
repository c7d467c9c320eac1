//! `/`: the gateway as a page for people.
//!
//! One file that loads nothing, runs nothing and is asked for again by the browser every [`REFRESH_S`] seconds. It shows
//! what [`/status`](crate::Status) says. A bar is as long as the slots of its server are busy; of one whose jobs are more than
//! its slots it is full, in another colour, and the column beside it says how many wait. All text goes through the
//! template library, which escapes it.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::status::{JobTypeStatus, ServerStatus, Status};

const STYLE: &str = include_str!("dashboard.css");
/// The page renews itself this often.
const REFRESH_S: u32 = 2;
/// Most rows of a table; it says how many more there are.
const ROWS: usize = 500;

/// The page. `fleet` is the fleet's name; `is_valid`: the last reload of its file succeeded.
pub(crate) fn page(fleet: &str, status: &Status, is_valid: bool, is_ready: bool) -> String {
    let title = if fleet.is_empty() { "Shortline" } else { fleet };
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta http-equiv="refresh" content=(REFRESH_S);
                meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body { main {
                h1 { (title) }
                p.quiet {
                    "policy " (status.policy) ", up for " (duration(status.uptime_s)) ", fleet exchanged "
                    (counted(status.epoch as usize, "time")) ". The same for programs: "
                    a href="/status" { "/status" } ", " a href="/fleet" { "/fleet" } ", " a href="/metrics" { "/metrics" }
                }
                @if !is_ready { p.warn { "Stopping: no new requests are taken." } }
                @if !is_valid { p.warn { "The fleet file could not be read again: the former fleet is in service. The log says why." } }
                (summary(status))
                div.tables {
                    (servers(&status.servers))
                    (job_types(&status.job_types))
                }
            } }
        }
    };
    page.into_string()
}

fn summary(status: &Status) -> Markup {
    let servers = &status.servers;
    let up = servers.iter().filter(|server| server.up).count();
    let in_flight: u64 = servers.iter().map(|server| server.in_flight).sum();
    let per_s: f64 = status.job_types.iter().map(|job_type| job_type.arrival_rate_per_s).sum();
    let refused: u64 =
        status.job_types.iter().map(|l| l.blocked_total + l.no_server_total + l.queue_timeout_total).sum();
    let bound = status.bound.as_ref();
    html! {
        dl {
            div { dt { "servers up" } dd class=[(up < servers.len()).then_some("warn")] { (up) " of " (servers.len()) } }
            div { dt { "at servers" } dd { (in_flight) } }
            div { dt { "in line" } dd { (status.waiting_total) } }
            div { dt { "arrivals per second" } dd { (number(per_s)) } }
            div { dt { "refused since the start" } dd { (refused) } }
            div {
                dt { "mean response at least" }
                dd title=[bound.map(|bound| format!("{} bound at the measured arrival rates", bound.kind))] {
                    (bound.map_or_else(|| "–".to_owned(), |bound| seconds(bound.mean_response_s)))
                }
            }
        }
    }
}

fn servers(servers: &[ServerStatus]) -> Markup {
    let columns = [
        ("server", false),
        ("type", false),
        ("health", false),
        ("busy", false),
        ("jobs", true),
        ("slots", true),
        ("waiting", true),
        ("buffer", true),
        ("sent since start", true),
    ];
    let row = |server: &ServerStatus| {
        let share = 100.0 * server.in_flight as f64 / f64::from(server.slots.max(1));
        html! {
            tr {
                th scope="row" { (server.name) }
                td { (server.server_type) }
                td class=[(server.health != "up").then_some("warn")] {
                    (server.health)
                    @if !server.lost.is_empty() { " without " (server.lost.join(", ")) }
                }
                td { span.bar { span class=[(server.waiting > 0).then_some("line")] style=(format!("width:{:.0}%", share.min(100.0))) {} } }
                td.n { (server.in_flight) }
                td.n { (server.slots) }
                td.n { (server.waiting) }
                td.n { (server.buffer.map_or_else(|| "∞".to_owned(), |buffer| buffer.to_string())) }
                td.n { (server.routed_total) }
            }
        }
    };
    table("server", &columns, servers, row)
}

fn job_types(job_types: &[JobTypeStatus]) -> Markup {
    let columns = [
        ("job type", false),
        ("per second", true),
        ("mean response", true),
        ("in line", true),
        ("no place", true),
        ("no server", true),
        ("waited too long", true),
    ];
    let row = |job_type: &JobTypeStatus| {
        html! {
            tr {
                th scope="row" { (job_type.name) }
                td.n { (number(job_type.arrival_rate_per_s)) }
                td.n { (job_type.mean_response_s.map_or_else(|| "–".to_owned(), seconds)) }
                td.n { (job_type.waiting) }
                td.n class=[(job_type.blocked_total > 0).then_some("warn")] { (job_type.blocked_total) }
                td.n class=[(job_type.no_server_total > 0).then_some("warn")] { (job_type.no_server_total) }
                td.n class=[(job_type.queue_timeout_total > 0).then_some("warn")] { (job_type.queue_timeout_total) }
            }
        }
    };
    table("job type", &columns, job_types, row)
}

/// A table of the first [`ROWS`] of these.
fn table<T>(what: &str, columns: &[(&str, bool)], all: &[T], row: impl Fn(&T) -> Markup) -> Markup {
    html! {
        div.scroll {
            table {
                caption {
                    (counted(all.len(), what))
                    @if all.len() > ROWS { ", the first " (ROWS) " of the file; all are in /status" }
                }
                thead { tr { @for (name, is_number) in columns { th scope="col" class=[is_number.then_some("n")] { (name) } } } }
                tbody { @for one in all.iter().take(ROWS) { (row(one)) } }
            }
        }
    }
}

fn counted(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// Three digits, no exponent.
fn number(x: f64) -> String {
    match x {
        x if x >= 100.0 => format!("{x:.0}"),
        x if x >= 10.0 => format!("{x:.1}"),
        x if x > 0.0 && x < 0.01 => "< 0.01".to_owned(),
        x => format!("{x:.2}"),
    }
}

/// A time that a request takes.
fn seconds(s: f64) -> String {
    if s < 1.0 { format!("{} ms", number(1e3 * s)) } else { format!("{} s", number(s)) }
}

/// A time that people wait for.
fn duration(s: f64) -> String {
    let minutes = (s / 60.0) as u64;
    match minutes {
        0 => format!("{s:.0} s"),
        1..60 => format!("{minutes} min"),
        60..2880 => format!("{} h {} min", minutes / 60, minutes % 60),
        _ => format!("{} days", minutes / 1440),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status() -> Status {
        let server = |name: &str, in_flight: u64| ServerStatus {
            name: name.into(),
            server_type: "A10".into(),
            up: in_flight < 9,
            health: if in_flight < 9 { "up" } else { "tripped" },
            lost: Vec::new(),
            in_flight,
            waiting: in_flight.saturating_sub(2),
            slots: 2,
            buffer: Some(9),
            speed: None,
            routed_total: 1234,
        };
        Status {
            policy: "jfsq".into(),
            uptime_s: 3661.0,
            epoch: 1,
            waiting_total: 3,
            servers: vec![server("a<b>", 1), server("c", 9)],
            job_types: Vec::new(),
            bound: None,
        }
    }

    #[test]
    fn names_are_text_and_troubles_are_said() {
        let page = page("f & g", &status(), false, true);
        assert!(page.contains("a&lt;b&gt;") && !page.contains("a<b>"));
        assert!(page.contains("<title>f &amp; g</title>") && page.contains("1 h 1 min") && page.contains("1 of 2"));
        assert!(page.contains("width:50%") && page.contains("class=\"line\" style=\"width:100%\""));
        assert!(page.contains("tripped") && page.contains("could not be read again") && !page.contains("Stopping"));
    }

    #[test]
    fn a_long_table_says_what_it_leaves_out() {
        let mut status = status();
        status.servers = vec![status.servers[0].clone(); ROWS + 1];
        let page = page("", &status, true, false);
        assert_eq!(page.matches("a&lt;b&gt;").count(), ROWS);
        assert!(page.contains("501 servers, the first 500") && page.contains("Stopping"));
    }

    #[test]
    fn numbers_keep_three_digits() {
        assert_eq!([0.0, 0.001, 0.5, 12.34, 1234.5].map(number), ["0.00", "< 0.01", "0.50", "12.3", "1234"]);
        assert_eq!([0.0123, 2.5].map(seconds), ["12.3 ms", "2.50 s"]);
        assert_eq!([5.0, 90.0, 1e6].map(duration), ["5 s", "1 min", "11 days"]);
    }
}
