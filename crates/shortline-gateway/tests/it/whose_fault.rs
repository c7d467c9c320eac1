//! What a client does, or may have caused, is not its server's fault; and what is the server's own is found out.

use std::time::Duration;

use shortline_core::fleet::settings::Settings;

use crate::support::{Backend, Message, OK, Peer, Plan, Running, call, eventually, get, post};

fn health(running: &Running) -> Vec<&'static str> {
    running.gateway.status().servers.iter().map(|server| server.health).collect()
}

/// Answers by its name what is asked for in `x-do`, if it is asked of this server or of all.
async fn obedient(name: &'static str) -> Backend {
    Backend::scripted(move |mut peer, head| async move {
        let what = head.header("x-do").unwrap_or("").to_owned();
        peer.body(head, false).await.ok()?;
        let answer = match what.split_once('@').filter(|(_, at)| [name, "all"].contains(at)) {
            Some((answer, _)) => format!("HTTP/1.1 {}\r\ncontent-length: 0\r\n\r\n", answer.replace(';', "\r\n")),
            None => OK.to_owned(),
        };
        peer.try_send(answer).await.ok()?;
        Some(peer)
    })
    .await
}

/// A request that is to be answered like this by these servers.
fn asking(job_type: &str, what: &str) -> String {
    get(job_type).replace("\r\n\r\n", &format!("\r\nx-do: {what}\r\n\r\n"))
}

async fn three(change: impl FnOnce(&mut Settings)) -> (Running, Vec<Backend>) {
    let servers = [obedient("a").await, obedient("b").await, obedient("c").await];
    let plan = Plan::new(&[("m", &[0, 1, 2])])
        .server("a", 9.0, None, servers[0].address)
        .server("b", 2.0, None, servers[1].address)
        .server("c", 1.0, None, servers[2].address)
        .settings(change);
    (plan.serve("jfsq", 1).await, servers.into())
}

/// A prompt that an engine cannot take is a 500, and the server holds a job type that nobody else holds.
#[tokio::test]
async fn a_500_takes_no_server_off_that_another_job_type_cannot_spare() {
    let (a, b) = (obedient("a").await, obedient("b").await);
    let plan = Plan::new(&[("m", &[0, 1]), ("n", &[0])])
        .server("a", 9.0, None, a.address)
        .server("b", 1.0, None, b.address)
        .settings(|settings| (settings.retry.attempts, settings.health.open_s) = (1, 60.0));
    let running = plan.serve("jfsq", 1).await;
    let mut failed = 0;
    for _ in 0..20 {
        failed += u32::from(call(running.address, asking("m", "500 Bad Prompt@a")).await.status() == 500);
        assert_eq!(call(running.address, asking("n", "500 Bad Prompt@a")).await.status(), 500);
        assert_eq!(call(running.address, get("n")).await.status(), 200);
    }
    assert_eq!(health(&running), ["up", "up"]);
    // Good answers in between: not five in a row, but half of twenty.
    assert!((5..15).contains(&failed), "the others go to b: {failed}");
    assert_eq!(running.gateway.status().servers[0].lost, ["m"]);
    // Of what is no prompt's doing there is no such doubt.
    for _ in 0..5 {
        assert_eq!(call(running.address, asking("n", "503 Busy@a")).await.status(), 503);
    }
    assert_eq!(health(&running), ["tripped", "up"]);
    running.stop().await;
}

#[tokio::test]
async fn a_server_that_answers_429_is_left_alone_where_others_take_the_request() {
    for (answer, requests) in [("429 Many@a", 5), ("429 Many;retry-after: 5@a", 1), ("429 Many;retry-after: 0@a", 5)] {
        let (running, servers) = three(|_| {}).await;
        for n in 0..requests {
            assert_eq!(health(&running)[0], "up", "{answer}: {n}");
            assert_eq!(call(running.address, asking("m", answer)).await.header("x-served-by"), Some("b"));
        }
        assert_eq!(health(&running), ["tripped", "up", "up"], "{answer}");
        for _ in 0..10 {
            assert_eq!(call(running.address, asking("m", answer)).await.status(), 200);
        }
        assert_eq!(servers[0].requests(), requests, "{answer}");
        running.stop().await;
    }
}

/// Each server answers 429 to this client only: its quota is used up.
#[tokio::test]
async fn a_client_beyond_its_quota_takes_no_server_off() {
    for attempts in [3, 1] {
        let (running, _servers) = three(|settings| settings.retry.attempts = attempts).await;
        for _ in 0..20 {
            if attempts == 1 && health(&running).iter().filter(|&&health| health == "up").count() == 1 {
                // Nobody else is asked, so it is taken at its word, but for the last one.
                break;
            }
            let answer = call(running.address, asking("m", "429 Quota;retry-after: 30@all")).await;
            assert_eq!((answer.status(), answer.header("retry-after")), (429, Some("30")));
            assert_eq!(call(running.address, get("m")).await.status(), 200);
        }
        for _ in 0..5 {
            assert_eq!(call(running.address, asking("m", "429 Quota;retry-after: 30@all")).await.status(), 429);
            assert_eq!(call(running.address, get("m")).await.status(), 200);
        }
        let up = health(&running).iter().filter(|&&health| health == "up").count();
        assert_eq!(up, if attempts == 1 { 1 } else { 3 });
        running.stop().await;
    }
}

