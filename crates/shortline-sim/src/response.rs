//! The law of response times, from counts of what jobs found when they joined.
//!
//! A job that finds `k` jobs at a FIFO server with `c` slots of exponential rate `mu` each starts at once if `k < c`;
//! else it waits for `n = k - c + 1` completions at rate `c mu`. Its response time is `Erlang(n, c mu) + Exp(mu)`:
//! - mean `n / (c mu) + 1 / mu`;
//! - `c = 1`: `Erlang(n + 1, mu)`, `P(T > t) = sum_{i <= n} pois(i; mu t)`;
//! - `c > 1`: `P(T > t) = sum_{i < n} pois(i; c mu t) + (c/(c-1))^n e^{-mu t} sum_{i >= n} pois(i; (c-1) mu t)`.
//!
//! All terms are positive: no cancellation. A mixture over `k` and servers is evaluated in O(number of counts) per
//! point, its quantiles by bisection.
//!
//! A job that waited in front of the servers first has one time more, for which there is no such form: the means of these
//! jobs are expected ones too, but for quantiles their response times are drawn from the law and counted ([`Front`]).

use shortline_core::random::Generator;

use crate::erlang::erlang;
use crate::histogram::Histogram;

/// Jobs that wait at a server when one more comes that finds `found`, it included.
fn ahead(found: usize, slots: u32) -> usize {
    (found + 1).saturating_sub(slots as usize)
}

/// Expected response time of a job that finds `found` jobs.
pub(crate) fn mean_s(found: usize, rate: f64, slots: u32) -> f64 {
    mean_waiting_s(found, rate, slots) + 1.0 / rate
}

/// Expected time that it waits at the server.
pub(crate) fn mean_waiting_s(found: usize, rate: f64, slots: u32) -> f64 {
    ahead(found, slots) as f64 / (f64::from(slots) * rate)
}

/// A response time, without waiting in front, drawn from its law.
pub(crate) fn draw_s(found: usize, rate: f64, slots: u32, rng: &mut Generator) -> f64 {
    (erlang(ahead(found, slots) as u64, rng) / f64::from(slots) + erlang(1, rng)) / rate
}

/// A mixture of response-time laws.
#[derive(Clone, Debug, Default)]
pub(crate) struct ResponseLaw {
    classes: Vec<Class>,
    front: Front,
}

/// Jobs that waited in front.
#[derive(Clone, Debug, Default)]
pub(crate) struct Front {
    pub(crate) jobs: u64,
    /// Expected, in front and at the server.
    pub(crate) waiting_sum_s: f64,
    pub(crate) service_sum_s: f64,
    /// Drawn.
    pub(crate) responses: Histogram,
}

#[derive(Clone, Debug)]
struct Class {
    rate: f64,
    slots: u32,
    /// By number of jobs found.
    counts: Vec<u64>,
}

impl ResponseLaw {
    /// Adds jobs at servers with this rate and number of slots, by the number of jobs they found.
    pub(crate) fn push(&mut self, rate: f64, slots: u32, mut counts: Vec<u64>) {
        while counts.last() == Some(&0) {
            counts.pop();
        }
        if !counts.is_empty() {
            self.classes.push(Class { rate, slots, counts });
        }
    }

    /// Adds the jobs of another mixture.
    pub(crate) fn add(&mut self, other: &Self) {
        for class in &other.classes {
            let alike = |own: &&mut Class| own.rate.to_bits() == class.rate.to_bits() && own.slots == class.slots;
            let Some(own) = self.classes.iter_mut().find(alike) else {
                self.classes.push(class.clone());
                continue;
            };
            if own.counts.len() < class.counts.len() {
                own.counts.resize(class.counts.len(), 0);
            }
            own.counts.iter_mut().zip(&class.counts).for_each(|(count, other)| *count += other);
        }
        self.push_front(&other.front);
    }

