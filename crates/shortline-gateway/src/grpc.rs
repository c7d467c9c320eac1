//! Refusals in gRPC's words.
//!
//! A gRPC client takes any HTTP status but 200 for a broken server. What it reads are the trailers `grpc-status` and
//! `grpc-message`; an answer without a body carries them in its head ("Trailers-Only" in the protocol's
//! [description](https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md)). `grpc-retry-pushback-ms` is what
//! `retry-after` is to others.

use std::fmt::Write;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, Version, header, request};

use crate::outcome::Outcome;

const STATUS: &str = "grpc-status";
const PUSHBACK: &str = "grpc-retry-pushback-ms";

/// The status codes used here, by the names of their specification.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Code {
    Cancelled = 1,
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    Unimplemented = 12,
    Unavailable = 14,
}

/// Whether the client speaks gRPC.
pub(crate) fn is_spoken(head: &request::Parts) -> bool {
    head.version == Version::HTTP_2
        && head.headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}

/// The code for a refusal with this HTTP status.
pub(crate) fn code(status: StatusCode) -> Code {
    match status {
        StatusCode::NOT_FOUND | StatusCode::NOT_IMPLEMENTED => Code::Unimplemented,
        StatusCode::REQUEST_TIMEOUT => Code::Cancelled,
        StatusCode::GATEWAY_TIMEOUT => Code::DeadlineExceeded,
        StatusCode::TOO_MANY_REQUESTS => Code::Unavailable,
        status if status.is_client_error() => Code::InvalidArgument,
        _ => Code::Unavailable,
    }
}

/// What 503 is to others.
pub(crate) const UNAVAILABLE: u16 = Code::Unavailable as u16;
/// What 429 is to others.
pub(crate) const RESOURCE_EXHAUSTED: u16 = 8;

/// The status code of a server's answer, by its trailers or by a head that stands for them. One that is no number is
/// `UNKNOWN` (2).
pub(crate) fn status(headers: &HeaderMap) -> Option<u16> {
    let status = headers.get(STATUS)?;
    Some(status.to_str().ok().and_then(|status| status.trim().parse().ok()).unwrap_or(2))
}

/// After how long the server wants to be asked again; `None`: it does not say, or not at all.
pub(crate) fn pushback(headers: &HeaderMap) -> Option<Duration> {
    headers.get(PUSHBACK)?.to_str().ok()?.trim().parse().ok().map(Duration::from_millis)
}

/// How an answer with this status code counts: as that of its like among HTTP's.
pub(crate) fn outcome(code: u16) -> Outcome {
    match code {
        0 => Outcome::Ok,
        // CANCELLED, INVALID_ARGUMENT, NOT_FOUND, ALREADY_EXISTS, PERMISSION_DENIED, RESOURCE_EXHAUSTED,
        // FAILED_PRECONDITION, ABORTED, OUT_OF_RANGE, UNAUTHENTICATED
        1 | 3 | 5..=11 | 16 => Outcome::Server4xx,
        // UNKNOWN, DEADLINE_EXCEEDED, UNIMPLEMENTED, INTERNAL, UNAVAILABLE, DATA_LOSS, and what nobody knows
        _ => Outcome::Server5xx,
    }
}

/// The answer.
pub(crate) fn answer(code: Code, message: &str, retry_after_s: Option<u64>) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert(STATUS, HeaderValue::from(u16::from(code as u8)));
    headers.insert("grpc-message", percent_encoded(message));
    if let Some(seconds) = retry_after_s {
        headers.insert(PUSHBACK, HeaderValue::from(seconds.saturating_mul(1000)));
    }
    response
}

/// Printable ASCII but `%` as it is, the bytes of all else as `%XX`.
fn percent_encoded(message: &str) -> HeaderValue {
    let mut encoded = String::with_capacity(message.len());
    for byte in message.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => encoded.push(byte.into()),
            _ => write!(encoded, "%{byte:02X}").expect("a String takes all text"),
        }
    }
    HeaderValue::try_from(encoded).expect("printable ASCII is a header value")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_travels_in_ascii_and_its_code_as_a_number() {
        let answer = answer(Code::Unimplemented, "no `ä%`\n", Some(2));
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["grpc-status"], "12");
        assert_eq!(answer.headers()["grpc-message"], "no `%C3%A4%25`%0A");
        assert_eq!(answer.headers()["grpc-retry-pushback-ms"], "2000");
        assert!(answer.body().is_empty());
    }

    #[test]
    fn a_status_is_a_number_and_counts_as_its_like_among_https() {
        let of = |name: &'static str, value: &'static str| {
            HeaderMap::from_iter([(http::HeaderName::from_static(name), HeaderValue::from_static(value))])
        };
        assert_eq!(["0", "14", "x"].map(|value| status(&of(STATUS, value))), [Some(0), Some(14), Some(2)]);
        assert_eq!(status(&HeaderMap::new()), None);
        assert_eq!(pushback(&of(PUSHBACK, "1500")), Some(Duration::from_millis(1500)));
        assert_eq!([pushback(&of(PUSHBACK, "-1")), pushback(&HeaderMap::new())], [None; 2]);
        assert_eq!([0, 8, 13].map(outcome), [Outcome::Ok, Outcome::Server4xx, Outcome::Server5xx]);
    }

    #[test]
    fn codes_follow_the_status() {
        for (status, expected) in [
            (400, Code::InvalidArgument),
            (404, Code::Unimplemented),
            (408, Code::Cancelled),
            (413, Code::InvalidArgument),
            (429, Code::Unavailable),
            (501, Code::Unimplemented),
            (502, Code::Unavailable),
            (503, Code::Unavailable),
            (504, Code::DeadlineExceeded),
        ] {
            assert_eq!(code(StatusCode::from_u16(status).unwrap()), expected, "{status}");
        }
    }
}
