//! Whether the fleet is stable, by how much, and what saturates first.

use serde::Serialize;
use shortline_core::Fleet;
use shortline_core::fleet::SPEED_TOLERANCE;
use shortline_core::policy::PolicySpec;
use shortline_theory::{TheoryError, stability};

/// Stability of the fleet: of some policy, if its buffers (or the lines in front) were unbounded.
#[derive(Debug, Serialize)]
pub(super) struct StabilitySection {
    /// Null if it could not be found out.
    pub(super) stable: Option<bool>,
    /// What `stable` rests on.
    pub(super) stable_why: String,
    /// Arriving work over the work that the servers can do.
    pub(super) offered_load: Option<f64>,
    /// `s*`; null without arrivals.
    pub(super) max_load_factor: Option<f64>,
    /// What saturates first.
    pub(super) bottleneck: Bottleneck,
    pub(super) stability_by_policy: Vec<PolicyRow>,
    #[serde(skip)]
    pub(super) unknown: Option<Unknown>,
}

/// Names of what determines `s*`.
#[derive(Debug, Default, Serialize)]
pub(super) struct Bottleneck {
    pub(super) job_types: Vec<String>,
    pub(super) servers: Vec<String>,
    /// Whether it is all servers that hold a job type: then edges cannot help.
    pub(super) whole_fleet: bool,
}

/// Stability under one policy.
#[derive(Debug, Serialize)]
pub(super) struct PolicyRow {
    pub(super) policy: String,
    /// Null: not known.
    pub(super) stable: Option<bool>,
    pub(super) why: String,
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
    pub(super) fn of(fleet: &Fleet, policies: &[PolicySpec]) -> Self {
        let section = match stability::analyse(fleet) {
            Ok(found) => Self::found(fleet, &found),
            Err(error) => Self::without(fleet, &error),
        };
        Self { stability_by_policy: by_policy(fleet, policies), ..section }
    }

    fn found(fleet: &Fleet, found: &stability::Stability) -> Self {
        let names = &found.bottleneck;
        let holding = found.bottleneck.servers.len() == servers_with_edges(fleet);
        // A load that rounding alone keeps below 1 is none that a policy could bear.
        let is_stable = found.is_stable() && found.max_load_factor > 1.0 + SPEED_TOLERANCE;
        let why = match (is_stable, names.servers.is_empty()) {
            (true, _) => "the servers can do more work than arrives, for every set of job types",
            (false, true) => "some job types that arrive are on no server",
            (false, false) => {
                "the bottleneck's job types bring as much work as the servers that hold them can do, or more"
            }
        };
        Self {
            stable: Some(is_stable),
            stable_why: why.to_owned(),
            offered_load: Some(found.offered_load).filter(|load| load.is_finite()),
            max_load_factor: Some(found.max_load_factor).filter(|factor| factor.is_finite()),
            bottleneck: Bottleneck {
                job_types: names.job_types.iter().map(|&l| fleet.job_type_name(l)).collect(),
                servers: names.servers.iter().map(|&r| fleet.server_name(r)).collect(),
                whole_fleet: holding && !names.servers.is_empty(),
            },
            stability_by_policy: Vec::new(),
            unknown: None,
        }
    }

    fn without(fleet: &Fleet, error: &TheoryError) -> Self {
        let nothing = Self {
            stable: None,
            stable_why: error.to_string(),
            offered_load: None,
            max_load_factor: None,
            bottleneck: Bottleneck::default(),
            stability_by_policy: Vec::new(),
            unknown: None,
        };
        match error {
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
        }
    }
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

fn by_policy(_fleet: &Fleet, _policies: &[PolicySpec]) -> Vec<PolicyRow> {
    Vec::new()
}
