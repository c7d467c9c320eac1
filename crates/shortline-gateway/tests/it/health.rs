//! When a server gets no requests, how it is let in again, and what the operator says.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use shortline_core::fleet::settings::{Checks, Settings};
use shortline_gateway::PutServer;

use crate::support::{Backend, Holding, Message, OK, Peer, Plan, Running, call, eventually, get, post};

const BUSY: &str = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 4\r\n\r\nbusy";

/// No retries: each request shows what its server said. Slow start does not grow with time.
fn no_retries(settings: &mut Settings) {
    settings.retry.attempts = 1;
    settings.health.slow_start_s = 1e6;
}

fn health(running: &Running, server: usize) -> &'static str {
    running.gateway.status().servers[server].health
}

async fn order(running: &Running, method: &str, path: &str) -> Message {
    call(running.admin, format!("{method} {path} HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n")).await
}

/// Answers with what is written here at the moment.
#[derive(Clone)]
struct Script(Arc<std::sync::Mutex<String>>);

impl Script {
    fn new(answer: &str) -> Self {
        Self(Arc::new(std::sync::Mutex::new(answer.to_owned())))
    }

    fn set(&self, answer: &str) {
        *self.0.lock().unwrap() = answer.to_owned();
    }

    async fn serve(&self) -> Backend {
        let answer = self.clone();
        Backend::scripted(move |mut peer, head| {
            let answer = answer.0.lock().unwrap().clone();
            async move {
                peer.body(head, false).await.ok()?;
                peer.try_send(answer).await.ok()?;
                Some(peer)
            }
        })
        .await
    }
}

#[tokio::test]
async fn failures_in_a_row_trip_a_server_and_a_good_probe_and_a_slow_start_bring_it_back() {
    let script = Script::new(BUSY);
    let backend = script.serve().await;
    let plan = Plan::new(&[("m", &[0])]).server("s", 1.0, None, backend.address).settings(no_retries).settings(|s| {
        s.health.open_s = 1.0;
    });
    let running = plan.serve("jfsq", 1).await;
    for _ in 0..5 {
        assert_eq!(health(&running, 0), "up");
        assert_eq!(call(running.address, get("m")).await.text(), "busy");
    }
    assert_eq!(health(&running, 0), "tripped");
    let answer = call(running.address, get("m")).await;
    assert_eq!((answer.status(), answer.error_code().as_str()), (503, "no_server_up"));
    assert!(matches!(answer.header("retry-after"), Some("1" | "2")), "what is left of 0.8 to 1.2 s: {answer:?}");
    assert_eq!(backend.requests(), 5, "tripped, it gets nothing");

    // The probe fails: twice as long.
    eventually(|| health(&running, 0) == "probing").await;
    let tripped = Instant::now();
    assert_eq!(call(running.address, get("m")).await.text(), "busy");
    assert_eq!((health(&running, 0), backend.requests()), ("tripped", 6));
    script.set(OK);
    eventually(|| health(&running, 0) == "probing").await;
    assert!(tripped.elapsed() >= Duration::from_millis(1550), "2 s less a fifth: {:?}", tripped.elapsed());
    assert_eq!(call(running.address, get("m")).await.status(), 200);
    assert_eq!(health(&running, 0), "slow-start");
    for _ in 0..2 + 4 + 8 {
        assert_eq!(health(&running, 0), "slow-start");
        assert_eq!(call(running.address, get("m")).await.status(), 200);
    }
    assert_eq!((health(&running, 0), running.jobs()), ("up", 0));
    assert_eq!(running.metric("shortline_trips_total").await, 2);
    running.stop().await;
}

