//! The fast engine: counts only, no event calendar, no time stamps.
//!
//! **Clock.** Arrivals of every job type and potential completions of every server tick at constant rates, so the next
//! tick is one draw from a fixed table ([`Alias`]), whatever the state (uniformisation). A tick at an idle server
//! changes nothing; it is not an event. A server with `c` slots ticks at `c mu`, and a tick completes a job with
//! probability `min(jobs, c) / c`. Ticks come at the total rate `R` independently of the state: `n` ticks last `n / R`.
//!
//! **Response times.** With exponential sizes and FIFO a job that finds `k` jobs at a server of rate `mu` has a
//! response time whose law depends on `(k, mu)` only ([`ResponseLaw`]), so counts of (server type, `k`) give the
//! whole law, and the sum of the means gives each job type's mean: exact conditional expectations instead of
//! measurements, with less variance.
//!
//! **Occupancy.** A server's ticks see it at random times (Wolff, 1982, "Poisson arrivals see time averages").
//!
//! For uniform fleets without lines in front. The decisions are the [`Dispatcher`]'s own.

use std::sync::Arc;

use rand::Rng;
use shortline_core::policy::Policy;
use shortline_core::random::below;
use shortline_core::state::State;
use shortline_core::{Decision, Dispatcher, JobTypeId, ServerId};

use crate::alias::Alias;
use crate::chain::{Chain, Progress, Streams};
use crate::model::Model;
use crate::record::{Law, Record, TypeTally};
use crate::response::ResponseLaw;

/// Ticks of a uniform fleet, the same for all replications.
#[derive(Debug)]
pub(crate) struct Clock {
    table: Alias,
    /// Ticks per second.
    rate: f64,
    slots: Vec<u32>,
}

impl Clock {
    pub(crate) fn new(model: &Model) -> Self {
        let fleet = &model.fleet;
        let mut weights = model.arrival_rates.clone();
        let slots = |r| f64::from(fleet.slots(r));
        weights.extend(model.largest_rates().iter().zip(fleet.servers()).map(|(rate, r)| rate * slots(r)));
        Self {
            rate: weights.iter().sum(),
            table: Alias::new(&weights),
            slots: fleet.server_types().map(|m| model.slots(m)).collect(),
        }
    }
}

/// One replication.
#[derive(Debug)]
pub(crate) struct MarkovChain<P> {
    model: Arc<Model>,
    clock: Arc<Clock>,
    dispatcher: Dispatcher<P, ()>,
    streams: Streams,
    tally: Tally,
    progress: Progress,
}

/// What is counted since the warm-up.
#[derive(Debug)]
struct Tally {
    ticks: u64,
    /// By job type: arrivals that joined a server, and the sum of their expected response times.
    joined: Vec<Joined>,
    /// By job type.
    blocked: Vec<u64>,
    /// By server type and number of jobs, `server type * stride + jobs`.
    cells: Vec<Cell>,
    stride: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Joined {
    jobs: u64,
    response_sum_s: f64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    /// Jobs that found this many.
    joined: u64,
    /// Their expected response time.
    response_s: f64,
    /// Ticks of servers that had this many.
    seen: u64,
}

impl<P: Policy> MarkovChain<P> {
    pub(crate) fn new(model: &Arc<Model>, clock: &Arc<Clock>, policy: P, streams: Streams) -> Self {
        let largest = model.fleet.servers().map(|r| model.fleet.buffer(r).unwrap_or(u32::MAX)).max();
        let stride = largest.unwrap_or(0).min(30) as usize + 2;
        Self {
            dispatcher: Dispatcher::new(Arc::clone(&model.fleet), policy),
            streams,
            tally: Tally::new(model, stride),
            progress: Progress::default(),
            model: Arc::clone(model),
            clock: Arc::clone(clock),
        }
    }

