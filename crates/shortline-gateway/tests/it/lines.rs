//! Waiting in line: `overflow = "wait"`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use shortline_core::fleet::settings::{Address, LineSettings, Overflow};
use shortline_gateway::{Gateway, Options, PutServer};

use crate::support::{Backend, Holding, OK, PATIENCE, Peer, Plan, Running, call, eventually, get};

async fn line_of(size: Option<u32>, timeout_s: Option<f64>) -> (Running, Holding) {
    line_with_hold(size, timeout_s, None).await
}

async fn line_with_hold(size: Option<u32>, timeout_s: Option<f64>, hold_s: Option<f64>) -> (Running, Holding) {
    let holding = Holding::start().await;
    let running = Plan::new(&[("m", &[0]), ("n", &[0])])
        .server("s", 1.0, Some(1), holding.backend.address)
        .settings(|s| {
            s.overflow = Overflow::Wait;
            s.lines = LineSettings { size, timeout_s, hold_s };
        })
        .serve("jfsq", 1)
        .await;
    (running, holding)
}

async fn ask(running: &Running, job_type: &str, jobs: u64) -> Peer {
    let mut peer = Peer::connect(running.address).await;
    peer.send(get(job_type)).await;
    eventually(|| running.jobs() == jobs).await;
    peer
}

#[tokio::test]
async fn a_freed_place_goes_to_the_one_who_has_waited_the_longest() {
    let (running, holding) = line_of(None, None).await;
    let mut first = ask(&running, "m", 1).await;
    let mut second = ask(&running, "n", 2).await;
    let mut third = ask(&running, "m", 3).await;
    let status = running.gateway.status();
    assert_eq!((status.waiting_total, status.servers[0].in_flight), (2, 1));
    assert_eq!((status.job_types[0].waiting, status.job_types[1].waiting), (1, 1));
    for (served, (peer, left)) in [(&mut first, 2), (&mut second, 1), (&mut third, 0)].into_iter().enumerate() {
        assert_eq!(holding.backend.requests(), served + 1);
        holding.answer_one();
        assert_eq!(peer.answer().await.text(), "ok");
        assert_eq!(running.jobs(), left);
        holding.received((served + 2).min(3)).await;
    }
    assert_eq!(running.metric("shortline_decisions_total{kind=\"waited\"}").await, 2);
    drop((first, second, third));
    running.stop().await;
}

#[tokio::test]
async fn a_full_line_refuses_and_counts_who_is_ahead() {
    let (running, holding) = line_of(Some(3), None).await;
    let mut peers = Vec::new();
    for n in 1..=4 {
        peers.push(ask(&running, "m", n).await);
    }
    let refused = call(running.address, get("m")).await;
    assert_eq!((refused.status(), refused.error_code().as_str()), (503, "no_capacity"));
    assert_eq!(refused.header("retry-after"), Some("4"), "three ahead at one a second");
    for peer in &mut peers {
        holding.answer_one();
        assert_eq!(peer.answer().await.text(), "ok");
    }
    drop(peers);
    running.stop().await;
}

