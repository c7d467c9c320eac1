//! `--mean-field`: what the limit of large fleets says, beside what was simulated.
//!
//! Per policy either the figures or the reason why there are none; in the JSON as `mean_field` in the policy's entry.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use shortline_core::Fleet;
use shortline_core::policy::PolicySpec;
use shortline_theory::TheoryError;
use shortline_theory::mean_field::{ClassState, MeanField};

use crate::digits::{exact, short};
use crate::failure::Failure;

/// What the mean field says about a policy, in one of two forms: at rest, or in time.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Predicted<T> {
    Known(T),
    Unknown { why: String },
}

impl<T> Predicted<T> {
    /// Nobody waited for it.
    pub(super) fn stopped() -> Self {
        Self::Unknown { why: "the run was stopped before it was computed".to_owned() }
    }
}

/// The fixed point.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct AtRest {
    mean_response_s: f64,
    mean_waiting_s: f64,
    mean_service_s: f64,
    mean_jobs: f64,
    fraction_waiting: f64,
    blocking_probability: f64,
    per_server_type: Vec<OfType>,
    /// Why it is an approximation for this fleet; `null` where it is the limit of growing fleets and the fleet is not small.
    caveat: Option<String>,
    residual: f64,
    truncation_error: f64,
}

/// A server type; means as the simulator gives them, servers without a job type included.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct OfType {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    utilisation: Option<f64>,
    mean_jobs: f64,
    occupancy: Vec<f64>,
}

/// The fleet in time, from empty.
#[derive(Debug, Serialize)]
pub(super) struct InTime {
    points: Vec<Moment>,
    caveat: Option<String>,
    truncation_error: f64,
}

#[derive(Debug, Serialize)]
struct Moment {
    time_s: f64,
    mean_jobs: f64,
    per_server_type: Vec<OfType>,
}

/// Fewer servers than this, and errors of the order of `1/N` exceed the simulation's default accuracy of 1 %.
const LARGE: usize = 100;

