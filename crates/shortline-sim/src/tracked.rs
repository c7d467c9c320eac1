//! The engine that follows each job: service rates that depend on the job type, and lines whose jobs give up.
//!
//! **Clock.** As in [`markov`](crate::markov), but each server ticks at the largest rate of the job types it holds, and
//! a tick that meets a job of type `l` completes it with probability `mu_lr / largest` (thinning). The types of a
//! server's jobs stand in a ring in the order they came. Time itself is drawn: exponential gaps between the ticks.
//!
//! **Response times.** Waiting is measured, service expected: a job that starts after waiting `w` adds `w + 1 / mu_lr`
//! to the means. Percentiles are of the measured response times.
//!
//! **Lines.** A job that waits in front keeps its arrival time with its ticket; `queue_timeout_s` cancels the ticket
//! when its time has come, between two ticks.
//!
//! **Few jobs.** Where most ticks would meet idle servers, only the slots in service tick, all at the largest rate of the
//! fleet: from `n` busy slots on, the next tick comes after an exponential time of rate `Lambda + n largest`, is an
//! arrival with probability `Lambda` over that, and else is at one of the `n`, each as likely. The policies of a run then
//! share arrivals no longer.
//!
//! **Occupancy.** Time averages, one addition per change of a server.

use std::collections::VecDeque;
use std::sync::Arc;

use rand::Rng;
use shortline_core::alias::Alias;
use shortline_core::policy::Policy;
use shortline_core::random::{Generator, below};
use shortline_core::{Decision, Dispatcher, Fleet, JobTypeId, ServerId, Started, Ticket};

use crate::chain::{Chain, Progress, Streams, Walk};
use crate::clock_table::ClockTable;
use crate::erlang::unit;
use crate::model::Model;
use crate::record::{Law, Measured, Record, TypeTally};
use crate::ticks::Ticks;

/// Ticks of any fleet, the same for all replications.
#[derive(Debug)]
pub(crate) struct ThinnedClock {
    table: ClockTable,
    /// Ticks per second.
    rate: f64,
    /// Largest service rate of one slot, by server.
    largest: Vec<f64>,
    /// Where most ticks would meet idle servers.
    sparse: Option<Sparse>,
    /// Mean size by job type.
    sizes: Vec<f64>,
    /// By server type.
    slots: Vec<u32>,
}

impl ThinnedClock {
    pub(crate) fn new(model: &Model) -> Self {
        let fleet = &model.fleet;
        let servers = model.server_tick_rates();
        Self {
            rate: model.arrival_rate + servers.iter().sum::<f64>(),
            table: ClockTable::new(&model.arrival_rates, &servers),
            sparse: model.is_sparse().then(|| Sparse {
                arrivals: Alias::new(&model.arrival_rates),
                arrival_rate: model.arrival_rate,
                largest: model.largest_rates().iter().copied().fold(0.0, f64::max),
            }),
            largest: model.largest_rates(),
            sizes: fleet.job_types().map(|l| fleet.size(l)).collect(),
            slots: fleet.server_types().map(|m| model.slots(m)).collect(),
        }
    }
}

/// Ticks of arrivals and of slots in service alone.
#[derive(Debug)]
struct Sparse {
    arrivals: Alias,
    arrival_rate: f64,
    /// Largest service rate of a slot of the fleet.
    largest: f64,
}

/// One replication.
#[derive(Debug)]
pub(crate) struct TrackedChain<P> {
    dispatcher: Dispatcher<P, f64>,
    ticks: Ticks<u32>,
    choices: Generator,
    /// Time between ticks, seconds.
    gaps: Ticks<f64>,
    rest: Rest,
}

/// Everything but the dispatcher and the streams.
#[derive(Debug)]
struct Rest {
    model: Arc<Model>,
    clock: Arc<ThinnedClock>,
    /// Time since the clock was last [set back](Rest::set_back), and before.
    now_s: f64,
    before_s: f64,
    events: u64,
    /// Jobs at each server: first those in service, then those that wait, in the order they came.
    jobs: Vec<VecDeque<Job>>,
    /// The server of each job in service, where only these tick.
    busy: Vec<ServerId>,
    timeout_s: Option<f64>,
    /// When which ticket gives up, in the order of time; tickets that were served since are among them.
    deadlines: VecDeque<(f64, Ticket, usize)>,
    tally: Tally,
}

#[derive(Clone, Copy, Debug)]
struct Job {
    arrived_s: f64,
    job_type: u32,
}

