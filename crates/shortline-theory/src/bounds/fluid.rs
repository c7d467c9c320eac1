//! The fluid bound: `th` jobs per second keep at least `L*(th)` servers busy, the fastest first.
//!
//! With servers in the order of their rates `mu_1 >= mu_2 >= ...`, `g_K` the first sum of rates of whole speed classes
//! that reaches `th`, and `n_K` the servers in it: `L*(th) = n_(K-1) + (th - g_(K-1)) / mu_K`, and `T >= L*(th) / th`.
//!
//! In a fleet of product form (a server's speed does not depend on the job type, sizes may) the same holds for work:
//! `th` jobs per second are at least `W(th)` units of work per second, those of the smallest jobs, and `L*` is the
//! fewest slots, the fastest first, that do so much. In other fleets each server counts with its best rate over the job
//! types it holds.
//!
//! Holds for any size distribution. Without losses `th = Lambda`. Infinite when `Lambda` exceeds the sum of all rates.
//! `O(N log N)` and one pass over the edges. Source: W. Weng, X. Zhou, R. Srikant (2020), Proposition 1.

use shortline_core::Fleet;

use super::{
    Bound, BoundKind, BusySlots, LeastWork, Validity, check_throughput, validity_at_throughput, validity_of_means,
};
use crate::TheoryError;
use crate::reduced::{Reduced, Speeds};

/// The fluid bound of a fleet as a function of the throughput. See [`fluid`].
#[derive(Clone, Debug)]
pub struct FluidBound {
    arrivals: f64,
    /// Busy slots by what they do per second: work with product form, else jobs.
    busy: BusySlots,
    work: Option<LeastWork>,
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
        let is_product = matches!(reduced.speeds, Speeds::Product(_));
        let classes = if is_product { reduced.slots_by_speed() } else { reduced.slots_fastest_first() };
        for (speed, slots) in classes {
            busy.push(speed * slots, speed);
        }
        Ok(Self {
            arrivals: reduced.arrivals(),
            busy,
            work: is_product.then(|| LeastWork::new(&reduced)),
            without_losses: validity_of_means(fleet),
            at_throughput: validity_at_throughput(fleet),
        })
    }

    /// The bound if no job is lost.
    #[must_use]
    pub fn without_losses(&self) -> Bound {
        let busy = self.busy.at(self.to_be_done(self.arrivals)).unwrap_or(f64::INFINITY);
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
        let busy = self.busy.at(self.to_be_done(throughput)).unwrap_or(self.busy.most().1);
        let throughput = if self.work.is_some() { throughput } else { throughput.min(self.busy.most().0) };
        Ok(Bound::new(BoundKind::Fluid, throughput, busy, self.at_throughput))
    }

    /// What the slots do per second at this throughput.
    fn to_be_done(&self, throughput: f64) -> f64 {
        self.work.as_ref().map_or(throughput, |work| work.of(throughput))
    }
}
