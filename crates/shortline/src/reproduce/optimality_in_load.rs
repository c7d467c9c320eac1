//! A large fleet at all loads: JFSQ and JFIQ stay at the bound until close to the capacity of the servers that are needed.
//!
//! \[W\]'s second experiment: `N` fixed, the load of the first `K` speed classes from 0.5 to 0.98. Close to 1 the slack
//! `beta g_K` is no longer large against the fluctuations, `sqrt N`, and the gap opens.

use shortline_core::policy::PolicySpec;

use super::by_policy::{Lines, Shown, all_points};
use super::experiment::{About, Context, Experiment, Findings, Point, Scale};
use super::figure::{Axis, Figure};
use super::judge::{all, at_most, below};
use super::measure::{Precision, simulate};
use super::number::{Data, Found};
use super::optimality_in_n::{OTHERS, SPEED_AWARE, policies};
use super::papers::{Setting, Speeds};
use super::table::Table;
use super::verdict::Verdict;
use crate::failure::Failure;

/// The load up to which the claim is judged.
const CLAIMED_TO: f64 = 0.9;

/// The experiment.
pub(crate) struct OptimalityInLoad;

fn loads(scale: Scale) -> Vec<f64> {
    scale.pick(vec![0.5, 0.7, 0.9, 0.98], vec![0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.94, 0.96, 0.98])
}

fn servers(scale: Scale) -> u32 {
    scale.pick(512, 2048)
}

fn fleets(scale: Scale) -> Vec<Speeds> {
    scale.pick(vec![Speeds::Three], vec![Speeds::Three, Speeds::Two])
}

fn setting(scale: Scale, speeds: Speeds, load: f64) -> Setting {
    Setting { speeds, load_first_k: load, ..Setting::papers(servers(scale)) }
}

fn key(scale: Scale, speeds: Speeds, load: f64, policy: PolicySpec) -> String {
    format!("{} {policy}", setting(scale, speeds, load))
}

/// How far above the bound is at the bound: the line of [`optimality_in_n`](super::optimality_in_n).
fn tolerance(scale: Scale) -> f64 {
    scale.pick(0.15, 0.05)
}

fn precision(scale: Scale) -> Precision {
    Precision { relative_error: scale.pick(0.02, 0.002), most_events: scale.pick(4_000_000, 400_000_000) }
}

impl Experiment for OptimalityInLoad {
    fn about(&self) -> About {
        About {
            name: "optimality-in-load",
            title: "Optimality at all loads",
            claim: "[W] In a large fleet JFSQ and JFIQ are at the bound up to 0.9 of the capacity of the needed servers, and better than JSQ, JIQ, JSQ-(2,2) and random at every load.",
            version: 1,
            quick_s: 5,
            full_min: 2,
        }
    }

    fn setting(&self, scale: Scale) -> String {
        format!(
            "N = {} servers, as many job types with equal arrival rates, each on `ceil(2 ln^2 N)` = {} random servers; buffers of 5, exponential sizes. {}. `load_first_k = Lambda / g_K` is varied. The bound is the fluid bound `C*/lambda` at the accepted throughput.",
            servers(scale),
            Setting::random_degree(servers(scale)),
            scale.pick(
                "Three speeds (1, 1/2, 1/4 in shares 1/8, 3/8, 1/2; K = 2)",
                "Three speeds (1, 1/2, 1/4 in shares 1/8, 3/8, 1/2; K = 2) and two (1, 1/4, half each; K = 1)"
            ),
        )
    }

    fn points(&self, scale: Scale) -> Vec<Point> {
        let mut points = Vec::new();
        for speeds in fleets(scale) {
            for policy in policies() {
                for load in loads(scale) {
                    let setting = setting(scale, speeds, load);
                    let work = move |context: &Context<'_>| measured(setting, policy, scale, context);
                    points.push(Point::new(key(scale, speeds, load, policy), 1.0 / (1.05 - load), work));
                }
            }
        }
        points
    }

    fn findings(&self, scale: Scale, data: &Data) -> Findings {
        Findings { verdicts: verdicts(scale, data), figures: figures(scale, data), tables: vec![table(scale, data)] }
    }
}

fn measured(setting: Setting, policy: PolicySpec, scale: Scale, context: &Context<'_>) -> Result<Found, Failure> {
    simulate(&setting.fleet(context.seed)?, policy, precision(scale), context)
}

