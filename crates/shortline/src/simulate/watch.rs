//! Looking on while a simulation runs: progress bar, Ctrl-C, time limit, CPU time.
//!
//! A run is asked to stop and does. What comes before it and after it (the graph, the shares of `split`, bounds) knows of
//! nobody who may be in a hurry: it is done on a thread of its own, and left alone [a moment](MOMENT) after the stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use shortline_sim::{Observer, Round};

use super::Args;
use crate::digits::{exact, short};
use crate::failure::Failure;

/// How long what cannot be stopped may go on after the stop: what is all but done is worth waiting for, and a fleet of
/// some servers is set up whatever the time limit.
const MOMENT: Duration = Duration::from_secs(1);
/// Pause between two looks at whether to stop.
const LOOK: Duration = Duration::from_millis(20);
/// Stack of what is done on a thread of its own: that of the main thread.
const STACK_BYTES: usize = 8 << 20;

/// Looks on: progress bar, Ctrl-C, time limit, CPU time.
pub(super) struct Watch {
    pub(super) bar: ProgressBar,
    pub(super) stop: Arc<AtomicBool>,
    time_s: Option<f64>,
    deadline: Option<Instant>,
    target: Option<f64>,
    policies: AtomicU64,
    per_policy: Option<u64>,
}

impl Watch {
    /// From here on time is counted.
    pub(super) fn new(args: &Args) -> Self {
        let bar = ProgressBar::no_length();
        bar.enable_steady_tick(Duration::from_millis(200));
        let watch = Self {
            bar,
            stop: Arc::new(AtomicBool::new(false)),
            time_s: args.time,
            // A limit beyond what the clock can tell is none.
            deadline: args.time.and_then(|seconds| {
                Instant::now().checked_add(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
            }),
            target: args.events.is_none().then_some(args.relative_error),
            policies: AtomicU64::new(1),
            per_policy: args.events,
        };
        watch.style("{spinner} {elapsed_precise} {msg}");
        watch
    }

    fn style(&self, template: &str) {
        self.bar.set_style(ProgressStyle::with_template(template).expect("the template names known fields"));
    }

    pub(super) fn begin(&self, policies: usize) {
        self.policies.store(policies as u64, Ordering::Relaxed);
        self.bar.reset();
        self.style("{elapsed_precise} {wide_bar} {human_pos} events, {msg}ready in {eta}");
        self.bar.set_message("");
        if let Some(events) = self.per_policy {
            self.bar.set_length(events.saturating_mul(policies as u64));
        }
    }

    /// Does what cannot be stopped. `None` if the run was stopped and it did not end within a moment: nobody waits for it
    /// any more, and the process is expected to end soon.
    pub(super) fn unless_stopped<T: Send + 'static>(
        &self,
        doing: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        self.style("{spinner} {elapsed_precise} {msg}");
        self.bar.set_message(doing.to_owned());
        let (done, result) = mpsc::channel();
        // Sending fails when nobody waits any more.
        let worker = thread::Builder::new().stack_size(STACK_BYTES).spawn(move || drop(done.send(work())));
        let worker = worker.expect("the system has threads, or the run itself could not begin");
        let mut stopped: Option<Instant> = None;
        loop {
            match result.recv_timeout(LOOK) {
                Ok(result) => return Some(result),
                Err(RecvTimeoutError::Timeout) if !self.is_stopped() => {}
                Err(RecvTimeoutError::Timeout) => {
                    if stopped.get_or_insert_with(Instant::now).elapsed() >= MOMENT {
                        return None;
                    }
                }
                Err(RecvTimeoutError::Disconnected) => {
                    std::panic::resume_unwind(worker.join().expect_err("it ended without a result"))
                }
            }
        }
    }

    /// The stop came before the first run did.
    pub(super) fn nothing_simulated(&self) -> Failure {
        let doing = self.bar.message();
        self.bar.finish_and_clear();
        Failure::run(match self.time_s {
            Some(time_s) if !self.stop.load(Ordering::Relaxed) => {
                format!("--time {} was over while {doing}; nothing was simulated: raise --time", exact(time_s))
            }
            _ => format!("interrupted while {doing}; nothing was simulated"),
        })
    }
}

impl Observer for Watch {
    fn advanced(&self, events: u64) {
        self.bar.inc(events);
    }

    fn warming_up(&self, events: u64) {
        self.bar.set_message("warming up, ");
        if self.per_policy.is_none() {
            // As much again is measured at least.
            self.bar.set_length(events.saturating_mul(2 * self.policies.load(Ordering::Relaxed)));
        }
    }

    fn round_ended(&self, round: &Round) {
        let error = round.widest_relative_error;
        if error.is_finite() {
            self.bar.set_message(format!("+-{} % so far, ", short(100.0 * error)));
            if let Some(target) = self.target {
                // The half-width shrinks like the square root of the length.
                let wanted = round.counted_events as f64 * (error / target).powi(2).max(1.0);
                let wanted = (wanted as u64).saturating_add(round.warm_up_events);
                self.bar.set_length(wanted.saturating_mul(self.policies.load(Ordering::Relaxed)));
            }
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    fn cpu_s(&self) -> f64 {
        cpu_time::ProcessTime::try_now().map_or(0.0, |time| time.as_duration().as_secs_f64())
    }
}

/// Ctrl-C stops the run; what there is is printed. A second one ends the process.
pub(crate) fn on_interrupt(stop: Arc<AtomicBool>) -> Result<tokio::runtime::Runtime, Failure> {
    let runtime = crate::runtime()?;
    runtime.spawn(async move {
        while tokio::signal::ctrl_c().await.is_ok() {
            if stop.swap(true, Ordering::Relaxed) {
                std::process::exit(130);
            }
        }
    });
    Ok(runtime)
}
