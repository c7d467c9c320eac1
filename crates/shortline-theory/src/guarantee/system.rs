//! The sets `R_m` of fast servers, tabulated: what the theorems read in their recursions.
//!
//! `M(i)` is the sum of the `i` largest service rates, `g_m - M(i)` what is left of the first `m` classes without their
//! `i` fastest servers (a sum of its own, not a difference), `delta_m(i)` the connectivity profile.
//!
//! A fleet may have as many speed classes as servers. Then not every `m` is tabulated but a selection `S` that contains
//! `K - 1`, `K` and `M`; where a theorem sums over all classes below some `m`, an `X_j` with `j` not in `S` is replaced by
//! the next `X_s` above it, which is never smaller, and an `a_j` by the next `a_s` below it, which is never smaller either.

use super::Profile;
use super::scope::Numbers;
use super::search::Effort;

/// `R_m`.
#[derive(Clone, Debug)]
pub(super) struct FastSet {
    /// Classes in it, from 1.
    pub(super) m: usize,
    /// `n_m`.
    pub(super) servers: usize,
    /// `mu_m`, its smallest rate.
    pub(super) slowest_per_s: f64,
    /// `mu_(p+1)`, the largest rate of the classes that the tabulated set before it lacks.
    pub(super) next_after_previous_per_s: f64,
    /// Entry `i` is `g_m - M(i)`, `i = 0..=n_m`.
    pub(super) left: Vec<f64>,
    /// Entry `i` is `delta_m(i)`.
    pub(super) delta: Vec<f64>,
    /// Smallest buffer in it.
    pub(super) smallest_buffer: u32,
    /// `max over r of (b_r - 1) / mu_r`, the longest mean wait behind a queue with room.
    pub(super) longest_wait_s: f64,
    /// Sum of `b_r - 1`.
    pub(super) waiting_places: f64,
}

impl FastSet {
    /// `g_m`.
    pub(super) fn capacity_per_s(&self) -> f64 {
        self.left[0]
    }

    /// Whether some server in it may hold a waiting job.
    pub(super) fn has_waiting_places(&self) -> bool {
        self.waiting_places > 0.0
    }
}

/// A fleet as the theorems see it.
#[derive(Clone, Debug)]
pub(super) struct System {
    /// `Lambda`, of the job types that have a server.
    pub(super) arrivals_per_s: f64,
    /// `mu_1 > ... > mu_M`.
    pub(super) rates: Vec<f64>,
    /// `n_1, ..., n_M`.
    pub(super) ends: Vec<usize>,
    /// Entry `i` is `M(i)`, `i = 0..=N`.
    pub(super) largest: Vec<f64>,
    /// The tabulated sets, ascending.
    pub(super) sets: Vec<FastSet>,
    /// Index in `sets` of `R_K`, or of `R_M` if the servers cannot do what arrives.
    pub(super) needed: usize,
    /// `g_M <= Lambda`.
    pub(super) is_overloaded: bool,
    /// Largest buffer by class.
    pub(super) buffers: Vec<u32>,
    /// The largest of them.
    pub(super) largest_buffer: u32,
    /// Places for jobs at all servers.
    pub(super) places: f64,
    /// See [`Numbers`].
    pub(super) busiest_per_s: f64,
    pub(super) effort: Effort,
}

impl System {
    pub(super) fn new(numbers: &Numbers, profile: Profile<'_>, effort: Effort) -> Self {
        let classes = &numbers.classes;
        let arrivals = numbers.arrivals_per_s;
        let rates: Vec<f64> = classes.iter().map(|class| class.rate_per_s).collect();
        let ends: Vec<usize> = running(classes.iter().map(|class| class.servers), 0, |a, b| a + b);
        let capacity = running(classes.iter().map(|class| class.rate_per_s * class.servers as f64), 0.0, |a, b| a + b);
        let needed = capacity.iter().position(|&g| g > arrivals);
        let k = needed.unwrap_or(classes.len() - 1) + 1;

        let selection = selection(classes.len(), k, effort.most_sets);
        let before = |i: usize| if i == 0 { 0 } else { selection[i - 1] };
        let sets = (0..selection.len()).map(|i| fast_set(numbers, &ends, selection[i], before(i), profile));
        let buffers: Vec<u32> = classes.iter().map(|class| class.largest_buffer).collect();
        let largest_buffer = buffers.iter().copied().max().unwrap_or(0);
        let mut largest = Vec::with_capacity(numbers.servers() + 1);
        largest.push(0.0);
        for (c, class) in classes.iter().enumerate() {
            let faster = if c == 0 { 0.0 } else { capacity[c - 1] };
            largest.extend((1..=class.servers).map(|i| faster + i as f64 * class.rate_per_s));
        }
        Self {
            arrivals_per_s: arrivals,
            sets: sets.collect(),
            needed: selection.iter().position(|&m| m == k).expect("the selection contains K"),
            is_overloaded: needed.is_none(),
            buffers,
            largest_buffer,
            places: classes.iter().map(|class| class.places).sum(),
            busiest_per_s: numbers.busiest_per_s,
            rates,
            ends,
            largest,
            effort,
        }
    }

