//! The live state of a fleet: how many jobs are at each server, which are up, and the indexes that make a decision
//! fast. Policies read it; only the [`Dispatcher`](crate::Dispatcher) changes it.
//!
//! **Levels.** Servers are compared by jobs per slot, in integers: with `w_r = lcm(slots) / slots_r`, server `a` is
//! shorter than `b` iff `jobs_a w_a < jobs_b w_b`. One byte a server, its level, answers nearly every question:
//! `jobs w` if that is below `DEEP`, `DEEP` for that much or more, `NO_ROOM` while it takes no more jobs (full or
//! down). Sixteen neighbours are one vector, a million servers one megabyte. Only where the best of a row is `DEEP` are
//! the counts themselves compared.
//!
//! **Three kinds of rows, three ways to look.** A list is scanned; a bitset row is intersected with bitsets of equal
//! job counts (`level_bits`); a job type on every server reads sorted buckets (`buckets`). The last two are kept
//! only where the graph has such rows.

mod ahead;
mod buckets;
mod choose;
mod level_bits;
mod sample;

use std::sync::Arc;

pub use choose::Ties;
pub use sample::{Among, Sample};

use crate::fleet::{Fleet, gcd};
use crate::graph::Row;
use crate::ids::{JobTypeId, ServerId, ServerTypeId};
use buckets::Buckets;
use level_bits::LevelBits;

/// Level of an available server with `jobs w >= 254`.
const DEEP: u8 = 254;

/// Level of a server that takes no more jobs.
const NO_ROOM: u8 = 255;

/// A fleet of so many servers or fewer has so many levels, the rest unused, so that 16 bits always index one of them.
const SMALL: usize = 1 << 16;

/// Where a policy lets jobs be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Places {
    /// Up to each server's buffer.
    Buffers,
    /// In its slots only: no job waits at a server.
    Slots,
}

/// Jobs at each server, and who can take another.
#[derive(Clone, Debug)]
pub struct State {
    fleet: Arc<Fleet>,
    places: Vec<Taken>,
    levels: Vec<u8>,
    /// Jobs at which a server is full; `u32::MAX` for an unbounded buffer.
    capacity: Vec<u32>,
    /// Slots by server type, and whether they are all the same.
    slots: Vec<u32>,
    equal_slots: bool,
    /// `lcm(slots) / slots` by server type.
    weights: Vec<u32>,
    /// A server is idle iff its level is at most this; `NO_ROOM` = so many slots that the level does not tell.
    idle_level: u8,
    is_up: Vec<bool>,
    down: usize,
    /// Whether all servers are full at the same number of jobs per slot, or none ever is.
    equal_capacities: bool,
    buckets: Option<Buckets>,
    bits: Option<LevelBits>,
}

/// What a change of a server's jobs reads of it, side by side in memory.
#[derive(Clone, Copy, Debug)]
struct Taken {
    jobs: u32,
    /// Jobs at which it takes no more: its capacity, or 0 while it is down.
    limit: u32,
}

impl State {
    /// All servers up and empty.
    #[must_use]
    pub fn new(fleet: Arc<Fleet>, places: Places) -> Self {
        let slots: Vec<u32> = fleet.server_types().map(|m| fleet.server_type_parts(m).slots).collect();
        let common = slots.iter().fold(1, |common, &slots| common / gcd(common, u64::from(slots)) * u64::from(slots));
        let common = u32::try_from(common).expect("a checked fleet keeps the common multiple of its slots below 2^32");
        let capacity: Vec<u32> = fleet
            .servers()
            .map(|server| match places {
                Places::Slots => fleet.slots(server),
                Places::Buffers => fleet.buffer(server).unwrap_or(u32::MAX),
            })
            .collect();
        let full_at = |server: ServerId| match places {
            Places::Slots => Some(u64::from(common)),
            Places::Buffers => {
                let weight = u64::from(common / slots[fleet.server_type(server).index()]);
                fleet.buffer(server).map(|buffer| u64::from(buffer) * weight)
            }
        };
        let mut full_levels = fleet.servers().map(full_at);
        let first = full_levels.next();
        let equal_capacities = full_levels.all(|level| Some(level) == first);
        let types = || fleet.server_types().map(|m| (fleet.servers_of_type(m), fleet.server_type_parts(m).slots));
        let n = fleet.server_count();
        let equal_slots = slots.windows(2).all(|pair| pair[0] == pair[1]);
        Self {
            places: capacity.iter().map(|&limit| Taken { jobs: 0, limit }).collect(),
            levels: vec![0; n.max(SMALL)],
            equal_capacities,
            capacity,
            equal_slots,
            weights: slots.iter().map(|slots| common / slots).collect(),
            slots,
            idle_level: u8::try_from(common - 1).ok().filter(|&level| level < DEEP).unwrap_or(NO_ROOM),
            is_up: vec![true; n],
            down: 0,
            buckets: fleet.graph().has_full_rows().then(|| Buckets::new(types())),
            bits: fleet.graph().has_bit_rows().then(|| LevelBits::new(types())),
            fleet,
        }
    }

    /// The fleet.
    #[inline]
    #[must_use]
    pub fn fleet(&self) -> &Arc<Fleet> {
        &self.fleet
    }

    /// Jobs at a server, those in service included.
    #[inline]
    #[must_use]
    pub fn jobs(&self, server: ServerId) -> u32 {
        self.places[server.index()].jobs
    }

