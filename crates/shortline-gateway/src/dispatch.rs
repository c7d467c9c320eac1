//! The dispatcher of the core, shared by all connections: one mutex around the live state and its generator.
//!
//! Exact shortest-queue decisions need one linearised state. Inside the lock there are decisions only: no I/O, no
//! await, no logging, no metrics, nobody woken; memory is allocated only where jobs wait. Reports copy the counts in
//! short turns, so that a fleet of 100,000 servers does not stop the traffic.
//!
//! The [`Epoch`] in service stands beside the dispatcher in the lock, where it tells which object a server's id means,
//! and outside of it for everybody to read. Who read one and comes to the lock with another in it learns that, and
//! looks up by name what it wanted.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use arc_swap::ArcSwap;
use rand::{Rng, SeedableRng};
use shortline_core::live::{JoinKind, Joined, Prepared, Routed, ServerKey, StartedLive};
use shortline_core::policy::PolicyError;
use shortline_core::random::Generator;
use shortline_core::{Arrival, Blocked, JobTypeId, LiveDispatcher, ServerId, Ticket};
use tokio::sync::oneshot;

use crate::breaker::Condition;
use crate::epoch::Epoch;
use crate::errors::Refusal;
use crate::histogram::Histogram;
use crate::in_flight::{Again, InFlight, InLine, Reason, Route};
use crate::stats::JobTypeRecord;
use crate::supply::Supply;

/// What waits in the core's lines: the way to deliver a place.
pub(crate) type Delivery = oneshot::Sender<InFlight>;

/// Jobs that were in line and have a place now; to be [delivered](Dispatch::deliver).
pub(crate) type Started = Vec<StartedLive<Delivery>>;

/// Servers or job types copied by a report per turn of the lock.
const TURN: usize = 256;

/// The shared dispatcher.
pub(crate) struct Dispatch {
    /// The same as in `live`.
    epoch: ArcSwap<Epoch>,
    live: Mutex<Live>,
    decisions: [AtomicU64; Reason::ALL.len()],
    /// From the request's side: the wait for the lock is included.
    decision_s: Histogram,
    /// For times that servers should not share; not the decisions' generator, so that they do not depend on it.
    jitter: Mutex<Generator>,
    /// Servers, in or out of the fleet, whose condition is not up.
    unwell: AtomicUsize,
    /// How often a breaker has tripped.
    trips: AtomicU64,
}

/// From how many jobs on a server gets no more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cap {
    /// Its buffer alone decides.
    Lifted,
    /// So many: then it counts as down.
    At(u32),
    /// So many: then it gets what finds no place elsewhere.
    Preferred(u32),
}

struct Live {
    dispatcher: LiveDispatcher<Delivery>,
    rng: Generator,
    /// What the ids of `dispatcher` mean.
    epoch: Arc<Epoch>,
}

impl Live {
    /// A job has joined the line of its type. From the first one on the supply is kept as it is.
    fn joins_line(&self, job_type: JobTypeId) {
        if self.dispatcher.waiting(job_type) == 1 {
            self.set_supply(job_type);
        }
    }

    /// Whether it has changed.
    fn set_supply(&self, job_type: JobTypeId) -> bool {
        let supply = if self.dispatcher.has_uncapped_server_beside(job_type, &[]) {
            Supply::Up
        } else if self.dispatcher.has_server_up(job_type) {
            Supply::Probes
        } else {
            Supply::Nothing
        };
        self.epoch.job_type(job_type).supply().set(supply)
    }

    /// Something has changed, at this server if there is one: the job types in line that have another supply now.
    /// O(job types in line x degree).
    fn news(&self, at: Option<ServerId>) -> Vec<Arc<JobTypeRecord>> {
        let graph = self.epoch.fleet.graph();
        let mut in_line = self.dispatcher.job_types_in_line();
        in_line.retain(|&job_type| {
            at.is_none_or(|server| graph.contains(job_type.index(), server)) && self.set_supply(job_type)
        });
        in_line.into_iter().map(|job_type| Arc::clone(self.epoch.job_type(job_type))).collect()
    }
}

