//! Any interleaving of route, route_avoiding, come_back, complete, cancel, set_cap, spare, suspend, resume and migrate
//! keeps count = truth.
//!
//! Beside the dispatcher runs a naive list of all jobs: where each runs, by its server's name, and who waits, in the
//! order of arrival, with the servers that it avoids if it is back from some. After every operation both say the same
//! about every server, line and ticket; every decision is one that the policy's rule allows in the true state, at a
//! server that is spared only if it finds no other; every waiting job starts when and where it should; and by the
//! policies that look at all servers nobody waits while there is a place for it.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use rand::SeedableRng;
use shortline_core::live::{Joined, Routed, ServerKey, StartedLive};
use shortline_core::policy::PolicySpec;
use shortline_core::random::{Generator, below};
use shortline_core::{Arrival, Blocked, Fleet, JobTypeId, LiveDispatcher, ServerId, Ticket};

use crate::fleets::{Draft, job_type, policies};
use crate::rules::{Live, law};

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2000, rng_seed: RngSeed::Fixed(7), failure_persistence: None, ..ProptestConfig::default()
    })]

    /// At the end all jobs leave, which starts all that wait but those without a server; these give up, and nothing is
    /// left.
    #[test]
    fn any_interleaving_keeps_count_equal_to_truth(
        seed: u64,
        policy in prop::sample::select(policies()),
        steps in prop::collection::vec((0..28_u8, any::<u32>(), any::<u32>()), 1..250),
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
    /// The last one's number: they are numbered as they come.
    jobs: u64,
    running: Vec<Running>,
    waiting: Vec<Waiting>,
    /// Caps of the servers that have one.
    caps: BTreeMap<String, u64>,
    /// Servers whose cap is a preference only.
    spared: BTreeSet<String>,
    /// Job type and server.
    suspended: BTreeSet<(String, String)>,
    tickets: HashSet<Ticket>,
    cancelled: Vec<Ticket>,
}

struct Running {
    job: u64,
    job_type: String,
    server: String,
    key: ServerKey,
    /// `None`: it has gone on, to another server or into line, and has yet to leave this one.
    arrival: Option<Arrival>,
}

struct Waiting {
    job: u64,
    job_type: String,
    ticket: Ticket,
    /// The servers that it avoids if it is back, beside its line; `None`: it is in line.
    avoids: Option<BTreeSet<String>>,
}

/// The state as the truth has it, in the fleet of this moment.
struct View<'a> {
    fleet: &'a Fleet,
    policy: PolicySpec,
    jobs: BTreeMap<ServerId, u64>,
    caps: BTreeMap<ServerId, u64>,
    spared: BTreeSet<ServerId>,
    /// Servers that are as good as down for this decision.
    avoided: BTreeSet<ServerId>,
}

