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
//!          `trip_after` failures in a row,              time is over            the answer's head is good
//!   closed ------------------------------->   open   ----------->  half-open  ------------------> slow start
//!     ^     or the server says Retry-After     ^                       |  one request at a time       |   2, 4, 8, ...
//!     |                                        +----- it failed -------+                              |  at a time
//!     +-------------------------------------------------------- enough good answers ------------------+
//! ```
//!
//! Trip number `k` since the breaker was last closed lasts `min(open_s 2^(k-1), longest_open_s)`, times a jitter, so that
//! servers that failed together are not tried together. In slow start the number allowed doubles when as many answers
//! were good as it allows, and is lifted when it reaches [`ENOUGH`] and twice the server's slots; `trip_after` failures
//! in a row trip it again.
//!
//! What a failure is: no connection, no answer in time, a broken answer or tunnel, 502, 503, 504, gRPC's `UNAVAILABLE`. Success of a request ends the
//! run of failures only when its whole answer has come, so that a server that breaks off every answer trips, too.
//!
//! **Generations.** What is allowed counts from the moment it was allowed on: jobs that were at the server before (a
//! stream of twenty minutes, say) are not the probe, and their end says nothing about the server of now. Every such
//! moment begins a new generation; results of an older one do not count, and while jobs of an older one are at the
//! server they come on top of what is allowed.

use std::time::Duration;

use shortline_core::fleet::settings::{Checks, Health};
use tokio::time::Instant;

/// Slow start ends when at least so many requests at a time are allowed.
const ENOUGH: u32 = 8;

