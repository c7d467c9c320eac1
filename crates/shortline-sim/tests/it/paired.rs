//! All policies of a run meet the same ticks, on whatever engines they are.
//!
//! Goal: the interval of a ratio is narrower than independent runs would have it. Method: its half-width against what
//! the intervals of the two means give, at most half of it. With independent ticks that needs a correlation of 0.75 among
//! 16 replications by chance: false-alarm probability of this test 4e-4 a pair, were the seeds free.

use std::sync::Arc;

use rand::Rng;
use shortline_core::policy::Policy;
use shortline_core::state::State;
use shortline_core::{Fleet, JobTypeId, ServerId};
use shortline_sim::{Engine, Report, Simulation, Until};

use crate::fleets::{fleet, policy};

/// The shortest queue; ties to whoever comes first in the row, who is among the fastest.
#[derive(Clone, Debug)]
struct FirstShortest;

impl Policy for FirstShortest {
    fn choose<R: Rng>(&mut self, state: &State, l: JobTypeId, _: &mut R) -> Option<ServerId> {
        let mut best = None;
        state.fleet().graph().for_each(l.index(), |server| {
            if state.has_room(server) && best.is_none_or(|(load, _)| state.load(server) < load) {
                best = Some((state.load(server), server));
            }
        });
        best.map(|(_, server)| server)
    }
}

fn simulation(fleet: &Arc<Fleet>) -> Simulation {
    Simulation::new(fleet).seed(3).until(Until::Events(2_000_000))
}

fn assert_paired(report: &Report) {
    assert_eq!([report.policies[0].engine, report.policies[1].engine], [Engine::Lumped, Engine::Markov]);
    let of = |i: usize| report.policies[i].means.as_ref().unwrap().mean_response_s.unwrap();
    let unpaired = of(0).relative_half_width().hypot(of(1).relative_half_width());
    let ratio = report.differences[0].mean_response_ratio.unwrap();
    assert!(ratio.relative_half_width() < 0.5 * unpaired, "{} against {unpaired}", ratio.relative_half_width());
    // The same law on both sides.
    assert!((ratio.mean - 1.0).abs() < 4.0 * ratio.relative_half_width(), "{ratio:?}");
}

#[test]
fn counts_and_a_policy_of_ones_own_are_compared_on_the_same_ticks() {
    let fleet = fleet(&[(1.0, 1, 5)], &[2.5, 2.0]).build();
    assert_paired(&simulation(&fleet).policy(policy("jsq")).own_policy("first shortest", FirstShortest).run().unwrap());
}

#[test]
fn servers_of_several_types_and_slots_are_compared_on_the_same_ticks() {
    let fleet = fleet(&[(1.0, 2, 2), (0.5, 1, 3)], &[2.7, 2.2]).build();
    assert_paired(
        &simulation(&fleet).policy(policy("jfsq")).own_policy("first shortest", FirstShortest).run().unwrap(),
    );
}

/// With one speed `jsq(2,2)` is `jsq(2)`, and only the dispatcher knows it. More servers than a small table has cells: of
/// its own the lumped engine would not tell them apart.
#[test]
fn many_servers_are_compared_on_the_same_ticks() {
    let fleet = fleet(&[(1.0, 1, 2100)], &[0.95 * 2100.0]).build();
    assert_paired(&simulation(&fleet).policy(policy("jsq(2)")).policy(policy("jsq(2,2)")).run().unwrap());
}
