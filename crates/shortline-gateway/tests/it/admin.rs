//! The admin pages.

use std::sync::Arc;
use std::time::{Duration, Instant};

use shortline_gateway::{Bound, Gateway, Options, StartError};

use crate::support::{Backend, Holding, OK, PATIENCE, Peer, Plan, Running, call, eventually, get};

fn page(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n")
}

#[tokio::test]
async fn status_has_the_promised_form() {
    let holding = Holding::start().await;
    let plan = Plan::new(&[("a", &[0]), ("b", &[1, 0])]).server("slow", 1.5, Some(4), holding.backend.address).server(
        "fast",
        3.0,
        None,
        holding.backend.address,
    );
    let bound = |_: &shortline_core::Fleet, rates: &[f64]| {
        Some(Bound { kind: "fluid".into(), mean_response_s: rates.len() as f64 })
    };
    let options = Options { bound: Some(Arc::new(bound)), ..Options::new(plan.fleet()) };
    let running = Running::start(Gateway::new(options).unwrap(), PATIENCE).await;
    let mut peers = Vec::new();
    for n in 1..=2 {
        let mut peer = Peer::connect(running.address).await;
        peer.send(get("a")).await;
        eventually(|| running.jobs() == n).await;
        peers.push(peer);
    }
    let answer = call(running.admin, page("/status")).await;
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let mut status: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    assert!(status["uptime_s"].as_f64().unwrap() > 0.0);
    status["uptime_s"] = 0.into();
    let expected = serde_json::json!({
        "policy": "jfsq", "uptime_s": 0, "epoch": 0, "waiting_total": 0,
        "servers": [
            { "name": "slow", "type": "type of slow", "up": true, "health": "up", "lost": [], "in_flight": 2, "waiting": 1, "slots": 1, "buffer": 4, "speed": 1.5, "routed_total": 2 },
            { "name": "fast", "type": "type of fast", "up": true, "health": "up", "lost": [], "in_flight": 0, "waiting": 0, "slots": 1, "buffer": null, "speed": 3.0, "routed_total": 0 },
        ],
        "job_types": [
            { "name": "a", "arrival_rate_per_s": 0.0, "waiting": 0, "mean_response_s": null, "blocked_total": 0, "no_server_total": 0, "queue_timeout_total": 0 },
            { "name": "b", "arrival_rate_per_s": 0.0, "waiting": 0, "mean_response_s": null, "blocked_total": 0, "no_server_total": 0, "queue_timeout_total": 0 },
        ],
        "bound": { "kind": "fluid", "mean_response_s": 2.0 },
    });
    assert_eq!(status, expected);
    running.trigger.end();
    running.ended().await;
}

