//! Requests that two readers could read in two ways: refused, nothing of them reaches a server, and the connection
//! closes, so that what follows them is never taken for a request.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{Backend, OK, Peer, Plan, Running, call, get};

async fn one(backend: &Backend) -> Running {
    Plan::new(&[("m", &[0])]).server("s", 1.0, None, backend.address).serve("jfsq", 1).await
}

/// What a request smuggled behind another looks like.
const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nhost: a\r\nx-job-type: m\r\n\r\n";

#[tokio::test]
async fn a_request_that_two_readers_could_read_in_two_ways_is_refused_and_the_connection_closed() {
    let backend = Backend::replying(OK).await;
    let running = one(&backend).await;
    let post = |headers: &str, body: &str| {
        format!("POST / HTTP/1.1\r\nhost: a\r\nx-job-type: m\r\n{headers}\r\n\r\n{body}{SMUGGLED}")
    };
    let plain = post("x: y", "");
    let chunked = |body: &str| post("transfer-encoding: chunked", body);
    let cases = [
        ("length, then chunked", post("content-length: 5\r\ntransfer-encoding: chunked", "0\r\n\r\n")),
        ("chunked, then length", post("transfer-encoding: chunked\r\ncontent-length: 5", "0\r\n\r\n")),
        ("two equal lengths", post("content-length: 0\r\ncontent-length: 0", "")),
        ("two lengths", post("content-length: 0\r\ncontent-length: 54", "")),
        ("a list of lengths", post("content-length: 0, 0", "")),
        ("a signed length", post("content-length: +0", "")),
        ("a length beyond 2^63", post("content-length: 18446744073709551616", "")),
        ("chunked is not the last", post("transfer-encoding: chunked, identity", "0\r\n\r\n")),
        ("chunked twice", post("transfer-encoding: chunked\r\ntransfer-encoding: chunked", "0\r\n\r\n")),
        ("not chunked at all", post("transfer-encoding: identity", "0\r\n\r\n")),
        (
            "chunked in HTTP/1.0",
            chunked("0\r\n\r\n")
                .replace("HTTP/1.1\r\nhost: a\r\nx-job-type: m\r\ntr", "HTTP/1.0\r\nx-job-type: m\r\ntr"),
        ),
        ("a blank before the colon", post("transfer-encoding : chunked", "0\r\n\r\n")),
        ("a folded line", post("x: a\r\n transfer-encoding: chunked", "0\r\n\r\n")),
        ("bare LF in a head", post("x: a\ntransfer-encoding: chunked", "0\r\n\r\n")),
        ("bare LF everywhere", plain.replace("\r\n", "\n")),
        ("bare CR", post("x: a\rb", "")),
        ("NUL", post("x: a\0b", "")),
        ("a name that is none", post("x y: a", "")),
        ("a line without a colon", post("x", "")),
        ("a method that is none", plain.replacen("POST", "PO\"ST", 1)),
        ("the method of the stand-in", plain.replacen("POST", "-", 1)),
        ("two blanks", plain.replacen("POST /", "POST  /", 1)),
        ("HTTP/1.2", plain.replacen("HTTP/1.1", "HTTP/1.2", 1)),
        ("chunk size that is none", chunked("zz\r\n\r\n0\r\n\r\n")),
        ("chunk size beyond 64 bits", chunked("10000000000000000\r\n\r\n0\r\n\r\n")),
        ("chunk size with a blank", chunked("0 \r\n\r\n")),
        ("chunk size with 0x", chunked("0x1\r\na\r\n0\r\n\r\n")),
        ("chunk size line with LF", chunked("1\na\r\n0\r\n\r\n")),
        ("chunk longer than it says", chunked("1\r\nabc\r\n0\r\n\r\n")),
        ("trailer that is none", chunked("0\r\n x: a\r\n\r\n")),
    ];
    for (what, request) in &cases {
        let mut peer = Peer::connect(running.address).await;
        peer.send(request).await;
        let refused = peer.answer().await;
        assert_eq!((refused.status(), refused.error_code().as_str()), (400, "bad_request"), "{what}");
        assert!(peer.is_closed().await, "{what}");
    }
    assert_eq!(backend.connections(), 0);
    let counted = running.metric("shortline_requests_total{job_type=\"\",outcome=\"bad_request\"}").await;
    assert_eq!(counted, cases.len() as u64);
    running.stop().await;
}

