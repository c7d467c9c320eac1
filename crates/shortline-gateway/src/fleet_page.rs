//! `/fleet`: the fleet in service as the text of a fleet file, with the traffic that was measured, so that `shortline
//! check` and `simulate` answer for what is going on instead of for what was once written down.
//!
//! Each job type that has been measured for a second has its measured arrival rate, a mean weighted by `e^(-age / 30 s)`, in
//! the file's seconds and to six digits; the others have the file's. Mean sizes of job types and rates of server types are
//! those of [`service_times`](crate::service_times), since this fleet is in service, where enough jobs have found a free
//! slot; the others are the file's.

use shortline_core::JobTypeId;
use shortline_core::fleet::{ArrivalRates, FleetParts, JobTypeParts, Names, Speed};

use crate::epoch::Epoch;
use crate::gateway::Gateway;
use crate::service_times::Fitted;

/// The file. O(servers + job types + edges).
pub(crate) fn page(gateway: &Gateway) -> String {
    let epoch = gateway.dispatch.epoch();
    let mut parts = epoch.fleet.to_parts();
    parts.settings.policy = Some(epoch.policy);
    let by_pair = !parts.rates.is_empty();
    let fitted = epoch.service_times.fit(&epoch.fleet, gateway.time_scale, by_pair).unwrap_or_default();
    let measured = measure(&mut parts, &epoch, &fitted, gateway.time_scale);
    let (all, uptime_s) = (epoch.job_types().len(), gateway.started.elapsed().as_secs());
    let known = |values: &[Option<f64>]| values.iter().flatten().count();
    let note = format!(
        "# The fleet as it is served, {uptime_s} s after the start. Measured: {measured} of {all} arrival rates; {} of {all} \
         sizes (standard error at most {:.2} %) and {} of {} speeds, from {} jobs that found a free slot. The rest is as \
         written.",
        known(&fitted.sizes),
        fitted.error * 100.0,
        known(&fitted.rates),
        epoch.fleet.server_type_count(),
        fitted.jobs,
    );
    format!("{note}\n\n{}", parts.to_toml())
}

/// Puts what was measured in; how many arrival rates that are.
fn measure(parts: &mut FleetParts, epoch: &Epoch, fitted: &Fitted, time_scale: f64) -> usize {
    for (server_type, rate) in parts.server_types.iter_mut().zip(&fitted.rates) {
        if let Some(rate) = rate {
            server_type.speed = Speed::Rate(six_digits(*rate));
        }
    }
    let rates: Vec<Option<f64>> = epoch.job_types().iter().map(|job_type| job_type.measured_rate()).collect();
    let measured = rates.iter().flatten().count();
    if measured == 0 && fitted.sizes.iter().all(Option::is_none) {
        return 0;
    }
    let job_type = |(l, rate): (usize, Option<f64>)| {
        let id = JobTypeId::new(l);
        let rate = rate.map(|per_s| six_digits(per_s * time_scale)).or_else(|| epoch.fleet.arrival_rate(id));
        let size = fitted.sizes.get(l).copied().flatten().map(six_digits);
        JobTypeParts {
            names: Names { base: epoch.job_type(id).name().to_owned(), count: None },
            arrivals: rate.map_or(ArrivalRates::Unknown, ArrivalRates::Each),
            size: size.unwrap_or_else(|| epoch.fleet.size(id)),
        }
    };
    parts.job_types = rates.into_iter().enumerate().map(job_type).collect();
    measured
}

/// More would claim to know better than a count of half a minute does.
fn six_digits(value: f64) -> f64 {
    format!("{value:.5e}").parse().expect("a number that was just written")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_digits_are_kept_whatever_the_size() {
        for (value, kept) in [(0.0, 0.0), (123_456.7, 123_457.0), (1.234_567_8e-9, 1.234_57e-9), (3.2, 3.2)] {
            assert!((six_digits(value) - kept).abs() <= 1e-15 * kept, "{value}");
        }
    }
}
