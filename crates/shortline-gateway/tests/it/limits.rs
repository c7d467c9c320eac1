//! Limits on what clients send and how slowly, how many connections they open; and answers that come before their requests have ended.

use std::time::Duration;

use crate::support::{Backend, OK, Peer, Plan, Running, call, get};

async fn one(backend: &Backend, change: impl FnOnce(&mut shortline_core::fleet::settings::Settings)) -> Running {
    Plan::new(&[("m", &[0])]).server("s", 1.0, None, backend.address).settings(change).serve("jfsq", 1).await
}

#[tokio::test]
async fn heads_that_are_too_large_are_refused_in_words_and_counted() {
    let backend = Backend::replying(OK).await;
    let running = one(&backend, |s| (s.gateway.max_header_bytes, s.gateway.max_headers) = (2000, 10)).await;
    let with = |headers: &str| get("m").replace("host: test\r\n", &format!("host: test\r\n{headers}"));
    let long = |n| with(&format!("x: {}\r\n", "a".repeat(n)));
    let fits = 2000 - long(0).len();
    for (request, status) in [
        (long(fits), 200),
        (long(fits + 1), 431),
        (with(&"x: y\r\n".repeat(8)), 200),
        (with(&"x: y\r\n".repeat(9)), 431),
        (get("m").replace(" / ", &format!(" /{} ", "a".repeat(2000))), 414),
    ] {
        let answer = call(running.address, &request).await;
        assert_eq!(answer.status(), status, "{request}");
        if status != 200 {
            assert_eq!(answer.error_code(), "header_too_large");
        }
    }
    assert_eq!(running.metric("shortline_requests_total{job_type=\"\",outcome=\"header_too_large\"}").await, 3);
    assert_eq!(backend.requests(), 2);
    running.stop().await;
}

/// The buffers for it are not larger than it has to be.
#[tokio::test]
async fn the_largest_heads_pass_either_way() {
    let large = format!("HTTP/1.1 200 OK\r\ncontent-length: 2\r\nx: {}\r\n\r\nok", "a".repeat(30 << 10));
    let backend = Backend::replying(large).await;
    for bytes in [1024, 64 << 10, 256 << 10] {
        let running = one(&backend, |s| s.gateway.max_header_bytes = bytes).await;
        let with = |n| get("m").replace("host: test\r\n", &format!("host: test\r\nx: {}\r\n", "a".repeat(n)));
        let answer = call(running.address, with(bytes as usize - with(0).len())).await;
        assert_eq!((answer.status(), answer.header("x").unwrap().len()), (200, 30 << 10), "of {bytes} bytes");
        running.stop().await;
    }
    let too_large = format!("HTTP/1.1 200 OK\r\ncontent-length: 0\r\nx: {}\r\n\r\n", "a".repeat(40 << 10));
    let running = one(&Backend::replying(too_large).await, |_| ()).await;
    assert_eq!(call(running.address, get("m")).await.status(), 502);
    running.stop().await;
}

#[tokio::test]
async fn more_headers_than_the_usual_hundred_pass_if_allowed() {
    let backend = Backend::replying(OK).await;
    let running = one(&backend, |s| s.gateway.max_headers = 500).await;
    let many = get("m").replace("host: test\r\n", &format!("host: test\r\n{}", "x: y\r\n".repeat(400)));
    assert_eq!(call(running.address, many).await.status(), 200);
    running.stop().await;
}

