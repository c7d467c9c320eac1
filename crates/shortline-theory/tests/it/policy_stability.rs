//! Stability by policy: closed forms, brute force over sets of servers, and the growth of truncated chains.

use shortline_core::Fleet;
use shortline_core::JobTypeId;
use shortline_core::fleet::settings::{Arrivals, FailureEvent, Failures, Overflow, SizeLaw};
use shortline_core::policy::PolicySpec;
use shortline_theory::exact::solve;
use shortline_theory::stability::{PolicyStability, analyse, by_policy};

use crate::fleets::{Build, random, with_rates};

fn near(a: f64, b: f64, tolerance: f64) -> bool {
    (a - b).abs() <= tolerance * a.abs().max(b.abs())
}

fn of(fleet: &Fleet, policy: &str) -> PolicyStability {
    let policy = policy.parse().expect("a policy");
    by_policy(fleet, &[policy]).expect("test fleets have rates and edges").remove(0)
}

fn capacity(fleet: &Fleet, set: u32) -> f64 {
    let inside = fleet.servers().filter(|r| set >> r.index() & 1 == 1);
    inside.map(|r| f64::from(fleet.slots(r)) * fleet.service_rate(JobTypeId::new(0), r)).sum()
}

/// Probability that `job_type`'s whole sample lies in `set`, by listing all samples.
fn whole_sample(fleet: &Fleet, job_type: JobTypeId, set: u32, policy: PolicySpec) -> f64 {
    let row: Vec<usize> =
        fleet.servers().filter(|&r| fleet.graph().contains(job_type.index(), r)).map(|r| r.index()).collect();
    let fastest = fleet.server_types().map(|m| fleet.rate(job_type, m)).fold(0.0, f64::max);
    let is_fast = |r: usize| {
        let server = shortline_core::ServerId::new(r);
        fleet.rate(job_type, fleet.server_type(server)) >= fastest * (1.0 - 1e-12)
    };
    let inside = |part: Vec<usize>, d: usize| {
        let d = d.min(part.len());
        let samples = (0..1_u32 << part.len()).filter(|sample| sample.count_ones() as usize == d);
        let lies_inside = |sample: &u32| (0..part.len()).all(|i| sample >> i & 1 == 0 || set >> part[i] & 1 == 1);
        let (mut all, mut good) = (0, 0);
        for sample in samples {
            all += 1;
            good += u32::from(lies_inside(&sample));
        }
        f64::from(good) / f64::from(all)
    };
    match policy {
        PolicySpec::JsqD(d) => inside(row, d.count(fleet.server_count()) as usize),
        PolicySpec::JsqFastOther { fast, other } => {
            let (quick, slow): (Vec<usize>, Vec<usize>) = row.into_iter().partition(|&r| is_fast(r));
            inside(quick, fast as usize) * inside(slow, other as usize)
        }
        other => panic!("{other} does not sample"),
    }
}

fn critical_by_brute_force(fleet: &Fleet, policy: PolicySpec) -> f64 {
    let ratio = |set: u32| {
        let whole =
            |l: JobTypeId| fleet.arrival_rate(l).expect("test fleets have rates") * whole_sample(fleet, l, set, policy);
        capacity(fleet, set) / fleet.job_types().map(whole).sum::<f64>()
    };
    (1..1_u32 << fleet.server_count()).map(ratio).fold(f64::INFINITY, f64::min)
}

#[test]
fn sampling_policies_are_critical_where_some_set_of_servers_gets_too_many_whole_samples() {
    for seed in 0..60 {
        let build = random(seed, false);
        let factor = analyse(&build.clone().done()).unwrap().max_load_factor;
        let fleet = build.scale_arrivals(0.6 * factor).done();
        for name in ["jsq(1)", "jsq(2)", "jsq(3)", "jsq(1,1)", "jsq(2,1)"] {
            let found = of(&fleet, name);
            let expected = critical_by_brute_force(&fleet, name.parse().unwrap());
            assert!(near(found.stable_below, expected, 1e-9), "seed {seed}, {name}: {found:?} {expected}");
            assert!(near(found.unstable_above, expected, 1e-9), "seed {seed}, {name}: {found:?} {expected}");
            assert_eq!(found.stable, Some(expected > 1.0), "seed {seed}, {name}: {}", found.why);
        }
    }
}

