//! The dispatcher of a gateway: keys, counts, lines and up/down survive exchanges of the fleet.

use std::sync::Arc;

use rand::SeedableRng;
use shortline_core::live::{JoinKind, Joined, Migrated, Routed, ServerKey};
use shortline_core::policy::PolicySpec;
use shortline_core::random::Generator;
use shortline_core::{Blocked, LiveDispatcher, ServerId, Ticket};

use crate::fleets::{Draft, job_type, server};

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
fn a_job_that_comes_back_waits_at_its_age_but_not_for_the_server_that_it_was_at() {
    let mut gateway = Gateway::new(&pair().wait(Some(3)), PolicySpec::Jsq);
    let first = gateway.join("M");
    let second = gateway.join("M");
    let waiting = [gateway.wait("M", 1), gateway.wait("M", 2)];
    let m = job_type(gateway.live.fleet(), "M");
    assert_eq!(gateway.live.route_avoiding(m, &[first.key], &mut gateway.rng), None);
    let back = gateway.live.come_back(m, first.arrival, &[first.key], || 7).unwrap();
    assert_eq!((gateway.live.waiting(m), gateway.live.waiting_total()), (3, 3));
    // The place that it leaves goes to the one behind it, the next one is its own.
    assert_eq!(gateway.live.complete(first.key).expect("one waits").job.ticket, waiting[0]);
    let started = gateway.live.complete(second.key).expect("it waits");
    assert_eq!((started.job.ticket, started.job.job, started.key), (back, 7, second.key));
    assert_eq!(gateway.live.cancel(back), None);
    // Once more, over an exchange of the fleet, and cancelled.
    let back = gateway.live.come_back(m, first.arrival, &[second.key], || 8).unwrap();
    gateway.exchange(&pair().wait(Some(3)));
    assert_eq!((gateway.live.waiting_total(), gateway.live.complete(second.key).unwrap().job.ticket), (2, waiting[1]));
    assert_eq!(gateway.live.complete(second.key), None, "it does not go back there");
    assert_eq!((gateway.live.cancel(back), gateway.live.waiting_total()), (Some(8), 0));
    // A server that was down and is up again is another matter.
    let back = gateway.live.come_back(m, first.arrival, &[second.key], || 9).unwrap();
    let b = gateway.live.find(second.key).unwrap();
    gateway.live.set_up(b, false);
    assert_eq!(gateway.live.set_up(b, true).first().expect("it starts").job.ticket, back);
}

#[test]
fn nobody_waits_behind_a_job_that_is_back_and_without_lines_it_is_blocked() {
    let mut gateway = Gateway::new(&pair().wait(None), PolicySpec::Jsq);
    let (first, second) = (gateway.join("M"), gateway.join("M"));
    let m = job_type(gateway.live.fleet(), "M");
    let back = gateway.live.come_back(m, first.arrival, &[first.key], || 7).unwrap();
    assert_eq!(gateway.live.complete(first.key), None);
    assert_eq!(gateway.join("M").key, first.key, "there is room where it cannot go");
    assert_eq!(gateway.live.complete(second.key).unwrap().job.ticket, back);

    for (draft, other, blocked) in [(pair(), true, Blocked::NoRoom), (pair().wait(Some(0)), false, Blocked::NoServerUp)]
    {
        let mut gateway = Gateway::new(&draft, PolicySpec::Jsq);
        let (first, second) = (gateway.join("M"), gateway.join("M"));
        let avoid = if other { vec![first.key] } else { vec![first.key, second.key] };
        assert_eq!(gateway.live.has_server_up_beside(m, &avoid), other);
        assert_eq!(gateway.live.come_back(m, first.arrival, &avoid, || 7), Err(blocked));
    }
}

#[test]
fn a_server_that_is_spared_gets_what_finds_no_place_elsewhere() {
    let draft = Draft::default().server_type("t", 1.0, 1).server("a", 0, Some(3)).server("b", 0, Some(2));
    let mut gateway = Gateway::new(&draft.job_type("M", [0, 1]).wait(None), PolicySpec::Jsq);
    let a = gateway.server("a");
    let (m, b) = (job_type(gateway.live.fleet(), "M"), gateway.live.key(gateway.server("b")));
    gateway.live.set_cap(a, Some(1));
    assert!(gateway.live.has_server_up_beside(m, &[b]) && !gateway.live.has_uncapped_server_beside(m, &[b]));
    assert!(gateway.live.spare(a, 1).is_empty());
    assert!(gateway.live.has_uncapped_server_beside(m, &[b]), "such a cap is a preference only");
    let keys: Vec<ServerKey> = (0..5).map(|_| gateway.join("M").key).collect();
    assert_eq!((gateway.jobs("a"), gateway.jobs("b")), (3, 2));
    let at_a = |gateway: &Gateway, n: usize| gateway.live.find(keys[n]) == Some(gateway.server("a"));
    assert!(!(at_a(&gateway, 2) || at_a(&gateway, 3) && at_a(&gateway, 1)), "b is full first");
    let waits = gateway.wait("M", 1);
    let left = keys.iter().find(|&&key| gateway.live.find(key) == Some(a)).unwrap();
    assert_eq!(gateway.live.complete(*left).unwrap().job.ticket, waits, "nobody waits beside its room");
    gateway.exchange(&pair().wait(None));
    assert_eq!(gateway.jobs("a"), 3);
    gateway.live.set_cap(gateway.server("a"), Some(1));
    gateway.wait("M", 2);
}

#[test]
fn a_server_that_is_spared_at_nothing_is_the_last_resort_and_not_down() {
    let mut gateway = Gateway::new(&pair(), PolicySpec::Jsq);
    let (m, a) = (job_type(gateway.live.fleet(), "M"), gateway.server("a"));
    gateway.live.spare(a, 0);
    let keys = [gateway.join("M").key, gateway.join("M").key];
    assert_eq!(gateway.live.find(keys[1]), Some(a));
    assert!(gateway.live.has_server_up_beside(m, &keys[..1]));
    gateway.live.set_up(gateway.server("b"), false);
    assert!(gateway.live.has_server_up(m));
    assert_eq!(gateway.route("M", 0), Routed::Blocked(Blocked::NoRoom));
}

#[test]
fn a_place_elsewhere_comes_before_a_server_that_is_spared_also_for_those_who_wait() {
    let mut gateway = Gateway::new(&only("a").wait(None), PolicySpec::Jsq);
    gateway.join("M");
    let waiting = [gateway.wait("M", 1), gateway.wait("M", 2)];
    gateway.live.spare(gateway.server("a"), 1);
    let roomy = Draft::default().server_type("t", 1.0, 1).server("a", 0, Some(3)).server("b", 0, Some(1));
    let migrated = gateway.exchange(&roomy.job_type("M", [0, 1]).wait(None));
    let started: Vec<_> = migrated.started.iter().map(|s| (s.job.ticket, s.job.server)).collect();
    assert_eq!(started, [(waiting[0], gateway.server("b")), (waiting[1], gateway.server("a"))]);
}

#[test]
fn a_server_that_was_removed_and_comes_back_is_still_spared() {
    let mut gateway = Gateway::new(&only("a"), PolicySpec::Jsq);
    gateway.join("M");
    gateway.live.spare(gateway.server("a"), 1);
    gateway.exchange(&only("b"));
    gateway.exchange(&Draft::default().server_type("t", 1.0, 1).server("a", 0, Some(2)).job_type("M", [0]));
    assert_eq!((gateway.live.cap(gateway.server("a")), gateway.jobs("a")), (Some(1), 1));
    gateway.join("M");
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
