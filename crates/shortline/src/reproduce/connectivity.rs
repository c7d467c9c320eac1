//! How many copies of each job type, and does it matter where they are?
//!
//! \[W\]: at a fixed load `omega(1)` servers per job type are enough, any number that grows with the fleet, however slowly; as the
//! load `lambda` of the needed servers goes to 1, graphs with `(L + N) / (1 - lambda)^2` edges are (up to a factor that grows
//! slowly), and with equal arrival rates `(L + N) / (1 - lambda) ln(1 / (1 - lambda))`. These are graphs that suffice; how many edges
//! are needed is found here by interpolation in sweeps over the degree.
//!
//! **What to expect.** By the mean field the gap to the bound depends on degree and load, not on size. It has two parts: a fast server
//! that idles is found only by jobs that have it among their `k`, which costs in proportion to `1/k` at any load; and a job finds its
//! needed servers all busy with a probability of about `exp(-k n_K/N (1 - lambda))`. The first needs `k ~ 1 / gap`, whatever
//! the load, the second `k ~ ln(1 / gap) / (1 - lambda)`. So edges grow more slowly than `1 / (1 - lambda)` at first, and like it at
//! the end.

use shortline_core::policy::PolicySpec;
use shortline_theory::bounds::FluidBound;
use shortline_theory::connectivity::Connectivity;
use shortline_theory::mean_field::MeanField;

use super::experiment::{About, Context, Experiment, Findings, Point, Scale};
use super::figure::{Axis, Figure, Panel, Series};
use super::judge::{all, below, close_to, falls_to, log_log_slope, slope_at_most};
use super::measure::{Precision, simulate};
use super::number::{Data, Found, Number};
use super::papers::{Design, Setting};
use super::table::{Cell, Table};
use super::verdict::Verdict;
use crate::failure::Failure;

/// The experiment.
pub(crate) struct Connected;

/// The load of the size sweep and of the bad placements.
const LOAD: f64 = 0.9;
/// The loads that are drawn, with both policies in full.
const DRAWN: [f64; 3] = [0.7, 0.9, 0.95];
/// The gaps whose edges are counted.
const GAPS: [f64; 2] = [0.1, 0.03];
/// Degrees of the bad placements.
const PLACED: [u32; 2] = [16, 64];
/// The degree whose gap is compared between sizes, and how much of the bound it may differ.
const COMPARED: u32 = 32;
const SAME: f64 = 0.02;
/// How far above 1 a fitted exponent of `L + N` may be: `omega(1)` copies may hide a logarithm.
const SIZE_EXPONENT: f64 = 1.1;
/// Exponent of `1 / (1 - lambda)` of \[W\]'s general graph.
const GENERAL_EXPONENT: f64 = 2.0;

/// A number over something.
type Curve = Vec<(f64, Option<Number>)>;

/// A fleet whose degree varies.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Fleets {
    servers: u32,
    job_types: u32,
    load: f64,
}

impl Fleets {
    fn at(self, design: Design) -> Setting {
        let Self { servers, job_types, load } = self;
        Setting { job_types, load_first_k: load, design, ..Setting::papers(servers) }
    }

    fn key(self, design: Design, policy: PolicySpec) -> String {
        format!("{} {policy}", self.at(design))
    }

    fn delta_key(self, design: Design) -> String {
        format!("{} delta", self.at(design))
    }

    /// `L + N`.
    fn vertices(self) -> f64 {
        f64::from(self.servers) + f64::from(self.job_types)
    }

    /// `1 / (1 - lambda)`.
    fn closeness(self) -> f64 {
        1.0 / (1.0 - self.load)
    }

    fn degrees(self, scale: Scale) -> impl Iterator<Item = u32> {
        let all =
            scale.pick(vec![8, 16, 32, 64, 128], vec![4, 6, 8, 11, 16, 23, 32, 45, 64, 91, 128, 181, 256, 362, 512]);
        all.into_iter().filter(move |&degree| degree < self.servers)
    }

