//! Whatever goes wrong: counts return to 0, and every client gets a well-formed answer or the abort it is owed.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use hyper_util::rt::{TokioExecutor, TokioIo};

use crate::support::{Backend, Holding, OK, Peer, Plan, Running, call, eventually, get};

/// Its breaker never trips: every request shall see the fault.
async fn one_at(address: SocketAddr, change: impl FnOnce(&mut shortline_core::fleet::settings::Settings)) -> Running {
    let plan = Plan::new(&[("m", &[0])]).server("s", 1.0, None, address);
    plan.settings(|settings| settings.health.trip_after = 0).settings(change).serve("jfsq", 1).await
}

/// A server that sends the first half of an answer, waits until the other end has closed, and notes that.
async fn half_answering() -> (Backend, std::sync::Arc<std::sync::atomic::AtomicUsize>) {
    let noticed = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = noticed.clone();
    let backend = Backend::scripted(move |mut peer, _| {
        let count = count.clone();
        async move {
            peer.try_send("HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nhalf").await.ok()?;
            if peer.is_closed().await {
                count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            }
            None
        }
    })
    .await;
    (backend, noticed)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_clients_cut_off_in_mid_response_leave_nothing_behind() {
    let (backend, noticed) = half_answering().await;
    let running = one_at(backend.address, |_| {}).await;
    let mut peers = Vec::new();
    for _ in 0..500 {
        let mut peer = Peer::connect(running.address).await;
        peer.send(get("m")).await;
        assert_eq!(peer.head().await.unwrap().status(), 200);
        peers.push(peer);
    }
    assert_eq!(running.jobs(), 500);
    let cut = Instant::now();
    for (i, peer) in peers.into_iter().enumerate() {
        if i % 2 == 0 { peer.reset() } else { drop(peer) }
    }
    running.settled().await;
    eventually(|| noticed.load(std::sync::atomic::Ordering::SeqCst) == 500).await;
    assert!(cut.elapsed() < Duration::from_secs(5), "servers learned of it after {:?}", cut.elapsed());
    assert_eq!(running.metric("shortline_requests_total{job_type=\"m\",outcome=\"client_abort\"}").await, 500);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_clients_cut_off_before_the_answer_leave_nothing_behind() {
    let holding = Holding::start().await;
    let running = one_at(holding.backend.address, |_| {}).await;
    let mut peers = Vec::new();
    for _ in 0..500 {
        let mut peer = Peer::connect(running.address).await;
        peer.send(get("m")).await;
        peers.push(peer);
    }
    eventually(|| running.jobs() == 500).await;
    drop(peers);
    running.settled().await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_answers_cut_off_by_the_server_break_off_at_the_client_too() {
    for head in ["content-length: 1000", "transfer-encoding: chunked"] {
        let backend = Backend::scripted(move |mut peer, _| async move {
            peer.try_send(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n4\r\nhalf\r\n")).await.ok()?;
            None
        })
        .await;
        let running = one_at(backend.address, |_| {}).await;
        for _ in 0..250 {
            let mut peer = Peer::connect(running.address).await;
            peer.send(get("m")).await;
            let broken = peer.try_answer().await;
            assert!(broken.is_err(), "a client must not take half an answer for a whole one: {broken:?}");
        }
        assert_eq!(running.jobs(), 0);
        assert_eq!(running.metric("shortline_requests_total{job_type=\"m\",outcome=\"upstream_abort\"}").await, 250);
        running.stop().await;
    }
}

#[tokio::test]
async fn a_server_that_closes_or_talks_nonsense_before_its_answer_is_a_502() {
    for nonsense in ["", "HTTP/1.1 abc\r\n\r\n", "\u{16}\u{3}\u{1}garbage\r\n\r\n"] {
        let backend = Backend::scripted(move |mut peer, _| async move {
            peer.try_send(nonsense).await.ok()?;
            None
        })
        .await;
        let running = one_at(backend.address, |_| {}).await;
        for _ in 0..20 {
            let answer = call(running.address, get("m")).await;
            assert_eq!((answer.status(), answer.error_code().as_str()), (502, "upstream_error"), "{nonsense:?}");
        }
        assert_eq!(running.jobs(), 0);
        running.stop().await;
    }
}

#[tokio::test]
async fn an_answer_that_breaks_right_behind_its_head_is_a_502() {
    for broken in ["transfer-encoding: chunked\r\n\r\nZZ\r\n", "content-length: 9\r\n\r\n"] {
        let backend = Backend::scripted(move |mut peer, _| async move {
            peer.try_send(format!("HTTP/1.1 200 OK\r\n{broken}")).await.ok()?;
            None
        })
        .await;
        let running = one_at(backend.address, |_| {}).await;
        let answer = call(running.address, get("m")).await;
        assert_eq!((answer.status(), answer.error_code().as_str()), (502, "upstream_error"), "{broken:?}");
        assert_eq!(running.jobs(), 0);
        assert_eq!(running.metric("shortline_requests_total{job_type=\"m\",outcome=\"upstream_error\"}").await, 1);
        running.stop().await;
    }
}

#[tokio::test]
async fn what_came_before_a_break_reaches_the_client() {
    let backend = Backend::scripted(move |mut peer, _| async move {
        peer.try_send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\nZZ\r\n").await.ok()?;
        None
    })
    .await;
    let running = one_at(backend.address, |_| {}).await;
    for _ in 0..50 {
        let mut peer = Peer::connect(running.address).await;
        peer.send(get("m")).await;
        assert_eq!(peer.head().await.expect("the head").status(), 200);
        assert_eq!(peer.chunk().await.expect("the first chunk"), b"half");
        assert!(peer.chunk().await.is_err(), "the answer must not look whole");
    }
    running.settled().await;
    running.stop().await;
}

/// On two threads the break may come before the head is handed on, just then, or after it, as the threads happen to run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_break_at_whatever_moment_is_never_an_end_without_a_byte() {
    let backend = Backend::scripted(|mut peer, _| async move {
        peer.try_send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nZZ\r\n").await.ok()?;
        None
    })
    .await;
    let running = one_at(backend.address, |_| {}).await;
    for i in 0..2000 {
        let mut peer = Peer::connect(running.address).await;
        peer.send(get("m")).await;
        let head = peer.head().await;
        assert!(head.as_ref().is_ok_and(|head| matches!(head.status(), 200 | 502)), "{i}: {head:?}");
    }
    running.settled().await;
    running.stop().await;
}

#[tokio::test]
async fn a_server_that_refuses_connections_is_a_502() {
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let running = one_at(address, |_| {}).await;
    for _ in 0..50 {
        let answer = call(running.address, get("m")).await;
        assert_eq!((answer.status(), answer.error_code().as_str()), (502, "upstream_connect"));
    }
    assert_eq!(running.jobs(), 0);
    running.stop().await;
}

/// A port on which connecting hangs: its backlog is full and nobody accepts.
pub(crate) fn hanging() -> (SocketAddr, impl Sized) {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&"127.0.0.1:0".parse::<SocketAddr>().unwrap().into()).unwrap();
    socket.listen(1).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    let mut fill = Vec::new();
    while let Ok(stream) = std::net::TcpStream::connect_timeout(&address, Duration::from_millis(100)) {
        fill.push(stream);
    }
    (address, (socket, fill))
}

#[tokio::test]
async fn connects_that_hang_end_after_connect_s_and_count_as_load_until_then() {
    let (address, _full) = hanging();
    let running = one_at(address, |s| s.timeouts.connect_s = 1.0).await;
    let mut peers = Vec::new();
    for _ in 0..50 {
        let mut peer = Peer::connect(running.address).await;
        peer.send(get("m")).await;
        peers.push(peer);
    }
    let began = Instant::now();
    eventually(|| running.jobs() == 50).await;
    for peer in &mut peers {
        let answer = peer.answer().await;
        assert_eq!((answer.status(), answer.error_code().as_str()), (502, "upstream_connect"));
    }
    assert!(began.elapsed() < Duration::from_secs(5));
    assert_eq!(running.jobs(), 0);
    drop(peers);
    running.stop().await;
}

#[tokio::test]
async fn a_server_that_does_not_begin_to_answer_is_a_504_after_first_byte_s() {
    let holding = Holding::start().await;
    let running = one_at(holding.backend.address, |s| s.timeouts.first_byte_s = 0.2).await;
    let began = Instant::now();
    let answer = call(running.address, get("m")).await;
    assert_eq!((answer.status(), answer.error_code().as_str()), (504, "upstream_timeout"));
    assert!(began.elapsed() >= Duration::from_millis(200));
    assert_eq!(running.jobs(), 0);
    running.stop().await;
}

#[tokio::test]
async fn an_answer_that_pauses_for_longer_than_idle_s_breaks_off_and_one_that_only_takes_long_does_not() {
    let backend = Backend::scripted(|mut peer, head| async move {
        peer.try_send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await.ok()?;
        for _ in 0..8 {
            peer.try_send("1\r\nx\r\n").await.ok()?;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        if head.first.contains("stall") {
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
        peer.try_send("0\r\n\r\n").await.ok()?;
        Some(peer)
    })
    .await;
    let running = one_at(backend.address, |s| s.timeouts.idle_s = 0.7).await;
    assert_eq!(call(running.address, get("m")).await.text(), "xxxxxxxx");
    let mut peer = Peer::connect(running.address).await;
    peer.send(get("m").replace("GET /", "GET /stall")).await;
    assert!(peer.try_answer().await.is_err());
    assert_eq!(running.jobs(), 0);
    assert_eq!(running.metric("shortline_requests_total{job_type=\"m\",outcome=\"upstream_timeout\"}").await, 1);
    running.stop().await;
}

#[tokio::test]
async fn an_upload_that_stops_is_a_408_and_one_that_the_server_does_not_take_is_a_504() {
    let backend = Backend::scripted(|peer, _| async move {
        // Reads no body, answers nothing.
        let _open = peer;
        tokio::time::sleep(Duration::from_secs(60)).await;
        None
    })
    .await;
    let running = one_at(backend.address, |s| s.timeouts.idle_s = 0.3).await;
    for head in ["x-job-type: m\r\n", ""] {
        let mut peer = Peer::connect(running.address).await;
        peer.send(format!("POST / HTTP/1.1\r\nhost: h\r\n{head}content-length: 100\r\n\r\n{{\"a\"")).await;
        let answer = peer.answer().await;
        assert_eq!((answer.status(), answer.error_code().as_str()), (408, "client_timeout"), "{head}");
    }
    let mut peer = Peer::connect(running.address).await;
    peer.send("POST / HTTP/1.1\r\nhost: h\r\nx-job-type: m\r\ncontent-length: 100000000\r\n\r\n").await;
    let flood = async { while peer.try_send([0; 1 << 16]).await.is_ok() {} };
    assert!(tokio::time::timeout(Duration::from_millis(200), flood).await.is_err(), "the server takes no more");
    let answer = peer.answer().await;
    assert_eq!((answer.status(), answer.error_code().as_str()), (504, "upstream_timeout"));
    assert_eq!(running.jobs(), 0);
    drop(peer);
    running.stop().await;
}

#[tokio::test]
async fn an_upload_that_the_client_breaks_off_ends_at_the_server() {
    let (seen, mut ended) = tokio::sync::mpsc::unbounded_channel();
    let backend = Backend::scripted(move |mut peer, head| {
        let seen = seen.clone();
        async move {
            seen.send(peer.body(head, false).await.is_err()).unwrap();
            None
        }
    })
    .await;
    let running = one_at(backend.address, |_| {}).await;
    for head in ["content-length: 100\r\n\r\nhalf", "transfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n"] {
        let mut peer = Peer::connect(running.address).await;
        peer.send(format!("POST / HTTP/1.1\r\nhost: h\r\nx-job-type: m\r\n{head}")).await;
        eventually(|| running.jobs() == 1).await;
        drop(peer);
        running.settled().await;
        assert!(ended.recv().await.unwrap(), "the server must not take half a body for a whole one");
    }
    running.stop().await;
}

#[tokio::test]
async fn a_fleet_with_no_room_refuses_with_retry_after() {
    let holding = Holding::start().await;
    let plan = Plan::new(&[("m", &[0])]).server("s", 0.1, Some(1), holding.backend.address);
    for (status, settings) in [(503, 503), (429, 429), (529, 529)] {
        let running = plan.clone().settings(|s| s.gateway.no_capacity_status = settings).serve("jfsq", 1).await;
        let mut first = Peer::connect(running.address).await;
        first.send(get("m")).await;
        eventually(|| running.jobs() == 1).await;
        for _ in 0..100 {
            let refused = call(running.address, get("m")).await;
            assert_eq!((refused.status(), refused.error_code().as_str()), (status, "no_capacity"));
            // Nothing was completed yet, so the written speed counts: 1 / 0.1.
            assert_eq!(refused.header("retry-after"), Some("10"));
        }
        holding.answer_one();
        assert_eq!(first.answer().await.text(), "ok");
        assert_eq!(running.jobs(), 0);
        let status = running.gateway.status();
        assert_eq!((status.job_types[0].blocked_total, status.job_types[0].no_server_total), (100, 0));
        drop(first);
        running.stop().await;
    }
}

#[tokio::test]
async fn retry_after_is_at_the_written_pace_after_a_quiet_time() {
    let holding = Holding::start().await;
    let plan = Plan::new(&[("m", &[0])]).server("s", 10.0, Some(1), holding.backend.address);
    let running = plan.serve("jfsq", 1).await;
    holding.answer_one();
    assert_eq!(call(running.address, get("m")).await.status(), 200);
    // By now one completion in more than three seconds was measured.
    tokio::time::sleep(Duration::from_millis(4_500)).await;
    let mut first = Peer::connect(running.address).await;
    first.send(get("m")).await;
    eventually(|| running.jobs() == 1).await;
    let refused = call(running.address, get("m")).await;
    assert_eq!(refused.error_code(), "no_capacity");
    assert_eq!(refused.header("retry-after"), Some("1"));
    holding.answer_one();
    assert_eq!(first.answer().await.status(), 200);
    running.stop().await;
}

#[tokio::test]
async fn a_job_type_that_no_server_holds_is_told_so_and_not_to_come_back_soon() {
    let backend = Backend::replying(OK).await;
    let plan = Plan::new(&[("m", &[0]), ("nowhere", &[])]).server("s", 1.0, None, backend.address);
    let running = plan.serve("jfsq", 1).await;
    let refused = call(running.address, get("nowhere")).await;
    assert_eq!((refused.status(), refused.error_code().as_str()), (503, "no_server_up"));
    assert_eq!(refused.header("retry-after"), Some("60"));
    assert!(refused.text().contains("no server of the fleet holds"), "{}", refused.text());
    running.stop().await;
}

async fn with_sockets(plan: &Plan, connections: usize) -> Running {
    let options =
        shortline_gateway::Options { connections: Some(connections), ..shortline_gateway::Options::new(plan.fleet()) };
    Running::start(shortline_gateway::Gateway::new(options).unwrap(), crate::support::PATIENCE).await
}

#[tokio::test]
async fn clients_beyond_the_sockets_wait_until_another_leaves_and_the_admin_pages_go_on() {
    let backend = Backend::replying(OK).await;
    let running = with_sockets(&Plan::new(&[("m", &[0])]).server("s", 1.0, None, backend.address), 3).await;
    let mut peers = Vec::new();
    for _ in 0..3 {
        let mut peer = Peer::connect(running.address).await;
        peer.send(get("m")).await;
        assert_eq!(peer.answer().await.status(), 200);
        peers.push(peer);
    }
    let mut fourth = Peer::connect(running.address).await;
    fourth.send(get("m")).await;
    let early = tokio::time::timeout(Duration::from_millis(300), fourth.head()).await;
    assert!(early.is_err(), "it waits in the backlog: {early:?}");
    assert_eq!(running.gateway.connections(), 3);
    assert_eq!(call(running.admin, "GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n").await.status(), 200);
    drop(peers.pop());
    assert_eq!(fourth.answer().await.status(), 200);
    running.stop().await;
}

#[tokio::test]
async fn idle_connections_to_servers_make_room_for_others() {
    let (a, b) = (Backend::replying(OK).await, Holding::start().await);
    let plan = Plan::new(&[("a", &[0]), ("b", &[1])]).server("a", 1.0, None, a.address);
    let running = with_sockets(&plan.server("b", 1.0, None, b.backend.address), 2).await;
    let mut one = Peer::connect(running.address).await;
    one.send(get("a")).await;
    assert_eq!(one.answer().await.status(), 200);
    // The connection to `a` lies idle; `b` needs both.
    let mut two = Peer::connect(running.address).await;
    one.send(get("b")).await;
    two.send(get("b")).await;
    b.received(2).await;
    b.answer_one();
    b.answer_one();
    assert_eq!((one.answer().await.status(), two.answer().await.status()), (200, 200));
    running.stop().await;
}

#[tokio::test]
async fn no_room_for_another_connection_to_a_server_is_not_blamed_on_the_server() {
    let holding = Holding::start().await;
    let plan = Plan::new(&[("m", &[0])]).server("s", 1.0, None, holding.backend.address);
    let running = with_sockets(&plan.settings(|s| s.timeouts.connect_s = 0.2), 1).await;
    // Over HTTP/2 one connection of a client carries more requests than there may be connections to servers.
    let stream = tokio::net::TcpStream::connect(running.address).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = || {
        let request = http::Request::get("http://a/").header("x-job-type", "m");
        request.body(http_body_util::Empty::<bytes::Bytes>::new()).unwrap()
    };
    let first = tokio::spawn(sender.send_request(request()));
    holding.received(1).await;
    let refused = sender.send_request(request()).await.unwrap();
    assert_eq!(refused.status(), 503);
    assert!(refused.headers().contains_key("retry-after"));
    let metric = |outcome| format!("shortline_requests_total{{job_type=\"m\",outcome=\"{outcome}\"}}");
    assert_eq!(running.metric(&metric("out_of_sockets")).await, 1);
    assert_eq!(running.metric(&metric("upstream_connect")).await, 0);
    holding.answer_one();
    assert_eq!(first.await.unwrap().unwrap().status(), 200);
    drop(sender);
    running.stop().await;
}

#[tokio::test]
async fn no_server_up_is_told_apart_from_no_room() {
    let backend = Backend::replying(OK).await;
    let plan = Plan::new(&[("m", &[0]), ("nowhere", &[])]).server("s", 1.0, None, backend.address);
    for overflow in [shortline_core::fleet::settings::Overflow::Reject, shortline_core::fleet::settings::Overflow::Wait]
    {
        let running = plan.clone().settings(|s| s.overflow = overflow).serve("jfsq", 1).await;
        assert!(running.gateway.set_up("s", false));
        for job_type in ["m", "nowhere"] {
            let refused = call(running.address, get(job_type)).await;
            assert_eq!((refused.status(), refused.error_code().as_str()), (503, "no_server_up"));
            assert!(refused.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
        }
        running.gateway.set_up("s", true);
        assert_eq!(call(running.address, get("m")).await.status(), 200);
        assert_eq!(running.gateway.status().job_types[0].no_server_total, 1);
        running.stop().await;
    }
}

#[tokio::test]
async fn a_refused_client_that_sends_its_whole_body_first_sees_the_refusal() {
    let backend = Backend::replying(OK).await;
    let running = one_at(backend.address, |_| {}).await;
    let body = vec![b'x'; 4 << 20];
    for _ in 0..20 {
        let mut peer = Peer::connect(running.address).await;
        peer.send(format!("POST / HTTP/1.1\r\nhost: h\r\nx-job-type: no\r\ncontent-length: {}\r\n\r\n", body.len()))
            .await;
        peer.send(&body).await;
        assert_eq!(peer.answer().await.status(), 404);
        peer.send(get("m")).await;
        assert_eq!(peer.answer().await.status(), 200, "and can go on with its connection");
    }
    running.stop().await;
}

#[tokio::test]
async fn a_client_that_stops_reading_is_let_go_after_idle_s() {
    let backend = Backend::scripted(|mut peer, _| async move {
        peer.try_send("HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n").await.ok()?;
        let block = vec![b'x'; 1 << 16];
        while peer.try_send(&block).await.is_ok() {}
        None
    })
    .await;
    let running = one_at(backend.address, |s| s.timeouts.idle_s = 0.3).await;
    let mut peer = Peer::connect(running.address).await;
    peer.send(get("m")).await;
    assert_eq!(peer.head().await.unwrap().status(), 200);
    let began = Instant::now();
    assert_eq!(running.jobs(), 1);
    running.settled().await;
    assert!(began.elapsed() >= Duration::from_millis(200), "{:?}", began.elapsed());
    drop(peer);
    running.stop().await;
}

#[tokio::test]
async fn half_a_request_head_holds_a_connection_for_header_s_only() {
    let backend = Backend::replying("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    let running = one_at(backend.address, |s| s.timeouts.header_s = 0.3).await;
    let mut peer = Peer::connect(running.address).await;
    peer.send("GET / HTTP/1.1\r\nx-job-type: m\r\nx-never-").await;
    let began = Instant::now();
    assert_eq!(peer.answer().await.error_code(), "client_timeout");
    assert!(peer.is_closed().await);
    assert!(began.elapsed() >= Duration::from_millis(200), "{:?}", began.elapsed());
    running.stop().await;
}

#[tokio::test]
async fn a_server_that_answers_before_it_has_the_whole_upload_is_not_used_half_way() {
    let backend = Backend::scripted(|mut peer, _| async move {
        peer.try_send("HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\n\r\nno").await.ok()?;
        // Reads no more, but stays.
        peer.is_open_for(Duration::from_secs(60)).await;
        None
    })
    .await;
    let running = one_at(backend.address, |_| {}).await;
    for _ in 0..10 {
        let mut peer = Peer::connect(running.address).await;
        peer.send("POST / HTTP/1.1\r\nhost: h\r\nx-job-type: m\r\ncontent-length: 100000000\r\n\r\nbegin").await;
        let answer = peer.answer().await;
        assert_eq!((answer.status(), answer.header("connection")), (403, Some("close")), "nothing more is read");
        assert_eq!(running.jobs(), 0);
        assert!(peer.is_closed().await, "what the client still sends is not the next request");
    }
    assert_eq!(backend.connections(), 10);
    running.stop().await;
}

/// The time in which a client sends what names its model is not the server's.
#[tokio::test]
async fn a_client_that_sends_its_model_slowly_takes_nothing_of_first_byte_s() {
    let backend = Backend::replying(OK).await;
    let running = one_at(backend.address, |s| (s.timeouts.first_byte_s, s.health.trip_after) = (0.5, 1)).await;
    let mut peer = Peer::connect(running.address).await;
    let body = r#"{"model":"m"}"#;
    peer.send(format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: {}\r\n\r\n{}", body.len(), &body[..5])).await;
    tokio::time::sleep(Duration::from_millis(800)).await;
    peer.send(&body[5..]).await;
    assert_eq!(peer.answer().await.status(), 200);
    drop(peer);
    running.settled().await;
    running.stop().await;
}
