//! `[[job_type]]`: what arrives, how often and how large.

use super::super::{ArrivalRates, JobTypeParts, RATES_ARE_MEASURED};
use super::collect::Read;
use super::names::{NameTable, numbered};
use super::section::{NOT_NEGATIVE, POSITIVE, Section, value_or};
use super::words::{counted, quoted};

/// All job types of the file.
pub(super) struct JobTypes {
    pub(super) names: NameTable,
    /// In the order of the entries of `names`.
    pub(super) entries: Vec<Read<JobTypeParts>>,
}

impl JobTypes {
    pub(super) fn read(root: &mut Section<'_, '_>) -> Self {
        let sections = root.some_sections("job_type", "job type", "`name` and `rate`");
        let (mut is_partial, mut names, mut entries) = (sections.is_partial, Vec::new(), Vec::new());
        for mut section in sections.list {
            let name = numbered(&mut section);
            let arrivals = arrivals(&mut section);
            let size = section.number("size", POSITIVE);
            section.finish();
            let Ok(name) = name else {
                is_partial = true;
                continue;
            };
            let parts = |arrivals| Ok(JobTypeParts { names: name.value.clone(), arrivals, size: value_or(size, 1.0)? });
            entries.push(arrivals.and_then(parts));
            names.push(name);
        }
        let job_types = Self { names: NameTable::new(root.faults, "job type", names, is_partial), entries };
        job_types.warn_of_unknown_rates(root);
        job_types
    }

    fn warn_of_unknown_rates(&self, root: &Section<'_, '_>) {
        let is_unknown = |entry: &Read<JobTypeParts>| matches!(entry, Ok(p) if p.arrivals == ArrivalRates::Unknown);
        let unknown: Vec<usize> = (0..self.entries.len()).filter(|&i| is_unknown(&self.entries[i])).collect();
        if let Some(&first) = unknown.first() {
            let count = unknown.iter().map(|&entry| self.names.index.range(entry).len()).sum();
            let example = quoted(&self.names.index.name(self.names.index.range(first).start));
            let message = match count {
                1 => format!("the job type {example} has no `rate`"),
                _ => format!("{} have no `rate`, {example} first", counted(count, "job type")),
            };
            root.faults.warn(&self.names.places[first], message).help(RATES_ARE_MEASURED).report();
        }
    }
}

fn arrivals(section: &mut Section<'_, '_>) -> Read<ArrivalRates> {
    let rate = section.number("rate", NOT_NEGATIVE);
    let total = section.number("total_rate", NOT_NEGATIVE);
    let zipf = section.number("zipf", NOT_NEGATIVE);
    section.at_most_one_of(&["rate", "total_rate"])?;
    match (rate?, total?, zipf?) {
        (None, Some(total), zipf) => {
            Ok(ArrivalRates::Split { total: total.value, exponent: zipf.map_or(0.0, |zipf| zipf.value) })
        }
        (_, None, Some(zipf)) => {
            let message = "`zipf` says how a `total_rate` is split, but there is none";
            Err(section.faults.at(&zipf.place, message).help("add `total_rate = ...`, or drop `zipf`").report())
        }
        (Some(rate), ..) => Ok(ArrivalRates::Each(rate.value)),
        (None, None, None) => Ok(ArrivalRates::Unknown),
    }
}
