//! Special cases with closed forms, monotonicity, degenerate fleets, refusals, and what is said when nothing is known.

use shortline_core::Fleet;
use shortline_core::fleet::settings::{Arrivals, Discipline, FailureEvent, Failures, Overflow, SizeLaw};
use shortline_core::policy::PolicySpec;
use shortline_theory::guarantee::{
    Analysis, Cause, Guarantee, Mend, NotApplicable, PolicyClass, Profile, Theorem, evaluate,
};

use super::{complete, one_speed, three_speeds};
use crate::fleets::Build;

const CLASS: PolicyClass = PolicyClass::FastestIdle;
const JFSQ: PolicyClass = PolicyClass::JoinFastestShortest;

/// Erlang's B: `c` servers, `a` = arrivals over the rate of one.
fn erlang_b(c: u32, a: f64) -> f64 {
    (1..=c).fold(1.0, |b, j| a * b / (f64::from(j) + a * b))
}

/// Erlang's C.
fn erlang_c(c: u32, a: f64) -> f64 {
    let b = erlang_b(c, a);
    b / (1.0 - a / f64::from(c) * (1.0 - b))
}

fn near(a: f64, b: f64, tolerance: f64) -> bool {
    (a - b).abs() <= tolerance * a.abs().max(b.abs())
}

#[test]
fn without_waiting_places_the_blocking_bound_is_erlangs_formula() {
    for (n, load) in [(1, 0.3), (1, 2.0), (2, 0.5), (10, 0.8), (10, 1.5), (100, 0.9), (1_000, 0.7), (1_000, 1.1)] {
        let analysis = Analysis::new(&one_speed(n, load, 1), CLASS, &complete).unwrap();
        let erlang = erlang_b(n, load * f64::from(n));
        assert!(
            near(analysis.blocking_probability(), erlang, 1e-9),
            "{n} {load}: {} {erlang}",
            analysis.blocking_probability()
        );
        assert!(near(analysis.jobs().mean_response_s, 1.0, 1e-9), "{n} {load}: nobody waits");
    }
}

#[test]
fn with_waiting_places_the_share_that_waits_is_erlangs_formula() {
    for (n, load) in [(1, 0.3), (2, 0.5), (10, 0.8), (100, 0.9), (1_000, 0.9)] {
        let analysis = Analysis::new(&one_speed(n, load, 5), CLASS, &complete).unwrap();
        let erlang = erlang_c(n, load * f64::from(n));
        assert!(near(analysis.chi(), erlang, 1e-8), "{n} {load}: {} {erlang}", analysis.chi());
    }
    let analysis = Analysis::new(&one_speed(100, 0.9, 5), CLASS, &complete).unwrap();
    assert!((analysis.chi() - 0.217).abs() < 5e-4);
}

/// Chi, mean jobs, mean response time.
fn numbers(fleet: &Fleet, class: PolicyClass, profile: Profile<'_>) -> [f64; 4] {
    let analysis = Analysis::new(fleet, class, profile).expect("the fleet is in scope");
    [analysis.chi(), analysis.blocking_probability(), analysis.jobs().mean_jobs, analysis.jobs().mean_response_s]
}

#[test]
fn more_load_and_worse_connectivity_never_make_the_bounds_better() {
    // The choices that are tried (idle rates, e, theta) are a handful: hence the tolerance. Shares below 1e-9 are not improved.
    let is_less = |(less, more): (&f64, &f64)| *less <= more * 1.005 + 1e-9;
    let not_better = |less: &[f64], more: &[f64]| less.iter().zip(more).all(is_less);
    for class in [CLASS, JFSQ] {
        let at = |load: f64, profile: Profile<'_>| numbers(&three_speeds(256, load, 4), class, profile);
        let mut last = [0.0; 4];
        for hundredths in (5..=140).step_by(5) {
            let found = at(f64::from(hundredths) / 100.0, &complete);
            // Response times need not grow: fast servers idle less.
            assert!(not_better(&last[..3], &found[..3]), "{class:?} load {hundredths}: {last:?} {found:?}");
            last = found;
        }
        for load in [0.5, 0.8, 0.95] {
            let mut last = [0.0; 4];
            for decay in [1.0, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0] {
                let found = at(load, &|_, i| (-decay * i as f64).exp());
                assert!(not_better(&last, &found), "{class:?} load {load} decay {decay}: {last:?} {found:?}");
                last = found;
            }
        }
        let mut last = [f64::INFINITY; 4];
        for n in [16, 32, 64, 128, 256, 512, 1_024, 2_048] {
            let [chi, blocking, jobs, response] = numbers(&three_speeds(n, 0.8, 4), class, &complete);
            let found = [chi, blocking, jobs / f64::from(n), response];
            assert!(not_better(&found, &last), "{class:?} n {n}: {last:?} {found:?}");
            last = found;
        }
    }
}

