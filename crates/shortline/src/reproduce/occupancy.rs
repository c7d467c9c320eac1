//! Occupancy as a point of an experiment: the fraction of servers with at least `i` jobs, with intervals.
//!
//! Some independent runs, each on a graph of its own where graphs are random: the interval (Student's) then covers the chance in
//! the graph too, and speaks of the family of graphs rather than of one of them. A run is two trajectories from the empty fleet,
//! looked at from [`SETTLED_S`] on. The slowest relaxation of these fleets is that of a few servers of rate 1 that pool
//! their room: of three at load 0.9 with room for 10 each, `1 / ((sqrt 3 - sqrt 2.7)^2 + 2 sqrt 8.1 (1 - cos(pi / 31)))` = 27 s.
//!
//! | number | meaning |
//! |---|---|
//! | `x1`, `x2`, ... | fraction of the servers with at least that many jobs |
//! | `response_s` | mean response time of the accepted jobs: `sum x_i / x_1`, as a server of rate 1 completes `x_1` jobs per second (Little) |
//! | `max_server_degree` | most job types that a server holds, the largest of all runs |

use shortline_core::Fleet;
use shortline_core::policy::PolicySpec;
use shortline_sim::{Estimate, Moment, Simulation};

use super::experiment::Context;
use super::number::{Found, Number};
use super::papers::Setting;
use crate::failure::Failure;

/// Levels that are kept: `x1` to `x6`.
pub(super) const LEVELS: usize = 6;
/// Independent runs.
pub(super) const RUNS: u32 = 5;
/// When a fleet that started empty has forgotten it: more than seven relaxation times.
const SETTLED_S: u32 = 200;
/// Times at which it is looked at from then on, and how far apart, seconds.
const LOOKS: u32 = 21;
const APART_S: u32 = 5;

/// What a run saw: the mean over its looks.
struct Run {
    /// `x_i` by `i - 1`.
    occupancy: Vec<f64>,
    jobs_per_server: f64,
}

/// Simulates the policy on fleets of this setting, which have servers of rate 1.
pub(super) fn simulate(setting: Setting, policy: PolicySpec, context: &Context<'_>) -> Result<Found, Failure> {
    let times_s: Vec<f64> = (0..LOOKS).map(|look| f64::from(SETTLED_S + APART_S * look)).collect();
    let (mut runs, mut max_degree) = (Vec::new(), 0);
    for run in 0..u64::from(RUNS) {
        // The same graphs for every policy, from seeds of their own.
        let fleet = setting.fleet(context.seed.wrapping_add(run << 32))?;
        max_degree = max_degree.max(largest_server_degree(&fleet));
        let simulation = Simulation::new(&fleet).policy(policy).seed(context.own_seed.wrapping_add(run)).threads(1);
        let report = simulation.trajectory(&times_s, 2, context).map_err(Failure::run)?;
        runs.push(Run::of(&report.trajectories[0].points, fleet.server_count()));
    }
    let over_runs = |of: &dyn Fn(&Run) -> f64| -> Option<Number> {
        Estimate::from_observations(&runs.iter().map(of).collect::<Vec<f64>>()).map(Number::from)
    };
    let mut found = Found::default();
    for i in 1..=LEVELS {
        found.set(&level_name(i), over_runs(&|run| run.occupancy[i - 1]));
    }
    found.set("response_s", over_runs(&|run| run.jobs_per_server / run.occupancy[0]));
    found.set("max_server_degree", Some(Number::exact(max_degree as f64)));
    Ok(found)
}

impl Run {
    /// No moments (the user stopped it) give numbers that are none.
    fn of(moments: &[Moment], servers: usize) -> Self {
        let mean = |of: &dyn Fn(&Moment) -> f64| moments.iter().map(of).sum::<f64>() / moments.len() as f64;
        // A level that no server has reached is not listed.
        let level = |moment: &Moment, i: usize| {
            moment.per_server_type[0].occupancy.get(i - 1).map_or(0.0, |x| x.map_or(f64::NAN, |x| x.mean))
        };
        Self {
            occupancy: (1..=LEVELS).map(|i| mean(&|moment| level(moment, i))).collect(),
            jobs_per_server: mean(&|moment| moment.mean_jobs.map_or(f64::NAN, |jobs| jobs.mean)) / servers as f64,
        }
    }
}

/// `x3` for 3.
pub(super) fn level_name(i: usize) -> String {
    format!("x{i}")
}

/// Most job types that a server holds.
fn largest_server_degree(fleet: &Fleet) -> usize {
    let mut held = vec![0; fleet.server_count()];
    for l in fleet.job_types() {
        fleet.graph().for_each(l.index(), |server| held[server.index()] += 1);
    }
    held.into_iter().max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::reproduce::papers::{Design, Speeds};

    /// Goal: occupancies and response time are those of the stationary law. Method: on 8 servers that each have a job type of
    /// their own (clusters of one) every server is M/M/1/2 at load 1/2, so that `x_1 = 3/7`, `x_2 = 1/7` and the response time is
    /// 4/3; intervals of 95 % taken three times as wide, one fixed seed: a false alarm is beyond eight standard errors of four
    /// degrees of freedom, below 0.2 % for each of three numbers.
    #[test]
    fn servers_by_themselves_have_the_law_of_their_queue() {
        let stop = AtomicBool::new(false);
        let context = Context { seed: 1, own_seed: 1, stop: &stop };
        let fleet = Setting { speeds: Speeds::Equal, design: Design::Clusters(1), ..Setting::papers(8) };
        let setting = Setting { load_first_k: 0.5, buffer: Some(2), ..fleet };
        let found = simulate(setting, PolicySpec::Jsq, &context).unwrap();
        for (name, exact) in [("x1", 3.0 / 7.0), ("x2", 1.0 / 7.0), ("response_s", 4.0 / 3.0)] {
            let number = found.numbers[name];
            assert!((number.mean - exact).abs() < 3.0 * number.half_width(), "{name}: {number} and {exact}");
            assert!(number.half_width() < 0.2 * exact, "{name}: {number}");
        }
        assert_eq!(found.numbers["x3"], Number::exact(0.0));
        assert_eq!(found.numbers["max_server_degree"], Number::exact(1.0));
    }
}
