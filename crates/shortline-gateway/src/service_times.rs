//! How long jobs take in service, measured: for each job type on each server type.
//!
//! A job that is placed where a slot is free begins at once, so its response time, seen from here, is its service time:
//! size over speed, and the way there and back. Those that end with success are counted; the others queue first, or fail
//! early. Whether a slot is free does not depend on the size of the job that comes, so their sizes are those of all jobs.
//! (Where slots share a server's speed, `discipline = "ps"`, a response time is no service time: nothing is measured.)
//!
//! With `S_lm` the mean of `n_lm` such times of job type `l` on server type `m`, the model `S_lm = size_l / rate_m` is
//! fitted in logarithms: the minimum of `sum n_lm (log S_lm - a_l + b_m)^2`, by turns over `a = log size` and `b = log
//! rate`. It leaves one factor open in each part of the traffic that shares no server types with the others: there the
//! rates keep the geometric mean, weighted by the counts, that the fleet file gives them. Where the file's speeds differ by
//! pair of types only sizes are fitted, with the speeds as written.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use shortline_core::fleet::settings::Discipline;
use shortline_core::{Fleet, JobTypeId, ServerId, ServerTypeId};

/// Most pairs of types that are measured.
const MOST_PAIRS: usize = 1 << 18;

/// Fewer jobs than this say nothing about a type.
const LEAST_JOBS: f64 = 30.0;

/// Turns of the fit, and the change at which it ends before.
const MOST_TURNS: usize = 10_000;
const DONE: f64 = 1e-12;

/// The times of a fleet in service.
#[derive(Debug)]
pub(crate) struct ServiceTimes {
    server_types: usize,
    /// By job type and server type; empty if there are too many, or the slots of a server share it.
    pairs: Vec<Mutex<Times>>,
}

/// Times of one pair of types.
#[derive(Clone, Copy, Default, Debug)]
struct Times {
    jobs: f64,
    sum_s: f64,
    sum_of_squares: f64,
}

/// What the times say.
#[derive(Clone, PartialEq, Default, Debug)]
pub(crate) struct Fitted {
    /// By job type; `None`: too few jobs.
    pub(crate) sizes: Vec<Option<f64>>,
    /// By server type.
    pub(crate) rates: Vec<Option<f64>>,
    /// Jobs behind it.
    pub(crate) jobs: f64,
    /// The largest standard error of a size, relative to it.
    pub(crate) error: f64,
}

impl ServiceTimes {
    pub(crate) fn new(fleet: &Fleet) -> Self {
        let server_types = fleet.server_type_count();
        let pairs = fleet.job_type_count().saturating_mul(server_types);
        let is_measured = pairs <= MOST_PAIRS && fleet.settings().service.discipline == Discipline::Fifo;
        Self { server_types, pairs: (0..if is_measured { pairs } else { 0 }).map(|_| Mutex::default()).collect() }
    }

    /// A job that found a free slot took so long. O(1).
    pub(crate) fn add(&self, fleet: &Fleet, job_type: JobTypeId, server: ServerId, took: Duration) {
        if let Some(pair) = self.pairs.get(job_type.index() * self.server_types + fleet.server_type(server).index()) {
            let mut times = pair.lock().unwrap_or_else(PoisonError::into_inner);
            let took_s = took.as_secs_f64();
            times.jobs += 1.0;
            times.sum_s += took_s;
            times.sum_of_squares += took_s * took_s;
        }
    }

