//! When the next job arrives, and of which type: `[arrivals]`.
//!
//! Nothing here depends on a policy, so that all policies of a run meet the same jobs.
//!
//! - **poisson**: all job types together are one Poisson process, each arrival of type `l` with probability
//!   `lambda_l / Lambda`.
//! - **renewal(cv2)**: each job type has independent gaps of mean `1 / lambda_l`: gamma with shape `1 / cv2` for `cv2 < 1`,
//!   hyperexponential with two phases of balanced means from 1 on (exponential at 1). The first gap is what is left of
//!   one at a random moment, so that the process is stationary and job types are not in step.
//! - **on-off, piecewise**: a Poisson process whose rate is multiplied by a factor that changes at certain times
//!   ([`Phases`]): exponential work of mean 1 is done at rate `Lambda factor`, and when it is done a job arrives.
//! - **trace**: as recorded.
//!
//! A long run begins at a uniformly random moment of the pattern of `piecewise`, and in the on-period with its share of the time:
//! its replications, together, see every moment alike.

use std::sync::Arc;

use rand::Rng;
use rand_distr::{Distribution, Exp1, Gamma};
use shortline_core::alias::Alias;
use shortline_core::fleet::settings::Arrivals;
use shortline_core::random::Generator;

use super::queue::Queue;
use super::trace::Jobs;
use crate::erlang::unit;

/// The arrivals of one replication.
#[derive(Debug)]
pub(crate) struct Source {
    kind: Kind,
    rng: Generator,
    /// When the last one came.
    now_s: f64,
}

#[derive(Debug)]
enum Kind {
    Poisson {
        types: Arc<Alias>,
        rate: f64,
    },
    Renewal {
        gaps: Gaps,
        rates: Vec<f64>,
        next: Queue,
    },
    Modulated {
        types: Arc<Alias>,
        rate: f64,
        phases: Phases,
    },
    /// Time 0 is the first arrival.
    Trace {
        jobs: Jobs,
        next: usize,
        first_s: f64,
        load_factor: f64,
    },
}

/// A job that arrives. Its size is that of the trace, if that has sizes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) at_s: f64,
    pub(crate) job_type: u32,
    pub(crate) size: Option<f64>,
}

/// When a pattern begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Start {
    /// At its beginning.
    AtZero,
    /// At a random moment.
    Anywhere,
}

impl Source {
    /// The process that the fleet file asks for, at these rates by job type. A trace is
    /// [`of_trace`](Self::of_trace).
    pub(crate) fn new(
        arrivals: &Arrivals,
        rates: &[f64],
        types: &Arc<Alias>,
        start: Start,
        mut rng: Generator,
    ) -> Self {
        let rate = rates.iter().sum();
        let types = Arc::clone(types);
        let kind = match arrivals {
            Arrivals::Poisson => Kind::Poisson { types, rate },
            &Arrivals::Renewal { cv2 } => {
                let gaps = Gaps::new(cv2);
                let mut next = Queue::new(rates.len());
                for (l, &rate) in rates.iter().enumerate().filter(|&(_, &rate)| rate > 0.0) {
                    next.set(l, gaps.rest(&mut rng) / rate);
                }
                Kind::Renewal { gaps, rates: rates.to_vec(), next }
            }
            &Arrivals::OnOff { peak, on_s, off_s } => {
                let off = (on_s + off_s - peak * on_s).max(0.0) / off_s;
                let phases = Phases::on_off([peak, off], [on_s, off_s], &mut rng);
                Kind::Modulated { types, rate, phases }
            }
            Arrivals::Piecewise(pattern) => {
                // A factor that never changes has no period: any length will do.
                let period_s = if pattern.len() > 1 { arrivals.period_s() } else { f64::INFINITY };
                let begin_s = if start == Start::Anywhere { unit(&mut rng) * arrivals.period_s() } else { 0.0 };
                Kind::Modulated { types, rate, phases: Phases::repeated(pattern, period_s, begin_s) }
            }
            Arrivals::Trace => unreachable!("a blueprint without a trace refuses arrivals of one"),
        };
        Self { kind, rng, now_s: 0.0 }
    }

    /// The jobs of a trace, arriving so many times as fast.
    pub(crate) fn of_trace(jobs: &Jobs, load_factor: f64, rng: Generator) -> Self {
        Self {
            kind: Kind::Trace {
                jobs: Arc::clone(jobs),
                next: 0,
                first_s: jobs.first().map_or(0.0, |job| job.arrival_s),
                load_factor,
            },
            rng,
            now_s: 0.0,
        }
    }

