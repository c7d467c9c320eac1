//! Recorded jobs: a trace, read by the gateway's reader, as traffic of the fleet.
//!
//! The fleet is given the rates and mean sizes of the trace, so that its offered load, the bound and the shares of policy `split`
//! are those of the traffic that is simulated. `--load x` compresses arrival times by one factor; sizes stay.

use std::path::Path;
use std::sync::Arc;

use shortline_core::fleet::FleetParts;
use shortline_core::fleet::settings::{Arrivals, SizeLaw};
use shortline_core::{Fleet, JobTypeId};
use shortline_gateway::trace::{Arrival, Trace};
use shortline_sim::{TraceJob, fleet_under};
use shortline_theory::stability;

use super::Args;
use super::long_run::at_rates;
use super::sweep::Point;
use crate::digits::{counted, exact};
use crate::failure::Failure;
use crate::fingerprint::Fingerprint;
use crate::replay;

/// The jobs of a trace, and the fleet under their traffic.
pub(super) struct Recorded {
    pub(super) fleet: Arc<Fleet>,
    jobs: Arc<Vec<TraceJob>>,
}

/// Jobs, and how many times as fast as recorded they arrive.
pub(super) struct Jobs {
    pub(super) jobs: Arc<Vec<TraceJob>>,
    pub(super) load_factor: f64,
}

impl Recorded {
    /// Reads the trace that `--trace` names.
    pub(super) fn read(args: &Args, path: &Path, parts: &FleetParts) -> Result<Self, Failure> {
        let trace = replay::read_trace(path, &args.columns, args.requests.clone())?;
        let mut parts = parts.clone();
        parts.settings.arrivals = Arrivals::Trace;
        if !trace.has_sizes() && parts.settings.service.law == SizeLaw::Trace {
            return Err(Failure::usage(format!(
                "the trace `{}` has no column `service_s`, and [service] distribution = \"trace\" takes sizes from there; add the \
                 column, name it with --columns service_s=NAME, or choose another distribution, to draw sizes",
                path.display()
            )));
        }
        if trace.has_sizes() {
            // Sizes are those of the jobs, whatever law the file names: nothing is drawn.
            parts.settings.service.law = SizeLaw::Exponential;
        }
        let fleet = Fleet::new(parts).map_err(Failure::usage)?;
        let job_types = in_fleet(&trace, &fleet, path, args.requests.as_ref().map_or(0, |requests| requests.start))?;
        let job = |arrival: Arrival| TraceJob::new(arrival.at_s, job_types[arrival.job_type()], arrival.size());
        // In place: both have the same layout.
        let jobs: Vec<TraceJob> = trace.into_arrivals().into_iter().map(job).collect();
        let fleet = fleet_under(&fleet, &jobs).map_err(Failure::usage)?;
        Ok(Self { fleet: Arc::new(fleet), jobs: Arc::new(jobs) })
    }

    /// The jobs as recorded, or at an offered load.
    pub(super) fn at(&self, point: Option<Point>, load: Option<f64>) -> Result<Jobs, Failure> {
        let load = match point {
            None => load,
            Some(Point::Load(load)) => Some(load),
            Some(point) => {
                let what = point.title();
                return Err(Failure::usage(format!("--trace goes with --sweep load=..., not with {what}")));
            }
        };
        let load_factor = match load {
            None => 1.0,
            Some(load) => self.factor(load)?,
        };
        Ok(Jobs { jobs: Arc::clone(&self.jobs), load_factor })
    }

    /// The fleet under the jobs' traffic, as recorded or at an offered load.
    pub(super) fn fleet_at(&self, load: Option<f64>) -> Result<Arc<Fleet>, Failure> {
        at_rates(&self.fleet, self.at(None, load)?.load_factor)
    }

    /// What was simulated, in a sentence.
    pub(super) fn described(&self, args: &Args) -> String {
        let name = match args.trace.as_deref() {
            Some(path) if path != Path::new("-") => path.display().to_string(),
            _ => "standard input".to_owned(),
        };
        let n = self.jobs.len();
        let which = match &args.requests {
            Some(requests) => format!("requests {}..{} ({})", requests.start, requests.end, counted(n, "job")),
            None if n == 1 => "its only job".to_owned(),
            None => format!("all {n} jobs"),
        };
        let sweeps = args.sweep.is_some();
        let how = match args.load {
            _ if sweeps => "with arrival times compressed to each load".to_owned(),
            Some(load) => format!("with arrival times compressed to load {}", exact(load)),
            None => "at the times recorded".to_owned(),
        };
        format!("Recorded jobs: the trace {name}; {which}, {how}.")
    }

    /// Of the jobs.
    pub(super) fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.jobs)
    }

    /// Why there is no load that arrival times could be compressed to.
    fn why_no_load(&self) -> Option<&'static str> {
        if self.jobs.iter().all(|job| job.size() == Some(0.0)) {
            return Some("the jobs of the trace bring no work, so that it has no load to scale");
        }
        let [first, .., last] = &self.jobs[..] else { return Some("a single job has no load to scale") };
        (last.arrival_s <= first.arrival_s)
            .then_some("all jobs of the trace arrive at one moment, so that there is no time between them to compress")
    }

    /// By what all rates are to be multiplied for this offered load.
    fn factor(&self, load: f64) -> Result<f64, Failure> {
        if !(load > 0.0 && load.is_finite()) {
            return Err(Failure::usage(format!("--load is {load}, must be positive and finite")));
        }
        if let Some(why) = self.why_no_load() {
            return Err(Failure::usage(format!("--load {load}: {why}; leave --load out")));
        }
        let offered = stability::offered_load(&self.fleet).map_err(Failure::usage)?;
        if !(offered > 0.0 && offered.is_finite()) {
            return Err(Failure::usage(format!("the trace offers load {offered}, which cannot be scaled to {load}")));
        }
        Ok(load / offered)
    }
}

/// The trace's job types in the fleet; `first` requests were passed over.
fn in_fleet(trace: &Trace, fleet: &Fleet, path: &Path, first: u64) -> Result<Vec<JobTypeId>, Failure> {
    let find = |(number, name): (usize, &String)| {
        fleet.find_job_type(name).ok_or_else(|| {
            let at = trace.arrivals().iter().position(|arrival| arrival.job_type() == number);
            // The header is line 1, and there is a request on every line.
            let line = first + at.map_or(0, |at| at as u64) + 2;
            let known: Vec<String> =
                fleet.job_types().take(5).map(|l| format!("`{}`", fleet.job_type_name(l))).collect();
            let more = if fleet.job_type_count() > known.len() { ", ..." } else { "" };
            Failure::usage(format!(
                "the trace `{}`, line {line}: job type `{name}` is not in the fleet, which has {}{more}; add a [[job_type]], or \
                 rename it in the trace",
                path.display(),
                known.join(", "),
            ))
        })
    };
    trace.job_types().iter().enumerate().map(find).collect()
}