    /// What was measured, in the units of the fleet file, a second of which takes `time_scale` real ones; speeds only if
    /// they do not differ `by_pair` of types. `None`: nothing.
    pub(crate) fn fit(&self, fleet: &Fleet, time_scale: f64, by_pair: bool) -> Option<Fitted> {
        let times: Vec<Times> =
            self.pairs.iter().map(|pair| *pair.lock().unwrap_or_else(PoisonError::into_inner)).collect();
        let pairs: Vec<Pair> = (times.iter().enumerate())
            .filter(|(_, times)| times.jobs > 0.0 && times.sum_s > 0.0)
            .map(|(i, times)| {
                let (l, m) = (i / self.server_types, i % self.server_types);
                let mean_s = times.sum_s / times.jobs;
                let variance = (times.sum_of_squares / times.jobs - mean_s * mean_s).max(0.0);
                let rate = fleet.rate(JobTypeId::new(l), ServerTypeId::new(m));
                let log_time = (mean_s / time_scale).ln();
                Pair { l, m, jobs: times.jobs, log_time, log_rate: rate.ln(), cv2: variance / (mean_s * mean_s) }
            })
            .collect();
        // Ranks are an order, not speeds: there is no unit for sizes.
        (!pairs.is_empty() && fleet.has_rates())
            .then(|| fit(&pairs, fleet.job_type_count(), self.server_types, !by_pair))
    }
}

/// The times of a pair of types that has some.
#[derive(Clone, Copy, Debug)]
struct Pair {
    l: usize,
    m: usize,
    jobs: f64,
    log_time: f64,
    /// As written.
    log_rate: f64,
    /// Squared coefficient of variation of the times.
    cv2: f64,
}

fn fit(pairs: &[Pair], job_types: usize, server_types: usize, fits_rates: bool) -> Fitted {
    let mut sizes = vec![0.0; job_types];
    // What is added to the written rates.
    let mut faster = vec![0.0; server_types];
    let (mut jobs_of_l, mut jobs_of_m) = (vec![0.0; job_types], vec![0.0; server_types]);
    for pair in pairs {
        jobs_of_l[pair.l] += pair.jobs;
        jobs_of_m[pair.m] += pair.jobs;
    }
    for _ in 0..MOST_TURNS {
        let mut next = vec![0.0; job_types];
        for pair in pairs {
            next[pair.l] += pair.jobs / jobs_of_l[pair.l] * (pair.log_time + pair.log_rate + faster[pair.m]);
        }
        sizes = next;
        if !fits_rates {
            break;
        }
        let mut next = vec![0.0; server_types];
        for pair in pairs {
            next[pair.m] += pair.jobs / jobs_of_m[pair.m] * (sizes[pair.l] - pair.log_time - pair.log_rate);
        }
        let change = faster.iter().zip(&next).map(|(now, next)| f64::abs(now - next)).fold(0.0, f64::max);
        faster = next;
        if change < DONE {
            break;
        }
    }
    let part = parts(pairs, server_types);
    let (mut excess, mut weight) = (vec![0.0; server_types], vec![0.0; server_types]);
    for m in 0..server_types {
        excess[part[m]] += jobs_of_m[m] * faster[m];
        weight[part[m]] += jobs_of_m[m];
    }
    let excess: Vec<f64> =
        excess.iter().zip(&weight).map(|(excess, weight)| if *weight > 0.0 { excess / weight } else { 0.0 }).collect();
    let mut part_of_l = vec![0; job_types];
    let (mut log_rate, mut spread) = (vec![0.0; server_types], vec![0.0; job_types]);
    for pair in pairs {
        part_of_l[pair.l] = part[pair.m];
        log_rate[pair.m] = pair.log_rate;
        spread[pair.l] += pair.jobs * pair.cv2;
    }
    let measured_l: Vec<usize> = (0..job_types).filter(|&l| jobs_of_l[l] >= LEAST_JOBS).collect();
    let mut fitted = Fitted { sizes: vec![None; job_types], rates: vec![None; server_types], ..Fitted::default() };
    for l in measured_l {
        fitted.sizes[l] = Some((sizes[l] - excess[part_of_l[l]]).exp());
        fitted.jobs += jobs_of_l[l];
        fitted.error = fitted.error.max(spread[l].sqrt() / jobs_of_l[l]);
    }
    for m in (0..server_types).filter(|&m| fits_rates && jobs_of_m[m] >= LEAST_JOBS) {
        fitted.rates[m] = Some((log_rate[m] + faster[m] - excess[part[m]]).exp());
    }
    fitted
}

