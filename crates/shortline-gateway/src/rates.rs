//! How fast things happen: arrivals per job type, completions per server, in 1/s.
//!
//! The estimate: once a second the count of the last second enters an exponentially weighted mean with time constant
//! [`MEMORY_S`], divided by the sum of the weights so far, so that it is unbiased from the first second on. With a
//! steady rate its standard error is about `sqrt(rate / (2 MEMORY_S))`.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Weight `e^-1` for what happened this long ago, seconds.
const MEMORY_S: f64 = 30.0;

/// Rates of many counters.
#[derive(Debug)]
pub(crate) struct Rates {
    /// The rates, as bits of an `f64`.
    current: Vec<AtomicU64>,
}

/// What the one who measures remembers.
#[derive(Debug)]
pub(crate) struct Meter {
    counts: Vec<u64>,
    weighted: Vec<f64>,
    weight: f64,
}

impl Rates {
    pub(crate) fn new(counters: usize) -> Self {
        Self { current: std::iter::repeat_with(|| AtomicU64::new(0)).take(counters).collect() }
    }

    /// The rate of counter `i`; 0 before the first measurement.
    pub(crate) fn get(&self, i: usize) -> f64 {
        f64::from_bits(self.current[i].load(Relaxed))
    }
}

impl Meter {
    /// A meter that starts from counts of 0.
    pub(crate) fn new(counters: usize) -> Self {
        Self { counts: vec![0; counters], weighted: vec![0.0; counters], weight: 0.0 }
    }

    /// Takes in what was counted in the `dt_s` seconds since the last call.
    pub(crate) fn tick(&mut self, dt_s: f64, count: impl Fn(usize) -> u64, rates: &Rates) {
        let gain = -(-dt_s / MEMORY_S).exp_m1();
        if gain <= 0.0 {
            return;
        }
        self.weight += gain * (1.0 - self.weight);
        for (i, rate) in rates.current.iter().enumerate() {
            let now = count(i);
            let in_tick = now.saturating_sub(self.counts[i]) as f64 / dt_s;
            self.counts[i] = now;
            self.weighted[i] += gain * (in_tick - self.weighted[i]);
            rate.store((self.weighted[i] / self.weight).to_bits(), Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_rate_is_right_from_the_first_second_and_an_old_one_fades() {
        let (rates, mut meter) = (Rates::new(1), Meter::new(1));
        assert!(rates.get(0).abs() < 1e-12);
        for second in 1..=5 {
            meter.tick(1.0, |_| 7 * second, &rates);
            assert!((rates.get(0) - 7.0).abs() < 1e-9, "after {second} s: {}", rates.get(0));
        }
        for _ in 0..300 {
            meter.tick(1.0, |_| 35, &rates);
        }
        assert!(rates.get(0) < 7.0 * (-9.9_f64).exp());
    }
}
