//! The fluid bound: `th` jobs per second keep at least `L*(th)` servers busy, the fastest first.
//!
//! With servers in the order of their rates `mu_1 >= mu_2 >= ...`, `g_K` the first sum of rates of whole speed classes
//! that reaches `th`, and `n_K` the servers in it: `L*(th) = n_(K-1) + (th - g_(K-1)) / mu_K`, and `T >= L*(th) / th`.
//! In a fleet that is not uniform each server counts with its best rate over the job types it holds.
//!
//! Holds for any size distribution. Without losses `th = Lambda`. Infinite when `Lambda` exceeds the sum of all rates.
//! `O(N log N)` and one pass over the edges. Source: W. Weng, X. Zhou, R. Srikant (2020), Proposition 1.

use shortline_core::Fleet;

use super::{Bound, BoundKind, BusySlots, Validity, check_throughput, validity_at_throughput, validity_of_means};
use crate::TheoryError;
use crate::reduced::Reduced;

/// The fluid bound of a fleet as a function of the throughput. See [`fluid`].
#[derive(Clone, Debug)]
pub struct FluidBound {
    arrivals: f64,
    busy: BusySlots,
    without_losses: Validity,
    at_throughput: Validity,
}

/// The fluid bound `L*(Lambda) / Lambda`; for fleets that lose jobs see [`FluidBound::at`].
///
/// ```
/// # use shortline_core::{Fleet, fleet::*, graph::Edges};
/// // One server of rate 1 and one of rate 1/4; 1.1 jobs per second.
/// # let server_type = |name: &str, rate| ServerTypeParts { name: name.into(), speed: Speed::Rate(rate), slots: 1 };
/// # let server = |name: &str, server_type| ServerParts { names: Names { base: name.into(), count: None }, server_type, buffer: None, addresses: vec![] };
/// # let fleet = Fleet::new(FleetParts {
/// #     name: String::new(),
/// #     server_types: vec![server_type("fast", 1.0), server_type("slow", 0.25)],
/// #     servers: vec![server("a", 0), server("b", 1)],
/// #     job_types: vec![JobTypeParts { names: Names { base: "m".into(), count: None }, arrivals: ArrivalRates::Each(1.1), size: 1.0 }],
/// #     rates: vec![], edges: Edges::Complete, settings: Settings::default(),
/// # })?;
/// let bound = shortline_theory::bounds::fluid(&fleet)?;
/// assert!((bound.mean_jobs - 1.4).abs() < 1e-12, "the fast server busy, the slow one 0.1 / 0.25 of the time");
/// assert!(bound.is_valid());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If rates are missing or all 0, or no server holds a job type.
pub fn fluid(fleet: &Fleet) -> Result<Bound, TheoryError> {
    Ok(FluidBound::new(fleet)?.without_losses())
}

impl FluidBound {
    /// # Errors
    /// If rates are missing or all 0, or no server holds a job type.
    pub fn new(fleet: &Fleet) -> Result<Self, TheoryError> {
        let reduced = Reduced::new(fleet)?;
        let mut busy = BusySlots::default();
        for (rate, slots) in reduced.slots_fastest_first() {
            busy.push(rate * slots, rate);
        }
        Ok(Self {
            arrivals: reduced.arrivals(),
            busy,
            without_losses: validity_of_means(fleet),
            at_throughput: validity_at_throughput(fleet),
        })
    }

    /// The bound if no job is lost.
    #[must_use]
    pub fn without_losses(&self) -> Bound {
        let busy = self.busy.at(self.arrivals).unwrap_or(f64::INFINITY);
        Bound::new(BoundKind::Fluid, self.arrivals, busy, self.without_losses)
    }

    /// The bound at accepted throughput `throughput_per_s`. Beyond what arrives or what the servers can do (an
    /// estimate may be) it is the bound at the largest throughput that is possible.
    ///
    /// # Errors
    /// If the throughput is not positive and finite.
    pub fn at(&self, throughput_per_s: f64) -> Result<Bound, TheoryError> {
        check_throughput(throughput_per_s)?;
        let throughput = throughput_per_s.min(self.arrivals);
        let busy = self.busy.at(throughput).unwrap_or(self.busy.most().1);
        let throughput = throughput.min(self.busy.most().0);
        Ok(Bound::new(BoundKind::Fluid, throughput, busy, self.at_throughput))
    }
}
