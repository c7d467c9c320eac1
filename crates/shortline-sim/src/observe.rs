//! From the records of the replications to estimates: each figure is that of all replications together, its interval from
//! what they are without one of them.

use shortline_core::fleet::Fleet;
use shortline_core::{JobTypeId, ServerTypeId};

use crate::estimate::{Estimate, Ratio};
use crate::fates::Fates;
use crate::model::Model;
use crate::record::{Law, Record, Times, TypeTally};
use crate::report::{CdfPoint, IdleServers, JobTypeReport, Means, ServerTypeReport};

/// Longest list of occupancies.
const MOST_LEVELS: usize = 64;
/// Occupancies below this end the list.
const LEAST_OCCUPANCY: f64 = 1e-7;
/// Where the law of the response times is shown: at about these shares.
const CDF_SHARES: [f64; 25] = [
    0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9,
    0.95, 0.98, 0.99, 0.995, 0.999,
];

/// The two sides of one replication's mean response time: accepted jobs, arrival to completion.
pub(crate) fn response_parts(record: &Record) -> (f64, f64) {
    let times = record.law.times();
    (times.waiting_s + times.service_s, times.jobs)
}

/// All estimates; those of job types for `job_types` only.
pub(crate) fn means(model: &Model, records: &[Record], fates: Fates, job_types: &[JobTypeId]) -> Means {
    let times: Vec<Times> = records.iter().map(|record| record.law.times()).collect();
    let per_job = |sum: fn(&Times) -> f64| {
        not_negative(Estimate::of_ratio(&times.iter().map(|times| (sum(times), times.jobs)).collect::<Vec<_>>()))
    };
    let mean_service_s = per_job(|times| times.service_s);
    let waits: Vec<(f64, f64)> = times.iter().map(|times| (times.waited, times.jobs)).collect();
    let fraction_waiting = share(&waits, fates.waiting);
    let total = |record: &Record, count: fn(&TypeTally) -> u64| record.job_types.iter().map(count).sum::<u64>() as f64;
    let per_arrival = |count, may_happen| {
        let parts = records.iter().map(|record| (total(record, count), total(record, |t| t.arrivals)));
        share(&parts.collect::<Vec<_>>(), may_happen)
    };
    let quantiles = Quantiles::new(records);
    Means {
        mean_response_s: per_job(|times| times.waiting_s + times.service_s),
        mean_waiting_s: mean_waiting_s(per_job(|times| times.waiting_s), fraction_waiting, mean_service_s),
        mean_service_s,
        mean_jobs: mean_jobs(&model.fleet, records),
        fraction_waiting,
        p50_response_s: quantiles.estimate(0.5),
        p95_response_s: quantiles.estimate(0.95),
        p99_response_s: quantiles.estimate(0.99),
        response_cdf: quantiles.cdf(),
        blocking_probability: per_arrival(|t| t.blocked, fates.blocked),
        reneged_probability: per_arrival(|t| t.reneged, fates.reneged),
        throughput_per_s: not_negative(ratio(records, |record| {
            (total(record, |t| t.arrivals - t.blocked - t.reneged), record.time_s)
        })),
        per_job_type: job_types.iter().map(|&l| job_type(model, records, fates, l)).collect(),
        per_server_type: model.fleet.server_types().map(|m| server_type(model, records, m)).collect(),
        idle_servers: idle_servers(model, records),
    }
}

/// The same of records of measured jobs: each figure is that of all jobs together, with no correction for its bias, which
/// a path that is cut into parts has none of; and the intervals of quantiles are from those of the records (sectioning: Asmussen
/// and Glynn, 2007, "Stochastic Simulation", III.5): measured times may have atoms, between which a quantile jumps.
pub(crate) fn means_as_measured(model: &Model, records: &[Record], fates: Fates, job_types: &[JobTypeId]) -> Means {
    let mut found = means(model, records, fates, job_types);
    let Some(whole) = Record::pooled(records) else { return found };
    if records.len() == 1 {
        return of_one_record(model, &whole, fates, job_types);
    }
    // Twice the same: an interval without width around what it is.
    let together = means(model, &[whole.clone(), whole], fates, job_types);
    let at = |estimate: &mut Option<Estimate>, value: Option<Estimate>, most: f64| {
        if let (Some(estimate), Some(value)) = (estimate.as_mut(), value) {
            let ends = estimate.ci95.map(|end| end + value.mean - estimate.mean);
            *estimate = Estimate { mean: value.mean, ci95: ends }.within(0.0, most);
        }
    };
    let (time, share) = (f64::INFINITY, 1.0);
    at(&mut found.mean_response_s, together.mean_response_s, time);
    at(&mut found.mean_waiting_s, together.mean_waiting_s, time);
    at(&mut found.mean_service_s, together.mean_service_s, time);
    at(&mut found.mean_jobs, together.mean_jobs, time);
    at(&mut found.throughput_per_s, together.throughput_per_s, time);
    at(&mut found.fraction_waiting, together.fraction_waiting, share);
    at(&mut found.blocking_probability, together.blocking_probability, share);
    at(&mut found.reneged_probability, together.reneged_probability, share);
    for (found, together) in found.per_job_type.iter_mut().zip(&together.per_job_type) {
        at(&mut found.mean_response_s, together.mean_response_s, time);
        at(&mut found.blocking_probability, together.blocking_probability, share);
    }
    for (found, together) in found.per_server_type.iter_mut().zip(&together.per_server_type) {
        at(&mut found.utilisation, together.utilisation, share);
        at(&mut found.mean_jobs, together.mean_jobs, time);
    }
    for (found, q) in
        [(&mut found.p50_response_s, 0.5), (&mut found.p95_response_s, 0.95), (&mut found.p99_response_s, 0.99)]
    {
        let quantiles: Vec<f64> =
            records.iter().map(|record| record.law.quantile_s(q)).filter(|quantile_s| quantile_s.is_finite()).collect();
        let all_s = Law::pooled(records.iter().map(|record| &record.law)).map_or(f64::NAN, |law| law.quantile_s(q));
        *found = Estimate::from_observations(&quantiles).filter(|_| all_s.is_finite());
        at(found, found.map(|_| Estimate { mean: all_s, ci95: [all_s; 2] }), time);
    }
    found
}

