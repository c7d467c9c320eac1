//! How answers count that say how they ended at their end.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response};
use http_body_util::{BodyExt, Full};
use shortline_core::fleet::settings::Protocol;

use crate::http2::{H2Backend, client, grpc, in_time, text};
use crate::support::{Backend, Plan, Running, call, get};

async fn ended(running: &Running, outcome: &str) -> u64 {
    running.metric(&format!("shortline_requests_total{{job_type=\"m\",outcome=\"{outcome}\"}}")).await
}

#[tokio::test]
async fn an_answer_with_trailers_counts_as_whole_whether_or_not_the_client_takes_them() {
    for declared in ["", "trailer: x-sum\r\n"] {
        let backend = Backend::replying(format!(
            "HTTP/1.1 200 OK\r\n{declared}transfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nx-sum: 1\r\n\r\n"
        ))
        .await;
        let running = Plan::new(&[("m", &[0])]).server("s", 1.0, None, backend.address).serve("jfsq", 1).await;
        let takes = get("m").replace("host: test", "host: test\r\nte: trailers\r\nconnection: te");
        for (n, request) in [(1, get("m")), (2, takes)] {
            assert_eq!(call(running.address, request).await.text(), "ok");
            running.settled().await;
            assert_eq!((ended(&running, "ok").await, ended(&running, "client_abort").await), (n, 0), "{declared:?}");
        }
        assert_eq!(backend.connections(), 1, "the connection is kept");
        assert!(running.gateway.status().job_types[0].mean_response_s.is_some());
        running.stop().await;
    }
}

/// A gRPC server that ends every call with these headers, all in its head.
async fn grpc_server(headers: &'static [(&'static str, &'static str)]) -> H2Backend {
    H2Backend::serving(100, move |request| async move {
        request.into_body().collect().await.unwrap();
        let mut answer = Response::new(Full::new(Bytes::new()).boxed());
        answer.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
        for (name, value) in headers {
            answer.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        answer
    })
    .await
}

async fn ask(running: &Running) -> HeaderMap {
    let mut sender = client(running.address).await;
    let request = grpc("m").body(Full::new(Bytes::from_static(b"\0\0\0\0\0"))).unwrap();
    let answer = in_time(sender.send_request(request)).await.unwrap();
    let headers = answer.headers().clone();
    in_time(answer.into_body().collect()).await.unwrap();
    headers
}

#[tokio::test]
async fn a_grpc_call_counts_as_its_status_says_and_not_as_the_200_in_front() {
    for (status, outcome) in
        [("0", "ok"), ("5", "server_4xx"), ("8", "server_4xx"), ("13", "server_5xx"), ("14", "server_5xx")]
    {
        let headers: &'static [_] = Box::leak(Box::new([("grpc-status", status)]));
        let backend = grpc_server(headers).await;
        let running = Plan::new(&[("m", &[0])])
            .server("s", 1.0, None, backend.address)
            .protocol(Protocol::Http2)
            .serve("jfsq", 1)
            .await;
        assert_eq!(ask(&running).await["grpc-status"], status);
        running.settled().await;
        assert_eq!(ended(&running, outcome).await, 1, "status {status}");
        running.stop().await;
    }
}

/// Fast, and always without success: it would look idle and get everything.
#[tokio::test]
async fn a_grpc_server_that_fails_fast_trips_and_one_that_pushes_back_is_left_alone() {
    for (headers, successes) in [
        (&[("grpc-status", "14")][..], 90),
        (&[("grpc-status", "14"), ("grpc-retry-pushback-ms", "60000")], 100),
        (&[("grpc-status", "8"), ("grpc-retry-pushback-ms", "60000")], 100),
    ] {
        let bad = grpc_server(headers).await;
        let good = H2Backend::serving(100, |_| async { text("") }).await;
        let running = Plan::new(&[("m", &[0, 1])])
            .server("bad", 2.0, None, bad.address)
            .protocol(Protocol::Http2)
            .server("good", 1.0, None, good.address)
            .protocol(Protocol::Http2)
            .serve("jfsq", 1)
            .await;
        let mut succeeded = 0;
        for _ in 0..100 {
            succeeded += usize::from(!ask(&running).await.contains_key("grpc-status"));
        }
        assert!(succeeded >= successes, "{headers:?}: {succeeded} of 100");
        running.settled().await;
        running.stop().await;
    }
}
