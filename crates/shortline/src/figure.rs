//! Figures: lines over a common axis in one or more panels, as SVG.
//!
//! Every series has a marker of its own shape, filled or hollow, so that a figure reads without colour; the colours are
//! those of Okabe and Ito, which colour-blind readers tell apart. Intervals are drawn as bars, the bound as a dashed line, or
//! a dashed curve where it changes along the axis. On a logarithmic axis a number of 0 has no place: its interval reaches
//! down to the axis and there is no marker.
//!
//! A figure is a file of its own ([`Figure::svg`]) or a part of a page ([`Figure::inline`]).

use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::element::ComposedElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::failure::Failure;
use crate::number::{Number, plain};

/// Pixels of a panel.
const PANEL: (u32, u32) = (460, 340);
const TITLE: u32 = 34;
const LEGEND_LINE: i32 = 22;

/// How an axis is divided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Division {
    Linear,
    Log,
}

/// An axis.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Axis {
    /// What it shows, and in which unit.
    pub(crate) label: String,
    pub(crate) division: Division,
    /// Where to put which label; none: chosen to suit the data.
    pub(crate) ticks: Vec<(f64, String)>,
}

impl Axis {
    pub(crate) fn linear(label: &str) -> Self {
        Self { label: label.to_owned(), division: Division::Linear, ticks: Vec::new() }
    }

    pub(crate) fn log(label: &str) -> Self {
        Self { label: label.to_owned(), division: Division::Log, ticks: Vec::new() }
    }

    /// The same with labels at these values.
    pub(crate) fn ticks(self, values: impl IntoIterator<Item = f64>) -> Self {
        Self { ticks: values.into_iter().map(|value| (value, plain(value))).collect(), ..self }
    }

    /// Where a value stands along the axis; `None` if nowhere.
    fn place(&self, value: f64) -> Option<f64> {
        let place = match self.division {
            Division::Linear => value,
            Division::Log if value > 0.0 => value.log10(),
            Division::Log => return None,
        };
        Some(place).filter(|place| place.is_finite())
    }

    /// The range that holds the values, with a margin.
    fn range(&self, values: impl Iterator<Item = f64>) -> (f64, f64) {
        let places = values.filter_map(|value| self.place(value));
        let (low, high) = places.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
        if low > high {
            return (0.0, 1.0);
        }
        let margin = if high > low { 0.06 * (high - low) } else { 0.1 * high.abs().max(1.0) };
        (low - margin, high + margin)
    }

    /// Places and labels of the ticks within the range.
    fn marks(&self, (low, high): (f64, f64)) -> Vec<(f64, String)> {
        let within = |ticks: &[(f64, String)]| -> Vec<(f64, String)> {
            let placed = ticks.iter().filter_map(|(value, label)| Some((self.place(*value)?, label.clone())));
            placed.filter(|(place, _)| (low..=high).contains(place)).collect()
        };
        if !self.ticks.is_empty() {
            return within(&self.ticks);
        }
        let labelled = |values: Vec<f64>| within(&values.iter().map(|&v| (v, short(v))).collect::<Vec<_>>());
        match self.division {
            Division::Linear => labelled(round_steps(low, high)),
            Division::Log => {
                let decades = low.floor() as i32..=high.ceil() as i32;
                let at = |parts: &[f64]| {
                    labelled(decades.clone().flat_map(|d| parts.iter().map(move |p| p * 10_f64.powi(d))).collect())
                };
                let choices: [&[f64]; 4] = [
                    &[1.0],
                    &[1.0, 2.0, 5.0],
                    &[1.0, 1.5, 2.0, 3.0, 4.0, 6.0],
                    &[1.0, 1.05, 1.1, 1.2, 1.3, 1.4, 1.6, 1.8],
                ];
                choices.iter().map(|parts| at(parts)).find(|marks| marks.len() >= 4).unwrap_or_else(|| at(choices[3]))
            }
        }
    }
}

/// Multiples of 1, 2 or 5 times a power of ten, about five in the range.
pub(crate) fn round_steps(low: f64, high: f64) -> Vec<f64> {
    let rough = (high - low) / 5.0;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|s| s * power).into_iter().find(|&s| s >= rough).unwrap_or(10.0 * power);
    let (first, last) = ((low / step).ceil() as i64, (high / step).floor() as i64);
    (first..=last).map(|i| i as f64 * step).collect()
}

/// Four digits.
pub(crate) fn short(value: f64) -> String {
    let rounded: f64 = format!("{value:.3e}").parse().expect("a printed number reads as one");
    if rounded == 0.0 || (1e-3..1e6).contains(&rounded.abs()) { format!("{rounded}") } else { format!("{rounded:e}") }
}