    /// A number over the degree.
    fn curve(self, scale: Scale, data: &Data, policy: PolicySpec, name: &str) -> Curve {
        let number = |degree| data.number(&self.key(Design::Degree(degree), policy), name);
        self.degrees(scale).map(|degree| (f64::from(degree), number(degree))).collect()
    }

    /// Edges at which the gap is `gap`.
    fn edges(self, scale: Scale, data: &Data, name: &str, gap: f64) -> Option<Number> {
        let degree = crossing(&self.curve(scale, data, PolicySpec::Jfsq, name), gap)?;
        Some(degree.scaled(f64::from(self.job_types)))
    }

    fn name(self) -> String {
        format!("N = {}, L = {}", self.servers, self.job_types)
    }
}

/// As many job types as servers.
fn square(servers: u32, load: f64) -> Fleets {
    Fleets { servers, job_types: servers, load }
}

fn by_load(scale: Scale) -> Vec<Fleets> {
    let loads = scale.pick(DRAWN.to_vec(), vec![0.7, 0.8, 0.9, 0.95, 0.975]);
    loads.into_iter().map(|load| square(scale.pick(512, 4096), load)).collect()
}

fn by_size(scale: Scale) -> Vec<Fleets> {
    let sizes = scale.pick(vec![256, 512, 1024], vec![512, 1024, 2048, 4096, 8192]);
    let mut fleets: Vec<Fleets> = sizes.into_iter().map(|servers| square(servers, LOAD)).collect();
    if scale == Scale::Full {
        let uneven = |servers, job_types| Fleets { servers, job_types, load: LOAD };
        fleets.extend([uneven(1024, 4096), uneven(4096, 1024)]);
        fleets.sort_by(|a, b| a.vertices().total_cmp(&b.vertices()));
    }
    fleets
}

/// All fleets with a sweep over the degree, and the policies.
fn sweeps(scale: Scale) -> Vec<(Fleets, PolicySpec)> {
    let mut sweeps: Vec<(Fleets, PolicySpec)> = by_load(scale).into_iter().map(|f| (f, PolicySpec::Jfsq)).collect();
    for fleets in by_size(scale) {
        if !sweeps.iter().any(|(other, _)| *other == fleets) {
            sweeps.push((fleets, PolicySpec::Jfsq));
        }
    }
    if scale == Scale::Full {
        let drawn = by_load(scale).into_iter().filter(|fleets| DRAWN.contains(&fleets.load));
        sweeps.extend(drawn.map(|fleets| (fleets, PolicySpec::Jfiq)));
    }
    sweeps
}

/// The fleet of the bad placements; it is one of the size sweep.
fn placed(scale: Scale) -> Fleets {
    square(scale.pick(512, 1024), LOAD)
}

/// Where the copies are: at random, or badly.
fn placements(degree: u32) -> [Design; 3] {
    [Design::Degree(degree), Design::Ring(degree), Design::Clusters(degree)]
}

fn precision(scale: Scale) -> Precision {
    Precision { relative_error: scale.pick(0.01, 0.002), most_events: scale.pick(4_000_000, 200_000_000) }
}

/// How far above the bound the largest degree of a sweep may be: the two gaps in question.
fn tolerance(scale: Scale) -> f64 {
    scale.pick(GAPS[0], GAPS[1])
}

/// A simulation, and the gap of the mean field of the same fleet.
fn measured(setting: Setting, policy: PolicySpec, scale: Scale, context: &Context<'_>) -> Result<Found, Failure> {
    let fleet = setting.fleet(context.seed)?;
    let mut found = simulate(&fleet, policy, precision(scale), context)?;
    let steady = MeanField::new(&fleet, policy).and_then(|field| field.fixed_point()).map_err(Failure::run)?;
    let bound = FluidBound::new(&fleet).and_then(|bound| bound.at(steady.throughput_per_s)).map_err(Failure::run)?;
    found.set("mean_field_gap", Some(Number::exact(steady.mean_response_s / bound.mean_response_s - 1.0)));
    Ok(found)
}

/// Idle servers at which connectivity is looked at: as many of the needed ones as idle if all were as busy as the load says.
fn idle(load: f64, needed: usize) -> usize {
    ((1.0 - load) * needed as f64).ceil() as usize
}

