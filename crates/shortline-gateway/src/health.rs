//! The health of a server in service: its [`Breaker`], what the dispatcher makes of it, and the log of it.
//!
//! Whatever changes a breaker goes through [`Server::change`]: under the server's own lock the breaker moves and the
//! server gets its cap in the dispatcher, so that both always say the same. Requests report how they fared through
//! their guard ([`InFlight`](crate::in_flight::InFlight)); while nothing is wrong a report is one relaxed load.
//!
//! Lock order: a server's health, then the dispatcher. Places that free for jobs in line are delivered after both.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use shortline_core::{Fleet, JobTypeId, ServerId};
use tokio::time::Instant;

use crate::breaker::{Allowed, Breaker, Condition, Word};
use crate::dispatch::{Cap, Dispatch};
use crate::epoch::Epoch;
use crate::fleet_server::Server;

/// How a server has failed at a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum Failing {
    #[error("no connection")]
    Connect,
    #[error("no answer within first_byte_s")]
    Late,
    #[error("broke off before its answer, or did not answer in HTTP")]
    NoAnswer,
    #[error("broke off its answer")]
    BrokenAnswer,
    #[error("paused its answer for longer than idle_s")]
    Idle,
    #[error("status {0}")]
    Status(u16),
    #[error("status {0}, where another server took the request")]
    OwnStatus(u16),
    #[error("gRPC status {0}")]
    Grpc(u16),
    #[error("refused twice to begin the request")]
    Unprocessed,
    #[error("switched the protocol without proof")]
    NoProof,
    #[error("broke a tunnel")]
    Tunnel,
}

/// How a request fared at its server.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Report {
    /// A good answer has begun.
    BeganWell,
    /// All of a good answer has come.
    EndedWell,
    /// No connection, no answer in time, a broken answer, a status of `trip_status`.
    Failed(Failing),
    /// What may be the request's own fault, at a server that other job types cannot spare.
    FailedMaybe(Failing),
    /// The server wants to be left alone for so long, as it says with this.
    Pause(Duration, Failing),
}

/// What an answer says of its server, unless it is about the request: a 429 may mean the server's load or the client's quota.
#[derive(Debug)]
pub(crate) struct Doubt {
    pub(crate) server: Arc<Server>,
    pub(crate) generation: u32,
    pub(crate) report: Report,
    pub(crate) since: Instant,
}

impl Doubt {
    /// It is about the server.
    pub(crate) fn confirm(self, dispatch: &Arc<Dispatch>) {
        let report = match self.report {
            Report::Pause(time, why) => Report::Pause(time.saturating_sub(self.since.elapsed()), why),
            report => report,
        };
        if !matches!(report, Report::Pause(Duration::ZERO, _)) {
            let _stays: bool = self.server.report(dispatch, self.generation, report);
        }
    }
}

/// A server's health.
#[derive(Debug)]
pub(crate) struct ServerHealth {
    state: Mutex<State>,
    /// The breaker's, to be read without the lock.
    generation: AtomicU32,
    calm: AtomicBool,
    condition: AtomicU8,
    /// When it will be tried again, milliseconds after `born`; `u64::MAX`: nobody knows.
    opens_at_ms: AtomicU64,
    /// When it is checked next, in the same way.
    next_check_ms: AtomicU64,
    born: Instant,
}

#[derive(Default, Debug)]
struct State {
    breaker: Breaker,
    /// Jobs at the server that were sent in an older generation.
    older: u32,
}

impl Default for ServerHealth {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            generation: AtomicU32::new(0),
            calm: AtomicBool::new(true),
            condition: AtomicU8::new(Condition::Up as u8),
            opens_at_ms: AtomicU64::new(u64::MAX),
            next_check_ms: AtomicU64::new(u64::MAX),
            born: Instant::now(),
        }
    }
}

impl ServerHealth {
    pub(crate) fn condition(&self) -> Condition {
        Condition::ALL[usize::from(self.condition.load(Relaxed))]
    }

    /// Jobs that are sent now belong to this generation.
    pub(crate) fn generation(&self) -> u32 {
        self.generation.load(Relaxed)
    }

    /// How long until it will be tried again, if that is certain.
    fn opens_in(&self, now: Instant) -> Option<Duration> {
        match self.opens_at_ms.load(Relaxed) {
            u64::MAX => None,
            at_ms => Some((self.born + Duration::from_millis(at_ms)).saturating_duration_since(now)),
        }
    }

    /// When it is checked next; `None`: it never was.
    pub(crate) fn next_check(&self) -> Option<Instant> {
        let at_ms = self.next_check_ms.load(Relaxed);
        (at_ms != u64::MAX).then(|| self.born + Duration::from_millis(at_ms))
    }