#[tokio::test]
async fn a_wait_longer_than_queue_timeout_s_is_refused() {
    let (running, holding) = line_of(None, Some(0.2)).await;
    let mut first = ask(&running, "m", 1).await;
    let began = Instant::now();
    let refused = call(running.address, get("m")).await;
    assert_eq!((refused.status(), refused.error_code().as_str()), (503, "queue_timeout"));
    assert!(refused.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
    assert!(began.elapsed() >= Duration::from_millis(200));
    assert_eq!(running.jobs(), 1);
    holding.answer_one();
    assert_eq!(first.answer().await.text(), "ok");
    drop(first);
    running.stop().await;
}

#[tokio::test]
async fn a_client_that_goes_away_leaves_the_line() {
    let (running, holding) = line_of(None, None).await;
    let mut first = ask(&running, "m", 1).await;
    let gone = ask(&running, "m", 2).await;
    let mut third = ask(&running, "m", 3).await;
    drop(gone);
    eventually(|| running.jobs() == 2).await;
    holding.answer_one();
    assert_eq!(first.answer().await.text(), "ok");
    holding.answer_one();
    assert_eq!(third.answer().await.text(), "ok");
    assert_eq!((running.jobs(), holding.backend.requests()), (0, 2));
    drop((first, third));
    running.stop().await;
}

#[tokio::test]
async fn one_full_line_takes_no_place_of_another_job_types() {
    let (running, holding) = line_of(Some(2), None).await;
    let mut peers = vec![ask(&running, "m", 1).await, ask(&running, "m", 2).await, ask(&running, "m", 3).await];
    assert_eq!(call(running.address, get("m")).await.error_code(), "no_capacity");
    peers.push(ask(&running, "n", 4).await);
    let status = running.gateway.status();
    assert_eq!((status.job_types[0].waiting, status.job_types[1].waiting), (2, 1));
    for peer in &mut peers {
        holding.answer_one();
        assert_eq!(peer.answer().await.text(), "ok");
    }
    drop(peers);
    running.settled().await;
    running.stop().await;
}

#[tokio::test]
async fn without_hold_s_a_request_for_which_no_server_is_up_is_refused_at_once() {
    let (running, holding) = line_of(None, None).await;
    assert!(running.gateway.set_up("s", false));
    let refused = call(running.address, get("m")).await;
    assert_eq!((refused.status(), refused.error_code().as_str()), (503, "no_server_up"));
    assert_eq!((running.jobs(), holding.backend.requests()), (0, 0));
    running.stop().await;
}

#[tokio::test]
async fn with_hold_s_requests_wait_for_the_first_server_to_come_back_and_none_is_refused() {
    let (running, holding) = line_with_hold(None, None, Some(15.0)).await;
    assert!(running.gateway.set_up("s", false));
    let mut peers = Vec::new();
    for n in 1..=5 {
        peers.push(ask(&running, "m", n).await);
    }
    assert_eq!((running.gateway.status().waiting_total, holding.backend.requests()), (5, 0));
    drop(peers.pop());
    eventually(|| running.jobs() == 4).await;
    assert!(running.gateway.set_up("s", true));
    for peer in &mut peers {
        holding.answer_one();
        assert_eq!(peer.answer().await.text(), "ok");
    }
    assert_eq!(holding.backend.requests(), 4, "the client that went away was out of the line");
    drop(peers);
    running.settled().await;
    running.stop().await;
}

#[tokio::test]
async fn a_request_held_for_longer_than_hold_s_is_refused_for_want_of_a_server() {
    let (running, holding) = line_with_hold(None, Some(15.0), Some(0.2)).await;
    assert!(running.gateway.set_up("s", false));
    let began = Instant::now();
    let refused = call(running.address, get("m")).await;
    assert_eq!((refused.status(), refused.error_code().as_str()), (503, "no_server_up"));
    assert!(refused.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
    assert!((Duration::from_millis(200)..Duration::from_secs(10)).contains(&began.elapsed()));
    assert_eq!((running.jobs(), holding.backend.requests()), (0, 0));
    running.stop().await;
}

/// A rolling update without a drain: the server dies with a request at it, and comes back. What it broke is broken, and so
/// is what meets it before its breaker has tripped; what comes then is held until it is tried again.
#[tokio::test]
async fn what_fails_at_a_server_is_not_held_and_what_comes_after_it_has_tripped_is() {
    let alive = Arc::new(AtomicBool::new(false));
    let lives = Arc::clone(&alive);
    let backend = Backend::scripted(move |mut peer, _| {
        let lives = lives.load(SeqCst);
        async move {
            if !lives {
                return None;
            }
            peer.try_send(OK).await.ok()?;
            Some(peer)
        }
    })
    .await;
    let plan = Plan::new(&[("m", &[0])]).server("s", 1.0, None, backend.address).settings(|s| {
        s.overflow = Overflow::Wait;
        s.lines = LineSettings { size: None, timeout_s: None, hold_s: Some(15.0) };
        (s.health.trip_after, s.health.open_s) = (2, 3.0);
    });
    let running = plan.serve("jfsq", 1).await;
    for _ in 0..2 {
        assert_eq!(call(running.address, get("m")).await.error_code(), "upstream_error");
    }
    let mut held = Vec::new();
    for n in 1..=3 {
        held.push(ask(&running, "m", n).await);
    }
    assert_eq!((running.gateway.status().waiting_total, backend.requests()), (3, 2));
    alive.store(true, SeqCst);
    for peer in &mut held {
        assert_eq!(peer.answer().await.text(), "ok");
    }
    assert_eq!(running.metric("shortline_requests_total{job_type=\"m\",outcome=\"no_server_up\"}").await, 0);
    drop(held);
    running.settled().await;
    running.stop().await;
}

/// Whether newcomer or in line before, everybody waits for `hold_s` when there is no server left, or not at all.
#[tokio::test]
async fn requests_in_line_wait_no_longer_for_a_server_that_is_gone_than_newcomers() {
    let down = |running: &Running| assert!(running.gateway.set_up("s", false));
    // As an exchange of the fleet that takes the last edge away.
    let takes_nothing = |running: &Running| {
        let server = PutServer {
            name: "s".into(),
            server_type: "type of s".into(),
            address: "127.0.0.1:1".parse().unwrap(),
            serves: Vec::new(),
            buffer: Some(1),
        };
        running.gateway.put_server(server).unwrap();
    };
    for goes in [&down as &dyn Fn(&Running), &takes_nothing] {
        for hold_s in [None, Some(0.3)] {
            let (running, holding) = line_with_hold(None, Some(19.0), hold_s).await;
            let mut first = ask(&running, "m", 1).await;
            let mut second = ask(&running, "m", 2).await;
            let began = Instant::now();
            goes(&running);
            let (old, new) = tokio::join!(second.answer(), call(running.address, get("m")));
            for refused in [old, new] {
                assert_eq!((refused.status(), refused.error_code().as_str()), (503, "no_server_up"), "{hold_s:?}");
            }
            let took = began.elapsed();
            assert!(
                took >= Duration::from_secs_f64(hold_s.unwrap_or(0.0)) && took < Duration::from_secs(10),
                "{took:?}"
            );
            holding.answer_one();
            assert_eq!(first.answer().await.text(), "ok", "what was at the server is not touched");
            drop(first);
            running.stop().await;
        }
    }
}

/// At one of them nobody listens, the other one, the second time, never ends a handshake. They are tried every 0.2 s, by the
/// request itself.
#[tokio::test]
async fn dead_servers_that_are_tried_again_and_again_hold_a_request_no_longer_than_hold_s() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let silent = (true, silent.local_addr().unwrap().port(), Some(silent));
    for (https, port, _listener) in [(false, nobody.port(), None), silent] {
        let rows: &[u32] = if https { &[0, 1] } else { &[0] };
        let mut plan = Plan::new(&[("m", rows)]).server("s", 1.0, None, nobody).settings(|s| {
            s.overflow = Overflow::Wait;
            s.lines = LineSettings { size: None, timeout_s: Some(600.0), hold_s: Some(1.0) };
            (s.health.open_s, s.health.longest_open_s, s.timeouts.connect_s) = (0.2, 0.2, 0.4);
            s.tls.verify = false;
        });
        let mut addresses = vec![Address::new(https, "127.0.0.1", port)];
        if https {
            plan = plan.server("t", 1.0, None, nobody);
            addresses.push(Address::new(false, "127.0.0.1", nobody.port()));
        }
        let options = Options { addresses: Some(addresses), ..Options::new(plan.fleet()) };
        let running = Running::start(Gateway::new(options).unwrap(), PATIENCE).await;
        let began = Instant::now();
        let refused = call(running.address, get("m")).await;
        assert_eq!((refused.status(), refused.error_code().as_str()), (503, "no_server_up"));
        assert!((Duration::from_secs(1)..Duration::from_secs(12)).contains(&began.elapsed()), "{:?}", began.elapsed());
        assert!(running.metric("shortline_trips_total").await >= 2, "they were tried meanwhile");
        running.stop().await;
    }
}

/// The server comes back within `hold_s`, but has a single place.
#[tokio::test]
async fn a_held_request_whose_server_is_back_but_full_waits_on_until_queue_timeout_s() {
    let (running, holding) = line_with_hold(None, Some(15.0), Some(0.3)).await;
    assert!(running.gateway.set_up("s", false));
    let mut first = ask(&running, "m", 1).await;
    let mut second = ask(&running, "m", 2).await;
    assert!(running.gateway.set_up("s", true));
    holding.received(1).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(running.jobs(), 2);
    for peer in [&mut first, &mut second] {
        holding.answer_one();
        assert_eq!(peer.answer().await.text(), "ok");
    }
    drop((first, second));
    running.settled().await;
    running.stop().await;
}