/// Wakes who is in line for these job types. Outside of the lock.
fn ring(job_types: &[Arc<JobTypeRecord>]) {
    job_types.iter().for_each(|job_type| job_type.supply().ring());
}

/// A server's counts at a moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServerNow {
    pub(crate) jobs: u64,
    /// Whether it gets requests, be it few.
    pub(crate) up: bool,
}

/// The counts of everything; each server's and line's own are exact, the whole is as old as the copying takes.
#[derive(Debug)]
pub(crate) struct Snapshot {
    /// What the ids mean.
    pub(crate) epoch: Arc<Epoch>,
    /// Exchanges of the fleet so far.
    pub(crate) exchanges: u64,
    /// By [`ServerId`].
    pub(crate) servers: Vec<ServerNow>,
    /// Jobs in line, by [`JobTypeId`].
    pub(crate) waiting: Vec<usize>,
    pub(crate) waiting_total: usize,
}

impl std::fmt::Debug for Dispatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dispatch").field("epoch", &self.epoch).finish_non_exhaustive()
    }
}

impl Dispatch {
    /// All servers up and empty.
    ///
    /// # Errors
    /// If the policy cannot be used with the fleet.
    pub(crate) fn new(epoch: Arc<Epoch>, seed: u64) -> Result<Self, PolicyError> {
        let dispatcher = LiveDispatcher::new(Arc::clone(&epoch.fleet), epoch.policy)?;
        Ok(Self {
            epoch: ArcSwap::new(Arc::clone(&epoch)),
            live: Mutex::new(Live { dispatcher, rng: Generator::seed_from_u64(seed), epoch }),
            decisions: Default::default(),
            decision_s: Histogram::from_nanoseconds(),
            jitter: Mutex::new(Generator::seed_from_u64(seed.wrapping_add(1))),
            unwell: AtomicUsize::new(0),
            trips: AtomicU64::new(0),
        })
    }

    /// The fleet in service.
    pub(crate) fn epoch(&self) -> Arc<Epoch> {
        self.epoch.load_full()
    }

    /// Decides about a request whose job type was found in `epoch`. If the fleet was exchanged since, the job type is
    /// the one of the same name in the fleet of this moment.
    pub(crate) fn route(self: &Arc<Self>, epoch: &Arc<Epoch>, job_type: JobTypeId) -> Route {
        if let Some(route) = self.route_in(epoch, job_type) {
            return route;
        }
        let name = epoch.job_type(job_type).name();
        loop {
            let now = self.epoch();
            let Some(job_type) = now.fleet.find_job_type(name) else {
                self.count_decision(Reason::Blocked);
                return Route::Blocked(Refusal::UnknownJobType(name.to_owned()));
            };
            if let Some(route) = self.route_in(&now, job_type) {
                return route;
            }
        }
    }

    /// The same, unless another fleet than that of `epoch` is in service: then nothing happens.
    fn route_in(self: &Arc<Self>, epoch: &Arc<Epoch>, job_type: JobTypeId) -> Option<Route> {
        let began = Instant::now();
        let mut receiver = None;
        let decision = {
            let live = &mut *self.lock_in(epoch)?;
            if epoch.waits && epoch.limits.hold.is_none() && !live.dispatcher.has_server_up(job_type) {
                Routed::Blocked(Blocked::NoServerUp)
            } else {
                let wait = || {
                    let (sender, started) = oneshot::channel();
                    receiver = Some(started);
                    sender
                };
                let routed = live.dispatcher.route(job_type, wait, &mut live.rng);
                if matches!(routed, Routed::Waiting(_)) {
                    live.joins_line(job_type);
                }
                routed
            }
        };
        self.decision_s.observe(began.elapsed());
        Some(match decision {
            Routed::Joined(Joined { server, key, kind, arrival }) => {
                let reason = Reason::of(kind);
                self.count_decision(reason);
                Route::Placed(
                    match kind {
                        JoinKind::Queued => InFlight::new(self, Arc::clone(epoch.server(server)), key, arrival),
                        JoinKind::IdleFastest | JoinKind::IdleSlower => {
                            InFlight::in_service(self, epoch, job_type, server, key, arrival)
                        }
                    },
                    reason,
                )
            }
            Routed::Waiting(ticket) => {
                let started = receiver.expect("a job that waits has a way to be told");
                Route::InLine(InLine::new(self, ticket, started, Arc::clone(epoch.job_type(job_type)), false))
            }
            Routed::Blocked(blocked) => {
                self.count_decision(Reason::Blocked);
                Route::Blocked(match blocked {
                    // A probe or nothing at all is under way at its servers: that is not a lack of room.
                    Blocked::NoRoom if self.unwell.load(Relaxed) > 0 && !epoch.is_served(job_type) => {
                        Refusal::NoServerUp
                    }
                    Blocked::NoRoom => Refusal::NoCapacity { waits: false },
                    Blocked::LineFull => Refusal::NoCapacity { waits: true },
                    Blocked::NoServerUp if epoch.fleet.graph().degree(job_type.index()) == 0 => Refusal::NotHeld,
                    Blocked::NoServerUp => Refusal::NoServerUp,
                })
            }
        })
    }

