//! One bitset of servers per number of jobs: the index of job types whose row is a bitset.
//!
//! A decision intersects the row with the bitsets of 0, 1, 2, ... jobs, 64 servers a word, until something is left.
//! Servers with [`LEVELS`] jobs or more are rare and found by scanning the row.

use std::ops::Range;

use crate::ids::{ServerId, ServerTypeId};
use crate::random::nth_set_bit;

/// Job counts below this have a bitset.
const LEVELS: usize = 16;

#[derive(Clone, Debug)]
pub(crate) struct LevelBits {
    /// Bitset of the available servers with `q` jobs at `q * words ..`.
    levels: Vec<u64>,
    /// Servers that are up with a free slot; kept apart only where some server has more than one slot.
    idle: Option<Vec<u64>>,
    words: usize,
    types: Vec<TypeLevels>,
}

#[derive(Clone, Debug)]
struct TypeLevels {
    servers: Range<usize>,
    slots: usize,
    /// Available servers of the type by number of jobs.
    counts: [u32; LEVELS],
}

impl LevelBits {
    /// All servers available, without jobs.
    pub(crate) fn new(types: impl Iterator<Item = (Range<usize>, u32)>) -> Self {
        let types: Vec<TypeLevels> = types
            .map(|(servers, slots)| {
                let mut counts = [0; LEVELS];
                counts[0] = u32::try_from(servers.len()).expect("a fleet has fewer than 2^32 servers");
                TypeLevels { servers, slots: slots as usize, counts }
            })
            .collect();
        let servers = types.iter().map(|t| t.servers.end).max().unwrap_or(0);
        let words = servers.div_ceil(64);
        let mut levels = vec![0; words * LEVELS];
        for server in 0..servers {
            levels[server / 64] |= 1 << (server % 64);
        }
        let idle = types.iter().any(|t| t.slots > 1).then(|| levels[..words].to_vec());
        Self { levels, idle, words, types }
    }

    /// A server's bitset changes; `None` = takes no more jobs.
    #[inline]
    pub(crate) fn shift(
        &mut self,
        server: ServerId,
        server_type: ServerTypeId,
        from: Option<usize>,
        to: Option<usize>,
    ) {
        let (word, bit) = (server.index() / 64, 1_u64 << (server.index() % 64));
        let t = &mut self.types[server_type.index()];
        if let Some(q) = from.filter(|&q| q < LEVELS) {
            self.levels[q * self.words + word] &= !bit;
            t.counts[q] -= 1;
        }
        if let Some(q) = to.filter(|&q| q < LEVELS) {
            self.levels[q * self.words + word] |= bit;
            t.counts[q] += 1;
        }
        if let Some(idle) = &mut self.idle {
            if to.is_some_and(|q| q < t.slots) {
                idle[word] |= bit;
            } else {
                idle[word] &= !bit;
            }
        }
    }

    /// Fewest jobs at an available server of this type in the row, and how many have so few. `jobs` tells the jobs of
    /// an available server; it is asked about servers beyond the bitsets only.
    pub(crate) fn lowest(
        &self,
        row: &[u64],
        server_type: ServerTypeId,
        jobs: impl Fn(ServerId) -> Option<usize>,
    ) -> Option<(usize, u32)> {
        let t = &self.types[server_type.index()];
        for (q, &present) in t.counts.iter().enumerate() {
            if present > 0 {
                let count = common(row, self.level(q), &t.servers).map(u64::count_ones).sum();
                if count > 0 {
                    return Some((q, count));
                }
            }
        }
        let mut lowest = None;
        for_each_in(row, &t.servers, |server| {
            if let Some(q) = jobs(server) {
                lowest = match lowest {
                    Some((least, _)) if q > least => lowest,
                    Some((least, count)) if q == least => Some((least, count + 1)),
                    _ => Some((q, 1)),
                };
            }
        });
        lowest
    }

    /// Number `n` among the available servers of this type in the row with `jobs` jobs.
    pub(crate) fn nth(
        &self,
        row: &[u64],
        server_type: ServerTypeId,
        jobs: usize,
        n: u32,
        jobs_of: impl Fn(ServerId) -> Option<usize>,
    ) -> ServerId {
        let range = &self.types[server_type.index()].servers;
        if jobs < LEVELS {
            return nth_common(row, self.level(jobs), range, n);
        }
        let (mut left, mut found) = (n, None);
        for_each_in(row, range, |server| {
            if found.is_none() && jobs_of(server) == Some(jobs) {
                found = (left == 0).then_some(server);
                left = left.saturating_sub(1);
            }
        });
        found.expect("lowest() counted these servers")
    }

    /// Number of idle servers of this type in the row.
    pub(crate) fn idle(&self, row: &[u64], server_type: ServerTypeId) -> u32 {
        let t = &self.types[server_type.index()];
        common(row, self.idle_bits(), &t.servers).map(u64::count_ones).sum()
    }

    /// Number `n` among the idle servers of this type in the row.
    pub(crate) fn nth_idle(&self, row: &[u64], server_type: ServerTypeId, n: u32) -> ServerId {
        nth_common(row, self.idle_bits(), &self.types[server_type.index()].servers, n)
    }

    fn level(&self, q: usize) -> &[u64] {
        &self.levels[q * self.words..(q + 1) * self.words]
    }

    fn idle_bits(&self) -> &[u64] {
        self.idle.as_deref().unwrap_or_else(|| self.level(0))
    }
}

/// The words of `row & other`, cut to `range`.
fn common<'a>(row: &'a [u64], other: &'a [u64], range: &Range<usize>) -> impl Iterator<Item = u64> + 'a {
    let (first, last) = (range.start / 64, range.end.div_ceil(64));
    let head = u64::MAX << (range.start % 64);
    let tail = u64::MAX >> ((64 - range.end % 64) % 64);
    let end = last.saturating_sub(1);
    let words = if range.is_empty() { 0..0 } else { first..last };
    row[words.clone()].iter().zip(&other[words]).enumerate().map(move |(i, (a, b))| {
        let w = first + i;
        let word = a & b;
        let word = if w == first { word & head } else { word };
        if w == end { word & tail } else { word }
    })
}

fn nth_common(row: &[u64], other: &[u64], range: &Range<usize>, n: u32) -> ServerId {
    let mut left = n;
    for (i, word) in common(row, other, range).enumerate() {
        let here = word.count_ones();
        if left < here {
            return ServerId::new((range.start / 64 + i) * 64 + nth_set_bit(word, left) as usize);
        }
        left -= here;
    }
    unreachable!("the caller counted more than {n} servers")
}

/// Number of servers of the row within `range`.
pub(crate) fn count_in(row: &[u64], range: &Range<usize>) -> u32 {
    common(row, row, range).map(u64::count_ones).sum()
}

/// Number `n` among the servers of the row within `range`.
pub(crate) fn nth_in(row: &[u64], range: &Range<usize>, n: u32) -> ServerId {
    nth_common(row, row, range, n)
}

fn for_each_in(row: &[u64], range: &Range<usize>, mut visit: impl FnMut(ServerId)) {
    for (i, mut word) in common(row, row, range).enumerate() {
        while word != 0 {
            visit(ServerId::new((range.start / 64 + i) * 64 + word.trailing_zeros() as usize));
            word &= word - 1;
        }
    }
}
