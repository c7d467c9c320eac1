//! Random small systems, their connectivity by enumeration, and their exact laws.
//!
//! The chain here is the one of `shortline_theory::exact`, packed for speed, with the joint law of the job counts kept; a test
//! compares the two.

use rand::{Rng, RngExt, SeedableRng};
use shortline_core::random::Generator;
use shortline_core::{Fleet, JobTypeId, ServerId};
use shortline_theory::Model;
use shortline_theory::exact::Rule;

use crate::fleets::Build;

/// A fleet of single-slot servers, fastest first, as bit masks.
#[derive(Clone, Debug)]
pub(crate) struct Small {
    pub(crate) rates: Vec<f64>,
    pub(crate) buffers: Vec<u32>,
    /// Arrival rate and servers of each job type.
    pub(crate) job_types: Vec<(f64, u32)>,
}

/// The largest systems that are drawn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) servers: u32,
    pub(crate) buffer: u32,
    pub(crate) states: usize,
}

impl Small {
    /// A random system of one of eight kinds, with loads of nine kinds.
    pub(crate) fn random(seed: u64, size: Size) -> Self {
        let rng = &mut Generator::seed_from_u64(seed);
        loop {
            let small = Self::draw(rng, seed % 8, size);
            if small.state_count() <= size.states {
                return small;
            }
        }
    }

    fn draw(rng: &mut Generator, kind: u64, size: Size) -> Self {
        let servers = rng.random_range(1..=size.servers) as usize;
        let speeds = [1.0, 0.5, 0.25, 0.75, 3.0, 0.01];
        let some_speed = |rng: &mut Generator| speeds[rng.random_range(0..speeds.len())];
        let any_speed = |rng: &mut Generator| (rng.random_range(-3.0..3.0_f64)).exp();
        let mut rates: Vec<f64> = match kind {
            0 => (0..servers).map(|_| any_speed(rng)).collect(),
            1 => (0..servers).map(|r| if r == 0 { 8.0 } else { 1.0 }).collect(),
            2 => vec![some_speed(rng); servers],
            _ => (0..servers).map(|_| some_speed(rng)).collect(),
        };
        rates.sort_by(|a, b| b.total_cmp(a));
        let buffer = rng.random_range(1..=size.buffer);
        let differs = rng.random_bool(0.2);
        let a_buffer = |rng: &mut Generator| if differs { rng.random_range(1..=size.buffer) } else { buffer };
        let buffers = (0..servers).map(|_| a_buffer(rng)).collect();

        let all = (1_u32 << servers) - 1;
        let row = |rng: &mut Generator| {
            let density = rng.random_range(0.1..1.0);
            (0..servers).filter(|_| rng.random_bool(density)).fold(0, |row, r| row | 1 << r)
        };
        let rows: Vec<u32> = match kind {
            3 => vec![row(rng)],
            4 => vec![all; rng.random_range(1..=2)],
            5 => (0..servers).map(|r| 1 << r).chain([all]).collect(),
            6 => vec![0, row(rng), row(rng)],
            _ => (0..rng.random_range(1..=3)).map(|_| row(rng)).collect(),
        };
        let weight = |rng: &mut Generator| if rng.random_bool(0.05) { 0.0 } else { rng.random_range(0.05..1.0_f64) };
        let mut job_types: Vec<(f64, u32)> = rows.into_iter().map(|row| (weight(rng), row)).collect();
        // Some job arrives, and has a server.
        job_types.push((rng.random_range(0.05..1.0), 1 << rng.random_range(0..servers)));

        let mut small = Self { rates, buffers, job_types };
        let factor = small.draw_load(rng) / small.arrivals();
        small.job_types.iter_mut().for_each(|job_type| job_type.0 *= factor);
        small
    }

    /// `Lambda`: anything, a boundary of the speed classes, close to one, tiny, or too much.
    fn draw_load(&self, rng: &mut Generator) -> f64 {
        let capacity = |m: usize| self.rates[..self.class_ends()[m]].iter().sum::<f64>();
        let classes = self.class_ends().len();
        let m = rng.random_range(0..classes);
        let boundary = capacity(m);
        match rng.next_u32() % 10 {
            0 => boundary,
            1 => boundary * (1.0 + 2.0_f64.powi(-20)),
            2 => boundary * (1.0 - 2.0_f64.powi(-20)),
            3 => boundary * (1.0 - 2.0_f64.powi(-6)),
            4 => boundary * 1e-3,
            5 => boundary * 1e-9,
            6 => capacity(classes - 1) * rng.random_range(1.0..3.0),
            _ => capacity(classes - 1) * rng.random_range(0.01..1.0),
        }
    }

    fn state_count(&self) -> usize {
        self.buffers.iter().map(|&b| b as usize + 1).product()
    }

