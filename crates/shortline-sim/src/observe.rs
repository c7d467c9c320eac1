//! From the records of the replications to estimates: each figure is that of all replications together, its interval from
//! what they are without one of them.

use shortline_core::fleet::Fleet;
use shortline_core::{JobTypeId, ServerTypeId};

use crate::estimate::{Estimate, Ratio};
use crate::model::Model;
use crate::record::{Law, Record, Times, TypeTally};
use crate::report::{IdleServers, JobTypeReport, Means, ServerTypeReport};

/// Longest list of occupancies.
const MOST_LEVELS: usize = 64;
/// Occupancies below this end the list.
const LEAST_OCCUPANCY: f64 = 1e-7;

/// The two sides of one replication's mean response time: accepted jobs, arrival to completion.
pub(crate) fn response_parts(record: &Record) -> (f64, f64) {
    let times = record.law.times();
    (times.waiting_s + times.service_s, times.jobs)
}

/// All estimates; those of job types for `job_types` only.
pub(crate) fn means(model: &Model, records: &[Record], job_types: &[JobTypeId]) -> Means {
    let times: Vec<Times> = records.iter().map(|record| record.law.times()).collect();
    let per_job = |sum: fn(&Times) -> f64| {
        Estimate::of_ratio(&times.iter().map(|times| (sum(times), times.jobs)).collect::<Vec<_>>())
    };
    let total = |record: &Record, count: fn(&TypeTally) -> u64| record.job_types.iter().map(count).sum::<u64>() as f64;
    let per_arrival = |count| ratio(records, |record| (total(record, count), total(record, |t| t.arrivals)));
    let quantiles = Quantiles::new(records);
    Means {
        mean_response_s: per_job(|times| times.waiting_s + times.service_s),
        mean_waiting_s: per_job(|times| times.waiting_s),
        mean_service_s: per_job(|times| times.service_s),
        mean_jobs: mean_jobs(&model.fleet, records),
        fraction_waiting: probability(per_job(|times| times.waited)),
        p50_response_s: quantiles.estimate(0.5),
        p95_response_s: quantiles.estimate(0.95),
        p99_response_s: quantiles.estimate(0.99),
        blocking_probability: probability(per_arrival(|t| t.blocked)),
        reneged_probability: probability(per_arrival(|t| t.reneged)),
        throughput_per_s: ratio(records, |record| {
            (total(record, |t| t.arrivals - t.blocked - t.reneged), record.time_s)
        }),
        per_job_type: job_types.iter().map(|&l| job_type(model, records, l)).collect(),
        per_server_type: model.fleet.server_types().map(|m| server_type(model, records, m)).collect(),
        idle_servers: idle_servers(model, records),
    }
}

fn idle_servers(model: &Model, records: &[Record]) -> Option<IdleServers> {
    let laws: Vec<Vec<f64>> = records
        .iter()
        .map(|record| Some(record.idle.as_ref()?.iter().map(|&arrivals| arrivals as f64).collect()))
        .collect::<Option<_>>()?;
    let of = |value: &dyn Fn(usize) -> f64| {
        Estimate::of_ratio(&laws.iter().map(|law| weighed(law, value)).collect::<Vec<_>>())
    };
    let servers = laws.first()?.len() - 1;
    let at_least = |i: usize| probability(of(&|idle| f64::from(u8::from(idle >= i))));
    Some(IdleServers {
        server_types: model.idle_of_fastest?,
        servers,
        mean: of(&|idle| idle as f64),
        at_least: (1..=servers).map_while(at_least).take_while(|p| p.mean > 0.0).collect(),
    })
}

fn ratio(records: &[Record], parts: impl Fn(&Record) -> (f64, f64)) -> Option<Estimate> {
    Estimate::of_ratio(&records.iter().map(parts).collect::<Vec<_>>())
}

fn probability(estimate: Option<Estimate>) -> Option<Estimate> {
    estimate.map(|estimate| estimate.within(0.0, 1.0))
}

