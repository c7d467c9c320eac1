//! What can happen to a job, and what cannot: the one is seen, the other is 0 for certain.
//!
//! Goal: the simulator knows from the fleet file alone what may happen, neither more nor less. Method: every combination of
//! the sections that matter, on two servers so loaded that whatever may happen does so dozens of times to 20,000 recorded
//! jobs: false-alarm probability below 1e-6 a figure were the seeds free.

use std::sync::Arc;

use shortline_core::fleet::settings::{Discipline, FailureEvent, Failures, Information};
use shortline_sim::{Estimate, Simulation};

use super::means;
use super::traces::recorded;
use crate::fleets::{Sketch, fleet, policy};

/// Whether it was seen; else it is known to be impossible. (That what is seen was not held to be impossible is asserted where
/// the estimates are made.)
fn seen(share: Option<Estimate>, what: &str) -> bool {
    let share = share.unwrap();
    assert!(share.mean > 0.0 || share.ci95[1] <= 0.0, "{what} may happen, but is not seen");
    share.mean > 0.0
}

/// Waits, is blocked, gives up: of 20,000 jobs, 2.5 of size 1 a second.
fn fates(sketch: Sketch, name: &str, what: &str) -> [bool; 3] {
    let simulation = Simulation::new(&sketch.build()).policy(policy(name)).trace(Arc::new(recorded(20_000, 2.5, 1, 5)));
    let means = simulation.run().unwrap().policies.remove(0).means.unwrap();
    let of = |share, fate: &str| seen(share, &format!("{what}, {name}: {fate}"));
    [
        of(means.fraction_waiting, "waiting"),
        of(means.blocking_probability, "blocking"),
        of(means.reneged_probability, "giving up"),
    ]
}

#[test]
fn what_cannot_happen_is_known_and_what_can_is_seen() {
    const RANDOM: Failures = Failures::Random { mean_up_s: 9.0, mean_down_s: 1.0 };
    let mut known = [[0; 2]; 3];
    for case in 0..192 {
        let digit = |at: u32, base: u32| case / at % base;
        let (is_shared, fails, buffer) =
            (digit(1, 2) == 1, digit(2, 2) == 1, [None, Some(1), Some(3)][digit(4, 3) as usize]);
        let information =
            Information { delay_s: [0.0, 0.5][digit(12, 2) as usize], gateways: [1, 3][digit(24, 2) as usize] };
        let lines = digit(48, 4);
        let sketch = || {
            let mut sketch = fleet(&[(1.0, 1, 2)], &[1.0]);
            if let Some(buffer) = buffer {
                sketch = sketch.buffer(buffer);
            }
            sketch = match lines {
                0 => sketch,
                1 => sketch.waits(Some(2), None),
                2 => sketch.waits(None, Some(0.4)),
                _ => sketch.waits(None, None),
            };
            sketch.settings(|settings| {
                settings.information = information;
                settings.failures = fails.then_some(RANDOM);
                if is_shared {
                    settings.service.discipline = Discipline::ProcessorSharing;
                }
            })
        };
        let what = format!("shared {is_shared}, fails {fails}, buffer {buffer:?}, {information:?}, lines {lines}");
        for policy in ["jsq", "central"] {
            let found = fates(sketch(), policy, &what);
            known.iter_mut().zip(found).for_each(|(counts, seen)| counts[usize::from(seen)] += 1);
        }
    }
    assert!(known.iter().flatten().all(|&count| count > 20), "both are met often: {known:?}");
}

#[test]
fn listed_failures_block_where_they_leave_nobody() {
    let event = |at_s, server, up| FailureEvent { at_s, server, up };
    let blocked_after = |delay_s: f64, rows: &[&[u32]], events: Vec<FailureEvent>| {
        let sketch = fleet(&[(3.0, 1, 3)], &[0.3, 0.3]).rows(rows);
        let sketch = sketch.settings(|s| {
            s.failures = Some(Failures::Events(events));
            s.information.delay_s = delay_s;
        });
        let jobs = Arc::new(recorded(20_000, 2.5, 2, 5));
        let simulation = Simulation::new(&sketch.build()).policy(policy("jsq")).trace(jobs);
        seen(simulation.run().unwrap().policies.remove(0).means.unwrap().blocking_probability, "blocking")
    };
    let blocked = |rows: &[&[u32]], events| blocked_after(0.0, rows, events);
    let two_down = || vec![event(100.0, 0, false), event(100.0, 2, false)];
    assert!(!blocked(&[&[0, 1], &[1, 2]], two_down()));
    assert!(blocked(&[&[0, 1], &[0, 2]], two_down()));
    let one_at_a_time = vec![event(100.0, 0, false), event(200.0, 0, true), event(300.0, 2, false)];
    assert!(!blocked(&[&[0, 1], &[0, 2]], one_at_a_time));
    assert!(blocked_after(20.0, &[&[0, 1], &[1, 2]], two_down()), "sent to one that went down since");
}

/// Servers without a job type that arrives matter to nobody.
#[test]
fn a_bounded_server_that_nobody_is_sent_to_blocks_nobody() {
    let sketch = fleet(&[(1.0, 1, 2)], &[0.5, 0.0]).rows(&[&[0], &[1]]);
    let report = means(&sketch.one_buffer(1, 1).build(), "jsq", 40_000);
    assert!(report.blocking_probability.unwrap().ci95[1] <= 0.0);
}