#[tokio::test]
async fn a_probe_is_one_request_at_a_time_and_slow_start_prefers_other_servers_but_refuses_nobody() {
    let other = Holding::start().await;
    let fails = Arc::new(AtomicUsize::new(5));
    // The first five requests fail; later ones wait for their release.
    let (left, held) = (Arc::clone(&fails), Arc::new(tokio::sync::Semaphore::new(0)));
    let gate = Arc::clone(&held);
    let backend = Backend::scripted(move |mut peer, _| {
        let (left, gate) = (Arc::clone(&left), Arc::clone(&gate));
        async move {
            if left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok() {
                peer.try_send(BUSY).await.ok()?;
            } else {
                gate.acquire().await.ok()?.forget();
                peer.try_send(OK).await.ok()?;
            }
            Some(peer)
        }
    })
    .await;
    let plan = Plan::new(&[("m", &[0]), ("n", &[0, 1])])
        .server("s", 9.0, Some(4), backend.address)
        .server("other", 1.0, Some(3), other.backend.address)
        .settings(no_retries)
        .settings(|settings| settings.health.open_s = 0.1);
    let running = plan.serve("jfsq", 1).await;
    for _ in 0..5 {
        assert_eq!(call(running.address, get("m")).await.status(), 503);
    }
    eventually(|| health(&running, 0) == "probing").await;
    let mut peers = Vec::new();
    let mut ask = async |job_type: &str, jobs: [u64; 2]| {
        let mut peer = Peer::connect(running.address).await;
        peer.send(get(job_type)).await;
        let now = || running.gateway.status().servers.iter().map(|server| server.in_flight).collect::<Vec<_>>();
        eventually(|| now().iter().sum::<u64>() == jobs.iter().sum::<u64>()).await;
        assert_eq!(now(), jobs);
        peers.push(peer);
    };
    ask("m", [1, 0]).await;
    let refused = call(running.address, get("m")).await;
    assert_eq!((refused.status(), refused.error_code().as_str()), (503, "no_server_up"), "one probe at a time");
    held.add_permits(1);
    eventually(|| running.jobs() == 0).await;
    assert_eq!(health(&running, 0), "slow-start");
    // Two at a time, then what finds no place elsewhere; until both are full.
    for jobs in [[1, 0], [1, 1], [2, 1], [2, 2], [2, 3], [3, 3], [4, 3]] {
        ask("n", jobs).await;
    }
    assert_eq!(call(running.address, get("n")).await.error_code(), "no_capacity");
    held.add_permits(4);
    (0..3).for_each(|_| other.answer_one());
    for mut peer in peers {
        assert_eq!(peer.answer().await.status(), 200);
    }
    running.settled().await;
    running.stop().await;
}

#[tokio::test]
async fn slow_start_grows_with_time_and_can_be_turned_off() {
    for slow_start_s in [0.0, 0.4] {
        let script = Script::new(BUSY);
        let backend = script.serve().await;
        let plan = Plan::new(&[("m", &[0])]).server("s", 1.0, None, backend.address).settings(no_retries);
        let plan = plan.settings(|settings| {
            settings.health.open_s = 0.1;
            settings.health.slow_start_s = slow_start_s;
        });
        let running = plan.serve("jfsq", 1).await;
        for _ in 0..5 {
            assert_eq!(call(running.address, get("m")).await.status(), 503);
        }
        script.set(OK);
        eventually(|| health(&running, 0) == "probing").await;
        let began = Instant::now();
        assert_eq!(call(running.address, get("m")).await.status(), 200);
        // Nobody asks it anything.
        eventually(|| health(&running, 0) == "up").await;
        assert!(began.elapsed() >= Duration::from_secs_f64(slow_start_s / 4.0), "{:?}", began.elapsed());
        running.stop().await;
    }
}

#[tokio::test]
async fn a_server_that_fails_every_other_request_trips() {
    let turn = Arc::new(AtomicUsize::new(0));
    let backend = Backend::scripted(move |mut peer, _| {
        let answer = if turn.fetch_add(1, SeqCst).is_multiple_of(2) { BUSY } else { OK };
        async move {
            peer.try_send(answer).await.ok()?;
            Some(peer)
        }
    })
    .await;
    let plan = Plan::new(&[("m", &[0])]).server("s", 1.0, None, backend.address).settings(no_retries);
    let running = plan.settings(|settings| settings.health.open_s = 60.0).serve("jfsq", 1).await;
    for turn in 0..19 {
        assert_eq!(health(&running, 0), "up");
        assert_eq!(call(running.address, get("m")).await.status(), if turn % 2 == 0 { 503 } else { 200 });
        running.settled().await;
    }
    assert_eq!((health(&running, 0), backend.requests()), ("tripped", 19), "ten of twenty");
    running.stop().await;
}

