//! Sampling compatible servers: uniformly, without replacement, among those that are up.

use std::ops::Range;

use rand::Rng;

use super::choose::{least, nth_wanted};
use super::level_bits::{count_in, nth_in};
use super::{FullAt, State, Ties};
use crate::graph::Row;
use crate::ids::{JobTypeId, ServerId, ServerTypeId};
use crate::random::{below, set_bit};

/// Which of the compatible servers to sample from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Among {
    /// All of them.
    All,
    /// Those with the largest rate in the fleet (for the job's type).
    Fast,
    /// The others.
    Other,
}

/// Room for a sample, kept by a policy so that a decision allocates nothing.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    servers: Vec<ServerId>,
    /// One bit per server, all clear between decisions; used for large samples.
    seen: Vec<u64>,
}

impl Sample {
    /// The servers sampled.
    #[must_use]
    pub fn servers(&self) -> &[ServerId] {
        &self.servers
    }

    /// Forgets the servers.
    pub fn clear(&mut self) {
        self.servers.clear();
    }
}

impl State {
    /// A uniformly random compatible server that is up; it may be full.
    #[inline]
    pub fn uniform<R: Rng + ?Sized>(&self, job_type: JobTypeId, rng: &mut R) -> Option<ServerId> {
        let pool = Pool::new(self, job_type, Among::All);
        if self.down == 0 {
            return (pool.len > 0).then(|| pool.get(below(rng, pool.len)));
        }
        // Drawing again until one is up is uniform over those that are; where few are, count them.
        let mut draw = || (pool.len > 0).then(|| pool.get(below(rng, pool.len)));
        if let Some(server) = (0..32).find_map(|_| draw().filter(|&server| self.is_up(server))) {
            return Some(server);
        }
        let is_up = |n: usize| self.is_up(pool.get(n as u32));
        let all = 0..pool.len as usize;
        all.clone().any(is_up).then(|| pool.get(nth_wanted(all, is_up, rng) as u32))
    }

    /// Adds `d` distinct uniformly random compatible servers that are up to `sample` (all, if there are fewer).
    /// Full ones are among them. Expected cost O(d) while at least half of them are up and not asked for, else
    /// O(degree); times N/64 where the row is a bitset.
    pub fn sample<R: Rng + ?Sized>(&self, job_type: JobTypeId, among: Among, d: u32, sample: &mut Sample, rng: &mut R) {
        Pool::new(self, job_type, among).sample(d, sample, rng);
    }

    /// Whether all servers are full at the same number of jobs per slot, or none ever is: then a server that is full is
    /// never shorter than one that has room.
    #[must_use]
    pub fn has_equal_capacities(&self) -> bool {
        matches!(self.full_at, FullAt::Load(_))
    }

    /// The server with fewest jobs per slot among these, full ones included; ties as said.
    pub fn shortest_of<R: Rng + ?Sized>(
        &self,
        job_type: JobTypeId,
        servers: &[ServerId],
        ties: Ties,
        rng: &mut R,
    ) -> Option<ServerId> {
        let rank = |server| match ties {
            Ties::Uniform => 0,
            Ties::Fastest => self.fleet.rank(job_type, self.fleet.server_type(server)),
        };
        if self.equal_slots {
            least_of(servers, |server| u64::from(self.jobs(server)) << 16 | u64::from(rank(server)), rng)
        } else {
            least_of(servers, |server| u128::from(self.load(server)) << 16 | u128::from(rank(server)), rng)
        }
    }
}

/// The server of least key; each of those tied with the same probability.
#[inline(always)]
fn least_of<K: Ord + Copy, R: Rng + ?Sized>(
    servers: &[ServerId],
    key: impl Fn(ServerId) -> K,
    rng: &mut R,
) -> Option<ServerId> {
    if servers.len() > 64 {
        let key = |i: usize| key(servers[i]);
        let least = least(servers.len(), key)?;
        return Some(servers[nth_wanted(0..servers.len(), |i| key(i) == least, rng)]);
    }
    let (&first, rest) = servers.split_first()?;
    let (mut least, mut tied) = (key(first), 1_u64);
    for (i, &server) in rest.iter().enumerate() {
        let key = key(server);
        // Without a branch: which of them is less, is chance.
        let kept = u64::from(key < least).wrapping_sub(1);
        tied = (tied & kept) | (u64::from(key <= least) << (i + 1));
        least = least.min(key);
    }
    Some(servers[set_bit(rng, tied) as usize])
}

/// The servers to sample from, numbered.
struct Pool<'a> {
    state: &'a State,
    len: u32,
    kind: PoolKind<'a>,
}

enum PoolKind<'a> {
    List(&'a [ServerId]),
    /// Servers with ids in these ranges; with a row, those of them that are in it.
    Types {
        job_type: JobTypeId,
        among: Among,
        row: Option<&'a [u64]>,
    },
}

