//! What counts as a failure of a server, beyond those of HTTP/1.1 ([`crate::health`]): tunnels that it breaks, gRPC's
//! `UNAVAILABLE`, resets of HTTP/2. And what clients do to a connection of HTTP/2.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use bytes::Bytes;
use h2::server::SendResponse;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Empty};
use shortline_core::fleet::settings::Protocol;
use tokio::net::TcpListener;

use crate::http2::client;
use crate::smuggling::frame;
use crate::support::{Backend, OK, Peer, Plan, Running, call, eventually, get};

const SWITCHED: &str = "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: x\r\n\r\n";
const ASK: &str = "GET / HTTP/1.1\r\nhost: a\r\nx-job-type: m\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n";

/// One server that trips after two failures in a row, for long.
fn plan(address: SocketAddr) -> Plan {
    Plan::new(&[("m", &[0])]).server("s", 1.0, None, address).settings(|settings| {
        settings.health.trip_after = 2;
        settings.health.open_s = 60.0;
    })
}

fn health(running: &Running) -> &'static str {
    running.gateway.status().servers[0].health
}

#[tokio::test]
async fn a_server_that_breaks_its_tunnels_trips_and_one_that_ends_them_does_not() {
    for (breaks, expected) in [(true, "tripped"), (false, "up")] {
        let backend = Backend::scripted(move |mut peer, _| async move {
            peer.try_send(SWITCHED).await.ok()?;
            // A word, so that the tunnel stands.
            peer.exactly(1).await;
            if breaks {
                peer.reset();
            }
            None
        })
        .await;
        let running = plan(backend.address).serve("jfsq", 1).await;
        for _ in 0..2 {
            assert_eq!(health(&running), "up");
            let mut peer = Peer::connect(running.address).await;
            peer.send(ASK).await;
            assert_eq!(peer.head().await.unwrap().status(), 101);
            peer.send("!").await;
            assert!(peer.is_closed().await);
            drop(peer);
            running.settled().await;
        }
        assert_eq!(health(&running), expected);
        running.stop().await;
    }
}

#[tokio::test]
async fn a_tunnel_that_its_client_breaks_says_nothing_about_the_server() {
    let backend = Backend::scripted(|mut peer, _| async move {
        peer.try_send(SWITCHED).await.ok()?;
        while peer.some().await.is_some() {}
        None
    })
    .await;
    let running = plan(backend.address).serve("jfsq", 1).await;
    for _ in 0..3 {
        let mut peer = Peer::connect(running.address).await;
        peer.send(ASK).await;
        assert_eq!(peer.head().await.unwrap().status(), 101);
        peer.reset();
        running.settled().await;
    }
    assert_eq!(health(&running), "up");
    running.stop().await;
}

/// A server over HTTP/2 that answers frame by frame.
async fn h2_server(answer: impl Fn(SendResponse<Bytes>) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let answer = Arc::new(answer);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let answer = Arc::clone(&answer);
            tokio::spawn(async move {
                let mut connection = h2::server::handshake(stream).await.unwrap();
                while let Some(Ok((_, respond))) = connection.accept().await {
                    answer(respond);
                }
            });
        }
    });
    address
}

fn head(grpc_status: Option<&str>) -> Response<()> {
    let response = Response::builder().header("content-type", "application/grpc");
    grpc_status.into_iter().fold(response, |response, status| response.header("grpc-status", status)).body(()).unwrap()
}

/// Whether two requests, gRPC or not, trip a server with these answers.
async fn trips(grpc: bool, answer: impl Fn(SendResponse<Bytes>) + Send + Sync + 'static) -> bool {
    let running = plan(h2_server(answer).await).protocol(Protocol::Http2).serve("jfsq", 1).await;
    let mut client = client::<Empty<Bytes>>(running.address).await;
    for _ in 0..2 {
        assert_eq!(health(&running), "up");
        let content_type = if grpc { "application/grpc" } else { "text/plain" };
        let request = Request::post("http://a/s/M").header("x-job-type", "m").header("content-type", content_type);
        let answer = client.send_request(request.body(Empty::new()).unwrap()).await.unwrap();
        // Some of them break off.
        drop(answer.into_body().collect().await);
        running.settled().await;
    }
    let trips = health(&running) == "tripped";
    running.stop().await;
    trips
}