/// What is counted since the warm-up.
#[derive(Debug)]
struct Tally {
    since_s: f64,
    job_types: Vec<TypeTally>,
    measured: Measured,
    /// By server type and number of jobs, from one job on: seconds.
    occupancy: Vec<Vec<f64>>,
    /// When each server last changed; of an idle one it may be the time before the clock was set back.
    changed_s: Vec<f64>,
    line_area_s: f64,
}

impl<P: Policy> TrackedChain<P> {
    /// The policy decides on the fleet `seen`.
    pub(crate) fn new(
        model: &Arc<Model>,
        seen: &Arc<Fleet>,
        clock: &Arc<ThinnedClock>,
        policy: P,
        streams: Streams,
    ) -> Self {
        let fleet = &model.fleet;
        let Streams { ticks, choices, gaps, .. } = streams;
        let rest = Rest {
            now_s: 0.0,
            before_s: 0.0,
            events: 0,
            jobs: vec![VecDeque::new(); fleet.server_count()],
            busy: Vec::new(),
            timeout_s: fleet.settings().lines.timeout_s,
            deadlines: VecDeque::new(),
            tally: Tally::new(model, 0.0, 0.0),
            model: Arc::clone(model),
            clock: Arc::clone(clock),
        };
        Self {
            dispatcher: Dispatcher::new(Arc::clone(seen), policy),
            ticks: Ticks::new(ticks),
            choices,
            gaps: Ticks::new(gaps),
            rest,
        }
    }

    fn arrive(&mut self, job_type: usize) {
        let now_s = self.rest.now_s;
        self.rest.tally.job_types[job_type].arrivals += 1;
        match self.dispatcher.route(JobTypeId::new(job_type), || now_s, &mut self.choices) {
            Decision::Joined(server) => self.rest.join(server, job_type, now_s),
            Decision::Waiting(ticket) => {
                if let Some(timeout_s) = self.rest.timeout_s {
                    self.rest.deadlines.push_back((now_s + timeout_s, ticket, job_type));
                }
            }
            Decision::Blocked(_) => self.rest.tally.job_types[job_type].blocked += 1,
        }
    }

    /// A tick at a server; whether it completes a job.
    fn serve(&mut self, server: ServerId) -> bool {
        let m = self.rest.model.fleet.server_type(server);
        let slots = self.rest.clock.slots[m.index()];
        let slot = below(&mut self.choices, slots) as usize;
        let Some(&job) = self.rest.jobs[server.index()].get(slot) else { return false };
        let rate = self.rest.rate(job.job_type as usize, server);
        let largest = self.rest.clock.largest[server.index()];
        if rate < largest && unit(&mut self.choices) * largest >= rate {
            return false;
        }
        self.complete(server, slot, slots as usize);
        true
    }

    /// A tick at a slot in service, number `number` of those; whether it completes its job.
    fn serve_busy(&mut self, number: usize, largest: f64) -> bool {
        let server = self.rest.busy[number];
        let slots = self.rest.clock.slots[self.rest.model.fleet.server_type(server).index()] as usize;
        let jobs = &self.rest.jobs[server.index()];
        let in_service = jobs.len().min(slots);
        let slot = below(&mut self.choices, u32::try_from(in_service).expect("slots are counted in 32 bits")) as usize;
        let rate = self.rest.rate(jobs[slot].job_type as usize, server);
        if rate < largest && unit(&mut self.choices) * largest >= rate {
            return false;
        }
        if jobs.len() <= slots {
            self.rest.busy.swap_remove(number);
        }
        self.complete(server, slot, slots);
        true
    }

    fn complete(&mut self, server: ServerId, slot: usize, slots: usize) {
        self.rest.leave(server, slot, slots);
        if let Some(Started { job: arrived_s, job_type, server, .. }) = self.dispatcher.complete(server) {
            self.rest.join(server, job_type.index(), arrived_s);
        }
    }

    /// When the next tick is, seen from now.
    fn next_tick_s(&mut self) -> f64 {
        let rate = self.rest.tick_rate();
        self.rest.now_s + self.gaps.next(|words| -unit(words).ln()) / rate
    }

    /// A tick: whether it is an event.
    fn tick(&mut self) -> bool {
        if self.rest.clock.sparse.is_some() {
            return self.sparse_tick();
        }
        let job_types = self.rest.model.fleet.job_type_count();
        let table = &self.rest.clock.table;
        let outcome = self.ticks.next(|words| table.draw(words.next_u64())) as usize;
        if outcome < job_types {
            self.arrive(outcome);
            return true;
        }
        self.serve(ServerId::new(outcome - job_types))
    }

