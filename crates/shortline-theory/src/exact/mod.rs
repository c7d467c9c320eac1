//! Exact stationary laws of small systems: the oracle for the simulator.
//!
//! Poisson arrivals, exponential sizes and FIFO servers make the fleet a finite Markov chain when buffers are finite.
//! In a uniform fleet its state is the number of jobs at each server, `(b + 1)^N` states; where service rates depend on
//! the job type, the ordered job types at each server. With `overflow = "wait"` the jobs in front are part of the
//! state, in the order in which they arrived. Only states that can be reached from the empty fleet are built.
//!
//! The routing probabilities come from a [`Rule`]; [`solve`] takes those of the named policies ([`PolicyRule`], written
//! from the policies' definitions, not from the dispatcher). Stationary law: elimination without subtraction
//! (Grassmann, Taksar, Heyman 1985) up to [`LARGEST_ELIMINATION`] states, Gauss-Seidel sweeps beyond, for chains of counts
//! (up to [`LARGEST_COUNT_CHAIN`] states) with an aggregation step; the residual is reported. It says how far the law is
//! from stationary, not how far the means are from exact: where both methods were compared the relative error of means
//! was below a thousand times the residual. Means follow by Little's law and, per job type in uniform fleets, from what an accepted job finds:
//! behind `n` jobs at a server with `c` slots it waits `(n - c + 1)^+ / (c mu)` and is served `1 / mu`.
//!
//! ```
//! # use shortline_core::{Fleet, fleet::*, graph::Edges, policy::PolicySpec};
//! // One server of rate 1 that holds at most 2 jobs, one job per second: M/M/1/2 with load 1.
//! # let fleet = Fleet::new(FleetParts {
//! #     name: String::new(),
//! #     server_types: vec![ServerTypeParts { name: "t".into(), speed: Speed::Rate(1.0), slots: 1 }],
//! #     servers: vec![ServerParts { names: Names { base: "s".into(), count: None }, server_type: 0, buffer: Some(2), addresses: vec![] }],
//! #     job_types: vec![JobTypeParts { names: Names { base: "m".into(), count: None }, arrivals: ArrivalRates::Each(1.0), size: 1.0 }],
//! #     rates: vec![], edges: Edges::Complete, settings: Settings::default(),
//! # })?;
//! let exact = shortline_theory::exact::solve(&fleet, PolicySpec::Jsq, None)?;
//! assert_eq!(exact.states, 3);
//! assert!((exact.all.blocking_probability - 1.0 / 3.0).abs() < 1e-15);
//! assert!((exact.all.mean_response_s - 1.5).abs() < 1e-15);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod chain;
mod counts;
mod rules;
mod stationary;

use shortline_core::fleet::settings::{Arrivals, Discipline, Overflow, SizeLaw};
use shortline_core::policy::PolicySpec;
use shortline_core::{Fleet, JobTypeId, ServerId};

use crate::TheoryError;
use crate::reduced::arrival_rates;
use chain::{Chain, Event, State, System};
use counts::{CountChain, Shape};
pub use rules::{PolicyRule, Rule};
pub use stationary::LARGEST_ELIMINATION;

/// Most states that a chain is built with whose states keep job types or lines in front.
pub const LARGEST_CHAIN: usize = 200_000;

/// Most states of a chain of counts: uniform fleets without lines in front. `8 (servers + 2)` bytes each.
pub const LARGEST_COUNT_CHAIN: usize = 5_000_000;

/// What happens to some of the jobs in the long run. Times and `fraction_waiting` are of accepted jobs; NaN where no
/// job is ever accepted.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct JobLaw {
    /// Arrivals per second, blocked ones included.
    pub arrival_rate_per_s: f64,
    /// Fraction of arrivals that are blocked.
    pub blocking_probability: f64,
    /// Mean number of these jobs in the fleet, lines in front included.
    pub mean_jobs: f64,
    /// Mean time from arrival to completion.
    pub mean_response_s: f64,
    /// Mean time from arrival to start of service.
    pub mean_waiting_s: f64,
    /// Mean time in service.
    pub mean_service_s: f64,
    /// Fraction of jobs whose service does not start on arrival.
    pub fraction_waiting: f64,
}

