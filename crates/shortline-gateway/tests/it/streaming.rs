//! Bodies pass as they come, in both directions.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use crate::support::{Backend, PATIENCE, Peer, Plan, Running};

async fn one(backend: &Backend) -> Running {
    Plan::new(&[("m", &[0])]).server("s", 1.0, None, backend.address).serve("jfsq", 1).await
}

#[tokio::test]
async fn a_server_sent_event_arrives_before_the_next_one_is_sent() {
    let next = Arc::new(Semaphore::new(0));
    let gate = Arc::clone(&next);
    let backend = Backend::scripted(move |mut peer, _| {
        let gate = Arc::clone(&gate);
        async move {
            peer.try_send("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
                .await
                .ok()?;
            for _ in 0..100 {
                gate.acquire().await.ok()?.forget();
                peer.try_send("9\r\ndata: x\n\n\r\n").await.ok()?;
            }
            peer.try_send("0\r\n\r\n").await.ok()?;
            Some(peer)
        }
    })
    .await;
    let running = one(&backend).await;
    let mut peer = Peer::connect(running.address).await;
    peer.send("GET / HTTP/1.1\r\nhost: h\r\nx-job-type: m\r\naccept: text/event-stream\r\n\r\n").await;
    assert_eq!(peer.head().await.unwrap().header("content-type"), Some("text/event-stream"));
    let mut delays = Vec::new();
    for _ in 0..100 {
        let sent = Instant::now();
        next.add_permits(1);
        let event = tokio::time::timeout(PATIENCE, peer.chunk()).await.expect("an event was held back");
        delays.push(sent.elapsed());
        assert_eq!(event.unwrap(), b"data: x\n\n");
    }
    delays.sort();
    assert!(delays[50] < Duration::from_millis(10), "half of them within {:?}", delays[50]);
    assert!(peer.chunk().await.unwrap().is_empty());
    drop(peer);
    running.stop().await;
}

#[tokio::test]
async fn an_upload_reaches_the_server_while_the_client_still_sends() {
    let (seen, mut chunks) = tokio::sync::mpsc::unbounded_channel();
    let backend = Backend::scripted(move |mut peer, _| {
        let seen = seen.clone();
        async move {
            loop {
                let chunk = peer.chunk().await.ok()?;
                let over = chunk.is_empty();
                seen.send(chunk).unwrap();
                if over {
                    break;
                }
            }
            peer.head().await.ok();
            peer.try_send("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.ok()?;
            None
        }
    })
    .await;
    let running = one(&backend).await;
    let mut peer = Peer::connect(running.address).await;
    peer.send("POST / HTTP/1.1\r\nhost: h\r\nx-job-type: m\r\ntransfer-encoding: chunked\r\n\r\n").await;
    for n in 0..5 {
        peer.send(format!("1\r\n{n}\r\n")).await;
        let chunk = tokio::time::timeout(PATIENCE, chunks.recv()).await.expect("before the next is sent");
        assert_eq!(chunk.unwrap(), n.to_string().as_bytes());
    }
    peer.send("0\r\n\r\n").await;
    running.trigger.end();
    running.ended().await;
}

#[tokio::test]
async fn a_client_that_leaves_a_quiet_stream_ends_it_at_the_server_at_once() {
    let (closed, mut at) = tokio::sync::mpsc::unbounded_channel();
    let backend = Backend::scripted(move |mut peer, _| {
        let closed = closed.clone();
        async move {
            peer.try_send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n").await.ok()?;
            assert!(peer.is_closed().await);
            closed.send(Instant::now()).unwrap();
            None
        }
    })
    .await;
    let running = one(&backend).await;
    let mut peer = Peer::connect(running.address).await;
    peer.send("GET / HTTP/1.1\r\nhost: h\r\nx-job-type: m\r\n\r\n").await;
    peer.head().await.unwrap();
    assert_eq!(peer.chunk().await.unwrap(), b"x");
    let left = Instant::now();
    drop(peer);
    let noticed = at.recv().await.unwrap() - left;
    assert!(noticed < Duration::from_secs(2), "after {noticed:?}");
    assert_eq!(running.jobs(), 0);
    running.stop().await;
}

#[tokio::test]
async fn a_client_that_reads_slowly_slows_the_server_instead_of_filling_the_gateway() {
    let sent = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = sent.clone();
    let total = 64 << 20;
    let backend = Backend::scripted(move |mut peer, _| {
        let count = count.clone();
        async move {
            peer.try_send(format!("HTTP/1.1 200 OK\r\ncontent-length: {total}\r\n\r\n")).await.ok()?;
            let block = vec![b'x'; 1 << 16];
            for _ in 0..total / block.len() {
                peer.try_send(&block).await.ok()?;
                count.fetch_add(block.len(), std::sync::atomic::Ordering::SeqCst);
            }
            Some(peer)
        }
    })
    .await;
    let running = one(&backend).await;
    let mut peer = Peer::connect(running.address).await;
    peer.send("GET / HTTP/1.1\r\nhost: h\r\nx-job-type: m\r\n\r\n").await;
    let head = peer.head().await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let ahead = sent.load(std::sync::atomic::Ordering::SeqCst);
    assert!(ahead < 32 << 20, "{ahead} bytes are on the way to a client that reads nothing");
    assert_eq!(peer.body(head, true).await.unwrap().body.len(), total);
    drop(peer);
    running.stop().await;
}