/// The law of the response times of all replications together, and those of all but one.
struct Quantiles {
    all: Option<Law>,
    without: Vec<Option<Law>>,
}

impl Quantiles {
    fn new(records: &[Record]) -> Self {
        let others = |i| records.iter().enumerate().filter(move |&(j, _)| j != i).map(|(_, record)| &record.law);
        Self {
            all: Law::pooled(records.iter().map(|record| &record.law)),
            without: (0..records.len()).map(|i| Law::pooled(others(i))).collect(),
        }
    }

    fn estimate(&self, q: f64) -> Option<Estimate> {
        let quantile_s = |law: &Option<Law>| law.as_ref().map_or(f64::NAN, |law| law.quantile_s(q));
        Estimate::jackknife(self.without.len(), |left_out| match left_out {
            None => quantile_s(&self.all),
            Some(i) => quantile_s(&self.without[i]),
        })
    }
}

fn job_type(model: &Model, records: &[Record], l: JobTypeId) -> JobTypeReport {
    let of = |parts: fn(&TypeTally) -> (f64, f64)| ratio(records, |record| parts(&record.job_types[l.index()]));
    JobTypeReport {
        name: model.fleet.job_type_name(l),
        mean_response_s: of(|t| (t.response_sum_s, t.responses as f64)),
        blocking_probability: probability(of(|t| ((t.blocked + t.reneged) as f64, t.arrivals as f64))),
        share: model.arrival_rates[l.index()] / model.arrival_rate,
    }
}

fn server_type(model: &Model, records: &[Record], m: ServerTypeId) -> ServerTypeReport {
    let slots = model.slots(m);
    let mean_of = |value: &dyn Fn(usize) -> f64| ratio(records, |record| weighed(&record.occupancy[m.index()], value));
    let at_least = |i: usize| {
        let parts: Vec<(f64, f64)> = records
            .iter()
            .map(|record| weighed(&record.occupancy[m.index()], &|jobs| f64::from(u8::from(jobs >= i))))
            .collect();
        Ratio::new(&parts).without(None)
    };
    ServerTypeReport {
        name: model.fleet.server_type_parts(m).name.clone(),
        utilisation: probability(mean_of(&|jobs| jobs.min(slots as usize) as f64 / f64::from(slots))),
        mean_jobs: mean_of(&|jobs| jobs as f64),
        fluid_mean_jobs: fluid_mean_jobs(model, m),
        occupancy: (1..=MOST_LEVELS).map(at_least).take_while(|&x| x > LEAST_OCCUPANCY).collect(),
    }
}

/// The two sides of the mean of `value(jobs)` over a law of job counts.
fn weighed(times: &[f64], value: &dyn Fn(usize) -> f64) -> (f64, f64) {
    (times.iter().enumerate().map(|(jobs, time)| time * value(jobs)).sum(), times.iter().sum())
}

/// Servers of each type times their mean number of jobs, and the jobs that wait in front.
fn mean_jobs(fleet: &Fleet, records: &[Record]) -> Option<Estimate> {
    let line: Vec<(f64, f64)> = records.iter().map(|record| (record.line_area_s, record.time_s)).collect();
    let of_type = |m: ServerTypeId| -> Vec<(f64, f64)> {
        records.iter().map(|record| weighed(&record.occupancy[m.index()], &|jobs| jobs as f64)).collect()
    };
    let types = fleet.server_types().map(|m| (fleet.servers_of_type(m).len() as f64, of_type(m)));
    let terms: Vec<(f64, Vec<(f64, f64)>)> = types.filter(|(servers, _)| *servers > 0.0).chain([(1.0, line)]).collect();
    let ratios: Vec<(f64, Ratio<'_>)> = terms.iter().map(|(factor, parts)| (*factor, Ratio::new(parts))).collect();
    Estimate::jackknife(records.len(), |left_out| {
        ratios.iter().map(|(factor, ratio)| factor * ratio.without(left_out)).sum()
    })
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
