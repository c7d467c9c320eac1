//! How fast things happen: arrivals per job type, completions per server, in 1/s.
//!
//! The estimate: once a second the count of the last second enters an exponentially weighted mean with time constant
//! [`MEMORY_S`], divided by the sum of the weights so far, so that it is unbiased from the first second on. With a
//! steady rate its standard error is about `sqrt(rate / (2 MEMORY_S))`.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Weight `e^-1` for what happened this long ago, seconds.
const MEMORY_S: f64 = 30.0;

/// The rate of one counter, from its first count on. One thread measures, all may read.
#[derive(Default, Debug)]
pub(crate) struct Meter {
    /// The count at the last measurement.
    counted: AtomicU64,
    /// The weighted mean, as bits of an `f64`.
    weighted: AtomicU64,
    /// The sum of the weights so far, likewise.
    weight: AtomicU64,
}

impl Meter {
    /// The rate; 0 before the first measurement.
    pub(crate) fn rate(&self) -> f64 {
        let weight = load(&self.weight);
        if weight > 0.0 { load(&self.weighted) / weight } else { 0.0 }
    }

    /// Whether it was ever measured.
    pub(crate) fn is_measured(&self) -> bool {
        load(&self.weight) > 0.0
    }

    /// The counter stands at `count`, `dt_s` seconds after the last call (or after it was 0).
    pub(crate) fn tick(&self, dt_s: f64, count: u64) {
        let gain = -(-dt_s / MEMORY_S).exp_m1();
        if gain <= 0.0 {
            return;
        }
        let in_tick = count.saturating_sub(self.counted.swap(count, Relaxed)) as f64 / dt_s;
        let (weighted, weight) = (load(&self.weighted), load(&self.weight));
        store(&self.weighted, weighted + gain * (in_tick - weighted));
        store(&self.weight, weight + gain * (1.0 - weight));
    }
}

fn load(bits: &AtomicU64) -> f64 {
    f64::from_bits(bits.load(Relaxed))
}

fn store(bits: &AtomicU64, value: f64) {
    bits.store(value.to_bits(), Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_rate_is_right_from_the_first_second_and_an_old_one_fades() {
        let meter = Meter::default();
        assert!(meter.rate().abs() < 1e-12);
        for second in 1..=5 {
            meter.tick(1.0, 7 * second);
            assert!((meter.rate() - 7.0).abs() < 1e-9, "after {second} s: {}", meter.rate());
        }
        for _ in 0..300 {
            meter.tick(1.0, 35);
        }
        assert!(meter.rate() < 7.0 * (-9.9_f64).exp());
    }
}
