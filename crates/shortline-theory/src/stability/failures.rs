//! Servers that fail: the capacity that is left in the long run.
//!
//! A server that is up for exponential times of mean `u` and down for times of mean `d` is up a share `A = u / (u + d)` of the time
//! (renewal reward), whatever it does meanwhile, and does at most `A c_r` work per second, `c_r` its full capacity. A policy
//! that serves every job exists only if `sum_{l in S} lambda_l e_l < A c(N(S))` for every set `S` of job types, and then exists
//! where jobs may wait in front: the condition of the [module above](super) with `A s*` in the place of `s*`. `A` is one for all servers,
//! so that the fleet with arrival rates `lambda_l / A` and servers that never fail has the same factor, the same bottleneck, the same
//! slacks and losses.
//!
//! One server (M/M/1 with breakdowns; Avi-Itzhak and Naor, 1963): stable if and only if `lambda < mu A`.
//!
//! **Without lines in front** a job that finds all its servers down is lost, and what is accepted may be carried beyond: of one
//! server, whenever `lambda < mu`. **Listed failures** (`events`) happen once: what counts in the long run is the state that the last
//! of them leaves.

use shortline_core::Fleet;
use shortline_core::fleet::settings::Failures;

/// `A`: the long-run share of the time that a server is up; 1 without `[failures]`, and where they are listed.
///
/// ```
/// # use shortline_core::{Fleet, fleet::*, fleet::settings::Failures, graph::Edges};
/// use shortline_theory::stability::{analyse, availability, under_failures};
/// # let settings = Settings { failures: Some(Failures::Random { mean_up_s: 9.0, mean_down_s: 3.0 }), ..Settings::default() };
/// # let fleet = Fleet::new(FleetParts {
/// #     name: String::new(),
/// #     server_types: vec![ServerTypeParts { name: "A10".into(), speed: Speed::Rate(1.0), slots: 1 }],
/// #     servers: vec![ServerParts { names: Names { base: "gpu".into(), count: None }, server_type: 0, buffer: None, addresses: vec![] }],
/// #     job_types: vec![JobTypeParts { names: Names { base: "m".into(), count: None }, arrivals: ArrivalRates::Each(0.5), size: 1.0 }],
/// #     rates: vec![], edges: Edges::Complete, settings,
/// # })?;
/// // One server of rate 1, up for 9 s and down for 3 s in the mean; jobs at 0.5/s.
/// assert!((availability(&fleet) - 0.75).abs() < 1e-12);
/// assert!((analyse(&under_failures(&fleet))?.max_load_factor - 1.5).abs() < 1e-12, "not 2");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn availability(fleet: &Fleet) -> f64 {
    match fleet.settings().failures {
        Some(Failures::Random { mean_up_s, mean_down_s }) => mean_up_s / (mean_up_s + mean_down_s),
        Some(Failures::Events(_)) | None => 1.0,
    }
}

/// A fleet whose servers never fail with the load factor that this one has in the long run: arrival rates over [`availability`].
/// The same fleet where that is 1, or where rates are missing.
#[must_use]
pub fn under_failures(fleet: &Fleet) -> Fleet {
    let available = availability(fleet);
    let rates: Option<Vec<f64>> =
        fleet.job_types().map(|l| fleet.arrival_rate(l).map(|rate| rate / available)).collect();
    let sizes = fleet.job_types().map(|l| fleet.size(l)).collect();
    match rates {
        // Rates that are beyond all numbers then stay as they are.
        Some(rates) if available < 1.0 => fleet.with_traffic(rates, sizes).unwrap_or_else(|_| fleet.clone()),
        _ => fleet.clone(),
    }
}

/// How many servers stay down after the last of listed failures; 0 where failures are not listed.
#[must_use]
pub fn down_in_the_end(fleet: &Fleet) -> usize {
    let Some(Failures::Events(events)) = &fleet.settings().failures else { return 0 };
    let mut is_up = vec![true; fleet.server_count()];
    events.iter().for_each(|event| is_up[event.server] = event.up);
    is_up.iter().filter(|&&up| !up).count()
}
