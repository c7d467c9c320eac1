//! The choices that policies are made of: the shortest queue, an idle server, the shortest expected delay.
//!
//! Every choice is uniform among the servers that its rule leaves tied. Where two speeds, or two delays, differ by
//! less than [`SPEED_TOLERANCE`] relative, they are tied.

use rand::Rng;
use wide::u8x16;

use super::level_bits::LevelBits;
use super::{Buckets, DEEP, NO_ROOM, SMALL, State};
use crate::fleet::SPEED_TOLERANCE;
use crate::graph::{LONGEST_SCAN, Row, ServerSet};
use crate::ids::{JobTypeId, ServerId, ServerTypeId};
use crate::random::{below, set_bit, set_bit_of_16};

/// Who wins among servers that are equal so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ties {
    /// Each with the same probability.
    Uniform,
    /// The fastest for the job's type; each of the fastest with the same probability.
    Fastest,
}

impl State {
    /// The compatible server with room that has fewest jobs per slot.
    #[inline(always)]
    pub fn shortest<R: Rng + ?Sized>(&self, job_type: JobTypeId, ties: Ties, rng: &mut R) -> Option<ServerId> {
        match self.fleet.graph().short_row(job_type.index()) {
            Some(set) if set.servers.len() <= 16 => self.shortest_near::<1, R>(set, ties, rng),
            _ => self.shortest_far(job_type, ties, rng),
        }
    }

    /// [`shortest`](Self::shortest) in any row; kept out of line, so that the short row is inlined everywhere.
    #[inline(never)]
    fn shortest_far<R: Rng + ?Sized>(&self, job_type: JobTypeId, ties: Ties, rng: &mut R) -> Option<ServerId> {
        match self.fleet.graph().row(job_type.index()) {
            Row::List(set) if set.servers.len() <= LONGEST_SCAN => self.shortest_near::<4, R>(set, ties, rng),
            Row::List(set) => {
                let level = |i: usize| self.levels[set.servers[i].index()];
                match least(set.servers.len(), level)? {
                    NO_ROOM => None,
                    DEEP => self.shortest_load(set, ties, rng),
                    least => Some(pick(set, ties, |i| level(i) == least, rng)),
                }
            }
            Row::All => self.shortest_by_type(job_type, &self.buckets()?, ties, rng),
            Row::Bits(row) => self.shortest_by_type(job_type, &self.bit_row(row)?, ties, rng),
        }
    }

    /// A compatible idle server.
    #[inline(always)]
    pub fn idle<R: Rng + ?Sized>(&self, job_type: JobTypeId, ties: Ties, rng: &mut R) -> Option<ServerId> {
        match self.fleet.graph().short_row(job_type.index()) {
            Some(set) if set.servers.len() <= 16 && self.idle_level != NO_ROOM => {
                self.idle_near::<1, R>(set, ties, rng)
            }
            _ => self.idle_far(job_type, ties, rng),
        }
    }

    /// [`idle`](Self::idle) in any row.
    #[inline(never)]
    fn idle_far<R: Rng + ?Sized>(&self, job_type: JobTypeId, ties: Ties, rng: &mut R) -> Option<ServerId> {
        match self.fleet.graph().row(job_type.index()) {
            Row::List(set) if set.servers.len() <= LONGEST_SCAN && self.idle_level != NO_ROOM => {
                self.idle_near::<4, R>(set, ties, rng)
            }
            Row::List(set) => {
                let is_idle = |i: usize| self.is_idle(set.servers[i]);
                (0..set.servers.len()).any(is_idle).then(|| pick(set, ties, is_idle, rng))
            }
            Row::All => self.idle_by_type(job_type, &self.buckets()?, ties, rng),
            Row::Bits(row) => self.idle_by_type(job_type, &self.bit_row(row)?, ties, rng),
        }
    }

    /// The compatible server with room whose expected delay `max(1, (jobs + 1) / slots) / rate` is smallest; ties to
    /// the fastest, then uniformly.
    #[inline]
    pub fn shortest_delay<R: Rng + ?Sized>(&self, job_type: JobTypeId, rng: &mut R) -> Option<ServerId> {
        match self.fleet.graph().row(job_type.index()) {
            Row::List(set) if set.servers.len() <= 16 && self.equal_slots => {
                self.least_delay_near::<1, R>(job_type, set, rng)
            }
            Row::List(set) if set.servers.len() <= LONGEST_SCAN && self.equal_slots => {
                self.least_delay_near::<4, R>(job_type, set, rng)
            }
            Row::List(set) => self.least_delay_of(job_type, set, rng),
            Row::All => self.delay_by_type(job_type, &self.buckets()?, rng),
            Row::Bits(row) => self.delay_by_type(job_type, &self.bit_row(row)?, rng),
        }
    }

