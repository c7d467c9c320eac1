//! Any interleaving of route, route_avoiding, complete, cancel, set_cap, suspend, resume and migrate keeps count = truth.
//!
//! Beside the dispatcher runs a naive list of all jobs: where each runs, by its server's name, and who waits, in the
//! order of arrival. After every operation both say the same about every server, line and ticket; every decision is
//! one that the policy's rule allows in the true state; and every waiting job starts when and where it should.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use rand::SeedableRng;
use shortline_core::live::{Joined, Routed, ServerKey, StartedLive};
use shortline_core::policy::PolicySpec;
use shortline_core::random::{Generator, below};
use shortline_core::{Blocked, Fleet, JobTypeId, LiveDispatcher, ServerId, Ticket};

use crate::fleets::{Draft, job_type, policies};
use crate::rules::{Live, law};

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 256, rng_seed: RngSeed::Fixed(7), failure_persistence: None, ..ProptestConfig::default()
    })]

    /// At the end all jobs leave, which starts all that wait but those without a server; these give up, and nothing is
    /// left.
    #[test]
    fn any_interleaving_keeps_count_equal_to_truth(
        seed: u64,
        policy in prop::sample::select(policies()),
        steps in prop::collection::vec((0..24_u8, any::<u32>(), any::<u32>()), 1..250),
    ) {
        let mut truth = Truth::new(seed, policy);
        for (what, a, b) in steps {
            truth.step(what, a as usize, b as usize);
            truth.compare();
        }
        truth.end();
    }
}

/// All jobs, kept naively: where each runs, by the server's name, and who waits, in the order of arrival.
struct Truth {
    rng: Generator,
    live: LiveDispatcher<u64>,
    jobs: u64,
    running: Vec<(ServerKey, String)>,
    waiting: Vec<(u64, Ticket, String)>,
    /// Caps of the servers that have one.
    caps: BTreeMap<String, u64>,
    /// Job type and server.
    suspended: BTreeSet<(String, String)>,
    tickets: HashSet<Ticket>,
    cancelled: Vec<Ticket>,
}

/// The state as the truth has it, in the fleet of this moment.
struct View<'a> {
    fleet: &'a Fleet,
    jobs: BTreeMap<ServerId, u64>,
    caps: BTreeMap<ServerId, u64>,
    /// Servers that are as good as down for this decision.
    avoided: Vec<ServerId>,
}

impl Live for View<'_> {
    fn fleet(&self) -> &Fleet {
        self.fleet
    }

    fn jobs(&self, server: ServerId) -> u64 {
        self.jobs.get(&server).copied().unwrap_or(0)
    }

    fn is_up(&self, server: ServerId) -> bool {
        let capped = self.caps.get(&server).is_some_and(|&cap| self.jobs(server) >= cap);
        !capped && !self.avoided.contains(&server)
    }
}

/// A fleet of some of eight servers and some of four job types, in any order, on any types, with or without lines.
fn some_fleet(rng: &mut Generator) -> Draft {
    let mut draw = |n: u32| below(rng, n);
    let mut draft = Draft::default();
    for m in 0..=draw(2) {
        draft = draft.server_type(&format!("t{m}"), f64::from(1 + draw(3)), 1 + draw(2));
    }
    let types = draft.types.len() as u32;
    for r in 0..8 {
        if draft.servers.is_empty() || draw(3) > 0 {
            let buffer = if draw(3) == 0 { None } else { Some(2 + draw(2)) };
            draft = draft.server(&format!("s{r}"), draw(types) as usize, buffer);
        }
    }
    if draw(2) == 0 {
        draft.servers.reverse();
    }
    let servers = draft.servers.len() as u32;
    for l in 0..4 {
        if draft.job_types.is_empty() || draw(3) > 0 {
            let row: Vec<u32> = (0..servers).filter(|_| draw(2) == 0).collect();
            draft = draft.job_type(&format!("j{l}"), row);
        }
    }
    match draw(4) {
        0 => draft,
        1 => draft.wait(Some(draw(4))),
        _ => draft.wait(None),
    }
}

