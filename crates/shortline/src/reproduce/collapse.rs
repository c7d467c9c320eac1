//! State-space collapse: in a large fleet almost nothing moves but the idle servers of class `K`.
//!
//! `C_m` is the number of jobs at the servers of class `m`, over `N`; `C*_m` the same at the fluid bound: all servers of the classes
//! `m < K` busy, class `K` with what is left to do, none slower, nobody waiting. \[W\]'s proof rests on three collapses, under
//! JFSQ and JFIQ:
//!
//! 1. hardly a server of the classes `m < K` is idle;
//! 2. hardly a job is at a server of a class `m > K`;
//! 3. hardly a job waits.
//!
//! On a complete graph the number `X` of idle servers in the classes below `K` goes up at rate `g_{K-1}` less the rates of the
//! idle ones and down at `Lambda` (this project's theorem S1): `P(X >= i)` tends to `(g_{K-1} / Lambda)^i`, whatever `N`. Where an
//! idle server holds only `k` of `N` job types, it is found by an arrival with probability `k / N`: of `x` idle ones none is
//! found with a probability of about `(1 - k/N)^x`, so that `X` wanders about `g_{K-1} N / (Lambda k)`.

use std::sync::Arc;

use shortline_core::Fleet;
use shortline_core::policy::PolicySpec;
use shortline_sim::Means;

use super::experiment::{About, Context, Experiment, Findings, Point, Scale};
use super::figure::{Axis, Figure, Panel, Series};
use super::judge::{agree, all, close_to, falls_to};
use super::measure::{Precision, numbers, simulation};
use super::number::{Data, Found, Number};
use super::optimality_in_n::SPEED_AWARE;
use super::papers::{Design, Setting};
use super::table::{Cell, Table};
use super::verdict::Verdict;
use crate::failure::Failure;

/// The experiment.
pub(crate) struct Collapse;

const GRAPHS: [Design; 2] = [Design::Complete, Design::Random];
/// The classes, fastest first; `K = 2`.
const CLASSES: [&str; 3] = ["fast", "medium", "slow"];
/// Classes below `K`.
const FAST: usize = 1;
/// `g_{K-1} / Lambda`: 1/8 of the servers at rate 1, over 0.9 of 1/8 + 3/16.
const RATIO: f64 = 4.0 / 9.0;
/// Up to so many idle servers the tail is compared with the geometric one.
const COMPARED: usize = 4;
/// And shown.
const SHOWN: usize = 24;

fn sizes(scale: Scale) -> Vec<u32> {
    scale.pick(vec![32, 128, 512], vec![32, 64, 128, 256, 512, 1024, 2048])
}

fn last(scale: Scale) -> u32 {
    sizes(scale).into_iter().max().expect("there are sizes")
}

/// The line of [`optimality_in_n`](super::optimality_in_n); here in units of `C*`, of the fast servers, and relative.
fn tolerance(scale: Scale) -> f64 {
    scale.pick(0.15, 0.05)
}

/// On a complete graph all job types are as one.
fn setting(graph: Design, servers: u32) -> Setting {
    let job_types = if graph == Design::Complete { 1 } else { servers };
    Setting { design: graph, job_types, ..Setting::papers(servers) }
}

fn key(graph: Design, servers: u32, policy: PolicySpec) -> String {
    format!("{} {policy}", setting(graph, servers))
}

fn measured(
    fleet: &Arc<Fleet>,
    policy: PolicySpec,
    precision: Precision,
    context: &Context<'_>,
) -> Result<Found, Failure> {
    let simulation = simulation(fleet, precision, context).policy(policy).idle_of_fastest(FAST);
    let report = simulation.run_observed(context).map_err(Failure::run)?;
    let mut found = numbers(fleet, &report)?;
    if let Some(means) = &report.policies[0].means {
        add_classes(&mut found, fleet, means);
        add_idle(&mut found, means);
    }
    Ok(found)
}

/// `excess_m`: `(E[C_m] - C*_m) / C*`.
fn add_classes(found: &mut Found, fleet: &Fleet, means: &Means) {
    let servers = fleet.server_types().map(|m| fleet.servers_of_type(m).len() as f64);
    let classes: Vec<_> = means.per_server_type.iter().zip(servers).collect();
    let fluid: Option<f64> = classes.iter().map(|(class, servers)| Some(class.fluid_mean_jobs? * servers)).sum();
    let Some(fluid) = fluid else { return };
    for (class, servers) in classes {
        if let (Some(jobs), Some(at_bound)) = (class.mean_jobs.map(Number::from), class.fluid_mean_jobs) {
            let less = |jobs: f64| (jobs - at_bound) * servers / fluid;
            let excess = Number { mean: less(jobs.mean), low: less(jobs.low), high: less(jobs.high) };
            found.set(&format!("excess_{}", class.name), Some(excess));
        }
    }
}