    /// Arrival rate of the job types that have a server.
    pub(crate) fn arrivals(&self) -> f64 {
        self.job_types.iter().filter(|job_type| job_type.1 != 0).map(|job_type| job_type.0).sum()
    }

    /// Servers with a job type, fastest first.
    pub(crate) fn servers(&self) -> Vec<usize> {
        let held = self.job_types.iter().fold(0, |held, job_type| held | job_type.1);
        (0..self.rates.len()).filter(|r| held >> r & 1 == 1).collect()
    }

    /// `n_1, ..., n_M` among the servers with a job type.
    pub(crate) fn class_ends(&self) -> Vec<usize> {
        let rates: Vec<f64> = self.servers().iter().map(|&r| self.rates[r]).collect();
        let differs = |i: &usize| rates.get(*i).is_none_or(|&next| next < rates[i - 1] * (1.0 - 1e-12));
        (1..=rates.len()).filter(differs).collect()
    }

    pub(crate) fn fleet(&self) -> Fleet {
        let mut build = Build::servers(&self.rates);
        for (server, &buffer) in build.parts.servers.iter_mut().zip(&self.buffers) {
            server.buffer = Some(buffer);
        }
        for &(rate, row) in &self.job_types {
            let servers: Vec<u32> = (0..u32::BITS).filter(|r| row >> r & 1 == 1).collect();
            build = build.job_type(rate, 1.0, &servers);
        }
        let fleet = build.done();
        let model = Model::new(&fleet).expect("a uniform fleet");
        let sizes: Vec<usize> =
            self.class_ends().iter().scan(0, |last, &end| Some(end - std::mem::replace(last, end))).collect();
        assert_eq!(model.classes().iter().map(|class| class.servers.len()).collect::<Vec<_>>(), sizes, "{self:?}");
        assert!(
            fleet
                .servers()
                .all(|r| fleet.service_rate(JobTypeId::new(0), r).to_bits() == self.rates[r.index()].to_bits())
        );
        fleet
    }

    /// `delta_m(i)` for `i = 0..=n_m`, `m` from 1: the largest over all sets of at least `i` servers. Job types without a
    /// server count, as in the definition.
    pub(crate) fn profile(&self) -> Vec<Vec<f64>> {
        let servers = self.servers();
        let total: f64 = self.job_types.iter().map(|job_type| job_type.0).sum();
        let of_class = |&n: &usize| {
            let mut delta = vec![0.0_f64; n + 1];
            for set in 0..1_u32 << n {
                let mask = (0..n).filter(|i| set >> i & 1 == 1).fold(0, |mask, i| mask | 1 << servers[i]);
                let isolated: f64 =
                    self.job_types.iter().filter(|job_type| job_type.1 & mask == 0).map(|job_type| job_type.0).sum();
                let at = &mut delta[set.count_ones() as usize];
                *at = at.max(isolated / total);
            }
            for i in (0..n).rev() {
                delta[i] = delta[i].max(delta[i + 1]);
            }
            delta
        };
        self.class_ends().iter().map(of_class).collect()
    }
}

/// What happens in the long run, `m` by `m`; shares are of the arrivals of job types that have a server.
#[derive(Clone, Debug)]
pub(crate) struct Law {
    /// `[m - 1][i]`: probability that `i` servers of `R_m` are idle.
    pub(crate) idle: Vec<Vec<f64>>,
    /// `[m - 1]`: share of arrivals not sent to an idle server of `R_m`.
    pub(crate) not_immediate: Vec<f64>,
    /// `[m - 1]`: mean number of jobs that wait in `R_m` or are at slower servers.
    pub(crate) extra_jobs: Vec<f64>,
    /// `[j - 1]`: share of arrivals that find `j` jobs, or no place, at every compatible server.
    pub(crate) deep: Vec<f64>,
    pub(crate) blocking: f64,
    pub(crate) waiting: f64,
    pub(crate) jobs: f64,
    pub(crate) response: f64,
}

impl Law {
    pub(crate) fn mean_idle_beyond(&self, m: usize, f: usize) -> f64 {
        self.idle[m - 1].iter().enumerate().skip(f).map(|(i, p)| (i - f) as f64 * p).sum()
    }

    pub(crate) fn fewer_idle(&self, m: usize, e: usize) -> f64 {
        self.idle[m - 1][..e].iter().sum()
    }
}

/// Solves the system under a rule.
pub(crate) fn solve(small: &Small, rule: &dyn Rule) -> Law {
    let space = Space::new(small);
    let mut routes = Vec::new();
    let mut q = vec![0.0; space.count * space.count];
    for state in 0..space.count {
        let jobs = space.jobs(state);
        for (l, &(rate, row)) in small.job_types.iter().enumerate().filter(|(_, job_type)| job_type.1 != 0) {
            let places = rule.places(&jobs, &small.buffers, JobTypeId::new(l));
            for &(server, probability) in &places {
                q[state * space.count + state + space.strides[server.index()]] += rate * probability;
            }
            routes.push((state, rate, row, places));
        }
        for (r, _) in jobs.iter().enumerate().filter(|(_, jobs)| **jobs > 0) {
            q[state * space.count + state - space.strides[r]] += small.rates[r];
        }
    }
    let law = eliminate(q, space.count);
    tally(small, &space, &law, &routes)
}

