//! The guarantee: a proven upper bound, the simulation, and the lower bound, over N.
//!
//! \[W\], Theorem 1, bounds the mean response time of JFSQ and JFIQ at finite `N`; its excess over `C*/lambda` vanishes like
//! `N^-1/2` at a fixed load. The constants here are ours (chapter "Guarantee" of the book). On complete graphs the excess is made of
//! idle fast servers: their number below load 1 is a birth and death process with a mean that does not grow with `N`, about
//! `g_1 / (Lambda - g_1)`, so that the excess falls like `1/N`, twice as fast; jobs that find nobody idle are exponentially few once
//! `(1 - lambda) sqrt N` is large.
//!
//! On sparse graphs an idle fast server is found only by jobs that have it among their `k` servers. The excess is then about
//! proportional to `1/k` and follows the degree, not the size.

use shortline_core::policy::PolicySpec;
use shortline_theory::connectivity::Connectivity;
use shortline_theory::guarantee::evaluate;

use super::experiment::{About, Context, Experiment, Findings, Point, Scale};
use super::figure::{Axis, Figure, Panel, Series};
use super::judge::{all, at_least, log_log_slope, slope_at_most, slope_within};
use super::measure::{Precision, simulate};
use super::number::{Data, Found, Number, plain};
use super::optimality_in_n::SPEED_AWARE;
use super::papers::{Design, Setting};
use super::table::{Cell, Table};
use super::verdict::{Answer, Judgement, Verdict};
use crate::failure::Failure;

/// The experiment.
pub(crate) struct Guarantee;

/// Exponent of \[W\]'s Theorem 1.
const SEED_EXPONENT: f64 = -0.5;
/// Ours for complete graphs, and how far a fit over finite sizes may be from it.
const OUR_EXPONENT: f64 = -1.0;
const OUR_TOLERANCE: f64 = 0.1;
/// From here on waiting on the complete graph is negligible: `(1 - lambda) sqrt n_K > 4` at load 0.9.
const LARGE: u32 = 4096;
/// So many job types at most; on a complete graph they do not matter.
const MOST_JOB_TYPES: u32 = 32_768;

fn loads(scale: Scale) -> Vec<f64> {
    scale.pick(vec![0.9], vec![0.7, 0.9])
}

fn designs(scale: Scale) -> Vec<Design> {
    scale.pick(vec![Design::Complete, Design::Random], vec![Design::Complete, Design::Random, Design::WellConnected])
}

fn sizes(scale: Scale, design: Design) -> Vec<u32> {
    match design {
        Design::Complete => scale.pick(
            vec![256, 1024, LARGE, 16_384, 65_536],
            vec![256, 512, 1024, 2048, LARGE, 16_384, 65_536, 262_144, 1_048_576],
        ),
        _ => scale.pick(vec![256, 1024], vec![256, 512, 1024, 2048, 4096, 8192, 16_384]),
    }
}

/// A fleet of the experiment.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Case {
    design: Design,
    load: f64,
    servers: u32,
}

impl Case {
    fn setting(self) -> Setting {
        let Self { design, load, servers } = self;
        Setting { design, load_first_k: load, job_types: servers.min(MOST_JOB_TYPES), ..Setting::papers(servers) }
    }

    fn simulated(self, policy: PolicySpec) -> String {
        format!("{} {policy}", self.setting())
    }

    fn guaranteed(self) -> String {
        format!("{} guarantee", self.setting())
    }
}

/// The fleets of a design and load, ascending in size.
fn cases(scale: Scale, design: Design, load: f64) -> impl Iterator<Item = Case> {
    sizes(scale, design).into_iter().map(move |servers| Case { design, load, servers })
}

fn families(scale: Scale) -> Vec<(Design, f64)> {
    designs(scale).into_iter().flat_map(|design| loads(scale).into_iter().map(move |load| (design, load))).collect()
}

fn all_cases(scale: Scale) -> impl Iterator<Item = Case> {
    families(scale).into_iter().flat_map(move |(design, load)| cases(scale, design, load))
}