    /// `max(1, (jobs + 1) / slots) / rate`, in seconds per unit of size, at a server of this type with `jobs` jobs.
    #[inline]
    #[must_use]
    pub fn expected_delay(&self, job_type: JobTypeId, server_type: ServerTypeId, jobs: u32) -> f64 {
        let slots = f64::from(self.slots[server_type.index()]);
        (f64::from(jobs) + 1.0).max(slots) / (slots * self.fleet.rate(job_type, server_type))
    }

    /// [`shortest`](Self::shortest) in a row of at most 16 `B` servers.
    #[inline(always)]
    fn shortest_near<const B: usize, R: Rng + ?Sized>(
        &self,
        set: ServerSet<'_>,
        ties: Ties,
        rng: &mut R,
    ) -> Option<ServerId> {
        let near = Near::<B>::gather(set, &self.levels);
        let shallowest = near.shallowest();
        if shallowest != 0 {
            return Some(pick_bit::<B, R>(set, ties, shallowest, rng));
        }
        match near.least() {
            NO_ROOM => None,
            DEEP => self.shortest_load(set, ties, rng),
            least => Some(pick_bit::<B, R>(set, ties, near.at_most(least), rng)),
        }
    }

    /// [`idle`](Self::idle) in a row of at most 16 `B` servers.
    #[inline(always)]
    fn idle_near<const B: usize, R: Rng + ?Sized>(
        &self,
        set: ServerSet<'_>,
        ties: Ties,
        rng: &mut R,
    ) -> Option<ServerId> {
        let mask = Near::<B>::gather(set, &self.levels).at_most(self.idle_level);
        (mask != 0).then(|| pick_bit::<B, R>(set, ties, mask, rng))
    }

    /// [`shortest_delay`](Self::shortest_delay) in a row of at most 16 `B` servers with as many slots each.
    #[inline(always)]
    fn least_delay_near<const B: usize, R: Rng + ?Sized>(
        &self,
        job_type: JobTypeId,
        set: ServerSet<'_>,
        rng: &mut R,
    ) -> Option<ServerId> {
        match self.least_delays(job_type, set, &Near::<B>::gather(set, &self.levels)) {
            None => self.least_delay_of(job_type, set, rng),
            Some(0) => None,
            Some(tied) => Some(set.servers[set_bit(rng, tied) as usize]),
        }
    }

    /// [`shortest`](Self::shortest) by the counts themselves, where levels do not tell.
    #[cold]
    #[inline(never)]
    fn shortest_load<R: Rng + ?Sized>(&self, set: ServerSet<'_>, ties: Ties, rng: &mut R) -> Option<ServerId> {
        let load = |i: usize| if self.has_room(set.servers[i]) { self.load(set.servers[i]) } else { u64::MAX };
        let least = least(set.servers.len(), load).filter(|&least| least != u64::MAX)?;
        Some(pick(set, ties, |i| load(i) == least, rng))
    }

    /// [`shortest_delay`](Self::shortest_delay) by the delay of each server.
    fn least_delay_of<R: Rng + ?Sized>(
        &self,
        job_type: JobTypeId,
        set: ServerSet<'_>,
        rng: &mut R,
    ) -> Option<ServerId> {
        let delay = |i: usize| {
            let server = set.servers[i];
            if self.has_room(server) {
                self.expected_delay(job_type, self.fleet.server_type(server), self.jobs(server))
            } else {
                f64::INFINITY
            }
        };
        let least = (0..set.servers.len()).map(delay).fold(f64::INFINITY, f64::min);
        let limit = least * (1.0 + SPEED_TOLERANCE);
        least.is_finite().then(|| pick(set, Ties::Fastest, |i| delay(i) <= limit, rng))
    }

