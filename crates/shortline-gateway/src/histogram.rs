//! A histogram of durations that costs two atomic additions to write.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use prometheus_client::encoding::{MetricEncoder, NoLabelSet};

/// Buckets, each twice as wide as the one before.
const BUCKETS: usize = 24;

/// Counts durations in buckets with upper bounds `first, 2 first, 4 first, ...`; what is longer than all falls into a
/// last one.
#[derive(Debug)]
pub(crate) struct Histogram {
    /// Upper bound of the first bucket, in nanoseconds.
    first_ns: u64,
    counts: [AtomicU64; BUCKETS + 1],
    sum_ns: AtomicU64,
}

impl Histogram {
    /// From 100 ns to 0.8 s: decisions.
    pub(crate) fn from_nanoseconds() -> Self {
        Self::new(100)
    }

    /// From 1 ms to 2.3 h: requests.
    pub(crate) fn from_milliseconds() -> Self {
        Self::new(1_000_000)
    }

    fn new(first_ns: u64) -> Self {
        Self { first_ns, counts: Default::default(), sum_ns: AtomicU64::new(0) }
    }

    /// Counts one duration.
    pub(crate) fn observe(&self, duration: Duration) {
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.counts[self.bucket(ns)].fetch_add(1, Relaxed);
        self.sum_ns.fetch_add(ns, Relaxed);
    }

    /// The least `i` with `ns <= first 2^i`, at most [`BUCKETS`].
    fn bucket(&self, ns: u64) -> usize {
        let firsts = ns.div_ceil(self.first_ns).max(1);
        (firsts.next_power_of_two().trailing_zeros() as usize).min(BUCKETS)
    }

    /// Writes it in seconds.
    pub(crate) fn encode(&self, mut encoder: MetricEncoder<'_>) -> std::fmt::Result {
        let counts = self.counts.each_ref().map(|count| count.load(Relaxed));
        let bound = |i| if i < BUCKETS { (self.first_ns << i) as f64 * 1e-9 } else { f64::INFINITY };
        let buckets: Vec<(f64, u64)> = counts.iter().enumerate().map(|(i, &count)| (bound(i), count)).collect();
        let sum_s = self.sum_ns.load(Relaxed) as f64 * 1e-9;
        encoder.encode_histogram::<NoLabelSet>(sum_s, counts.iter().sum(), &buckets, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_what_is_at_most_its_bound_and_above_the_bound_before() {
        let histogram = Histogram::from_milliseconds();
        let ms = 1_000_000;
        let of = |ns| histogram.bucket(ns);
        assert_eq!([of(0), of(ms), of(ms + 1), of(2 * ms), of(2 * ms + 1)], [0, 0, 1, 1, 2]);
        assert_eq!(of(ms << (BUCKETS - 1)), BUCKETS - 1);
        assert_eq!(of((ms << (BUCKETS - 1)) + 1), BUCKETS);
        assert_eq!(of(u64::MAX / 2), BUCKETS);
    }
}
