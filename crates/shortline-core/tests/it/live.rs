//! The dispatcher of a gateway: keys, counts, lines and up/down survive exchanges of the fleet, and any interleaving
//! of its operations keeps count = truth.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use rand::SeedableRng;
use shortline_core::live::{JoinKind, Joined, Migrated, Routed, ServerKey, StartedLive};
use shortline_core::policy::PolicySpec;
use shortline_core::random::{Generator, below};
use shortline_core::{Blocked, Fleet, JobTypeId, LiveDispatcher, ServerId, Ticket};

use crate::fleets::{Draft, job_type, policies, server};
use crate::rules::{Live, law};

/// A dispatcher with a generator, by names.
struct Gateway {
    live: LiveDispatcher<u64>,
    rng: Generator,
}

impl Gateway {
    fn new(draft: &Draft, policy: PolicySpec) -> Self {
        Self { live: LiveDispatcher::new(draft.build(), policy).unwrap(), rng: Generator::seed_from_u64(7) }
    }

    fn route(&mut self, name: &str, job: u64) -> Routed {
        let job_type = job_type(self.live.fleet(), name);
        self.live.route(job_type, || job, &mut self.rng)
    }

    fn join(&mut self, name: &str) -> Joined {
        match self.route(name, 0) {
            Routed::Joined(joined) => joined,
            other => panic!("a job of `{name}` finds a place, not {other:?}"),
        }
    }

    fn wait(&mut self, name: &str, job: u64) -> Ticket {
        match self.route(name, job) {
            Routed::Waiting(ticket) => ticket,
            other => panic!("a job of `{name}` waits, not {other:?}"),
        }
    }

    fn exchange(&mut self, draft: &Draft) -> Migrated<u64> {
        let policy = self.live.policy();
        let prepared = LiveDispatcher::prepare(&Arc::clone(self.live.fleet()), draft.build(), policy).unwrap();
        self.live.migrate(prepared)
    }

    fn server(&self, name: &str) -> ServerId {
        server(self.live.fleet(), name)
    }

    fn jobs(&self, name: &str) -> u64 {
        self.live.jobs(self.server(name)).into()
    }
}

/// Servers a and b, each with one place, job type M on both.
fn pair() -> Draft {
    Draft::default().server_type("t", 1.0, 1).server("a", 0, Some(1)).server("b", 0, Some(1)).job_type("M", [0, 1])
}

fn only(name: &str) -> Draft {
    Draft::default().server_type("t", 1.0, 1).server(name, 0, Some(1)).job_type("M", [0])
}

#[test]
fn a_job_is_told_what_it_found() {
    let draft = Draft::default()
        .server_type("slow", 1.0, 1)
        .server_type("fast", 9.0, 1)
        .server("s", 0, None)
        .server("f", 1, None)
        .job_type("M", [0, 1])
        .job_type("N", [0]);
    let mut gateway = Gateway::new(&draft, PolicySpec::Jfsq);
    let kinds: Vec<JoinKind> = (0..3).map(|_| gateway.join("M").kind).collect();
    assert_eq!(kinds, [JoinKind::IdleFastest, JoinKind::IdleSlower, JoinKind::Queued]);
    let s = gateway.server("s");
    let key = gateway.live.key(s);
    gateway.live.complete(key);
    assert_eq!(gateway.join("N").kind, JoinKind::IdleFastest, "the fastest of those that hold its type");
    assert_eq!(gateway.live.waiting_at(gateway.server("f")), 1);
}

#[test]
fn a_count_survives_an_exchange_under_another_number() {
    let mut gateway = Gateway::new(&only("a"), PolicySpec::Jsq);
    let joined = gateway.join("M");
    let swapped = Draft::default().server_type("t", 1.0, 1).server("b", 0, None).server("a", 0, None);
    gateway.exchange(&swapped.job_type("M", [0, 1]));
    assert_eq!((gateway.jobs("a"), gateway.jobs("b")), (1, 0));
    assert_eq!(gateway.live.find(joined.key), Some(gateway.server("a")));
    gateway.live.complete(joined.key);
    assert_eq!(gateway.jobs("a"), 0);
}

