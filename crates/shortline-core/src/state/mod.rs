//! The live state of a fleet: how many jobs are at each server, which are up, and the indexes that make a decision
//! fast. Policies read it; only the [`Dispatcher`](crate::Dispatcher) changes it.
//!
//! **Levels.** Servers are compared by jobs per slot, in integers: with `w_r = lcm(slots) / slots_r`, server `a` is
//! shorter than `b` iff `jobs_a w_a < jobs_b w_b`. One byte a server, its level, answers nearly every question:
//! `jobs w` if that is below `DEEP`, `DEEP` for that much or more, `NO_ROOM` while it takes no more jobs (full or
//! down). Sixteen neighbours are one vector, a million servers one megabyte. The level *is* the count wherever it tells
//! it: a decision touches one byte of its server. A count of its own is kept for servers whose level does not tell
//! (deep, down, or full where buffers differ) and read only there.
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

/// Below so many levels, servers are counted level by level; else one by one.
const FEW_LEVELS: u8 = 8;

/// The cap of a server that has none.
const NO_CAP: u32 = u32::MAX;

const ONLY_WHO_JOINED: &str = "only a job that joined can leave";

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
    levels: Vec<u8>,
    /// Jobs at the servers whose level does not tell them; out of date for the others.
    untold: Vec<u32>,
    /// The level that `NO_ROOM` stands for, while all servers without room are up and full at this same load; else `DEEP`.
    full_level: u8,
    full_at: FullAt,
    /// Whether a change is one of the level alone wherever that tells: equal slots, equal buffers, all servers up, no
    /// index to keep.
    plain: bool,
    /// Slots by server type, and whether they are all the same.
    slots: Vec<u32>,
    equal_slots: bool,
    /// `lcm(slots) / slots` by server type.
    weights: Vec<u32>,
    /// A server is idle iff its level is at most this; `NO_ROOM` = so many slots that the level does not tell.
    idle_level: u8,
    /// Jobs from which on a server counts as down, `NO_CAP` = never; empty until the first server gets a cap.
    caps: Vec<u32>,
    /// Servers that have a cap.
    capped: usize,
    /// Whether a server has fewer jobs than its cap, and how many have not.
    is_up: Vec<bool>,
    down: usize,
    buckets: Option<Buckets>,
    bits: Option<LevelBits>,
}

/// When servers are full.
#[derive(Clone, Debug)]
enum FullAt {
    /// All at the same load, `u64::MAX` = never.
    Load(u64),
    /// Each at so many jobs, `u32::MAX` = never.
    Jobs(Vec<u32>),
}

