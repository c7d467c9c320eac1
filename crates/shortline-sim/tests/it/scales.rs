//! Times and rates of any size: seconds are nothing special.

use std::sync::Arc;

use shortline_core::Fleet;
use shortline_sim::Means;

use crate::fleets::{fleet, simulate};

fn means(fleet: &Arc<Fleet>, policy: &str) -> Means {
    simulate(fleet, policy, 200_000).means.unwrap()
}

/// Goal: a job that comes to an empty fleet every so many services has the response time of one. Method: the exact mean is
/// 1/10, the quantiles those of the exponential law, utilisation the load. From 200,000 events a median is known to 0.5 %, and
/// the others better: 2 % are four standard errors. 20 figures, false-alarm probability 2e-3 were the seed free.
#[test]
fn however_rare_jobs_are_their_times_are_right() {
    for load in [1e-3, 1e-9, 1e-20, 1e-300] {
        let fleet = fleet(&[(10.0, 1, 2)], &[20.0 * load]).build();
        let means = means(&fleet, "random");
        let near = |estimate: Option<shortline_sim::Estimate>, exact: f64, what: &str| {
            let estimate = estimate.unwrap();
            assert!(
                (estimate.mean / exact - 1.0).abs() < 0.02,
                "{what} at load {load:e}: {estimate:?}, exact {exact:e}"
            );
        };
        near(means.mean_response_s, 0.1, "mean response");
        near(means.p50_response_s, 0.1 * 2.0_f64.ln(), "median");
        near(means.p99_response_s, 0.1 * 100.0_f64.ln(), "99 %");
        near(means.per_server_type[0].utilisation, load, "utilisation");
        near(means.mean_jobs, 2.0 * load, "jobs");
    }
}

/// Rates that depend on the job type, so that response times are measured.
#[test]
fn the_unit_of_time_changes_the_unit_of_the_report_alone() {
    let in_unit = |unit_s: f64| {
        let rates = [(0, 0, 2.0 / unit_s), (1, 0, 1.0 / unit_s)];
        let fleet = fleet(&[(1.0 / unit_s, 1, 2)], &[0.8 / unit_s, 0.5 / unit_s]).pair_rates(&rates).build();
        let means = means(&fleet, "jsq");
        let times = [means.mean_response_s, means.p50_response_s, means.p99_response_s];
        times.map(|time| time.unwrap().mean / unit_s)
    };
    let seconds = in_unit(1.0);
    for unit_s in [1e-90, 1e-15, 1e15, 1e90] {
        let times = in_unit(unit_s);
        // Buckets of the quantiles lie elsewhere in every unit: 1 % more or less.
        let allowed = [1e-9, 0.03, 0.03];
        let alike = (0..3).all(|i| (seconds[i] / times[i] - 1.0).abs() < allowed[i]);
        assert!(alike, "{times:?} at {unit_s:e}, {seconds:?} at 1");
    }
}
