//! `split` with the shares of the flow at the largest load: stable wherever some policy is, no server busier than 1/s*.

use shortline_sim::{Simulation, SimulationError, Until};
use shortline_theory::stability;

use crate::fleets::{fleet, policy, with_split_shares};
use crate::growth::{at_load, random_fleet};

/// False alarms of the drift test: at most 1e-5 a look, some ten looks a run.
#[test]
fn below_the_largest_load_it_is_stable_and_above_it_is_not() {
    for seed in 0..10 {
        let fleet = with_split_shares(&random_fleet(seed));
        assert!(!at_load(&fleet, "split", 0.9).unstable, "fleet {seed} at 0.9 of its largest load");
        assert!(at_load(&fleet, "split", 1.1).unstable, "fleet {seed} at 1.1 of its largest load");
    }
}

/// Utilisation is an average over the servers of a type; each type here has one server. It may exceed 1/s* by five
/// standard errors (95 % half-width 2.04 standard errors): false-alarm probability below 1e-4 per server.
#[test]
fn no_server_is_busier_than_the_reciprocal_of_the_largest_load_factor() {
    let servers: Vec<(f64, u32, u32)> = [1.0, 0.9, 0.7, 0.4, 0.3].map(|rate| (rate, 1, 1)).to_vec();
    let rows: &[&[u32]] = &[&[0, 1], &[1, 2, 4], &[0, 3], &[2, 3, 4], &[4]];
    let fleet = with_split_shares(&fleet(&servers, &[0.5, 0.6, 0.3, 0.4, 0.1]).rows(rows).build());
    let largest = 1.0 / stability::analyse(&fleet).unwrap().max_load_factor;
    assert!(largest < 0.95, "the fleet is stable: {largest}");
    let simulation = Simulation::new(&fleet).policy(policy("split")).seed(3).until(Until::Events(20_000_000));
    let means = simulation.run().unwrap().policies.remove(0).means.unwrap();
    let busiest = means.per_server_type.iter().map(|server| {
        let utilisation = server.utilisation.unwrap();
        let standard_error = (utilisation.mean - utilisation.ci95[0]) / 2.04;
        assert!(utilisation.mean < largest + 5.0 * standard_error, "{}: {}", server.name, utilisation.mean);
        utilisation.mean
    });
    let busiest = busiest.fold(0.0, f64::max);
    assert!((busiest - largest).abs() < 0.01, "the bottleneck is as busy as it has to be: {busiest}, {largest}");
}

#[test]
fn without_shares_it_is_refused() {
    let fleet = fleet(&[(1.0, 1, 2)], &[0.5]).build();
    let refused = Simulation::new(&fleet).policy(policy("split")).run().unwrap_err();
    assert!(matches!(refused, SimulationError::Policy(_)) && refused.to_string().contains("share"), "{refused}");
}
