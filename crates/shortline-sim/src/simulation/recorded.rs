//! Recorded jobs instead of drawn ones: [`Simulation::trace`], and the reports of it.

use std::sync::Arc;

use super::answer::{Parts, differences};
use super::{Observer, Simulation, Unobserved};
use crate::SimulationError;
use crate::calendar::reach::Reach;
use crate::calendar::trace::{self, Fate, Path, TraceJob};
use crate::engine::{Contender, Workshop};
use crate::model::Model;
use crate::observe;
use crate::report::{PolicyReport, Report};

impl Simulation {
    /// Simulates these jobs, once, instead of drawing any: from the first arrival, which is time 0, to an empty fleet until
    /// the last one has left. [`until`](Self::until) is not used. Means are over all jobs; intervals are by batch means (up
    /// to 32 parts of the trace, treated like replications). The fleet's arrival rates and sizes do not matter but for
    /// the offered load and policies that know them: [`fleet_under`](crate::fleet_under) gives it those of the trace.
    ///
    /// The dispatcher chooses like one that was given the generator `Generator::seed_from_u64(seed)`.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use shortline_core::{fleet::*, graph::Edges};
    /// # let parts = FleetParts {
    /// #     name: "one server".into(),
    /// #     server_types: vec![ServerTypeParts { name: "A10".into(), speed: Speed::Rate(2.0), slots: 1 }],
    /// #     servers: vec![ServerParts { names: Names { base: "gpu".into(), count: None }, server_type: 0, buffer: None, addresses: vec![] }],
    /// #     job_types: vec![JobTypeParts { names: Names { base: "m".into(), count: None }, arrivals: ArrivalRates::Each(1.0), size: 1.0 }],
    /// #     rates: vec![], edges: Edges::Complete, settings: Settings::default(),
    /// # };
    /// use shortline_core::JobTypeId;
    /// use shortline_sim::{Simulation, TraceJob};
    ///
    /// // One server of rate 2; jobs of size 4 take 2 s.
    /// let fleet = Arc::new(Fleet::new(parts)?);
    /// let jobs = [10.0, 11.0, 12.0].map(|at_s| TraceJob::new(at_s, JobTypeId::new(0), Some(4.0)));
    /// let simulation = Simulation::new(&fleet).policy("jsq".parse()?).trace(Arc::new(jobs.to_vec()));
    /// let completed: Vec<f64> = simulation.fates()?[0].iter().map(|fate| fate.completed_s).collect();
    /// assert_eq!(completed, [2.0, 4.0, 6.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn trace(mut self, jobs: Arc<Vec<TraceJob>>) -> Self {
        self.trace = Some(jobs);
        self
    }

    pub(super) fn run_trace(
        &self,
        jobs: &Arc<Vec<TraceJob>>,
        observer: &dyn Observer,
    ) -> Result<Report, SimulationError> {
        let (model, paths) = self.paths(jobs, observer, false)?;
        let job_types = self.listed_job_types(&model);
        let policy = |driven: &Driven| {
            let Driven { contender, path, cpu_s, .. } = driven;
            let why_no_means = driven.why_no_means();
            let means = why_no_means
                .is_none()
                .then(|| observe::means_as_measured(&model, &path.batches, contender.fates, &job_types));
            PolicyReport {
                policy: contender.name.clone(),
                engine: contender.engine,
                engine_why: contender.why.into(),
                unstable: false,
                growth_jobs_per_s: None,
                growing_replications: None,
                false_alarm_rate: 0.0,
                converged: means.is_some() && path.complete && path.unfinished == 0,
                means,
                bound: None,
                why: why_no_means.or_else(|| driven.why_less(jobs.len())),
                ratio_to_bound: None,
                unfinished: if path.complete { path.unfinished } else { 0 },
                events: path.events,
                warmup_events: 0,
                simulated_s: path.time_s,
                cpu_s: *cpu_s,
                replications: 1,
                seed: self.seed,
            }
        };
        let parts = paths.iter().map(|driven| {
            let parts: Parts = driven.path.batches.iter().map(observe::response_parts).collect();
            (driven.contender.name.clone(), (driven.why_no_means().is_none() && parts.len() > 1).then_some(parts))
        });
        Ok(Report {
            policies: paths.iter().map(policy).collect(),
            differences: differences(&parts.collect::<Vec<_>>()),
            ..self.empty_report(&model)
        })
    }

    /// What becomes of each job of the [`trace`](Self::trace), under each policy; in memory.
    ///
    /// # Errors
    /// As [`run`](Self::run); and if there is no trace.
    pub fn fates(&self) -> Result<Vec<Vec<Fate>>, SimulationError> {
        self.check_options()?;
        let jobs = self.trace.as_ref().ok_or(SimulationError::NeedsTrace { section: "what is asked" })?;
        let (_, paths) = self.paths(jobs, &Unobserved, true)?;
        Ok(paths.into_iter().map(|driven| driven.path.fates).collect())
    }

    fn paths(
        &self,
        jobs: &Arc<Vec<TraceJob>>,
        observer: &dyn Observer,
        fates: bool,
    ) -> Result<(Arc<Model>, Vec<Driven>), SimulationError> {
        let model = Model::new(&self.fleet, self.load_factor)?;
        let workshop = Workshop::for_trace(model, Arc::clone(jobs), self.load_factor)?;
        let reach = workshop.reach().expect("a trace goes by the calendar");
        let drive = |contender: Contender| {
            let before_s = observer.cpu_s();
            let run = contender.path.as_ref().expect("this workshop makes paths");
            let path = run(self.seed, observer, fates);
            Driven { contender, path, reach, cpu_s: observer.cpu_s() - before_s }
        };
        Ok((Arc::clone(&workshop.model), self.contenders(&workshop)?.into_iter().map(drive).collect()))
    }
}

/// A policy and the path it took.
struct Driven {
    contender: Contender,
    path: Path,
    reach: Reach,
    cpu_s: f64,
}

impl Driven {
    /// Why there are no means, if there are none.
    fn why_no_means(&self) -> Option<String> {
        if self.path.batches.is_empty() {
            return Some("the run was stopped before the end of its first batch".to_owned());
        }
        self.reach.check("the path lasted", self.path.time_s).err().map(|error| error.to_string())
    }

    /// Why there is less than was asked for: means of some of the jobs, or without intervals.
    fn why_less(&self, jobs: usize) -> Option<String> {
        if !self.path.complete {
            let arrived = self.path.arrived_in_batches;
            return Some(format!("the run was stopped; the figures are those of the first {arrived} of {jobs} jobs"));
        }
        (self.path.batches.len() == 1).then(|| {
            let least = trace::FEWEST_JOBS_FOR_INTERVALS;
            let why = match jobs {
                1 => format!("one job cannot be cut into parts, from {least} on"),
                _ if (jobs as u64) < least => format!("{jobs} jobs are too few to be cut into parts, from {least} on"),
                _ => "all jobs that left did so in one part of the trace, so that its parts cannot be compared"
                    .to_owned(),
            };
            let these = if jobs == 1 { "this job" } else { "these jobs" };
            format!("{why}: the means are exact, of {these}, and have no intervals")
        })
    }
}
