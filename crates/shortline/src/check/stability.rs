//! Whether the fleet is stable, under which policies, by how much, and what saturates first.

use serde::Serialize;
use shortline_core::Fleet;
use shortline_core::fleet::settings::{Failures, Overflow};
use shortline_core::policy::{Choices, PolicySpec};
use shortline_theory::TheoryError;
use shortline_theory::stability::{
    EdgeSearch, Effort, Factor, LoadFactorBounds, PolicyStability, Stability, analyse_observed, availability,
    down_in_the_end, load_factor_between, offered_load, under_failures,
};

use super::Progress;
use super::figures::{counted, listed, short};
use crate::digits::without_noise;

/// Rows of job types, and of servers, that have a bound only.
const BOUNDS_SHOWN: usize = 20;

/// Stability of the fleet: of some policy, if its buffers (or the lines in front) were unbounded.
#[derive(Debug, Serialize)]
pub(super) struct StabilitySection {
    /// Null if it could not be found out.
    pub(super) stable: Option<bool>,
    /// What `stable` rests on.
    pub(super) stable_why: String,
    /// Which capacity of the servers it rests on.
    pub(super) capacity: Capacity,
    /// Arriving work over the work that the servers can do.
    pub(super) offered_load: Option<f64>,
    /// `s*`; null without arrivals, and where only bounds on it are known.
    pub(super) max_load_factor: Option<f64>,
    /// `s*` lies between these, where it is beyond what can be computed.
    pub(super) max_load_factor_between: Option<[f64; 2]>,
    /// What saturates first.
    pub(super) bottleneck: Bottleneck,
    pub(super) stability_by_policy: Vec<PolicyRow>,
    /// How far each job type can grow alone, the least first.
    pub(super) slacks: Vec<SlackRow>,
    /// Job types whose slack is not exact: the list ends with a bound for the worst of them.
    pub(super) slacks_not_computed: usize,
    /// What is left without each server, the least first.
    pub(super) losses: Vec<LossRow>,
    /// Servers whose loss is not exact: the list ends with a bound for the worst of them.
    pub(super) losses_not_computed: usize,
    /// Why slacks, losses or the best edge are not there.
    pub(super) slacks_why: Option<String>,
    /// The one copy of a job type that raises `s*` most, of all or, if that is not proved, of those computed.
    pub(super) best_edge: Option<BestEdge>,
    /// Whether that is proved, or that there is none; and what other copies could reach.
    pub(super) best_edge_why: Option<String>,
    /// Whether it is proved that no single copy raises `s*`.
    #[serde(skip)]
    pub(super) no_copy_helps: bool,
    #[serde(skip)]
    pub(super) unknown: Option<Unknown>,
}

/// The capacity that stability is of.
#[derive(Debug, Serialize)]
pub(super) struct Capacity {
    /// `full`; `available`: where servers fail at random, the share that they are up; `left`: without those that stay down.
    pub(super) used: &'static str,
    /// Long-run share of the time that a server (that does not stay down) is up.
    pub(super) availability: f64,
    /// Servers that stay down after the last of listed failures.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) down: Vec<String>,
    /// What there is to know of it, where servers fail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) why: Option<String>,
}

impl Capacity {
    fn of(fleet: &Fleet) -> Self {
        let availability = without_noise(availability(fleet));
        let down: Vec<String> = down_in_the_end(fleet).into_iter().map(|server| fleet.server_name(server)).collect();
        let (used, why) = match &fleet.settings().failures {
            None => ("full", None),
            Some(Failures::Random { .. }) => (
                "available",
                Some(format!(
                    "each server is up {} % of the time ([failures]), and counts with that share of its rate{}",
                    short(100.0 * availability),
                    if fleet.settings().overflow == Overflow::Reject {
                        "; jobs that find all their servers down are lost, so that queues may stay finite beyond what this \
                         capacity can carry"
                    } else {
                        ""
                    }
                )),
            ),
            Some(Failures::Events(_)) if down.is_empty() => (
                "full",
                Some("the listed [failures] leave all servers up: in the long run, which this is about, they count in full".to_owned()),
            ),
            Some(Failures::Events(_)) => (
                "left",
                Some(format!(
                    "{} down after the last of the listed [failures] ({}): all but the offered load and the table of the fleet is \
                     about the servers that are left, in the long run",
                    if down.len() == 1 { "1 server stays".to_owned() } else { format!("{} stay", counted(down.len(), "server")) },
                    listed(&down, NAMES)
                )),
            ),
        };
        Self { used, availability, down, why }
    }

