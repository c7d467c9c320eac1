//! Only comparisons: JFSQ and JFIQ need the order of the speeds, SED and NQ need their values.
//!
//! \[W\]: JFSQ and JFIQ compare speeds and nothing else. So they decide the same, job by job, whatever speeds are declared to
//! them, if only the order is right; each run here is made twice from one seed, on the true and on the declared speeds, and the
//! two reports are compared to the byte. SED weighs jobs against rates, `(jobs + 1) / rate`, and NQ does so where nobody is idle:
//! they decide otherwise, and wrong rates can cost.
//!
//! A common factor changes nothing for SED either: it is a change of units. Of the eight patterns of rates 30 % too high or too
//! low, six are none.

use std::fmt;

use shortline_core::fleet::Speed;
use shortline_core::policy::PolicySpec;
use shortline_sim::{PerType, PolicyReport};

use super::experiment::{About, Context, Experiment, Findings, Point, Scale};
use super::figure::{Axis, Figure, Panel, Series};
use super::judge::{all, at_least, at_most};
use super::measure::{Precision, simulation};
use super::number::{Data, Found, Number};
use super::optimality_in_n::SPEED_AWARE;
use super::papers::{Design, Setting, Speeds};
use super::table::{Cell, Table};
use super::verdict::Verdict;
use crate::failure::Failure;

/// The experiment.
pub(crate) struct OrderOnly;

/// Those that need the values.
const BY_VALUE: [PolicySpec; 2] = [PolicySpec::Sed, PolicySpec::Nq];
/// The load at which wrong rates are to cost.
const LOAD: f64 = 0.9;
/// What they are to cost at least, in the worst pattern, as a ratio.
const COST: f64 = 1.01;
/// How wrong.
const WRONG: f64 = 0.3;

/// What is declared instead of the true rates 1, 1/2, 1/4. All keep the order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Declared {
    /// 1, 1/4, 1/16.
    Squares,
    /// 1, 0.999, 0.998.
    NearlyEqual,
    /// 1, 1/1000, 1/1,000,000.
    FarApart,
    /// Which is faster, and nothing else.
    Ranks,
    /// 30 % too high where true, else too low; by class, fastest first.
    Wrong([bool; 3]),
}

impl Declared {
    fn speed(self, class: usize, rate: f64) -> Speed {
        let power = |base: f64| (0..class).map(|_| base).product::<f64>();
        match self {
            Self::Squares => Speed::Rate(rate * rate),
            Self::NearlyEqual => Speed::Rate(1.0 - 0.001 * class as f64),
            Self::FarApart => Speed::Rate(power(0.001)),
            Self::Ranks => Speed::Rank(class as u32 + 1),
            Self::Wrong(high) => Speed::Rate(rate * if high[class] { 1.0 + WRONG } else { 1.0 - WRONG }),
        }
    }
}

impl fmt::Display for Declared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Squares => f.write_str("squares"),
            Self::NearlyEqual => f.write_str("nearly-equal"),
            Self::FarApart => f.write_str("far-apart"),
            Self::Ranks => f.write_str("ranks"),
            Self::Wrong(high) => high.iter().try_for_each(|&high| f.write_str(if high { "+" } else { "-" })),
        }
    }
}

/// The patterns of rates 30 % too high or too low; without those that are a change of units.
fn wrong(scale: Scale) -> Vec<Declared> {
    let patterns = [
        [true, false, false],
        [true, true, false],
        [true, false, true],
        [false, true, false],
        [false, false, true],
        [false, true, true],
    ];
    let kept = scale.pick(&patterns[..2], &patterns[..]);
    kept.iter().map(|&high| Declared::Wrong(high)).collect()
}

fn declared(scale: Scale, policy: PolicySpec) -> Vec<Declared> {
    let changes =
        scale.pick(vec![Declared::NearlyEqual], vec![Declared::Squares, Declared::NearlyEqual, Declared::FarApart]);
    let ranks = SPEED_AWARE.contains(&policy).then_some(Declared::Ranks);
    changes.into_iter().chain(ranks).chain(wrong(scale)).collect()
}

fn policies() -> impl Iterator<Item = PolicySpec> + Clone {
    SPEED_AWARE.into_iter().chain(BY_VALUE)
}

