//! Heavy traffic: how fast may the load come to 1 as the fleet grows?
//!
//! `1 - load = c N^-a` of the whole fleet. \[W\]'s theorem is about `a < 1/2` (and fixed loads), where the slack `c N^(1-a)` is
//! large against the fluctuations `sqrt N`: waiting vanishes. What is known of the rest, for JSQ on complete graphs:
//!
//! | | share of the jobs that wait | source |
//! |---|---|---|
//! | `a = 1/2`, Halfin-Whitt | `N^-1/2` | Eschenfeldt, Gamarnik (2018) |
//! | `1/2 < a < 1` | `N^-(1-a)`, but for a logarithm | Liu, Ying (2022) |
//! | `a = 1`, nondegenerate slowdown | does not vanish | Gupta, Walton (2019) |
//!
//! JSQ(d) finds its `d` servers busy with a probability of about `load^d`: that vanishes where `d (1 - load)` grows, tends to
//! `1/e` for `d = 1/(1 - load)`, and to 1 for `d = ln N`, as a power of `N` grows faster. With `d >= sqrt(N) ln N` it is as good
//! as JSQ on the Halfin-Whitt line (Mukherjee, Borst, van Leeuwaarden, Whiting, 2018).

use std::fmt;

use shortline_core::policy::{Choices, PolicySpec};
use shortline_theory::guarantee;

use super::experiment::{About, Context, Experiment, Findings, Point, Scale};
use super::figure::{Axis, Figure, Panel, Series};
use super::judge::{all, at_least, close_to, falls_to, slope_at_most};
use super::measure::{Precision, simulate};
use super::number::{Data, Found, Number, plain};
use super::optimality_in_n::SPEED_AWARE;
use super::papers::{Design, Setting, Speeds};
use super::table::{Cell, Table};
use super::verdict::Verdict;
use crate::failure::Failure;

/// The experiment.
pub(crate) struct Regimes;

const EXPONENTS: [f64; 5] = [0.2, 0.4, HALFIN_WHITT, SUPER, SLOWDOWN];
/// What they are called.
const REGIMES: [&str; 5] = ["sub-Halfin-Whitt", "sub-Halfin-Whitt", "Halfin-Whitt", "beyond", "nondegenerate slowdown"];
/// Those of the theorem.
const SUB: [f64; 2] = [0.2, 0.4];
const HALFIN_WHITT: f64 = 0.5;
const SUPER: f64 = 0.7;
const SLOWDOWN: f64 = 1.0;
/// `c` on the Halfin-Whitt line.
const FACTORS: [f64; 3] = [0.5, 1.0, 2.0];
/// Waiting at `a = 1` that counts as kept, in service times: half of what one line in front of all servers has there.
const KEPT: f64 = 0.5;

/// What is simulated: everything but the size.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Case {
    speeds: Speeds,
    graph: Graph,
    a: f64,
    c: f64,
    rule: Rule,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Graph {
    Complete,
    /// Each job type on `ceil(sqrt(N) ln N)` random servers.
    Dense,
}

/// A policy, whose number of choices may depend on the load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rule {
    Fixed(PolicySpec),
    /// JSQ(d) with `d = ceil(1 / (1 - load))`.
    OverSlack,
}

const JSQ: Rule = Rule::Fixed(PolicySpec::Jsq);
const LOG: Rule = Rule::Fixed(PolicySpec::JsqD(Choices::Log));
const SQRT_LOG: Rule = Rule::Fixed(PolicySpec::JsqD(Choices::SqrtLog));
/// The rules on equal servers.
const BLIND: [Rule; 5] = [JSQ, Rule::Fixed(PolicySpec::Jiq), LOG, SQRT_LOG, Rule::OverSlack];

impl Case {
    fn aware(a: f64, policy: PolicySpec) -> Self {
        let speeds = Speeds::ThreeAllNeeded;
        Self { speeds, graph: Graph::Complete, a, c: 1.0, rule: Rule::Fixed(policy) }
    }

    fn equal(a: f64, rule: Rule) -> Self {
        Self { speeds: Speeds::Equal, graph: Graph::Complete, a, c: 1.0, rule }
    }

    fn line(c: f64, graph: Graph) -> Self {
        Self { graph, c, ..Self::equal(HALFIN_WHITT, JSQ) }
    }