    /// What to call a server that counts.
    pub(super) fn server(&self) -> &'static str {
        if self.down.is_empty() { "server" } else { "server that stays up" }
    }
}

/// Names shown in a sentence.
const NAMES: usize = 5;

/// Names of what determines `s*`.
#[derive(Debug, Default, Serialize)]
pub(super) struct Bottleneck {
    pub(super) job_types: Vec<String>,
    pub(super) servers: Vec<String>,
    /// Whether it is all servers that hold a job type.
    pub(super) whole_fleet: bool,
}

/// Stability under one policy.
#[derive(Debug, Serialize)]
pub(super) struct PolicyRow {
    pub(super) policy: String,
    /// Null: not known.
    pub(super) stable: Option<bool>,
    pub(super) why: String,
    /// Stable at all factors on the arrival rates below this, as far as is known.
    pub(super) stable_below: Option<f64>,
    /// Unstable at all factors above this, as far as is known.
    pub(super) unstable_above: Option<f64>,
}

/// How far a job type can grow, all others staying as they are.
#[derive(Debug, Serialize)]
pub(super) struct SlackRow {
    pub(super) job_type: String,
    /// Servers that hold it.
    pub(super) servers: usize,
    /// Null if it never arrives.
    pub(super) factor: Option<f64>,
    /// If false, it can grow by at most this.
    pub(super) exact: bool,
}

/// `s*` without a server.
#[derive(Debug, Serialize)]
pub(super) struct LossRow {
    pub(super) server: String,
    pub(super) server_type: String,
    pub(super) max_load_factor: f64,
    /// If false, it is at most this.
    pub(super) exact: bool,
}

/// A copy that the fleet does not have, and `s*` with it.
#[derive(Debug, Serialize)]
pub(super) struct BestEdge {
    pub(super) job_type: String,
    pub(super) server: String,
    pub(super) max_load_factor: f64,
    /// Whether it is proved that no other single copy raises `s*` more.
    pub(super) is_best: bool,
}

/// Why it is not known whether the fleet is stable.
#[derive(Debug)]
pub(super) enum Unknown {
    /// The file does not say enough.
    Lacking(String),
    /// The computation failed.
    Failed(String),
}

impl StabilitySection {
    pub(super) fn of(fleet: &Fleet, policies: &[PolicySpec], all: bool, progress: &Progress) -> Self {
        progress.at("stability");
        let capacity = Capacity::of(fleet);
        let long_run = under_failures(fleet);
        let asked: Vec<PolicySpec> = policies.iter().map(|&policy| sampling_as_in(fleet, policy)).collect();
        let mut section = Self::of_capacity(&long_run, &asked, all, progress);
        for (row, policy) in section.stability_by_policy.iter_mut().zip(policies) {
            row.policy = policy.to_string();
        }
        section.offered_load = match section.offered_load {
            // The load is that of the file, as in all commands.
            Some(_) if !capacity.down.is_empty() => offered_load(fleet).ok().map(without_noise),
            load => load.map(|load| without_noise(load * capacity.availability)),
        };
        section.lossy(fleet, &capacity);
        section.without_the_shares_of_all(&capacity);
        if !capacity.down.is_empty() && section.stable == Some(false) && section.bottleneck.servers.is_empty() {
            section.stable_why = format!("some job types that arrive are on no {}", capacity.server());
            section.stability_by_policy.iter_mut().for_each(|row| row.why.clone_from(&section.stable_why));
        }
        Self { capacity, ..section }
    }