/// One line of a panel.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Series {
    /// The same label has the same marker in every panel.
    pub(crate) label: String,
    /// Ascending; what could not be measured is left out.
    pub(crate) points: Vec<(f64, Option<Number>)>,
}

/// One of the figure's panels.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) series: Vec<Series>,
}

/// A figure. All panels share the ranges of their axes.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Figure {
    /// Name of its file, without the ending.
    pub(crate) name: &'static str,
    pub(crate) title: String,
    /// What is to be seen, a sentence; the page's caption.
    pub(crate) caption: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    /// A dashed line across, and what it is.
    pub(crate) bound: Option<(f64, String)>,
    pub(crate) panels: Vec<Panel>,
}

/// A bound that changes along the axis: a dashed curve.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct BoundCurve {
    pub(crate) label: String,
    /// Ascending.
    pub(crate) points: Vec<(f64, f64)>,
}

/// What is around the panels.
#[derive(Clone, Copy)]
struct Frame<'a> {
    /// Height of the title above; 0 = none.
    title: u32,
    /// Width of what is left of the vertical axis.
    left: u32,
    curves: &'a [BoundCurve],
}

impl Figure {
    /// Name of its file.
    pub(crate) fn file_name(&self) -> String {
        format!("{}.svg", self.name)
    }

    /// The figure as SVG.
    pub(crate) fn svg(&self) -> Result<String, Failure> {
        self.drawn(Frame { title: TITLE, left: 58, curves: &[] })
    }

    /// The figure as a part of a page of HTML that has the title as a heading. Title and caption are in it for those who hear
    /// the page; it names no address, not even that of its format.
    pub(crate) fn inline(&self, curves: &[BoundCurve]) -> Result<String, Failure> {
        let svg = self.drawn(Frame { title: 0, left: 70, curves })?;
        let head = svg.find('>').map_or(0, |end| end + 1);
        let tag = svg[..head].replace(" xmlns=\"http://www.w3.org/2000/svg\"", " role=\"img\"");
        Ok(format!(
            "{tag}<title>{}</title><desc>{}</desc>{}",
            escaped(&self.title),
            escaped(&self.caption),
            &svg[head..]
        ))
    }

    fn drawn(&self, frame: Frame<'_>) -> Result<String, Failure> {
        let mut svg = String::new();
        let columns = self.panels.len().clamp(1, 2) as u32;
        let rows = (self.panels.len() as u32).div_ceil(columns).max(1);
        let width = columns * PANEL.0;
        let labels = self.labels();
        let grid = self.legend_grid(&labels, frame.curves, width);
        let entries = labels.len() + frame.curves.len() + usize::from(self.bound.is_some());
        let legend_rows = (entries as i32).div_euclid(grid.per_line) + 1;
        let height = frame.title + rows * PANEL.1 + (legend_rows * LEGEND_LINE + 12) as u32;
        {
            let root = SVGBackend::with_string(&mut svg, (width, height)).into_drawing_area();
            self.draw(&root, &labels, (columns as usize, rows as usize), frame)
                .map_err(|error| Failure::run(format!("cannot draw `{}`: {error}", self.name)))?;
        }
        Ok(svg)
    }

    /// The labels of all series that have a point, in the order they first appear.
    fn labels(&self) -> Vec<&str> {
        let mut labels = Vec::new();
        let series = self.panels.iter().flat_map(|panel| &panel.series);
        for series in series.filter(|series| series.points.iter().any(|(_, number)| number.is_some())) {
            if !labels.contains(&series.label.as_str()) {
                labels.push(series.label.as_str());
            }
        }
        labels
    }

    /// Columns wide enough for the longest label.
    fn legend_grid(&self, labels: &[&str], curves: &[BoundCurve], width: u32) -> LegendGrid {
        let bounds = self.bound.iter().map(|(_, label)| label).chain(curves.iter().map(|curve| &curve.label));
        let longest = labels.iter().copied().chain(bounds.map(String::as_str)).map(|label| label.chars().count()).max();
        let column = (60 + 7 * longest.unwrap_or(0) as i32).max(LEGEND_COLUMN);
        LegendGrid { column, per_line: ((width as i32 - 20) / column).max(1) }
    }

    fn numbers(&self) -> impl Iterator<Item = (f64, Number)> {
        let points = self.panels.iter().flat_map(|panel| &panel.series).flat_map(|series| &series.points);
        points.filter_map(|&(x, number)| Some((x, number?)))
    }

