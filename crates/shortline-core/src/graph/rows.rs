//! Rows of the compatibility graph in the three forms a decision reads fast.
//!
//! * **All**: the job type is on every server. Costs nothing; decisions read per-class buckets.
//! * **List**: server ids, fastest first for this job type. A decision scans it.
//! * **Bits**: one bit per server. Taken when the row is longer than [`LONGEST_SCAN`] and its bitset is no larger
//!   than its list; a decision intersects it with bitsets of queue lengths, 64 servers a word.
//!
//! Equal rows of job types with equal speed order are stored once. A list of up to 16 servers never crosses a cache line.

use std::collections::HashMap;

use crate::huge_pages;
use crate::ids::ServerId;

/// Rows up to this length are always lists: one machine word of ties covers them.
pub(crate) const LONGEST_SCAN: usize = 64;

/// The rows of all job types, each distinct row stored once.
#[derive(Clone, Debug)]
pub struct Graph {
    servers: usize,
    job_types: usize,
    /// The row of each job type; empty if each has its own, in their order.
    row_of: Vec<u32>,
    rows: Vec<Stored>,
    far: Vec<Far>,
    list_ids: Vec<ServerId>,
    group_ends: Vec<u32>,
    words: Vec<u64>,
}

/// Lists of up to so many servers are in one cache line.
const NEAR: usize = 16;

/// Bytes of a cache line.
const LINE: usize = 64;

/// 8 bytes a row: with a million of them they are what a decision reads first.
#[derive(Clone, Copy, Debug)]
enum Stored {
    All,
    /// At most [`NEAR`] servers; bit `i` of `group_starts`: a speed group starts at position `i`.
    Near {
        len: u8,
        group_starts: u16,
        start: u32,
    },
    /// Any other row.
    Far(u32),
}

#[derive(Clone, Copy, Debug)]
enum Far {
    /// At most [`LONGEST_SCAN`] servers; bit `i` of `group_starts`: a speed group starts at position `i`.
    Short {
        start: usize,
        len: u32,
        group_starts: u64,
    },
    List {
        start: usize,
        len: u32,
        groups: usize,
        group_count: u32,
    },
    Bits {
        start: usize,
        degree: u32,
    },
}

/// The servers of one job type, in the form the decision reads.
#[derive(Clone, Copy, Debug)]
pub enum Row<'a> {
    /// All servers of the fleet.
    All,
    /// These servers, fastest first for the job type.
    List(ServerSet<'a>),
    /// Bit `r % 64` of word `r / 64` says whether server `r` is in the row.
    Bits(&'a [u64]),
}

/// A list of servers in groups of equal speed for the job type, fastest group first, ids ascending in a group.
#[derive(Clone, Copy, Debug)]
pub struct ServerSet<'a> {
    /// The servers.
    pub servers: &'a [ServerId],
    groups: Groups<'a>,
}

/// Where the speed groups of a list are.
#[derive(Clone, Copy, Debug)]
enum Groups<'a> {
    /// Bit `i`: a group starts at position `i`.
    Starts(u64),
    /// Where each group ends; the last entry is the length of the list.
    Ends(&'a [u32]),
}

impl ServerSet<'_> {
    /// Where the speed group of position `i` ends: the first position of the next group, or the length of the list.
    /// Without branches for a short list, a binary search for a long one.
    #[inline(always)]
    #[must_use]
    pub fn group_end(&self, i: usize) -> usize {
        match self.groups {
            Groups::Starts(starts) => {
                let later = starts & (u64::MAX << i << 1);
                (later.trailing_zeros() as usize).min(self.servers.len())
            }
            Groups::Ends(ends) => ends[ends.partition_point(|&end| end as usize <= i)] as usize,
        }
    }

    /// The bits of `mask` (positions of a list of at most 64) that are in the speed group of its lowest bit. Without
    /// branches: which group it is, is chance.
    #[inline(always)]
    #[must_use]
    pub fn first_group(&self, mask: u64) -> u64 {
        match self.groups {
            Groups::Starts(starts) => {
                let lowest = mask & mask.wrapping_neg();
                let later = starts & (lowest << 1).wrapping_neg();
                // All bits below the first start of a later group; all bits, if there is none.
                mask & later.wrapping_sub(1) & !later
            }
            Groups::Ends(_) => {
                let end = self.group_end(mask.trailing_zeros() as usize);
                mask & (u64::MAX >> (64 - end.min(64)))
            }
        }
    }
}

