//! The report for people: a heading and a paragraph or table for each section.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use super::bounds::{self, BoundRow};
use super::connectivity::ConnectivitySection;
use super::figures::{counted, listed, or_dash, short};
use super::fleet::{FleetSection, Spread};
use super::guarantee::GuaranteeRow;
use super::model::ModelSection;
use super::report::Report;
use super::stability::{PolicyRow, StabilitySection};

/// Widest line of a table whose last column is prose.
const WIDTH: u16 = 118;

/// The whole page; lists show `top` names.
pub(super) fn page(report: &Report, top: usize) -> String {
    let fleet = &report.fleet;
    let title = format!(
        "{}: {} of {}, {}, {}",
        fleet.fleet,
        counted(fleet.servers, "server"),
        counted(fleet.server_types.len(), "type"),
        counted(fleet.job_types, "job type"),
        counted(fleet.edges as usize, "edge"),
    );
    let sections = [
        (String::new(), title),
        ("Fleet".to_owned(), fleet_text(fleet)),
        ("Stability".to_owned(), stability_text(&report.stability, fleet.uniform == Some(true), top)),
        ("What job types and servers are worth".to_owned(), worth_text(&report.stability, top)),
        (
            "Stability by policy".to_owned(),
            policies_text(&report.stability.stability_by_policy, fleet.has_finite_buffers()),
        ),
        ("Bounds: no policy has a shorter mean response time".to_owned(), bounds_text(&report.bounds)),
        ("Symbols of the papers".to_owned(), model_text(&report.model)),
        (
            "Connectivity: the share of the arrivals that some e servers have no copy of".to_owned(),
            connectivity_text(&report.connectivity),
        ),
        ("Guarantee: no more than this, in the long run".to_owned(), guarantee_text(&report.guarantee.guarantees)),
        ("Problems".to_owned(), items(&report.problems)),
        ("Advice".to_owned(), items(&report.advice)),
    ];
    let section = |(heading, body): (String, String)| match (heading.is_empty(), body.is_empty()) {
        (_, true) => None,
        (true, false) => Some(body),
        (false, false) => Some(format!("{heading}\n{body}")),
    };
    let page = sections.into_iter().filter_map(section).collect::<Vec<_>>().join("\n\n");
    // Tables fill their last column with blanks.
    page.lines().map(|line| wrapped(line.trim_end())).collect::<Vec<_>>().join("\n")
}

/// A line of prose, broken between words; the lines that follow are indented.
fn wrapped(line: &str) -> String {
    let (mut text, mut width) = (String::new(), 0);
    for word in line.split_inclusive(' ') {
        let length = word.trim_end().chars().count();
        if width > 0 && width + length > usize::from(WIDTH) {
            text.truncate(text.trim_end().len());
            text.push_str("\n   ");
            width = 3;
        }
        text.push_str(word);
        width += word.chars().count();
    }
    text
}

fn fleet_text(fleet: &FleetSection) -> String {
    let ranked = fleet.server_types.iter().any(|row| row.rank.is_some());
    let mut table = table(
        &["server type", "servers", "slots", if ranked { "rank" } else { "rate" }, "buffer", "job types held"],
        1..5,
    );
    for row in &fleet.server_types {
        let speed = row.rate.map(short).or(row.rank.map(|rank| rank.to_string()));
        table.add_row([
            row.name.clone(),
            row.servers.to_string(),
            row.slots.to_string(),
            speed.unwrap_or_default(),
            match row.buffer {
                (None, _) => "unbounded".to_owned(),
                (Some(least), Some(most)) if least == most => least.to_string(),
                (Some(least), Some(most)) => format!("{least} to {most}"),
                (Some(least), None) => format!("{least} to unbounded"),
            },
            spread(&row.job_types_held),
        ]);
    }
    let rates = match fleet.arrivals_per_s {
        Some(rate) => format!("{} jobs/s arrive", short(rate)),
        None => "Arrival rates are not all known".to_owned(),
    };
    let servers = spread(&fleet.servers_per_job_type);
    let depends = if fleet.uniform == Some(false) { " Service rates depend on the job type." } else { "" };
    format!("{table}\n Servers that hold a job type: {servers}. {rates}.{depends}")
}

/// `16`, or `1 to 8, mean 1.6`.
fn spread(spread: &Spread) -> String {
    if spread.min == spread.max {
        spread.min.to_string()
    } else {
        format!("{} to {}, mean {}", spread.min, spread.max, short(spread.mean))
    }
}