    fn draw<DB: DrawingBackend>(
        &self,
        root: &DrawingArea<DB, Shift>,
        labels: &[&str],
        (columns, rows): (usize, usize),
        frame: Frame<'_>,
    ) -> Result<(), DrawingAreaErrorKind<DB::ErrorType>> {
        root.fill(&WHITE)?;
        let (width, _) = root.dim_in_pixel();
        let (above, below) = root.split_vertically(frame.title);
        if frame.title > 0 {
            let centred = TextStyle::from(("sans-serif", 17).into_font()).pos(Pos::new(HPos::Center, VPos::Top));
            above.draw(&Text::new(self.title.as_str(), (width as i32 / 2, 10), centred))?;
        }
        let (charts, legend) = below.split_vertically(rows as u32 * PANEL.1);
        let x_range = self.x.range(self.numbers().map(|(x, _)| x).chain(self.x.ticks.iter().map(|(x, _)| *x)));
        let ends = self.numbers().flat_map(|(_, number)| [number.mean, number.low, number.high]);
        let curves = frame.curves.iter().flat_map(|curve| &curve.points).map(|&(_, bound)| bound);
        let y_range = self.y.range(ends.chain(self.bound.iter().map(|(bound, _)| *bound)).chain(curves));
        for (panel, area) in self.panels.iter().zip(charts.split_evenly((rows, columns))) {
            self.draw_panel(panel, &area, (labels, frame), x_range, y_range)?;
        }
        self.draw_legend(&legend, labels, frame.curves)
    }

    fn draw_panel<DB: DrawingBackend>(
        &self,
        panel: &Panel,
        area: &DrawingArea<DB, Shift>,
        (labels, frame): (&[&str], Frame<'_>),
        x_range: (f64, f64),
        y_range: (f64, f64),
    ) -> Result<(), DrawingAreaErrorKind<DB::ErrorType>> {
        let marked = |axis: &Axis, range| Marked { range, marks: axis.marks(range) };
        let mut chart = ChartBuilder::on(area)
            .margin(10)
            .caption(&panel.title, ("sans-serif", 14))
            .x_label_area_size(40)
            .y_label_area_size(frame.left)
            .build_cartesian_2d(marked(&self.x, x_range), marked(&self.y, y_range))?;
        let mut mesh = chart.configure_mesh();
        mesh.light_line_style(TRANSPARENT).bold_line_style(BLACK.mix(0.12));
        mesh.x_desc(&self.x.label).y_desc(&self.y.label).draw()?;
        if let Some(place) = self.bound.as_ref().and_then(|(bound, _)| self.y.place(*bound)) {
            let ends = [(x_range.0, place), (x_range.1, place)];
            chart.draw_series(DashedLineSeries::new(ends, 7, 5, BLACK.stroke_width(2)))?;
        }
        for (i, curve) in frame.curves.iter().enumerate() {
            let points = curve.points.iter().filter_map(|&(x, y)| Some((self.x.place(x)?, self.y.place(y)?)));
            let points: Vec<(f64, f64)> = points.collect();
            let (dash, gap) = dashes(i);
            chart.draw_series(DashedLineSeries::new(points, dash, gap, BLACK.stroke_width(2)))?;
        }
        for series in &panel.series {
            let look = Look::of(labels.iter().position(|label| *label == series.label).unwrap_or(0));
            let placed: Vec<(f64, Number)> =
                series.points.iter().filter_map(|&(x, number)| Some((self.x.place(x)?, number?))).collect();
            let line = placed.iter().filter_map(|&(x, number)| Some((x, self.y.place(number.mean)?)));
            chart.draw_series([PathElement::new(line.clone().collect::<Vec<_>>(), look.colour.stroke_width(1))])?;
            for &(x, number) in &placed {
                let end = |value: f64| self.y.place(value).unwrap_or(y_range.0).clamp(y_range.0, y_range.1);
                let bar = vec![(x, end(number.low)), (x, end(number.high))];
                chart.draw_series([PathElement::new(bar, look.colour.stroke_width(2))])?;
            }
            chart.draw_series(line.map(|at| look.marker(at)))?;
        }
        Ok(())
    }

    fn draw_legend<DB: DrawingBackend>(
        &self,
        area: &DrawingArea<DB, Shift>,
        labels: &[&str],
        curves: &[BoundCurve],
    ) -> Result<(), DrawingAreaErrorKind<DB::ErrorType>> {
        let (width, _) = area.dim_in_pixel();
        let style = TextStyle::from(("sans-serif", 14).into_font()).pos(Pos::new(HPos::Left, VPos::Center));
        let grid = self.legend_grid(labels, curves, width);
        let place = |i: usize| {
            let (line, column) = ((i as i32) / grid.per_line, (i as i32) % grid.per_line);
            (30 + column * grid.column, 10 + line * LEGEND_LINE)
        };
        for (i, label) in labels.iter().enumerate() {
            let (x, y) = place(i);
            let look = Look::of(i);
            area.draw(&PathElement::new(vec![(x - 16, y), (x + 16, y)], look.colour.stroke_width(1)))?;
            area.draw(&look.marker((x, y)))?;
            area.draw(&Text::new(*label, (x + 24, y), style.clone()))?;
        }
        let dashed = self.bound.iter().map(|(_, label)| (label, (8, 4)));
        let curves = curves.iter().enumerate().map(|(i, curve)| (&curve.label, dashes(i)));
        for (i, (label, (dash, gap))) in dashed.chain(curves).enumerate() {
            let (x, y) = place(labels.len() + i);
            for start in (-16..16).step_by((dash + gap) as usize) {
                let end = (start + dash as i32).min(16);
                area.draw(&PathElement::new(vec![(x + start, y), (x + end, y)], BLACK.stroke_width(2)))?;
            }
            area.draw(&Text::new(label.as_str(), (x + 24, y), style.clone()))?;
        }
        Ok(())
    }
}

/// Least width of a column of the legend.
const LEGEND_COLUMN: i32 = 140;

/// Where the entries of a legend stand.
struct LegendGrid {
    /// Pixels of a column.
    column: i32,
    /// Entries in a line.
    per_line: i32,
}

/// Lengths of the dashes of a bound's curve, and of the gaps between them.
fn dashes(i: usize) -> (u32, u32) {
    [(7, 5), (2, 4), (14, 4), (5, 10)][i % 4]
}

/// Text of an element.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// An axis as the plotting library sees it: places along it, and the labels of some.
struct Marked {
    range: (f64, f64),
    marks: Vec<(f64, String)>,
}

impl Ranged for Marked {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, place: &f64, (begin, end): (i32, i32)) -> i32 {
        let part = (place - self.range.0) / (self.range.1 - self.range.0);
        begin + (part * f64::from(end - begin)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.marks.iter().map(|(place, _)| *place).collect()
    }