impl Graph {
    /// Number of servers in the fleet (the columns).
    #[must_use]
    pub fn server_count(&self) -> usize {
        self.servers
    }

    /// Number of job types (the rows).
    #[must_use]
    pub fn job_type_count(&self) -> usize {
        self.job_types
    }

    /// Number of different rows that are stored.
    #[must_use]
    pub fn distinct_row_count(&self) -> usize {
        self.rows.len()
    }

    /// Number of edges, `sum over job types of their degree`. O(job types).
    #[must_use]
    pub fn edge_count(&self) -> u64 {
        (0..self.job_types).map(|l| self.degree(l) as u64).sum()
    }

    /// Number of servers that hold job type `l`.
    #[inline]
    #[must_use]
    pub fn degree(&self, l: usize) -> usize {
        match self.rows[self.row_number(l)] {
            Stored::All => self.servers,
            Stored::Near { len, .. } => usize::from(len),
            Stored::Far(far) => match self.far[far as usize] {
                Far::Short { len, .. } | Far::List { len, .. } => len as usize,
                Far::Bits { degree, .. } => degree as usize,
            },
        }
    }

    /// The row of job type `l`.
    #[inline]
    #[must_use]
    pub fn row(&self, l: usize) -> Row<'_> {
        self.stored(self.rows[self.row_number(l)])
    }

    #[inline]
    fn stored(&self, row: Stored) -> Row<'_> {
        match row {
            Stored::All => Row::All,
            Stored::Near { len, group_starts, start } => {
                Row::List(self.short(start as usize, u32::from(len), u64::from(group_starts)))
            }
            Stored::Far(far) => match self.far[far as usize] {
                Far::Short { start, len, group_starts } => Row::List(self.short(start, len, group_starts)),
                Far::List { start, len, groups, group_count } => Row::List(ServerSet {
                    servers: &self.list_ids[start..start + len as usize],
                    groups: Groups::Ends(&self.group_ends[groups..groups + group_count as usize]),
                }),
                Far::Bits { start, .. } => Row::Bits(&self.words[start..start + self.servers.div_ceil(64)]),
            },
        }
    }

    #[inline(always)]
    fn short(&self, start: usize, len: u32, group_starts: u64) -> ServerSet<'_> {
        ServerSet { servers: &self.list_ids[start..start + len as usize], groups: Groups::Starts(group_starts) }
    }

    /// The row of job type `l`, if it is a list of at most [`LONGEST_SCAN`] servers: the question of the hot path.
    #[inline(always)]
    pub(crate) fn short_row(&self, l: usize) -> Option<ServerSet<'_>> {
        match self.rows[self.row_number(l)] {
            Stored::Near { len, group_starts, start } => {
                Some(self.short(start as usize, u32::from(len), u64::from(group_starts)))
            }
            Stored::All => None,
            Stored::Far(far) => match self.far[far as usize] {
                Far::Short { start, len, group_starts } => Some(self.short(start, len, group_starts)),
                Far::List { .. } | Far::Bits { .. } => None,
            },
        }
    }

    /// What is read first of the row of job type `l`, for reading ahead.
    #[inline(always)]
    pub(crate) fn row_head(&self, l: usize) -> u32 {
        match self.rows[self.row_number(l)] {
            Stored::All => 0,
            Stored::Near { start, .. } => start,
            Stored::Far(far) => far,
        }
    }

    /// Which stored row job type `l` uses; job types with equal numbers share one row.
    #[inline(always)]
    #[must_use]
    pub fn row_number(&self, l: usize) -> usize {
        if self.row_of.is_empty() { l } else { self.row_of[l] as usize }
    }

    /// Whether some job type is on every server.
    #[must_use]
    pub fn has_full_rows(&self) -> bool {
        self.rows.iter().any(|row| matches!(row, Stored::All))
    }

    /// Whether some row is stored as a bitset.
    #[must_use]
    pub fn has_bit_rows(&self) -> bool {
        self.far.iter().any(|row| matches!(row, Far::Bits { .. }))
    }

    /// Whether `server` holds job type `l`. O(1), or O(degree) for a list.
    #[must_use]
    pub fn contains(&self, l: usize, server: ServerId) -> bool {
        match self.row(l) {
            Row::All => server.index() < self.servers,
            // Without an early end, many at a time.
            Row::List(set) => set.servers.iter().fold(false, |found, &other| found | (other == server)),
            Row::Bits(words) => words[server.index() / 64] >> (server.index() % 64) & 1 == 1,
        }
    }

    /// Whether `holds` holds for a server of job type `l`; the first one ends the search.
    pub fn any(&self, l: usize, mut holds: impl FnMut(ServerId) -> bool) -> bool {
        match self.row(l) {
            Row::All => (0..self.servers).any(|r| holds(ServerId::new(r))),
            Row::List(set) => set.servers.iter().any(|&server| holds(server)),
            Row::Bits(words) => words.iter().enumerate().any(|(w, &word)| {
                let bits = (0..64).filter(|bit| word >> bit & 1 == 1);
                bits.map(|bit| ServerId::new(w * 64 + bit)).any(&mut holds)
            }),
        }
    }

    /// Calls `visit` with each server of job type `l`. Lists come fastest first, the other forms in id order.
    pub fn for_each(&self, l: usize, mut visit: impl FnMut(ServerId)) {
        match self.row(l) {
            Row::All => (0..self.servers).for_each(|r| visit(ServerId::new(r))),
            Row::List(set) => set.servers.iter().copied().for_each(visit),
            Row::Bits(words) => {
                for (w, &word) in words.iter().enumerate() {
                    let mut rest = word;
                    while rest != 0 {
                        visit(ServerId::new(w * 64 + rest.trailing_zeros() as usize));
                        rest &= rest - 1;
                    }
                }
            }
        }
    }
}

