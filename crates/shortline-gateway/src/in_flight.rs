//! Jobs at servers and jobs in line, as guards: whatever happens to a request, its count goes down exactly once.
//!
//! [`InFlight`] is a place at a server; dropping it gives the place back, on success, error, cancellation and panic
//! alike, and hands it to the waiting job that the dispatcher names. [`InLine`] is a place in a line; dropping it
//! leaves the line. A job that is started from a line gets its [`InFlight`] through a channel: if the receiver is
//! gone by then, the guard comes back and its place goes to the next one.

use std::sync::Arc;
use std::time::Duration;

use shortline_core::live::{JoinKind, ServerKey};
use shortline_core::{Arrival, JobTypeId, ServerId, Ticket};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::dispatch::Dispatch;
use crate::epoch::{Epoch, Limits};
use crate::errors::Refusal;
use crate::fleet_server::Server;
use crate::health::{Doubt, Report};
use crate::stats::JobTypeRecord;
use crate::supply::Supply;

/// A job at a server.
#[derive(Debug)]
pub(crate) struct InFlight {
    dispatch: Arc<Dispatch>,
    server: Arc<Server>,
    key: Option<ServerKey>,
    /// When the job came.
    arrival: Arrival,
    /// The server's generation when it was sent there (see [`breaker`](crate::breaker)).
    generation: u32,
    /// Whether the time it takes is one of its service, and of what.
    timed: Option<Timed>,
    /// Since when it has found no server up, if it was held until it got this place.
    none_up_since: Option<Instant>,
}

/// A job whose service began when it came.
#[derive(Debug)]
struct Timed {
    epoch: Arc<Epoch>,
    job_type: JobTypeId,
    server: ServerId,
}

/// Of a server's first so many requests every one is timed, later one in [`TIMED_LATER`].
const TIMED_FIRST: u64 = 1000;
const TIMED_LATER: u64 = 8;

impl InFlight {
    /// Guards a place that the dispatcher has just given.
    pub(crate) fn new(dispatch: &Arc<Dispatch>, server: Arc<Server>, key: ServerKey, arrival: Arrival) -> Self {
        server.count_routed();
        let generation = server.health().generation();
        Self {
            dispatch: Arc::clone(dispatch),
            server,
            key: Some(key),
            arrival,
            generation,
            timed: None,
            none_up_since: None,
        }
    }

    /// The same for a job of this type, which found a free slot at `id` in the fleet of `epoch`.
    pub(crate) fn in_service(
        dispatch: &Arc<Dispatch>,
        epoch: &Arc<Epoch>,
        job_type: JobTypeId,
        id: ServerId,
        key: ServerKey,
        arrival: Arrival,
    ) -> Self {
        let server = Arc::clone(epoch.server(id));
        let before = server.count_routed();
        let is_timed = before < TIMED_FIRST || before.is_multiple_of(TIMED_LATER);
        let timed = is_timed.then(|| Timed { epoch: Arc::clone(epoch), job_type, server: id });
        let generation = server.health().generation();
        Self { dispatch: Arc::clone(dispatch), server, key: Some(key), arrival, generation, timed, none_up_since: None }
    }

    /// The job has ended with success, so long after it came.
    pub(crate) fn took(&mut self, time: impl FnOnce() -> Duration) {
        if let Some(Timed { epoch, job_type, server }) = self.timed.take() {
            epoch.service_times.add(&epoch.fleet, job_type, server, time());
        }
    }

    /// When the job came, among others.
    pub(crate) fn arrival(&self) -> Arrival {
        self.arrival
    }

    /// Since when it had found no server up when it got its place. Unless its server answers, it is held no longer for
    /// having been there.
    pub(crate) fn none_up_since(&self) -> Option<Instant> {
        self.none_up_since
    }

    pub(crate) fn set_none_up_since(&mut self, since: Option<Instant>) {
        self.none_up_since = since;
    }

    /// Where the job is.
    pub(crate) fn server(&self) -> &Arc<Server> {
        &self.server
    }