    fn key(self, servers: u32) -> String {
        let Self { speeds, graph, a, c, rule } = self;
        let speeds = if speeds == Speeds::Equal { "equal" } else { "3-all-needed" };
        let graph = if graph == Graph::Complete { "complete" } else { "dense" };
        format!("a={a} c={c} n={servers} speeds={speeds} graph={graph} {rule}")
    }

    fn load(self, servers: u32) -> f64 {
        1.0 - self.c * f64::from(servers).powf(-self.a)
    }

    /// On a complete graph all job types are as one.
    fn setting(self, servers: u32) -> Setting {
        let (design, job_types) = match self.graph {
            Graph::Complete => (Design::Complete, 1),
            Graph::Dense => (Design::Degree(Choices::SqrtLog.count(servers as usize)), servers),
        };
        Setting { speeds: self.speeds, design, job_types, load_first_k: self.load(servers), ..Setting::papers(servers) }
    }

    fn policy(self, servers: u32) -> PolicySpec {
        match self.rule {
            Rule::Fixed(policy) => policy,
            Rule::OverSlack => PolicySpec::JsqD(Choices::Number(self.choices(servers))),
        }
    }

    /// `d` of JSQ(d).
    fn choices(self, servers: u32) -> u32 {
        match self.rule {
            Rule::Fixed(PolicySpec::JsqD(choices)) => choices.count(servers as usize),
            Rule::Fixed(_) => servers,
            // A whole number that rounding moved up is not rounded up again.
            Rule::OverSlack => (f64::from(servers).powf(self.a) / self.c - 1e-9).ceil() as u32,
        }
    }

    /// The share of jobs that find their `d` servers busy if servers are busy independently of each other.
    fn all_busy(self, servers: u32) -> f64 {
        self.load(servers).powf(f64::from(self.choices(servers)))
    }

    fn sizes(self, scale: Scale) -> Vec<u32> {
        let sampled = matches!(self.rule, Rule::OverSlack | Rule::Fixed(PolicySpec::JsqD(_)));
        if scale == Scale::Quick && self.rule == SQRT_LOG {
            return vec![32, 64, 128];
        }
        let most = match self {
            _ if self.a >= SLOWDOWN => scale.pick(128, 512),
            // A job looks at some hundred servers.
            _ if self.rule == SQRT_LOG => 2048,
            _ if sampled || self.graph == Graph::Dense || self.a >= SUPER => 8192,
            _ => 32_768,
        };
        sizes(scale).into_iter().filter(|&n| n <= most).collect()
    }

    fn last(self, scale: Scale) -> u32 {
        self.sizes(scale).into_iter().max().expect("there are sizes")
    }

    fn series(self, scale: Scale, data: &Data, name: &str) -> Vec<(f64, Option<Number>)> {
        self.sizes(scale).into_iter().map(|n| (f64::from(n), data.number(&self.key(n), name))).collect()
    }

    fn at_last(self, scale: Scale, data: &Data, name: &str) -> Option<Number> {
        data.number(&self.key(self.last(scale)), name)
    }
}

/// `jsq, equal speeds, complete graph, a = 0.5, c = 1`.
impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let graph = if self.graph == Graph::Complete { "complete" } else { "dense" };
        write!(f, "{}, {}, {graph} graph, a = {}, c = {}", self.rule, self.speeds.title(), self.a, self.c)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(policy) => policy.fmt(f),
            Self::OverSlack => f.write_str("jsq(1/(1-load))"),
        }
    }
}

fn sizes(scale: Scale) -> Vec<u32> {
    scale.pick(vec![32, 128, 512], vec![32, 128, 512, 2048, 8192, 32_768])
}

/// Left out is what no claim is about and is slow: beyond the Halfin-Whitt line many choices, and in a quick run most else.
fn cases(scale: Scale) -> Vec<Case> {
    let aware = EXPONENTS.into_iter().flat_map(|a| SPEED_AWARE.map(|policy| Case::aware(a, policy)));
    let equal = EXPONENTS.into_iter().flat_map(|a| BLIND.map(|rule| Case::equal(a, rule)));
    let line = lines().filter(|case| *case != Case::equal(HALFIN_WHITT, JSQ));
    let kept = |case: &Case| {
        let shortest = [JSQ, Rule::Fixed(PolicySpec::Jfsq)].contains(&case.rule);
        let many = [SQRT_LOG, Rule::OverSlack].contains(&case.rule);
        case.a <= HALFIN_WHITT || shortest || (scale == Scale::Full && !many)
    };
    aware.chain(equal).filter(kept).chain(line).collect()
}