    /// The servers of least delay in a short row, as bits, where all servers have as many slots: in a group of equal
    /// speed they are the ones with fewest jobs, so one delay per group is enough. `None` = levels do not tell.
    #[inline]
    fn least_delays<const B: usize>(&self, job_type: JobTypeId, set: ServerSet<'_>, near: &Near<B>) -> Option<u64> {
        let values = near.values();
        let values = values.as_flattened();
        let (mut shortest, mut bits) = (f64::INFINITY, 0);
        let mut start = 0;
        while start < set.servers.len() {
            let group = start..set.group_end(start);
            start = group.end;
            let jobs = values[group.clone()].iter().fold(NO_ROOM, |least, &level| least.min(level));
            if jobs == DEEP || self.idle_level == NO_ROOM {
                return None;
            }
            if jobs != NO_ROOM {
                let server_type = self.fleet.server_type(set.servers[group.start]);
                let delay = self.expected_delay(job_type, server_type, u32::from(jobs));
                if delay < shortest * (1.0 - SPEED_TOLERANCE) {
                    shortest = delay;
                    // All idle servers promise the same delay, whatever their number of jobs.
                    bits = near.at_most(jobs.max(self.idle_level))
                        & (u64::MAX >> (64 - group.end))
                        & (u64::MAX << group.start);
                }
            }
        }
        Some(bits)
    }

    fn buckets(&self) -> Option<&Buckets> {
        self.buckets.as_ref()
    }

    fn bit_row<'a>(&'a self, row: &'a [u64]) -> Option<BitRow<'a>> {
        self.bits.as_ref().map(|bits| BitRow { bits, row, state: self })
    }

    fn shortest_by_type<R: Rng + ?Sized>(
        &self,
        job_type: JobTypeId,
        index: &impl TypeIndex,
        ties: Ties,
        rng: &mut R,
    ) -> Option<ServerId> {
        let mut best: Option<Best<u64>> = None;
        for &server_type in self.fleet.fastest_first(job_type) {
            let rank = self.fleet.rank(job_type, server_type);
            if ties == Ties::Fastest && best.as_ref().is_some_and(|best| best.key == 0 && best.rank < rank) {
                break;
            }
            if let Some((jobs, count)) = index.lowest(server_type) {
                let key = jobs as u64 * self.weight(server_type);
                let candidate = Best::new(key, rank, server_type, jobs, count);
                let order = |best: &Best<u64>| key.cmp(&best.key);
                best = Some(candidate.against(best, order, ties, rng));
            }
        }
        best.map(|best| index.nth(best.server_type, best.jobs, below(rng, best.count)))
    }

    fn delay_by_type<R: Rng + ?Sized>(
        &self,
        job_type: JobTypeId,
        index: &impl TypeIndex,
        rng: &mut R,
    ) -> Option<ServerId> {
        let mut best: Option<Best<f64>> = None;
        for &server_type in self.fleet.fastest_first(job_type) {
            // All idle servers of a type promise the same delay, whatever their number of jobs.
            let idle = index.idle(server_type);
            let least = if idle > 0 { Some((0, idle)) } else { index.lowest(server_type) };
            if let Some((jobs, count)) = least {
                let key = self.expected_delay(job_type, server_type, jobs as u32);
                let rank = self.fleet.rank(job_type, server_type);
                let candidate = Best { is_idle: idle > 0, ..Best::new(key, rank, server_type, jobs, count) };
                let order = |best: &Best<f64>| {
                    if crate::fleet::speeds_equal(key, best.key) {
                        std::cmp::Ordering::Equal
                    } else {
                        key.total_cmp(&best.key)
                    }
                };
                best = Some(candidate.against(best, order, Ties::Fastest, rng));
            }
        }
        best.map(|best| {
            let n = below(rng, best.count);
            if best.is_idle { index.nth_idle(best.server_type, n) } else { index.nth(best.server_type, best.jobs, n) }
        })
    }

    fn idle_by_type<R: Rng + ?Sized>(
        &self,
        job_type: JobTypeId,
        index: &impl TypeIndex,
        ties: Ties,
        rng: &mut R,
    ) -> Option<ServerId> {
        let mut best: Option<Best<()>> = None;
        for &server_type in self.fleet.fastest_first(job_type) {
            let rank = self.fleet.rank(job_type, server_type);
            if ties == Ties::Fastest && best.as_ref().is_some_and(|best| best.rank < rank) {
                break;
            }
            let count = index.idle(server_type);
            if count > 0 {
                let candidate = Best::new((), rank, server_type, 0, count);
                best = Some(candidate.against(best, |_| std::cmp::Ordering::Equal, ties, rng));
            }
        }
        best.map(|best| index.nth_idle(best.server_type, below(rng, best.count)))
    }
}