fn loads(scale: Scale) -> Vec<f64> {
    scale.pick(vec![LOAD], vec![0.7, LOAD, 0.95])
}

/// Few servers per job type, so that jobs wait and the values of the speeds matter.
fn setting(load: f64) -> Setting {
    let (speeds, design) = (Speeds::ThreeAllNeeded, Design::Degree(4));
    Setting { speeds, design, load_first_k: load, ..Setting::papers(64) }
}

fn key(load: f64, policy: PolicySpec, declared: Declared) -> String {
    format!("{} {policy} declared={declared}", setting(load))
}

fn cases(scale: Scale) -> Vec<(f64, PolicySpec, Declared)> {
    let of = move |load: f64| {
        policies().flat_map(move |policy| declared(scale, policy).into_iter().map(move |d| (load, policy, d)))
    };
    loads(scale).into_iter().flat_map(of).collect()
}

/// Both runs: `differs` is 0 if their reports are the same to the byte, else 1.
fn compared(
    load: f64,
    policy: PolicySpec,
    declared: Declared,
    precision: Precision,
    context: &Context<'_>,
) -> Result<Found, Failure> {
    let (fleet, seen) = (
        setting(load).fleet(context.seed)?,
        setting(load).declared(context.seed, |class, rate| declared.speed(class, rate))?,
    );
    let simulation = simulation(&fleet, precision, context).per_type(PerType::All).lump(false);
    let report = simulation.policy_seeing(policy, &seen).policy(policy).run_observed(context).map_err(Failure::run)?;
    let [on_declared, on_true] = &report.policies[..] else { unreachable!("two policies were asked for") };
    let mut found = Found::default();
    let text = |policy: &PolicyReport| serde_json::to_string(&(&policy.means, policy.events)).map_err(Failure::run);
    if let (Some(declared), Some(truth)) = (&on_declared.means, &on_true.means) {
        let differs = text(on_declared)? != text(on_true)?;
        found.set("differs", Some(Number::exact(f64::from(u8::from(differs)))));
        found.set("declared_response_s", declared.mean_response_s.map(Number::from));
        found.set("true_response_s", truth.mean_response_s.map(Number::from));
        let ratio = report.differences.first().and_then(|difference| difference.mean_response_ratio);
        found.set("cost", ratio.map(Number::from));
    } else {
        found.note = on_declared.why.clone().or(on_true.why.clone());
    }
    Ok(found)
}

impl Experiment for OrderOnly {
    fn about(&self) -> About {
        About {
            name: "order-only",
            title: "Only the order of the speeds",
            claim: "[W] JFSQ and JFIQ only compare speeds: any declared speeds in the right order give the same decisions. Not so SED and NQ: rates that are 30 % wrong cost response time.",
            version: 1,
            quick_s: 2,
            full_min: 6,
        }
    }

    fn setting(&self, scale: Scale) -> String {
        format!(
            "64 servers of three speeds (1, 1/2, 1/4 in shares 1/8, 3/8, 1/2), as many job types with equal arrival rates, each on 4 random servers: few, so that jobs wait and the values of the speeds matter. Buffers of 5, exponential sizes, load {} of the whole fleet. The jobs are served at the true speeds; the policy sees others, in the same order: {}; only their ranks (JFSQ and JFIQ); rates that are 30 % too high (+) or too low (-), by class, fastest first: {}. Each run is made twice from one seed, on the declared and on the true speeds, on the same arrivals and the same potential completions.\n\nThe worst of {} patterns is judged; where none cost anything, chance would put it above 1 more often than one pattern, so that the line is not 1 but {COST}. In a fleet where every job finds an idle server NQ never looks at values, and wrong rates cost it nothing.",
            loads(scale).iter().map(f64::to_string).collect::<Vec<_>>().join(", "),
            scale.pick(
                "0.999 and 0.998 beside 1",
                "their squares; 0.999 and 0.998 beside 1; 1/1000 and 1/1,000,000 beside 1"
            ),
            wrong(scale).iter().map(|d| format!("`{d}`")).collect::<Vec<_>>().join(", "),
            wrong(scale).len(),
        )
    }

