//! The fluid bound: hand cases, and the counterexample that shows why losses need the form at accepted throughput.

use shortline_theory::bounds::{FluidBound, Validity, fluid};

use crate::fleets::Build;

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-12 * a.abs().max(b.abs())
}

#[test]
fn the_fastest_servers_are_filled_first_and_slots_count_as_servers() {
    // Capacities 2 * 1 and 3 * 2 * 0.25; 2.5 jobs per second keep both fast and two of six slow slots busy.
    let fleet = Build::servers(&[]).class(3, 0.25, 2).class(2, 1.0, 1).job_type_on_all(2.5, 1.0).done();
    let bound = fluid(&fleet).unwrap();
    assert!(bound.is_valid());
    assert!(near(bound.mean_jobs, 4.0));
    assert!(near(bound.mean_response_s, 4.0 / 2.5));
}

#[test]
fn servers_without_a_job_type_do_not_count() {
    let fleet = Build::servers(&[9.0, 1.0]).job_type(0.5, 1.0, &[1]).done();
    assert!(near(fluid(&fleet).unwrap().mean_response_s, 1.0));
}

#[test]
fn with_sizes_per_job_type_the_work_counts_and_under_losses_that_of_the_smallest_jobs() {
    let fleet = Build::servers(&[1.0, 1.0]).job_type(0.5, 2.0, &[0]).job_type(0.5, 0.5, &[0, 1]).done();
    assert!(near(fluid(&fleet).unwrap().mean_jobs, 0.5 * 2.0 + 0.5 * 0.5));
    let accepted = FluidBound::new(&fleet).unwrap().at(0.6).unwrap();
    assert!(near(accepted.mean_jobs, 0.5 * 0.5 + 0.1 * 2.0));
}

#[test]
fn beyond_capacity_it_is_infinite_and_says_so() {
    let bound = fluid(&Build::servers(&[1.0]).job_type_on_all(1.5, 1.0).done()).unwrap();
    assert!(bound.mean_jobs.is_infinite());
    assert_eq!(bound.validity, Validity::Overloaded);
}

#[test]
fn with_losses_only_the_form_at_accepted_throughput_holds() {
    // One job type on server 1 only, b = 1: an M/M/1/1 queue with T = 2 exactly.
    let servers = Build::servers(&[0.5, 0.125, 0.125]).buffer(1);
    let fleet = servers.job_type(0.7, 1.0, &[0]).job_type(0.0, 1.0, &[1, 2]).done();
    let naive = fluid(&fleet).unwrap();
    assert!((naive.mean_response_s - 3.71).abs() < 0.005, "the published counterexample: {}", naive.mean_response_s);
    assert_eq!(naive.validity, Validity::Losses);
    let accepted = 0.7 * 0.5 / (0.7 + 0.5);
    let honest = FluidBound::new(&fleet).unwrap().at(accepted).unwrap();
    assert!(honest.is_valid());
    assert!(near(honest.mean_response_s, 2.0));
}
