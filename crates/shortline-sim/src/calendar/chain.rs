//! One replication: what is due next happens, until told to stop.
//!
//! At equal times what ends comes before what begins: departures, jobs that give up, servers that go down or come up, news,
//! arrivals.

use std::collections::VecDeque;
use std::sync::Arc;

use shortline_core::policy::Policy;
use shortline_core::random::Generator;
use shortline_core::{Decision, Fleet, JobTypeId, ServerId, Started, Ticket};

use super::Blueprint;
use super::arrivals::{Arrival, Source, Start};
use super::failures::Failures;
use super::information::{Gateway, Waiting};
use super::server::{Job, Servers};
use super::tally::Tally;
use super::trace::Fate;
use crate::chain::{Chain, Progress, Streams, Walk};
use crate::model::Model;
use crate::record::Record;

/// One replication of one policy.
#[derive(Debug)]
pub(crate) struct CalendarChain<P> {
    gateways: Vec<Gateway<P>>,
    choices: Generator,
    rest: Rest,
}

/// Everything that does not depend on the policy's type.
#[derive(Debug)]
struct Rest {
    plan: Arc<Blueprint>,
    arrivals: Source,
    sizes: Generator,
    next: Arrival,
    servers: Servers,
    failures: Failures,
    /// When which ticket of which gateway gives up, in the order of time; tickets that were served since are among them.
    deadlines: VecDeque<Deadline>,
    tally: Tally,
    now_s: f64,
    events: u64,
    /// Jobs that arrived.
    arrived: u64,
    /// What became of each job, if that is asked.
    fates: Option<Vec<Fate>>,
}

#[derive(Clone, Copy, Debug)]
struct Deadline {
    at_s: f64,
    ticket: Ticket,
    job_type: JobTypeId,
    gateway: u32,
}

/// What happens next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Next {
    Departure,
    Arrival,
    Timeout,
    Failure,
    News,
}

const NO_MORE: Arrival = Arrival { at_s: f64::INFINITY, job_type: 0, size: None };

impl<P: Policy> CalendarChain<P> {
    /// One that decides on the fleet `seen`.
    pub(crate) fn new(plan: &Arc<Blueprint>, seen: &Arc<Fleet>, policy: P, streams: Streams, start: Start) -> Self {
        let model = &plan.model;
        let Streams { ticks, choices, gaps, failures } = streams;
        let mut arrivals = match &plan.trace {
            Some(jobs) => Source::of_trace(jobs, plan.load_factor, ticks),
            None => Source::new(&model.fleet.settings().arrivals, &model.arrival_rates, &plan.types, start, ticks),
        };
        let gateway = |_| Gateway::new(seen, policy.clone());
        let rest = Rest {
            next: arrivals.next().unwrap_or(NO_MORE),
            arrivals,
            sizes: gaps,
            servers: Servers::new(&model.fleet),
            failures: Failures::new(&model.fleet, failures),
            deadlines: VecDeque::new(),
            tally: Tally::new(model, 0.0),
            now_s: 0.0,
            events: 0,
            arrived: 0,
            fates: None,
            plan: Arc::clone(plan),
        };
        Self { gateways: (0..plan.gateways).map(gateway).collect(), choices, rest }
    }

    /// Keeps what becomes of each job.
    pub(crate) fn keep_fates(&mut self) {
        self.rest.fates = Some(Vec::new());
    }

    /// What is next, and when; never, if nothing is left to happen.
    #[inline(always)]
    fn next(&self) -> (Next, f64) {
        let (departure_s, arrival_s) = (self.rest.servers.next_s(), self.rest.next.at_s);
        if self.rest.plan.is_plain {
            return if departure_s <= arrival_s { (Next::Departure, departure_s) } else { (Next::Arrival, arrival_s) };
        }
        let timeout_s = self.rest.deadlines.front().map_or(f64::INFINITY, |deadline| deadline.at_s);
        let news_s = self.gateways.iter().map(Gateway::news_s).fold(f64::INFINITY, f64::min);
        [
            (Next::Departure, departure_s),
            (Next::Timeout, timeout_s),
            (Next::Failure, self.rest.failures.next_s()),
            (Next::News, news_s),
            (Next::Arrival, arrival_s),
        ]
        .into_iter()
        .reduce(|first, other| if other.1 < first.1 { other } else { first })
        .expect("there are five")
    }

    /// It happens; whether that is an event: an arrival or a departure. One copy of the code per policy, for all who call it.
    #[inline(never)]
    fn happen(&mut self, next: Next, at_s: f64) -> bool {
        self.pass_until(at_s);
        match next {
            Next::Departure => self.depart(),
            Next::Arrival => self.arrive(),
            Next::Timeout => self.give_up(),
            Next::Failure => self.fail_or_come_up(),
            Next::News => self.gateways.iter_mut().for_each(|gateway| gateway.read(at_s)),
        }
        let is_event = matches!(next, Next::Departure | Next::Arrival);
        self.rest.events += u64::from(is_event);
        is_event
    }

