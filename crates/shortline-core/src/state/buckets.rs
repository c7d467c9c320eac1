//! Servers of each type sorted by number of jobs: the index of job types that are on every server.
//!
//! One array of servers per type, kept in buckets of equal job counts by swapping at bucket borders: a job that joins
//! or leaves moves its server across one border, O(1). Servers that take no more jobs (full or down) stand at the
//! end. The least loaded servers, and the idle ones, are a prefix: a uniform choice among them is one draw.

use std::ops::Range;

use crate::ids::{ServerId, ServerTypeId};

#[derive(Clone, Debug)]
pub(crate) struct Buckets {
    /// Servers, type by type, in bucket order.
    order: Vec<u32>,
    /// Where each server stands in `order`.
    position: Vec<u32>,
    types: Vec<TypeBuckets>,
}

#[derive(Clone, Debug)]
struct TypeBuckets {
    start: u32,
    /// `ends[q]`: number of available servers with at most `q` jobs. Never empty.
    ends: Vec<u32>,
    /// Smallest `q` whose bucket is not empty, if any is not.
    lowest: usize,
    slots: usize,
}

impl Buckets {
    /// All servers available, without jobs.
    pub(crate) fn new(types: impl Iterator<Item = (Range<usize>, u32)>) -> Self {
        let narrow = |i: usize| u32::try_from(i).expect("a fleet has fewer than 2^32 servers");
        let types: Vec<TypeBuckets> = types
            .map(|(range, slots)| {
                let mut ends = Vec::with_capacity(64);
                ends.push(narrow(range.len()));
                TypeBuckets { start: narrow(range.start), ends, lowest: 0, slots: slots as usize }
            })
            .collect();
        let servers = types.iter().map(|t| t.start + t.ends[0]).max().unwrap_or(0);
        Self { order: (0..servers).collect(), position: (0..servers).collect(), types }
    }

    /// Fewest jobs at an available server of this type, and how many have so few.
    #[inline]
    pub(crate) fn lowest(&self, server_type: ServerTypeId) -> Option<(usize, u32)> {
        let t = &self.types[server_type.index()];
        let count = t.ends[t.lowest];
        (count > 0).then_some((t.lowest, count))
    }

    /// Number of idle servers of this type: up, with a free slot.
    #[inline]
    pub(crate) fn idle(&self, server_type: ServerTypeId) -> u32 {
        let t = &self.types[server_type.index()];
        t.ends[(t.slots - 1).min(t.ends.len() - 1)]
    }

    /// Number `n` among the available servers of this type with fewest jobs, and among its idle ones: both are a prefix.
    #[inline]
    pub(crate) fn nth(&self, server_type: ServerTypeId, n: u32) -> ServerId {
        let t = &self.types[server_type.index()];
        ServerId::new(self.order[(t.start + n) as usize] as usize)
    }

    /// A server's bucket changes; `None` = takes no more jobs.
    #[inline]
    pub(crate) fn shift(
        &mut self,
        server: ServerId,
        server_type: ServerTypeId,
        from: Option<usize>,
        to: Option<usize>,
    ) {
        let t = &mut self.types[server_type.index()];
        if let Some(to) = to {
            while t.ends.len() <= to {
                t.ends.push(t.ends[t.ends.len() - 1]);
            }
        }
        let beyond = t.ends.len();
        let (from, to) = (from.unwrap_or(beyond), to.unwrap_or(beyond));
        for q in from..to {
            t.ends[q] -= 1;
            swap(&mut self.order, &mut self.position, server, t.start + t.ends[q]);
        }
        for q in (to..from).rev() {
            swap(&mut self.order, &mut self.position, server, t.start + t.ends[q]);
            t.ends[q] += 1;
        }
        if to < t.lowest {
            t.lowest = to;
        }
        while t.lowest + 1 < t.ends.len() && t.ends[t.lowest] == 0 {
            t.lowest += 1;
        }
    }
}

#[inline]
fn swap(order: &mut [u32], position: &mut [u32], server: ServerId, target: u32) {
    let at = position[server.index()];
    let other = order[target as usize];
    order.swap(at as usize, target as usize);
    position[other as usize] = at;
    position[server.index()] = target;
}