    /// Adds the jobs that waited in front.
    pub(crate) fn push_front(&mut self, front: &Front) {
        self.front.jobs += front.jobs;
        self.front.waiting_sum_s += front.waiting_sum_s;
        self.front.service_sum_s += front.service_sum_s;
        self.front.responses.add_all(&front.responses);
    }

    /// Number of jobs.
    pub(crate) fn jobs(&self) -> u64 {
        self.front.jobs + self.classes.iter().flat_map(|class| &class.counts).sum::<u64>()
    }

    /// Number of jobs that did not start at once.
    pub(crate) fn waited(&self) -> u64 {
        let at_servers = self.classes.iter().flat_map(|class| class.counts.iter().skip(class.slots as usize));
        self.front.jobs + at_servers.sum::<u64>()
    }

    /// Sum of the expected waiting times.
    pub(crate) fn waiting_sum_s(&self) -> f64 {
        let of = |class: &Class| {
            let ahead = |(found, &count): (usize, &u64)| ahead(found, class.slots) as f64 * count as f64;
            class.counts.iter().enumerate().map(ahead).sum::<f64>() / (f64::from(class.slots) * class.rate)
        };
        self.front.waiting_sum_s + self.classes.iter().map(of).sum::<f64>()
    }

    /// Sum of the expected service times.
    pub(crate) fn service_sum_s(&self) -> f64 {
        let of = |class: &Class| class.counts.iter().sum::<u64>() as f64 / class.rate;
        self.front.service_sum_s + self.classes.iter().map(of).sum::<f64>()
    }

    /// The time that a share `q` of the jobs does not exceed; `None` without jobs.
    pub(crate) fn quantile_s(&self, q: f64) -> Option<f64> {
        let jobs = self.jobs() as f64;
        if jobs == 0.0 {
            return None;
        }
        let beyond = |t: f64| self.beyond(t) / jobs;
        let mut high = (self.waiting_sum_s() + self.service_sum_s()) / jobs;
        while beyond(high) > 1.0 - q {
            high *= 2.0;
        }
        let mut low = 0.0;
        for _ in 0..50 {
            let middle = 0.5 * (low + high);
            if beyond(middle) > 1.0 - q { low = middle } else { high = middle }
        }
        Some(0.5 * (low + high))
    }

    /// The share of the jobs whose time is at most `t`; not a number without jobs.
    pub(crate) fn share_within(&self, t: f64) -> f64 {
        1.0 - self.beyond(t) / self.jobs() as f64
    }

    /// Expected number of jobs with response times above `t`.
    fn beyond(&self, t: f64) -> f64 {
        self.front.responses.beyond(t) + self.classes.iter().map(|class| class.beyond(t)).sum::<f64>()
    }
}

impl Class {
    /// Expected number of jobs with response times above `t`.
    fn beyond(&self, t: f64) -> f64 {
        let (at_once, waited) = self.counts.split_at((self.slots as usize).min(self.counts.len()));
        let most = waited.len();
        let x = self.rate * t;
        let c = f64::from(self.slots);
        let alone = (-x).exp();
        // below[n] = P(Poisson(c x) < n), the waiting still going on.
        let below = poisson_below(c * x, most + 1);
        let above = if self.slots > 1 { poisson_above((c - 1.0) * x, most) } else { Vec::new() };
        // Of a job that waits for n completions.
        let probability = |n: usize| match self.slots {
            1 => below[n + 1],
            _ => below[n] + (above[n] - x + n as f64 * (c / (c - 1.0)).ln()).exp(),
        };
        let term = |(n, &count): (usize, &u64)| count as f64 * probability(n);
        at_once.iter().sum::<u64>() as f64 * alone + (1..).zip(waited).map(term).sum::<f64>()
    }
}

/// `P(Poisson(x) < n)` for `n = 0..=most`.
fn poisson_below(x: f64, most: usize) -> Vec<f64> {
    let (mut log_term, mut sum) = (-x, 0.0);
    let mut below = Vec::with_capacity(most + 1);
    below.push(0.0);
    for i in 1..=most {
        sum += log_term.exp();
        below.push(sum.min(1.0));
        log_term += x.ln() - (i as f64).ln();
    }
    below
}