/// The first request behind a trip is one whose body does not come.
#[tokio::test]
async fn a_probe_that_says_nothing_is_followed_by_another() {
    let backend = obedient("a").await;
    let plan = Plan::new(&[("m", &[0]), ("n", &[0])]).server("a", 1.0, None, backend.address).settings(|settings| {
        settings.retry.attempts = 1;
        (settings.health.open_s, settings.health.longest_open_s) = (0.2, 0.4);
    });
    let running = plan.serve("jfsq", 1).await;
    for _ in 0..5 {
        call(running.address, asking("m", "503 Busy@a")).await;
    }
    eventually(|| health(&running)[0] == "probing").await;
    let mut slow = Peer::connect(running.address).await;
    slow.send("POST / HTTP/1.1\r\nhost: h\r\nx-job-type: m\r\ncontent-length: 100\r\n\r\nx").await;
    eventually(|| running.jobs() == 1).await;
    let mut answer = Message::default();
    // Long before the client is given up (`idle_s`, 60 s).
    for _ in 0..100 {
        answer = call(running.address, get("n")).await;
        if answer.status() == 200 {
            break;
        }
        assert_eq!(answer.error_code(), "no_server_up");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!((answer.status(), health(&running)[0]), (200, "slow-start"));
    drop(slow);
    running.stop().await;
}

/// Begins its answer before it has the request, and ends it behind.
async fn duplex() -> Backend {
    Backend::scripted(|mut peer, head| async move {
        if head.header("transfer-encoding").is_none() {
            peer.try_send(OK).await.ok()?;
            return Some(peer);
        }
        peer.try_send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n").await.ok()?;
        peer.body(head, false).await.ok()?;
        peer.try_send("0\r\n\r\n").await.ok()?;
        Some(peer)
    })
    .await
}

#[tokio::test]
async fn a_client_that_breaks_off_or_stalls_its_upload_behind_the_answers_head_trips_nothing() {
    let backend = duplex().await;
    let plan = Plan::new(&[("m", &[0])]).server("a", 1.0, None, backend.address).settings(|settings| {
        settings.retry.attempts = 1;
        settings.timeouts.idle_s = 0.3;
    });
    let running = plan.serve("jfsq", 1).await;
    for end in ["zz\r\n", "zz\r\n", "zz\r\n", "", "", ""] {
        let mut peer = Peer::connect(running.address).await;
        peer.send("POST / HTTP/1.1\r\nhost: h\r\nx-job-type: m\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n").await;
        assert_eq!(peer.head().await.unwrap().status(), 200);
        assert_eq!(peer.chunk().await.unwrap(), b"ok");
        peer.send(end).await;
        assert!(peer.is_closed().await, "{end:?}");
    }
    running.settled().await;
    assert_eq!(health(&running), ["up"]);
    assert_eq!(call(running.address, get("m")).await.status(), 200);
    let page = call(running.admin, "GET /metrics HTTP/1.1\r\nhost: a\r\n\r\n").await.text();
    for (outcome, count) in [("client_abort", 3), ("client_timeout", 3), ("upstream_abort", 0), ("upstream_timeout", 0)]
    {
        let line = page.lines().find(|line| line.contains(&format!("outcome=\"{outcome}\""))).unwrap_or(" 0");
        assert!(line.ends_with(&format!(" {count}")), "{outcome}: {line}");
    }
    running.stop().await;
}

/// A server that is silent behind the whole request is at fault as before.
#[tokio::test]
async fn a_server_that_is_silent_within_its_answer_trips() {
    let backend = Backend::scripted(|mut peer, head| async move {
        peer.body(head, false).await.ok()?;
        peer.try_send("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf").await.ok()?;
        peer.is_open_for(Duration::from_secs(60)).await;
        None
    })
    .await;
    let plan = Plan::new(&[("m", &[0])]).server("a", 1.0, None, backend.address).settings(|settings| {
        settings.timeouts.idle_s = 0.1;
        settings.health.trip_after = 3;
    });
    let running = plan.serve("jfsq", 1).await;
    for _ in 0..3 {
        let mut peer = Peer::connect(running.address).await;
        peer.send(post(r#"{"model":"m"}"#)).await;
        assert!(peer.try_answer().await.is_err());
    }
    eventually(|| health(&running)[0] == "tripped").await;
    running.stop().await;
}
