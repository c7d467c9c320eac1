//! The fast engine: counts only, no event calendar, no time stamps.
//!
//! **Clock.** Arrivals of every job type and potential completions of every server tick at constant rates, so the next
//! tick is one draw from a fixed table ([`ClockTable`]), whatever the state (uniformisation). A tick at an idle server
//! changes nothing; it is not an event. A server with `c` slots ticks at `c mu`, and a tick completes a job with
//! probability `min(jobs, c) / c`. Ticks come at the total rate `R` independently of the state: `n` ticks last `n / R`.
//!
//! **Response times.** With exponential sizes and FIFO a job that finds `k` jobs at a server of rate `mu` has a
//! response time whose law depends on `(k, mu)` only ([`ResponseLaw`]), so counts of (server type, `k`) give the
//! whole law, and the sum of the means gives each job type's mean: exact conditional expectations instead of
//! measurements, with less variance.
//!
//! **Lines.** A job that waits in front keeps the number of the tick it came with: it waits a number of ticks, whose mean
//! time is known and whose law is Erlang. By Little's law the mean line is what they wait per tick.
//!
//! **Occupancy.** A server's ticks see it at random times (Wolff, 1982, "Poisson arrivals see time averages").
//!
//! For uniform fleets where nobody gives up waiting. The decisions are the [`Dispatcher`]'s own.

use std::sync::Arc;

use rand::Rng;
use shortline_core::policy::Policy;
use shortline_core::random::{Generator, below};
use shortline_core::state::State;
use shortline_core::{Decision, Dispatcher, Fleet, JobTypeId, ServerId};

use crate::chain::{Chain, Progress, Streams};
use crate::clock_table::ClockTable;
use crate::model::Model;
use crate::record::Record;
use crate::tally::{FromFront, Tally};
use crate::ticks::{BLOCK, Ticks};

/// With more clocks than this, what a tick reads is in no near cache.
const LARGE: usize = 1 << 15;

/// Ticks of a uniform fleet, the same for all replications.
#[derive(Debug)]
pub(crate) struct Clock {
    table: ClockTable,
    clocks: usize,
    /// Ticks per second.
    rate: f64,
    slots: Vec<u32>,
}

impl Clock {
    pub(crate) fn new(model: &Model) -> Self {
        let fleet = &model.fleet;
        let servers = model.server_tick_rates();
        Self {
            rate: model.arrival_rate + servers.iter().sum::<f64>(),
            table: ClockTable::new(&model.arrival_rates, &servers),
            clocks: model.arrival_rates.len() + servers.len(),
            slots: fleet.server_types().map(|m| model.slots(m)).collect(),
        }
    }

    /// Ticks per second.
    pub(crate) fn rate(&self) -> f64 {
        self.rate
    }

    /// The next tick: a job type, or the number of job types plus a server.
    #[inline(always)]
    pub(crate) fn draw(&self, words: &mut Generator) -> u32 {
        self.table.draw(words.next_u64())
    }

    /// [`Ticks::draw`] of ticks of this clock: which table it has is asked once a block.
    #[inline(always)]
    fn draw_ahead(&self, ticks: &mut Ticks<u32>) -> bool {
        match &self.table {
            ClockTable::Few(table) => ticks.draw(|words| table.draw(words.next_u64())),
            ClockTable::Many(runs) => ticks.draw(|words| runs.draw(words.next_u64())),
        }
    }

    fn is_large(&self) -> bool {
        self.clocks > LARGE
    }

    /// Has the caches filled for these ticks.
    #[inline(never)]
    fn read_ahead(&self, model: &Model, state: &State, tally: &Tally, ticks: &[u32]) {
        let job_types = model.fleet.job_type_count();
        let mut arrivals = [JobTypeId::new(0); BLOCK];
        let mut servers = [ServerId::new(0); BLOCK];
        let (mut a, mut s) = (0, 0);
        // Without a branch on which of the two a tick is: that is chance.
        for &outcome in ticks {
            let outcome = outcome as usize;
            let arrives = outcome < job_types;
            arrivals[a] = JobTypeId::new(if arrives { outcome } else { 0 });
            servers[s] = ServerId::new(outcome.saturating_sub(job_types));
            a += usize::from(arrives);
            s += usize::from(!arrives);
        }
        state.read_ahead(&arrivals[..a], &servers[..s]);
        let joined = arrivals[..a].iter().fold(0, |sum, l| sum ^ tally.joined_by(l.index()));
        std::hint::black_box(joined);
    }
}