    #[inline(always)]
    fn pass_until(&mut self, at_s: f64) {
        let waiting = self.waiting_total();
        if waiting > 0 {
            self.rest.tally.line_area_s += waiting as f64 * (at_s - self.rest.now_s);
        }
        self.rest.now_s = at_s;
    }

    #[inline(always)]
    fn waiting_total(&self) -> usize {
        self.gateways.iter().map(Gateway::waiting_total).sum()
    }

    #[inline(always)]
    fn arrive(&mut self) {
        let rest = &mut self.rest;
        let Arrival { at_s: arrived_s, job_type, size } = rest.next;
        let size = size.unwrap_or_else(|| rest.plan.draw_size(job_type as usize, &mut rest.sizes));
        let gateway = if rest.plan.gateways > 1 { rest.arrivals.below(rest.plan.gateways) } else { 0 };
        let job = Waiting { number: rest.arrived, arrived_s, size };
        rest.next = rest.arrivals.next().unwrap_or(NO_MORE);
        rest.arrived += 1;
        rest.tally.job_types[job_type as usize].arrivals += 1;
        if let Some(fates) = &mut rest.fates {
            fates.push(Fate::default());
        }
        let l = JobTypeId::new(job_type as usize);
        match self.gateways[gateway as usize].route(l, job, arrived_s, &mut self.choices) {
            Decision::Joined(server) => self.join(server, l, job, gateway),
            Decision::Waiting(ticket) => self.wait(ticket, l, gateway),
            Decision::Blocked(_) => rest.tally.job_types[job_type as usize].blocked += 1,
        }
    }

    /// A gateway has sent a job to a server, which may refuse it. The place that the gateway then counts as free may start a
    /// waiting job, and so on.
    #[inline(always)]
    fn join(&mut self, server: ServerId, job_type: JobTypeId, job: Waiting, gateway: u32) {
        let mut sent = Some((job_type, job));
        while let Some((job_type, job)) = sent {
            sent = None;
            if self.rest.plan.gateways > 1 && !self.rest.has_room(server) {
                self.rest.tally.job_types[job_type.index()].blocked += 1;
                let started = self.gateways[gateway as usize].complete(server, self.rest.now_s);
                sent = started.map(|Started { job_type, job, .. }| (job_type, job));
            } else {
                self.rest.join(server, job_type, job, gateway);
            }
        }
    }

    /// A job has joined the line of its type.
    fn wait(&mut self, ticket: Ticket, job_type: JobTypeId, gateway: u32) {
        let Some(timeout_s) = self.rest.plan.timeout_s else { return };
        if self.waiting_total() == 1 {
            // All that were there before have been served.
            self.rest.deadlines.clear();
        }
        self.rest.deadlines.push_back(Deadline { at_s: self.rest.now_s + timeout_s, ticket, job_type, gateway });
    }

    #[inline(always)]
    fn depart(&mut self) {
        let (server, gateway) = self.rest.depart();
        if let Some(started) = self.gateways[gateway as usize].complete(server, self.rest.now_s) {
            self.join(started.server, started.job_type, started.job, gateway);
        }
    }

    fn give_up(&mut self) {
        let Deadline { ticket, job_type, gateway, .. } =
            self.rest.deadlines.pop_front().expect("the caller saw that one's time is up");
        if self.gateways[gateway as usize].cancel(ticket) {
            self.rest.tally.job_types[job_type.index()].reneged += 1;
        }
    }

    fn fail_or_come_up(&mut self) {
        let (server, up) = self.rest.failures.take();
        self.rest.servers.set_up(server, up, self.rest.now_s);
        for gateway in 0..self.rest.plan.gateways {
            for started in self.gateways[gateway as usize].set_up(server, up, self.rest.now_s) {
                self.join(started.server, started.job_type, started.job, gateway);
            }
        }
    }

    /// Whether anything but failures is left to happen: after the last job of a trace, jobs may wait that no server holds.
    fn is_over(&self) -> bool {
        let rest = &self.rest;
        let fleet = &rest.plan.model.fleet;
        let is_served = |l: JobTypeId| fleet.graph().degree(l.index()) > 0;
        let may_start = |l: JobTypeId| is_served(l) && self.gateways.iter().any(|gateway| gateway.waiting(l) > 0);
        rest.next.at_s.is_infinite()
            && rest.servers.next_s().is_infinite()
            && fleet.servers().all(|server| rest.servers.jobs(server) == 0)
            && !fleet.job_types().any(may_start)
    }

