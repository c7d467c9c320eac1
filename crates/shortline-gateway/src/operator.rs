//! `POST /servers/NAME/drain`, `down` and `up`: the operator's word about a server.
//!
//! `drain` and `down` keep new requests away; those that run finish. It stays so, whatever checks and requests say and
//! however often the fleet is exchanged, until `up`, which also forgets what the breaker and the checks knew, and which
//! models it has lost.

use bytes::Bytes;
use http::{HeaderValue, Method, Response, StatusCode, header};
use serde::Serialize;

use crate::breaker::Word;
use crate::errors::{ErrorBody, ErrorObject, json_response};
use crate::gateway::Gateway;

/// What the operator says of which server; `None`: the path is another one.
pub(crate) fn order(path: &str) -> Option<(String, Word)> {
    let (name, word) = path.strip_prefix("/servers/")?.split_once('/')?;
    let word = match word {
        "drain" => Word::Drain,
        "down" => Word::Down,
        "up" => Word::Up,
        _ => return None,
    };
    Some((percent_decoded(name), word))
}

/// What the operator can say.
pub(crate) const WORDS: &str = "drain, down and up";

/// Carries it out.
pub(crate) fn answer(gateway: &Gateway, method: &Method, server: &str, word: Word) -> Response<Bytes> {
    if method != Method::POST {
        let mut response = error(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "this is ordered with POST");
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST"));
        return response;
    }
    let epoch = gateway.dispatch.epoch();
    let Some(id) = epoch.fleet.find_server(server) else {
        return error(StatusCode::NOT_FOUND, "unknown_server", &format!("the fleet has no server `{server}`"));
    };
    let known = epoch.server(id);
    known.told(&gateway.dispatch, word);
    if word == Word::Up {
        known.regain_but(&gateway.dispatch, |_| false);
    }
    let health = known.health().condition().name();
    json_response(StatusCode::OK, &Done { server, health, in_flight: gateway.dispatch.jobs(server) })
}

#[derive(Serialize)]
struct Done<'a> {
    server: &'a str,
    health: &'a str,
    in_flight: u32,
}

fn error(status: StatusCode, code: &str, message: &str) -> Response<Bytes> {
    json_response(status, &ErrorBody { error: ErrorObject { code, message, kind: "invalid_request_error" } })
}

/// `%41` is `A`; what is no such code stays as it is.
pub(crate) fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        let code = behind.get(..2).filter(|_| first == b'%').and_then(|code| std::str::from_utf8(code).ok());
        let decoded = code.and_then(|code| u8::from_str_radix(code, 16).ok());
        bytes.push(decoded.unwrap_or(first));
        rest = if decoded.is_some() { &behind[2..] } else { behind };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_names_a_server_and_a_word() {
        assert_eq!(order("/servers/gpu-0/drain"), Some(("gpu-0".to_owned(), Word::Drain)));
        assert_eq!(order("/servers/w%C3%B6rd%20%/up"), Some(("wörd %".to_owned(), Word::Up)));
        assert_eq!([order("/servers/gpu-0"), order("/servers/gpu-0/dance"), order("/status")], [None, None, None]);
    }
}
