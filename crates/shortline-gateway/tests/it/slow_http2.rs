//! Clients over HTTP/2 that are slow, or ask for nothing.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::http2::{client, in_time};
use crate::smuggling::frame;
use crate::support::{Backend, OK, Plan, Running, eventually};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

async fn one(backend: &Backend, idle_s: f64, header_s: f64) -> Running {
    Plan::new(&[("m", &[0])])
        .server("s", 1.0, None, backend.address)
        .settings(|s| (s.timeouts.idle_s, s.timeouts.header_s) = (idle_s, header_s))
        .serve("jfsq", 1)
        .await
}

fn request(path: &str) -> Request<Empty<Bytes>> {
    Request::get(format!("http://a{path}")).header("x-job-type", "m").body(Empty::new()).unwrap()
}

#[tokio::test]
async fn a_client_that_does_not_read_its_answer_is_cut_off_after_idle_s_and_others_on_its_connection_are_not() {
    let backend = Backend::scripted(|mut peer, head| async move {
        if head.first.contains("/large") {
            peer.try_send("HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n").await.ok()?;
            peer.try_send(vec![b'x'; 1_000_000]).await.ok()?;
        } else if head.first.contains("/events") {
            peer.try_send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await.ok()?;
            while peer.try_send("4\r\nbeep\r\n").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        } else {
            peer.try_send(OK).await.ok()?;
        }
        Some(peer)
    })
    .await;
    let running = one(&backend, 0.5, 5.0).await;
    for (path, window) in [("/large", 0), ("/large", 10), ("/events", 100)] {
        let stream = TokioIo::new(TcpStream::connect(running.address).await.unwrap());
        let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
        builder.initial_stream_window_size(window);
        let (mut sender, connection) = builder.handshake(stream).await.unwrap();
        tokio::spawn(connection);
        let answer = in_time(sender.send_request(request(path))).await.unwrap();
        assert_eq!((answer.status().as_u16(), running.jobs()), (200, 1));
        let began = Instant::now();
        let left = tokio::time::timeout(Duration::from_secs(10), running.settled()).await;
        assert!(left.is_ok(), "{path} with a window of {window} stays at its server");
        assert!(began.elapsed() >= Duration::from_millis(400), "{path} with a window of {window}: too early");
        if window > 2 {
            let small = in_time(sender.send_request(request("/small"))).await.unwrap();
            assert_eq!(in_time(small.into_body().collect()).await.unwrap().to_bytes(), "ok");
        }
        let broken = in_time(answer.into_body().collect()).await;
        assert!(broken.is_err(), "half an answer is not a whole one");
    }
    assert_eq!(running.metric("shortline_requests_total{job_type=\"m\",outcome=\"client_abort\"}").await, 3);
    running.stop().await;
}

/// A server that pauses is the one who is late, not the client.
#[tokio::test]
async fn an_answer_that_its_client_reads_lasts_longer_than_idle_s() {
    let backend = Backend::scripted(|mut peer, _| async move {
        peer.try_send("HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\n").await.ok()?;
        for byte in "slowness".bytes() {
            tokio::time::sleep(Duration::from_millis(200)).await;
            peer.try_send([byte]).await.ok()?;
        }
        Some(peer)
    })
    .await;
    let running = one(&backend, 0.5, 0.5).await;
    let mut sender = client(running.address).await;
    let answer = in_time(sender.send_request(request("/"))).await.unwrap();
    assert_eq!(in_time(answer.into_body().collect()).await.unwrap().to_bytes(), "slowness");
    running.settled().await;
    running.stop().await;
}

#[tokio::test]
async fn a_connection_without_a_whole_request_closes_after_header_s() {
    let backend = Backend::replying(OK).await;
    let running = one(&backend, 60.0, 0.4).await;
    let settings = frame(4, 0, 0, &[]);
    let part_of_a_head = frame(1, 1, 1, &[0x82]);
    for (what, bytes) in [
        ("a part of the preface", PREFACE[..10].to_vec()),
        ("the preface alone", PREFACE.to_vec()),
        ("with settings", [PREFACE, &settings].concat()),
        ("with a head that has no end", [PREFACE, &settings, &part_of_a_head].concat()),
    ] {
        let began = Instant::now();
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        stream.write_all(&bytes).await.unwrap();
        let mut rest = Vec::new();
        // What is said before, if anything, matters little; that it ends does.
        let ended = tokio::time::timeout(Duration::from_secs(10), stream.read_to_end(&mut rest)).await;
        assert!(ended.is_ok(), "{what}: it stays open");
        assert!(began.elapsed() >= Duration::from_millis(350), "{what}: {:?}", began.elapsed());
    }
    running.stop().await;
}

#[tokio::test]
async fn a_connection_on_which_nothing_runs_is_told_to_end_after_idle_s() {
    let backend = Backend::replying(OK).await;
    let running = one(&backend, 0.6, 5.0).await;
    let mut sender = client(running.address).await;
    for _ in 0..3 {
        let answer = in_time(sender.send_request(request("/"))).await.unwrap();
        assert_eq!(in_time(answer.into_body().collect()).await.unwrap().to_bytes(), "ok");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert!(!sender.is_closed(), "it was used all the time");
    eventually(|| sender.is_closed()).await;
    running.stop().await;
}