    /// The next arrival; `None` after the last one of a trace.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<Arrival> {
        let job_type = match &mut self.kind {
            Kind::Poisson { types, rate } => {
                self.now_s += exponential(&mut self.rng) / *rate;
                types.draw(self.rng.next_u64())
            }
            Kind::Renewal { gaps, rates, next } => {
                let l = next.earliest();
                self.now_s = next.earliest_s();
                next.set(l, self.now_s + gaps.draw(&mut self.rng) / rates[l]);
                u32::try_from(l).expect("job types are numbered in 32 bits")
            }
            Kind::Modulated { types, rate, phases } => {
                let work = exponential(&mut self.rng) / *rate;
                self.now_s = phases.pass(self.now_s, work, &mut self.rng);
                types.draw(self.rng.next_u64())
            }
            Kind::Trace { jobs, next, first_s, load_factor } => {
                let job = jobs.get(*next)?;
                *next += 1;
                let job_type = u32::try_from(job.job_type.index()).expect("job types are numbered in 32 bits");
                return Some(Arrival { at_s: (job.arrival_s - *first_s) / *load_factor, job_type, size: job.size() });
            }
        };
        Some(Arrival { at_s: self.now_s, job_type, size: None })
    }

    /// A number below `n`, for what belongs to the arrival: the same whatever the policy.
    pub(crate) fn below(&mut self, n: u32) -> u32 {
        shortline_core::random::below(&mut self.rng, n)
    }
}

fn exponential(rng: &mut Generator) -> f64 {
    Exp1.sample(rng)
}

/// Gaps of mean 1.
#[derive(Clone, Copy, Debug)]
enum Gaps {
    /// Shape `k`, scale `1 / k`; and with shape `k + 1`, the gap that covers a random moment.
    Gamma { gap: Gamma<f64>, covering: Gamma<f64> },
    /// Rates of the two phases, each of which has half of the time; probability of the first.
    Balanced { rates: [f64; 2], first: f64 },
}

impl Gaps {
    fn new(cv2: f64) -> Self {
        if cv2 < 1.0 {
            let gamma = |shape| Gamma::new(shape, cv2).expect("a checked fleet has cv2 above 0");
            Self::Gamma { gap: gamma(1.0 / cv2), covering: gamma(1.0 / cv2 + 1.0) }
        } else {
            let first = f64::midpoint(1.0, ((cv2 - 1.0) / (cv2 + 1.0)).sqrt());
            Self::Balanced { rates: [2.0 * first, 2.0 * (1.0 - first)], first }
        }
    }

    fn draw(&self, rng: &mut Generator) -> f64 {
        match self {
            Self::Gamma { gap, .. } => gap.sample(rng),
            Self::Balanced { rates, first } => {
                let rate = rates[usize::from(unit(rng) >= *first)];
                exponential(rng) / rate
            }
        }
    }

    /// What is left of the gap that covers a random moment: a uniform part of it. A phase of the hyperexponential law covers
    /// the moment with probability 1/2 and has no memory.
    fn rest(&self, rng: &mut Generator) -> f64 {
        match self {
            Self::Gamma { covering, .. } => unit(rng) * covering.sample(rng),
            Self::Balanced { rates, .. } => {
                let rate = rates[usize::from(unit(rng) >= 0.5)];
                exponential(rng) / rate
            }
        }
    }
}

/// Factors on a rate, each until a certain time.
#[derive(Clone, Debug)]
struct Phases {
    factors: Vec<f64>,
    lengths: Lengths,
    current: usize,
    ends_s: f64,
}

#[derive(Clone, Debug)]
enum Lengths {
    /// Exponential ones of these means.
    Random([f64; 2]),
    Fixed(Vec<f64>),
}

impl Phases {
    fn on_off(factors: [f64; 2], means_s: [f64; 2], rng: &mut Generator) -> Self {
        let current = usize::from(unit(rng) * (means_s[0] + means_s[1]) >= means_s[0]);
        let ends_s = exponential(rng) * means_s[current];
        Self { factors: factors.to_vec(), lengths: Lengths::Random(means_s), current, ends_s }
    }

    /// The pattern from this time on, which is within its period.
    fn repeated(pattern: &[(f64, f64)], period_s: f64, begin_s: f64) -> Self {
        let ends: Vec<f64> = pattern.iter().skip(1).map(|&(at_s, _)| at_s).chain([period_s]).collect();
        let current = ends.partition_point(|&end_s| end_s <= begin_s).min(pattern.len() - 1);
        Self {
            factors: pattern.iter().map(|&(_, factor)| factor).collect(),
            lengths: Lengths::Fixed(pattern.iter().zip(&ends).map(|(&(at_s, _), end_s)| end_s - at_s).collect()),
            current,
            ends_s: ends[current] - begin_s,
        }
    }

