//! Quantiles of measured times: a histogram with buckets of constant relative width.
//!
//! The bucket of a time is the exponent and the first 6 bits of the fraction of its binary form: 64 buckets an octave,
//! 1.6 % wide at most. A quantile is interpolated linearly inside its bucket, which leaves an error of about 1e-4
//! for smooth laws. Times that are 0 have a bucket of their own, which is read as 0. Only the buckets between the shortest and the longest time are kept, whatever the unit of time.

const FRACTION_BITS: u32 = 6;
const SHIFT: u32 = 52 - FRACTION_BITS;

/// Counts of times.
#[derive(Clone, Debug, Default)]
pub(crate) struct Histogram {
    /// The bucket of the first count.
    first: usize,
    counts: Vec<u64>,
    total: u64,
}

impl Histogram {
    /// Counts a time.
    #[inline]
    pub(crate) fn add(&mut self, time: f64) {
        let bucket = bucket(time);
        self.make_room(bucket, bucket);
        self.counts[bucket - self.first] += 1;
        self.total += 1;
    }

    /// Counts all that another one counted.
    pub(crate) fn add_all(&mut self, other: &Self) {
        if other.total == 0 {
            return;
        }
        self.make_room(other.first, other.first + other.counts.len() - 1);
        let counts = self.counts[other.first - self.first..].iter_mut();
        counts.zip(&other.counts).for_each(|(count, other)| *count += other);
        self.total += other.total;
    }

    /// Room for the buckets from `low` to `high`.
    #[inline]
    fn make_room(&mut self, low: usize, high: usize) {
        if self.counts.is_empty() {
            self.first = low;
        }
        if low < self.first {
            self.counts.splice(..0, std::iter::repeat_n(0, self.first - low));
            self.first = low;
        }
        if high - self.first >= self.counts.len() {
            self.counts.resize(high - self.first + 1, 0);
        }
    }

    /// The time that a share `q` does not exceed; `None` if nothing was counted.
    pub(crate) fn quantile(&self, q: f64) -> Option<f64> {
        let wanted = q * self.total as f64;
        let mut before = 0.0;
        for (bucket, &count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let count = count as f64;
            if before + count >= wanted {
                if self.first + bucket == NOTHING {
                    return Some(0.0);
                }
                let (low, high) = (edge(self.first + bucket), edge(self.first + bucket + 1));
                return Some(low + (high - low) * (wanted - before) / count);
            }
            before += count;
        }
        None
    }
}

impl Histogram {
    /// How many times were counted.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// How many times exceed `t`, interpolated like a quantile.
    pub(crate) fn beyond(&self, t: f64) -> f64 {
        let at = bucket(t);
        if at < self.first {
            return self.total as f64;
        }
        let later = self.counts.iter().skip(at - self.first + 1).sum::<u64>() as f64;
        let (low, high) = (edge(at), edge(at + 1));
        let share = if at == NOTHING { 0.0 } else { ((high - t) / (high - low)).clamp(0.0, 1.0) };
        later + share * self.counts.get(at - self.first).map_or(0.0, |&count| count as f64)
    }
}

/// The bucket of what takes no time, and of times below 2.3e-308.
const NOTHING: usize = (f64::MIN_POSITIVE.to_bits() >> SHIFT) as usize;

/// The bucket of a time; what is not positive shares the first, what is not finite the last.
fn bucket(time: f64) -> usize {
    (time.clamp(f64::MIN_POSITIVE, f64::MAX).to_bits() >> SHIFT) as usize
}

fn edge(bucket: usize) -> f64 {
    f64::from_bits((bucket as u64) << SHIFT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_a_known_law_are_met() {
        let mut histogram = Histogram::default();
        let n = 200_000;
        for i in 0..n {
            let u = (f64::from(i) + 0.5) / f64::from(n);
            histogram.add(-(1.0 - u).ln());
        }
        for q in [0.5_f64, 0.95, 0.99] {
            let exact = -(1.0 - q).ln();
            assert!((histogram.quantile(q).unwrap() / exact - 1.0).abs() < 2e-4);
        }
    }

    #[test]
    fn what_exceeds_a_quantile_is_the_rest() {
        let mut histogram = Histogram::default();
        (0..1000).for_each(|i| histogram.add(1.0 + f64::from(i)));
        for q in [0.01, 0.5, 0.77, 0.999] {
            let beyond = histogram.beyond(histogram.quantile(q).unwrap());
            assert!((beyond - 1000.0 * (1.0 - q)).abs() < 1e-6, "{beyond} beyond quantile {q}");
        }
        assert!((histogram.beyond(0.5) - 1000.0).abs() < 1e-9 && histogram.beyond(1e9).abs() < 1e-9);
    }

    #[test]
    fn no_time_is_read_as_no_time() {
        let mut histogram = Histogram::default();
        [0.0, 0.0, 0.0, 1.0].into_iter().for_each(|time| histogram.add(time));
        assert_eq!([0.1, 0.75].map(|q| histogram.quantile(q)), [Some(0.0); 2]);
        assert!([0.0, 1e-300, 0.5].iter().all(|&t| (histogram.beyond(t) - 1.0).abs() < 1e-12));
    }

    #[test]
    fn extreme_times_are_counted_too() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile(0.5), None);
        [0.0, 1e-300, 1e300, f64::INFINITY].into_iter().for_each(|time| histogram.add(time));
        assert!(histogram.quantile(0.25).unwrap() < 1e-11);
        assert!(histogram.quantile(1.0).unwrap() > 1e12);
    }
}