/// The bracket of `delta_K(e)`.
fn delta(fleets: Fleets, design: Design, context: &Context<'_>) -> Result<Found, Failure> {
    let fleet = fleets.at(design).fleet(context.seed)?;
    let connectivity = Connectivity::new(&fleet).map_err(Failure::run)?;
    let e = idle(fleets.load, connectivity.server_count(NEEDED));
    let bracket =
        connectivity.bracket(NEEDED, e).ok_or_else(|| Failure::run(format!("no {e} servers to leave out")))?;
    let mut found = Found::default();
    found.set("e", Some(Number::exact(e as f64)));
    found.set(
        "delta",
        Some(Number { mean: 0.5 * (bracket.lower + bracket.upper), low: bracket.lower, high: bracket.upper }),
    );
    Ok(found)
}

/// `K` of three speeds.
const NEEDED: usize = 2;

/// Where a falling curve comes down to `level` for good, interpolated linearly between logarithms. The interval reaches from where
/// the lower ends do to where the upper ends do. `None` if they do not within the curve, or are above it nowhere.
fn crossing(curve: &[(f64, Option<Number>)], level: f64) -> Option<Number> {
    let curve = curve.iter().map(|&(x, y)| Some((x, y?))).collect::<Option<Vec<(f64, Number)>>>()?;
    let of = |end: fn(&Number) -> f64| -> Option<f64> {
        let last_above = curve.iter().rposition(|(_, y)| end(y) > level)?;
        let ((x0, y0), (x1, y1)) = (curve[last_above], *curve.get(last_above + 1)?);
        let (y0, y1) = (end(&y0), end(&y1));
        let part = (y0 / level).ln() / (y0 / y1).ln();
        Some(x0 * (x1 / x0).powf(part)).filter(|x| x.is_finite())
    };
    Some(Number { mean: of(|y| y.mean)?, low: of(|y| y.low)?, high: of(|y| y.high)? })
}

impl Experiment for Connected {
    fn about(&self) -> About {
        About {
            name: "connectivity",
            title: "How many copies, and where",
            claim: "[W] At a fixed load omega(1) servers per job type are enough; near capacity (L + N)/(1 - lambda)^2 edges are, and (L + N)/(1 - lambda) ln 1/(1 - lambda) with equal rates, if they are placed well.",
            version: 1,
            quick_s: 6,
            full_min: 3,
        }
    }

    fn setting(&self, scale: Scale) -> String {
        let load_sweep = by_load(scale);
        let sizes = by_size(scale).into_iter().map(Fleets::name).collect::<Vec<_>>().join("; ");
        format!(
            "Three speeds (1, 1/2, 1/4 in shares 1/8, 3/8, 1/2), `K = 2`, equal arrival rates, buffers of 5, exponential sizes; JFSQ{}. The load lambda is `Lambda / g_K`. Each job type is on `k` random servers. Sweeps over k: at {} for the loads {}; at load {LOAD} for {sizes}. The gap is response / bound - 1, measured by conservation of work. The edges needed for a gap are `L k` at the degree where the sweep comes down to it, interpolated between neighbouring degrees on logarithmic axes; the interval reaches from where the lower ends of the gaps' intervals come down to where the upper ends do, and the interpolation itself adds {} %.\n\nBad placements, with as many edges and the same mix of speeds at each job type: on a ring, `k` neighbours each; in clusters, blocks of k servers with k job types. `delta` is the largest share of the arrivals that {} of the needed servers can cut off, bracketed by what was found and what is certified.\n\nWhat the finite size does: a complete graph has a gap as well, about `1.8 / N` at load 0.9 from idle fast servers, and at `(1 - lambda) sqrt n_K` near or below 1 some percent of jobs that find all needed servers busy; a gap of 3 % needs more edges than the mean field says where this is not negligible (N = 512 at load 0.95; N = 4,096 at 0.975 has 0.7 %). The papers' formulas speak of graphs that suffice in the limit, without constants: exponents are compared, not edges.",
            scale.pick("", ", and JFIQ at the loads 0.7, 0.9, 0.95"),
            load_sweep[0].name(),
            load_sweep.iter().map(|fleets| fleets.load.to_string()).collect::<Vec<_>>().join(", "),
            scale.pick("up to six", "one or two"),
            scale.pick("26", "52"),
        )
    }

