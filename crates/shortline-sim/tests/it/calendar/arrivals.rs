//! Patterns of the day.

use shortline_core::fleet::settings::Arrivals;
use shortline_sim::{Simulation, Unobserved};

use super::means;
use crate::fleets::{assert_meets, fleet, policy};

/// Without waiting, `m' = lambda(t) - m` at unit rate: between the changes of the factor a relaxation to it.
#[test]
fn jobs_follow_the_pattern_from_its_beginning() {
    let pattern = vec![(0.0, 0.5), (1.0, 2.0)];
    let fleet = fleet(&[(1.0, 60, 1)], &[8.0]).settings(|s| s.arrivals = Arrivals::Piecewise(pattern)).build();
    let times = [0.5, 1.0, 1.5, 2.0, 3.0, 4.5];
    let simulation = Simulation::new(&fleet).policy(policy("jsq")).seed(5);
    let filling = simulation.trajectory(&times, 4000, &Unobserved).unwrap();
    let mut exact = 0.0;
    let mut now_s = 0.0;
    for (point, time_s) in filling.trajectories[0].points.iter().zip(times) {
        while now_s < time_s {
            let next_s = time_s.min(now_s.floor() + 1.0);
            let level = if now_s.floor() % 2.0 < 0.5 { 4.0 } else { 16.0 };
            exact = level + (exact - level) * (now_s - next_s).exp();
            now_s = next_s;
        }
        assert_meets(point.mean_jobs, exact, &format!("at {time_s} s"));
    }
}

/// A pattern that is long against the services, half of the time at each factor, is two M/M/1 queues; arrivals see each in
/// proportion to its factor. Off by O(1 / length of the pattern): 2 % allowed.
#[test]
fn a_slow_pattern_is_a_mixture_of_stationary_queues() {
    let pattern = vec![(0.0, 0.5), (2000.0, 1.5)];
    let fleet = fleet(&[(1.0, 1, 1)], &[0.4]).settings(|s| s.arrivals = Arrivals::Piecewise(pattern)).build();
    let means = means(&fleet, "jsq", 3_000_000);
    let exact = 0.25 / (1.0 - 0.2) + 0.75 / (1.0 - 0.6);
    let mean = means.mean_response_s.unwrap().mean;
    assert!((mean / exact - 1.0).abs() < 0.02, "{mean} instead of {exact}");
    assert_meets(means.throughput_per_s, 0.4, "throughput");
}
