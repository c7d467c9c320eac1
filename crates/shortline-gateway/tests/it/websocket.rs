//! WebSocket from clients over HTTP/2 (RFC 8441) to servers over HTTP/1.1.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use hyper::ext::Protocol;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use shortline_gateway::{Gateway, Options};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::http2::client;
use crate::support::{Backend, Message, OK, PATIENCE, Plan, Running};

type Client = SendRequest<Empty<Bytes>>;

fn plan(backend: &Backend) -> Plan {
    Plan::new(&[("m", &[0])]).server("s", 1.0, None, backend.address)
}

/// The proof that the server owes for the gateway's key, encoded digit by digit, in another way than the gateway's.
fn proof(head: &Message) -> String {
    let key = head.header("sec-websocket-key").expect("a key");
    let text = format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    let sum = ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes());
    let bits: String = sum.as_ref().iter().map(|byte| format!("{byte:08b}")).collect();
    let digits: Vec<char> = ('A'..='Z').chain('a'..='z').chain('0'..='9').chain("+/".chars()).collect();
    // 160 bits: 27 digits with two bits to spare, and one `=`.
    let value = |six: &[u8]| usize::from_str_radix(&format!("{:0<6}", str::from_utf8(six).unwrap()), 2).unwrap();
    bits.as_bytes().chunks(6).map(|six| digits[value(six)]).chain(['=']).collect()
}

/// Switches, then sends back what comes in upper case; at the end of it says goodbye.
async fn shouting() -> Backend {
    Backend::scripted(|mut peer, head| async move {
        if head.header("upgrade").is_none() {
            peer.try_send(OK).await.ok()?;
            return Some(peer);
        }
        assert_eq!(head.first, "GET /chat?x=1 HTTP/1.1");
        assert_eq!((head.header("connection"), head.header("upgrade")), (Some("upgrade"), Some("websocket")));
        assert_eq!((head.header("host"), head.header("sec-websocket-version")), (Some("a"), Some("13")));
        assert_eq!(head.header("sec-websocket-protocol"), Some("chat"));
        let accept = proof(&head);
        peer.try_send(format!(
            "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
             sec-websocket-accept: {accept}\r\nsec-websocket-protocol: chat\r\n\r\nhello"
        ))
        .await
        .ok()?;
        while let Some(piece) = peer.some().await {
            peer.try_send(piece.to_ascii_uppercase()).await.ok()?;
        }
        peer.try_send("goodbye").await.ok()?;
        None
    })
    .await
}

/// A client that has heard that the gateway knows extended CONNECT.
async fn connected(running: &Running) -> Client {
    let mut client: Client = client(running.address).await;
    let ready = Request::get("http://a/v1/models").body(Empty::new()).unwrap();
    assert_eq!(client.send_request(ready).await.unwrap().status(), 200);
    client
}

async fn ask(client: &mut Client, protocol: &'static str) -> Response<Incoming> {
    let request = Request::builder()
        .method(Method::CONNECT)
        .uri("http://a/chat?x=1")
        .extension(Protocol::from_static(protocol))
        .header("x-job-type", "m")
        .header("sec-websocket-protocol", "chat")
        .body(Empty::new())
        .unwrap();
    tokio::time::timeout(PATIENCE, client.send_request(request)).await.expect("a hang").unwrap()
}

async fn opened(client: &mut Client) -> TokioIo<Upgraded> {
    let answer = ask(client, "websocket").await;
    assert_eq!(answer.status(), StatusCode::OK);
    let header = |name| answer.headers().get(name).map(|value| value.to_str().unwrap());
    assert_eq!((header("sec-websocket-protocol"), header("x-served-by")), (Some("chat"), Some("s")));
    assert_eq!((header("sec-websocket-accept"), header("upgrade"), header("connection")), (None, None, None));
    let mut socket = TokioIo::new(hyper::upgrade::on(answer).await.unwrap());
    assert_eq!(exactly(&mut socket, 5).await, b"hello");
    socket
}

async fn exactly(socket: &mut TokioIo<Upgraded>, bytes: usize) -> Vec<u8> {
    let mut read = vec![0; bytes];
    tokio::time::timeout(PATIENCE, socket.read_exact(&mut read)).await.expect("a hang").expect("all of it");
    read
}

