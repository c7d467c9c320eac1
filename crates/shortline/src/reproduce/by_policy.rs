//! Figures and tables of one shape: policies side by side, over what is varied.

use shortline_core::policy::PolicySpec;

use super::figure::{Axis, Figure, Panel, Series};
use super::number::{Data, Number};
use super::table::{Cell, Table};

/// The line of a policy in the panel of a case, of the number of that name.
type Line<'a, C> = dyn Fn(C, PolicySpec, &str) -> Vec<(f64, Option<Number>)> + 'a;

/// Figures over one axis: a panel for each case, in it a line for each policy.
pub(crate) struct Lines<'a, C> {
    /// The common axis.
    pub(crate) x: Axis,
    /// Cases, and the titles of their panels.
    pub(crate) cases: Vec<(String, C)>,
    pub(crate) policies: Vec<PolicySpec>,
    pub(crate) line: &'a Line<'a, C>,
}

/// One of the figures.
pub(crate) struct Shown {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) caption: &'static str,
    pub(crate) y: Axis,
    /// Where the bound is, if it has a place there.
    pub(crate) bound: Option<f64>,
    /// Name of the number.
    pub(crate) number: &'static str,
}

impl<C: Copy> Lines<'_, C> {
    pub(crate) fn figure(&self, shown: Shown) -> Figure {
        let series = |case: C, &policy: &PolicySpec| Series {
            label: policy.to_string(),
            points: (self.line)(case, policy, shown.number),
        };
        let panel = |(title, case): &(String, C)| Panel {
            title: title.clone(),
            series: self.policies.iter().map(|policy| series(*case, policy)).collect(),
        };
        Figure {
            name: shown.name,
            title: shown.title.into(),
            caption: shown.caption.into(),
            x: self.x.clone(),
            y: shown.y,
            bound: shown.bound.map(|bound| (bound, "bound".to_owned())),
            panels: self.cases.iter().map(panel).collect(),
        }
    }
}

/// The table of all points: what tells each from the others, under these columns, and its numbers.
pub(crate) fn all_points(
    columns: [&str; 3],
    numbers: &[&str],
    points: impl IntoIterator<Item = ([Cell; 3], String)>,
    data: &Data,
) -> Table {
    let row = |(cells, key): ([Cell; 3], String)| {
        cells.into_iter().chain(numbers.iter().map(|name| Cell::from(data.number(&key, name)))).collect()
    };
    Table {
        name: "points",
        caption: "All points.".into(),
        columns: columns.iter().chain(numbers).map(|&column| column.to_owned()).collect(),
        rows: points.into_iter().map(row).collect(),
        on_page: true,
    }
}
