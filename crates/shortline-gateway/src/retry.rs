//! May a request be sent to another server, after this?
//!
//! Only while the client has seen nothing of an answer, and only what is safe:
//!
//! | what happened | sent again |
//! |---|---|
//! | no connection: the server saw nothing | always; the body is untouched, whatever its size |
//! | the server says that it did nothing: 429, 503 with `Retry-After`, no such model, HTTP/2's `REFUSED_STREAM` or GOAWAY (after one more try there), gRPC's `UNAVAILABLE` or `RESOURCE_EXHAUSTED` in the head with `grpc-retry-pushback-ms` | any method, if the body is held |
//! | it closed a connection that it had kept open, without a byte of an answer | once more to itself, on a new connection, if the method may be repeated and the body is held; then as the next line |
//! | 502, 503, 504, or it broke off before its answer | methods that may be repeated (RFC 9110, 9.2.2), if the body is held |
//! | no answer in time | never: the time is over |
//!
//! And only to a server that was not tried and that the policy chooses among the others, within the budget, the number
//! of attempts and the time for the first byte, which counts from the first attempt. What could not be sent at all costs
//! no server anything: neither budget nor attempts limit it.
//!
//! If the others have no room, a request about which the server did nothing waits in line, where there is one, at its age;
//! time for the first byte counts anew behind the wait. One that was not sent, or met a lost model, gets what it would have
//! got if the server had been known to be down; else the client gets what the last server said.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use http::{HeaderMap, Method, StatusCode, header};

/// The longest pause that a server gets.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Why a request may be sent again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cause {
    /// The server could not be reached.
    Connect,
    /// It broke off before it answered.
    Reset,
    /// 502, 503 or 504.
    Status,
    /// It says that it did nothing: 429, or 503 with `Retry-After`.
    Refused,
    /// It does not have the model.
    ModelLost,
}

impl Cause {
    /// All of them.
    pub(crate) const ALL: [Self; 5] = [Self::Connect, Self::Reset, Self::Status, Self::Refused, Self::ModelLost];

    /// Its word in metrics.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Reset => "reset",
            Self::Status => "status",
            Self::Refused => "refused",
            Self::ModelLost => "model_lost",
        }
    }

    /// Whether it is safe to send a request of this method again.
    pub(crate) fn is_safe_for(self, method: &Method) -> bool {
        match self {
            Self::Connect | Self::Refused | Self::ModelLost => true,
            Self::Reset | Self::Status => is_idempotent(method),
        }
    }

    /// Whether the server certainly did nothing about the request: it may then wait for a place at another one.
    pub(crate) fn did_nothing(self) -> bool {
        matches!(self, Self::Connect | Self::Refused | Self::ModelLost)
    }

    /// What an answer with this head is a cause for.
    pub(crate) fn of(status: StatusCode, headers: &HeaderMap) -> Option<Self> {
        match status.as_u16() {
            429 => Some(Self::Refused),
            503 if headers.contains_key(header::RETRY_AFTER) => Some(Self::Refused),
            502..=504 => Some(Self::Status),
            _ => None,
        }
    }
}

/// Whether the second of two equal requests changes nothing (RFC 9110, 9.2.2).
pub(crate) fn is_idempotent(method: &Method) -> bool {
    [Method::GET, Method::HEAD, Method::OPTIONS, Method::TRACE, Method::PUT, Method::DELETE].contains(method)
}

/// How long the server wants to be left alone: seconds or a date, at most [`LONGEST_PAUSE`]. `None`: it does not say, or
/// it is over.
pub(crate) fn pause(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let value = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    let pause = match value.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => httpdate::parse_http_date(value).ok()?.duration_since(now).ok()?,
    };
    Some(at_most_longest(pause)).filter(|pause| !pause.is_zero())
}

/// At most [`LONGEST_PAUSE`].
pub(crate) fn at_most_longest(pause: Duration) -> Duration {
    pause.min(LONGEST_PAUSE)
}

/// Retries so far.
#[derive(Default, Debug)]
pub(crate) struct RetryCounts {
    by_cause: [AtomicU64; Cause::ALL.len()],
    withheld: AtomicU64,
}

impl RetryCounts {
    /// A request is sent again.
    pub(crate) fn count(&self, cause: Cause) {
        self.by_cause[cause as usize].fetch_add(1, Relaxed);
    }

    /// It would have been, but for the budget.
    pub(crate) fn withheld(&self) {
        self.withheld.fetch_add(1, Relaxed);
    }

    /// How often requests were sent again for this cause.
    pub(crate) fn of(&self, cause: Cause) -> u64 {
        self.by_cause[cause as usize].load(Relaxed)
    }

    /// How often they were not, because the budget was used up.
    pub(crate) fn total_withheld(&self) -> u64 {
        self.withheld.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn retry_after(value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(header::RETRY_AFTER, HeaderValue::from_static(value))])
    }

    #[test]
    fn a_pause_is_seconds_or_a_date_and_bounded() {
        let now = httpdate::parse_http_date("Mon, 30 Nov 2026 04:00:00 GMT").unwrap();
        let pause = |value| pause(&retry_after(value), now).map(|pause| pause.as_secs());
        assert_eq!(pause("7"), Some(7));
        assert_eq!(pause("3600"), Some(60));
        assert_eq!(pause("Mon, 30 Nov 2026 04:00:09 GMT"), Some(9));
        assert_eq!([pause("0"), pause("-1"), pause("soon"), pause("Mon, 30 Nov 2026 03:59:00 GMT")], [None; 4]);
    }

    #[test]
    fn what_the_server_did_not_do_is_sent_again_by_any_method_and_the_rest_if_it_may_be_repeated() {
        let of = |status: u16, headers: &HeaderMap| Cause::of(StatusCode::from_u16(status).unwrap(), headers);
        let none = HeaderMap::new();
        assert_eq!([of(200, &none), of(404, &none), of(500, &none), of(501, &none)], [None; 4]);
        assert_eq!([502, 503, 504].map(|status| of(status, &none)), [Some(Cause::Status); 3]);
        assert_eq!([of(503, &retry_after("0")), of(429, &none)], [Some(Cause::Refused); 2]);
        for method in [Method::POST, Method::PATCH] {
            assert_eq!(Cause::ALL.map(|cause| cause.is_safe_for(&method)), [true, false, false, true, true]);
        }
        for method in [Method::GET, Method::HEAD, Method::PUT, Method::DELETE, Method::OPTIONS] {
            assert_eq!(Cause::ALL.map(|cause| cause.is_safe_for(&method)), [true; 5]);
        }
    }
}
