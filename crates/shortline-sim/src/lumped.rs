//! Exchangeable servers as counts: every job type on every server, so that of each server type only the number of
//! servers with `k` jobs matters. An event costs the same for ten servers and for a million.
//!
//! The one engine that does not drive the dispatcher: its rules ([`Lumpable`]) draw *what kind* of server a policy
//! chooses, in the law of the dispatcher's choices; the tests compare the two laws. Ticks, response times and
//! occupancy are those of [`markov`](crate::markov).

mod levels;

use std::sync::Arc;

use rand::Rng;
use shortline_core::ServerTypeId;
use shortline_core::fleet::settings::Overflow;
use shortline_core::policy::PolicySpec;
use shortline_core::random::{Generator, below};
use shortline_core::state::Ties;

use crate::alias::Alias;
use crate::chain::{Chain, Progress, Streams};
use crate::model::Model;
use crate::record::Record;
use crate::tally::Tally;
use crate::ticks::Ticks;
use levels::Levels;

/// Largest sample of `jsq(d)`.
const MOST_SAMPLED: u32 = 16;

/// Ticks of arrivals by job type, then of server types; the same for all replications.
#[derive(Debug)]
pub(crate) struct LumpedClock {
    table: Alias,
    /// Ticks per second.
    rate: f64,
    job_types: usize,
    /// 1 for arrivals, then the slots of all servers of each server type.
    places: Vec<u32>,
}

/// A tick: its outcome, and at which of the places of a server type it is.
type Tick = (u32, u32);

impl LumpedClock {
    /// `None` if the servers of a type are not exchangeable.
    pub(crate) fn new(model: &Model) -> Option<Self> {
        let fleet = &model.fleet;
        let rates = model.uniform_rates.as_deref()?;
        let countable = fleet.server_types().all(|m| {
            let slots = u32::try_from(fleet.servers_of_type(m).len()).ok().and_then(|n| n.checked_mul(model.slots(m)));
            slots.is_some_and(|slots| slots as usize <= Levels::MOST_SERVERS)
        });
        let everywhere = fleet.graph().distinct_row_count() == 1 && fleet.graph().has_full_rows();
        let equal_buffers = fleet.server_types().all(|m| {
            let mut buffers = fleet.servers_of_type(m).map(|r| fleet.buffer(shortline_core::ServerId::new(r)));
            let first = buffers.next();
            buffers.all(|buffer| Some(buffer) == first)
        });
        if !countable || !everywhere || !equal_buffers || fleet.settings().overflow == Overflow::Wait {
            return None;
        }
        // At least 1: a type without servers never ticks.
        let places = |m: ServerTypeId| (narrow(fleet.servers_of_type(m).len()) * model.slots(m)).max(1);
        let rate =
            |m: ServerTypeId| fleet.servers_of_type(m).len() as f64 * f64::from(model.slots(m)) * rates[m.index()];
        let mut weights = model.arrival_rates.clone();
        weights.extend(fleet.server_types().map(rate));
        Some(Self {
            rate: weights.iter().sum(),
            table: Alias::new(&weights),
            job_types: model.arrival_rates.len(),
            places: std::iter::once(1).chain(fleet.server_types().map(places)).collect(),
        })
    }

    #[inline(always)]
    fn tick(&self, words: &mut Generator) -> Tick {
        let outcome = self.table.draw(words.next_u64());
        let places = self.places[(outcome as usize + 1).saturating_sub(self.job_types)];
        (outcome, below(words, places))
    }
}

/// How many servers of each type have how many jobs.
#[derive(Clone, Debug)]
pub(crate) struct Counts {
    /// Fastest type first; types without servers are left out.
    classes: Vec<Class>,
    /// The class of each server type that has servers.
    class_of: Vec<usize>,
    servers: u32,
}