/// For each server type the smallest one that is tied to it by common job types.
fn parts(pairs: &[Pair], server_types: usize) -> Vec<usize> {
    let mut part: Vec<usize> = (0..server_types).collect();
    loop {
        let before = part.clone();
        let mut least_of_l = std::collections::HashMap::new();
        for pair in pairs {
            let least = least_of_l.entry(pair.l).or_insert(part[pair.m]);
            *least = (*least).min(part[pair.m]);
        }
        for pair in pairs {
            part[pair.m] = part[pair.m].min(least_of_l[&pair.l]);
        }
        if part == before {
            return part;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(l: usize, m: usize, jobs: f64, time: f64, rate: f64) -> Pair {
        Pair { l, m, jobs, log_time: time.ln(), log_rate: rate.ln(), cv2: 1.0 }
    }

    fn close(a: Option<f64>, b: f64) {
        let a = a.expect("measured");
        assert!((a / b - 1.0).abs() < 1e-9, "{a} instead of {b}");
    }

    #[test]
    fn sizes_and_speeds_that_make_the_times_are_found_but_for_the_factor_that_the_file_gives() {
        // Sizes 2, 6, 1 and rates 4, 1, whatever the file says (3 and 1: geometric mean by counts kept).
        let (sizes, rates, written) = ([2.0, 6.0, 1.0], [4.0, 1.0], [3.0, 1.0]);
        let jobs = [[100.0, 50.0], [0.0, 70.0], [40.0, 40.0]];
        let mut pairs = Vec::new();
        for l in 0..3 {
            for m in 0..2 {
                if jobs[l][m] > 0.0 {
                    pairs.push(pair(l, m, jobs[l][m], sizes[l] / rates[m], written[m]));
                }
            }
        }
        let fitted = fit(&pairs, 3, 2, true);
        // log factor = weighted mean of log(rate / written): 140 jobs on the first, 160 on the second.
        let factor = ((140.0 * (4.0_f64 / 3.0).ln()) / 300.0).exp();
        (0..3).for_each(|l| close(fitted.sizes[l], sizes[l] / factor));
        (0..2).for_each(|m| close(fitted.rates[m], rates[m] / factor));
        assert!((fitted.jobs - 300.0).abs() < 1e-9);
        assert!((fitted.error - 1.0 / 70.0_f64.sqrt()).abs() < 1e-9, "that of the second: {}", fitted.error);
        for pair in &pairs {
            close(Some(fitted.sizes[pair.l].unwrap() / fitted.rates[pair.m].unwrap()), pair.log_time.exp());
        }
    }

    #[test]
    fn parts_that_share_no_server_type_keep_their_own_scale_and_few_jobs_say_nothing() {
        let pairs = [pair(0, 0, 50.0, 0.5, 2.0), pair(1, 1, 80.0, 9.0, 1.0), pair(2, 1, 29.0, 1.0, 1.0)];
        let fitted = fit(&pairs, 4, 3, true);
        close(fitted.sizes[0], 1.0);
        close(fitted.sizes[1], 9.0);
        close(fitted.rates[0], 2.0);
        assert_eq!((fitted.sizes[2], fitted.sizes[3], fitted.rates[2]), (None, None, None));
        assert_eq!(parts(&pairs, 3), [0, 1, 2]);
        assert_eq!(
            parts(&[pair(0, 2, 1.0, 1.0, 1.0), pair(0, 1, 1.0, 1.0, 1.0), pair(1, 1, 1.0, 1.0, 1.0)], 3),
            [0, 1, 1]
        );
    }

    #[test]
    fn speeds_by_pair_are_kept_as_written() {
        let pairs = [pair(0, 0, 100.0, 1.0, 3.0), pair(0, 1, 100.0, 1.0, 12.0)];
        let fitted = fit(&pairs, 1, 2, false);
        close(fitted.sizes[0], 6.0);
        assert_eq!(fitted.rates, [None, None]);
    }
}
