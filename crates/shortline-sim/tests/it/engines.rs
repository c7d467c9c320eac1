//! The engines agree with each other.

use std::sync::Arc;

use shortline_core::Fleet;
use shortline_sim::{Engine, Means, Simulation, Until};

use crate::fleets::{assert_agree, assert_same_figures, fleet, policy};

fn means(fleet: &Arc<Fleet>, name: &str, lump: bool, seed: u64) -> (Engine, Means) {
    let simulation = Simulation::new(fleet).policy(policy(name)).seed(seed).lump(lump).until(Until::Events(3_000_000));
    let report = simulation.run().unwrap().policies.remove(0);
    (report.engine, report.means.unwrap())
}

fn assert_same_law(fleet: &Arc<Fleet>, name: &str) {
    let ((lumped, a), (markov, b)) = (means(fleet, name, true, 3), means(fleet, name, false, 4));
    assert_eq!((lumped, markov), (Engine::Lumped, Engine::Markov));
    assert_same_figures(&a, &b, name);
}

/// 3 fleets, 9 policies, 10 figures each, two seeds: false-alarm probability about 1e-3 a figure were the seeds free.
#[test]
fn lumped_counts_have_the_law_of_the_dispatcher() {
    let sketches = [
        fleet(&[(2.0, 1, 2), (1.0, 1, 3), (0.5, 1, 2)], &[3.0, 3.0]).buffer(4),
        fleet(&[(1.0, 2, 3), (1.5, 1, 2)], &[6.0]).buffer(5),
        fleet(&[(1.0, 3, 4)], &[9.0]),
    ];
    for fleet in sketches.map(crate::fleets::Sketch::build) {
        for name in ["random", "jsq", "jfsq", "jiq", "jfiq", "jsq(2)", "jfsq(3)", "sed", "nq"] {
            assert_same_law(&fleet, name);
        }
    }
}

/// Servers of one type with one slot have a loop of their own; more of them than 2,000, ticks of their own. 3 fleets, 6
/// policies, 10 figures each, two seeds: false-alarm probability as above.
#[test]
fn equal_servers_have_the_law_of_the_dispatcher() {
    let sketches = [
        fleet(&[(1.0, 1, 6)], &[2.0, 3.5]).buffer(3),
        fleet(&[(1.0, 1, 20)], &[16.0]),
        fleet(&[(2.0, 1, 2500)], &[2000.0, 2400.0]).buffer(12),
    ];
    for fleet in sketches.map(crate::fleets::Sketch::build) {
        for name in ["random", "jsq", "jsq(2)", "jfsq(3)", "sed", "nq"] {
            assert_same_law(&fleet, name);
        }
    }
}

/// Sizes that differ by one part in a million make the fleet follow each job; nothing else changes.
#[test]
fn followed_jobs_have_the_law_of_counts() {
    let sketch = || fleet(&[(2.0, 1, 2), (1.0, 1, 3)], &[1.5, 1.5, 1.5]).rows(&[&[0, 1, 2], &[1, 2, 3], &[0, 3, 4]]);
    let counted = sketch().build();
    let followed = sketch().sizes(&[1.0, 1.000_001, 1.0]).build();
    for name in ["jfsq", "jiq", "jsq(2)"] {
        let (a, b) = (means(&counted, name, true, 3).1, means(&followed, name, true, 4).1);
        assert_agree(a.mean_response_s, b.mean_response_s, name);
        assert_agree(a.mean_waiting_s, b.mean_waiting_s, name);
        assert_agree(a.p99_response_s, b.p99_response_s, name);
        assert_agree(a.mean_jobs, b.mean_jobs, name);
        let utilisation = |means: &Means| means.per_server_type[1].utilisation;
        assert_agree(utilisation(&a), utilisation(&b), name);
    }
}

/// A timeout that never comes makes the fleet follow each job; nothing else changes. 4 systems, 12 figures each, two seeds:
/// false-alarm probability about 1e-3 a figure were the seeds free.
#[test]
fn counted_lines_have_the_law_of_followed_ones() {
    let sketch = || fleet(&[(2.0, 1, 2), (0.7, 2, 2)], &[1.4, 1.6, 1.9]).rows(&[&[0, 1, 2], &[1, 2, 3], &[0, 3]]);
    let roomy = || sketch().buffer(4);
    for (name, sketch) in
        [("central", &sketch as &dyn Fn() -> _), ("jsq", &roomy), ("jfiq", &roomy), ("jsq(2)", &roomy)]
    {
        let (counted, followed) = (sketch().waits(Some(40), None).build(), sketch().waits(Some(40), Some(1e9)).build());
        let (a, b) = (means(&counted, name, true, 3).1, means(&followed, name, true, 4).1);
        assert_same_figures(&a, &b, name);
        assert_agree(a.p50_response_s, b.p50_response_s, name);
        assert_agree(a.p99_response_s, b.p99_response_s, name);
    }
}