#[tokio::test]
async fn websockets_over_one_connection_of_http2_pass_both_ways_and_count_as_long_as_they_last() {
    let backend = shouting().await;
    let running = plan(&backend).serve("jfsq", 1).await;
    let mut client = connected(&running).await;
    let mut sockets = [opened(&mut client).await, opened(&mut client).await];
    assert_eq!(running.jobs(), 2);
    for socket in &mut sockets {
        for text in ["one", "two"] {
            socket.write_all(text.as_bytes()).await.unwrap();
            assert_eq!(exactly(socket, 3).await, text.to_uppercase().as_bytes());
        }
    }
    // Requests go on beside them on the same connection.
    let plain = Request::get("http://a/").header("x-job-type", "m").body(Empty::new()).unwrap();
    let answer = client.send_request(plain).await.unwrap();
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "ok");
    let [mut one, other] = sockets;
    one.shutdown().await.unwrap();
    assert_eq!(exactly(&mut one, 7).await, b"goodbye");
    assert_eq!(one.read(&mut [0]).await.unwrap(), 0);
    crate::support::eventually(|| running.jobs() == 1).await;
    drop(other);
    running.settled().await;
    let ok = "shortline_requests_total{job_type=\"m\",outcome=\"ok\"}";
    assert!(running.metric(ok).await >= 2);
    running.stop().await;
}

#[tokio::test]
async fn much_passes_both_ways() {
    let backend = shouting().await;
    let running = plan(&backend).serve("jfsq", 1).await;
    let mut socket = opened(&mut connected(&running).await).await;
    let block = vec![b'a'; 40 << 10];
    for _ in 0..50 {
        socket.write_all(&block).await.unwrap();
        assert!(exactly(&mut socket, block.len()).await.iter().all(|&byte| byte == b'A'));
    }
    drop(socket);
    running.settled().await;
    running.stop().await;
}

#[tokio::test]
async fn a_server_that_declines_is_passed_on_and_one_that_proves_nothing_is_at_fault() {
    let switched = "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n";
    let no_proof = format!("{switched}\r\n");
    let wrong_proof = format!("{switched}sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n");
    for (answer, status) in [
        ("HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\n\r\nno", 403),
        (OK, 502),
        (no_proof.as_str(), 502),
        (wrong_proof.as_str(), 502),
    ] {
        let backend = Backend::replying(answer).await;
        let running = plan(&backend).serve("jfsq", 1).await;
        let mut client = connected(&running).await;
        let refused = ask(&mut client, "websocket").await;
        assert_eq!(refused.status(), status, "{answer}");
        let body = refused.into_body().collect().await.unwrap().to_bytes();
        assert!(body == "no" || body.starts_with(b"{\"error\":{\"code\":\"upstream_error\""), "{body:?}");
        running.settled().await;
        running.stop().await;
    }
}

#[tokio::test]
async fn other_protocols_are_refused() {
    let backend = Backend::replying(OK).await;
    let running = plan(&backend).serve("jfsq", 1).await;
    let refused = ask(&mut connected(&running).await, "connect-udp").await;
    assert_eq!(refused.status(), 501);
    assert_eq!(backend.requests(), 0);
    running.stop().await;
}

#[tokio::test]
async fn a_websocket_runs_on_while_the_gateway_drains_and_is_cut_off_after_the_grace() {
    let backend = shouting().await;
    let options = Options { policy: Some("jfsq".parse().unwrap()), ..Options::new(plan(&backend).fleet()) };
    let running = Running::start(Gateway::new(options).unwrap(), Duration::from_millis(500)).await;
    let mut socket = opened(&mut connected(&running).await).await;
    running.trigger.drain();
    tokio::time::sleep(Duration::from_millis(100)).await;
    socket.write_all(b"still").await.unwrap();
    assert_eq!(exactly(&mut socket, 5).await, b"STILL");
    let gateway = std::sync::Arc::clone(&running.gateway);
    assert_eq!(running.ended().await.cut_off, 1);
    assert_eq!(socket.read(&mut [0]).await.unwrap_or(0), 0);
    assert_eq!(gateway.status().servers[0].in_flight, 0);
}

#[tokio::test]
async fn a_client_that_is_gone_takes_its_websockets_along() {
    let backend = shouting().await;
    let running = plan(&backend).serve("jfsq", 1).await;
    let mut client = connected(&running).await;
    let sockets = [opened(&mut client).await, opened(&mut client).await];
    assert_eq!(running.jobs(), 2);
    drop((sockets, client));
    running.settled().await;
    running.stop().await;
}
