//! Policies as routing probabilities: for each state of the servers and each job type, where a job goes.
//!
//! Written from the definitions, by enumeration and without cleverness, so that a test against the dispatcher compares
//! two different programs.

use shortline_core::fleet::{SPEED_TOLERANCE, speeds_equal};
use shortline_core::policy::PolicySpec;
use shortline_core::{Fleet, JobTypeId, ServerId};

use crate::TheoryError;
use crate::stability::analyse;

/// Where a job goes, given the number of jobs at each server.
pub trait Rule {
    /// The servers with room that a job of this type may join, each with its probability. What is missing to 1 is the
    /// probability that the rule finds no place.
    ///
    /// `jobs` and `room` are by server id; `room` is the most jobs that a server may hold.
    fn places(&self, jobs: &[u32], room: &[u32], job_type: JobTypeId) -> Vec<(ServerId, f64)>;

    /// A job type for which [`places`](Self::places) is always the same, so that it is asked only once; `job_type` itself
    /// if that is not known.
    fn alike(&self, job_type: JobTypeId) -> JobTypeId {
        job_type
    }
}

/// A named policy as a [`Rule`].
#[derive(Clone, Debug)]
pub struct PolicyRule {
    policy: PolicySpec,
    server_count: usize,
    /// Per job type its servers.
    rows: Vec<Vec<Candidate>>,
}

/// A compatible server as the rule sees it.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Candidate {
    server: ServerId,
    slots: u32,
    /// For this job type.
    rate: f64,
    /// Whether no server of the fleet is faster for this job type.
    is_fast: bool,
    /// Static share, for `split`.
    share: f64,
}

impl PolicyRule {
    /// The rule of `policy` on this fleet.
    ///
    /// # Errors
    /// If speeds are ranks only, or `split` has no shares because rates are missing.
    pub fn new(fleet: &Fleet, policy: PolicySpec) -> Result<Self, TheoryError> {
        crate::reduced::require_rates(fleet)?;
        let shares = if policy == PolicySpec::Split { Some(analyse(fleet)?.shares) } else { None };
        let row = |l: JobTypeId| {
            let fastest = fleet.server_types().map(|m| fleet.rate(l, m)).fold(0.0, f64::max);
            let compatible = fleet.servers().filter(|&server| fleet.graph().contains(l.index(), server));
            let share = |server| {
                let mut shares = shares.as_ref()?.of(l);
                shares.find(|&(other, _)| other == server).map(|(_, share)| share)
            };
            let candidate = |server| {
                let rate = fleet.rate(l, fleet.server_type(server));
                let is_fast = speeds_equal(rate, fastest);
                Candidate { server, slots: fleet.slots(server), rate, is_fast, share: share(server).unwrap_or(0.0) }
            };
            compatible.map(candidate).collect()
        };
        Ok(Self { policy, server_count: fleet.server_count(), rows: fleet.job_types().map(row).collect() })
    }
}

impl Rule for PolicyRule {
    fn places(&self, jobs: &[u32], room: &[u32], job_type: JobTypeId) -> Vec<(ServerId, f64)> {
        let view = View { row: &self.rows[job_type.index()], jobs, room };
        let all = view.row.to_vec();
        let with_room = view.those(&all, |c| view.has_room(c));
        let idle = view.those(&all, |c| view.is_idle(c) && view.has_room(c));
        let chosen = match self.policy {
            PolicySpec::Random => evenly(&all),
            PolicySpec::Jsq => evenly(&view.shortest(&with_room)),
            PolicySpec::Jfsq => evenly(&fastest(&view.shortest(&with_room))),
            PolicySpec::Jiq if idle.is_empty() => evenly(&all),
            PolicySpec::Jiq => evenly(&idle),
            PolicySpec::Jfiq if idle.is_empty() => evenly(&all),
            PolicySpec::Jfiq | PolicySpec::Central => evenly(&fastest(&idle)),
            PolicySpec::Sed => evenly(&fastest(&view.least_delay(&with_room))),
            PolicySpec::Nq if idle.is_empty() => evenly(&fastest(&view.least_delay(&with_room))),
            PolicySpec::Nq => evenly(&fastest(&idle)),
            PolicySpec::Split => all.iter().map(|c| (*c, c.share)).collect(),
            PolicySpec::JsqD(d) => {
                let samples = subsets(&all, d.count(self.server_count) as usize);
                averaged(samples.iter().map(|sample| evenly(&view.shortest(sample))).collect())
            }
            PolicySpec::JfsqD(d) => {
                let samples = subsets(&all, d.count(self.server_count) as usize);
                averaged(samples.iter().map(|sample| evenly(&fastest(&view.shortest(sample)))).collect())
            }
            PolicySpec::JsqFastOther { fast, other } => {
                let fast = subsets(&view.those(&all, |c| c.is_fast), fast as usize);
                let other = subsets(&view.those(&all, |c| !c.is_fast), other as usize);
                let pairs = fast.iter().flat_map(|a| other.iter().map(move |b| [a.clone(), b.clone()].concat()));
                averaged(pairs.map(|sample| evenly(&fastest(&view.shortest(&sample)))).collect())
            }
        };
        let admitted = chosen.into_iter().filter(|(c, probability)| view.has_room(c) && *probability > 0.0);
        admitted.map(|(c, probability)| (c.server, probability)).collect()
    }

