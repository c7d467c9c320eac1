//! The health of a server in service: its [`Breaker`], what the dispatcher makes of it, and the log of it.
//!
//! Whatever changes a breaker goes through [`Server::change`]: under the server's own lock the breaker moves and the
//! server gets its cap in the dispatcher, so that both always say the same. Requests report how they fared through
//! their guard ([`InFlight`](crate::in_flight::InFlight)); while nothing is wrong a report is one relaxed load.
//!
//! Lock order: a server's health, then the dispatcher. Places that free for jobs in line are delivered after both.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use shortline_core::{Fleet, JobTypeId};
use tokio::time::Instant;

use crate::breaker::{Allowed, Breaker, Condition, Word};
use crate::dispatch::{Cap, Dispatch};
use crate::epoch::Epoch;
use crate::fleet_server::Server;

/// How a request fared at its server.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Report {
    /// A good answer has begun.
    BeganWell,
    /// All of a good answer has come.
    EndedWell,
    /// No connection, no answer in time, a broken answer, a status of `trip_status`.
    Failed,
    /// The server wants to be left alone for so long.
    Pause(Duration),
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
    /// A request of this generation fared like this.
    pub(crate) fn report(self: &Arc<Self>, dispatch: &Arc<Dispatch>, generation: u32, report: Report) {
        let health = self.health();
        let is_good = matches!(report, Report::BeganWell | Report::EndedWell);
        if (is_good && health.calm.load(Relaxed)) || generation != health.generation() {
            return;
        }
        let epoch = dispatch.epoch();
        let settings = &epoch.fleet.settings().health;
        let (jitter, now) = (dispatch.jitter(), Instant::now());
        self.change(dispatch, "requests", |breaker| match report {
            _ if generation != breaker.generation() => {}
            Report::BeganWell => breaker.began_well(slots(&epoch.fleet, self.name()), now, settings),
            Report::EndedWell => breaker.ended_well(settings),
            Report::Failed => breaker.failed(now, jitter, settings),
            Report::Pause(time) => breaker.pause(now + time),
        });
    }

    /// The operator speaks.
    pub(crate) fn told(self: &Arc<Self>, dispatch: &Arc<Dispatch>, word: Word) {
        self.change(dispatch, "operator", |breaker| breaker.told(word));
    }

    /// Moves the breaker, and the server's cap with it.
    pub(crate) fn change(self: &Arc<Self>, dispatch: &Arc<Dispatch>, by: &str, change: impl FnOnce(&mut Breaker)) {
        let health = self.health();
        let (started, wakes_at) = {
            let mut state = health.lock();
            let view = |breaker: &Breaker| (breaker.allowed(), breaker.generation(), breaker.wakes_at());
            let (before, was) = (view(&state.breaker), state.breaker.condition());
            change(&mut state.breaker);
            let (after, is) = (view(&state.breaker), state.breaker.condition());
            health.publish(&state.breaker);
            if was != is {
                self.log(by, was, is, state.breaker.opens_at());
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
                let slots = slots(&dispatch.epoch().fleet, server.name());
                server.change(&dispatch, "time", |breaker| breaker.wake(slots, Instant::now()));
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

    fn log(&self, by: &str, was: Condition, is: Condition, opens_at: Option<Instant>) {
        let (server, was, now) = (self.name(), was.name(), is.name());
        let for_s = opens_at.map(|at| at.saturating_duration_since(Instant::now()).as_secs_f64());
        match is {
            Condition::Tripped | Condition::Down => tracing::warn!(server, was, now, by, for_s, "health"),
            _ => tracing::info!(server, was, now, by, for_s, "health"),
        }
    }
}

impl Epoch {
    /// Whether some server of this job type gets requests, or would if it had room. O(degree).
    pub(crate) fn is_served(&self, job_type: JobTypeId) -> bool {
        let mut any = false;
        let gets = |condition| matches!(condition, Condition::Up | Condition::SlowStart);
        self.fleet.graph().for_each(job_type.index(), |id| any |= gets(self.server(id).health().condition()));
        any
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