    pub(crate) fn set_next_check(&self, at: Option<Instant>) {
        self.next_check_ms.store(at.map_or(u64::MAX, |at| self.ms(at)), Relaxed);
    }

    /// Milliseconds from `born`.
    fn ms(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.born).as_millis()).unwrap_or(u64::MAX)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn publish(&self, breaker: &Breaker) {
        self.generation.store(breaker.generation(), Relaxed);
        self.calm.store(breaker.is_calm(), Relaxed);
        self.condition.store(breaker.condition() as u8, Relaxed);
        self.opens_at_ms.store(breaker.opens_at().map_or(u64::MAX, |at| self.ms(at)), Relaxed);
    }
}

impl Server {
    /// Whether it gets requests, as far as it has room.
    fn is_well(&self) -> bool {
        matches!(self.health().condition(), Condition::Up | Condition::SlowStart)
    }

    /// A request of this generation fared like this. Whether it is one failure too many at a server that stays all the same.
    pub(crate) fn report(self: &Arc<Self>, dispatch: &Arc<Dispatch>, generation: u32, report: Report) -> bool {
        let health = self.health();
        let is_good = matches!(report, Report::BeganWell | Report::EndedWell);
        let mut stays = false;
        if (is_good && health.calm.load(Relaxed)) || generation != health.generation() {
            return stays;
        }
        let epoch = dispatch.epoch();
        let settings = &epoch.fleet.settings().health;
        let (jitter, now) = (dispatch.jitter(), Instant::now());
        let unreachable = match report {
            Report::Failed(Failing::Connect) | Report::Pause(_, Failing::Connect) => self.upstream().why_unreachable(),
            _ => None,
        };
        let why: Option<&dyn fmt::Display> = match (&report, &unreachable) {
            (_, Some(why)) => Some(why),
            (Report::Failed(failing) | Report::FailedMaybe(failing) | Report::Pause(_, failing), _) => Some(failing),
            (Report::BeganWell | Report::EndedWell, _) => None,
        };
        self.change(dispatch, "requests", why, |breaker| match report {
            _ if generation != breaker.generation() => {}
            Report::BeganWell => breaker.began_well(slots(&epoch.fleet, self.name()), now, settings),
            Report::EndedWell => breaker.ended_well(settings),
            Report::Failed(_) => {
                breaker.failed(now, jitter, true, settings);
            }
            Report::FailedMaybe(_) => {
                let too_many = breaker.failed(now, jitter, false, settings);
                stays = too_many && breaker.condition() != Condition::Tripped;
            }
            Report::Pause(time, _) => breaker.pause(now + time),
        });
        stays
    }

    /// The operator speaks.
    pub(crate) fn told(self: &Arc<Self>, dispatch: &Arc<Dispatch>, word: Word) {
        self.change(dispatch, "operator", None, |breaker| breaker.told(word));
    }

    /// Moves the breaker, and the server's cap with it; `by` whom and `why`, for the log.
    pub(crate) fn change(
        self: &Arc<Self>,
        dispatch: &Arc<Dispatch>,
        by: &str,
        why: Option<&dyn fmt::Display>,
        change: impl FnOnce(&mut Breaker),
    ) {
        let health = self.health();
        let (started, wakes_at) = {
            let mut state = health.lock();
            let view = |breaker: &Breaker| (breaker.allowed(), breaker.generation(), breaker.wakes_at());
            let (before, was) = (view(&state.breaker), state.breaker.condition());
            change(&mut state.breaker);
            let (after, is) = (view(&state.breaker), state.breaker.condition());
            health.publish(&state.breaker);
            if was != is {
                self.log((by, why), was, is, state.breaker.opens_at());
                dispatch.count_condition(was, is);
            }
            let begins = before.1 != after.1;
            let started = (begins || before.0 != after.0).then(|| self.set_cap(dispatch, &mut state, begins));
            (started.flatten(), after.2.filter(|_| before.2 != after.2))
        };
        if let Some((started, epoch)) = started {
            dispatch.deliver(started, &epoch);
        }
        if let Some(at) = wakes_at {
            self.wake_at(dispatch, at);
        }
    }

    /// Wakes the breaker at this moment.
    fn wake_at(self: &Arc<Self>, dispatch: &Arc<Dispatch>, at: Instant) {
        let (server, dispatch) = (Arc::clone(self), Arc::downgrade(dispatch));
        tokio::spawn(async move {
            tokio::time::sleep_until(at).await;
            if let Some(dispatch) = dispatch.upgrade() {
                let epoch = dispatch.epoch();
                let slots = slots(&epoch.fleet, server.name());
                let probes = dispatch.jobs(server.name()).saturating_sub(server.health().lock().older);
                let settings = &epoch.fleet.settings().health;
                server.change(&dispatch, "time", None, |breaker| breaker.wake(slots, probes, Instant::now(), settings));
            }
        });
    }

