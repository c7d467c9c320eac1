//! Clients that go away while nobody reads what they have sent.

use std::time::Duration;

use shortline_core::fleet::settings::{LineSettings, Overflow};

use crate::support::{Backend, Holding, OK, Peer, Plan, eventually, get, post};

/// What waits in line with bytes of it unread: whole bodies of several lengths, a part of one, one that is only announced,
/// a request behind another.
fn requests() -> Vec<(&'static str, String)> {
    let json = |bytes: usize| post(&format!(r#"{{"model":"m","prompt":"{}"}}"#, "a".repeat(bytes)));
    let head = "POST / HTTP/1.1\r\nhost: test\r\nx-job-type: m\r\n";
    vec![
        ("a small body", json(1_000)),
        ("20 kB", json(20_000)),
        ("100 kB", json(100_000)),
        ("300 kB, of which 256 KiB are read ahead", json(300_000)),
        ("a part of a body", format!("{head}content-length: 300\r\n\r\nabc")),
        ("a part of a chunked body", format!("{head}transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n")),
        ("an announced body", format!("{head}content-length: 300\r\nexpect: 100-continue\r\n\r\n")),
        ("another request behind it", get("m").repeat(2)),
        ("a line end behind a body", format!("{head}content-length: 3\r\n\r\nabc\r\n")),
    ]
}

#[tokio::test]
async fn a_client_that_goes_away_leaves_the_line_at_once_however_much_of_its_request_is_unread() {
    let holding = Holding::start().await;
    let running = Plan::new(&[("m", &[0])])
        .server("s", 1.0, Some(1), holding.backend.address)
        .settings(|s| {
            s.overflow = Overflow::Wait;
            s.lines = LineSettings { size: None, timeout_s: Some(600.0), hold_s: None };
        })
        .serve("jfsq", 1)
        .await;
    let mut first = Peer::connect(running.address).await;
    first.send(get("m")).await;
    holding.received(1).await;
    for (what, request) in requests() {
        for resets in [false, true] {
            let mut goes = Peer::connect(running.address).await;
            // More than the system holds is not all sent before somebody reads.
            let sent = tokio::time::timeout(Duration::from_millis(100), goes.send(&request)).await;
            assert!(sent.is_ok() || request.len() > 200_000, "{what}");
            eventually(|| running.jobs() == 2).await;
            // It stays as long as the client does.
            tokio::time::sleep(Duration::from_millis(20)).await;
            assert_eq!(running.jobs(), 2, "{what}");
            if resets {
                goes.reset()
            } else {
                drop(goes)
            }
            let left = tokio::time::timeout(Duration::from_secs(5), eventually(|| running.jobs() == 1)).await;
            assert!(left.is_ok(), "{what} (reset: {resets}): it stays in line");
        }
    }
    holding.answer_one();
    assert_eq!(first.answer().await.text(), "ok");
    assert_eq!((running.jobs(), holding.backend.requests()), (0, 1), "nothing was sent for nobody");
    drop(first);
    running.stop().await;
}

/// What was looked past while the request waited is all there when its turn comes.
#[tokio::test]
async fn a_body_that_has_waited_in_line_arrives_whole() {
    let gate = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
    let held = std::sync::Arc::clone(&gate);
    let backend = Backend::scripted(move |mut peer, head| {
        let gate = std::sync::Arc::clone(&held);
        async move {
            gate.acquire().await.ok()?.forget();
            let body = peer.body(head, false).await.ok()?.body;
            let sum: u64 = body.iter().map(|&byte| u64::from(byte)).sum();
            let text = format!("{} {sum}", body.len());
            peer.try_send(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{text}", text.len())).await.ok()?;
            Some(peer)
        }
    })
    .await;
    let running = Plan::new(&[("m", &[0])])
        .server("s", 1.0, Some(1), backend.address)
        .settings(|s| s.overflow = Overflow::Wait)
        .serve("jfsq", 1)
        .await;
    let mut first = Peer::connect(running.address).await;
    first.send(get("m")).await;
    eventually(|| backend.requests() == 1).await;
    let mut waits = Peer::connect(running.address).await;
    let half = 300_000;
    waits.send(format!("POST / HTTP/1.1\r\nhost: a\r\nx-job-type: m\r\ncontent-length: {}\r\n\r\n", 2 * half)).await;
    let sending = tokio::spawn(async move {
        for byte in [b'a', b'b'] {
            for _ in 0..half / 10_000 {
                waits.send(vec![byte; 10_000]).await;
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
        waits
    });
    eventually(|| running.jobs() == 2).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    gate.add_permits(2);
    assert_eq!(first.answer().await.text(), "0 0");
    let mut waits = sending.await.unwrap();
    let sum = half * (usize::from(b'a') + usize::from(b'b'));
    assert_eq!(waits.answer().await.text(), format!("{} {sum}", 2 * half));
    drop((first, waits));
    running.settled().await;
    running.stop().await;
}

/// The server has the head and reads nothing, and neither does the gateway any more; the client goes. (Reset, as clients do
/// that end with much unsent: an end behind more than the system holds is met by nobody, and `idle_s` is what helps.)
#[tokio::test]
async fn a_client_that_goes_away_while_its_server_takes_nothing_leaves_the_server() {
    let backend = Backend::scripted(|peer, _| async move {
        peer.is_open_for(Duration::from_secs(60)).await;
        None
    })
    .await;
    let running = Plan::new(&[("m", &[0])]).server("s", 1.0, None, backend.address).serve("jfsq", 1).await;
    let mut goes = Peer::connect(running.address).await;
    goes.send("POST / HTTP/1.1\r\nhost: a\r\nx-job-type: m\r\ncontent-length: 99000000\r\n\r\n").await;
    // Until nothing more goes.
    while tokio::time::timeout(Duration::from_millis(300), goes.send([b'a'; 64 << 10])).await.is_ok() {}
    assert_eq!(running.jobs(), 1);
    goes.reset();
    let left = tokio::time::timeout(Duration::from_secs(5), running.settled()).await;
    assert!(left.is_ok(), "it stays at the server");
    running.stop().await;
}

/// Requests one behind the other are answered one after the other, as long as the client is there.
#[tokio::test]
async fn a_request_behind_another_one_is_answered_when_its_turn_comes() {
    let backend = Backend::scripted(|mut peer, _| async move {
        tokio::time::sleep(Duration::from_millis(30)).await;
        peer.try_send(OK).await.ok()?;
        Some(peer)
    })
    .await;
    let running = Plan::new(&[("m", &[0])]).server("s", 1.0, None, backend.address).serve("jfsq", 1).await;
    let mut peer = Peer::connect(running.address).await;
    peer.send(get("m").repeat(5)).await;
    for _ in 0..5 {
        assert_eq!(peer.answer().await.text(), "ok");
    }
    peer.send(get("m")).await;
    assert_eq!(peer.answer().await.text(), "ok");
    drop(peer);
    running.stop().await;
}
