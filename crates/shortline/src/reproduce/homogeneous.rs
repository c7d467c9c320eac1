//! Equal servers: JSQ and JIQ, blind to speed, are enough where there is but one.
//!
//! \[W\]: with equal speeds and equal arrival rates JSQ and JIQ send every job to an idle server, on well-connected graphs, as the
//! fleet grows: waiting vanishes. JSQ(2) and random keep theirs; on the complete graph, with unbounded buffers, it tends to
//! `sum_{i >= 2} rho^(2^i - 2)` (Mitzenmacher, 2001) and `rho / (1 - rho)` service times.
//!
//! On the random graph a job finds all its `k = ceil(2 ln^2 N)` servers busy with a probability of about `rho^k`, which
//! falls faster than any power of `N`.

use shortline_core::policy::{Choices, PolicySpec};

use super::by_policy::{Lines, Shown, all_points};
use super::experiment::{About, Experiment, Findings, Point, Scale};
use super::figure::{Axis, Figure};
use super::judge::{all, at_least, at_most, falls_to};
use super::measure::{Precision, simulate};
use super::number::{Data, Number};
use super::papers::{Setting, Speeds};
use super::table::Table;
use super::verdict::Verdict;

/// The experiment.
pub(crate) struct Homogeneous;

/// Those that are to reach zero waiting.
const CLAIMED: [PolicySpec; 2] = [PolicySpec::Jsq, PolicySpec::Jiq];
/// Those that are not.
const OTHERS: [PolicySpec; 2] = [PolicySpec::JsqD(Choices::Number(2)), PolicySpec::Random];
/// Waiting that counts as kept, in service times: below the limits of both at the loads of this experiment (JSQ(2) at 0.7:
/// 0.49 + 0.12 + 0.01).
const KEPT: f64 = 0.5;
/// Share of jobs that may still wait where waiting has vanished.
const FEW: f64 = 0.01;

fn policies() -> impl Iterator<Item = PolicySpec> + Clone {
    CLAIMED.into_iter().chain(OTHERS)
}

fn loads(scale: Scale) -> Vec<f64> {
    scale.pick(vec![0.9], vec![0.7, 0.9, 0.95])
}

fn sizes(scale: Scale) -> Vec<u32> {
    scale.pick(vec![32, 128, 512], vec![32, 64, 128, 256, 512, 1024, 2048])
}

fn last(scale: Scale) -> u32 {
    sizes(scale).into_iter().max().expect("there are sizes")
}

/// How much waiting counts as none: the line of [`optimality_in_n`](super::optimality_in_n).
fn tolerance(scale: Scale) -> f64 {
    scale.pick(0.15, 0.05)
}

fn setting(servers: u32, load: f64) -> Setting {
    Setting { speeds: Speeds::Equal, load_first_k: load, ..Setting::papers(servers) }
}

fn key(servers: u32, load: f64, policy: PolicySpec) -> String {
    format!("{} {policy}", setting(servers, load))
}

fn precision(scale: Scale) -> Precision {
    Precision { relative_error: scale.pick(0.02, 0.001), most_events: scale.pick(4_000_000, 400_000_000) }
}

impl Experiment for Homogeneous {
    fn about(&self) -> About {
        About {
            name: "homogeneous",
            title: "Equal servers",
            claim: "[W] With equal speeds and equal arrival rates waiting vanishes under JSQ and JIQ as N grows; under JSQ(2) and random it does not.",
            version: 1,
            quick_s: 2,
            full_min: 5,
        }
    }

    fn setting(&self, scale: Scale) -> String {
        format!(
            "N servers of rate 1, as many job types with equal arrival rates, each on `ceil(2 ln^2 N)` random servers ({} of {}); buffers of 5, exponential sizes, load {}. The bound is one service time.\n\nWhat the size does: a job finds its `k` servers all busy with a probability of about `rho^k`, which at load 0.9 and N = 32, 512, 2048 (k = 25, 78, 117) is 0.07, 0.0003 and 0.000004; the number of idle servers, `N (1 - rho)` in the mean, wanders by about `sqrt N`, so that more wait than that where the two are of one size: N = 2048 at load 0.95 has 102 idle servers, +- 45. Servers differ in how many job types they hold, by about `sqrt k` around k, which neither JSQ(2) nor random evens out. Their limits on the complete graph at load 0.9 are 1.61 and 1.79 service times (random without the buffer of 5: 9).",
            Setting::random_degree(last(scale)),
            last(scale),
            loads(scale).iter().map(f64::to_string).collect::<Vec<_>>().join(", "),
        )
    }

    fn points(&self, scale: Scale) -> Vec<Point> {
        let mut points = Vec::new();
        for (load, servers) in
            loads(scale).into_iter().flat_map(|load| sizes(scale).into_iter().map(move |n| (load, n)))
        {
            for policy in policies() {
                let cost = 1.0 + f64::from(servers) / 512.0;
                points.push(Point::new(key(servers, load, policy), cost, move |context| {
                    simulate(&setting(servers, load).fleet(context.seed)?, policy, precision(scale), context)
                }));
            }
        }
        points
    }

    fn findings(&self, scale: Scale, data: &Data) -> Findings {
        Findings { verdicts: verdicts(scale, data), figures: figures(scale, data), tables: vec![table(scale, data)] }
    }
}

