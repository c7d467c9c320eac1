//! When a bound says nothing: which term does it, and what would mend it.

use std::fmt;

use super::Profile;
use super::analysis::Analysis;
use super::scope::{Numbers, PolicyClass};
use super::search::{Effort, LARGE};

/// No larger fleet is tried; but up to four times its own size.
const LARGEST_TRIED: usize = 16_384;

/// Which bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    Blocking,
    Jobs,
}

/// A bound that says nothing.
#[derive(Clone, PartialEq, Debug)]
pub struct Vacuous {
    /// What the bound came out as. Not a guarantee: see [`trivial`](Self::trivial).
    pub value: f64,
    /// What a bound must be below to say something: half of the jobs blocked ([`MOST_BLOCKED`]), the places at the servers,
    /// or the longest mean stay at any of them in seconds.
    pub trivial: f64,
    /// What the two are.
    pub quantity: Quantity,
    /// The term that does it.
    pub cause: Cause,
    /// What would mend it, each by itself. Found by trying, with less effort than the bounds themselves: it is enough, a
    /// little less might do. Empty if nothing within reach does.
    pub mends: Vec<Mend>,
}

/// What a bound is a bound on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Quantity {
    /// Share of the jobs that are blocked.
    BlockingProbability,
    /// Mean number of jobs in the fleet.
    MeanJobs,
    /// Mean response time in seconds.
    MeanResponse,
}

/// From this blocking probability on a bound is no guarantee. It is proved up to 1, but a rule that may lose more jobs
/// than it keeps is not one that anybody runs: a number would read as a promise where there is none.
pub const MOST_BLOCKED: f64 = 0.5;

/// The term that makes a bound say nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// More arrives than the servers can do.
    Overloaded,
    /// Job types without an idle server: with every job type on every server there would be a guarantee.
    Connectivity,
    /// Jobs that find no idle server and wait or are blocked, too many for this load and size.
    Waiting,
    /// Jobs sent to slower servers than the fluid optimum uses.
    Slower,
    /// Fast servers that idle.
    Idle,
}

/// A change that would give a guarantee.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Mend {
    /// At most this offered load, in hundredths; in twentieths for more than 100,000 servers.
    Load(f64),
    /// This many servers, of the same kinds in the same parts, at the same load, and as well connected: with `k` times the
    /// servers, `delta_m(i)` no larger than `delta_m(ceil(i / k))` is now.
    Servers(usize),
    /// All `delta_m(i)`, `i >= 1`, times this factor: job types on more servers.
    Connectivity(f64),
    /// At most this offered load, and every job type on every server; named where no change by itself would do.
    LoadOnCompleteGraph(f64),
}

impl fmt::Display for Vacuous {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, trivial) = (rounded(self.value), rounded(self.trivial));
        write!(f, "vacuous at this size: {}; ", self.cause)?;
        match self.quantity {
            Quantity::BlockingProbability => {
                write!(f, "all that follows is a blocking probability of at most {}", rounded(self.value.min(1.0)))?;
            }
            Quantity::MeanJobs => {
                write!(
                    f,
                    "all that follows is a mean of at most {value} jobs, and the servers have no more than {trivial} places"
                )?;
            }
            Quantity::MeanResponse => {
                write!(
                    f,
                    "all that follows is a mean response time of at most {value} s, and with all places taken at the slowest server \
                     it is no more than {trivial} s"
                )?;
            }
        }
        for (i, mend) in self.mends.iter().enumerate() {
            write!(f, "{}{mend}", if i == 0 { "; what would mend it: " } else { ", or " })?;
        }
        Ok(())
    }
}

/// About four digits.
fn rounded(x: f64) -> String {
    match x.abs() {
        size if !(1e-3..1e6).contains(&size) => format!("{x:.3e}"),
        size if size >= 1_000.0 => format!("{x:.0}"),
        size if size >= 10.0 => format!("{x:.1}"),
        _ => format!("{x:.4}"),
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Overloaded => "more arrives than the servers can do",
            Self::Connectivity => "too many arrivals may be of job types none of whose servers is idle (delta)",
            Self::Waiting => {
                "the share of arrivals that find no idle server (chi) is too large at this load and fleet size"
            }
            Self::Slower => "too many jobs may be sent to the slow servers at this load and fleet size",
            Self::Idle => "too many of the fast servers may be idle at this load and fleet size",
        })
    }
}

impl fmt::Display for Mend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Load(load) => write!(f, "an offered load <= {load:.2}"),
            Self::Servers(servers) => {
                write!(f, "{servers} servers of the same kinds at the same load, as well connected as these")
            }
            Self::Connectivity(factor) if *factor > 0.0 => {
                write!(f, "job types on more servers, so that delta is {factor} times what it is")
            }
            Self::Connectivity(_) => f.write_str("every job type on every server"),
            Self::LoadOnCompleteGraph(load) => {
                write!(f, "an offered load <= {load:.2} with every job type on every server")
            }
        }
    }
}

