//! Which policies are stable.
//!
//! Buffers and lines are taken as unbounded, whatever the file says: with finite ones every policy keeps its queues
//! finite, and the answer tells whether it could do so without turning jobs away. Proved for Poisson arrivals and
//! exponential sizes; `docs/theory/stability` has the proofs. No policy at all is stable when `s* <= 1`. Else:
//!
//! | policy | stable if and only if | fleets |
//! |---|---|---|
//! | `jsq`, `jfsq`, `sed`, `nq` | `s* > 1` | uniform |
//! | `central` | `s* > 1` | product form |
//! | `split` | `s* > 1` | all |
//! | `random` | `sum_l lambda_l / (deg(l) mu_lr) < slots_r` for every server `r` | all |
//! | `jsq(d)`, `jfsq(d)`, `jsq(d1,d2)` | for every set `U` of servers the rate of jobs whose whole sample lies in `U` is below `c(U)` | uniform |
//! | `jiq`, `jfiq` | not known; sufficient: that of `random`; necessary: `s* > 1` | uniform |
//!
//! Each answer is a bracket on the policy's **critical factor**, the factor on all arrival rates up to which it is stable.
//!
//! Sources: S. Foss, N. Chernova, "On the stability of a partially accessible multi-station queue with state-dependent
//! routing" (1998), and M. Bramson, "Stability of join the shortest queue networks" (2011), for `jsq` and its samples; the
//! rest derived for this project. What is said of other arrivals and sizes is said for these, and names them.

use shortline_core::fleet::settings::{Arrivals, Overflow, SizeLaw};
use shortline_core::fleet::speeds_equal;
use shortline_core::policy::PolicySpec;
use shortline_core::{Fleet, JobTypeId, ServerId};

use super::progress::Observer;
use super::sampled::{Bracket, Sampling, critical_factor};
use super::{CRITICAL, Stability, analyse, why_not_always_up};
use crate::TheoryError;
use crate::reduced::{Reduced, Speeds};

/// Whether a policy is stable.
#[derive(Clone, PartialEq, Debug)]
pub struct PolicyStability {
    /// The policy.
    pub policy: PolicySpec,
    /// Whether its queues stay finite (with unbounded buffers); `None` where that is not known. `Some(true)` is proved for
    /// Poisson arrivals and exponential sizes, and `why` says so where the fleet's are others.
    pub stable: Option<bool>,
    /// It is stable at all factors on the arrival rates below this; 0 where nothing is known.
    pub stable_below: f64,
    /// It is unstable at all factors above this; at most `s*`.
    pub unstable_above: f64,
    /// The condition, and what decides it here.
    pub why: String,
}

/// Stability of each of these policies.
///
/// Costs [`analyse`](super::analyse), and for policies that sample a few seconds where their sampled graph is large.
///
/// # Errors
/// As [`analyse`](super::analyse).
pub fn by_policy(fleet: &Fleet, policies: &[PolicySpec]) -> Result<Vec<PolicyStability>, TheoryError> {
    Ok(analyse(fleet)?.of_policies(fleet, policies, &mut |_| ()))
}

impl Stability {
    /// Stability of each of these policies on `fleet`, the fleet that was analysed.
    pub fn of_policies(
        &self,
        fleet: &Fleet,
        policies: &[PolicySpec],
        observer: &mut Observer<'_>,
    ) -> Vec<PolicyStability> {
        let mut known = Vec::new();
        policies.iter().map(|&policy| self.of_policy(fleet, policy, &mut known, observer)).collect()
    }

    /// What is proved, with what the proof takes for granted and the file does not promise.
    fn of_policy(
        &self,
        fleet: &Fleet,
        policy: PolicySpec,
        known: &mut Known,
        observer: &mut Observer<'_>,
    ) -> PolicyStability {
        let found = self.of_markovian(fleet, policy, known, observer);
        for_proved_laws(fleet, found)
    }

