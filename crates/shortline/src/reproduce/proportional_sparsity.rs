//! Sparse graphs that behave as the complete one: proportional sparsity.
//!
//! \[R\]: under JSQ(d) the occupancies of a sequence of graphs have the limit of the fully flexible system,
//! `x_i = lambda^((d^i - 1) / (d - 1))`, if every set of servers gets its fair part of nearly every job type. The random graph with
//! edge probability `c(N) / L` does so if `c -> inf` and `N c / (L ln N) -> inf`, however slowly: a server then holds few job types.
//! Graphs with a bounded `c`, rings and clusters do not.
//!
//! **What the finite size does.** A server of the random graph holds a Poisson number of job types, and its arrivals differ from the
//! mean by `1 / sqrt c`, relative; as throughput is concave in the arrivals, occupancies are off by the variance, about `1 / c`, times a
//! factor of one to two at load 0.9. The line is therefore drawn at `2 / c` for `c = ln^2 N` at the largest N. With `c = ln N` the
//! same estimate is 0.2 at N = 16,384, and no size that can be simulated comes near the limit.

use shortline_core::policy::{Choices, PolicySpec};
use shortline_theory::connectivity::sparsity::Sparsity;

use super::experiment::{About, Context, Experiment, Findings, Point, Scale};
use super::figure::{Axis, Figure, Panel, Series};
use super::judge::{agree, all, at_least, below, close_to, falls_to};
use super::number::{Data, Found, Number};
use super::occupancy::{self, LEVELS, RUNS, level_name};
use super::papers::{Design, Setting, Speeds};
use super::table::{Cell, Table};
use super::verdict::Verdict;
use crate::failure::Failure;

/// The experiment.
pub(crate) struct ProportionalSparsity;

const LOAD: f64 = 0.9;
/// Room at a server. The flexible system does not feel it (`x_10 < 1e-40`); unfair graphs lose jobs instead of growing for ever.
const BUFFER: u32 = 10;
/// The bounded number of job types a server.
const BOUNDED: u32 = 3;
/// Slower than the flexible system by at least this part: a graph that fails.
const FAILS: f64 = 0.1;
/// And this is how far its response time may change between the smallest and the largest N to be said not to.
const STAYS: f64 = 0.05;
/// Distances from the fair part of a job type.
const EPSILONS: [f64; 2] = [0.25, 0.5];
/// Witness against rings and clusters: half of the servers, with so large a share of the job types wholly in or out.
const CUT: f64 = 0.9;

/// Number of job types.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Types {
    /// `L = N`.
    Servers,
    /// `L = sqrt N`, rounded up.
    Root,
    /// `L = N ln N`, the logarithm rounded up.
    Log,
}

/// Job types a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Held {
    /// `ln N`, rounded up like the others.
    Log,
    LogSquared,
    Root,
    /// [`BOUNDED`].
    Three,
}

/// Graphs of all sizes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Family {
    /// The fully flexible system.
    Complete,
    Random(Types, Held),
    /// Each job type on three neighbours.
    Ring,
    /// Blocks of three servers.
    Clusters,
}

/// Whether \[R\] covers a random family: both `c` and `N c / (L ln N)` grow without end.
fn is_covered(types: Types, held: Held) -> bool {
    match (types, held) {
        (_, Held::Three) | (Types::Servers | Types::Log, Held::Log) | (Types::Log, Held::LogSquared) => false,
        (Types::Root, _) | (Types::Servers | Types::Log, Held::LogSquared | Held::Root) => true,
    }
}

impl Family {
    fn setting(self, servers: u32) -> Setting {
        let n = f64::from(servers);
        let (job_types, design) = match self {
            Self::Complete => (1, Design::Complete),
            Self::Ring => (servers, Design::Ring(BOUNDED)),
            Self::Clusters => (servers, Design::Clusters(BOUNDED)),
            Self::Random(types, held) => {
                let job_types = match types {
                    Types::Servers => servers,
                    Types::Root => n.sqrt().ceil() as u32,
                    Types::Log => servers * n.ln().ceil() as u32,
                };
                let held = match held {
                    Held::Log => n.ln().ceil() as u32,
                    Held::LogSquared => n.ln().powi(2).ceil() as u32,
                    Held::Root => n.sqrt().ceil() as u32,
                    Held::Three => BOUNDED,
                };
                if held < job_types { (job_types, Design::Sparse(held)) } else { (1, Design::Complete) }
            }
        };
        let fleet =
            Setting { speeds: Speeds::Equal, load_first_k: LOAD, buffer: Some(BUFFER), ..Setting::papers(servers) };
        Setting { job_types, design, ..fleet }
    }