/// `idle_share`: mean share of the fast servers that are idle; `idle_i`: probability that at least `i` are.
fn add_idle(found: &mut Found, means: &Means) {
    let Some(idle) = &means.idle_servers else { return };
    found.set("idle_share", idle.mean.map(|mean| Number::from(mean).scaled(1.0 / idle.servers as f64)));
    for (i, &probability) in idle.at_least.iter().enumerate().take(SHOWN) {
        found.set(&format!("idle_{}", i + 1), Some(Number::from(probability)));
    }
}

impl Experiment for Collapse {
    fn about(&self) -> About {
        About {
            name: "collapse",
            title: "State-space collapse",
            claim: "[W] Under JFSQ and JFIQ the jobs of each speed class come to the fluid bound as N grows: hardly an idle fast server, with a geometric tail, hardly a job at a slow one, hardly one that waits.",
            version: 2,
            quick_s: 1,
            full_min: 2,
        }
    }

    fn setting(&self, scale: Scale) -> String {
        let last = last(scale);
        let degree = Setting::random_degree(last);
        format!(
            "Servers of three speeds (1, 1/2, 1/4 in shares 1/8, 3/8, 1/2), `Lambda = 0.9 g_2`, so that K = 2: one class is faster than class K, one slower. Buffers of 5, exponential sizes, N to {last}. Graphs: complete, where all job types are as one, and random, N job types with equal arrival rates on `ceil(2 ln^2 N)` servers each. Jobs are counted in units of `C*`, the jobs at the fluid bound.\n\nWhat the size does: of n = N/8 fast servers, the geometric law of the idle ones is cut off at n: `P(X >= i)` is smaller than `(4/9)^i` by about `i^2 / 2n`, which is {:.2} for i = {COMPARED} at N = {last}. On the random graph a fast server that is idle waits for one of the {degree} in {last} job types it holds: a share of about `4 N / (9 k n)` = {:.3} of them is idle, which vanishes like `1 / ln^2 N` only.",
            (COMPARED * COMPARED) as f64 / (2.0 * f64::from(last) / 8.0),
            RATIO * 8.0 / f64::from(degree),
        )
    }

    fn points(&self, scale: Scale) -> Vec<Point> {
        let precision =
            Precision { relative_error: scale.pick(0.01, 0.0003), most_events: scale.pick(4_000_000, 400_000_000) };
        let mut points = Vec::new();
        for (graph, servers) in GRAPHS.into_iter().flat_map(|graph| sizes(scale).into_iter().map(move |n| (graph, n))) {
            for policy in SPEED_AWARE {
                let work = move |context: &Context<'_>| {
                    measured(&setting(graph, servers).fleet(context.seed)?, policy, precision, context)
                };
                points.push(Point::new(key(graph, servers, policy), 1.0 + f64::from(servers) / 512.0, work));
            }
        }
        points
    }

    fn findings(&self, scale: Scale, data: &Data) -> Findings {
        let tables = vec![classes(scale, data), tails(scale, data)];
        Findings { verdicts: verdicts(scale, data), figures: figures(scale, data), tables }
    }
}

fn cases() -> impl Iterator<Item = (Design, PolicySpec)> {
    GRAPHS.into_iter().flat_map(|graph| SPEED_AWARE.map(|policy| (graph, policy)))
}

fn series(scale: Scale, data: &Data, (graph, policy): (Design, PolicySpec), name: &str) -> Vec<(f64, Option<Number>)> {
    sizes(scale).into_iter().map(|n| (f64::from(n), data.number(&key(graph, n, policy), name))).collect()
}

fn verdicts(scale: Scale, data: &Data) -> Vec<Verdict> {
    let (last, tolerance) = (last(scale), tolerance(scale));
    let named = |(graph, policy): (Design, PolicySpec)| format!("{policy}, {graph} graph");
    let falls = |name: &str| all(cases().map(|c| falls_to(&series(scale, data, c, name), 0.0, tolerance).of(named(c))));
    let excess = cases().flat_map(|c| CLASSES.map(|class| (c, class))).map(|((graph, policy), class)| {
        let excess = data.number(&key(graph, last, policy), &format!("excess_{class}"));
        close_to(excess, 0.0, tolerance).of(format_args!("{}, {class}", named((graph, policy))))
    });
    let tail =
        SPEED_AWARE.into_iter().flat_map(|policy| (1..=COMPARED).map(move |i| (policy, i))).map(|(policy, i)| {
            let probability = data.number(&key(Design::Complete, last, policy), &format!("idle_{i}"));
            agree(probability, Some(Number::exact(geometric(i))), tolerance).of(format_args!("{policy}, P(X >= {i})"))
        });
    vec![
        Verdict::new(
            format!("The jobs of each class are those of the fluid bound at N = {last}: within {tolerance} C*."),
            all(excess),
        ),
        Verdict::new(
            format!(
                "First collapse: idle fast servers vanish, at most {tolerance} of them at N = {last}, and falling."
            ),
            falls("idle_share"),
        ),
        Verdict::new(
            format!("Second: jobs at slow servers vanish, at most {tolerance} C* at N = {last}, and falling."),
            falls("excess_slow"),
        ),
        Verdict::new(
            format!("Third: waiting jobs vanish, at most {tolerance} C* at N = {last}, and falling."),
            falls("waiting_ratio"),
        ),
        Verdict::new(
            format!(
                "On the complete graph the number X of idle fast servers is geometric: P(X >= i) is (g_1 / Lambda)^i = (4/9)^i, within {tolerance} of it, for i = 1 to {COMPARED} at N = {last}."
            ),
            all(tail),
        ),
    ]
}

