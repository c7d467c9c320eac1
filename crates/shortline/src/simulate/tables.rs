//! The report as a table for people and as CSV for programs.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use comfy_table::{CellAlignment, Table, presets};
use shortline_sim::{Estimate, Means, PolicyReport, Report};

use super::long_run::Simulated;
use super::mean_field::{AtRest, Predicted};
use super::sweep::Point;
use crate::digits;
use crate::failure::Failure;
use crate::outputs::unwritten;

const COLUMNS: [&str; 9] =
    ["policy", "mean response", "over the bound", "waiting", "service", "95 % below", "waits", "blocked", "engine"];

/// `mean_field`: what goes into one more column.
pub(super) fn table(report: &Report, mean_field: Option<&[Predicted<AtRest>]>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(COLUMNS.into_iter().chain(mean_field.map(|_| "mean field")));
    for (i, policy) in report.policies.iter().enumerate() {
        let mut row = row(policy);
        if let Some(predicted) = mean_field {
            row.resize(COLUMNS.len(), String::new());
            row.push(predicted[i].cell());
        }
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn row(policy: &PolicyReport) -> Vec<String> {
    let Some(means) = &policy.means else {
        let Some(growth) = policy.growth_jobs_per_s else { return vec![policy.policy.clone(), "no means".to_owned()] };
        let some = policy.growing_replications.filter(|&some| some < policy.replications);
        let of = some.map_or(String::new(), |some| format!(" in {some} of {} replications", policy.replications));
        return vec![policy.policy.clone(), format!("unstable: +{} jobs/s{of}", digits::short(growth))];
    };
    let or_dash = |text: Option<String>| text.unwrap_or("-".to_owned());
    let seconds = |estimate: Option<Estimate>| or_dash(estimate.map(|e| shown(&e, 1.0, " s")));
    let percent = |estimate: Option<Estimate>| or_dash(estimate.map(|e| shown(&e, 100.0, " %")));
    vec![
        policy.policy.clone(),
        seconds(means.mean_response_s),
        or_dash(policy.ratio_to_bound.map(|e| shown(&e, 1.0, ""))),
        seconds(means.mean_waiting_s),
        seconds(means.mean_service_s),
        seconds(means.p95_response_s),
        percent(means.fraction_waiting),
        match means.reneged_probability.filter(|gave_up| gave_up.mean > 0.0) {
            None => percent(means.blocking_probability),
            gave_up => format!("{} + {} gave up", percent(means.blocking_probability), percent(gave_up)),
        },
        engine(policy),
    ]
}

/// An estimate in another unit.
pub(super) fn shown(estimate: &Estimate, factor: f64, unit: &str) -> String {
    digits::measured(estimate.mean * factor, estimate.ci95.map(|end| end * factor), unit)
}

/// A load as people read it.
pub(super) fn load(load: f64) -> String {
    if (1e-3..1e6).contains(&load) { format!("{load:.4}") } else { digits::short(load) }
}

/// The columns of the CSV.
const CSV_COLUMNS: [&str; 34] = [
    "fleet",
    "servers",
    "job_types",
    "edges",
    "load",
    "degree",
    "offered_load",
    "policy",
    "engine",
    "seed",
    "unstable",
    "growth_jobs_per_s",
    "converged",
    "mean_response_s",
    "mean_response_low_s",
    "mean_response_high_s",
    "mean_waiting_s",
    "mean_service_s",
    "mean_jobs",
    "p50_response_s",
    "p95_response_s",
    "p99_response_s",
    "fraction_waiting",
    "blocking_probability",
    "reneged_probability",
    "bound_kind",
    "bound_s",
    "ratio_to_bound",
    "ratio_low",
    "ratio_high",
    "events",
    "warmup_events",
    "simulated_s",
    "cpu_s",
];

/// The CSV file: a row per policy and point, written out as soon as the point is done.
pub(super) struct CsvFile<'a> {
    file: File,
    path: &'a Path,
}

impl<'a> CsvFile<'a> {
    /// A new file with the names of the columns.
    pub(super) fn create(path: &'a Path) -> Result<Self, Failure> {
        let file = File::create(path).map_err(|error| unwritten(path, error))?;
        let mut csv = Self { file, path };
        csv.put(&(CSV_COLUMNS.join(",") + "\n"))?;
        Ok(csv)
    }

    /// The rows of a point.
    pub(super) fn write(&mut self, simulated: &Simulated) -> Result<(), Failure> {
        let rows: Vec<String> = simulated.report.policies.iter().map(|policy| csv_row(simulated, policy)).collect();
        self.put(&rows.concat())
    }

    /// Unbuffered: what is done is in the file, whatever becomes of the run.
    fn put(&mut self, text: &str) -> Result<(), Failure> {
        self.file.write_all(text.as_bytes()).map_err(|error| unwritten(self.path, error))
    }
}

fn csv_row(simulated: &Simulated, policy: &PolicyReport) -> String {
    let Simulated { point, load, report, .. } = simulated;
    let means = policy.means.as_ref();
    let mean = |of: fn(&Means) -> Option<Estimate>| number(means.and_then(of).map(|e| e.mean));
    let response = means.and_then(|means| means.mean_response_s);
    let ratio = policy.ratio_to_bound;
    let row: [String; CSV_COLUMNS.len()] = [
        quoted(&report.fleet),
        report.servers.to_string(),
        report.job_types.to_string(),
        report.edges.to_string(),
        number(*load),
        point.and_then(Point::degree).map_or(String::new(), |degree| degree.to_string()),
        number(report.offered_load),
        quoted(&policy.policy),
        engine(policy),
        policy.seed.to_string(),
        policy.unstable.to_string(),
        number(policy.growth_jobs_per_s),
        policy.converged.to_string(),
        number(response.map(|e| e.mean)),
        number(response.map(|e| e.ci95[0])),
        number(response.map(|e| e.ci95[1])),
        mean(|means| means.mean_waiting_s),
        mean(|means| means.mean_service_s),
        mean(|means| means.mean_jobs),
        mean(|means| means.p50_response_s),
        mean(|means| means.p95_response_s),
        mean(|means| means.p99_response_s),
        mean(|means| means.fraction_waiting),
        mean(|means| means.blocking_probability),
        mean(|means| means.reneged_probability),
        policy.bound.as_ref().map_or(String::new(), |bound| bound.kind.clone()),
        number(policy.bound.as_ref().map(|bound| bound.mean_response_s)),
        number(ratio.map(|e| e.mean)),
        number(ratio.map(|e| e.ci95[0])),
        number(ratio.map(|e| e.ci95[1])),
        policy.events.to_string(),
        policy.warmup_events.to_string(),
        digits::exact(policy.simulated_s),
        digits::exact(policy.cpu_s),
    ];
    row.join(",") + "\n"
}

fn engine(policy: &PolicyReport) -> String {
    format!("{:?}", policy.engine).to_lowercase()
}

/// A field of CSV that may hold commas.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A field of CSV; empty without a value, and for the end of an interval that there is not.
pub(super) fn number(value: Option<f64>) -> String {
    value.filter(|value| !value.is_nan()).map_or(String::new(), digits::exact)
}
