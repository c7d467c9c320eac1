//! Exchangeable servers, sorted by falling number of jobs: server number `i` has `k` jobs iff
//! `at_least[k + 1] <= i < at_least[k]`, where `at_least[k]` servers have `k` jobs or more.
//!
//! A server is named by its number `i`. The first levels are one vector that is compared, and changed, as a whole: which
//! level it is, is chance, so a branch would be mispredicted; and the change needs no number of the level, which takes
//! the detour through a scalar out of the chain from one event to the next.

use wide::i32x8;

/// Levels in the vector.
const HEAD: usize = 8;

/// How many servers have how many jobs.
#[derive(Clone, Debug)]
pub(crate) struct Levels {
    servers: u32,
    /// `at_least[1..=HEAD]`.
    head: i32x8,
    /// `at_least[HEAD + 1..]`; ends with 0.
    tail: Vec<u32>,
}

impl Levels {
    /// Most servers that can be counted.
    pub(crate) const MOST_SERVERS: usize = i32::MAX as usize;

    /// All servers without jobs.
    pub(crate) fn new(servers: u32) -> Self {
        Self { servers, head: i32x8::splat(0), tail: vec![0] }
    }

    /// Number of servers.
    #[inline]
    pub(crate) fn servers(&self) -> u32 {
        self.servers
    }

    /// Jobs of server number `i`.
    #[inline(always)]
    pub(crate) fn jobs_of(&self, i: u32) -> usize {
        self.jobs(self.above(i), i)
    }

    /// Fewest jobs at a server; the last one has so few.
    #[inline(always)]
    pub(crate) fn fewest(&self) -> usize {
        self.jobs_of(self.last())
    }

    /// Number of the last server, one with fewest jobs.
    #[inline(always)]
    pub(crate) fn last(&self) -> u32 {
        self.servers - 1
    }

    /// Lane `k` holds -1 if server number `i` has more than `k` jobs, else 0.
    #[inline(always)]
    fn above(&self, i: u32) -> i32x8 {
        self.head.simd_gt(i32x8::splat(i as i32))
    }

    #[inline(always)]
    fn jobs(&self, above: i32x8, i: u32) -> usize {
        let jobs = above.to_bitmask().trailing_ones() as usize;
        if jobs == HEAD { HEAD + self.tail.partition_point(|&servers| servers > i) } else { jobs }
    }

    /// Servers with this many jobs or more.
    #[inline]
    pub(crate) fn at_least(&self, jobs: usize) -> u32 {
        match jobs {
            0 => self.servers,
            1..=HEAD => self.head.as_array()[jobs - 1] as u32,
            _ => self.tail.get(jobs - HEAD - 1).copied().unwrap_or(0),
        }
    }

    /// Servers with so many jobs.
    #[inline]
    pub(crate) fn with(&self, jobs: usize) -> u32 {
        self.at_least(jobs) - self.at_least(jobs + 1)
    }

    /// Number of jobs and number of servers that have so many, for each level that was ever reached.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, u32)> {
        (0..=HEAD + self.tail.len()).map(|jobs| (jobs, self.with(jobs)))
    }

    /// A server with as many jobs as number `i` gets another. Returns how many it had.
    #[inline(always)]
    pub(crate) fn join(&mut self, i: u32) -> usize {
        let above = self.above(i);
        let jobs = self.jobs(above, i);
        // The first lane that is not above; none, if all are.
        let [a, b, c, d, e, f, g, _] = above.to_array();
        self.head -= i32x8::new([-1, a, b, c, d, e, f, g]) - above;
        if jobs >= HEAD {
            self.join_deep(jobs - HEAD);
        }
        jobs
    }

    /// A server with as many jobs as number `i` loses the one in this slot, if there is one. Returns how many it had.
    #[inline(always)]
    pub(crate) fn leave(&mut self, i: u32, slot: u32) -> usize {
        let above = self.above(i);
        let jobs = self.jobs(above, i);
        if slot > 0 && jobs <= slot as usize {
            return jobs;
        }
        if jobs > HEAD {
            self.tail[jobs - HEAD - 1] -= 1;
        } else {
            // The last lane that is above; none, if none is.
            let [_, b, c, d, e, f, g, h] = above.to_array();
            self.head += above - i32x8::new([b, c, d, e, f, g, h, 0]);
        }
        jobs
    }

    #[cold]
    fn join_deep(&mut self, level: usize) {
        self.tail[level] += 1;
        if level + 1 == self.tail.len() {
            self.tail.push(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_found_at_the_level_they_reached() {
        let mut levels = Levels::new(3);
        (0..12).for_each(|jobs| assert_eq!(levels.join(0), jobs));
        // Servers without jobs are number 1 and 2, or both.
        assert_eq!([levels.join(2), levels.join(1)], [0, 1]);
        assert_eq!([0, 1, 2].map(|i| levels.jobs_of(i)), [12, 2, 0]);
        assert_eq!(levels.fewest(), 0);
        for jobs in (3..=12).rev() {
            assert_eq!(levels.leave(0, jobs), jobs as usize);
            assert_eq!(levels.leave(0, jobs - 1), jobs as usize);
        }
        assert_eq!([0, 1, 2].map(|i| levels.jobs_of(i)), [2, 2, 0]);
        assert_eq!([levels.leave(2, 0), levels.leave(1, 1), levels.leave(1, 0)], [0, 2, 1]);
        let by_level: Vec<u32> = levels.iter().map(|(_, servers)| servers).take(4).collect();
        assert_eq!(by_level, [2, 0, 1, 0]);
    }
}