fn geometric(i: usize) -> f64 {
    (0..i).map(|_| RATIO).product()
}

/// `P(X >= i)` for `i` from 1 of the chain on the random graph where of `x` idle fast servers none is found with probability
/// `(1 - k/N)^x`: up from `x` at rate `n - x`, down from `x + 1` at `Lambda (1 - (1 - k/N)^(x+1))`.
fn birth_and_death(servers: u32) -> Vec<f64> {
    let (n, fast) = (f64::from(servers), servers / 8);
    let arrivals = f64::from(fast) / RATIO;
    let missed = 1.0 - f64::from(Setting::random_degree(servers)) / n;
    let mut law = vec![1.0];
    for x in 0..fast {
        let up = f64::from(fast - x) / (arrivals * (1.0 - missed.powf(f64::from(x) + 1.0)));
        law.push(law[law.len() - 1] * up);
    }
    let sum: f64 = law.iter().sum();
    (1..=SHOWN.min(fast as usize)).map(|i| law[i..].iter().sum::<f64>() / sum).collect()
}

fn figures(scale: Scale, data: &Data) -> Vec<Figure> {
    let over_n = |name: &str, title: &str| Panel {
        title: title.into(),
        series: cases()
            .map(|c| Series { label: format!("{}, {}", c.1, c.0), points: series(scale, data, c, name) })
            .collect(),
    };
    let sizes_shown = || sizes(scale).into_iter().filter(|n| [32, 128, 512, 2048].contains(n));
    let tail = |graph: Design| {
        let of = |n: u32| {
            let number = move |i| data.number(&key(graph, n, PolicySpec::Jfsq), &format!("idle_{i}"));
            Series { label: format!("N = {n}"), points: (1..=SHOWN).map(|i| (i as f64, number(i))).collect() }
        };
        let law: Vec<f64> = match graph {
            Design::Complete => (1..=SHOWN).map(geometric).take_while(|&p| p > 1e-6).collect(),
            _ => birth_and_death(last(scale)),
        };
        let law = law.into_iter().enumerate().map(|(i, p)| (i as f64 + 1.0, Some(Number::exact(p))));
        let law = Series { label: "theory".into(), points: law.collect() };
        Panel { title: format!("{graph} graph"), series: sizes_shown().map(of).chain([law]).collect() }
    };
    vec![
        Figure {
            name: "collapses",
            title: "Three collapses".into(),
            caption: "What is to vanish, for each policy and graph. An interval without a marker reaches from 0: none was seen.".into(),
            x: Axis::log("servers N").ticks(sizes_shown().map(f64::from)),
            y: Axis::log("share"),
            bound: None,
            panels: vec![
                over_n("idle_share", "idle fast servers / all fast servers"),
                over_n("excess_slow", "jobs at slow servers / C*"),
                over_n("waiting_ratio", "waiting jobs / C*"),
            ],
        },
        Figure {
            name: "idle",
            title: "Idle fast servers".into(),
            caption: "Probability that at least i fast servers are idle, JFSQ. Theory: on the complete graph the geometric law (g_1/Lambda)^i; on the random one the chain at the largest N whose arrivals miss x idle servers with probability (1 - k/N)^x.".into(),
            x: Axis::linear("idle fast servers i"),
            y: Axis::log("P(at least i idle)"),
            bound: None,
            panels: GRAPHS.map(tail).into(),
        },
    ]
}

/// Jobs of each class, and the three collapses.
fn classes(scale: Scale, data: &Data) -> Table {
    const NUMBERS: [&str; 6] =
        ["excess_fast", "excess_medium", "excess_slow", "idle_share", "waiting_ratio", "response_ratio"];
    rows(
        scale,
        data,
        "classes",
        "Excess of each class over the fluid bound, `(E[C_m] - C*_m) / C*`; share of the fast servers that are idle; waiting jobs over `C*`.",
        &NUMBERS.map(str::to_owned),
        true,
    )
}

