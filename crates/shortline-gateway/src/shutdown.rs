//! Stopping: first no new work, then no work at all.
//!
//! A [`Trigger`] orders it, a [`Shutdown`] is told. [`Trigger::follow_signals`] ties it to the process: the first
//! SIGTERM or SIGINT drains, the second ends at once.

use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Phase {
    Run,
    Drain,
    End,
}

/// Orders the shutdown.
#[derive(Debug)]
pub struct Trigger(watch::Sender<Phase>);

/// Is told of the shutdown. If its [`Trigger`] is dropped, nothing ever happens.
#[derive(Clone, Debug)]
pub struct Shutdown(watch::Receiver<Phase>);

/// A trigger and what it triggers.
#[must_use]
pub fn shutdown() -> (Trigger, Shutdown) {
    let (sender, receiver) = watch::channel(Phase::Run);
    (Trigger(sender), Shutdown(receiver))
}

impl Trigger {
    /// Take no new requests; let running ones finish.
    pub fn drain(&self) {
        self.go(Phase::Drain);
    }

    /// End at once.
    pub fn end(&self) {
        self.go(Phase::End);
    }

    /// Drains at the first SIGTERM or SIGINT and ends at the second. Runs for ever.
    ///
    /// # Errors
    /// If the signals cannot be listened to.
    pub async fn follow_signals(self) -> io::Result<()> {
        let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let mut next = Phase::Drain;
        loop {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            self.go(next);
            next = Phase::End;
        }
    }

    fn go(&self, phase: Phase) {
        self.0.send_if_modified(|now| {
            let later = phase > *now;
            *now = phase.max(*now);
            later
        });
    }
}

impl Shutdown {
    /// Waits for the order to take no new requests.
    pub(crate) async fn draining(&mut self) {
        self.reach(Phase::Drain).await;
    }

    /// Waits for the order to end at once.
    pub(crate) async fn ending(&mut self) {
        self.reach(Phase::End).await;
    }

    async fn reach(&mut self, phase: Phase) {
        if self.0.wait_for(|now| *now >= phase).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