    /// The same, where only slots in service tick.
    fn sparse_tick(&mut self) -> bool {
        if self.rest.busy.is_empty() && self.dispatcher.waiting_total() == 0 {
            self.rest.set_back();
        }
        let sparse = self.rest.clock.sparse.as_ref().expect("the caller saw that only slots in service tick");
        let at = unit(&mut self.choices) * self.rest.tick_rate() - sparse.arrival_rate;
        if at < 0.0 {
            let job_type = self.ticks.next(|words| sparse.arrivals.draw(words.next_u64()));
            self.arrive(job_type as usize);
            return true;
        }
        // Rounding may lead beyond the last.
        let largest = sparse.largest;
        let number = ((at / largest) as usize).min(self.rest.busy.len() - 1);
        self.serve_busy(number, largest)
    }

    /// Time passes without a tick; those whose time is up give up.
    fn pass_until(&mut self, next_s: f64) {
        let waiting = self.dispatcher.waiting_total();
        if waiting > 0 {
            self.rest.tally.line_area_s += waiting as f64 * (next_s - self.rest.now_s);
            while let Some(&(deadline_s, ticket, job_type)) = self.rest.deadlines.front()
                && deadline_s <= next_s
            {
                self.rest.deadlines.pop_front();
                if self.dispatcher.cancel(ticket).is_some() {
                    self.rest.tally.job_types[job_type].reneged += 1;
                    self.rest.tally.line_area_s -= next_s - deadline_s;
                }
            }
        } else {
            self.rest.deadlines.clear();
        }
        self.rest.now_s = next_s;
    }
}

impl Rest {
    /// Begins to count time anew, for a job that comes to an empty fleet: where thousands of millions of service times lie
    /// between two jobs, its service would be lost in the rounding of the time since the start.
    fn set_back(&mut self) {
        self.before_s += self.now_s;
        self.now_s = 0.0;
        self.deadlines.clear();
    }

    /// Since the start.
    fn time_s(&self) -> f64 {
        self.before_s + self.now_s
    }

    /// `mu_lr`, 1/s.
    #[inline]
    fn rate(&self, job_type: usize, server: ServerId) -> f64 {
        let fleet = &self.model.fleet;
        fleet.rate(JobTypeId::new(job_type), fleet.server_type(server)) / self.clock.sizes[job_type]
    }

    /// Ticks per second as things are.
    fn tick_rate(&self) -> f64 {
        match &self.clock.sparse {
            Some(sparse) => sparse.arrival_rate + self.busy.len() as f64 * sparse.largest,
            None => self.clock.rate,
        }
    }

    fn join(&mut self, server: ServerId, job_type: usize, arrived_s: f64) {
        self.changes(server);
        let m = self.model.fleet.server_type(server);
        let jobs = &mut self.jobs[server.index()];
        jobs.push_back(Job {
            arrived_s,
            job_type: u32::try_from(job_type).expect("job types are numbered in 32 bits"),
        });
        if jobs.len() <= self.clock.slots[m.index()] as usize {
            if self.clock.sparse.is_some() {
                self.busy.push(server);
            }
            self.start(server, job_type, arrived_s);
        }
    }

    fn leave(&mut self, server: ServerId, slot: usize, slots: usize) {
        self.changes(server);
        let jobs = &mut self.jobs[server.index()];
        let next = jobs.remove(slots);
        let job = match next {
            Some(next) => Some(std::mem::replace(&mut jobs[slot], next)),
            None => jobs.swap_remove_back(slot),
        };
        let job = job.expect("the caller saw a job in this slot");
        self.tally.measured.responses.add(self.now_s - job.arrived_s);
        if let Some(next) = next {
            self.start(server, next.job_type as usize, next.arrived_s);
        }
    }

    fn start(&mut self, server: ServerId, job_type: usize, arrived_s: f64) {
        let (waiting_s, service_s) = (self.now_s - arrived_s, 1.0 / self.rate(job_type, server));
        let law = &mut self.tally.measured;
        law.started += 1;
        law.waited += u64::from(waiting_s > 0.0);
        law.waiting_sum_s += waiting_s;
        law.service_sum_s += service_s;
        let tally = &mut self.tally.job_types[job_type];
        tally.responses += 1;
        tally.response_sum_s += waiting_s + service_s;
    }