/// The figures of one record, without intervals but for what is certain.
fn of_one_record(model: &Model, record: &Record, fates: Fates, job_types: &[JobTypeId]) -> Means {
    let mut found = means(model, &[record.clone(), record.clone()], fates, job_types);
    let strip = |estimate: &mut Option<Estimate>| *estimate = estimate.map(Estimate::without_interval);
    for estimate in [
        &mut found.mean_response_s,
        &mut found.mean_waiting_s,
        &mut found.mean_service_s,
        &mut found.mean_jobs,
        &mut found.throughput_per_s,
    ] {
        strip(estimate);
    }
    for (estimate, q) in
        [(&mut found.p50_response_s, 0.5), (&mut found.p95_response_s, 0.95), (&mut found.p99_response_s, 0.99)]
    {
        let quantile_s = Some(record.law.quantile_s(q)).filter(|quantile_s| quantile_s.is_finite());
        *estimate = quantile_s.map(|mean| Estimate { mean, ci95: [mean; 2] }.without_interval());
    }
    found.response_cdf.iter_mut().for_each(|point| strip(&mut point.share));
    for (estimate, may_happen) in [
        (&mut found.fraction_waiting, fates.waiting),
        (&mut found.blocking_probability, fates.blocked),
        (&mut found.reneged_probability, fates.reneged),
    ] {
        if may_happen {
            strip(estimate);
        }
    }
    for job_type in &mut found.per_job_type {
        strip(&mut job_type.mean_response_s);
        if fates.blocked || fates.reneged {
            strip(&mut job_type.blocking_probability);
        }
    }
    for server_type in &mut found.per_server_type {
        strip(&mut server_type.utilisation);
        strip(&mut server_type.mean_jobs);
    }
    found
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

/// A time, a rate or a number of jobs: never negative.
fn not_negative(estimate: Option<Estimate>) -> Option<Estimate> {
    estimate.map(Estimate::not_negative)
}

/// A probability, from the hits and the trials of each replication.
fn share(parts: &[(f64, f64)], may_happen: bool) -> Option<Estimate> {
    debug_assert!(may_happen || parts.iter().all(|part| part.0 <= 0.0), "what cannot happen was seen: {parts:?}");
    if may_happen { Estimate::of_share(parts) } else { probability(Estimate::of_ratio(parts)) }
}

fn probability(estimate: Option<Estimate>) -> Option<Estimate> {
    estimate.map(|estimate| estimate.within(0.0, 1.0))
}

/// The mean waiting time. Where nobody was seen to wait it ends where it would if as many did as may be, each for a mean
/// service time.
fn mean_waiting_s(
    measured_s: Option<Estimate>,
    fraction_waiting: Option<Estimate>,
    mean_service_s: Option<Estimate>,
) -> Option<Estimate> {
    let (waiting_s, waits, service_s) = (measured_s?, fraction_waiting?, mean_service_s?);
    if waits.mean > 0.0 {
        return Some(waiting_s);
    }
    Some(Estimate { ci95: [0.0, waits.ci95[1] * service_s.mean], ..waiting_s })
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
        not_negative(Estimate::jackknife(self.without.len(), |left_out| match left_out {
            None => quantile_s(&self.all),
            Some(i) => quantile_s(&self.without[i]),
        }))
    }

    /// Shares, estimated at the times that all replications together give for [`CDF_SHARES`].
    fn cdf(&self) -> Vec<CdfPoint> {
        let times = CDF_SHARES.iter().filter_map(|&q| Some(self.all.as_ref()?.quantile_s(q)));
        times.filter(|time_s| time_s.is_finite()).map(|time_s| CdfPoint { time_s, share: self.share(time_s) }).collect()
    }

    fn share(&self, time_s: f64) -> Option<Estimate> {
        let share = |law: &Option<Law>| law.as_ref().map_or(f64::NAN, |law| law.share_within(time_s));
        probability(Estimate::jackknife(self.without.len(), |left_out| match left_out {
            None => share(&self.all),
            Some(i) => share(&self.without[i]),
        }))
    }
}

fn job_type(model: &Model, records: &[Record], fates: Fates, l: JobTypeId) -> JobTypeReport {
    let parts = |of: fn(&TypeTally) -> (f64, f64)| -> Vec<(f64, f64)> {
        records.iter().map(|record| of(&record.job_types[l.index()])).collect()
    };
    let losses = parts(|t| ((t.blocked + t.reneged) as f64, t.arrivals as f64));
    JobTypeReport {
        name: model.fleet.job_type_name(l),
        mean_response_s: not_negative(Estimate::of_ratio(&parts(|t| (t.response_sum_s, t.responses as f64)))),
        blocking_probability: share(&losses, fates.blocked || fates.reneged),
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
        mean_jobs: not_negative(mean_of(&|jobs| jobs as f64)),
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
    not_negative(Estimate::jackknife(records.len(), |left_out| {
        ratios.iter().map(|(factor, ratio)| factor * ratio.without(left_out)).sum()
    }))
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