/// The cases on the Halfin-Whitt line; one of them is among the exponents too.
fn lines() -> impl Iterator<Item = Case> {
    [Graph::Complete, Graph::Dense].into_iter().flat_map(|graph| FACTORS.map(|c| Case::line(c, graph)))
}

/// The line of [`optimality_in_n`](super::optimality_in_n).
fn tolerance(scale: Scale) -> f64 {
    scale.pick(0.15, 0.05)
}

/// Less where a run takes long: close to 1 the fleet forgets slowly, many choices take long each.
fn precision(scale: Scale, case: Case) -> Precision {
    let (relative_error, most_events) = match case.a {
        a if a >= SLOWDOWN => (scale.pick(0.1, 0.03), scale.pick(2_000_000, 200_000_000)),
        a if a >= SUPER => (scale.pick(0.05, 0.01), scale.pick(2_000_000, 200_000_000)),
        _ if case.rule == SQRT_LOG => (scale.pick(0.05, 0.01), scale.pick(1_000_000, 4_000_000)),
        _ => (scale.pick(0.02, 0.003), scale.pick(2_000_000, 200_000_000)),
    };
    Precision { relative_error, most_events }
}

fn guarantee_key(a: f64, servers: u32) -> String {
    format!("guarantee a={a} n={servers}")
}

/// The guarantee of JFSQ on the complete graph, as a ratio to the fluid bound; none where it is vacuous.
fn guaranteed(a: f64, servers: u32, context: &Context<'_>) -> Result<Found, Failure> {
    let case = Case::aware(a, PolicySpec::Jfsq);
    let fleet = case.setting(servers).fleet(context.seed)?;
    let complete = |_: usize, i: usize| if i == 0 { 1.0 } else { 0.0 };
    let jobs = guarantee::evaluate(&fleet, PolicySpec::Jfsq, &complete).map_err(Failure::run)?.jobs;
    let mut found = Found::default();
    match jobs {
        Ok(jobs) => found.set("guaranteed_ratio", jobs.ratio_to_fluid.map(Number::exact)),
        Err(why) => found.note = Some(why.to_string()),
    }
    Ok(found)
}

impl Experiment for Regimes {
    fn about(&self) -> About {
        About {
            name: "regimes",
            title: "How fast the load may come to 1",
            claim: "[W] With 1 - load = N^-a, waiting vanishes for a < 1/2, the theorem's range. JSQ's still does at a = 1/2 and 0.7, not at a = 1 (literature); JSQ(d) needs more than 1/(1 - load) choices.",
            version: 1,
            quick_s: 9,
            full_min: 14,
        }
    }

    fn setting(&self, scale: Scale) -> String {
        format!(
            "Load `1 - c N^-a` of the whole fleet, c = 1 where nothing else is said, N to {}. Three speeds (1, 1/2, 1/4 in shares 1/8, 3/8, 1/2) under JFSQ and JFIQ, equal speeds under JSQ, JIQ and JSQ(d) with `d = ceil(ln N)` (log), `ceil(sqrt(N) ln N)` (sqrt-log) and `ceil(1/(1 - load))`. Buffers of 5, exponential sizes. Every job type on every server, where all job types are as one; on the Halfin-Whitt line also a dense random graph, each of N job types on `ceil(sqrt(N) ln N)` servers. The bound is the fluid bound at the accepted throughput. The guarantee is this project's for JFSQ on the complete graph, the theorem's part in a fleet of finite size.\n\nWhat the size does: at a = 0.4 the slack `N^0.6` is 1.9 times `sqrt N` at N = 512 and 2.8 times at 32,768, so that the limit comes slowly; at a = 1/2 it stays c `sqrt N`, and the guarantee levels off above the bound, as the share of jobs that may miss an idle server does not vanish in it (0.13 at N = 32,768). The power laws are those of large N: where the share of waiting jobs is near its limit of 1 (c = 1/2, a = 0.7), or the slack is so few servers that they can be counted (N = 32 and 128), it falls more slowly. At a = 1 the number of jobs takes about `N` service times, `N^2` events, to forget where it was: the largest N is {} there, with wider intervals. With a = 0.2 and 0.4 the share of waiting jobs under JSQ(log), `load^d`, is still far from its limit, 1, at these sizes: it is held against `load^d`.",
            sizes(scale).last().expect("there are sizes"),
            Case::equal(SLOWDOWN, JSQ).last(scale),
        )
    }