#[test]
fn one_choice_is_random_and_as_many_as_there_are_is_jsq() {
    for seed in 0..100 {
        let build = random(seed, false);
        let factor = analyse(&build.clone().done()).unwrap().max_load_factor;
        let fleet = build.scale_arrivals(0.5 * factor).done();
        let factor = |policy: &str| of(&fleet, policy).stable_below;
        assert!(near(factor("jsq(1)"), factor("random"), 1e-12), "seed {seed}");
        assert!(near(factor("jfsq(9)"), factor("jsq"), 1e-12), "seed {seed}");
        assert!(factor("random") <= factor("jsq(2)") * (1.0 + 1e-12), "seed {seed}");
        assert!(factor("jsq(2)") <= factor("jsq(3)") * (1.0 + 1e-12), "seed {seed}");
        assert!(near(factor("split"), factor("central"), 1e-12), "seed {seed}");
    }
}

#[test]
fn random_is_critical_where_its_busiest_server_is() {
    for seed in 0..200 {
        let build = if seed % 2 == 0 { random(seed, true) } else { with_rates(seed) };
        let factor = analyse(&build.clone().done()).unwrap().max_load_factor;
        let fleet = build.scale_arrivals(0.5 * factor).done();
        let busy = |r| {
            let here = fleet.job_types().filter(|l| fleet.graph().contains(l.index(), r));
            let slots = |l: JobTypeId| {
                fleet.arrival_rate(l).unwrap() / fleet.graph().degree(l.index()) as f64 / fleet.service_rate(l, r)
            };
            here.map(slots).sum::<f64>() / f64::from(fleet.slots(r))
        };
        let busiest = fleet.servers().map(busy).fold(0.0, f64::max);
        let found = of(&fleet, "random");
        assert!(near(found.stable_below, 1.0 / busiest, 1e-12), "seed {seed}: {found:?} {busiest}");
        assert_eq!(found.stable, Some(busiest < 1.0), "seed {seed}");
    }
}

/// How the mean jobs with buffers of 5, 10 and 20 grow: not at all in the end if stable, else in proportion.
fn growth(fleet: &Fleet, policy: PolicySpec) -> f64 {
    let jobs = |b: u32| solve(fleet, policy, Some(b)).expect("a small Markovian fleet").all.mean_jobs;
    let (short, middle, long) = (jobs(5), jobs(10), jobs(20));
    (long - middle) / (middle - short)
}

#[test]
fn jobs_of_a_truncated_chain_level_off_exactly_where_the_policy_is_said_to_be_stable() {
    // Three servers, of which the middle one is on both job types. Growth from buffers of 10 to 20 is twice that from
    // 5 to 10 for a queue that grows in proportion, and 0 for one that has levelled off.
    let build = |load: f64| {
        let build = Build::servers(&[1.0, 0.8, 0.3]).job_type(0.9, 1.0, &[0, 1]).job_type(0.5, 1.0, &[1, 2]);
        let factor = analyse(&build.clone().done()).unwrap().max_load_factor;
        build.scale_arrivals(load * factor).done()
    };
    let policies = "random,jsq,jfsq,jsq(1),jsq(2),jsq(1,1),sed,nq,split,jfiq";
    let (mut stable, mut unstable) = (0, 0);
    for load in [0.45, 0.6, 0.78, 1.35] {
        let fleet = build(load);
        for policy in PolicySpec::parse_list(policies).unwrap() {
            let found = by_policy(&fleet, &[policy]).unwrap().remove(0);
            let margin = |factor: f64| (factor - 1.0).abs() > 0.15;
            if !margin(found.stable_below) || !margin(found.unstable_above) {
                continue;
            }
            match found.stable {
                Some(true) => {
                    assert!(
                        growth(&fleet, policy) < 0.7,
                        "{policy} at {load}: {} {}",
                        growth(&fleet, policy),
                        found.why
                    );
                    stable += 1;
                }
                Some(false) => {
                    assert!(
                        growth(&fleet, policy) > 1.3,
                        "{policy} at {load}: {} {}",
                        growth(&fleet, policy),
                        found.why
                    );
                    unstable += 1;
                }
                None => assert!(["jiq", "jfiq"].contains(&policy.to_string().as_str()), "{policy}: {}", found.why),
            }
        }
    }
    assert!(stable >= 15 && unstable >= 10, "both answers occur: {stable} and {unstable}");
}

