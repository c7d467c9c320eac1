//! One structured log line a request.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::support::{Backend, Peer, Plan, call, get};

type Lines = Arc<Mutex<Vec<BTreeMap<&'static str, String>>>>;

/// Collects the access log.
struct AccessLog(Lines);

impl Subscriber for AccessLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "shortline::access" && *metadata.level() == Level::INFO
            || metadata.target() == "shortline_gateway::health" && *metadata.level() == Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Fields::default();
        event.record(&mut line);
        let is_ours = |name: &str, begin| line.0.get(name).is_some_and(|value: &String| value.starts_with(begin));
        if is_ours("path", "/logged") || is_ours("server", "logged-") {
            self.0.lock().unwrap().push(line.0);
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[derive(Default)]
struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}").trim_matches('"').to_owned());
    }
}

/// Why a server is left alone, where it is, and which servers had a request in vain.
async fn what_failed_is_in_the_log(lines: &Lines) {
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let busy = Backend::replying("HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n").await;
    let well = Backend::replying(crate::support::OK).await;
    let plan = Plan::new(&[("m", &[0, 1, 2])])
        .server("logged-gone", 9.0, None, gone)
        .server("logged-busy", 5.0, None, busy.address)
        .server("well", 1.0, None, well.address)
        .settings(|settings| settings.health.trip_after = 1);
    let running = plan.serve("jfsq", 1).await;
    call(running.address, get("m").replace("/ ", "/logged/retried ")).await;
    running.stop().await;
    let lines = std::mem::take(&mut *lines.lock().unwrap());
    let field = |line: usize, name: &str| lines[line].get(name).cloned().unwrap_or_default();
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert_eq!((field(0, "server"), field(0, "address")), ("logged-gone".into(), gone.to_string()));
    assert!(field(0, "why").starts_with("no connection: ") && field(0, "why").contains("refused"), "{:?}", lines[0]);
    assert_eq!((field(1, "server"), field(1, "why")), ("logged-busy".into(), "status 503".into()));
    assert_eq!((field(2, "status"), field(2, "retries")), ("200".into(), "2".into()));
    assert_eq!(field(2, "tried"), "logged-gone: connect, logged-busy: status");
}

#[tokio::test]
async fn every_request_is_logged_once_with_the_decisions_reason() {
    // For the whole process, so that the other tests' requests, on threads of their own, do not decide that nobody
    // listens; theirs are told apart by their paths.
    let lines = Lines::default();
    tracing::subscriber::set_global_default(AccessLog(lines.clone())).expect("nobody else collects logs");
    what_failed_is_in_the_log(&lines).await;
    let backend = Backend::scripted(|mut peer, head| async move {
        if head.first.contains("/cut") {
            peer.try_send("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf").await.ok()?;
            return None;
        }
        if head.first.contains("/tunnel") {
            peer.try_send("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\nhello")
                .await
                .ok()?;
            peer.is_open_for(std::time::Duration::from_secs(60)).await;
        }
        peer.try_send("HTTP/1.1 201 Created\r\ncontent-length: 5\r\n\r\nhello").await.ok()?;
        Some(peer)
    })
    .await;
    let plan = Plan::new(&[("m", &[0]), ("none", &[])]).server("s", 1.0, None, backend.address);
    let running = plan.serve("jfsq", 1).await;

    call(running.address, get("m").replace("GET /", "PUT /logged/b?secret=1")).await;
    call(running.address, get("who").replace("/ ", "/logged ")).await;
    call(running.address, get("none").replace("/ ", "/logged ")).await;
    let mut cut = Peer::connect(running.address).await;
    cut.send(get("m").replace("GET /", "GET /logged/cut")).await;
    assert!(cut.try_answer().await.is_err());
    crate::support::eventually(|| lines.lock().unwrap().len() >= 4).await;

    let seen = lines.lock().unwrap().clone();
    let fields = ["method", "path", "job_type", "server", "status", "reason", "bytes", "outcome"];
    let text = |line: &BTreeMap<&str, String>| fields.map(|f| line.get(f).cloned().unwrap_or("-".into())).join(" ");
    let seen_text: Vec<String> = seen.iter().map(text).collect();
    assert_eq!(seen_text[0], "PUT /logged/b m s 201 idle-fastest 5 ok");
    assert!(
        seen_text[1].starts_with("GET /logged - - 404 - ") && seen_text[1].ends_with(" unknown_job_type"),
        "{seen_text:?}"
    );
    assert!(
        seen_text[2].starts_with("GET /logged none - 503 blocked ") && seen_text[2].ends_with(" no_server_up"),
        "{seen_text:?}"
    );
    assert_eq!(seen_text[3], "GET /logged/cut m s 200 idle-fastest 4 upstream_abort");
    assert_eq!(seen.len(), 4);
    for line in &seen {
        let seconds = |name| line[name].parse::<f64>().unwrap();
        assert!(seconds("response_s") >= seconds("waiting_s") && seconds("response_s") < 20.0, "{line:?}");
    }

    // A tunnel is logged when it ends, however it ends.
    let mut tunnel = Peer::connect(running.address).await;
    let asks =
        get("m").replace("GET /", "GET /logged/tunnel").replace("host:", "connection: upgrade\r\nupgrade: x\r\nhost:");
    tunnel.send(asks).await;
    assert_eq!(tunnel.head().await.unwrap().status(), 101);
    assert_eq!(tunnel.exactly(5).await, b"hello");
    tunnel.send("abc").await;
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    assert_eq!(lines.lock().unwrap().len(), 4);
    running.trigger.end();
    running.ended().await;
    let seen = lines.lock().unwrap().clone();
    assert_eq!(text(&seen[4]), "GET /logged/tunnel m s 101 idle-fastest 5 cut_off");
    assert_eq!(seen[4]["bytes_received"], "3");
}