    fn state(&self) -> &State {
        self.dispatcher.state()
    }
}

impl<P: Policy> Chain for MarkovChain<P> {
    fn run(&mut self, events: u64) {
        let (clock, model) = (&*self.clock, &*self.model);
        let (fleet, tally, dispatcher) = (&*model.fleet, &mut self.tally, &mut self.dispatcher);
        let job_types = fleet.job_type_count();
        let (mut ticks, mut choices) = (self.streams.ticks.clone(), self.streams.choices.clone());
        let (mut left, mut tick_count) = (events, 0_u64);
        while left > 0 {
            tick_count += 1;
            let outcome = clock.table.draw(ticks.next_u64()) as usize;
            if outcome < job_types {
                left -= 1;
                match dispatcher.route(JobTypeId::new(outcome), || (), &mut choices) {
                    Decision::Joined(server) => {
                        let found = dispatcher.state().jobs(server) as usize - 1;
                        tally.join(model, outcome, fleet.server_type(server).index(), found);
                    }
                    Decision::Waiting(_) | Decision::Blocked(_) => tally.blocked[outcome] += 1,
                }
            } else {
                let server = ServerId::new(outcome - job_types);
                let server_type = fleet.server_type(server).index();
                let jobs = dispatcher.state().jobs(server);
                tally.see(model, server_type, jobs as usize);
                let slots = clock.slots[server_type];
                if jobs > (if slots == 1 { 0 } else { below(&mut choices, slots) }) {
                    left -= 1;
                    dispatcher.complete(server);
                }
            }
        }
        (self.streams.ticks, self.streams.choices) = (ticks, choices);
        tally.ticks += tick_count;
        self.progress.events += events;
        self.progress.time_s += tick_count as f64 / clock.rate;
    }

    fn forget(&mut self) {
        self.tally = Tally::new(&self.model, self.tally.stride);
    }

    fn progress(&self) -> Progress {
        self.progress
    }

    fn jobs_at_servers(&self, visit: &mut dyn FnMut(u64)) {
        self.model.fleet.servers().for_each(|server| visit(u64::from(self.state().jobs(server))));
    }

    fn lines(&self, _: &mut dyn FnMut(u64)) {}

    fn record(&self) -> Record {
        let t = &self.tally;
        let rates = self.model.uniform_rates.as_deref().expect("this engine simulates uniform fleets");
        let fleet = &self.model.fleet;
        let classes: Vec<&[Cell]> = t.cells.chunks(t.stride).collect();
        let mut law = ResponseLaw::default();
        for (m, cells) in fleet.server_types().zip(&classes) {
            let counts = cells.iter().map(|cell| cell.joined).collect();
            law.push(rates[m.index()], self.model.slots(m), counts);
        }
        let tally = |(joined, &blocked): (&Joined, &u64)| TypeTally {
            arrivals: joined.jobs + blocked,
            blocked,
            reneged: 0,
            responses: joined.jobs,
            response_sum_s: joined.response_sum_s,
        };
        Record {
            time_s: t.ticks as f64 / self.clock.rate,
            job_types: t.joined.iter().zip(&t.blocked).map(tally).collect(),
            law: Law::Counted(law),
            occupancy: classes.iter().map(|cells| cells.iter().map(|cell| cell.seen as f64).collect()).collect(),
            mean_line: 0.0,
        }
    }
}

impl Tally {
    fn new(model: &Model, stride: usize) -> Self {
        let job_types = model.fleet.job_type_count();
        let mut tally = Self {
            ticks: 0,
            joined: vec![Joined::default(); job_types],
            blocked: vec![0; job_types],
            cells: Vec::new(),
            stride: 0,
        };
        tally.widen(model, stride);
        tally
    }

    #[inline(always)]
    fn join(&mut self, model: &Model, job_type: usize, server_type: usize, found: usize) {
        if found >= self.stride {
            self.widen(model, found + 1);
        }
        let cell = &mut self.cells[server_type * self.stride + found];
        cell.joined += 1;
        let joined = &mut self.joined[job_type];
        joined.jobs += 1;
        joined.response_sum_s += cell.response_s;
    }

    #[inline(always)]
    fn see(&mut self, model: &Model, server_type: usize, jobs: usize) {
        if jobs >= self.stride {
            self.widen(model, jobs + 1);
        }
        self.cells[server_type * self.stride + jobs].seen += 1;
    }

    /// Makes room for `stride` job counts, and more.
    #[cold]
    fn widen(&mut self, model: &Model, stride: usize) {
        let stride = stride.next_power_of_two();
        let rates = model.uniform_rates.as_deref().expect("this engine simulates uniform fleets");
        let mut cells = Vec::with_capacity(rates.len() * stride);
        for m in model.fleet.server_types() {
            cells.extend((0..stride).map(|found| {
                let response_s = crate::response::mean_s(found, rates[m.index()], model.slots(m));
                match self.cells.get(m.index() * self.stride..).and_then(|cells| cells.get(found)) {
                    Some(old) if found < self.stride => Cell { response_s, ..*old },
                    _ => Cell { response_s, ..Cell::default() },
                }
            }));
        }
        (self.cells, self.stride) = (cells, stride);
    }
}