/// What a bound came out as, what is trivial, and its name: `None` if it says something.
pub(super) fn trivial(analysis: &Analysis, part: Part) -> Option<(f64, f64, Quantity)> {
    let (jobs, system) = (analysis.jobs(), analysis.system());
    let says = |value: f64, trivial: f64| value < trivial;
    let quantities = match part {
        Part::Blocking => vec![(analysis.blocking_probability(), MOST_BLOCKED, Quantity::BlockingProbability)],
        Part::Jobs => vec![
            (jobs.mean_jobs, system.places, Quantity::MeanJobs),
            (jobs.mean_response_s, system.longest_stay_s(), Quantity::MeanResponse),
        ],
    };
    quantities.into_iter().find(|&(value, trivial, _)| !says(value, trivial))
}

/// Why the bound says nothing; `None` if it says something.
pub(super) fn check(
    numbers: &Numbers,
    class: PolicyClass,
    profile: Profile<'_>,
    analysis: &Analysis,
    part: Part,
) -> Option<Vacuous> {
    let (value, trivial_value, quantity) = trivial(analysis, part)?;
    let says = |numbers: &Numbers, profile: Profile<'_>| {
        trivial(&Analysis::of(numbers, class, profile, Effort::quick(numbers.servers())), part).is_none()
    };
    let connectivity = connectivity(numbers, profile, &says);
    let cause = match connectivity {
        _ if analysis.system().is_overloaded => Cause::Overloaded,
        Some(_) => Cause::Connectivity,
        None => largest_term(analysis, part),
    };
    let load_at = |profile: Profile<'_>| largest_load(numbers, profile, &says);
    let single = [load_at(profile).map(Mend::Load), servers(numbers, profile, &says), connectivity];
    let mut mends: Vec<Mend> = single.into_iter().flatten().collect();
    if mends.is_empty() {
        mends.extend(load_at(&|_, _| 0.0).map(Mend::LoadOnCompleteGraph));
    }
    Some(Vacuous { value, trivial: trivial_value, quantity, cause, mends })
}

fn largest_term(analysis: &Analysis, part: Part) -> Cause {
    let jobs = analysis.jobs();
    if part == Part::Blocking || jobs.waiting >= jobs.idle.max(jobs.slower) {
        Cause::Waiting
    } else if jobs.slower >= jobs.idle {
        Cause::Slower
    } else {
        Cause::Idle
    }
}

type Says<'a> = dyn Fn(&Numbers, Profile<'_>) -> bool + 'a;

/// The largest load in hundredths below the present one; of large fleets, in twentieths.
fn largest_load(numbers: &Numbers, profile: Profile<'_>, says: &Says<'_>) -> Option<f64> {
    let load = numbers.load();
    let parts = if numbers.servers() > LARGE { 20 } else { 100 };
    let at = |part: u32| f64::from(part) / f64::from(parts);
    let would_do = |part| says(&numbers.at_load(at(part) / load), profile);
    let top = (1..parts).rev().find(|&part| at(part) < load)?;
    largest(top, would_do).map(at)
}

/// The largest number in `1..=top` with the property, which smaller numbers have if larger ones do.
fn largest(top: u32, has: impl Fn(u32) -> bool) -> Option<u32> {
    let (mut low, mut high) = (0, top + 1);
    while high - low > 1 {
        let middle = (low + high) / 2;
        if has(middle) { low = middle } else { high = middle }
    }
    (low > 0).then_some(low)
}

/// The smallest multiple of the fleet, doubling first; not of large ones.
fn servers(numbers: &Numbers, profile: Profile<'_>, says: &Says<'_>) -> Option<Mend> {
    if numbers.load() >= 1.0 || numbers.servers() > LARGE {
        return None;
    }
    let most = (LARGEST_TRIED / numbers.servers()).max(4);
    let would_do = |factor: usize| says(&numbers.times(factor), &|m, i| profile(m, i.div_ceil(factor)));
    let doubled = std::iter::successors(Some(2), |factor| Some(factor * 2)).take_while(|&factor| factor <= most);
    let (mut high, mut low) =
        doubled.into_iter().find(|&factor| would_do(factor)).map(|factor| (factor, factor / 2))?;
    while high - low > (high / 8).max(1) {
        let middle = (low + high) / 2;
        if would_do(middle) { high = middle } else { low = middle }
    }
    Some(Mend::Servers(high * numbers.servers()))
}

/// The largest power of 1/2 on the profile, down to 1/1024, else 0; of large fleets, 0 only.
fn connectivity(numbers: &Numbers, profile: Profile<'_>, says: &Says<'_>) -> Option<Mend> {
    let would_do = |factor: f64| says(numbers, &|m, i| factor * profile(m, i));
    if !would_do(0.0) {
        return None;
    }
    let most = if numbers.servers() > LARGE { 0 } else { 10 };
    let power = |halvings: u32| 0.5_f64.powi(halvings.cast_signed());
    // From the most halvings, which are the easiest, to the fewest.
    let kept = largest(most, |kept| would_do(power(most + 1 - kept)));
    Some(Mend::Connectivity(kept.map_or(0.0, |kept| power(most + 1 - kept))))
}
