//! Requests that a server has not begun: once more to it, then to another.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use shortline_core::fleet::settings::Protocol;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::smuggling::frame;
use crate::support::{Backend, OK, Plan, Running, call, get, post};

/// Closes right behind each answer, so that the next request on the connection meets the end.
async fn closing_behind_answers() -> Backend {
    Backend::scripted(|mut peer, head| async move {
        peer.body(head, false).await.ok()?;
        peer.try_send(OK).await.ok()?;
        // The next request is read, and never answered.
        peer.head().await.ok()?;
        None
    })
    .await
}

#[tokio::test]
async fn what_may_be_repeated_goes_out_once_more_when_a_kept_connection_closes_instead_of_answering() {
    let backend = closing_behind_answers().await;
    let running = Plan::new(&[("m", &[0])])
        .server("s", 1.0, None, backend.address)
        .settings(|s| s.health.trip_after = 2)
        .serve("jfsq", 1)
        .await;
    for n in 0..10 {
        assert_eq!(call(running.address, get("m")).await.status(), 200, "request {n}");
        let put = get("m").replace("GET", "PUT").replace("\r\n\r\n", "\r\ncontent-length: 5\r\n\r\nhello");
        assert_eq!(call(running.address, put).await.status(), 200, "request {n} with a body");
    }
    assert_eq!(running.gateway.status().servers[0].health, "up", "a race is no fault");
    // A second time, on a new connection, is one.
    let posted = call(running.address, post(r#"{"model":"m"}"#)).await;
    assert_eq!(posted.error_code(), "upstream_error", "a POST may have been done");
    running.settled().await;
    running.stop().await;
}

#[tokio::test]
async fn a_server_that_never_answers_gets_no_third_request() {
    let backend = Backend::scripted(|mut peer, head| async move {
        if head.first.contains("/first") {
            peer.try_send(OK).await.ok()?;
            return Some(peer);
        }
        None
    })
    .await;
    let running = Plan::new(&[("m", &[0])]).server("s", 1.0, None, backend.address).serve("jfsq", 1).await;
    assert_eq!(call(running.address, get("m").replace(" / ", " /first ")).await.status(), 200);
    assert_eq!(call(running.address, get("m")).await.error_code(), "upstream_error");
    assert_eq!(backend.requests(), 3);
    running.stop().await;
}

#[tokio::test]
async fn a_server_that_breaks_off_behind_the_first_byte_of_its_answer_is_not_asked_once_more() {
    let backend = Backend::scripted(|mut peer, head| async move {
        if head.first.contains("/first") {
            peer.try_send(OK).await.ok()?;
            return Some(peer);
        }
        peer.try_send("H").await.ok()?;
        None
    })
    .await;
    let running = Plan::new(&[("m", &[0])]).server("s", 1.0, None, backend.address).serve("jfsq", 1).await;
    assert_eq!(call(running.address, get("m").replace(" / ", " /first ")).await.status(), 200);
    assert_eq!(call(running.address, get("m")).await.error_code(), "upstream_error");
    assert_eq!(backend.requests(), 2);
    running.stop().await;
}

/// What a server over HTTP/2 says instead of an answer.
#[derive(Clone, Copy)]
enum Says {
    RefusedStream,
    GoAway,
}

/// A server over HTTP/2 that says so to every request; how many it got.
async fn refusing(says: Says) -> (std::net::SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&requests);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let counted = Arc::clone(&counted);
            tokio::spawn(async move {
                let mut preface = [0; 24];
                stream.read_exact(&mut preface).await?;
                stream.write_all(&frame(4, 0, 0, &[])).await?;
                loop {
                    let mut head = [0; 9];
                    stream.read_exact(&mut head).await?;
                    let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
                    stream.read_exact(&mut payload).await?;
                    if head[3] == 1 {
                        counted.fetch_add(1, SeqCst);
                        let id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
                        let said = match says {
                            Says::RefusedStream => frame(3, 0, id, &7_u32.to_be_bytes()),
                            Says::GoAway => frame(7, 0, 0, &[0; 8]),
                        };
                        stream.write_all(&said).await?;
                    }
                }
                #[expect(unreachable_code, reason = "names the type of the errors")]
                Ok::<_, std::io::Error>(())
            });
        }
    });
    (address, requests)
}

async fn two(refusing: std::net::SocketAddr, other: &Backend) -> Running {
    Plan::new(&[("m", &[0, 1])])
        .server("refuses", 2.0, None, refusing)
        .protocol(Protocol::Http2)
        .server("other", 1.0, None, other.address)
        .serve("jfsq", 1)
        .await
}

#[tokio::test]
async fn what_a_server_refuses_to_begin_it_gets_twice_and_then_another_gets_it_whatever_the_method() {
    for says in [Says::RefusedStream, Says::GoAway] {
        for request in [get("m"), post(r#"{"model":"m"}"#)] {
            let (address, requests) = refusing(says).await;
            let other = Backend::replying(OK).await;
            let running = two(address, &other).await;
            let answer = call(running.address, request).await;
            assert_eq!((answer.status(), answer.header("x-served-by")), (200, Some("other")));
            assert_eq!((requests.load(SeqCst), other.requests()), (2, 1));
            running.settled().await;
            running.stop().await;
        }
    }
}