/// What happens at a server in the long run.
#[derive(Clone, PartialEq, Debug)]
pub struct ServerLaw {
    /// Mean number of jobs, the ones in service included.
    pub mean_jobs: f64,
    /// Mean fraction of its slots that are busy.
    pub utilisation: f64,
    /// Entry `i - 1` is the probability of at least `i` jobs.
    pub occupancy: Vec<f64>,
}

/// The stationary law of a fleet under a policy, in means.
#[derive(Clone, PartialEq, Debug)]
pub struct Exact {
    /// States of the chain.
    pub states: usize,
    /// How far the solution is from stationary: `sum_j |(pi Q)_j| / sum_j pi_j |q_jj|`.
    pub residual: f64,
    /// All jobs.
    pub all: JobLaw,
    /// By job type.
    pub per_job_type: Vec<JobLaw>,
    /// By server, in id order.
    pub per_server: Vec<ServerLaw>,
    /// Mean number of jobs in the lines in front.
    pub mean_jobs_in_front: f64,
}

/// Solves a fleet under a named policy.
///
/// `truncate_at` stands in for buffers and lines that are unbounded: jobs beyond it are blocked, so that
/// `blocking_probability` shows what the truncation leaves out. `None` refuses unbounded ones.
///
/// # Errors
/// If rates are missing, the chain would have more than [`LARGEST_CHAIN`] (of counts:
/// [`LARGEST_COUNT_CHAIN`]) states, or the fleet is not Markovian: sizes
/// not exponential, arrivals not Poisson, processor sharing, failures, delayed information, a time limit in line, or
/// (with `truncate_at = None`) unbounded buffers.
pub fn solve(fleet: &Fleet, policy: PolicySpec, truncate_at: Option<u32>) -> Result<Exact, TheoryError> {
    let rule = PolicyRule::new(fleet, policy)?;
    let is_central = policy == PolicySpec::Central;
    solve_system(fleet, &rule, is_central, truncate_at)
}

/// Solves a fleet under any rule; else as [`solve`].
///
/// # Errors
/// As [`solve`].
pub fn solve_rule(fleet: &Fleet, rule: &dyn Rule, truncate_at: Option<u32>) -> Result<Exact, TheoryError> {
    solve_system(fleet, rule, false, truncate_at)
}

fn solve_system(
    fleet: &Fleet,
    rule: &dyn Rule,
    is_central: bool,
    truncate_at: Option<u32>,
) -> Result<Exact, TheoryError> {
    check_is_markovian(fleet)?;
    let waits = is_central || fleet.settings().overflow == Overflow::Wait;
    let limit = |given: Option<u32>| given.or(truncate_at).ok_or(UNBOUNDED);
    let room = |r| if is_central { Ok(fleet.slots(r)) } else { limit(fleet.buffer(r)) };
    let system = System {
        fleet,
        rule,
        arrivals: arrival_rates(fleet)?,
        room: fleet.servers().map(room).collect::<Result<_, _>>()?,
        longest_line: if waits { limit(fleet.settings().lines.size)? as usize } else { 0 },
        keeps_types: !fleet.is_uniform(),
    };
    if !system.keeps_types && system.longest_line == 0 {
        let too_large = |value| TheoryError::TooLarge {
            what: "states of the exact chain",
            value,
            limit: LARGEST_COUNT_CHAIN,
            remedy: "take fewer servers or shorter buffers, or simulate",
        };
        let shape = Shape::new(&system.room, LARGEST_COUNT_CHAIN).map_err(too_large)?;
        if shape.states > LARGEST_ELIMINATION {
            let states = shape.states;
            let chain = CountChain::new(&system, shape);
            let (law, residual) = chain.solve()?;
            return Ok(chain.tally(&law).finish(states, residual));
        }
    }
    let chain = Chain::explore(&system, LARGEST_CHAIN)?;
    let (law, residual) = stationary::solve(&chain.generator)?;
    Ok(Tally::new(&system).over(&chain.states, &law).finish(chain.states.len(), residual))
}

