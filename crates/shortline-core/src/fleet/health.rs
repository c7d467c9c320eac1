//! `[health]` and `[retry]`: when a server gets no requests, and when a request is sent to another one.
//!
//! The gateway alone uses them; what they do is in its reference.

/// `[health]`.
#[derive(Clone, PartialEq, Debug)]
pub struct Health {
    /// Requests that ask each server how it is; `None`: none are sent.
    pub checks: Option<Checks>,
    /// So many failed requests in a row trip a server's breaker, and so does half of its last answers if that is as
    /// many or more; 0: it never trips.
    pub trip_after: u32,
    /// Answers with these statuses are failures.
    pub trip_status: Vec<u16>,
    /// How long a server that trips for the first time gets no requests; each further time twice as long.
    pub open_s: f64,
    /// And no longer, but for the fifth by which these times vary.
    pub longest_open_s: f64,
    /// At most so long a server that comes back gets no more requests than it has proven to take, if there is a place
    /// elsewhere; 0: it gets all at once.
    pub slow_start_s: f64,
    /// Whether a server that answers 503 or 429 with `Retry-After` gets no request for so long.
    pub obey_retry_after: bool,
    /// Answers with these statuses may say that the server does not have the model. Empty: they are not looked at.
    pub model_lost_status: Vec<u16>,
    /// How long a server that has lost a model gets no requests for it; each further time twice as long.
    pub model_lost_s: f64,
}

/// The active checks of `[health]`.
#[derive(Clone, PartialEq, Debug)]
pub struct Checks {
    /// What is asked for.
    pub path: String,
    /// From one check of a server to the next.
    pub interval_s: f64,
    /// A check that takes longer has failed.
    pub timeout_s: f64,
    /// So many failed checks in a row take a server down.
    pub unhealthy_after: u32,
    /// So many good ones bring it back.
    pub healthy_after: u32,
}

impl Default for Health {
    fn default() -> Self {
        Self {
            checks: None,
            trip_after: 5,
            trip_status: vec![500, 502, 503, 504],
            open_s: 1.0,
            longest_open_s: 60.0,
            slow_start_s: 10.0,
            obey_retry_after: true,
            model_lost_status: vec![404],
            model_lost_s: 30.0,
        }
    }
}

impl Checks {
    /// Checks that ask for `path`, all else by default.
    #[must_use]
    pub fn of(path: &str) -> Self {
        Self { path: path.to_owned(), interval_s: 5.0, timeout_s: 2.0, unhealthy_after: 3, healthy_after: 2 }
    }
}

/// `[retry]`.
#[derive(Clone, PartialEq, Debug)]
pub struct Retry {
    /// Most servers a request is sent to, the first included; 1: no retries.
    pub attempts: u32,
    /// Retries per request, in the long run.
    pub budget: f64,
    /// Retries per second beyond that.
    pub floor_per_s: f64,
    /// Most bytes of a body that are held so that it can be sent again.
    pub body_limit: u64,
}

impl Default for Retry {
    fn default() -> Self {
        Self { attempts: 3, budget: 0.2, floor_per_s: 10.0, body_limit: 256 << 10 }
    }
}
