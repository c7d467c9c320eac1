//! `--trajectory`: how the fleet fills from empty, as table, CSV and JSON.

use std::sync::Arc;

use comfy_table::{CellAlignment, Table, presets};
use shortline_core::Fleet;
use shortline_core::fleet::Parts;
use shortline_core::policy::PolicySpec;
use shortline_sim::{Estimate, Moment, Trajectories, Trajectory};

use super::mean_field::{self, InTime, Predicted};
use super::tables::{number, quoted, shown};
use super::watch::Watch;
use super::{Args, asked, points, refused, sweep};
use crate::digits::exact;
use crate::failure::Failure;
use crate::terminal::{aside, say};
use crate::{outputs, split};

/// Moments of a trajectory of which only the end is given.
const MOMENTS: f64 = 50.0;

/// The moments to look at.
#[derive(Clone, Debug)]
pub(super) struct Times(pub(super) Vec<f64>);

impl Times {
    /// Reads `END` (50 steps from 0), `END:STEP`, `FROM..TO:STEP` or `A,B,C`.
    pub(super) fn parse(written: &str) -> Result<Self, String> {
        let times = match written.split_once(':') {
            Some((end, step)) if !end.contains("..") => {
                points::range(0.0, points::number(end)?, points::number(step)?)?
            }
            None if !written.contains([',', '.']) || points::number(written).is_ok() => {
                let end = points::number(written)?;
                if end <= 0.0 {
                    return Err("the end of a trajectory is a positive time".to_owned());
                }
                (0..=MOMENTS as usize).map(|i| end * i as f64 / MOMENTS).collect()
            }
            _ => points::parse(written)?,
        };
        if times.is_sorted_by(|a, b| a < b) && times.iter().all(|time| *time >= 0.0) {
            Ok(Self(times))
        } else {
            Err("times are 0 or more, and ascend".to_owned())
        }
    }
}

/// Runs and prints it.
pub(super) fn run(
    args: &Args,
    file: &Arc<Parts>,
    policies: &[PolicySpec],
    times: &Times,
    watch: &Watch,
) -> Result<(), Failure> {
    let (parts, asked_for, load) = (Arc::clone(file), policies.to_vec(), args.load);
    let fleet = watch.unless_stopped("setting up the fleet", move || {
        split::with_shares(Arc::new(sweep::fleet_of(parts.fleet.clone(), load)?), &asked_for)
    });
    let fleet = fleet.ok_or_else(|| watch.nothing_simulated())??;
    watch.begin(policies.len());
    watch.bar.set_length(expected_events(args, &fleet, policies.len(), times));
    let trajectories = asked(args, &fleet, policies).trajectory(&times.0, args.replications as usize, watch);
    let trajectories = trajectories.map_err(refused)?;
    let predicted = if args.mean_field { mean_field(&fleet, policies, times, watch) } else { Vec::new() };
    watch.bar.finish_and_clear();
    if let Some(path) = &args.csv {
        let mut text = csv(&trajectories);
        trajectories.trajectories.iter().zip(&predicted).for_each(|(t, predicted)| text += &predicted.csv(&t.policy));
        outputs::write(path, &text)?;
    }
    if !trajectories.complete {
        aside!("warning: stopped before the last moment");
    }
    if args.json {
        let mut json = serde_json::to_string_pretty(&trajectories).map_err(Failure::run)?;
        if args.mean_field {
            let mut value = serde_json::to_value(&trajectories).map_err(Failure::run)?;
            mean_field::insert(&mut value, "trajectories", &predicted)?;
            json = serde_json::to_string_pretty(&value).map_err(Failure::run)?;
        }
        say!("{json}")?;
        return Ok(());
    }
    for (i, trajectory) in trajectories.trajectories.iter().enumerate() {
        say!(
            "{}: policy {}, from empty, {} replications",
            trajectories.fleet,
            trajectory.policy,
            trajectories.replications
        )?;
        say!("{}", table(trajectory, None))?;
        if let Some(predicted) = predicted.get(i) {
            say!("the mean field of it")?;
            match predicted {
                Predicted::Known(_) => say!("{}", table(trajectory, Some(predicted)))?,
                Predicted::Unknown { .. } => {}
            }
            if let Some(note) = predicted.note() {
                say!("{note}")?;
            }
        }
    }
    Ok(())
}

