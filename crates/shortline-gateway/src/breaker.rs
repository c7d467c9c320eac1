//! How a server fares, and so whether it gets requests and how many: a state machine that is told what happens and
//! when, and knows no clock, no lock and no socket.
//!
//! Three voices, the first that speaks against the server decides:
//! 1. the operator: `drain` and `down` until `up`;
//! 2. the active checks, if there are any: down after so many failed ones in a row, back after so many good ones; the
//!    first one of all decides alone;
//! 3. the breaker, which listens to the requests themselves (a circuit breaker, Nygard, *Release It!*, 2007):
//!
//! ```text
//!            too many failures,                         time is over            the answer's head is good
//!   closed ------------------------------->   open   ----------->  half-open  ------------------> slow start
//!     ^     or the server says Retry-After     ^                       |  one request at a time       |   2, 4, 8, ...
//!     |                                        +----- it failed -------+                              |  at a time
//!     +------------------------------------------------ enough good answers, or `slow_start_s` -------+
//! ```
//!
//! Too many are `trip_after` in a row, or half of the last `N = max(20, 2 trip_after)` answers: a server that fails
//! every other request never fails twice in a row.
//!
//! Trip number `k` since the breaker was last closed lasts `min(open_s 2^(k-1), longest_open_s)`, times a jitter, so that
//! servers that failed together are not tried together.
//!
//! A probe that says nothing (a client that sends its body for minutes, an answer that takes long to begin) holds nobody
//! up for ever: while none has, one more is sent after `open_s`, the next after twice that, and so on up to `longest_open_s`.
//!
//! Slow start is a preference: beyond the number allowed the server gets what finds no place elsewhere. The number doubles
//! when as many answers were good as it allows, and each of [`STEPS`] parts of `slow_start_s`; slow start is over when it
//! is more than [`ENOUGH`] and more than twice the server's slots, or with the last part. Too many failures trip the server
//! again.
//!
//! What a failure is: no connection, no answer in time, a broken answer or tunnel, a status of `trip_status`, gRPC's `UNAVAILABLE`. Success of a request ends the
//! run of failures only when its whole answer has come, so that a server that breaks off every answer trips, too.
//!
//! **Generations.** What is allowed counts from the moment it was allowed on: jobs that were at the server before (a
//! stream of twenty minutes, say) are not the probe, and their end says nothing about the server of now. Every such
//! moment begins a new generation; results of an older one do not count, and while jobs of an older one are at the
//! server they come on top of what is allowed.

use std::collections::VecDeque;
use std::time::Duration;

use shortline_core::fleet::settings::{Checks, Health};
use tokio::time::Instant;

/// Slow start ends when at least so many requests at a time are allowed.
const ENOUGH: u32 = 8;

/// Into so many parts `slow_start_s` is divided.
const STEPS: u32 = 8;

/// Of at least so many last answers half may not fail.
const LEAST_ANSWERS: u32 = 20;

/// What a server may get.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Allowed {
    /// As many requests as the policy sends.
    All,
    /// So many at a time, those of older generations not counted.
    AtATime(u32),
    /// So many at a time, those of older generations not counted, and beyond that what finds no place elsewhere.
    Preferably(u32),
    /// None.
    Nothing,
}

/// How a server is, in `/status`, metrics and logs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Condition {
    /// It gets requests.
    Up,
    /// The operator lets it finish what it has.
    Draining,
    /// The operator or the checks say so.
    Down,
    /// Its breaker is open.
    Tripped,
    /// One request finds out whether it is well again.
    Probing,
    /// It gets few requests at a time.
    SlowStart,
}

impl Condition {
    /// All of them.
    pub(crate) const ALL: [Self; 6] =
        [Self::Up, Self::Draining, Self::Down, Self::Tripped, Self::Probing, Self::SlowStart];

    /// Its word.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Draining => "draining",
            Self::Down => "down",
            Self::Tripped => "tripped",
            Self::Probing => "probing",
            Self::SlowStart => "slow-start",
        }
    }
}

/// What the operator says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Word {
    /// No new requests; those it has finish.
    Drain,
    /// The same, and it is not to be expected back.
    Down,
    /// It gets requests, whatever was known of it.
    Up,
}