    /// When so much work, begun at `now_s`, is done, if it is done at the factor's speed.
    fn pass(&mut self, now_s: f64, work_s: f64, rng: &mut Generator) -> f64 {
        let (mut now_s, mut left_s) = (now_s, work_s);
        loop {
            let factor = self.factors[self.current];
            let done_s = factor * (self.ends_s - now_s);
            if left_s < done_s {
                return now_s + left_s / factor;
            }
            left_s -= done_s;
            now_s = self.ends_s;
            self.current = (self.current + 1) % self.factors.len();
            self.ends_s += match &self.lengths {
                Lengths::Random(means_s) => exponential(rng) * means_s[self.current],
                Lengths::Fixed(lengths_s) => lengths_s[self.current],
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn source(arrivals: &Arrivals, rates: &[f64], start: Start, seed: u64) -> Source {
        Source::new(arrivals, rates, &Arc::new(Alias::new(rates)), start, Generator::seed_from_u64(seed))
    }

    /// Goal: the gaps of every renewal law have mean 1 and the stated cv2, and so has the stationary first gap: mean
    /// `(1 + cv2) / 2`. Method: 400,000 draws, z-test of the means at 5 standard errors, cv2 within 3 %; false-alarm
    /// probability below 1e-5 were the seed free.
    #[test]
    fn gaps_have_their_mean_and_their_variance() {
        let n = 400_000;
        for cv2 in [0.01, 0.25, 0.9, 1.0, 4.0, 9.0] {
            let (gaps, mut rng) = (Gaps::new(cv2), Generator::seed_from_u64(3));
            let mut moments = |draw: &dyn Fn(&mut Generator) -> f64| {
                let (mut sum, mut squares) = (0.0, 0.0);
                for _ in 0..n {
                    let gap = draw(&mut rng);
                    (sum, squares) = (sum + gap, squares + gap * gap);
                }
                let mean = sum / f64::from(n);
                (mean, squares / f64::from(n) - mean * mean)
            };
            let (mean, variance) = moments(&|rng| gaps.draw(rng));
            assert!((mean - 1.0).abs() < 5.0 * (cv2 / f64::from(n)).sqrt(), "cv2 {cv2}: mean {mean}");
            assert!((variance / cv2 - 1.0).abs() < 0.03, "cv2 {cv2}: variance {variance}");
            let (mean, variance) = moments(&|rng| gaps.rest(rng));
            let error = 5.0 * (variance / f64::from(n)).sqrt();
            assert!((mean - 0.5 * (1.0 + cv2)).abs() < error, "cv2 {cv2}: mean rest {mean}");
        }
    }

    /// Goal: every process brings its mean rate and the shares of the job types. Method: 200 replications of 2,000 s at 3
    /// jobs a second; z-test over the replications at 5 standard errors; false-alarm probability below 1e-5 a figure.
    #[test]
    fn every_process_has_its_mean_rates() {
        let pattern = Arrivals::Piecewise(vec![(0.0, 0.5), (100.0, 2.0), (150.0, 0.0), (160.0, 1.0)]);
        // 100 s at 0.5, 50 s at 2, 10 s at 0, 10 s at 1 in 170 s.
        assert!((pattern.mean_factor() - 160.0 / 170.0).abs() < 1e-12 && (pattern.period_s() - 170.0).abs() < 1e-12);
        let on_off = Arrivals::OnOff { peak: 3.0, on_s: 5.0, off_s: 10.0 };
        let all = [Arrivals::Poisson, Arrivals::Renewal { cv2: 0.2 }, Arrivals::Renewal { cv2: 5.0 }, on_off, pattern];
        for arrivals in all {
            let counts: Vec<[f64; 3]> = (0..200)
                .map(|seed| {
                    let mut source = source(&arrivals, &[2.0, 0.0, 1.0], Start::Anywhere, seed);
                    let mut counts = [0.0; 3];
                    while let Some(arrival) = source.next().filter(|arrival| arrival.at_s < 2000.0) {
                        counts[arrival.job_type as usize] += 1.0;
                    }
                    counts
                })
                .collect();
            for (l, rate) in [2.0, 0.0, 1.0].into_iter().enumerate() {
                let mean = counts.iter().map(|counts| counts[l]).sum::<f64>() / 200.0;
                let variance = counts.iter().map(|counts| (counts[l] - mean).powi(2)).sum::<f64>() / 199.0;
                let expected = 2000.0 * rate * arrivals.mean_factor();
                let error = 5.0 * (variance / 200.0).sqrt();
                assert!((mean - expected).abs() <= error, "{arrivals:?}, type {l}: {mean} +- {error}, {expected}");
            }
        }
    }

    #[test]
    fn a_pattern_begins_at_its_beginning_and_nothing_comes_while_its_factor_is_0() {
        let pattern = Arrivals::Piecewise(vec![(0.0, 0.0), (10.0, 1.0)]);
        let mut source = source(&pattern, &[50.0], Start::AtZero, 1);
        for _ in 0..5000 {
            let at_s = source.next().unwrap().at_s;
            assert!(at_s % 20.0 >= 10.0, "an arrival at {at_s}");
        }
    }
}
