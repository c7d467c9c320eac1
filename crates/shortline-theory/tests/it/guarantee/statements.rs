//! The theorems written down once more, as plainly as they are stated, and with single terms wrong on purpose.
//!
//! The correct version is compared with the library and checked on the same systems; the wrong versions must fail there.
//! Without idle rates (`Mt = M`), without choices: all is a function of `m` and `e`.

/// What is wrong with the statement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Slip {
    None,
    /// `M(e-2)` for `M(e-1)` in `eta`.
    CapacityOneServerEarly,
    /// The product starts at `e - 1`.
    ProductOneStepEarly,
    /// `M(i)` sums the smallest rates.
    SmallestRates,
    /// `chi` without `delta(e)`.
    DeltaDropped,
    /// S1 without `1 - delta`.
    AllArrivalsFindIdleServers,
    /// S1 with the largest rates idle.
    FastestIdleFirst,
    /// L without the term of `delta`.
    LossWithoutDelta,
    /// L with `t(i + 1)` for `t(i)` at the arrivals: the recursion is drained one server early.
    LossOneServerEarly,
    /// L without waiting jobs, so Erlang B where Erlang C is due.
    LossWithoutWaiting,
}

/// A set `R_m`.
#[derive(Clone, Debug)]
pub(crate) struct Statement<'a> {
    /// Its rates, fastest first.
    pub(crate) rates: &'a [f64],
    /// `delta_m(0..=n)`, of the job types that have a server.
    pub(crate) delta: &'a [f64],
    pub(crate) arrivals: f64,
    pub(crate) waits: bool,
    pub(crate) slip: Slip,
}

impl Statement<'_> {
    fn n(&self) -> usize {
        self.rates.len()
    }

    fn g(&self) -> f64 {
        self.rates.iter().sum()
    }

    fn largest(&self, i: usize) -> f64 {
        if self.slip == Slip::SmallestRates {
            self.rates.iter().rev().take(i).sum()
        } else {
            self.rates.iter().take(i).sum()
        }
    }

    /// `P(X_m < e)` and `chi`; `None` if `eta <= 0`.
    pub(crate) fn simple(&self, e: usize) -> Option<(f64, f64)> {
        let taken = if self.slip == Slip::CapacityOneServerEarly { e.saturating_sub(2) } else { e - 1 };
        let eta = self.g() - self.arrivals - self.largest(taken);
        // Rounding must not open a case that the library refuses.
        if eta <= 1e-12 * self.g() {
            return None;
        }
        let first = if self.slip == Slip::ProductOneStepEarly { e - 1 } else { e };
        let lefts = (first..=self.n()).map(|i| self.g() - self.largest(i)).take_while(|&left| left > self.arrivals);
        let s: f64 = lefts.map(|left| self.arrivals / left).product();
        let x = self.arrivals * (self.delta[e] + s) / eta;
        let few = x / (1.0 + x);
        let delta = if self.slip == Slip::DeltaDropped { 0.0 } else { self.delta[e] };
        Some((few, delta + (1.0 - delta) * few))
    }

    /// `E[Z_m]`.
    pub(crate) fn mean_idle(&self) -> f64 {
        let start = (0..=self.n()).rev().find(|&x| self.delta[x] >= 1.0).expect("delta is 1 at 0");
        let mut weight = 1.0;
        let (mut sum, mut mean) = (1.0, start as f64);
        for x in start..self.n() {
            let idle: f64 = match self.slip {
                Slip::FastestIdleFirst => self.rates.iter().take(x).sum(),
                _ => self.rates.iter().rev().take(x).sum(),
            };
            let served = if self.slip == Slip::AllArrivalsFindIdleServers { 1.0 } else { 1.0 - self.delta[x + 1] };
            weight *= (self.g() - idle) / (served * self.arrivals);
            sum += weight;
            mean += weight * (x + 1) as f64;
        }
        mean / sum
    }

    /// The bound on `a_m` that needs no other; infinite if `Lambda tau >= 1`.
    pub(crate) fn not_immediate(&self) -> f64 {
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..200 {
            let z = (low + high) / 2.0;
            if self.tau(z).is_some() { high = z } else { low = z }
        }
        let tau = self.arrivals * self.tau(high).expect("high has a solution");
        match self.waits && self.slip != Slip::LossWithoutWaiting {
            false => high,
            true if tau < 1.0 => high / (1.0 - tau),
            true => f64::INFINITY,
        }
    }

    /// The largest of the least `t(i)` at `z`.
    fn tau(&self, z: f64) -> Option<f64> {
        let (n, arrivals) = (self.n(), self.arrivals);
        let mut t = (1.0 - z) / self.g();
        let mut tau = t;
        for i in 1..=n {
            let delta = if self.slip == Slip::LossWithoutDelta { 0.0 } else { self.delta[i] };
            let taken = if self.slip == Slip::LossOneServerEarly { i - 1 } else { i };
            let rest = arrivals * t + delta * (1.0 - arrivals * t).max(0.0) - z;
            if rest <= 0.0 {
                t = 0.0;
                continue;
            }
            // The last server is not drained: t(n + 1) = 0.
            let left = if i == n { 0.0 } else { self.g() - self.largest(taken) };
            if left <= 1e-12 * self.g() {
                return None;
            }
            t = rest / left;
            tau = tau.max(t);
        }
        Some(tau)
    }
}