    /// The server, for the dispatcher; `None` after it was given back.
    pub(crate) fn key(&self) -> Option<ServerKey> {
        self.key
    }

    /// What its answer would say of the server, if another one took the job.
    pub(crate) fn doubt(&self, report: Report) -> Doubt {
        Doubt { server: Arc::clone(&self.server), generation: self.generation, report, since: Instant::now() }
    }

    /// The job fares like this. Whether it is one failure too many at a server that stays all the same.
    pub(crate) fn report(&self, report: Report) -> bool {
        self.server.report(&self.dispatch, self.generation, report)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut leaving = self.key.take();
        // A loop, not recursion: however many receivers are gone, the stack stays flat.
        while let Some(key) = leaving.take() {
            self.server.count_completed();
            self.server.leaves(&self.dispatch, self.generation);
            if let Some((place, delivery)) = self.dispatch.complete(key)
                && let Err(mut unwanted) = delivery.send(place)
            {
                leaving = unwanted.key.take();
                (self.server, self.generation) = (Arc::clone(&unwanted.server), unwanted.generation);
            }
        }
    }
}

/// A job that waits in line.
#[derive(Debug)]
pub(crate) struct InLine {
    dispatch: Arc<Dispatch>,
    ticket: Ticket,
    started: oneshot::Receiver<InFlight>,
    job_type: Arc<JobTypeRecord>,
    /// Whether no server was up for it beside those that it was at.
    held: bool,
}

impl InLine {
    pub(crate) fn new(
        dispatch: &Arc<Dispatch>,
        ticket: Ticket,
        started: oneshot::Receiver<InFlight>,
        job_type: Arc<JobTypeRecord>,
        held: bool,
    ) -> Self {
        Self { dispatch: Arc::clone(dispatch), ticket, started, job_type, held }
    }

    /// Whether no server is up for it beside those that it was at.
    pub(crate) fn is_held(&self) -> bool {
        self.held
    }

    /// Waits for a place, at most as long as the limits on waits allow; then the job is out of the line. While a server
    /// is up for it, it waits for `queue` from `since` on. From the moment that none is, it waits for `hold` (without one:
    /// not at all), whether it came before that moment or after it; `none_up_since` if that was earlier, before it was at
    /// a server. A server that is only being tried is not up for one that is held.
    pub(crate) async fn place(mut self, limits: &Limits, since: Instant, mut none_up_since: Option<Instant>) -> Waited {
        let hold = limits.hold.unwrap_or(Duration::ZERO);
        let Self { started, job_type, held, .. } = &mut self;
        let placed = |place: Result<InFlight, oneshot::error::RecvError>, none_up_since| match place {
            Ok(mut place) => {
                place.set_none_up_since(none_up_since);
                Waited::Placed(place)
            }
            Err(_) => Waited::Dismissed,
        };
        loop {
            let changed = job_type.supply().changed();
            let is_up = match job_type.supply().get() {
                _ if *held => false,
                Supply::Up => true,
                Supply::Probes => limits.hold.is_none(),
                Supply::Nothing => false,
            };
            none_up_since = if is_up { None } else { none_up_since.or_else(|| Some(Instant::now())) };
            // However often servers come and go: both limits together are the most.
            let until =
                none_up_since.map_or(since + limits.queue, |none_up| (none_up + hold).min(since + limits.queue + hold));
            tokio::select! {
                biased;
                place = &mut *started => return placed(place, none_up_since),
                () = changed => *held = false,
                () = tokio::time::sleep_until(until) => break,
            }
        }
        match self.dispatch.cancel(self.ticket) {
            Some(_) if none_up_since.is_some() => Waited::NoServerUp,
            Some(_) => Waited::TooLong,
            // Started in this very moment: its place is on the way.
            None => placed((&mut self.started).await, none_up_since),
        }
    }
}

impl Drop for InLine {
    fn drop(&mut self) {
        drop(self.dispatch.cancel(self.ticket));
    }
}

