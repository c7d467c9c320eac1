//! Tables: as CSV with every digit, as markdown for the page.

use super::number::{Number, plain};

/// One cell.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Cell {
    /// Words.
    Text(String),
    /// A number that is known.
    Value(f64),
    /// A number with its interval; `None` = could not be measured. Three columns of the CSV: the column's name, and the
    /// same with `_low` and `_high`.
    Estimate(Option<Number>),
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<f64> for Cell {
    fn from(value: f64) -> Self {
        Self::Value(value)
    }
}

impl From<u32> for Cell {
    fn from(value: u32) -> Self {
        Self::Value(value.into())
    }
}

impl From<Option<Number>> for Cell {
    fn from(number: Option<Number>) -> Self {
        Self::Estimate(number)
    }
}

/// A table.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Table {
    /// Name of its CSV file, without the ending.
    pub(crate) name: &'static str,
    /// What it shows, a sentence.
    pub(crate) caption: String,
    /// Names of the columns, with units (`_s`, `_per_s`).
    pub(crate) columns: Vec<String>,
    /// One cell per column, of the same kind down a column.
    pub(crate) rows: Vec<Vec<Cell>>,
    /// Whether the page shows it; a long one is only linked there.
    pub(crate) on_page: bool,
}

impl Table {
    /// Name of its file.
    pub(crate) fn file_name(&self) -> String {
        format!("{}.csv", self.name)
    }

    /// RFC 4180, numbers with as many digits as it takes to read them back.
    pub(crate) fn csv(&self) -> String {
        let is_estimate = |c: usize| self.rows.iter().any(|row| matches!(row[c], Cell::Estimate(_)));
        let header = self.columns.iter().enumerate().map(|(c, name)| match is_estimate(c) {
            true => ["", "_low", "_high"].map(|end| quoted(&format!("{name}{end}"))).join(","),
            false => quoted(name),
        });
        let mut text = header.collect::<Vec<_>>().join(",") + "\n";
        for row in &self.rows {
            let cells = row.iter().map(|cell| match cell {
                Cell::Text(text) => quoted(text),
                Cell::Value(value) => value.to_string(),
                Cell::Estimate(None) => ",,".to_owned(),
                Cell::Estimate(Some(n)) => format!("{},{},{}", n.mean, n.low, n.high),
            });
            text += &(cells.collect::<Vec<_>>().join(",") + "\n");
        }
        text
    }

    /// A markdown table; numbers with the digits that their interval bears.
    pub(crate) fn markdown(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let mut text = line(self.columns.clone());
        text += &line(self.columns.iter().map(|_| "---".to_owned()).collect());
        for row in &self.rows {
            text += &line(row.iter().map(shown).collect());
        }
        text
    }
}

fn shown(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) => text.replace('|', "\\|"),
        Cell::Value(value) => plain(*value),
        Cell::Estimate(None) => "-".to_owned(),
        Cell::Estimate(Some(number)) => number.to_string(),
    }
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_reads_in_both_forms() {
        let number = Number { mean: 1.25, low: 1.0, high: 1.5 };
        let table = Table {
            name: "t",
            caption: "A table.".into(),
            columns: vec!["policy".into(), "servers".into(), "response_s".into()],
            rows: vec![
                vec!["jsq(2,2)".into(), 32.0.into(), Some(number).into()],
                vec!["jsq".into(), 64.0.into(), None.into()],
            ],
            on_page: true,
        };
        let csv = "policy,servers,response_s,response_s_low,response_s_high\n\"jsq(2,2)\",32,1.25,1,1.5\njsq,64,,,\n";
        assert_eq!(table.csv(), csv);
        let markdown = "| policy | servers | response_s |\n| --- | --- | --- |\n| jsq(2,2) | 32 | 1.25 [1.00, 1.50] |\n| jsq | 64 | - |\n";
        assert_eq!(table.markdown(), markdown);
    }
}