    /// Puts another fleet into service, prepared from the one that is: counts, lines and caps go over by name. Returns the
    /// number of exchanges so far. Waiting jobs whose line is no more are dismissed.
    pub(crate) fn take_over(self: &Arc<Self>, prepared: Prepared<Delivery>, epoch: &Arc<Epoch>) -> u64 {
        let (migrated, exchanges, news) = {
            let live = &mut *self.lock();
            let migrated = live.dispatcher.migrate(prepared);
            live.epoch = Arc::clone(epoch);
            self.epoch.store(Arc::clone(epoch));
            (migrated, live.dispatcher.epoch(), live.news(None))
        };
        self.deliver(migrated.started, epoch);
        ring(&news);
        // Whoever waits for it learns by the drop of its sender.
        drop(migrated.dropped);
        exchanges
    }

    /// Exchanges of the fleet so far.
    pub(crate) fn exchanges(&self) -> u64 {
        self.lock().dispatcher.epoch()
    }

    /// A job has left its server. If that starts a job in line: its place, and the way to deliver it.
    pub(crate) fn complete(self: &Arc<Self>, key: ServerKey) -> Option<(InFlight, Delivery)> {
        let (started, server) = {
            let Live { dispatcher, epoch, .. } = &mut *self.lock();
            let started = dispatcher.complete(key)?;
            let server = Arc::clone(epoch.server(started.job.server));
            (started, server)
        };
        Some((InFlight::new(self, server, started.key, started.job.ticket.arrival()), started.job.job))
    }

    /// A job gives up its place in line; `None`: it is not in line any more.
    pub(crate) fn cancel(&self, ticket: Ticket) -> Option<Delivery> {
        self.lock().dispatcher.cancel(ticket)
    }

    /// Gives a server the cap that `cap` makes of the number of jobs there. What that starts is to be delivered once no
    /// lock is held. `None`: there is no server of this name in service.
    pub(crate) fn set_cap(&self, server: &str, cap: impl FnOnce(u32) -> Cap) -> Option<(Started, Arc<Epoch>)> {
        let (started, epoch, news) = {
            let live = &mut *self.lock();
            let Live { dispatcher, epoch, .. } = live;
            let server = epoch.fleet.find_server(server)?;
            let started = match cap(dispatcher.jobs(server)) {
                Cap::Lifted => dispatcher.set_cap(server, None),
                Cap::At(cap) => dispatcher.set_cap(server, Some(cap)),
                Cap::Preferred(cap) => dispatcher.spare(server, cap),
            };
            (started, Arc::clone(epoch), live.news(Some(server)))
        };
        ring(&news);
        Some((started, epoch))
    }

    /// No request of this job type goes to this server for now; by names. Whether it is so: not if no other server would
    /// be left for the job type.
    pub(crate) fn suspend_unless_last(self: &Arc<Self>, job_type: &str, server: &str) -> bool {
        let (started, epoch, news) = {
            let live = &mut *self.lock();
            let Live { dispatcher, epoch, .. } = live;
            let found = epoch.fleet.find_job_type(job_type).zip(epoch.fleet.find_server(server));
            let Some((job_type, server)) = found else { return false };
            if !dispatcher.has_server_up_beside(job_type, &[dispatcher.key(server)]) {
                return false;
            }
            (dispatcher.suspend(job_type, server), Arc::clone(epoch), live.news(Some(server)))
        };
        ring(&news);
        self.deliver(started, &epoch);
        true
    }