impl View<'_> {
    /// For those that find no place elsewhere.
    fn sparing_nobody(mut self) -> Self {
        self.caps.retain(|server, _| !self.spared.contains(server));
        self
    }

    /// Whether it is not down, though it may be at its cap.
    fn takes_jobs(&self, server: ServerId) -> bool {
        (self.caps.get(&server) != Some(&0) || self.spared.contains(&server)) && !self.avoided.contains(&server)
    }

    fn has_room(&self, server: ServerId) -> bool {
        let most = match self.policy {
            PolicySpec::Central => Some(self.fleet.slots(server)),
            _ => self.fleet.buffer(server),
        };
        self.is_up(server) && most.is_none_or(|most| self.jobs(server) < u64::from(most))
    }
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
            spared: BTreeSet::new(),
            suspended: BTreeSet::new(),
            tickets: HashSet::new(),
            cancelled: vec![],
        }
    }

    fn step(&mut self, what: u8, a: usize, b: usize) {
        let job_type = JobTypeId::new(a % self.live.fleet().job_type_count());
        let [some, other] = [a, b].map(|any| ServerId::new(any % self.live.fleet().server_count()));
        match what {
            0..10 => self.route(job_type),
            10..14 if !self.running.is_empty() => self.complete(a % self.running.len()),
            14 if !self.waiting.is_empty() => self.cancel(a % self.waiting.len()),
            15 => {
                for &ticket in &self.cancelled {
                    assert_eq!(self.live.cancel(ticket), None, "a ticket is good for one job, once");
                }
            }
            16..19 => self.set_cap(some, [Some(0), Some(1), Some(2), Some(4), None, None][b % 6]),
            19 => self.migrate(b),
            20..23 if !self.running.is_empty() => self.go_on(a % self.running.len(), b),
            23..26 => self.spare(some, [0, 1, 1, 2, 3][b % 5]),
            26 if !a.is_multiple_of(3) => self.suspend(job_type, other),
            26 | 27 => self.resume(job_type, other),
            _ => {}
        }
    }

    fn view(&self) -> View<'_> {
        let fleet = self.live.fleet();
        let mut jobs = BTreeMap::new();
        for server in self.running.iter().filter_map(|running| fleet.find_server(&running.server)) {
            *jobs.entry(server).or_insert(0) += 1;
        }
        let caps = self.caps.iter().filter_map(|(name, &cap)| Some((fleet.find_server(name)?, cap))).collect();
        let spared = self.spared.iter().filter_map(|name| fleet.find_server(name)).collect();
        View { fleet, policy: self.live.policy(), jobs, caps, spared, avoided: BTreeSet::new() }
    }

    /// The state for a decision about a job of this type that avoids these servers, and those that it cannot go to by a
    /// suspended edge.
    fn view_of(&self, l: JobTypeId, avoids: &[ServerId]) -> View<'_> {
        let view = self.view();
        let is_avoided = |r: &ServerId| avoids.contains(r) || self.is_suspended(l, *r);
        View { avoided: view.fleet.servers().filter(is_avoided).collect(), ..view }
    }

    /// What the policy may decide about such a job: by its rule on the servers that are below their caps, and if it
    /// finds no place there, then also on those that are spared.
    fn allowed(&self, l: JobTypeId, avoids: &[ServerId]) -> BTreeSet<Option<ServerId>> {
        let decisions = |view: View<'_>| law(view.policy, &view, l).into_keys();
        let mut allowed: BTreeSet<_> = decisions(self.view_of(l, avoids)).collect();
        if allowed.remove(&None) {
            allowed.extend(decisions(self.view_of(l, avoids).sparing_nobody()));
        }
        allowed
    }

    fn is_suspended(&self, l: JobTypeId, server: ServerId) -> bool {
        let fleet = self.live.fleet();
        self.suspended.contains(&(fleet.job_type_name(l), fleet.server_name(server)))
    }

    /// Whether some server that holds the type, and is not among these, takes jobs.
    fn has_server_up_beside(&self, l: JobTypeId, these: &[ServerId]) -> bool {
        let view = self.view_of(l, these);
        view.fleet.servers().any(|r| view.fleet.graph().contains(l.index(), r) && view.takes_jobs(r))
    }

    fn waits(&self) -> bool {
        let settings = self.live.fleet().settings();
        self.live.policy() == PolicySpec::Central
            || settings.overflow == shortline_core::fleet::settings::Overflow::Wait
    }

    fn longest_line(&self) -> usize {
        self.live.fleet().settings().lines.size.map_or(usize::MAX, |size| size as usize)
    }

    fn route(&mut self, l: JobTypeId) {
        self.jobs += 1;
        let job = self.jobs;
        let name = self.live.fleet().job_type_name(l);
        let allowed = self.allowed(l, &[]);
        let is_any_up = self.has_server_up_beside(l, &[]);
        assert_eq!(self.live.has_server_up(l), is_any_up);
        let view = self.view_of(l, &[]);
        let is_free = |r: ServerId| {
            view.fleet.graph().contains(l.index(), r)
                && (!view.caps.contains_key(&r) || view.spared.contains(&r))
                && !view.avoided.contains(&r)
        };
        assert_eq!(self.live.has_uncapped_server_beside(l, &[]), view.fleet.servers().any(is_free));
        let in_line: BTreeSet<String> =
            self.live.job_types_in_line().into_iter().map(|l| self.live.fleet().job_type_name(l)).collect();
        assert_eq!(in_line, self.waiting.iter().map(|waiting| waiting.job_type.clone()).collect());
        let in_line = |waiting: &&Waiting| waiting.job_type == name && waiting.avoids.is_none();
        let ahead = self.waiting.iter().filter(in_line).count();
        let (waits, limit) = (self.waits(), self.longest_line());
        match self.live.route(l, || job, &mut self.rng) {
            Routed::Joined(joined) => {
                assert_eq!(ahead, 0, "while others wait an arrival joins the end of the line");
                self.joins(job, name, joined, joined.arrival, &allowed);
            }
            Routed::Waiting(ticket) => {
                assert!(ahead > 0 || allowed.contains(&None), "waits although the policy has a place: {allowed:?}");
                assert!(waits && ahead < limit, "waits although the line takes no more");
                self.waits_with(Waiting { job, job_type: name, ticket, avoids: None });
            }
            Routed::Blocked(blocked) => {
                assert!(ahead > 0 || allowed.contains(&None), "blocked although the policy has a place: {allowed:?}");
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

    fn joins(
        &mut self,
        job: u64,
        job_type: String,
        joined: Joined,
        arrival: Arrival,
        allowed: &BTreeSet<Option<ServerId>>,
    ) {
        let Joined { server, key, .. } = joined;
        assert!(allowed.contains(&Some(server)), "{} chose {server:?}, allowed: {allowed:?}", self.live.policy());
        assert_eq!(self.live.key(server), key);
        let server = self.live.fleet().server_name(server);
        self.running.push(Running { job, job_type, server, key, arrival: Some(arrival) });
    }

    fn waits_with(&mut self, waiting: Waiting) {
        assert!(self.tickets.insert(waiting.ticket), "a ticket is given once");
        let younger = self.waiting.partition_point(|other| other.job < waiting.job);
        self.waiting.insert(younger, waiting);
    }

    /// A job that was in vain at its server, and, the bits of `b` say, at which others, goes on to another one or waits
    /// for it. It leaves its server at any time from now on.
    fn go_on(&mut self, i: usize, b: usize) {
        let fleet = Arc::clone(self.live.fleet());
        let Running { job, ref job_type, ref server, key, ref mut arrival } = self.running[i];
        let Some((l, arrival)) = fleet.find_job_type(job_type).and_then(|l| Some((l, arrival.take()?))) else { return };
        let (name, here) = (job_type.clone(), fleet.find_server(server));
        let avoids: Vec<ServerId> = fleet.servers().filter(|r| b >> r.index() & 1 == 1 || Some(*r) == here).collect();
        let keys: Vec<ServerKey> = avoids.iter().map(|&r| self.live.key(r)).chain([key]).collect();
        let allowed = self.allowed(l, &avoids);
        let is_any_up = self.has_server_up_beside(l, &avoids);
        assert_eq!(self.live.has_server_up_beside(l, &keys), is_any_up);
        if let Some(joined) = self.live.route_avoiding(l, &keys, &mut self.rng) {
            return self.joins(job, name, joined, arrival, &allowed);
        }
        assert!(allowed.contains(&None), "no place although the policy has one: {allowed:?}");
        let waits = self.waits() && self.longest_line() > 0;
        match self.live.come_back(l, arrival, &keys, || job) {
            Ok(ticket) => {
                assert!(waits, "waits although nobody may");
                assert_eq!(ticket.arrival(), arrival);
                // Its own ticket of another time is used up.
                self.tickets.remove(&ticket);
                let avoids = avoids.iter().map(|&r| fleet.server_name(r)).collect();
                self.waits_with(Waiting { job, job_type: name, ticket, avoids: Some(avoids) });
            }
            Err(blocked) => {
                assert!(!waits, "it may wait");
                assert_eq!(blocked, if is_any_up { Blocked::NoRoom } else { Blocked::NoServerUp });
            }
        }
    }

    fn suspend(&mut self, l: JobTypeId, server: ServerId) {
        let fleet = Arc::clone(self.live.fleet());
        let is_new = self.suspended.insert((fleet.job_type_name(l), fleet.server_name(server)));
        let started = self.live.suspend(l, server);
        let expected = self.start_all(|_| is_new);
        self.agree(started, expected);
    }

    fn resume(&mut self, l: JobTypeId, server: ServerId) {
        let fleet = Arc::clone(self.live.fleet());
        self.suspended.remove(&(fleet.job_type_name(l), fleet.server_name(server)));
        let started = self.live.resume(l, server);
        let expected = self.start_all(|r| r == server);
        self.agree(started, expected);
    }

    fn may_go(&self, waiting: &Waiting, server: ServerId) -> bool {
        let fleet = self.live.fleet();
        let l = job_type(fleet, &waiting.job_type);
        fleet.graph().contains(l.index(), server)
            && !self.is_suspended(l, server)
            && waiting.avoids.as_ref().is_none_or(|avoids| !avoids.contains(&fleet.server_name(server)))
    }

    /// The longest-waiting job that may go to this server goes there if there is room; its number and place.
    fn start_first(&mut self, server: ServerId, is_spared: bool) -> Option<(u64, ServerId)> {
        let view = if is_spared { self.view() } else { self.view().sparing_nobody() };
        let first = self.waiting.iter().position(|waiting| self.may_go(waiting, server));
        let Waiting { job, job_type, ticket, .. } = self.waiting.remove(first.filter(|_| view.has_room(server))?);
        let (key, name) = (self.live.key(server), self.live.fleet().server_name(server));
        self.running.push(Running { job, job_type, server: name, key, arrival: Some(ticket.arrival()) });
        Some((job, server))
    }

    /// Those that wait are offered all room at such servers, and beyond the caps of those that are spared last.
    fn start_all(&mut self, at: impl Fn(ServerId) -> bool) -> Vec<(u64, ServerId)> {
        let fleet = Arc::clone(self.live.fleet());
        let mut started = Vec::new();
        for is_spared in [true, false] {
            for server in fleet.servers().filter(|&r| at(r)) {
                while let Some(job) = self.start_first(server, is_spared) {
                    started.push(job);
                }
            }
        }
        started
    }

    fn complete(&mut self, i: usize) {
        let Running { key, server: name, .. } = self.running.swap_remove(i);
        let started = self.live.complete(key);
        self.forget_servers_without_jobs();
        let expected = self.live.fleet().find_server(&name).and_then(|server| self.start_first(server, false));
        self.agree(started, expected);
    }

    /// A server that has left the fleet, and has no jobs, forgets its cap.
    fn forget_servers_without_jobs(&mut self) {
        let (fleet, running) = (self.live.fleet(), &self.running);
        let is_known = |name: &String| {
            fleet.find_server(name).is_some() || running.iter().any(|Running { server, .. }| server == name)
        };
        self.caps.retain(|name, _| is_known(name));
        self.spared.retain(is_known);
    }

    fn cancel(&mut self, i: usize) {
        let Waiting { job, ticket, .. } = self.waiting.remove(i);
        assert_eq!(self.live.cancel(ticket), Some(job));
        self.cancelled.push(ticket);
    }

    fn set_cap(&mut self, server: ServerId, cap: Option<u32>) {
        let name = self.live.fleet().server_name(server);
        let was_down = !self.view().takes_jobs(server);
        self.spared.remove(&name);
        let started = self.live.set_cap(server, cap);
        self.cap_changes(name, cap, was_down, started);
    }

    fn spare(&mut self, server: ServerId, cap: u32) {
        let name = self.live.fleet().server_name(server);
        let was_down = !self.view().takes_jobs(server);
        self.spared.insert(name.clone());
        let started = self.live.spare(server, cap);
        self.cap_changes(name, Some(cap), was_down, started);
    }

    fn cap_changes(&mut self, name: String, cap: Option<u32>, was_down: bool, started: Vec<StartedLive<u64>>) {
        let fleet = Arc::clone(self.live.fleet());
        let server = fleet.find_server(&name).unwrap();
        let before = match cap {
            Some(cap) => self.caps.insert(name.clone(), cap.into()),
            None => self.caps.remove(&name),
        };
        if was_down && self.view().takes_jobs(server) {
            self.waiting.iter_mut().filter_map(|waiting| waiting.avoids.as_mut()).for_each(|avoids| {
                avoids.remove(&name);
            });
        }
        let falls = cap == Some(0) || before.unwrap_or(u64::MAX) > cap.map_or(u64::MAX, u64::from);
        let expected = self.start_all(|r| falls || r == server);
        self.agree(started, expected);
    }

    fn migrate(&mut self, b: usize) {
        let from = Arc::clone(self.live.fleet());
        let policy = if b.is_multiple_of(2) { self.live.policy() } else { policies()[b % policies().len()] };
        let prepared = LiveDispatcher::prepare(&from, some_fleet(&mut self.rng).build(), policy).unwrap();
        let migrated = self.live.migrate(prepared);
        let fleet = Arc::clone(self.live.fleet());
        self.forget_servers_without_jobs();
        self.suspended.retain(|(l, r)| fleet.find_job_type(l).is_some() && fleet.find_server(r).is_some());
        let waits = self.waits();
        let (stay, go): (Vec<_>, Vec<_>) =
            self.waiting.drain(..).partition(|waiting| waits && fleet.find_job_type(&waiting.job_type).is_some());
        self.waiting = stay;
        // Nobody avoids a server that has left the fleet, also if it comes back.
        for avoids in self.waiting.iter_mut().filter_map(|waiting| waiting.avoids.as_mut()) {
            avoids.retain(|name| fleet.find_server(name).is_some());
        }
        self.cancelled.extend(go.iter().map(|waiting| waiting.ticket));
        let mut dropped: Vec<u64> = migrated.dropped.iter().map(|(_, job)| *job).collect();
        dropped.sort_unstable();
        assert_eq!(dropped, go.iter().map(|waiting| waiting.job).collect::<Vec<_>>());
        let expected = self.start_all(|_| true);
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
        let gone = self.running.iter().filter(|running| view.fleet.find_server(&running.server).is_none()).count();
        assert_eq!(self.live.jobs_at_removed_servers(), gone as u64);
        for l in view.fleet.job_types() {
            let name = view.fleet.job_type_name(l);
            assert_eq!(self.live.waiting(l), self.waiting.iter().filter(|waiting| waiting.job_type == name).count());
        }
        assert_eq!(self.live.waiting_total(), self.waiting.len());
        // The others may have missed a place by chance.
        if matches!(
            view.policy,
            PolicySpec::Jsq | PolicySpec::Jfsq | PolicySpec::Sed | PolicySpec::Nq | PolicySpec::Central
        ) {
            self.nobody_waits_beside_room();
        }
    }

    fn nobody_waits_beside_room(&self) {
        let view = self.view().sparing_nobody();
        for server in view.fleet.servers().filter(|&r| view.has_room(r)) {
            let beside = self.waiting.iter().find(|waiting| self.may_go(waiting, server)).map(|waiting| waiting.job);
            assert_eq!(beside, None, "waits while {server:?} has a place for it");
        }
    }

    fn end(mut self) {
        while !self.running.is_empty() {
            self.complete(0);
        }
        self.nobody_waits_beside_room();
        while !self.waiting.is_empty() {
            self.cancel(0);
        }
        self.compare();
        assert_eq!(self.live.fleet().servers().map(|r| self.live.jobs(r)).sum::<u32>(), 0);
        assert_eq!((self.live.waiting_total(), self.live.jobs_at_removed_servers()), (0, 0));
    }
}
