//! Exponential sizes: what the Markov engines say.
//!
//! 12 fleets, 10 figures each: false-alarm probability about 1e-3 a figure were the two seeds free.

use std::sync::Arc;

use shortline_core::Fleet;
use shortline_core::graph::Edges;
use shortline_sim::{Engine, Means, Simulation, Until};

use crate::fleets::{assert_same_figures, fleet, policy};

fn report(fleet: &Arc<Fleet>, name: &str, calendar: bool) -> (Engine, Means) {
    let simulation = Simulation::new(fleet).policy(policy(name)).seed(if calendar { 4 } else { 3 });
    let simulation = if calendar { simulation.calendar(true) } else { simulation };
    let report = simulation.until(Until::Events(800_000)).run().unwrap().policies.remove(0);
    (report.engine, report.means.unwrap())
}

#[test]
fn exponential_sizes_give_what_the_markov_engines_give() {
    let rows: &[&[u32]] = &[&[0, 1, 2], &[1, 2, 3], &[0, 3]];
    let mixed = || fleet(&[(2.0, 1, 2), (0.7, 2, 2)], &[1.4, 1.6, 1.2]).rows(rows);
    let sampled = || Edges::from_rows((0..20_u32).map(|l| [l % 10, (3 * l + 1) % 10, (7 * l + 5) % 10].map(|r| r)));
    let systems = [
        ("jsq", fleet(&[(1.0, 1, 4)], &[3.2])),
        ("jfsq", fleet(&[(1.0, 1, 2), (0.5, 1, 3)], &[1.2, 1.3]).buffer(5)),
        ("jiq", mixed()),
        ("jfiq", mixed().buffer(3)),
        ("sed", mixed().waits(Some(6), None).buffer(3)),
        ("nq", mixed().waits(Some(9), Some(1.5)).buffer(2)),
        ("central", mixed()),
        ("central", fleet(&[(1.0, 3, 2), (2.0, 1, 1)], &[2.0, 4.0]).waits(None, Some(2.0))),
        ("jsq(2)", fleet(&[(1.0, 1, 10)], &[0.4; 20]).edges(sampled())),
        ("jsq(1,1)", fleet(&[(2.0, 1, 3), (1.0, 1, 3)], &[6.0])),
        ("random", fleet(&[(1.0, 4, 2)], &[5.0]).buffer(7)),
        ("jfsq", mixed().pair_rates(&[(0, 1, 1.1), (2, 0, 0.9)]).sizes(&[1.0, 0.8, 1.3])),
    ];
    for (name, sketch) in systems {
        let fleet = sketch.build();
        let ((engine, a), (calendar, b)) = (report(&fleet, name, false), report(&fleet, name, true));
        assert!(engine != Engine::Calendar && calendar == Engine::Calendar);
        assert_same_figures(&a, &b, &format!("{name} on {}", fleet.server_count()));
    }
}