#[tokio::test]
async fn a_request_whose_host_is_in_doubt_is_refused() {
    let backend = Backend::replying(OK).await;
    let running = one(&backend).await;
    for (line, headers) in [
        ("GET /", "x-job-type: m"),
        ("GET /", "host: a\r\nhost: b\r\nx-job-type: m"),
        ("GET /", "host: a\r\nhost: a\r\nx-job-type: m"),
        ("GET http://a/", "host: b\r\nx-job-type: m"),
        ("GET /", "host: a\r\nx-job-type: m\r\nx-job-type: other"),
    ] {
        let refused = call(running.address, format!("{line} HTTP/1.1\r\n{headers}\r\n\r\n")).await;
        assert_eq!((refused.status(), refused.error_code().as_str()), (400, "bad_request"), "{line} {headers:?}");
    }
    for other in ["gzip, chunked", "gzip\r\ntransfer-encoding: chunked"] {
        let request =
            format!("POST / HTTP/1.1\r\nhost: a\r\nx-job-type: m\r\ntransfer-encoding: {other}\r\n\r\n0\r\n\r\n");
        let refused = call(running.address, request).await;
        assert_eq!((refused.status(), refused.error_code().as_str()), (501, "unsupported"), "{other}");
    }
    assert_eq!(backend.requests(), 0);
    for fine in [
        "/ HTTP/1.0\r\nx-job-type: m",
        "/ HTTP/1.1\r\nhost: a\r\nx-job-type: m\r\nx-job-type: m",
        "http://A/ HTTP/1.1\r\nhost: a\r\nx-job-type: m",
    ] {
        assert_eq!(call(running.address, format!("GET {fine}\r\n\r\n")).await.status(), 200, "{fine:?}");
    }
    running.stop().await;
}

/// The head has gone to the server when the fault comes: what has gone can only be broken off.
#[tokio::test]
async fn a_body_that_goes_wrong_later_is_broken_off_at_the_server_and_never_whole_there() {
    let (ends, mut ended) = tokio::sync::mpsc::unbounded_channel();
    let backend = Backend::scripted(move |mut peer, head| {
        let ends = ends.clone();
        async move {
            ends.send(peer.body(head, false).await.is_ok()).unwrap();
            None
        }
    })
    .await;
    let running = one(&backend).await;
    for fault in ["zz\r\n", "1\nb", "1\r\nbc\r\n", "0\r\nx: \0\r\n\r\n"] {
        let before = backend.requests();
        let mut peer = Peer::connect(running.address).await;
        peer.send("POST / HTTP/1.1\r\nhost: a\r\nx-job-type: m\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n").await;
        crate::support::eventually(|| backend.requests() > before).await;
        peer.send(format!("{fault}{SMUGGLED}")).await;
        let refused = peer.answer().await;
        assert_eq!((refused.status(), refused.error_code().as_str()), (400, "bad_request"), "{fault:?}");
        assert!(peer.is_closed().await, "{fault:?}");
        assert!(!ended.recv().await.unwrap(), "the server took it for whole: {fault:?}");
    }
    running.settled().await;
    running.stop().await;
}

#[tokio::test]
async fn good_requests_in_front_of_a_bad_one_are_answered() {
    let backend = Backend::replying(OK).await;
    let running = one(&backend).await;
    let mut peer = Peer::connect(running.address).await;
    peer.send(format!("{0}\r\n{0}GET / HTTP/1.1\nhost: a\n\n{0}", get("m"))).await;
    assert_eq!(peer.answer().await.status(), 200);
    assert_eq!(peer.answer().await.status(), 200);
    assert_eq!(peer.answer().await.error_code(), "bad_request");
    assert!(peer.is_closed().await);
    assert_eq!(backend.requests(), 2);
    running.stop().await;
}

