//! Buffers: where nobody waits, it does not matter how many could.
//!
//! \[W\]'s theorem holds for any buffer `b`: a job finds an idle server, so that neither the response time nor (but for the
//! smallest buffers) the blocking depends on `b`. Close to capacity it does: a larger buffer turns blocked jobs into waiting ones.
//! Here the load is that of the whole fleet, all three speeds, so that no slow servers stand by.

use shortline_core::policy::PolicySpec;

use super::by_policy::{Lines, Shown, all_points};
use super::experiment::{About, Context, Experiment, Findings, Point, Scale};
use super::figure::{Axis, Figure};
use super::judge::{agree, all, at_most, below};
use super::measure::{Precision, simulate};
use super::number::{Data, Found};
use super::optimality_in_n::SPEED_AWARE;
use super::papers::{Setting, Speeds};
use super::table::Table;
use super::verdict::Verdict;
use crate::failure::Failure;

/// The experiment.
pub(crate) struct Buffers;

const LOADS: [f64; 3] = [0.7, 0.9, 0.98];
/// Loads at which nobody is to wait.
const EASY: [f64; 2] = [0.7, 0.9];
const HARD: f64 = 0.98;
/// How much the response time may depend on the buffer, relative.
const TOLERANCE: f64 = 0.05;
/// Where unbounded buffers stand on the axis.
const UNBOUNDED_AT: f64 = 20.0;

fn buffers(scale: Scale) -> Vec<Option<u32>> {
    let bounded = scale.pick(vec![1, 2, 5], vec![1, 2, 3, 5, 10]);
    bounded.into_iter().map(Some).chain([None]).collect()
}

fn policies(scale: Scale) -> Vec<PolicySpec> {
    scale.pick(SPEED_AWARE.to_vec(), vec![PolicySpec::Jfsq, PolicySpec::Jfiq, PolicySpec::Jsq, PolicySpec::Jiq])
}

fn servers(scale: Scale) -> u32 {
    scale.pick(512, 1024)
}

fn setting(scale: Scale, load: f64, buffer: Option<u32>) -> Setting {
    Setting { speeds: Speeds::ThreeAllNeeded, load_first_k: load, buffer, ..Setting::papers(servers(scale)) }
}

fn key(scale: Scale, load: f64, buffer: Option<u32>, policy: PolicySpec) -> String {
    format!("{} {policy}", setting(scale, load, buffer))
}

fn named(buffer: Option<u32>) -> String {
    buffer.map_or("unbounded".to_owned(), |buffer| buffer.to_string())
}

fn measured(setting: Setting, policy: PolicySpec, scale: Scale, context: &Context<'_>) -> Result<Found, Failure> {
    let precision =
        Precision { relative_error: scale.pick(0.02, 0.004), most_events: scale.pick(6_000_000, 600_000_000) };
    simulate(&setting.fleet(context.seed)?, policy, precision, context)
}

impl Experiment for Buffers {
    fn about(&self) -> About {
        About {
            name: "buffers",
            title: "How much buffer a server needs",
            claim: "[W] Below capacity the buffer does not matter under JFSQ and JFIQ: the same response time, and no blocking, from two jobs a server on. Judged at loads 0.7 and 0.9; near capacity, at 0.98, it matters.",
            version: 1,
            quick_s: 9,
            full_min: 6,
        }
    }

    fn setting(&self, scale: Scale) -> String {
        format!(
            "N = {} servers of three speeds (1, 1/2, 1/4 in shares 1/8, 3/8, 1/2), as many job types with equal arrival rates, each on `ceil(2 ln^2 N)` = {} random servers; exponential sizes. The load is that of the whole fleet: 0.7, 0.9, 0.98. Buffers (jobs at a server, the one in service included): {}. The bound is the fluid bound at the accepted throughput.",
            servers(scale),
            Setting::random_degree(servers(scale)),
            buffers(scale).into_iter().map(named).collect::<Vec<_>>().join(", "),
        )
    }

    fn points(&self, scale: Scale) -> Vec<Point> {
        let mut points = Vec::new();
        for policy in policies(scale) {
            for (load, buffer) in LOADS.iter().flat_map(|&load| buffers(scale).into_iter().map(move |b| (load, b))) {
                let setting = setting(scale, load, buffer);
                let work = move |context: &Context<'_>| measured(setting, policy, scale, context);
                let cost = 1.0 / (1.03 - load) + f64::from(buffer.unwrap_or(20));
                points.push(Point::new(key(scale, load, buffer, policy), cost, work));
            }
        }
        points
    }

    fn findings(&self, scale: Scale, data: &Data) -> Findings {
        Findings { verdicts: verdicts(scale, data), figures: figures(scale, data), tables: vec![table(scale, data)] }
    }
}

