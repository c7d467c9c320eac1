//! A request is sent to another server when that is safe, and only then.
//!
//! In all of these the first server is the faster one, so that `jfsq` asks it first.

use std::time::{Duration, Instant};

use shortline_core::fleet::settings::{Overflow, Retry, Settings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{Backend, Holding, Message, OK, Peer, Plan, Running, call, eventually, get, post};

const BUSY: &str = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 4\r\n\r\nbusy";
const BUSY_FOR_1_S: &str = "HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 4\r\n\r\nbusy";
const TOO_MANY: &str = "HTTP/1.1 429 Too Many Requests\r\ncontent-length: 4\r\n\r\nmany";

/// `m` on both servers; breakers never trip, so that each request meets the first server.
fn two(first: std::net::SocketAddr, second: std::net::SocketAddr, change: impl FnOnce(&mut Settings)) -> Plan {
    let plan = Plan::new(&[("m", &[0, 1])]).server("first", 9.0, None, first).server("second", 1.0, None, second);
    let calm = |settings: &mut Settings| {
        settings.health.trip_after = 0;
        settings.health.obey_retry_after = false;
    };
    plan.settings(calm).settings(change)
}

async fn nowhere() -> std::net::SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn post_m(body: &str) -> String {
    post(body).replace("host: test", "host: test\r\nx-job-type: m")
}

async fn retries(running: &Running, reason: &str) -> u64 {
    running.metric(&format!("shortline_retries_total{{reason=\"{reason}\"}}")).await
}

fn seen(answer: &Message) -> (u16, Option<&str>) {
    (answer.status(), answer.header("x-served-by"))
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_replaced_for_every_method_and_any_body() {
    let echo = Backend::echo().await;
    // Nothing is kept for a retry: the body was not touched.
    let plan = two(nowhere().await, echo.address, |settings| settings.retry.body_limit = 0);
    let running = plan.serve("jfsq", 1).await;
    assert_eq!(seen(&call(running.address, get("m")).await), (200, Some("second")));
    let mut client = Peer::connect(running.address).await;
    client.send("POST / HTTP/1.1\r\nhost: h\r\nx-job-type: m\r\ncontent-length: 3000000\r\n\r\n").await;
    for _ in 0..30 {
        client.send(vec![b'x'; 100_000]).await;
    }
    let answer = client.answer().await;
    assert_eq!(seen(&answer), (200, Some("second")));
    assert!(answer.text().ends_with("body of 3000000 bytes"), "{}", answer.text());
    assert_eq!(retries(&running, "connect").await, 2);
    assert_eq!(running.jobs(), 0);
    running.stop().await;
}

#[tokio::test]
async fn what_the_server_did_not_do_is_sent_again_by_any_method_with_the_body() {
    for busy in [BUSY_FOR_1_S, TOO_MANY] {
        let (first, echo) = (Backend::replying(busy).await, Backend::echo().await);
        let running = two(first.address, echo.address, |_| {}).serve("jfsq", 1).await;
        for request in [get("m"), post_m("{\"x\":1}")] {
            let answer = call(running.address, request).await;
            assert_eq!(seen(&answer), (200, Some("second")), "{busy}");
        }
        assert!(call(running.address, post_m("12345")).await.text().contains("body of 5 bytes"));
        let chunked = "POST / HTTP/1.1\r\nhost: h\r\nx-job-type: m\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n";
        assert!(call(running.address, chunked).await.text().contains("body of 7 bytes"));
        assert_eq!((retries(&running, "refused").await, first.requests(), echo.requests()), (4, 4, 4));
        running.stop().await;
    }
}

#[tokio::test]
async fn what_the_server_may_have_done_is_sent_again_only_if_that_changes_nothing() {
    for status in [502, 503, 504] {
        let first = Backend::replying(format!("HTTP/1.1 {status} Bad\r\ncontent-length: 0\r\n\r\n")).await;
        let second = Backend::replying(OK).await;
        let running = two(first.address, second.address, |_| {}).serve("jfsq", 1).await;
        for method in ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"] {
            let request = format!("{method} / HTTP/1.1\r\nhost: h\r\nx-job-type: m\r\nconnection: close\r\n\r\n");
            let mut client = Peer::connect(running.address).await;
            client.send(request).await;
            assert_eq!(seen(&client.head().await.unwrap()), (200, Some("second")), "{method} {status}");
        }
        for method in ["POST", "PATCH"] {
            let request = format!("{method} / HTTP/1.1\r\nhost: h\r\nx-job-type: m\r\ncontent-length: 1\r\n\r\nx");
            assert_eq!(seen(&call(running.address, request).await), (status, Some("first")), "{method} {status}");
        }
        assert_eq!((retries(&running, "status").await, second.requests()), (5, 5));
        running.settled().await;
        running.stop().await;
    }
}

#[tokio::test]
async fn a_server_that_breaks_off_before_its_answer_is_replaced_for_what_may_be_repeated() {
    let first = Backend::scripted(|_, _| async { None }).await;
    let second = Backend::replying(OK).await;
    let running = two(first.address, second.address, |_| {}).serve("jfsq", 1).await;
    assert_eq!(seen(&call(running.address, get("m")).await), (200, Some("second")));
    let answer = call(running.address, post_m("x")).await;
    assert_eq!((answer.status(), answer.error_code().as_str()), (502, "upstream_error"));
    assert_eq!((retries(&running, "reset").await, second.requests()), (1, 1));
    running.stop().await;
}

#[tokio::test]
async fn once_the_answer_has_begun_nothing_is_sent_again() {
    let first = Backend::scripted(|mut peer, _| async move {
        peer.try_send("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf").await.ok()?;
        None
    })
    .await;
    let second = Backend::replying(OK).await;
    let running = two(first.address, second.address, |_| {}).serve("jfsq", 1).await;
    for _ in 0..10 {
        let mut client = Peer::connect(running.address).await;
        client.send(get("m")).await;
        client.try_answer().await.expect_err("half an answer is no answer");
    }
    running.settled().await;
    assert_eq!(second.requests(), 0);
    running.stop().await;
}

#[tokio::test]
async fn no_server_is_asked_twice_none_that_does_not_hold_the_job_type_and_the_last_ones_answer_is_passed_on() {
    let busy =
        |name: &str| Backend::replying(format!("HTTP/1.1 503 Busy\r\nx-from: {name}\r\ncontent-length: 4\r\n\r\nbusy"));
    let (a, b, c, other) = (busy("a").await, busy("b").await, busy("c").await, Backend::replying(OK).await);
    let plan = Plan::new(&[("m", &[0, 1, 2]), ("n", &[3])])
        .server("a", 9.0, None, a.address)
        .server("b", 3.0, None, b.address)
        .server("c", 1.0, None, c.address)
        .server("other", 99.0, None, other.address)
        .settings(|settings| {
            settings.health.trip_after = 0;
            settings.retry = Retry { attempts: 9, budget: 9.0, ..Retry::default() };
        });
    for policy in ["random", "jsq", "jfsq", "jiq", "jfiq", "jsq(2)", "jfsq(2)", "sed", "nq", "central"] {
        let before = [&a, &b, &c].map(Backend::requests);
        let running = plan.serve(policy, 1).await;
        for _ in 0..20 {
            let answer = call(running.address, get("m")).await;
            assert_eq!((answer.status(), answer.text().as_str()), (503, "busy"), "{policy}");
            assert_eq!(answer.header("x-from"), answer.header("x-served-by"), "{policy}");
        }
        let asked: Vec<usize> =
            [&a, &b, &c].iter().zip(before).map(|(server, before)| server.requests() - before).collect();
        assert_eq!((asked, other.requests()), (vec![20; 3], 0), "{policy}: each once a request");
        assert_eq!(running.jobs(), 0);
        running.stop().await;
    }
}

#[tokio::test]
async fn without_room_elsewhere_the_client_gets_the_servers_own_answer() {
    let (first, second) = (Backend::replying(BUSY).await, Holding::start().await);
    let plan = Plan::new(&[("m", &[0, 1]), ("n", &[1])]).server("first", 9.0, None, first.address).server(
        "second",
        1.0,
        Some(1),
        second.backend.address,
    );
    let running = plan.serve("jfsq", 1).await;
    let mut holds = Peer::connect(running.address).await;
    holds.send(get("n")).await;
    second.received(1).await;
    let answer = call(running.address, get("m")).await;
    assert_eq!((seen(&answer), answer.text().as_str()), ((503, Some("first")), "busy"));
    assert_eq!(retries(&running, "status").await, 0);
    second.answer_one();
    assert_eq!(holds.answer().await.status(), 200);
    running.settled().await;
    running.stop().await;
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_not_kept_and_so_not_sent_again() {
    let (first, echo) = (Backend::replying(TOO_MANY).await, Backend::echo().await);
    let running = two(first.address, echo.address, |settings| settings.retry.body_limit = 100).serve("jfsq", 1).await;
    assert_eq!(seen(&call(running.address, post_m(&"x".repeat(100))).await), (200, Some("second")));
    assert_eq!(seen(&call(running.address, post_m(&"x".repeat(101))).await), (429, Some("first")));
    // Chunks do not tell their length beforehand.
    let chunked = |chunk: &str| {
        format!(
            "POST / HTTP/1.1\r\nhost: h\r\nx-job-type: m\r\ntransfer-encoding: chunked\r\n\r\n32\r\n{chunk}\r\n33\r\n{chunk}x\r\n0\r\n\r\n"
        )
    };
    assert_eq!(seen(&call(running.address, chunked(&"x".repeat(50))).await), (429, Some("first")));
    running.stop().await;
}

#[tokio::test]
async fn retries_are_a_share_of_the_requests() {
    let (first, second) = (Backend::replying(BUSY).await, Backend::replying(OK).await);
    let plan = two(first.address, second.address, |settings| {
        settings.retry = Retry { budget: 0.1, floor_per_s: 0.0, ..Retry::default() };
    });
    let running = plan.serve("jfsq", 1).await;
    let mut statuses = Vec::new();
    for _ in 0..100 {
        statuses.push(call(running.address, get("m")).await.status());
    }
    assert_eq!(statuses.iter().filter(|&&status| status == 200).count(), 10);
    assert_eq!((retries(&running, "status").await, second.requests()), (10, 10));
    assert_eq!(running.metric("shortline_retries_withheld_total").await, 90);
    running.stop().await;
}

#[tokio::test]
async fn one_attempt_is_no_retry() {
    let (first, second) = (Backend::replying(BUSY_FOR_1_S).await, Backend::replying(OK).await);
    let running = two(first.address, second.address, |settings| settings.retry.attempts = 1).serve("jfsq", 1).await;
    let answer = call(running.address, get("m")).await;
    assert_eq!((seen(&answer), answer.header("retry-after")), ((503, Some("first")), Some("1")));
    assert_eq!(second.requests(), 0);
    running.stop().await;
}

#[tokio::test]
async fn the_time_for_the_first_byte_counts_from_the_first_attempt() {
    let first = Backend::scripted(|mut peer, _| async move {
        tokio::time::sleep(Duration::from_millis(800)).await;
        peer.try_send(BUSY).await.ok()?;
        Some(peer)
    })
    .await;
    let second = Holding::start().await;
    let plan = two(first.address, second.backend.address, |settings| settings.timeouts.first_byte_s = 1.2);
    let running = plan.serve("jfsq", 1).await;
    let began = Instant::now();
    let answer = call(running.address, get("m")).await;
    assert_eq!((answer.status(), answer.error_code().as_str()), (504, "upstream_timeout"));
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(1190) && took < Duration::from_millis(1900), "{took:?}, not 0.8 s and 1.2 s");
    assert_eq!((retries(&running, "status").await, running.jobs()), (1, 0));
    running.trigger.end();
    running.ended().await;
}

#[tokio::test]
async fn a_request_that_could_not_be_sent_waits_for_room_at_another_server_and_none_fails() {
    for policy in ["jfsq", "central"] {
        let second = Holding::start().await;
        let plan = Plan::new(&[("m", &[0, 1])])
            .server("first", 9.0, Some(1), nowhere().await)
            .server("second", 1.0, Some(1), second.backend.address)
            .settings(|settings| {
                settings.overflow = Overflow::Wait;
                settings.health.open_s = 0.05;
            });
        let running = plan.serve(policy, 1).await;
        let mut peers = Vec::new();
        for n in 1..=20 {
            let mut peer = Peer::connect(running.address).await;
            peer.send(post_m("x")).await;
            eventually(|| running.jobs() >= n).await;
            peers.push(peer);
        }
        eventually(|| running.gateway.status().waiting_total == 19).await;
        (0..20).for_each(|_| second.answer_one());
        for peer in &mut peers {
            assert_eq!(seen(&peer.answer().await), (200, Some("second")), "{policy}");
        }
        running.settled().await;
        running.stop().await;
    }
}

#[tokio::test]
async fn where_there_is_no_line_a_request_that_could_not_be_sent_is_refused_for_want_of_room() {
    let second = Holding::start().await;
    let plan = Plan::new(&[("m", &[0, 1])]).server("first", 9.0, Some(1), nowhere().await).server(
        "second",
        1.0,
        Some(1),
        second.backend.address,
    );
    let running = plan.serve("jfsq", 1).await;
    let mut holds = Peer::connect(running.address).await;
    holds.send(get("m")).await;
    second.received(1).await;
    let answer = call(running.address, post_m("x")).await;
    assert_eq!((answer.status(), answer.error_code().as_str()), (503, "no_capacity"));
    second.answer_one();
    assert_eq!(holds.answer().await.status(), 200);
    running.settled().await;
    running.stop().await;
}

#[tokio::test]
async fn a_request_whose_only_server_cannot_be_reached_is_held_until_it_can() {
    let address = nowhere().await;
    let plan = Plan::new(&[("m", &[0])]).server("s", 1.0, None, address).settings(|settings| {
        settings.overflow = Overflow::Wait;
        settings.lines.hold_s = Some(15.0);
        settings.health.open_s = 0.2;
    });
    let running = plan.serve("jfsq", 1).await;
    let mut peer = Peer::connect(running.address).await;
    peer.send(post_m("x")).await;
    eventually(|| running.gateway.status().waiting_total == 1).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let listener = tokio::net::TcpListener::bind(address).await.unwrap();
    let serves = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let _read = stream.read(&mut [0; 4096]).await.unwrap();
        stream.write_all(OK.as_bytes()).await.unwrap();
    });
    assert_eq!(seen(&peer.answer().await), (200, Some("s")));
    serves.await.unwrap();
    running.settled().await;
    running.stop().await;
}

