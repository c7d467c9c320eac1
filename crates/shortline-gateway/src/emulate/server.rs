//! One emulated server: its queue, its dice, and who waits for which job.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rand::SeedableRng;
use shortline_core::fleet::settings::Discipline;
use shortline_core::random::Generator;
use shortline_core::{Fleet, JobTypeId, ServerId};
use tokio::sync::oneshot;

use super::fifo::Fifo;
use super::queue::{Event, JobNumber, Nanos, Queue, Times};
use super::sharing::Sharing;
use super::timer::Timer;
use shortline_core::sizes::UnitLaw;

/// Lateness is recorded up to a minute, to about 1 %.
const MAX_LATENESS_NS: u64 = 60_000_000_000;

/// What all servers of an emulator have in common.
#[derive(Debug)]
pub(super) struct Common {
    pub(super) fleet: Arc<Fleet>,
    /// `None` when sizes come with the requests only.
    pub(super) law: Option<UnitLaw>,
    pub(super) timer: Timer,
    pub(super) origin: Instant,
    pub(super) lateness: Mutex<Histogram<u64>>,
}

impl Common {
    pub(super) fn new(fleet: Arc<Fleet>, law: Option<UnitLaw>, timer: Timer) -> Self {
        let lateness = Histogram::new_with_bounds(1, MAX_LATENESS_NS, 2).expect("1 ns to 60 s are bounds");
        Self { fleet, law, timer, origin: Instant::now(), lateness: Mutex::new(lateness) }
    }

    pub(super) fn instant(&self, time: Nanos) -> Instant {
        self.origin + Duration::from_nanos(time)
    }

    fn now(&self) -> Nanos {
        u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Notes how long after its intended end a job is answered.
    pub(super) fn note_answered(&self, times: &Times) {
        let late = self.now().saturating_sub(times.ended).clamp(1, MAX_LATENESS_NS);
        self.lateness.lock().unwrap_or_else(PoisonError::into_inner).saturating_record(late);
    }
}

/// One server of the fleet.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) common: Arc<Common>,
    pub(super) id: ServerId,
    pub(super) name: String,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    queue: Box<dyn Queue>,
    rng: Generator,
    arrived: JobNumber,
    watchers: HashMap<JobNumber, Watcher>,
    /// The earliest wake-up asked of the timer and not yet come.
    armed: Option<Nanos>,
}

#[derive(Debug)]
struct Watcher {
    started: Option<oneshot::Sender<Times>>,
    ended: oneshot::Sender<Times>,
}

/// There is no room: the server holds as many jobs as its buffer allows.
#[derive(Debug)]
pub(super) struct NoRoom;

impl Server {
    pub(super) fn new(common: Arc<Common>, id: ServerId, seed: u64) -> Self {
        let fleet = &common.fleet;
        let slots = fleet.slots(id);
        let queue: Box<dyn Queue> = match fleet.settings().service.discipline {
            Discipline::Fifo => Box::new(Fifo::new(slots)),
            Discipline::ProcessorSharing => Box::new(Sharing::new(slots)),
        };
        let rng = Generator::seed_from_u64(seed);
        let state = State { queue, rng, arrived: 0, watchers: HashMap::new(), armed: None };
        Self { name: fleet.server_name(id), common, id, state: Mutex::new(state) }
    }

    /// Whether the server holds the job type.
    pub(super) fn holds(&self, job_type: JobTypeId) -> bool {
        self.common.fleet.graph().contains(job_type.index(), self.id)
    }

    /// Jobs at the server.
    pub(super) fn jobs(self: &Arc<Self>) -> usize {
        self.now_do(|state, _, _| state.queue.len())
    }

    /// A job joins, of the size given or of a size drawn.
    ///
    /// # Panics
    /// If no size is given and the fleet's sizes cannot be drawn ([`Common::law`] is `None`).
    pub(super) fn admit(self: &Arc<Self>, job_type: JobTypeId, size: Option<f64>) -> Result<Job, NoRoom> {
        let fleet = &self.common.fleet;
        let buffer = fleet.buffer(self.id).map_or(usize::MAX, |jobs| jobs as usize);
        let (send_started, started) = oneshot::channel();
        let (send_ended, ended) = oneshot::channel();
        let number = self.now_do(|state, now, happened| {
            if state.queue.len() >= buffer {
                return Err(NoRoom);
            }
            let size = size.unwrap_or_else(|| {
                let law = self.common.law.expect("the caller gives a size where none can be drawn");
                fleet.size(job_type) * law.draw(&mut state.rng)
            });
            let number = state.arrived;
            state.arrived += 1;
            state.watchers.insert(number, Watcher { started: Some(send_started), ended: send_ended });
            state.queue.arrive(now, number, self.service(job_type, size), happened);
            Ok(number)
        })?;
        Ok(Job { server: Arc::clone(self), number, started, ended })
    }

    /// How long a job of this size takes on one slot, in real time.
    fn service(&self, job_type: JobTypeId, size: f64) -> Nanos {
        let fleet = &self.common.fleet;
        let rate = fleet.rate(job_type, fleet.server_type(self.id));
        // A float too large for the type becomes the largest: such a job never ends.
        (size / rate * fleet.settings().emulate.time_scale * 1e9).round() as Nanos
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Brings the queue up to now, makes a change, tells the watchers, and asks to be woken for what comes next.
    fn now_do<T>(self: &Arc<Self>, change: impl FnOnce(&mut State, Nanos, &mut Vec<Event>) -> T) -> T {
        let mut happened = Vec::new();
        let mut state = self.lock();
        // Under the lock, so that times never fall.
        let now = self.common.now();
        state.queue.advance(now, &mut happened);
        let result = change(&mut state, now, &mut happened);
        for event in happened {
            state.tell(event);
        }
        let next = state.queue.next();
        if let Some(next) = next.filter(|&next| state.armed.is_none_or(|armed| next < armed)) {
            state.armed = Some(next);
            let server = Arc::clone(self);
            self.common.timer.at(self.common.instant(next), move || server.wake());
        }
        result
    }

    fn wake(self: &Arc<Self>) {
        self.now_do(|state, _, _| state.armed = None);
    }
}

impl State {
    /// A receiver may be gone: its client went away a moment ago.
    fn tell(&mut self, event: Event) {
        match event {
            Event::Started { job, times } => {
                let watcher = self.watchers.get_mut(&job);
                if let Some(started) = watcher.and_then(|watcher| watcher.started.take()) {
                    let _gone = started.send(times);
                }
            }
            Event::Ended { job, times } => {
                if let Some(watcher) = self.watchers.remove(&job) {
                    let _gone = watcher.ended.send(times);
                }
            }
        }
    }
}

/// A job at an emulated server; dropping it takes the job off, whatever state it is in.
#[derive(Debug)]
pub(super) struct Job {
    server: Arc<Server>,
    pub(super) number: JobNumber,
    /// Resolves when service begins.
    pub(super) started: oneshot::Receiver<Times>,
    /// Resolves when service ends.
    pub(super) ended: oneshot::Receiver<Times>,
}

impl Drop for Job {
    fn drop(&mut self) {
        self.server.now_do(|state, now, happened| {
            if state.watchers.remove(&self.number).is_some() {
                state.queue.leave(now, self.number, happened);
            }
        });
    }
}
