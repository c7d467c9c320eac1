//! The dispatcher of the core, shared by all connections: one mutex around the live state and its generator.
//!
//! Exact shortest-queue decisions need one linearised state. Inside the lock there are decisions only: no I/O, no
//! await, no logging, no metrics; memory is allocated only for a job that has to wait anyway. Reports copy the counts
//! in short turns, so that a fleet of 100,000 servers does not stop the traffic.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rand::SeedableRng;
use shortline_core::fleet::settings::Overflow;
use shortline_core::live::{JoinKind, Joined, Routed, StartedLive};
use shortline_core::policy::{PolicyError, PolicySpec};
use shortline_core::random::Generator;
use shortline_core::{Blocked, Fleet, JobTypeId, LiveDispatcher, ServerId, Ticket};
use tokio::sync::oneshot;

use crate::histogram::Histogram;
use crate::in_flight::{InFlight, InLine, Reason, Route};

/// What waits in the core's lines: the way to deliver a place.
type Delivery = oneshot::Sender<InFlight>;

/// Servers or job types copied by a report per turn of the lock.
const TURN: usize = 256;

/// The shared dispatcher.
pub(crate) struct Dispatch {
    fleet: Arc<Fleet>,
    policy: PolicySpec,
    /// Whether what finds no place waits.
    waits: bool,
    live: Mutex<Live>,
    servers: Vec<ServerCounts>,
    decisions: [AtomicU64; Reason::ALL.len()],
    /// From the request's side: the wait for the lock is included.
    decision_s: Histogram,
}

struct Live {
    dispatcher: LiveDispatcher<Delivery>,
    rng: Generator,
}

#[derive(Default, Debug)]
struct ServerCounts {
    routed: AtomicU64,
    completed: AtomicU64,
}

/// A server's counts at a moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServerNow {
    pub(crate) jobs: u64,
    pub(crate) up: bool,
}

/// The counts of everything; each server's and line's own are exact, the whole is as old as the copying takes.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) epoch: u64,
    /// By [`ServerId`].
    pub(crate) servers: Vec<ServerNow>,
    /// Jobs in line, by [`JobTypeId`].
    pub(crate) waiting: Vec<usize>,
    pub(crate) waiting_total: usize,
}

impl std::fmt::Debug for Dispatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dispatch").field("policy", &self.policy).finish_non_exhaustive()
    }
}

impl Dispatch {
    /// All servers up and empty.
    ///
    /// # Errors
    /// If the policy cannot be used with the fleet.
    pub(crate) fn new(fleet: Arc<Fleet>, policy: PolicySpec, seed: u64) -> Result<Self, PolicyError> {
        let dispatcher = LiveDispatcher::new(Arc::clone(&fleet), policy)?;
        Ok(Self {
            policy,
            waits: fleet.settings().overflow == Overflow::Wait || policy == PolicySpec::Central,
            live: Mutex::new(Live { dispatcher, rng: Generator::seed_from_u64(seed) }),
            servers: fleet.servers().map(|_| ServerCounts::default()).collect(),
            decisions: Default::default(),
            decision_s: Histogram::from_nanoseconds(),
            fleet,
        })
    }

    pub(crate) fn fleet(&self) -> &Arc<Fleet> {
        &self.fleet
    }

    pub(crate) fn policy(&self) -> PolicySpec {
        self.policy
    }

    /// Decides about a request.
    pub(crate) fn route(self: &Arc<Self>, job_type: JobTypeId) -> Route {
        let began = Instant::now();
        let mut receiver = None;
        let decision = {
            let Live { dispatcher, rng } = &mut *self.lock();
            if self.waits && !dispatcher.has_server_up(job_type) {
                Routed::Blocked(Blocked::NoServerUp)
            } else {
                let wait = || {
                    let (sender, started) = oneshot::channel();
                    receiver = Some(started);
                    sender
                };
                dispatcher.route(job_type, wait, rng)
            }
        };
        self.decision_s.observe(began.elapsed());
        match decision {
            Routed::Joined(Joined { server, key, kind }) => {
                let reason = match kind {
                    JoinKind::IdleFastest => Reason::IdleFastest,
                    JoinKind::IdleSlower => Reason::IdleSlower,
                    JoinKind::Queued => Reason::Queued,
                };
                self.count_decision(reason);
                Route::Placed(InFlight::new(self, server, key), reason)
            }
            Routed::Waiting(ticket) => {
                Route::InLine(InLine::new(self, ticket, receiver.expect("a job that waits has a way to be told")))
            }
            Routed::Blocked(blocked) => {
                self.count_decision(Reason::Blocked);
                Route::Blocked(blocked)
            }
        }
    }

    /// A job has left its server.
    pub(crate) fn complete(&self, key: shortline_core::live::ServerKey) -> Option<StartedLive<Delivery>> {
        self.lock().dispatcher.complete(key)
    }

    /// A job gives up its place in line; `None`: it is not in line any more.
    pub(crate) fn cancel(&self, ticket: Ticket) -> Option<Delivery> {
        self.lock().dispatcher.cancel(ticket)
    }

    /// Takes a server up or down.
    pub(crate) fn set_up(self: &Arc<Self>, server: ServerId, up: bool) {
        let started = self.lock().dispatcher.set_up(server, up);
        for StartedLive { job, key } in started {
            // A receiver that is gone leaves the guard to its drop.
            drop(job.job.send(InFlight::new(self, job.server, key)));
        }
    }

    /// Requests of this type in line.
    pub(crate) fn waiting(&self, job_type: JobTypeId) -> usize {
        self.lock().dispatcher.waiting(job_type)
    }

    /// All counts.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let mut servers = Vec::with_capacity(self.fleet.server_count());
        while servers.len() < self.fleet.server_count() {
            let end = (servers.len() + TURN).min(self.fleet.server_count());
            let live = self.lock();
            let now = |s| ServerNow { jobs: live.dispatcher.jobs(s).into(), up: live.dispatcher.is_up(s) };
            servers.extend((servers.len()..end).map(|s| now(ServerId::new(s))));
        }
        let mut waiting = Vec::with_capacity(self.fleet.job_type_count());
        while waiting.len() < self.fleet.job_type_count() {
            let end = (waiting.len() + TURN).min(self.fleet.job_type_count());
            let live = self.lock();
            waiting.extend((waiting.len()..end).map(|l| live.dispatcher.waiting(JobTypeId::new(l))));
        }
        let live = self.lock();
        Snapshot { epoch: live.dispatcher.epoch(), waiting_total: live.dispatcher.waiting_total(), servers, waiting }
    }

    pub(crate) fn count_decision(&self, reason: Reason) {
        self.decisions[reason as usize].fetch_add(1, Relaxed);
    }

    pub(crate) fn count_routed(&self, server: ServerId) {
        self.servers[server.index()].routed.fetch_add(1, Relaxed);
    }

    pub(crate) fn count_completed(&self, server: ServerId) {
        self.servers[server.index()].completed.fetch_add(1, Relaxed);
    }

    pub(crate) fn decisions(&self, reason: Reason) -> u64 {
        self.decisions[reason as usize].load(Relaxed)
    }

    pub(crate) fn decision_s(&self) -> &Histogram {
        &self.decision_s
    }

    pub(crate) fn routed(&self, server: ServerId) -> u64 {
        self.servers[server.index()].routed.load(Relaxed)
    }

    pub(crate) fn completed(&self, server: ServerId) -> u64 {
        self.servers[server.index()].completed.load(Relaxed)
    }

    /// The lock, also after a panic inside it: requests already at servers still have to be counted down.
    fn lock(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