#[test]
fn idle_queue_policies_are_known_only_below_randoms_limit_and_above_the_fleets() {
    let build = || Build::servers(&[1.0, 0.2]).job_type_on_all(0.3, 1.0);
    let answers = |factor: f64| of(&build().scale_arrivals(factor).done(), "jfiq").stable;
    // Half of the jobs to the slow server: random is stable up to 0.4, the fleet up to 1.2 jobs per second.
    assert_eq!(answers(1.3), Some(true));
    assert_eq!(answers(2.0), None);
    assert_eq!(answers(4.1), Some(false));
}

#[test]
fn a_large_sampled_graph_gets_a_bracket_that_holds_the_exact_value() {
    // On a complete graph the least set of k servers is the k slowest: s_d = min_k c(k slowest) / (Lambda P(k)).
    for d in [4, 20] {
        let rates: Vec<f64> = (0..120_u32).map(|i| 0.3 + f64::from(i) / 120.0).collect();
        let fleet = Build::servers(&rates).job_type_on_all(50.0, 1.0).done();
        let found = of(&fleet, &format!("jsq({d})"));
        let (mut least, mut slowest) = (f64::INFINITY, 0.0);
        for k in 1..=120_u32 {
            slowest += rates[k as usize - 1];
            let inside = |i: u32| f64::from(k.saturating_sub(i)) / f64::from(120 - i);
            let whole: f64 = (0..d).map(inside).product();
            least = f64::min(least, slowest / (50.0 * whole));
        }
        assert!(found.stable_below <= least * (1.0 + 1e-12), "{d}: {found:?} {least}");
        assert!(found.unstable_above >= least * (1.0 - 1e-12), "{d}: {found:?} {least}");
        assert!(found.unstable_above <= found.stable_below * 1.02, "{d}: {found:?} {least}");
    }
}

#[test]
fn no_policy_is_stable_beyond_the_load_factor_nor_at_it() {
    let build = || Build::servers(&[1.0, 1.0]).job_type(1.0, 1.0, &[0]).job_type(0.5, 1.0, &[0, 1]);
    let all = PolicySpec::parse_list("random,jsq,jfsq,jiq,jfiq,jsq(2),jfsq(2),jsq(1,1),sed,nq,split,central").unwrap();
    for factor in [1.0, 1.5] {
        for found in by_policy(&build().scale_arrivals(factor).done(), &all).unwrap() {
            assert_eq!(found.stable, Some(false), "{}: {}", found.policy, found.why);
            let expected = if factor > 1.0 {
                "brings more work than `s0-0` can do"
            } else {
                "brings all the work that `s0-0` can do"
            };
            assert!(found.why.contains(&format!("`j-0` {expected}")), "{}", found.why);
            assert!(!found.why.contains("1.000"), "{}", found.why);
        }
    }
    let orphan = Build::servers(&[1.0]).job_type(0.1, 1.0, &[0]).job_type(0.1, 1.0, &[]).done();
    for found in by_policy(&orphan, &all).unwrap() {
        assert_eq!(found.stable, Some(false));
        assert!(found.why.contains("`j-1` brings work, and no server holds it"), "{}", found.why);
    }
}

#[test]
fn where_service_rates_depend_on_the_job_type_only_blind_policies_are_known() {
    let fleet = Build::servers(&[1.0, 2.0]).job_type_on_all(0.4, 1.0).job_type_on_all(0.4, 1.0).rate(0, 0, 3.0).done();
    let known = |policy: &str| of(&fleet, policy).stable;
    assert_eq!([known("random"), known("split")], [Some(true); 2]);
    for policy in ["jsq", "jfsq", "sed", "nq", "jiq", "jsq(2)", "jsq(1,1)", "central"] {
        assert_eq!(known(policy), None, "{policy}");
    }
    // Sizes differ, but not the proportions of the servers' speeds.
    let sizes = Build::servers(&[1.0, 2.0]).job_type_on_all(0.4, 1.0).job_type_on_all(0.4, 2.0).done();
    assert_eq!(of(&sizes, "central").stable, Some(true));
    assert_eq!(of(&sizes, "jsq").stable, None);
}