#[tokio::test]
async fn arrival_rates_are_measured() {
    let backend = Backend::replying(OK).await;
    let plan = Plan::new(&[("m", &[0])]).server("s", 1.0, None, backend.address);
    let running = plan.serve("jfsq", 1).await;
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(2500) {
        call(running.address, get("m")).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let sent = backend.requests() as f64 / began.elapsed().as_secs_f64();
    let status = running.gateway.status();
    let measured = status.job_types[0].arrival_rate_per_s;
    assert!(measured > sent / 2.0 && measured < sent * 2.0, "{measured} measured, {sent} sent");
    let mean = status.job_types[0].mean_response_s.unwrap();
    assert!(mean > 0.0 && mean < 0.1, "{mean}");
    running.stop().await;
}

#[tokio::test]
async fn health_readiness_metrics_and_what_there_is_not() {
    let backend = Backend::replying(OK).await;
    let plan = Plan::new(&[("m", &[0])]).server("s", 1.0, None, backend.address);
    let running = plan.serve("jfsq", 1).await;
    call(running.address, get("m")).await;
    assert_eq!(call(running.admin, page("/healthz")).await.status(), 200);
    assert_eq!(call(running.admin, page("/readyz")).await.status(), 200);
    let missing = call(running.admin, page("/fleets")).await;
    assert_eq!((missing.status(), missing.error_code().as_str()), (404, "not_found"));
    assert!(missing.text().contains("/status"));
    let metrics = call(running.admin, page("/metrics")).await;
    assert!(metrics.header("content-type").unwrap().starts_with("application/openmetrics-text"));
    let text = metrics.text();
    for sample in [
        "shortline_requests_total{job_type=\"m\",outcome=\"ok\"} 1",
        "shortline_decisions_total{kind=\"idle-fastest\"} 1",
        "shortline_decisions_total{kind=\"blocked\"} 0",
        "shortline_response_seconds_count 1",
        "shortline_response_seconds_bucket{le=\"+Inf\"} 1",
        "shortline_waiting_seconds_bucket{le=\"0.001\"} 1",
        "shortline_decision_seconds_count 1",
        "shortline_in_flight{server=\"s\"} 0",
        "shortline_server_up{server=\"s\"} 1",
        "shortline_routed_total{server=\"s\"} 1",
        "shortline_waiting{job_type=\"m\"} 0",
        "# EOF",
    ] {
        assert!(text.lines().any(|line| line == sample), "no `{sample}` in\n{text}");
    }
    running.stop().await;
}

#[test]
fn a_gateway_that_cannot_work_says_what_is_missing() {
    let fleet = Plan::new(&[("m", &[0])]).server("s", 1.0, None, "127.0.0.1:1".parse().unwrap()).fleet();
    let start = |options| Gateway::new(options).unwrap_err();
    let addresses = Some(Vec::new());
    assert!(matches!(
        start(Options { addresses, ..Options::new(fleet.clone()) }),
        StartError::AddressCount { given: 0, servers: 1 }
    ));
    let mut https = shortline_core::fleet::settings::Address::new(true, "h", 443);
    https.tls_name = Some("no name".into());
    let error = start(Options { addresses: Some(vec![https]), ..Options::new(fleet) });
    assert!(error.to_string().contains("https://h:443: `no name` is no name for TLS"), "{error}");
}

#[tokio::test]
async fn the_dashboard_shows_servers_and_job_types_and_loads_nothing() {
    let holding = Holding::start().await;
    let plan = Plan::new(&[("a model", &[0])]).server("gpu <1>", 1.0, Some(4), holding.backend.address);
    let running = plan.serve("jfsq", 1).await;
    let mut peer = Peer::connect(running.address).await;
    peer.send(get("a model")).await;
    eventually(|| running.jobs() == 1).await;
    assert!(running.gateway.set_up("gpu <1>", false));
    let answer = call(running.admin, page("/")).await;
    assert_eq!((answer.status(), answer.header("content-type")), (200, Some("text/html; charset=utf-8")));
    let text = answer.text();
    assert!(text.contains("gpu &lt;1&gt;") && text.contains("a model") && text.contains("0 of 1"), "{text}");
    assert!(text.contains("http-equiv=\"refresh\"") && !text.contains("<script") && !text.contains("src="), "{text}");
    assert!(running.gateway.set_up("gpu <1>", true));
    holding.answer_one();
    assert_eq!(peer.answer().await.text(), "ok");
    drop(peer);
    running.settled().await;
    running.stop().await;
}

#[tokio::test]
async fn fleet_is_a_fleet_file_with_the_measured_rates_and_the_policy_in_use() {
    let backend = Backend::replying(OK).await;
    let plan = Plan::new(&[("m", &[0]), ("n \"é\"", &[0, 1])])
        .server("s", 1.5, Some(4), backend.address)
        .server("t", 3.0, None, "[::1]:1".parse().unwrap())
        .rate(1, 0, 0.1);
    let running = plan.serve("sed", 1).await;
    let read = |text: &str| {
        let source = shortline_core::fleet::Source { name: "now.toml", text };
        let no_file = |_: &str| Err(std::io::ErrorKind::NotFound.into());
        shortline_core::fleet::read(&source, &no_file)
            .unwrap_or_else(|faults| panic!("{}\n{text}", faults.plain()))
            .fleet
    };
    let rate = |fleet: &shortline_core::Fleet, l| fleet.arrival_rate(shortline_core::JobTypeId::new(l));
    let began = Instant::now();
    while running.gateway.status().job_types[0].arrival_rate_per_s <= 0.0 || began.elapsed() < Duration::from_secs(2) {
        call(running.address, get("m")).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let answer = call(running.admin, page("/fleet")).await;
    assert_eq!(answer.header("content-type"), Some("application/toml; charset=utf-8"));
    let now = read(&answer.text());
    let sent = backend.requests() as f64 / began.elapsed().as_secs_f64();
    let measured = rate(&now, 0).unwrap();
    assert!(measured > sent / 2.0 && measured < sent * 2.0, "{measured} measured, {sent} sent");
    assert_eq!(rate(&now, 1), Some(0.0));
    let parts = now.to_parts();
    assert_eq!(parts.settings.policy.map(|policy| policy.to_string()).as_deref(), Some("sed"));
    let written = plan.fleet().to_parts();
    assert_eq!((parts.servers, parts.server_types), (written.servers, written.server_types), "speeds by pair stay");
    assert_eq!((parts.edges, parts.rates), (written.edges, written.rates));
    running.stop().await;
}

/// The times of 40 requests of at least 20 ms; what a busy machine adds makes them longer, never shorter.
#[tokio::test]
async fn fleet_has_the_sizes_and_speeds_that_make_the_measured_times() {
    let backend = Backend::scripted(|mut peer, head| async move {
        peer.body(head, false).await.ok()?;
        tokio::time::sleep(Duration::from_millis(20)).await;
        peer.try_send(OK).await.ok()?;
        Some(peer)
    })
    .await;
    let plan = Plan::new(&[("m", &[0])]).server("s", 4.0, None, backend.address);
    let running = plan.serve("jfsq", 1).await;
    for _ in 0..29 {
        call(running.address, get("m")).await;
    }
    running.settled().await;
    let few = call(running.admin, page("/fleet")).await.text();
    assert!(few.contains("0 of 1 sizes") && few.contains("0 of 1 speeds"), "{few}");
    for _ in 29..40 {
        call(running.address, get("m")).await;
    }
    running.settled().await;
    let text = call(running.admin, page("/fleet")).await.text();
    assert!(
        text.contains("1 of 1 sizes") && text.contains("1 of 1 speeds, from 40 jobs that found a free slot"),
        "{text}"
    );
    let source = shortline_core::fleet::Source { name: "now.toml", text: &text };
    let no_file = |_: &str| Err(std::io::ErrorKind::NotFound.into());
    let fleet =
        shortline_core::fleet::read(&source, &no_file).unwrap_or_else(|faults| panic!("{}", faults.plain())).fleet;
    let (l, m) = (shortline_core::JobTypeId::new(0), shortline_core::ServerTypeId::new(0));
    assert!((fleet.rate(l, m) - 4.0).abs() < 1e-9, "the scale is the file's");
    let time_s = fleet.size(l) / fleet.rate(l, m);
    assert!((0.02..0.5).contains(&time_s), "{time_s}");
    running.stop().await;
}

#[tokio::test]
async fn what_a_path_takes_is_said_and_a_path_that_is_none_is_not_found() {
    let backend = Backend::replying(OK).await;
    let running = Plan::new(&[("m", &[0])]).server("s", 1.0, None, backend.address).serve("jfsq", 1).await;
    let ask = async |method: &str, path: &str| {
        call(running.admin, format!("{method} {path} HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n")).await
    };
    let wrong_methods = [
        ("GET", "/reload", "POST"),
        ("DELETE", "/reload", "POST"),
        ("GET", "/servers/s", "PUT, DELETE"),
        ("POST", "/servers/s", "PUT, DELETE"),
        ("GET", "/servers/s/drain", "POST"),
        ("PUT", "/status", "GET, HEAD"),
    ];
    for (method, path, allowed) in wrong_methods {
        let refused = ask(method, path).await;
        assert_eq!((refused.status(), refused.header("allow")), (405, Some(allowed)), "{method} {path}");
    }
    for (method, path, words) in [
        ("POST", "/servers/s/dance", "drain, down and up"),
        ("PUT", "/servers/s/dance", "drain, down and up"),
        ("PUT", "/servers/", "PUT or DELETE /servers/NAME"),
        ("POST", "/reloads", "POST /reload"),
    ] {
        let missing = ask(method, path).await;
        assert_eq!((missing.status(), missing.error_code().as_str()), (404, "not_found"), "{method} {path}");
        assert!(missing.text().contains(words), "{}", missing.text());
    }
    running.stop().await;
}