fn verdicts(scale: Scale, data: &Data) -> Vec<Verdict> {
    let number = |load, buffer, policy, name: &str| data.number(&key(scale, load, buffer, policy), name);
    let cases = || EASY.into_iter().flat_map(|load| SPEED_AWARE.map(|policy| (load, policy)));
    let compared = cases().flat_map(|(load, policy)| {
        let unbounded = number(load, None, policy, "response_ratio");
        buffers(scale).into_iter().filter(Option::is_some).map(move |buffer| {
            agree(number(load, buffer, policy, "response_ratio"), unbounded, TOLERANCE)
                .of(format_args!("{policy}, load {load}, b = {}", named(buffer)))
        })
    });
    let blocked = cases().flat_map(|(load, policy)| {
        buffers(scale).into_iter().filter(|buffer| buffer.is_some_and(|b| b >= 2)).map(move |buffer| {
            at_most(number(load, buffer, policy, "blocking"), 1e-3)
                .of(format_args!("{policy}, load {load}, b = {}", named(buffer)))
        })
    });
    let traded = SPEED_AWARE.into_iter().flat_map(|policy| {
        let at = |buffer, name| number(HARD, Some(buffer), policy, name);
        [
            below(at(5, "blocking"), at(1, "blocking")).of(format_args!("{policy}, blocked at b = 5 and at b = 1")),
            below(at(1, "waiting_ratio"), at(5, "waiting_ratio"))
                .of(format_args!("{policy}, waiting at b = 1 and at b = 5")),
        ]
    });
    vec![
        Verdict::new(
            "At loads 0.7 and 0.9 the response time is that of unbounded buffers, within 5 %, at every b.",
            all(compared),
        ),
        Verdict::new("At loads 0.7 and 0.9 at most one job in 1000 is blocked from b = 2 on.", all(blocked)),
        Verdict::new(
            "At load 0.98 a larger buffer turns blocked jobs into waiting ones (b = 5 against b = 1).",
            all(traded),
        ),
    ]
}

fn figures(scale: Scale, data: &Data) -> Vec<Figure> {
    let place = |buffer: Option<u32>| buffer.map_or(UNBOUNDED_AT, f64::from);
    let ticks = buffers(scale).into_iter().map(|b| (place(b), named(b))).collect();
    let lines = Lines {
        x: Axis { ticks, ..Axis::log("buffer b, jobs at a server") },
        cases: LOADS.map(|load| (format!("load {load}"), load)).into(),
        policies: policies(scale),
        line: &|load, policy, name| {
            let number = |b| data.number(&key(scale, load, b, policy), name);
            buffers(scale).into_iter().map(|b| (place(b), number(b))).collect()
        },
    };
    vec![
        lines.figure(Shown {
            name: "response",
            title: "Mean response time over the bound",
            caption: "Flat where nobody waits.",
            y: Axis::log("response / bound"),
            bound: Some(1.0),
            number: "response_ratio",
        }),
        lines.figure(Shown {
            name: "blocking",
            title: "Blocked jobs",
            caption: "Share of the jobs that find no place; none with unbounded buffers. An interval without a marker reaches from 0: none was seen.",
            y: Axis::log("blocked share of the jobs"),
            bound: None,
            number: "blocking",
        }),
    ]
}

fn table(scale: Scale, data: &Data) -> Table {
    let numbers = ["response_s", "bound_s", "response_ratio", "waiting_ratio", "service_ratio", "blocking"];
    let places = || LOADS.into_iter().flat_map(|load| buffers(scale).into_iter().map(move |b| (load, b)));
    let point = |policy: PolicySpec, (load, buffer): (f64, Option<u32>)| {
        ([policy.to_string().into(), load.into(), named(buffer).into()], key(scale, load, buffer, policy))
    };
    let points = policies(scale).into_iter().flat_map(|policy| places().map(move |place| point(policy, place)));
    all_points(["policy", "load", "buffer"], &numbers, points, data)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::made_data::{self, around, found};
    use crate::reproduce::verdict::Answer::{self, DoesNotHold, Holds, Inconclusive};

    /// Response times that fall by `effect` a job of buffer, blocking of `blocked / b`.
    fn answers(effect: f64, blocked: f64, half_width: f64) -> (Answer, Vec<Answer>) {
        let near = |mean: f64| around(mean, mean * half_width);
        let mut points = Vec::new();
        for policy in policies(Scale::Quick) {
            for (load, buffer) in LOADS.iter().flat_map(|&l| buffers(Scale::Quick).into_iter().map(move |b| (l, b))) {
                let b = buffer.map_or(10.0, f64::from);
                let numbers = [
                    ("response_ratio", near(1.1 - effect * b)),
                    ("waiting_ratio", near(0.01 * b)),
                    ("blocking", near(blocked / b)),
                ];
                points.push((key(Scale::Quick, load, buffer, policy), found(numbers)));
            }
        }
        made_data::answers(&Buffers, points)
    }

    #[test]
    fn the_verdict_gives_each_of_the_three_answers() {
        assert_eq!(answers(0.0, 1e-3, 0.01), (Holds, vec![Holds; 3]));
        assert_eq!(answers(0.0, 1e-3, 0.06).0, Inconclusive);
        assert_eq!(answers(0.05, 1e-3, 0.01), (DoesNotHold, vec![DoesNotHold, Holds, Holds]));
        assert_eq!(answers(0.0, 0.1, 0.01), (DoesNotHold, vec![Holds, DoesNotHold, Holds]));
    }
}