/// How one server fares.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Breaker {
    word: Option<Condition>,
    /// What the checks say; up until there is a first result.
    checks_say_up: bool,
    checked: bool,
    /// Checks in a row that said otherwise.
    checks_against: u32,
    phase: Phase,
    /// Failed requests in a row.
    failures: u32,
    /// Answers since the first of `failed`.
    answers: u64,
    /// Which of the last ones failed.
    failed: VecDeque<u64>,
    /// Trips since it was last closed.
    trips: u32,
    generation: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Closed,
    Open { until: Instant },
    HalfOpen(HalfOpen),
    SlowStart(SlowStart),
}

/// Probes are on their way, so many at a time; one more from then on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct HalfOpen {
    at_a_time: u32,
    grows_at: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct SlowStart {
    at_a_time: u32,
    good: u32,
    grows_at: Instant,
    step: Duration,
    steps: u32,
}

impl Default for Breaker {
    fn default() -> Self {
        Self {
            word: None,
            checks_say_up: true,
            checked: false,
            checks_against: 0,
            phase: Phase::Closed,
            failures: 0,
            answers: 0,
            failed: VecDeque::new(),
            trips: 0,
            generation: 0,
        }
    }
}

impl Breaker {
    pub(crate) fn condition(&self) -> Condition {
        match (self.word, self.phase) {
            (Some(word), _) => word,
            (None, _) if !self.checks_say_up => Condition::Down,
            (None, Phase::Closed) => Condition::Up,
            (None, Phase::Open { .. }) => Condition::Tripped,
            (None, Phase::HalfOpen(_)) => Condition::Probing,
            (None, Phase::SlowStart(_)) => Condition::SlowStart,
        }
    }

    pub(crate) fn allowed(&self) -> Allowed {
        match (self.condition(), self.phase) {
            (Condition::Up, _) => Allowed::All,
            (Condition::Probing, Phase::HalfOpen(HalfOpen { at_a_time, .. })) => Allowed::AtATime(at_a_time),
            (Condition::SlowStart, Phase::SlowStart(SlowStart { at_a_time, .. })) => Allowed::Preferably(at_a_time),
            _ => Allowed::Nothing,
        }
    }

    /// Results of requests that were sent in another generation do not count.
    pub(crate) fn generation(&self) -> u32 {
        self.generation
    }

    /// Whether good answers change nothing.
    pub(crate) fn is_calm(&self) -> bool {
        self.phase == Phase::Closed && self.failed.is_empty()
    }

    /// When it will be tried again, if that is certain.
    pub(crate) fn opens_at(&self) -> Option<Instant> {
        match self.phase {
            Phase::Open { until } if self.condition() == Condition::Tripped => Some(until),
            _ => None,
        }
    }

    /// When time alone changes something.
    pub(crate) fn wakes_at(&self) -> Option<Instant> {
        match self.phase {
            Phase::Open { until } => Some(until),
            Phase::HalfOpen(HalfOpen { grows_at, .. }) | Phase::SlowStart(SlowStart { grows_at, .. }) => Some(grows_at),
            Phase::Closed => None,
        }
    }

    /// The head of a good answer has come from a server with so many slots.
    pub(crate) fn began_well(&mut self, slots: u32, now: Instant, settings: &Health) {
        match &mut self.phase {
            Phase::Closed | Phase::Open { .. } => {}
            Phase::HalfOpen(_) => self.start_slowly(2, now, settings),
            Phase::SlowStart(slow) => {
                slow.good += 1;
                if slow.good >= slow.at_a_time {
                    self.grow(slots);
                }
            }
        }
    }

    /// The whole of a good answer has come.
    pub(crate) fn ended_well(&mut self, settings: &Health) {
        self.failures = 0;
        self.answer(settings);
    }

    /// One more answer; returns how many of the last ones may not fail.
    fn answer(&mut self, settings: &Health) -> u32 {
        let last = LEAST_ANSWERS.max(settings.trip_after.saturating_mul(2));
        self.answers += 1;
        while self.failed.front().is_some_and(|&answer| answer + u64::from(last) <= self.answers) {
            self.failed.pop_front();
        }
        last / 2
    }