    /// Where `c` reaches `L` the graph is the complete one, and its point the flexible system's.
    fn is_complete_at(self, servers: u32) -> bool {
        self.setting(servers).design == Design::Complete
    }

    fn is_covered(self) -> bool {
        matches!(self, Self::Random(types, held) if is_covered(types, held))
    }

    fn title(self) -> String {
        let (types, held) = match self {
            Self::Complete => return "flexible".into(),
            Self::Ring => return "ring of 3".into(),
            Self::Clusters => return "clusters of 3".into(),
            Self::Random(types, held) => (types, held),
        };
        let types = match types {
            Types::Servers => "L = N",
            Types::Root => "L = sqrt N",
            Types::Log => "L = N ln N",
        };
        let held = match held {
            Held::Log => "c = ln N",
            Held::LogSquared => "c = ln^2 N",
            Held::Root => "c = sqrt N",
            Held::Three => "c = 3",
        };
        format!("{types}, {held}")
    }
}

fn random_families(scale: Scale) -> Vec<Family> {
    let types = scale.pick(vec![Types::Servers], vec![Types::Servers, Types::Root, Types::Log]);
    let held = [Held::Log, Held::LogSquared, Held::Root];
    types.into_iter().flat_map(|types| held.map(|held| Family::Random(types, held))).collect()
}

const BOUNDED_FAMILIES: [Family; 3] = [Family::Random(Types::Servers, Held::Three), Family::Ring, Family::Clusters];

/// Families that must fail: the bounded ones, and the one whose job types have a single server each.
fn failing(scale: Scale) -> Vec<Family> {
    let alone = scale.pick(vec![], vec![Family::Random(Types::Log, Held::Log)]);
    BOUNDED_FAMILIES.into_iter().chain(alone).collect()
}

fn sparse_families(scale: Scale) -> Vec<Family> {
    random_families(scale).into_iter().chain(BOUNDED_FAMILIES).collect()
}

fn choices(scale: Scale) -> Vec<u32> {
    scale.pick(vec![2], vec![2, 3, 5])
}

fn policy(d: u32) -> PolicySpec {
    PolicySpec::JsqD(Choices::Number(d))
}

fn sizes(scale: Scale) -> Vec<u32> {
    scale.pick(vec![256, 1024], vec![256, 1024, 4096, 16_384])
}

fn first(scale: Scale) -> u32 {
    sizes(scale)[0]
}

fn last(scale: Scale) -> u32 {
    sizes(scale)[sizes(scale).len() - 1]
}

/// How far occupancies may be from the flexible system's at the largest N: `2 / c` for `c = ln^2 N`, which is 49 and 95.
fn tolerance(scale: Scale) -> f64 {
    scale.pick(0.04, 0.02)
}

/// The same for the response time, relative: two and a half times as much, as a difference of throughput counts once per level.
fn response_tolerance(scale: Scale) -> f64 {
    2.5 * tolerance(scale)
}

fn key(family: Family, servers: u32, d: u32) -> String {
    format!("{} {}", family.setting(servers), policy(d))
}

fn certificate_key(family: Family, servers: u32) -> String {
    format!("{} certificate", family.setting(servers))
}

/// `x_i` of the mean field of the flexible system without a buffer's end.
fn mean_field(d: u32, i: usize) -> f64 {
    let jobs = (0..i).map(|j| f64::from(d).powi(j as i32)).sum::<f64>();
    LOAD.powf(jobs)
}

/// Certified and found: the share of job types whose part in a half of the servers is off by epsilon.
fn certificates(setting: Setting, context: &Context<'_>) -> Result<Found, Failure> {
    let fleet = setting.fleet(context.seed)?;
    let sparsity = Sparsity::new(&fleet).map_err(Failure::run)?;
    let mut found = Found::default();
    for epsilon in EPSILONS {
        let bracket = sparsity.bracket(sparsity.server_count() / 2, epsilon);
        let bracket =
            bracket.ok_or_else(|| Failure::run(format!("no sets of half the servers at epsilon {epsilon}")))?;
        found.set(&format!("off_found_{epsilon}"), Some(Number::exact(bracket.lower)));
        found.set(&format!("off_certified_{epsilon}"), Some(Number::exact(bracket.upper)));
    }
    Ok(found)
}

