//! How many servers a job sees: from the fleet's graph and the policy.
//!
//! A job of type `l` sees its `d_l` servers (`jsq`, `jfsq`, `jiq`, `jfiq`, `sed`, `nq`), `min(d, d_l)` of them
//! (`jsq(d)`, `jfsq(d)`) or one (`random`); the mean field treats them as drawn at random for each job, and mixes over job types
//! in proportion to their arrival rates. Under `jsq(d1,d2)` the number of fast servers among `d_l` random ones is
//! binomial. Where every job type is on every server, the limit of all servers seen is taken.

use std::collections::BTreeMap;

use shortline_core::Fleet;
use shortline_core::policy::PolicySpec;

use super::class::ServerClass;
use super::sampled::{Sample, Samples};

/// What a job sees of the fleet.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Sampling {
    /// All servers.
    Everything,
    /// Random ones.
    Random(Samples),
}

/// What of a fleet the mean field takes for random.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Basis {
    /// Whether every job type that arrives is on every server: then the mean field is the limit of growing fleets.
    pub is_complete: bool,
    /// The least degree of a job type that arrives.
    pub smallest_degree: usize,
    /// Coefficient of variation, over servers, of the arrivals at a server if each job went to a random compatible one; 0
    /// if all servers are as popular. With `L` job types of degree `k` on random servers it is about `sqrt(N / (L k))`.
    pub unevenness: f64,
    /// How far the mix of server types that a job type has is from that of the fleet: the total-variation distance, averaged
    /// over arrivals. With `k` random servers, about `0.4 sum_m sqrt(alpha_m (1 - alpha_m) / k)`.
    pub skew: f64,
    /// What `skew` would be with random servers.
    pub random_skew: f64,
}

impl Basis {
    /// Why the mean field is an approximation for this fleet, and how good it has been found to be; `None` on complete
    /// graphs, where it is the limit.
    ///
    /// The figures are those of the table in the chapter "Mean field" of the book: `jfsq`, as many job types as servers,
    /// 2,000 of them.
    #[must_use]
    pub fn caveat(&self) -> Option<String> {
        if self.is_complete {
            return None;
        }
        if self.skew > 2.0 * self.random_skew + 0.02 {
            return Some(
                "may be far off: job types are on certain server types, and the mean field takes their servers for random \
                 ones"
                    .to_owned(),
            );
        }
        let k = self.smallest_degree;
        let even = self.unevenness < 0.05;
        let known = match (even, k) {
            (true, 10..) => "about 3 % in mean jobs up to load 0.98 on random graphs like this one",
            (false, 50..) => "about 2 % in mean jobs up to load 0.98 on random graphs like this one",
            (false, 20..) => "about 2 % in mean jobs up to load 0.9, 5 % at 0.98, on random graphs like this one",
            (false, 10..) => {
                "about 3 % in mean jobs at load 0.7, 9 % at 0.9, 16 % at 0.98 on random graphs like this one"
            }
            (_, ..10) => "not known: the degree is below 10",
        };
        Some(format!(
            "an approximation: job types have fixed servers (the fewest: {k}), the mean field draws them anew for each job; \
             error {known}"
        ))
    }
}

