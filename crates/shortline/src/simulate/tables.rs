//! The report as a table for people and as CSV for programs.

use comfy_table::{CellAlignment, Table, presets};
use shortline_sim::{Estimate, PolicyReport, Report};

use super::Simulated;
use super::sweep::Point;

const COLUMNS: [&str; 9] =
    ["policy", "mean response", "over the bound", "waiting", "service", "95 % below", "waits", "blocked", "engine"];

pub(super) fn table(report: &Report) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(COLUMNS);
    for policy in &report.policies {
        table.add_row(row(policy));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn row(policy: &PolicyReport) -> Vec<String> {
    let engine = format!("{:?}", policy.engine).to_lowercase();
    let Some(means) = &policy.means else {
        let growth = policy.growth_jobs_per_s.unwrap_or(f64::NAN);
        return vec![policy.policy.clone(), format!("unstable: +{growth:.3} jobs/s")];
    };
    let or_dash = |text: Option<String>| text.unwrap_or("-".to_owned());
    let seconds = |estimate: Option<Estimate>| or_dash(estimate.map(|e| with_error(&e, 1.0, " s")));
    let percent = |estimate: Option<Estimate>| or_dash(estimate.map(|e| with_error(&e, 100.0, " %")));
    vec![
        policy.policy.clone(),
        seconds(means.mean_response_s),
        or_dash(policy.ratio_to_bound.map(|e| with_error(&e, 1.0, ""))),
        seconds(means.mean_waiting_s),
        seconds(means.mean_service_s),
        seconds(means.p95_response_s),
        percent(means.fraction_waiting),
        percent(means.blocking_probability),
        engine,
    ]
}

pub(super) fn with_error(estimate: &Estimate, factor: f64, unit: &str) -> String {
    let half_width = 0.5 * (estimate.ci95[1] - estimate.ci95[0]) * factor;
    let mean = estimate.mean * factor;
    // Two digits of the half-width.
    let digits = if half_width > 0.0 { (1.0 - half_width.log10().floor()).clamp(0.0, 9.0) as usize } else { 3 };
    format!("{mean:.digits$} ±{half_width:.digits$}{unit}")
}

/// One row per policy and point.
pub(super) fn csv(points: &[Simulated]) -> String {
    let mut text =
        "fleet,servers,job_types,edges,offered_load,policy,unstable,converged,mean_response_s,mean_response_low_s,\
        mean_response_high_s,mean_waiting_s,mean_service_s,p50_response_s,p95_response_s,p99_response_s,\
        fraction_waiting,blocking_probability,bound,bound_s,events,degree\n"
            .to_owned();
    for Simulated { point, report } in points {
        for policy in &report.policies {
            text += &csv_row(*point, report, policy);
        }
    }
    text
}

fn csv_row(point: Option<Point>, report: &Report, policy: &PolicyReport) -> String {
    let means = policy.means.as_ref();
    let mean = |of: fn(&shortline_sim::Means) -> Option<Estimate>| number(means.and_then(of).map(|e| e.mean));
    let response = means.and_then(|means| means.mean_response_s);
    [
        quoted(&report.fleet),
        report.servers.to_string(),
        report.job_types.to_string(),
        report.edges.to_string(),
        number(report.offered_load),
        quoted(&policy.policy),
        policy.unstable.to_string(),
        policy.converged.to_string(),
        number(response.map(|e| e.mean)),
        number(response.map(|e| e.ci95[0])),
        number(response.map(|e| e.ci95[1])),
        mean(|means| means.mean_waiting_s),
        mean(|means| means.mean_service_s),
        mean(|means| means.p50_response_s),
        mean(|means| means.p95_response_s),
        mean(|means| means.p99_response_s),
        mean(|means| means.fraction_waiting),
        mean(|means| means.blocking_probability),
        policy.bound.as_ref().map_or(String::new(), |bound| bound.kind.clone()),
        number(policy.bound.as_ref().map(|bound| bound.mean_response_s)),
        policy.events.to_string(),
        point.and_then(Point::degree).map_or(String::new(), |degree| degree.to_string()),
    ]
    .join(",")
        + "\n"
}

/// A field of CSV that may hold commas.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A field of CSV; empty without a value.
pub(super) fn number(value: Option<f64>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}