impl Experiment for ProportionalSparsity {
    fn about(&self) -> About {
        About {
            name: "proportional-sparsity",
            title: "Few job types a server, and still flexible",
            claim: "[R] Under JSQ(d) a random graph with c(N) job types a server has the occupancies of the fully flexible system as soon as c and N c / (L ln N) grow without end; with c = 3, on rings and in clusters it does not.",
            version: 1,
            quick_s: 4,
            full_min: 15,
        }
    }

    fn setting(&self, scale: Scale) -> String {
        let list = |numbers: Vec<u32>| numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        format!(
            "N = {} servers of rate 1, load {LOAD}, JSQ(d) with d = {}, equal arrival rates, exponential sizes. {} job types; each pair is an edge with probability c/L, c = `ln N`, `ln^2 N`, `sqrt N` (rounded up; complete where that is L or more). To fail: c = 3, a ring on which each job type has 3 neighbours, blocks of 3 servers. \\[R\\] has unbounded queues; here a server has room for {BUFFER} jobs, which the flexible system does not feel and which keeps unfair graphs from growing for ever. Intervals are over {RUNS} independent runs of 300 s, each with a graph of its own, of which the last 100 s count. The mean field is `x_i = lambda^((d^i - 1)/(d - 1))`.\n\nWhat the finite size does: a server holds a Poisson number of job types, so that its arrivals are off by `1/sqrt c` and occupancies by about `1/c`, times one to two at this load. The line of {} is `2/c` for c = `ln^2 N` at the largest N, drawn from this estimate; `c = sqrt N` is smaller than `ln^2 N` below N = 5,504, and its own `2/c` then larger than the line. With c = `ln N` (not covered where L >= N: `N c / (L ln N)` stays bounded) the estimate is {:.2} there: the limit, if it is one, is out of reach. A job type of mean degree `k = N c / L` has no server with probability `e^-k`; its jobs are lost, and x_1 is below the load. Where many are lost those that are served meet shorter queues: with L = N ln N and c = `ln N`, k is 1, more than a third of the job types has no server, and the graph fails by its losses and not, as its claim has it, by its response time.",
            list(sizes(scale)),
            list(choices(scale)),
            scale.pick("L = N", "L = N, `sqrt N`, `N ln N`"),
            tolerance(scale),
            2.0 / f64::from(last(scale)).ln().ceil(),
        )
    }

    fn points(&self, scale: Scale) -> Vec<Point> {
        let mut points = Vec::new();
        for servers in sizes(scale) {
            let families = sparse_families(scale).into_iter().filter(|family| !family.is_complete_at(servers));
            for family in families.clone().chain([Family::Complete]) {
                let setting = family.setting(servers);
                for d in choices(scale) {
                    let cost = 1.0 + f64::from(servers) / 1024.0;
                    points.push(Point::new(key(family, servers, d), cost, move |context| {
                        occupancy::simulate(setting, policy(d), context)
                    }));
                }
            }
            for family in families {
                let setting = family.setting(servers);
                let cost = 0.5 + f64::from(servers) / 8192.0;
                points.push(Point::new(certificate_key(family, servers), cost, move |context| {
                    certificates(setting, context)
                }));
            }
        }
        points
    }

    fn findings(&self, scale: Scale, data: &Data) -> Findings {
        Findings {
            verdicts: verdicts(scale, data),
            figures: figures(scale, data),
            tables: vec![levels(scale, data), certificate_table(scale, data)],
        }
    }
}

/// Response time over that of the flexible system, less 1.
fn excess(data: &Data, family: Family, servers: u32, d: u32) -> Option<Number> {
    let flexible = data.number(&key(Family::Complete, servers, d), "response_s")?;
    let own = data.number(&key(family, servers, d), "response_s")?;
    Some(own.minus_independent(flexible).scaled(1.0 / flexible.mean))
}

/// Share of the jobs that are not served: servers of rate 1 complete `x_1` jobs a second each, [`LOAD`] arrive.
fn lost(x1: Number) -> Number {
    Number { mean: 1.0 - x1.mean / LOAD, low: 1.0 - x1.high / LOAD, high: 1.0 - x1.low / LOAD }
}

