//! Headers on the way through: what is between two neighbours stays there, what is for the far end passes.
//!
//! To the server: hop-by-hop headers go (RFC 9110, 7.6.1: those listed in `connection`, and the known ones), `te` is
//! kept only as `te: trailers`; `cookie`, which HTTP/2 may cut, is one line again (RFC 9113, 8.2.3); `expect` goes, because the gateway asks the client for the body itself; `host` passes
//! as the client wrote it, so that servers see their public name (HTTP/1.0 without one: the server's address);
//! `x-forwarded-for` is appended to, `x-forwarded-host` and `x-forwarded-proto` are set unless a proxy in front has
//! set them, `via` is appended to, a valid `traceparent` (W3C Trace Context) passes, else a new one is made, marked as
//! sampled, and the `tracestate` that belonged to the old one goes.
//! `upgrade` passes where the protocol can be switched ([`crate::tunnel`]); elsewhere it is ignored, as RFC 9110 7.8
//! allows. `trailer` passes: without it trailers could not.
//!
//! To the client: hop-by-hop headers go, `x-served-by` is the gateway's.
//!
//! Not everything that parses passes: two readers of one message must not see two messages ([`check`]).

use std::cell::RefCell;
use std::hash::{BuildHasher, Hasher, RandomState};

use bytes::Bytes;
use http::header::{
    CONNECTION, CONTENT_LENGTH, COOKIE, HOST, HeaderMap, HeaderName, HeaderValue, PROXY_AUTHENTICATE, TE,
    TRANSFER_ENCODING, UPGRADE, VIA,
};
use http::uri::Authority;
use http::{Method, Version, request};
use http_body::Frame;
use rand::{Rng, SeedableRng};
use shortline_core::random::Generator;

use crate::errors::{OTHER_CODINGS, Refusal};

pub(crate) const X_JOB_TYPE: HeaderName = HeaderName::from_static("x-job-type");
pub(crate) const X_SERVED_BY: HeaderName = HeaderName::from_static("x-served-by");
const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// Most lines that a request gets on its way.
const MOST_ADDED: usize = 8;

/// How the gateway calls itself in `via`.
const VIA_NAME: &str = "1.1 shortline";

/// Whether the head of a request leaves no doubt about whom it is for and where its body ends (RFC 9112, 3.2 and 6.1).
///
/// Over HTTP/1 [`framing`](crate::client_stream::framing) has looked at the bytes before; this holds for HTTP/2, too.
///
/// # Errors
/// The refusal to answer with.
pub(crate) fn check(head: &request::Parts, most_lines: usize) -> Result<(), Refusal> {
    if head.headers.len() > most_lines {
        return Err(Refusal::HeadTooLarge);
    }
    let uri = &head.uri;
    if uri.scheme().is_none() && uri.authority().is_some() && head.method != Method::CONNECT {
        return Err(Refusal::Malformed("the request's target is a host without a scheme; begin it with / or http://"));
    }
    if uri.path() == "*" && head.method != Method::OPTIONS {
        return Err(Refusal::Malformed("the request's target * is for OPTIONS only"));
    }
    let hosts = head.headers.get(HOST).map(HeaderValue::as_bytes);
    if ![hosts, uri.authority().map(|a| a.as_str().as_bytes())].into_iter().flatten().all(is_host) {
        return Err(Refusal::Malformed("the request's host is not a name or address with or without a port"));
    }
    if head.headers.get_all(CONTENT_LENGTH).iter().nth(1).is_some() {
        return Err(Refusal::Malformed("`content-length` is there more than once"));
    }
    if let (Some(authority), Some(host)) = (uri.authority(), head.headers.get(HOST))
        && !authority.as_str().as_bytes().eq_ignore_ascii_case(host.as_bytes())
    {
        return Err(Refusal::Malformed("the header host differs from the host of the request's target; leave one out"));
    }
    match head.headers.get_all(HOST).iter().count() {
        0 if head.version == Version::HTTP_11 => Err(Refusal::Malformed("an HTTP/1.1 request needs the header host")),
        0 | 1 if is_plainly_framed(&head.headers) => Ok(()),
        0 | 1 => Err(Refusal::Unsupported(OTHER_CODINGS)),
        _ => Err(Refusal::Malformed("the request has the header host more than once; send one")),
    }
}