fn precision(scale: Scale) -> Precision {
    Precision { relative_error: scale.pick(0.01, 0.001), most_events: scale.pick(20_000_000, 400_000_000) }
}

/// What is guaranteed of both policies: response time over the fluid bound without losses, less 1, and blocking.
fn guaranteed(case: Case, context: &Context<'_>) -> Result<Found, Failure> {
    let fleet = case.setting().fleet(context.seed)?;
    let connectivity = Connectivity::new(&fleet).map_err(Failure::run)?;
    let delta = |m: usize, i: usize| connectivity.upper(m, i);
    let (mut found, mut vacuous) = (Found::default(), Vec::new());
    for policy in SPEED_AWARE {
        let guarantee = evaluate(&fleet, policy, &delta).map_err(Failure::run)?;
        match guarantee.jobs {
            Ok(jobs) => found.set(&gap_of(policy), jobs.ratio_to_fluid.map(|ratio| Number::exact(ratio - 1.0))),
            Err(why) => vacuous.push(format!("{policy}, response time: {why}")),
        }
        match guarantee.blocking {
            Ok(blocking) => found.set(&blocking_of(policy), Some(Number::exact(blocking.probability))),
            Err(why) => vacuous.push(format!("{policy}, blocking: {why}")),
        }
    }
    found.note = (!vacuous.is_empty()).then(|| vacuous.join("; "));
    Ok(found)
}

fn gap_of(policy: PolicySpec) -> String {
    format!("{policy}_gap")
}

fn blocking_of(policy: PolicySpec) -> String {
    format!("{policy}_blocking")
}

impl Experiment for Guarantee {
    fn about(&self) -> About {
        About {
            name: "guarantee",
            title: "What is guaranteed, what happens, what is the least",
            claim: "[W] At finite N the mean response time under JFSQ and JFIQ is at most C*/lambda (1 + O(N^-1/2)); our constants are refuted by no simulation, and on complete graphs both close in on the bound like 1/N.",
            version: 1,
            quick_s: 4,
            full_min: 3,
        }
    }

    fn setting(&self, scale: Scale) -> String {
        let loads = loads(scale).iter().map(f64::to_string).collect::<Vec<_>>().join(" and ");
        format!(
            "Three speeds (1, 1/2, 1/4 in shares 1/8, 3/8, 1/2), `K = 2`, `Lambda / g_K` = {loads}, buffers of 5, exponential sizes. Graphs: complete; `ceil(2 ln^2 N)` random servers for each of N job types{}. The guarantee rests on certified connectivity (`shortline check` prints both); where it says nothing at a size, there is no number, and the notes say why. The gap, response / bound - 1, is measured by conservation of work: idle fast servers, busy slow ones and waiting jobs, each weighed by what it costs.\n\nWhat the finite size does: on the complete graph the number of idle fast servers has a limit, so that the gap is a constant over N; before that, at small N, waiting and jobs at slow servers add what falls like `exp(-c (1 - lambda)^2 N)`. There the guarantee is the truth to about a percent, so that it lies within the simulation's interval: no simulation can tell whether it is above. On sparse graphs the gap follows `1/k`: from N = 256 to 16,384 the degree `2 ln^2 N` grows from 62 to 189, and the gap falls by no more than about three, whatever the theorem says of denser graphs. \\[W\\]'s exponent is therefore judged on the complete graph; the others' slopes are in the table.",
            scale.pick("", "; the well-connected design with `delta = epsilon = N^(-1/3)`"),
        )
    }

    fn points(&self, scale: Scale) -> Vec<Point> {
        let mut points = Vec::new();
        for case in all_cases(scale) {
            let n = f64::from(case.servers);
            for policy in SPEED_AWARE {
                let cost = 1.0 + n / 8192.0;
                points.push(Point::new(case.simulated(policy), cost, move |context| {
                    simulate(&case.setting().fleet(context.seed)?, policy, precision(scale), context)
                }));
            }
            let edges = if case.design == Design::Complete { n } else { n * n.ln().powi(2) };
            points
                .push(Point::new(case.guaranteed(), 0.1 + edges / 200_000.0, move |context| guaranteed(case, context)));
        }
        points
    }

