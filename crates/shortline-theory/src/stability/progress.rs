//! How much to compute, how exact an answer is, and how far a long computation has come.

use crate::reduced::{Reduced, Speeds};

/// How far a computation has come. Nothing depends on who listens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// What is being computed, as in "computing ...".
    pub doing: &'static str,
    /// Steps done, from 1 for the first one begun.
    pub done: usize,
    /// Steps in all, where that is known beforehand.
    pub of: Option<usize>,
}

/// Told about progress; `&mut |_| ()` for nobody.
pub type Observer<'a> = dyn FnMut(Progress) + 'a;

/// How many of many similar questions are answered exactly; the others get a certified upper bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effort {
    /// What lies in the bottleneck (at most [`MOST_OF_THE_BOTTLENECK`](Self::MOST_OF_THE_BOTTLENECK)), and this many of
    /// the smallest upper bounds; the worst first, until [`MOST_VISITS`](Self::MOST_VISITS) are spent.
    Worst(usize),
    /// All.
    All,
}

impl Effort {
    /// Most parts of a bottleneck that [`Worst`](Self::Worst) looks at one by one: a fleet that is one large bottleneck
    /// would otherwise cost as much as [`All`](Self::All).
    pub const MOST_OF_THE_BOTTLENECK: usize = 1_000;

    /// Edges and nodes that the searches of [`Worst`](Self::Worst) look at in all, a few seconds: where the whole of a
    /// large fleet is the bottleneck, a single question may cost as much as the analysis did.
    pub const MOST_VISITS: u64 = 200_000_000;
    /// Most linear programs, where a fleet is not of product form and has more than
    /// [`SMALL_PROGRAM`](Self::SMALL_PROGRAM) edges.
    pub const MOST_PROGRAMS: usize = 5;
    /// See [`MOST_PROGRAMS`](Self::MOST_PROGRAMS).
    pub const SMALL_PROGRAM: usize = 300;

    /// [`Worst`](Self::Worst) cut down to a few where each takes a large linear program.
    pub(super) fn within_reason(self, reduced: &Reduced) -> Plan {
        let is_costly =
            matches!(reduced.speeds, Speeds::PerPort(_)) && reduced.graph.edge_count() > Self::SMALL_PROGRAM;
        match self {
            Self::All => Plan { worst: usize::MAX, of_bottleneck: 0, most_visits: u64::MAX },
            Self::Worst(worst) if is_costly => {
                Plan { worst: worst.min(Self::MOST_PROGRAMS), of_bottleneck: 0, most_visits: Self::MOST_VISITS }
            }
            Self::Worst(worst) => {
                Plan { worst, of_bottleneck: Self::MOST_OF_THE_BOTTLENECK, most_visits: Self::MOST_VISITS }
            }
        }
    }
}

/// How many are computed exactly.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    worst: usize,
    of_bottleneck: usize,
    pub(super) most_visits: u64,
}

impl Plan {
    /// Which of the candidates (sorted, the worst first) are to be exact.
    pub(super) fn chosen<T>(self, candidates: &[T], is_in_bottleneck: impl Fn(&T) -> bool) -> Vec<bool> {
        let mut left = self.of_bottleneck;
        let choose = |(i, candidate): (usize, &T)| {
            let in_bottleneck = left > 0 && is_in_bottleneck(candidate);
            left -= usize::from(in_bottleneck);
            i < self.worst || in_bottleneck
        };
        candidates.iter().enumerate().map(choose).collect()
    }
}

impl Default for Effort {
    /// The 100 worst.
    fn default() -> Self {
        Self::Worst(100)
    }
}

/// A load factor, exact or bounded from above.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Factor {
    /// The factor; infinite where nothing grows because nothing arrives.
    pub value: f64,
    /// If false, the true factor was not computed and is at most `value`.
    pub is_exact: bool,
}
