//! Looking on while a simulation runs: progress bar, Ctrl-C, time limit, CPU time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use shortline_sim::{Observer, Round};

use super::Args;
use crate::failure::Failure;

/// Looks on: progress bar, Ctrl-C, time limit, CPU time.
pub(super) struct Watch {
    pub(super) bar: ProgressBar,
    pub(super) stop: Arc<AtomicBool>,
    deadline: Option<Instant>,
    target: Option<f64>,
    policies: AtomicU64,
    per_policy: Option<u64>,
}

impl Watch {
    pub(super) fn new(args: &Args) -> Self {
        let style = "{elapsed_precise} {wide_bar} {human_pos} events, {msg}ready in {eta}";
        let style = ProgressStyle::with_template(style).expect("the template names known fields");
        let bar = ProgressBar::no_length().with_style(style);
        bar.enable_steady_tick(Duration::from_millis(200));
        Self {
            bar,
            stop: Arc::new(AtomicBool::new(false)),
            deadline: args.time.map(|seconds| Instant::now() + Duration::from_secs_f64(seconds.max(0.0))),
            target: args.events.is_none().then_some(args.relative_error),
            policies: AtomicU64::new(1),
            per_policy: args.events,
        }
    }

    pub(super) fn begin(&self, policies: usize) {
        self.policies.store(policies as u64, Ordering::Relaxed);
        self.bar.reset();
        if let Some(events) = self.per_policy {
            self.bar.set_length(events * policies as u64);
        }
    }
}

impl Observer for Watch {
    fn advanced(&self, events: u64) {
        self.bar.inc(events);
    }

    fn round_ended(&self, round: &Round) {
        let error = round.widest_relative_error;
        if error.is_finite() {
            self.bar.set_message(format!("+-{:.2} % so far, ", 100.0 * error));
            if let Some(target) = self.target {
                // The half-width shrinks like the square root of the length.
                let wanted = round.counted_events as f64 * (error / target).powi(2).max(1.0);
                self.bar.set_length((wanted as u64).saturating_mul(self.policies.load(Ordering::Relaxed)));
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