    /// Requests of this job type go to this server again; by names.
    pub(crate) fn resume(self: &Arc<Self>, job_type: &str, server: &str) {
        let (started, epoch, news) = {
            let live = &mut *self.lock();
            let Live { dispatcher, epoch, .. } = live;
            let found = epoch.fleet.find_job_type(job_type).zip(epoch.fleet.find_server(server));
            let Some((job_type, server)) = found else { return };
            (dispatcher.resume(job_type, server), Arc::clone(epoch), live.news(Some(server)))
        };
        ring(&news);
        self.deliver(started, &epoch);
    }

    /// A request that has been at these servers: a place at another one, or, if it `may_wait`, what it would have got if
    /// they had been down when it came: a place in line, at its age, or a refusal for want of room.
    pub(crate) fn route_again(
        self: &Arc<Self>,
        job_type: &JobTypeRecord,
        tried: &[ServerKey],
        arrival: Arrival,
        may_wait: bool,
    ) -> Again {
        let mut receiver = None;
        let (waiting, record, held) = {
            let live = &mut *self.lock();
            let Live { dispatcher, rng, epoch } = live;
            let Some(id) = epoch.fleet.find_job_type(job_type.name()) else { return Again::Nowhere };
            if let Some(Joined { server, key, kind, .. }) = dispatcher.route_avoiding(id, tried, rng) {
                let reason = Reason::of(kind);
                self.count_decision(reason);
                return Again::Placed(InFlight::new(self, Arc::clone(epoch.server(server)), key, arrival), reason);
            }
            let is_held = epoch.waits && epoch.limits.hold.is_some();
            let waits_anyway = !is_held && dispatcher.has_server_up_beside(id, tried);
            if !may_wait || !is_held && !waits_anyway {
                return Again::Nowhere;
            }
            let held = is_held && !dispatcher.has_uncapped_server_beside(id, tried);
            let wait = || {
                let (sender, started) = oneshot::channel();
                receiver = Some(started);
                sender
            };
            let (waiting, record) = (dispatcher.come_back(id, arrival, tried, wait), Arc::clone(epoch.job_type(id)));
            if waiting.is_ok() {
                live.joins_line(id);
            }
            (waiting, record, held)
        };
        match (waiting, receiver) {
            (Ok(ticket), Some(started)) => Again::InLine(InLine::new(self, ticket, started, record, held)),
            (Err(Blocked::NoServerUp), _) => Again::Nowhere,
            _ => {
                self.count_decision(Reason::Blocked);
                Again::Blocked(Refusal::NoCapacity { waits: false })
            }
        }
    }