#[tokio::test]
async fn a_server_that_answers_500_is_left_alone_by_those_that_have_another_and_stays_for_those_that_have_not() {
    let ill = Backend::replying("HTTP/1.1 500 Dead\r\ncontent-length: 0\r\n\r\n").await;
    let well = Backend::replying(OK).await;
    let plan = Plan::new(&[("m", &[0, 1]), ("only", &[0])])
        .server("ill", 9.0, None, ill.address)
        .server("well", 1.0, None, well.address)
        .settings(no_retries)
        .settings(|settings| settings.health.open_s = 60.0);
    let running = plan.serve("jfsq", 1).await;
    for _ in 0..20 {
        assert_eq!(call(running.address, get("only")).await.status(), 500, "its own answer");
    }
    assert_eq!(health(&running, 0), "up", "a request may be what makes it fail");
    let statuses: Vec<u16> = {
        let mut statuses = Vec::new();
        for _ in 0..20 {
            statuses.push(call(running.address, get("m")).await.status());
        }
        statuses
    };
    assert_eq!(statuses.iter().filter(|&&status| status == 500).count(), 5, "{statuses:?}");
    assert_eq!((health(&running, 0), well.requests()), ("up", 15));
    assert_eq!(running.gateway.status().servers[0].lost, ["m"]);
    assert_eq!(call(running.address, get("only")).await.status(), 500);
    running.stop().await;
    let running = plan.settings(|settings| settings.health.trip_status = vec![503]).serve("jfsq", 1).await;
    for _ in 0..20 {
        assert_eq!(call(running.address, get("m")).await.status(), 500);
    }
    running.stop().await;
}

#[tokio::test]
async fn a_stream_from_before_is_not_the_probe() {
    let script = Script::new("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nbegun");
    let backend = script.serve().await;
    let plan = Plan::new(&[("m", &[0])]).server("s", 1.0, None, backend.address).settings(no_retries).settings(|s| {
        s.health.open_s = 0.1;
    });
    let running = plan.serve("jfsq", 1).await;
    let mut streams = Vec::new();
    for _ in 0..3 {
        let mut peer = Peer::connect(running.address).await;
        peer.send(get("m")).await;
        assert_eq!(peer.head().await.unwrap().status(), 200);
        streams.push(peer);
    }
    script.set(BUSY);
    for _ in 0..5 {
        assert_eq!(call(running.address, get("m")).await.status(), 503);
    }
    eventually(|| health(&running, 0) == "probing").await;
    // Two of the three leave: their places are not places for probes.
    streams.truncate(1);
    eventually(|| running.jobs() == 1).await;
    script.set("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n");
    let mut probe = Peer::connect(running.address).await;
    probe.send(get("m")).await;
    eventually(|| health(&running, 0) == "slow-start").await;
    assert_eq!(running.jobs(), 2, "the stream, and the probe beside it");
    drop((streams, probe));
    running.settled().await;
    running.stop().await;
}

#[tokio::test]
async fn a_server_that_breaks_off_every_answer_trips_too() {
    let script = Script::new("HTTP/1.1 200 OK\r\ncontent-length: 100\r\nconnection: close\r\n\r\nhalf");
    let answer = script.0.clone();
    let backend = Backend::scripted(move |mut peer, _| {
        let answer = answer.lock().unwrap().clone();
        async move {
            peer.try_send(answer).await.ok()?;
            None
        }
    })
    .await;
    let plan = Plan::new(&[("m", &[0])]).server("s", 1.0, None, backend.address).settings(no_retries);
    let running = plan.serve("jfsq", 1).await;
    for _ in 0..5 {
        assert_eq!(health(&running, 0), "up");
        let mut peer = Peer::connect(running.address).await;
        peer.send(get("m")).await;
        peer.try_answer().await.expect_err("half an answer");
        running.settled().await;
    }
    assert_eq!(health(&running, 0), "tripped");
    running.stop().await;
}