#[derive(Clone, Debug)]
struct Class {
    server_type: usize,
    levels: Levels,
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
        let classes: Vec<Class> = with_servers.map(class).collect();
        let before = |m: ServerTypeId| classes.iter().filter(|class| class.server_type < m.index()).count();
        Self { class_of: fleet.server_types().map(before).collect(), classes, servers: narrow(fleet.server_count()) }
    }

    /// Server number `n` of all.
    #[inline]
    fn nth(&self, mut n: u32) -> Server {
        let mut c = 0;
        while n >= self.classes[c].levels.servers() {
            n -= self.classes[c].levels.servers();
            c += 1;
        }
        (c, n)
    }

    #[inline]
    fn has_room(&self, server: Server) -> bool {
        self.jobs(server) < self.classes[server.0].capacity
    }

    #[inline]
    fn jobs(&self, (c, i): Server) -> usize {
        self.classes[c].levels.jobs_of(i)
    }

    /// Returns how many jobs the server had.
    #[inline]
    fn join(&mut self, (c, i): Server) -> usize {
        self.classes[c].levels.join(i)
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
            let order = best.map_or(std::cmp::Ordering::Less, |(k, r, ..)| {
                key.partial_cmp(&k).unwrap_or(std::cmp::Ordering::Equal).then(rank.cmp(&r))
            });
            match order {
                std::cmp::Ordering::Less => (best, tied) = (Some((key, rank, c)), count),
                std::cmp::Ordering::Equal => {
                    tied += count;
                    if below(rng, tied) < count {
                        best = Some((key, rank, c));
                    }
                }
                std::cmp::Ordering::Greater => {}
            }
        }
        best.map(|(.., c)| c)
    }

    #[inline]
    fn shortest(&self, ties: Ties, rng: &mut Generator) -> Option<Server> {
        let c = self.best(ties, rng, |class| {
            let jobs = class.levels.fewest();
            (jobs < class.capacity).then(|| (jobs as u64 * class.weight, class.levels.with(jobs)))
        })?;
        Some((c, self.classes[c].levels.last()))
    }

    #[inline]
    fn idle(&self, ties: Ties, rng: &mut Generator) -> Option<Server> {
        let c = self.best(ties, rng, |class| (class.idle() > 0).then(|| ((), class.idle())))?;
        Some((c, self.classes[c].an_idle_one(rng)))
    }

    fn shortest_delay(&self, rng: &mut Generator) -> Option<Server> {
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

    fn uniform(&self, rng: &mut Generator) -> Server {
        self.nth(below(rng, self.servers))
    }

    /// The shortest of `d` distinct servers.
    #[inline]
    fn shortest_of_sampled(&self, d: u32, ties: Ties, rng: &mut Generator) -> Server {
        if self.classes.len() == 1 && d == 2 {
            // Numbers rise as jobs fall.
            return (0, larger_of_two(self.servers, rng));
        }
        let mut sampled = [0; MOST_SAMPLED as usize];
        let mut best: Option<(u64, u16, Server)> = None;
        let mut tied = 0;
        for i in 0..d.min(self.servers) as usize {
            let n = loop {
                let n = below(rng, self.servers);
                if !sampled[..i].contains(&n) {
                    break n;
                }
            };
            sampled[i] = n;
            let server = self.nth(n);
            let class = &self.classes[server.0];
            let key = (self.jobs(server) as u64 * class.weight, if ties == Ties::Fastest { class.rank } else { 0 });
            match best.map_or(std::cmp::Ordering::Less, |(load, rank, _)| key.cmp(&(load, rank))) {
                std::cmp::Ordering::Less => (best, tied) = (Some((key.0, key.1, server)), 1),
                std::cmp::Ordering::Equal => {
                    tied += 1;
                    if self.classes.len() > 1 && below(rng, tied) == 0 {
                        best = Some((key.0, key.1, server));
                    }
                }
                std::cmp::Ordering::Greater => {}
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

/// The larger of two distinct numbers below `n >= 2`, each pair with the same probability: one word for both, and as in
/// [`below`] another one if a half of it would be biased.
#[inline]
fn larger_of_two(n: u32, rng: &mut Generator) -> u32 {
    let draw = |rng: &mut Generator| {
        let word = rng.next_u64();
        ((word >> 32) * u64::from(n), (word & 0xffff_ffff) * u64::from(n - 1))
    };
    let (mut first, mut second) = draw(rng);
    if (first as u32) < n || (second as u32) < n - 1 {
        while (first as u32) < n.wrapping_neg() % n || (second as u32) < (n - 1).wrapping_neg() % (n - 1) {
            (first, second) = draw(rng);
        }
    }
    let (first, second) = ((first >> 32) as u32, (second >> 32) as u32);
    first.max(second + u32::from(second >= first))
}

fn lcm(a: u64, b: u64) -> u64 {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    a / x * b
}

fn narrow(n: usize) -> u32 {
    u32::try_from(n).expect("a fleet has fewer than 2^32 servers")
}

/// A policy that can be told by counts alone.
pub(crate) trait Lumpable: Copy + std::fmt::Debug + Send + 'static {
    /// A server as the policy chooses it; `None`, or one without room: no place.
    fn choose(self, counts: &Counts, rng: &mut Generator) -> Option<Server>;
}

/// `jsq`, `jfsq`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shortest(pub(crate) Ties);
/// `jiq`, `jfiq`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Idle(pub(crate) Ties);
/// `jsq(d)`, `jfsq(d)`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sampled(pub(crate) u32, pub(crate) Ties);
/// `random`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Uniform;
/// `sed`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeastDelay;
/// `nq`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IdleElseLeastDelay;

impl Lumpable for Shortest {
    #[inline]
    fn choose(self, counts: &Counts, rng: &mut Generator) -> Option<Server> {
        counts.shortest(self.0, rng)
    }
}

impl Lumpable for Idle {
    #[inline]
    fn choose(self, counts: &Counts, rng: &mut Generator) -> Option<Server> {
        counts.idle(self.0, rng).or_else(|| Some(counts.uniform(rng)))
    }
}

impl Lumpable for Sampled {
    #[inline]
    fn choose(self, counts: &Counts, rng: &mut Generator) -> Option<Server> {
        Some(counts.shortest_of_sampled(self.0, self.1, rng))
    }
}

impl Lumpable for Uniform {
    #[inline]
    fn choose(self, counts: &Counts, rng: &mut Generator) -> Option<Server> {
        Some(counts.uniform(rng))
    }
}

impl Lumpable for LeastDelay {
    fn choose(self, counts: &Counts, rng: &mut Generator) -> Option<Server> {
        counts.shortest_delay(rng)
    }
}

impl Lumpable for IdleElseLeastDelay {
    fn choose(self, counts: &Counts, rng: &mut Generator) -> Option<Server> {
        counts.idle(Ties::Fastest, rng).or_else(|| counts.shortest_delay(rng))
    }
}

/// What to do with a rule once its type is known.
pub(crate) trait LumpableVisitor {
    type Output;
    fn visit<L: Lumpable>(self, rule: L) -> Self::Output;
}

/// The rule of a policy, if counts can tell it.
pub(crate) fn with_lumpable<V: LumpableVisitor>(spec: PolicySpec, servers: usize, visitor: V) -> Option<V::Output> {
    let sampled = |d: shortline_core::policy::Choices| {
        let d = d.count(servers);
        (d <= MOST_SAMPLED && (d as usize) < servers).then_some(d)
    };
    Some(match spec {
        PolicySpec::Random => visitor.visit(Uniform),
        PolicySpec::Jsq => visitor.visit(Shortest(Ties::Uniform)),
        PolicySpec::Jfsq => visitor.visit(Shortest(Ties::Fastest)),
        PolicySpec::Jiq => visitor.visit(Idle(Ties::Uniform)),
        PolicySpec::Jfiq => visitor.visit(Idle(Ties::Fastest)),
        PolicySpec::JsqD(d) => visitor.visit(Sampled(sampled(d)?, Ties::Uniform)),
        PolicySpec::JfsqD(d) => visitor.visit(Sampled(sampled(d)?, Ties::Fastest)),
        PolicySpec::Sed => visitor.visit(LeastDelay),
        PolicySpec::Nq => visitor.visit(IdleElseLeastDelay),
        PolicySpec::JsqFastOther { .. } | PolicySpec::Split | PolicySpec::Central => return None,
    })
}

/// One replication.
#[derive(Debug)]
pub(crate) struct LumpedChain<L> {
    model: Arc<Model>,
    clock: Arc<LumpedClock>,
    rule: L,
    counts: Counts,
    ticks: Ticks<Tick>,
    choices: Generator,
    tally: Tally,
    progress: Progress,
}

impl<L: Lumpable> LumpedChain<L> {
    pub(crate) fn new(model: &Arc<Model>, clock: &Arc<LumpedClock>, rule: L, streams: Streams) -> Self {
        Self {
            rule,
            counts: Counts::new(model),
            ticks: Ticks::new(streams.ticks),
            choices: streams.choices,
            tally: Tally::new(model),
            progress: Progress::default(),
            model: Arc::clone(model),
            clock: Arc::clone(clock),
        }
    }
}

impl<L: Lumpable> Chain for LumpedChain<L> {
    fn run(&mut self, events: u64, ticks: u64) -> u64 {
        let (clock, model) = (&*self.clock, &*self.model);
        let (tally, counts) = (&mut self.tally, &mut self.counts);
        let mut choices = self.choices.clone();
        let (mut left, mut tick_count) = (events, 0_u64);
        while left > 0 && tick_count < ticks {
            self.ticks.draw(|words| clock.tick(words));
            let ahead = self.ticks.ahead();
            let mut taken = ahead.len();
            for (i, &(outcome, place)) in ahead.iter().enumerate() {
                let outcome = outcome as usize;
                if outcome < clock.job_types {
                    left -= 1;
                    match self.rule.choose(counts, &mut choices).filter(|&server| counts.has_room(server)) {
                        Some(server) => {
                            let found = counts.join(server);
                            tally.join(model, outcome, counts.classes[server.0].server_type, found);
                        }
                        None => tally.block(outcome),
                    }
                } else {
                    let class = &mut counts.classes[counts.class_of[outcome - clock.job_types]];
                    let (server, slot) =
                        if class.slots == 1 { (place, 0) } else { (place / class.slots, place % class.slots) };
                    let jobs = class.levels.leave(server, slot);
                    tally.see(model, class.server_type, jobs);
                    left -= u64::from(jobs > slot as usize);
                }
                if left == 0 {
                    taken = i + 1;
                    break;
                }
            }
            self.ticks.take(taken);
            tick_count += taken as u64;
        }
        self.choices = choices;
        tally.ticks += tick_count;
        self.progress.events += events - left;
        self.progress.time_s += tick_count as f64 / clock.rate;
        events - left
    }

    fn forget(&mut self) {
        self.tally.forget();
    }

    fn progress(&self) -> Progress {
        self.progress
    }

    fn jobs_at_servers(&self, visit: &mut dyn FnMut(u64, u64)) {
        for class in &self.counts.classes {
            class.levels.iter().for_each(|(jobs, servers)| visit(jobs as u64, u64::from(servers)));
        }
    }

    fn lines(&self, _: &mut dyn FnMut(u64)) {}

    fn record(&self) -> Record {
        self.tally.record(&self.model, self.clock.rate)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicU32, Ordering};

    use rand::SeedableRng;
    use shortline_core::fleet::{
        ArrivalRates, Fleet, FleetParts, JobTypeParts, Names, ServerParts, ServerTypeParts, Settings, Speed,
    };
    use shortline_core::graph::Edges;
    use shortline_core::policy::{Policy, PolicyVisitor, with_policy};
    use shortline_core::state::State;
    use shortline_core::{Dispatcher, JobTypeId, ServerId};
    use statrs::distribution::{ChiSquared, ContinuousCDF};

    use super::*;

    const DRAWS: u32 = 20_000;
    const NOBODY: u32 = u32::MAX;

    /// Sends a job where it is told to, or else where the policy wants it.
    #[derive(Clone, Debug)]
    struct Told<P> {
        server: Arc<AtomicU32>,
        policy: P,
    }

    impl<P: Policy> Policy for Told<P> {
        fn choose<R: Rng>(&mut self, state: &State, job_type: JobTypeId, rng: &mut R) -> Option<ServerId> {
            match self.server.load(Ordering::Relaxed) {
                NOBODY => self.policy.choose(state, job_type, rng),
                server => Some(ServerId::new(server as usize)),
            }
        }
    }

    /// How often the dispatcher, and the counts, choose a server of this class with so many jobs; `None` = no place.
    type Choices = BTreeMap<Option<(usize, usize)>, [u32; 2]>;

    /// The state: jobs of each server.
    struct Choose<'a>(&'a Arc<Fleet>, &'a [usize]);

    impl PolicyVisitor for Choose<'_> {
        type Output = Choices;

        fn visit<P: Policy>(self, policy: P) -> Choices {
            let Self(fleet, jobs) = self;
            let server = Arc::new(AtomicU32::new(NOBODY));
            let told = Told { server: Arc::clone(&server), policy };
            let mut dispatcher = Dispatcher::new(Arc::clone(fleet), told);
            let (any, mut rng) = (JobTypeId::new(0), Generator::seed_from_u64(1));
            for (r, &jobs) in jobs.iter().enumerate() {
                server.store(r as u32, Ordering::Relaxed);
                (0..jobs).for_each(|_| assert!(dispatcher.route(any, || (), &mut rng).server().is_some()));
            }
            server.store(NOBODY, Ordering::Relaxed);
            let mut choices = Choices::new();
            for _ in 0..DRAWS {
                let server = dispatcher.route(any, || (), &mut rng).server();
                let kind = server.map(|r| (fleet.server_type(r).index(), jobs[r.index()]));
                choices.entry(kind).or_default()[0] += 1;
                server.into_iter().for_each(|server| assert!(dispatcher.complete(server).is_none()));
            }
            choices
        }
    }

    /// The same state as counts.
    struct ChooseByCounts<'a>(&'a Counts, &'a mut Choices);

    impl LumpableVisitor for ChooseByCounts<'_> {
        type Output = ();

        fn visit<L: Lumpable>(self, rule: L) {
            let mut rng = Generator::seed_from_u64(2);
            for _ in 0..DRAWS {
                let server = rule.choose(self.0, &mut rng).filter(|&server| self.0.has_room(server));
                self.1.entry(server.map(|server| (server.0, self.0.jobs(server)))).or_default()[1] += 1;
            }
        }
    }

    fn fleet(servers: &[(f64, u32, u32)], buffer: u32) -> Arc<Fleet> {
        let speed = |&(rate, slots, _): &(f64, u32, u32)| ServerTypeParts {
            name: format!("{rate} {slots}"),
            speed: Speed::Rate(rate),
            slots,
        };
        let entry = |(i, &(.., count)): (usize, &(f64, u32, u32))| ServerParts {
            names: Names { base: format!("s{i}"), count: Some(count) },
            server_type: i,
            buffer: Some(buffer),
            addresses: vec![],
        };
        let parts = FleetParts {
            name: String::new(),
            server_types: servers.iter().map(speed).collect(),
            servers: servers.iter().enumerate().map(entry).collect(),
            job_types: vec![JobTypeParts {
                names: Names { base: "j".into(), count: None },
                arrivals: ArrivalRates::Each(1.0),
                size: 1.0,
            }],
            rates: vec![],
            edges: Edges::Complete,
            settings: Settings::default(),
        };
        Arc::new(Fleet::new(parts).unwrap())
    }

    /// Two-sample chi-square with as many draws each; cells with few draws are left out. P(larger) by chance.
    fn p_value(choices: &Choices) -> f64 {
        let cells = choices.values().filter(|[a, b]| a + b >= 20);
        let (cells, chi2) = cells.fold((0, 0.0), |(n, sum), &[a, b]| {
            (n + 1, sum + (f64::from(a) - f64::from(b)).powi(2) / f64::from(a + b))
        });
        if cells < 2 { 1.0 } else { ChiSquared::new(f64::from(cells - 1)).unwrap().sf(chi2) }
    }

    /// Goal: counts choose in the law of the dispatcher. Method: chi-square on the kinds chosen in 40 random states for
    /// each of 3 fleets and 10 policies, 1,200 tests at level 1e-6: false-alarm probability 1.2e-3 were the seeds free.
    #[test]
    fn counts_choose_in_the_law_of_the_dispatcher() {
        let fleets = [
            fleet(&[(2.0, 1, 3), (1.0, 1, 4), (0.5, 1, 2)], 4),
            fleet(&[(1.0, 2, 3), (1.0, 1, 3), (0.5, 4, 2)], 5),
            fleet(&[(1.0, 3, 6)], 6),
        ];
        let mut rng = Generator::seed_from_u64(3);
        for fleet in &fleets {
            let model = Model::new(fleet, 1.0).unwrap();
            for state in 0..40 {
                // From light to heavy states.
                let most = 1 + below(&mut rng, 6);
                let jobs = fleet.servers().map(|r| below(&mut rng, most.min(fleet.buffer(r).unwrap()) + 1) as usize);
                let jobs: Vec<usize> = jobs.collect();
                let mut counts = Counts::new(&model);
                for (r, &jobs) in jobs.iter().enumerate() {
                    let class = fleet.server_type(ServerId::new(r)).index();
                    for found in 0..jobs {
                        let server = counts.classes[class].levels.at_least(found) - 1;
                        assert_eq!(counts.join((class, server)), found);
                    }
                }
                for name in ["random", "jsq", "jfsq", "jiq", "jfiq", "jsq(2)", "jfsq(2)", "jsq(5)", "sed", "nq"] {
                    let spec = name.parse().unwrap();
                    let mut choices = with_policy(spec, fleet, Choose(fleet, &jobs)).unwrap();
                    let by_counts = ChooseByCounts(&counts, &mut choices);
                    with_lumpable(spec, fleet.server_count(), by_counts).expect("counts can tell it");
                    let p = p_value(&choices);
                    assert!(p > 1e-6, "{name}, state {state}: p = {p}, {choices:?}, {jobs:?}");
                }
            }
        }
    }
}