/// How a wait in line ended.
#[derive(Debug)]
pub(crate) enum Waited {
    /// It has a place.
    Placed(InFlight),
    /// It took too long.
    TooLong,
    /// It took too long for a server to be up.
    NoServerUp,
    /// The fleet was exchanged for one without this line.
    Dismissed,
}

/// What the dispatcher decided about a request.
#[derive(Debug)]
pub(crate) enum Route {
    /// It has a place.
    Placed(InFlight, Reason),
    /// It waits.
    InLine(InLine),
    /// It is refused.
    Blocked(Refusal),
}

/// What the dispatcher decided about a request that a server did nothing about.
#[derive(Debug)]
pub(crate) enum Again {
    /// It has a place at another server.
    Placed(InFlight, Reason),
    /// It waits for one.
    InLine(InLine),
    /// The others have no room.
    Blocked(Refusal),
    /// There is no other server for it, or it does not wait for one.
    Nowhere,
}

/// Why a request is where it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reason {
    /// A free slot at one of the fastest servers that hold its job type.
    IdleFastest,
    /// A free slot at a slower one.
    IdleSlower,
    /// No free slot: it queues at the server.
    Queued,
    /// It got a place after a wait in line.
    Waited,
    /// No place.
    Blocked,
}

impl Reason {
    /// All of them.
    pub(crate) const ALL: [Self; 5] = [Self::IdleFastest, Self::IdleSlower, Self::Queued, Self::Waited, Self::Blocked];

    /// Why a request that was placed at once is where it is.
    pub(crate) fn of(kind: JoinKind) -> Self {
        match kind {
            JoinKind::IdleFastest => Self::IdleFastest,
            JoinKind::IdleSlower => Self::IdleSlower,
            JoinKind::Queued => Self::Queued,
        }
    }

    /// Its word in metrics and logs.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::IdleFastest => "idle-fastest",
            Self::IdleSlower => "idle-slower",
            Self::Queued => "queued",
            Self::Waited => "waited",
            Self::Blocked => "blocked",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::Pin;
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
    use std::task::{Context, Poll, Wake};

    use crate::dispatch::Cap;
    use crate::testing::{epoch, fleet, next, server, server_type};
    use proptest::prelude::*;
    use shortline_core::LiveDispatcher;
    use shortline_core::fleet::settings::{LineSettings, Overflow, Settings};

    /// Two servers with `buffer` places; job type 0 on both, 1 on the first, 2 on the second.
    fn dispatch(buffer: u32, line: Option<u32>) -> Arc<Dispatch> {
        let lines = LineSettings { size: line, ..LineSettings::default() };
        let overflow = if line.is_some() { Overflow::Wait } else { Overflow::Reject };
        let parts = fleet(
            vec![server_type("fast", 2.0), server_type("slow", 1.0)],
            vec![server("a", 0, Some(buffer)), server("b", 1, Some(buffer))],
            &[&[0, 1], &[0], &[1]],
            Settings { overflow, lines, ..Settings::default() },
        );
        Arc::new(Dispatch::new(Arc::new(epoch(parts)), 1).unwrap())
    }

    fn route(dispatch: &Arc<Dispatch>, job_type: JobTypeId) -> Route {
        dispatch.route(&dispatch.epoch(), job_type)
    }

    fn counts(dispatch: &Dispatch) -> (u64, usize) {
        let snapshot = dispatch.snapshot();
        (snapshot.servers.iter().map(|s| s.jobs).sum(), snapshot.waiting_total)
    }

    #[tokio::test]
    async fn a_freed_place_goes_to_the_job_in_line_and_a_dropped_one_passes_it_on() {
        let dispatch = dispatch(1, Some(10));
        let l = JobTypeId::new(1);
        let Route::Placed(first, Reason::IdleFastest) = route(&dispatch, l) else { panic!("an idle server") };
        let Route::InLine(gone) = route(&dispatch, l) else { panic!("a full server") };
        let Route::InLine(second) = route(&dispatch, l) else { panic!("a full server") };
        assert_eq!(counts(&dispatch), (1, 2));
        drop(gone);
        assert_eq!(counts(&dispatch), (1, 1));
        drop(first);
        assert_eq!(counts(&dispatch), (1, 0));
        let Waited::Placed(place) = second.place(&dispatch.epoch().limits, Instant::now(), None).await else {
            panic!("the freed place")
        };
        assert_eq!(place.server().name(), "a");
        drop(place);
        assert_eq!(counts(&dispatch), (0, 0));
    }

