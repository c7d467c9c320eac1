//! Processor sharing: only the mean size matters (Kleinrock, 1967; Cohen, 1979), whatever the law.

use shortline_core::fleet::settings::Discipline;

use super::{LAWS, means};
use crate::fleets::{assert_meets, fleet};

#[test]
fn an_mg1_queue_that_shares_responds_as_if_sizes_were_exponential() {
    let rho = 0.7;
    for (law, _) in LAWS {
        let sketch = fleet(&[(2.0, 1, 1)], &[rho]).sizes(&[2.0]);
        let fleet = sketch
            .settings(|settings| {
                settings.service.law = law;
                settings.service.discipline = Discipline::ProcessorSharing;
            })
            .build();
        let means = means(&fleet, "jsq", 1_000_000);
        assert_meets(means.mean_response_s, 1.0 / (1.0 - rho), &format!("{law:?}: response"));
        assert_meets(means.mean_jobs, rho / (1.0 - rho), &format!("{law:?}: jobs"));
        assert_meets(means.fraction_waiting, 0.0, &format!("{law:?}: nobody waits"));
        let occupancy = &means.per_server_type[0].occupancy;
        for (i, &share) in occupancy.iter().take(5).enumerate() {
            let exact = rho.powi(i as i32 + 1);
            assert!((share / exact - 1.0).abs() < 0.07, "{law:?}: {share} have {} jobs, {exact} expected", i + 1);
        }
    }
}

/// `n` jobs at `c` slots are served like those of M/M/c: as many are there in the mean, whatever the law.
#[test]
fn jobs_that_share_slots_are_as_many_as_in_mmc() {
    let (c, a) = (4_u32, 3.2);
    let erlang_b = (1..=c).fold(1.0, |b, k| a * b / (f64::from(k) + a * b));
    let waits = erlang_b / (1.0 - a / f64::from(c) * (1.0 - erlang_b));
    let jobs = a + waits * a / (f64::from(c) - a);
    for (law, _) in LAWS {
        let fleet = fleet(&[(1.0, c, 1)], &[a])
            .settings(|settings| {
                settings.service.law = law;
                settings.service.discipline = Discipline::ProcessorSharing;
            })
            .build();
        assert_meets(means(&fleet, "jsq", 800_000).mean_jobs, jobs, &format!("{law:?}"));
    }
}