/// How a job type orders servers by speed: `rank(server)`, 0 = fastest; `order` names the order, so that equal rows
/// of equal order are stored once.
pub(crate) struct RowOrder<F> {
    pub(crate) order: u32,
    pub(crate) rank: F,
}

/// Builds a [`Graph`] row by row.
#[derive(Debug)]
pub(crate) struct GraphBuilder {
    graph: Graph,
    /// Hash of (order, ids) -> (row, order) with that hash.
    known: HashMap<u64, Vec<(u32, u32)>>,
    full_row: Option<u32>,
}

impl GraphBuilder {
    pub(crate) fn new(servers: usize) -> Self {
        Self {
            graph: Graph {
                servers,
                job_types: 0,
                row_of: Vec::new(),
                rows: Vec::new(),
                far: Vec::new(),
                list_ids: Vec::new(),
                group_ends: Vec::new(),
                words: Vec::new(),
            },
            known: HashMap::new(),
            full_row: None,
        }
    }

    /// The next job type is on every server.
    pub(crate) fn push_full(&mut self) {
        let rows = &mut self.graph.rows;
        let row = *self.full_row.get_or_insert_with(|| {
            rows.push(Stored::All);
            u32::try_from(rows.len() - 1).expect("there are no more rows than job types")
        });
        self.graph.row_of.push(row);
    }

    /// The next job type is on these servers (no duplicates, any order; reordered in place).
    pub(crate) fn push(&mut self, ids: &mut [ServerId], order: &RowOrder<impl Fn(ServerId) -> u16>) {
        if ids.len() == self.graph.servers && !ids.is_empty() {
            return self.push_full();
        }
        let as_bits = ids.len() > LONGEST_SCAN && ids.len() >= self.graph.servers / 32;
        if as_bits {
            ids.sort_unstable();
        } else {
            ids.sort_unstable_by_key(|&id| ((order.rank)(id), id));
        }
        // A bitset does not depend on the order; a list does.
        let order_stored = if as_bits { u32::MAX } else { order.order };
        let candidates = self.known.entry(hash_row(order_stored, ids)).or_default();
        let known = candidates.iter().find(|&&(row, order)| order == order_stored && self.graph.stores(row, ids));
        let row = match known {
            Some(&(row, _)) => row,
            None => {
                let row = u32::try_from(self.graph.rows.len()).expect("there are no more rows than job types");
                candidates.push((row, order_stored));
                if as_bits {
                    self.graph.store_bits(ids)
                } else {
                    self.graph.store_list(ids, &order.rank)
                }
                row
            }
        };
        self.graph.row_of.push(row);
    }

    pub(crate) fn finish(self) -> Graph {
        let mut graph = self.graph;
        graph.job_types = graph.row_of.len();
        if graph.rows.len() == graph.job_types {
            // Rows are numbered as they come, so no row is shared.
            graph.row_of = Vec::new();
        }
        graph.align_lists();
        graph
    }
}