impl State {
    /// All servers up and empty.
    #[must_use]
    pub fn new(fleet: Arc<Fleet>, places: Places) -> Self {
        let slots: Vec<u32> = fleet.server_types().map(|m| fleet.server_type_parts(m).slots).collect();
        let common = slots.iter().fold(1, |common, &slots| common / gcd(common, u64::from(slots)) * u64::from(slots));
        let common = u32::try_from(common).expect("a checked fleet keeps the common multiple of its slots below 2^32");
        let weights: Vec<u32> = slots.iter().map(|slots| common / slots).collect();
        let capacity = |server: ServerId| match places {
            Places::Slots => Some(fleet.slots(server)),
            Places::Buffers => fleet.buffer(server),
        };
        let full_load = |server: ServerId| {
            let load = |jobs| u64::from(jobs) * u64::from(weights[fleet.server_type(server).index()]);
            capacity(server).map_or(u64::MAX, load)
        };
        let mut full_loads = fleet.servers().map(full_load);
        let first = full_loads.next().unwrap_or(u64::MAX);
        let full_at = if full_loads.all(|load| load == first) {
            FullAt::Load(first)
        } else {
            FullAt::Jobs(fleet.servers().map(|server| capacity(server).unwrap_or(u32::MAX)).collect())
        };
        let full_level = match full_at {
            FullAt::Load(load) => load.min(u64::from(DEEP)) as u8,
            FullAt::Jobs(_) => DEEP,
        };
        let types = || fleet.server_types().map(|m| (fleet.servers_of_type(m), fleet.server_type_parts(m).slots));
        let n = fleet.server_count();
        let equal_slots = slots.windows(2).all(|pair| pair[0] == pair[1]);
        let buckets = fleet.graph().has_full_rows().then(|| Buckets::new(types()));
        let bits = fleet.graph().has_bit_rows().then(|| LevelBits::new(types()));
        let equal_capacities = matches!(full_at, FullAt::Load(_));
        Self {
            levels: vec![0; n.max(SMALL)],
            untold: vec![0; n],
            full_level,
            full_at,
            plain: equal_slots && equal_capacities && buckets.is_none() && bits.is_none(),
            equal_slots,
            weights,
            slots,
            idle_level: u8::try_from(common - 1).ok().filter(|&level| level < DEEP).unwrap_or(NO_ROOM),
            caps: Vec::new(),
            capped: 0,
            is_up: vec![true; n],
            down: 0,
            buckets,
            bits,
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
        let level = self.told(self.levels[server.index()]);
        if level == DEEP {
            self.untold[server.index()]
        } else if self.equal_slots {
            u32::from(level)
        } else {
            u32::from(level) / self.weights[self.fleet.server_type(server).index()]
        }
    }

    /// `jobs w` of a server with this level; `DEEP` if the level does not tell.
    #[inline(always)]
    fn told(&self, level: u8) -> u8 {
        if level == NO_ROOM { self.full_level } else { level }
    }

    /// Calls `visit` with numbers of jobs, and how many servers have them (in portions, in no order). O(servers), some
    /// bytes a nanosecond.
    pub fn for_each_count(&self, mut visit: impl FnMut(u32, u64)) {
        if self.equal_slots {
            return self.for_each_count_of(0..self.fleet.server_count(), 1, &mut visit);
        }
        for server_type in self.fleet.server_types() {
            let weight = self.weights[server_type.index()];
            self.for_each_count_of(self.fleet.servers_of_type(server_type), weight, &mut visit);
        }
    }

    /// [`for_each_count`](Self::for_each_count) of servers whose level is `weight` times their number of jobs.
    fn for_each_count_of(&self, servers: std::ops::Range<usize>, weight: u32, visit: &mut impl FnMut(u32, u64)) {
        let levels = &self.levels[servers.clone()];
        let of = |level: u8| if level == NO_ROOM { 0 } else { level };
        let deepest = levels.iter().fold(0, |deepest, &level| deepest.max(of(level)));
        if deepest < FEW_LEVELS && self.full_level < DEEP {
            (0..=deepest).for_each(|level| visit(u32::from(level) / weight, count(levels, level)));
            return visit(u32::from(self.full_level) / weight, count(levels, NO_ROOM));
        }
        // Two tables: a count that is raised again waits for itself.
        let mut told = [[0_u64; 2]; 256];
        let mut highest = 0;
        for server in servers {
            let level = self.told(self.levels[server]);
            told[usize::from(level)][server % 2] += 1;
            highest = highest.max(level);
            if level == DEEP {
                visit(self.untold[server], 1);
            }
        }
        let told = (0..=highest.min(DEEP - 1)).zip(told.map(|[a, b]| a + b)).filter(|&(_, servers)| servers > 0);
        told.for_each(|(level, servers)| visit(u32::from(level) / weight, servers));
    }

    /// Whether a server is up: a candidate for every policy, unless it is full. One at its [`cap`](Self::cap) is not.
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

    /// Jobs from which on a server counts as down, `None` = never; 0 = it is down.
    #[must_use]
    pub fn cap(&self, server: ServerId) -> Option<u32> {
        self.caps.get(server.index()).copied().filter(|&cap| cap != NO_CAP)
    }

    /// Whether some server that holds the job type takes jobs: its cap is not 0, though it may be reached. O(1) while
    /// all servers are up, else O(degree).
    #[must_use]
    pub fn has_server_up(&self, job_type: JobTypeId) -> bool {
        if self.down == 0 {
            return self.fleet.graph().degree(job_type.index()) > 0;
        }
        let mut any = false;
        self.fleet.graph().for_each(job_type.index(), |server| any |= self.cap(server) != Some(0));
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

    /// One more job at a server that has room.
    #[inline(always)]
    pub(crate) fn join(&mut self, server: ServerId) {
        let level = self.levels[server.index()];
        if self.plain && level < DEEP - 1 {
            return self.set_level(server, level + 1);
        }
        let before = self.jobs(server);
        self.put(server, before, before.checked_add(1).expect("fewer than 2^32 jobs are at a server"));
    }

    /// One job fewer at a server, if `really`: no branch on what may be chance.
    #[inline(always)]
    pub(crate) fn leave_if(&mut self, server: ServerId, really: bool) {
        let level = self.told(self.levels[server.index()]);
        if self.plain && level < DEEP {
            return self.set_level(server, level.checked_sub(u8::from(really)).expect(ONLY_WHO_JOINED));
        }
        let before = self.jobs(server);
        self.put(server, before, before.checked_sub(u32::from(really)).expect(ONLY_WHO_JOINED));
    }

    /// A change of a plain level.
    #[inline(always)]
    fn set_level(&mut self, server: ServerId, load: u8) {
        self.levels[server.index()] = if load == self.full_level { NO_ROOM } else { load };
    }

    /// Gives a server a cap, or takes it away (`None`); its jobs stay counted. O(servers) for the first cap.
    pub(crate) fn set_cap(&mut self, server: ServerId, cap: Option<u32>) {
        let cap = cap.unwrap_or(NO_CAP);
        if self.caps.is_empty() {
            if cap == NO_CAP {
                return;
            }
            self.caps = vec![NO_CAP; self.fleet.server_count()];
        }
        let before = std::mem::replace(&mut self.caps[server.index()], cap);
        if before == cap {
            return;
        }
        self.capped -= usize::from(before != NO_CAP);
        self.capped += usize::from(cap != NO_CAP);
        self.full_tells_no_more();
        let jobs = self.jobs(server);
        self.keeps_to_cap(server, jobs);
        self.put(server, jobs, jobs);
    }

    /// Whether so many jobs are fewer than the server's cap: then it is up.
    #[inline(never)]
    fn keeps_to_cap(&mut self, server: ServerId, jobs: u32) -> bool {
        let r = server.index();
        let up = jobs < self.caps[r];
        let was_up = std::mem::replace(&mut self.is_up[r], up);
        self.down = self.down + usize::from(was_up) - usize::from(up);
        up
    }

    /// Carries a count over from another state of the same servers; it may exceed this fleet's buffer.
    pub(crate) fn carry(&mut self, server: ServerId, jobs: u32) {
        self.full_tells_no_more();
        self.put(server, self.jobs(server), jobs);
    }

    /// From now on a server without room may have any number of jobs: keeps the counts of those that are full.
    fn full_tells_no_more(&mut self) {
        if self.full_level < DEEP {
            for server in self.fleet.servers().filter(|server| self.levels[server.index()] == NO_ROOM) {
                self.untold[server.index()] = self.jobs(server);
            }
            self.full_level = DEEP;
        }
        self.plain = false;
    }

    /// A server has `jobs` jobs now (`before` until now), or its being up changed: sets its level and moves it in the
    /// indexes.
    #[inline]
    fn put(&mut self, server: ServerId, before: u32, jobs: u32) {
        let r = server.index();
        let load = if self.equal_slots {
            u64::from(jobs)
        } else {
            u64::from(jobs) * self.weight(self.fleet.server_type(server))
        };
        let is_full = match &self.full_at {
            FullAt::Load(full) => load >= *full,
            FullAt::Jobs(full) => jobs >= full[r],
        };
        let has_room = (self.capped == 0 || self.keeps_to_cap(server, jobs)) && !is_full;
        let new = if has_room { load.min(u64::from(DEEP)) as u8 } else { NO_ROOM };
        if self.told(new) == DEEP {
            self.untold[r] = jobs;
        }
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

/// How many of the levels are this one. In bytes, which no chunk is long enough to overflow: many at a time.
fn count(levels: &[u8], level: u8) -> u64 {
    let equal = |chunk: &[u8]| chunk.iter().fold(0_u8, |sum, &other| sum + u8::from(other == level));
    levels.chunks(240).map(|chunk| u64::from(equal(chunk))).sum()
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;
    use crate::fleet::settings::Settings;
    use crate::fleet::{ArrivalRates, FleetParts, JobTypeParts, Names, ServerParts, ServerTypeParts, Speed};
    use crate::graph::Edges;
    use crate::random::{Generator, below};

    /// Servers by (slots, buffer, number); one job type on all of them but the last.
    fn fleet(servers: &[(u32, Option<u32>, u32)]) -> Arc<Fleet> {
        let names = |base: String, count| Names { base, count: Some(count) };
        let count: u32 = servers.iter().map(|(.., count)| count).sum();
        let server_type = |(i, &(slots, ..)): (usize, &(u32, Option<u32>, u32))| ServerTypeParts {
            name: format!("t{i}"),
            speed: Speed::Rate(1.0 / (1 + i) as f64),
            slots,
        };
        let group = |(i, &(_, buffer, count)): (usize, &(u32, Option<u32>, u32))| ServerParts {
            names: names(format!("s{i}-"), count),
            server_type: i,
            buffer,
            addresses: Vec::new(),
        };
        let job_type = JobTypeParts { names: names("j".into(), 1), arrivals: ArrivalRates::Each(1.0), size: 1.0 };
        let parts = FleetParts {
            name: "test".into(),
            server_types: servers.iter().enumerate().map(server_type).collect(),
            servers: servers.iter().enumerate().map(group).collect(),
            job_types: vec![job_type],
            rates: Vec::new(),
            edges: Edges::from_rows([(0..count - 1).collect::<Vec<u32>>()]),
            settings: Settings::default(),
        };
        Arc::new(Fleet::new(parts).unwrap())
    }

    /// Small buffers, deep queues, unequal slots, unequal buffers; with a server that is down, capped and up by turns from
    /// half-way on.
    #[test]
    fn whatever_the_level_tells_the_count_is_right() {
        let fleets = [
            fleet(&[(1, Some(3), 4)]),
            fleet(&[(1, None, 3)]),
            fleet(&[(1, Some(300), 3)]),
            fleet(&[(2, Some(4), 2), (3, Some(6), 2)]),
            fleet(&[(2, Some(3), 2), (3, Some(200), 2)]),
            fleet(&[(1, Some(2), 2), (1, Some(260), 2)]),
        ];
        for (number, fleet) in fleets.iter().enumerate() {
            let mut state = State::new(Arc::clone(fleet), Places::Buffers);
            let mut rng = Generator::seed_from_u64(7);
            let mut counts = vec![0_u32; fleet.server_count()];
            for step in 0..40_000 {
                let r = below(&mut rng, counts.len() as u32) as usize;
                let server = ServerId::new(r);
                // Climbs to deep queues, then falls.
                let joins = below(&mut rng, 10) < if step % 10_000 < 6000 { 7 } else { 2 };
                if joins && state.has_room(server) {
                    state.join(server);
                    counts[r] += 1;
                } else if !joins {
                    state.leave_if(server, counts[r] > 0);
                    counts[r] -= u32::from(counts[r] > 0);
                }
                if step >= 20_000 && step % 700 == 0 {
                    state.set_cap(ServerId::new(1), [Some(0), Some(3), None][step / 700 % 3]);
                }
                assert_eq!(state.jobs(server), counts[r], "fleet {number}, step {step}, server {r}");
                let is_full = fleet.buffer(server).is_some_and(|buffer| counts[r] >= buffer);
                assert_eq!(state.has_room(server), state.is_up(server) && !is_full, "fleet {number}, step {step}");
            }
            let mut seen = Vec::new();
            state.for_each_count(|jobs, servers| seen.extend((0..servers).map(|_| jobs)));
            seen.sort_unstable();
            counts.sort_unstable();
            assert_eq!(seen, counts, "fleet {number}");
        }
    }

    #[test]
    fn more_jobs_than_the_buffer_may_be_carried_over() {
        let mut state = State::new(fleet(&[(1, Some(3), 3)]), Places::Buffers);
        let [a, b] = [0, 1].map(ServerId::new);
        (0..3).for_each(|_| state.join(a));
        state.carry(b, 9);
        assert_eq!((state.jobs(a), state.jobs(b), state.has_room(b)), (3, 9, false));
        (0..7).for_each(|_| state.leave_if(b, true));
        assert_eq!((state.jobs(b), state.has_room(b)), (2, true));
    }

    #[test]
    fn the_types_of_a_large_fleet_are_those_of_its_ranges() {
        for types in [vec![20_000], vec![1, 40_000], vec![20_000, 1, 20_000, 3], vec![9000, 9000, 9000, 9000, 9000]] {
            let fleet = fleet(&types.iter().map(|&count| (1, None, count)).collect::<Vec<_>>());
            for m in fleet.server_types() {
                let range = fleet.servers_of_type(m);
                for r in [range.start, range.end - 1] {
                    assert_eq!(fleet.server_type(ServerId::new(r)), m, "server {r}");
                }
            }
        }
    }
}