/// About as many as there will be: each job arrives, and leaves.
fn expected_events(args: &Args, fleet: &Fleet, policies: usize, times: &Times) -> u64 {
    let rate: f64 = fleet.job_types().filter_map(|l| fleet.arrival_rate(l)).sum();
    let rate = rate * fleet.settings().arrivals.mean_factor();
    let end_s = times.0.last().copied().unwrap_or(0.0);
    (2.0 * rate * end_s * f64::from(args.replications) * policies as f64) as u64
}

fn mean_field(fleet: &Arc<Fleet>, policies: &[PolicySpec], times: &Times, watch: &Watch) -> Vec<Predicted<InTime>> {
    let (of, asked, times) = (Arc::clone(fleet), policies.to_vec(), times.clone());
    let found = watch.unless_stopped("computing the mean field", move || mean_field::in_time(&of, &asked, &times.0));
    found.unwrap_or_else(|| policies.iter().map(|_| Predicted::stopped()).collect())
}

/// One row per moment: jobs, and the occupancy of the fleet's server types; of the mean field, if it is given.
fn table(trajectory: &Trajectory, mean_field: Option<&Predicted<InTime>>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let types = trajectory.points.first().map_or(&[][..], |moment| &moment.per_server_type);
    let occupancies = types.iter().flat_map(|m| [1, 2].map(|i| format!("{} >= {i}", m.name)));
    let columns = ["time".to_owned(), "jobs".to_owned()];
    table.set_header(columns.into_iter().chain(occupancies));
    for (i, moment) in trajectory.points.iter().enumerate() {
        table.add_row(match mean_field {
            None => row(moment),
            Some(predicted) => [vec![format!("{} s", exact(moment.time_s))], predicted.cells(i)].concat(),
        });
    }
    table.column_iter_mut().for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    table
}

fn row(moment: &Moment) -> Vec<String> {
    let cell = |estimate: Option<Estimate>, factor, unit| {
        estimate.map_or("-".to_owned(), |estimate| shown(&estimate, factor, unit))
    };
    // Beyond what was listed: for certain.
    let nobody = Estimate { mean: 0.0, ci95: [0.0, 0.0] };
    let occupancy = |i: usize| {
        move |m: &shortline_sim::MomentOfType| cell(m.occupancy.get(i).copied().unwrap_or(Some(nobody)), 100.0, " %")
    };
    let of_types = moment.per_server_type.iter().flat_map(|m| [occupancy(0)(m), occupancy(1)(m)]);
    [format!("{} s", exact(moment.time_s)), cell(moment.mean_jobs, 1.0, "")].into_iter().chain(of_types).collect()
}

/// One row per policy, moment and figure: `mean_jobs` of the system (no server type) and of each server type, and its
/// `occupancy`, the fraction of servers with `jobs` jobs or more.
fn csv(fleet: &Trajectories) -> String {
    let mut text = "policy,time_s,server_type,quantity,jobs,mean,low,high\n".to_owned();
    for trajectory in &fleet.trajectories {
        for moment in &trajectory.points {
            let mut line = |server_type: &str, quantity: &str, jobs: String, estimate: Option<Estimate>| {
                let figures = [
                    quoted(&trajectory.policy),
                    exact(moment.time_s),
                    quoted(server_type),
                    quantity.to_owned(),
                    jobs,
                    number(estimate.map(|e| e.mean)),
                    number(estimate.map(|e| e.ci95[0])),
                    number(estimate.map(|e| e.ci95[1])),
                ];
                text += &(figures.join(",") + "\n");
            };
            line("", "mean_jobs", String::new(), moment.mean_jobs);
            for m in &moment.per_server_type {
                line(&m.name, "mean_jobs", String::new(), m.mean_jobs);
                for (i, estimate) in m.occupancy.iter().enumerate() {
                    line(&m.name, "occupancy", (i + 1).to_string(), *estimate);
                }
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_an_end_a_step_a_range_or_a_list() {
        let times = |written| Times::parse(written).unwrap().0;
        assert_eq!((times("100").len(), times("100")[1]), (51, 2.0));
        assert_eq!(times("2.5").last(), Some(&2.5));
        assert_eq!(times("2:0.5"), [0.0, 0.5, 1.0, 1.5, 2.0]);
        assert_eq!(times("1..2:0.5"), [1.0, 1.5, 2.0]);
        assert_eq!(times("0,1,4"), [0.0, 1.0, 4.0]);
        for written in ["", "x", "0", "-1", "3,2", "-1,2", "0,1,1.0", "5:0", "1..2"] {
            assert!(Times::parse(written).is_err(), "{written}");
        }
    }
}