    /// Gives the server the cap that its breaker asks for, in a fleet that does not know of it yet: for a server that comes
    /// back with an exchange of the fleet. (Of those that stay the core carries it over.)
    pub(crate) fn apply_health(self: &Arc<Self>, dispatch: &Arc<Dispatch>) {
        let started = {
            let mut state = self.health().lock();
            let has_cap = dispatch.has_cap(self.name());
            match state.breaker.allowed() {
                Allowed::All => None,
                Allowed::AtATime(_) | Allowed::Nothing if has_cap => None,
                _ => self.set_cap(dispatch, &mut state, !has_cap),
            }
        };
        if let Some((started, epoch)) = started {
            dispatch.deliver(started, &epoch);
        }
    }

    /// A job of this generation is about to leave. One that does not count as allowed takes its place with it.
    pub(crate) fn leaves(self: &Arc<Self>, dispatch: &Arc<Dispatch>, generation: u32) {
        let health = self.health();
        if generation == health.generation() {
            return;
        }
        let started = {
            let mut state = health.lock();
            state.older = state.older.saturating_sub(1);
            match state.breaker.allowed() {
                Allowed::AtATime(_) | Allowed::Preferably(_) => self.set_cap(dispatch, &mut state, false),
                Allowed::All | Allowed::Nothing => None,
            }
        };
        if let Some((started, epoch)) = started {
            dispatch.deliver(started, &epoch);
        }
    }

    /// `begins`: the jobs that are there now are older than what is allowed.
    fn set_cap(
        &self,
        dispatch: &Arc<Dispatch>,
        state: &mut State,
        begins: bool,
    ) -> Option<(crate::dispatch::Started, Arc<Epoch>)> {
        let allowed = state.breaker.allowed();
        dispatch.set_cap(self.name(), |jobs| {
            if begins {
                state.older = jobs;
            }
            let beyond_older = |n: u32| state.older.saturating_add(n).min(u32::MAX - 1);
            match allowed {
                Allowed::All => Cap::Lifted,
                Allowed::Nothing => Cap::At(0),
                Allowed::AtATime(n) => Cap::At(beyond_older(n)),
                Allowed::Preferably(n) => Cap::Preferred(beyond_older(n)),
            }
        })
    }

    fn log(
        &self,
        (by, why): (&str, Option<&dyn fmt::Display>),
        was: Condition,
        is: Condition,
        opens_at: Option<Instant>,
    ) {
        let (server, was, now) = (self.name(), was.name(), is.name());
        let for_s = opens_at.map(|at| at.saturating_duration_since(Instant::now()).as_secs_f64());
        match is {
            Condition::Tripped | Condition::Down => {
                let (address, why) = (self.upstream().address(), why.map(tracing::field::display));
                tracing::warn!(server, %address, was, now, by, why, for_s, "health");
            }
            _ => tracing::info!(server, was, now, by, for_s, "health"),
        }
    }
}

impl Epoch {
    /// Whether some server of this job type gets requests, or would if it had room. O(degree).
    pub(crate) fn is_served(&self, job_type: JobTypeId) -> bool {
        self.fleet.graph().any(job_type.index(), |id| self.server(id).is_well())
    }

    /// Whether some job type has no other server that gets its requests. O(edges) at the most.
    pub(crate) fn cannot_spare(&self, server: &Server) -> bool {
        let holds = |id, l: JobTypeId| self.fleet.graph().contains(l.index(), id);
        self.fleet
            .find_server(server.name())
            .is_some_and(|id| self.fleet.job_types().any(|l| holds(id, l) && !self.is_served_beside(l, id)))
    }

    /// Whether another server than this one gets requests of this job type. O(degree) at the most.
    pub(crate) fn is_served_beside(&self, job_type: JobTypeId, id: ServerId) -> bool {
        let (name, now) = (self.job_type(job_type).name(), Instant::now());
        let takes = |other: &Server| other.is_well() && other.lost().back_in(name, now).is_none();
        self.fleet.graph().any(job_type.index(), |other| other != id && takes(self.server(other)))
    }

    /// How long until the first of this job type's servers will be tried again, if that is certain. O(degree).
    pub(crate) fn served_in(&self, job_type: JobTypeId, now: Instant) -> Option<Duration> {
        let mut first: Option<Duration> = None;
        self.fleet.graph().for_each(job_type.index(), |id| {
            let server = self.server(id);
            let opens_in = server.health().opens_in(now);
            let lost_for = server.lost().back_in(self.job_type(job_type).name(), now);
            if let Some(wait) = opens_in.max(lost_for) {
                first = Some(first.map_or(wait, |first| first.min(wait)));
            }
        });
        first
    }
}

fn slots(fleet: &Fleet, server: &str) -> u32 {
    fleet.find_server(server).map_or(1, |server| fleet.slots(server))
}