    fn points(&self, scale: Scale) -> Vec<Point> {
        let mut points = Vec::new();
        let mut add = |fleets: Fleets, design: Design, policy: PolicySpec| {
            let setting = fleets.at(design);
            let cost = 1.0 + f64::from(fleets.servers.max(fleets.job_types)) / 1024.0;
            points.push(Point::new(fleets.key(design, policy), cost, move |context| match design {
                Design::Degree(_) => measured(setting, policy, scale, context),
                _ => simulate(&setting.fleet(context.seed)?, policy, precision(scale), context),
            }));
        };
        for (fleets, policy) in sweeps(scale) {
            for degree in fleets.degrees(scale) {
                add(fleets, Design::Degree(degree), policy);
            }
            add(fleets, Design::Complete, policy);
        }
        let placed = placed(scale);
        for design in PLACED.into_iter().flat_map(placements) {
            if !matches!(design, Design::Degree(_)) {
                add(placed, design, PolicySpec::Jfsq);
            }
        }
        for design in PLACED.into_iter().flat_map(placements) {
            points.push(Point::new(placed.delta_key(design), 3.0, move |context| delta(placed, design, context)));
        }
        points
    }

    fn findings(&self, scale: Scale, data: &Data) -> Findings {
        Findings {
            verdicts: verdicts(scale, data),
            figures: figures(scale, data),
            tables: vec![
                exponents(scale, data),
                needed(scale, data),
                placement_table(scale, data),
                every_point(scale, data),
            ],
        }
    }
}

/// Edges over `1 / (1 - lambda)`, or over `L + N`.
fn needed_by_load(scale: Scale, data: &Data, name: &str, gap: f64) -> Curve {
    by_load(scale).into_iter().map(|fleets| (fleets.closeness(), fleets.edges(scale, data, name, gap))).collect()
}

fn needed_by_size(scale: Scale, data: &Data, name: &str, gap: f64) -> Curve {
    by_size(scale).into_iter().map(|fleets| (fleets.vertices(), fleets.edges(scale, data, name, gap))).collect()
}

/// The gaps that are judged: in quick only the larger one, as small fleets do not come down to the other.
fn judged(scale: Scale) -> &'static [f64] {
    scale.pick(&GAPS[..1], &GAPS)
}

/// \[W\]'s numbers of edges, up to a factor.
fn general_edges(fleets: Fleets) -> f64 {
    fleets.vertices() * fleets.closeness().powi(2)
}

fn equal_rates_edges(fleets: Fleets) -> f64 {
    fleets.vertices() * fleets.closeness() * fleets.closeness().ln()
}

/// The slope that `(1 / (1 - lambda)) ln(1 / (1 - lambda))` has over the loads of the sweep.
fn equal_rates_exponent(scale: Scale) -> f64 {
    let edges = |fleets: Fleets| (fleets.closeness(), Some(Number::exact(equal_rates_edges(fleets))));
    let curve: Vec<_> = by_load(scale).into_iter().map(edges).collect();
    log_log_slope(&curve).expect("three positive numbers or more have a slope").mean
}

fn percent(gap: f64) -> String {
    format!("{} %", (100.0 * gap).round())
}