    /// Runs until so many jobs have arrived and, of a trace that ends there, all have left; false if `is_stopped` said so
    /// before.
    pub(crate) fn run_until_arrived(&mut self, jobs: u64, is_stopped: &dyn Fn(u64) -> bool) -> bool {
        /// Events between two looks at whether to stop.
        const EVENTS: u64 = 100_000;
        let mut looked = self.rest.events;
        loop {
            let (next, at_s) = self.next();
            let is_drained = at_s.is_infinite() || (next == Next::Failure && self.is_over());
            if is_drained || (next == Next::Arrival && self.rest.arrived >= jobs) {
                is_stopped(self.rest.events - looked);
                return true;
            }
            self.happen(next, at_s);
            if self.rest.events >= looked + EVENTS {
                if is_stopped(self.rest.events - looked) {
                    return false;
                }
                looked = self.rest.events;
            }
        }
    }

    /// Jobs that have not left, and will not.
    pub(crate) fn unfinished(&self) -> u64 {
        let fleet = &self.rest.plan.model.fleet;
        let at_servers: usize = fleet.servers().map(|server| self.rest.servers.jobs(server)).sum();
        (at_servers + self.waiting_total()) as u64
    }

    /// What became of the jobs so far.
    pub(crate) fn take_fates(&mut self) -> Vec<Fate> {
        self.rest.fates.take().unwrap_or_default()
    }
}

impl Rest {
    fn model(&self) -> &Model {
        &self.plan.model
    }

    /// Whether a server takes another job, whoever sends it.
    fn has_room(&self, server: ServerId) -> bool {
        let buffer = self.model().fleet.buffer(server);
        buffer.is_none_or(|buffer| self.servers.jobs(server) < buffer as usize)
    }

    #[inline(always)]
    fn join(&mut self, server: ServerId, job_type: JobTypeId, job: Waiting, gateway: u32) {
        let plan = &self.plan;
        self.tally.had(&plan.model, server, self.servers.jobs(server), self.now_s);
        let Waiting { number, arrived_s, size } = job;
        let work_s = size / plan.model.fleet.rate(job_type, plan.model.fleet.server_type(server));
        let job_type = u32::try_from(job_type.index()).expect("job types are numbered in 32 bits");
        let job = Job { number, arrived_s, started_s: f64::NAN, work_s, job_type, gateway };
        self.servers.join(server, job, self.now_s);
    }

    /// The next job leaves: its server and its gateway.
    #[inline(always)]
    fn depart(&mut self) -> (ServerId, u32) {
        let (server, job) = self.servers.depart();
        self.tally.had(&self.plan.model, server, self.servers.jobs(server) + 1, self.now_s);
        self.tally.complete(&job, self.now_s);
        if let Some(fates) = &mut self.fates {
            let fate = Fate { server: Some(server), started_s: job.started_s, completed_s: self.now_s };
            fates[usize::try_from(job.number).expect("the jobs were kept in memory")] = fate;
        }
        (server, job.gateway)
    }
}

impl<P: Policy> Chain for CalendarChain<P> {
    fn run(&mut self, events: u64, ticks: u64) -> u64 {
        let (mut left, mut steps) = (events, 0);
        while left > 0 && steps < ticks {
            let (next, at_s) = self.next();
            left -= u64::from(self.happen(next, at_s));
            steps += 1;
        }
        events - left
    }

    fn forget(&mut self) {
        self.rest.tally = Tally::new(self.rest.model(), self.rest.now_s);
    }

    fn progress(&self) -> Progress {
        Progress { events: self.rest.events, time_s: self.rest.now_s }
    }

    fn jobs_at_servers(&self, visit: &mut dyn FnMut(u64, u64)) {
        let servers = self.rest.model().fleet.servers();
        servers.for_each(|server| visit(self.rest.servers.jobs(server) as u64, 1));
    }

    fn lines(&self, visit: &mut dyn FnMut(u64)) {
        if self.waiting_total() > 0 {
            let waiting = |l| self.gateways.iter().map(|gateway| gateway.waiting(l) as u64).sum();
            self.rest.model().fleet.job_types().for_each(|l| visit(waiting(l)));
        }
    }

    fn record(&self) -> Record {
        self.rest.tally.record(self.rest.model(), &self.rest.servers, self.rest.now_s)
    }
}

impl<P: Policy> Walk for CalendarChain<P> {
    fn run_until(&mut self, time_s: f64, is_stopped: &dyn Fn(u64) -> bool) {
        /// Steps between two looks at whether to stop.
        const STEPS: u32 = 10_000;
        let mut told = self.rest.events;
        while !is_stopped(self.rest.events - told) {
            told = self.rest.events;
            for _ in 0..STEPS {
                let (next, at_s) = self.next();
                if at_s > time_s {
                    self.pass_until(time_s);
                    is_stopped(self.rest.events - told);
                    return;
                }
                self.happen(next, at_s);
            }
        }
    }

    fn servers(&self, visit: &mut dyn FnMut(usize, usize)) {
        let fleet = &self.rest.model().fleet;
        fleet.servers().for_each(|server| visit(fleet.server_type(server).index(), self.rest.servers.jobs(server)));
    }

    fn waiting(&self) -> u64 {
        self.waiting_total() as u64
    }
}