const METHOD: &str = "the exact chain";
const UNBOUNDED: TheoryError = TheoryError::NotCovered {
    what: "an unbounded buffer or line",
    method: METHOD,
    remedy: "give [fleet] `buffer` (and `queue_size`) a number, or a length at which to truncate",
};

fn check_is_markovian(fleet: &Fleet) -> Result<(), TheoryError> {
    let settings = fleet.settings();
    let obstacles = [
        (settings.service.law != SizeLaw::Exponential, "[service] distribution", "use \"exponential\", or simulate"),
        (settings.service.discipline != Discipline::Fifo, "[service] discipline", "use \"fifo\", or simulate"),
        (settings.arrivals != Arrivals::Poisson, "[arrivals]", "leave it out for Poisson arrivals, or simulate"),
        (settings.failures.is_some(), "[failures]", "leave it out, or simulate"),
        (settings.information.delay_s > 0.0, "[information] delay_s", "leave it out, or simulate"),
        (settings.information.gateways > 1, "[information] gateways", "leave it out, or simulate"),
        (settings.lines.timeout_s.is_some(), "[fleet] queue_timeout_s", "leave it out, or simulate"),
        (fleet.job_type_count() > usize::from(u8::MAX), "more than 255 job types", "merge job types, or simulate"),
    ];
    match obstacles.into_iter().find(|&(applies, ..)| applies) {
        Some((_, what, remedy)) => Err(TheoryError::NotCovered { what, method: METHOD, remedy }),
        None => Ok(()),
    }
}

/// Sums over the stationary law.
struct Tally<'a> {
    system: &'a System<'a>,
    per_job_type: Vec<JobSums>,
    at_least: Vec<Vec<f64>>,
    busy_slots: Vec<f64>,
}

/// Rates (1/s) at which things happen to the jobs of one type, and mean numbers of them.
#[derive(Clone, Copy, Default)]
struct JobSums {
    blocked: f64,
    accepted: f64,
    waiting: f64,
    /// Expected time at the server, wait included, of the jobs that join in a second.
    time_at_server: f64,
    service: f64,
    in_front: f64,
    /// Jobs at the servers; counted where states keep the job types.
    at_servers: f64,
}

impl JobSums {
    /// One thing that happens to jobs of this type at this rate.
    fn count(&mut self, fleet: &Fleet, event: Event, rate: f64) {
        match event {
            Event::Completed => {}
            Event::Blocked { .. } => self.blocked += rate,
            Event::JoinedLine { .. } => {
                self.accepted += rate;
                self.waiting += rate;
            }
            Event::JoinedServer { job_type, server, ahead, from_line } => {
                let slots = fleet.slots(ServerId::new(server)) as usize;
                let service = 1.0 / fleet.service_rate(JobTypeId::new(job_type), ServerId::new(server));
                let must_wait = (ahead + 1).saturating_sub(slots);
                self.service += rate * service;
                self.time_at_server += rate * service * (1.0 + must_wait as f64 / slots as f64);
                if !from_line {
                    self.accepted += rate;
                    self.waiting += if must_wait > 0 { rate } else { 0.0 };
                }
            }
        }
    }

    /// The same of `factor` times as many jobs.
    fn times(&self, factor: f64) -> Self {
        Self {
            blocked: self.blocked * factor,
            accepted: self.accepted * factor,
            waiting: self.waiting * factor,
            time_at_server: self.time_at_server * factor,
            service: self.service * factor,
            in_front: self.in_front * factor,
            at_servers: self.at_servers * factor,
        }
    }
}