    #[tokio::test]
    async fn only_jobs_that_find_a_free_slot_tell_of_service() {
        let dispatch = dispatch(2, None);
        let epoch = dispatch.epoch();
        for _ in 0..40 {
            let Route::Placed(mut first, Reason::IdleFastest) = route(&dispatch, JobTypeId::new(1)) else {
                panic!("an idle server")
            };
            let Route::Placed(mut second, Reason::Queued) = route(&dispatch, JobTypeId::new(1)) else {
                panic!("a second place")
            };
            first.took(|| Duration::from_secs(3));
            second.took(|| panic!("it has waited"));
        }
        let fitted = epoch.service_times.fit(&epoch.fleet, 1.0, false).unwrap();
        // The file says rate 2: size 6 takes 3 s.
        assert!((fitted.sizes[1].unwrap() - 6.0).abs() < 1e-9 && fitted.sizes[0].is_none(), "{fitted:?}");
        assert!((fitted.jobs - 40.0).abs() < 1e-9 && fitted.error < 1e-9, "{fitted:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_that_takes_too_long_leaves_the_line() {
        let dispatch = dispatch(1, Some(10));
        let Route::Placed(_first, _) = route(&dispatch, JobTypeId::new(1)) else { panic!("an idle server") };
        let Route::InLine(waits) = route(&dispatch, JobTypeId::new(1)) else { panic!("a full server") };
        assert!(matches!(waits.place(&dispatch.epoch().limits, Instant::now(), None).await, Waited::TooLong));
        assert_eq!(counts(&dispatch), (1, 0));
    }

    /// One server; job type 0.
    fn with_hold(hold_s: f64) -> Arc<Dispatch> {
        let lines = LineSettings { hold_s: Some(hold_s), ..LineSettings::default() };
        let settings = Settings { overflow: Overflow::Wait, lines, ..Settings::default() };
        let parts = fleet(vec![server_type("t", 1.0)], vec![server("s", 0, Some(1))], &[&[0]], settings);
        Arc::new(Dispatch::new(Arc::new(epoch(parts)), 1).unwrap())
    }

    fn cap(dispatch: &Arc<Dispatch>, cap: Cap) {
        let (started, epoch) = dispatch.set_cap("s", |_| cap).unwrap();
        dispatch.deliver(started, &epoch);
    }

    fn wait(dispatch: &Arc<Dispatch>, none_up_since: Option<Instant>) -> tokio::task::JoinHandle<(Waited, Instant)> {
        let Route::InLine(line) = route(dispatch, JobTypeId::new(0)) else { panic!("no server with room") };
        let epoch = dispatch.epoch();
        tokio::spawn(async move { (line.place(&epoch.limits, Instant::now(), none_up_since).await, Instant::now()) })
    }

    /// A server that is dead: it is tried each second, by one request at a time, for 0.9 s, and fails.
    #[tokio::test(start_paused = true)]
    async fn a_held_request_is_held_no_longer_for_probes_that_fail() {
        let dispatch = with_hold(5.5);
        let began = Instant::now();
        cap(&dispatch, Cap::At(0));
        let mut waits: Vec<_> = (0..10).map(|_| wait(&dispatch, None)).collect();
        let mut newcomer = None;
        for probe in waits.drain(..5) {
            tokio::time::sleep(Duration::from_millis(100)).await;
            cap(&dispatch, Cap::At(1));
            tokio::time::sleep(Duration::from_millis(400)).await;
            // Who comes during a probe is held, too.
            newcomer.get_or_insert_with(|| wait(&dispatch, None));
            tokio::time::sleep(Duration::from_millis(500)).await;
            cap(&dispatch, Cap::At(0));
            let (Waited::Placed(place), _) = probe.await.unwrap() else { panic!("it is the probe") };
            assert_eq!(place.none_up_since(), Some(began), "its failure does not begin the hold anew");
        }
        for wait in waits {
            let (waited, at) = wait.await.unwrap();
            assert!(matches!(waited, Waited::NoServerUp), "{waited:?}");
            assert_eq!(at - began, Duration::from_millis(5500));
        }
        let (waited, at) = newcomer.unwrap().await.unwrap();
        assert!(matches!(waited, Waited::NoServerUp) && at - began == Duration::from_secs(6), "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_was_really_up_begins_the_hold_anew_and_one_held_before_its_place_is_held_on() {
        let dispatch = with_hold(3.0);
        let began = Instant::now();
        let Route::Placed(busy, _) = route(&dispatch, JobTypeId::new(0)) else { panic!("an idle server") };
        cap(&dispatch, Cap::At(0));
        let (anew, on) = (wait(&dispatch, None), wait(&dispatch, Some(began - Duration::from_secs(1))));
        tokio::time::sleep(Duration::from_millis(2500)).await;
        // Up, by slow start and then wholly, but full.
        for back in [Cap::Preferred(1), Cap::Lifted] {
            cap(&dispatch, back);
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        cap(&dispatch, Cap::At(0));
        let (waited, at) = on.await.unwrap();
        assert!(matches!(waited, Waited::NoServerUp) && at - began == Duration::from_secs(2), "{waited:?}");
        let (waited, at) = anew.await.unwrap();
        assert!(matches!(waited, Waited::NoServerUp), "{waited:?}");
        assert_eq!(at - began, Duration::from_millis(2500 + 2000 + 3000));
        drop(busy);
    }

    /// Whether who waits was woken since its last poll.
    #[derive(Default)]
    struct Woken(AtomicBool);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, SeqCst);
        }
    }