#[tokio::test]
async fn unavailable_in_the_trailers_or_the_head_of_grpc_is_a_failure_and_other_statuses_are_not() {
    let in_trailers = |status: &'static str| {
        move |mut respond: SendResponse<Bytes>| {
            let mut stream = respond.send_response(head(None), false).unwrap();
            stream.send_data(Bytes::from_static(b"\0\0\0\0\0"), false).unwrap();
            stream
                .send_trailers(HeaderMap::from_iter([("grpc-status".parse().unwrap(), status.parse().unwrap())]))
                .unwrap();
        }
    };
    let in_head = |status: &'static str| {
        move |mut respond: SendResponse<Bytes>| drop(respond.send_response(head(Some(status)), true).unwrap())
    };
    assert!(trips(true, in_trailers("14")).await);
    assert!(trips(true, in_head("14")).await);
    assert!(!trips(true, in_trailers("0")).await);
    assert!(!trips(true, in_trailers("5")).await);
    assert!(!trips(true, in_head("13")).await);
    assert!(!trips(false, in_trailers("14")).await, "not asked in gRPC");
}

#[tokio::test]
async fn resets_of_requests_by_the_server_are_failures_before_and_after_the_head() {
    for reason in [h2::Reason::INTERNAL_ERROR, h2::Reason::CANCEL] {
        let requests = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&requests);
        let before = move |mut respond: SendResponse<Bytes>| {
            count.fetch_add(1, SeqCst);
            respond.send_reset(reason);
        };
        assert!(trips(false, before).await, "{reason:?} before the head");
        assert_eq!(requests.load(SeqCst), 2, "a POST is not sent again");
        let after = move |mut respond: SendResponse<Bytes>| {
            let mut stream = respond.send_response(head(None), false).unwrap();
            stream.send_data(Bytes::from_static(b"half"), false).unwrap();
            tokio::spawn(async move {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                stream.send_reset(reason);
            });
        };
        assert!(trips(false, after).await, "{reason:?} after the head");
    }
}

/// 500 requests, each reset at once ("rapid reset", CVE-2023-44487).
#[tokio::test]
async fn a_client_that_floods_a_connection_with_resets_loses_it_and_is_counted() {
    let backend = Backend::replying(OK).await;
    let running = plan(backend.address).serve("jfsq", 1).await;
    let (headers, reset, settings) = (1, 3, 4);
    let mut bytes = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(settings, 0, 0, &[])].concat();
    for n in 0..500 {
        // `:method GET`, `:scheme http`, `:path /` of the static table, `:authority a`.
        bytes.extend(frame(headers, 5, 2 * n + 1, &[0x82, 0x86, 0x84, 0x41, 1, b'a']));
        bytes.extend(frame(reset, 0, 2 * n + 1, &8_u32.to_be_bytes()));
    }
    let mut peer = Peer::connect(running.address).await;
    peer.send(bytes).await;
    while peer.some().await.is_some() {}
    eventually(|| running.jobs() == 0).await;
    assert_eq!(running.metric("shortline_connections_broken_total{reason=\"flood\"}").await, 1);
    assert_eq!(running.metric("shortline_connections_broken_total{reason=\"protocol\"}").await, 0);
    // A frame of a stream that was never opened.
    let preface = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(settings, 0, 0, &[]), frame(0, 0, 7, b"x")];
    let mut peer = Peer::connect(running.address).await;
    peer.send(preface.concat()).await;
    while peer.some().await.is_some() {}
    assert_eq!(running.metric("shortline_connections_broken_total{reason=\"protocol\"}").await, 1);
    assert_eq!(call(running.address, get("m")).await.status(), 200);
    running.stop().await;
}
