//! The state: how many servers of each type have how many jobs, and which server a rule finds among them.

use std::cmp::Ordering;

use shortline_core::ServerTypeId;
use shortline_core::random::{Generator, below};
use shortline_core::state::Ties;

use super::levels::Levels;
use super::narrow;
use super::position::{Position, distinct};
use crate::model::Model;

/// How many servers of each type have how many jobs.
#[derive(Clone, Debug)]
pub(crate) struct Counts {
    /// Fastest type first; types without servers are left out.
    pub(super) classes: Vec<Class>,
    servers: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Class {
    server_type: usize,
    pub(super) levels: Levels,
    slots: u32,
    /// Most jobs at a server.
    capacity: usize,
    /// `lcm(slots) / slots`.
    weight: u64,
    /// Service rate of a slot, and its rank (0 = fastest; equal rates share one).
    rate: f64,
    rank: u16,
}

/// A server: its class, and its number there. Only how many jobs it has matters.
pub(crate) type Server = (usize, u32);

impl Counts {
    pub(crate) fn new(model: &Model) -> Self {
        let fleet = &model.fleet;
        let rates = model.uniform_rates.as_deref().expect("this engine simulates uniform fleets");
        let common = fleet.server_types().map(|m| u64::from(model.slots(m))).fold(1, lcm);
        let any = shortline_core::JobTypeId::new(0);
        let class = |m: ServerTypeId| {
            let range = fleet.servers_of_type(m);
            let first = shortline_core::ServerId::new(range.start);
            Class {
                server_type: m.index(),
                levels: Levels::new(narrow(range.len())),
                slots: model.slots(m),
                capacity: fleet.buffer(first).map_or(usize::MAX, |buffer| buffer as usize),
                weight: common / u64::from(model.slots(m)),
                rate: rates[m.index()],
                rank: fleet.rank(any, m),
            }
        };
        let with_servers = fleet.server_types().filter(|m| !fleet.servers_of_type(*m).is_empty());
        let classes = with_servers.map(class).collect();
        Self { classes, servers: narrow(fleet.server_count()) }
    }

    /// Server number `n` of all, as the fleet numbers them.
    #[inline(always)]
    pub(crate) fn nth(&self, mut n: u32) -> Server {
        let mut c = 0;
        while n >= self.classes[c].levels.servers() {
            n -= self.classes[c].levels.servers();
            c += 1;
        }
        (c, n)
    }

    #[inline]
    pub(crate) fn has_room(&self, server: Server) -> bool {
        self.jobs(server) < self.classes[server.0].capacity
    }

    #[inline]
    pub(crate) fn jobs(&self, (c, i): Server) -> usize {
        self.classes[c].levels.jobs_of(i)
    }

    /// Its server type.
    #[inline]
    pub(crate) fn server_type(&self, (c, _): Server) -> usize {
        self.classes[c].server_type
    }

    /// A job joins; returns how many the server had.
    #[inline]
    pub(crate) fn join(&mut self, (c, i): Server) -> usize {
        self.classes[c].levels.join(i)
    }

    /// One of its slots completes a job, if it has one. Returns how many jobs the server had, and whether one left.
    #[inline(always)]
    pub(crate) fn complete(&mut self, (c, i): Server, rng: &mut Generator) -> (usize, bool) {
        let class = &mut self.classes[c];
        let slot = if class.slots == 1 { 0 } else { below(rng, class.slots) };
        let jobs = class.levels.leave(i, slot);
        (jobs, jobs > slot as usize)
    }

    /// Number of jobs, and number of servers that have so many, in any portions.
    pub(crate) fn levels(&self) -> impl Iterator<Item = (usize, u32)> {
        self.classes.iter().flat_map(|class| class.levels.iter())
    }