/// Whether it is `host` or `host:port` (RFC 9110, 7.2), without user, list or path. An empty one is (RFC 9112, 3.2).
fn is_host(text: &[u8]) -> bool {
    let (name, port) = match text.iter().rposition(|&byte| byte == b']') {
        Some(end) if text[0] == b'[' => {
            let address = &text[1..end];
            (address.iter().all(|&byte| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.')), &text[end + 1..])
        }
        Some(_) => return false,
        None => {
            let end = memchr::memchr(b':', text).unwrap_or(text.len());
            (text[..end].iter().copied().all(is_of_name), &text[end..])
        }
    };
    name && (port.is_empty() || port[0] == b':' && port[1..].iter().all(u8::is_ascii_digit))
}

/// Whether a byte may be in a name (`reg-name` in RFC 3986, 3.2.2; less the comma, which some take for a list).
fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+;=".contains(&byte)
}

/// Trailers without what may not be one, since it frames the message, routes it or says who sent it (RFC 9110, 6.5.1), or is
/// between two neighbours; data as it is.
pub(crate) fn with_fit_trailers(frame: Frame<Bytes>) -> Frame<Bytes> {
    match frame.into_trailers() {
        Ok(mut trailers) => {
            remove_unfit(&mut trailers);
            Frame::trailers(trailers)
        }
        Err(frame) => frame,
    }
}

fn remove_unfit(trailers: &mut HeaderMap) {
    let is_unfit = |name: &&HeaderName| {
        is_hop_by_hop(name)
            || name.as_str().starts_with("x-forwarded-")
            || matches!(
                name.as_str(),
                "authorization"
                    | "cache-control"
                    | "content-encoding"
                    | "content-length"
                    | "content-range"
                    | "content-type"
                    | "cookie"
                    | "expect"
                    | "forwarded"
                    | "host"
                    | "max-forwards"
                    | "proxy-authorization"
                    | "set-cookie"
                    | "traceparent"
                    | "trailer"
                    | "via"
                    | "x-job-type"
                    | "x-served-by"
            )
    };
    let gone: Vec<HeaderName> = trailers.keys().filter(is_unfit).cloned().collect();
    for name in gone {
        trailers.remove(name);
    }
}

/// Whether a body comes as it is, by its length or chunked: the gateway undoes no other transfer coding.
fn is_plainly_framed(headers: &HeaderMap) -> bool {
    let mut lines = headers.get_all(TRANSFER_ENCODING).iter();
    lines.next().is_none_or(|coding| coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked"))
        && lines.next().is_none()
}

/// The text of a `traceparent`.
pub(crate) type Trace = [u8; 55];

/// A new `traceparent`, if a request does not have one that is valid.
pub(crate) fn new_trace(headers: &HeaderMap) -> Option<Trace> {
    let mut traces = headers.get_all(TRACEPARENT).iter();
    let is_good = traces.next().is_some_and(|trace| is_traceparent(trace.as_bytes())) && traces.next().is_none();
    (!is_good).then(traceparent)
}

/// A request's headers for a server. `trace` takes the place of the client's; `authority` is the one in the request's URI
/// (HTTP/2, absolute form).
pub(crate) fn for_server(
    headers: &HeaderMap,
    peer: &HeaderValue,
    trace: Option<&Trace>,
    authority: Option<&Authority>,
    server: &HeaderValue,
) -> HeaderMap {
    let listed = listed_hop_by_hop(headers);
    let is_coded = headers.contains_key(TRANSFER_ENCODING);
    // RFC 9112 3.2.2: the authority of an absolute-form target replaces Host.
    let authority = authority.and_then(|a| HeaderValue::from_str(a.as_str()).ok());
    let host = authority.or_else(|| headers.get(HOST).cloned());
    let mut sent = HeaderMap::with_capacity(headers.len() + MOST_ADDED);
    sent.insert(HOST, host.clone().unwrap_or_else(|| server.clone()));
    let (mut forwarded_for, mut via, mut cookies) = (Vec::new(), Vec::new(), Vec::new());
    let (mut has_host, mut has_proto) = (false, false);
    for (name, value) in headers {
        match name.as_str() {
            "host" | "expect" | "http2-settings" | "proxy-authorization" => {}
            "x-forwarded-for" => forwarded_for.push(value),
            _ if is_hop_by_hop(name) || listed.contains(name) => {}
            "content-length" if is_coded => {}
            "traceparent" | "tracestate" if trace.is_some() => {}
            "via" => via.push(value),
            "cookie" => cookies.push(value),
            known => {
                has_host |= known == "x-forwarded-host";
                has_proto |= known == "x-forwarded-proto";
                sent.append(name.clone(), value.clone());
            }
        }
    }
    if let Some(trace) = trace {
        let trace = HeaderValue::from_bytes(trace).expect("hexadecimal digits and dashes are a header value");
        sent.insert(TRACEPARENT, trace);
    }
    if accepts_trailers(headers) {
        sent.insert(TE, HeaderValue::from_static("trailers"));
    }
    if let (Some(host), false) = (host, has_host) {
        sent.insert(X_FORWARDED_HOST, host);
    }
    if !has_proto {
        sent.insert(X_FORWARDED_PROTO, HeaderValue::from_static("http"));
    }
    let via_here = HeaderValue::from_static(VIA_NAME);
    forwarded_for.push(peer);
    via.push(&via_here);
    sent.insert(X_FORWARDED_FOR, joined(&forwarded_for, b", "));
    sent.insert(VIA, joined(&via, b", "));
    if !cookies.is_empty() {
        sent.insert(COOKIE, joined(&cookies, b"; "));
    }
    sent
}

/// Rewrites a server's headers for the client.
pub(crate) fn to_client(headers: &mut HeaderMap, served_by: Option<&HeaderValue>) {
    let listed = listed_hop_by_hop(headers);
    let stays_behind = |name: &&HeaderName| {
        is_hop_by_hop(name) || **name == PROXY_AUTHENTICATE || **name == X_SERVED_BY || listed.contains(name)
    };
    let gone: Vec<HeaderName> = headers.keys().filter(stays_behind).cloned().collect();
    for name in gone {
        // RFC 9112 6.3: where both are, the transfer coding frames the body and the length is a trap for the next one.
        if name == TRANSFER_ENCODING {
            headers.remove(CONTENT_LENGTH);
        }
        headers.remove(name);
    }
    if let Some(name) = served_by {
        headers.insert(X_SERVED_BY, name.clone());
    }
}

/// The protocol that a request asks for, or an answer switches to, if there is one. HTTP/2 is none: a client that
/// offers it goes on in HTTP/1.1.
pub(crate) fn asks_to_switch(headers: &HeaderMap) -> Option<&HeaderValue> {
    let protocol = headers.get(UPGRADE)?;
    let is = |wanted: &'static str| move |token: &str| token.eq_ignore_ascii_case(wanted);
    let asks = tokens(headers, &CONNECTION).any(is("upgrade")) && !tokens(headers, &UPGRADE).any(is("h2c"));
    asks.then_some(protocol)
}

/// Asks for a protocol, or grants it; for headers that were rewritten.
pub(crate) fn ask_to_switch(headers: &mut HeaderMap, protocol: &HeaderValue) {
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, protocol.clone());
}

/// Whether a header is between two neighbours whatever they say.
fn is_hop_by_hop(name: &HeaderName) -> bool {
    matches!(name.as_str(), "connection" | "keep-alive" | "proxy-connection" | "te" | "transfer-encoding" | "upgrade")
}

/// Those that the neighbour lists as such.
fn listed_hop_by_hop(headers: &HeaderMap) -> Vec<HeaderName> {
    tokens(headers, &CONNECTION)
        .filter_map(|name| HeaderName::from_bytes(name.as_bytes()).ok())
        // A client must not be able to strike these out.
        .filter(|name| ![HOST, X_FORWARDED_FOR, X_JOB_TYPE, TRACEPARENT].contains(name))
        .collect()
}

fn accepts_trailers(headers: &HeaderMap) -> bool {
    headers.contains_key(TE)
        && tokens(headers, &TE)
            .any(|t| t.split(';').next().is_some_and(|t| t.trim_end().eq_ignore_ascii_case("trailers")))
}

/// The comma-separated elements of all lines of a header.
fn tokens<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    headers.get_all(name).into_iter().filter_map(|v| v.to_str().ok()).flat_map(|v| v.split(',')).map(str::trim)
}

