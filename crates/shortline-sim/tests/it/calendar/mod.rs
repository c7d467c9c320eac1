//! The engine with an event calendar.
//!
//! Goal: no figure is off by more than chance. Method: an exact value lies in the 99.9 % interval of a fixed seed (false-alarm
//! probability 1e-3 a figure were the seed free), whose half-width is asserted where it says something.

mod arrivals;
mod failures;
mod fates;
mod information;
mod laws;
mod markov;
mod queues;
mod reach;
mod reproducible;
mod sharing;
mod traces;

use std::sync::Arc;

use shortline_core::Fleet;
use shortline_core::fleet::settings::SizeLaw;
use shortline_sim::{Means, Simulation, Until};

use crate::fleets::{Sketch, policy};

/// The means of one policy on the event calendar, so many events counted.
pub(crate) fn means(fleet: &Arc<Fleet>, name: &str, events: u64) -> Means {
    let simulation = Simulation::new(fleet).policy(policy(name)).seed(8).threads(1).calendar(true);
    let report = simulation.until(Until::Events(events)).run().unwrap().policies.remove(0);
    report.means.unwrap_or_else(|| panic!("{name} has no means: {:?}", report.why))
}

pub(crate) fn with_law(sketch: Sketch, law: SizeLaw) -> Arc<Fleet> {
    sketch.settings(|settings| settings.service.law = law).build()
}

/// Laws with their squared coefficient of variation.
pub(crate) const LAWS: [(SizeLaw, f64); 7] = [
    (SizeLaw::Exponential, 1.0),
    (SizeLaw::Deterministic, 0.0),
    (SizeLaw::Erlang { k: 3 }, 1.0 / 3.0),
    (SizeLaw::Hyperexponential { cv2: 4.0 }, 4.0),
    // Mean 1/2 + 1/4 / (1/2) = 1; variance 1/4 + (2/4 / (1/4) - 1/4).
    (SizeLaw::Coxian2 { mu1: 2.0, p: 0.25, mu2: 0.5 }, 2.0),
    (SizeLaw::Lognormal { cv2: 2.0 }, 2.0),
    // 1 / (shape (shape - 2)).
    (SizeLaw::Pareto { shape: 4.5 }, 1.0 / 11.25),
];
