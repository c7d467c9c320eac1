//! Servers that are alike: one server of a class as a birth-death chain.

use shortline_core::ServerTypeId;

/// Servers of one type and one buffer, in the mean field: all that matters of them is how many have how many jobs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ServerClass {
    /// Their type.
    pub server_type: ServerTypeId,
    /// How many there are.
    pub servers: usize,
    /// `alpha_m`: their share of the servers that hold a job type.
    pub share: f64,
    /// `mu_m`: jobs per second of one slot.
    pub rate_per_s: f64,
    /// Jobs served at the same time.
    pub slots: u32,
    /// Most jobs at one of them; `None` = unbounded.
    pub buffer: Option<u32>,
    /// Place in the order of speed, 0 = fastest; equal speeds share one.
    pub rank: usize,
}

impl ServerClass {
    /// Jobs per second that a server with this many jobs completes: `mu_m min(i, slots)`.
    #[must_use]
    pub fn service_per_s(&self, jobs: usize) -> f64 {
        self.rate_per_s * jobs.min(self.slots as usize) as f64
    }

    /// Jobs per second that a server completes at most.
    #[must_use]
    pub fn capacity_per_s(&self) -> f64 {
        self.service_per_s(self.slots as usize)
    }

    /// Whether a server with this many jobs takes no more.
    pub(super) fn is_full(&self, jobs: usize) -> bool {
        self.buffer.is_some_and(|buffer| jobs >= buffer as usize)
    }

    /// Stationary law of a server with at least `first` jobs to which `birth(i)` jobs per second come while it has `i`:
    /// entry `j` is the probability of `first + j` jobs. Ends with the first level without births, or at `last`.
    pub(super) fn stationary(&self, first: usize, last: usize, birth: impl Fn(usize) -> f64) -> Vec<f64> {
        let mut weights = vec![1.0];
        for jobs in first..last {
            let weight = weights[jobs - first] * birth(jobs) / self.service_per_s(jobs + 1);
            if weight <= 0.0 {
                break;
            }
            weights.push(weight);
            if weight > 1e200 {
                weights.iter_mut().for_each(|weight| *weight *= 1e-200);
            }
        }
        let sum: f64 = weights.iter().sum();
        weights.iter_mut().for_each(|weight| *weight /= sum);
        weights
    }
}

/// The levels that are not written out: a server that has `top` jobs or more gets `ratio` times as many jobs as it
/// completes, and holds at most `further` beyond `top`. Given `top` or more, it has `top + j` with probability
/// proportional to `ratio^j`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Tail {
    pub(super) ratio: f64,
    pub(super) further: Option<u32>,
}

impl Tail {
    /// Probability of more than `top` jobs, given `top` or more: `(r + ... + r^n) / (1 + r + ... + r^n)`. 1 for a queue
    /// that grows without end.
    pub(super) fn beyond(self) -> f64 {
        let (r, log) = (self.ratio, self.ratio.ln());
        match self.further.map(f64::from) {
            None => r.min(1.0),
            Some(_) if r <= 0.0 => 0.0,
            Some(n) if log.abs() < f64::MIN_POSITIVE => n / (n + 1.0),
            Some(n) if log < 0.0 => r * (n * log).exp_m1() / ((n + 1.0) * log).exp_m1(),
            Some(n) => (-n * log).exp_m1() / (-(n + 1.0) * log).exp_m1(),
        }
    }

    /// Mean number of jobs beyond `top`, given `top` or more; infinite for a queue that grows without end.
    pub(super) fn mean_beyond(self) -> f64 {
        let (r, log) = (self.ratio, self.ratio.ln());
        match self.further.map(f64::from) {
            _ if r <= 0.0 => 0.0,
            None if r >= 1.0 => f64::INFINITY,
            None => r / (1.0 - r),
            // To second order in log; what is left out is of third order.
            Some(n) if (log * (n + 1.0)).abs() < 1e-4 => n / 2.0 + log * n * (n + 2.0) / 12.0,
            Some(n) => 1.0 / (-log).exp_m1() - (n + 1.0) / (-(n + 1.0) * log).exp_m1(),
        }
    }

    /// Probability of a full server, given `top` or more jobs: `r^n / (1 + r + ... + r^n)`.
    pub(super) fn full(self) -> f64 {
        let (r, log) = (self.ratio, self.ratio.ln());
        match self.further.map(f64::from) {
            None => 0.0,
            Some(n) if r <= 0.0 => f64::from(n <= 0.0),
            Some(n) if log.abs() < f64::MIN_POSITIVE => 1.0 / (n + 1.0),
            Some(n) if log < 0.0 => (n * log).exp() * log.exp_m1() / ((n + 1.0) * log).exp_m1(),
            Some(n) => (-log).exp_m1() / (-(n + 1.0) * log).exp_m1(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_is_the_sum_of_its_levels() {
        for ratio in [0.0, 0.3, 0.999_999_9, 1.0, 1.000_000_1, 1.2, 7.0] {
            for n in [0_u32, 1, 5, 40] {
                let weights: Vec<f64> = (0..=n).map(|j| f64::powi(ratio, j as i32)).collect();
                let sum: f64 = weights.iter().sum();
                let mean = weights.iter().enumerate().map(|(j, w)| j as f64 * w).sum::<f64>() / sum;
                let tail = Tail { ratio, further: Some(n) };
                let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9 * (1.0 + b), "{a} {b}, {tail:?}");
                near(tail.beyond(), (sum - 1.0) / sum);
                near(tail.mean_beyond(), mean);
                near(tail.full(), weights[n as usize] / sum);
            }
        }
        let tail = Tail { ratio: 0.9, further: None };
        assert!((tail.beyond() - 0.9).abs() < 1e-15 && (tail.mean_beyond() - 9.0).abs() < 1e-12);
        assert!(Tail { ratio: 1.0, further: None }.mean_beyond().is_infinite());
    }
}