/// The best server type so far.
struct Best<K> {
    key: K,
    rank: u16,
    server_type: ServerTypeId,
    jobs: usize,
    /// Whether the tied servers are the idle ones, with any number of jobs.
    is_idle: bool,
    /// Number of servers of this type that are tied for best.
    count: u32,
    /// The same over all server types seen.
    total: u32,
}

impl<K> Best<K> {
    fn new(key: K, rank: u16, server_type: ServerTypeId, jobs: usize, count: u32) -> Self {
        Self { key, rank, server_type, jobs, is_idle: false, count, total: count }
    }

    /// The better of `self` and the best so far, seen in the order of speed. Tied server types are kept with
    /// probability proportional to their number of tied servers, so that all tied servers are equally likely.
    fn against<R: Rng + ?Sized>(
        self,
        best: Option<Self>,
        order: impl Fn(&Self) -> std::cmp::Ordering,
        ties: Ties,
        rng: &mut R,
    ) -> Self {
        let Some(mut best) = best else { return self };
        match order(&best) {
            std::cmp::Ordering::Less => self,
            std::cmp::Ordering::Greater => best,
            std::cmp::Ordering::Equal if ties == Ties::Fastest && self.rank > best.rank => best,
            std::cmp::Ordering::Equal => {
                let total = best.total + self.count;
                if below(rng, total) < self.count {
                    Self { total, ..self }
                } else {
                    best.total = total;
                    best
                }
            }
        }
    }
}

/// Looks servers up by type: how few jobs, how many servers, which one.
trait TypeIndex {
    /// Fewest jobs at a server with room, and how many servers have so few.
    fn lowest(&self, server_type: ServerTypeId) -> Option<(usize, u32)>;
    /// Number `n` of these; `jobs` as `lowest` said.
    fn nth(&self, server_type: ServerTypeId, jobs: usize, n: u32) -> ServerId;
    fn idle(&self, server_type: ServerTypeId) -> u32;
    fn nth_idle(&self, server_type: ServerTypeId, n: u32) -> ServerId;
}

impl TypeIndex for &Buckets {
    fn lowest(&self, server_type: ServerTypeId) -> Option<(usize, u32)> {
        Buckets::lowest(self, server_type)
    }

    fn nth(&self, server_type: ServerTypeId, _: usize, n: u32) -> ServerId {
        Buckets::nth(self, server_type, n)
    }

    fn idle(&self, server_type: ServerTypeId) -> u32 {
        Buckets::idle(self, server_type)
    }

    fn nth_idle(&self, server_type: ServerTypeId, n: u32) -> ServerId {
        Buckets::nth(self, server_type, n)
    }
}

/// A bitset row with the bitsets of job counts.
struct BitRow<'a> {
    bits: &'a LevelBits,
    row: &'a [u64],
    state: &'a State,
}

impl TypeIndex for BitRow<'_> {
    fn lowest(&self, server_type: ServerTypeId) -> Option<(usize, u32)> {
        self.bits.lowest(self.row, server_type, |server| self.state.jobs_if_room(server))
    }

    fn nth(&self, server_type: ServerTypeId, jobs: usize, n: u32) -> ServerId {
        self.bits.nth(self.row, server_type, jobs, n, |server| self.state.jobs_if_room(server))
    }

    fn idle(&self, server_type: ServerTypeId) -> u32 {
        self.bits.idle(self.row, server_type)
    }

    fn nth_idle(&self, server_type: ServerTypeId, n: u32) -> ServerId {
        self.bits.nth_idle(self.row, server_type, n)
    }
}

/// The levels of a row of at most 16 `B` servers, gathered and filled up with [`NO_ROOM`].
struct Near<const B: usize>([u8x16; B]);

impl<const B: usize> Near<B> {
    #[inline(always)]
    fn gather(set: ServerSet<'_>, levels: &[u8]) -> Self {
        let mut blocks = [u8x16::splat(NO_ROOM); B];
        let (whole, rest) = set.servers.as_chunks::<16>();
        for (block, servers) in blocks.iter_mut().zip(whole) {
            *block = match levels.first_chunk::<SMALL>() {
                // The index cannot be out of range, and is not checked.
                Some(small) if levels.len() == SMALL => {
                    gather(servers, |server| small[usize::from(server.index() as u16)])
                }
                _ => gather(servers, |server| levels[server.index()]),
            };
        }
        if let Some(block) = blocks.get_mut(whole.len()) {
            let mut values = [NO_ROOM; 16];
            for (value, server) in values.iter_mut().zip(rest) {
                *value = levels[server.index()];
            }
            *block = u8x16::new(values);
        }
        Self(blocks)
    }

