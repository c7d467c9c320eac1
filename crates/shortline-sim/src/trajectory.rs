//! How a fleet fills: the number of jobs at each moment, from the empty fleet on.
//!
//! Every replication starts empty at time 0 and is looked at when the time comes; a figure is the average over the
//! replications, which are independent, with Student's interval, and that of a share no narrower than if every server of
//! every replication were an independent trial. Between two moments ticks come at exponential gaps;
//! the gap that a moment cuts is drawn anew from there, which changes nothing, for it has no memory.
//!
//! Each job is followed, whatever the policy and the fleet.

use rayon::prelude::*;
use serde::Serialize;
use shortline_core::fleet::Fleet;
use shortline_core::{ServerId, ServerTypeId};

use crate::chain::{Streams, Walk};
use crate::engine::MakeWalk;
use crate::estimate::Estimate;
use crate::simulation::Observer;

/// Longest list of occupancies.
const MOST_LEVELS: usize = 64;
/// Levels that are listed, seen or not, where a server may have so many jobs.
const LEAST_LEVELS: usize = 2;

/// The trajectories of some policies on one fleet, and what they are of.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Trajectories {
    /// Name of the fleet.
    pub fleet: String,
    /// Number of servers.
    pub servers: usize,
    /// Number of job types.
    pub job_types: usize,
    /// Number of edges.
    pub edges: u64,
    /// Number of independent replications.
    pub replications: usize,
    /// The seed.
    pub seed: u64,
    /// False if the observer stopped the run before the last moment.
    pub complete: bool,
    /// One per policy.
    pub trajectories: Vec<Trajectory>,
}

/// The trajectory of one policy.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Trajectory {
    /// The policy.
    pub policy: String,
    /// The moments, in the order of time.
    pub points: Vec<Moment>,
}

/// A moment of a trajectory.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Moment {
    /// Time since the fleet was empty.
    pub time_s: f64,
    /// Jobs in the system, those that wait in front included.
    pub mean_jobs: Option<Estimate>,
    /// Server types, fastest first.
    pub per_server_type: Vec<MomentOfType>,
}

/// What a server type does at a moment.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct MomentOfType {
    /// Its name.
    pub name: String,
    /// Jobs at all its servers.
    pub mean_jobs: Option<Estimate>,
    /// `occupancy[i - 1]`: fraction of its servers with `i` jobs or more, up to the most that were seen; after the start at
    /// least the first two, with what they may be though none was seen.
    pub occupancy: Vec<Option<Estimate>>,
}

/// What one replication shows at a moment.
#[derive(Clone, Debug)]
struct Sight {
    waiting: u64,
    /// By server type: servers by number of jobs.
    servers: Vec<Vec<u64>>,
}

impl Sight {
    fn of(walk: &dyn Walk, fleet: &Fleet) -> Self {
        let mut servers = vec![Vec::new(); fleet.server_type_count()];
        walk.servers(&mut |server_type, jobs| {
            let counts: &mut Vec<u64> = &mut servers[server_type];
            if counts.len() <= jobs {
                counts.resize(jobs + 1, 0);
            }
            counts[jobs] += 1;
        });
        Self { waiting: walk.waiting(), servers }
    }

    /// Jobs at servers of this type.
    fn jobs(&self, server_type: usize) -> f64 {
        self.servers[server_type].iter().enumerate().map(|(jobs, &servers)| jobs as f64 * servers as f64).sum()
    }

    /// Servers of this type with `jobs` jobs or more.
    fn at_least(&self, server_type: usize, jobs: usize) -> f64 {
        self.servers[server_type].iter().skip(jobs).sum::<u64>() as f64
    }
}

/// The moments of one policy; fewer than there are times if the observer stops it.
pub(crate) fn follow(
    make: &MakeWalk,
    fleet: &Fleet,
    times_s: &[f64],
    seed: u64,
    replications: usize,
    observer: &dyn Observer,
) -> Vec<Moment> {
    let mut walks: Vec<Box<dyn Walk>> = (0..replications as u64).map(|i| make(Streams::new(seed, i))).collect();
    let mut moments = Vec::with_capacity(times_s.len());
    for &time_s in times_s {
        let look = |walk: &mut Box<dyn Walk>| {
            walk.run_until(time_s, &|events| {
                observer.advanced(events);
                observer.is_stopped()
            });
            Sight::of(&**walk, fleet)
        };
        let sights: Vec<Sight> = walks.par_iter_mut().map(look).collect();
        if observer.is_stopped() {
            break;
        }
        moments.push(moment(time_s, fleet, &sights));
    }
    moments
}

fn moment(time_s: f64, fleet: &Fleet, sights: &[Sight]) -> Moment {
    let mean_jobs = |jobs: &dyn Fn(&Sight) -> f64| {
        let estimate = Estimate::from_observations(&sights.iter().map(jobs).collect::<Vec<f64>>())?.not_negative();
        // Where no job was seen, as many as may be of a Poisson law of which no replication showed one.
        let limit = if estimate.mean > 0.0 || time_s <= 0.0 { 0.0 } else { -0.025_f64.ln() / sights.len() as f64 };
        Some(Estimate { ci95: [estimate.ci95[0], estimate.ci95[1].max(limit)], ..estimate })
    };
    let types = 0..fleet.server_type_count();
    let of_type = |m: ServerTypeId| {
        let servers = fleet.servers_of_type(m).len() as f64;
        let occupancy = |jobs| {
            let parts: Vec<(f64, f64)> =
                sights.iter().map(|sight| (sight.at_least(m.index(), jobs), servers)).collect();
            Estimate::of_share(&parts)
        };
        let highest = sights.iter().map(|sight| sight.servers[m.index()].len()).max().unwrap_or(0);
        // The first levels are listed though none was seen there, for it might have been.
        let listed = if time_s > 0.0 { highest.max(LEAST_LEVELS.min(capacity(fleet, m)) + 1) } else { highest };
        MomentOfType {
            name: fleet.server_type_parts(m).name.clone(),
            mean_jobs: mean_jobs(&|sight| sight.jobs(m.index())),
            occupancy: (1..listed.min(MOST_LEVELS + 1)).map(occupancy).collect(),
        }
    };
    Moment {
        time_s,
        mean_jobs: mean_jobs(&|sight| sight.waiting as f64 + types.clone().map(|m| sight.jobs(m)).sum::<f64>()),
        per_server_type: fleet.server_types().map(of_type).collect(),
    }
}

/// Most jobs at a server of this type; 0 without servers.
fn capacity(fleet: &Fleet, m: ServerTypeId) -> usize {
    let buffers = fleet.servers_of_type(m).map(|r| fleet.buffer(ServerId::new(r)));
    buffers.map(|buffer| buffer.map_or(usize::MAX, |buffer| buffer as usize)).max().unwrap_or(0)
}
