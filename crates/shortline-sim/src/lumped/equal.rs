//! Equal servers with one slot: the loop without a branch on what happens.
//!
//! Where all servers are of one type, servers are told by their [position](Position) among those numbered by falling
//! number of jobs, and most policies choose a position without looking at the state. So an arrival and a potential
//! completion are the same: a number is looked up, and the level it is found at gains or loses a server. Which of the two
//! comes next is a coin that no processor can guess; nothing here branches on it.
//!
//! Numbers are drawn a block of ticks ahead, so that the loop over the block is the same for all policies.

use std::sync::Arc;

use shortline_core::random::Generator;

use super::clock::LumpedClock;
use super::heights::{HEAD, Head, Step};
use super::narrow;
use super::position::Position;
use crate::chain::{Chain, Progress, Streams};
use crate::model::Model;
use crate::record::{Law, Record, TypeTally};
use crate::response::{self, ResponseLaw};
use crate::ticks::{BLOCK, Ticks};

/// With more job types their counts would not stay in a near cache.
const MOST_JOB_TYPES: usize = 1024;

/// One replication.
#[derive(Debug)]
pub(crate) struct EqualChain {
    model: Arc<Model>,
    clock: Arc<LumpedClock>,
    position: Position,
    servers: u32,
    capacity: usize,
    /// A job that joins, and one that leaves. In memory, since of constants the compiler makes a branch.
    steps: [Step; 2],
    head: Head,
    /// How many servers have more than [`HEAD`] jobs, more than one more than that, and so on; ends with 0.
    tail: Vec<u32>,
    ticks: Ticks<Placed>,
    choices: Generator,
    counts: Counts,
    progress: Progress,
}

/// A tick: the row of its count, and where it is.
#[derive(Clone, Copy, Default, Debug)]
struct Placed {
    row: u32,
    position: u32,
}

/// Ticks by what they were and how many jobs the server had: a row a job type, and one for servers' ticks.
#[derive(Debug)]
struct Counts {
    ticks: u64,
    rows: Vec<[u64; HEAD + 1]>,
    /// By `row`, then jobs beyond [`HEAD`].
    deep: Vec<Vec<u64>>,
}

impl EqualChain {
    /// Whether such a chain tells this exchangeable fleet.
    pub(crate) fn suits(model: &Model) -> bool {
        let fleet = &model.fleet;
        let mut types = fleet.server_types().filter(|&m| !fleet.servers_of_type(m).is_empty());
        let one_slot = types.next().is_some_and(|m| model.slots(m) == 1);
        one_slot && types.next().is_none() && model.arrival_rates.len() <= MOST_JOB_TYPES
    }

    pub(crate) fn new(model: &Arc<Model>, clock: &Arc<LumpedClock>, position: Position, streams: Streams) -> Self {
        let fleet = &model.fleet;
        let buffer = fleet.servers().next().and_then(|r| fleet.buffer(r));
        let capacity = buffer.map_or(usize::MAX, |buffer| buffer as usize);
        Self {
            position,
            servers: narrow(fleet.server_count()),
            capacity,
            steps: [Step::join(capacity), Step::leave()],
            head: Head::new(),
            tail: vec![0],
            ticks: Ticks::new(streams.ticks),
            choices: streams.choices,
            counts: Counts::new(model.arrival_rates.len() + 1),
            progress: Progress::default(),
            model: Arc::clone(model),
            clock: Arc::clone(clock),
        }
    }