fn verdicts(scale: Scale, data: &Data) -> Vec<Verdict> {
    let tolerance = tolerance(scale);
    let arrived = by_load(scale).into_iter().flat_map(|fleets| {
        let policies = sweeps(scale).into_iter().filter(move |(other, _)| *other == fleets).map(|(_, policy)| policy);
        policies.map(move |policy| {
            falls_to(&fleets.curve(scale, data, policy, "gap"), 0.0, tolerance)
                .of(format_args!("{policy}, load {}", fleets.load))
        })
    });
    let squares: Vec<Fleets> = by_size(scale).into_iter().filter(|f| f.servers == f.job_types).collect();
    let largest = squares[squares.len() - 1];
    let gap_at = |fleets: Fleets| data.number(&fleets.key(Design::Degree(COMPARED), PolicySpec::Jfsq), "gap");
    let same = squares[..squares.len() - 1].iter().map(|&fleets| {
        let (here, there) = (gap_at(fleets), gap_at(largest));
        let difference = here.zip(there).map(|(a, b)| a.minus_independent(b));
        close_to(difference, 0.0, SAME).of(format_args!("N = {}", fleets.servers))
    });
    let exponent = |curve: fn(Scale, &Data, &str, f64) -> Curve, most: f64| {
        let of =
            |&gap: &f64| slope_at_most(&curve(scale, data, "gap", gap), most).of(format_args!("gap {}", percent(gap)));
        all(judged(scale).iter().map(of))
    };
    let placed = placed(scale);
    let compared = |name: &str, key: &dyn Fn(Design) -> String| {
        let pairs = PLACED.into_iter().flat_map(|degree| {
            let [random, ring, clusters] = placements(degree);
            [(random, ring), (random, clusters)]
        });
        let judge = |(random, bad)| {
            below(data.number(&key(random), name), data.number(&key(bad), name)).of(format_args!("{random} and {bad}"))
        };
        all(pairs.map(judge))
    };
    let equal_rates = equal_rates_exponent(scale);
    vec![
        Verdict::new(
            format!(
                "At every load the gap falls to 0 as the degree grows: at most {} at the largest degree.",
                percent(tolerance)
            ),
            all(arrived),
        ),
        Verdict::new(
            format!(
                "omega(1) copies: at load {LOAD} the gap at degree {COMPARED} is that of N = {}, within {SAME}, at every N.",
                largest.servers
            ),
            all(same),
        ),
        Verdict::new(
            format!(
                "omega(1) copies: edges needed at load {LOAD} grow with L + N at most with exponent {SIZE_EXPONENT}."
            ),
            exponent(needed_by_size, SIZE_EXPONENT),
        ),
        Verdict::new(
            format!("Edges needed grow with 1/(1 - lambda) at most with exponent {GENERAL_EXPONENT} ([W], any rates)."),
            exponent(needed_by_load, GENERAL_EXPONENT),
        ),
        Verdict::new(
            format!(
                "And no faster than 1/(1 - lambda) ln 1/(1 - lambda) ([W], equal rates), whose slope over these loads is {equal_rates:.2}."
            ),
            exponent(needed_by_load, equal_rates),
        ),
        Verdict::new(
            format!(
                "As many edges placed badly are worse: at load {LOAD} the gap of the random graph is below those of ring and clusters."
            ),
            compared("gap", &|design| placed.key(design, PolicySpec::Jfsq)),
        ),
        Verdict::new(
            "delta tells them apart: certified for the random graph below what was found for ring and clusters.",
            compared("delta", &|design| placed.delta_key(design)),
        ),
    ]
}

fn figures(scale: Scale, data: &Data) -> Vec<Figure> {
    vec![
        over_degree(scale, data),
        over_degree_by_size(scale, data),
        edges_by_load(scale, data),
        edges_by_size(scale, data),
    ]
}

fn degree_axis() -> Axis {
    Axis::log("degree k, servers per job type").ticks([4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0])
}

fn over_degree(scale: Scale, data: &Data) -> Figure {
    let placed = placed(scale);
    let bad = |name: &str, design: fn(u32) -> Design| Series {
        label: format!("{name}, N = {}", placed.servers),
        points: PLACED
            .map(|degree| {
                let number = data.number(&placed.key(design(degree), PolicySpec::Jfsq), "response_ratio");
                (f64::from(degree), number)
            })
            .to_vec(),
    };
    let panel = |load: f64| {
        let of_load =
            sweeps(scale).into_iter().filter(|(f, _)| f.load.total_cmp(&load).is_eq() && by_load(scale).contains(f));
        let curve = |(fleets, policy): (Fleets, PolicySpec)| Series {
            label: policy.to_string(),
            points: fleets.curve(scale, data, policy, "response_ratio"),
        };
        let mut series: Vec<Series> = of_load.map(curve).collect();
        if load.total_cmp(&LOAD).is_eq() {
            series.extend([bad("ring", Design::Ring), bad("clusters", Design::Clusters)]);
        }
        Panel { title: format!("load {load}, N = {}", by_load(scale)[0].servers), series }
    };
    Figure {
        name: "degree",
        title: "Response time against the number of copies".into(),
        caption: "Where the copies are random the bound is near from some ten on, and later the higher the load; on a ring or in clusters as many copies do less.".into(),
        x: degree_axis(),
        y: Axis::log("response / bound"),
        bound: Some((1.0, "bound".into())),
        panels: DRAWN.map(panel).to_vec(),
    }
}

