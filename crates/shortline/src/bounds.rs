//! The theory handed to commands that know none: the load and the bound of traffic that was measured or is sent.

use std::sync::Arc;

use shortline_core::{Fleet, JobTypeId};
use shortline_gateway::replay::{self, Offered};
use shortline_theory::{bounds, stability};

/// The offered load of traffic on the fleet; NaN if it has none (nothing arrives, or rates are missing).
pub(crate) fn load_of(fleet: &Fleet, offered: &Offered) -> f64 {
    under(fleet, offered).and_then(|fleet| stability::offered_load(&fleet).ok()).unwrap_or(f64::NAN)
}

/// The fluid bound on the mean response time of traffic on the fleet, in the fleet file's seconds. `None` where the
/// traffic is more than the fleet can serve, or nothing arrives.
pub(crate) fn fluid(fleet: &Fleet, offered: &Offered) -> Option<replay::Bound> {
    let bound = bounds::fluid(&under(fleet, offered)?).ok()?;
    let mean_response_s = Some(bound.mean_response_s).filter(|mean| mean.is_finite())?;
    Some(replay::Bound { kind: bound.kind.name(), mean_response_s })
}

/// The same for a running gateway with measured arrival rates, in real seconds: a second of the file lasts
/// `time_scale` of them.
pub(crate) fn for_gateway(time_scale: f64) -> shortline_gateway::BoundFn {
    Arc::new(move |fleet, measured_per_s| {
        let offered = Offered {
            rates_per_s: measured_per_s.iter().map(|rate| rate * time_scale).collect(),
            sizes: fleet.job_types().map(|l| fleet.size(l)).collect(),
        };
        let bound = fluid(fleet, &offered)?;
        Some(shortline_gateway::Bound {
            kind: bound.kind.to_owned(),
            mean_response_s: bound.mean_response_s * time_scale,
        })
    })
}

/// The fleet under this traffic; job types without any keep their size.
fn under(fleet: &Fleet, offered: &Offered) -> Option<Fleet> {
    let size = |(l, &size): (usize, &f64)| if size > 0.0 { size } else { fleet.size(JobTypeId::new(l)) };
    let sizes = offered.sizes.iter().enumerate().map(size).collect();
    fleet.with_traffic(offered.rates_per_s.clone(), sizes).ok()
}
