//! The mean field against simulation, at 4,096 servers on a complete graph, in time and in the long run.
//!
//! Goal: figures of the simulator and of the limit agree within 3 standard errors of the simulation and 2/N relative, what a
//! fleet of N servers differs from its limit by. Method: independent runs, seed 7, standard errors from the 95 % interval of
//! Student (16 replications: 2.131 standard errors). False-alarm probability: 0.9 % per figure if the limit were exact, were
//! the seed free; the figures of a policy depend on each other. 9 runs, about 8 figures each.
//!
//! Not here: `jfsq` and `jfiq` where a class is kept busy all the time in the limit, for a few of its servers are idle
//! whatever N: about `g_m / (Lambda - g_m)` of the classes up to `m`, which is more than 2 (2.5 at load 0.7).

use shortline_sim::Estimate;
use shortline_theory::mean_field::MeanField;

use crate::fleets::{fleet, policy, simulate};

/// Events per run.
const EVENTS: u64 = 4_000_000;
const SERVERS: f64 = 4096.0;

fn assert_meets(estimate: Option<Estimate>, limit: f64, what: &str) {
    let estimate = estimate.unwrap();
    let standard_error = 0.5 * (estimate.ci95[1] - estimate.ci95[0]) / 2.1314;
    let off = (estimate.mean - limit).abs();
    let allowed = 3.0 * standard_error + 2.0 / SERVERS * limit.abs();
    assert!(off <= allowed, "{what}: simulated {} +- {standard_error}, limit {limit}", estimate.mean);
    assert!(standard_error <= 0.01 * limit.max(0.01), "{what}: {standard_error} says nothing about {limit}");
}

/// Speeds 1, 1/2, 1/4 in shares 1/4, 1/4, 1/2; five places a server.
fn three_speeds(load: f64) -> crate::fleets::Sketch {
    fleet(&[(1.0, 1, 1024), (0.5, 1, 1024), (0.25, 1, 2048)], &[2048.0 * load]).buffer(5)
}

#[test]
fn a_fleet_of_4096_servers_is_at_its_limit() {
    for (name, load) in [
        ("random", 0.9),
        ("jsq(2)", 0.9),
        ("jfsq(2)", 0.9),
        ("jfsq(2)", 0.7),
        ("jsq", 0.8),
        ("jfsq", 0.45),
        ("jiq", 0.8),
        ("jfiq", 1.3),
        ("jsq", 1.3),
    ] {
        let fleet = three_speeds(load).build();
        let limit = MeanField::new(&fleet, policy(name)).unwrap().fixed_point().unwrap();
        let report = simulate(&fleet, name, EVENTS);
        let means = report.means.unwrap();
        let what = |figure: &str| format!("{name} at {load}: {figure}");
        assert_meets(means.mean_response_s, limit.mean_response_s, &what("response"));
        assert_meets(means.mean_jobs, limit.mean_jobs, &what("jobs"));
        if limit.blocking_probability > 1e-4 {
            assert_meets(means.blocking_probability, limit.blocking_probability, &what("blocking"));
        }
        if limit.fraction_waiting > 1e-2 {
            assert_meets(means.fraction_waiting, limit.fraction_waiting, &what("waiting"));
        }
        for (simulated, limit) in means.per_server_type.iter().zip(&limit.per_class) {
            if limit.utilisation > 0.0 {
                assert_meets(
                    simulated.utilisation,
                    limit.utilisation,
                    &what(&format!("utilisation of {}", simulated.name)),
                );
                assert_meets(simulated.mean_jobs, limit.mean_jobs, &what(&format!("jobs of {}", simulated.name)));
            }
        }
    }
}