type Route = (usize, f64, u32, Vec<(ServerId, f64)>);

fn tally(small: &Small, space: &Space, law: &[f64], routes: &[Route]) -> Law {
    let servers = small.servers();
    let ends = small.class_ends();
    let arrivals = small.arrivals();
    let deepest = *small.buffers.iter().max().expect("there is a server");
    let mut sums = Law {
        idle: ends.iter().map(|n| vec![0.0; n + 1]).collect(),
        not_immediate: vec![0.0; ends.len()],
        extra_jobs: vec![0.0; ends.len()],
        deep: vec![0.0; deepest as usize],
        blocking: 0.0,
        waiting: 0.0,
        jobs: 0.0,
        response: 0.0,
    };
    for (state, &p) in law.iter().enumerate() {
        let jobs = space.jobs(state);
        let waiting = |r: &usize| f64::from(jobs[*r].saturating_sub(1));
        for (m, &n) in ends.iter().enumerate() {
            let (fast, slow) = servers.split_at(n);
            sums.idle[m][fast.iter().filter(|&&r| jobs[r] == 0).count()] += p;
            let slower: f64 = slow.iter().map(|&r| f64::from(jobs[r])).sum();
            sums.extra_jobs[m] += p * (fast.iter().map(waiting).sum::<f64>() + slower);
        }
        sums.waiting += p * servers.iter().map(waiting).sum::<f64>();
        sums.jobs += p * jobs.iter().map(|&jobs| f64::from(jobs)).sum::<f64>();
    }
    let rank: Vec<Option<usize>> = (0..small.rates.len()).map(|r| servers.iter().position(|&s| s == r)).collect();
    for (state, rate, row, places) in routes {
        let jobs = space.jobs(*state);
        let share = law[*state] * rate / arrivals;
        sums.blocking += share * (1.0 - places.iter().map(|place| place.1).sum::<f64>()).max(0.0);
        let to_idle = |place: &&(ServerId, f64)| jobs[place.0.index()] == 0;
        for (m, &n) in ends.iter().enumerate() {
            let fast = |place: &&(ServerId, f64)| rank[place.0.index()].is_some_and(|rank| rank < n);
            let sent: f64 = places.iter().filter(to_idle).filter(fast).map(|place| place.1).sum();
            // Rules are exact in what goes to idle servers: all or nothing.
            sums.not_immediate[m] += if sent > 0.5 { 0.0 } else { share };
        }
        for j in 1..=deepest {
            let is_deep = |r: usize| row >> r & 1 == 0 || jobs[r] >= j.min(small.buffers[r]);
            sums.deep[j as usize - 1] += if (0..jobs.len()).all(is_deep) { share } else { 0.0 };
        }
    }
    sums.response = sums.jobs / (arrivals * (1.0 - sums.blocking));
    sums
}

/// Job counts as mixed-radix numbers.
struct Space {
    strides: Vec<usize>,
    count: usize,
    radix: Vec<usize>,
}

impl Space {
    fn new(small: &Small) -> Self {
        let radix: Vec<usize> = small.buffers.iter().map(|&b| b as usize + 1).collect();
        let strides = (0..radix.len()).map(|r| radix[..r].iter().product()).collect();
        let count = radix.iter().product();
        Self { strides, count, radix }
    }

    fn jobs(&self, state: usize) -> Vec<u32> {
        let digit =
            |(stride, radix): (&usize, &usize)| u32::try_from(state / stride % radix).expect("a count is small");
        self.strides.iter().zip(&self.radix).map(digit).collect()
    }
}

/// Elimination without subtraction. States that cannot be reached from the empty one get probability 0: the empty state is
/// kept to the last, and every state leads to it.
fn eliminate(mut q: Vec<f64>, n: usize) -> Vec<f64> {
    for last in (1..n).rev() {
        let (above, row) = q.split_at_mut(last * n);
        let total: f64 = row[..last].iter().sum();
        for from in above.chunks_exact_mut(n) {
            let into = from[last] / total;
            from[last] = into;
            if into > 0.0 {
                for (rate, more) in from[..last].iter_mut().zip(&row[..last]) {
                    *rate += into * more;
                }
            }
        }
    }
    let mut law = vec![0.0; n];
    law[0] = 1.0;
    for j in 1..n {
        law[j] = (0..j).map(|i| law[i] * q[i * n + j]).sum();
    }
    let total: f64 = law.iter().sum();
    law.iter().map(|p| p / total).collect()
}
