//! From the records of the replications to estimates: each figure is computed per replication, then averaged.

use shortline_core::fleet::Fleet;
use shortline_core::{JobTypeId, ServerTypeId};

use crate::estimate::Estimate;
use crate::model::Model;
use crate::record::Record;
use crate::report::{JobTypeReport, Means, ServerTypeReport};

/// Longest list of occupancies.
const MOST_LEVELS: usize = 64;
/// Occupancies below this end the list.
const LEAST_OCCUPANCY: f64 = 1e-7;

/// Mean response time of one replication: accepted jobs, arrival to completion.
pub(crate) fn mean_response_s(record: &Record) -> f64 {
    let times = record.law.times();
    times.waiting_s + times.service_s
}

/// All estimates; those of job types for `job_types` only.
pub(crate) fn means(model: &Model, records: &[Record], job_types: &[JobTypeId]) -> Means {
    let estimate = |figure: &dyn Fn(&Record) -> f64| {
        Estimate::from_observations(&records.iter().map(figure).collect::<Vec<f64>>())
    };
    let probability = |figure| estimate(figure).map(|estimate: Estimate| estimate.within(0.0, 1.0));
    let total = |record: &Record, count: &dyn Fn(&crate::record::TypeTally) -> u64| -> f64 {
        record.job_types.iter().map(count).sum::<u64>() as f64
    };
    Means {
        mean_response_s: estimate(&mean_response_s),
        mean_waiting_s: estimate(&|record| record.law.times().waiting_s),
        mean_service_s: estimate(&|record| record.law.times().service_s),
        mean_jobs: estimate(&|record| mean_jobs(&model.fleet, record)),
        fraction_waiting: probability(&|record| record.law.times().fraction_waiting),
        p50_response_s: estimate(&|record| record.law.quantile_s(0.5)),
        p95_response_s: estimate(&|record| record.law.quantile_s(0.95)),
        p99_response_s: estimate(&|record| record.law.quantile_s(0.99)),
        blocking_probability: probability(&|record| total(record, &|t| t.blocked) / total(record, &|t| t.arrivals)),
        reneged_probability: probability(&|record| total(record, &|t| t.reneged) / total(record, &|t| t.arrivals)),
        throughput_per_s: estimate(&|record| total(record, &|t| t.arrivals - t.blocked - t.reneged) / record.time_s),
        per_job_type: job_types.iter().map(|&l| job_type(model, records, l)).collect(),
        per_server_type: model.fleet.server_types().map(|m| server_type(model, records, m)).collect(),
    }
}

fn job_type(model: &Model, records: &[Record], l: JobTypeId) -> JobTypeReport {
    let of = |figure: fn(&crate::record::TypeTally) -> f64| {
        Estimate::from_observations(&records.iter().map(|r| figure(&r.job_types[l.index()])).collect::<Vec<f64>>())
    };
    JobTypeReport {
        name: model.fleet.job_type_name(l),
        mean_response_s: of(|t| t.response_sum_s / t.responses as f64),
        blocking_probability: of(|t| (t.blocked + t.reneged) as f64 / t.arrivals as f64)
            .map(|estimate| estimate.within(0.0, 1.0)),
        share: model.arrival_rates[l.index()] / model.arrival_rate,
    }
}

fn server_type(model: &Model, records: &[Record], m: ServerTypeId) -> ServerTypeReport {
    let slots = model.slots(m);
    let mean_of = |value: &dyn Fn(usize) -> f64| {
        Estimate::from_observations(
            &records.iter().map(|r| average(&r.occupancy[m.index()], value)).collect::<Vec<f64>>(),
        )
    };
    let at_least = |i: usize| {
        let tails = records.iter().map(|r| average(&r.occupancy[m.index()], &|jobs| f64::from(u8::from(jobs >= i))));
        tails.sum::<f64>() / records.len() as f64
    };
    ServerTypeReport {
        name: model.fleet.server_type_parts(m).name.clone(),
        utilisation: mean_of(&|jobs| jobs.min(slots as usize) as f64 / f64::from(slots)),
        mean_jobs: mean_of(&|jobs| jobs as f64),
        fluid_mean_jobs: fluid_mean_jobs(model, m),
        occupancy: (1..=MOST_LEVELS).map(at_least).take_while(|&x| x > LEAST_OCCUPANCY).collect(),
    }
}

/// Mean of `value(jobs)` over a law of job counts; not a number if nothing was seen.
fn average(times: &[f64], value: &dyn Fn(usize) -> f64) -> f64 {
    let sum: f64 = times.iter().enumerate().map(|(jobs, time)| time * value(jobs)).sum();
    sum / times.iter().sum::<f64>()
}

fn mean_jobs(fleet: &Fleet, record: &Record) -> f64 {
    let at_servers = fleet.server_types().map(|m| {
        let servers = fleet.servers_of_type(m).len();
        if servers == 0 { 0.0 } else { servers as f64 * average(&record.occupancy[m.index()], &|jobs| jobs as f64) }
    });
    at_servers.sum::<f64>() + record.mean_line
}

/// Busy slots per server of type `m` when the fastest slots do all the work: 1 slot each for faster types, the rest
/// for one, none for slower ones. Servers without a job type do not count.
fn fluid_mean_jobs(model: &Model, m: ServerTypeId) -> Option<f64> {
    let rates = model.uniform_rates.as_deref()?;
    let mut left = model.arrival_rate;
    let mut busy = None;
    for other in model.fleet.server_types() {
        let servers = model.servers_with_work[other.index()] as f64;
        let slots = servers * f64::from(model.slots(other));
        let here = (left / rates[other.index()]).min(slots);
        left -= here * rates[other.index()];
        if other == m && servers > 0.0 {
            busy = Some(here / servers);
        }
    }
    busy.filter(|_| left <= 1e-9 * model.arrival_rate)
}