    /// Where jobs that find all their servers down are lost, the rest may be carried though not all could be.
    fn lossy(&mut self, fleet: &Fleet, capacity: &Capacity) {
        const LOST: &str =
            "not known: jobs that find all their servers down are lost; what is left may be carried or not: simulate";
        let loses =
            |policy: &str| fleet.settings().overflow == Overflow::Reject && policy != PolicySpec::Central.to_string();
        if capacity.availability < 1.0 {
            let full = |factor: f64| without_noise(factor / capacity.availability);
            for row in self.stability_by_policy.iter_mut().filter(|row| loses(&row.policy)) {
                row.unstable_above = row.unstable_above.map(full);
                if row.stable == Some(false) && row.unstable_above.is_some_and(|factor| factor > 1.0) {
                    (row.stable, row.why) = (None, LOST.to_owned());
                }
            }
        }
    }

    /// `split` divides jobs by the shares of all servers; among those that stay up these need not be the best.
    fn without_the_shares_of_all(&mut self, capacity: &Capacity) {
        const SHARES: &str =
            "not known: the shares are those of all servers, divided among those that stay up: simulate";
        let is_split = |row: &&mut PolicyRow| row.policy == PolicySpec::Split.to_string();
        if !capacity.down.is_empty() {
            for row in self.stability_by_policy.iter_mut().filter(is_split).filter(|row| row.stable == Some(true)) {
                (row.stable, row.why, row.stable_below) = (None, SHARES.to_owned(), Some(0.0));
            }
        }
    }

    fn of_capacity(fleet: &Fleet, policies: &[PolicySpec], all: bool, progress: &Progress) -> Self {
        match analyse_observed(fleet, &mut |step| progress.step(step)) {
            Ok(found) => {
                let mut section = Self::found(fleet, &found);
                section.stability_by_policy = by_policy(fleet, &found, policies, progress);
                if let Err(error) = section.look_closer(fleet, &found, all, progress) {
                    section.slacks_why = Some(error.to_string());
                }
                section
            }
            Err(error @ TheoryError::TooLarge { .. }) => {
                match load_factor_between(fleet, &mut |step| progress.step(step)) {
                    Ok(bounds) => Self::between(fleet, &bounds, policies, &error),
                    Err(error) => Self::without(fleet, policies, &error),
                }
            }
            Err(error) => Self::without(fleet, policies, &error),
        }
    }

    /// What bounds on `s*` say, where `s*`, its bottleneck and all that follows from them are out of reach.
    fn between(fleet: &Fleet, bounds: &LoadFactorBounds, policies: &[PolicySpec], obstacle: &TheoryError) -> Self {
        let (least, most) = (short(bounds.at_least), short(bounds.at_most));
        let why = match bounds.is_stable() {
            Some(true) => format!("static shares were found that all servers can bear, up to {least} x the load"),
            Some(false) => format!(
                "prices on the servers' time prove that more arrives than they can do, from {most} x the load on"
            ),
            None => format!(
                "the largest load factor lies between {least} and {most}: too close to 1 for the bounds to decide; \
                 simulate, or lower the load"
            ),
        };
        let answers = bounds.of_policies(fleet, policies);
        let unknown = bounds.is_stable().is_none().then(|| Unknown::Failed(why.clone()));
        Self {
            stable: bounds.is_stable(),
            stable_why: why,
            max_load_factor_between: Some([bounds.at_least, bounds.at_most]),
            stability_by_policy: policies
                .iter()
                .zip(&answers)
                .map(|(policy, answer)| PolicyRow::of(*policy, answer))
                .collect(),
            unknown,
            ..Self::nothing(format!("bottleneck, slacks, losses and the best copy are not computed: {obstacle}"))
        }
    }

    fn found(fleet: &Fleet, found: &Stability) -> Self {
        let names = &found.bottleneck;
        let is_whole = !names.servers.is_empty() && names.servers.len() == servers_with_edges(fleet);
        let why = match (found.is_stable(), names.servers.is_empty()) {
            (true, _) => "the servers can do more work than arrives, for every set of job types",
            (false, true) => "some job types that arrive are on no server",
            (false, false) => {
                "the bottleneck's job types bring as much work as the servers that hold them can do, or more"
            }
        };
        Self {
            stable: Some(found.is_stable()),
            stable_why: why.to_owned(),
            offered_load: Some(found.offered_load).filter(|load| load.is_finite()).map(without_noise),
            max_load_factor: Some(found.max_load_factor).filter(|factor| factor.is_finite()).map(without_noise),
            bottleneck: Bottleneck {
                job_types: names.job_types.iter().map(|&l| fleet.job_type_name(l)).collect(),
                servers: names.servers.iter().map(|&r| fleet.server_name(r)).collect(),
                whole_fleet: is_whole,
            },
            ..Self::nothing(String::new())
        }
    }