    fn poll<F: Future>((wait, woken): &mut (Pin<Box<F>>, Arc<Woken>)) -> Poll<F::Output> {
        woken.0.store(false, SeqCst);
        wait.as_mut().poll(&mut Context::from_waker(&Arc::clone(woken).into()))
    }

    /// As many as like may be in line when the fleet is exchanged: who has a server as before sleeps on.
    #[tokio::test]
    async fn an_exchange_of_the_fleet_wakes_nobody_for_whom_it_changes_nothing() {
        let dispatch = dispatch(1, Some(10));
        let [Route::Placed(_a, _), Route::Placed(_b, _)] = [1, 2].map(|l| route(&dispatch, JobTypeId::new(l))) else {
            panic!("two idle servers")
        };
        let before = dispatch.epoch();
        let mut waits = [1, 2].map(|l| {
            let Route::InLine(line) = route(&dispatch, JobTypeId::new(l)) else { panic!("a full server") };
            (Box::pin(line.place(&before.limits, Instant::now(), None)), Arc::<Woken>::default())
        });
        assert!(waits.iter_mut().all(|wait| poll(wait).is_pending()));
        // The second job type's server is gone.
        let parts = fleet(
            vec![server_type("fast", 2.0)],
            vec![server("a", 0, Some(1))],
            &[&[0], &[0], &[]],
            before.fleet.settings().clone(),
        );
        let next = next(&before, parts);
        let prepared = LiveDispatcher::prepare(&before.fleet, Arc::clone(&next.fleet), next.policy).unwrap();
        dispatch.take_over(prepared, &next);
        assert_eq!([&waits[0], &waits[1]].map(|(_, woken)| woken.0.load(SeqCst)), [false, true]);
        assert!(matches!((&mut waits[1].0).await, Waited::NoServerUp));
        assert_eq!(counts(&dispatch), (1, 1));
    }

