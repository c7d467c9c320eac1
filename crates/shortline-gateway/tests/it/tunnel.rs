//! A switch of protocols: WebSocket and any other, from the 101 to the end of both sides.

use std::time::{Duration, Instant};

use shortline_core::fleet::settings::Protocol;
use shortline_gateway::{Gateway, Options};

use crate::support::{Backend, OK, Peer, Plan, Running, eventually, get};

const ASK: &str = "GET /chat HTTP/1.1\r\nhost: a\r\nx-job-type: m\r\nconnection: keep-alive, Upgrade\r\n\
                   upgrade: websocket\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
const SWITCHED: &str = "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
                        sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

fn plan(backend: &Backend) -> Plan {
    Plan::new(&[("m", &[0])]).server("s", 1.0, None, backend.address)
}

/// Switches, then sends back what comes in upper case; at the end of it says goodbye.
async fn shouting() -> Backend {
    Backend::scripted(|mut peer, head| async move {
        assert_eq!((head.header("connection"), head.header("upgrade")), (Some("upgrade"), Some("websocket")));
        assert_eq!(head.header("sec-websocket-key"), Some("dGhlIHNhbXBsZSBub25jZQ=="));
        peer.try_send(SWITCHED).await.ok()?;
        while let Some(piece) = peer.some().await {
            peer.try_send(piece.to_ascii_uppercase()).await.ok()?;
        }
        peer.try_send("goodbye").await.ok()?;
        None
    })
    .await
}