fn series(scale: Scale, data: &Data, load: f64, policy: PolicySpec, name: &str) -> Vec<(f64, Option<Number>)> {
    sizes(scale).into_iter().map(|n| (f64::from(n), data.number(&key(n, load, policy), name))).collect()
}

fn verdicts(scale: Scale, data: &Data) -> Vec<Verdict> {
    let (last, tolerance) = (last(scale), tolerance(scale));
    let cases = |policies: [PolicySpec; 2]| {
        loads(scale).into_iter().flat_map(move |load| policies.map(|policy| (load, policy)))
    };
    let at_last = |(load, policy): (f64, PolicySpec), name: &str| data.number(&key(last, load, policy), name);
    let named = |(load, policy): (f64, PolicySpec)| format!("{policy}, load {load}");
    let vanishes = cases(CLAIMED).map(|(load, policy)| {
        falls_to(&series(scale, data, load, policy, "waiting_ratio"), 0.0, tolerance).of(named((load, policy)))
    });
    vec![
        Verdict::new(
            format!(
                "Mean waiting vanishes under JSQ and JIQ: at most {tolerance} service times at N = {last}, and falling."
            ),
            all(vanishes),
        ),
        Verdict::new(
            format!("So does the share of jobs that wait: at most {FEW} at N = {last}."),
            all(cases(CLAIMED).map(|c| at_most(at_last(c, "fraction_waiting"), FEW).of(named(c)))),
        ),
        Verdict::new(
            format!("And blocking: at most 0.001 at N = {last}."),
            all(cases(CLAIMED).map(|c| at_most(at_last(c, "blocking"), 1e-3).of(named(c)))),
        ),
        Verdict::new(
            format!("Under JSQ(2) and random jobs still wait at least {KEPT} service times at N = {last}."),
            all(cases(OTHERS).map(|c| at_least(at_last(c, "waiting_ratio"), KEPT).of(named(c)))),
        ),
    ]
}

fn figures(scale: Scale, data: &Data) -> Vec<Figure> {
    let lines = Lines {
        x: Axis::log("servers N").ticks(sizes(scale).into_iter().map(f64::from)),
        cases: loads(scale).into_iter().map(|load| (format!("load {load}"), load)).collect(),
        policies: policies().collect(),
        line: &|load, policy, name| series(scale, data, load, policy, name),
    };
    vec![
        lines.figure(Shown {
            name: "response",
            title: "Mean response time over the bound",
            caption: "JSQ and JIQ come down to one service time, JSQ(2) and random stay above it.",
            y: Axis::log("response / bound").ticks([1.0, 1.2, 1.5, 2.0, 2.5, 3.0]),
            bound: Some(1.0),
            number: "response_ratio",
        }),
        lines.figure(Shown {
            name: "waiting",
            title: "Jobs that wait",
            caption: "Share of the accepted jobs that do not start at once. An interval without a marker reaches from 0: none was seen.",
            y: Axis::log("share of the jobs that wait"),
            bound: None,
            number: "fraction_waiting",
        }),
    ]
}

fn table(scale: Scale, data: &Data) -> Table {
    let numbers = ["degree", "response_ratio", "waiting_ratio", "fraction_waiting", "blocking"];
    let point = |load: f64, policy: PolicySpec, n: u32| {
        ([load.into(), policy.to_string().into(), n.into()], key(n, load, policy))
    };
    let of_load =
        |load| policies().flat_map(move |policy| sizes(scale).into_iter().map(move |n| point(load, policy, n)));
    all_points(["load", "policy", "servers"], &numbers, loads(scale).into_iter().flat_map(of_load), data)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::made_data::{self, around, found, none_seen};
    use crate::reproduce::verdict::Answer::{self, DoesNotHold, Holds, Inconclusive};

    /// JSQ and JIQ that wait `waiting 512 / N` service times, JSQ(2) and random that wait `kept`.
    fn answers(waiting: f64, kept: f64, half_width: f64) -> (Answer, Vec<Answer>) {
        let mut points = Vec::new();
        for (policy, n) in policies().flat_map(|policy| sizes(Scale::Quick).into_iter().map(move |n| (policy, n))) {
            let waiting = if CLAIMED.contains(&policy) { waiting * 512.0 / f64::from(n) } else { kept };
            let numbers = [
                ("response_ratio", around(1.0 + waiting, half_width)),
                ("waiting_ratio", around(waiting, half_width)),
                ("fraction_waiting", around(0.1 * waiting, 0.1 * half_width)),
                ("blocking", none_seen(1e-4)),
            ];
            points.push((key(n, 0.9, policy), found(numbers)));
        }
        made_data::answers(&Homogeneous, points)
    }

    #[test]
    fn the_verdict_gives_each_of_the_three_answers() {
        assert_eq!(answers(0.05, 1.5, 0.01), (Holds, vec![Holds; 4]));
        assert_eq!(answers(0.05, 1.5, 0.2), (Inconclusive, vec![Inconclusive, Inconclusive, Holds, Holds]));
        assert_eq!(answers(0.5, 1.5, 0.01), (DoesNotHold, vec![DoesNotHold, DoesNotHold, Holds, Holds]));
        assert_eq!(answers(0.05, 0.3, 0.01), (DoesNotHold, vec![Holds, Holds, Holds, DoesNotHold]));
    }
}
