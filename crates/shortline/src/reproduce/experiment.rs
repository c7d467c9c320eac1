//! An experiment: a claim of a paper, the points that test it, and what is made of them. One file each.
//!
//! To add one: a file with a type that implements [`Experiment`], and a line in [`ALL`].
//!
//! - A **point** is an independent unit of work with a key that never changes its meaning. It builds its fleet (see
//!   [`papers`](super::papers)), runs a simulation (see [`measure`](super::measure)) or computes, and returns named
//!   numbers. Whoever changes what a point means raises [`About::version`], so that results kept from before are not
//!   taken for new ones.
//! - The **findings** (tables, figures, verdicts) are pure functions of the points' numbers, found by key.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use shortline_sim::Observer;

use super::figure::Figure;
use super::number::{Data, Found};
use super::table::Table;
use super::verdict::{Answer, Verdict, worst};
use super::{
    beyond, buffers, collapse, connectivity, guarantee, homogeneous, optimality_in_load, optimality_in_n, order_only,
    proportional_sparsity, regimes,
};
use crate::failure::Failure;

/// All experiments, in the order of the list.
pub(crate) const ALL: &[&dyn Experiment] = &[
    &optimality_in_n::OptimalityInN,
    &optimality_in_load::OptimalityInLoad,
    &buffers::Buffers,
    &regimes::Regimes,
    &collapse::Collapse,
    &connectivity::Connected,
    &homogeneous::Homogeneous,
    &proportional_sparsity::ProportionalSparsity,
    &guarantee::Guarantee,
    &order_only::OrderOnly,
    &beyond::Beyond,
];

/// How thorough.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scale {
    /// Seconds: few points, intervals of some percent.
    Quick,
    /// Minutes: all points, intervals below a percent.
    Full,
}

impl Scale {
    /// One or the other.
    pub(crate) fn pick<T>(self, quick: T, full: T) -> T {
        match self {
            Self::Quick => quick,
            Self::Full => full,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        self.pick("quick", "full")
    }
}

/// What the list says of an experiment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct About {
    /// The name on the command line, and of the folder with its results.
    pub(crate) name: &'static str,
    /// The heading of its page.
    pub(crate) title: &'static str,
    /// The claim in a line, with its paper: \[W\] or \[R\].
    pub(crate) claim: &'static str,
    /// To be raised when a point's key or numbers change their meaning.
    pub(crate) version: u32,
    /// About how long it keeps one core busy: quick, in seconds.
    pub(crate) quick_s: u32,
    /// And full, in minutes.
    pub(crate) full_min: u32,
}

/// An experiment.
pub(crate) trait Experiment: Sync {
    /// Name, claim, time.
    fn about(&self) -> About;
    /// The setting in markdown: fleet, rates, policies, what is varied.
    fn setting(&self, scale: Scale) -> String;
    /// The points, in any order; the most expensive ones are begun first.
    fn points(&self, scale: Scale) -> Vec<Point>;
    /// Tables, figures and verdicts. The data hold every point of the scale.
    fn findings(&self, scale: Scale, data: &Data) -> Findings;
}

/// A unit of work.
pub(crate) struct Point {
    /// What it is, the same in every run: words and `name=value`, separated by blanks.
    pub(crate) key: String,
    /// How long it takes compared with the others of the experiment.
    pub(crate) cost: f64,
    /// Does it.
    pub(crate) work: Box<Work>,
}

/// What a point does.
type Work = dyn Fn(&Context<'_>) -> Result<Found, Failure> + Send + Sync;

impl Point {
    pub(crate) fn new(
        key: impl Into<String>,
        cost: f64,
        work: impl Fn(&Context<'_>) -> Result<Found, Failure> + Send + Sync + 'static,
    ) -> Self {
        Self { key: key.into(), cost, work: Box::new(work) }
    }
}

/// What a point is given.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context<'a> {
    /// The seed of the whole run: for what several points share, as their graph.
    pub(crate) seed: u64,
    /// A seed of this point alone: for its simulation, so that points are independent.
    pub(crate) own_seed: u64,
    /// Set when the user wants to stop; what a stopped point returns is thrown away.
    pub(crate) stop: &'a AtomicBool,
}

impl Observer for Context<'_> {
    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// What is made of the data.
#[derive(Debug)]
pub(crate) struct Findings {
    pub(crate) tables: Vec<Table>,
    pub(crate) figures: Vec<Figure>,
    /// One per claim, at least one.
    pub(crate) verdicts: Vec<Verdict>,
}

impl Findings {
    /// The experiment's answer: the worst of its claims'.
    pub(crate) fn answer(&self) -> Answer {
        worst(self.verdicts.iter().map(|verdict| verdict.judgement.answer))
    }

    /// Writes tables as CSV and figures as SVG into the folder.
    pub(crate) fn write(&self, folder: &Path) -> Result<(), Failure> {
        for table in &self.tables {
            super::write(&folder.join(table.file_name()), &table.csv())?;
        }
        for figure in &self.figures {
            super::write(&folder.join(figure.file_name()), &figure.svg()?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{ALL, Scale};
    use crate::reproduce::number::Data;
    use crate::reproduce::verdict::Answer;

    #[test]
    fn names_and_keys_are_given_once() {
        let names: BTreeSet<&str> = ALL.iter().map(|experiment| experiment.about().name).collect();
        assert_eq!(names.len(), ALL.len());
        for (experiment, scale) in ALL.iter().flat_map(|e| [(e, Scale::Quick), (e, Scale::Full)]) {
            let points = experiment.points(scale);
            let keys: BTreeSet<&str> = points.iter().map(|point| point.key.as_str()).collect();
            assert_eq!(keys.len(), points.len(), "{}", experiment.about().name);
            assert!(points.iter().all(|point| point.cost > 0.0), "{}", experiment.about().name);
        }
    }

    #[test]
    fn without_data_every_claim_is_inconclusive_and_every_figure_can_be_drawn() {
        for experiment in ALL {
            let findings = experiment.findings(Scale::Quick, &Data::default());
            assert!(!findings.verdicts.is_empty());
            for verdict in &findings.verdicts {
                assert_eq!(verdict.judgement.answer, Answer::Inconclusive, "{}", verdict.claim);
            }
            for figure in &findings.figures {
                assert!(figure.svg().unwrap().contains("<svg"), "{}", figure.name);
            }
        }
    }
}