#[test]
fn knowing_that_the_policy_is_jfsq_never_hurts() {
    for (n, load) in [(8, 0.5), (64, 0.7), (64, 1.2), (256, 0.9), (512, 0.99)] {
        for decay in [0.01, 0.1, 1.0] {
            let profile = |_: usize, i: usize| (-decay * i as f64).exp();
            let fleet = three_speeds(n, load, 5);
            let (class, jfsq) = (numbers(&fleet, CLASS, &profile), numbers(&fleet, JFSQ, &profile));
            assert!(
                class.iter().zip(&jfsq).all(|(class, jfsq)| jfsq <= class),
                "{n} {load} {decay}: {class:?} {jfsq:?}"
            );
        }
    }
}

/// No NaN, and a bound where there is one.
fn is_sound(guarantee: &Guarantee) -> bool {
    let blocking = guarantee.blocking.as_ref().map_or_else(
        |why| why.value >= why.trivial,
        |bound| (0.0..1.0).contains(&bound.probability) || bound.probability < 1.0,
    );
    let jobs = guarantee.jobs.as_ref().map_or_else(
        |why| why.value >= why.trivial,
        |bound| bound.mean_jobs.is_finite() && bound.mean_response_s > 0.0 && bound.mean_response_s.is_finite(),
    );
    blocking && jobs && (0.0..=1.0).contains(&guarantee.chi)
}