    fn start_slowly(&mut self, at_a_time: u32, now: Instant, settings: &Health) {
        if settings.slow_start_s > 0.0 {
            let step = seconds(settings.slow_start_s) / STEPS;
            self.phase = Phase::SlowStart(SlowStart { at_a_time, good: 0, grows_at: now + step, step, steps: 0 });
        } else {
            self.close();
        }
    }

    /// Twice as many in slow start.
    fn grow(&mut self, slots: u32) {
        if let Phase::SlowStart(slow) = &mut self.phase {
            (slow.at_a_time, slow.good) = (slow.at_a_time.saturating_mul(2), 0);
            if slow.at_a_time > ENOUGH.max(slots.saturating_mul(2)) || slow.steps >= STEPS {
                self.close();
            }
        }
    }

    fn close(&mut self) {
        self.phase = Phase::Closed;
        self.trips = 0;
    }

    /// A request failed. `jitter` is about 1. A server that works cannot always be `spared`: then too many failures do not
    /// trip it. Whether they are too many.
    pub(crate) fn failed(&mut self, now: Instant, jitter: f64, spared: bool, settings: &Health) -> bool {
        self.failures = self.failures.saturating_add(1);
        let half = self.answer(settings);
        self.failed.push_back(self.answers);
        let too_many = self.failures >= settings.trip_after || self.failed.len() >= half as usize;
        let trips = match self.phase {
            Phase::Closed | Phase::SlowStart(_) => settings.trip_after > 0 && too_many,
            Phase::HalfOpen(_) => true,
            Phase::Open { .. } => false,
        };
        if trips && !spared && !matches!(self.phase, Phase::HalfOpen(_)) {
            self.forget_failures();
        } else if trips {
            let open = doubled(self.trips, settings).mul_f64(jitter);
            self.trips = self.trips.saturating_add(1);
            self.open(now + open);
        }
        trips
    }

    /// The server asks for a pause.
    pub(crate) fn pause(&mut self, until: Instant) {
        match self.phase {
            Phase::Open { until: already } if already >= until => {}
            _ => self.open(until),
        }
    }

    /// Time has passed: an open breaker may be due, one more probe, or a slow start; the server has so many slots, and so
    /// many probes are under way.
    pub(crate) fn wake(&mut self, slots: u32, probes: u32, now: Instant, settings: &Health) {
        match &mut self.phase {
            Phase::Open { until } if *until <= now => {
                self.phase = Phase::HalfOpen(HalfOpen { at_a_time: 1, grows_at: now + doubled(0, settings) });
                self.begin_generation();
            }
            Phase::HalfOpen(HalfOpen { at_a_time, grows_at }) if *grows_at <= now => {
                if probes >= *at_a_time {
                    *at_a_time = at_a_time.saturating_add(1);
                }
                *grows_at = now + doubled(*at_a_time - 1, settings);
            }
            Phase::SlowStart(slow) if slow.grows_at <= now => {
                slow.steps += 1;
                slow.grows_at += slow.step;
                self.grow(slots);
            }
            _ => {}
        }
    }

    /// A check was good, or failed.
    pub(crate) fn checked(&mut self, good: bool, checks: &Checks, now: Instant, settings: &Health) {
        if !std::mem::replace(&mut self.checked, true) {
            self.checks_say_up = good;
        } else if good == self.checks_say_up {
            self.checks_against = 0;
        } else {
            self.checks_against += 1;
            let needed = if good { checks.healthy_after } else { checks.unhealthy_after };
            if self.checks_against >= needed {
                self.checks_say_up = good;
                self.checks_against = 0;
                if good {
                    self.restart();
                    self.start_slowly(1, now, settings);
                }
            }
        }
    }

    /// There are no checks any more: what they said is void.
    pub(crate) fn unchecked(&mut self) {
        (self.checks_say_up, self.checked, self.checks_against) = (true, false, 0);
    }

    /// The operator speaks.
    pub(crate) fn told(&mut self, word: Word) {
        self.word = match word {
            Word::Drain => Some(Condition::Draining),
            Word::Down => Some(Condition::Down),
            Word::Up => {
                (self.checks_say_up, self.checks_against) = (true, 0);
                self.restart();
                None
            }
        };
    }