/// The lines of a header, of which there is at least one, as one.
fn joined(lines: &[&HeaderValue], separator: &[u8]) -> HeaderValue {
    if let [only] = *lines {
        return only.clone();
    }
    let lines: Vec<&[u8]> = lines.iter().map(|line| line.as_bytes()).collect();
    HeaderValue::from_bytes(&lines.join(separator)).expect("values with commas and blanks between them are a value")
}

/// Whether it is `version-trace-parent-flags` in lower-case hexadecimal, with ids that are not all 0. Version ff is
/// none; versions after 00 may go on behind another dash.
fn is_traceparent(text: &[u8]) -> bool {
    let Some((known, more)) = text.split_at_checked(55) else { return false };
    let is_hex = |part: &[u8]| part.iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let is_id = |part: &[u8]| is_hex(part) && part.iter().any(|&b| b != b'0');
    let (version, dashes) = (&known[..2], [known[2], known[35], known[52]]);
    dashes == *b"---"
        && is_hex(version)
        && version != b"ff"
        && is_id(&known[3..35])
        && is_id(&known[36..52])
        && is_hex(&known[53..])
        && (more.is_empty() || (version != b"00" && more[0] == b'-'))
}

/// Every byte in hexadecimal.
const HEX: [[u8; 2]; 256] = {
    let (digits, mut hex, mut byte) = (*b"0123456789abcdef", [[0; 2]; 256], 0);
    while byte < 256 {
        hex[byte] = [digits[byte >> 4], digits[byte & 15]];
        byte += 1;
    }
    hex
};

