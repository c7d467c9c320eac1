//! What happens at the servers: who is in service, and who leaves next.
//!
//! - **fifo** ([`Fifo`]): each slot serves one job to its end; the others wait in the order they came.
//! - **ps** ([`Sharing`]): all jobs at the server share its slots equally, at most one slot a job: `n` jobs at a server with
//!   `c` slots are each served at `min(1, c / n)` of the speed of a slot. The server's *virtual time* advances at
//!   that speed; a job leaves when it has advanced by its work since it came, so that jobs leave in the order of the virtual
//!   times at which they end, whatever comes in between: O(log jobs) an event.
//! - **A server that is down** stands still: its jobs stay, and go on where they were when it comes up.
//!
//! At equal times the server with the lowest number comes first.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};

use shortline_core::ServerId;
use shortline_core::fleet::Fleet;
use shortline_core::fleet::settings::Discipline;

use super::queue::Queue;

/// A job at a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    /// Counted from 0 in the order of arrival.
    pub(crate) number: u64,
    pub(crate) arrived_s: f64,
    pub(crate) started_s: f64,
    /// Seconds of one slot of its server that it takes, or still takes.
    pub(crate) work_s: f64,
    pub(crate) job_type: u32,
    /// The gateway it came through.
    pub(crate) gateway: u32,
}

const NOBODY: Job = Job { number: 0, arrived_s: 0.0, started_s: 0.0, work_s: 0.0, job_type: 0, gateway: 0 };

/// All servers, with the jobs at them.
#[derive(Debug)]
pub(crate) enum Servers {
    Fifo(Fifo),
    Sharing(Sharing),
}

impl Servers {
    pub(crate) fn new(fleet: &Fleet) -> Self {
        match fleet.settings().service.discipline {
            Discipline::Fifo => Self::Fifo(Fifo::new(fleet)),
            Discipline::ProcessorSharing => Self::Sharing(Sharing::new(fleet)),
        }
    }

    /// When the next job leaves; infinite if none will.
    #[inline(always)]
    pub(crate) fn next_s(&self) -> f64 {
        match self {
            Self::Fifo(servers) => servers.ends.earliest_s(),
            Self::Sharing(servers) => servers.ends.earliest_s(),
        }
    }

    /// That job leaves its server.
    #[inline(always)]
    pub(crate) fn depart(&mut self) -> (ServerId, Job) {
        match self {
            Self::Fifo(servers) => servers.depart(),
            Self::Sharing(servers) => servers.depart(),
        }
    }

    /// A job joins a server.
    #[inline(always)]
    pub(crate) fn join(&mut self, server: ServerId, job: Job, now_s: f64) {
        match self {
            Self::Fifo(servers) => servers.join(server, job, now_s),
            Self::Sharing(servers) => servers.join(server, job, now_s),
        }
    }

    /// A server stands still, or goes on.
    pub(crate) fn set_up(&mut self, server: ServerId, up: bool, now_s: f64) {
        match self {
            Self::Fifo(servers) => servers.set_up(server, up, now_s),
            Self::Sharing(servers) => servers.set_up(server, up, now_s),
        }
    }

    /// Jobs at a server.
    #[inline(always)]
    pub(crate) fn jobs(&self, server: ServerId) -> usize {
        match self {
            Self::Fifo(servers) => servers.stations[server.index()].jobs(),
            Self::Sharing(servers) => servers.stations[server.index()].jobs.len(),
        }
    }
}

/// First in, first out.
#[derive(Debug)]
pub(crate) struct Fifo {
    /// When the job in each slot ends; the slots of a server are neighbours.
    ends: Queue,
    in_service: Vec<Job>,
    server_of: Vec<u32>,
    stations: Vec<Station>,
}

#[derive(Debug)]
struct Station {
    waiting: VecDeque<Job>,
    /// Its first slot; the busy ones come first.
    first: u32,
    slots: u32,
    busy: u32,
    is_up: bool,
}

impl Station {
    fn jobs(&self) -> usize {
        self.busy as usize + self.waiting.len()
    }

    fn busy_slots(&self) -> std::ops::Range<usize> {
        self.first as usize..(self.first + self.busy) as usize
    }
}

impl Fifo {
    fn new(fleet: &Fleet) -> Self {
        let mut server_of = Vec::new();
        let stations: Vec<Station> = fleet
            .servers()
            .map(|server| {
                let first = u32::try_from(server_of.len()).expect("the model has counted the slots");
                let slots = fleet.slots(server);
                let number = u32::try_from(server.index()).expect("servers are numbered in 32 bits");
                server_of.extend(std::iter::repeat_n(number, slots as usize));
                Station { waiting: VecDeque::new(), first, slots, busy: 0, is_up: true }
            })
            .collect();
        let slots = server_of.len();
        Self { ends: Queue::new(slots), in_service: vec![NOBODY; slots], server_of, stations }
    }

