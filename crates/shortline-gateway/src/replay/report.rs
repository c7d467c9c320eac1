//! What a replay found, as `replay --json` prints it.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Options;
use super::estimate::{self, Estimate};
use super::offered::{Bound, Offered};
use super::record::Record;
use super::schedule::Schedule;

/// The result of a replay. All times are real seconds on the wire; with `time_scale` z, one second of the fleet file
/// lasted z of them.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    /// Requests sent.
    pub sent: u64,
    /// Requests not sent because too many were under way.
    pub not_sent: u64,
    /// How requests ended: the status, or `aborted`. Only what occurred; sums to `sent`.
    pub outcomes: BTreeMap<String, u64>,
    /// Why requests were aborted.
    pub aborted_because: BTreeMap<String, u64>,
    /// Mean response time of answers 200, from the intended time of sending to the end of the answer.
    pub mean_response_s: Option<Estimate>,
    /// Their median.
    pub p50_response_s: Option<Estimate>,
    /// Their 95th percentile.
    pub p95_response_s: Option<Estimate>,
    /// Their 99th percentile.
    pub p99_response_s: Option<Estimate>,
    /// Batches behind the interval of the mean.
    pub batches: usize,
    /// Mean from the real time of sending, for comparison.
    pub mean_response_from_send_s: Option<f64>,
    /// How late requests were sent.
    pub send_lag_s: Lag,
    /// Each job type that occurred.
    pub per_job_type: Vec<JobTypeReport>,
    /// Each server type, when a fleet is given.
    pub per_server_type: Vec<ServerTypeReport>,
    /// Answers 200 that named no server of the fleet.
    pub by_unknown_server: u64,
    /// Answers from servers that do not hold the job type.
    pub misrouted: u64,
    /// Lower bound on the mean response time, for the requests answered; `None` without a fleet.
    pub bound: Option<Bound>,
    /// Whether requests were not sent because too many were under way.
    pub outstanding_cap_hit: bool,
    /// Mean offered load of the schedule on the fleet.
    pub offered_load: Option<f64>,
    /// From the first intended sending to the last answer.
    pub duration_s: f64,
    /// Real seconds per second of the fleet file.
    pub time_scale: f64,
    /// Division of all times that was asked for.
    pub speedup: f64,
    /// Seed of Poisson arrivals.
    pub seed: u64,
    /// What was asked for and not done.
    pub warnings: Vec<String>,
}

/// How late requests were sent.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Lag {
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest.
    pub max: f64,
}

/// One job type.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct JobTypeReport {
    /// Its name.
    pub name: String,
    /// Requests sent.
    pub sent: u64,
    /// Its share of the requests sent.
    pub share: f64,
    /// Requests answered with 200.
    pub ok: u64,
    /// Mean response time of those.
    pub mean_response_s: Option<Estimate>,
}

/// One server type.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ServerTypeReport {
    /// Its name.
    pub name: String,
    /// Answers 200 from its servers.
    pub ok: u64,
    /// Its share of the answers 200 that named a server.
    pub share: f64,
}

pub(super) fn report(options: &Options, schedule: &Schedule, record: &Record, not_sent: u64) -> Report {
    let responses: Vec<f64> = record.samples.iter().map(|sample| sample.response_s).collect();

    let mut outcomes: BTreeMap<String, u64> = record.statuses.iter().map(|(s, &n)| (s.to_string(), n)).collect();
    let aborted: u64 = record.aborted.values().sum();
    if aborted > 0 {
        outcomes.insert("aborted".into(), aborted);
    }
    let sent = outcomes.values().sum();
    let lag = |q| record.lag.value_at_quantile(q) as f64 / 1e9;
    let ok = responses.len();
    Report {
        sent,
        not_sent,
        outcomes,
        aborted_because: record.aborted.clone(),
        mean_response_s: estimate::mean(&responses),
        p50_response_s: estimate::quantile(&responses, 0.5),
        p95_response_s: estimate::quantile(&responses, 0.95),
        p99_response_s: estimate::quantile(&responses, 0.99),
        batches: estimate::batches(ok, 0.5),
        mean_response_from_send_s: (ok > 0).then(|| record.from_send_sum_s / ok as f64),
        send_lag_s: Lag { p50: lag(0.5), p99: lag(0.99), max: lag(1.0) },
        per_job_type: per_job_type(schedule, record, sent),
        per_server_type: per_server_type(options, record),
        by_unknown_server: record.by_unknown_server,
        misrouted: record.misrouted,
        bound: bound(options, schedule, record),
        outstanding_cap_hit: not_sent > 0,
        offered_load: schedule.offered_load,
        duration_s: record.last_ended_after.as_secs_f64(),
        time_scale: schedule.time_scale,
        speedup: options.speedup,
        seed: options.seed,
        warnings: schedule.warnings.clone(),
    }
}

fn per_job_type(schedule: &Schedule, record: &Record, sent: u64) -> Vec<JobTypeReport> {
    let mut responses = vec![Vec::new(); record.job_types.len()];
    for sample in &record.samples {
        responses[sample.job_type as usize].push(sample.response_s);
    }
    let occurred = record.job_types.iter().enumerate().filter(|(_, count)| count.ended > 0);
    occurred
        .map(|(i, count)| JobTypeReport {
            name: schedule.job_types[i].clone(),
            sent: count.ended,
            share: count.ended as f64 / sent as f64,
            ok: count.ok,
            mean_response_s: estimate::mean(&responses[i]),
        })
        .collect()
}

fn per_server_type(options: &Options, record: &Record) -> Vec<ServerTypeReport> {
    let Some(fleet) = &options.fleet else { return Vec::new() };
    let named: u64 = record.by_server.iter().sum();
    (fleet.server_types())
        .map(|server_type| {
            let ok = record.by_server[fleet.servers_of_type(server_type)].iter().sum();
            let share = if named > 0 { ok as f64 / named as f64 } else { 0.0 };
            ServerTypeReport { name: fleet.server_type_parts(server_type).name.clone(), ok, share }
        })
        .collect()
}

/// The bound for what was answered: rates over the whole run, sizes as sent, both in the fleet file's seconds.
fn bound(options: &Options, schedule: &Schedule, record: &Record) -> Option<Bound> {
    let fleet = options.fleet.as_ref()?;
    let run_s = record.last_ended_after.as_secs_f64() / schedule.time_scale;
    let size_sent = |l| fleet.size(l) / options.speedup;
    let mut counts = vec![0.0; fleet.job_type_count()];
    let mut work = vec![0.0; fleet.job_type_count()];
    for (count, in_fleet) in record.job_types.iter().zip(&schedule.in_fleet) {
        if let Some(l) = *in_fleet {
            let ok = count.ok as f64;
            counts[l.index()] = ok;
            work[l.index()] = if count.ok_size.is_nan() { ok * size_sent(l) } else { count.ok_size };
        }
    }
    let offered = Offered::measured(&counts, &work, run_s.recip(), size_sent);
    let bound = match &options.bound_of {
        Some(bound_of) => bound_of(&offered),
        None => offered.fluid_bound(fleet),
    }?;
    Some(Bound { mean_response_s: bound.mean_response_s * schedule.time_scale, ..bound })
}