    fn range(&self) -> Range<f64> {
        self.range.0..self.range.1
    }
}

impl ValueFormatter<f64> for Marked {
    fn format_ext(&self, place: &f64) -> String {
        let distance = |mark: &&(f64, String)| (mark.0 - place).abs();
        let nearest = self.marks.iter().min_by(|a, b| distance(a).total_cmp(&distance(b)));
        nearest.map_or(String::new(), |(_, label)| label.clone())
    }
}

/// A filled shape and its outline, in pixels around a place.
type Marker<C, DB> = ComposedElement<C, DB, Polygon<(i32, i32)>, PathElement<(i32, i32)>>;

/// Marker and colour of a series.
#[derive(Clone, Copy)]
struct Look {
    corners: &'static [(i32, i32)],
    filled: bool,
    colour: RGBColor,
}

impl Look {
    /// Of the series number `i`: 8 markers times 7 colours differ.
    fn of(i: usize) -> Self {
        const CIRCLE: &[(i32, i32)] =
            &[(5, 0), (4, 3), (3, 4), (0, 5), (-3, 4), (-4, 3), (-5, 0), (-4, -3), (-3, -4), (0, -5), (3, -4), (4, -3)];
        const SQUARE: &[(i32, i32)] = &[(-4, -4), (4, -4), (4, 4), (-4, 4)];
        const UP: &[(i32, i32)] = &[(0, -6), (5, 4), (-5, 4)];
        const DIAMOND: &[(i32, i32)] = &[(0, -6), (6, 0), (0, 6), (-6, 0)];
        const DOWN: &[(i32, i32)] = &[(0, 6), (5, -4), (-5, -4)];
        const MARKERS: [(&[(i32, i32)], bool); 8] = [
            (CIRCLE, true),
            (SQUARE, false),
            (UP, true),
            (DIAMOND, false),
            (DOWN, true),
            (CIRCLE, false),
            (SQUARE, true),
            (UP, false),
        ];
        const COLOURS: [RGBColor; 7] = [
            RGBColor(0, 114, 178),
            RGBColor(213, 94, 0),
            RGBColor(0, 158, 115),
            RGBColor(204, 121, 167),
            RGBColor(230, 159, 0),
            RGBColor(86, 180, 233),
            RGBColor(70, 70, 70),
        ];
        let (corners, filled) = MARKERS[i % MARKERS.len()];
        Self { corners, filled, colour: COLOURS[i % COLOURS.len()] }
    }