#[tokio::test]
async fn a_server_that_says_retry_after_is_left_alone_for_so_long() {
    for status in ["503 Busy"] {
        let script = Script::new(&format!("HTTP/1.1 {status}\r\nretry-after: 1\r\ncontent-length: 0\r\n\r\n"));
        let backend = script.serve().await;
        let plan = Plan::new(&[("m", &[0])]).server("s", 1.0, None, backend.address).settings(no_retries);
        let running = plan.serve("jfsq", 1).await;
        let paused = Instant::now();
        assert_eq!(call(running.address, get("m")).await.header("retry-after"), Some("1"), "it is passed on");
        script.set(OK);
        let mut refused = 0;
        let answer = loop {
            let answer = call(running.address, get("m")).await;
            if answer.status() == 200 {
                break answer;
            }
            assert_eq!((answer.error_code().as_str(), answer.header("retry-after")), ("no_server_up", Some("1")));
            refused += 1;
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        assert_eq!(answer.header("x-served-by"), Some("s"));
        assert!(refused > 0 && paused.elapsed() >= Duration::from_secs(1), "{refused} in {:?}", paused.elapsed());
        assert_eq!(backend.requests(), 2);
        running.stop().await;
    }
}

#[tokio::test]
async fn checks_take_a_server_down_and_bring_it_back() {
    let script = Script::new("HTTP/1.1 500 Ill\r\ncontent-length: 0\r\n\r\n");
    let (ill, well) = (script.serve().await, Backend::replying(OK).await);
    let plan =
        Plan::new(&[("m", &[0, 1])]).server("ill", 9.0, None, ill.address).server("well", 1.0, None, well.address);
    let plan = plan.settings(|settings| {
        settings.health.checks = Some(Checks { interval_s: 0.05, ..Checks::of("/health") });
        settings.health.slow_start_s = 1e6;
    });
    let running = plan.serve("jfsq", 1).await;
    eventually(|| health(&running, 0) == "down").await;
    assert_eq!(health(&running, 1), "up");
    for _ in 0..20 {
        assert_eq!(call(running.address, get("m")).await.header("x-served-by"), Some("well"));
    }
    script.set(OK);
    eventually(|| health(&running, 0) == "slow-start").await;
    for _ in 0..1 + 2 + 4 + 8 {
        assert_eq!(call(running.address, get("m")).await.header("x-served-by"), Some("ill"));
    }
    assert_eq!(health(&running, 0), "up");
    // One that does not answer at all.
    drop(ill);
    eventually(|| health(&running, 0) == "down").await;
    running.stop().await;
}

#[tokio::test]
async fn the_operator_is_answered_in_json() {
    let backend = Backend::replying(OK).await;
    let running = Plan::new(&[("m", &[0])]).server("gpu 1", 1.0, None, backend.address).serve("jfsq", 1).await;
    let said = |answer: &Message| serde_json::from_slice::<serde_json::Value>(&answer.body).unwrap();
    for (word, condition) in [("drain", "draining"), ("down", "down"), ("up", "up")] {
        let answer = order(&running, "POST", &format!("/servers/gpu%201/{word}")).await;
        let expected = serde_json::json!({ "server": "gpu 1", "health": condition, "in_flight": 0 });
        assert_eq!((answer.status(), said(&answer)), (200, expected));
        let status = &running.gateway.status().servers[0];
        assert_eq!((status.health, status.up), (condition, word == "up"));
        let metric = format!("shortline_server_health{{server=\"gpu 1\",health=\"{condition}\"}}");
        assert_eq!(running.metric(&metric).await, u64::from(word != "up"));
    }
    let unknown = order(&running, "POST", "/servers/gpu-2/drain").await;
    assert_eq!((unknown.status(), unknown.error_code().as_str()), (404, "unknown_server"));
    let read = order(&running, "GET", "/servers/gpu%201/drain").await;
    assert_eq!((read.status(), read.error_code().as_str()), (405, "method_not_allowed"));
    assert_eq!(read.header("allow"), Some("POST"));
    assert!((404..=405).contains(&order(&running, "POST", "/servers/gpu%201/dance").await.status()));
    running.stop().await;
}

#[tokio::test]
async fn the_operators_word_wins_over_good_checks_and_good_answers() {
    let backend = Backend::replying(OK).await;
    let plan = Plan::new(&[("m", &[0])]).server("s", 1.0, None, backend.address).settings(|settings| {
        settings.health.checks = Some(Checks { interval_s: 0.02, ..Checks::of("/health") });
    });
    let running = plan.serve("jfsq", 1).await;
    for word in ["drain", "down"] {
        order(&running, "POST", &format!("/servers/s/{word}")).await;
        let checked = backend.requests();
        eventually(|| backend.requests() >= checked + 5).await;
        assert_eq!(call(running.address, get("m")).await.error_code(), "no_server_up");
    }
    order(&running, "POST", "/servers/s/up").await;
    assert_eq!(call(running.address, get("m")).await.status(), 200);
    running.stop().await;
}

#[tokio::test]
async fn a_stream_of_twenty_minutes_finishes_while_its_server_drains() {
    let (next, chunks) = tokio::sync::mpsc::unbounded_channel::<&'static str>();
    let chunks = Arc::new(tokio::sync::Mutex::new(chunks));
    let backend = Backend::scripted(move |mut peer, _| {
        let chunks = Arc::clone(&chunks);
        async move {
            peer.try_send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await.ok()?;
            while let Some(chunk) = chunks.lock().await.recv().await {
                peer.try_send(chunk).await.ok()?;
            }
            None
        }
    })
    .await;
    let running = Plan::new(&[("m", &[0])]).server("s", 1.0, None, backend.address).serve("jfsq", 1).await;
    let mut client = Peer::connect(running.address).await;
    client.send(get("m")).await;
    assert_eq!(client.head().await.unwrap().status(), 200);
    order(&running, "POST", "/servers/s/drain").await;
    for minute in 0..20 {
        next.send("4\r\ntick\r\n").unwrap();
        assert_eq!(client.chunk().await.unwrap(), b"tick", "minute {minute}");
        let status = &running.gateway.status().servers[0];
        assert_eq!((status.health, status.in_flight), ("draining", 1), "minute {minute}");
        // The clock stands still but for this, so that no timer rings while sockets are read.
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(30)).await;
        tokio::time::resume();
        next.send("4\r\ntock\r\n").unwrap();
        assert_eq!(client.chunk().await.unwrap(), b"tock", "minute {minute}");
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(30)).await;
        tokio::time::resume();
    }
    assert_eq!(call(running.address, get("m")).await.error_code(), "no_server_up", "new ones are refused");
    next.send("0\r\n\r\n").unwrap();
    assert_eq!(client.chunk().await.unwrap(), b"");
    running.settled().await;
    assert_eq!(backend.requests(), 1);
    running.stop().await;
}

