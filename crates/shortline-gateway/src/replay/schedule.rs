//! When which request is sent: from a trace, or Poisson at the fleet file's rates.
//!
//! Three kinds of seconds meet here. *Written* seconds stand in trace and fleet file. With `--speedup S` a written
//! second lasts `1/S`: arrival times and sizes are divided by it, the load stays. With `--load x` arrival times alone
//! are compressed. Emulated servers of a fleet with `[emulate] time_scale = z` run everything `1/z` times faster:
//! they multiply service times by `z` themselves, so the replay multiplies arrival times by `z` and leaves sizes:
//!
//! `sent at = (arrival - first arrival) / compression / S * z`, `x-service-s = size / S`,
//!
//! and a server of rate `v` is busy for `size / S / v * z`: arrivals and service scale together.

use std::sync::Arc;

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp1};
use shortline_core::fleet::settings::Arrivals;
use shortline_core::random::Generator;
use shortline_core::{Fleet, JobTypeId};

use super::offered::Offered;
use super::{Options, ReplayError, Source};
use crate::trace::Trace;
use shortline_core::sizes::UnitLaw;

/// One request to send.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Request {
    /// When, in real seconds after the start.
    pub(super) at_s: f64,
    /// Index into [`Schedule::job_types`].
    pub(super) job_type: u32,
    /// What `x-service-s` says.
    pub(super) size: Option<f64>,
}

/// All requests of a run, in order.
pub(super) struct Schedule {
    /// Names of the job types.
    pub(super) job_types: Arc<[String]>,
    /// The same in the fleet, where they are there.
    pub(super) in_fleet: Vec<Option<JobTypeId>>,
    /// How many requests, if that is known beforehand.
    pub(super) total: Option<u64>,
    pub(super) offered_load: Option<f64>,
    /// Real seconds per written second of the fleet's clock.
    pub(super) time_scale: f64,
    /// What the user asked for and does not get.
    pub(super) warnings: Vec<String>,
    pub(super) requests: Box<dyn Iterator<Item = Request> + Send>,
}

/// The factors of the module's formula.
#[derive(Clone, Copy)]
struct Scale {
    arrivals: f64,
    sizes: f64,
}

impl Schedule {
    pub(super) fn new(options: &Options) -> Result<Self, ReplayError> {
        let time_scale = options.fleet.as_ref().map_or(1.0, |fleet| fleet.settings().emulate.time_scale);
        positive("speedup", options.speedup)?;
        positive("time_scale", time_scale)?;
        if let Some(load) = options.load {
            positive("load", load)?;
        }
        let schedule = match (&options.source, &options.fleet) {
            (Source::Trace(trace), fleet) => from_trace(trace, fleet.as_deref(), options, time_scale),
            (Source::Poisson { .. }, None) => Err(ReplayError::NoFleet("Poisson arrivals")),
            (Source::Poisson { .. }, Some(fleet)) => poisson(fleet, options, time_scale),
        }?;
        Ok(match options.duration {
            None => schedule,
            Some(duration) => {
                let end_s = duration.as_secs_f64();
                Self {
                    total: None,
                    requests: Box::new(schedule.requests.take_while(move |r| r.at_s < end_s)),
                    ..schedule
                }
            }
        })
    }
}

fn positive(what: &'static str, value: f64) -> Result<(), ReplayError> {
    if value > 0.0 && value.is_finite() { Ok(()) } else { Err(ReplayError::NotPositive { what, value }) }
}

/// By how much arrival times must be compressed for the load asked for, and the load after that.
fn compression(
    offered: &Offered,
    fleet: &Fleet,
    options: &Options,
    warnings: &mut Vec<String>,
) -> Result<(f64, f64), ReplayError> {
    let load = match &options.load_of {
        Some(load_of) => load_of(offered),
        None => {
            if options.load.is_some() && !fleet.is_uniform() {
                let what = "the fleet is not uniform; `load` here is work over capacity, not 1/s*";
                warnings.push(what.to_owned());
            }
            offered.load(fleet)
        }
    };
    match options.load {
        None => Ok((1.0, load)),
        Some(_) if !(load > 0.0 && load.is_finite()) => Err(ReplayError::NoLoad(load)),
        Some(wanted) => Ok((wanted / load, wanted)),
    }
}

fn from_trace(
    trace: &Arc<Trace>,
    fleet: Option<&Fleet>,
    options: &Options,
    time_scale: f64,
) -> Result<Schedule, ReplayError> {
    let job_types: Arc<[String]> = trace.job_types().into();
    let in_fleet: Vec<_> = job_types.iter().map(|name| fleet?.find_job_type(name)).collect();
    let mut warnings = Vec::new();
    let unknown: Vec<_> =
        job_types.iter().zip(&in_fleet).filter(|(_, id)| id.is_none()).map(|(name, _)| name).collect();
    if let (Some(_), Some(first)) = (fleet, unknown.first()) {
        let count = unknown.len();
        warnings.push(format!("{count} job types of the trace are not in the fleet, the first is `{first}`"));
    }
    let (mut factor, mut offered_load) = (1.0, None);
    match fleet {
        Some(fleet) => {
            let offered = offered_by(trace, fleet, &in_fleet);
            if options.load.is_some() || offered.total_rate_per_s() > 0.0 {
                let (compress, load) = compression(&offered, fleet, options, &mut warnings)?;
                (factor, offered_load) = (compress, Some(load));
            }
        }
        None if options.load.is_some() => return Err(ReplayError::NoFleet("`load`")),
        None => {}
    }
    let scale = Scale { arrivals: time_scale / factor / options.speedup, sizes: options.speedup.recip() };
    Ok(Schedule {
        job_types,
        in_fleet,
        total: Some(trace.arrivals().len() as u64),
        offered_load,
        time_scale,
        warnings,
        requests: Box::new(TraceRequests { trace: Arc::clone(trace), next: 0, scale }),
    })
}

