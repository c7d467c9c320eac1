//! What holds for every fleet, every state and every policy.
//!
//! Random fleets come in three sizes, so that all forms of rows occur: lists, long lists, bitsets and "all servers".
//! Random tests: the seeds are fixed, so a run passes or fails for good. A decision that the rule allows and that was
//! drawn `n` times without showing is a failure; `n` is such that this has probability below 1e-9 for each decision.
//! With at most some 1e5 decisions looked at, the false-alarm rate of a change of seeds is below 1e-4.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::RngSeed;
use rand::SeedableRng;
use shortline_core::graph::Row;
use shortline_core::policy::{Policy, PolicySpec, PolicyVisitor, with_policy};
use shortline_core::random::Generator;
use shortline_core::{Dispatcher, Fleet, JobTypeId};

use crate::fleets::{Asked, Draft, DraftServer, Scene, policies};
use crate::rules::Law;

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, rng_seed: RngSeed::Fixed(7), failure_persistence: None, ..ProptestConfig::default() }
}

/// Speeds that make ties, distinct slots (7, 9, 11 have so large a common multiple that loads are compared by the counts
/// themselves and idleness by the slots), buffers from just enough to unbounded; job types on few, many, all servers.
fn draft(servers: impl Strategy<Value = usize>) -> impl Strategy<Value = Draft> {
    let rate = || prop::sample::select(vec![1.0, 2.0, 2.0, 5.0, 7.5]);
    let types = prop_oneof![
        4 => prop::collection::vec((rate(), 1..=3_u32), 1..=4),
        1 => prop::collection::vec((rate(), Just(2_u32)), 1..=4),
        1 => (rate(), rate(), rate()).prop_map(|(a, b, c)| vec![(a, 7_u32), (b, 9), (c, 11)]),
    ];
    (types, servers, any::<u64>()).prop_map(|(types, n, seed)| {
        let mut rng = Generator::seed_from_u64(seed);
        let mut below = |n: usize| shortline_core::random::below(&mut rng, n as u32);
        let mut draft = types
            .iter()
            .zip(0..)
            .fold(Draft::default(), |draft, (&(rate, slots), i)| draft.server_type(&format!("t{i}"), rate, slots));
        let unbounded = below(3) == 0;
        let even = below(2) == 0;
        for i in 0..n {
            let server_type = below(types.len()) as usize;
            let room = if even { 3 } else { below(4) };
            let buffer = (!unbounded).then_some(types[server_type].1 + room);
            draft = draft.server(&format!("s{i}"), server_type, buffer);
        }
        // One row of about each tenth of the way from few to all.
        for (l, share) in [1, 2, 4, 6, 9, 10].into_iter().enumerate() {
            let row = (0..n as u32).filter(|_| below(10) < share).collect::<Vec<_>>();
            draft = draft.job_type(&format!("j{l}"), row);
            if below(3) == 0 {
                draft = draft.rate(l, below(types.len()) as usize, f64::from(1 + below(6)));
            }
        }
        draft
    })
}

/// A draft with jobs and servers that are down. Few jobs, or about as many as slots, or more than the bitsets of job
/// counts cover.
fn scene(servers: impl Strategy<Value = usize>) -> impl Strategy<Value = Scene> {
    let least = prop::sample::select(vec![Some(0), Some(0), Some(14), None]);
    (draft(servers), least, 1..=5_u64, any::<u64>(), 0..=3_u32).prop_map(|(draft, least, spread, seed, down)| {
        let mut rng = Generator::seed_from_u64(seed);
        let mut below = |n: u64| u64::from(shortline_core::random::below(&mut rng, n as u32));
        let almost_busy = |s: &DraftServer| u64::from(draft.types[s.server_type].slots) - 1;
        let jobs = draft.servers.iter().map(|s| least.unwrap_or_else(|| almost_busy(s)) + below(spread)).collect();
        let down = draft.servers.iter().map(|_| down > 0 && below(10) < u64::from(down) * 3 - 2).collect();
        Scene { draft, jobs, down }
    })
}

