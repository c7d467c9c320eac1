//! What one simulation found: response times against the bound, job types, the law of response times, occupancy, the run.
//!
//! A policy without means is shown as what it is, unstable or stopped too early, wherever its figures would be.

use maud::{Markup, PreEscaped, html};
use shortline_sim::{Estimate, JobTypeReport, Means, PolicyReport, Report, ServerTypeReport};

use super::bars::{Bar, Bars};
use super::numbers::{estimate, grouped, percent, plain, seconds, value};
use crate::failure::Failure;
use crate::figure::{Axis, Figure, Panel, Series};
use crate::number::Number;
use crate::page::{self, Column, table};
use crate::simulate::tables::shown;

/// Job types drawn; the table has more.
const JOB_TYPES_DRAWN: usize = 20;
/// Server types drawn, and in the table.
const SERVER_TYPES_DRAWN: usize = 6;
const SERVER_TYPES_LISTED: usize = 50;
/// Numbers of jobs in the table of occupancies.
const LEVELS_LISTED: usize = 8;

/// All of it, with at most so many job types in their table.
pub(super) fn sections(report: &Report, job_types_listed: usize) -> Result<Markup, Failure> {
    Ok(html! {
        h2 { "Response time" }
        (response(report))
        (differences(report))
        @if known(report).next().is_some() {
            h2 { "Job types" }
            (job_types(report, job_types_listed))
            h2 { "Law of the response times" }
            (law(report)?)
            h2 { "Occupancy" }
            (occupancy(report)?)
        }
        h2 { "The runs" }
        (runs(report))
    })
}

/// The policies that have means.
fn known(report: &Report) -> impl Iterator<Item = (&PolicyReport, &Means)> {
    report.policies.iter().filter_map(|policy| Some((policy, policy.means.as_ref()?)))
}

/// Why a policy has no means, or what to know of those it has; nothing if all is well.
pub(super) fn state(policy: &PolicyReport) -> Option<String> {
    if policy.unstable {
        let some = policy.growing_replications.filter(|&some| some < policy.replications);
        let of = some.map_or(String::new(), |some| format!(" in {some} of {} replications", policy.replications));
        let growth = policy.growth_jobs_per_s.map_or(String::new(), |growth| format!(": +{} jobs/s", plain(growth)));
        return Some(format!("unstable{growth}{of}"));
    }
    match (&policy.means, policy.converged) {
        (None, _) => Some("no means".to_owned()),
        (_, false) => Some("not converged".to_owned()),
        _ => None,
    }
}

/// A policy's name, and its state where there is something to know.
pub(super) fn named(policy: &PolicyReport) -> Markup {
    html! { (policy.policy) @if let Some(state) = state(policy) { " " span.warn { "(" (state) ")" } } }
}

fn response(report: &Report) -> Markup {
    let title = "Mean response time by policy.";
    let caption =
        "Service (filled) and waiting (hollow) make the response time; no policy can be below the bound (dashed).";
    let bars = Bars {
        title,
        description: caption,
        axis: "mean response time, seconds",
        parts: Some(["service", "waiting"]),
        rows: report.policies.iter().map(response_bar).collect(),
        widths: [130.0, 510.0, 220.0],
    };
    let end = bars.end();
    html! {
        (page::figure(title, caption, &bars.svg(end), None))
        (table("Means with 95 % intervals", &MEANS, &report.policies.iter().map(means).collect::<Vec<_>>()))
        (table("Percentiles of the response time, and what became of the jobs", &SHARES, &report.policies.iter().map(shares).collect::<Vec<_>>()))
        (notes(report))
    }
}