    fn marker<DB: DrawingBackend, C>(self, at: C) -> Marker<C, DB> {
        let inside = if self.filled { self.colour } else { WHITE };
        let outline: Vec<(i32, i32)> = self.corners.iter().chain(self.corners.first()).copied().collect();
        EmptyElement::at(at)
            + Polygon::new(self.corners.to_vec(), inside.filled())
            + PathElement::new(outline, self.colour.stroke_width(2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(division: Division) -> Figure {
        let number = |mean: f64| Some(Number { mean, low: 0.9 * mean, high: 1.1 * mean });
        let series = |label: &str, factor: f64| Series {
            label: label.into(),
            points: [32.0, 128.0, 512.0].map(|n: f64| (n, number(factor * (1.0 + 1.0 / n)))).into(),
        };
        Figure {
            name: "f",
            title: "Response over bound".into(),
            caption: String::new(),
            x: Axis::log("servers N").ticks([32.0, 128.0, 512.0]),
            y: Axis { division, ..Axis::linear("response / bound") },
            bound: Some((1.0, "bound".into())),
            panels: vec![Panel { title: "three speeds".into(), series: vec![series("jfsq", 1.1), series("jsq", 1.5)] }],
        }
    }

    #[test]
    fn a_figure_has_axes_with_labels_markers_intervals_and_the_bound() {
        let svg = figure(Division::Linear).svg().unwrap();
        for text in
            ["servers N", "response / bound", "Response over bound", "three speeds", "jfsq", "jsq", "bound", "512"]
        {
            assert!(svg.contains(text), "{text}");
        }
        // Six markers and two in the legend.
        assert_eq!(svg.matches("<polygon").count(), 8);
    }

    #[test]
    fn within_a_page_a_figure_has_a_title_for_the_ear_and_no_address() {
        let mut figure = figure(Division::Linear);
        figure.title = "Response <of> & over".into();
        let curve = BoundCurve { label: "bound of jsq".into(), points: vec![(32.0, 1.0), (128.0, 1.2), (512.0, 0.9)] };
        let svg = figure.inline(&[curve]).unwrap();
        let head = "role=\"img\"><title>Response &lt;of&gt; &amp; over</title>";
        let tag = svg.find('>').unwrap();
        assert!(svg.starts_with("<svg width=") && svg[..tag + 60].contains(head), "{}", &svg[..200]);
        assert!(svg.contains("bound of jsq") && !svg.contains("http"));
        assert_eq!(svg.matches("Response").count(), 1, "the title is not drawn");
    }

    #[test]
    fn the_legend_has_room_for_its_longest_label_and_none_for_series_without_points() {
        let mut figure = figure(Division::Linear);
        let grid = |figure: &Figure| figure.legend_grid(&figure.labels(), &[], 920);
        assert_eq!((grid(&figure).column, grid(&figure).per_line), (LEGEND_COLUMN, 6));
        figure.panels[0].series[0].label = "L = N ln N, c = ln^2 N".into();
        // 22 letters of at most 7 pixels, the line with its marker, and a gap.
        assert_eq!((grid(&figure).column, grid(&figure).per_line), (214, 4));
        figure.panels[0].series[0].points.iter_mut().for_each(|(_, number)| *number = None);
        assert_eq!(grid(&figure).column, LEGEND_COLUMN);
    }

    #[test]
    fn nothing_that_is_not_positive_stands_on_a_logarithmic_axis() {
        let mut figure = figure(Division::Log);
        figure.panels[0].series[0].points[0].1 = Some(Number { mean: 0.0, low: 0.0, high: 1e-3 });
        let svg = figure.svg().unwrap();
        assert_eq!(svg.matches("<polygon").count(), 7, "the marker of the 0 is missing");
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn ticks_are_round_numbers() {
        let labels = |axis: &Axis, range| axis.marks(range).into_iter().map(|(_, label)| label).collect::<Vec<_>>();
        assert_eq!(labels(&Axis::linear(""), (0.93, 1.57)), ["1", "1.2", "1.4"]);
        assert_eq!(labels(&Axis::log(""), (-3.2, 0.3)), ["0.001", "0.01", "0.1", "1"]);
        assert_eq!(labels(&Axis::log(""), (-0.1, 1.1)), ["1", "2", "5", "10"]);
    }
}