    /// `R_M`, all servers.
    pub(super) fn all(&self) -> &FastSet {
        self.sets.last().expect("there is a speed class")
    }

    /// Rate and largest buffer of the classes that a set lacks.
    pub(super) fn classes_after(&self, set: &FastSet) -> impl Iterator<Item = (f64, u32)> + '_ {
        (set.m..self.rates.len()).map(|c| (self.rates[c], self.buffers[c]))
    }

    /// `max over r of b_r / mu_r`: no accepted job stays longer in the mean.
    pub(super) fn longest_stay_s(&self) -> f64 {
        self.rates.iter().zip(&self.buffers).map(|(rate, &buffer)| f64::from(buffer) / rate).fold(0.0, f64::max)
    }

    /// Whether all servers have the same buffer.
    pub(super) fn has_equal_buffers(&self) -> bool {
        self.all().smallest_buffer == self.largest_buffer
    }

    /// `n_(k-1) + (Lambda - g_(k-1)) / mu_k`: `L*` if `k = K`.
    pub(super) fn busy_if_first_classes_are_full(&self, k: usize) -> f64 {
        let before = if k == 1 { 0 } else { self.ends[k - 2] };
        before as f64 + (self.arrivals_per_s - self.largest[before]) / self.rates[k - 1]
    }

    /// `W_s`, `s` the index of a set: the fall of the rates over the classes from the set before to after it.
    pub(super) fn fall(&self, s: usize) -> f64 {
        self.sets[s].next_after_previous_per_s - self.rates[self.sets[s].m]
    }
}

fn running<T: Copy>(values: impl Iterator<Item = T>, start: T, add: impl Fn(T, T) -> T) -> Vec<T> {
    let sum = |state: &mut T, value: T| {
        *state = add(*state, value);
        Some(*state)
    };
    values.scan(start, sum).collect()
}

/// The `m` to tabulate, ascending: all, or `K - 1`, `K`, `K + 1`, `M` and evenly spaced ones.
fn selection(classes: usize, k: usize, most: usize) -> Vec<usize> {
    if classes <= most {
        return (1..=classes).collect();
    }
    let spaced = (1..=most - 4).map(|i| (i * classes).div_ceil(most - 4));
    let mut chosen: Vec<usize> = spaced.chain([k - 1, k, k + 1]).filter(|m| (1..=classes).contains(m)).collect();
    chosen.sort_unstable();
    chosen.dedup();
    chosen
}

fn fast_set(numbers: &Numbers, ends: &[usize], m: usize, previous: usize, profile: Profile<'_>) -> FastSet {
    let classes = &numbers.classes[..m];
    let servers = ends[m - 1];
    let mut slower = vec![0.0; m];
    for c in (0..m - 1).rev() {
        slower[c] = slower[c + 1] + classes[c + 1].rate_per_s * classes[c + 1].servers as f64;
    }
    let mut left = Vec::with_capacity(servers + 1);
    for (class, slower) in classes.iter().zip(&slower) {
        left.extend((1..=class.servers).rev().map(|i| i as f64 * class.rate_per_s + slower));
    }
    left.push(0.0);
    FastSet {
        m,
        servers,
        slowest_per_s: classes[m - 1].rate_per_s,
        next_after_previous_per_s: classes[previous].rate_per_s,
        left,
        delta: tabulate(servers, |i| without_orphans(profile(m, i), numbers.without_server)),
        smallest_buffer: classes.iter().map(|class| class.smallest_buffer).min().unwrap_or(0),
        longest_wait_s: classes.iter().map(|c| f64::from(c.largest_buffer - 1) / c.rate_per_s).fold(0.0, f64::max),
        waiting_places: classes.iter().map(|class| class.places - class.servers as f64).sum(),
    }
}

/// The profile counts job types without a server among those that find no idle one; as a share of the other arrivals:
fn without_orphans(delta: f64, orphans: f64) -> f64 {
    (delta - orphans) / (1.0 - orphans)
}

/// The profile as the theorems need it: 1 at 0, in [0, 1], nonincreasing. An upper bound at `i` is one at every `j > i`.
fn tabulate(servers: usize, profile: impl Fn(usize) -> f64) -> Vec<f64> {
    let mut least: f64 = 1.0;
    let entry = |i| {
        if i > 0 {
            // `min` ignores NaN: an entry that is no number says nothing.
            least = least.min(profile(i)).max(0.0);
        }
        least
    };
    (0..=servers).map(entry).collect()
}