fn over_degree_by_size(scale: Scale, data: &Data) -> Figure {
    let largest = by_size(scale).into_iter().max_by_key(|fleets| fleets.servers);
    let mut series: Vec<Series> = by_size(scale)
        .into_iter()
        .map(|f| Series { label: f.name(), points: f.curve(scale, data, PolicySpec::Jfsq, "gap") })
        .collect();
    if let Some(fleets) = largest {
        let points = fleets.curve(scale, data, PolicySpec::Jfsq, "mean_field_gap");
        series.push(Series { label: "mean field".into(), points });
    }
    Figure {
        name: "size",
        title: format!("The gap at load {LOAD} for fleets of all sizes"),
        caption: "omega(1) copies: the curves lie on one another, so that each gap has its degree at whatever size; small fleets level off first.".into(),
        x: degree_axis(),
        y: Axis::log("response / bound - 1"),
        bound: None,
        panels: vec![Panel { title: "JFSQ".into(), series }],
    }
}

/// A reference of this shape through the first number of a curve.
fn through_first(label: &str, curve: &[(f64, Option<Number>)], shape: &[f64]) -> Series {
    let first = curve.first().and_then(|(_, y)| *y);
    let scaled = |value: f64| first.map(|first| Number::exact(first.mean * value / shape[0]));
    Series {
        label: label.into(),
        points: curve.iter().zip(shape).map(|((x, _), &value)| (*x, scaled(value))).collect(),
    }
}

fn edges_by_load(scale: Scale, data: &Data) -> Figure {
    let curve = |name: &str, gap: f64| needed_by_load(scale, data, name, gap);
    let lines = GAPS.into_iter().flat_map(|gap| {
        [("simulation", "gap"), ("mean field", "mean_field_gap")]
            .map(|(label, name)| Series { label: format!("{}, {label}", percent(gap)), points: curve(name, gap) })
    });
    let shape = |of: fn(Fleets) -> f64| by_load(scale).into_iter().map(of).collect::<Vec<f64>>();
    let first = curve("gap", GAPS[0]);
    let references = [
        through_first("1/(1-lambda)^2", &first, &shape(general_edges)),
        through_first("ln/(1-lambda)", &first, &shape(equal_rates_edges)),
    ];
    Figure {
        name: "edges-load",
        title: "Edges needed for a gap, against the load".into(),
        caption: format!(
            "At {}. [W]'s graphs, (L+N)/(1-lambda)^2 and (L+N)/(1-lambda) ln 1/(1-lambda), grow as the two reference lines, drawn from the first point on: they suffice.",
            by_load(scale)[0].name()
        ),
        x: Axis::log("1 / (1 - lambda)"),
        y: Axis::log("edges"),
        bound: None,
        panels: vec![Panel { title: "gap of 10 % and 3 %".into(), series: lines.chain(references).collect() }],
    }
}

fn edges_by_size(scale: Scale, data: &Data) -> Figure {
    let curve = |gap: f64| needed_by_size(scale, data, "gap", gap);
    let lines = GAPS.map(|gap| Series { label: percent(gap), points: curve(gap) });
    let shape: Vec<f64> = by_size(scale).into_iter().map(Fleets::vertices).collect();
    let reference = through_first("in proportion", &curve(GAPS[0]), &shape);
    Figure {
        name: "edges-size",
        title: format!("Edges needed for a gap, against the size, load {LOAD}"),
        caption: "In proportion to L + N: the degree does not grow with the fleet. Two fleets of N = 1,024 and 4,096 have four times and a quarter as many job types, in full.".into(),
        x: Axis::log("L + N"),
        y: Axis::log("edges"),
        bound: None,
        panels: vec![Panel { title: "gap of 10 % and 3 %".into(), series: lines.into_iter().chain([reference]).collect() }],
    }
}