    fn points(&self, scale: Scale) -> Vec<Point> {
        let precision =
            Precision { relative_error: scale.pick(0.02, 0.002), most_events: scale.pick(3_000_000, 200_000_000) };
        let point = |(load, policy, declared): (f64, PolicySpec, Declared)| {
            Point::new(key(load, policy, declared), 1.0 / (1.05 - load), move |context| {
                compared(load, policy, declared, precision, context)
            })
        };
        cases(scale).into_iter().map(point).collect()
    }

    fn findings(&self, scale: Scale, data: &Data) -> Findings {
        Findings {
            verdicts: verdicts(scale, data),
            figures: vec![figure(scale, data)],
            tables: vec![table(scale, data)],
        }
    }
}

fn verdicts(scale: Scale, data: &Data) -> Vec<Verdict> {
    let number = |(load, policy, declared): (f64, PolicySpec, Declared), name: &str| {
        data.number(&key(load, policy, declared), name)
    };
    let named = |(load, policy, declared): (f64, PolicySpec, Declared)| format!("{policy}, load {load}, {declared}");
    let of =
        |policies: [PolicySpec; 2]| cases(scale).into_iter().filter(move |(_, policy, _)| policies.contains(policy));
    let worst = |policy: PolicySpec| {
        let patterns = wrong(scale).into_iter().map(|declared| (LOAD, policy, declared));
        let costs = patterns.map(|case| (case, number(case, "cost")));
        let (case, cost) = costs.max_by(|(_, a), (_, b)| {
            let mean = |cost: &Option<Number>| cost.map_or(f64::INFINITY, |cost| cost.mean);
            mean(a).total_cmp(&mean(b))
        })?;
        Some(at_least(cost, COST).of(named(case)))
    };
    vec![
        Verdict::new(
            "Under JFSQ and JFIQ the reports on declared and true speeds are the same to the byte, whatever is declared in the right order.",
            all(of(SPEED_AWARE).map(|case| at_most(number(case, "differs"), 0.0).of(named(case)))),
        ),
        Verdict::new(
            "Under SED and NQ they differ, whatever is declared.",
            all(of(BY_VALUE).map(|case| at_least(number(case, "differs"), 1.0).of(named(case)))),
        ),
        Verdict::new(
            format!(
                "Rates that are 30 % wrong cost SED and NQ response time: a ratio of at least {COST} in the worst pattern at load {LOAD}."
            ),
            all(BY_VALUE.into_iter().filter_map(worst)),
        ),
    ]
}

/// How often wrong rates help: SED's index is not optimal, and some errors lead it the right way.
fn faster(scale: Scale, data: &Data) -> String {
    let at = |load: f64| {
        BY_VALUE.into_iter().flat_map(move |policy| wrong(scale).into_iter().map(move |d| key(load, policy, d)))
    };
    let counted = |load: f64| {
        let helps = at(load).filter(|key| data.number(key, "cost").is_some_and(|cost| cost.high < 1.0)).count();
        format!("{helps} of {} at load {load}", at(load).count())
    };
    let counts: Vec<String> = loads(scale).into_iter().map(counted).collect();
    format!(
        " Below the line wrong rates make a policy faster, of SED's and NQ's points {}: the values that SED goes by are an estimate of the delay, not the best index. The claim is about the worst.",
        counts.join(", ")
    )
}

fn figure(scale: Scale, data: &Data) -> Figure {
    let patterns = wrong(scale);
    let place = |i: usize| i as f64 + 1.0;
    let series = |load: f64, policy: PolicySpec| Series {
        label: policy.to_string(),
        points: patterns
            .iter()
            .enumerate()
            .map(|(i, &d)| (place(i), data.number(&key(load, policy, d), "cost")))
            .collect(),
    };
    let panel = |load: f64| Panel {
        title: format!("load {load}"),
        series: policies().map(|policy| series(load, policy)).collect(),
    };
    Figure {
        name: "cost",
        title: "What rates that are 30 % wrong cost".into(),
        caption: "Mean response time on declared speeds over that on the true ones, on the same arrivals; JFSQ and JFIQ lie on the line, all on one marker.".to_owned() + &faster(scale, data),
        x: Axis {
            ticks: patterns.iter().enumerate().map(|(i, d)| (place(i), d.to_string())).collect(),
            ..Axis::linear("declared rates, 30 % too high (+) or low (-), fastest class first")
        },
        y: Axis::linear("response, declared / true speeds"),
        bound: Some((1.0, "true speeds".to_owned())),
        panels: loads(scale).into_iter().map(panel).collect(),
    }
}

