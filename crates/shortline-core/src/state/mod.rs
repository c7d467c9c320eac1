//! The live state of a fleet: how many jobs are at each server, which are up, and the indexes that make a decision
//! fast. Policies read it; only the [`Dispatcher`](crate::Dispatcher) changes it.
//!
//! **Levels.** Servers are compared by jobs per slot, in integers: with `w_r = lcm(slots) / slots_r`, server `a` is
//! shorter than `b` iff `jobs_a w_a < jobs_b w_b`. The level of a server is `jobs w`, or [`Counter::MAX`] while it
//! takes no more jobs (full or down), so that one array answers "who is shortest" and "who has room".
//!
//! **Three kinds of rows, three ways to look.** A list is scanned; a bitset row is intersected with bitsets of equal
//! job counts ([`level_bits`]); a job type on every server reads sorted buckets ([`buckets`]). The last two are kept
//! only where the graph has such rows.

mod buckets;
mod choose;
mod counter;
mod level_bits;
mod sample;

use std::sync::Arc;

pub use choose::Ties;
pub use counter::Counter;
pub use sample::{Among, Sample};

use crate::fleet::{Fleet, gcd};
use crate::graph::Row;
use crate::ids::{JobTypeId, ServerId, ServerTypeId};
use buckets::Buckets;
use level_bits::LevelBits;

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
pub struct State<C> {
    fleet: Arc<Fleet>,
    jobs: Vec<C>,
    /// `jobs * weight`, or `C::MAX` while the server takes no more jobs.
    levels: Vec<C>,
    /// Jobs at which a server is full.
    capacity: Vec<C>,
    /// `lcm(slots) / slots` by server type.
    weights: Vec<C>,
    /// A server is idle iff its level is below this.
    idle_below: C,
    is_up: Vec<bool>,
    down: usize,
    equal_capacities: bool,
    buckets: Option<Buckets>,
    bits: Option<LevelBits>,
}

impl<C: Counter> State<C> {
    /// The widest level a fleet needs: whether counters of type `C` can hold it.
    #[must_use]
    pub fn fits(fleet: &Fleet, places: Places) -> bool {
        let common = common_slots(fleet);
        fleet.servers().all(|server| {
            let weight = common / u64::from(fleet.slots(server));
            let most = match (places, fleet.buffer(server)) {
                (Places::Slots, _) => u64::from(fleet.slots(server)),
                (Places::Buffers, Some(buffer)) => u64::from(buffer),
                // An unbounded buffer is one that 2^31 jobs do not fill.
                (Places::Buffers, None) => 1 << 31,
            };
            most.checked_mul(weight).and_then(C::from_u64).is_some_and(|level| level < C::MAX)
        })
    }

    /// All servers up and empty.
    ///
    /// # Panics
    /// If `C` is too narrow for the fleet ([`fits`](Self::fits)).
    #[must_use]
    pub fn new(fleet: Arc<Fleet>, places: Places) -> Self {
        assert!(Self::fits(&fleet, places), "the counters are too narrow for the fleet's buffers");
        let narrow = |value: u64| C::from_u64(value).expect("fits() was asked");
        let common = common_slots(&fleet);
        let weights: Vec<C> =
            fleet.server_types().map(|m| narrow(common / u64::from(fleet.server_type_parts(m).slots))).collect();
        let most_jobs = |server| match places {
            Places::Slots => narrow(u64::from(fleet.slots(server))),
            // An unbounded buffer ends where the level would no longer fit.
            Places::Buffers => match fleet.buffer(server) {
                Some(buffer) => narrow(u64::from(buffer)),
                None => narrow((C::MAX.to_u64() - 1) / weights[fleet.server_type(server).index()].to_u64()),
            },
        };
        let capacity: Vec<C> = fleet.servers().map(most_jobs).collect();
        let types = || fleet.server_types().map(|m| (fleet.servers_of_type(m), fleet.server_type_parts(m).slots));
        let n = fleet.server_count();
        Self {
            jobs: vec![C::default(); n],
            levels: vec![C::default(); n],
            equal_capacities: capacity.windows(2).all(|pair| pair[0] == pair[1]),
            capacity,
            weights,
            idle_below: narrow(common),
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
    pub fn jobs(&self, server: ServerId) -> u64 {
        self.jobs[server.index()].to_u64()
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
        self.levels[server.index()] != C::MAX
    }

    /// Whether a server is idle: up, with a free slot (then no job waits there).
    #[inline]
    #[must_use]
    pub fn is_idle(&self, server: ServerId) -> bool {
        self.levels[server.index()] < self.idle_below
    }

    /// Jobs per slot of a server as an integer, comparable between all servers of the fleet, full or not.
    #[inline]
    #[must_use]
    pub fn load(&self, server: ServerId) -> u64 {
        self.jobs(server) * self.weights[self.fleet.server_type(server).index()].to_u64()
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
    #[inline]
    pub(crate) fn join(&mut self, server: ServerId) {
        let before = self.jobs[server.index()];
        self.jobs[server.index()] = before.up();
        self.refresh(server, before);
    }

    /// One job fewer at a server.
    #[inline]
    pub(crate) fn leave(&mut self, server: ServerId) {
        let before = self.jobs[server.index()];
        self.jobs[server.index()] = before.down();
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
            self.refresh(server, self.jobs[server.index()]);
        }
    }

    /// Carries a count over from another state of the same servers; it may exceed this fleet's buffer.
    pub(crate) fn carry(&mut self, server: ServerId, jobs: u64) {
        let before = self.jobs[server.index()];
        self.jobs[server.index()] = C::from_u64(jobs).unwrap_or(C::MAX);
        self.refresh(server, before);
    }

    /// Recomputes a server's level and moves it in the indexes, after its jobs (`before` until now) or its being up
    /// changed.
    #[inline]
    fn refresh(&mut self, server: ServerId, before: C) {
        let r = server.index();
        let jobs = self.jobs[r];
        let old = self.levels[r];
        let new = if jobs >= self.capacity[r] || !self.is_up[r] {
            C::MAX
        } else if self.weights.len() == 1 {
            jobs
        } else {
            jobs.times(self.weights[self.fleet.server_type(server).index()])
        };
        self.levels[r] = new;
        if self.buckets.is_some() || self.bits.is_some() {
            let bucket = |level: C, jobs: C| (level != C::MAX).then(|| jobs.to_u64() as usize);
            self.reindex(server, bucket(old, before), bucket(new, jobs));
        }
    }

    #[inline]
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
        self.weights[server_type.index()].to_u64()
    }

    /// Jobs at a server that has room.
    #[inline]
    fn jobs_if_room(&self, server: ServerId) -> Option<usize> {
        self.has_room(server).then(|| self.jobs(server) as usize)
    }
}

/// Least common multiple of the slot counts; a checked fleet keeps it below 2^32.
fn common_slots(fleet: &Fleet) -> u64 {
    fleet
        .server_types()
        .map(|m| u64::from(fleet.server_type_parts(m).slots))
        .fold(1, |common, slots| common / gcd(common, slots) * slots)
}
