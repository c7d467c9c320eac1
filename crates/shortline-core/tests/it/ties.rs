//! Ties are broken uniformly, and samples drawn uniformly, in every form of rows.
//!
//! Goal: each decision comes as often as the rule's law says. Method: 10,000 draws in a state that does not change,
//! Pearson's chi-square statistic against the law, decisions expected fewer than eight times taken together. One test
//! per policy, form of row and state, each at level 1e-6 and with a fixed seed: were the seeds changed, the 136
//! tests together would raise a false alarm with probability below 1.4e-4.

use shortline_core::graph::Row;
use shortline_core::policy::PolicySpec;
use statrs::distribution::{ChiSquared, ContinuousCDF};

use crate::fleets::{Asked, Draft, Scene, policies};

const DRAWS: u64 = 10_000;
const LEVEL: f64 = 1e-6;

/// Three server types in turn; two of them equally fast, so that ties cross types; one with two slots.
fn draft(servers: usize, row: impl Iterator<Item = u32>) -> Draft {
    let types = Draft::default().server_type("fast", 5.0, 1).server_type("wide", 2.0, 2).server_type("slow", 2.0, 1);
    (0..servers).fold(types, |draft, i| draft.server(&format!("s{i}"), i % 3, Some(24))).job_type("j", row)
}

/// A draft for each form of row.
fn rows() -> [(&'static str, Draft); 4] {
    [
        ("list", draft(40, (0..40).filter(|i| i % 3 != 1 || i % 2 == 0))),
        ("long list", draft(2400, (0..70).map(|i| i * 32))),
        ("bits", draft(100, (0..100).filter(|i| i % 8 != 5))),
        ("all", draft(90, 0..90)),
    ]
}

/// All empty; and uneven queues, some full, many tied beyond the depth that bitsets cover, some servers down.
fn states(draft: &Draft) -> [(&'static str, Scene); 2] {
    let n = draft.servers.len() as u64;
    let uneven =
        |i: u64| if i.is_multiple_of(11) { 24 } else { 17 + i / 3 % 2 * (draft.types[i as usize % 3].slots as u64) };
    let scene = |jobs: Vec<u64>, down: Vec<bool>| Scene { draft: draft.clone(), jobs, down };
    [
        ("empty", scene(vec![0; n as usize], vec![false; n as usize])),
        ("uneven", scene((0..n).map(uneven).collect(), (0..n).map(|i| i % 7 == 3).collect())),
    ]
}

/// Probability that a statistic as large as the one seen comes by chance; `None` if the decision is forced.
fn p_value(asked: &Asked) -> Option<f64> {
    let (mut rare_seen, mut rare_expected, mut statistic, mut cells) = (0.0, 0.0, 0.0, 0_u32);
    let mut add = |seen: f64, expected: f64| {
        statistic += (seen - expected).powi(2) / expected;
        cells += 1;
    };
    for (decision, probability) in &asked.law {
        let seen = asked.decisions.get(decision).copied().unwrap_or(0) as f64;
        let expected = probability * asked.draws as f64;
        if expected < 8.0 {
            rare_seen += seen;
            rare_expected += expected;
        } else {
            add(seen, expected);
        }
    }
    if rare_expected >= 1.0 {
        add(rare_seen, rare_expected);
    }
    (cells > 1).then(|| ChiSquared::new(f64::from(cells - 1)).unwrap().sf(statistic))
}

#[test]
fn every_decision_comes_as_often_as_the_rule_says() {
    let mut forced = Vec::new();
    for (form, draft) in rows() {
        for (state, scene) in states(&draft) {
            for policy in policies() {
                let asked = &scene.ask(policy, 7, |_| DRAWS)[0];
                let at = format!("{policy}, {form}, {state}");
                assert!(asked.decisions.keys().all(|r| asked.law.contains_key(r)), "{at}: {asked:?}");
                match p_value(asked) {
                    Some(p) => assert!(p > LEVEL, "{at}: p = {p:e}\n{asked:?}"),
                    None => forced.push(format!("{policy}, {state}")),
                }
            }
        }
    }
    forced.dedup();
    assert_eq!(forced, ["central, uneven"], "all other states leave a choice, and are tested");
}

#[test]
fn the_test_sees_a_choice_that_is_off_by_a_tenth() {
    let (_, draft) = &rows()[3];
    let mut asked = states(draft)[0].1.ask(PolicySpec::Random, 7, |_| DRAWS).remove(0);
    let shift = |r: &Option<shortline_core::ServerId>| if r.unwrap().index().is_multiple_of(2) { 1.1 } else { 0.9 };
    asked.decisions.iter_mut().for_each(|(r, n)| *n = (*n as f64 * shift(r)).round() as u64);
    assert!(p_value(&asked).unwrap() < LEVEL);
}

#[test]
fn the_fleets_have_the_forms_of_row_they_are_named_for() {
    let forms = rows().map(|(_, draft)| match draft.build().graph().row(0) {
        Row::All => "all",
        Row::Bits(_) => "bits",
        Row::List(set) if set.servers.len() > 64 => "long list",
        Row::List(_) => "list",
    });
    assert_eq!(forms, rows().map(|(form, _)| form));
}
