//! How the gateway learns what kind of job a request is.

use shortline_core::fleet::settings::{JobTypeSource, Route, RouteMatch};

use crate::support::{Backend, Peer, Plan, Running, call, get, post};

async fn two_types(change: impl FnOnce(&mut shortline_core::fleet::settings::Settings)) -> (Running, Backend) {
    let backend = Backend::echo().await;
    let plan = Plan::new(&[("a", &[0]), ("b", &[0])]).server("s", 1.0, None, backend.address).settings(change);
    (plan.serve("jfsq", 1).await, backend)
}

/// Arrivals of job types a and b so far.
async fn arrivals(running: &Running) -> (u64, u64) {
    let ok = |l| format!("shortline_requests_total{{job_type=\"{l}\",outcome=\"ok\"}}");
    (running.metric(&ok("a")).await, running.metric(&ok("b")).await)
}

fn routes() -> Vec<Route> {
    vec![
        Route { matches: RouteMatch::PathPrefix("/b".into()), job_type: 1 },
        Route { matches: RouteMatch::PathPrefix("/b/a".into()), job_type: 0 },
        Route { matches: RouteMatch::Host("b.example".into()), job_type: 1 },
    ]
}

#[tokio::test]
async fn header_path_model_and_host_name_the_job_type_in_this_order() {
    let (running, _backend) = two_types(|s| s.routes = routes()).await;
    let request = |path: &str, host: &str, header: &str, body: &str| {
        format!("POST {path} HTTP/1.1\r\nhost: {host}\r\n{header}content-length: {}\r\n\r\n{body}", body.len())
    };
    let header = "x-job-type: a\r\n";
    let (model_a, model_b) = (r#"{"model":"a"}"#, r#"{"model":"b"}"#);
    for (request, expected) in [
        (request("/b", "b.example", header, model_b), (1, 0)),
        (request("/b/x", "a", "", model_a), (1, 1)),
        (request("/b/a", "a", "", model_b), (2, 1)),
        (request("/", "b.example:80", "", model_a), (3, 1)),
        (request("/", "b.example:80", "", "no JSON"), (3, 2)),
        (request("/", "B.example", "", r#"{"x":{"model":"a"}}"#), (3, 3)),
    ] {
        let answer = call(running.address, &request).await;
        assert_eq!(answer.status(), 200, "{request}\n{}", answer.text());
        assert_eq!(arrivals(&running).await, expected, "{request}");
    }
    running.stop().await;
}

#[tokio::test]
async fn the_order_is_configurable() {
    use JobTypeSource::{Header, Model};
    let (running, _backend) = two_types(|s| s.gateway.job_type_from = vec![Model, Header]).await;
    let body = r#"{"model":"b"}"#;
    let request =
        format!("POST / HTTP/1.1\r\nhost: h\r\nx-job-type: a\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    assert_eq!(call(running.address, request).await.status(), 200);
    assert_eq!(call(running.address, get("a")).await.status(), 200);
    assert_eq!(arrivals(&running).await, (1, 1));
    running.stop().await;
}

#[tokio::test]
async fn a_server_is_told_the_job_type_that_the_request_does_not_name() {
    let (running, _backend) = two_types(|s| s.routes = routes()).await;
    let by_path = call(running.address, "GET /b HTTP/1.1\r\nhost: h\r\n\r\n").await.text();
    assert!(by_path.contains("\nx-job-type: b\n"), "{by_path}");
    let by_model = call(running.address, post(r#"{"model":"a"}"#)).await.text();
    assert!(!by_model.contains("x-job-type"), "{by_model}");
    running.stop().await;
}

#[tokio::test]
async fn unknown_and_missing_job_types_are_refused_without_a_call_to_a_server() {
    let (running, backend) = two_types(|_| {}).await;
    for _ in 0..100 {
        let unknown = call(running.address, get("nobody")).await;
        assert_eq!((unknown.status(), unknown.error_code().as_str()), (404, "unknown_job_type"));
        let unknown = call(running.address, post(r#"{"model":"nobody"}"#)).await;
        assert_eq!((unknown.status(), unknown.error_code().as_str()), (404, "unknown_job_type"));
        for body in [r#"{"x":1}"#, r#"{"model":1}"#, "{\"model\":", "[]", ""] {
            let missing = call(running.address, post(body)).await;
            assert_eq!((missing.status(), missing.error_code().as_str()), (400, "missing_job_type"), "{body}");
            assert!(missing.text().contains("x-job-type"), "{}", missing.text());
        }
    }
    assert_eq!((running.jobs(), backend.requests()), (0, 0));
    let metric = |l, o| format!("shortline_requests_total{{job_type=\"{l}\",outcome=\"{o}\"}}");
    assert_eq!(running.metric(&metric("", "unknown_job_type")).await, 200);
    assert_eq!(running.metric(&metric("", "missing_job_type")).await, 500);
    let text = call(running.admin, "GET /metrics HTTP/1.1\r\nhost: a\r\n\r\n").await.text();
    assert!(!text.contains("nobody"), "unknown names never become labels");
    running.stop().await;
}

/// Five megabytes of messages, then `model`.
fn five_megabytes() -> String {
    let message = r#"{"role":"user","content":"\"model\":\"x\" and é}] "},"#;
    let messages = message.repeat((5 << 20) / message.len());
    format!(r#"{{"messages":[{}],"model":"b"}}"#, messages.trim_end_matches(','))
}

#[tokio::test]
async fn a_model_behind_five_megabytes_of_messages_is_found_and_the_body_arrives_whole() {
    let (running, _backend) = two_types(|_| {}).await;
    let body = five_megabytes();
    let answer = call(running.address, post(&body)).await;
    assert_eq!(answer.status(), 200, "{}", answer.text());
    assert!(answer.text().ends_with(&format!("body of {} bytes", body.len())));
    assert_eq!(arrivals(&running).await, (0, 1));
    running.stop().await;
}

#[tokio::test]
async fn a_model_behind_the_limit_is_refused_with_the_way_out_and_the_header_is_one() {
    let (running, backend) = two_types(|s| s.gateway.body_scan_limit = 1 << 20).await;
    let body = five_megabytes();
    let refused = call(running.address, post(&body)).await;
    assert_eq!((refused.status(), refused.error_code().as_str()), (413, "body_too_large"));
    assert!(refused.text().contains("x-job-type"), "{}", refused.text());
    assert_eq!(backend.requests(), 0);
    let request =
        format!("POST / HTTP/1.1\r\nhost: h\r\nx-job-type: a\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let passed = call(running.address, request).await;
    assert!(passed.text().ends_with(&format!("body of {} bytes", body.len())));
    running.stop().await;
}

#[tokio::test]
async fn the_limit_is_exact() {
    let body = r#"{"model":"b","x":1}"#;
    let found_within = r#"{"model":"b""#.len() as u64;
    for (limit, status) in [(found_within, 200), (found_within - 1, 413)] {
        let (running, _backend) = two_types(|s| s.gateway.body_scan_limit = limit).await;
        assert_eq!(call(running.address, post(body)).await.status(), status, "limit {limit}");
        running.stop().await;
    }
}

#[tokio::test]
async fn a_chunked_upload_is_searched_chunk_by_chunk_and_streams_on() {
    let (running, _backend) = two_types(|_| {}).await;
    let mut peer = Peer::connect(running.address).await;
    peer.send("POST / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n").await;
    let body = r#"{"n":[1,{"model":"a"}],"mo\u0064el":"b","rest":"0123456789"}"#;
    for byte in body.as_bytes() {
        peer.send([&b"1\r\n"[..], &[*byte], b"\r\n"].concat()).await;
    }
    peer.send("0\r\n\r\n").await;
    let answer = peer.answer().await;
    assert!(answer.text().ends_with(&format!("body of {} bytes", body.len())), "{}", answer.text());
    assert_eq!(arrivals(&running).await, (0, 1));
    running.stop().await;
}

#[tokio::test]
async fn a_compressed_body_is_not_searched_and_the_refusal_says_so() {
    let (running, backend) = two_types(|_| {}).await;
    let body = r#"{"model":"a"}"#;
    let request = |encoding: &str, header: &str| {
        let length = body.len();
        format!(
            "POST / HTTP/1.1\r\nhost: h\r\n{header}content-encoding: {encoding}\r\ncontent-length: {length}\r\n\r\n{body}"
        )
    };
    let refused = call(running.address, request("gzip", "")).await;
    assert_eq!((refused.status(), refused.error_code().as_str()), (400, "missing_job_type"));
    assert!(refused.text().contains("compressed"), "{}", refused.text());
    assert_eq!(backend.requests(), 0);
    assert_eq!(call(running.address, request("identity", "")).await.status(), 200);
    assert_eq!(call(running.address, request("gzip", "x-job-type: b\r\n")).await.status(), 200);
    running.stop().await;
}
