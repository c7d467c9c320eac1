//! Stopping under load.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use shortline_gateway::{Gateway, Options};

use crate::support::{Backend, Holding, PATIENCE, Peer, Plan, Running, call, eventually, get};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_under_load_breaks_no_running_request() {
    let backend = Backend::scripted(|mut peer, _| async move {
        peer.try_send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await.ok()?;
        for _ in 0..5 {
            peer.try_send("1\r\nx\r\n").await.ok()?;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        peer.try_send("0\r\n\r\n").await.ok()?;
        Some(peer)
    })
    .await;
    let running = Plan::new(&[("m", &[0])]).server("s", 1.0, None, backend.address).serve("jfsq", 1).await;
    let (whole, turned_away) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut clients = Vec::new();
    for i in 0..50 {
        let (address, whole, turned_away) = (running.address, whole.clone(), turned_away.clone());
        clients.push(tokio::spawn(async move {
            let mut peer = Peer::connect(address).await;
            tokio::time::sleep(Duration::from_millis(i * 2)).await;
            // Until the gateway closes the connection between two requests, or has done so before one.
            loop {
                if peer.try_send(get("m")).await.is_err() {
                    break;
                }
                match peer.head().await {
                    Ok(head) => {
                        let answer = peer.body(head, true).await.expect("an answer that began is whole");
                        assert_eq!(answer.text(), "xxxxx");
                        whole.fetch_add(1, SeqCst);
                    }
                    Err(_) => break,
                }
            }
            turned_away.fetch_add(1, SeqCst);
        }));
    }
    eventually(|| whole.load(SeqCst) > 100).await;
    let jobs = running.jobs();
    assert!(jobs > 20, "under load: {jobs} running");
    running.trigger.drain();
    eventually(|| !running.gateway.is_ready()).await;
    let ready = call(running.admin, "GET /readyz HTTP/1.1\r\nhost: a\r\n\r\n").await;
    assert_eq!(ready.status(), 503);
    let (address, gateway) = (running.address, running.gateway.clone());
    assert!(tokio::net::TcpStream::connect(address).await.is_err(), "the listener is closed");
    let served = running.ended().await;
    assert_eq!(served.cut_off, 0);
    for client in clients {
        client.await.expect("no client saw a broken answer");
    }
    assert_eq!(turned_away.load(SeqCst), 50);
    assert_eq!(gateway.status().servers[0].in_flight, 0);
}

#[tokio::test]
async fn what_outlasts_the_grace_is_cut_off_and_leaves_nothing_behind() {
    let holding = Holding::start().await;
    let plan = Plan::new(&[("m", &[0])]).server("s", 1.0, None, holding.backend.address);
    let gateway = Gateway::new(Options::new(plan.fleet())).unwrap();
    let running = Running::start(gateway, Duration::from_millis(300)).await;
    let mut peer = Peer::connect(running.address).await;
    peer.send(get("m")).await;
    holding.received(1).await;
    let began = Instant::now();
    running.trigger.drain();
    let gateway = running.gateway.clone();
    let served = running.ended().await;
    assert!(began.elapsed() >= Duration::from_millis(300));
    assert_eq!(served.cut_off, 1);
    assert_eq!(gateway.status().servers[0].in_flight, 0);
    let refused = peer.answer().await;
    assert_eq!((refused.status(), refused.error_code().as_str()), (503, "cut_off"));
    assert!(refused.header("retry-after").is_some());
    assert!(peer.is_closed().await);
}

#[tokio::test]
async fn an_answer_under_way_at_the_end_breaks_off_and_counts_as_cut_off_not_as_the_clients_doing() {
    let backend = Backend::scripted(|mut peer, _| async move {
        peer.try_send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n").await.ok()?;
        peer.is_closed().await;
        None
    })
    .await;
    let running = Plan::new(&[("m", &[0])]).server("s", 1.0, None, backend.address).serve("jfsq", 1).await;
    let mut peer = Peer::connect(running.address).await;
    peer.send(get("m")).await;
    assert_eq!(peer.head().await.unwrap().status(), 200);
    let gateway = running.gateway.clone();
    running.trigger.drain();
    running.trigger.end();
    assert_eq!(running.ended().await.cut_off, 1);
    assert_eq!(gateway.status().servers[0].in_flight, 0);
    assert_eq!(peer.chunk().await.unwrap(), b"x");
    assert!(peer.chunk().await.is_err());
}

#[tokio::test]
async fn a_second_order_ends_at_once() {
    let holding = Holding::start().await;
    let plan = Plan::new(&[("m", &[0])]).server("s", 1.0, None, holding.backend.address);
    let running = plan.serve("jfsq", 1).await;
    let mut peer = Peer::connect(running.address).await;
    peer.send(get("m")).await;
    holding.received(1).await;
    let began = Instant::now();
    running.trigger.drain();
    running.trigger.end();
    assert_eq!(running.ended().await.cut_off, 1);
    assert!(began.elapsed() < PATIENCE / 4);
}

#[tokio::test]
async fn idle_connections_do_not_hold_up_the_end() {
    let backend = Backend::replying(crate::support::OK).await;
    let plan = Plan::new(&[("m", &[0])]).server("s", 1.0, None, backend.address);
    let running = plan.serve("jfsq", 1).await;
    let mut used = Peer::connect(running.address).await;
    used.send(get("m")).await;
    used.answer().await;
    let _never_used = Peer::connect(running.address).await;
    eventually(|| running.gateway.connections() == 2).await;
    let began = Instant::now();
    running.trigger.drain();
    assert_eq!(running.ended().await.cut_off, 0);
    assert!(began.elapsed() < PATIENCE / 4);
    assert!(used.is_closed().await);
}
