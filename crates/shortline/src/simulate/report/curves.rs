//! A sweep as curves, one per policy, and as a table.

use maud::{Markup, html};
use shortline_sim::{Estimate, Means, PolicyReport};

use super::numbers::{estimate, percent, seconds, value};
use super::policies::{named, notes, plot, state};
use crate::failure::Failure;
use crate::figure::{Axis, BoundCurve, Division, Figure, Panel, Series};
use crate::number::Number;
use crate::page::{self, Column, table};
use crate::simulate::long_run::Simulated;
use crate::simulate::sweep::Point;

/// What is drawn over the points.
struct Curve {
    title: &'static str,
    axis: &'static str,
    of: fn(&PolicyReport) -> Option<Estimate>,
    factor: f64,
    with_bound: bool,
}

const CURVES: [Curve; 6] = [
    Curve {
        title: "Mean response time.",
        axis: "mean response time, seconds",
        of: |policy| policy.means.as_ref()?.mean_response_s,
        factor: 1.0,
        with_bound: true,
    },
    Curve {
        title: "Mean response time over the bound.",
        axis: "response time / bound",
        of: |policy| policy.ratio_to_bound,
        factor: 1.0,
        with_bound: false,
    },
    Curve {
        title: "Mean waiting time.",
        axis: "mean waiting time, seconds",
        of: |policy| policy.means.as_ref()?.mean_waiting_s,
        factor: 1.0,
        with_bound: false,
    },
    Curve {
        title: "Mean service time.",
        axis: "mean service time, seconds",
        of: |policy| policy.means.as_ref()?.mean_service_s,
        factor: 1.0,
        with_bound: false,
    },
    Curve {
        title: "Time that 95 % of the jobs are below.",
        axis: "95 % of the response times are below, seconds",
        of: |policy| policy.means.as_ref()?.p95_response_s,
        factor: 1.0,
        with_bound: false,
    },
    Curve {
        title: "Blocked jobs.",
        axis: "blocked, % of the arrivals",
        of: |policy| {
            policy.means.as_ref()?.blocking_probability.filter(|blocked| blocked.mean > 0.0 || blocked.ci95[1] > 0.0)
        },
        factor: 100.0,
        with_bound: false,
    },
];

/// Curves, table, and what is to be known of single points.
pub(super) fn section(done: &[Simulated]) -> Result<Markup, Failure> {
    let figures: Vec<Markup> = CURVES.iter().map(|curve| curve.figure(done)).collect::<Result<_, _>>()?;
    let without = exceptions(done);
    Ok(html! {
        p.quiet { "95 % intervals are bars. A policy has no point where it has no means." }
        div.side { @for figure in &figures { (figure) } }
        @if !without.is_empty() { ul { @for line in &without { li { (line) } } } }
        (numbers(done))
        @for simulated in done {
            @if simulated.report.policies.iter().any(|policy| policy.why.is_some()) {
                h3 { (title(simulated)) }
                (notes(&simulated.report))
            }
        }
    })
}

/// `load 0.9`.
pub(super) fn title(simulated: &Simulated) -> String {
    simulated.point.map_or("the fleet".to_owned(), Point::title)
}

/// What keeps policies from having a point, or a certain one, each with the points where it is so.
fn exceptions(done: &[Simulated]) -> Vec<String> {
    let mut lines: Vec<(String, Vec<String>)> = Vec::new();
    for simulated in done {
        for policy in &simulated.report.policies {
            let Some(state) = state(policy) else { continue };
            let what = format!("{} {state}", policy.policy);
            match lines.iter_mut().find(|(known, _)| *known == what) {
                Some((_, points)) => points.push(title(simulated)),
                None => lines.push((what, vec![title(simulated)])),
            }
        }
    }
    lines.into_iter().map(|(what, points)| format!("{what} at {}", points.join(", "))).collect()
}

fn x(simulated: &Simulated) -> f64 {
    match simulated.point {
        Some(Point::Load(load)) => load,
        Some(Point::Degree(degree)) => f64::from(degree),
        Some(Point::Servers(servers)) => f64::from(servers),
        None => 0.0,
    }
}

/// Where the numbers differ by a factor of more, the axis is logarithmic.
const WIDE: f64 = 15.0;

