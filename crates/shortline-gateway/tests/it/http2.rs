//! HTTP/2 to servers, and gRPC through both sides.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Channel, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use shortline_core::fleet::settings::Protocol;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::smuggling::frame;
use crate::support::{Backend, OK, PATIENCE, Peer, Plan, Running, call, eventually, get};

pub(crate) type Answer = Response<BoxBody<Bytes, Infallible>>;

/// A server over HTTP/2 by prior knowledge.
#[derive(Debug)]
pub(crate) struct H2Backend {
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicUsize>,
    pub(crate) requests: Arc<AtomicUsize>,
}

impl H2Backend {
    pub(crate) async fn serving<F, A>(most: u32, answer: F) -> Self
    where
        F: Fn(Request<Incoming>) -> A + Send + Sync + 'static,
        A: Future<Output = Answer> + Send,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (connections, requests) = <(Arc<AtomicUsize>, Arc<AtomicUsize>)>::default();
        let counted = (Arc::clone(&connections), Arc::clone(&requests));
        let answer = Arc::new(answer);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                counted.0.fetch_add(1, SeqCst);
                let (answer, requests) = (Arc::clone(&answer), Arc::clone(&counted.1));
                let service = service_fn(move |request| {
                    requests.fetch_add(1, SeqCst);
                    let answer = Arc::clone(&answer);
                    async move { Ok::<_, Infallible>(answer(request).await) }
                });
                let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                builder.max_concurrent_streams(most);
                tokio::spawn(builder.serve_connection(TokioIo::new(stream), service));
            }
        });
        Self { address, connections, requests }
    }

    fn connections(&self) -> usize {
        self.connections.load(SeqCst)
    }
}

pub(crate) fn text(text: impl Into<Bytes>) -> Answer {
    Response::new(Full::new(text.into()).boxed())
}

/// What does not come in time has hung.
pub(crate) async fn in_time<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("a hang")
}

async fn one(address: SocketAddr) -> Running {
    Plan::new(&[("m", &[0])]).server("s", 1.0, None, address).protocol(Protocol::Http2).serve("jfsq", 1).await
}