/// `ln P(Poisson(x) >= n)` for `n = 0..=most`: what is not below, where that is the smaller part; else summed from the tail
/// in logarithms.
fn poisson_above(x: f64, most: usize) -> Vec<f64> {
    if x > most as f64 + 1.0 {
        return poisson_below(x, most).into_iter().map(|below| (-below).ln_1p()).collect();
    }
    let end = most + (x + 12.0 * x.sqrt()) as usize + 60;
    let mut log_terms = Vec::with_capacity(end + 1);
    let mut log_term = -x;
    for i in 0..=end {
        log_terms.push(log_term);
        log_term += x.ln() - ((i + 1) as f64).ln();
    }
    let mut above = vec![f64::NEG_INFINITY; most + 1];
    let mut log_sum = f64::NEG_INFINITY;
    for (i, &term) in log_terms.iter().enumerate().rev() {
        let larger = log_sum.max(term);
        if larger > f64::NEG_INFINITY {
            log_sum = larger + ((log_sum - larger).exp() + (term - larger).exp()).ln();
        }
        if i <= most {
            above[i] = log_sum.min(0.0);
        }
    }
    above
}

#[cfg(test)]
mod tests {
    use super::*;

    fn law(rate: f64, slots: u32, counts: &[u64]) -> ResponseLaw {
        let mut law = ResponseLaw::default();
        law.push(rate, slots, counts.to_vec());
        law
    }

    #[test]
    fn an_idle_server_gives_an_exponential_law() {
        let law = law(2.0, 3, &[5, 5, 5]);
        assert!((law.quantile_s(0.5).unwrap() - 2.0_f64.ln() / 2.0).abs() < 1e-12);
        assert_eq!(law.waited(), 0);
    }

    #[test]
    fn two_slots_and_one_waiting_give_the_sum_of_two_exponentials() {
        // Exp(2) + Exp(1): P(T > t) = 2 e^-t - e^-2t.
        let class = Class { rate: 1.0, slots: 2, counts: vec![0, 0, 1] };
        for t in [0.01_f64, 0.5, 2.0, 20.0] {
            let exact = 2.0 * (-t).exp() - (-2.0 * t).exp();
            assert!((class.beyond(t) / exact - 1.0).abs() < 1e-12, "at {t}");
        }
    }

    #[test]
    fn a_quantile_is_the_time_that_its_share_is_within() {
        let law = law(0.5, 2, &[3, 1, 4, 1]);
        for q in [0.01, 0.5, 0.99] {
            assert!((law.share_within(law.quantile_s(q).unwrap()) - q).abs() < 1e-9);
        }
        assert!(law.share_within(0.0).abs() < 1e-12 && law.share_within(1e3) > 1.0 - 1e-12);
    }

    #[test]
    fn deep_queues_keep_their_precision() {
        // The mean is the integral of P(T > t); beyond 20 means there is less than 1e-8 of it.
        for (slots, found) in [(1, 400), (2, 300), (7, 500), (1000, 1010)] {
            let mut counts = vec![0; found];
            counts.push(1);
            let class = Class { rate: 1.0, slots, counts };
            let mean = mean_s(found, 1.0, slots);
            let step = mean / 2000.0;
            let integral: f64 = (0..40_000).map(|i| class.beyond((f64::from(i) + 0.5) * step) * step).sum();
            assert!((integral / mean - 1.0).abs() < 1e-4, "{slots} slots: {integral} instead of {mean}");
        }
    }

    #[test]
    fn the_sums_are_those_of_the_mixture() {
        let law = law(0.5, 2, &[3, 1, 4, 1]);
        assert_eq!(law.jobs(), 9);
        assert_eq!(law.waited(), 5);
        assert!((law.service_sum_s() - 18.0).abs() < 1e-12);
        assert!((law.waiting_sum_s() - (4.0 + 2.0)).abs() < 1e-12);
    }
}
