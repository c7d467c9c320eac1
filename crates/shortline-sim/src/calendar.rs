//! The general engine: an event calendar, for all that is no Markov chain of job counts.
//!
//! The dispatcher decides as in every engine; here the rest of the world is spelled out too, one file for each part:
//!
//! - [`arrivals`]: when the next job comes, and of which type. Sizes are drawn when a job comes, so that all policies of a
//!   run meet the same jobs in the same order: only their choices have a stream of their own.
//! - [`server`]: first in first out, or processor sharing; work is `size / rate` seconds of a slot.
//! - [`failures`]: servers that stand still for a while.
//! - [`information`]: old counts, and gateways that know their own jobs only.
//! - [`queue`]: what comes next.
//! - [`tally`]: what is counted. Waiting and service are measured.
//! - [`reach`]: how far the clock may run.
//! - [`trace`]: recorded jobs, one path.
//! - [`chain`]: the loop.

pub(crate) mod arrivals;
pub(crate) mod chain;
pub(crate) mod failures;
mod information;
mod queue;
pub(crate) mod reach;
mod server;
mod tally;
pub(crate) mod trace;

use std::sync::Arc;

use shortline_core::alias::Alias;
use shortline_core::fleet::settings::{Arrivals, SizeLaw};
use shortline_core::random::Generator;
use shortline_core::sizes::UnitLaw;

use crate::SimulationError;
use crate::model::Model;
use reach::Reach;

/// What the replications of all policies share.
#[derive(Debug)]
pub(crate) struct Blueprint {
    model: Arc<Model>,
    /// Which job type arrives, where that is chance.
    types: Arc<Alias>,
    /// `None`: every job of the trace has its size.
    law: Option<UnitLaw>,
    mean_sizes: Vec<f64>,
    gateways: u32,
    timeout_s: Option<f64>,
    /// Nothing but arrivals and departures happens.
    is_plain: bool,
    trace: Option<trace::Jobs>,
    /// How many times as fast these arrive.
    load_factor: f64,
    pub(crate) reach: Reach,
}

/// Gateways that fit into 4 GB: each has a dispatcher of its own in each of up to 32 replications, measured at some 10 kB and
/// 100 bytes a server.
fn most_gateways(servers: u64) -> u64 {
    (1 << 32) / (32 * (10_000 + 100 * servers))
}

/// Slots that are followed one by one, at most: 48 bytes each.
const MOST_SLOTS: u64 = 1 << 28;

impl Blueprint {
    pub(crate) fn new(
        model: &Arc<Model>,
        trace: Option<trace::Jobs>,
        load_factor: f64,
    ) -> Result<Self, SimulationError> {
        let fleet = &model.fleet;
        let settings = fleet.settings();
        if let Some(jobs) = &trace {
            trace::check(jobs, fleet.job_type_count())?;
        }
        let reach = match &trace {
            Some(jobs) => trace::reach(model, jobs),
            None => Reach::of(model),
        };
        if let Some(jobs) = &trace {
            reach.check("the last job of the trace arrives after", trace::span_s(jobs) / load_factor)?;
        }
        if trace.is_none() && settings.arrivals == Arrivals::Trace {
            return Err(SimulationError::NeedsTrace { section: "[arrivals] process" });
        }
        let slots: u64 = fleet.servers().map(|server| u64::from(fleet.slots(server))).sum();
        if slots > MOST_SLOTS {
            return Err(SimulationError::TooManySlots { slots, most: MOST_SLOTS });
        }
        let most = most_gateways(fleet.server_count() as u64);
        if u64::from(settings.information.gateways) > most {
            return Err(SimulationError::TooManyGateways { gateways: settings.information.gateways, most });
        }
        let every_job_has_its_size = trace.as_ref().is_some_and(|jobs| jobs.iter().all(|job| job.size().is_some()));
        let law = match settings.service.law {
            _ if every_job_has_its_size => None,
            SizeLaw::Trace => return Err(SimulationError::NeedsTrace { section: "[service] distribution" }),
            law => Some(UnitLaw::new(law)?),
        };
        Ok(Self {
            types: Arc::new(Alias::new(&model.arrival_rates)),
            law,
            mean_sizes: fleet.job_types().map(|l| fleet.size(l)).collect(),
            gateways: settings.information.gateways,
            timeout_s: settings.lines.timeout_s,
            is_plain: settings.failures.is_none()
                && settings.information.delay_s <= 0.0
                && settings.lines.timeout_s.is_none(),
            trace,
            load_factor,
            reach,
            model: Arc::clone(model),
        })
    }

    #[inline(always)]
    fn draw_size(&self, job_type: usize, rng: &mut Generator) -> f64 {
        let law = self.law.as_ref().expect("a job without a size is one of a law");
        self.mean_sizes[job_type] * law.draw(rng)
    }

    /// Whether the jobs are those of a trace.
    pub(crate) fn has_trace(&self) -> bool {
        self.trace.is_some()
    }

    /// Whether jobs of each type arrive.
    pub(crate) fn arriving(&self) -> Vec<bool> {
        let Some(jobs) = &self.trace else { return self.model.arrival_rates.iter().map(|&rate| rate > 0.0).collect() };
        let mut arriving = vec![false; self.model.arrival_rates.len()];
        jobs.iter().for_each(|job| arriving[job.job_type.index()] = true);
        arriving
    }

    /// How many those are.
    pub(crate) fn trace_len(&self) -> usize {
        self.trace.as_ref().map_or(0, |jobs| jobs.len())
    }
}