impl<'a> Tally<'a> {
    fn new(system: &'a System<'a>) -> Self {
        let servers = system.room.len();
        Self {
            system,
            per_job_type: vec![JobSums::default(); system.arrivals.len()],
            at_least: system.room.iter().map(|&room| vec![0.0; room as usize]).collect(),
            busy_slots: vec![0.0; servers],
        }
    }

    fn over(mut self, states: &[State], law: &[f64]) -> Self {
        for (state, &probability) in states.iter().zip(law) {
            self.count_jobs(state, probability);
            for step in self.system.steps(state) {
                self.count_event(step.event, probability * step.rate);
            }
        }
        self
    }

    fn count_jobs(&mut self, state: &State, probability: f64) {
        for (r, jobs) in state.servers.iter().enumerate() {
            self.count_server(r, jobs.len(), probability);
            for &l in jobs {
                self.per_job_type[usize::from(l)].at_servers += probability;
            }
        }
        for &l in &state.line {
            self.per_job_type[usize::from(l)].in_front += probability;
        }
    }

    fn count_server(&mut self, server: usize, jobs: usize, probability: f64) {
        for at_least in &mut self.at_least[server][..jobs] {
            *at_least += probability;
        }
        let slots = self.system.fleet.slots(ServerId::new(server)) as usize;
        self.busy_slots[server] += probability * jobs.min(slots) as f64;
    }

    fn count_event(&mut self, event: Event, rate: f64) {
        let job_type = match event {
            Event::Blocked { job_type } | Event::JoinedLine { job_type } | Event::JoinedServer { job_type, .. } => {
                job_type
            }
            Event::Completed => return,
        };
        self.per_job_type[job_type].count(self.system.fleet, event, rate);
    }

    fn finish(self, states: usize, residual: f64) -> Exact {
        let keeps_types = self.system.keeps_types;
        let arrivals = &self.system.arrivals;
        let jobs = |sums: &JobSums| sums.in_front + if keeps_types { sums.at_servers } else { sums.time_at_server };
        let law = |sums: &JobSums, arrival_rate_per_s: f64, mean_jobs: f64| JobLaw {
            arrival_rate_per_s,
            blocking_probability: sums.blocked / arrival_rate_per_s,
            mean_jobs,
            mean_response_s: mean_jobs / sums.accepted,
            mean_waiting_s: (mean_jobs - sums.service) / sums.accepted,
            mean_service_s: sums.service / sums.accepted,
            fraction_waiting: sums.waiting / sums.accepted,
        };
        let mut total = JobSums::default();
        for sums in &self.per_job_type {
            total.blocked += sums.blocked;
            total.accepted += sums.accepted;
            total.waiting += sums.waiting;
            total.service += sums.service;
            total.in_front += sums.in_front;
        }
        let per_server: Vec<ServerLaw> = self
            .at_least
            .into_iter()
            .enumerate()
            .map(|(r, occupancy)| ServerLaw {
                mean_jobs: occupancy.iter().sum(),
                utilisation: self.busy_slots[r] / f64::from(self.system.fleet.slots(ServerId::new(r))),
                occupancy,
            })
            .collect();
        let all_jobs = total.in_front + per_server.iter().map(|server| server.mean_jobs).sum::<f64>();
        Exact {
            states,
            residual,
            all: law(&total, arrivals.iter().sum(), all_jobs),
            per_job_type: self.per_job_type.iter().zip(arrivals).map(|(s, &rate)| law(s, rate, jobs(s))).collect(),
            per_server,
            mean_jobs_in_front: total.in_front,
        }
    }
}

#[cfg(test)]
mod tests {
    use shortline_core::fleet::{
        ArrivalRates, FleetParts, JobTypeParts, Names, ServerParts, ServerTypeParts, Settings, Speed,
    };
    use shortline_core::graph::Edges;

    use super::*;

