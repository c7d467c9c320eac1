//! The whole report: gathered section by section, printed as JSON as it is.

use serde::Serialize;
use shortline_core::Fleet;
use shortline_core::fleet::Fault;
use shortline_core::policy::PolicySpec;
use shortline_theory::stability::in_the_end;

use super::bounds::{self, BoundRow};
use super::connectivity::{self, ConnectivitySection};
use super::fleet::FleetSection;
use super::guarantee::GuaranteeSection;
use super::model::ModelSection;
use super::stability::{StabilitySection, Unknown};
use super::{Progress, advice, problems};
use crate::failure::Failure;

/// What `--json` prints.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    #[serde(flatten)]
    pub(super) fleet: FleetSection,
    #[serde(flatten)]
    pub(super) stability: StabilitySection,
    pub(super) bounds: Vec<BoundRow>,
    pub(super) model: ModelSection,
    #[serde(flatten)]
    pub(super) connectivity: ConnectivitySection,
    #[serde(flatten)]
    pub(super) guarantee: GuaranteeSection,
    /// What is probably not meant.
    pub(super) problems: Vec<String>,
    /// What to do, in plain words.
    pub(super) advice: Vec<String>,
}

impl Report {
    pub(super) fn of(
        fleet: &Fleet,
        warnings: &[Fault],
        policies: &[PolicySpec],
        all: bool,
        progress: &Progress,
    ) -> Self {
        progress.at("counting servers, job types and edges");
        let section = FleetSection::of(fleet);
        let problems = problems::of(fleet, &section, warnings);
        let stability = StabilitySection::of(fleet, policies, all, progress);
        // From here on servers that stay down are out.
        let fleet = &in_the_end(fleet);
        progress.at("bounds on the mean response time");
        let mut bounds = bounds::of(fleet, stability.stable == Some(false));
        let model = ModelSection::of(fleet);
        progress.at("connectivity: certificates");
        let certificates = connectivity::analyse(fleet);
        let connectivity = ConnectivitySection::of(fleet, &certificates, all, progress);
        let guarantee = GuaranteeSection::of(fleet, &certificates, progress);
        bounds.iter_mut().for_each(|row| row.look_at(&guarantee));
        let advice = advice::of(fleet, &stability);
        Self { fleet: section, stability, bounds, model, connectivity, guarantee, problems, advice }
    }

    /// How the command ends.
    pub(super) fn verdict(&self) -> Result<(), Failure> {
        match (&self.stability.unknown, self.stability.stable) {
            (Some(Unknown::Lacking(what)), _) => Err(Failure::usage(format!("not all could be checked: {what}"))),
            (Some(Unknown::Failed(what)), _) => {
                Err(Failure::run(format!("whether the fleet is stable could not be computed: {what}")))
            }
            (None, Some(true)) => Ok(()),
            (None, _) => Err(Failure::run(format!("the fleet is not stable: {}", self.stability.stable_why))),
        }
    }
}
