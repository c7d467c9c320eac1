//! What the engines need to know of a fleet, and which of them can simulate it.
//!
//! All but the event calendar are Markov chains: Poisson arrivals, exponential sizes, first in first out, no failures, exact
//! and immediate counts.

use std::sync::Arc;

use shortline_core::fleet::Fleet;
use shortline_core::fleet::settings::{Arrivals, Discipline, Information, SizeLaw};
use shortline_core::{JobTypeId, ServerId, ServerTypeId};

use crate::SimulationError;

/// A fleet with its arrival rates, checked.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) fleet: Arc<Fleet>,
    /// 1/s, by job type.
    pub(crate) arrival_rates: Vec<f64>,
    /// Their sum.
    pub(crate) arrival_rate: f64,
    /// The service rate of one slot by server type, 1/s, where it does not depend on the job type.
    pub(crate) uniform_rates: Option<Vec<f64>>,
    /// Servers that hold a job type, by server type.
    pub(crate) servers_with_work: Vec<usize>,
    /// The number of server types, fastest first, whose idle servers are counted, if they are to be.
    pub(crate) idle_of_fastest: Option<usize>,
}

impl Model {
    /// Reads the rates of `fleet`, all arrival rates multiplied by `load_factor`.
    pub(crate) fn new(fleet: &Arc<Fleet>, load_factor: f64) -> Result<Self, SimulationError> {
        if !fleet.has_rates() {
            return Err(SimulationError::RanksOnly);
        }
        let rate = |l: JobTypeId| match fleet.arrival_rate(l) {
            Some(rate) => Ok(rate * load_factor),
            None => Err(SimulationError::NoArrivalRate { job_type: fleet.job_type_name(l) }),
        };
        let arrival_rates: Vec<f64> = fleet.job_types().map(rate).collect::<Result<_, _>>()?;
        let arrival_rate: f64 = arrival_rates.iter().sum();
        if !(arrival_rate > 0.0 && arrival_rate.is_finite()) {
            return Err(SimulationError::NoArrivals { total: arrival_rate });
        }
        let is_served = |l: JobTypeId| arrival_rates[l.index()] > 0.0 && fleet.graph().degree(l.index()) > 0;
        if !fleet.job_types().any(is_served) {
            return Err(SimulationError::NothingServed);
        }
        let first = JobTypeId::new(0);
        let uniform_rates = fleet
            .is_uniform()
            .then(|| fleet.server_types().map(|m| fleet.rate(first, m) / fleet.size(first)).collect());
        let servers_with_work = servers_with_work(fleet);
        let fleet = Arc::clone(fleet);
        Ok(Self { fleet, arrival_rates, arrival_rate, uniform_rates, servers_with_work, idle_of_fastest: None })
    }

    /// Whether so few jobs come that of the ticks of all servers hardly one in a hundred would meet a job.
    pub(crate) fn is_sparse(&self) -> bool {
        /// Ticks of servers to one arrival.
        const MANY: f64 = 100.0;
        let fleet = &self.fleet;
        let ticks: f64 =
            self.largest_rates().iter().zip(fleet.servers()).map(|(rate, r)| rate * f64::from(fleet.slots(r))).sum();
        ticks > MANY * self.arrival_rate
    }

    /// `sum lambda size / sum slots rate` over servers with a job type, where the fleet is uniform.
    pub(crate) fn offered_load(&self) -> Option<f64> {
        let rates = self.uniform_rates.as_deref()?;
        let of =
            |m: ServerTypeId| self.servers_with_work[m.index()] as f64 * f64::from(self.slots(m)) * rates[m.index()];
        Some(self.arrival_rate / self.fleet.server_types().map(of).sum::<f64>())
    }

    /// Slots of a server of this type.
    pub(crate) fn slots(&self, server_type: ServerTypeId) -> u32 {
        self.fleet.server_type_parts(server_type).slots
    }