fn response_bar(policy: &PolicyReport) -> Bar {
    let name = policy.policy.clone();
    let state = state(policy);
    let mean = policy.means.as_ref().and_then(|m| Some((m.mean_response_s?, m.mean_service_s?, m.mean_waiting_s?)));
    match mean {
        None => Bar { name, text: state.unwrap_or("no job was accepted".to_owned()), ..Bar::default() },
        Some((response, service, waiting)) => Bar {
            name,
            first: service.mean,
            second: waiting.mean,
            interval: response.has_interval().then_some(response.ci95),
            bound: policy.bound.as_ref().map(|bound| bound.mean_response_s),
            text: shown(&response, 1.0, " s") + &state.map_or(String::new(), |state| format!(", {state}")),
            is_known: true,
        },
    }
}

const MEANS: [(&str, Column); 6] = [
    ("policy", Column::Words),
    ("mean response", Column::Numbers),
    ("bound", Column::Numbers),
    ("over the bound", Column::Numbers),
    ("waiting", Column::Numbers),
    ("service", Column::Numbers),
];

fn means(policy: &PolicyReport) -> Vec<Markup> {
    let of = |time: fn(&Means) -> Option<Estimate>| policy.means.as_ref().and_then(time);
    let bound = match &policy.bound {
        Some(bound) => html! { (value(Some(bound.mean_response_s), 1.0, " s")) " (" (bound.kind) ")" },
        None => html! { "–" },
    };
    vec![
        named(policy),
        seconds(of(|m| m.mean_response_s)),
        bound,
        estimate(policy.ratio_to_bound, 1.0, ""),
        seconds(of(|m| m.mean_waiting_s)),
        seconds(of(|m| m.mean_service_s)),
    ]
}

const SHARES: [(&str, Column); 8] = [
    ("policy", Column::Words),
    ("50 % below", Column::Numbers),
    ("95 % below", Column::Numbers),
    ("99 % below", Column::Numbers),
    ("waits", Column::Numbers),
    ("blocked", Column::Numbers),
    ("reneged", Column::Numbers),
    ("jobs in the fleet", Column::Numbers),
];

fn shares(policy: &PolicyReport) -> Vec<Markup> {
    let of = |share: fn(&Means) -> Option<Estimate>| policy.means.as_ref().and_then(share);
    vec![
        named(policy),
        seconds(of(|m| m.p50_response_s)),
        seconds(of(|m| m.p95_response_s)),
        seconds(of(|m| m.p99_response_s)),
        percent(of(|m| m.fraction_waiting)),
        percent(of(|m| m.blocking_probability)),
        percent(of(|m| m.reneged_probability)),
        estimate(of(|m| m.mean_jobs), 1.0, ""),
    ]
}

/// Why there are no means, no bound or no intervals, in the words of the simulator.
pub(super) fn notes(report: &Report) -> Markup {
    let lacking = |policy: &PolicyReport| match (&policy.means, &policy.bound) {
        (None, _) => "no means",
        (Some(_), None) => "no bound",
        (Some(_), Some(_)) => "to know",
    };
    html! {
        @if report.policies.iter().any(|policy| policy.why.is_some()) {
            ul {
                @for policy in &report.policies {
                    @if let Some(why) = &policy.why { li { strong { (policy.policy) } ", " (lacking(policy)) ": " (why) } }
                }
            }
        }
    }
}

fn differences(report: &Report) -> Markup {
    let row = |difference: &shortline_sim::Difference| {
        let names = html! { (difference.a) " / " (difference.b) };
        vec![names, estimate(difference.mean_response_ratio, 1.0, "")]
    };
    let columns = [("policies", Column::Words), ("ratio of the mean response times", Column::Numbers)];
    html! {
        @if !report.differences.is_empty() {
            details {
                summary { "Each pair of policies, on the same arrivals" }
                (table("Below 1, the first one is faster", &columns, &report.differences.iter().map(row).collect::<Vec<_>>()))
            }
        }
    }
}