fn small() -> impl Strategy<Value = usize> {
    1..=9_usize
}

fn any_size() -> impl Strategy<Value = usize> {
    prop_oneof![6 => 1..=12_usize, 2 => 60..=70_usize, 4 => 71..=300_usize]
}

/// Draws after which a decision of the law that did not show is a failure, if that many are affordable.
fn enough(law: &Law) -> u64 {
    let rarest = law.values().copied().fold(1.0, f64::min);
    if law.len() == 1 { 20 } else { (21.0 / rarest).ceil() as u64 }
}

const AFFORDABLE: u64 = 1500;

fn affordable(law: &Law) -> u64 {
    enough(law).min(AFFORDABLE)
}

/// Decisions that came, decisions that may come; whether all that may come should have.
fn compare(asked: &Asked) -> Result<(), String> {
    let came: BTreeSet<_> = asked.decisions.keys().collect();
    let may: BTreeSet<_> = asked.law.keys().collect();
    let complete = asked.draws >= enough(&asked.law);
    if came == may || (!complete && came.is_subset(&may)) {
        return Ok(());
    }
    Err(format!("came {came:?}, the rule allows {may:?}"))
}

proptest! {
    #![proptest_config(cases(64))]

    /// Also says: the chosen server is compatible, up and not full, for the reference allows no other.
    #[test]
    fn every_decision_follows_the_rule_and_every_allowed_decision_comes(scene in scene(any_size()), seed: u64) {
        for policy in policies() {
            for (l, asked) in scene.ask(policy, seed, affordable).iter().enumerate() {
                if let Err(difference) = compare(asked) {
                    prop_assert!(false, "{policy}, job type {l}: {difference}");
                }
            }
        }
    }

    #[test]
    fn relabelled_servers_get_the_same_jobs(scene in scene(small()), seed: u64) {
        let n = scene.draft.servers.len();
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by_key(|&i| (i as u64 + 1).wrapping_mul(seed | 1) % 1009);
        let mut relabelled = scene.clone();
        for (new, &old) in order.iter().enumerate() {
            relabelled.draft.servers[new] = scene.draft.servers[old].clone();
            relabelled.jobs[new] = scene.jobs[old];
            relabelled.down[new] = scene.down[old];
        }
        for job_type in &mut relabelled.draft.job_types {
            for r in &mut job_type.servers {
                *r = order.iter().position(|&old| old == *r as usize).unwrap() as u32;
            }
        }
        let named = |scene: &Scene, policy: PolicySpec, seed: u64| -> Vec<BTreeSet<Option<String>>> {
            let fleet = scene.draft.build();
            let names = |asked: Asked| asked.decisions.into_keys().map(|r| r.map(|r| fleet.server_name(r))).collect();
            scene.ask(policy, seed, enough).into_iter().map(names).collect()
        };
        for policy in policies() {
            prop_assert_eq!(named(&scene, policy, seed), named(&relabelled, policy, seed ^ 1), "{}", policy);
        }
    }

    /// With equal buffers: of unequal ones a full server may be the shortest, and then `jsq(d)` finds no place.
    #[test]
    fn a_sample_of_all_servers_finds_the_shortest_queue(mut scene in scene(any_size()), seed: u64, buffer in prop::option::of(3..6_u32)) {
        scene.draft.types.iter_mut().for_each(|t| t.slots = 2);
        scene.draft.servers.iter_mut().for_each(|s| s.buffer = buffer);
        for (all, shortest) in [("jsq(300)", "jsq"), ("jfsq(300)", "jfsq")] {
            let all = scene.ask(all.parse().unwrap(), seed, affordable);
            let shortest = scene.ask(shortest.parse().unwrap(), seed, affordable);
            for (all, shortest) in all.iter().zip(&shortest) {
                prop_assert!(all.law.keys().eq(shortest.law.keys()), "{:?} is not {:?}", all.law, shortest.law);
                prop_assert_eq!(compare(all), Ok(()));
                prop_assert_eq!(compare(shortest), Ok(()));
            }
        }
    }

    /// Stronger than equality in law: the same draws give the same decisions.
    #[test]
    fn with_equal_speeds_the_fastest_of_the_shortest_is_any_of_the_shortest(mut scene in scene(any_size()), seed: u64) {
        scene.draft.types.iter_mut().for_each(|t| t.rate = 3.0);
        scene.draft.rates.clear();
        let jsq = scene.ask(PolicySpec::Jsq, seed, |_| 40);
        prop_assert_eq!(jsq, scene.ask(PolicySpec::Jfsq, seed, |_| 40));
    }

    /// True of every policy that only compares speeds: all but `sed` and `nq`.
    #[test]
    fn only_the_order_of_the_speeds_counts(scene in scene(any_size()), seed: u64) {
        let mut stretched = scene.clone();
        let stretch = |rate: f64| 0.001 + rate.powi(3) * 1e4;
        stretched.draft.types.iter_mut().for_each(|t| t.rate = stretch(t.rate));
        stretched.draft.rates.iter_mut().for_each(|r| r.rate = stretch(r.rate));
        for policy in policies().into_iter().filter(|policy| !policy.needs_rates()) {
            let before = history(&scene.draft, policy, seed, 300);
            prop_assert_eq!(before, history(&stretched.draft, policy, seed, 300), "{}", policy);
        }
    }

    #[test]
    fn central_is_jfiq_with_as_many_places_as_slots_and_a_line_in_front(draft in draft(any_size()), seed: u64) {
        let mut with_slots = draft.clone();
        with_slots.servers.iter_mut().for_each(|s| s.buffer = Some(draft.types[s.server_type].slots));
        let with_slots = with_slots.wait(None);
        let central = history(&draft, PolicySpec::Central, seed, 400);
        prop_assert_eq!(central, history(&with_slots, PolicySpec::Jfiq, seed, 400));
    }
}

