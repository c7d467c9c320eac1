//! HTTP on the way through: headers, statuses without a body, kept-alive connections, HTTP/2.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};

use crate::support::{Backend, OK, Peer, Plan, Running, call, get};

async fn one(backend: &Backend) -> Running {
    Plan::new(&[("m", &[0])]).server("s", 1.0, None, backend.address).serve("jfsq", 1).await
}

#[tokio::test]
async fn connections_are_kept_alive_on_both_sides() {
    let backend = Backend::replying(OK).await;
    let running = one(&backend).await;
    let mut peer = Peer::connect(running.address).await;
    for _ in 0..100 {
        peer.send(get("m")).await;
        assert_eq!(peer.answer().await.text(), "ok");
    }
    assert_eq!((backend.requests(), backend.connections()), (100, 1));
    drop(peer);
    running.stop().await;
}

#[tokio::test]
async fn a_kept_alive_connection_that_the_server_closes_is_replaced_unseen() {
    let backend = Backend::scripted(|mut peer, _| async move {
        peer.try_send(OK).await.ok()?;
        None
    })
    .await;
    let running = one(&backend).await;
    for _ in 0..100 {
        assert_eq!(call(running.address, get("m")).await.status(), 200);
    }
    assert_eq!(backend.connections(), 100);
    running.stop().await;
}

/// On one thread: it is blocked while the server closes, so that the gateway sends on a connection whose end it has
/// not noticed.
#[tokio::test]
async fn a_request_that_meets_a_connection_just_closed_goes_out_again() {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (close, ordered) = std::sync::mpsc::channel::<()>();
    let (done, closed) = std::sync::mpsc::channel::<()>();
    let server = std::thread::spawn(move || {
        let answer = |stream: &mut std::net::TcpStream| {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                head.push(byte[0]);
            }
            stream.write_all(OK.as_bytes()).unwrap();
        };
        for _ in 0..20 {
            let (mut stream, _) = listener.accept().unwrap();
            answer(&mut stream);
            ordered.recv().unwrap();
            drop(stream);
            done.send(()).unwrap();
        }
    });
    let running = Plan::new(&[("m", &[0])]).server("s", 1.0, None, address).serve("jfsq", 1).await;
    let mut peer = Peer::connect(running.address).await;
    peer.send(get("m")).await;
    assert_eq!(peer.answer().await.status(), 200);
    for _ in 1..20 {
        peer.send(get("m")).await;
        close.send(()).unwrap();
        closed.recv().unwrap();
        assert_eq!(peer.answer().await.status(), 200);
    }
    close.send(()).unwrap();
    server.join().unwrap();
    drop(peer);
    running.stop().await;
}

#[tokio::test]
async fn servers_see_where_a_request_came_from_and_nothing_hop_by_hop() {
    let backend = Backend::echo().await;
    let running = one(&backend).await;
    let seen = call(
        running.address,
        "GET /p?q=1 HTTP/1.1\r\nhost: public.example\r\nx-job-type: m\r\nconnection: x-mine, close\r\nx-mine: 1\r\n\
         te: gzip, trailers\r\nkeep-alive: timeout=1\r\nx-forwarded-for: 1.2.3.4\r\nupgrade: h2c\r\naccept: a\r\naccept: b\r\n\r\n",
    )
    .await
    .text();
    let mut lines: Vec<&str> = seen.lines().collect();
    let trace = lines.iter().position(|l| l.starts_with("traceparent: 00-")).expect("a traceparent");
    assert_eq!(lines.remove(trace).len(), "traceparent: ".len() + 55);
    assert_eq!(
        lines,
        [
            "GET /p?q=1 HTTP/1.1",
            "accept: a | b",
            "host: public.example",
            "te: trailers",
            "via: 1.1 shortline",
            "x-forwarded-for: 1.2.3.4, 127.0.0.1",
            "x-forwarded-host: public.example",
            "x-forwarded-proto: http",
            "x-job-type: m",
            "body of 0 bytes"
        ]
    );
    running.stop().await;
}

#[tokio::test]
async fn clients_see_the_servers_headers_but_not_hop_by_hop_ones() {
    let answer = "HTTP/1.1 418 Teapot\r\nx-served-by: liar\r\nconnection: x-hop\r\nx-hop: 1\r\nkeep-alive: timeout=9\r\n\
                  set-cookie: a=1\r\nset-cookie: b=2\r\ndate: Thu, 01 Jan 1970 00:00:00 GMT\r\ncontent-length: 0\r\n\r\n";
    let backend = Backend::replying(answer).await;
    let running = one(&backend).await;
    let seen = call(running.address, get("m")).await;
    assert_eq!(seen.status(), 418);
    let headers: Vec<String> = seen.headers.iter().map(|(n, v)| format!("{n}: {v}")).collect();
    assert_eq!(
        headers,
        ["content-length: 0", "date: Thu, 01 Jan 1970 00:00:00 GMT", "set-cookie: a=1 | b=2", "x-served-by: s"]
    );
    running.stop().await;

    let silent = Plan::new(&[("m", &[0])])
        .server("s", 1.0, None, backend.address)
        .settings(|s| s.gateway.served_by = false)
        .serve("jfsq", 1)
        .await;
    assert_eq!(call(silent.address, get("m")).await.header("x-served-by"), None);
    silent.stop().await;
}

