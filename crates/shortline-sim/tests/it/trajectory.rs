//! From the empty fleet on: trajectories against closed forms.
//!
//! Each comparison is of a mean of independent replications with known variance, allowed five standard errors: a false
//! alarm in 6e-7 of the comparisons, were the seeds free. 36 of them here.

use shortline_sim::{Estimate, Simulation, SimulationError, Trajectories, Unobserved};

use crate::fleets::{Sketch, fleet, policy};

const REPLICATIONS: usize = 4_000;
const TIMES_S: [f64; 9] = [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 6.4];

fn trajectory(sketch: Sketch, name: &str, threads: usize) -> Trajectories {
    let simulation = Simulation::new(&sketch.build()).policy(policy(name)).seed(11).threads(threads);
    simulation.trajectory(&TIMES_S, REPLICATIONS, &Unobserved).unwrap()
}

fn assert_is(estimate: Option<Estimate>, exact: f64, variance: f64, at_s: f64) {
    let estimate = estimate.unwrap();
    let allowed = 5.0 * (variance / REPLICATIONS as f64).sqrt();
    assert!((estimate.mean - exact).abs() < allowed, "at {at_s} s: {} instead of {exact} +- {allowed}", estimate.mean);
    assert!(estimate.ci95[0] <= estimate.mean && estimate.mean <= estimate.ci95[1]);
}

/// One server without room to wait: busy with probability `rho / (1 + rho) (1 - e^{-(lambda + mu) t})`.
#[test]
fn one_server_with_room_for_one_fills_as_the_closed_form_says() {
    let (lambda, mu) = (1.5, 0.8);
    let filling = trajectory(fleet(&[(mu, 1, 1)], &[lambda]).buffer(1), "jsq", 1);
    for moment in &filling.trajectories[0].points {
        let busy = lambda / (lambda + mu) * (1.0 - (-(lambda + mu) * moment.time_s).exp());
        assert_is(moment.mean_jobs, busy, busy * (1.0 - busy), moment.time_s);
        assert_is(moment.per_server_type[0].occupancy[0], busy, busy * (1.0 - busy), moment.time_s);
    }
}

/// 64 slots are as good as infinitely many: Poisson with mean `rho (1 - e^{-mu t})`. The law does not depend on the
/// policy, nor on which of two equal servers has the jobs.
#[test]
fn many_slots_fill_like_infinitely_many() {
    for name in ["random", "central"] {
        let filling = trajectory(fleet(&[(0.7, 32, 2)], &[2.0, 1.0]), name, 2);
        for moment in &filling.trajectories[0].points {
            let mean = 3.0 / 0.7 * (1.0 - (-0.7 * moment.time_s).exp());
            assert_is(moment.mean_jobs, mean, mean, moment.time_s);
        }
    }
}

/// Jobs that wait in front are in the mean: without a free slot nobody is at a server.
#[test]
fn jobs_that_wait_in_front_are_counted() {
    let filling = trajectory(fleet(&[(1e-9, 1, 1)], &[2.0]), "central", 1);
    let last = filling.trajectories[0].points.last().unwrap();
    assert_is(last.mean_jobs, 2.0 * 6.4, 2.0 * 6.4, 6.4);
    assert!(last.per_server_type[0].mean_jobs.unwrap().mean <= 1.0);
}

#[test]
fn a_trajectory_is_the_same_on_any_number_of_threads() {
    let of = |threads| trajectory(fleet(&[(1.0, 1, 2), (0.5, 1, 2)], &[1.0, 0.9]).buffer(3), "jfsq", threads);
    assert_eq!(of(1), of(3));
}

#[test]
fn times_that_do_not_ascend_and_a_single_replication_are_refused() {
    let fleet = fleet(&[(1.0, 1, 1)], &[0.5]).build();
    let refused = |times_s: &[f64], replications| {
        let simulation = Simulation::new(&fleet).policy(policy("jsq"));
        let refused = simulation.trajectory(times_s, replications, &Unobserved).unwrap_err();
        assert!(matches!(refused, SimulationError::Option { .. }), "{refused}");
        refused.to_string()
    };
    assert!(refused(&[1.0, 0.5], 10).contains("0.5"));
    assert!(refused(&[-1.0], 10).contains("-1"));
    assert!(refused(&[f64::NAN], 10).contains("NaN"));
    assert!(refused(&[1.0], 1).contains("at least 2"));
}
