//! The 95 % intervals hold the true value about 95 times in 100, in short runs too.
//!
//! `examples/coverage.rs` measures more of this; `benches/README.md` has its figures.

use shortline_sim::{Estimate, Simulation, Until};

use crate::fleets::{fleet, policy};

/// Goal: intervals of short runs cover. Method: M/M/1 at load 0.9, 20,000 counted events (32 replications of one relaxation
/// time each), 600 seeds: 93.9 % covered (of 2,000 other seeds), so that 37 misses are expected, standard deviation 6, and
/// 56 are allowed: false-alarm probability 1e-3 were the seeds free. Student's interval of the replications' means misses
/// 69 times.
#[test]
fn intervals_of_short_runs_hold_the_true_value() {
    let fleet = fleet(&[(1.0, 1, 1)], &[0.9]).build();
    let simulation = |seed| Simulation::new(&fleet).policy(policy("jsq")).seed(seed).until(Until::Events(20_000));
    let estimate = |seed: u64| -> Estimate {
        let report = simulation(seed).run().unwrap().policies.remove(0);
        report.means.unwrap().mean_response_s.unwrap()
    };
    let (mut low, mut high) = (0, 0);
    for seed in 0..600 {
        let [from, to] = estimate(seed).ci95;
        low += u32::from(to < 10.0);
        high += u32::from(from > 10.0);
    }
    assert!(low + high <= 56, "{low} intervals below the true value, {high} above");
    assert!(low + high >= 15, "the intervals are too wide to be 95 % ones: {low} and {high} misses");
}