    /// Slack of job types, loss of servers, and the best copy to add.
    fn look_closer(
        &mut self,
        fleet: &Fleet,
        found: &Stability,
        all: bool,
        progress: &Progress,
    ) -> Result<(), TheoryError> {
        let effort = if all { Effort::All } else { Effort::default() };
        let observer = &mut |step| progress.step(step);
        let slacks = found.slacks(effort, observer)?;
        self.slacks_not_computed = slacks.iter().filter(|slack| !slack.factor.is_exact).count();
        self.slacks = worth_showing(&slacks, |slack| slack.factor)
            .map(|slack| SlackRow {
                job_type: fleet.job_type_name(slack.job_type),
                servers: fleet.graph().degree(slack.job_type.index()),
                factor: finite(slack.factor),
                exact: slack.factor.is_exact,
            })
            .collect();
        let losses = found.losses(effort, observer)?;
        self.losses_not_computed = losses.iter().filter(|loss| !loss.max_load_factor.is_exact).count();
        self.losses = worth_showing(&losses, |loss| loss.max_load_factor)
            .map(|loss| LossRow {
                server: fleet.server_name(loss.server),
                server_type: fleet.server_type_parts(fleet.server_type(loss.server)).name.clone(),
                max_load_factor: without_noise(loss.max_load_factor.value),
                exact: loss.max_load_factor.is_exact,
            })
            .collect();
        let most_visits = if all { u64::MAX } else { Effort::MOST_VISITS };
        let search = found.best_edge(fleet, most_visits, observer)?;
        self.best_edge_why = Some(what_is_proved(&search));
        self.no_copy_helps = search.best.is_none() && search.is_settled;
        self.best_edge = search.best.map(|edge| BestEdge {
            job_type: fleet.job_type_name(edge.job_type),
            server: fleet.server_name(edge.server),
            max_load_factor: without_noise(edge.max_load_factor),
            is_best: search.is_settled,
        });
        Ok(())
    }

    fn without(fleet: &Fleet, policies: &[PolicySpec], error: &TheoryError) -> Self {
        let nothing = Self::nothing(error.to_string());
        let section = match error {
            TheoryError::NoArrivals => Self {
                stable: Some(true),
                stable_why: "nothing arrives: all arrival rates are 0, and there is no load to speak of".to_owned(),
                offered_load: Some(0.0),
                ..nothing
            },
            TheoryError::NoEdges => {
                let arriving = fleet.job_types().filter(|&l| fleet.arrival_rate(l) > Some(0.0));
                let job_types = arriving.map(|l| fleet.job_type_name(l)).collect();
                let bottleneck = Bottleneck { job_types, ..Bottleneck::default() };
                Self { stable: Some(false), max_load_factor: Some(0.0), bottleneck, ..nothing }
            }
            TheoryError::RanksOnly { .. } | TheoryError::MissingRates { .. } => {
                Self { unknown: Some(Unknown::Lacking(error.to_string())), ..nothing }
            }
            other => Self { unknown: Some(Unknown::Failed(other.to_string())), ..nothing },
        };
        let row = |policy: &PolicySpec| PolicyRow {
            policy: policy.to_string(),
            stable: section.stable,
            why: section.stable_why.clone(),
            stable_below: None,
            unstable_above: None,
        };
        Self { stability_by_policy: policies.iter().map(row).collect(), ..section }
    }