/// One replication.
#[derive(Debug)]
pub(crate) struct MarkovChain<P> {
    model: Arc<Model>,
    clock: Arc<Clock>,
    /// A waiting job is the number of its tick.
    dispatcher: Dispatcher<P, u64>,
    ticks: Ticks<u32>,
    choices: Generator,
    /// Draws times, for quantiles only.
    times: Generator,
    tally: Tally,
    progress: Progress,
    /// Ticks before this run.
    ticked: u64,
}

impl<P: Policy> MarkovChain<P> {
    /// The policy decides on the fleet `seen`.
    pub(crate) fn new(model: &Arc<Model>, seen: &Arc<Fleet>, clock: &Arc<Clock>, policy: P, streams: Streams) -> Self {
        Self {
            dispatcher: Dispatcher::new(Arc::clone(seen), policy),
            ticks: Ticks::new(streams.ticks),
            choices: streams.choices,
            times: streams.gaps,
            tally: Tally::new(model),
            progress: Progress::default(),
            ticked: 0,
            model: Arc::clone(model),
            clock: Arc::clone(clock),
        }
    }

    fn state(&self) -> &State {
        self.dispatcher.state()
    }
}

impl<P: Policy> Chain for MarkovChain<P> {
    fn run(&mut self, events: u64, ticks: u64) -> u64 {
        let (clock, model) = (&*self.clock, &*self.model);
        let (fleet, tally, dispatcher) = (&*model.fleet, &mut self.tally, &mut self.dispatcher);
        let (job_types, mut choices) = (fleet.job_type_count(), self.choices.clone());
        let (mut left, mut tick_count) = (events, 0_u64);
        while left > 0 && tick_count < ticks {
            if clock.draw_ahead(&mut self.ticks) && clock.is_large() {
                clock.read_ahead(model, dispatcher.state(), tally, self.ticks.ahead());
            }
            let ahead = self.ticks.ahead();
            let mut taken = ahead.len();
            for (i, &outcome) in ahead.iter().enumerate() {
                let outcome = outcome as usize;
                if outcome < job_types {
                    left -= 1;
                    let now = || self.ticked + tick_count + i as u64;
                    match dispatcher.route(JobTypeId::new(outcome), now, &mut choices) {
                        Decision::Joined(server) => {
                            let found = dispatcher.state().jobs(server) as usize - 1;
                            tally.join(model, outcome, fleet.server_type(server).index(), found);
                        }
                        Decision::Waiting(_) => tally.line_up(),
                        Decision::Blocked(_) => tally.block(outcome),
                    }
                } else {
                    let server = ServerId::new(outcome - job_types);
                    let server_type = fleet.server_type(server).index();
                    let jobs = dispatcher.state().jobs(server);
                    tally.see(model, server_type, jobs as usize);
                    let slots = clock.slots[server_type];
                    let slot = if slots == 1 { 0 } else { below(&mut choices, slots) };
                    left -= u64::from(jobs > slot);
                    tally.leave(server_type, jobs as usize, jobs > slot);
                    if let Some(started) = dispatcher.complete_if(server, jobs > slot) {
                        let start = FromFront {
                            job_type: started.job_type.index(),
                            server_type,
                            found: dispatcher.state().jobs(server) as usize - 1,
                            ticks: self.ticked + tick_count + i as u64 - started.job,
                        };
                        tally.start(model, 1.0 / clock.rate, &start, &mut self.times);
                    }
                }
                if left == 0 {
                    taken = i + 1;
                    break;
                }
            }
            self.ticks.take(taken);
            tick_count += taken as u64;
        }
        self.choices = choices;
        self.ticked += tick_count;
        tally.ticks += tick_count;
        self.progress.events += events - left;
        self.progress.time_s += tick_count as f64 / clock.rate;
        events - left
    }

    fn forget(&mut self) {
        self.tally.forget();
    }

    fn progress(&self) -> Progress {
        self.progress
    }

    fn jobs_at_servers(&self, visit: &mut dyn FnMut(u64, u64)) {
        self.state().for_each_count(|jobs, servers| visit(u64::from(jobs), servers));
    }

    fn lines(&self, visit: &mut dyn FnMut(u64)) {
        if self.dispatcher.waiting_total() > 0 {
            self.model.fleet.job_types().for_each(|l| visit(self.dispatcher.waiting(l) as u64));
        }
    }

    fn record(&self) -> Record {
        self.tally.record(&self.model, self.clock.rate)
    }
}