fn exponents(scale: Scale, data: &Data) -> Table {
    let slope = |curve: Curve| Cell::from(log_log_slope(&curve).ok());
    let row = |&gap: &f64| -> Vec<Cell> {
        vec![
            percent(gap).into(),
            slope(needed_by_load(scale, data, "gap", gap)),
            slope(needed_by_load(scale, data, "mean_field_gap", gap)),
            equal_rates_exponent(scale).into(),
            GENERAL_EXPONENT.into(),
            slope(needed_by_size(scale, data, "gap", gap)),
            1.0.into(),
        ]
    };
    Table {
        name: "exponents",
        caption: "Fitted exponents of the edges needed, in 1/(1 - lambda) and in L + N, beside the papers' (the logarithm's is its slope over these loads).".into(),
        columns: ["gap", "in 1/(1-lambda)", "mean field's", "[W], equal rates", "[W], any rates", "in L+N", "[W]"].map(str::to_owned).to_vec(),
        rows: GAPS.iter().map(row).collect(),
        on_page: true,
    }
}

fn needed(scale: Scale, data: &Data) -> Table {
    let mut fleets = by_load(scale);
    fleets.extend(by_size(scale));
    fleets.dedup();
    let mut rows = Vec::new();
    for (i, &f) in fleets.iter().enumerate() {
        if fleets[..i].contains(&f) {
            continue;
        }
        let mut row: Vec<Cell> = vec![f.load.into(), f.servers.into(), f.job_types.into()];
        for gap in GAPS {
            row.extend(["gap", "mean_field_gap"].map(|name| Cell::from(f.edges(scale, data, name, gap))));
        }
        row.push(data.number(&f.key(Design::Complete, PolicySpec::Jfsq), "gap").into());
        row.extend([equal_rates_edges(f).into(), general_edges(f).into()]);
        rows.push(row);
    }
    let columns = [
        "load",
        "servers",
        "job_types",
        "edges_10",
        "edges_10_mean_field",
        "edges_3",
        "edges_3_mean_field",
        "gap_complete",
        "(L+N)/(1-lambda) ln",
        "(L+N)/(1-lambda)^2",
    ];
    Table {
        name: "needed",
        caption: "Edges at which the gap is 10 % and 3 % (none: not within the sweep), the gap of the complete graph, and the papers' formulas without their constants.".into(),
        columns: columns.map(str::to_owned).to_vec(),
        rows,
        on_page: true,
    }
}

fn placement_table(scale: Scale, data: &Data) -> Table {
    let placed = placed(scale);
    let row = |design: Design| -> Vec<Cell> {
        let number = |name: &str| Cell::from(data.number(&placed.key(design, PolicySpec::Jfsq), name));
        let delta = |name: &str| Cell::from(data.number(&placed.delta_key(design), name));
        vec![
            design.to_string().into(),
            number("degree"),
            number("gap"),
            number("fraction_waiting"),
            number("blocking"),
            delta("e"),
            delta("delta"),
        ]
    };
    Table {
        name: "placement",
        caption: format!(
            "The same number of edges placed well and badly, {}, load {LOAD}, JFSQ. delta(e) lies between what was found and what is certified; its mean is only their middle.",
            placed.name()
        ),
        columns: ["graph", "degree", "gap", "fraction_waiting", "blocking", "e", "delta"].map(str::to_owned).to_vec(),
        rows: PLACED.into_iter().flat_map(placements).map(row).collect(),
        on_page: true,
    }
}