    /// The number of jobs at a server is about to change.
    fn changes(&mut self, server: ServerId) {
        let m = self.model.fleet.server_type(server);
        self.tally.occupy(m.index(), self.jobs[server.index()].len(), server.index(), self.now_s);
    }
}

impl Tally {
    fn new(model: &Model, since_s: f64, now_s: f64) -> Self {
        let fleet = &model.fleet;
        Self {
            since_s,
            job_types: vec![TypeTally::default(); fleet.job_type_count()],
            measured: Measured::default(),
            occupancy: vec![Vec::new(); fleet.server_type_count()],
            changed_s: vec![now_s; fleet.server_count()],
            line_area_s: 0.0,
        }
    }

    fn occupy(&mut self, server_type: usize, jobs: usize, server: usize, now_s: f64) {
        let times = &mut self.occupancy[server_type];
        if jobs >= times.len() {
            times.resize(jobs + 1, 0.0);
        }
        if jobs > 0 {
            times[jobs] += now_s - self.changed_s[server];
        }
        self.changed_s[server] = now_s;
    }
}

impl<P: Policy> Walk for TrackedChain<P> {
    fn run_until(&mut self, time_s: f64, is_stopped: &dyn Fn(u64) -> bool) {
        /// Ticks between two looks at whether to stop.
        const TICKS: u32 = 10_000;
        let mut told = self.rest.events;
        while !is_stopped(self.rest.events - told) {
            told = self.rest.events;
            for _ in 0..TICKS {
                let (next_s, end_s) = (self.next_tick_s(), time_s - self.rest.before_s);
                if next_s > end_s {
                    self.pass_until(end_s);
                    is_stopped(self.rest.events - told);
                    return;
                }
                self.pass_until(next_s);
                self.rest.events += u64::from(self.tick());
            }
        }
    }

    fn servers(&self, visit: &mut dyn FnMut(usize, usize)) {
        let fleet = &self.rest.model.fleet;
        fleet.servers().for_each(|r| visit(fleet.server_type(r).index(), self.rest.jobs[r.index()].len()));
    }

    fn waiting(&self) -> u64 {
        self.dispatcher.waiting_total() as u64
    }
}

impl<P: Policy> Chain for TrackedChain<P> {
    fn run(&mut self, events: u64, ticks: u64) -> u64 {
        let (mut left, mut tick_count) = (events, 0);
        while left > 0 && tick_count < ticks {
            let next_s = self.next_tick_s();
            self.pass_until(next_s);
            left -= u64::from(self.tick());
            tick_count += 1;
        }
        self.rest.events += events - left;
        events - left
    }

    fn forget(&mut self) {
        self.rest.tally = Tally::new(&self.rest.model, self.rest.time_s(), self.rest.now_s);
    }

    fn progress(&self) -> Progress {
        Progress { events: self.rest.events, time_s: self.rest.time_s() }
    }

    fn jobs_at_servers(&self, visit: &mut dyn FnMut(u64, u64)) {
        self.rest.jobs.iter().for_each(|jobs| visit(jobs.len() as u64, 1));
    }

    fn lines(&self, visit: &mut dyn FnMut(u64)) {
        if self.dispatcher.waiting_total() > 0 {
            let job_types = self.rest.model.fleet.job_types();
            job_types.for_each(|l| visit(self.dispatcher.waiting(l) as u64));
        }
    }

    fn record(&self) -> Record {
        let (fleet, tally, now_s) = (&self.rest.model.fleet, &self.rest.tally, self.rest.now_s);
        let time_s = self.rest.time_s() - tally.since_s;
        let mut occupancy = tally.occupancy.clone();
        for (server, (jobs, changed_s)) in self.rest.jobs.iter().zip(&tally.changed_s).enumerate() {
            let times = &mut occupancy[fleet.server_type(ServerId::new(server)).index()];
            times.resize(times.len().max(jobs.len() + 1), 0.0);
            if !jobs.is_empty() {
                times[jobs.len()] += now_s - changed_s;
            }
        }
        // The rest of the time servers were idle.
        for (m, times) in fleet.server_types().zip(&mut occupancy) {
            if let [idle_s, busy_s @ ..] = times.as_mut_slice() {
                *idle_s = (fleet.servers_of_type(m).len() as f64 * time_s - busy_s.iter().sum::<f64>()).max(0.0);
            }
        }
        Record {
            time_s,
            job_types: tally.job_types.clone(),
            law: Law::Measured(tally.measured.clone()),
            occupancy,
            line_area_s: tally.line_area_s,
            idle: None,
        }
    }
}