    /// Potential completions of each server: its slots times the largest rate of one, 1/s.
    pub(crate) fn server_tick_rates(&self) -> Vec<f64> {
        let slots = |r| f64::from(self.fleet.slots(r));
        self.largest_rates().iter().zip(self.fleet.servers()).map(|(rate, r)| rate * slots(r)).collect()
    }

    /// The largest service rate of one slot of each server over the job types it holds, 1/s; 0 for a server that
    /// holds none. O(edges), and O(types) for a job type that is on every server.
    pub(crate) fn largest_rates(&self) -> Vec<f64> {
        let fleet = &self.fleet;
        if let Some(rates) = &self.uniform_rates {
            return fleet.servers().map(|r| rates[fleet.server_type(r).index()]).collect();
        }
        let mut everywhere = vec![0.0_f64; fleet.server_type_count()];
        let mut largest = vec![0.0_f64; fleet.server_count()];
        for l in fleet.job_types() {
            if fleet.graph().degree(l.index()) == fleet.server_count() {
                for (best, m) in everywhere.iter_mut().zip(fleet.server_types()) {
                    *best = best.max(fleet.rate(l, m) / fleet.size(l));
                }
            } else {
                fleet.graph().for_each(l.index(), |r: ServerId| {
                    largest[r.index()] = largest[r.index()].max(fleet.service_rate(l, r));
                });
            }
        }
        for (best, r) in largest.iter_mut().zip(fleet.servers()) {
            *best = best.max(everywhere[fleet.server_type(r).index()]);
        }
        largest
    }
}

impl Model {
    /// The largest rate of one slot of a server that holds the job type, in size units per second, by job type; 0 where none
    /// does. O(edges), equal rows once.
    pub(crate) fn fastest_rates(&self) -> Vec<f64> {
        let (fleet, graph) = (&self.fleet, self.fleet.graph());
        // By row of the graph: the server types in it.
        let mut types_of_row: Vec<Option<Vec<ServerTypeId>>> = vec![None; graph.distinct_row_count()];
        let fastest = |l: JobTypeId| {
            let types = types_of_row[graph.row_number(l.index())].get_or_insert_with(|| {
                let mut is_there = vec![false; fleet.server_type_count()];
                graph.for_each(l.index(), |server| is_there[fleet.server_type(server).index()] = true);
                fleet.server_types().filter(|m| is_there[m.index()]).collect()
            });
            types.iter().map(|&m| fleet.rate(l, m)).fold(0.0, f64::max)
        };
        fleet.job_types().map(fastest).collect()
    }
}

fn servers_with_work(fleet: &Fleet) -> Vec<usize> {
    let mut works = vec![false; fleet.server_count()];
    let mut seen = vec![false; fleet.graph().distinct_row_count()];
    for l in fleet.job_types().map(JobTypeId::index) {
        if !std::mem::replace(&mut seen[fleet.graph().row_number(l)], true) {
            fleet.graph().for_each(l, |server| works[server.index()] = true);
        }
    }
    let of = |m| works[fleet.servers_of_type(m)].iter().filter(|works| **works).count();
    fleet.server_types().map(of).collect()
}

/// What of the fleet only the engine with an event calendar can do; `None` if it is a Markov chain of job counts.
pub(crate) fn beyond_markov(fleet: &Fleet) -> Option<&'static str> {
    let settings = fleet.settings();
    let asks = [
        (settings.service.law != SizeLaw::Exponential, "sizes that are not exponential: the event calendar"),
        (settings.service.discipline != Discipline::Fifo, "processor sharing: the event calendar"),
        (settings.arrivals != Arrivals::Poisson, "arrivals that are not Poisson: the event calendar"),
        (settings.failures.is_some(), "servers that fail: the event calendar"),
        (settings.information != Information::default(), "delayed or divided information: the event calendar"),
    ];
    asks.into_iter().find(|(asked, _)| *asked).map(|(_, why)| why)
}