/// What the jobs of a fleet see under a policy, and how far the graph is from that. `arrivals`: by job type.
pub(super) fn of_fleet(
    fleet: &Fleet,
    policy: PolicySpec,
    arrivals: &[f64],
    classes: &[ServerClass],
) -> (Sampling, Basis) {
    let servers: usize = classes.iter().map(|class| class.servers).sum();
    let total: f64 = arrivals.iter().sum();
    let mut share_of_row = vec![0.0; fleet.graph().distinct_row_count()];
    let mut row_of = vec![None; share_of_row.len()];
    for (l, rate) in arrivals.iter().enumerate().filter(|(_, rate)| **rate > 0.0) {
        let row = fleet.graph().row_number(l);
        share_of_row[row] += rate / total;
        row_of[row] = Some(l);
    }
    let rows: Vec<(usize, f64)> =
        row_of.into_iter().zip(share_of_row).filter_map(|(l, share)| Some((l?, share))).collect();
    let degree = |l: usize| fleet.graph().degree(l);
    let is_complete = rows.iter().all(|&(l, _)| degree(l) == servers);
    let unevenness = if is_complete { 0.0 } else { unevenness(fleet, &rows, servers) };
    let (skew, random_skew) = if is_complete { (0.0, 0.0) } else { skew(fleet, &rows, classes) };
    let smallest_degree = rows.iter().map(|&(l, _)| degree(l)).min().unwrap_or(0);
    let basis = Basis { is_complete, smallest_degree, unevenness, skew, random_skew };

    let seen = |degree: usize| match policy {
        PolicySpec::Random => degree.min(1),
        PolicySpec::JsqD(d) | PolicySpec::JfsqD(d) => degree.min(d.count(fleet.server_count()) as usize),
        _ => degree,
    };
    let two_pools = matches!(policy, PolicySpec::JsqFastOther { .. });
    if is_complete && !two_pools && seen(servers) == servers && servers > 1 {
        return (Sampling::Everything, basis);
    }
    let mut by_degree: BTreeMap<usize, f64> = BTreeMap::new();
    rows.iter().for_each(|&(l, share)| *by_degree.entry(degree(l)).or_default() += share);
    let is_other = |class: &ServerClass| usize::from(two_pools && class.rank > 0);
    let pool_of: Vec<usize> = classes.iter().map(is_other).collect();
    let mut pools = [0.0; 2];
    classes.iter().zip(&pool_of).for_each(|(class, &pool)| pools[pool] += class.share);
    let mut drawn: BTreeMap<[u32; 2], f64> = BTreeMap::new();
    for (&degree, &share) in &by_degree {
        if let PolicySpec::JsqFastOther { fast, other } = policy {
            let fast_servers = pools[0] * servers as f64;
            for (among_fast, probability) in fast_seen(degree, servers, fast_servers.round() as usize, is_complete) {
                let sample = [fast.min(narrow(among_fast)), other.min(narrow(degree - among_fast))];
                *drawn.entry(sample).or_default() += share * probability;
            }
        } else {
            *drawn.entry([narrow(seen(degree)), 0]).or_default() += share;
        }
    }
    let samples = drawn.into_iter().map(|(drawn, share)| Sample { share, drawn }).collect();
    (Sampling::Random(Samples { samples, pool_of, pools }), basis)
}

/// How many of `degree` random servers are fast ones, with probabilities.
fn fast_seen(degree: usize, servers: usize, fast: usize, is_complete: bool) -> Vec<(usize, f64)> {
    if is_complete {
        return vec![(fast, 1.0)];
    }
    let share = fast as f64 / servers as f64;
    if fast == servers {
        return vec![(degree, 1.0)];
    }
    // Binomial, by logarithms: (1 - share)^degree may be too small to start from.
    let mut log = degree as f64 * (-share).ln_1p();
    (0..=degree)
        .map(|j| {
            let probability = log.exp();
            log += ((degree - j) as f64 / (j + 1) as f64 * share / (1.0 - share)).ln();
            (j, probability)
        })
        .collect()
}

/// See [`Basis::unevenness`]. `rows`: a job type of each row, and the row's share of the arrivals.
fn unevenness(fleet: &Fleet, rows: &[(usize, f64)], servers: usize) -> f64 {
    let mut arrivals = vec![0.0; fleet.server_count()];
    for &(l, share) in rows {
        let each = share * servers as f64 / fleet.graph().degree(l).max(1) as f64;
        fleet.graph().for_each(l, |r| arrivals[r.index()] += each);
    }
    // Servers without a job type add nothing to either sum.
    let mean = arrivals.iter().sum::<f64>() / servers as f64;
    let squares = arrivals.iter().map(|a| a * a).sum::<f64>() / servers as f64;
    if mean > 0.0 { (squares - mean * mean).max(0.0).sqrt() / mean } else { 0.0 }
}

/// [`Basis::skew`], and what it would be with random servers: by the normal law, `E|Z| = sqrt(2 / pi)`.
fn skew(fleet: &Fleet, rows: &[(usize, f64)], classes: &[ServerClass]) -> (f64, f64) {
    let mut shares = vec![0.0; fleet.server_type_count()];
    classes.iter().for_each(|class| shares[class.server_type.index()] += class.share);
    let (mut skew, mut random) = (0.0, 0.0);
    for &(l, share) in rows.iter().filter(|(l, _)| fleet.graph().degree(*l) > 0) {
        let degree = fleet.graph().degree(l) as f64;
        let mut seen = vec![0.0; shares.len()];
        fleet.graph().for_each(l, |r| seen[fleet.server_type(r).index()] += 1.0 / degree);
        skew += share * 0.5 * seen.iter().zip(&shares).map(|(a, b)| (a - b).abs()).sum::<f64>();
        let deviation = |alpha: &f64| (alpha * (1.0 - alpha) / degree).sqrt();
        random += share * 0.5 * std::f64::consts::FRAC_2_PI.sqrt() * shares.iter().map(deviation).sum::<f64>();
    }
    (skew, random)
}

fn narrow(n: usize) -> u32 {
    u32::try_from(n).expect("a fleet has fewer than 2^32 servers")
}