    fn findings(&self, scale: Scale, data: &Data) -> Findings {
        Findings {
            verdicts: verdicts(scale, data),
            figures: figures(scale, data),
            tables: vec![slopes(scale, data), every_point(scale, data)],
        }
    }
}

fn gaps(cases: impl Iterator<Item = Case>, policy: PolicySpec, data: &Data) -> Vec<(f64, Option<Number>)> {
    cases.map(|case| (f64::from(case.servers), data.number(&case.simulated(policy), "gap"))).collect()
}

/// The guarantee's gap where it says something.
fn guaranteed_gaps(cases: impl Iterator<Item = Case>, policy: PolicySpec, data: &Data) -> Vec<(f64, Option<Number>)> {
    let gap = |case: Case| data.number(&case.guaranteed(), &gap_of(policy));
    cases.filter_map(|case| Some((f64::from(case.servers), Some(gap(case)?)))).collect()
}

fn verdicts(scale: Scale, data: &Data) -> Vec<Verdict> {
    // Twice the precision of a simulation, which alone may fall below a bound that is reached.
    let noise = 2.0 * precision(scale).relative_error;
    let pairs = || all_cases(scale).flat_map(|case| SPEED_AWARE.map(|policy| (case, policy)));
    let below_guarantee = pairs().filter_map(|(case, policy)| {
        let most = data.number(&case.guaranteed(), &gap_of(policy))?.mean;
        let gap = data.number(&case.simulated(policy), "gap");
        Some(not_above(gap, most).of(format_args!("{policy}, {}", case.setting())))
    });
    let above_bound = pairs().map(|(case, policy)| {
        at_least(data.number(&case.simulated(policy), "response_ratio"), 1.0 - noise)
            .of(format_args!("{policy}, {}", case.setting()))
    });
    let complete = || loads(scale).into_iter().flat_map(|load| SPEED_AWARE.map(|policy| (load, policy)));
    let named = |(load, policy): (f64, PolicySpec)| format!("{policy}, load {load}");
    let of_load = |load: f64| cases(scale, Design::Complete, load);
    let large = |load: f64| of_load(load).filter(|case| case.servers >= LARGE);
    let (least, most) = (OUR_EXPONENT - OUR_TOLERANCE, OUR_EXPONENT + OUR_TOLERANCE);
    vec![
        Verdict::new(
            "Wherever the guarantee says something, it is not below the simulation's interval (taken twice as wide).",
            all(below_guarantee),
        ),
        Verdict::new(
            format!("No simulation is below the lower bound (by more than {noise} of it, twice the precision)."),
            all(above_bound),
        ),
        Verdict::new(
            "[W] On the complete graph the gap response / bound - 1 shrinks at least like N^-1/2.",
            all(complete().map(|(load, policy)| {
                slope_at_most(&gaps(of_load(load), policy, data), SEED_EXPONENT).of(named((load, policy)))
            })),
        ),
        Verdict::new(
            "[W] So does the guarantee's.",
            all(complete().map(|(load, policy)| {
                slope_at_most(&guaranteed_gaps(of_load(load), policy, data), SEED_EXPONENT).of(named((load, policy)))
            })),
        ),
        Verdict::new(
            format!("Ours: from N = {LARGE} on the simulation's gap shrinks like 1/N (slope within {OUR_TOLERANCE})."),
            all(complete().map(|(load, policy)| {
                slope_within(&gaps(large(load), policy, data), least, most).of(named((load, policy)))
            })),
        ),
        Verdict::new(
            format!("Ours: so does the guarantee's (slope within {OUR_TOLERANCE})."),
            all(complete().map(|(load, policy)| {
                slope_within(&guaranteed_gaps(large(load), policy, data), least, most).of(named((load, policy)))
            })),
        ),
    ]
}