    /// It was in line before, while servers came and went.
    #[tokio::test(start_paused = true)]
    async fn both_limits_on_waits_together_are_the_most() {
        let lines = LineSettings { size: Some(10), timeout_s: Some(2.0), hold_s: Some(1.0) };
        let settings = Settings { overflow: Overflow::Wait, lines, ..Settings::default() };
        let parts = fleet(vec![server_type("t", 1.0)], vec![server("a", 0, Some(1))], &[&[0]], settings);
        let dispatch = Arc::new(Dispatch::new(Arc::new(epoch(parts)), 1).unwrap());
        drop(dispatch.set_cap("a", |_| crate::dispatch::Cap::At(0)));
        let came = Instant::now();
        for (after_ms, held_ms) in [(0, 1000), (1500, 1000), (2600, 400), (5000, 0)] {
            tokio::time::advance(came + Duration::from_millis(after_ms) - Instant::now()).await;
            let Route::InLine(waits) = route(&dispatch, JobTypeId::new(0)) else { panic!("it is held") };
            let began = Instant::now();
            assert!(matches!(waits.place(&dispatch.epoch().limits, came, None).await, Waited::NoServerUp));
            assert_eq!(began.elapsed(), Duration::from_millis(held_ms), "{after_ms} ms after it came");
        }
    }

    #[tokio::test]
    async fn a_place_sent_to_a_receiver_that_is_gone_goes_to_the_next_in_line() {
        let dispatch = dispatch(1, Some(1000));
        let l = JobTypeId::new(1);
        let Route::Placed(first, _) = route(&dispatch, l) else { panic!("an idle server") };
        let mut waiting = Vec::new();
        for _ in 0..1000 {
            let Route::InLine(mut job) = route(&dispatch, l) else { panic!("a full server") };
            job.started.close();
            waiting.push(job);
        }
        drop(first);
        assert_eq!(counts(&dispatch), (0, 0), "every one of them passes the place on");
    }

    #[test]
    fn a_panicking_request_gives_its_place_back() {
        let dispatch = dispatch(1, None);
        let held = Arc::clone(&dispatch);
        let panicked = std::thread::spawn(move || {
            let Route::Placed(_place, _) = route(&held, JobTypeId::new(0)) else { panic!("an idle server") };
            panic!("on purpose");
        });
        assert!(panicked.join().is_err());
        assert_eq!(counts(&dispatch), (0, 0));
    }

    proptest! {
        /// Any interleaving of arrivals, ends, cancellations and deliveries keeps the counts at the truth.
        #[test]
        fn counts_are_the_truth(
            buffer in 1_u32..4,
            line in prop_oneof![Just(None), (0_u32..6).prop_map(Some)],
            steps in prop::collection::vec((0_u8..4, 0_usize..64), 1..200),
        ) {
            let dispatch = dispatch(buffer, line);
            let (mut placed, mut waiting) = (Vec::new(), Vec::<InLine>::new());
            for (action, n) in steps {
                match action {
                    0 | 1 => match route(&dispatch, JobTypeId::new(n % 3)) {
                        Route::Placed(place, _) => placed.push(place),
                        Route::InLine(job) => waiting.push(job),
                        Route::Blocked(_) => {}
                    },
                    2 if !placed.is_empty() => drop(placed.swap_remove(n % placed.len())),
                    3 if !waiting.is_empty() => drop(waiting.swap_remove(n % waiting.len())),
                    _ => {}
                }
                let mut i = 0;
                while i < waiting.len() {
                    match waiting[i].started.try_recv() {
                        Ok(place) => { placed.push(place); waiting.swap_remove(i); }
                        Err(_) => i += 1,
                    }
                }
                let mut truth = [0, 0];
                placed.iter().for_each(|p| truth[usize::from(p.server().name() == "b")] += 1);
                let snapshot = dispatch.snapshot();
                let counted: Vec<u64> = snapshot.servers.iter().map(|s| s.jobs).collect();
                prop_assert_eq!(counted, truth.to_vec());
                prop_assert_eq!(snapshot.waiting_total, waiting.len());
            }
            drop((placed, waiting));
            prop_assert_eq!(counts(&dispatch), (0, 0));
        }
    }
}
