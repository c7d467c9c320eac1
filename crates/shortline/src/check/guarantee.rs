//! Upper bounds on blocking, jobs and response time of the policies that send a job to the fastest idle server.

use serde::Serialize;
use shortline_core::Fleet;
use shortline_core::policy::PolicySpec;
use shortline_theory::connectivity::Connectivity;
use shortline_theory::guarantee::{self, Guarantee, PolicyClass};
use shortline_theory::{Model, TheoryError};

use super::Progress;

/// Policies that may be covered.
const CANDIDATES: [PolicySpec; 6] =
    [PolicySpec::Jfsq, PolicySpec::Jfiq, PolicySpec::Nq, PolicySpec::Jsq, PolicySpec::Jiq, PolicySpec::Sed];

/// The guarantee, and those that are known besides.
#[derive(Debug, Serialize)]
pub(super) struct GuaranteeSection {
    /// Of the file's policy if there is one, else of `jfsq`.
    pub(super) guarantee: GuaranteeRow,
    /// Of each class of policies.
    pub(super) guarantees: Vec<GuaranteeRow>,
}

/// What is guaranteed of some policies; null where nothing is.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct GuaranteeRow {
    /// The policies that it covers.
    pub(super) policies: Vec<String>,
    /// Nothing is guaranteed of jobs and response time: the theorems do not apply, or say nothing at this size.
    pub(super) vacuous: bool,
    /// What it rests on, or which term breaks it and what would mend that.
    pub(super) why: String,
    /// Speed classes whose idle servers were counted.
    pub(super) m: Option<usize>,
    /// Idle servers behind `chi`.
    pub(super) e: Option<usize>,
    /// Share of the arrivals not sent at once to an idle server, at most.
    pub(super) chi: Option<f64>,
    /// At most.
    pub(super) mean_jobs: Option<f64>,
    /// At most.
    pub(super) mean_response_s: Option<f64>,
    /// `mean_response_s` over the fluid bound.
    pub(super) ratio_to_fluid: Option<f64>,
    /// At most.
    pub(super) blocking_probability: Option<f64>,
}

impl GuaranteeSection {
    pub(super) fn of(fleet: &Fleet, connectivity: &Result<Connectivity<'_>, TheoryError>, progress: &Progress) -> Self {
        progress.at("guarantee");
        let guarantees = match (connectivity, &Model::new(fleet)) {
            (Ok(connectivity), Ok(model)) => {
                let delta = |m: usize, i: usize| connectivity.upper(m, i);
                let classes = [PolicyClass::JoinFastestShortest, PolicyClass::FastestIdle];
                classes.iter().filter_map(|&class| GuaranteeRow::of(fleet, model, class, &delta)).collect()
            }
            (Ok(_), Err(TheoryError::NotCovered { .. })) => {
                vec![GuaranteeRow::nothing("does not apply: service rates depend on the job type".to_owned())]
            }
            (Err(error), _) | (_, Err(error)) => vec![GuaranteeRow::nothing(format!("does not apply: {error}"))],
        };
        let policy = fleet.settings().policy.unwrap_or(PolicySpec::Jfsq).to_string();
        let own = guarantees.iter().find(|row| row.policies.contains(&policy)).unwrap_or(&guarantees[0]);
        Self { guarantee: own.clone(), guarantees }
    }

    /// The policies that are known to lose at most this share of the jobs, and the share known of them.
    pub(super) fn losing_at_most(&self, share: f64) -> Option<(Vec<String>, f64)> {
        let known = |row: &GuaranteeRow| Some((row.blocking_probability.filter(|&p| p < share)?, row.policies.clone()));
        let known: Vec<(f64, Vec<String>)> = self.guarantees.iter().filter_map(known).collect();
        let largest = known.iter().map(|&(p, _)| p).fold(0.0, f64::max);
        (!known.is_empty()).then(|| (known.into_iter().flat_map(|(_, policies)| policies).collect(), largest))
    }
}

impl GuaranteeRow {
    /// The guarantee of a class; `None` if no policy is in it.
    fn of(fleet: &Fleet, model: &Model, class: PolicyClass, delta: guarantee::Profile<'_>) -> Option<Self> {
        let covered = CANDIDATES.into_iter().filter(|&policy| PolicyClass::of(policy, model) == Some(class));
        let covered: Vec<PolicySpec> = covered.collect();
        let row = match guarantee::evaluate(fleet, *covered.first()?, delta) {
            Ok(found) => Self::found(&found),
            Err(error) => Self::nothing(error.to_string()),
        };
        Some(Self { policies: covered.iter().map(ToString::to_string).collect(), ..row })
    }

    fn found(found: &Guarantee) -> Self {
        let says_something = |x: &f64| *x < 1.0;
        let chi = Some(found.chi).filter(says_something);
        let why = match (&found.jobs, &found.blocking) {
            (Ok(_), Ok(_)) => "holds for the long run of the fleet as it is".to_owned(),
            (Err(jobs), Ok(_)) => format!("of jobs and response time: {jobs}"),
            (Ok(_), Err(blocking)) => format!("of blocking: {blocking}"),
            (Err(jobs), Err(_)) => format!("{jobs}. Of blocking nothing is guaranteed either"),
        };
        let jobs = found.jobs.as_ref().ok();
        Self {
            policies: Vec::new(),
            vacuous: found.is_vacuous(),
            why,
            m: chi.map(|_| found.m),
            e: chi.map(|_| found.e),
            chi,
            mean_jobs: jobs.map(|jobs| jobs.mean_jobs),
            mean_response_s: jobs.map(|jobs| jobs.mean_response_s),
            ratio_to_fluid: jobs.and_then(|jobs| jobs.ratio_to_fluid),
            blocking_probability: found.blocking.as_ref().ok().map(|blocking| blocking.probability),
        }
    }

    /// Whether anything is known, of jobs or of blocking.
    pub(super) fn says_something(&self) -> bool {
        !self.vacuous || self.blocking_probability.is_some()
    }

    fn nothing(why: String) -> Self {
        Self { vacuous: true, why, ..Self::default() }
    }
}