/// A guarantee `most` against the gap that was measured, its interval taken twice as wide.
///
/// On large complete graphs the guarantee is the truth to about a percent, and lies within every interval that a simulation can
/// have: then "not below" is all that can be asked, and it is asked at four standard errors, as at two one of forty would be said
/// to be broken by chance. An interval whose half-width is above half the gap is inconclusive.
fn not_above(gap: Option<Number>, most: f64) -> Judgement {
    let Some(gap) = gap else { return Judgement::new(Answer::Inconclusive, "not measured") };
    let answer = if gap.mean - 2.0 * (gap.mean - gap.low) > most {
        Answer::DoesNotHold
    } else if gap.half_width() > 0.5 * gap.mean {
        Answer::Inconclusive
    } else {
        Answer::Holds
    };
    Judgement::new(answer, format!("gap {gap} against a guarantee of {}", plain(most)))
}

fn title(design: Design, load: f64) -> String {
    format!("{design} graph, load {load}")
}

fn figures(scale: Scale, data: &Data) -> Vec<Figure> {
    let ticks = scale
        .pick(vec![256.0, 1024.0, 4096.0, 16_384.0, 65_536.0], vec![256.0, 2048.0, 16_384.0, 131_072.0, 1_048_576.0]);
    let panels = |above: f64| -> Vec<Panel> {
        let lift = |series: Vec<(f64, Option<Number>)>| {
            let up = |y: Number| Number { mean: y.mean + above, low: y.low + above, high: y.high + above };
            series.into_iter().map(|(n, y)| (n, y.map(up))).collect()
        };
        let lines = |design: Design, load: f64| {
            SPEED_AWARE.into_iter().flat_map(move |policy| {
                let cases = || cases(scale, design, load);
                [
                    Series {
                        label: format!("{policy}, guarantee"),
                        points: lift(guaranteed_gaps(cases(), policy, data)),
                    },
                    Series { label: format!("{policy}, simulation"), points: lift(gaps(cases(), policy, data)) },
                ]
            })
        };
        let panel = |(design, load)| Panel { title: title(design, load), series: lines(design, load).collect() };
        families(scale).into_iter().map(panel).collect()
    };
    let mut gap_panels = panels(0.0);
    for panel in &mut gap_panels {
        let first =
            panel.series.iter().find(|s| s.label.ends_with("simulation")).and_then(|s| s.points.first().copied());
        if let Some((n, Some(gap))) = first {
            let line = |exponent: f64| {
                let at = |&x: &f64| (x, Some(Number::exact(gap.mean * (x / n).powf(exponent))));
                ticks.iter().map(at).collect()
            };
            panel.series.push(Series { label: "slope -1/2, [W]".into(), points: line(SEED_EXPONENT) });
            panel.series.push(Series { label: "slope -1, ours".into(), points: line(OUR_EXPONENT) });
        }
    }
    let x = || Axis::log("servers N").ticks(ticks.clone());
    vec![
        Figure {
            name: "response",
            title: "Guarantee, simulation and bound".into(),
            caption:
                "By the theorems the response time lies between the two, often too close to the upper one to be told from it; where a guarantee has no marker it says nothing at this size."
                    .into(),
            x: x(),
            y: Axis::log("response / bound"),
            bound: Some((1.0, "bound".into())),
            panels: panels(1.0),
        },
        Figure {
            name: "gap",
            title: "The gap to the bound".into(),
            caption: "Slopes of -1/2 and -1 are drawn from the first simulation on.".into(),
            x: x(),
            y: Axis::log("response / bound - 1"),
            bound: None,
            panels: gap_panels,
        },
    ]
}

fn slopes(scale: Scale, data: &Data) -> Table {
    let mut rows = Vec::new();
    for (design, load) in families(scale) {
        for policy in SPEED_AWARE {
            let of = |series: Vec<(f64, Option<Number>)>| Cell::from(log_log_slope(&series).ok());
            let all = || cases(scale, design, load);
            let large = || all().filter(|case| case.servers >= LARGE);
            rows.push(vec![
                design.to_string().into(),
                load.into(),
                policy.to_string().into(),
                of(gaps(all(), policy, data)),
                of(gaps(large(), policy, data)),
                of(guaranteed_gaps(all(), policy, data)),
                of(guaranteed_gaps(large(), policy, data)),
                SEED_EXPONENT.into(),
            ]);
        }
    }
    let large = format!("N>={LARGE}");
    Table {
        name: "slopes",
        caption: "Log-log slope over N of response / bound - 1, of the simulation and of the guarantee; none where there are fewer than three sizes.".into(),
        columns: vec![
            "graph".into(),
            "load".into(),
            "policy".into(),
            "simulation".into(),
            format!("simulation, {large}"),
            "guarantee".into(),
            format!("guarantee, {large}"),
            "[W]".into(),
        ],
        rows,
        on_page: true,
    }
}