/// The decisions on a random run of arrivals, departures, failures and repairs. Both the run and the decisions depend
/// on `seed` and on the decisions before only; each decision has a generator of its own, so that two policies which
/// draw a different number of times still see the same one.
fn history(draft: &Draft, policy: PolicySpec, seed: u64, steps: u64) -> Vec<String> {
    let fleet = draft.build();
    with_policy(policy, &fleet, Run { fleet: Arc::clone(&fleet), seed, steps }).unwrap()
}

struct Run {
    fleet: Arc<Fleet>,
    seed: u64,
    steps: u64,
}

impl PolicyVisitor for Run {
    type Output = Vec<String>;

    fn visit<P: Policy>(self, policy: P) -> Vec<String> {
        let mut dispatcher = Dispatcher::<P, u64>::new(Arc::clone(&self.fleet), policy);
        let mut history = Vec::new();
        let mut running = Vec::new();
        for step in 0..self.steps {
            let mut rng = Generator::seed_from_u64(self.seed.wrapping_add(step));
            let mut below = |n: usize| shortline_core::random::below(&mut rng, n as u32) as usize;
            let started = match below(8) {
                0..5 => {
                    let job_type = JobTypeId::new(below(self.fleet.job_type_count()));
                    let decision = dispatcher.route(job_type, || step, &mut rng);
                    running.extend(decision.server());
                    history.push(format!("{decision:?}"));
                    vec![]
                }
                5..7 if !running.is_empty() => {
                    let server = running.swap_remove(below(running.len()));
                    dispatcher.complete(server).into_iter().collect()
                }
                _ => {
                    let server = self.fleet.server_at_file_index(below(self.fleet.server_count()));
                    dispatcher.set_up(server, below(3) > 0)
                }
            };
            running.extend(started.iter().map(|s| s.server));
            history.extend(started.iter().map(|s| format!("{} starts at {:?}", s.job, s.server)));
        }
        history
    }
}

