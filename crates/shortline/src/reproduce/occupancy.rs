//! Occupancy as a point of an experiment: the fraction of servers with at least `i` jobs, with intervals.
//!
//! Some independent runs, each on a graph of its own where graphs are random: the interval (Student's) then covers the chance in
//! the graph too, and speaks of the family of graphs rather than of one of them.
//!
//! | number | meaning |
//! |---|---|
//! | `x1`, `x2`, ... | fraction of the servers with at least that many jobs |
//! | `response_s` | mean response time of the accepted jobs |
//! | `blocking` | share of the arrivals that are lost |
//! | `max_server_degree` | most job types that a server holds, the largest of all runs |

use shortline_core::policy::PolicySpec;
use shortline_core::{Fleet, ServerId};
use shortline_sim::{Estimate, Means, PerType, Simulation, Until};

use super::experiment::Context;
use super::number::{Found, Number};
use super::papers::Setting;
use crate::failure::Failure;

/// Levels that are kept: `x1` to `x6`.
pub(super) const LEVELS: usize = 6;

/// How often, and how long each time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Runs {
    pub(super) runs: u32,
    /// Events counted in each.
    pub(super) events: u64,
}

/// Simulates the policy on fleets of this setting, which have servers of one type.
pub(super) fn simulate(
    setting: Setting,
    policy: PolicySpec,
    Runs { runs, events }: Runs,
    context: &Context<'_>,
) -> Result<Found, Failure> {
    let mut observed: Vec<Means> = Vec::new();
    let mut max_degree = 0;
    for run in 0..u64::from(runs) {
        // The same graphs for every policy, of the same seeds; simulations of their own.
        let fleet = setting.fleet(context.seed.wrapping_add(run << 32))?;
        max_degree = max_degree.max(largest_server_degree(&fleet));
        let simulation = Simulation::new(&fleet)
            .policy(policy)
            .seed(context.own_seed.wrapping_add(run))
            .threads(1)
            .per_type(PerType::Top(0));
        let mut report = simulation.until(Until::Events(events)).run_observed(context).map_err(Failure::run)?;
        let report = report.policies.remove(0);
        match report.means {
            Some(means) => observed.push(means),
            None => {
                let note = report.why.unwrap_or_else(|| "no means".to_owned());
                return Ok(Found { note: Some(note), ..Found::default() });
            }
        }
    }
    let mut found = Found::default();
    let over_runs = |of: &dyn Fn(&Means) -> Option<f64>| -> Option<Number> {
        let values = observed.iter().map(of).collect::<Option<Vec<f64>>>()?;
        Estimate::from_observations(&values).map(Number::from)
    };
    for i in 1..=LEVELS {
        // A level that is not listed is below the least that the simulator lists: 0.
        let level = |means: &Means| Some(means.per_server_type.first()?.occupancy.get(i - 1).copied().unwrap_or(0.0));
        found.set(&level_name(i), over_runs(&level));
    }
    found.set("response_s", over_runs(&|means| Some(means.mean_response_s?.mean)));
    found.set("blocking", over_runs(&|means| Some(means.blocking_probability?.mean)));
    found.set("max_server_degree", Some(Number::exact(max_degree as f64)));
    Ok(found)
}

/// `x3` for 3.
pub(super) fn level_name(i: usize) -> String {
    format!("x{i}")
}

/// Most job types that a server holds.
fn largest_server_degree(fleet: &Fleet) -> usize {
    let mut held = vec![0; fleet.server_count()];
    let mut count = |server: ServerId| held[server.index()] += 1;
    for l in fleet.job_types() {
        fleet.graph().for_each(l.index(), &mut count);
    }
    held.into_iter().max().unwrap_or(0)
}
