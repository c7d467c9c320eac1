//! Equal servers with one slot: the loop without a branch on what happens.
//!
//! Where all servers are of one type, servers are told by their [position](Position) among those numbered by falling
//! number of jobs, and most policies choose a position without looking at the state. So an arrival and a potential
//! completion are the same: a number is looked up, and the level it is found at gains or loses a server. Which of the two
//! comes next is a coin that no processor can guess; nothing here branches on it.
//!
//! Numbers are drawn a block of ticks ahead, so that the loop over the block is the same for all policies.

use std::sync::Arc;

use shortline_core::Fleet;
use shortline_core::random::Generator;

use super::found::Found;
use super::heights::{HEAD, Head, Step, Tail};
use super::narrow;
use super::position::Position;
use crate::chain::{Chain, Progress, Streams};
use crate::markov::Clock;
use crate::model::Model;
use crate::record::Record;
use crate::ticks::{BLOCK, Ticks};

/// With more job types their counts would not stay in a near cache.
const MOST_JOB_TYPES: usize = 1024;

/// One replication.
#[derive(Debug)]
pub(crate) struct EqualChain {
    model: Arc<Model>,
    clock: Arc<Clock>,
    position: Position,
    servers: u32,
    capacity: usize,
    /// A job that joins, and one that leaves. In memory, since of constants the compiler makes a branch.
    steps: [Step; 2],
    head: Head,
    tail: Tail,
    ticks: Ticks<Placed>,
    choices: Generator,
    found: Found,
    progress: Progress,
}

/// A tick: the row of its count, and where it is.
#[derive(Clone, Copy, Default, Debug)]
struct Placed {
    row: u32,
    position: u32,
}

impl EqualChain {
    /// Whether such a chain tells this exchangeable fleet.
    pub(crate) fn suits(model: &Model) -> bool {
        let fleet = &model.fleet;
        let mut types = fleet.server_types().filter(|&m| !fleet.servers_of_type(m).is_empty());
        let one_slot = types.next().is_some_and(|m| model.slots(m) == 1);
        let one_type = types.next().is_none() && fleet.server_count() <= Head::MOST_SERVERS;
        let counts_only = model.idle_of_fastest.is_none();
        one_slot && one_type && counts_only && model.arrival_rates.len() <= MOST_JOB_TYPES
    }

    pub(crate) fn new(model: &Arc<Model>, clock: &Arc<Clock>, position: Position, streams: Streams) -> Self {
        let capacity = capacity(&model.fleet);
        Self {
            position,
            servers: narrow(model.fleet.server_count()),
            capacity,
            steps: [Step::join(capacity), Step::leave()],
            head: Head::new(),
            tail: Tail::new(),
            ticks: Ticks::new(streams.ticks),
            choices: streams.choices,
            found: Found::new(model.arrival_rates.len() + 1),
            progress: Progress::default(),
            model: Arc::clone(model),
            clock: Arc::clone(clock),
        }
    }

    /// Draws the next block, if the last one is used up.
    #[inline(always)]
    fn draw(&mut self) {
        let (job_types, last) = (narrow(self.model.arrival_rates.len()), self.servers - 1);
        // Selections, not branches.
        let place = |number: u32| Placed {
            row: number.min(job_types),
            position: if number < job_types { last } else { number.wrapping_sub(job_types) },
        };
        let clock = &*self.clock;
        if self.ticks.draw(|words| place(clock.draw(words))) && self.position != Position::Last {
            let block = self.ticks.ahead_mut();
            let (mut arrivals, mut count) = ([0; BLOCK], 0);
            for (i, tick) in block.iter().enumerate() {
                arrivals[count] = i as u8;
                count += usize::from(tick.row < job_types);
            }
            let mut choices = self.choices.clone();
            for &i in &arrivals[..count] {
                block[usize::from(i)].position = self.position.draw(self.servers, &mut choices);
            }
            self.choices = choices;
        }
    }

    /// Runs so many ticks that were drawn.
    #[inline(always)]
    fn step(&mut self, ticks: usize) {
        let servers_row = narrow(self.model.arrival_rates.len());
        let steps = &self.steps;
        let mut head = self.head;
        let (tail, found) = (&mut self.tail, &mut self.found);
        for &Placed { row, position } in &self.ticks.ahead()[..ticks] {
            let leaves = row == servers_row;
            let jobs = head.step(position, &steps[usize::from(leaves)]);
            found.add(row, jobs);
            if jobs == HEAD {
                let beyond = tail.step(position, leaves, self.capacity);
                if leaves && beyond > 0 {
                    head.restore();
                }
                found.add_deep(row, beyond);
            }
        }
        self.head = head;
        self.ticks.take(ticks);
    }
}

/// Most jobs at a server.
pub(crate) fn capacity(fleet: &Fleet) -> usize {
    let buffer = fleet.servers().next().and_then(|r| fleet.buffer(r));
    buffer.map_or(usize::MAX, |buffer| buffer as usize)
}

impl Chain for EqualChain {
    fn run(&mut self, events: u64, ticks: u64) -> u64 {
        let (mut left, mut tick_count) = (events, 0);
        while left > 0 && tick_count < ticks {
            self.draw();
            // A tick is one event at most: so many are safe.
            let ahead = self.ticks.ahead().len();
            let steps = ahead.min(usize::try_from(left).unwrap_or(ahead));
            let idle = self.found.idle_ticks();
            self.step(steps);
            tick_count += steps as u64;
            left -= steps as u64 - (self.found.idle_ticks() - idle);
        }
        self.found.ticks += tick_count;
        self.progress.events += events - left;
        self.progress.time_s += tick_count as f64 / self.clock.rate();
        events - left
    }

    fn forget(&mut self) {
        self.found.forget();
    }

    fn progress(&self) -> Progress {
        self.progress
    }

    fn jobs_at_servers(&self, visit: &mut dyn FnMut(u64, u64)) {
        let levels = std::iter::once(self.servers).chain(self.head.to_array()).chain(self.tail.iter());
        let at_least: Vec<u32> = levels.collect();
        at_least.windows(2).enumerate().for_each(|(jobs, pair)| visit(jobs as u64, u64::from(pair[0] - pair[1])));
    }

    fn lines(&self, _: &mut dyn FnMut(u64)) {}

    fn record(&self) -> Record {
        self.found.record(&self.model, self.clock.rate())
    }
}
