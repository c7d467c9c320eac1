//! The smallest number that will do: bisection of the logarithm.

/// How hard to look for the best bound; every result is valid.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Effort {
    /// Speed classes that are tabulated, at most; at least 5.
    pub(super) most_sets: usize,
    /// Values of `e` that are tried.
    pub(super) most_e: usize,
    /// Which values of `theta` are tried: every so many.
    pub(super) theta_step: usize,
    /// Which choices of the idle rates are tried: every so many.
    pub(super) quality_step: usize,
    /// Bisections look between this number and 1 ...
    pub(super) smallest: f64,
    /// ... to this relative accuracy.
    pub(super) accuracy: f64,
}

impl Effort {
    /// For the answer itself: thorough, and less so for large fleets.
    pub(super) fn thorough(servers: usize) -> Self {
        let most_sets = most_sets(servers);
        match servers {
            0..=10_000 => {
                Self { most_sets, most_e: 64, theta_step: 1, quality_step: 1, smallest: 1e-300, accuracy: 1e-12 }
            }
            10_001..=LARGE => {
                Self { most_sets, most_e: 24, theta_step: 1, quality_step: 1, smallest: 1e-300, accuracy: 1e-7 }
            }
            _ => Self { most_sets, most_e: 8, theta_step: 1, quality_step: 2, smallest: 1e-300, accuracy: 1e-5 },
        }
    }

    /// For a question such as: at which load would there be an answer?
    pub(super) fn quick(servers: usize) -> Self {
        let most_sets = most_sets(servers);
        if servers > LARGE {
            Self { most_sets, most_e: 4, theta_step: 3, quality_step: 3, smallest: 1e-12, accuracy: 1e-2 }
        } else {
            Self { most_sets, most_e: 10, theta_step: 2, quality_step: 1, smallest: 1e-30, accuracy: 1e-3 }
        }
    }
}

/// Most classes that are tabulated: few enough to keep the tables of a large fleet small.
fn most_sets(servers: usize) -> usize {
    (4_000_000 / servers.max(1)).clamp(6, 24)
}

/// Fleets beyond this size are asked fewer questions, with less effort.
pub(super) const LARGE: usize = 100_000;

/// The smallest `x` in `[effort.smallest, high]` for which `trial` has a result, and that result; `None` if there is none at
/// `high`. `trial` must be monotone: with a result at `x` it has one at every larger number.
///
/// The answer is one that was tried, so that whatever `trial` certifies holds for it.
pub(super) fn smallest<T>(effort: Effort, high: f64, mut trial: impl FnMut(f64) -> Option<T>) -> Option<(f64, T)> {
    let mut best = (high, trial(high)?);
    if let Some(found) = trial(effort.smallest) {
        return Some((effort.smallest, found));
    }
    let (mut low, mut high) = (effort.smallest.ln(), high.ln());
    while high - low > effort.accuracy {
        let middle = f64::midpoint(low, high);
        if middle <= low || middle >= high {
            break;
        }
        match trial(middle.exp()) {
            Some(found) => {
                best = (middle.exp(), found);
                high = middle;
            }
            None => low = middle,
        }
    }
    Some(best)
}

/// Numbers from `first` to `last`, all of them or about `most`, closer together at the small end.
pub(super) fn spread(first: usize, last: usize, most: usize) -> Vec<usize> {
    if last < first {
        return vec![];
    }
    if last - first < most {
        return (first..=last).collect();
    }
    let (low, high) = ((first as f64).max(1.0).ln(), (last as f64).ln());
    let point = |i: usize| (low + (high - low) * i as f64 / (most - 1) as f64).exp().round() as usize;
    let mut numbers: Vec<usize> = (0..most).map(|i| point(i).clamp(first, last)).collect();
    numbers.dedup();
    numbers
}
