//! What happens at one server, as a plain state machine over intended times.
//!
//! The queue never looks at a clock: the caller says how late it is. A job starts exactly when the one before was due
//! to end, not when the machine got round to noticing, so errors of the machine's timing do not add up.
//!
//! Calls come in this order: [`advance`](Queue::advance) to now, then at most one [`arrive`](Queue::arrive) or
//! [`leave`](Queue::leave) at that time. What happened on the way is appended to `happened`, in order of time.

/// Nanoseconds since the emulator started.
pub(super) type Nanos = u64;

/// A job at one server, numbered in order of arrival.
pub(super) type JobNumber = u64;

/// When a job came, began to be served and was done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Times {
    pub(super) arrived: Nanos,
    pub(super) started: Nanos,
    pub(super) ended: Nanos,
}

/// A change in the queue, at its intended time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Event {
    /// The job began to be served; `ended` is when it will be done if nothing joins it (fifo: when it will be done).
    Started { job: JobNumber, times: Times },
    /// The job is done and has left.
    Ended { job: JobNumber, times: Times },
}

/// The jobs at one server, in one order of service.
pub(super) trait Queue: Send + std::fmt::Debug {
    /// Everything that is due until `now` happens.
    fn advance(&mut self, now: Nanos, happened: &mut Vec<Event>);
    /// A job that needs `service` nanoseconds of one slot joins.
    fn arrive(&mut self, now: Nanos, job: JobNumber, service: Nanos, happened: &mut Vec<Event>);
    /// A job leaves unserved or half-served; nothing happens if it is not there.
    fn leave(&mut self, now: Nanos, job: JobNumber, happened: &mut Vec<Event>);
    /// When the next job is due to end.
    fn next(&self) -> Option<Nanos>;
    /// Number of jobs, those in service included.
    fn len(&self) -> usize;
}