/// A client over HTTP/2.
pub(crate) async fn client<B>(address: SocketAddr) -> SendRequest<B>
where
    B: hyper::body::Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + Unpin + 'static,
{
    let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let (sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    tokio::spawn(connection);
    sender
}

/// Their windows are their own: however many answers wait for their clients, there is room on the connection for others.
#[tokio::test]
async fn answers_that_are_not_read_do_not_hold_up_others_on_the_connection() {
    let large = Bytes::from(vec![b'x'; 32 << 20]);
    let backend = H2Backend::serving(100, move |request| {
        let body = if request.uri().path() == "/large" { large.clone() } else { Bytes::from("small") };
        async move { text(body) }
    })
    .await;
    let running = one(backend.address).await;
    assert_eq!(call(running.address, get("m")).await.text(), "small");
    let mut readers = Vec::new();
    for _ in 0..6 {
        let mut peer = Peer::connect(running.address).await;
        peer.send(get("m").replace(" / ", " /large ")).await;
        assert_eq!(peer.head().await.unwrap().status(), 200);
        readers.push(peer);
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(in_time(call(running.address, get("m"))).await.text(), "small");
    assert_eq!(backend.connections(), 1);
    drop(readers);
    running.settled().await;
    running.stop().await;
}

#[tokio::test]
async fn requests_share_one_connection_and_the_server_sees_them_as_http2() {
    let backend = H2Backend::serving(100, |request| async move {
        let (head, body) = request.into_parts();
        let length = body.collect().await.unwrap().to_bytes().len();
        text(format!("{:?} {} {} {:?} {length}", head.version, head.method, head.uri, head.headers.get("host")))
    })
    .await;
    let running = one(backend.address).await;
    let ask = |n: usize| {
        let address = running.address;
        async move {
            let body = format!(r#"{{"model":"m","x":"{}"}}"#, "a".repeat(n * 1000));
            let request =
                format!("POST /v1?n={n} HTTP/1.1\r\nhost: Public:81\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            let answer = call(address, request).await;
            let expected = format!("HTTP/2.0 POST http://Public:81/v1?n={n} None {}", body.len());
            assert_eq!((answer.status(), answer.text()), (200, expected));
        }
    };
    ask(0).await;
    let mut asked = tokio::task::JoinSet::new();
    (1..60).for_each(|n| drop(asked.spawn(ask(n))));
    asked.join_all().await;
    assert_eq!((backend.connections(), backend.requests.load(SeqCst)), (1, 60));
    running.settled().await;
    running.stop().await;
}

#[tokio::test]
async fn the_first_requests_wait_for_one_connection_instead_of_opening_one_each() {
    let backend = H2Backend::serving(100, |_| async { text("ok") }).await;
    let running = one(backend.address).await;
    let mut asked = tokio::task::JoinSet::new();
    (0..30).for_each(|_| drop(asked.spawn(call(running.address, get("m")))));
    assert!(asked.join_all().await.iter().all(|answer| answer.status() == 200));
    assert_eq!(backend.connections(), 1);
    running.stop().await;
}

#[tokio::test]
async fn no_connection_carries_more_than_the_server_takes_at_once() {
    let gate = Arc::new(Semaphore::new(1));
    let held = Arc::clone(&gate);
    let backend = H2Backend::serving(2, move |_| {
        let gate = Arc::clone(&held);
        async move {
            gate.acquire().await.unwrap().forget();
            text("ok")
        }
    })
    .await;
    let running = one(backend.address).await;
    assert_eq!(call(running.address, get("m")).await.status(), 200, "by now the limit is known");
    let mut asked = tokio::task::JoinSet::new();
    (0..6).for_each(|_| drop(asked.spawn(call(running.address, get("m")))));
    eventually(|| backend.requests.load(SeqCst) == 7).await;
    assert_eq!(backend.connections(), 3);
    gate.add_permits(6);
    assert!(asked.join_all().await.iter().all(|answer| answer.status() == 200));
    running.settled().await;
    running.stop().await;
}

/// Accepts one connection, waits for `requests` requests on it, then says that it goes away and has taken those up to
/// stream `last` only, and closes when told.
async fn going_away(listener: &TcpListener, requests: usize, last: u32) -> TcpStream {
    const HEADERS: u8 = 1;
    const GOAWAY: u8 = 7;
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut preface = [0; 24];
    stream.read_exact(&mut preface).await.unwrap();
    stream.write_all(&frame(4, 0, 0, &[])).await.unwrap();
    let mut seen = 0;
    while seen < requests {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await.unwrap();
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        stream.read_exact(&mut payload).await.unwrap();
        seen += usize::from(head[3] == HEADERS);
    }
    stream.write_all(&frame(GOAWAY, 0, 0, &[last.to_be_bytes(), [0; 4]].concat())).await.unwrap();
    stream
}

#[tokio::test]
async fn what_a_server_that_goes_away_has_not_begun_is_sent_again_and_what_it_has_begun_fails() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let running = one(address).await;
    let body = r#"{"model":"m"}"#;
    let posted = format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    // Stream 1 is taken by the server; 3 and 5 are not, one of them with a body.
    let first = tokio::spawn(call(running.address, get("m")));
    eventually(|| running.jobs() == 1).await;
    let server = tokio::spawn(async move {
        let stream = going_away(&listener, 3, 1).await;
        (listener, stream)
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    let others = [tokio::spawn(call(running.address, get("m"))), tokio::spawn(call(running.address, posted))];
    let (listener, stream) = server.await.unwrap();
    let (next, _) = in_time(listener.accept()).await.unwrap();
    let service = service_fn(|_| async { Ok::<_, Infallible>(text("again")) });
    tokio::spawn(
        hyper::server::conn::http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(next), service),
    );
    for other in others {
        assert_eq!(other.await.unwrap().text(), "again");
    }
    assert_eq!(running.jobs(), 1, "the first one is still there");
    drop(stream);
    let failed = first.await.unwrap();
    assert_eq!((failed.status(), failed.error_code().as_str()), (502, "upstream_error"));
    running.settled().await;
    running.stop().await;
}

/// The server accepts, and is never heard of again. Nothing but the ping (10 s, and 5 s for its answer) ends this before
/// `first_byte_s`, which is 600.
#[tokio::test]
async fn a_dead_connection_is_found_by_pings() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let running = one(listener.local_addr().unwrap()).await;
    let asked = tokio::spawn(call(running.address, get("m")));
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut preface = [0; 24];
    stream.read_exact(&mut preface).await.unwrap();
    eventually(|| running.jobs() == 1).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    tokio::time::pause();
    let began = tokio::time::Instant::now();
    while running.jobs() > 0 {
        assert!(began.elapsed() < Duration::from_secs(60), "it is not found");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(began.elapsed() > Duration::from_secs(10), "{:?}", began.elapsed());
    tokio::time::resume();
    assert_eq!(asked.await.unwrap().error_code(), "upstream_error");
    running.stop().await;
}

#[tokio::test]
async fn a_client_that_goes_away_resets_its_request_only() {
    let gate = Arc::new(Semaphore::new(0));
    let held = Arc::clone(&gate);
    let (ends, mut ended) = tokio::sync::mpsc::unbounded_channel();
    let backend = H2Backend::serving(100, move |request| {
        let (gate, ends) = (Arc::clone(&held), ends.clone());
        async move {
            let uploads = request.method() == "POST";
            let body = request.into_body().collect().await;
            if uploads {
                ends.send(body.is_ok()).unwrap();
            }
            gate.acquire().await.unwrap().forget();
            text("ok")
        }
    })
    .await;
    let running = one(backend.address).await;
    let stays = tokio::spawn(call(running.address, get("m")));
    let mut goes = Peer::connect(running.address).await;
    goes.send("POST / HTTP/1.1\r\nhost: a\r\nx-job-type: m\r\ncontent-length: 100\r\n\r\nhalf").await;
    eventually(|| backend.requests.load(SeqCst) == 2).await;
    drop(goes);
    eventually(|| running.jobs() == 1).await;
    assert!(!in_time(ended.recv()).await.unwrap(), "the server took half a body for a whole one");
    gate.add_permits(1);
    assert_eq!(stays.await.unwrap().status(), 200);
    assert_eq!(backend.connections(), 1);
    running.settled().await;
    running.stop().await;
}

/// A server that answers while the upload goes on, and a client that goes on: the rest is not the server's any more.
#[tokio::test]
async fn an_upload_ends_with_its_answer() {
    let (ends, mut ended) = tokio::sync::mpsc::unbounded_channel();
    let backend = H2Backend::serving(100, move |request| {
        let ends = ends.clone();
        async move {
            tokio::spawn(async move { ends.send(request.into_body().collect().await.is_ok()).unwrap() });
            text("enough")
        }
    })
    .await;
    let running = one(backend.address).await;
    let mut peer = Peer::connect(running.address).await;
    peer.send("POST / HTTP/1.1\r\nhost: a\r\nx-job-type: m\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n").await;
    assert_eq!(peer.answer().await.text(), "enough");
    assert_eq!(running.jobs(), 0);
    assert!(!in_time(ended.recv()).await.unwrap());
    running.stop().await;
}

pub(crate) fn grpc(job_type: &str) -> http::request::Builder {
    Request::post("http://a/pkg.Service/Method")
        .header("content-type", "application/grpc+proto")
        .header("te", "trailers")
        .header("x-job-type", job_type)
}

#[tokio::test]
async fn grpc_streams_both_ways_at_once_with_trailers_both_ways() {
    let backend = H2Backend::serving(100, |request| async move {
        assert_eq!(
            (&request.headers()["te"], &request.headers()["content-type"]),
            (&"trailers".parse().unwrap(), &"application/grpc+proto".parse().unwrap())
        );
        let (mut answer, body) = Channel::<Bytes, Infallible>::new(1);
        tokio::spawn(async move {
            let mut incoming = request.into_body();
            let mut trailers = HeaderMap::new();
            while let Some(Ok(frame)) = incoming.frame().await {
                match frame.into_data() {
                    Ok(data) => answer.send_data(data).await.unwrap(),
                    Err(frame) => trailers = frame.into_trailers().unwrap(),
                }
            }
            trailers.insert("grpc-status", "5".parse().unwrap());
            answer.send_trailers(trailers).await.unwrap();
        });
        let mut response = Response::new(body.boxed());
        response.headers_mut().insert("content-type", "application/grpc+proto".parse().unwrap());
        response
    })
    .await;
    let running = one(backend.address).await;
    let mut sender = client(running.address).await;
    let (mut upload, body) = Channel::<Bytes, Infallible>::new(1);
    let response = sender.send_request(grpc("m").body(body).unwrap()).await.unwrap();
    assert_eq!(response.headers()["content-type"], "application/grpc+proto");
    let mut answer = response.into_body();
    for message in ["one", "two", "three"] {
        upload.send_data(Bytes::from(message)).await.unwrap();
        let echoed =
            tokio::time::timeout(Duration::from_secs(10), answer.frame()).await.expect("no echo: not both ways");
        assert_eq!(echoed.unwrap().unwrap().into_data().unwrap(), message);
        assert_eq!(running.jobs(), 1);
    }
    upload.send_trailers(HeaderMap::from_iter([("x-sum".parse().unwrap(), "6".parse().unwrap())])).await.unwrap();
    drop(upload);
    let trailers = answer.frame().await.unwrap().unwrap().into_trailers().unwrap();
    assert_eq!((&trailers["grpc-status"], &trailers["x-sum"]), (&"5".parse().unwrap(), &"6".parse().unwrap()));
    running.settled().await;
    assert_eq!(
        running.metric("shortline_requests_total{job_type=\"m\",outcome=\"server_4xx\"}").await,
        1,
        "5: NOT_FOUND"
    );
    running.stop().await;
}

#[tokio::test]
async fn a_grpc_client_is_refused_in_grpcs_words() {
    let backend = H2Backend::serving(100, |_| async { text("ok") }).await;
    let running = one(backend.address).await;
    let mut sender = client(running.address).await;
    let mut refused = async |job_type: &str| {
        let request = grpc(job_type).body(Full::new(Bytes::from_static(b"\0\0\0\0\0"))).unwrap();
        let response = sender.send_request(request).await.unwrap();
        let headers = response.headers().clone();
        assert_eq!(
            (response.status(), &headers["content-type"]),
            (StatusCode::OK, &"application/grpc".parse().unwrap())
        );
        assert!(response.into_body().collect().await.unwrap().to_bytes().is_empty());
        let text = |name| headers.get(name).map(|value: &http::HeaderValue| value.to_str().unwrap().to_owned());
        (text("grpc-status").unwrap(), text("grpc-message").unwrap(), text("grpc-retry-pushback-ms"))
    };
    let unknown = ("12".into(), "unknown_job_type: the fleet has no job type `x`".into(), None);
    assert_eq!(refused("x").await, unknown);
    running.gateway.set_up("s", false);
    let down = ("14".into(), "no_server_up: no server that holds this job type is up".into(), Some("5000".into()));
    assert_eq!(refused("m").await, down);
    running.stop().await;
}

#[tokio::test]
async fn http1_and_http2_servers_stand_side_by_side() {
    let new = H2Backend::serving(100, |_| async { text("h2") }).await;
    let old = Backend::replying(OK).await;
    let plan =
        Plan::new(&[("new", &[0]), ("old", &[1])]).server("new", 1.0, None, new.address).protocol(Protocol::Http2);
    let running = plan.server("old", 1.0, None, old.address).serve("jfsq", 1).await;
    for (job_type, expected) in [("new", "h2"), ("old", "ok"), ("new", "h2")] {
        assert_eq!(call(running.address, get(job_type)).await.text(), expected);
    }
    running.stop().await;
}
