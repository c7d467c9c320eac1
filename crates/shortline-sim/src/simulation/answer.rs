//! From what the run of each policy counted to the report.

use shortline_core::JobTypeId;

use super::{PerType, Simulation, Until};
use crate::calendar::reach::Reach;
use crate::estimate::{Estimate, Ratio};
use crate::growth::FALSE_ALARM_PER_LOOK;
use crate::model::Model;
use crate::observe;
use crate::report::{Difference, Engine, PolicyReport, Report};
use crate::rounds::{FEWEST_EVENTS, Plan, Racer, WarmUp};

impl Simulation {
    pub(super) fn report(&self, model: &Model, reach: Option<Reach>, plan: &Plan, racers: &[Racer]) -> Report {
        let job_types = self.listed_job_types(model);
        let parts = |racer: &Racer| {
            (racer.contender.name.clone(), why_no_means(racer, reach).is_none().then(|| racer.response_parts()))
        };
        Report {
            policies: racers.iter().map(|racer| self.policy_report(model, reach, plan, racer, &job_types)).collect(),
            differences: differences(&racers.iter().map(parts).collect::<Vec<_>>()),
            ..self.empty_report(model)
        }
    }

    pub(super) fn empty_report(&self, model: &Model) -> Report {
        Report {
            fleet: self.fleet.name().to_owned(),
            servers: self.fleet.server_count(),
            job_types: self.fleet.job_type_count(),
            edges: self.fleet.graph().edge_count(),
            offered_load: model.offered_load(),
            policies: Vec::new(),
            differences: Vec::new(),
        }
    }

    fn policy_report(
        &self,
        model: &Model,
        reach: Option<Reach>,
        plan: &Plan,
        racer: &Racer,
        job_types: &[JobTypeId],
    ) -> PolicyReport {
        let unstable = racer.growth_jobs_per_s.is_some();
        let why = why_no_means(racer, reach);
        // An observer may have stopped the run before the number of events asked for.
        let counted = racer.events() - racer.warm_up_events;
        let complete = if let Until::Events(events) = self.until { counted >= events } else { true };
        PolicyReport {
            policy: racer.contender.name.clone(),
            engine: racer.contender.engine,
            engine_why: racer.contender.why.into(),
            unstable,
            growth_jobs_per_s: racer.growth_jobs_per_s,
            growing_replications: unstable.then_some(racer.growing_replications),
            false_alarm_rate: f64::from(racer.looks) * FALSE_ALARM_PER_LOOK,
            converged: why.is_none() && complete && racer.relative_error() <= plan.error,
            means: why.is_none().then(|| {
                let means = match racer.contender.engine {
                    Engine::Calendar => observe::means_as_measured,
                    Engine::Lumped | Engine::Markov => observe::means,
                };
                means(model, &racer.records(), racer.contender.fates, job_types)
            }),
            bound: None,
            why,
            ratio_to_bound: None,
            unfinished: 0,
            events: racer.events(),
            warmup_events: racer.warm_up_events,
            simulated_s: racer.time_s(),
            cpu_s: racer.cpu_s,
            replications: plan.replications,
            seed: self.seed,
        }
    }

    pub(super) fn listed_job_types(&self, model: &Model) -> Vec<JobTypeId> {
        let mut job_types: Vec<JobTypeId> = self.fleet.job_types().collect();
        let rate = |l: &JobTypeId| model.arrival_rates[l.index()];
        job_types.sort_by(|a, b| rate(b).total_cmp(&rate(a)).then(a.cmp(b)));
        if let PerType::Top(most) = self.per_type {
            job_types.truncate(most);
        }
        job_types
    }
}

/// Why a policy has no means, if it has none.
fn why_no_means(racer: &Racer, reach: Option<Reach>) -> Option<String> {
    let events = racer.warm_up_events;
    if racer.growth_jobs_per_s.is_some() {
        return Some("the policy is unstable: jobs pile up without end".to_owned());
    }
    if let Some(Err(error)) = reach.map(|reach| reach.check("a replication lasted", racer.longest_s())) {
        return Some(error.to_string());
    }
    match racer.warm_up {
        WarmUp::Stopped => {
            Some(format!("the run was stopped in its warm-up, after {events} events: it needs more time"))
        }
        WarmUp::TooShort => Some(format!(
            "the number of jobs had not settled after {events} events of warm-up: more events have to be allowed"
        )),
        WarmUp::Settled if racer.fewest_counted() < FEWEST_EVENTS => Some(format!(
            "too few events were counted after the warm-up for an interval: {} are the least",
            FEWEST_EVENTS * racer.replications() as u64
        )),
        WarmUp::Settled => None,
    }
}

/// What each replication adds to the two sides of a mean response time.
pub(super) type Parts = Vec<(f64, f64)>;

/// Pairs of policies that have means, from their names and parts.
pub(super) fn differences(policies: &[(String, Option<Parts>)]) -> Vec<Difference> {
    let with_means: Vec<(&String, &Parts)> =
        policies.iter().filter_map(|(name, parts)| Some((name, parts.as_ref()?))).collect();
    let difference = |(a, of_a): (&String, &Parts), (b, of_b): (&String, &Parts)| {
        let ratios = (Ratio::new(of_a), Ratio::new(of_b));
        let mean_response_ratio =
            Estimate::jackknife(of_a.len(), |left_out| ratios.0.without(left_out) / ratios.1.without(left_out));
        let mean_response_ratio = mean_response_ratio.map(Estimate::not_negative);
        Difference { a: a.clone(), b: b.clone(), mean_response_ratio }
    };
    let pairs = (0..with_means.len()).flat_map(|i| (i + 1..with_means.len()).map(move |j| (i, j)));
    pairs.map(|(i, j)| difference(with_means[i], with_means[j])).collect()
}