    fn points(&self, scale: Scale) -> Vec<Point> {
        let mut points = Vec::new();
        for case in cases(scale) {
            for servers in case.sizes(scale) {
                let work = move |context: &Context<'_>| {
                    let fleet = case.setting(servers).fleet(context.seed)?;
                    simulate(&fleet, case.policy(servers), precision(scale, case), context)
                };
                points.push(Point::new(case.key(servers), cost(case, servers), work));
            }
        }
        for a in EXPONENTS {
            points.extend(
                sizes(scale).into_iter().map(|n| {
                    Point::new(guarantee_key(a, n), 1.0, move |context: &Context<'_>| guaranteed(a, n, context))
                }),
            );
        }
        points
    }

    fn findings(&self, scale: Scale, data: &Data) -> Findings {
        let tables = vec![guarantees(scale, data), table(scale, data)];
        Findings { verdicts: verdicts(scale, data), figures: figures(scale, data), tables }
    }
}

fn cost(case: Case, servers: u32) -> f64 {
    let n = f64::from(servers);
    let choices = match case.rule {
        Rule::OverSlack | Rule::Fixed(PolicySpec::JsqD(_)) => f64::from(case.choices(servers)),
        Rule::Fixed(_) => 0.0,
    };
    (1.0 + choices) * n.powf(2.0 * case.a - 1.0).max(1.0) + n / 2048.0
}

fn verdicts(scale: Scale, data: &Data) -> Vec<Verdict> {
    let tolerance = tolerance(scale);
    let within_theorem = SUB.into_iter().flat_map(|a| {
        let aware = SPEED_AWARE.map(|policy| Case::aware(a, policy));
        aware.into_iter().chain([JSQ, Rule::Fixed(PolicySpec::Jiq)].map(|rule| Case::equal(a, rule)))
    });
    let optimal = within_theorem.map(|c| falls_to(&c.series(scale, data, "response_ratio"), 1.0, tolerance).of(c));
    let slope = |case: Case, most: f64| slope_at_most(&case.series(scale, data, "fraction_waiting"), most).of(case);
    let sqrt_log = SUB.into_iter().map(|a| Case::equal(a, SQRT_LOG));
    let sqrt_log = sqrt_log.map(|c| falls_to(&c.series(scale, data, "fraction_waiting"), 0.0, tolerance).of(c));
    let too_few = SUB
        .into_iter()
        .flat_map(|a| [LOG, Rule::OverSlack].map(|rule| Case::equal(a, rule)))
        .map(|c| close_to(c.at_last(scale, data, "fraction_waiting"), c.all_busy(c.last(scale)), tolerance).of(c));
    let slowdown = Case::equal(SLOWDOWN, JSQ);
    let vanishes = lines().map(|c| falls_to(&c.series(scale, data, "fraction_waiting"), 0.0, tolerance).of(c));
    vec![
        Verdict::new(
            format!(
                "a < 1/2: response / bound falls to 1 under JFSQ and JFIQ (three speeds), JSQ and JIQ (equal speeds): within {tolerance} at the largest N."
            ),
            all(optimal),
        ),
        Verdict::new(
            format!(
                "a = 1/2: the share of jobs that wait under JSQ vanishes, for each c, on the complete and the dense graph: at most {tolerance} at the largest N, and falling."
            ),
            all(vanishes),
        ),
        Verdict::new(
            "a = 1/2: it falls at least like N^-0.4 (theory: N^-0.5).",
            all(lines().map(|case| slope(case, -0.4))),
        ),
        Verdict::new(
            "a = 0.7: it falls at least like N^-0.2 (theory: N^-0.3, but for a logarithm).",
            slope(Case::equal(SUPER, JSQ), -0.2),
        ),
        Verdict::new(
            format!("a = 1: it does not vanish; jobs wait at least {KEPT} service times in the mean at the largest N."),
            at_least(slowdown.at_last(scale, data, "waiting_ratio"), KEPT).of(slowdown),
        ),
        Verdict::new(
            format!(
                "JSQ(sqrt-log) is as good for a <= 1/2: the share of jobs that wait falls to 0, within {tolerance}, for a < 1/2, and at least like N^-0.4 at a = 1/2."
            ),
            all(sqrt_log.chain([slope(Case::equal(HALFIN_WHITT, SQRT_LOG), -0.4)])),
        ),
        Verdict::new(
            format!(
                "With ln N or 1/(1 - load) choices it does not vanish for a < 1/2: it is load^d, within {tolerance}, at the largest N."
            ),
            all(too_few),
        ),
    ]
}