#[test]
fn the_random_fleets_have_rows_of_every_form() {
    let mut runner = proptest::test_runner::TestRunner::new(cases(64));
    let mut forms = BTreeSet::new();
    let draft = draft(any_size());
    for _ in 0..64 {
        let fleet = draft.new_tree(&mut runner).unwrap().current().build();
        forms.extend(fleet.job_types().map(|l| match fleet.graph().row(l.index()) {
            Row::All => "all",
            Row::List(set) if set.servers.is_empty() => "nobody",
            Row::List(_) => "list",
            Row::Bits(_) => "bits",
        }));
    }
    assert_eq!(forms, BTreeSet::from(["all", "bits", "list", "nobody"]));
}

/// From 254 jobs per slot on, short lists compare the counts themselves.
#[test]
fn very_long_queues_follow_the_rule() {
    for slots in [1, 2] {
        let types = Draft::default().server_type("fast", 5.0, 1).server_type("slow", 2.0, slots);
        let servers = (0..40).fold(types, |draft, i| draft.server(&format!("s{i}"), i % 2, Some(260 * slots)));
        let draft = servers.job_type("short", 0..12).job_type("long", 0..39).job_type("all", 0..40);
        for least in [252, 253, 254, 258] {
            let jobs = |i: u64| (least + i % 3) * if i % 2 == 1 { u64::from(slots) } else { 1 };
            let scene = Scene { draft: draft.clone(), jobs: (0..40).map(jobs).collect(), down: vec![false; 40] };
            for policy in policies() {
                for asked in scene.ask(policy, 7, affordable) {
                    assert_eq!(compare(&asked), Ok(()), "{policy}, {slots} slots, {least} jobs");
                }
            }
        }
    }
}

/// So many slots that idleness only just, or no longer, shows in a byte.
#[test]
fn servers_with_about_254_slots_are_idle_up_to_the_last_one() {
    for slots in 252..=257 {
        let types = Draft::default().server_type("fast", 5.0, slots).server_type("slow", 2.0, slots);
        let draft = (0..6).fold(types, |draft, i| draft.server(&format!("s{i}"), i % 2, None)).job_type("j", 0..5);
        for least in slots - 2..=slots + 1 {
            let jobs = (0..6).map(|i| u64::from(least + i / 3)).collect();
            let scene = Scene { draft: draft.clone(), jobs, down: vec![false; 6] };
            for policy in policies() {
                assert_eq!(compare(&scene.ask(policy, 7, affordable)[0]), Ok(()), "{policy}, {least} of {slots} slots");
            }
        }
    }
}

/// A list longer than one machine word of ties occurs in fleets beyond 2,080 servers only.
#[test]
fn long_lists_follow_the_rule() {
    let n = 2400_u32;
    let mut draft = Draft::default().server_type("fast", 5.0, 1).server_type("mid", 2.0, 2).server_type("slow", 1.0, 1);
    for i in 0..n {
        let server_type = (i as usize / 5) % 3;
        draft = draft.server(&format!("s{i}"), server_type, (i % 7 == 0).then_some(4));
    }
    let draft = draft.job_type("j", (0..70).map(|i| i * 31));
    for (least, spread) in [(0, 2), (0, 4), (3, 2), (17, 3), (126, 3), (300, 4)] {
        let scene = Scene {
            jobs: (0..n as usize).map(|i| if i % 31 == 0 { least + (i as u64 / 31 * 7) % spread } else { 0 }).collect(),
            down: (0..n).map(|i| i % 13 == 0).collect(),
            draft: draft.clone(),
        };
        for policy in policies() {
            assert_eq!(compare(&scene.ask(policy, 7, affordable)[0]), Ok(()), "{policy}");
        }
    }
}