fn job_types(report: &Report, most_listed: usize) -> Markup {
    let all: Vec<(&PolicyReport, &Means)> = known(report).collect();
    let figures: Vec<(String, Bars<'_>)> = all.iter().map(|(policy, means)| job_type_bars(policy, means)).collect();
    let end = figures.iter().map(|(_, bars)| bars.end()).fold(0.0, f64::max);
    let known = all[0].1.per_job_type.len();
    let (listed, drawn) = (known.min(most_listed), known.min(JOB_TYPES_DRAWN));
    html! {
        p.quiet {
            "Mean response time of each job type, with its 95 % interval, on one scale. Drawn: "
            @if drawn < report.job_types { "the " (drawn) " most frequent of " (grouped(report.job_types as u64)) "." } @else { "all " (drawn) "." }
        }
        div.side { @for (title, bars) in &figures { (page::figure(title, "", &bars.svg(end), None)) } }
        details {
            summary { "The numbers" }
            (job_type_table(report, &all, listed))
            @if listed < report.job_types {
                p.quiet {
                    "The " (listed) " most frequent of " (grouped(report.job_types as u64))
                    "; " code { "--json --per-type all" } " has all."
                }
            }
        }
    }
}

fn job_type_bars<'a>(policy: &'a PolicyReport, means: &Means) -> (String, Bars<'a>) {
    let bar = |job_type: &JobTypeReport| {
        let name = job_type.name.clone();
        match job_type.mean_response_s {
            None => Bar { name, text: "not measured".to_owned(), ..Bar::default() },
            Some(mean) => Bar {
                name,
                first: mean.mean,
                interval: mean.has_interval().then_some(mean.ci95),
                text: shown(&mean, 1.0, " s"),
                is_known: true,
                ..Bar::default()
            },
        }
    };
    let bars = Bars {
        title: &policy.policy,
        description: "Mean response time of each job type, the most frequent first",
        axis: "mean response time, seconds",
        parts: None,
        rows: means.per_job_type.iter().take(JOB_TYPES_DRAWN).map(bar).collect(),
        widths: [110.0, 180.0, 150.0],
    };
    (policy.policy.clone(), bars)
}

fn job_type_table(report: &Report, all: &[(&PolicyReport, &Means)], listed: usize) -> Markup {
    let is_lossy = |(_, means): &(&PolicyReport, &Means)| {
        means.per_job_type.iter().any(|l| l.blocking_probability.is_some_and(|share| share.mean > 0.0))
    };
    let lossy = all.iter().any(is_lossy);
    let names: Vec<[String; 2]> =
        all.iter().map(|(p, _)| [format!("{}: response", p.policy), format!("{}: blocked", p.policy)]).collect();
    let mut columns = vec![("job type", Column::Words), ("share of arrivals", Column::Numbers)];
    for [response, blocked] in &names {
        columns.push((response, Column::Numbers));
        columns.extend(lossy.then_some((blocked.as_str(), Column::Numbers)));
    }
    let row = |i: usize| {
        let first = &all[0].1.per_job_type[i];
        let mut row = vec![html! { (first.name) }, value(Some(first.share), 100.0, " %")];
        for (_, means) in all {
            let job_type = means.per_job_type.get(i);
            row.push(seconds(job_type.and_then(|l| l.mean_response_s)));
            if lossy {
                row.push(percent(job_type.and_then(|l| l.blocking_probability)));
            }
        }
        row
    };
    let rows: Vec<Vec<Markup>> = (0..listed).map(row).collect();
    let caption = format!("Job types of {}, the most frequent first", report.fleet);
    table(&caption, &columns, &rows)
}