impl<'a> Pool<'a> {
    #[inline]
    fn new(state: &'a State, job_type: JobTypeId, among: Among) -> Self {
        let graph = state.fleet.graph();
        let kind = match graph.row(job_type.index()) {
            Row::List(set) => {
                let fast = || match set.servers.first() {
                    Some(&server) if is_fast(state, job_type, state.fleet.server_type(server)) => set.group_end(0),
                    _ => 0,
                };
                PoolKind::List(match among {
                    Among::All => set.servers,
                    Among::Fast => &set.servers[..fast()],
                    Among::Other => &set.servers[fast()..],
                })
            }
            Row::All => PoolKind::Types { job_type, among, row: None },
            Row::Bits(row) => PoolKind::Types { job_type, among, row: Some(row) },
        };
        let len = match &kind {
            PoolKind::List(servers) => u32::try_from(servers.len()).expect("a row is no longer than the fleet"),
            PoolKind::Types { among: Among::All, .. } => {
                u32::try_from(graph.degree(job_type.index())).expect("a row is no longer than the fleet")
            }
            PoolKind::Types { row, .. } => ranges(state, job_type, among).map(|range| count(*row, &range)).sum(),
        };
        Self { state, len, kind }
    }

    /// Server number `n` of the pool.
    #[inline]
    fn get(&self, n: u32) -> ServerId {
        match self.kind {
            PoolKind::List(servers) => servers[n as usize],
            PoolKind::Types { among: Among::All, row: None, .. } => ServerId::new(n as usize),
            PoolKind::Types { among: Among::All, row: Some(row), .. } => {
                nth_in(row, &(0..self.state.fleet.server_count()), n)
            }
            PoolKind::Types { job_type, among, row } => {
                let mut left = n;
                for range in ranges(self.state, job_type, among) {
                    let here = count(row, &range);
                    if left < here {
                        return match row {
                            Some(row) => nth_in(row, &range, left),
                            None => ServerId::new(range.start + left as usize),
                        };
                    }
                    left -= here;
                }
                unreachable!("the pool has more than {n} servers")
            }
        }
    }

    /// Adds up to `d` distinct servers that are up.
    fn sample<R: Rng + ?Sized>(&self, d: u32, sample: &mut Sample, rng: &mut R) {
        let start = sample.servers.len();
        // Drawing again until a new server that is up comes treats all of them alike, and is quick while they are
        // many; where it is not, all that are up are listed and the first d of a partial shuffle taken.
        if d <= self.len / 2 {
            let mut tries = 8 * u64::from(d) + 32;
            while sample.servers.len() - start < d as usize && tries > 0 {
                tries -= 1;
                let server = self.get(below(rng, self.len));
                if (self.state.down == 0 || self.state.is_up(server)) && sample.is_new(server, start, d) {
                    sample.servers.push(server);
                }
            }
            sample.forget_seen(start);
            if sample.servers.len() - start == d as usize {
                return;
            }
            sample.servers.truncate(start);
        }
        let out = &mut sample.servers;
        match self.kind {
            PoolKind::List(servers) if self.state.down == 0 => out.extend_from_slice(servers),
            _ => out.extend((0..self.len).map(|n| self.get(n)).filter(|&server| self.state.is_up(server))),
        }
        let up = out.len() - start;
        for i in 0..up.min(d as usize) {
            let rest = u32::try_from(up - i).expect("a row is no longer than the fleet");
            out.swap(start + i, start + i + below(rng, rest) as usize);
        }
        out.truncate(start + up.min(d as usize));
    }
}

/// Samples up to this size are searched for duplicates; larger ones mark the servers seen.
const SEARCHED: u32 = 32;

impl Sample {
    /// Whether a server is not yet among those from `start` on, of which there will be `d`; marks it.
    #[inline]
    fn is_new(&mut self, server: ServerId, start: usize, d: u32) -> bool {
        if d <= SEARCHED {
            return !self.servers[start..].iter().fold(false, |found, &other| found | (other == server));
        }
        let (word, bit) = (server.index() / 64, 1_u64 << (server.index() % 64));
        if self.seen.len() <= word {
            self.seen.resize(word + 1, 0);
        }
        let is_new = self.seen[word] & bit == 0;
        self.seen[word] |= bit;
        is_new
    }

    fn forget_seen(&mut self, start: usize) {
        if !self.seen.is_empty() {
            for server in &self.servers[start..] {
                if let Some(word) = self.seen.get_mut(server.index() / 64) {
                    *word &= !(1 << (server.index() % 64));
                }
            }
        }
    }
}

fn count(row: Option<&[u64]>, range: &Range<usize>) -> u32 {
    match row {
        Some(row) => count_in(row, range),
        None => u32::try_from(range.len()).expect("a fleet has fewer than 2^32 servers"),
    }
}

/// Id ranges of the server types that are fast for the job type, or of the others.
fn ranges(state: &State, job_type: JobTypeId, among: Among) -> impl Iterator<Item = Range<usize>> + '_ {
    let fleet = &state.fleet;
    let wanted = move |m: ServerTypeId| match among {
        Among::All => true,
        Among::Fast => is_fast(state, job_type, m),
        Among::Other => !is_fast(state, job_type, m),
    };
    let types = fleet.fastest_first(job_type).iter().copied();
    types.filter(move |&m| wanted(m)).map(move |m| fleet.servers_of_type(m))
}

/// Whether no server of the fleet is faster for the job type. Server types without servers do not count.
fn is_fast(state: &State, job_type: JobTypeId, server_type: ServerTypeId) -> bool {
    let fleet = &state.fleet;
    let rank = fleet.rank(job_type, server_type);
    let faster = fleet.fastest_first(job_type).iter().take_while(|&&m| fleet.rank(job_type, m) < rank);
    faster.copied().all(|m| fleet.servers_of_type(m).is_empty())
}
