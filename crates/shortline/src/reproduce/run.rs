//! The work: the points of an experiment that the ledger does not have yet, on several threads.
//!
//! Each thread takes the most expensive point that is left and simulates it on that thread alone. A point's numbers
//! depend on its key and the seed, not on threads, order or interruptions.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;

use indicatif::ProgressBar;

use super::experiment::{Context, Point};
use super::ledger::Ledger;
use super::number::{Data, Found};
use crate::failure::Failure;
use crate::fingerprint::Fingerprint;

/// How a run ended that did not fail.
pub(crate) enum Outcome {
    /// With the results of all points.
    Complete(Data),
    /// The user stopped it.
    Stopped { done: usize, of: usize },
}

/// Does the points that `found` lacks, and adds each to the ledger as soon as it is done.
pub(crate) fn run(
    points: &[Point],
    mut found: std::collections::BTreeMap<String, Found>,
    ledger: &mut Ledger,
    how: &How<'_>,
) -> Result<Outcome, Failure> {
    found.retain(|key, _| points.iter().any(|point| point.key == *key));
    let mut left: Vec<&Point> = points.iter().filter(|point| !found.contains_key(&point.key)).collect();
    left.sort_by(|a, b| b.cost.total_cmp(&a.cost).then_with(|| a.key.cmp(&b.key)));
    how.bar.set_position(0);
    how.bar.set_length(left.iter().map(|point| ticks(point)).sum());
    how.bar.reset_eta();
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..how.threads.clamp(1, left.len().max(1)) {
            let (sender, next, failed, left) = (sender.clone(), &next, &failed, &left);
            scope.spawn(move || {
                while !how.stop.load(Ordering::Relaxed) && !failed.load(Ordering::Relaxed) {
                    let Some(point) = left.get(next.fetch_add(1, Ordering::Relaxed)) else { break };
                    let context = Context { seed: how.seed, own_seed: own_seed(how.seed, &point.key), stop: how.stop };
                    let result = (point.work)(&context);
                    if how.stop.load(Ordering::Relaxed) {
                        break;
                    }
                    failed.fetch_or(result.is_err(), Ordering::Relaxed);
                    sender.send((*point, result)).expect("the receiver waits for all senders");
                }
            });
        }
        drop(sender);
        // After a failure the points under way are still kept.
        let mut outcome = Ok(());
        for (point, result) in receiver {
            let kept = result.map_err(|failure| failure.at(&point.key)).and_then(|result| {
                ledger.add(&point.key, &result)?;
                found.insert(point.key.clone(), result);
                Ok(())
            });
            failed.fetch_or(kept.is_err(), Ordering::Relaxed);
            outcome = outcome.and(kept);
            how.bar.inc(ticks(point));
        }
        outcome
    })?;
    if found.len() == points.len() {
        Ok(Outcome::Complete(Data(found)))
    } else {
        Ok(Outcome::Stopped { done: found.len(), of: points.len() })
    }
}

/// How to run.
pub(crate) struct How<'a> {
    pub(crate) seed: u64,
    pub(crate) threads: usize,
    pub(crate) stop: &'a AtomicBool,
    pub(crate) bar: &'a ProgressBar,
}

/// A point's cost as the progress bar counts it.
fn ticks(point: &Point) -> u64 {
    (point.cost * 1000.0).ceil() as u64
}

/// The mark of the run's seed and the key.
fn own_seed(seed: u64, key: &str) -> u64 {
    Fingerprint::EMPTY.and(&seed.to_le_bytes()).and(key.as_bytes()).number()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::ledger::{self, Settings};
    use crate::reproduce::number::Number;

    fn points() -> Vec<Point> {
        let work = |context: &Context<'_>| {
            let mut found = Found::default();
            found.set("x", Some(Number::exact((context.own_seed % 1000) as f64)));
            Ok(found)
        };
        (1..=9).map(|i| Point::new(format!("n={i}"), f64::from(i), work)).collect()
    }

    fn settings() -> Settings {
        Settings { experiment: "e".into(), version: 1, scale: "quick".into(), seed: 1 }
    }

    fn how<'a>(threads: usize, stop: &'a AtomicBool, bar: &'a ProgressBar) -> How<'a> {
        How { seed: 1, threads, stop, bar }
    }

    #[test]
    fn results_do_not_depend_on_threads_or_on_what_was_done_before() {
        let (stop, bar) = (AtomicBool::new(false), ProgressBar::hidden());
        let folder = tempfile::tempdir().unwrap();
        let (mut ledger, before) = ledger::open(folder.path(), settings()).unwrap();
        let Outcome::Complete(first) = run(&points()[..4], before, &mut ledger, &how(1, &stop, &bar)).unwrap() else {
            panic!("stopped")
        };
        drop(ledger);
        let (mut ledger, before) = ledger::open(folder.path(), settings()).unwrap();
        assert_eq!(before, first.0);
        let Outcome::Complete(resumed) = run(&points(), before, &mut ledger, &how(3, &stop, &bar)).unwrap() else {
            panic!("stopped")
        };
        let other = tempfile::tempdir().unwrap();
        let (mut ledger, before) = ledger::open(other.path(), settings()).unwrap();
        let Outcome::Complete(at_once) = run(&points(), before, &mut ledger, &how(2, &stop, &bar)).unwrap() else {
            panic!("stopped")
        };
        assert_eq!(resumed, at_once);
        assert_eq!(at_once.0.len(), 9);
    }

    #[test]
    fn a_failing_point_is_named_and_what_is_done_stays() {
        let (stop, bar) = (AtomicBool::new(false), ProgressBar::hidden());
        let folder = tempfile::tempdir().unwrap();
        let (mut ledger, before) = ledger::open(folder.path(), settings()).unwrap();
        let mut points = points();
        points.push(Point::new("bad", 0.5, |_| Err(Failure::run("it broke"))));
        let Err(Failure::Run(message)) = run(&points, before, &mut ledger, &how(1, &stop, &bar)) else {
            panic!("it did not fail")
        };
        assert!(message.contains("bad") && message.contains("it broke"), "{message}");
        drop(ledger);
        assert_eq!(ledger::open(folder.path(), settings()).unwrap().1.len(), 9);
    }

    #[test]
    fn a_stopped_run_says_how_far_it_came_and_keeps_no_half_point() {
        let (stop, bar) = (AtomicBool::new(false), ProgressBar::hidden());
        let folder = tempfile::tempdir().unwrap();
        let (mut ledger, before) = ledger::open(folder.path(), settings()).unwrap();
        let mut points = points();
        points.push(Point::new("stops", 5.5, |context| {
            context.stop.store(true, Ordering::Relaxed);
            Ok(Found::default())
        }));
        let outcome = run(&points, before, &mut ledger, &how(1, &stop, &bar)).unwrap();
        assert!(matches!(outcome, Outcome::Stopped { done: 4, of: 10 }), "9, 8, 7, 6 come before it");
    }
}