fn stability_text(stability: &StabilitySection, is_uniform: bool, top: usize) -> String {
    let word = match stability.stable {
        Some(true) => "stable",
        Some(false) => "NOT STABLE",
        None => "not known",
    };
    let mut lines = vec![format!(" {word}: {}", stability.stable_why)];
    lines.extend(stability.capacity.why.iter().map(|why| format!(" capacity: {why}")));
    if let Some(load) = stability.offered_load {
        let meaning = if is_uniform { "arriving work over what all servers can do" } else { "1 / s*" };
        let all = if stability.capacity.down.is_empty() { "" } else { ", those that stay down included" };
        lines.push(format!(" offered load {}: {meaning}{all}", short(load)));
    }
    if let Some(factor) = stability.max_load_factor {
        lines.push(format!(
            " largest load factor {}: by so much all arrival rates together can grow (s*)",
            short(factor)
        ));
    }
    if let Some([least, most]) = stability.max_load_factor_between {
        let (least, most) = (short(least), short(most));
        lines.push(format!(
            " largest load factor between {least} and {most}: by so much all arrival rates together can grow (s*)"
        ));
    }
    if let Some(why) = stability.slacks_why.as_ref().filter(|_| stability.max_load_factor_between.is_some()) {
        lines.push(format!(" {why}"));
    }
    let bottleneck = &stability.bottleneck;
    if bottleneck.whole_fleet {
        lines.push(" bottleneck: all servers together".to_owned());
    } else if !bottleneck.job_types.is_empty() {
        lines.push(format!(
            " bottleneck: {} ({}) on {} ({})",
            counted(bottleneck.job_types.len(), "job type"),
            listed(&bottleneck.job_types, top),
            counted(bottleneck.servers.len(), "server"),
            listed(&bottleneck.servers, top),
        ));
    }
    lines.join("\n")
}

fn worth_text(stability: &StabilitySection, top: usize) -> String {
    let mut lines = Vec::new();
    if !stability.slacks.is_empty() {
        let mut table = table(&["job type", "on servers", "can grow alone"], 1..3);
        for row in stability.slacks.iter().take(top) {
            let factor = or_dash(row.factor, " x");
            table.add_row([&row.job_type, &row.servers.to_string(), &at_most(factor, row.exact)]);
        }
        lines.push(table.to_string());
        lines.push(rest("job type", stability.slacks.len(), top, stability.slacks_not_computed));
    }
    if !stability.losses.is_empty() {
        let mut table = table(&["server", "type", "s* without it"], 2..3);
        for row in stability.losses.iter().take(top) {
            table.add_row([&row.server, &row.server_type, &at_most(short(row.max_load_factor), row.exact)]);
        }
        lines.push(table.to_string());
        lines.push(rest("server", stability.losses.len(), top, stability.losses_not_computed));
    }
    lines.retain(|line| !line.is_empty());
    lines.join("\n")
}

/// A figure that may be a bound only.
fn at_most(figure: String, is_exact: bool) -> String {
    if is_exact { figure } else { format!("at most {figure}") }
}

/// What a table of `rows` rows leaves out, and of how many there is no exact figure.
fn rest(what: &str, rows: usize, top: usize, not_exact: usize) -> String {
    let more = rows.saturating_sub(top);
    let more = (more > 0).then(|| format!("{} more (--top)", counted(more, what)));
    let bounded = (not_exact > 0).then(|| format!("{} not computed, only bounded (--all)", counted(not_exact, what)));
    let parts: Vec<String> = more.into_iter().chain(bounded).collect();
    if parts.is_empty() { String::new() } else { format!(" ... and {}", parts.join("; ")) }
}

/// Policies of which the same is known share a row.
fn policies_text(rows: &[PolicyRow], has_finite_buffers: bool) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let alike = |a: &PolicyRow, b: &PolicyRow| a.stable == b.stable && a.why == b.why;
    let mut table = table(&["policy", "stable", "why"], 0..0);
    for (i, row) in rows.iter().enumerate().filter(|&(i, row)| !rows[..i].iter().any(|other| alike(row, other))) {
        let names: Vec<&str> =
            rows[i..].iter().filter(|other| alike(row, other)).map(|other| other.policy.as_str()).collect();
        let stable = row.stable.map_or("not known", |stable| if stable { "yes" } else { "NO" });
        table.add_row([&names.join(", "), stable, row.why.trim_start_matches("not known: ")]);
    }
    let note = if has_finite_buffers {
        "\n Buffers are taken as unbounded: with the file's own, jobs are lost where queues would grow without end."
    } else {
        ""
    };
    format!("{table}{note}")
}