/// What a server may get.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Allowed {
    /// As many requests as the policy sends.
    All,
    /// So many at a time, those of older generations not counted.
    AtATime(u32),
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
    /// Trips since it was last closed.
    trips: u32,
    generation: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Closed,
    Open { until: Instant },
    HalfOpen,
    SlowStart { at_a_time: u32, good: u32 },
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
            (None, Phase::HalfOpen) => Condition::Probing,
            (None, Phase::SlowStart { .. }) => Condition::SlowStart,
        }
    }

    pub(crate) fn allowed(&self) -> Allowed {
        match (self.condition(), self.phase) {
            (Condition::Up, _) => Allowed::All,
            (Condition::Probing, _) => Allowed::AtATime(1),
            (Condition::SlowStart, Phase::SlowStart { at_a_time, .. }) => Allowed::AtATime(at_a_time),
            _ => Allowed::Nothing,
        }
    }

    /// Results of requests that were sent in another generation do not count.
    pub(crate) fn generation(&self) -> u32 {
        self.generation
    }

    /// Whether good answers change nothing.
    pub(crate) fn is_calm(&self) -> bool {
        self.phase == Phase::Closed && self.failures == 0
    }

    /// When it will be tried again, if that is certain.
    pub(crate) fn opens_at(&self) -> Option<Instant> {
        match self.phase {
            Phase::Open { until } if self.condition() == Condition::Tripped => Some(until),
            _ => None,
        }
    }

    /// The head of a good answer has come.
    pub(crate) fn began_well(&mut self, slots: u32) {
        match &mut self.phase {
            Phase::Closed | Phase::Open { .. } => {}
            Phase::HalfOpen => self.phase = Phase::SlowStart { at_a_time: 2, good: 0 },
            Phase::SlowStart { at_a_time, good } => {
                *good += 1;
                if good >= at_a_time {
                    (*at_a_time, *good) = (at_a_time.saturating_mul(2), 0);
                }
                if *at_a_time > ENOUGH.max(slots.saturating_mul(2)) {
                    self.phase = Phase::Closed;
                    self.trips = 0;
                }
            }
        }
    }

    /// The whole of a good answer has come.
    pub(crate) fn ended_well(&mut self) {
        self.failures = 0;
    }

    /// A request failed. `jitter` is about 1.
    pub(crate) fn failed(&mut self, now: Instant, jitter: f64, settings: &Health) {
        self.failures = self.failures.saturating_add(1);
        let trips = match self.phase {
            Phase::Closed | Phase::SlowStart { .. } => settings.trip_after > 0 && self.failures >= settings.trip_after,
            Phase::HalfOpen => true,
            Phase::Open { .. } => false,
        };
        if trips {
            let doublings = i32::try_from(self.trips).unwrap_or(i32::MAX).min(64);
            let open_s = (settings.open_s * 2_f64.powi(doublings)).min(settings.longest_open_s) * jitter;
            self.trips = self.trips.saturating_add(1);
            self.open(now + seconds(open_s));
        }
    }

    /// The server asks for a pause.
    pub(crate) fn pause(&mut self, until: Instant) {
        match self.phase {
            Phase::Open { until: already } if already >= until => {}
            _ => self.open(until),
        }
    }

    /// Time has passed: an open breaker may be due.
    pub(crate) fn wake(&mut self, now: Instant) {
        if let Phase::Open { until } = self.phase
            && until <= now
        {
            self.phase = Phase::HalfOpen;
            self.begin_generation();
        }
    }

    /// A check was good, or failed.
    pub(crate) fn checked(&mut self, good: bool, checks: &Checks) {
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
                    self.restart(Phase::SlowStart { at_a_time: 1, good: 0 });
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
                self.restart(Phase::Closed);
                None
            }
        };
    }

    fn open(&mut self, until: Instant) {
        self.phase = Phase::Open { until };
        self.failures = 0;
        self.begin_generation();
    }

    fn restart(&mut self, phase: Phase) {
        self.phase = phase;
        (self.failures, self.trips) = (0, 0);
        self.begin_generation();
    }

    fn begin_generation(&mut self) {
        self.generation = self.generation.wrapping_add(1);
    }
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

    fn fail(breaker: &mut Breaker, now: Instant, times: u32) {
        (0..times).for_each(|_| breaker.failed(now, 1.0, &settings()));
    }

    #[test]
    fn failures_in_a_row_trip_it_and_a_whole_answer_ends_the_row() {
        let (mut breaker, now) = (Breaker::default(), Instant::now());
        fail(&mut breaker, now, 2);
        breaker.began_well(1);
        fail(&mut breaker, now, 0);
        breaker.ended_well();
        fail(&mut breaker, now, 2);
        assert_eq!((breaker.condition(), breaker.is_calm()), (Condition::Up, false));
        breaker.began_well(1);
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
            breaker.wake(until - Duration::from_nanos(1));
            assert_eq!(breaker.condition(), Condition::Tripped);
            breaker.wake(until);
            assert_eq!((breaker.condition(), breaker.allowed()), (Condition::Probing, Allowed::AtATime(1)));
            now = until;
            fail(&mut breaker, now, 1);
        }
        breaker.wake(now + Duration::from_secs(5));
        let mut allowed = Vec::new();
        for _ in 0..15 {
            breaker.began_well(1);
            allowed.push(breaker.allowed());
        }
        allowed.dedup();
        let at_a_time = |n| Allowed::AtATime(n);
        assert_eq!(allowed, [at_a_time(2), at_a_time(4), at_a_time(8), Allowed::All]);
        fail(&mut breaker, now, 3);
        assert_eq!(breaker.opens_at(), Some(now + Duration::from_secs(1)), "well again, it begins anew");
    }

    #[test]
    fn slow_start_goes_on_to_twice_the_slots_and_failures_in_a_row_trip_it() {
        let (mut breaker, now) = (Breaker::default(), Instant::now());
        fail(&mut breaker, now, 3);
        breaker.wake(now + Duration::from_secs(1));
        (0..1 + 2 + 4 + 8 + 16 + 31).for_each(|_| breaker.began_well(16));
        assert_eq!(breaker.allowed(), Allowed::AtATime(32));
        fail(&mut breaker, now, 2);
        assert_eq!(breaker.condition(), Condition::SlowStart);
        fail(&mut breaker, now, 1);
        assert_eq!(breaker.condition(), Condition::Tripped);
    }

    #[test]
    fn trip_after_0_never_trips_and_a_pause_is_kept_all_the_same() {
        let (mut breaker, now) = (Breaker::default(), Instant::now());
        let never = Health { trip_after: 0, ..settings() };
        (0..1000).for_each(|_| breaker.failed(now, 1.0, &never));
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
            results.iter().for_each(|&good| breaker.checked(good, &checks));
            breaker.condition()
        };
        assert_eq!(after(&mut breaker, &[false]), Condition::Down);
        assert_eq!(after(&mut breaker, &[true, false, true]), Condition::Down);
        assert_eq!(after(&mut breaker, &[true]), Condition::SlowStart);
        assert_eq!(breaker.allowed(), Allowed::AtATime(1));
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
        breaker.checked(false, &Checks::of("/"));
        assert_eq!((breaker.condition(), breaker.opens_at()), (Condition::Draining, None));
        breaker.wake(now + Duration::from_secs(60));
        breaker.began_well(1);
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
        breaker.failed(now, 1.0, &settings());
        assert!(!changed(&breaker));
        fail(&mut breaker, now, 2);
        assert!(changed(&breaker), "it trips");
        breaker.wake(now + Duration::from_secs(1));
        assert!(changed(&breaker), "it is probed");
        breaker.began_well(1);
        assert!(!changed(&breaker), "slow start goes on from the probe");
        breaker.told(Word::Up);
        assert!(changed(&breaker));
    }
}
