//! One server of the fleet as the gateway knows it: where it is and what was counted there.
//!
//! A [`Server`] outlives an exchange of the fleet: a server of the same name is the same object, with its counts,
//! whatever its id is in the new fleet and even if its address has changed. A request at a server holds the object, not
//! an id, so that nothing after the decision depends on the fleet in which it was made.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use arc_swap::ArcSwap;

use crate::health::ServerHealth;
use crate::lost_models::LostModels;
use crate::rates::Meter;
use crate::upstream::{Endpoint, Upstream};

/// A server, by its name.
#[derive(Debug)]
pub(crate) struct Server {
    name: Box<str>,
    upstream: ArcSwap<Upstream>,
    health: ServerHealth,
    lost: LostModels,
    /// Requests sent to it.
    routed: AtomicU64,
    /// Requests that have left it.
    completed: AtomicU64,
    /// How fast they leave.
    drain: Meter,
}

impl Server {
    /// A server that has served nothing yet.
    pub(crate) fn new(name: &str, endpoint: &Endpoint) -> Self {
        Self {
            name: name.into(),
            upstream: ArcSwap::from_pointee(Upstream::new(name, endpoint)),
            health: ServerHealth::default(),
            lost: LostModels::default(),
            routed: AtomicU64::new(0),
            completed: AtomicU64::new(0),
            drain: Meter::default(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether it gets requests, and how many.
    pub(crate) fn health(&self) -> &ServerHealth {
        &self.health
    }

    /// The job types that it gets no requests for.
    pub(crate) fn lost(&self) -> &LostModels {
        &self.lost
    }

    /// Where it is, with the open connections there.
    pub(crate) fn upstream(&self) -> Arc<Upstream> {
        self.upstream.load_full()
    }

    /// It is at `endpoint` now. If that is another one, new connections go there; those under way finish where they are.
    /// Whether it is.
    pub(crate) fn move_to(&self, endpoint: &Endpoint) -> bool {
        let now = self.upstream.load();
        let moves = !now.is_at(endpoint);
        if moves || now.is_retired() {
            self.upstream.swap(Arc::new(Upstream::new(&self.name, endpoint))).retire();
        }
        moves
    }

    /// It is no longer in the fleet: connections are closed as soon as nobody uses them.
    pub(crate) fn leave(&self) {
        self.upstream.load().retire();
    }

    /// One more request is sent to it; how many were before.
    pub(crate) fn count_routed(&self) -> u64 {
        self.routed.fetch_add(1, Relaxed)
    }

    /// A request has left it.
    pub(crate) fn count_completed(&self) {
        self.completed.fetch_add(1, Relaxed);
    }

    /// Requests sent to it since the gateway knows it.
    pub(crate) fn routed(&self) -> u64 {
        self.routed.load(Relaxed)
    }

    /// Requests per second that leave it, measured.
    pub(crate) fn drain_rate(&self) -> f64 {
        self.drain.rate()
    }

    /// Measures over the `dt_s` seconds since the last call.
    pub(crate) fn measure(&self, dt_s: f64) {
        self.drain.tick(dt_s, self.completed.load(Relaxed));
    }
}