fn figures(scale: Scale, data: &Data) -> Vec<Figure> {
    let x = || Axis::log("servers N").ticks(sizes(scale).into_iter().map(f64::from));
    let line = |case: Case, label: String, name: &str| Series { label, points: case.series(scale, data, name) };
    let guarantee = |a: f64| Series {
        label: "guarantee".into(),
        points: sizes(scale)
            .into_iter()
            .map(|n| (f64::from(n), data.number(&guarantee_key(a, n), "guaranteed_ratio")))
            .collect(),
    };
    let response = EXPONENTS.map(|a| {
        let simulated = SPEED_AWARE.map(|policy| Case::aware(a, policy)).into_iter();
        let simulated = simulated
            .filter(|case| cases(scale).contains(case))
            .map(|case| line(case, case.rule.to_string(), "response_ratio"));
        Panel { title: format!("a = {a}"), series: simulated.chain([guarantee(a)]).collect() }
    });
    let waiting = EXPONENTS.map(|a| Panel {
        title: format!("a = {a}"),
        series: BLIND
            .map(|rule| Case::equal(a, rule))
            .into_iter()
            .filter(|case| cases(scale).contains(case))
            .map(|case| line(case, case.rule.to_string(), "fraction_waiting"))
            .collect(),
    });
    let on_line = [Graph::Complete, Graph::Dense].map(|graph| Panel {
        title: if graph == Graph::Complete { "complete graph" } else { "sqrt(N) ln N servers each" }.into(),
        series: FACTORS.map(|c| line(Case::line(c, graph), format!("jsq, c = {c}"), "fraction_waiting")).into(),
    });
    vec![
        Figure {
            name: "response",
            title: "Mean response time over the bound, 1 - load = N^-a".into(),
            caption: "Three speeds. The guarantee is drawn where it says anything; in theory it comes down to the bound for a < 1/2 only.".into(),
            x: x(),
            y: Axis::log("response / bound"),
            bound: Some((1.0, "bound".to_owned())),
            panels: response.into(),
        },
        Figure {
            name: "waiting",
            title: "Jobs that wait, 1 - load = N^-a".into(),
            caption: "Equal speeds. Share of the accepted jobs that do not start at once; an interval without a marker reaches from 0: none was seen.".into(),
            x: x(),
            y: Axis::log("share of the jobs that wait"),
            bound: None,
            panels: waiting.into(),
        },
        Figure {
            name: "halfin-whitt",
            title: "The Halfin-Whitt line, 1 - load = c N^-1/2".into(),
            caption: "Equal speeds, JSQ. Theory, for large N on the complete graph: the share of jobs that wait falls like N^-1/2; the third claim says whether it does at these sizes.".into(),
            x: x(),
            y: Axis::log("share of the jobs that wait"),
            bound: None,
            panels: on_line.into(),
        },
    ]
}

/// Whether the guarantee says anything, beside each regime.
fn guarantees(scale: Scale, data: &Data) -> Table {
    let said = |a: f64, n: u32| match data.number(&guarantee_key(a, n), "guaranteed_ratio") {
        Some(ratio) => plain(ratio.mean),
        None => "vacuous".to_owned(),
    };
    let row = |(a, regime): (f64, &str)| -> Vec<Cell> {
        let cells = sizes(scale).into_iter().map(|n| Cell::from(said(a, n)));
        [a.into(), regime.into()].into_iter().chain(cells).collect()
    };
    Table {
        name: "guarantee",
        caption: "Guaranteed response time over the fluid bound, JFSQ, three speeds, complete graph; `vacuous`: the guarantee says nothing at this size.".into(),
        columns: ["a", "regime"].map(str::to_owned).into_iter().chain(sizes(scale).iter().map(|n| format!("N={n}"))).collect(),
        rows: EXPONENTS.into_iter().zip(REGIMES).map(row).collect(),
        on_page: true,
    }
}