/// What keeps the figures from being those of this fleet: its graph, and that it is small.
fn caveat(fleet: &Fleet, of_graph: Option<String>) -> Option<String> {
    let servers = fleet.server_count();
    let of_size = (servers < LARGE).then(|| {
        let count = if servers == 1 { "1 server is".to_owned() } else { format!("{servers} servers are") };
        format!(
            "the limit of large fleets, and {count} few: expect it to be wrong by something like 1/N = {:.2} relative, far more \
             near load 1; chance leaves fast servers idle that are always busy in the limit, and the other way round",
            1.0 / servers as f64
        )
    });
    let parts: Vec<String> = of_size.into_iter().chain(of_graph).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// The fixed point under each policy.
pub(super) fn at_rest(fleet: &Fleet, policies: &[PolicySpec]) -> Vec<Predicted<AtRest>> {
    each(policies, |policy| {
        let field = MeanField::new(fleet, policy)?;
        let steady = field.fixed_point()?;
        Ok(AtRest {
            mean_response_s: steady.mean_response_s,
            mean_waiting_s: steady.mean_waiting_s,
            mean_service_s: steady.mean_service_s,
            mean_jobs: steady.mean_jobs,
            fraction_waiting: steady.fraction_waiting,
            blocking_probability: steady.blocking_probability,
            per_server_type: by_type(fleet, &steady.per_class, Per::Server),
            caveat: caveat(fleet, field.basis().caveat()),
            residual: steady.residual,
            truncation_error: steady.truncation_error,
        })
    })
}

/// The trajectory from empty under each policy.
pub(super) fn in_time(fleet: &Fleet, policies: &[PolicySpec], times_s: &[f64]) -> Vec<Predicted<InTime>> {
    each(policies, |policy| {
        let field = MeanField::new(fleet, policy)?;
        let trajectory = field.trajectory(&[], times_s)?;
        let moment = |moment: &shortline_theory::mean_field::Moment| Moment {
            time_s: moment.time_s,
            mean_jobs: moment.mean_jobs,
            per_server_type: by_type(fleet, &moment.per_class, Per::Type),
        };
        Ok(InTime {
            points: trajectory.points.iter().map(moment).collect(),
            caveat: caveat(fleet, field.basis().caveat()),
            truncation_error: trajectory.truncation_error,
        })
    })
}

fn each<T>(policies: &[PolicySpec], of: impl Fn(PolicySpec) -> Result<T, TheoryError>) -> Vec<Predicted<T>> {
    let predicted = |&policy: &PolicySpec| match of(policy) {
        Ok(known) => Predicted::Known(known),
        Err(error) => Predicted::Unknown { why: error.to_string() },
    };
    policies.iter().map(predicted).collect()
}

/// What `mean_jobs` is of: a server (long runs), or all servers of the type (trajectories).
#[derive(Clone, Copy, PartialEq)]
enum Per {
    Server,
    Type,
}

fn by_type(fleet: &Fleet, classes: &[ClassState], per: Per) -> Vec<OfType> {
    let of_type = |m: shortline_core::ServerTypeId| {
        let servers = fleet.servers_of_type(m).len().max(1) as f64;
        let of_class = |state: &&ClassState| state.class.server_type == m;
        let (mut jobs, mut busy, mut occupancy) = (0.0, 0.0, Vec::new());
        for state in classes.iter().filter(of_class) {
            let share = state.class.servers as f64 / servers;
            jobs += share * state.mean_jobs;
            busy += share * state.utilisation;
            occupancy.resize(occupancy.len().max(state.occupancy.len()), 0.0);
            occupancy.iter_mut().zip(&state.occupancy).for_each(|(sum, x)| *sum += share * x);
        }
        OfType {
            name: fleet.server_type_parts(m).name.clone(),
            utilisation: (per == Per::Server).then_some(busy),
            mean_jobs: if per == Per::Server { jobs } else { jobs * servers },
            occupancy,
        }
    };
    fleet.server_types().map(of_type).collect()
}

/// Puts what is predicted as `mean_field` into the entries of the list `list` of a report.
pub(super) fn insert<T: Serialize>(report: &mut Value, list: &str, predicted: &[Predicted<T>]) -> Result<(), Failure> {
    let entries = report.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
    for (entry, predicted) in entries.zip(predicted) {
        entry["mean_field"] = serde_json::to_value(predicted).map_err(Failure::run)?;
    }
    Ok(())
}

impl Predicted<AtRest> {
    /// The cell of the table.
    pub(super) fn cell(&self) -> String {
        match self {
            Self::Known(rest) => format!("{} s", short(rest.mean_response_s)),
            Self::Unknown { .. } => "-".to_owned(),
        }
    }
}

/// What is to be known below a table: caveats, once each, and policies without figures.
pub(super) fn notes(policies: &[PolicySpec], predicted: &[Predicted<AtRest>]) -> String {
    let mut lines: Vec<String> = Vec::new();
    for (policy, predicted) in policies.iter().zip(predicted) {
        let line = match predicted {
            Predicted::Known(AtRest { caveat: None, .. }) => continue,
            Predicted::Known(AtRest { caveat: Some(caveat), .. }) => format!("mean field: {caveat}"),
            Predicted::Unknown { why } => format!("mean field of {policy}: {why}"),
        };
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

impl Predicted<InTime> {
    /// The cells of a moment's row: jobs, and of each server type the servers with one job or more and with two.
    pub(super) fn cells(&self, moment: usize) -> Vec<String> {
        let Self::Known(InTime { points, .. }) = self else { return Vec::new() };
        let point = &points[moment];
        let percent = |x: Option<&f64>| format!("{:.3} %", 100.0 * x.copied().unwrap_or(0.0));
        let of_types = point.per_server_type.iter().flat_map(|m| [0, 1].map(|i| percent(m.occupancy.get(i))));
        std::iter::once(short(point.mean_jobs)).chain(of_types).collect()
    }

    /// Why there is none, or what it is worth.
    pub(super) fn note(&self) -> Option<&str> {
        match self {
            Self::Known(known) => known.caveat.as_deref(),
            Self::Unknown { why } => Some(why),
        }
    }

    /// Rows of the CSV, `mean_field_jobs` and `mean_field_occupancy`.
    pub(super) fn csv(&self, policy: &str) -> String {
        let Self::Known(InTime { points, .. }) = self else { return String::new() };
        let mut text = String::new();
        for point in points {
            let mut line = |name: &str, quantity: &str, jobs: String, value: f64| {
                let [policy, name] = [policy, name].map(super::tables::quoted);
                text += &format!(
                    "{policy},{},{name},mean_field_{quantity},{jobs},{},,\n",
                    exact(point.time_s),
                    exact(value)
                );
            };
            line("", "jobs", String::new(), point.mean_jobs);
            for m in &point.per_server_type {
                line(&m.name, "jobs", String::new(), m.mean_jobs);
                m.occupancy.iter().enumerate().for_each(|(i, x)| line(&m.name, "occupancy", (i + 1).to_string(), *x));
            }
        }
        text
    }
}
