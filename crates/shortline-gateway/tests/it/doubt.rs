//! Requests and answers that could be taken for others than they are.

use http::{Request, StatusCode};
use http_body_util::Full;
use shortline_core::fleet::settings::Protocol;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::http2::{client, in_time};
use crate::smuggling::frame;
use crate::support::{Backend, OK, Peer, Plan, Running, call, get};

async fn one(backend: &Backend) -> Running {
    Plan::new(&[("m", &[0])]).server("s", 1.0, None, backend.address).serve("jfsq", 1).await
}

#[tokio::test]
async fn a_target_or_host_that_is_none_is_refused_in_words_and_counted() {
    let backend = Backend::replying(OK).await;
    let running = one(&backend).await;
    let cases = [
        ("GET echo", "echo"),
        ("GET h:80", "h:80"),
        ("GET *", "h"),
        ("GET /a<b", "h"),
        ("GET /a>b", "h"),
        ("GET /a`b", "h"),
        ("GET /?a<b", "h"),
        ("GET http://u:p@h/", "u:p@h"),
        ("GET /", "a b"),
        ("GET /", "a/b"),
        ("GET /", "u:p@h"),
        ("GET /", "[::1"),
        ("GET /", "h,h2"),
        ("GET /", "h\u{e9}"),
    ];
    for (line, host) in cases {
        let request = format!("{line} HTTP/1.1\r\nhost: {host}\r\nx-job-type: m\r\n\r\n");
        let refused = call(running.address, request).await;
        assert_eq!((refused.status(), refused.error_code().as_str()), (400, "bad_request"), "{line} {host}");
    }
    assert_eq!(backend.requests(), 0);
    let counted = running.metric("shortline_requests_total{job_type=\"\",outcome=\"bad_request\"}").await;
    assert_eq!(counted, cases.len() as u64);
    for (line, host) in [("OPTIONS *", "h"), ("GET /?a`b", ""), ("GET http://[::1]:8/", "[::1]:8"), ("GET /", "a_b:80")]
    {
        let request = format!("{line} HTTP/1.1\r\nhost: {host}\r\nx-job-type: m\r\n\r\n");
        assert_eq!(call(running.address, request).await.status(), 200, "{line} {host}");
    }
    running.stop().await;
}

#[tokio::test]
async fn over_http2_a_content_length_comes_once() {
    let backend = Backend::replying(OK).await;
    let running = one(&backend).await;
    let mut sender = client(running.address).await;
    let request = Request::post("http://a/").header("x-job-type", "m").header("content-length", "2");
    let request = request.header("content-length", "2").body(Full::new(&b"ok"[..])).unwrap();
    let refused = in_time(sender.send_request(request)).await.unwrap();
    assert_eq!((refused.status(), backend.requests()), (StatusCode::BAD_REQUEST, 0));
    running.stop().await;
}

#[tokio::test]
async fn models_are_listed_for_head_as_for_get_without_a_body() {
    let backend = Backend::replying(OK).await;
    let running = one(&backend).await;
    let mut peer = Peer::connect(running.address).await;
    peer.send("HEAD /v1/models HTTP/1.1\r\nhost: a\r\n\r\n").await;
    let head = peer.head().await.unwrap();
    assert_eq!((head.status(), head.header("content-type")), (200, Some("application/json")));
    peer.send(get("m")).await;
    assert_eq!(peer.answer().await.text(), "ok", "nothing of a body was in between");
    running.stop().await;
}

/// `RST_STREAM` with `NO_ERROR` in the middle of an answer is no end of it.
#[tokio::test]
async fn an_answer_that_is_reset_without_an_error_is_not_whole() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut preface = [0; 24];
        stream.read_exact(&mut preface).await.unwrap();
        stream.write_all(&frame(4, 0, 0, &[])).await.unwrap();
        loop {
            let mut head = [0; 9];
            stream.read_exact(&mut head).await.unwrap();
            let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
            stream.read_exact(&mut payload).await.unwrap();
            if head[3] == 1 {
                // `:status: 200`, and a piece of a body.
                stream.write_all(&[frame(1, 4, 1, &[0x88]), frame(0, 0, 1, b"half")].concat()).await.unwrap();
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                stream.write_all(&frame(3, 0, 1, &[0; 4])).await.unwrap();
            }
        }
    });
    let running =
        Plan::new(&[("m", &[0])]).server("s", 1.0, None, address).protocol(Protocol::Http2).serve("jfsq", 1).await;
    let mut peer = Peer::connect(running.address).await;
    peer.send(get("m")).await;
    assert!(peer.try_answer().await.is_err(), "half an answer was taken for a whole one");
    running.settled().await;
    assert_eq!(running.metric("shortline_requests_total{job_type=\"m\",outcome=\"upstream_abort\"}").await, 1);
    running.stop().await;
}