#[test]
fn a_server_that_was_removed_and_comes_back_finds_its_jobs() {
    let mut gateway = Gateway::new(&only("a"), PolicySpec::Jsq);
    let key = gateway.join("M").key;
    gateway.exchange(&only("b"));
    assert_eq!((gateway.live.jobs_at_removed_servers(), gateway.live.find(key)), (1, None));
    gateway.exchange(&only("c"));
    assert_eq!(gateway.live.jobs_at_removed_servers(), 1);
    gateway.exchange(&only("a"));
    assert_eq!((gateway.live.jobs_at_removed_servers(), gateway.jobs("a")), (0, 1));
    assert_eq!(gateway.route("M", 0), Routed::Blocked(Blocked::NoRoom));
    gateway.live.complete(key);
    assert_eq!(gateway.jobs("a"), 0);
}

#[test]
fn a_job_may_end_at_a_server_that_is_gone() {
    let mut gateway = Gateway::new(&only("a"), PolicySpec::Jsq);
    let key = gateway.join("M").key;
    gateway.exchange(&only("b"));
    assert_eq!(gateway.live.complete(key), None);
    assert_eq!(gateway.live.jobs_at_removed_servers(), 0);
    gateway.exchange(&pair());
    assert_eq!(gateway.jobs("a"), 0);
    assert_ne!(gateway.live.key(gateway.server("a")), key, "a key of before means nothing to the new server");
    assert_eq!(gateway.live.find(key), None);
}

#[test]
#[should_panic(expected = "a job leaves its server once")]
fn a_key_that_was_given_back_at_a_removed_server_is_refused() {
    let mut gateway = Gateway::new(&only("a"), PolicySpec::Jsq);
    let key = gateway.join("M").key;
    gateway.exchange(&only("b"));
    gateway.live.complete(key);
    gateway.live.complete(key);
}

#[test]
fn down_servers_stay_down_and_new_ones_are_up() {
    let mut gateway = Gateway::new(&pair(), PolicySpec::Jsq);
    let a = gateway.server("a");
    gateway.live.set_up(a, false);
    gateway.exchange(&pair().server("c", 0, None));
    let is_up = |name| gateway.live.is_up(gateway.server(name));
    assert_eq!([is_up("a"), is_up("b"), is_up("c")], [false, true, true]);
}

#[test]
fn more_room_starts_those_who_wait() {
    let mut gateway = Gateway::new(&only("a").wait(None), PolicySpec::Jsq);
    gateway.join("M");
    let first = gateway.wait("M", 1);
    gateway.wait("M", 2);
    let migrated = gateway.exchange(&pair().wait(None));
    let started: Vec<_> = migrated.started.iter().map(|s| (s.job.ticket, s.job.job, s.job.server, s.key)).collect();
    let b = gateway.server("b");
    assert_eq!(started, [(first, 1, b, gateway.live.key(b))]);
    assert_eq!(gateway.live.waiting_total(), 1);
}

#[test]
fn less_room_keeps_the_jobs_and_takes_no_more() {
    let roomy = Draft::default().server_type("t", 1.0, 1).server("a", 0, Some(3)).job_type("M", [0]);
    let mut gateway = Gateway::new(&roomy, PolicySpec::Jsq);
    let keys: Vec<ServerKey> = (0..3).map(|_| gateway.join("M").key).collect();
    gateway.exchange(&only("a"));
    assert_eq!(gateway.jobs("a"), 3);
    for key in keys {
        assert_eq!(gateway.route("M", 0), Routed::Blocked(Blocked::NoRoom));
        gateway.live.complete(key);
    }
    assert_eq!(gateway.jobs("a"), 0);
    gateway.join("M");
}

#[test]
fn waiting_jobs_follow_the_name_of_their_type() {
    let held = only("a").job_type("N", [0]).wait(None);
    let mut gateway = Gateway::new(&held, PolicySpec::Jsq);
    let key = gateway.join("M").key;
    let gone = gateway.wait("M", 1);
    let stays = gateway.wait("N", 2);
    let n_only = Draft::default().server_type("t", 1.0, 1).server("a", 0, Some(1)).job_type("N", [0]).wait(None);
    let migrated = gateway.exchange(&n_only);
    assert_eq!((migrated.started, migrated.dropped), (vec![], vec![(gone, 1)]));
    assert_eq!(gateway.live.cancel(gone), None);
    let started = gateway.live.complete(key).expect("N's job starts");
    assert_eq!((started.job.ticket, started.job.job), (stays, 2));
}