#[tokio::test]
async fn answers_without_a_body_end_and_keep_the_connection() {
    for (method, answer, status, length) in [
        ("HEAD", "HTTP/1.1 200 OK\r\ncontent-length: 1234\r\n\r\n", 200, Some("1234")),
        ("HEAD", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", 200, None),
        ("GET", "HTTP/1.1 204 No Content\r\n\r\n", 204, None),
        ("GET", "HTTP/1.1 304 Not Modified\r\ncontent-length: 99\r\n\r\n", 304, None),
        ("GET", "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", 200, Some("0")),
    ] {
        let backend = Backend::replying(answer).await;
        let running = one(&backend).await;
        let mut peer = Peer::connect(running.address).await;
        for _ in 0..3 {
            peer.send(format!("{method} / HTTP/1.1\r\nhost: h\r\nx-job-type: m\r\n\r\n")).await;
            let head = peer.head().await.unwrap();
            assert_eq!(head.status(), status, "{method} {answer}");
            assert_eq!(head.header("content-length"), length, "{method} {answer}");
            running.settled().await;
        }
        assert_eq!(backend.connections(), 1, "{method} {answer}");
        drop(peer);
        running.stop().await;
    }
}

#[tokio::test]
async fn an_answer_that_ends_with_its_connection_is_whole() {
    let backend = Backend::scripted(|mut peer, _| async move {
        peer.try_send("HTTP/1.0 200 OK\r\n\r\nuntil the end").await.ok()?;
        None
    })
    .await;
    let running = one(&backend).await;
    assert_eq!(call(running.address, get("m")).await.text(), "until the end");
    running.stop().await;
}

#[tokio::test]
async fn trailers_pass_both_ways() {
    let backend = Backend::scripted(|mut peer, head| async move {
        let request = peer.body(head, false).await.ok()?;
        let sum = request.trailers.get("x-sum").cloned().unwrap_or_default();
        peer.try_send(format!(
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-got\r\n\r\n2\r\nok\r\n0\r\nx-got: {sum}\r\n\r\n"
        ))
        .await
        .ok()?;
        Some(peer)
    })
    .await;
    let running = one(&backend).await;
    let answer = call(
        running.address,
        "POST / HTTP/1.1\r\nhost: h\r\nx-job-type: m\r\nte: trailers\r\ntrailer: x-sum\r\ntransfer-encoding: chunked\r\n\r\n\
         3\r\nabc\r\n0\r\nx-sum: 7\r\n\r\n",
    )
    .await;
    assert_eq!((answer.text().as_str(), answer.trailers.get("x-got").map(String::as_str)), ("ok", Some("7")));
    running.stop().await;
}

#[tokio::test]
async fn a_client_that_expects_100_continue_is_asked_for_the_body_or_refused_without_it() {
    let backend = Backend::echo().await;
    let running = one(&backend).await;
    let mut peer = Peer::connect(running.address).await;
    let head = |l: &str| {
        format!("POST / HTTP/1.1\r\nhost: h\r\nx-job-type: {l}\r\nexpect: 100-continue\r\ncontent-length: 5\r\n\r\n")
    };
    peer.send(head("m")).await;
    assert_eq!(peer.head().await.unwrap().status(), 100);
    peer.send("hello").await;
    let seen = peer.answer().await.text();
    assert!(seen.ends_with("body of 5 bytes") && !seen.contains("expect"), "{seen}");

    let mut peer = Peer::connect(running.address).await;
    peer.send(head("unknown")).await;
    let refused = peer.head().await.unwrap();
    assert_eq!(refused.status(), 404, "no 100 in front");
    running.stop().await;
}

#[tokio::test]
async fn a_server_whose_answer_is_in_an_unknown_transfer_coding_is_a_502() {
    let backend = Backend::replying("HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n").await;
    let running = one(&backend).await;
    let refused = call(running.address, get("m")).await;
    assert_eq!((refused.status(), refused.error_code().as_str()), (502, "upstream_error"));
    running.stop().await;
}

#[tokio::test]
async fn a_traceparent_passes_if_it_is_one() {
    let backend = Backend::echo().await;
    let running = one(&backend).await;
    let whole = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
    for (sent, passes) in [(whole, true), ("00-0-0-00", false), (&whole.to_uppercase(), false)] {
        let request = get("m").replace("host:", &format!("traceparent: {sent}\r\nhost:"));
        let seen = call(running.address, request).await.text();
        assert_eq!(seen.contains(&format!("traceparent: {sent}\n")), passes, "{sent}: {seen}");
        assert!(seen.contains("traceparent: 00-"), "{seen}");
    }
    running.stop().await;
}

#[tokio::test]
async fn a_server_that_switches_protocols_unasked_is_a_server_error() {
    let backend =
        Backend::replying("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n").await;
    let running = one(&backend).await;
    let refused = call(running.address, get("m")).await;
    assert_eq!((refused.status(), refused.error_code().as_str()), (502, "upstream_error"));
    running.stop().await;
}

#[tokio::test]
async fn http2_clients_are_served_on_the_same_port() {
    let backend = Backend::echo().await;
    let running = one(&backend).await;
    let stream = tokio::net::TcpStream::connect(running.address).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let body = r#"{"model":"m"}"#;
    let request = || http::Request::post("http://public.example/v1").body(Full::new(Bytes::from(body))).unwrap();
    let (a, b) = tokio::join!(sender.clone().send_request(request()), sender.send_request(request()));
    for response in [a.unwrap(), b.unwrap()] {
        assert_eq!(
            (response.status(), &response.headers()["x-served-by"]),
            (http::StatusCode::OK, &"s".parse().unwrap())
        );
        let seen = String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap();
        assert!(seen.starts_with("POST /v1 HTTP/1.1\n") && seen.contains("\nhost: public.example\n"), "{seen}");
        assert!(seen.ends_with("body of 13 bytes"), "{seen}");
    }
    drop(sender);
    running.stop().await;
}