impl Truth {
    fn new(seed: u64, policy: PolicySpec) -> Self {
        let mut rng = Generator::seed_from_u64(seed);
        let live = LiveDispatcher::new(some_fleet(&mut rng).build(), policy).unwrap();
        Self {
            rng,
            live,
            jobs: 0,
            running: vec![],
            waiting: vec![],
            caps: BTreeMap::new(),
            suspended: BTreeSet::new(),
            tickets: HashSet::new(),
            cancelled: vec![],
        }
    }

    fn step(&mut self, what: u8, a: usize, b: usize) {
        match what {
            0..10 => self.route(JobTypeId::new(a % self.live.fleet().job_type_count())),
            10..14 if !self.running.is_empty() => self.complete(a % self.running.len()),
            14 if !self.waiting.is_empty() => self.cancel(a % self.waiting.len()),
            15 => {
                for &ticket in &self.cancelled {
                    assert_eq!(self.live.cancel(ticket), None, "a ticket is good for one job, once");
                }
            }
            16..19 => {
                let caps = [Some(0), Some(1), Some(2), Some(4), None, None];
                self.set_cap(ServerId::new(a % self.live.fleet().server_count()), caps[b % caps.len()]);
            }
            19 => self.migrate(b),
            20 | 21 => self.route_avoiding(JobTypeId::new(a % self.live.fleet().job_type_count()), b),
            22 | 23 => {
                let (l, r) = (a % self.live.fleet().job_type_count(), b % self.live.fleet().server_count());
                self.suspend(JobTypeId::new(l), ServerId::new(r), what == 22 && !a.is_multiple_of(3));
            }
            _ => {}
        }
    }

