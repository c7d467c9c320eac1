//! `/status`: the gateway as numbers.

use std::sync::atomic::Ordering::Relaxed;

use serde::Serialize;

use crate::gateway::{Bound, Gateway};
use crate::outcome::Outcome;
use crate::stats::JobTypeCounts;

/// The gateway at a moment. Servers and job types are in the fleet file's order.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Status {
    /// The policy.
    pub policy: String,
    /// Time since the start.
    pub uptime_s: f64,
    /// Number of exchanges of the fleet since the start.
    pub epoch: u64,
    /// Requests in line, all job types together.
    pub waiting_total: usize,
    /// The servers.
    pub servers: Vec<ServerStatus>,
    /// The job types.
    pub job_types: Vec<JobTypeStatus>,
    /// A lower bound on the mean response time at the measured arrival rates; null if none is known.
    pub bound: Option<Bound>,
}

/// A server at a moment.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ServerStatus {
    /// Its name.
    pub name: String,
    /// The name of its type.
    #[serde(rename = "type")]
    pub server_type: String,
    /// Whether it gets requests, be it few.
    pub up: bool,
    /// How it is: `up`, `draining`, `down`, `tripped`, `probing` or `slow-start`.
    pub health: &'static str,
    /// Job types that it gets no requests for, because it says that it does not have their models.
    pub lost: Vec<String>,
    /// All jobs at it.
    pub in_flight: u64,
    /// Those beyond its slots.
    pub waiting: u64,
    /// Jobs it serves at the same time.
    pub slots: u32,
    /// Most jobs at it; null: unbounded.
    pub buffer: Option<u32>,
    /// Size units per second and slot; null if the fleet only ranks its servers.
    pub speed: Option<f64>,
    /// Requests sent to it since the start.
    pub routed_total: u64,
}

/// A job type at a moment.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct JobTypeStatus {
    /// Its name.
    pub name: String,
    /// Arrivals per second, measured over about the last half minute.
    pub arrival_rate_per_s: f64,
    /// Requests in line.
    pub waiting: usize,
    /// Mean time from arrival to the end of the answer since the start; null before the first.
    pub mean_response_s: Option<f64>,
    /// Requests refused for lack of room since the start.
    pub blocked_total: u64,
    /// Requests refused because no server was up since the start.
    pub no_server_total: u64,
    /// Requests refused because they waited too long in line since the start.
    pub queue_timeout_total: u64,
}

impl Gateway {
    /// The gateway as numbers. O(servers + job types), plus the bound.
    #[must_use]
    pub fn status(&self) -> Status {
        let snapshot = self.dispatch.snapshot();
        let (epoch, fleet) = (&snapshot.epoch, &snapshot.epoch.fleet);
        let server = |id| {
            let (now, type_id) = (snapshot.servers[shortline_core::ServerId::index(id)], fleet.server_type(id));
            let server_type = fleet.server_type_parts(type_id);
            ServerStatus {
                name: fleet.server_name(id),
                server_type: server_type.name.clone(),
                up: now.up,
                health: epoch.server(id).health().condition().name(),
                lost: epoch.server(id).lost().names(),
                in_flight: now.jobs,
                waiting: now.jobs.saturating_sub(u64::from(server_type.slots)),
                slots: server_type.slots,
                buffer: fleet.buffer(id),
                speed: match server_type.speed {
                    shortline_core::fleet::Speed::Rate(rate) => Some(rate),
                    shortline_core::fleet::Speed::Rank(_) => None,
                },
                routed_total: epoch.server(id).routed(),
            }
        };
        let job_type = |id: shortline_core::JobTypeId| {
            let record = epoch.job_type(id);
            JobTypeStatus {
                name: record.name().to_owned(),
                arrival_rate_per_s: record.arrival_rate(),
                waiting: snapshot.waiting[id.index()],
                mean_response_s: record.counts().and_then(JobTypeCounts::mean_response_s),
                blocked_total: record.ended(Outcome::NoCapacity),
                no_server_total: record.ended(Outcome::NoServerUp),
                queue_timeout_total: record.ended(Outcome::QueueTimeout),
            }
        };
        let arrival_rates = || epoch.job_types().iter().map(|l| l.arrival_rate()).collect::<Vec<f64>>();
        Status {
            policy: epoch.policy.to_string(),
            uptime_s: self.started.elapsed().as_secs_f64(),
            epoch: snapshot.exchanges,
            waiting_total: snapshot.waiting_total,
            servers: fleet.servers_in_file_order().map(server).collect(),
            job_types: fleet.job_types().map(job_type).collect(),
            bound: self.bound.as_ref().and_then(|bound| bound(fleet, &arrival_rates())),
        }
    }

    /// Client connections that are open.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.stats.connections.load(Relaxed)
    }
}
