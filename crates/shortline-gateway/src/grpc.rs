//! Refusals in gRPC's words.
//!
//! A gRPC client takes any HTTP status but 200 for a broken server. What it reads are the trailers `grpc-status` and
//! `grpc-message`; an answer without a body carries them in its head ("Trailers-Only" in the protocol's
//! [description](https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md)). `grpc-retry-pushback-ms` is what
//! `retry-after` is to others.

use std::fmt::Write;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, Version, header, request};

const STATUS: &str = "grpc-status";

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

/// Whether a server's answer, by its trailers or by a head that stands for them, says `UNAVAILABLE`: what 503 is to others.
pub(crate) fn says_unavailable(headers: &HeaderMap) -> bool {
    headers.get(STATUS).is_some_and(|status| status.as_bytes() == b"14")
}

/// The answer.
pub(crate) fn answer(code: Code, message: &str, retry_after_s: Option<u64>) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert(STATUS, HeaderValue::from(u16::from(code as u8)));
    headers.insert("grpc-message", percent_encoded(message));
    if let Some(seconds) = retry_after_s {
        headers.insert("grpc-retry-pushback-ms", HeaderValue::from(seconds.saturating_mul(1000)));
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
    fn unavailable_is_14_and_nothing_else() {
        let says = |status: &'static str| {
            says_unavailable(&HeaderMap::from_iter([(
                http::HeaderName::from_static(STATUS),
                HeaderValue::from_static(status),
            )]))
        };
        assert!(says("14") && !says("0") && !says("4") && !says("141") && !says_unavailable(&HeaderMap::new()));
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