#[test]
fn a_ticket_is_never_used_twice_even_over_a_fleet_without_lines() {
    let mut gateway = Gateway::new(&only("a").wait(None), PolicySpec::Jsq);
    gateway.join("M");
    let old = gateway.wait("M", 1);
    assert_eq!(gateway.exchange(&only("a")).dropped, [(old, 1)]);
    assert_eq!(gateway.route("M", 2), Routed::Blocked(Blocked::NoRoom));
    gateway.exchange(&only("a").wait(None));
    let new = gateway.wait("M", 3);
    assert_eq!(gateway.live.cancel(old), None, "a late cancel takes nobody else out");
    assert_eq!(gateway.live.cancel(new), Some(3));
}

#[test]
#[should_panic(expected = "prepare an exchange from the fleet that is running")]
fn an_exchange_prepared_from_an_earlier_fleet_is_refused() {
    let mut gateway = Gateway::new(&only("a"), PolicySpec::Jsq);
    let from = Arc::clone(gateway.live.fleet());
    let late = LiveDispatcher::prepare(&from, only("b").build(), PolicySpec::Jsq).unwrap();
    gateway.exchange(&only("c"));
    gateway.live.migrate(late);
}

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
        steps in prop::collection::vec((0..20_u8, any::<u32>(), any::<u32>()), 1..250),
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
    down: HashSet<String>,
    tickets: HashSet<Ticket>,
    cancelled: Vec<Ticket>,
}

/// The state as the truth has it, in the fleet of this moment.
struct View<'a> {
    fleet: &'a Fleet,
    jobs: BTreeMap<ServerId, u64>,
    down: Vec<ServerId>,
}

impl Live for View<'_> {
    fn fleet(&self) -> &Fleet {
        self.fleet
    }

    fn jobs(&self, server: ServerId) -> u64 {
        self.jobs.get(&server).copied().unwrap_or(0)
    }

    fn is_up(&self, server: ServerId) -> bool {
        !self.down.contains(&server)
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
            down: HashSet::new(),
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
            16..19 => self.set_up(ServerId::new(a % self.live.fleet().server_count()), !b.is_multiple_of(3)),
            19 => self.migrate(b),
            _ => {}
        }
    }

    fn view(&self) -> View<'_> {
        let fleet = self.live.fleet();
        let mut jobs = BTreeMap::new();
        for server in self.running.iter().filter_map(|(_, name)| fleet.find_server(name)) {
            *jobs.entry(server).or_insert(0) += 1;
        }
        View { fleet, jobs, down: self.down.iter().filter_map(|name| fleet.find_server(name)).collect() }
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
        let view = self.view();
        let law = law(self.live.policy(), &view, l);
        let holders: Vec<ServerId> =
            view.fleet.servers().filter(|&r| view.fleet.graph().contains(l.index(), r)).collect();
        let is_any_up = holders.iter().any(|&r| view.is_up(r));
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
        let can_serve = |name: &str| fleet.graph().contains(job_type(&fleet, name).index(), server);
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
        let expected = self.live.fleet().find_server(&name).and_then(|server| self.start_first(server));
        self.agree(started, expected);
    }

    fn cancel(&mut self, i: usize) {
        let (job, ticket, _) = self.waiting.remove(i);
        assert_eq!(self.live.cancel(ticket), Some(job));
        self.cancelled.push(ticket);
    }

    fn set_up(&mut self, server: ServerId, up: bool) {
        let name = self.live.fleet().server_name(server);
        if up {
            self.down.remove(&name)
        } else {
            self.down.insert(name)
        };
        let started = self.live.set_up(server, up);
        let all: Vec<ServerId> = self.live.fleet().servers().collect();
        let expected = self.start_all(if up { vec![server] } else { all });
        self.agree(started, expected);
    }

    fn migrate(&mut self, b: usize) {
        let from = Arc::clone(self.live.fleet());
        let policy = if b.is_multiple_of(2) { self.live.policy() } else { policies()[b % policies().len()] };
        let prepared = LiveDispatcher::prepare(&from, some_fleet(&mut self.rng).build(), policy).unwrap();
        let migrated = self.live.migrate(prepared);
        // A server that leaves the fleet forgets that it was down.
        let fleet = Arc::clone(self.live.fleet());
        self.down.retain(|name| fleet.find_server(name).is_some());
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
            let l = job_type(&fleet, name).index();
            let held = up.iter().find(|&&r| fleet.graph().contains(l, r));
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