    /// A random factor from 0.8 to 1.2.
    pub(crate) fn jitter(&self) -> f64 {
        let word = self.jitter.lock().unwrap_or_else(PoisonError::into_inner).next_u64();
        0.8 + 0.4 * (word >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// How often a breaker has tripped, or a server was given a pause.
    pub(crate) fn trips(&self) -> u64 {
        self.trips.load(Relaxed)
    }

    /// The condition of a server has changed.
    pub(crate) fn count_condition(&self, was: Condition, is: Condition) {
        if is == Condition::Tripped {
            self.trips.fetch_add(1, Relaxed);
        }
        match (was == Condition::Up, is == Condition::Up) {
            (true, false) => drop(self.unwell.fetch_add(1, Relaxed)),
            (false, true) => drop(self.unwell.fetch_sub(1, Relaxed)),
            _ => {}
        }
    }

    /// Gives places to jobs that were in line; servers are those of `epoch`.
    pub(crate) fn deliver(self: &Arc<Self>, started: Started, epoch: &Epoch) {
        for StartedLive { job, key } in started {
            // A receiver that is gone leaves the guard to its drop.
            let arrival = job.ticket.arrival();
            drop(job.job.send(InFlight::new(self, Arc::clone(epoch.server(job.server)), key, arrival)));
        }
    }

    /// Whether a server of this name is in service and has a cap.
    pub(crate) fn has_cap(&self, server: &str) -> bool {
        let Live { dispatcher, epoch, .. } = &*self.lock();
        epoch.fleet.find_server(server).is_some_and(|server| dispatcher.cap(server).is_some())
    }

    /// Jobs at a server; 0 if there is no server of this name.
    pub(crate) fn jobs(&self, server: &str) -> u32 {
        let Live { dispatcher, epoch, .. } = &*self.lock();
        epoch.fleet.find_server(server).map_or(0, |server| dispatcher.jobs(server))
    }

    /// Requests of a job type in line; 0 if there is no job type of this name.
    pub(crate) fn waiting(&self, job_type: &str) -> usize {
        let Live { dispatcher, epoch, .. } = &*self.lock();
        epoch.fleet.find_job_type(job_type).map_or(0, |job_type| dispatcher.waiting(job_type))
    }

    /// All counts.
    pub(crate) fn snapshot(&self) -> Snapshot {
        loop {
            if let Some(snapshot) = self.snapshot_in(self.epoch()) {
                return snapshot;
            }
        }
    }

    /// The same; `None` if another fleet takes over meanwhile.
    fn snapshot_in(&self, epoch: Arc<Epoch>) -> Option<Snapshot> {
        let fleet = &epoch.fleet;
        let mut servers = Vec::with_capacity(fleet.server_count());
        while servers.len() < fleet.server_count() {
            let end = (servers.len() + TURN).min(fleet.server_count());
            let live = self.lock_in(&epoch)?;
            let now = |s| ServerNow { jobs: live.dispatcher.jobs(s).into(), up: live.dispatcher.cap(s) != Some(0) };
            servers.extend((servers.len()..end).map(|s| now(ServerId::new(s))));
        }
        let mut waiting = Vec::with_capacity(fleet.job_type_count());
        while waiting.len() < fleet.job_type_count() {
            let end = (waiting.len() + TURN).min(fleet.job_type_count());
            let live = self.lock_in(&epoch)?;
            waiting.extend((waiting.len()..end).map(|l| live.dispatcher.waiting(JobTypeId::new(l))));
        }
        let (exchanges, waiting_total) = {
            let live = self.lock_in(&epoch)?;
            (live.dispatcher.epoch(), live.dispatcher.waiting_total())
        };
        Some(Snapshot { epoch, exchanges, servers, waiting, waiting_total })
    }

    /// The job types that some server takes requests of, in the fleet file's order, and what their ids mean.
    /// O(job types x degree) at worst.
    pub(crate) fn served(&self) -> (Arc<Epoch>, Vec<JobTypeId>) {
        loop {
            let epoch = self.epoch();
            if let Some(served) = self.served_in(&epoch) {
                return (epoch, served);
            }
        }
    }

    /// The same; `None` if another fleet takes over meanwhile.
    fn served_in(&self, epoch: &Arc<Epoch>) -> Option<Vec<JobTypeId>> {
        let (mut served, job_types) = (Vec::new(), epoch.fleet.job_type_count());
        for begin in (0..job_types).step_by(TURN) {
            let live = self.lock_in(epoch)?;
            let turn = (begin..(begin + TURN).min(job_types)).map(JobTypeId::new);
            served.extend(turn.filter(|&job_type| live.dispatcher.has_server_up(job_type)));
        }
        Some(served)
    }

    pub(crate) fn count_decision(&self, reason: Reason) {
        self.decisions[reason as usize].fetch_add(1, Relaxed);
    }

    pub(crate) fn decisions(&self, reason: Reason) -> u64 {
        self.decisions[reason as usize].load(Relaxed)
    }

    pub(crate) fn decision_s(&self) -> &Histogram {
        &self.decision_s
    }

    /// The lock, also after a panic inside it: requests already at servers still have to be counted down.
    fn lock(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lock, if the fleet in service is that of `epoch`.
    fn lock_in(&self, epoch: &Arc<Epoch>) -> Option<MutexGuard<'_, Live>> {
        Some(self.lock()).filter(|live| Arc::ptr_eq(&live.epoch, epoch))
    }
}
