//! What the counting engines count: who joined where, and what servers' ticks saw. A job is counted when it joins a server
//! or is blocked.

use shortline_core::ServerTypeId;
use shortline_core::random::Generator;

use crate::erlang::erlang;
use crate::idle::IdleLaw;
use crate::model::Model;
use crate::record::{Law, Record, TypeTally};
use crate::response::{self, Front, ResponseLaw};

const UNIFORM: &str = "this engine simulates uniform fleets";

/// What is counted since the warm-up.
#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) ticks: u64,
    /// By job type: arrivals that joined a server, and the sum of their expected response times.
    joined: Vec<Joined>,
    /// By job type.
    blocked: Vec<u64>,
    /// By server type and number of jobs, `server type * stride + jobs`.
    cells: Vec<Cell>,
    stride: usize,
    /// Jobs that joined after they had waited in front; the others are in the cells.
    front: Front,
    /// Ticks that they waited there.
    front_ticks: u64,
    idle: Option<Box<IdleLaw>>,
}

/// What a job that had waited in front found at its server, and for how many ticks it had waited.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FromFront {
    pub(crate) job_type: usize,
    pub(crate) server_type: usize,
    pub(crate) found: usize,
    pub(crate) ticks: u64,
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

impl Tally {
    pub(crate) fn new(model: &Model) -> Self {
        let largest = model.fleet.servers().map(|r| model.fleet.buffer(r).unwrap_or(u32::MAX)).max();
        let stride = largest.unwrap_or(0).min(30) as usize + 2;
        let job_types = model.fleet.job_type_count();
        let mut tally = Self {
            ticks: 0,
            joined: vec![Joined::default(); job_types],
            blocked: vec![0; job_types],
            cells: Vec::new(),
            stride: 0,
            front: Front::default(),
            front_ticks: 0,
            idle: IdleLaw::new(model),
        };
        tally.widen(model, stride);
        tally
    }

    /// Sets all counts to 0.
    pub(crate) fn forget(&mut self) {
        self.ticks = 0;
        self.joined.fill(Joined::default());
        self.blocked.fill(0);
        (self.front, self.front_ticks) = (Front::default(), 0);
        self.cells.iter_mut().for_each(|cell| (cell.joined, cell.seen) = (0, 0));
        if let Some(idle) = &mut self.idle {
            idle.forget();
        }
    }

    /// Jobs of this type that joined.
    pub(crate) fn joined_by(&self, job_type: usize) -> u64 {
        self.joined[job_type].jobs
    }

    /// A job of this type found no place.
    #[inline]
    pub(crate) fn block(&mut self, job_type: usize) {
        self.blocked[job_type] += 1;
        self.line_up();
    }

    /// A job waits in front; it is counted when it joins a server.
    #[inline]
    pub(crate) fn line_up(&mut self) {
        if let Some(idle) = &mut self.idle {
            idle.arrive();
        }
    }

    /// A job joined a server of this type that had `found` jobs.
    #[inline(always)]
    pub(crate) fn join(&mut self, model: &Model, job_type: usize, server_type: usize, found: usize) {
        if found >= self.stride {
            self.widen(model, found + 1);
        }
        let cell = &mut self.cells[server_type * self.stride + found];
        cell.joined += 1;
        let joined = &mut self.joined[job_type];
        joined.jobs += 1;
        joined.response_sum_s += cell.response_s;
        if let Some(idle) = &mut self.idle {
            idle.arrive();
            idle.join(server_type, found);
        }
    }

    /// A job leaves a server of this type that had `jobs`, if `really`.
    #[inline(always)]
    pub(crate) fn leave(&mut self, server_type: usize, jobs: usize, really: bool) {
        if let Some(idle) = &mut self.idle
            && really
        {
            idle.leave(server_type, jobs);
        }
    }

    /// A job that had waited in front joined a server. The time of the ticks it waited is Erlang: the clocks tick at rate
    /// `1 / tick_s` independently of what they bring about.
    pub(crate) fn start(&mut self, model: &Model, tick_s: f64, start: &FromFront, rng: &mut Generator) {
        let &FromFront { job_type, server_type, found, ticks } = start;
        let rate = model.uniform_rates.as_deref().expect(UNIFORM)[server_type];
        let slots = model.slots(ServerTypeId::new(server_type));
        if let Some(idle) = &mut self.idle {
            idle.join(server_type, found);
        }
        let in_front_s = ticks as f64 * tick_s;
        self.front_ticks += ticks;
        self.front.jobs += 1;
        self.front.waiting_sum_s += in_front_s + response::mean_waiting_s(found, rate, slots);
        self.front.service_sum_s += 1.0 / rate;
        self.front.responses.add(erlang(ticks, rng) * tick_s + response::draw_s(found, rate, slots, rng));
        let joined = &mut self.joined[job_type];
        joined.jobs += 1;
        joined.response_sum_s += in_front_s + response::mean_s(found, rate, slots);
    }

    /// A server of this type ticked, with `jobs` jobs.
    #[inline(always)]
    pub(crate) fn see(&mut self, model: &Model, server_type: usize, jobs: usize) {
        if jobs >= self.stride {
            self.widen(model, jobs + 1);
        }
        self.cells[server_type * self.stride + jobs].seen += 1;
    }

    /// Makes room for `stride` job counts, and more.
    #[cold]
    fn widen(&mut self, model: &Model, stride: usize) {
        let stride = stride.next_power_of_two();
        let rates = model.uniform_rates.as_deref().expect(UNIFORM);
        let mut cells = Vec::with_capacity(rates.len() * stride);
        for m in model.fleet.server_types() {
            cells.extend((0..stride).map(|found| {
                let response_s = response::mean_s(found, rates[m.index()], model.slots(m));
                match self.cells.get(m.index() * self.stride..).and_then(|cells| cells.get(found)) {
                    Some(old) if found < self.stride => Cell { response_s, ..*old },
                    _ => Cell { response_s, ..Cell::default() },
                }
            }));
        }
        (self.cells, self.stride) = (cells, stride);
    }

    /// The counts as a record; ticks come at `tick_rate`.
    pub(crate) fn record(&self, model: &Model, tick_rate: f64) -> Record {
        let t = self;
        let rates = model.uniform_rates.as_deref().expect(UNIFORM);
        let fleet = &model.fleet;
        let classes: Vec<&[Cell]> = t.cells.chunks(t.stride).collect();
        let mut law = ResponseLaw::default();
        for (m, cells) in fleet.server_types().zip(&classes) {
            let counts = cells.iter().map(|cell| cell.joined).collect();
            law.push(rates[m.index()], model.slots(m), counts);
        }
        law.push_front(&t.front);
        let tally = |(joined, &blocked): (&Joined, &u64)| TypeTally {
            arrivals: joined.jobs + blocked,
            blocked,
            reneged: 0,
            responses: joined.jobs,
            response_sum_s: joined.response_sum_s,
        };
        Record {
            time_s: t.ticks as f64 / tick_rate,
            job_types: t.joined.iter().zip(&t.blocked).map(tally).collect(),
            law: Law::Counted(law),
            occupancy: classes.iter().map(|cells| cells.iter().map(|cell| cell.seen as f64).collect()).collect(),
            line_area_s: t.front_ticks as f64 / tick_rate,
            idle: t.idle.as_ref().map(|idle| idle.seen()),
        }
    }
}