fn excess_series(scale: Scale, data: &Data, family: Family, d: u32) -> Vec<(f64, Option<Number>)> {
    sizes(scale).into_iter().map(|n| (f64::from(n), excess(data, family, n, d))).collect()
}

/// `x_i` less that of the flexible system.
fn difference(data: &Data, family: Family, servers: u32, d: u32, i: usize) -> Option<Number> {
    let at = |family| data.number(&key(family, servers, d), &level_name(i));
    Some(at(family)?.minus_independent(at(Family::Complete)?))
}

fn verdicts(scale: Scale, data: &Data) -> Vec<Verdict> {
    let (first, last, tolerance, response_tolerance) =
        (first(scale), last(scale), tolerance(scale), response_tolerance(scale));
    let with_d = |families: Vec<Family>| -> Vec<(Family, u32)> {
        families.into_iter().flat_map(|family| choices(scale).into_iter().map(move |d| (family, d))).collect()
    };
    let sparse_at_last = |family: &Family| !family.is_complete_at(last);
    let covered: Vec<Family> =
        random_families(scale).into_iter().filter(|family| family.is_covered()).filter(sparse_at_last).collect();
    let named = |(family, d): (Family, u32)| format!("{}, d = {d}", family.title());
    let each_level = |(family, d): (Family, u32)| {
        (1..=LEVELS).map(move |i| {
            close_to(difference(data, family, last, d, i), 0.0, tolerance)
                .of(format_args!("{}, x_{i}", named((family, d))))
        })
    };
    let from_field = choices(scale).into_iter().flat_map(|d| {
        (1..=LEVELS).map(move |i| {
            let flexible = data.number(&key(Family::Complete, last, d), &level_name(i));
            close_to(flexible, mean_field(d, i), tolerance).of(format_args!("d = {d}, x_{i}"))
        })
    });
    let away = with_d(failing(scale));
    let stays = with_d(BOUNDED_FAMILIES.to_vec()).into_iter().map(|(family, d)| {
        let at = |servers| data.number(&key(family, servers, d), "response_s");
        agree(at(last), at(first), STAYS).of(named((family, d)))
    });
    let certified = |family: Family, servers: u32| {
        data.number(&certificate_key(family, servers), &format!("off_certified_{}", EPSILONS[1]))
    };
    let cut = [Family::Ring, Family::Clusters].map(|family| {
        let found = data.number(&certificate_key(family, last), &format!("off_found_{}", EPSILONS[1]));
        at_least(found, CUT).of(family.title())
    });
    // A family that is complete at the smallest N has no certificate to fall from.
    let falling = covered.iter().filter(|family| !family.is_complete_at(first));
    vec![
        Verdict::new(
            format!(
                "Where [R] covers the graph, each x_i is that of the flexible system at N = {last}, within {tolerance}."
            ),
            all(with_d(covered.clone()).into_iter().flat_map(each_level)),
        ),
        Verdict::new(
            format!(
                "And the response time comes to the flexible system's: within {response_tolerance} of it at N = {last}, and falling."
            ),
            all(with_d(covered.clone()).into_iter().map(|(family, d)| {
                falls_to(&excess_series(scale, data, family, d), 0.0, response_tolerance).of(named((family, d)))
            })),
        ),
        Verdict::new(
            format!("The flexible system has the mean field's x_i at N = {last}, within {tolerance}."),
            all(from_field),
        ),
        Verdict::new(
            format!(
                "c = 3, ring, clusters (and job types on one server each) are slower than the flexible system by at least {FAILS} of it at N = {last}."
            ),
            all(away
                .into_iter()
                .map(|(family, d)| at_least(excess(data, family, last, d), FAILS).of(named((family, d))))),
        ),
        Verdict::new(
            format!(
                "With c = 3, on rings and in clusters size does not help: the response times at N = {first} and {last} agree within {STAYS}."
            ),
            all(stays),
        ),
        Verdict::new(
            format!(
                "The certified share of job types off by {} at a half of the servers falls from N = {first} to {last} where [R] covers the graph.",
                EPSILONS[1]
            ),
            all(falling.map(|&family| below(certified(family, last), certified(family, first)).of(family.title()))),
        ),
        Verdict::new(
            format!(
                "On rings and in clusters there is a half of the servers with at least {CUT} of the job types wholly in it or out of it."
            ),
            all(cut),
        ),
    ]
}