    /// Draws the next block, if the last one is used up.
    #[inline(always)]
    fn draw(&mut self) {
        let (job_types, last) = (narrow(self.clock.job_types), self.servers - 1);
        // Selections, not branches.
        let place = |number: u32| Placed {
            row: number.min(job_types),
            position: if number < job_types { last } else { number.wrapping_sub(job_types) },
        };
        if self.clock.draw_numbers(&mut self.ticks, place) && self.position != Position::Last {
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
        let servers_row = narrow(self.clock.job_types);
        let steps = &self.steps;
        let mut head = self.head;
        let (tail, rows, deep) = (&mut self.tail, &mut self.counts.rows[..], &mut self.counts.deep);
        for &Placed { row, position } in &self.ticks.ahead()[..ticks] {
            let leaves = row == servers_row;
            let jobs = head.step(position, &steps[usize::from(leaves)]);
            rows[row as usize][jobs] += 1;
            if jobs == HEAD {
                let beyond = tail.iter().take_while(|&&servers| servers > position).count();
                step_deep(tail, beyond, leaves, self.capacity);
                if leaves && beyond > 0 {
                    head.restore();
                }
                count_deep(&mut deep[row as usize], beyond);
            }
        }
        self.head = head;
        self.ticks.take(ticks);
    }
}

/// A server with [`HEAD`] jobs and so many more gets one or loses one.
#[inline(never)]
fn step_deep(tail: &mut Vec<u32>, beyond: usize, leaves: bool, capacity: usize) {
    if leaves {
        if beyond > 0 {
            tail[beyond - 1] -= 1;
        }
    } else if HEAD + beyond < capacity {
        tail[beyond] += 1;
        if beyond + 1 == tail.len() {
            tail.push(0);
        }
    }
}

#[inline(never)]
fn count_deep(counts: &mut Vec<u64>, beyond: usize) {
    if beyond >= counts.len() {
        counts.resize(beyond + 1, 0);
    }
    counts[beyond] += 1;
}

impl Chain for EqualChain {
    fn run(&mut self, events: u64, ticks: u64) -> u64 {
        let (mut left, mut tick_count) = (events, 0);
        while left > 0 && tick_count < ticks {
            self.draw();
            // A tick is one event at most: so many are safe.
            let ahead = self.ticks.ahead().len();
            let steps = ahead.min(usize::try_from(left).unwrap_or(ahead));
            let idle = self.counts.seen_idle();
            self.step(steps);
            tick_count += steps as u64;
            left -= steps as u64 - (self.counts.seen_idle() - idle);
        }
        self.counts.ticks += tick_count;
        self.progress.events += events - left;
        self.progress.time_s += tick_count as f64 / self.clock.rate;
        events - left
    }

    fn forget(&mut self) {
        self.counts.forget();
    }

    fn progress(&self) -> Progress {
        self.progress
    }

    fn jobs_at_servers(&self, visit: &mut dyn FnMut(u64, u64)) {
        let levels = std::iter::once(self.servers).chain(self.head.to_array()).chain(self.tail.iter().copied());
        let at_least: Vec<u32> = levels.collect();
        at_least.windows(2).enumerate().for_each(|(jobs, pair)| visit(jobs as u64, u64::from(pair[0] - pair[1])));
    }

    fn lines(&self, _: &mut dyn FnMut(u64)) {}

    fn record(&self) -> Record {
        self.counts.record(&self.model, self.clock.rate)
    }
}

impl Counts {
    fn new(rows: usize) -> Self {
        Self { ticks: 0, rows: vec![[0; HEAD + 1]; rows], deep: vec![Vec::new(); rows] }
    }

    fn forget(&mut self) {
        *self = Self::new(self.rows.len());
    }

    /// Ticks of servers without jobs.
    #[inline(always)]
    fn seen_idle(&self) -> u64 {
        self.rows.last().map_or(0, |row| row[0])
    }

    fn record(&self, model: &Model, tick_rate: f64) -> Record {
        let fleet = &model.fleet;
        let rates = model.uniform_rates.as_deref().expect("equal servers are uniform");
        let first = fleet.servers().next().expect("a fleet has a server");
        let rate = rates[fleet.server_type(first).index()];
        let capacity = fleet.buffer(first).map_or(usize::MAX, |buffer| buffer as usize);
        let full_rows = self.rows.iter().zip(&self.deep).map(|(row, deep)| [&row[..HEAD], deep].concat());
        let mut rows: Vec<Vec<u64>> = full_rows.collect();
        let seen = rows.pop().expect("servers have a row");
        let mut found = Vec::new();
        let mut tally = |row: &Vec<u64>| {
            let (joined, blocked) = row.split_at(capacity.min(row.len()));
            found.resize(joined.len().max(found.len()), 0);
            found.iter_mut().zip(joined).for_each(|(all, own)| *all += own);
            let response_s = |(found, &jobs): (usize, &u64)| jobs as f64 * response::mean_s(found, rate, 1);
            let (responses, blocked) = (joined.iter().sum(), blocked.iter().sum());
            let response_sum_s = joined.iter().enumerate().map(response_s).sum();
            TypeTally { arrivals: responses + blocked, blocked, reneged: 0, responses, response_sum_s }
        };
        let job_types = rows.iter().map(&mut tally).collect();
        let mut law = ResponseLaw::default();
        law.push(rate, 1, found);
        let seen = |m| match m == fleet.server_type(first) {
            true => seen.iter().map(|&ticks| ticks as f64).collect(),
            false => vec![],
        };
        Record {
            time_s: self.ticks as f64 / tick_rate,
            job_types,
            law: Law::Counted(law),
            occupancy: fleet.server_types().map(seen).collect(),
            line_area_s: 0.0,
        }
    }
}