    /// Equal servers of rate 1 and job types on all of them, one arrival per second each.
    fn fleet(servers: u32, buffer: u32, job_types: u32) -> Fleet {
        let names = |base: &str, count| Names { base: base.into(), count: Some(count) };
        let arrivals = ArrivalRates::Each(1.0);
        Fleet::new(FleetParts {
            name: String::new(),
            server_types: vec![ServerTypeParts { name: "t".into(), speed: Speed::Rate(1.0), slots: 1 }],
            servers: vec![ServerParts {
                names: names("s", servers),
                server_type: 0,
                buffer: Some(buffer),
                addresses: vec![],
            }],
            job_types: vec![JobTypeParts { names: names("j", job_types), arrivals, size: 1.0 }],
            rates: vec![],
            edges: Edges::Complete,
            settings: Settings::default(),
        })
        .expect("the fleet is right")
    }

    fn system<'a>(fleet: &'a Fleet, rule: &'a PolicyRule, longest_line: usize) -> System<'a> {
        let room = fleet.servers().filter_map(|r| fleet.buffer(r)).collect();
        let arrivals = vec![1.0; fleet.job_type_count()];
        System { fleet, rule, arrivals, room, longest_line, keeps_types: false }
    }

    #[test]
    fn a_chain_beyond_the_limit_is_refused() {
        let fleet = fleet(3, 2, 1);
        let rule = PolicyRule::new(&fleet, PolicySpec::Jsq).unwrap();
        let system = system(&fleet, &rule, 0);
        assert_eq!(Chain::explore(&system, 27).unwrap().states.len(), 27);
        assert!(matches!(Chain::explore(&system, 26), Err(TheoryError::TooLarge { limit: 26, .. })));
    }

    #[test]
    fn sweeps_with_aggregation_agree_with_elimination() {
        let names = "random,jsq,jfsq,jiq,jsq(2),jsq(1,1),sed,nq,split";
        for policy in PolicySpec::parse_list(names).unwrap() {
            let fleet = fleet(4, 4, 3);
            let rule = PolicyRule::new(&fleet, policy).unwrap();
            let system = system(&fleet, &rule, 0);
            let chain = Chain::explore(&system, 1_000).unwrap();
            let (law, residual) = stationary::solve(&chain.generator).unwrap();
            let exact = Tally::new(&system).over(&chain.states, &law).finish(chain.states.len(), residual);
            let counts = CountChain::new(&system, Shape::new(&system.room, 1_000).unwrap());
            let (law, residual) = counts.solve().unwrap();
            let swept = counts.tally(&law).finish(chain.states.len(), residual);
            let pairs = exact.per_job_type.iter().zip(&swept.per_job_type).chain([(&exact.all, &swept.all)]);
            for (a, b) in pairs {
                let near = |a: f64, b: f64| (a - b).abs() <= 1e3 * residual * a.abs();
                assert!(near(a.mean_jobs, b.mean_jobs), "{policy}: {a:?} {b:?}");
                assert!(near(a.blocking_probability, b.blocking_probability), "{policy}: {a:?} {b:?}");
                assert!(near(a.fraction_waiting, b.fraction_waiting), "{policy}: {a:?} {b:?}");
            }
        }
    }

    #[test]
    fn a_place_that_frees_goes_to_the_job_that_has_waited_longest() {
        let fleet = fleet(1, 1, 2);
        let rule = PolicyRule::new(&fleet, PolicySpec::Jsq).unwrap();
        let full = State { servers: vec![vec![0]], line: vec![1, 0] };
        let steps = system(&fleet, &rule, 2).steps(&full);
        let started = steps.iter().find(|step| matches!(step.event, Event::JoinedServer { .. })).unwrap();
        assert!(matches!(started.event, Event::JoinedServer { job_type: 1, server: 0, ahead: 0, from_line: true }));
        assert_eq!(started.to.line, [0]);
    }
}