fn figures(scale: Scale, data: &Data) -> Vec<Figure> {
    let last = last(scale);
    let occupancies = |d: u32| -> Panel {
        let field = (1..=LEVELS).map(|i| (i as f64, Some(Number::exact(mean_field(d, i)))));
        let shown = [
            Family::Complete,
            Family::Random(Types::Servers, Held::Log),
            Family::Random(Types::Servers, Held::LogSquared),
        ];
        let of_family = |family: Family| Series {
            label: family.title(),
            points: (1..=LEVELS).map(|i| (i as f64, data.number(&key(family, last, d), &level_name(i)))).collect(),
        };
        let series = shown.into_iter().chain(BOUNDED_FAMILIES).map(of_family);
        let field = Series { label: "mean field".into(), points: field.collect() };
        Panel { title: format!("d = {d}, N = {last}"), series: [field].into_iter().chain(series).collect() }
    };
    let over_n = |d: u32| -> Panel {
        let of_family = |family: Family| {
            let sparse = sizes(scale).into_iter().filter(|&n| !family.is_complete_at(n));
            let points = sparse.map(|n| (f64::from(n), excess(data, family, n, d))).collect();
            Series { label: family.title(), points }
        };
        Panel { title: format!("d = {d}"), series: sparse_families(scale).into_iter().map(of_family).collect() }
    };
    vec![
        Figure {
            name: "occupancy",
            title: "Servers with at least i jobs".into(),
            caption: "The flexible system lies on the mean field; c = ln^2 N close to it, the bounded graphs far above.".into(),
            x: Axis::linear("i, jobs at a server").ticks((1..=LEVELS).map(|i| i as f64)),
            y: Axis::linear("x_i, fraction of the servers"),
            bound: None,
            panels: choices(scale).into_iter().map(occupancies).collect(),
        },
        Figure {
            name: "excess",
            title: "Response time above that of the flexible system".into(),
            caption: "Relative, at the same N. It falls where c grows and stays where it does not. An interval without a marker reaches from 0.".into(),
            x: Axis::log("servers N").ticks(sizes(scale).into_iter().map(f64::from)),
            y: Axis::log("response / flexible - 1"),
            bound: None,
            panels: choices(scale).into_iter().map(over_n).collect(),
        },
    ]
}

/// The families of the tables at a size, the flexible one first.
fn families_at(scale: Scale, servers: u32) -> impl Iterator<Item = Family> {
    let sparse = sparse_families(scale).into_iter().filter(move |family| !family.is_complete_at(servers));
    [Family::Complete].into_iter().chain(sparse)
}

fn levels(scale: Scale, data: &Data) -> Table {
    let mut rows = Vec::new();
    for d in choices(scale) {
        for servers in sizes(scale) {
            for family in families_at(scale, servers) {
                let number = |name: &str| data.number(&key(family, servers, d), name);
                let mut row: Vec<Cell> = vec![d.into(), servers.into(), family.title().into()];
                row.extend((1..=LEVELS).map(|i| Cell::from(number(&level_name(i)))));
                row.push(number("x1").map(lost).into());
                row.extend(["response_s", "max_server_degree"].map(|name| Cell::from(number(name))));
                rows.push(row);
            }
        }
        let mut row: Vec<Cell> = vec![d.into(), f64::INFINITY.into(), "mean field".into()];
        row.extend((1..=LEVELS).map(|i| Cell::from(Some(Number::exact(mean_field(d, i))))));
        let response_s = (1..).map(|i| mean_field(d, i)).take_while(|x| *x > 1e-12).sum::<f64>() / LOAD;
        row.extend([Some(Number::exact(0.0)), Some(Number::exact(response_s)), None].map(Cell::from));
        rows.push(row);
    }
    let names = (1..=LEVELS).map(level_name);
    let columns = ["d", "servers", "graph"].map(str::to_owned).into_iter().chain(names);
    Table {
        name: "occupancy",
        caption: "Occupancies. `lost` is the share of the jobs that are not served, `1 - x_1 / load`: as many jobs leave as are served, `x_1` a server and second; response_s is that of the others. The largest server degree is that of all runs; of the flexible system, which is simulated with one job type, 1.".into(),
        columns: columns.chain(["lost", "response_s", "max_server_degree"].map(str::to_owned)).collect(),
        rows,
        on_page: true,
    }
}