    fn open(&mut self, until: Instant) {
        self.phase = Phase::Open { until };
        self.forget_failures();
        self.begin_generation();
    }

    /// What requests have said is void.
    pub(crate) fn restart(&mut self) {
        self.close();
        self.forget_failures();
        self.begin_generation();
    }

    fn forget_failures(&mut self) {
        self.failures = 0;
        self.failed.clear();
    }

    fn begin_generation(&mut self) {
        self.generation = self.generation.wrapping_add(1);
    }
}

/// `min(open_s 2^times, longest_open_s)`.
fn doubled(times: u32, settings: &Health) -> Duration {
    let doublings = i32::try_from(times).unwrap_or(i32::MAX).min(64);
    seconds((settings.open_s * 2_f64.powi(doublings)).min(settings.longest_open_s))
}

/// A time that fits on any clock.
pub(crate) fn seconds(seconds: f64) -> Duration {
    let longest = Duration::from_hours(24 * 365);
    Duration::try_from_secs_f64(seconds).map_or(longest, |time| time.min(longest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Health {
        Health { trip_after: 3, open_s: 1.0, longest_open_s: 5.0, ..Health::default() }
    }

    fn begin_well(breaker: &mut Breaker, slots: u32, now: Instant) {
        breaker.began_well(slots, now, &settings());
    }

    fn fail(breaker: &mut Breaker, now: Instant, times: u32) {
        for _ in 0..times {
            breaker.failed(now, 1.0, true, &settings());
        }
    }

    #[test]
    fn failures_in_a_row_trip_it_and_a_whole_answer_ends_the_row() {
        let (mut breaker, now) = (Breaker::default(), Instant::now());
        fail(&mut breaker, now, 2);
        begin_well(&mut breaker, 1, now);
        fail(&mut breaker, now, 0);
        breaker.ended_well(&settings());
        fail(&mut breaker, now, 2);
        assert_eq!((breaker.condition(), breaker.is_calm()), (Condition::Up, false));
        begin_well(&mut breaker, 1, now);
        fail(&mut breaker, now, 1);
        assert_eq!((breaker.condition(), breaker.allowed()), (Condition::Tripped, Allowed::Nothing));
        assert_eq!(breaker.opens_at(), Some(now + Duration::from_secs(1)));
    }

    #[test]
    fn each_trip_lasts_twice_as_long_up_to_the_limit_until_it_is_well_again() {
        let (mut breaker, mut now) = (Breaker::default(), Instant::now());
        fail(&mut breaker, now, 3);
        for seconds in [1, 2, 4, 5, 5] {
            let until = now + Duration::from_secs(seconds);
            assert_eq!(breaker.opens_at(), Some(until));
            breaker.wake(1, 0, until - Duration::from_nanos(1), &settings());
            assert_eq!(breaker.condition(), Condition::Tripped);
            breaker.wake(1, 0, until, &settings());
            assert_eq!((breaker.condition(), breaker.allowed()), (Condition::Probing, Allowed::AtATime(1)));
            now = until;
            fail(&mut breaker, now, 1);
        }
        breaker.wake(1, 0, now + Duration::from_secs(5), &settings());
        let mut allowed = Vec::new();
        for _ in 0..15 {
            begin_well(&mut breaker, 1, now);
            allowed.push(breaker.allowed());
        }
        allowed.dedup();
        let at_a_time = |n| Allowed::Preferably(n);
        assert_eq!(allowed, [at_a_time(2), at_a_time(4), at_a_time(8), Allowed::All]);
        fail(&mut breaker, now, 3);
        assert_eq!(breaker.opens_at(), Some(now + Duration::from_secs(1)), "well again, it begins anew");
    }

    #[test]
    fn slow_start_goes_on_to_twice_the_slots_and_failures_in_a_row_trip_it() {
        let (mut breaker, now) = (Breaker::default(), Instant::now());
        fail(&mut breaker, now, 3);
        breaker.wake(16, 0, now + Duration::from_secs(1), &settings());
        (0..1 + 2 + 4 + 8 + 16 + 31).for_each(|_| begin_well(&mut breaker, 16, now));
        assert_eq!(breaker.allowed(), Allowed::Preferably(32));
        fail(&mut breaker, now, 2);
        assert_eq!(breaker.condition(), Condition::SlowStart);
        fail(&mut breaker, now, 1);
        assert_eq!(breaker.condition(), Condition::Tripped);
    }

    #[test]
    fn half_of_the_last_answers_trip_it_even_if_no_two_in_a_row_fail() {
        let now = Instant::now();
        let trips_after = |answers: &mut dyn Iterator<Item = bool>| {
            let mut breaker = Breaker::default();
            answers.take(10_000).position(|good| {
                match good {
                    true => breaker.ended_well(&settings()),
                    false => {
                        breaker.failed(now, 1.0, true, &settings());
                    }
                }
                breaker.condition() == Condition::Tripped
            })
        };
        let every = |n: usize| (0..).map(move |i| i % n > 0);
        assert_eq!(trips_after(&mut every(2)), Some(18), "the tenth failure of 19 answers");
        assert_eq!(trips_after(&mut every(3)), None);
        assert_eq!(trips_after(&mut (0..100).map(|_| true).chain(every(2))), Some(118), "good ones of old do not help");
        assert_eq!(trips_after(&mut [true, false, false, false].into_iter()), Some(3));
        let mut breaker = Breaker::default();
        breaker.failed(now, 1.0, true, &settings());
        for _ in 0..19 {
            assert!(!breaker.is_calm());
            breaker.ended_well(&settings());
        }
        breaker.ended_well(&settings());
        assert!(breaker.is_calm(), "long ago");
    }

    #[test]
    fn a_server_that_cannot_be_spared_stays_and_the_failures_are_told() {
        let (mut breaker, now) = (Breaker::default(), Instant::now());
        let mut fails = |spared| breaker.failed(now, 1.0, spared, &settings());
        assert_eq!([false; 6].map(&mut fails), [false, false, true, false, false, true]);
        assert!(!fails(false) && !fails(true) && fails(true), "they count beside those of another kind");
        assert_eq!(breaker.condition(), Condition::Tripped);
        breaker.wake(1, 0, now + Duration::from_secs(1), &settings());
        assert!(breaker.failed(now, 1.0, false, &settings()));
        assert_eq!(breaker.condition(), Condition::Tripped, "a probe that fails is no proof that it works");
    }

    #[test]
    fn a_probe_that_says_nothing_is_followed_by_another_in_longer_and_longer_turns() {
        let (mut breaker, now) = (Breaker::default(), Instant::now());
        fail(&mut breaker, now, 3);
        let after = |s| now + Duration::from_secs(s);
        breaker.wake(1, 0, after(1), &settings());
        // Nobody has come yet.
        for second in 2..10 {
            assert_eq!(breaker.wakes_at(), Some(after(second)));
            breaker.wake(1, 0, after(second), &settings());
            assert_eq!(breaker.allowed(), Allowed::AtATime(1));
        }
        // 1, 2, 4 and then 5 seconds, `longest_open_s`, apart.
        for (probes, at) in [(1, 10), (2, 12), (3, 16), (4, 21), (5, 26)] {
            assert_eq!(breaker.wakes_at(), Some(after(at)));
            breaker.wake(1, probes, after(at), &settings());
            assert_eq!((breaker.allowed(), breaker.condition()), (Allowed::AtATime(probes + 1), Condition::Probing));
        }
        begin_well(&mut breaker, 1, now);
        assert_eq!(breaker.allowed(), Allowed::Preferably(2));
    }

    #[test]
    fn slow_start_grows_with_time_too_and_is_over_after_slow_start_s() {
        let (mut breaker, began) = (Breaker::default(), Instant::now());
        let health = Health { slow_start_s: 8.0, ..settings() };
        fail(&mut breaker, began, 3);
        breaker.wake(1000, 0, began + Duration::from_secs(1), &settings());
        breaker.began_well(1000, began, &health);
        for second in 1..8 {
            assert_eq!(breaker.wakes_at(), Some(began + Duration::from_secs(second)));
            breaker.wake(1000, 0, began + Duration::from_secs(second), &settings());
            assert_eq!(breaker.allowed(), Allowed::Preferably(2 << second));
        }
        breaker.wake(1000, 0, began + Duration::from_secs(8), &settings());
        assert_eq!((breaker.allowed(), breaker.wakes_at()), (Allowed::All, None));
    }

    #[test]
    fn slow_start_s_0_lets_a_server_in_at_once() {
        let (mut breaker, now) = (Breaker::default(), Instant::now());
        let health = Health { slow_start_s: 0.0, ..settings() };
        fail(&mut breaker, now, 3);
        breaker.wake(1, 0, now + Duration::from_secs(1), &settings());
        breaker.began_well(1, now, &health);
        assert_eq!(breaker.allowed(), Allowed::All);
    }

    #[test]
    fn trip_after_0_never_trips_and_a_pause_is_kept_all_the_same() {
        let (mut breaker, now) = (Breaker::default(), Instant::now());
        let never = Health { trip_after: 0, ..settings() };
        assert!((0..1000).all(|_| !breaker.failed(now, 1.0, true, &never)));
        assert_eq!(breaker.condition(), Condition::Up);
        breaker.pause(now + Duration::from_secs(7));
        breaker.pause(now + Duration::from_secs(3));
        assert_eq!(breaker.opens_at(), Some(now + Duration::from_secs(7)), "the longer pause counts");
    }

    #[test]
    fn the_first_check_decides_and_then_it_takes_some_in_a_row() {
        let checks = Checks { unhealthy_after: 3, healthy_after: 2, ..Checks::of("/") };
        let mut breaker = Breaker::default();
        let after = |breaker: &mut Breaker, results: &[bool]| {
            let now = Instant::now();
            results.iter().for_each(|&good| breaker.checked(good, &checks, now, &settings()));
            breaker.condition()
        };
        assert_eq!(after(&mut breaker, &[false]), Condition::Down);
        assert_eq!(after(&mut breaker, &[true, false, true]), Condition::Down);
        assert_eq!(after(&mut breaker, &[true]), Condition::SlowStart);
        assert_eq!(breaker.allowed(), Allowed::Preferably(1));
        assert_eq!(after(&mut breaker, &[false, false, true, false, false]), Condition::SlowStart);
        assert_eq!(after(&mut breaker, &[false]), Condition::Down);
        breaker.unchecked();
        assert_eq!(breaker.condition(), Condition::SlowStart);
    }

    #[test]
    fn the_operators_word_wins_and_up_begins_anew() {
        let (mut breaker, now) = (Breaker::default(), Instant::now());
        breaker.told(Word::Drain);
        fail(&mut breaker, now, 3);
        breaker.checked(false, &Checks::of("/"), now, &settings());
        assert_eq!((breaker.condition(), breaker.opens_at()), (Condition::Draining, None));
        breaker.wake(1, 0, now + Duration::from_secs(60), &settings());
        begin_well(&mut breaker, 1, now);
        assert_eq!(breaker.allowed(), Allowed::Nothing);
        breaker.told(Word::Down);
        assert_eq!(breaker.condition(), Condition::Down);
        breaker.told(Word::Up);
        assert_eq!((breaker.condition(), breaker.is_calm()), (Condition::Up, true));
    }

    #[test]
    fn every_moment_from_which_on_results_count_anew_is_a_generation() {
        let (mut breaker, now) = (Breaker::default(), Instant::now());
        let mut last = breaker.generation();
        let mut changed =
            |breaker: &Breaker| std::mem::replace(&mut last, breaker.generation()) != breaker.generation();
        breaker.failed(now, 1.0, true, &settings());
        assert!(!changed(&breaker));
        fail(&mut breaker, now, 2);
        assert!(changed(&breaker), "it trips");
        breaker.wake(1, 0, now + Duration::from_secs(1), &settings());
        assert!(changed(&breaker), "it is probed");
        begin_well(&mut breaker, 1, now);
        assert!(!changed(&breaker), "slow start goes on from the probe");
        breaker.told(Word::Up);
        assert!(changed(&breaker));
    }
}
