//! The smallest number that will do: bisection of the logarithm.

/// How hard to look for the best bound; every result is valid.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Effort {
    /// Values of `e` that are tried.
    pub(super) most_e: usize,
    /// Relative accuracy of bisections.
    pub(super) accuracy: f64,
}

impl Effort {
    /// For the answer itself: thorough, and less so beyond 10,000 servers.
    pub(super) fn thorough(servers: usize) -> Self {
        let accuracy = if servers > 10_000 { 1e-7 } else { 1e-12 };
        Self { most_e: (1_000_000 / servers.max(1)).clamp(12, 64), accuracy }
    }

    /// For a question such as: at which load would there be an answer?
    pub(super) const QUICK: Self = Self { most_e: 10, accuracy: 1e-4 };
}

/// Smaller numbers are not looked for.
const SMALLEST: f64 = 1e-300;

/// The smallest `x` in `[1e-300, 1]` for which `trial` has a result, and that result; `None` if there is none at 1.
/// `trial` must be monotone: with a result at `x` it has one at every larger number.
///
/// The answer is one that was tried, so that whatever `trial` certifies holds for it, and within `accuracy`, relative, of
/// the smallest.
pub(super) fn smallest<T>(accuracy: f64, mut trial: impl FnMut(f64) -> Option<T>) -> Option<(f64, T)> {
    let mut best = (1.0, trial(1.0)?);
    if let Some(found) = trial(SMALLEST) {
        return Some((SMALLEST, found));
    }
    let (mut low, mut high) = (SMALLEST.ln(), 0.0_f64);
    while high - low > accuracy && (low + high) / 2.0 < high {
        let middle = (low + high) / 2.0;
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