impl Curve {
    /// Nothing, where no policy has a number.
    fn figure(&self, done: &[Simulated]) -> Result<Markup, Failure> {
        let mut names: Vec<&str> = done.iter().flat_map(|s| &s.report.policies).map(|p| p.policy.as_str()).collect();
        let mut seen = Vec::new();
        names.retain(|name| {
            !seen.contains(name) && {
                seen.push(name);
                true
            }
        });
        let series: Vec<Series> = names.iter().map(|name| self.series(name, done)).collect();
        let numbers: Vec<f64> = series.iter().flat_map(|s| &s.points).filter_map(|(_, n)| n.map(|n| n.mean)).collect();
        if numbers.is_empty() {
            return Ok(html! {});
        }
        let (least, most) = numbers.iter().fold((f64::INFINITY, 0.0_f64), |(l, m), &n| (l.min(n), m.max(n)));
        let is_wide = most > WIDE * least;
        let (division, note) = if is_wide { (Division::Log, " (logarithmic axis)") } else { (Division::Linear, "") };
        let caption = format!("{}{note}", self.axis);
        let bounds = if self.with_bound { bounds(&names, done) } else { Vec::new() };
        let figure = Figure {
            name: "curve",
            title: self.title.to_owned(),
            caption: caption.clone(),
            x: x_axis(done),
            y: Axis { division, ..Axis::linear(self.axis) },
            bound: None,
            panels: vec![Panel { title: String::new(), series }],
        };
        let caption = if is_wide { "The axis is logarithmic; what is 0 has no place on it." } else { "" };
        Ok(page::figure(self.title, caption, &plot(&figure.inline(&bounds)?), None))
    }

    fn series(&self, name: &str, done: &[Simulated]) -> Series {
        let mut points: Vec<(f64, Option<Number>)> = done
            .iter()
            .filter_map(|simulated| {
                let policy = simulated.report.policies.iter().find(|policy| policy.policy == name)?;
                Some((x(simulated), (self.of)(policy).map(|e| Number::from(e.scaled(self.factor)))))
            })
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Series { label: name.to_owned(), points }
    }
}

/// The bound over the points: one curve, or one per policy where losses make them differ.
fn bounds(names: &[&str], done: &[Simulated]) -> Vec<BoundCurve> {
    let of = |name: &str| {
        let mut points: Vec<(f64, f64)> = done
            .iter()
            .filter_map(|simulated| {
                let policy = simulated.report.policies.iter().find(|policy| policy.policy == name)?;
                Some((x(simulated), policy.bound.as_ref()?.mean_response_s))
            })
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        points
    };
    let mut curves: Vec<BoundCurve> =
        names.iter().map(|name| BoundCurve { label: format!("bound of {name}"), points: of(name) }).collect();
    curves.retain(|curve| !curve.points.is_empty());
    // Without losses the bound is the fleet's: an unstable policy has a part of the curve only.
    let mut all: Vec<(f64, f64)> = curves.iter().flat_map(|curve| curve.points.clone()).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    all.dedup();
    if all.windows(2).all(|pair| pair[0].0 < pair[1].0) && !all.is_empty() {
        return vec![BoundCurve { label: "bound".to_owned(), points: all }];
    }
    curves
}

fn x_axis(done: &[Simulated]) -> Axis {
    let mut values: Vec<f64> = done.iter().map(x).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    let step = values.len().div_ceil(8);
    let ticks = values.into_iter().step_by(step);
    match done[0].point {
        Some(Point::Degree(_)) => Axis::log("degree of the graph (logarithmic)").ticks(ticks),
        Some(Point::Servers(_)) => Axis::log("servers (logarithmic)").ticks(ticks),
        _ => Axis::linear("offered load").ticks(ticks),
    }
}

fn numbers(done: &[Simulated]) -> Markup {
    let row = |simulated: &Simulated, policy: &PolicyReport| {
        let of = |time: fn(&Means) -> Option<Estimate>| policy.means.as_ref().and_then(time);
        vec![
            html! { (title(simulated)) },
            named(policy),
            value(simulated.report.offered_load, 1.0, ""),
            seconds(of(|m| m.mean_response_s)),
            value(policy.bound.as_ref().map(|bound| bound.mean_response_s), 1.0, " s"),
            estimate(policy.ratio_to_bound, 1.0, ""),
            seconds(of(|m| m.mean_waiting_s)),
            seconds(of(|m| m.mean_service_s)),
            seconds(of(|m| m.p95_response_s)),
            percent(of(|m| m.blocking_probability)),
        ]
    };
    let columns = [
        ("point", Column::Words),
        ("policy", Column::Words),
        ("offered load", Column::Numbers),
        ("mean response", Column::Numbers),
        ("bound", Column::Numbers),
        ("over the bound", Column::Numbers),
        ("waiting", Column::Numbers),
        ("service", Column::Numbers),
        ("95 % below", Column::Numbers),
        ("blocked", Column::Numbers),
    ];
    let rows: Vec<Vec<Markup>> = done
        .iter()
        .flat_map(|simulated| simulated.report.policies.iter().map(|policy| row(simulated, policy)))
        .collect();
    html! { details open[rows.len() <= 12] { summary { "The numbers" } (table("Each policy at each point", &columns, &rows)) } }
}
