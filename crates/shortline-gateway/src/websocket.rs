//! WebSocket over HTTP/2: an extended CONNECT (RFC 8441) becomes the opening handshake of HTTP/1.1 (RFC 6455, 4).
//!
//! Over HTTP/2 there is no key: the request says `:method = CONNECT`, `:protocol = websocket`, the answer 2xx. The server
//! is asked by `GET` with `upgrade: websocket` and a key of the gateway's own, and proves that it speaks WebSocket by
//!
//! `sec-websocket-accept = base64(SHA-1(sec-websocket-key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))`.
//!
//! Without that proof nothing is switched. A server that declines with 3xx, 4xx or 5xx is passed on; 2xx would mean to the
//! client that the protocol was switched, so it is a fault of the server's.

use std::hash::{BuildHasher, Hasher, RandomState};

use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, Version, request};
use hyper::ext::Protocol;
use rand::{Rng, SeedableRng};
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use shortline_core::random::Generator;

const KEY: HeaderName = HeaderName::from_static("sec-websocket-key");
const ACCEPT: HeaderName = HeaderName::from_static("sec-websocket-accept");
const VERSION: HeaderName = HeaderName::from_static("sec-websocket-version");
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// A handshake with a server under way.
#[derive(Debug)]
pub(crate) struct Handshake {
    /// What the server has to answer.
    accept: String,
}

/// What a server's answer to it means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// The protocol is switched.
    Switched,
    /// It is not; the answer says why.
    Declined,
    /// The server does not know what it says.
    Broken,
}

impl Handshake {
    /// Turns a client's extended CONNECT into the request for a server, if it is one.
    pub(crate) fn begin(head: &mut request::Parts) -> Option<Self> {
        let asks = head.version == Version::HTTP_2
            && head.method == Method::CONNECT
            && head.extensions.get::<Protocol>().is_some_and(|protocol| protocol.as_str() == "websocket");
        asks.then(|| {
            let key = new_key();
            head.method = Method::GET;
            head.headers.insert(KEY, HeaderValue::try_from(&key).expect("base64 is a header value"));
            head.headers.entry(VERSION).or_insert(HeaderValue::from_static("13"));
            Self { accept: accept(&key) }
        })
    }

    /// What the server's answer means.
    pub(crate) fn verdict<B>(&self, answer: &Response<B>) -> Verdict {
        let proves = || answer.headers().get(ACCEPT).is_some_and(|proof| proof.as_bytes() == self.accept.as_bytes());
        match answer.status() {
            StatusCode::SWITCHING_PROTOCOLS if proves() => Verdict::Switched,
            StatusCode::SWITCHING_PROTOCOLS => Verdict::Broken,
            status if status.is_success() => Verdict::Broken,
            _ => Verdict::Declined,
        }
    }
}

/// The proof is for the gateway; the client, over HTTP/2, knows none.
pub(crate) fn remove_proof(headers: &mut HeaderMap) {
    headers.remove(ACCEPT);
}

/// 16 bytes that were not used before. They need not be secret: they tell a server that answers from one that echoes.
fn new_key() -> String {
    let mut bytes = [0; 16];
    Generator::seed_from_u64(RandomState::new().build_hasher().finish()).fill_bytes(&mut bytes);
    base64(&bytes)
}

fn accept(key: &str) -> String {
    base64(digest(&SHA1_FOR_LEGACY_USE_ONLY, format!("{key}{GUID}").as_bytes()).as_ref())
}

/// RFC 4648, 4, with padding.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let bits = chunk.iter().fold(0, |bits, &byte| bits << 8 | u32::from(byte)) << (8 * (3 - chunk.len()));
        for digit in 0..4 {
            let value = bits >> (18 - 6 * digit) & 63;
            text.push(if digit <= chunk.len() { DIGITS[value as usize].into() } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_rfcs_come_out() {
        assert_eq!(accept("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        let examples =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("foobar", "Zm9vYmFy")];
        for (plain, encoded) in examples {
            assert_eq!(base64(plain.as_bytes()), encoded);
        }
    }

    #[test]
    fn keys_are_16_bytes_and_differ() {
        let (a, b) = (new_key(), new_key());
        assert!(a != b && a.len() == 24 && a.ends_with("=="), "{a} {b}");
    }

    #[test]
    fn only_an_extended_connect_for_websocket_begins_one() {
        let parts = |method: Method, version, protocol: Option<&'static str>| {
            let mut request = http::Request::builder().method(method).version(version).body(()).unwrap();
            protocol.map(|protocol| request.extensions_mut().insert(Protocol::from_static(protocol)));
            request.into_parts().0
        };
        let mut asks = parts(Method::CONNECT, Version::HTTP_2, Some("websocket"));
        assert!(Handshake::begin(&mut asks).is_some());
        assert_eq!(
            (asks.method, &asks.headers["sec-websocket-version"]),
            (Method::GET, &HeaderValue::from_static("13"))
        );
        for (method, version, protocol) in [
            (Method::GET, Version::HTTP_2, Some("websocket")),
            (Method::CONNECT, Version::HTTP_11, Some("websocket")),
            (Method::CONNECT, Version::HTTP_2, Some("connect-udp")),
            (Method::CONNECT, Version::HTTP_2, None),
        ] {
            assert!(Handshake::begin(&mut parts(method, version, protocol)).is_none());
        }
    }

    #[test]
    fn nothing_is_switched_without_the_proof() {
        let handshake = Handshake { accept: accept("key") };
        let verdict = |status, proof: Option<&str>| {
            let answer = proof
                .into_iter()
                .fold(Response::builder().status(status), |answer, proof| answer.header("sec-websocket-accept", proof));
            handshake.verdict(&answer.body(()).unwrap())
        };
        assert_eq!(verdict(101, Some(&accept("key"))), Verdict::Switched);
        assert_eq!([verdict(101, None), verdict(101, Some("key")), verdict(200, None)], [Verdict::Broken; 3]);
        assert_eq!([302, 400, 403, 426, 503].map(|status| verdict(status, None)), [Verdict::Declined; 5]);
    }
}