    fn alike(&self, job_type: JobTypeId) -> JobTypeId {
        let row = &self.rows[job_type.index()];
        self.rows.iter().position(|other| other == row).map_or(job_type, JobTypeId::new)
    }
}

/// The servers of a job type at a moment.
struct View<'a> {
    row: &'a [Candidate],
    jobs: &'a [u32],
    room: &'a [u32],
}

impl View<'_> {
    fn those(&self, among: &[Candidate], is_meant: impl Fn(&Candidate) -> bool) -> Vec<Candidate> {
        among.iter().copied().filter(is_meant).collect()
    }

    fn jobs(&self, c: &Candidate) -> u32 {
        self.jobs[c.server.index()]
    }

    fn has_room(&self, c: &Candidate) -> bool {
        self.jobs(c) < self.room[c.server.index()]
    }

    fn is_idle(&self, c: &Candidate) -> bool {
        self.jobs(c) < c.slots
    }

    /// Those with the fewest jobs per slot.
    fn shortest(&self, among: &[Candidate]) -> Vec<Candidate> {
        let is_shorter = |a: &Candidate, b: &Candidate| {
            u64::from(self.jobs(a)) * u64::from(b.slots) < u64::from(self.jobs(b)) * u64::from(a.slots)
        };
        self.those(among, |c| !among.iter().any(|other| is_shorter(other, c)))
    }

    /// Those with the smallest `max(1, (jobs + 1) / slots) / rate`.
    fn least_delay(&self, among: &[Candidate]) -> Vec<Candidate> {
        let delay = |c: &Candidate| (f64::from(self.jobs(c) + 1) / f64::from(c.slots)).max(1.0) / c.rate;
        let least = among.iter().map(delay).fold(f64::INFINITY, f64::min);
        self.those(among, |c| delay(c) <= least * (1.0 + SPEED_TOLERANCE))
    }
}

/// Those that are fastest.
fn fastest(among: &[Candidate]) -> Vec<Candidate> {
    let top = among.iter().map(|c| c.rate).fold(0.0, f64::max);
    among.iter().copied().filter(|c| speeds_equal(c.rate, top)).collect()
}

/// Each with equal probability.
fn evenly(among: &[Candidate]) -> Vec<(Candidate, f64)> {
    among.iter().map(|&c| (c, 1.0 / among.len() as f64)).collect()
}

/// All subsets of `size` elements, or the whole if it has fewer.
fn subsets(among: &[Candidate], size: usize) -> Vec<Vec<Candidate>> {
    let size = size.min(among.len());
    let chosen = |set: u32| (0..among.len()).filter(|i| set >> i & 1 == 1).map(|i| among[i]).collect();
    (0..1_u32 << among.len()).filter(|set| set.count_ones() as usize == size).map(chosen).collect()
}

/// The law of a choice from a uniformly random one of these laws.
fn averaged(laws: Vec<Vec<(Candidate, f64)>>) -> Vec<(Candidate, f64)> {
    let count = laws.len() as f64;
    let mut sum: Vec<(Candidate, f64)> = Vec::new();
    for (c, probability) in laws.into_iter().flatten() {
        match sum.iter_mut().find(|(known, _)| known.server == c.server) {
            Some((_, total)) => *total += probability / count,
            None => sum.push((c, probability / count)),
        }
    }
    sum
}