    /// Chooses a class by `candidate` (key, number of servers; smallest key wins), ties as said; each server of the tied
    /// classes with the same probability.
    #[inline]
    fn best<K: PartialOrd + Copy>(
        &self,
        ties: Ties,
        rng: &mut Generator,
        candidate: impl Fn(&Class) -> Option<(K, u32)>,
    ) -> Option<usize> {
        if let [class] = self.classes.as_slice() {
            return candidate(class).map(|_| 0);
        }
        let mut best: Option<(K, u16, usize)> = None;
        let mut tied = 0;
        for (c, class) in self.classes.iter().enumerate() {
            let Some((key, count)) = candidate(class) else { continue };
            let rank = if ties == Ties::Fastest { class.rank } else { 0 };
            let order = best
                .map_or(Ordering::Less, |(k, r, ..)| key.partial_cmp(&k).unwrap_or(Ordering::Equal).then(rank.cmp(&r)));
            match order {
                Ordering::Less => (best, tied) = (Some((key, rank, c)), count),
                Ordering::Equal => {
                    tied += count;
                    if below(rng, tied) < count {
                        best = Some((key, rank, c));
                    }
                }
                Ordering::Greater => {}
            }
        }
        best.map(|(.., c)| c)
    }

    #[inline]
    pub(crate) fn shortest(&self, ties: Ties, rng: &mut Generator) -> Option<Server> {
        let c = self.best(ties, rng, |class| {
            let jobs = class.levels.fewest();
            (jobs < class.capacity).then(|| (jobs as u64 * class.weight, class.levels.with(jobs)))
        })?;
        Some((c, self.classes[c].levels.last()))
    }

    #[inline]
    pub(crate) fn idle(&self, ties: Ties, rng: &mut Generator) -> Option<Server> {
        let c = self.best(ties, rng, |class| (class.idle() > 0).then(|| ((), class.idle())))?;
        Some((c, self.classes[c].an_idle_one(rng)))
    }

    pub(crate) fn shortest_delay(&self, rng: &mut Generator) -> Option<Server> {
        let c = self.best(Ties::Fastest, rng, |class| {
            let jobs = class.levels.fewest();
            let slots = f64::from(class.slots);
            let delay = (jobs as f64 + 1.0).max(slots) / (slots * class.rate);
            // Delays that differ by rounding only are tied, as in the dispatcher.
            let key = (delay.to_bits() + (1 << 13)) >> 14;
            let count = if class.idle() > 0 { class.idle() } else { class.levels.with(jobs) };
            (jobs < class.capacity).then_some((key, count))
        })?;
        let class = &self.classes[c];
        Some((c, if class.idle() > 0 { class.an_idle_one(rng) } else { class.levels.last() }))
    }

    pub(crate) fn uniform(&self, rng: &mut Generator) -> Server {
        self.nth(below(rng, self.servers))
    }

    /// The shortest of `d` distinct servers.
    #[inline]
    pub(crate) fn shortest_of_sampled(&self, d: u32, ties: Ties, rng: &mut Generator) -> Server {
        if self.classes.len() == 1 {
            return (0, Position::LargestOf(d).draw(self.servers, rng));
        }
        let mut best: Option<(u64, u16, Server)> = None;
        let mut tied = 0;
        for n in distinct(d, self.servers, rng) {
            let server = self.nth(n);
            let class = &self.classes[server.0];
            let key = (self.jobs(server) as u64 * class.weight, if ties == Ties::Fastest { class.rank } else { 0 });
            match best.map_or(Ordering::Less, |(load, rank, _)| key.cmp(&(load, rank))) {
                Ordering::Less => (best, tied) = (Some((key.0, key.1, server)), 1),
                Ordering::Equal => {
                    tied += 1;
                    if below(rng, tied) == 0 {
                        best = Some((key.0, key.1, server));
                    }
                }
                Ordering::Greater => {}
            }
        }
        best.expect("a sample has at least one server").2
    }
}

impl Class {
    /// Servers with a free slot.
    #[inline]
    fn idle(&self) -> u32 {
        self.levels.servers() - self.levels.at_least(self.slots as usize)
    }

    /// A uniformly chosen idle server; with one slot they all have no job.
    #[inline]
    fn an_idle_one(&self, rng: &mut Generator) -> u32 {
        self.levels.last() - if self.slots == 1 { 0 } else { below(rng, self.idle()) }
    }
}

fn lcm(a: u64, b: u64) -> u64 {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    a / x * b
}
