//! The law of the number of idle servers.

use shortline_sim::{PolicyReport, Simulation, Until};

use crate::fleets::{Sketch, assert_agree, assert_meets, fleet, policy};

fn simulate(sketch: Sketch, name: &str, lump: bool) -> PolicyReport {
    let simulation = Simulation::new(&sketch.build()).policy(policy(name)).seed(1).lump(lump).idle_of_fastest(1);
    simulation.until(Until::Events(1_000_000)).run().unwrap().policies.remove(0)
}

/// Goal: without buffers the busy servers of a complete fleet of one speed have Erlang's law, truncated Poisson. Method: both
/// counting engines, every probability within its interval widened to a false-alarm rate of 1e-4.
#[test]
fn idle_servers_of_a_loss_system_have_erlangs_law() {
    // Four servers of rate 1, jobs at 3/s: weights 3^k / k! of k busy ones.
    let weights = [1.0, 3.0, 4.5, 4.5, 3.375];
    let sum: f64 = weights.iter().sum();
    for lump in [false, true] {
        let report = simulate(fleet(&[(1.0, 1, 4)], &[3.0]).buffer(1), "jsq", lump);
        let idle = report.means.unwrap().idle_servers.unwrap();
        assert_eq!((idle.server_types, idle.servers, idle.at_least.len()), (1, 4, 4));
        for i in 1..=4 {
            let exact = weights[..=4 - i].iter().sum::<f64>() / sum;
            assert_meets(Some(idle.at_least[i - 1]), exact, &format!("P(idle >= {i}), lumped: {lump}"));
        }
    }
}

/// Goal: the law's mean is what utilisation says, with slots, slower servers and a line in front beside them. Method: two
/// estimates of one run, each within the other's interval as [`assert_agree`] widens them.
#[test]
fn the_mean_number_of_idle_servers_is_what_utilisation_says() {
    let two_speeds = || fleet(&[(1.0, 1, 6), (0.25, 1, 4)], &[2.0, 2.5]);
    for (sketch, name, lump) in [
        (two_speeds().buffer(3), "jfsq", true),
        (two_speeds().buffer(3), "jfsq", false),
        (two_speeds().waits(None, None), "central", false),
    ] {
        let means = simulate(sketch, name, lump).means.unwrap();
        let utilisation = means.per_server_type[0].utilisation.unwrap();
        let busy = means.idle_servers.unwrap().mean.unwrap();
        let busy = shortline_sim::Estimate { mean: 6.0 - busy.mean, ci95: [6.0 - busy.ci95[1], 6.0 - busy.ci95[0]] };
        assert_agree(Some(busy), Some(utilisation.scaled(6.0)), &format!("{name}, lumped: {lump}"));
    }
}

#[test]
fn nothing_is_counted_unless_asked_for() {
    let fleet = fleet(&[(1.0, 1, 2)], &[1.0]).build();
    let report = Simulation::new(&fleet).policy(policy("jsq")).until(Until::Events(400_000)).run().unwrap();
    assert_eq!(report.policies[0].means.as_ref().unwrap().idle_servers, None);
}