async fn opened(running: &Running) -> Peer {
    let mut peer = Peer::connect(running.address).await;
    peer.send(ASK).await;
    let head = peer.head().await.unwrap();
    assert_eq!(head.status(), 101);
    assert_eq!((head.header("connection"), head.header("upgrade")), (Some("upgrade"), Some("websocket")));
    assert_eq!(head.header("sec-websocket-accept"), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    assert_eq!(head.header("x-served-by"), Some("s"));
    peer
}

/// The server closes without reading what the client still says, and the client goes: nobody is left.
#[tokio::test]
async fn a_tunnel_ends_with_the_server_that_has_gone_whatever_the_client_still_sends() {
    let backend = Backend::scripted(|mut peer, _| async move {
        peer.try_send(SWITCHED).await.ok()?;
        None
    })
    .await;
    let running = plan(&backend).serve("jfsq", 1).await;
    let mut peer = opened(&running).await;
    for _ in 0..5 {
        // It fails when the gateway has closed.
        drop(peer.try_send("more").await);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    drop(peer);
    // Long before `idle_s`, 60 s.
    eventually(|| running.jobs() == 0).await;
    let page = crate::support::call(running.admin, "GET /metrics HTTP/1.1\r\nhost: a\r\n\r\n").await.text();
    let ok = page.lines().find(|line| line.contains("outcome=\"ok\"")).unwrap_or_default();
    assert!(ok.ends_with(" 1"), "an orderly end: {ok}");
    running.stop().await;
}

#[tokio::test]
async fn bytes_pass_both_ways_and_the_job_counts_until_both_sides_have_ended() {
    let backend = shouting().await;
    let running = plan(&backend).serve("jfsq", 1).await;
    let mut peer = opened(&running).await;
    // Nothing of it is HTTP, and some of it looks wrong to who takes it for HTTP.
    for (sent, expected) in [("hello\n", "HELLO\n"), ("\0get / http/1.1\n\n", "\0GET / HTTP/1.1\n\n")] {
        peer.send(sent).await;
        assert_eq!(peer.exactly(expected.len()).await, expected.as_bytes());
        assert_eq!(running.jobs(), 1);
    }
    // Half-close: the server still has a word.
    peer.shut().await;
    assert_eq!(peer.exactly(7).await, b"goodbye");
    assert!(peer.is_closed().await);
    running.settled().await;
    assert_eq!(running.metric("shortline_requests_total{job_type=\"m\",outcome=\"ok\"}").await, 1);
    running.stop().await;
}

#[tokio::test]
async fn much_passes_both_ways_at_once() {
    let backend = shouting().await;
    let running = plan(&backend).serve("jfsq", 1).await;
    let mut peer = opened(&running).await;
    let block = vec![b'a'; 4 << 10];
    for _ in 0..500 {
        peer.send(&block).await;
        assert!(peer.exactly(block.len()).await.iter().all(|&b| b == b'A'));
    }
    drop(peer);
    running.settled().await;
    running.stop().await;
}

#[tokio::test]
async fn what_a_client_sends_before_the_answer_is_kept_for_the_tunnel() {
    let backend = shouting().await;
    let running = plan(&backend).serve("jfsq", 1).await;
    let mut peer = Peer::connect(running.address).await;
    peer.send(format!("{ASK}early\n\0")).await;
    assert_eq!(peer.head().await.unwrap().status(), 101);
    assert_eq!(peer.exactly(7).await, b"EARLY\n\0");
    drop(peer);
    running.settled().await;
    running.stop().await;
}

#[tokio::test]
async fn a_server_that_declines_answers_in_http_and_the_connection_goes_on() {
    let backend = Backend::replying(OK).await;
    let running = plan(&backend).serve("jfsq", 1).await;
    let mut peer = Peer::connect(running.address).await;
    peer.send(format!("{ASK}{}", get("m"))).await;
    for _ in 0..2 {
        assert_eq!(peer.answer().await.text(), "ok");
    }
    assert_eq!(backend.connections(), 1);
    drop(peer);
    running.stop().await;
}

#[tokio::test]
async fn a_client_that_resets_and_a_server_that_closes_end_the_tunnel_on_both_sides() {
    let backend = shouting().await;
    let running = plan(&backend).serve("jfsq", 1).await;
    let peer = opened(&running).await;
    peer.reset();
    running.settled().await;
    running.stop().await;

    let backend = Backend::scripted(|mut peer, _| async move {
        peer.try_send(format!("{SWITCHED}bye")).await.ok()?;
        None
    })
    .await;
    let running = plan(&backend).serve("jfsq", 1).await;
    let mut peer = opened(&running).await;
    assert_eq!(peer.exactly(3).await, b"bye");
    assert!(peer.is_closed().await);
    drop(peer);
    running.settled().await;
    running.stop().await;
}

#[tokio::test]
async fn a_tunnel_through_which_nothing_moves_is_closed_after_idle_s() {
    let backend = shouting().await;
    let running = plan(&backend).settings(|s| s.timeouts.idle_s = 0.3).serve("jfsq", 1).await;
    let mut peer = opened(&running).await;
    // Longer than idle_s in all, with no pause as long.
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        peer.send("x").await;
        assert_eq!(peer.exactly(1).await, b"X");
    }
    let began = Instant::now();
    assert!(peer.is_closed().await);
    assert!(began.elapsed() >= Duration::from_millis(200), "{:?}", began.elapsed());
    running.settled().await;
    assert_eq!(running.metric("shortline_requests_total{job_type=\"m\",outcome=\"upstream_timeout\"}").await, 1);
    running.stop().await;
}

#[tokio::test]
async fn a_tunnel_runs_on_while_the_gateway_drains_and_is_cut_off_after_the_grace() {
    let backend = shouting().await;
    let options = Options { policy: Some("jfsq".parse().unwrap()), ..Options::new(plan(&backend).fleet()) };
    let running = Running::start(Gateway::new(options).unwrap(), Duration::from_millis(500)).await;
    let mut peer = opened(&running).await;
    running.trigger.drain();
    tokio::time::sleep(Duration::from_millis(100)).await;
    peer.send("still").await;
    assert_eq!(peer.exactly(5).await, b"STILL");
    let gateway = std::sync::Arc::clone(&running.gateway);
    assert_eq!(running.ended().await.cut_off, 1);
    assert!(peer.is_closed().await);
    assert_eq!(gateway.status().servers[0].in_flight, 0);
}

#[tokio::test]
async fn a_tunnel_that_ends_by_itself_lets_the_gateway_end_before_its_grace() {
    let backend = shouting().await;
    let running = plan(&backend).serve("jfsq", 1).await;
    let mut peer = opened(&running).await;
    running.trigger.drain();
    tokio::time::sleep(Duration::from_millis(50)).await;
    peer.shut().await;
    assert_eq!(peer.exactly(7).await, b"goodbye");
    drop(peer);
    assert_eq!(running.ended().await.cut_off, 0);
}

#[tokio::test]
async fn a_switch_is_refused_in_words_where_it_cannot_be() {
    let backend = Backend::replying(OK).await;
    let running = plan(&backend).protocol(Protocol::Http2).serve("jfsq", 1).await;
    let listener = running.address;
    let answer = crate::support::call(listener, ASK).await;
    assert!(matches!((answer.status(), answer.error_code().as_str()), (501, "unsupported") | (502, _)));
    let connect = "CONNECT a:80 HTTP/1.1\r\nhost: a:80\r\nx-job-type: m\r\n\r\n";
    let answer = crate::support::call(listener, connect).await;
    assert_eq!((answer.status(), answer.error_code().as_str()), (501, "unsupported"));
    eventually(|| running.jobs() == 0).await;
    running.stop().await;
}