/// A new `traceparent`: version 00, random trace and parent ids, sampled.
fn traceparent() -> Trace {
    thread_local! {
        // Ids need to differ, not to be secret: seeded once a thread from the system's entropy.
        static IDS: RefCell<Generator> = RefCell::new(Generator::seed_from_u64(RandomState::new().build_hasher().finish()));
    }
    let (high, low, parent) = IDS.with_borrow_mut(|ids| (ids.next_u64(), ids.next_u64(), ids.next_u64()));
    let mut text = *b"00-0123456789abcdef0123456789abcdef-0123456789abcdef-01";
    // All-zero ids are invalid.
    for (at, id) in [(3, high), (19, low.max(1)), (36, parent.max(1))] {
        for (digits, byte) in text[at..at + 16].chunks_exact_mut(2).zip(id.to_be_bytes()) {
            digits.copy_from_slice(&HEX[usize::from(byte)]);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(lines: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    fn sent(lines: &[(&'static str, &str)]) -> HeaderMap {
        let (headers, value) = (map(lines), HeaderValue::from_static);
        for_server(&headers, &value("10.1.1.1"), new_trace(&headers).as_ref(), None, &value("gpu:8000"))
    }

    #[test]
    fn hop_by_hop_headers_and_those_listed_in_connection_stay_behind() {
        let headers = sent(&[
            ("host", "a"),
            ("connection", "close, X-Secret"),
            ("connection", "x-other"),
            ("x-secret", "1"),
            ("x-other", "1"),
            ("x-kept", "1"),
            ("keep-alive", "timeout=5"),
            ("proxy-connection", "keep-alive"),
            ("proxy-authorization", "Basic x"),
            ("te", "gzip"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("http2-settings", "AA"),
            ("expect", "100-continue"),
        ]);
        let mut names: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(
            names,
            ["host", "traceparent", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-kept"]
        );
    }

    #[test]
    fn a_host_is_a_name_or_an_address_and_perhaps_a_port() {
        for good in ["", "a", "a_b.example:80", "a:", "127.0.0.1:1", "[::1]", "[::ffff:1.2.3.4]:80", "xn--a%20"] {
            assert!(is_host(good.as_bytes()), "{good:?}");
        }
        for bad in
            ["a b", "a/b", "u:p@h", "u@h", "[::1", "::1]", "h,h2", "a:b", "a:1:2", "[::1]x", "[g]", "\u{e9}", "a?b"]
        {
            assert!(!is_host(bad.as_bytes()), "{bad:?}");
        }
    }

    #[test]
    fn te_passes_as_trailers_only() {
        assert_eq!(sent(&[("te", "gzip, Trailers;q=0.5")])["te"], "trailers");
        assert!(!sent(&[("te", "deflate")]).contains_key("te"));
    }

    #[test]
    fn a_length_beside_a_transfer_coding_goes_with_it() {
        assert!(!sent(&[("transfer-encoding", "chunked"), ("content-length", "4")]).contains_key("content-length"));
        assert_eq!(sent(&[("content-length", "4")])["content-length"], "4");
    }

    #[test]
    fn a_client_cannot_strike_out_what_the_gateway_relies_on() {
        let headers = sent(&[("host", "a"), ("connection", "host, x-forwarded-for"), ("x-forwarded-for", "1.1.1.1")]);
        assert_eq!(headers["host"], "a");
        assert_eq!(headers["x-forwarded-for"], "1.1.1.1, 10.1.1.1");
    }

    #[test]
    fn lists_are_appended_to_and_what_a_proxy_in_front_said_stays() {
        let headers = sent(&[
            ("host", "inner"),
            ("via", "1.0 a"),
            ("via", "1.1 b"),
            ("cookie", "a=1; b=2"),
            ("cookie", "c=3"),
            ("x-forwarded-host", "outer"),
            ("x-forwarded-proto", "https"),
            ("traceparent", TRACE),
            ("tracestate", "a=1"),
        ]);
        assert_eq!(headers["via"], "1.0 a, 1.1 b, 1.1 shortline");
        assert_eq!(headers.get_all("cookie").iter().collect::<Vec<_>>(), ["a=1; b=2; c=3"]);
        assert_eq!(headers["x-forwarded-host"], "outer");
        assert_eq!(headers["x-forwarded-proto"], "https");
        assert_eq!(headers["traceparent"], TRACE);
        assert_eq!(headers["tracestate"], "a=1");
    }

    const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_traceparent_is_known_by_its_form() {
        assert!(is_traceparent(TRACE.as_bytes()));
        assert!(is_traceparent(TRACE.replace("00-", "cc-").as_bytes()));
        assert!(is_traceparent(format!("{}-more", TRACE.replace("00-", "cc-")).as_bytes()));
        for broken in [
            String::new(),
            "00-1-2-00".into(),
            TRACE.replace("00-", "ff-"),
            TRACE.to_uppercase(),
            format!("{TRACE}-more"),
            format!("{TRACE}0"),
            TRACE.replace("b7ad6b7169203331", "0000000000000000"),
            TRACE.replace("0af7651916cd43dd8448eb211c80319c", "00000000000000000000000000000000"),
            TRACE.replace("-b7", "_b7"),
            TRACE.replace("01", "0g"),
        ] {
            assert!(!is_traceparent(broken.as_bytes()), "{broken}");
        }
    }

    #[test]
    fn a_broken_or_doubled_traceparent_is_replaced_and_its_tracestate_goes() {
        for lines in [&[("traceparent", "00-1-2-00"), ("tracestate", "a=1")][..], &[("traceparent", TRACE); 2]] {
            let headers = sent(lines);
            let traces: Vec<_> = headers.get_all("traceparent").iter().collect();
            assert!(traces.len() == 1 && traces[0] != TRACE && is_traceparent(traces[0].as_bytes()), "{traces:?}");
            assert!(!headers.contains_key("tracestate"));
        }
    }

    #[test]
    fn the_host_of_an_absolute_target_wins_and_a_missing_one_is_the_servers() {
        assert_eq!(sent(&[])["host"], "gpu:8000");
        let headers = map(&[("host", "a")]);
        let authority = "b:81".parse().unwrap();
        let value = HeaderValue::from_static;
        let headers = for_server(&headers, &value("::1"), None, Some(&authority), &value("gpu"));
        assert_eq!(headers["host"], "b:81");
    }

    #[test]
    fn a_new_traceparent_is_valid_and_differs_from_the_last() {
        let (a, b) = (traceparent(), traceparent());
        assert_ne!(a, b);
        let parts: Vec<&str> = std::str::from_utf8(&a).unwrap().split('-').collect();
        assert_eq!(parts.iter().map(|p| p.len()).collect::<Vec<_>>(), [2, 32, 16, 2]);
        assert!(parts.iter().all(|p| p.bytes().all(|b| b.is_ascii_hexdigit() && !b.is_ascii_uppercase())));
    }

    #[test]
    fn x_served_by_is_the_gateways_or_nobodys() {
        let mut headers = map(&[("x-served-by", "liar"), ("connection", "keep-alive"), ("content-type", "text/plain")]);
        to_client(&mut headers, Some(&HeaderValue::from_static("gpu-0")));
        assert_eq!(headers, map(&[("x-served-by", "gpu-0"), ("content-type", "text/plain")]));
        to_client(&mut headers, None);
        assert_eq!(headers, map(&[("content-type", "text/plain")]));
    }
}