fn law(report: &Report) -> Result<Markup, Failure> {
    let series = |(policy, means): (&PolicyReport, &Means)| Series {
        label: policy.policy.clone(),
        points: means.response_cdf.iter().map(|point| (point.time_s, point.share.map(Number::from))).collect(),
    };
    let title = "Share of the jobs that are done within a time.";
    let caption = "Accepted jobs; 95 % intervals are bars, often too short to be seen. The time axis is logarithmic.";
    let figure = Figure {
        name: "law",
        title: title.to_owned(),
        caption: caption.to_owned(),
        x: Axis::log("response time, seconds"),
        y: Axis::linear("share of the jobs").ticks([0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        bound: None,
        panels: vec![Panel { title: String::new(), series: known(report).map(series).collect() }],
    };
    let numbers = html! { @for (policy, means) in known(report) { (law_table(policy, means)) } };
    Ok(page::figure(title, caption, &plot(&figure.inline(&[])?), Some(&numbers)))
}

fn law_table(policy: &PolicyReport, means: &Means) -> Markup {
    let rows: Vec<Vec<Markup>> = means
        .response_cdf
        .iter()
        .map(|point| vec![value(Some(point.time_s), 1.0, " s"), percent(point.share)])
        .collect();
    let columns = [("response time at most", Column::Numbers), ("share of the jobs", Column::Numbers)];
    table(&policy.policy, &columns, &rows)
}

fn occupancy(report: &Report) -> Result<Markup, Failure> {
    let types = known(report).next().map_or(&[][..], |(_, means)| &means.per_server_type);
    let panel = |(m, server_type): (usize, &ServerTypeReport)| {
        let series = |(policy, means): (&PolicyReport, &Means)| {
            let levels = means.per_server_type.get(m).map_or(&[][..], |server_type| &server_type.occupancy);
            let point = |(i, &share): (usize, &f64)| ((i + 1) as f64, Some(Number::exact(share)));
            Series {
                label: policy.policy.clone(),
                points: levels.iter().take(LEVELS_DRAWN).enumerate().map(point).collect(),
            }
        };
        Panel { title: page::fitting(&server_type.name, 40), series: known(report).map(series).collect() }
    };
    let title = "Share of the servers with so many jobs or more, by server type.";
    let drawn = types.len().min(SERVER_TYPES_DRAWN);
    let caption = format!(
        "Of {drawn} of {} server types, fastest first. Shares come without intervals; utilisation and mean jobs in the table \
         have theirs.",
        types.len()
    );
    let figure = Figure {
        name: "occupancy",
        title: title.to_owned(),
        caption: caption.clone(),
        x: Axis::linear("jobs at a server, those in service included").ticks(levels(report)),
        y: Axis::linear("share of the servers").ticks([0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        bound: None,
        panels: types.iter().enumerate().take(SERVER_TYPES_DRAWN).map(panel).collect(),
    };
    Ok(page::figure(title, &caption, &plot(&figure.inline(&[])?), Some(&occupancy_table(report))))
}

/// Most numbers of jobs on the axis of occupancies.
const LEVELS_DRAWN: usize = 30;

/// Whole numbers for the axis of occupancies, ten or so.
fn levels(report: &Report) -> impl Iterator<Item = f64> + use<> {
    let types = known(report).flat_map(|(_, means)| &means.per_server_type);
    let most = types.map(|server_type| server_type.occupancy.len().min(LEVELS_DRAWN)).max().unwrap_or(1).max(2);
    let step = most.div_ceil(10);
    (1..=most).filter(move |i| (i - 1) % step == 0).map(|i| i as f64)
}

fn occupancy_table(report: &Report) -> Markup {
    let levels: Vec<String> = (1..=LEVELS_LISTED).map(|i| format!("≥ {i}")).collect();
    let mut columns = vec![
        ("server type", Column::Words),
        ("policy", Column::Words),
        ("busy", Column::Numbers),
        ("mean jobs", Column::Numbers),
        ("fluid optimum", Column::Numbers),
    ];
    columns.extend(levels.iter().map(|level| (level.as_str(), Column::Numbers)));
    let types = known(report).next().map_or(0, |(_, means)| means.per_server_type.len());
    let row = |policy: &PolicyReport, m: &ServerTypeReport| {
        let mut row = vec![
            html! { (m.name) },
            html! { (policy.policy) },
            percent(m.utilisation),
            estimate(m.mean_jobs, 1.0, ""),
            value(m.fluid_mean_jobs, 1.0, ""),
        ];
        row.extend((0..LEVELS_LISTED).map(|i| value(m.occupancy.get(i).copied().or(Some(0.0)), 100.0, " %")));
        row
    };
    let rows: Vec<Vec<Markup>> = (0..types.min(SERVER_TYPES_LISTED))
        .flat_map(|m| known(report).map(move |(policy, means)| row(policy, &means.per_server_type[m])))
        .collect();
    html! {
        (table("Busy slots, jobs per server, and share of the servers with so many jobs or more", &columns, &rows))
        p.quiet {
            "Shares below 1e-7 count as 0. " code { "--json" } " has up to 64 numbers of jobs"
            @if types > SERVER_TYPES_LISTED { " and all " (types) " server types; here are the fastest " (SERVER_TYPES_LISTED) }
            "."
        }
    }
}

fn runs(report: &Report) -> Markup {
    let row = |policy: &PolicyReport| {
        vec![
            named(policy),
            html! { (format!("{:?}", policy.engine).to_lowercase()) },
            html! { (policy.replications) },
            html! { (grouped(policy.events)) },
            html! { (grouped(policy.warmup_events)) },
            value(Some(policy.simulated_s), 1.0, " s"),
            value(Some(policy.false_alarm_rate), 1.0, ""),
            html! { (policy.engine_why) },
        ]
    };
    let columns = [
        ("policy", Column::Words),
        ("engine", Column::Words),
        ("replications", Column::Numbers),
        ("events", Column::Numbers),
        ("of these, warm-up", Column::Numbers),
        ("simulated time", Column::Numbers),
        ("false alarms of instability", Column::Numbers),
        ("why this engine", Column::Words),
    ];
    let rows: Vec<Vec<Markup>> = report.policies.iter().map(row).collect();
    table("What was simulated; events and times are summed over independent replications", &columns, &rows)
}

/// A drawing of the common module.
pub(super) fn plot(svg: &str) -> Markup {
    html! { div.plot { (PreEscaped(svg)) } }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A report of one policy with means and without a bound.
    fn without_bound(why: &str) -> Value {
        let one = json!({ "mean": 1.5, "ci95": [1.25, 1.75] });
        let mut policy = json!({
            "policy": "jfsq", "engine": "markov", "engine_why": "", "unstable": false, "false_alarm_rate": 0.0,
            "converged": true, "bound": null, "why": why, "ratio_to_bound": null, "events": 10, "warmup_events": 5,
            "simulated_s": 2.0, "cpu_s": 0.0, "replications": 4, "seed": 1, "per_job_type": [], "per_server_type": [],
            "response_cdf": [],
        });
        let estimates = "mean_response_s mean_waiting_s mean_service_s mean_jobs fraction_waiting p50_response_s \
                         p95_response_s p99_response_s blocking_probability reneged_probability throughput_per_s";
        estimates.split_whitespace().for_each(|name| policy[name] = one.clone());
        json!({
            "fleet": "f", "servers": 1, "job_types": 1, "edges": 1, "offered_load": 0.5, "policies": [policy],
            "differences": [],
        })
    }

    #[test]
    fn a_bound_that_is_not_known_is_a_dash_and_its_why() {
        let report: Report = serde_json::from_value(without_bound("jobs <can> be lost")).unwrap();
        assert_eq!(
            serde_json::to_value(&report).unwrap(),
            without_bound("jobs <can> be lost"),
            "it reads as it is written"
        );
        let page = sections(&report, 10).unwrap().into_string();
        assert!(page.contains("<strong>jfsq</strong>, no bound: jobs &lt;can&gt; be lost"), "{page}");
        assert!(page.contains("1.50 ±0.25 s") && page.contains(r#"<td class="n">–</td>"#), "{page}");
        assert!(!page.contains("class=\"bound\""), "nothing is drawn for it");
    }
}