    #[inline(always)]
    fn depart(&mut self) -> (ServerId, Job) {
        let (slot, now_s) = (self.ends.earliest(), self.ends.earliest_s());
        let server = self.server_of[slot];
        let station = &mut self.stations[server as usize];
        let job = self.in_service[slot];
        if let Some(next) = station.waiting.pop_front() {
            self.in_service[slot] = Job { started_s: now_s, ..next };
            self.ends.set(slot, now_s + next.work_s);
        } else {
            station.busy -= 1;
            let last = (station.first + station.busy) as usize;
            if last != slot {
                self.in_service[slot] = self.in_service[last];
                self.ends.set(slot, self.ends.time_s(last));
            }
            self.ends.set(last, f64::INFINITY);
        }
        (ServerId::new(server as usize), job)
    }

    #[inline(always)]
    fn join(&mut self, server: ServerId, job: Job, now_s: f64) {
        let station = &mut self.stations[server.index()];
        if station.busy < station.slots {
            let slot = (station.first + station.busy) as usize;
            station.busy += 1;
            self.in_service[slot] = Job { started_s: now_s, ..job };
            self.ends.set(slot, if station.is_up { now_s + job.work_s } else { f64::INFINITY });
        } else {
            station.waiting.push_back(job);
        }
    }

    fn set_up(&mut self, server: ServerId, up: bool, now_s: f64) {
        let station = &mut self.stations[server.index()];
        if std::mem::replace(&mut station.is_up, up) == up {
            return;
        }
        for slot in station.busy_slots() {
            let job = &mut self.in_service[slot];
            if up {
                self.ends.set(slot, now_s + job.work_s);
            } else {
                job.work_s = self.ends.time_s(slot) - now_s;
                self.ends.set(slot, f64::INFINITY);
            }
        }
    }
}

/// Processor sharing.
#[derive(Debug)]
pub(crate) struct Sharing {
    /// When the next job of each server ends, as things are.
    ends: Queue,
    stations: Vec<SharedStation>,
}

#[derive(Debug)]
struct SharedStation {
    jobs: BinaryHeap<Reverse<Ending>>,
    slots: f64,
    is_up: bool,
    /// Virtual time at `touched_s`.
    virtual_s: f64,
    touched_s: f64,
}

/// A job, by the virtual time at which it ends.
#[derive(Clone, Copy, Debug)]
struct Ending {
    at_s: f64,
    job: Job,
}

impl Ord for Ending {
    fn cmp(&self, other: &Self) -> Ordering {
        self.at_s.total_cmp(&other.at_s).then(self.job.number.cmp(&other.job.number))
    }
}

impl PartialOrd for Ending {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ending {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ending {}

impl SharedStation {
    /// Virtual seconds per second.
    fn speed(&self) -> f64 {
        if self.is_up { (self.slots / self.jobs.len() as f64).min(1.0) } else { 0.0 }
    }

    /// Brings the virtual time up to now, before anything changes.
    fn touch(&mut self, now_s: f64) {
        if self.jobs.is_empty() {
            self.virtual_s = 0.0;
        } else {
            self.virtual_s += self.speed() * (now_s - self.touched_s);
        }
        self.touched_s = now_s;
    }

    /// When the next job ends, if nothing changes any more; just touched.
    fn next_s(&self) -> f64 {
        match self.jobs.peek() {
            Some(Reverse(next)) if self.is_up => self.touched_s + (next.at_s - self.virtual_s).max(0.0) / self.speed(),
            _ => f64::INFINITY,
        }
    }
}

impl Sharing {
    fn new(fleet: &Fleet) -> Self {
        let station = |server| SharedStation {
            jobs: BinaryHeap::new(),
            slots: f64::from(fleet.slots(server)),
            is_up: true,
            virtual_s: 0.0,
            touched_s: 0.0,
        };
        Self { ends: Queue::new(fleet.server_count()), stations: fleet.servers().map(station).collect() }
    }

    fn depart(&mut self) -> (ServerId, Job) {
        let (server, now_s) = (self.ends.earliest(), self.ends.earliest_s());
        let station = &mut self.stations[server];
        station.touch(now_s);
        let Reverse(Ending { at_s, job }) = station.jobs.pop().expect("a job ends where one is");
        // It ends now: what rounding left over would stay with the others.
        station.virtual_s = at_s;
        self.ends.set(server, station.next_s());
        (ServerId::new(server), job)
    }

    fn join(&mut self, server: ServerId, job: Job, now_s: f64) {
        self.change(server, now_s, |station| {
            let at_s = station.virtual_s + job.work_s;
            station.jobs.push(Reverse(Ending { at_s, job: Job { started_s: now_s, ..job } }));
        });
    }

    fn set_up(&mut self, server: ServerId, up: bool, now_s: f64) {
        self.change(server, now_s, |station| station.is_up = up);
    }

    fn change(&mut self, server: ServerId, now_s: f64, change: impl FnOnce(&mut SharedStation)) {
        let station = &mut self.stations[server.index()];
        station.touch(now_s);
        change(station);
        self.ends.set(server.index(), station.next_s());
    }
}