/// Mean rates and sizes of a trace: `n - 1` gaps over its span; a request without size has its job type's mean size.
fn offered_by(trace: &Trace, fleet: &Fleet, in_fleet: &[Option<JobTypeId>]) -> Offered {
    let arrivals = trace.arrivals();
    let mut counts = vec![0.0; fleet.job_type_count()];
    let mut work = vec![0.0; fleet.job_type_count()];
    for arrival in arrivals {
        if let Some(l) = in_fleet[arrival.job_type()] {
            counts[l.index()] += 1.0;
            work[l.index()] += arrival.size().unwrap_or_else(|| fleet.size(l));
        }
    }
    let span_s = arrivals[arrivals.len() - 1].at_s - arrivals[0].at_s;
    let n = arrivals.len() as f64;
    let per_s = if span_s > 0.0 { (n - 1.0) / n / span_s } else { 0.0 };
    Offered::measured(&counts, &work, per_s, |l| fleet.size(l))
}

struct TraceRequests {
    trace: Arc<Trace>,
    next: usize,
    scale: Scale,
}

impl Iterator for TraceRequests {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        let arrivals = self.trace.arrivals();
        let arrival = arrivals.get(self.next)?;
        self.next += 1;
        Some(Request {
            at_s: (arrival.at_s - arrivals[0].at_s) * self.scale.arrivals,
            job_type: u32::try_from(arrival.job_type()).expect("a trace numbers its job types in 32 bits"),
            size: arrival.size().map(|size| size * self.scale.sizes),
        })
    }
}

fn poisson(fleet: &Arc<Fleet>, options: &Options, time_scale: f64) -> Result<Schedule, ReplayError> {
    let Source::Poisson { requests } = &options.source else { unreachable!("the caller matched on it") };
    let mut warnings = Vec::new();
    if fleet.settings().arrivals != Arrivals::Poisson {
        warnings.push("[arrivals] is not honoured: arrivals are Poisson at the file's mean rates".to_owned());
    }
    let law = UnitLaw::new(fleet.settings().service.law)?;
    let mut offered = Offered::default();
    for l in fleet.job_types() {
        let rate = fleet.arrival_rate(l).ok_or_else(|| ReplayError::NoRate(fleet.job_type_name(l)))?;
        offered.rates_per_s.push(rate);
        offered.sizes.push(fleet.size(l));
    }
    if offered.total_rate_per_s() <= 0.0 {
        return Err(ReplayError::NoTraffic);
    }
    let (factor, load) = compression(&offered, fleet, options, &mut warnings)?;
    let shares = offered.rates_per_s.iter().scan(0.0, |sum, rate| {
        *sum += rate;
        Some(*sum)
    });
    let range = requests.clone().unwrap_or(0..u64::MAX);
    if range.is_empty() {
        return Err(ReplayError::EmptySlice(range));
    }
    let arrivals = Poisson {
        cumulative: shares.collect(),
        sizes: offered.sizes,
        law,
        rng: Generator::seed_from_u64(options.seed),
        now_s: 0.0,
        scale: Scale { arrivals: time_scale / factor / options.speedup, sizes: options.speedup.recip() },
    };
    let skip = usize::try_from(range.start).map_err(|_| ReplayError::EmptySlice(range.clone()))?;
    let mut sliced = arrivals.skip(skip).peekable();
    let first_s = if skip > 0 { sliced.peek().map_or(0.0, |first| first.at_s) } else { 0.0 };
    let count = range.end - range.start;
    let limit = usize::try_from(count).unwrap_or(usize::MAX);
    Ok(Schedule {
        job_types: fleet.job_types().map(|l| fleet.job_type_name(l)).collect(),
        in_fleet: fleet.job_types().map(Some).collect(),
        total: requests.is_some().then_some(count),
        offered_load: Some(load),
        time_scale,
        warnings,
        requests: Box::new(sliced.take(limit).map(move |r| Request { at_s: r.at_s - first_s, ..r })),
    })
}

/// A Poisson process of all job types together, each arrival of type `l` with probability `lambda_l / Lambda`.
struct Poisson {
    /// Partial sums of the rates.
    cumulative: Vec<f64>,
    sizes: Vec<f64>,
    law: UnitLaw,
    rng: Generator,
    /// Time of the last arrival, in written seconds.
    now_s: f64,
    scale: Scale,
}

impl Iterator for Poisson {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        let total = *self.cumulative.last()?;
        let gap: f64 = Exp1.sample(&mut self.rng);
        self.now_s += gap / total;
        let mark = self.rng.random::<f64>() * total;
        let l = self.cumulative.partition_point(|&sum| sum <= mark).min(self.cumulative.len() - 1);
        let size = self.sizes[l] * self.law.draw(&mut self.rng);
        Some(Request {
            at_s: self.now_s * self.scale.arrivals,
            job_type: u32::try_from(l).expect("a fleet numbers its job types in 32 bits"),
            size: Some(size * self.scale.sizes),
        })
    }
}
