//! Whether a server is up for a job type, as those who wait in its line see it.
//!
//! The dispatcher writes it down under its lock, as long as somebody of the job type is in line; whoever waits reads it
//! without the lock, and is woken when it has changed, and only then. So an exchange of the fleet that changes nothing
//! for a job type wakes nobody of its line, however long that is.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// What servers there are for a job type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Supply {
    /// None that takes requests.
    Nothing,
    /// Only such as are being tried, with one request at a time.
    Probes,
    /// At least one that is up, be it full.
    Up,
}

/// The supply of one job type, and who wants to know of it.
#[derive(Debug)]
pub(crate) struct SupplyBoard {
    supply: AtomicU8,
    changed: Notify,
}

impl Default for SupplyBoard {
    fn default() -> Self {
        Self { supply: AtomicU8::new(Supply::Up as u8), changed: Notify::new() }
    }
}

impl SupplyBoard {
    pub(crate) fn get(&self) -> Supply {
        [Supply::Nothing, Supply::Probes, Supply::Up][usize::from(self.supply.load(Relaxed))]
    }

    /// Writes it down, under the dispatcher's lock; whether it has changed, so that it is to be [told](Self::ring) once
    /// the lock is free.
    pub(crate) fn set(&self, supply: Supply) -> bool {
        self.supply.swap(supply as u8, Relaxed) != supply as u8
    }

    /// It has changed.
    pub(crate) fn ring(&self) {
        self.changed.notify_waiters();
    }

    /// The next time that it is told; counts from this call on, not from the first poll.
    pub(crate) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }
}