    /// Stability with Poisson arrivals and exponential sizes.
    fn of_markovian(
        &self,
        fleet: &Fleet,
        policy: PolicySpec,
        known: &mut Known,
        observer: &mut Observer<'_>,
    ) -> PolicyStability {
        let limit = self.max_load_factor;
        let answer = |stable_below, unstable_above, why| answer(policy, stable_below, unstable_above, why);
        if !self.is_stable() {
            return answer(0.0, limit, self.why_no_policy(fleet));
        }
        if let Some(obstacle) = obstacle(fleet, policy) {
            return answer(0.0, limit, format!("not known: {obstacle}"));
        }
        let is_uniform = fleet.is_uniform();
        match policy {
            PolicySpec::Random => {
                let (factor, why) = random(fleet, self.reduced());
                answer(factor, factor, why)
            }
            PolicySpec::Split => answer(limit, limit, format!("{SHARES}; {}", room_to_grow(limit))),
            PolicySpec::Central if matches!(self.reduced().speeds, Speeds::Product(_)) => {
                answer(limit, limit, format!("{CUT_CONDITION}; {}", room_to_grow(limit)))
            }
            _ if !is_uniform => answer(0.0, limit, NOT_UNIFORM.to_owned()),
            PolicySpec::Jsq | PolicySpec::Jfsq | PolicySpec::Sed | PolicySpec::Nq | PolicySpec::Central => {
                answer(limit, limit, format!("{CUT_CONDITION}; {}", room_to_grow(limit)))
            }
            PolicySpec::Jiq | PolicySpec::Jfiq => {
                let (below, _) = random(fleet, self.reduced());
                let why = format!(
                    "when no compatible server is idle the job goes to a random one: surely stable only where `random` \
                     is, up to {below:.3} times the load, and surely unstable only from {limit:.3} times on",
                );
                answer(below, limit, why)
            }
            PolicySpec::JsqD(d) | PolicySpec::JfsqD(d) => {
                let count = d.count(fleet.server_count()) as usize;
                let part = vec![0; self.reduced().groups.len()];
                self.sampled(fleet, Sampling { part, count: [count, 0] }, known, observer, answer)
            }
            PolicySpec::JsqFastOther { fast, other } => {
                let first = JobTypeId::new(0);
                let fastest = fleet.server_types().map(|m| fleet.rate(first, m)).fold(0.0, f64::max);
                let groups = self.reduced().groups.iter();
                let is_fast = groups.map(|group| speeds_equal(fleet.rate(first, group.server_type), fastest));
                let part = is_fast.map(|is_fast| u8::from(!is_fast)).collect();
                self.sampled(fleet, Sampling { part, count: [fast as usize, other as usize] }, known, observer, answer)
            }
        }
    }

    fn sampled(
        &self,
        fleet: &Fleet,
        sampling: Sampling,
        known: &mut Known,
        observer: &mut Observer<'_>,
        answer: impl Fn(f64, f64, String) -> PolicyStability,
    ) -> PolicyStability {
        let found = known.iter().find(|(other, _)| *other == sampling).map(|(_, bracket)| bracket.clone());
        let found = found.unwrap_or_else(|| {
            let bracket = critical_factor(self.reduced(), &sampling, observer);
            known.push((sampling, bracket.clone()));
            bracket
        });
        let Bracket { at_least, at_most, tight } = found;
        // Samples are no freer than the job types they come from.
        let at_most = at_most.min(self.max_load_factor);
        let at_least = at_least.min(at_most);
        let tight: Vec<ServerId> =
            (0..tight.len()).filter(|&g| tight[g]).flat_map(|g| self.shares.members_of(g)).copied().collect();
        let set = names(fleet, &tight);
        let why = if at_most <= 1.0 + CRITICAL && at_most > 1.0 - BY_EYE {
            format!("jobs whose whole sample lies in {set} are all that these can serve, and nothing is to spare")
        } else if at_most <= 1.0 + CRITICAL {
            format!(
                "jobs whose whole sample lies in {set} are more than these can serve, from {at_most:.3} times the load on"
            )
        } else if at_least > 1.0 + CRITICAL {
            format!("no set of servers gets too many whole samples, up to at least {at_least:.3} times the load")
        } else {
            format!("not known: critical between {at_least:.3} and {at_most:.3} times the load")
        };
        answer(at_least, at_most, why)
    }