#[test]
fn what_the_conditions_do_not_cover_is_named() {
    let build = || Build::servers(&[1.0, 1.0]).job_type_on_all(0.5, 1.0);
    let why = |build: Build, policy: &str| {
        let found = of(&build.done(), policy);
        assert_eq!(found.stable, None, "{policy}: {}", found.why);
        found.why
    };
    assert!(why(build().settings(|s| s.information.gateways = 2), "jsq").contains("own jobs"));
    assert!(why(build().settings(|s| s.information.delay_s = 1.0), "sed").contains("old counts"));
    assert!(why(build().settings(|s| s.arrivals = Arrivals::Trace), "random").contains("[arrivals]"));
    let event = |at_s, up| FailureEvent { at_s, server: 1, up };
    let listed = |events: &[FailureEvent]| build().settings(|s| s.failures = Some(Failures::Events(events.to_vec())));
    let random = Failures::Random { mean_up_s: 9.0, mean_down_s: 1.0 };
    for failing in [listed(&[event(1.0, false)]), build().settings(|s| s.failures = Some(random))] {
        assert!(why(failing, "jsq").contains("servers fail"));
    }
    for all_up in [listed(&[]), listed(&[event(1.0, false), event(2.0, true)])] {
        assert_eq!(of(&all_up.done(), "jsq").stable, Some(true));
    }
    let wait = |b: Build| b.buffer(2).settings(|s| s.overflow = Overflow::Wait);
    assert!(why(wait(build()), "random").contains("idle"));
    assert_eq!(of(&wait(build()).done(), "jsq").stable, Some(true));
    assert_eq!(of(&build().settings(|s| s.information.gateways = 2).done(), "random").stable, Some(true));
}

#[test]
fn for_sizes_that_are_not_exponential_the_reason_names_what_is_proved_and_unstable_stays_unstable() {
    let fleet = |law: SizeLaw, arrivals: f64| {
        let build = Build::servers(&[1.0, 0.2]).job_type_on_all(arrivals, 1.0);
        build.settings(|s| s.service.law = law).done()
    };
    for policy in ["jsq", "jfsq", "sed", "nq", "central", "split", "jsq(2)", "random"] {
        for law in [SizeLaw::Deterministic, SizeLaw::Hyperexponential { cv2: 9.0 }] {
            let found = of(&fleet(law, 0.3), policy);
            assert!(found.why.starts_with("for Poisson arrivals and exponential sizes: "), "{policy}: {}", found.why);
            let overloaded = of(&fleet(law, 1.5), policy);
            assert_eq!(overloaded.stable, Some(false));
            assert!(!overloaded.why.contains("exponential"), "no law does more than its rate: {}", overloaded.why);
        }
        assert!(!of(&fleet(SizeLaw::Exponential, 0.3), policy).why.contains("exponential"), "{policy}");
    }
    let renewal =
        Build::servers(&[1.0]).job_type_on_all(0.3, 1.0).settings(|s| s.arrivals = Arrivals::Renewal { cv2: 4.0 });
    assert!(of(&renewal.done(), "jsq").why.starts_with("for Poisson arrivals"));
}

#[test]
fn at_exactly_all_that_a_server_has_nothing_is_said_to_be_more() {
    // `random` sends half to each: 0.5 for a server of rate 0.5, 0.55 for one of rate 0.5.
    let of_load = |load: f64| of(&Build::servers(&[1.5, 0.5]).job_type_on_all(load, 1.0).done(), "random");
    let exact = of_load(1.0);
    assert_eq!(exact.stable, Some(false));
    assert!(exact.why.contains("busy 1.000 of the time, all that it has"), "{}", exact.why);
    assert!(of_load(1.1).why.contains("busy 1.100 of the time, more than it has"));
    assert!(!of_load(0.9).why.contains("it has"));
    let sampled = of(&Build::servers(&[1.5, 0.5]).job_type_on_all(1.0, 1.0).done(), "jsq(1)");
    assert!(sampled.why.contains("are all that these can serve, and nothing is to spare"), "{}", sampled.why);
}