/// What is held back and what passes at once come out as the same stream: a pipeline of all kinds of bodies, in pieces of
/// 1 to 40 bytes (seed 7).
#[tokio::test]
async fn requests_in_any_pieces_arrive_as_they_were_sent() {
    use rand::{Rng, SeedableRng};
    let backend = Backend::echo().await;
    let running = one(&backend).await;
    let head = "POST / HTTP/1.1\r\nhost: a\r\nx-job-type: m\r\n";
    let mut pipeline = String::new();
    let mut expected = Vec::new();
    for n in 0..30 {
        let body = "\r\n0\r\n\r\nGET".repeat(n);
        pipeline += &match n % 3 {
            0 => format!("{head}content-length: {}\r\n\r\n{body}", body.len()),
            1 => {
                format!("{head}transfer-encoding: chunked\r\n\r\n{:x};x=y\r\n{body}\r\n0\r\nx-t: 1\r\n\r\n", body.len())
            }
            _ => get("m"),
        };
        expected.push(format!("body of {} bytes", if n % 3 == 2 { 0 } else { body.len() }));
    }
    let mut peer = Peer::connect(running.address).await;
    let mut generator = shortline_core::random::Generator::seed_from_u64(7);
    let mut rest = pipeline.as_bytes();
    while !rest.is_empty() {
        let (piece, more) = rest.split_at(rest.len().min(1 + (generator.next_u64() % 40) as usize));
        peer.send(piece).await;
        tokio::time::sleep(Duration::from_micros(200)).await;
        rest = more;
    }
    for expected in expected {
        let answer = peer.answer().await.text();
        assert!(answer.ends_with(&expected), "{answer} instead of {expected}");
    }
    drop(peer);
    running.settled().await;
    running.stop().await;
}

/// A header of an HTTP/2 request, as a literal (RFC 7541, 6.2.2).
fn literal(name: &str, value: &str) -> Vec<u8> {
    let text = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    [&[0], &text(name)[..], &text(value)].concat()
}

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

#[tokio::test]
async fn http2_requests_that_break_its_rules_are_reset_and_nothing_whole_reaches_a_server() {
    const HEADERS: u8 = 1;
    const END_STREAM: u8 = 1;
    const END_HEADERS: u8 = 4;
    let (ends, mut ended) = tokio::sync::mpsc::unbounded_channel();
    let backend = Backend::scripted(move |mut peer, head| {
        let ends = ends.clone();
        async move {
            let whole = peer.body(head, false).await.is_ok();
            ends.send(whole).unwrap();
            peer.try_send(OK).await.ok()?;
            Some(peer)
        }
    })
    .await;
    let running = one(&backend).await;
    let base = [(":method", "POST"), (":scheme", "http"), (":authority", "a"), (":path", "/"), ("x-job-type", "m")];
    for (extra, data, fine) in [
        (vec![], "", true),
        (vec![("te", "trailers")], "", true),
        (vec![("connection", "close")], "", false),
        (vec![("transfer-encoding", "chunked")], "", false),
        (vec![("upgrade", "websocket")], "", false),
        (vec![("te", "gzip")], "", false),
        (vec![("X-Upper", "1")], "", false),
        (vec![("x", "a\r\nb: c")], "", false),
        (vec![("content-length", "5")], "abc", false),
        (vec![("content-length", "2")], "abc", false),
        (vec![("content-length", "1"), ("content-length", "3")], "abc", false),
    ] {
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        let block: Vec<u8> = base.iter().chain(&extra).flat_map(|(name, value)| literal(name, value)).collect();
        let ends = if data.is_empty() { END_STREAM } else { 0 };
        let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        bytes.extend(frame(4, 0, 0, &[]));
        bytes.extend(frame(HEADERS, END_HEADERS | ends, 1, &block));
        if !data.is_empty() {
            bytes.extend(frame(0, END_STREAM, 1, data.as_bytes()));
        }
        stream.write_all(&bytes).await.unwrap();
        let kind =
            tokio::time::timeout(Duration::from_secs(10), first_word_on(&mut stream, 1)).await.expect("an answer");
        // HEADERS: it is answered; RST_STREAM or GOAWAY: it is refused. A refusal of the gateway would be HEADERS, too.
        let answered = kind == HEADERS;
        if fine {
            assert!(answered && ended.recv().await.unwrap(), "{extra:?}");
        } else if answered {
            assert_ne!(ended.try_recv(), Ok(true), "{extra:?}");
        }
    }
    running.settled().await;
    while let Ok(whole) = ended.try_recv() {
        assert!(!whole, "a server took a bad request for whole");
    }
    running.stop().await;
}

/// The kind of the first frame that is about this stream, or ends the connection.
async fn first_word_on(connection: &mut TcpStream, stream: u32) -> u8 {
    loop {
        let mut head = [0; 9];
        if connection.read_exact(&mut head).await.is_err() {
            return 7;
        }
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        connection.read_exact(&mut payload).await.unwrap();
        let about = u32::from_be_bytes(head[5..9].try_into().unwrap());
        if about == stream && matches!(head[3], 1 | 3) || head[3] == 7 {
            return head[3];
        }
    }
}
