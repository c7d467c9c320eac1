//! The dispatch laws, each as an order of preference.
//!
//! Every policy covered here looks at some servers, ranks them by what it sees, and joins the best; among equals it
//! chooses uniformly. What it sees of a server is its *cell*: class `m` and number of jobs `i`. So a policy is an
//! order of the cells, in [`Tiers`] of equals:
//!
//! | policy | best first |
//! |---|---|
//! | `random` | all alike |
//! | `jsq`, `jsq(d)` | fewest jobs (per slot) |
//! | `jfsq`, `jfsq(d)`, `jsq(d1,d2)` | fewest jobs (per slot), then the fastest |
//! | `jiq` | the idle ones, then all others alike |
//! | `jfiq` | the idle ones, the fastest first, then all others alike |
//! | `sed` | the shortest expected delay `max(1, (i + 1) / slots) / rate`, then the fastest |
//! | `nq` | the idle ones, the fastest first, then as `sed` |
//!
//! A full server comes last where the policy never chooses one (`jsq`, `jfsq`, `sed`, `nq`), and else has the place that
//! its number of jobs gives it; a job that meets it is blocked.

use shortline_core::fleet::speeds_equal;
use shortline_core::policy::PolicySpec;

use super::class::ServerClass;

/// An order of preference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Preference {
    None,
    Shortest { then_fastest: bool, avoids_full: bool },
    Idle { then_fastest: bool },
    Delay { idle_first: bool },
}

impl Preference {
    /// The order of a policy; `None` if it does not choose by what it sees of the servers.
    pub(super) fn of(policy: PolicySpec) -> Option<Self> {
        Some(match policy {
            PolicySpec::Random => Self::None,
            PolicySpec::Jsq => Self::Shortest { then_fastest: false, avoids_full: true },
            PolicySpec::Jfsq => Self::Shortest { then_fastest: true, avoids_full: true },
            PolicySpec::JsqD(_) => Self::Shortest { then_fastest: false, avoids_full: false },
            PolicySpec::JfsqD(_) | PolicySpec::JsqFastOther { .. } => {
                Self::Shortest { then_fastest: true, avoids_full: false }
            }
            PolicySpec::Jiq => Self::Idle { then_fastest: false },
            PolicySpec::Jfiq => Self::Idle { then_fastest: true },
            PolicySpec::Sed => Self::Delay { idle_first: false },
            PolicySpec::Nq => Self::Delay { idle_first: true },
            PolicySpec::Split | PolicySpec::Central => return None,
        })
    }

    /// Smaller is better; the first part is compared with the tolerance of speeds.
    fn key(self, class: &ServerClass, jobs: usize) -> (f64, usize) {
        const LAST: (f64, usize) = (f64::INFINITY, 0);
        let (slots, full) = (f64::from(class.slots), class.is_full(jobs));
        let idle = jobs < class.slots as usize && !full;
        match self {
            Self::None => (0.0, 0),
            Self::Shortest { avoids_full: true, .. } | Self::Delay { .. } if full => LAST,
            Self::Shortest { then_fastest, .. } => (jobs as f64 / slots, if then_fastest { class.rank } else { 0 }),
            Self::Idle { then_fastest } if idle => (0.0, if then_fastest { class.rank } else { 0 }),
            Self::Idle { .. } => LAST,
            Self::Delay { idle_first: true } if idle => (0.0, class.rank),
            Self::Delay { .. } => (f64::max(1.0, (jobs as f64 + 1.0) / slots) / class.rate_per_s, class.rank),
        }
    }
}

/// A class and a number of jobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Cell {
    pub(super) class: usize,
    pub(super) jobs: usize,
    /// Its place in a list of all cells: by class, then by number of jobs.
    pub(super) index: usize,
    /// Whether no more jobs are written out.
    pub(super) is_top: bool,
}

/// All cells, in tiers of equal preference, best first.
#[derive(Clone, Debug)]
pub(super) struct Tiers {
    cells: Vec<Cell>,
    ends: Vec<usize>,
}