    fn why_no_policy(&self, fleet: &Fleet) -> String {
        let job_types = &self.bottleneck.job_types;
        let first = job_types.first().map(|&l| fleet.job_type_name(l)).unwrap_or_default();
        let which = match job_types.len() {
            1 => format!("`{first}` brings"),
            n => format!("`{first}` and {} more job types bring", n - 1),
        };
        if self.bottleneck.servers.is_empty() {
            return format!("no policy is: {which} work, and no server holds it");
        }
        let servers = names(fleet, &self.bottleneck.servers);
        if self.max_load_factor > 1.0 - BY_EYE {
            return format!("no policy is: {which} all the work that {servers} can do, and nothing is to spare");
        }
        format!(
            "no policy is: {which} more work than {servers} can do, from {:.3} times the load on",
            self.max_load_factor
        )
    }
}

/// Where sizes or arrivals are not those of the proofs, all but "unstable" is said of exponential and Poisson ones: no
/// law makes a server do more than its rate.
fn for_proved_laws(fleet: &Fleet, found: PolicyStability) -> PolicyStability {
    let settings = fleet.settings();
    let is_proved = settings.service.law == SizeLaw::Exponential && matches!(settings.arrivals, Arrivals::Poisson);
    if is_proved || found.stable == Some(false) || found.why.starts_with(NOT_KNOWN) {
        return found;
    }
    let why = format!("{FOR_EXPONENTIAL}: {}", found.why);
    PolicyStability { why, ..found }
}

const NOT_KNOWN: &str = "not known";
const FOR_EXPONENTIAL: &str = "for Poisson arrivals and exponential sizes";

/// What a bracket on the critical factor says.
fn answer(policy: PolicySpec, stable_below: f64, unstable_above: f64, why: String) -> PolicyStability {
    let stable = match () {
        () if unstable_above <= 1.0 + CRITICAL => Some(false),
        () if stable_below > 1.0 + CRITICAL => Some(true),
        () => None,
    };
    PolicyStability { policy, stable, stable_below, unstable_above, why }
}

/// Stability of a policy in a fleet of which bounds on `s*` are known, and not the flow that attains it.
pub(super) fn between(
    fleet: &Fleet,
    reduced: &Reduced,
    (at_least, at_most): (f64, f64),
    policy: PolicySpec,
) -> PolicyStability {
    if at_most <= 1.0 + CRITICAL {
        let why = if at_most > 1.0 - BY_EYE {
            "no policy is: the servers have nothing to spare".to_owned()
        } else {
            format!("no policy is: the servers cannot do the work that arrives, from {at_most:.3} times the load on")
        };
        return answer(policy, 0.0, at_most, why);
    }
    if let Some(obstacle) = obstacle(fleet, policy) {
        return answer(policy, 0.0, at_most, format!("not known: {obstacle}"));
    }
    match policy {
        PolicySpec::Random => {
            let (factor, why) = random(fleet, reduced);
            for_proved_laws(fleet, answer(policy, factor, factor, why))
        }
        PolicySpec::Split => {
            let why = format!(
                "not known: its shares are those of a linear program that is too large here; other shares are stable up to \
                 {at_least:.3} times the load"
            );
            answer(policy, 0.0, at_most, why)
        }
        _ => answer(policy, 0.0, at_most, NOT_UNIFORM.to_owned()),
    }
}