    fn view(&self) -> View<'_> {
        let fleet = self.live.fleet();
        let mut jobs = BTreeMap::new();
        for server in self.running.iter().filter_map(|(_, name)| fleet.find_server(name)) {
            *jobs.entry(server).or_insert(0) += 1;
        }
        let caps = self.caps.iter().filter_map(|(name, &cap)| Some((fleet.find_server(name)?, cap))).collect();
        View { fleet, jobs, caps, avoided: vec![] }
    }

    /// The state for a decision about this type, with the servers it cannot go to by a suspended edge.
    fn view_of(&self, l: JobTypeId) -> View<'_> {
        let fleet = self.live.fleet();
        let avoided = fleet.servers().filter(|&r| self.is_suspended(l, r)).collect();
        View { avoided, ..self.view() }
    }

    fn is_suspended(&self, l: JobTypeId, server: ServerId) -> bool {
        let fleet = self.live.fleet();
        self.suspended.contains(&(fleet.job_type_name(l), fleet.server_name(server)))
    }

    fn waits(&self) -> bool {
        let settings = self.live.fleet().settings();
        self.live.policy() == PolicySpec::Central
            || settings.overflow == shortline_core::fleet::settings::Overflow::Wait
    }

    fn route(&mut self, l: JobTypeId) {
        self.jobs += 1;
        let job = self.jobs;
        let name = self.live.fleet().job_type_name(l);
        let view = self.view_of(l);
        let law = law(self.live.policy(), &view, l);
        let takes = |r: &ServerId| view.caps.get(r) != Some(&0) && !view.avoided.contains(r);
        let is_any_up = view.fleet.servers().any(|r| view.fleet.graph().contains(l.index(), r) && takes(&r));
        assert_eq!(self.live.has_server_up(l), is_any_up);
        let ahead = self.waiting.iter().filter(|(_, _, of)| *of == name).count();
        let limit = view.fleet.settings().lines.size.map_or(usize::MAX, |size| size as usize);
        let waits = self.waits();
        match self.live.route(l, || job, &mut self.rng) {
            Routed::Joined(Joined { server, key, .. }) => {
                assert_eq!(ahead, 0, "while others wait an arrival joins the end of the line");
                assert!(law.contains_key(&Some(server)), "{} chose {server:?}, allowed: {law:?}", self.live.policy());
                assert_eq!(self.live.key(server), key);
                self.running.push((key, self.live.fleet().server_name(server)));
            }
            Routed::Waiting(ticket) => {
                assert!(ahead > 0 || law.contains_key(&None), "waits although the policy has a place: {law:?}");
                assert!(waits && ahead < limit, "waits although the line takes no more");
                assert!(self.tickets.insert(ticket), "a ticket is given once");
                self.waiting.push((job, ticket, name));
            }
            Routed::Blocked(blocked) => {
                assert!(ahead > 0 || law.contains_key(&None), "blocked although the policy has a place: {law:?}");
                let why = match (waits, is_any_up) {
                    (true, _) => Blocked::LineFull,
                    (false, true) => Blocked::NoRoom,
                    (false, false) => Blocked::NoServerUp,
                };
                assert_eq!(blocked, why);
                assert!(!waits || ahead >= limit, "the line has room");
            }
        }
    }

    /// A job that has been at some servers of the fleet: which ones, the bits of `b` say.
    fn route_avoiding(&mut self, l: JobTypeId, b: usize) {
        let fleet = Arc::clone(self.live.fleet());
        let avoided: Vec<ServerId> = fleet.servers().filter(|r| b >> r.index() & 1 == 1).collect();
        let mut view = self.view_of(l);
        view.avoided.extend(&avoided);
        let law = law(self.live.policy(), &view, l);
        let keys: Vec<ServerKey> = avoided.iter().map(|&r| self.live.key(r)).collect();
        match self.live.route_avoiding(l, &keys, &mut self.rng) {
            Some(Joined { server, key, .. }) => {
                assert!(law.contains_key(&Some(server)), "{} chose {server:?}, allowed: {law:?}", self.live.policy());
                self.running.push((key, fleet.server_name(server)));
            }
            None => assert!(law.contains_key(&None), "no place although the policy has one: {law:?}"),
        }
    }

    fn suspend(&mut self, l: JobTypeId, server: ServerId, suspended: bool) {
        let fleet = Arc::clone(self.live.fleet());
        let edge = (fleet.job_type_name(l), fleet.server_name(server));
        if suspended {
            let new = self.suspended.insert(edge);
            let started = self.live.suspend(l, server);
            let expected = self.start_all(fleet.servers().filter(|_| new).collect::<Vec<_>>());
            self.agree(started, expected);
        } else {
            self.suspended.remove(&edge);
            let started = self.live.resume(l, server);
            let expected = self.start_all([server]);
            self.agree(started, expected);
        }
    }

    fn has_room(&self, server: ServerId) -> bool {
        let view = self.view();
        let most = match self.live.policy() {
            PolicySpec::Central => Some(view.fleet.slots(server)),
            _ => view.fleet.buffer(server),
        };
        view.is_up(server) && most.is_none_or(|most| view.jobs(server) < u64::from(most))
    }

    /// The longest-waiting job that this server can serve goes there if there is room; its number and place.
    fn start_first(&mut self, server: ServerId) -> Option<(u64, ServerId)> {
        let fleet = Arc::clone(self.live.fleet());
        let can_serve = |name: &str| {
            let l = job_type(&fleet, name);
            fleet.graph().contains(l.index(), server) && !self.is_suspended(l, server)
        };
        let first = self.waiting.iter().position(|(_, _, name)| can_serve(name)).filter(|_| self.has_room(server))?;
        let (job, _, _) = self.waiting.remove(first);
        self.running.push((self.live.key(server), fleet.server_name(server)));
        Some((job, server))
    }

    fn start_all(&mut self, servers: impl IntoIterator<Item = ServerId>) -> Vec<(u64, ServerId)> {
        let mut started = Vec::new();
        for server in servers {
            while let Some(job) = self.start_first(server) {
                started.push(job);
            }
        }
        started
    }

    fn complete(&mut self, i: usize) {
        let (key, name) = self.running.swap_remove(i);
        let started = self.live.complete(key);
        if self.live.fleet().find_server(&name).is_none() && self.running.iter().all(|(_, other)| *other != name) {
            self.caps.remove(&name);
        }
        let expected = self.live.fleet().find_server(&name).and_then(|server| self.start_first(server));
        self.agree(started, expected);
    }

    fn cancel(&mut self, i: usize) {
        let (job, ticket, _) = self.waiting.remove(i);
        assert_eq!(self.live.cancel(ticket), Some(job));
        self.cancelled.push(ticket);
    }

    fn set_cap(&mut self, server: ServerId, cap: Option<u32>) {
        let name = self.live.fleet().server_name(server);
        let before = match cap {
            Some(cap) => self.caps.insert(name, cap.into()),
            None => self.caps.remove(&name),
        };
        let falls = cap == Some(0) || before.unwrap_or(u64::MAX) > cap.map_or(u64::MAX, u64::from);
        let started = self.live.set_cap(server, cap);
        let all: Vec<ServerId> = self.live.fleet().servers().collect();
        let expected = self.start_all(if falls { all } else { vec![server] });
        self.agree(started, expected);
    }

    fn migrate(&mut self, b: usize) {
        let from = Arc::clone(self.live.fleet());
        let policy = if b.is_multiple_of(2) { self.live.policy() } else { policies()[b % policies().len()] };
        let prepared = LiveDispatcher::prepare(&from, some_fleet(&mut self.rng).build(), policy).unwrap();
        let migrated = self.live.migrate(prepared);
        // A server that leaves the fleet, and has no jobs, forgets its cap.
        let fleet = Arc::clone(self.live.fleet());
        let has_jobs = |name: &String| self.running.iter().any(|(_, other)| other == name);
        self.caps.retain(|name, _| fleet.find_server(name).is_some() || has_jobs(name));
        self.suspended.retain(|(l, r)| fleet.find_job_type(l).is_some() && fleet.find_server(r).is_some());
        let waits = self.waits();
        let (stay, go): (Vec<_>, Vec<_>) =
            self.waiting.drain(..).partition(|(_, _, name)| waits && fleet.find_job_type(name).is_some());
        self.waiting = stay;
        self.cancelled.extend(go.iter().map(|(_, ticket, _)| *ticket));
        let mut dropped: Vec<u64> = migrated.dropped.iter().map(|(_, job)| *job).collect();
        dropped.sort_unstable();
        assert_eq!(dropped, go.iter().map(|(job, _, _)| *job).collect::<Vec<_>>());
        let expected = self.start_all(fleet.servers());
        self.agree(migrated.started, expected);
    }

    fn agree(
        &self,
        started: impl IntoIterator<Item = StartedLive<u64>>,
        expected: impl IntoIterator<Item = (u64, ServerId)>,
    ) {
        let started: Vec<_> = started.into_iter().collect();
        started.iter().for_each(|s| assert_eq!(s.key, self.live.key(s.job.server)));
        let started: Vec<_> = started.iter().map(|s| (s.job.job, s.job.server)).collect();
        assert_eq!(started, expected.into_iter().collect::<Vec<_>>(), "waiting jobs that start, and where");
    }

    fn compare(&self) {
        let view = self.view();
        for server in view.fleet.servers() {
            assert_eq!(u64::from(self.live.jobs(server)), view.jobs(server), "jobs at {server:?}");
            assert_eq!(self.live.is_up(server), view.is_up(server), "whether {server:?} is up");
            assert_eq!(self.live.cap(server).map(u64::from), view.caps.get(&server).copied(), "cap of {server:?}");
            assert_eq!(self.live.find(self.live.key(server)), Some(server));
        }
        let gone = self.running.iter().filter(|(_, name)| view.fleet.find_server(name).is_none()).count();
        assert_eq!(self.live.jobs_at_removed_servers(), gone as u64);
        for l in view.fleet.job_types() {
            let name = view.fleet.job_type_name(l);
            assert_eq!(self.live.waiting(l), self.waiting.iter().filter(|(_, _, of)| *of == name).count());
        }
        assert_eq!(self.live.waiting_total(), self.waiting.len());
    }

    fn end(mut self) {
        while !self.running.is_empty() {
            self.complete(0);
        }
        let fleet = Arc::clone(self.live.fleet());
        let is_up = |r: &ServerId| self.live.is_up(*r);
        let up: Vec<ServerId> = fleet.servers().filter(is_up).collect();
        for (job, _, name) in &self.waiting {
            let l = job_type(&fleet, name);
            let held = up.iter().find(|&&r| fleet.graph().contains(l.index(), r) && !self.is_suspended(l, r));
            assert_eq!(held, None, "job {job} waits for ever while a server that holds its type is idle");
        }
        while !self.waiting.is_empty() {
            self.cancel(0);
        }
        self.compare();
        assert_eq!(self.live.fleet().servers().map(|r| self.live.jobs(r)).sum::<u32>(), 0);
        assert_eq!((self.live.waiting_total(), self.live.jobs_at_removed_servers()), (0, 0));
    }
}