impl Tiers {
    /// The cells of up to `top[m]` jobs at a server of class `m`.
    pub(super) fn new(preference: Preference, classes: &[ServerClass], top: &[usize]) -> Self {
        let mut keyed: Vec<((f64, usize), Cell)> = Vec::new();
        for (class, (of, &top)) in classes.iter().zip(top).enumerate() {
            for jobs in 0..=top {
                keyed.push((preference.key(of, jobs), Cell { class, jobs, index: keyed.len(), is_top: jobs == top }));
            }
        }
        // Values that differ by rounding only become one value, before ranks decide.
        keyed.sort_by(|(a, _), (b, _)| a.0.total_cmp(&b.0));
        for i in 1..keyed.len() {
            let before = keyed[i - 1].0.0;
            if keyed[i].0.0.is_finite() && speeds_equal(before, keyed[i].0.0) {
                keyed[i].0.0 = before;
            }
        }
        keyed.sort_by(|(a, x), (b, y)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)).then(x.index.cmp(&y.index)));
        let ends = (1..=keyed.len()).filter(|&i| i == keyed.len() || keyed[i].0 != keyed[i - 1].0).collect();
        Self { cells: keyed.into_iter().map(|(_, cell)| cell).collect(), ends }
    }

    /// The tiers, best first.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &[Cell]> {
        (0..self.ends.len()).map(|t| &self.cells[if t == 0 { 0 } else { self.ends[t - 1] }..self.ends[t]])
    }
}

#[cfg(test)]
mod tests {
    use shortline_core::ServerTypeId;

    use super::*;

    fn class(rate_per_s: f64, slots: u32, buffer: u32, rank: usize) -> ServerClass {
        let server_type = ServerTypeId::new(rank);
        ServerClass { server_type, servers: 1, share: 0.5, rate_per_s, slots, buffer: Some(buffer), rank }
    }

    /// The tiers as text: class and jobs of each cell.
    fn tiers(policy: &str, classes: &[ServerClass]) -> String {
        let top: Vec<usize> = classes.iter().map(|class| class.buffer.unwrap() as usize).collect();
        let tiers = Tiers::new(Preference::of(policy.parse().unwrap()).unwrap(), classes, &top);
        let tier = |cells: &[Cell]| -> String {
            cells.iter().map(|cell| format!("{}{} ", if cell.class == 0 { "f" } else { "s" }, cell.jobs)).collect()
        };
        tiers.iter().map(tier).collect::<Vec<_>>().join("| ")
    }

    #[test]
    fn each_policy_has_its_order() {
        let two = [class(2.0, 1, 2, 0), class(1.0, 1, 2, 1)];
        assert_eq!(tiers("random", &two), "f0 f1 f2 s0 s1 s2 ");
        assert_eq!(tiers("jsq", &two), "f0 s0 | f1 s1 | f2 s2 ");
        assert_eq!(tiers("jfsq", &two), "f0 | s0 | f1 | s1 | f2 s2 ");
        assert_eq!(tiers("jfsq(2)", &two), "f0 | s0 | f1 | s1 | f2 | s2 ");
        assert_eq!(tiers("jiq", &two), "f0 s0 | f1 f2 s1 s2 ");
        assert_eq!(tiers("jfiq", &two), "f0 | s0 | f1 f2 s1 s2 ");
        // Delays 1/2, 1; 1, 2: the fast server with one job ties with the idle slow one, and is faster.
        assert_eq!(tiers("sed", &two), "f0 | f1 | s0 | s1 | f2 s2 ");
        assert_eq!(tiers("nq", &two), "f0 | s0 | f1 | s1 | f2 s2 ");
    }

    #[test]
    fn slots_count_as_room_to_start() {
        let two = [class(1.0, 2, 3, 0), class(1.0, 1, 2, 0)];
        assert_eq!(tiers("jsq", &two), "f0 s0 | f1 | f2 s1 | f3 s2 ");
        assert_eq!(tiers("jiq", &two), "f0 f1 s0 | f2 f3 s1 s2 ");
        assert_eq!(tiers("sed", &two), "f0 f1 s0 | f2 | s1 | f3 s2 ");
    }

    #[test]
    fn a_full_server_of_a_smaller_buffer_is_last_or_in_line() {
        let two = [class(1.0, 1, 1, 0), class(1.0, 1, 3, 0)];
        assert_eq!(tiers("jsq", &two), "f0 s0 | s1 | s2 | f1 s3 ");
        assert_eq!(tiers("jsq(2)", &two), "f0 s0 | f1 s1 | s2 | s3 ");
    }
}