fn bounds_text(rows: &[BoundRow]) -> String {
    if let [first, others @ ..] = rows
        && rows.iter().all(|row| row.mean_jobs.is_none())
        && others.iter().all(|row| row.why == first.why)
    {
        return format!(" none: {}", first.why);
    }
    let mut table = table(&["bound", "mean response", "mean jobs", "holds", "assumes"], 1..3);
    for row in rows {
        table.add_row([
            row.kind.to_owned(),
            or_dash(row.mean_response_s, " s"),
            or_dash(row.mean_jobs, ""),
            if row.valid { "yes" } else { "no" }.to_owned(),
            row.assumes.to_owned(),
        ]);
    }
    let mut lines = vec![table.to_string()];
    // Each reason once, with the bounds that it is about.
    for (i, row) in rows.iter().enumerate() {
        if !rows[..i].iter().any(|earlier| earlier.why == row.why) {
            let alike = rows.iter().filter(|other| other.why == row.why).map(|other| other.kind.to_owned());
            let alike: Vec<String> = alike.collect();
            lines.push(format!(" {}: {}", listed(&alike, alike.len()), row.why));
        }
    }
    if let Some(bound) = bounds::largest(rows) {
        lines.push(format!(" The bound: {} ({})", or_dash(bound.mean_response_s, " s"), bound.kind));
    }
    lines.join("\n")
}

fn model_text(model: &ModelSection) -> String {
    let why = model.why.as_ref().map(|why| format!(" {why}"));
    let each = |numbers: &Option<Vec<f64>>| {
        numbers.as_ref().map(|numbers| numbers.iter().map(|&x| short(x)).collect::<Vec<_>>().join(", "))
    };
    let rows = [
        ("N", model.slots.map(|n| n.to_string()), "slots of servers that hold a job type"),
        ("M", model.classes.map(|m| m.to_string()), "speed classes"),
        ("mu_m", each(&model.mu_m), "jobs/s of one slot, by class"),
        ("lambda", model.lambda.map(short), "jobs/s that arrive, per slot"),
        ("K", model.needed.map(|k| k.to_string()), "classes needed, fastest first"),
        ("beta", model.beta.map(short), "part of their capacity to spare; their load is 1 - beta"),
        ("C*", model.busy.map(short), "fluid optimum: busy slots over all slots"),
        ("C*_m", each(&model.busy_by_class), "the same by class"),
        ("tau_1K", model.tau_1k.map(short), "mu_1 / mu_K"),
        ("tau_1M", model.tau_1m.map(short), "mu_1 / mu_M"),
        ("tau_KM", model.tau_km.map(short), "mu_K / mu_M"),
    ];
    let mut table = table(&[], 0..0);
    for (symbol, value, meaning) in rows {
        if let Some(value) = value {
            table.add_row([symbol, &value, meaning]);
        }
    }
    let symbols = (!table.is_empty()).then(|| table.to_string());
    why.into_iter().chain(symbols).collect::<Vec<_>>().join("\n")
}

fn connectivity_text(section: &ConnectivitySection) -> String {
    if let Some(why) = &section.connectivity_why {
        return format!(" none: {why}");
    }
    let mut table = table(&["fastest types", "servers", "e", "at least", "at most"], 0..5);
    for row in &section.connectivity {
        table.add_row([
            row.fastest_types.to_string(),
            row.servers.to_string(),
            row.servers_left_out.to_string(),
            short(row.lower),
            if row.exact { "exact".to_owned() } else { short(row.upper) },
        ]);
    }
    table.to_string()
}

fn guarantee_text(rows: &[GuaranteeRow]) -> String {
    let mut lines = Vec::new();
    if rows.iter().any(GuaranteeRow::says_something) {
        let header = ["policies", "mean response", "over fluid", "mean jobs", "blocked", "chi", "m", "e"];
        let mut table = table(&header, 1..8);
        for row in rows.iter().filter(|row| row.says_something()) {
            let count = |number: Option<usize>| number.map_or("-".to_owned(), |number| number.to_string());
            table.add_row([
                row.policies.join(", "),
                or_dash(row.mean_response_s, " s"),
                or_dash(row.ratio_to_fluid, ""),
                or_dash(row.mean_jobs, ""),
                or_dash(row.blocking_probability, ""),
                or_dash(row.chi, ""),
                count(row.m),
                count(row.e),
            ]);
        }
        lines.push(table.to_string());
    }
    for (i, row) in rows.iter().enumerate().filter(|&(i, row)| !rows[..i].iter().any(|other| other.why == row.why)) {
        let alike = rows[i..].iter().filter(|other| other.why == row.why).flat_map(|row| row.policies.clone());
        let alike: Vec<String> = alike.collect();
        let which = if alike.is_empty() { "none".to_owned() } else { alike.join(", ") };
        lines.push(format!(" {which}: {}", row.why));
    }
    lines.join("\n")
}

fn items(lines: &[String]) -> String {
    lines.iter().map(|line| format!(" - {line}")).collect::<Vec<_>>().join("\n")
}

/// A table without lines; columns of `numbers` are aligned to the right.
fn table(header: &[&str], numbers: std::ops::Range<usize>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic).set_width(WIDTH);
    if !header.is_empty() {
        table.set_header(header.iter().copied());
    }
    for i in numbers {
        if let Some(column) = table.column_mut(i) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}
