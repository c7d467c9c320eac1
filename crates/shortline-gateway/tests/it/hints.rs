//! Interim answers: early hints of a server reach the client before the answer, and mix with nothing.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::support::{Backend, Message, OK, PATIENCE, Peer, Plan, call, get};

const HINTS: &str = "HTTP/1.1 103 Early Hints\r\nlink: </a.css>; rel=preload\r\nlink: </b.js>\r\n\
                     connection: x-hop\r\nx-hop: 1\r\n\r\n";

fn plan(backend: &Backend) -> Plan {
    Plan::new(&[("m", &[0])]).server("s", 1.0, None, backend.address)
}

async fn head(peer: &mut Peer) -> Message {
    tokio::time::timeout(PATIENCE, peer.head()).await.expect("a hang").expect("a head")
}

#[tokio::test]
async fn early_hints_reach_the_client_while_the_server_still_thinks() {
    let think = Arc::new(Semaphore::new(0));
    let thought = Arc::clone(&think);
    let backend = Backend::scripted(move |mut peer, _| {
        let thought = Arc::clone(&thought);
        async move {
            peer.try_send(HINTS).await.ok()?;
            thought.acquire().await.ok()?.forget();
            peer.try_send("HTTP/1.1 102 Processing\r\n\r\n").await.ok()?;
            thought.acquire().await.ok()?.forget();
            peer.try_send(OK).await.ok()?;
            Some(peer)
        }
    })
    .await;
    let running = plan(&backend).serve("jfsq", 1).await;
    let mut peer = Peer::connect(running.address).await;
    for _ in 0..2 {
        peer.send(get("m")).await;
        let hints = head(&mut peer).await;
        assert_eq!(hints.first, "HTTP/1.1 103 Early Hints");
        assert_eq!(hints.header("link"), Some("</a.css>; rel=preload | </b.js>"));
        assert_eq!(hints.headers.len(), 1, "what is between neighbours stays there: {hints:?}");
        think.add_permits(1);
        assert_eq!(head(&mut peer).await.first, "HTTP/1.1 102 Processing");
        think.add_permits(1);
        let answer = peer.answer().await;
        assert_eq!((answer.status(), answer.text().as_str()), (200, "ok"));
    }
    assert_eq!(backend.connections(), 1);
    running.stop().await;
}

/// A server that cuts hints and answer into pieces of so many bytes.
async fn hinting(piece: usize) -> Backend {
    Backend::scripted(move |mut peer, head| async move {
        peer.body(head, false).await.ok()?;
        for piece in format!("{HINTS}{OK}").as_bytes().chunks(piece) {
            peer.try_send(piece).await.ok()?;
            if piece.len() < 100 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        Some(peer)
    })
    .await
}

#[tokio::test]
async fn hints_that_come_along_with_the_answer_or_byte_by_byte_stand_before_it() {
    for piece in [1000, 70, 1] {
        let backend = hinting(piece).await;
        let running = plan(&backend).serve("jfsq", 1).await;
        let mut peer = Peer::connect(running.address).await;
        for _ in 0..3 {
            peer.send(get("m")).await;
            assert_eq!(head(&mut peer).await.status(), 103, "in pieces of {piece}");
            assert_eq!(peer.answer().await.text(), "ok");
        }
        running.stop().await;
    }
}

/// 200 requests sent at once: answers come in order, each whole, with at most its own hints right before it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hints_never_mix_with_the_answers_of_pipelined_requests() {
    const REQUESTS: usize = 200;
    let backend = Backend::scripted(|mut peer, head| async move {
        let n = head.first.split(' ').nth(1)?.strip_prefix('/')?.to_owned();
        let body = n.repeat(500);
        let length = body.len();
        let hint = format!("HTTP/1.1 103 Early Hints\r\nlink: <{n}>\r\n\r\n");
        peer.try_send(format!("{hint}{hint}HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nx-n: {n}\r\n\r\n{body}"))
            .await
            .ok()?;
        Some(peer)
    })
    .await;
    let running = plan(&backend).serve("jfsq", 1).await;
    let mut peer = Peer::connect(running.address).await;
    let all: String = (0..REQUESTS).map(|n| get("m").replacen("GET /", &format!("GET /{n}"), 1)).collect();
    peer.send(all).await;
    let mut hints = 0;
    for n in 0..REQUESTS {
        let n = n.to_string();
        let answer = loop {
            let head = head(&mut peer).await;
            if head.status() != 103 {
                break peer.body(head, true).await.unwrap();
            }
            assert_eq!(head.header("link"), Some(format!("<{n}>").as_str()));
            hints += 1;
        };
        assert_eq!((answer.status(), answer.header("x-n")), (200, Some(n.as_str())));
        assert_eq!(answer.text(), n.repeat(500));
    }
    assert!(hints > 0 && hints <= 2 * REQUESTS, "{hints}");
    running.settled().await;
    running.stop().await;
}

