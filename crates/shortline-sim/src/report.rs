//! What a simulation found, as `simulate --json` prints it.
//!
//! Times in seconds, rates in 1/s. Every mean has its 95 % interval; what could not be estimated (no job was accepted,
//! say) is `null`. A policy that is unstable, or was stopped in its warm-up, has no means, and `why` says which it is.
//! A report that was written as JSON reads back as it was.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::estimate::Estimate;

/// A simulation of one fleet.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Report {
    /// Its name.
    pub fleet: String,
    /// Number of servers.
    pub servers: usize,
    /// Number of job types.
    pub job_types: usize,
    /// Number of edges of the compatibility graph.
    pub edges: u64,
    /// `sum lambda size / sum slots rate` over servers with a job type; `None` for a fleet that is not uniform, where
    /// it is 1 / s* (the theory's).
    pub offered_load: Option<f64>,
    /// One entry per policy, in the order asked for.
    pub policies: Vec<PolicyReport>,
    /// Every pair of policies, on the same ticks.
    pub differences: Vec<Difference>,
}

/// One policy.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PolicyReport {
    /// Its name.
    pub policy: String,
    /// The engine that simulated it.
    pub engine: Engine,
    /// Why this engine.
    pub engine_why: Cow<'static, str>,
    /// The number of jobs grows without end.
    pub unstable: bool,
    /// The growth of the replications that grow, in the mean, if unstable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub growth_jobs_per_s: Option<f64>,
    /// How many of the replications grow, if unstable: less than all where a policy is stable until chance carries it away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub growing_replications: Option<usize>,
    /// Probability that a stable policy would have been called unstable in this run, at most: 1e-5 for each look at whether its jobs
    /// pile up (one a round), so that a run of 20 looks has 2e-4. 0 where nothing can pile up and nobody looks.
    pub false_alarm_rate: f64,
    /// The warm-up settled and the interval of the mean response time is as narrow as asked for.
    pub converged: bool,
    /// The estimates. None if the policy is unstable, the warm-up did not settle, or hardly anything was counted after it.
    #[serde(flatten)]
    pub means: Option<Means>,
    /// The bound that [`PolicyReport::compare_with`] was given.
    pub bound: Option<Bound>,
    /// Why there are no means, no intervals or no bound, or means of some of the jobs only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Mean response time over the bound.
    pub ratio_to_bound: Option<Estimate>,
    /// Jobs of a trace that have not left and will not: their servers stay down, or nobody serves them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unfinished: u64,
    /// Arrivals (blocked ones included) and departures, warm-up included, over all replications.
    pub events: u64,
    /// Of these, events of the warm-up, whose figures were dropped.
    pub warmup_events: u64,
    /// Simulated time that the events span, summed over the replications.
    pub simulated_s: f64,
    /// CPU time spent, as the caller's clock says; 0 without one.
    pub cpu_s: f64,
    /// Number of independent replications.
    pub replications: usize,
    /// The seed.
    pub seed: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Which engine simulated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// The uniformised Markov chain, driving the dispatcher.
    Markov,
    /// The same chain of exchangeable servers, as counts.
    Lumped,
    /// The event calendar, for everything else.
    Calendar,
}

/// The estimates of a policy.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Means {
    /// Arrival to completion, accepted jobs.
    pub mean_response_s: Option<Estimate>,
    /// Arrival to start of service.
    pub mean_waiting_s: Option<Estimate>,
    /// Start of service to completion.
    pub mean_service_s: Option<Estimate>,
    /// Jobs in the system, those that wait in front included.
    pub mean_jobs: Option<Estimate>,
    /// Share of the accepted jobs that did not start at once.
    pub fraction_waiting: Option<Estimate>,
    /// Median response time.
    pub p50_response_s: Option<Estimate>,
    /// 95 % of the response times are below.
    pub p95_response_s: Option<Estimate>,
    /// 99 % of the response times are below.
    pub p99_response_s: Option<Estimate>,
    /// The law of the response times, at about two dozen of them, ascending; empty if no job was accepted.
    pub response_cdf: Vec<CdfPoint>,
    /// Share of the arrivals that found no place.
    pub blocking_probability: Option<Estimate>,
    /// Share of the arrivals that gave up waiting in front.
    pub reneged_probability: Option<Estimate>,
    /// Jobs that leave served, per second.
    pub throughput_per_s: Option<Estimate>,
    /// Job types, the most frequent ones first.
    pub per_job_type: Vec<JobTypeReport>,
    /// Server types, fastest first.
    pub per_server_type: Vec<ServerTypeReport>,
    /// If [`Simulation::idle_of_fastest`](crate::Simulation::idle_of_fastest) asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_servers: Option<IdleServers>,
}

