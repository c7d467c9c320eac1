//! The offered load of a fleet, and fleets at another one.
//!
//! Where rates depend on the job type it is `1/s*`, a linear program; where that is too large, `s*` is known to lie between
//! two numbers that are proved, within a percent or so of each other, and so is the load. Commands go on with the middle
//! and say so.

use shortline_core::Fleet;
use shortline_theory::TheoryError;
use shortline_theory::stability::{self, LoadFactorBounds};

use crate::digits::{exact, short};
use crate::failure::Failure;
use crate::terminal::aside;

/// An offered load.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Load {
    Exact(f64),
    /// It lies between these two.
    Between(f64, f64),
}

impl Load {
    /// The load of the file's arrival rates.
    pub(crate) fn of(fleet: &Fleet) -> Result<Self, TheoryError> {
        match stability::offered_load(fleet) {
            Err(TheoryError::TooLarge { .. }) => Ok(Self::between(&bounds(fleet)?)),
            other => other.map(Self::Exact),
        }
    }

    fn between(bounds: &LoadFactorBounds) -> Self {
        Self::Between(1.0 / bounds.at_most, 1.0 / bounds.at_least)
    }

    /// The load, or what lies in the middle.
    pub(crate) fn middle(self) -> f64 {
        match self {
            Self::Exact(load) => load,
            Self::Between(low, high) => (low * high).sqrt(),
        }
    }
}

/// Bounds on the largest load factor of a fleet that is too large for the linear program.
pub(crate) fn bounds(fleet: &Fleet) -> Result<LoadFactorBounds, TheoryError> {
    stability::load_factor_between(fleet, &mut |_| ())
}

/// The fleet with its arrival rates scaled to an offered load, as near as that is known.
pub(crate) fn at_load(fleet: &Fleet, load: f64) -> Result<Fleet, Failure> {
    if !(load > 0.0 && load.is_finite()) {
        return Err(Failure::usage(format!("--load is {}, must be positive and finite", exact(load))));
    }
    let offered = Load::of(fleet).map_err(Failure::usage)?;
    if !offered.middle().is_finite() {
        return Err(Failure::usage(
            "--load: a job type that arrives is on no server, so that no load can be scaled to",
        ));
    }
    let factor = load / offered.middle();
    if let Load::Between(low, high) = offered {
        note(&format!(
            "load {} is one between {} and {}: the largest load factor of a fleet with so many speeds per pair is known \
             between two bounds only",
            exact(load),
            short(low * factor),
            short(high * factor)
        ));
    }
    let rates = fleet.job_types().map(|l| fleet.arrival_rate(l).map_or(0.0, |rate| rate * factor)).collect();
    let sizes = fleet.job_types().map(|l| fleet.size(l)).collect();
    fleet.with_traffic(rates, sizes).map_err(Failure::usage)
}

/// Says something that is to be known besides the answer.
pub(crate) fn note(what: &str) {
    aside!("note: {what}");
}
