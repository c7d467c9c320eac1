//! The papers' symbols: speed classes, and what hangs on them.

use serde::Serialize;
use shortline_core::Fleet;
use shortline_theory::{Model, TheoryError};

use crate::digits::without_noise;

/// The symbols of W. Weng, X. Zhou, R. Srikant (2020); null where they do not apply.
#[derive(Debug, Default, Serialize)]
pub(super) struct ModelSection {
    /// Whether service rates do not depend on the job type.
    pub(super) uniform: bool,
    /// Why there are no symbols, or not all.
    pub(super) why: Option<String>,
    /// Speed classes.
    #[serde(rename = "M")]
    pub(super) classes: Option<usize>,
    /// Slots of all servers that hold a job type.
    #[serde(rename = "N")]
    pub(super) slots: Option<u64>,
    /// Classes needed, fastest first.
    #[serde(rename = "K")]
    pub(super) needed: Option<usize>,
    /// Spare part of the first `K` classes' capacity.
    pub(super) beta: Option<f64>,
    /// Arrivals over the capacity of the first `K` classes, `1 - beta`.
    pub(super) load_first_k: Option<f64>,
    /// Busy slots of the fluid optimum over all slots.
    #[serde(rename = "C_star")]
    pub(super) busy: Option<f64>,
    /// The same by class.
    #[serde(rename = "C_star_m")]
    pub(super) busy_by_class: Option<Vec<f64>>,
    /// `Lambda / N`, jobs per second and slot.
    pub(super) lambda: Option<f64>,
    /// `mu_m` by class, jobs per second of one slot.
    pub(super) mu_m: Option<Vec<f64>>,
    /// `mu_1 / mu_K`.
    #[serde(rename = "tau_1K")]
    pub(super) tau_1k: Option<f64>,
    /// `mu_1 / mu_M`.
    #[serde(rename = "tau_1M")]
    pub(super) tau_1m: Option<f64>,
    /// `mu_K / mu_M`.
    #[serde(rename = "tau_KM")]
    pub(super) tau_km: Option<f64>,
}

impl ModelSection {
    pub(super) fn of(fleet: &Fleet) -> Self {
        let uniform = fleet.has_rates() && fleet.is_uniform();
        let model = match Model::new(fleet) {
            Ok(model) => model,
            Err(error) => return Self { uniform, why: Some(why(&error)), ..Self::default() },
        };
        let slots = model.slots() as f64;
        let mu: Vec<f64> = model.classes().iter().map(|class| class.rate_per_s).collect();
        let last = mu.len();
        let needed = model.needed_classes();
        let busy = model.fluid_busy();
        let overloaded = "the servers cannot do the work that arrives: there is no K, and nothing that hangs on it";
        Self {
            uniform,
            why: needed.is_none().then(|| overloaded.to_owned()),
            classes: Some(mu.len()),
            slots: Some(model.slots()),
            needed,
            beta: model.slack().map(without_noise),
            load_first_k: model.slack().map(|beta| without_noise(1.0 - beta)),
            busy: busy.as_ref().map(|busy| without_noise(busy.iter().sum::<f64>() / slots)),
            busy_by_class: busy.map(|busy| busy.iter().map(|busy| without_noise(busy / slots)).collect()),
            lambda: Some(without_noise(model.arrivals_per_s() / slots)),
            tau_1k: needed.map(|k| without_noise(model.speed_ratio(1, k))),
            tau_1m: Some(without_noise(model.speed_ratio(1, last))),
            tau_km: needed.map(|k| without_noise(model.speed_ratio(k, last))),
            mu_m: Some(mu),
        }
    }
}

/// Why a fleet has no speed classes.
fn why(error: &TheoryError) -> String {
    match error {
        TheoryError::NotCovered { .. } => {
            "do not apply: service rates depend on the job type (its size, or a [[rate]]), and the papers give each \
             server one rate"
                .to_owned()
        }
        other => format!("do not apply: {other}"),
    }
}