/// The law of the number of idle servers among the fastest.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct IdleServers {
    /// Number of server types that count, the fastest ones.
    pub server_types: usize,
    /// Number of their servers that hold a job type.
    pub servers: usize,
    /// Mean number of idle ones.
    pub mean: Option<Estimate>,
    /// `at_least[i - 1]`: probability that at least `i` are idle; it ends where that was never seen.
    pub at_least: Vec<Estimate>,
}

/// A point of the law of the response times.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct CdfPoint {
    /// A response time.
    pub time_s: f64,
    /// Share of the accepted jobs whose response time is not longer.
    pub share: Option<Estimate>,
}

/// One job type.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct JobTypeReport {
    /// Its name.
    pub name: String,
    /// Arrival to completion, accepted jobs.
    pub mean_response_s: Option<Estimate>,
    /// Share of its arrivals that found no place or gave up.
    pub blocking_probability: Option<Estimate>,
    /// Its share of all arrivals.
    pub share: f64,
}

/// One server type.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ServerTypeReport {
    /// Its name.
    pub name: String,
    /// Share of its slots that are busy.
    pub utilisation: Option<Estimate>,
    /// Mean number of jobs at a server of this type.
    pub mean_jobs: Option<Estimate>,
    /// The same at the fluid bound: the fastest servers busy, nobody waiting. `None` for a fleet that is not uniform or
    /// is overloaded.
    pub fluid_mean_jobs: Option<f64>,
    /// `occupancy[i - 1]`: fraction of its servers with at least `i` jobs.
    pub occupancy: Vec<f64>,
}

/// A proven lower bound on the mean response time.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Bound {
    /// Which one.
    pub kind: String,
    /// Its value.
    pub mean_response_s: f64,
}

/// Two policies on the same ticks.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Difference {
    /// One policy.
    pub a: String,
    /// The other.
    pub b: String,
    /// Mean response time of `a` over that of `b`, paired by replication.
    pub mean_response_ratio: Option<Estimate>,
}

impl Report {
    /// Takes the means of a policy back, since something that is known besides the run contradicts them, or says better why
    /// there are none.
    pub fn withdraw(&mut self, policy: usize, why: String) {
        let policy = &mut self.policies[policy];
        (policy.means, policy.bound, policy.ratio_to_bound) = (None, None, None);
        (policy.converged, policy.why) = (false, Some(why));
        let name = &policy.policy;
        self.differences.retain(|difference| difference.a != *name && difference.b != *name);
    }
}

impl PolicyReport {
    /// Sets the bound, or why there is none, and the ratio to it. Without means there is nothing to compare, and nothing
    /// is set.
    pub fn compare_with(&mut self, bound: Result<Bound, String>) {
        let Some(means) = &self.means else { return };
        let mean = means.mean_response_s;
        match bound {
            Ok(bound) => {
                self.ratio_to_bound = mean.map(|mean| mean.scaled(1.0 / bound.mean_response_s));
                self.bound = Some(bound);
            }
            Err(no_bound) => {
                (self.bound, self.ratio_to_bound) = (None, None);
                self.why = Some(match self.why.take() {
                    Some(why) => format!("{why}; no bound: {no_bound}"),
                    None => no_bound,
                });
            }
        }
    }
}