#[tokio::test]
async fn a_head_that_comes_too_slowly_is_refused_however_lively_it_drips() {
    let backend = Backend::replying(OK).await;
    let running = one(&backend, |s| s.timeouts.header_s = 0.3).await;
    let mut peer = Peer::connect(running.address).await;
    // Time without a byte of a head does not count.
    tokio::time::sleep(Duration::from_millis(400)).await;
    peer.send(get("m")).await;
    assert_eq!(peer.answer().await.status(), 200);
    tokio::time::sleep(Duration::from_millis(400)).await;
    let began = std::time::Instant::now();
    let mut head = get("m").into_bytes().into_iter();
    while began.elapsed() < Duration::from_millis(290) {
        if peer.try_send([head.next().unwrap()]).await.is_err() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let refused = peer.answer().await;
    assert_eq!((refused.status(), refused.error_code().as_str()), (408, "client_timeout"));
    assert!(began.elapsed() < Duration::from_secs(5));
    assert!(peer.is_closed().await);
    assert_eq!(backend.requests(), 1);
    running.stop().await;
}

#[tokio::test]
async fn a_connection_on_which_nothing_comes_closes_after_idle_s() {
    let backend = Backend::replying(OK).await;
    let running = one(&backend, |s| (s.timeouts.idle_s, s.timeouts.header_s) = (0.3, 0.3)).await;
    for begins in ["", "PRI * HTTP/2.0\r\n"] {
        let mut peer = Peer::connect(running.address).await;
        peer.send(begins).await;
        let began = std::time::Instant::now();
        if !begins.is_empty() {
            assert_eq!(peer.answer().await.error_code(), "client_timeout");
        }
        assert!(peer.is_closed().await, "{begins:?}");
        assert!(began.elapsed() >= Duration::from_millis(200), "{begins:?}");
    }
    running.stop().await;
}

/// The gateway runs on this thread, which does nothing else meanwhile: nobody is accepted before all are connected.
#[tokio::test]
async fn a_burst_of_clients_waits_to_be_accepted_and_is_served() {
    let backend = Backend::replying(OK).await;
    let running = one(&backend, |_| ()).await;
    assert_eq!(call(running.address, get("m")).await.status(), 200);
    let connect = || std::net::TcpStream::connect_timeout(&running.address, Duration::from_millis(900));
    let peers: Vec<_> = (0..300).map(|n| connect().unwrap_or_else(|error| panic!("client {n}: {error}"))).collect();
    for mut peer in peers {
        std::io::Write::write_all(&mut peer, get("m").as_bytes()).unwrap();
        peer.set_nonblocking(true).unwrap();
        let mut peer = Peer::new(tokio::net::TcpStream::from_std(peer).unwrap());
        assert_eq!(peer.answer().await.status(), 200);
    }
    running.stop().await;
}

#[tokio::test]
async fn a_client_has_so_many_connections_and_those_beyond_are_told_so() {
    let backend = Backend::replying(OK).await;
    let running = one(&backend, |s| s.gateway.connections_per_client = Some(3)).await;
    let mut peers = Vec::new();
    for _ in 0..3 {
        let mut peer = Peer::connect(running.address).await;
        peer.send(get("m")).await;
        assert_eq!(peer.answer().await.status(), 200);
        peers.push(peer);
    }
    let refused = call(running.address, get("m")).await;
    assert_eq!((refused.status(), refused.error_code().as_str()), (503, "too_many_connections"));
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(running.metric("shortline_connections_turned_away_total").await, 1);
    assert_eq!(backend.requests(), 3);
    peers.pop();
    let mut status = 503;
    for _ in 0..200 {
        status = call(running.address, get("m")).await.status();
        if status == 200 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(status, 200, "one has left, so there is room for another");
    drop(peers);
    running.stop().await;
}

/// The server answers at once, closes without having read the body, and so resets what still comes: the answer must
/// get through all the same. Many times, because it depends on who is faster.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_early_answer_to_an_upload_reaches_the_client() {
    let backend = Backend::scripted(|mut peer, _| async move {
        let refusal = "HTTP/1.1 413 Payload Too Large\r\nconnection: close\r\ncontent-length: 3\r\n\r\nbig";
        peer.try_send(refusal).await.ok()?;
        None
    })
    .await;
    let running = one(&backend, |_| ()).await;
    let size = 8 << 20;
    let body = vec![b'a'; size];
    for _ in 0..30 {
        let mut peer = Peer::connect(running.address).await;
        peer.send(format!("POST / HTTP/1.1\r\nhost: a\r\nx-job-type: m\r\ncontent-length: {size}\r\n\r\n")).await;
        // All of it is sent before the answer is read, as simple clients do.
        peer.send(&body).await;
        let answer = peer.answer().await;
        assert_eq!((answer.status(), answer.text().as_str()), (413, "big"));
    }
    running.settled().await;
    running.stop().await;
}
