//! Rows of the compatibility graph in the three forms a decision reads fast.
//!
//! * **All**: the job type is on every server. Costs nothing; decisions read per-class buckets.
//! * **List**: server ids, fastest first for this job type. A decision scans it.
//! * **Bits**: one bit per server. Taken when the row is longer than [`LONGEST_SCAN`] and its bitset is no larger
//!   than its list; a decision intersects it with bitsets of queue lengths, 64 servers a word.
//!
//! Equal rows of job types with equal speed order are stored once.

use std::collections::HashMap;

use crate::ids::ServerId;

/// Rows up to this length are always lists: one machine word of ties covers them.
pub(crate) const LONGEST_SCAN: usize = 64;

/// The rows of all job types, each distinct row stored once.
#[derive(Clone, Debug)]
pub struct Graph {
    servers: usize,
    row_of: Vec<u32>,
    rows: Vec<Stored>,
    list_ids: Vec<ServerId>,
    group_ends: Vec<u32>,
    words: Vec<u64>,
}

#[derive(Clone, Copy, Debug)]
enum Stored {
    All,
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
        self.row_of.len()
    }

    /// Number of different rows that are stored.
    #[must_use]
    pub fn distinct_row_count(&self) -> usize {
        self.rows.len()
    }

    /// Number of edges, `sum over job types of their degree`. O(job types).
    #[must_use]
    pub fn edge_count(&self) -> u64 {
        (0..self.row_of.len()).map(|l| self.degree(l) as u64).sum()
    }

    /// Number of servers that hold job type `l`.
    #[inline]
    #[must_use]
    pub fn degree(&self, l: usize) -> usize {
        match self.rows[self.row_of[l] as usize] {
            Stored::All => self.servers,
            Stored::Short { len, .. } | Stored::List { len, .. } => len as usize,
            Stored::Bits { degree, .. } => degree as usize,
        }
    }

    /// The row of job type `l`.
    #[inline]
    #[must_use]
    pub fn row(&self, l: usize) -> Row<'_> {
        match self.rows[self.row_of[l] as usize] {
            Stored::All => Row::All,
            Stored::Short { start, len, group_starts } => Row::List(ServerSet {
                servers: &self.list_ids[start..start + len as usize],
                groups: Groups::Starts(group_starts),
            }),
            Stored::List { start, len, groups, group_count } => Row::List(ServerSet {
                servers: &self.list_ids[start..start + len as usize],
                groups: Groups::Ends(&self.group_ends[groups..groups + group_count as usize]),
            }),
            Stored::Bits { start, .. } => Row::Bits(&self.words[start..start + self.servers.div_ceil(64)]),
        }
    }

    /// The row of job type `l`, if it is a list of at most [`LONGEST_SCAN`] servers: the question of the hot path.
    #[inline(always)]
    pub(crate) fn short_row(&self, l: usize) -> Option<ServerSet<'_>> {
        match self.rows[self.row_of[l] as usize] {
            Stored::Short { start, len, group_starts } => Some(ServerSet {
                servers: &self.list_ids[start..start + len as usize],
                groups: Groups::Starts(group_starts),
            }),
            _ => None,
        }
    }

    /// Which stored row job type `l` uses; job types with equal numbers share one row.
    #[inline]
    #[must_use]
    pub fn row_number(&self, l: usize) -> usize {
        self.row_of[l] as usize
    }

    /// Whether some job type is on every server.
    #[must_use]
    pub fn has_full_rows(&self) -> bool {
        self.rows.iter().any(|row| matches!(row, Stored::All))
    }

    /// Whether some row is stored as a bitset.
    #[must_use]
    pub fn has_bit_rows(&self) -> bool {
        self.rows.iter().any(|row| matches!(row, Stored::Bits { .. }))
    }

    /// Whether `server` holds job type `l`. O(1), or O(degree) for a list.
    #[must_use]
    pub fn contains(&self, l: usize, server: ServerId) -> bool {
        match self.row(l) {
            Row::All => server.index() < self.servers,
            Row::List(set) => set.servers.contains(&server),
            Row::Bits(words) => words[server.index() / 64] >> (server.index() % 64) & 1 == 1,
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
                row_of: Vec::new(),
                rows: Vec::new(),
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
        self.graph
    }
}

impl Graph {
    fn stores(&self, row: u32, ids: &[ServerId]) -> bool {
        match self.rows[row as usize] {
            Stored::All => false,
            Stored::Short { start, len, .. } | Stored::List { start, len, .. } => {
                &self.list_ids[start..start + len as usize] == ids
            }
            Stored::Bits { start, degree } => {
                degree as usize == ids.len()
                    && ids.iter().all(|id| self.words[start + id.index() / 64] >> (id.index() % 64) & 1 == 1)
            }
        }
    }

    fn store_bits(&mut self, ids: &[ServerId]) {
        let start = self.words.len();
        self.words.resize(start + self.servers.div_ceil(64), 0);
        for id in ids {
            self.words[start + id.index() / 64] |= 1 << (id.index() % 64);
        }
        self.rows.push(Stored::Bits { start, degree: length(ids) });
    }

    fn store_list(&mut self, ids: &[ServerId], rank: &impl Fn(ServerId) -> u16) {
        let (start, groups, len) = (self.list_ids.len(), self.group_ends.len(), length(ids));
        self.list_ids.extend_from_slice(ids);
        let starts = (0..ids.len()).filter(|&i| i == 0 || rank(ids[i]) != rank(ids[i - 1]));
        if ids.len() <= LONGEST_SCAN {
            let group_starts = starts.fold(0, |bits, i| bits | 1 << i);
            self.rows.push(Stored::Short { start, len, group_starts });
        } else {
            self.group_ends.extend(starts.skip(1).map(|i| length(&ids[..i])).chain([len]));
            let group_count = length(&self.group_ends[groups..]);
            self.rows.push(Stored::List { start, len, groups, group_count });
        }
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