fn table(scale: Scale, data: &Data) -> Table {
    const NUMBERS: [&str; 4] = ["differs", "declared_response_s", "true_response_s", "cost"];
    let row = |(load, policy, declared): (f64, PolicySpec, Declared)| -> Vec<Cell> {
        let numbers = NUMBERS.map(|name| Cell::from(data.number(&key(load, policy, declared), name)));
        [load.into(), policy.to_string().into(), declared.to_string().into()].into_iter().chain(numbers).collect()
    };
    Table {
        name: "points",
        caption: "All points; `differs` is 0 where both reports are the same to the byte, `cost` the ratio of the response times, declared over true.".into(),
        columns: ["load", "policy", "declared"].into_iter().chain(NUMBERS).map(str::to_owned).collect(),
        rows: cases(scale).into_iter().map(row).collect(),
        on_page: true,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::reproduce::made_data::{self, around, found};
    use crate::reproduce::verdict::Answer::{self, DoesNotHold, Holds, Inconclusive};

    /// JFSQ and JFIQ that differ or not; the cost of wrong rates to the others.
    fn answers(differs: f64, cost: f64, half_width: f64) -> (Answer, Vec<Answer>) {
        let point = |(load, policy, declared): (f64, PolicySpec, Declared)| {
            let (differs, cost) = if SPEED_AWARE.contains(&policy) {
                (differs, Number::exact(1.0))
            } else {
                (1.0, around(cost, half_width))
            };
            (key(load, policy, declared), found([("differs", Number::exact(differs)), ("cost", cost)]))
        };
        made_data::answers(&OrderOnly, cases(Scale::Quick).into_iter().map(point))
    }

    #[test]
    fn the_verdict_gives_each_of_the_three_answers() {
        assert_eq!(answers(0.0, 1.05, 0.01), (Holds, vec![Holds; 3]));
        assert_eq!(answers(0.0, 1.05, 0.1), (Inconclusive, vec![Holds, Holds, Inconclusive]));
        assert_eq!(answers(0.0, 1.0, 0.001), (DoesNotHold, vec![Holds, Holds, DoesNotHold]));
        assert_eq!(answers(1.0, 1.05, 0.01), (DoesNotHold, vec![DoesNotHold, Holds, Holds]));
    }

    /// Goal: a report that differs is seen to differ. Method: two short runs from one seed; no chance in it.
    #[test]
    fn the_same_decisions_are_told_from_others() {
        let stop = AtomicBool::new(false);
        let context = Context { seed: 1, own_seed: 1, stop: &stop };
        let precision = Precision { relative_error: 0.1, most_events: 400_000 };
        let differs = |policy, declared| {
            let found = compared(LOAD, policy, declared, precision, &context).unwrap();
            (found.numbers["differs"].mean, found.numbers["cost"].mean)
        };
        assert_eq!(differs(PolicySpec::Jfsq, Declared::Ranks), (0.0, 1.0));
        let (sed_differs, cost) = differs(PolicySpec::Sed, Declared::NearlyEqual);
        assert!(sed_differs > 0.5 && (cost - 1.0).abs() > 1e-6, "{cost}");
    }

    #[test]
    fn every_declaration_keeps_the_order() {
        let patterns = wrong(Scale::Full).into_iter();
        for declared in patterns.chain([Declared::Squares, Declared::NearlyEqual, Declared::FarApart]) {
            let rates = [1.0, 0.5, 0.25].into_iter().enumerate().map(|(class, rate)| declared.speed(class, rate));
            let rates: Vec<f64> = rates.map(|speed| if let Speed::Rate(rate) = speed { rate } else { 0.0 }).collect();
            assert!(rates[0] > rates[1] && rates[1] > rates[2] && rates[2] > 0.0, "{declared}: {rates:?}");
        }
    }
}