/// Critical factor of `random`, and in words.
fn random(fleet: &Fleet, reduced: &Reduced) -> (f64, String) {
    let mut busy = vec![0.0; reduced.groups.len()];
    for p in 0..reduced.ports.len() {
        let row = reduced.graph.row(p).iter().map(|&g| g as usize);
        let degree: usize = row.clone().map(|g| reduced.groups[g].servers).sum();
        for g in row {
            let group = &reduced.groups[g];
            // Slots that the port keeps busy at one server, over the slots of that server.
            busy[g] += reduced.ports[p].work / degree as f64 / reduced.speed(p, g) * group.servers as f64 / group.slots;
        }
    }
    let first = (0..busy.len()).max_by(|&a, &b| busy[a].total_cmp(&busy[b]).then(b.cmp(&a)));
    let first = first.expect("a fleet with an edge has a group");
    let factor = 1.0 / busy[first];
    let server = reduced.group_of.iter().position(|group| group.is_some_and(|g| g as usize == first));
    let server = fleet.server_name(ServerId::new(server.expect("a group has a server")));
    let why = format!(
        "blind shares: `{server}` is busy {:.3} of the time{}; it saturates first, at {factor:.3} times the load",
        busy[first],
        match busy[first] {
            busy if busy > 1.0 + BY_EYE => ", more than it has",
            busy if busy >= 1.0 => ", all that it has",
            _ => "",
        },
    );
    (factor, why)
}

/// Brackets found so far: `jsq(d)` and `jfsq(d)` have the same.
type Known = Vec<(Sampling, Bracket)>;

/// Figures that differ by less, relative, look equal with the digits shown.
const BY_EYE: f64 = 5e-4;

const CUT_CONDITION: &str = "stable whenever some policy is";
const SHARES: &str = "fixed shares under which no server is overloaded";
const NOT_UNIFORM: &str =
    "not known: service rates depend on the job type; simulate just below the largest load factor";

fn room_to_grow(limit: f64) -> String {
    format!("up to {limit:.3} times the load")
}

/// `gpu-0`, or `gpu-0 and 12 more servers`.
fn names(fleet: &Fleet, servers: &[ServerId]) -> String {
    match servers {
        [] => "no server".to_owned(),
        [one] => format!("`{}`", fleet.server_name(*one)),
        [first, rest @ ..] => format!("`{}` and {} more", fleet.server_name(*first), rest.len()),
    }
}

/// What keeps the conditions from being known to decide for this fleet and policy, apart from speeds.
fn obstacle(fleet: &Fleet, policy: PolicySpec) -> Option<&'static str> {
    let settings = fleet.settings();
    let is_blind = matches!(policy, PolicySpec::Random | PolicySpec::Split);
    let is_exact_about_room =
        matches!(policy, PolicySpec::Jsq | PolicySpec::Jfsq | PolicySpec::Sed | PolicySpec::Nq | PolicySpec::Central);
    let finite = fleet.servers().filter(|&r| fleet.buffer(r).is_some()).count();
    let waits = settings.overflow == Overflow::Wait && policy != PolicySpec::Central;
    let obstacles = [
        (matches!(settings.arrivals, Arrivals::Piecewise(_) | Arrivals::Trace), "[arrivals] vary in time"),
        (settings.service.law == SizeLaw::Trace, "the sizes are those of a trace"),
        (
            why_not_always_up(fleet).is_some(),
            "servers fail, and what the policy makes of those that are up is not known",
        ),
        (!is_blind && settings.information.delay_s > 0.0, "decisions rest on old counts"),
        (!is_blind && settings.information.gateways > 1, "each gateway sees only its own jobs"),
        (
            waits && finite > 0 && finite < fleet.server_count(),
            "some buffers are finite and others not, so that jobs pass by the line",
        ),
        (
            waits && finite > 0 && !is_exact_about_room,
            "with finite buffers and a line in front, jobs may wait while a server that has room stays idle",
        ),
    ];
    obstacles.into_iter().find(|&(applies, _)| applies).map(|(_, why)| why)
}