const NO_MODEL: &str =
    r#"{"error":{"message":"The model `a` does not exist.","type":"NotFoundError","param":"model","code":404}}"#;

fn not_found(body: &str) -> String {
    format!("HTTP/1.1 404 Not Found\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// Does not have model `a` until it is told that it has.
async fn forgetful(has: Arc<std::sync::atomic::AtomicBool>, says: String) -> Backend {
    Backend::scripted(move |mut peer, head| {
        let (has, says) = (Arc::clone(&has), says.clone());
        async move {
            let lacks = head.header("x-job-type") == Some("a") && !has.load(SeqCst);
            peer.body(head, false).await.ok()?;
            peer.try_send(if lacks { says.as_str() } else { OK }).await.ok()?;
            Some(peer)
        }
    })
    .await
}

#[tokio::test]
async fn a_server_that_lost_a_model_loses_that_job_type_only_and_is_asked_again_later() {
    let has = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let (lost, good) = (forgetful(Arc::clone(&has), not_found(NO_MODEL)).await, Backend::replying(OK).await);
    let plan = Plan::new(&[("a", &[0, 1]), ("b", &[0, 1])])
        .server("lost", 9.0, None, lost.address)
        .server("good", 1.0, None, good.address)
        .settings(|settings| settings.health.model_lost_s = 1.0);
    let running = plan.serve("jfsq", 1).await;
    let since = Instant::now();
    for _ in 0..10 {
        let post = get("a").replace("GET", "POST").replace("\r\n\r\n", "\r\ncontent-length: 0\r\n\r\n");
        let answer = call(running.address, post).await;
        assert_eq!((answer.status(), answer.header("x-served-by")), (200, Some("good")));
        assert_eq!(call(running.address, get("b")).await.header("x-served-by"), Some("lost"));
    }
    assert!(since.elapsed() < Duration::from_secs(1), "too slow a machine for this test: {:?}", since.elapsed());
    assert_eq!(lost.requests(), 1 + 10, "asked once for `a`");
    let status = running.gateway.status();
    assert_eq!((&status.servers[0].lost, status.servers[0].health), (&vec!["a".to_owned()], "up"));
    assert_eq!(running.metric("shortline_retries_total{reason=\"model_lost\"}").await, 1);
    // It has not come back: away for twice as long.
    eventually(|| running.gateway.status().servers[0].lost.is_empty()).await;
    assert_eq!(call(running.address, get("a")).await.header("x-served-by"), Some("good"));
    let again = Instant::now();
    has.store(true, SeqCst);
    eventually(|| running.gateway.status().servers[0].lost.is_empty()).await;
    assert!(again.elapsed() >= Duration::from_millis(1950), "{:?}", again.elapsed());
    assert_eq!(call(running.address, get("a")).await.header("x-served-by"), Some("lost"));
    running.stop().await;
}

#[tokio::test]
async fn what_no_server_has_is_not_lost_they_say_so_themselves_until_one_has_it() {
    let has: [Arc<std::sync::atomic::AtomicBool>; 3] = Default::default();
    let mut backends = Vec::new();
    for has in &has {
        backends.push(forgetful(Arc::clone(has), not_found(NO_MODEL)).await);
    }
    for servers in [&[0][..], &[0, 1, 2]] {
        let mut plan = Plan::new(&[("a", servers), ("b", servers)]);
        for (number, &rate) in [9.0, 3.0, 1.0].iter().enumerate().take(servers.len()) {
            plan = plan.server(&format!("s{number}"), rate, None, backends[number].address);
        }
        let plan = plan.settings(|settings| settings.retry.attempts = 9);
        let running = plan.serve("jfsq", 1).await;
        for _ in 0..3 {
            let answer = call(running.address, get("a")).await;
            assert_eq!((answer.status(), answer.text().as_str()), (404, NO_MODEL), "their own answer, whole");
            assert!(running.gateway.status().servers.iter().all(|server| server.lost.is_empty()));
            assert_eq!(call(running.address, get("b")).await.status(), 200);
        }
        has.iter().for_each(|has| has.store(true, SeqCst));
        assert_eq!(call(running.address, get("a")).await.header("x-served-by"), Some("s0"), "at once");
        has[0].store(false, SeqCst);
        if servers.len() > 1 {
            running.settled().await;
            assert_eq!(call(running.address, get("a")).await.header("x-served-by"), Some("s1"), "now it is s0's loss");
            assert_eq!(running.gateway.status().servers[0].lost, ["a"]);
        }
        has.iter().for_each(|has| has.store(false, SeqCst));
        running.stop().await;
    }
}

#[tokio::test]
async fn a_clients_typo_takes_no_server_off_a_job_type() {
    const TYPO: &str = r#"{"error":{"message":"The model `typo` does not exist.","type":"NotFoundError","code":404}}"#;
    let says = not_found(TYPO);
    let server = || {
        Backend::scripted({
            let says = says.clone();
            move |mut peer, head| {
                let says = says.clone();
                async move {
                    let path = head.first.clone();
                    let message = peer.body(head, false).await.ok()?;
                    let is_typo = path.contains("typo") || message.text().contains("typo");
                    peer.try_send(if is_typo { says.as_str() } else { OK }).await.ok()?;
                    Some(peer)
                }
            }
        })
    };
    let (a, b) = (server().await, server().await);
    let plan = Plan::new(&[("m", &[0, 1])]).server("a", 9.0, None, a.address).server("b", 1.0, None, b.address);
    let running = plan.serve("jfsq", 1).await;
    let body = r#"{"model":"typo"}"#;
    let length = body.len();
    let requests = [
        format!("POST /v1/chat HTTP/1.1\r\nhost: h\r\nx-job-type: m\r\ncontent-length: {length}\r\n\r\n{body}"),
        "GET /v1/models/typo HTTP/1.1\r\nhost: h\r\nx-job-type: m\r\n\r\n".to_owned(),
    ];
    for request in requests.iter().cycle().take(6) {
        let answer = call(running.address, request).await;
        assert_eq!((answer.status(), answer.text().as_str()), (404, TYPO));
    }
    assert_eq!((a.requests(), b.requests()), (6, 0), "nor is it sent around");
    assert!(running.gateway.status().servers.iter().all(|server| server.lost.is_empty()));
    let honest = call(running.address, post(r#"{"model":"m"}"#)).await;
    assert_eq!((honest.status(), honest.header("x-served-by")), (200, Some("a")));
    running.stop().await;
}

#[tokio::test]
async fn up_and_a_server_that_is_put_anew_begin_with_all_models() {
    let has = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let (lost, good) = (forgetful(Arc::clone(&has), not_found(NO_MODEL)).await, Backend::replying(OK).await);
    let plan = Plan::new(&[("a", &[0, 1]), ("b", &[0, 1])]).server("lost", 9.0, None, lost.address).server(
        "good",
        1.0,
        None,
        good.address,
    );
    let running = plan.serve("jfsq", 1).await;
    let lost_now = || running.gateway.status().servers.iter().map(|server| server.lost.len()).sum::<usize>();
    let gauge = "shortline_lost_models{server=\"lost\"}";
    let lose = async || {
        assert_eq!(call(running.address, get("a")).await.header("x-served-by"), Some("good"));
        assert_eq!((lost_now(), running.metric(gauge).await), (1, 1));
    };
    lose().await;
    for word in ["drain", "down"] {
        order(&running, "POST", &format!("/servers/lost/{word}")).await;
        assert_eq!(lost_now(), 1);
    }
    order(&running, "POST", "/servers/lost/up").await;
    assert_eq!((lost_now(), running.metric(gauge).await), (0, 0));
    lose().await;
    assert_eq!(order(&running, "DELETE", "/servers/lost").await.status(), 200);
    let body = format!(r#"{{"type":"type of lost","address":"{}","serves":["*"]}}"#, lost.address);
    let put = format!("PUT /servers/lost HTTP/1.1\r\nhost: a\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    assert_eq!(call(running.admin, put).await.status(), 200);
    assert_eq!(lost_now(), 0);
    lose().await;
    order(&running, "POST", "/servers/lost/up").await;
    has.store(true, SeqCst);
    assert_eq!(call(running.address, get("a")).await.header("x-served-by"), Some("lost"));
    running.stop().await;
}

#[tokio::test]
async fn a_server_at_another_address_begins_anew() {
    let (ill, well) = (Backend::replying(BUSY).await, Backend::replying(OK).await);
    let plan = Plan::new(&[("m", &[0])]).server("s", 1.0, None, ill.address).settings(no_retries);
    let running = plan.settings(|settings| settings.health.open_s = 60.0).serve("jfsq", 1).await;
    for _ in 0..5 {
        assert_eq!(call(running.address, get("m")).await.status(), 503);
    }
    let put = |address: std::net::SocketAddr| PutServer {
        name: "s".into(),
        server_type: "type of s".into(),
        address: address.to_string().parse().unwrap(),
        serves: vec!["m".into()],
        buffer: None,
    };
    running.gateway.put_server(put(ill.address)).unwrap();
    assert_eq!(health(&running, 0), "tripped");
    running.gateway.put_server(put(well.address)).unwrap();
    assert_eq!(health(&running, 0), "up");
    assert_eq!(call(running.address, get("m")).await.status(), 200);
    running.stop().await;
}

#[tokio::test]
async fn another_404_is_just_an_answer() {
    let long = format!(r#"{{"error":"model not found","padding":"{}"}}"#, "x".repeat(100_000));
    for body in [r#"{"detail":"Not Found"}"#, "", "model not found", &long] {
        let lost = forgetful(Arc::default(), not_found(body)).await;
        let running = Plan::new(&[("a", &[0])]).server("s", 1.0, None, lost.address).serve("jfsq", 1).await;
        for _ in 0..3 {
            let answer = call(running.address, get("a")).await;
            assert_eq!((answer.status(), answer.text() == body), (404, true));
        }
        running.settled().await;
        running.stop().await;
    }
}