fn every_point(scale: Scale, data: &Data) -> Table {
    const NUMBERS: [&str; 6] = ["degree", "response_s", "bound_s", "response_ratio", "gap", "blocking"];
    let mut rows = Vec::new();
    for case in all_cases(scale) {
        for policy in SPEED_AWARE {
            let mut row: Vec<Cell> =
                vec![case.design.to_string().into(), case.load.into(), case.servers.into(), policy.to_string().into()];
            row.extend(NUMBERS.map(|name| Cell::from(data.number(&case.simulated(policy), name))));
            let guaranteed = |name: &str| Cell::from(data.number(&case.guaranteed(), name));
            row.extend([guaranteed(&gap_of(policy)), guaranteed(&blocking_of(policy))]);
            rows.push(row);
        }
    }
    let columns = ["graph", "load", "servers", "policy"].into_iter().chain(NUMBERS);
    Table {
        name: "points",
        caption: "All points. The guarantee's gap is to the bound without losses, which is not below that at the accepted throughput.".into(),
        columns: columns.chain(["guaranteed_gap", "guaranteed_blocking"]).map(str::to_owned).collect(),
        rows,
        on_page: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::made_data::{self, around, found};
    use crate::reproduce::verdict::Answer::{DoesNotHold, Holds, Inconclusive};

    /// A gap of `N^exponent` known to `relative`, a guarantee `slack` times as large.
    fn answers(exponent: f64, relative: f64, slack: f64) -> (Answer, Vec<Answer>) {
        let mut points = Vec::new();
        for case in all_cases(Scale::Quick) {
            let gap = f64::from(case.servers).powf(exponent);
            for policy in SPEED_AWARE {
                let numbers = [("response_ratio", around(1.0 + gap, 0.01)), ("gap", around(gap, relative * gap))];
                points.push((case.simulated(policy), found(numbers)));
            }
            let most = Number::exact(slack * gap);
            let [jfsq, jfiq] = SPEED_AWARE.map(gap_of);
            points.push((case.guaranteed(), found([(jfsq.as_str(), most), (jfiq.as_str(), most)])));
        }
        made_data::answers(&Guarantee, points)
    }

    #[test]
    fn the_verdict_gives_each_of_the_three_answers() {
        assert_eq!(answers(-1.0, 0.01, 1.5), (Holds, vec![Holds; 6]));
        assert_eq!(answers(-1.0, 0.6, 1.5).1, [Inconclusive, Holds, Holds, Holds, Inconclusive, Holds]);
        assert_eq!(answers(-1.0, 0.01, 0.9), (DoesNotHold, vec![DoesNotHold, Holds, Holds, Holds, Holds, Holds]));
        let slow = [Holds, Holds, DoesNotHold, DoesNotHold, DoesNotHold, DoesNotHold];
        assert_eq!(answers(-0.3, 0.01, 1.5), (DoesNotHold, slow.to_vec()));
    }

    #[test]
    fn a_response_below_the_bound_is_seen() {
        let mut points = Vec::new();
        for case in all_cases(Scale::Quick) {
            for policy in SPEED_AWARE {
                points.push((
                    case.simulated(policy),
                    found([("response_ratio", around(0.9, 0.01)), ("gap", around(0.1, 0.01))]),
                ));
            }
            points.push((case.guaranteed(), found([])));
        }
        let answers = made_data::answers(&Guarantee, points).1;
        assert_eq!(answers[..2], [Inconclusive, DoesNotHold], "nothing is guaranteed, and the bound is broken");
    }
}
