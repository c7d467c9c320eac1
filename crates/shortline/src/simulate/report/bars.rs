//! Bars with intervals, as SVG: one row per name, all on one scale from 0.
//!
//! A bar has a filled part and a hollow part behind it, so that the two differ without colour; a whisker is the interval of
//! their sum, a dashed line the row's bound.

use maud::{Markup, html};

use crate::figure::{round_steps, short};
use crate::page::fitting;

/// One row.
#[derive(Clone, Debug, Default)]
pub(super) struct Bar {
    pub(super) name: String,
    /// Filled.
    pub(super) first: f64,
    /// Hollow, behind it.
    pub(super) second: f64,
    pub(super) interval: Option<[f64; 2]>,
    pub(super) bound: Option<f64>,
    /// Written at the end of the row.
    pub(super) text: String,
    /// Whether there is a bar; without one, `text` says why.
    pub(super) is_known: bool,
}

/// All rows of a figure.
#[derive(Clone, Debug)]
pub(super) struct Bars<'a> {
    pub(super) title: &'a str,
    pub(super) description: &'a str,
    /// What the axis shows, with its unit.
    pub(super) axis: &'a str,
    /// What filled and hollow parts are, where there are both.
    pub(super) parts: Option<[&'a str; 2]>,
    pub(super) rows: Vec<Bar>,
    /// Pixels: names, bars, texts.
    pub(super) widths: [f64; 3],
}

const ROW: f64 = 30.0;
const HEIGHT: f64 = 16.0;
const AXIS: f64 = 44.0;
const KEY: f64 = 26.0;
/// Characters in 100 pixels.
const CHARACTERS: f64 = 14.0;

impl Bars<'_> {
    /// The largest number on the axis.
    pub(super) fn end(&self) -> f64 {
        let ends = |bar: &Bar| [bar.first + bar.second, bar.interval.map_or(0.0, |i| i[1]), bar.bound.unwrap_or(0.0)];
        let known = self.rows.iter().filter(|bar| bar.is_known);
        let end = known.flat_map(ends).filter(|end| end.is_finite()).fold(0.0, f64::max);
        if end > 0.0 { 1.03 * end } else { 1.0 }
    }

    /// The figure with an axis up to `end`.
    pub(super) fn svg(&self, end: f64) -> Markup {
        let [names, bars, texts] = self.widths;
        let (width, bottom) = (names + bars + texts, ROW * self.rows.len() as f64 + 4.0);
        let height = bottom + AXIS + KEY;
        let most = (names / 100.0 * CHARACTERS) as usize;
        let x = |value: f64| names + bars * (value / end).clamp(0.0, 1.0);
        html! {
            svg.bars width=(width) height=(height) viewBox={ "0 0 " (width) " " (height) } role="img" {
                title { (self.title) }
                desc { (self.description) }
                @for tick in round_steps(0.0, end) {
                    line.axis x1=(pixel(x(tick))) x2=(pixel(x(tick))) y1="0" y2=(bottom) {}
                    text.quiet x=(pixel(x(tick))) y=(bottom + 16.0) text-anchor="middle" { (short(tick)) }
                }
                text.quiet x=(names + 0.5 * bars) y=(bottom + 36.0) text-anchor="middle" { (self.axis) }
                @for (i, bar) in self.rows.iter().enumerate() {
                    (row(bar, ROW * i as f64 + 2.0, x, names, most))
                }
                line.axis x1=(names) x2=(names) y1="0" y2=(bottom) {}
                (self.key(bottom + AXIS + 14.0))
            }
        }
    }

    /// What the shapes mean.
    fn key(&self, y: f64) -> Markup {
        let (x, middle) = (self.widths[0], y - 4.0);
        let bound = self.rows.iter().any(|bar| bar.bound.is_some());
        let steps = self.parts.map_or(0.0, |_| 180.0);
        html! {
            @if let Some([first, second]) = self.parts {
                rect.solid x=(x) y=(y - 10.0) width="14" height="11" {}
                text.quiet x=(x + 19.0) y=(y) { (first) }
                rect.hollow x=(x + 80.0) y=(y - 10.0) width="14" height="11" {}
                text.quiet x=(x + 99.0) y=(y) { (second) }
            }
            path.whisker d={ "M" (x + steps) " " (middle) "h18m0 -4v8m-18 0v-8" } {}
            text.quiet x=(x + steps + 24.0) y=(y) { "95 % interval" }
            @if bound {
                path.bound d={ "M" (x + steps + 125.0) " " (y - 12.0) "v14" } {}
                text.quiet x=(x + steps + 133.0) y=(y) { "bound" }
            }
        }
    }
}

/// A name, its bar, and the text behind.
fn row(bar: &Bar, top: f64, x: impl Fn(f64) -> f64, names: f64, most: usize) -> Markup {
    let (up, middle) = (top + 0.5 * (ROW - HEIGHT), top + 0.5 * ROW);
    let (first, sum) = (x(bar.first), x(bar.first + bar.second));
    let end = bar.interval.map_or(sum, |interval| x(interval[1]).max(sum)).max(bar.bound.map_or(0.0, &x));
    html! {
        g {
            title { (bar.name) ": " (bar.text) }
            text x=(names - 8.0) y=(middle + 4.0) text-anchor="end" { (fitting(&bar.name, most)) }
            @if bar.is_known {
                rect.solid x=(names) y=(up) width=(pixel(first - names)) height=(HEIGHT) {}
                @if sum > first { rect.hollow x=(pixel(first)) y=(up) width=(pixel(sum - first)) height=(HEIGHT) {} }
                @if let Some(bound) = bar.bound { path.bound d={ "M" (pixel(x(bound))) " " (top) "v" (ROW - 2.0) } {} }
                @if let Some([low, high]) = bar.interval {
                    path.whisker d={
                        "M" (pixel(x(low))) " " (middle) "H" (pixel(x(high)))
                        "M" (pixel(x(low))) " " (middle - 4.0) "v8M" (pixel(x(high))) " " (middle - 4.0) "v8"
                    } {}
                }
                text x=(pixel(end + 8.0)) y=(middle + 4.0) { (bar.text) }
            } @else {
                text x=(names + 8.0) y=(middle + 4.0) { (bar.text) }
            }
        }
    }
}

/// A place, to a tenth of a pixel.
fn pixel(x: f64) -> f64 {
    (10.0 * x).round() / 10.0
}