fn verdicts(scale: Scale, data: &Data) -> Vec<Verdict> {
    let tolerance = tolerance(scale);
    let number = |(speeds, load, policy): (Speeds, f64, PolicySpec), name: &str| {
        data.number(&key(scale, speeds, load, policy), name)
    };
    let named =
        |(speeds, load, policy): (Speeds, f64, PolicySpec)| format!("{policy}, {}, load {load}", speeds.title());
    let cases = |most: f64| {
        let fleets_loads =
            fleets(scale).into_iter().flat_map(move |s| loads(scale).into_iter().map(move |load| (s, load)));
        fleets_loads
            .filter(move |(_, load)| *load <= most)
            .flat_map(|(s, load)| SPEED_AWARE.map(|policy| (s, load, policy)))
    };
    let compared = cases(1.0).flat_map(|case| OTHERS.map(|other| (case, other))).map(|(case, other)| {
        let (speeds, load, _) = case;
        below(number(case, "response_ratio"), number((speeds, load, other), "response_ratio"))
            .of(format_args!("{} against {other}", named(case)))
    });
    vec![
        Verdict::new(
            format!("JFSQ and JFIQ are at the bound up to load {CLAIMED_TO}: at most {tolerance} above it."),
            all(cases(CLAIMED_TO).map(|c| at_most(number(c, "response_ratio"), 1.0 + tolerance).of(named(c)))),
        ),
        Verdict::new(
            format!(
                "Hardly a job waits under them up to load {CLAIMED_TO}: waiting is at most {tolerance} of the bound."
            ),
            all(cases(CLAIMED_TO).map(|c| at_most(number(c, "waiting_ratio"), tolerance).of(named(c)))),
        ),
        Verdict::new(
            "Both have shorter response times than JSQ, JIQ, JSQ-(2,2) and random at every load.",
            all(compared),
        ),
        Verdict::new(
            "Under both at most one job in 1000 is blocked, at every load.",
            all(cases(1.0).map(|c| at_most(number(c, "blocking"), 1e-3).of(named(c)))),
        ),
    ]
}

fn figures(scale: Scale, data: &Data) -> Vec<Figure> {
    let lines = Lines {
        x: Axis::linear("load of the needed servers, Lambda / g_K"),
        cases: fleets(scale).into_iter().map(|speeds| (speeds.title().into(), speeds)).collect(),
        policies: policies().collect(),
        line: &|speeds, policy, name| {
            loads(scale).into_iter().map(|load| (load, data.number(&key(scale, speeds, load, policy), name))).collect()
        },
    };
    vec![
        lines.figure(Shown {
            name: "response",
            title: "Mean response time over the bound",
            caption: "JFSQ and JFIQ lie on the bound until the slack is used up.",
            y: Axis::log("response / bound"),
            bound: Some(1.0),
            number: "response_ratio",
        }),
        lines.figure(Shown {
            name: "waiting",
            title: "Waiting over the bound",
            caption: "The part of the gap that is waiting; the rest is service at servers that are slower than need be.",
            y: Axis::log("waiting / bound"),
            bound: None,
            number: "waiting_ratio",
        }),
        lines.figure(Shown {
            name: "blocking",
            title: "Blocked jobs",
            caption: "Share of the jobs that find no place. An interval without a marker reaches from 0: none was seen.",
            y: Axis::log("blocked share of the jobs"),
            bound: None,
            number: "blocking",
        }),
    ]
}

fn table(scale: Scale, data: &Data) -> Table {
    let numbers = ["response_s", "bound_s", "response_ratio", "waiting_ratio", "service_ratio", "blocking"];
    let point = |speeds: Speeds, policy: PolicySpec, load: f64| {
        ([speeds.title().into(), policy.to_string().into(), load.into()], key(scale, speeds, load, policy))
    };
    let of_fleet = |speeds| {
        policies().flat_map(move |policy| loads(scale).into_iter().map(move |load| point(speeds, policy, load)))
    };
    all_points(["fleet", "policy", "load_first_k"], &numbers, fleets(scale).into_iter().flat_map(of_fleet), data)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::made_data::{self, around, found, none_seen};
    use crate::reproduce::verdict::Answer::{self, DoesNotHold, Holds, Inconclusive};

    /// Policies that know speeds `excess` above the bound, the others 0.8.
    fn answers(excess: f64, half_width: f64) -> (Answer, Vec<Answer>) {
        let mut points = Vec::new();
        for policy in policies() {
            for load in loads(Scale::Quick) {
                let excess = if SPEED_AWARE.contains(&policy) { excess } else { 0.8 };
                let numbers = [
                    ("response_ratio", around(1.0 + excess, half_width)),
                    ("waiting_ratio", around(0.5 * excess, half_width)),
                    ("blocking", none_seen(1e-4)),
                ];
                points.push((key(Scale::Quick, Speeds::Three, load, policy), found(numbers)));
            }
        }
        made_data::answers(&OptimalityInLoad, points)
    }

    #[test]
    fn the_verdict_gives_each_of_the_three_answers() {
        assert_eq!(answers(0.05, 0.01), (Holds, vec![Holds; 4]));
        assert_eq!(answers(0.05, 0.2).0, Inconclusive);
        assert_eq!(answers(0.9, 0.01), (DoesNotHold, vec![DoesNotHold, DoesNotHold, DoesNotHold, Holds]));
    }
}
