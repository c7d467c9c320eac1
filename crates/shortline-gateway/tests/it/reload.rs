//! The fleet exchanged under way: the file read again, servers put and deleted.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use shortline_core::Fleet;
use shortline_core::fleet::settings::{Checks, Overflow};
use shortline_gateway::{Gateway, Options};

use crate::support::{Backend, Holding, Message, OK, PATIENCE, Peer, Plan, Running, call, eventually, get};

/// What the fleet file holds, or what is wrong with it.
type File = Arc<Mutex<Result<Arc<Fleet>, String>>>;

/// A gateway whose fleet file can be changed.
async fn serve(plan: &Plan) -> (Running, File) {
    let file: File = Arc::new(Mutex::new(Ok(plan.fleet())));
    let read = Arc::clone(&file);
    let options = Options {
        read: Some(Arc::new(move || Ok(read.lock().unwrap().clone()?.into()))),
        ..Options::new(plan.fleet())
    };
    (Running::start(Gateway::new(options).unwrap(), PATIENCE).await, file)
}

fn write(file: &File, fleet: Result<Arc<Fleet>, String>) {
    *file.lock().unwrap() = fleet;
}

fn order(method: &str, path: &str, body: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nhost: a\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

async fn reload(running: &Running) -> Message {
    call(running.admin, order("POST", "/reload", "")).await
}

fn json(message: &Message) -> serde_json::Value {
    serde_json::from_slice(&message.body).unwrap()
}

/// A job type on the first server.
fn one(job_type: &str, server: &str, address: SocketAddr) -> Plan {
    Plan::new(&[(job_type, &[0])]).server(server, 1.0, None, address)
}

#[tokio::test]
async fn demand_14_a_reload_is_all_of_the_new_fleet_or_nothing_and_cuts_no_stream() {
    let (old, new) = (Holding::start().await, Backend::replying(OK).await);
    let (running, file) = serve(&one("m", "a", old.backend.address)).await;
    let mut stream = Peer::connect(running.address).await;
    stream.send(get("m")).await;
    old.received(1).await;

    write(&file, Err("no such type `A11`, did you mean `A10`?".into()));
    let refused = reload(&running).await;
    assert_eq!((refused.status(), refused.error_code().as_str()), (400, "bad_fleet"));
    assert!(refused.text().contains("did you mean `A10`?"), "{}", refused.text());
    assert_eq!(running.metric("shortline_reloads_total{result=\"failed\"}").await, 1);
    assert_eq!(running.metric("shortline_config_valid").await, 0);
    assert_eq!((running.gateway.status().epoch, running.jobs()), (0, 1), "the former fleet goes on");

    // A fleet that can be read and not served: nothing of it.
    write(
        &file,
        Ok(Arc::new(
            Fleet::new(shortline_core::fleet::FleetParts {
                servers: one("m", "b", new.address)
                    .fleet()
                    .to_parts()
                    .servers
                    .into_iter()
                    .map(|mut server| {
                        server.addresses.clear();
                        server
                    })
                    .collect(),
                ..one("m", "b", new.address).fleet().to_parts()
            })
            .unwrap(),
        )),
    );
    assert!(reload(&running).await.text().contains("`b` has no address"));
    assert_eq!(running.gateway.status().servers[0].name, "a");

    write(&file, Ok(one("n", "b", new.address).fleet()));
    let done = reload(&running).await;
    assert_eq!(done.status(), 200, "{}", done.text());
    let expected = serde_json::json!({"epoch": 1, "servers": 1, "job_types": 1, "servers_added": 1, "servers_removed": 1, "warnings": []});
    assert_eq!(json(&done), expected);
    assert_eq!(running.metric("shortline_config_valid").await, 1);
    assert_eq!(running.metric("shortline_epoch").await, 1);
    assert_eq!(call(running.address, get("n")).await.header("x-served-by"), Some("b"));
    assert_eq!(call(running.address, get("m")).await.error_code(), "unknown_job_type");

    old.answer_one();
    let answer = stream.answer().await;
    assert_eq!((answer.status(), answer.header("x-served-by")), (200, Some("a")), "it ran on at a server that is gone");
    running.stop().await;
}

#[tokio::test]
async fn demand_15_a_server_that_goes_and_comes_back_finds_its_running_requests_counted() {
    let (slow, other) = (Holding::start().await, Backend::replying(OK).await);
    let both =
        Plan::new(&[("m", &[0, 1])]).server("a", 2.0, None, slow.backend.address).server("b", 1.0, None, other.address);
    let (running, file) = serve(&both).await;
    let mut peers = Vec::new();
    for n in 1..=2 {
        let mut peer = Peer::connect(running.address).await;
        peer.send(get("m")).await;
        match n {
            1 => slow.received(1).await,
            _ => assert_eq!(peer.answer().await.header("x-served-by"), Some("b")),
        }
        peers.push(peer);
    }
    write(&file, Ok(one("m", "b", other.address).fleet()));
    assert_eq!(reload(&running).await.status(), 200);
    assert_eq!(running.gateway.status().servers.len(), 1);
    write(&file, Ok(both.fleet()));
    assert_eq!(reload(&running).await.status(), 200);
    let status = running.gateway.status();
    let a = status.servers.iter().find(|server| server.name == "a").unwrap();
    assert_eq!((a.in_flight, a.routed_total), (1, 1), "the request that runs is counted, and so are those before");
    assert_eq!(call(running.address, get("m")).await.header("x-served-by"), Some("b"), "`a` does not look empty");
    slow.answer_one();
    assert_eq!(peers[0].answer().await.status(), 200);
    running.settled().await;
    running.stop().await;
}

/// 200 streams under way, requests beside them, 50 reloads that move, add and remove servers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_are_not_broken_by_fifty_reloads_under_load() {
    const STREAMS: usize = 200;
    let chunked = |peer: Peer| async move {
        let mut peer = peer;
        peer.try_send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await.ok()?;
        for _ in 0..40 {
            peer.try_send("5\r\nhello\r\n").await.ok()?;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        peer.try_send("0\r\n\r\n").await.ok()?;
        Some(peer)
    };
    let streaming = Backend::scripted(move |peer, _| chunked(peer)).await;
    let (quick, also_quick) = (Backend::replying(OK).await, Backend::replying(OK).await);
    let with = |server: &str, address| {
        Plan::new(&[("stream", &[0]), ("m", &[1, 2])])
            .server("s", 1.0, None, streaming.address)
            .server("q", 1.0, None, quick.address)
            .server(server, 1.0, None, address)
            .fleet()
    };
    let plan = Plan::new(&[("stream", &[0]), ("m", &[1, 2])])
        .server("s", 1.0, None, streaming.address)
        .server("q", 1.0, None, quick.address)
        .server("r", 1.0, None, also_quick.address);
    let (running, file) = serve(&plan).await;
    let address = running.address;
    let streams: Vec<_> =
        (0..STREAMS).map(|_| tokio::spawn(async move { call(address, get("stream")).await })).collect();
    eventually(|| running.jobs() >= STREAMS as u64).await;
    let load = tokio::spawn(async move {
        let mut peer = Peer::connect(address).await;
        let mut answered = 0;
        for _ in 0..400 {
            peer.send(get("m")).await;
            assert_eq!(peer.answer().await.status(), 200);
            answered += 1;
        }
        answered
    });
    for n in 0..50 {
        let names = ["r", "t", "u"];
        let addresses = [also_quick.address, quick.address];
        write(&file, Ok(with(names[n % 3], addresses[n % 2])));
        assert_eq!(reload(&running).await.status(), 200);
    }
    assert_eq!(load.await.unwrap(), 400);
    for stream in streams {
        let answer = stream.await.unwrap();
        assert_eq!((answer.status(), answer.body.len()), (200, 200), "not one piece is missing");
    }
    assert_eq!(running.gateway.status().epoch, 50);
    running.settled().await;
    running.stop().await;
}

#[tokio::test]
async fn a_server_with_a_new_address_gets_new_requests_there_and_old_ones_end_where_they_are() {
    let (before, after) = (Holding::start().await, Backend::replying(OK).await);
    let (running, file) = serve(&one("m", "a", before.backend.address)).await;
    let mut old = Peer::connect(running.address).await;
    old.send(get("m")).await;
    before.received(1).await;
    write(&file, Ok(one("m", "a", after.address).fleet()));
    assert_eq!(reload(&running).await.status(), 200);
    assert_eq!(call(running.address, get("m")).await.status(), 200);
    assert_eq!((after.requests(), before.backend.requests(), running.jobs()), (1, 1, 1));
    before.answer_one();
    assert_eq!(old.answer().await.status(), 200);
    assert_eq!(running.gateway.status().servers[0].routed_total, 2, "one server, one count");
    running.stop().await;
}

#[tokio::test]
async fn the_operators_word_outlives_a_reload_and_so_does_an_absence() {
    let backend = Backend::replying(OK).await;
    let both =
        Plan::new(&[("m", &[0, 1])]).server("a", 2.0, None, backend.address).server("b", 1.0, None, backend.address);
    let (running, file) = serve(&both).await;
    assert_eq!(call(running.admin, order("POST", "/servers/a/drain", "")).await.status(), 200);
    for fleet in [both.fleet(), one("m", "b", backend.address).fleet(), both.fleet()] {
        write(&file, Ok(fleet));
        assert_eq!(reload(&running).await.status(), 200);
        assert_eq!(call(running.address, get("m")).await.header("x-served-by"), Some("b"));
    }
    assert_eq!(call(running.admin, order("POST", "/servers/a/up", "")).await.status(), 200);
    assert_eq!(call(running.address, get("m")).await.header("x-served-by"), Some("a"));
    running.stop().await;
}

#[tokio::test]
async fn who_waits_in_a_line_that_is_no_more_is_told_so() {
    let holding = Holding::start().await;
    let lines = |job_types: &[(&str, &[u32])]| {
        Plan::new(job_types)
            .server("a", 1.0, Some(1), holding.backend.address)
            .settings(|s| s.overflow = Overflow::Wait)
    };
    let (running, file) = serve(&lines(&[("m", &[0]), ("n", &[0])])).await;
    let mut peers = Vec::new();
    for (n, job_type) in [(1, "m"), (2, "n"), (3, "m")] {
        let mut peer = Peer::connect(running.address).await;
        peer.send(get(job_type)).await;
        eventually(|| running.jobs() == n).await;
        peers.push(peer);
    }
    write(&file, Ok(lines(&[("m", &[0])]).fleet()));
    assert_eq!(reload(&running).await.status(), 200);
    assert_eq!(peers[1].answer().await.error_code(), "unknown_job_type");
    for peer in [0, 2] {
        holding.answer_one();
        assert_eq!(peers[peer].answer().await.status(), 200, "the line of `m` goes on");
    }
    running.stop().await;
}

#[tokio::test]
async fn checks_of_a_server_that_is_gone_stop() {
    let (gone, stays) = (Backend::replying(OK).await, Backend::replying(OK).await);
    let checked = |plan: Plan| {
        plan.settings(|s| {
            s.health.checks = Some(Checks { interval_s: 0.02, timeout_s: 1.0, ..Checks::of("/health") });
        })
    };
    let both = checked(Plan::new(&[("m", &[0, 1])]).server("a", 2.0, None, gone.address).server(
        "b",
        1.0,
        None,
        stays.address,
    ));
    let (running, file) = serve(&both).await;
    eventually(|| gone.requests() > 2 && stays.requests() > 2).await;
    write(&file, Ok(checked(one("m", "b", stays.address)).fleet()));
    assert_eq!(reload(&running).await.status(), 200);
    // The checks of the former fleet end within a quarter of a second.
    tokio::time::sleep(Duration::from_millis(400)).await;
    let (at_gone, at_stays) = (gone.requests(), stays.requests());
    eventually(|| stays.requests() > at_stays + 5).await;
    assert_eq!(gone.requests(), at_gone);
    running.stop().await;
}

#[tokio::test]
async fn servers_are_put_and_deleted_and_survive_a_reload_unless_the_file_names_them() {
    let (first, second) = (Backend::replying(OK).await, Backend::replying(OK).await);
    let plan = one("m", "a", first.address);
    let (running, file) = serve(&plan).await;
    let described = |address: SocketAddr| {
        serde_json::json!({"type": "type of a", "address": address.to_string(), "serves": ["m"], "buffer": 3})
            .to_string()
    };
    let put = call(running.admin, order("PUT", "/servers/b%2D1", &described(second.address))).await;
    assert_eq!(put.status(), 200, "{}", put.text());
    let servers = || running.gateway.status().servers.into_iter().map(|s| (s.name, s.buffer)).collect::<Vec<_>>();
    assert_eq!(servers(), [("a".into(), None), ("b-1".into(), Some(3))]);
    assert_eq!(call(running.admin, order("DELETE", "/servers/a", "")).await.status(), 200);
    assert_eq!(call(running.address, get("m")).await.header("x-served-by"), Some("b-1"));
    assert_eq!(reload(&running).await.status(), 200);
    assert_eq!(servers().len(), 2, "the file brings `a` back, and what was put stays");
    write(&file, Ok(Plan::new(&[("m", &[0])]).server("b-1", 1.0, Some(9), second.address).fleet()));
    assert_eq!(reload(&running).await.status(), 200);
    assert_eq!(servers(), [("b-1".into(), Some(9))], "as the file says");
    write(&file, Ok(plan.fleet()));
    assert_eq!(reload(&running).await.status(), 200);
    assert_eq!(servers(), [("a".into(), None)], "it was the file's since, and the file took it away");
    running.stop().await;
}

#[tokio::test]
async fn a_server_that_does_not_fit_is_refused_with_the_reason() {
    let backend = Backend::replying(OK).await;
    let (running, _) = serve(&one("m", "a", backend.address)).await;
    let with = |members: &str| format!(r#"{{"type": "type of a", "serves": ["m"], {members}}}"#);
    let at = |members: &str| with(&format!(r#""address": "127.0.0.1:1"{members}"#));
    let cases = [
        ("{".into(), "JSON object"),
        ("[]".into(), "JSON object"),
        (at(r#", "bufer": 1"#), "unknown key `bufer` in [[server]]; did you mean `buffer`?"),
        (at(r#", "color": 1"#), "unknown key `color` in [[server]]; allowed are "),
        (at(r#", "name": "b""#), "the path names it"),
        (at(r#", "count": 2"#), "it is one server"),
        (at(r#", "buffer": 0"#), "`buffer` is 0, must be a whole number from 1 up"),
        (at(r#", "protocol": "http2""#), "`protocol` cannot be `http2`"),
        (at(r#", "tls_name": "a b""#), "tls_name"),
        (with(r#""address": "127.0.0.1""#), "has no port"),
        (with(r#""address": "h:1-2""#), "2 addresses for 1 server"),
        (with(r#""buffer": 2"#), "has no `address`"),
        (
            r#"{"type": "type of a", "adress": "h:1", "serves": ["m"]}"#.into(),
            "`adress` in [[server]]; did you mean `address`?",
        ),
        (r#"{"type": "type of A", "address": "h:1", "serves": ["m"]}"#.into(), "did you mean `type of a`?"),
        (r#"{"address": "h:1", "serves": ["m"]}"#.into(), "has no `type`"),
        (r#"{"type": "type of a", "address": "h:1"}"#.into(), "has no `serves`"),
        (r#"{"type": "type of a", "address": "h:1", "serves": ["n"]}"#.into(), "`n`"),
        (r#"{"type": "type of a", "address": "h:1", "serves": ["m", "m"]}"#.into(), "listed twice"),
        (r#"{"type": "type of a", "address": "h:1", "serves": ["*", "m"]}"#.into(), "nothing can stand beside it"),
    ];
    for (body, why) in cases {
        let refused = call(running.admin, order("PUT", "/servers/b", &body)).await;
        assert_eq!((refused.status(), refused.error_code().as_str()), (400, "bad_fleet"), "{body}");
        assert!(refused.text().contains(why), "{body}: {}", refused.text());
    }
    assert_eq!(call(running.admin, order("DELETE", "/servers/none", "")).await.status(), 404);
    let last = call(running.admin, order("DELETE", "/servers/a", "")).await;
    assert_eq!(last.status(), 400, "a fleet needs a server");
    assert_eq!(running.gateway.status().epoch, 0);
    running.stop().await;
}

#[tokio::test]
async fn a_server_that_is_put_can_have_whatever_one_of_the_file_can() {
    let (first, old, new) = (Backend::replying(OK).await, Backend::replying(OK).await, preface_of_http2().await);
    let plan = Plan::new(&[("m", &[0]), ("n", &[])])
        .server("a", 1.0, None, first.address)
        .settings(|settings| settings.buffer = Some(7));
    let (running, _) = serve(&plan).await;
    let put = async |name: &str, body: serde_json::Value| {
        let put = call(running.admin, order("PUT", &format!("/servers/{name}"), &body.to_string())).await;
        assert_eq!(put.status(), 200, "{}", put.text());
    };
    let other = Backend::replying(OK).await;
    let (old_address, new_address) = (old.address.to_string(), new.0.to_string());
    let other_address = other.address.to_string();
    put("plain", serde_json::json!({"type": "type of a", "address": old_address, "serves": ["n"]})).await;
    put(
        "wide",
        serde_json::json!({"type": "type of a", "address": other_address, "serves": [], "buffer": "unbounded"}),
    )
    .await;
    let buffers: Vec<_> = running.gateway.status().servers.into_iter().map(|s| (s.name, s.buffer)).collect();
    let expected = [("a".into(), None), ("plain".into(), Some(7)), ("wide".into(), None)];
    assert_eq!(buffers, expected, "without a word the fleet's");
    assert_eq!(call(running.address, get("n")).await.header("x-served-by"), Some("plain"));
    // `plain` again, elsewhere and in another protocol.
    put("plain", serde_json::json!({"type": "type of a", "address": new_address, "serves": ["*"], "protocol": "h2"}))
        .await;
    assert_eq!(call(running.address, get("n")).await.status(), 502);
    assert_eq!(new.1.await.unwrap(), *b"PRI * HTTP/2.0");
    put(
        "plain",
        serde_json::json!({
            "type": "type of a", "address": format!("https://{new_address}"), "serves": ["*"], "tls_name": "gpu.test"
        }),
    )
    .await;
    let address = running.gateway.fleet().servers().find_map(|id| {
        let fleet = running.gateway.fleet();
        (fleet.server_name(id) == "plain").then(|| fleet.address(id).cloned())
    });
    assert_eq!(address.flatten().unwrap().tls_name.as_deref(), Some("gpu.test"));
    running.stop().await;
}

/// Where the first bytes of a connection are read, and no more.
async fn preface_of_http2() -> (SocketAddr, tokio::task::JoinHandle<[u8; 14]>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let first = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut first = [0; 14];
        tokio::io::AsyncReadExt::read_exact(&mut stream, &mut first).await.unwrap();
        first
    });
    (address, first)
}

#[tokio::test]
async fn without_a_file_there_is_nothing_to_reload() {
    let backend = Backend::replying(OK).await;
    let running = one("m", "a", backend.address).serve("jfsq", 1).await;
    assert!(reload(&running).await.text().contains("without a fleet file"));
    running.stop().await;
}

/// A gateway whose first reload reads until this is dropped, and whose later ones read `plan`.
async fn serve_from_a_slow_disk(plan: &Plan, read_at_most: Duration) -> (Running, std::sync::mpsc::Sender<()>) {
    let (disk, answers) = std::sync::mpsc::channel();
    let (first, fleet) = (Mutex::new(Some(answers)), plan.fleet());
    let read = move || {
        let first = first.lock().unwrap().take();
        if let Some(answers) = first {
            let _dropped = answers.recv_timeout(PATIENCE);
        }
        Ok(Arc::clone(&fleet).into())
    };
    let options = Options { read: Some(Arc::new(read)), read_at_most, ..Options::new(plan.fleet()) };
    (Running::start(Gateway::new(options).unwrap(), PATIENCE).await, disk)
}

#[tokio::test]
async fn a_reading_that_hangs_is_given_up_and_the_next_one_begins_anew() {
    let backend = Backend::replying(OK).await;
    let plan = one("m", "a", backend.address);
    let (running, _disk) = serve_from_a_slow_disk(&plan, Duration::from_millis(300)).await;
    let refused = reload(&running).await;
    assert_eq!((refused.status(), refused.error_code().as_str()), (400, "bad_fleet"));
    assert!(refused.text().contains("cannot read the fleet file: it took longer than 0.3 s"), "{}", refused.text());
    assert_eq!(running.metric("shortline_config_valid").await, 0);
    assert_eq!(running.metric("shortline_reloads_total{result=\"failed\"}").await, 1);
    // The first one still hangs.
    assert_eq!(reload(&running).await.status(), 200);
    assert_eq!(running.metric("shortline_config_valid").await, 1);
    running.stop().await;
}

#[tokio::test]
async fn servers_are_put_while_a_reading_hangs() {
    let (backend, other) = (Backend::replying(OK).await, Backend::replying(OK).await);
    let (running, disk) = serve_from_a_slow_disk(&one("m", "a", backend.address), PATIENCE).await;
    let admin = running.admin;
    let hanging = tokio::spawn(async move { call(admin, order("POST", "/reload", "")).await });
    let body = serde_json::json!({"type": "type of a", "address": other.address.to_string(), "serves": ["m"]});
    let began = std::time::Instant::now();
    assert_eq!(call(running.admin, order("PUT", "/servers/b", &body.to_string())).await.status(), 200);
    assert!(began.elapsed() < PATIENCE / 2, "{:?}", began.elapsed());
    drop(disk);
    assert_eq!(hanging.await.unwrap().status(), 200);
    assert_eq!(running.gateway.status().servers.len(), 2, "what was put meanwhile stays");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reading_that_hangs_does_not_keep_the_gateway_from_ending() {
    let backend = Backend::replying(OK).await;
    let (running, _disk) = serve_from_a_slow_disk(&one("m", "a", backend.address), PATIENCE).await;
    let mut operator = Peer::connect(running.admin).await;
    operator.send(order("POST", "/reload", "")).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let began = std::time::Instant::now();
    running.trigger.end();
    running.ended().await;
    assert!(began.elapsed() < PATIENCE / 2, "{:?}", began.elapsed());
}

/// Checks once an hour, as far as the interval decides.
fn hourly(plan: Plan, path: &str, healthy_after: u32) -> Plan {
    plan.settings(|s| s.health.checks = Some(Checks { interval_s: 3600.0, healthy_after, ..Checks::of(path) }))
}

#[tokio::test]
async fn other_checks_and_servers_that_have_moved_are_checked_at_once() {
    let well_at = |path: &'static str| {
        Backend::scripted(move |mut peer, head| async move {
            let well = head.first.contains(path);
            peer.try_send(if well { OK } else { "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n" }).await.ok()?;
            Some(peer)
        })
    };
    let (first, second) = (well_at("/health").await, well_at("/health").await);
    let wrong = hourly(one("m", "a", first.address), "/helth", 1);
    let (running, file) = serve(&wrong).await;
    let health = || running.gateway.status().servers[0].health;
    eventually(|| health() == "down").await;
    write(&file, Ok(wrong.settings(|s| s.retry.attempts = 1).fleet()));
    assert_eq!(reload(&running).await.status(), 200);
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert_eq!((first.requests(), health()), (1, "down"), "the same checks keep their schedule");
    let right = hourly(one("m", "a", first.address), "/health", 1);
    write(&file, Ok(right.fleet()));
    assert_eq!(reload(&running).await.status(), 200);
    eventually(|| health() != "down").await;
    assert_eq!(first.requests(), 2);

    write(&file, Ok(hourly(one("m", "a", second.address), "/health", 1).fleet()));
    assert_eq!(reload(&running).await.status(), 200);
    eventually(|| second.requests() == 1).await;
    running.stop().await;
}

#[tokio::test]
async fn no_two_servers_have_the_same_address_whoever_names_it() {
    let (first, second) = (Backend::replying(OK).await, Backend::replying(OK).await);
    let (running, file) = serve(&one("m", "a", first.address)).await;
    let put = async |name: &str, address: String| {
        let body = serde_json::json!({"type": "type of a", "address": address, "serves": ["m"]}).to_string();
        call(running.admin, order("PUT", &format!("/servers/{name}"), &body)).await
    };
    for address in [first.address.to_string(), format!("https://{}", first.address)] {
        let refused = put("b", address).await;
        assert_eq!((refused.status(), refused.error_code().as_str()), (400, "bad_fleet"));
        let why = refused.text();
        assert!(why.contains("two servers have the address") && why.contains("`a`"), "{why}");
    }
    assert_eq!(put("a", first.address.to_string()).await.status(), 200, "its own");
    assert_eq!(put("b", second.address.to_string()).await.status(), 200);
    // The file gives that address away.
    write(&file, Ok(one("m", "a", second.address).fleet()));
    let refused = reload(&running).await;
    assert_eq!(refused.status(), 400);
    assert!(refused.text().contains("server `b` does not fit the fleet: two servers have"), "{}", refused.text());
    running.stop().await;
}