    /// Whether a server is up.
    #[inline]
    #[must_use]
    pub fn is_up(&self, server: ServerId) -> bool {
        self.is_up[server.index()]
    }

    /// Whether a server can take another job: up, and not full.
    #[inline]
    #[must_use]
    pub fn has_room(&self, server: ServerId) -> bool {
        self.levels[server.index()] != NO_ROOM
    }

    /// Whether a server is idle: up, with a free slot (then no job waits there).
    #[inline]
    #[must_use]
    pub fn is_idle(&self, server: ServerId) -> bool {
        match self.idle_level {
            NO_ROOM => self.has_room(server) && self.jobs(server) < self.slots[self.fleet.server_type(server).index()],
            level => self.levels[server.index()] <= level,
        }
    }

    /// Jobs per slot of a server as an integer, comparable between all servers of the fleet, full or not.
    #[inline]
    #[must_use]
    pub fn load(&self, server: ServerId) -> u64 {
        u64::from(self.jobs(server)) * self.weight(self.fleet.server_type(server))
    }

    /// Whether some server that holds the job type is up. O(1) while all servers are up, else O(degree).
    #[must_use]
    pub fn has_server_up(&self, job_type: JobTypeId) -> bool {
        if self.down == 0 {
            return self.fleet.graph().degree(job_type.index()) > 0;
        }
        let mut any = false;
        self.fleet.graph().for_each(job_type.index(), |server| any |= self.is_up(server));
        any
    }

    /// Whether no server that holds the job type is faster for it than this one.
    #[must_use]
    pub fn is_fastest(&self, job_type: JobTypeId, server: ServerId) -> bool {
        let rank = |server| self.fleet.rank(job_type, self.fleet.server_type(server));
        let mut fastest = self.fleet.fastest_first(job_type).iter();
        let best = match self.fleet.graph().row(job_type.index()) {
            Row::List(set) => set.servers.first().map(|&server| rank(server)),
            Row::All => {
                fastest.find(|&&m| !self.fleet.servers_of_type(m).is_empty()).map(|&m| self.fleet.rank(job_type, m))
            }
            Row::Bits(row) => fastest
                .find(|&&m| level_bits::count_in(row, &self.fleet.servers_of_type(m)) > 0)
                .map(|&m| self.fleet.rank(job_type, m)),
        };
        best.is_none_or(|best| rank(server) <= best)
    }

    /// One more job at a server.
    #[inline(always)]
    pub(crate) fn join(&mut self, server: ServerId) {
        let before = self.places[server.index()].jobs;
        self.places[server.index()].jobs = before.checked_add(1).expect("fewer than 2^32 jobs are at a server");
        self.refresh(server, before);
    }

    /// One job fewer at a server, if `really`: no branch on what may be chance.
    #[inline(always)]
    pub(crate) fn leave_if(&mut self, server: ServerId, really: bool) {
        let before = self.places[server.index()].jobs;
        self.places[server.index()].jobs =
            before.checked_sub(u32::from(really)).expect("only a job that joined can leave");
        self.refresh(server, before);
    }

    /// Takes a server up or down; its jobs stay counted.
    pub(crate) fn set_up(&mut self, server: ServerId, up: bool) {
        let was_up = std::mem::replace(&mut self.is_up[server.index()], up);
        if was_up != up {
            if up {
                self.down -= 1
            } else {
                self.down += 1
            }
            self.places[server.index()].limit = if up { self.capacity[server.index()] } else { 0 };
            self.refresh(server, self.places[server.index()].jobs);
        }
    }

    /// Carries a count over from another state of the same servers; it may exceed this fleet's buffer.
    pub(crate) fn carry(&mut self, server: ServerId, jobs: u32) {
        let before = std::mem::replace(&mut self.places[server.index()].jobs, jobs);
        self.refresh(server, before);
    }

    /// Recomputes a server's level and moves it in the indexes, after its jobs (`before` until now) or its being up
    /// changed.
    #[inline(always)]
    fn refresh(&mut self, server: ServerId, before: u32) {
        let r = server.index();
        let Taken { jobs, limit } = self.places[r];
        let new = if jobs >= limit {
            NO_ROOM
        } else {
            let load = if self.equal_slots { u64::from(jobs) } else { self.load(server) };
            load.min(u64::from(DEEP)) as u8
        };
        let old = std::mem::replace(&mut self.levels[r], new);
        if self.buckets.is_some() || self.bits.is_some() {
            let bucket = |level, jobs| (level != NO_ROOM).then_some(jobs as usize);
            self.reindex(server, bucket(old, before), bucket(new, jobs));
        }
    }

    #[inline(never)]
    fn reindex(&mut self, server: ServerId, from: Option<usize>, to: Option<usize>) {
        let server_type = self.fleet.server_type(server);
        if let Some(buckets) = &mut self.buckets {
            buckets.shift(server, server_type, from, to);
        }
        if let Some(bits) = &mut self.bits {
            bits.shift(server, server_type, from, to);
        }
    }

    #[inline]
    fn weight(&self, server_type: ServerTypeId) -> u64 {
        u64::from(self.weights[server_type.index()])
    }

    /// Jobs at a server that has room.
    #[inline]
    fn jobs_if_room(&self, server: ServerId) -> Option<usize> {
        self.has_room(server).then(|| self.jobs(server) as usize)
    }
}