#[test]
fn degenerate_fleets_have_an_answer() {
    let none = |_: usize, _: usize| 1.0;
    let no_number = |_: usize, _: usize| f64::NAN;
    let profiles: [(&str, Profile<'_>); 3] = [("complete", &complete), ("1 everywhere", &none), ("NaN", &no_number)];
    let boundary = |load: f64| Build::servers(&[2.0, 1.0, 1.0, 0.5]).buffer(3).job_type_on_all(load, 1.0);
    let fleets = [
        ("one server", one_speed(1, 0.5, 2)),
        ("one server, no waiting place", one_speed(1, 0.5, 1)),
        ("one server, overloaded", one_speed(1, 3.0, 2)),
        ("critical", one_speed(4, 1.0, 2)),
        ("load at a boundary", boundary(2.0).done()),
        ("load at the next boundary", boundary(4.0).done()),
        ("load just above", boundary(4.0 + 1e-12).done()),
        ("K = M", boundary(4.4).done()),
        ("overloaded", boundary(9.0).done()),
        ("tiny load", boundary(1e-200).done()),
        ("huge load", boundary(1e200).done()),
        ("types that do not arrive", boundary(1.0).job_type_on_all(0.0, 1.0).job_type(0.0, 1.0, &[3]).done()),
        ("a type on no server", boundary(1.0).job_type(0.5, 1.0, &[]).done()),
        ("speeds far apart", Build::servers(&[1e12, 1.0, 1e-12]).buffer(3).job_type_on_all(1e12, 1.0).done()),
        ("large buffers", Build::servers(&[1.0, 0.5]).buffer(1_000_000).job_type_on_all(0.4, 1.0).done()),
    ];
    for (name, fleet) in &fleets {
        for (kind, profile) in profiles {
            for policy in [PolicySpec::Jfsq, PolicySpec::Jfiq] {
                let guarantee = evaluate(fleet, policy, profile).unwrap();
                assert!(is_sound(&guarantee), "{name}, {kind}, {policy}: {guarantee:?}");
                let says_nothing = kind != "complete" && (guarantee.blocking.is_ok() || guarantee.chi < 1.0);
                assert!(!says_nothing, "{name}, {kind}, {policy}: {guarantee:?}");
                let texts = [guarantee.blocking.err(), guarantee.jobs.err()].map(|why| why.map(|why| why.to_string()));
                assert!(texts.iter().flatten().all(|text| !text.contains("NaN")), "{name}, {kind}: {texts:?}");
            }
        }
    }
}

#[test]
fn job_types_on_no_server_are_blocked_and_the_others_keep_their_guarantee() {
    let fleet = |orphans: f64| {
        let build = Build::servers(&[]).class(200, 1.0, 1).buffer(3).job_type_on_all(120.0, 1.0);
        build.job_type(orphans, 1.0, &[]).done()
    };
    // With 40 of 160 arrivals on no server, delta is 1/4 for every set.
    let with = evaluate(&fleet(40.0), PolicySpec::Jfsq, &|_, i| if i == 0 { 1.0 } else { 0.25 }).unwrap();
    let without = evaluate(&fleet(0.0), PolicySpec::Jfsq, &complete).unwrap();
    assert!(near(with.jobs.unwrap().mean_response_s, without.jobs.unwrap().mean_response_s, 1e-12));
    assert!(near(with.blocking.unwrap().probability, 0.25 + 0.75 * without.blocking.unwrap().probability, 1e-12));
}

#[test]
fn longer_buffers_somewhere_do_not_shorten_the_waits() {
    let fleet = |buffer: u32| {
        let mut build = Build::servers(&[]).class(64, 1.0, 1).class(1, 0.9, 1).buffer(2);
        build.parts.servers[1].buffer = Some(buffer);
        build.job_type_on_all(58.0, 1.0).done()
    };
    for class in [CLASS, JFSQ] {
        let [short, long] = [2, 20].map(|buffer| Analysis::new(&fleet(buffer), class, &complete).unwrap());
        assert!(long.mean_waiting() >= short.mean_waiting() * (1.0 - 1e-9), "{class:?}");
    }
    let [short, long] = [2, 20].map(|buffer| Analysis::new(&fleet(buffer), CLASS, &complete).unwrap());
    // The class knows only that a waiting job is behind at most b - 1 others.
    assert!(near(long.mean_waiting() / short.mean_waiting(), 19.0, 1e-9));
}

#[test]
fn what_says_nothing_names_the_load_the_size_and_the_connectivity_that_would_do() {
    let small = evaluate(&three_speeds(64, 0.95, 5), PolicySpec::Jfiq, &complete).unwrap();
    assert!(small.is_vacuous());
    let why = small.jobs.unwrap_err();
    assert_eq!(why.cause, Cause::Waiting);
    let [Mend::Load(load), Mend::Servers(servers)] = why.mends[..] else { panic!("{:?}", why.mends) };
    assert!(evaluate(&three_speeds(64, load, 5), PolicySpec::Jfiq, &complete).unwrap().jobs.is_ok());
    assert!(evaluate(&three_speeds(64, load + 0.02, 5), PolicySpec::Jfiq, &complete).unwrap().jobs.is_err());
    let servers = u32::try_from(servers).unwrap();
    assert!(evaluate(&three_speeds(servers, 0.95, 5), PolicySpec::Jfiq, &complete).unwrap().jobs.is_ok());
    assert!(evaluate(&three_speeds(servers / 2, 0.95, 5), PolicySpec::Jfiq, &complete).unwrap().jobs.is_err());

    let sparse = |factor: f64| move |_: usize, i: usize| if i == 0 { 1.0 } else { factor * 0.3 };
    let fleet = three_speeds(512, 0.9, 5);
    let why = evaluate(&fleet, PolicySpec::Jfiq, &sparse(1.0)).unwrap().jobs.unwrap_err();
    assert_eq!(why.cause, Cause::Connectivity);
    let mend =
        why.mends.iter().find_map(|mend| if let Mend::Connectivity(factor) = mend { Some(*factor) } else { None });
    assert!(evaluate(&fleet, PolicySpec::Jfiq, &sparse(mend.unwrap())).unwrap().jobs.is_ok());
    assert!(why.to_string().starts_with("vacuous at this size"), "{why}");

    let why = evaluate(&three_speeds(512, 1.2, 5), PolicySpec::Jfsq, &complete).unwrap().jobs.unwrap_err();
    assert_eq!(why.cause, Cause::Overloaded);
    assert!(matches!(why.mends[..], [Mend::Load(load)] if load > 0.9 && load < 1.0), "{why}");
}

#[test]
fn the_theorem_behind_a_blocking_bound_is_named() {
    let bound = |policy| evaluate(&three_speeds(1_024, 0.9, 5), policy, &complete).unwrap().blocking.unwrap();
    assert_eq!(bound(PolicySpec::Jfiq).theorem, Theorem::Loss);
    assert_eq!(bound(PolicySpec::Jfsq).theorem, Theorem::DeepQueues);
    assert!(bound(PolicySpec::Jfsq).probability < 1e-3 * bound(PolicySpec::Jfiq).probability);
}

#[test]
fn policies_outside_the_class_have_none() {
    let names = "random,jsq,jiq,jsq(2),jfsq(2),jsq(1,1),sed,split,central";
    let policies = PolicySpec::parse_list(names).unwrap();
    for &policy in &policies {
        let refused = evaluate(&three_speeds(64, 0.5, 5), policy, &complete);
        assert!(matches!(refused, Err(NotApplicable::Policy { .. })), "{policy}");
    }
    for policy in [PolicySpec::Jsq, PolicySpec::Jiq, PolicySpec::Sed, PolicySpec::Nq] {
        assert!(evaluate(&one_speed(64, 0.5, 5), policy, &complete).is_ok(), "{policy} on servers of one speed");
    }
    let refused = evaluate(&one_speed(64, 0.5, 5), PolicySpec::Random, &complete).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "policy `random` may pass over the fastest idle server; a guarantee is known for jfsq, jfiq and nq, and for jsq, jiq and sed on servers of one speed"
    );
}

#[test]
fn fleets_outside_the_scope_have_none_and_say_why() {
    let build = || Build::servers(&[1.0, 0.5]).buffer(3).job_type_on_all(0.5, 1.0);
    let refused = |build: Build| evaluate(&build.done(), PolicySpec::Jfsq, &complete).unwrap_err().to_string();
    let down = FailureEvent { at_s: 1.0, server: 0, up: false };
    let expected = [
        (build().slots(2), "several slots"),
        (Build::servers(&[1.0]).job_type_on_all(0.5, 1.0), "unbounded"),
        (build().settings(|s| s.overflow = Overflow::Wait), "wait in front"),
        (build().settings(|s| s.service.law = SizeLaw::Deterministic), "not exponential"),
        (build().settings(|s| s.arrivals = Arrivals::Renewal { cv2: 2.0 }), "not Poisson"),
        (
            build().settings(|s| s.failures = Some(Failures::Random { mean_up_s: 9.0, mean_down_s: 1.0 })),
            "servers fail",
        ),
        (build().settings(|s| s.failures = Some(Failures::Events(vec![down]))), "servers stay down"),
        (build().settings(|s| s.information.delay_s = 1.0), "old counts"),
        (build().settings(|s| s.information.gateways = 2), "several gateways"),
        (build().job_type_on_all(0.5, 2.0), "depend on the job type"),
        (build().rate(0, 1, 3.0).job_type_on_all(0.1, 1.0), "depend on the job type"),
        (Build::servers(&[1.0]).buffer(2).job_type(0.0, 1.0, &[0]), "arrival rates are 0"),
        (
            Build::servers(&[1.0]).buffer(2).job_type(0.0, 1.0, &[0]).job_type(1.0, 1.0, &[]),
            "no job type that arrives is on a server",
        ),
        (Build::servers(&[1.0]).buffer(2).job_type(1.0, 1.0, &[]), "no server holds any job type"),
    ];
    for (build, why) in expected {
        let text = refused(build);
        assert!(text.contains(why), "{why}: {text}");
    }
    let comes_up = vec![down, FailureEvent { at_s: 2.0, up: true, ..down }];
    let again = build().settings(|s| s.failures = Some(Failures::Events(comes_up))).done();
    assert!(evaluate(&again, PolicySpec::Jfsq, &complete).is_ok(), "in the long run all are up");
    let sharing = build().settings(|s| s.service.discipline = Discipline::ProcessorSharing).done();
    assert!(evaluate(&sharing, PolicySpec::Jfsq, &complete).is_ok(), "the same chain of job counts");
    // A server without a job type does not count: its slots are its own affair.
    let idle = Build::servers(&[1.0, 0.5]).buffer(3).class(1, 1.0, 4).job_type(0.5, 1.0, &[0, 1]).done();
    assert!(evaluate(&idle, PolicySpec::Jfsq, &complete).is_ok());
}

#[test]
fn many_speeds_are_bounded_through_a_selection() {
    let speeds: Vec<f64> = (0..60_u32).map(|i| 1.0 - f64::from(i) / 100.0).collect();
    let fleet = |load: f64| {
        let build = speeds.iter().fold(Build::servers(&[]), |build, &speed| build.class(40, speed, 1));
        let capacity = 40.0 * speeds.iter().sum::<f64>();
        build.buffer(5).job_type_on_all(load * capacity, 1.0).done()
    };
    for load in [0.3, 0.7, 0.9] {
        let analysis = Analysis::new(&fleet(load), JFSQ, &complete).unwrap();
        assert!(analysis.fast_sets().count() < 30);
        let ratio = analysis.jobs().mean_response_s / analysis.fluid_response_s().unwrap();
        assert!((1.0..1.05).contains(&ratio), "load {load}: {ratio}");
    }
}