fn tails(scale: Scale, data: &Data) -> Table {
    let numbers: Vec<String> = (1..=SHOWN).map(|i| format!("idle_{i}")).collect();
    rows(scale, data, "idle", "`idle_i`: probability that at least i fast servers are idle.", &numbers, false)
}

fn rows(scale: Scale, data: &Data, name: &'static str, caption: &str, numbers: &[String], on_page: bool) -> Table {
    let mut rows = Vec::new();
    for ((graph, policy), n) in cases().flat_map(|c| sizes(scale).into_iter().map(move |n| (c, n))) {
        let mut row: Vec<Cell> = vec![graph.to_string().into(), policy.to_string().into(), n.into()];
        row.extend(numbers.iter().map(|name| Cell::from(data.number(&key(graph, n, policy), name))));
        rows.push(row);
    }
    let columns = ["graph", "policy", "servers"].map(str::to_owned).into_iter().chain(numbers.iter().cloned());
    Table { name, caption: caption.into(), columns: columns.collect(), rows, on_page }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::reproduce::made_data::{self, around, found};
    use crate::reproduce::verdict::Answer::{self, DoesNotHold, Holds, Inconclusive};

    /// Everything that is to vanish `small 512 / N`; a tail whose first ratio is `ratio`.
    fn answers(small: f64, ratio: f64, half_width: f64) -> (Answer, Vec<Answer>) {
        let mut points = Vec::new();
        for ((graph, policy), n) in cases().flat_map(|c| sizes(Scale::Quick).into_iter().map(move |n| (c, n))) {
            let share = around(small * 512.0 / f64::from(n), half_width);
            let names = ["excess_fast", "excess_medium", "excess_slow", "idle_share", "waiting_ratio"];
            let mut numbers = found(names.map(|name| (name, share)));
            for i in 1..=COMPARED {
                let p = geometric(i) * ratio / RATIO;
                numbers.set(&format!("idle_{i}"), Some(around(p, p * half_width)));
            }
            points.push((key(graph, n, policy), numbers));
        }
        made_data::answers(&Collapse, points)
    }

    #[test]
    fn the_verdict_gives_each_of_the_three_answers() {
        assert_eq!(answers(0.05, RATIO, 0.01), (Holds, vec![Holds; 5]));
        assert_eq!(answers(0.05, RATIO, 0.2), (Inconclusive, vec![Inconclusive; 5]));
        assert_eq!(answers(0.5, RATIO, 0.01), (DoesNotHold, [vec![DoesNotHold; 4], vec![Holds]].concat()));
        assert_eq!(answers(0.05, 0.6, 0.01), (DoesNotHold, [vec![Holds; 4], vec![DoesNotHold]].concat()));
    }

    /// Goal: the excesses add up to the whole gap, and the idle fast servers to what is missing there. Method: one short run;
    /// the first is an identity but for the throughput's noise, 1 % here; the second one of means.
    #[test]
    fn the_excesses_of_the_classes_make_the_gap() {
        let stop = AtomicBool::new(false);
        let context = Context { seed: 1, own_seed: 1, stop: &stop };
        let fleet = setting(Design::Random, 32).fleet(1).unwrap();
        let precision = Precision { relative_error: 0.02, most_events: 4_000_000 };
        let found = measured(&fleet, PolicySpec::Jfsq, precision, &context).unwrap();
        let mean = |name: &str| found.numbers[name].mean;
        let excess: f64 = CLASSES.iter().map(|class| mean(&format!("excess_{class}"))).sum();
        assert!((1.0 + excess - mean("response_ratio")).abs() < 0.01);
        assert!(mean("idle_share") > 0.0 && mean("idle_1") > mean("idle_2"));
    }

    #[test]
    fn the_chain_of_a_complete_graph_is_nearly_geometric() {
        // At N = 32 the random graph has 25 of 32 edges; four fast servers.
        let law = birth_and_death(32);
        assert_eq!(law.len(), 4);
        // Weights 1, (4/9) / (25/32), ...: by hand.
        let missed = 7.0_f64 / 32.0;
        let up = |x: i32| f64::from(4 - x) / (9.0 * (1.0 - missed.powi(x + 1)));
        let weights = [1.0, up(0), up(0) * up(1), up(0) * up(1) * up(2), up(0) * up(1) * up(2) * up(3)];
        let sum: f64 = weights.iter().sum();
        assert!((law[0] - weights[1..].iter().sum::<f64>() / sum).abs() < 1e-12);
        assert!((law[3] - weights[4] / sum).abs() < 1e-12);
    }
}