#[tokio::test]
async fn what_a_server_refuses_before_it_has_the_body_is_sent_again_whole() {
    for size in [50_000, 200_000] {
        let first = Backend::scripted(|mut peer, _| async move {
            peer.try_send(BUSY_FOR_1_S).await.ok()?;
            peer.is_open_for(Duration::from_secs(20)).await;
            None
        })
        .await;
        let echo = Backend::echo().await;
        let running = two(first.address, echo.address, |_| {}).serve("jfsq", 1).await;
        for _ in 0..5 {
            let before = first.requests();
            let mut client = Peer::connect(running.address).await;
            client.send(format!("POST / HTTP/1.1\r\nhost: h\r\nx-job-type: m\r\ncontent-length: {size}\r\n\r\n")).await;
            client.send(vec![b'x'; size / 2]).await;
            eventually(|| first.requests() > before).await;
            tokio::time::sleep(Duration::from_millis(50)).await;
            client.send(vec![b'x'; size - size / 2]).await;
            let answer = client.answer().await;
            assert_eq!(seen(&answer), (200, Some("second")));
            assert!(answer.text().ends_with(&format!("body of {size} bytes")), "{}", answer.text());
        }
        assert_eq!(retries(&running, "refused").await, 5);
        running.settled().await;
        running.stop().await;
    }
}

#[tokio::test]
async fn a_server_that_gets_what_another_one_left_of_the_time_is_not_blamed() {
    let first = Backend::scripted(|mut peer, _| async move {
        tokio::time::sleep(Duration::from_millis(800)).await;
        peer.try_send(BUSY).await.ok()?;
        Some(peer)
    })
    .await;
    let second = Holding::start().await;
    let plan = two(first.address, second.backend.address, |settings| {
        settings.timeouts.first_byte_s = 1.0;
        settings.health.trip_after = 1;
        settings.health.open_s = 60.0;
    });
    let running = plan.serve("jfsq", 1).await;
    assert_eq!(call(running.address, get("m")).await.error_code(), "upstream_timeout");
    let health = || running.gateway.status().servers.iter().map(|server| server.health).collect::<Vec<_>>();
    assert_eq!((health(), second.backend.requests()), (vec!["tripped", "up"], 1));
    // With all of its time it is.
    assert_eq!(call(running.address, get("m")).await.error_code(), "upstream_timeout");
    assert_eq!(health(), ["tripped", "tripped"]);
    running.trigger.end();
    running.ended().await;
}