fn every_point(scale: Scale, data: &Data) -> Table {
    const NUMBERS: [&str; 7] =
        ["degree", "response_s", "bound_s", "response_ratio", "gap", "mean_field_gap", "blocking"];
    let mut rows = Vec::new();
    for (fleets, policy) in sweeps(scale) {
        let designs = fleets.degrees(scale).map(Design::Degree).chain([Design::Complete]);
        for design in designs {
            let mut row: Vec<Cell> = vec![
                fleets.load.into(),
                fleets.servers.into(),
                fleets.job_types.into(),
                design.to_string().into(),
                policy.to_string().into(),
            ];
            row.extend(NUMBERS.map(|name| Cell::from(data.number(&fleets.key(design, policy), name))));
            rows.push(row);
        }
    }
    let columns = ["load", "servers", "job_types", "graph", "policy"].into_iter().chain(NUMBERS);
    Table {
        name: "points",
        caption: "All points of the sweeps.".into(),
        columns: columns.map(str::to_owned).collect(),
        rows,
        on_page: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::made_data::{self, around, found};
    use crate::reproduce::verdict::Answer::{self, DoesNotHold, Holds, Inconclusive};

    /// Gaps of `0.82 (size / 512)^a (0.3 closeness)^b / degree`, known to `relative`; ring and clusters `bad` times as much.
    fn answers(a: f64, b: f64, relative: f64, bad: f64) -> (Answer, Vec<Answer>) {
        let scale = Scale::Quick;
        let gap = |fleets: Fleets, degree: f64| {
            let closeness = 0.3 * fleets.closeness();
            0.82 * (f64::from(fleets.servers) / 512.0).powf(a) * closeness.powf(b) / degree
        };
        let point = |gap: f64| found([("gap", around(gap, relative * gap))]);
        let mut points = Vec::new();
        for (fleets, policy) in sweeps(scale) {
            for degree in fleets.degrees(scale) {
                points.push((fleets.key(Design::Degree(degree), policy), point(gap(fleets, f64::from(degree)))));
            }
            points.push((fleets.key(Design::Complete, policy), point(1e-3)));
        }
        let placed = placed(scale);
        for degree in PLACED {
            let [random, ring, clusters] = placements(degree);
            for design in [ring, clusters] {
                points.push((placed.key(design, PolicySpec::Jfsq), point(bad * gap(placed, f64::from(degree)))));
                points.push((placed.delta_key(design), found([("delta", around(0.9, 0.02))])));
            }
            points.push((placed.delta_key(random), found([("delta", around(0.5, 0.02 * bad))])));
        }
        made_data::answers(&Connected, points)
    }

    #[test]
    fn the_verdict_gives_each_of_the_three_answers() {
        assert_eq!(answers(0.0, 0.9, 0.01, 10.0), (Holds, vec![Holds; 7]));
        let (answer, unsure) = answers(0.0, 0.9, 0.9, 2.0);
        assert_eq!(answer, Inconclusive);
        assert_eq!(unsure[1..6], [Inconclusive; 5]);
    }

    #[test]
    fn degrees_that_grow_with_the_fleet_or_too_fast_with_the_load_do_not_hold() {
        assert_eq!(answers(0.5, 0.9, 0.01, 10.0).1, [Holds, DoesNotHold, DoesNotHold, Holds, Holds, Holds, Holds]);
        assert_eq!(answers(0.0, 1.53, 0.001, 10.0).1[3..5], [Holds, DoesNotHold]);
        assert_eq!(answers(0.0, 0.9, 0.01, 0.5).1[5], DoesNotHold);
    }

    #[test]
    fn a_crossing_is_interpolated_with_the_interval_of_the_curve() {
        let curve = |relative: f64| [8.0, 16.0, 32.0].map(|x: f64| (x, Some(around(1.0 / x, relative / x))));
        let exact = crossing(&curve(0.0), 0.1).unwrap();
        assert!((exact.mean - 10.0).abs() < 1e-9 && exact.half_width() < 1e-9);
        let near = crossing(&curve(0.1), 0.1).unwrap();
        assert!((near.low - 9.0).abs() < 1e-9 && (near.high - 11.0).abs() < 1e-9, "{near}");
        assert_eq!(crossing(&curve(0.0), 0.01), None, "it is not reached");
        assert_eq!(crossing(&curve(0.0), 0.5), None, "it is below all along");
        assert_eq!(crossing(&[(8.0, None), (16.0, Some(around(0.05, 0.0)))], 0.1), None);
    }
}
