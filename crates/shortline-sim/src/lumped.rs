//! Exchangeable servers as counts: every job type on every server, so that of each server type only the number of
//! servers with `k` jobs matters. An event costs the same for ten servers and for a million.
//!
//! The one engine that does not drive the dispatcher: its [rules] draw *what kind* of server a policy chooses, in the law
//! of the dispatcher's choices; the tests compare the two laws. Ticks, response times and occupancy are those of
//! [`markov`](crate::markov). Equal servers with one slot have a faster loop of their own ([`equal`]).

mod counts;
mod equal;
mod found;
mod heights;
#[cfg(test)]
mod law;
mod levels;
mod position;
mod rules;

use std::sync::Arc;

use shortline_core::ServerId;
use shortline_core::fleet::settings::Overflow;
use shortline_core::random::Generator;

use crate::chain::{Chain, Progress, Streams};
use crate::markov::Clock;
use crate::model::Model;
use crate::record::Record;
use crate::tally::Tally;
use crate::ticks::Ticks;
use counts::Counts;
use equal::EqualChain;
use levels::Levels;

pub(crate) use rules::{Lumpable, LumpableVisitor, with_lumpable};

/// Whether the servers of each type are exchangeable: uniform rates, every job type on every server, equal buffers
/// within a type, and nobody waits in front.
pub(crate) fn is_exchangeable(model: &Model) -> bool {
    let fleet = &model.fleet;
    let countable = fleet.server_types().all(|m| fleet.servers_of_type(m).len() <= Levels::MOST_SERVERS);
    let everywhere = fleet.graph().distinct_row_count() == 1 && fleet.graph().has_full_rows();
    let equal_buffers = fleet.server_types().all(|m| {
        let mut buffers = fleet.servers_of_type(m).map(|r| fleet.buffer(ServerId::new(r)));
        let first = buffers.next();
        buffers.all(|buffer| Some(buffer) == first)
    });
    let no_lines = fleet.settings().overflow != Overflow::Wait;
    model.uniform_rates.is_some() && countable && everywhere && equal_buffers && no_lines
}

/// A replication of an exchangeable fleet under this rule.
pub(crate) fn chain<L: Lumpable>(model: &Arc<Model>, clock: &Arc<Clock>, rule: L, streams: Streams) -> Box<dyn Chain> {
    match rule.position().filter(|_| EqualChain::suits(model)) {
        Some(position) => Box::new(EqualChain::new(model, clock, position, streams)),
        None => Box::new(LumpedChain::new(model, clock, rule, streams)),
    }
}

fn narrow(n: usize) -> u32 {
    u32::try_from(n).expect("a fleet has fewer than 2^32 servers")
}

/// One replication.
#[derive(Debug)]
pub(crate) struct LumpedChain<L> {
    model: Arc<Model>,
    clock: Arc<Clock>,
    rule: L,
    counts: Counts,
    ticks: Ticks<u32>,
    choices: Generator,
    tally: Tally,
    progress: Progress,
}

impl<L: Lumpable> LumpedChain<L> {
    pub(crate) fn new(model: &Arc<Model>, clock: &Arc<Clock>, rule: L, streams: Streams) -> Self {
        Self {
            rule,
            counts: Counts::new(model),
            ticks: Ticks::new(streams.ticks),
            choices: streams.choices,
            tally: Tally::new(model),
            progress: Progress::default(),
            model: Arc::clone(model),
            clock: Arc::clone(clock),
        }
    }
}

impl<L: Lumpable> Chain for LumpedChain<L> {
    fn run(&mut self, events: u64, ticks: u64) -> u64 {
        let (clock, model) = (&*self.clock, &*self.model);
        let (tally, counts) = (&mut self.tally, &mut self.counts);
        let (job_types, mut choices) = (model.arrival_rates.len(), self.choices.clone());
        let (mut left, mut tick_count) = (events, 0_u64);
        while left > 0 && tick_count < ticks {
            self.ticks.draw(|words| clock.draw(words));
            let ahead = self.ticks.ahead();
            let mut taken = ahead.len();
            for (i, &outcome) in ahead.iter().enumerate() {
                let outcome = outcome as usize;
                if outcome < job_types {
                    left -= 1;
                    match self.rule.choose(counts, &mut choices).filter(|&server| counts.has_room(server)) {
                        Some(server) => {
                            let found = counts.join(server);
                            tally.join(model, outcome, counts.server_type(server), found);
                        }
                        None => tally.block(outcome),
                    }
                } else {
                    let server = counts.nth((outcome - job_types) as u32);
                    let (jobs, left_one) = counts.complete(server, &mut choices);
                    tally.see(model, counts.server_type(server), jobs);
                    tally.leave(counts.server_type(server), jobs, left_one);
                    left -= u64::from(left_one);
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
        tally.ticks += tick_count;
        self.progress.events += events - left;
        self.progress.time_s += tick_count as f64 / clock.rate();
        events - left
    }

    fn forget(&mut self) {
        self.tally.forget();
    }

    fn progress(&self) -> Progress {
        self.progress
    }

    fn jobs_at_servers(&self, visit: &mut dyn FnMut(u64, u64)) {
        self.counts.levels().for_each(|(jobs, servers)| visit(jobs as u64, u64::from(servers)));
    }

    fn lines(&self, _: &mut dyn FnMut(u64)) {}

    fn record(&self) -> Record {
        self.tally.record(&self.model, self.clock.rate())
    }
}