#[tokio::test]
async fn clients_of_http_1_0_and_bodies_that_look_like_hints_get_none() {
    let backend = hinting(1000).await;
    let running = plan(&backend).serve("jfsq", 1).await;
    let old = call(running.address, "GET / HTTP/1.0\r\nx-job-type: m\r\n\r\n").await;
    assert_eq!((old.status(), old.text().as_str()), (200, "ok"));
    running.stop().await;

    let body = "HTTP/1.1 103 Early Hints\r\nlink: <evil>\r\n\r\n";
    let backend = Backend::scripted(move |mut peer, _| async move {
        peer.try_send(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", 2 * body.len())).await.ok()?;
        for _ in 0..2 {
            tokio::time::sleep(Duration::from_millis(20)).await;
            peer.try_send(body).await.ok()?;
        }
        Some(peer)
    })
    .await;
    let running = plan(&backend).serve("jfsq", 1).await;
    let mut peer = Peer::connect(running.address).await;
    peer.send(format!("{}{}", get("m"), get("m"))).await;
    for _ in 0..2 {
        let answer = head(&mut peer).await;
        assert_eq!(answer.status(), 200);
        assert_eq!(peer.body(answer, true).await.unwrap().text(), body.repeat(2));
    }
    running.stop().await;
}

#[tokio::test]
async fn a_request_that_got_hints_may_go_to_another_server() {
    let failing = Backend::scripted(|mut peer, _| async move {
        peer.try_send(HINTS).await.ok()?;
        tokio::time::sleep(Duration::from_millis(20)).await;
        None
    })
    .await;
    let good = hinting(1000).await;
    let plan = Plan::new(&[("m", &[0, 1])]).server("failing", 2.0, None, failing.address).server(
        "good",
        1.0,
        None,
        good.address,
    );
    let running = plan.serve("jfsq", 1).await;
    let mut peer = Peer::connect(running.address).await;
    peer.send(get("m")).await;
    for _ in 0..2 {
        assert_eq!(head(&mut peer).await.status(), 103);
    }
    assert_eq!(peer.answer().await.header("x-served-by"), Some("good"));
    running.stop().await;
}

#[tokio::test]
async fn a_client_that_waits_for_100_continue_gets_one_and_the_hints() {
    let backend = hinting(1000).await;
    let running = plan(&backend).serve("jfsq", 1).await;
    let mut peer = Peer::connect(running.address).await;
    peer.send("POST / HTTP/1.1\r\nhost: a\r\nx-job-type: m\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n").await;
    assert_eq!(head(&mut peer).await.status(), 100);
    peer.send("hi").await;
    assert_eq!(head(&mut peer).await.status(), 103);
    assert_eq!(peer.answer().await.text(), "ok");
    running.stop().await;
}

/// A server's own 100 is not for the client, who has asked for none.
#[tokio::test]
async fn a_servers_100_stays_between_it_and_the_gateway() {
    let backend = Backend::replying(format!("HTTP/1.1 100 Continue\r\n\r\n{OK}")).await;
    let running = plan(&backend).serve("jfsq", 1).await;
    let mut peer = Peer::connect(running.address).await;
    peer.send(get("m")).await;
    assert_eq!(head(&mut peer).await.status(), 200);
    running.stop().await;
}