    #[inline(always)]
    fn values(&self) -> [[u8; 16]; B] {
        self.0.map(u8x16::to_array)
    }

    #[inline(always)]
    fn least(&self) -> u8 {
        self.0.iter().fold(u8x16::splat(NO_ROOM), |least, &block| least.min(block)).reduce_min()
    }

    /// The servers of least level as bits, if that is at most 3; else 0. Few steps one after the other, no branch: the
    /// four answers are found side by side, and which of them it is, is chance. Of 16 servers they are one word, whose
    /// lowest bit tells; of a selection the compiler made a branch.
    #[inline(always)]
    fn shallowest(&self) -> u64 {
        let [none, one, two, three] = [0, 1, 2, 3].map(|level| self.at_most(level));
        if B == 1 {
            let answers = none | one << 16 | two << 32 | three << 48;
            return answers >> (answers.trailing_zeros() & 48) & 0xffff;
        }
        let few = if none != 0 { none } else { one };
        let more = if two != 0 { two } else { three };
        if few != 0 { few } else { more }
    }

    /// Bit `i` says whether the level of server `i` of the row is at most `limit`.
    #[inline(always)]
    fn at_most(&self, limit: u8) -> u64 {
        let mask = |block: u8x16| u64::from(block.min(u8x16::splat(limit)).simd_eq(block).to_bitmask());
        self.0.iter().enumerate().fold(0, |bits, (b, &block)| bits | mask(block) << (16 * b))
    }
}

/// The levels of 16 servers, put together in registers: through memory, the load of the whole would have to wait until
/// all 16 stores of a byte are done.
#[inline(always)]
fn gather(servers: &[ServerId; 16], level: impl Fn(ServerId) -> u8) -> u8x16 {
    let word = |first: usize| (0..8).fold(0, |word, i| word | u64::from(level(servers[first + i])) << (8 * i));
    let words = u128::from(word(0)) | u128::from(word(8)) << 64;
    u8x16::new(words.to_le_bytes())
}

/// The smallest of `n` values.
#[inline(always)]
pub(super) fn least<K: Ord + Copy>(n: usize, value: impl Fn(usize) -> K) -> Option<K> {
    (0..n).map(value).min()
}

/// Chooses uniformly among the servers of a row of at most 16 `B` whose bit is set (at least one is); with [`Ties::Fastest`]
/// among those of the first speed group that has any.
#[inline(always)]
fn pick_bit<const B: usize, R: Rng + ?Sized>(set: ServerSet<'_>, ties: Ties, mut mask: u64, rng: &mut R) -> ServerId {
    if ties == Ties::Fastest {
        mask = set.first_group(mask);
    }
    let bit = if B == 1 { set_bit_of_16(rng, mask as u16) } else { set_bit(rng, mask) };
    set.servers[bit as usize]
}

/// Chooses uniformly among the servers of `set` that are `wanted` (at least one is); with [`Ties::Fastest`] among
/// those of the first speed group that has any.
fn pick<R: Rng + ?Sized>(set: ServerSet<'_>, ties: Ties, wanted: impl Fn(usize) -> bool, rng: &mut R) -> ServerId {
    let range = match ties {
        Ties::Uniform => 0..set.servers.len(),
        Ties::Fastest => {
            let first = (0..set.servers.len()).find(|&i| wanted(i)).expect("the caller saw one that is wanted");
            first..set.group_end(first)
        }
    };
    set.servers[nth_wanted(range, wanted, rng)]
}

/// A uniformly chosen index of `range` that is `wanted` (at least one is).
pub(super) fn nth_wanted<R: Rng + ?Sized>(
    range: std::ops::Range<usize>,
    wanted: impl Fn(usize) -> bool,
    rng: &mut R,
) -> usize {
    let count = range.clone().filter(|&i| wanted(i)).count();
    let n = below(rng, u32::try_from(count).expect("a row is no longer than the fleet"));
    range.filter(|&i| wanted(i)).nth(n as usize).expect("there are more than n of them")
}