fn table(scale: Scale, data: &Data) -> Table {
    const NUMBERS: [&str; 4] = ["response_ratio", "waiting_ratio", "fraction_waiting", "blocking"];
    let mut rows = Vec::new();
    for case in cases(scale) {
        for servers in case.sizes(scale) {
            let graph = if case.graph == Graph::Complete { "complete" } else { "dense" };
            let mut row: Vec<Cell> = vec![case.speeds.title().into(), graph.into(), case.rule.to_string().into()];
            row.extend([case.a, case.c].map(Cell::from));
            row.extend([servers.into(), case.load(servers).into()]);
            row.extend(NUMBERS.map(|name| Cell::from(data.number(&case.key(servers), name))));
            rows.push(row);
        }
    }
    let columns = ["fleet", "graph", "policy", "a", "c", "servers", "load"].into_iter().chain(NUMBERS);
    Table {
        name: "points",
        caption: "All points.".into(),
        columns: columns.map(str::to_owned).collect(),
        rows,
        on_page: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::made_data::{self, around, found, none_seen};
    use crate::reproduce::verdict::Answer::{self, DoesNotHold, Holds, Inconclusive};

    /// What a case does in made data: share of jobs that wait and mean waiting.
    type Made = dyn Fn(Case, u32) -> f64;

    /// As theory has it, relative half-width 0.01.
    fn theory(case: Case, n: u32) -> f64 {
        match (case.rule, case.a) {
            (LOG | Rule::OverSlack, _) => case.all_busy(n),
            (_, a) if a < 0.5 => 2.0 / f64::from(n),
            (_, SLOWDOWN) => 0.9,
            (_, a) => f64::from(n).powf(a - 1.0),
        }
    }

    fn answers(waiting: &Made, half_width: f64) -> (Answer, Vec<Answer>) {
        let mut points = Vec::new();
        for (case, n) in
            cases(Scale::Quick).into_iter().flat_map(|c| c.sizes(Scale::Quick).into_iter().map(move |n| (c, n)))
        {
            let waiting = waiting(case, n);
            let near = |mean: f64| around(mean, mean * half_width);
            let numbers = [
                ("response_ratio", near(1.0 + waiting)),
                ("waiting_ratio", near(waiting)),
                ("fraction_waiting", near(waiting)),
                ("blocking", none_seen(1e-4)),
            ];
            points.push((case.key(n), found(numbers)));
        }
        let guarantees = EXPONENTS.into_iter().flat_map(|a| sizes(Scale::Quick).into_iter().map(move |n| (a, n)));
        points
            .extend(guarantees.map(|(a, n)| (guarantee_key(a, n), found([("guaranteed_ratio", Number::exact(2.0))]))));
        made_data::answers(&Regimes, points)
    }

    #[test]
    fn the_verdict_gives_each_of_the_three_answers() {
        assert_eq!(answers(&theory, 0.01), (Holds, vec![Holds; 7]));
        assert_eq!(answers(&theory, 0.5).0, Inconclusive);
        let stays = |_: Case, _: u32| 0.4;
        assert_eq!(answers(&stays, 0.01), (DoesNotHold, vec![DoesNotHold; 7]));
        let slowdown_vanishes = |case: Case, n| if case.a >= SLOWDOWN { 0.1 } else { theory(case, n) };
        assert_eq!(answers(&slowdown_vanishes, 0.01).1, [Holds, Holds, Holds, Holds, DoesNotHold, Holds, Holds]);
    }

    #[test]
    fn choices_are_whole_numbers_that_rounding_does_not_move() {
        let choices = |a: f64, n: u32| Case::equal(a, Rule::OverSlack).choices(n);
        assert_eq!((choices(0.2, 32), choices(0.4, 32), choices(1.0, 512)), (2, 4, 512));
        assert_eq!(choices(0.4, 512), 13, "512^0.4 = 12.1");
        assert_eq!(Case::equal(0.2, LOG).choices(512), 7, "ln 512 = 6.2");
    }
}