fn certificate_table(scale: Scale, data: &Data) -> Table {
    let names = EPSILONS.iter().flat_map(|epsilon| ["found", "certified"].map(|side| format!("off_{side}_{epsilon}")));
    let names: Vec<String> = names.collect();
    let mut rows = Vec::new();
    for servers in sizes(scale) {
        for family in families_at(scale, servers).skip(1) {
            let mut row: Vec<Cell> = vec![servers.into(), family.title().into()];
            row.extend(names.iter().map(|name| Cell::from(data.number(&certificate_key(family, servers), name))));
            rows.push(row);
        }
    }
    Table {
        name: "certificates",
        caption: "Share of the job types whose part in a half U of the servers is off by 0.25 or 0.5 of them for some such U: at least what was found, at most what is certified (1: nothing is).".into(),
        columns: ["servers", "graph"].map(str::to_owned).into_iter().chain(names).collect(),
        rows,
        on_page: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::made_data::{self, around, found};
    use crate::reproduce::verdict::Answer::{self, DoesNotHold, Holds, Inconclusive};

    /// Growing graphs `excess` above the flexible system at the largest N and four times that at the smallest, the bounded
    /// ones `bounded` above it.
    fn answers(excess: f64, bounded: f64, half_width: f64) -> (Answer, Vec<Answer>) {
        let scale = Scale::Quick;
        let mut points = Vec::new();
        for servers in sizes(scale) {
            let shrunk = if servers == last(scale) { 1.0 } else { 4.0 };
            for family in families_at(scale, servers) {
                let above = match family {
                    Family::Complete => 0.0,
                    _ if BOUNDED_FAMILIES.contains(&family) => bounded,
                    _ => shrunk * excess,
                };
                for d in choices(scale) {
                    let mut point = found([("response_s", around(2.0 * (1.0 + above), half_width))]);
                    for i in 1..=LEVELS {
                        point.set(&level_name(i), Some(around(mean_field(d, i) + above, half_width)));
                    }
                    points.push((key(family, servers, d), point));
                }
            }
            for family in families_at(scale, servers).skip(1) {
                let off = [("off_found_0.5", Number::exact(0.95)), ("off_certified_0.5", Number::exact(0.1 * shrunk))];
                points.push((certificate_key(family, servers), found(off)));
            }
        }
        made_data::answers(&ProportionalSparsity, points)
    }

    #[test]
    fn the_verdict_gives_each_of_the_three_answers() {
        assert_eq!(answers(0.01, 1.0, 0.001), (Holds, vec![Holds; 7]));
        let unsure = [Inconclusive, Holds, Inconclusive, Holds, Inconclusive, Holds, Holds];
        assert_eq!(answers(0.01, 1.0, 0.15).1[3..], unsure[3..]);
        assert_eq!(answers(0.01, 1.0, 0.15).0, Inconclusive);
        let broken = [DoesNotHold, DoesNotHold, Holds, DoesNotHold, Holds, Holds, Holds];
        assert_eq!(answers(0.2, 0.05, 0.001), (DoesNotHold, broken.to_vec()));
    }

    #[test]
    fn the_mean_field_is_that_of_the_theory() {
        use shortline_theory::mean_field::MeanField;
        let fleet = Family::Complete.setting(256).fleet(1).unwrap();
        for d in [2, 3, 5] {
            let steady = MeanField::new(&fleet, policy(d)).unwrap().fixed_point().unwrap();
            for (i, x) in (1..=4).zip(&steady.per_class[0].occupancy) {
                assert!((x - mean_field(d, i)).abs() < 1e-9, "d = {d}, x_{i}: {x}");
            }
        }
    }

    #[test]
    fn the_paper_covers_what_grows_fast_enough() {
        let covered: Vec<String> =
            random_families(Scale::Full).into_iter().filter(|family| family.is_covered()).map(Family::title).collect();
        assert_eq!(
            covered,
            [
                "L = N, c = ln^2 N",
                "L = N, c = sqrt N",
                "L = sqrt N, c = ln N",
                "L = sqrt N, c = ln^2 N",
                "L = sqrt N, c = sqrt N",
                "L = N ln N, c = sqrt N"
            ]
        );
    }
}