impl Graph {
    fn stores(&self, row: u32, ids: &[ServerId]) -> bool {
        match self.stored(self.rows[row as usize]) {
            Row::All => false,
            Row::List(set) => set.servers == ids,
            Row::Bits(words) => {
                let degree = words.iter().map(|word| word.count_ones() as usize).sum::<usize>();
                degree == ids.len() && ids.iter().all(|id| words[id.index() / 64] >> (id.index() % 64) & 1 == 1)
            }
        }
    }

    fn store_bits(&mut self, ids: &[ServerId]) {
        let start = self.words.len();
        self.words.resize(start + self.servers.div_ceil(64), 0);
        for id in ids {
            self.words[start + id.index() / 64] |= 1 << (id.index() % 64);
        }
        self.store_far(Far::Bits { start, degree: length(ids) });
    }

    fn store_list(&mut self, ids: &[ServerId], rank: &impl Fn(ServerId) -> u16) {
        let starts = (0..ids.len()).filter(|&i| i == 0 || rank(ids[i]) != rank(ids[i - 1]));
        let start_bits = |starts: &mut dyn Iterator<Item = usize>| starts.fold(0_u64, |bits, i| bits | 1 << i);
        let (start, groups, len) = (self.list_ids.len(), self.group_ends.len(), length(ids));
        if ids.len() <= NEAR {
            let starts = start_bits(&mut { starts });
            return self.store_near(ids, u16::try_from(starts).expect("a near row has 16 positions"));
        }
        self.list_ids.extend_from_slice(ids);
        if ids.len() <= LONGEST_SCAN {
            let group_starts = start_bits(&mut { starts });
            self.store_far(Far::Short { start, len, group_starts });
        } else {
            self.group_ends.extend(starts.skip(1).map(|i| length(&ids[..i])).chain([len]));
            let group_count = length(&self.group_ends[groups..]);
            self.store_far(Far::List { start, len, groups, group_count });
        }
    }

    /// At a multiple of a power of two that it fits, so that no cache line ends within it.
    fn store_near(&mut self, ids: &[ServerId], group_starts: u16) {
        let start = self.list_ids.len().next_multiple_of(ids.len().next_power_of_two());
        self.list_ids.resize(start, ServerId::new(0));
        self.list_ids.extend_from_slice(ids);
        let start = u32::try_from(start).expect("short rows hold fewer than 2^32 servers");
        let len = u8::try_from(ids.len()).expect("a near row has at most 16 servers");
        self.rows.push(Stored::Near { len, group_starts, start });
    }

    /// Moves all lists to where the first begins with a cache line, and what a decision reads to huge pages. What is in the
    /// lists stays.
    fn align_lists(&mut self) {
        let mut ids: Vec<ServerId> = huge_pages::with_capacity(self.list_ids.len() + NEAR);
        let shift = ids.as_ptr().align_offset(LINE).min(NEAR);
        ids.resize(shift, ServerId::new(0));
        ids.append(&mut self.list_ids);
        self.list_ids = ids;
        let mut rows = huge_pages::with_capacity(self.rows.len());
        rows.extend(self.rows.iter().map(|&row| match row {
            Stored::Near { len, group_starts, start } => {
                let start = start.checked_add(shift as u32).expect("short rows hold fewer than 2^32 servers");
                Stored::Near { len, group_starts, start }
            }
            Stored::All | Stored::Far(_) => row,
        }));
        self.rows = rows;
        for row in &mut self.far {
            if let Far::Short { start, .. } | Far::List { start, .. } = row {
                *start += shift;
            }
        }
    }

    fn store_far(&mut self, row: Far) {
        let number = u32::try_from(self.far.len()).expect("there are no more rows than job types");
        self.far.push(row);
        self.rows.push(Stored::Far(number));
    }
}

fn length<T>(items: &[T]) -> u32 {
    u32::try_from(items.len()).expect("a row is no longer than the fleet")
}

/// FNV-1a over the words of a row; collisions only cost a comparison.
fn hash_row(order: u32, ids: &[ServerId]) -> u64 {
    let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(17);
    ids.iter().fold(mix(0xcbf2_9ce4_8422_2325, u64::from(order)), |hash, id| mix(hash, id.index() as u64))
}