    fn nothing(why: String) -> Self {
        Self {
            stable: None,
            stable_why: why.clone(),
            capacity: Capacity { used: "full", availability: 1.0, down: Vec::new(), why: None },
            offered_load: None,
            max_load_factor: None,
            max_load_factor_between: None,
            bottleneck: Bottleneck::default(),
            stability_by_policy: Vec::new(),
            slacks: Vec::new(),
            slacks_not_computed: 0,
            losses: Vec::new(),
            losses_not_computed: 0,
            slacks_why: Some(why).filter(|why| !why.is_empty()),
            best_edge: None,
            best_edge_why: None,
            no_copy_helps: false,
            unknown: None,
        }
    }
}

/// The policy with the `d` that it has in this fleet, whatever part of it is looked at.
fn sampling_as_in(fleet: &Fleet, policy: PolicySpec) -> PolicySpec {
    let fixed = |d: Choices| Choices::Number(d.count(fleet.server_count()));
    match policy {
        PolicySpec::JsqD(d) => PolicySpec::JsqD(fixed(d)),
        PolicySpec::JfsqD(d) => PolicySpec::JfsqD(fixed(d)),
        other => other,
    }
}

/// Tie-breaks do not matter to stability: `jfsq(d)` is answered with `jsq(d)`, whose samples take long to weigh.
fn by_policy(fleet: &Fleet, found: &Stability, policies: &[PolicySpec], progress: &Progress) -> Vec<PolicyRow> {
    let without_ties = |policy: PolicySpec| match policy {
        PolicySpec::JfsqD(d) => PolicySpec::JsqD(d),
        other => other,
    };
    let mut asked: Vec<PolicySpec> = Vec::new();
    for policy in policies.iter().copied().map(without_ties) {
        if !asked.contains(&policy) {
            asked.push(policy);
        }
    }
    let answers = found.of_policies(fleet, &asked, &mut |step| progress.step(step));
    let row = |&policy: &PolicySpec| {
        let answer = answers.iter().find(|answer| answer.policy == without_ties(policy));
        let answer = answer.expect("every policy was asked for");
        PolicyRow::of(policy, answer)
    };
    policies.iter().map(row).collect()
}

impl PolicyRow {
    fn of(policy: PolicySpec, answer: &PolicyStability) -> Self {
        Self {
            policy: policy.to_string(),
            stable: answer.stable,
            why: answer.why.clone(),
            stable_below: Some(answer.stable_below).filter(|factor| factor.is_finite()).map(without_noise),
            unstable_above: Some(answer.unstable_above).filter(|factor| factor.is_finite()).map(without_noise),
        }
    }
}

/// How far the answer about one more copy is proved.
fn what_is_proved(search: &EdgeSearch) -> String {
    let (tried, at_most) = (search.tried, short(search.at_most));
    match (search.best, search.is_settled) {
        (Some(_), true) => "proved: no other single copy raises the load factor more".to_owned(),
        (None, true) => "proved: no single copy of a job type raises the load factor".to_owned(),
        (Some(_), false) => {
            format!(
                "the best of {tried} computed; whether another one raises more, to {at_most} at most, is not known (--all)"
            )
        }
        (None, false) => {
            format!(
                "none of the {tried} computed raises it; whether another one does, to {at_most} at most, is not known (--all)"
            )
        }
    }
}

/// All that are exact, and of those that are only bounded the first ones, which are the worst by their bound.
fn worth_showing<T>(worst_first: &[T], factor: impl Fn(&T) -> Factor) -> impl Iterator<Item = &T> {
    let mut bounded = 0;
    worst_first.iter().filter(move |row| {
        let is_exact = factor(row).is_exact;
        bounded += usize::from(!is_exact);
        is_exact || bounded <= BOUNDS_SHOWN
    })
}

fn finite(factor: Factor) -> Option<f64> {
    Some(factor.value).filter(|value| value.is_finite()).map(without_noise)
}

/// Servers that hold a job type.
fn servers_with_edges(fleet: &Fleet) -> usize {
    let mut held = vec![false; fleet.server_count()];
    let mut seen = vec![false; fleet.graph().distinct_row_count()];
    for l in 0..fleet.job_type_count() {
        if !std::mem::replace(&mut seen[fleet.graph().row_number(l)], true) {
            fleet.graph().for_each(l, |r| held[r.index()] = true);
        }
    }
    held.iter().filter(|&&held| held).count()
}
