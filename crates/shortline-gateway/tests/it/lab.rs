//! What the tests of emulator and replay share: small fleets, and a client that writes bytes.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use shortline_core::fleet::settings::{Emulate, Service, Settings};
use shortline_core::fleet::{ArrivalRates, JobTypeParts, Names, ServerParts, ServerTypeParts, Speed};
use shortline_core::graph::Edges;
use shortline_core::{Fleet, FleetParts};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Tests whose answers take longer fail instead of hanging.
const LONGEST_ANSWER: Duration = Duration::from_secs(10);

/// A server for [`fleet`]: its rate, slots, buffer, and the job types it holds by index.
pub(crate) struct ServerLike<'a> {
    pub(crate) rate: f64,
    pub(crate) slots: u32,
    pub(crate) buffer: Option<u32>,
    pub(crate) holds: &'a [usize],
}

/// Servers `s0`, `s1`, ... (each of its own type `t0`, `t1`, ...) and job types `a`, `b`, ... of size 1 that arrive at
/// `arrival_rate` each.
pub(crate) fn fleet(
    servers: &[ServerLike<'_>],
    job_types: usize,
    arrival_rate: f64,
    service: Service,
    time_scale: f64,
) -> Arc<Fleet> {
    let name = |base: String| Names { base, count: None };
    let parts = FleetParts {
        name: "test".into(),
        server_types: (servers.iter().enumerate())
            .map(|(i, s)| ServerTypeParts { name: format!("t{i}"), speed: Speed::Rate(s.rate), slots: s.slots })
            .collect(),
        servers: (servers.iter().enumerate())
            .map(|(i, s)| ServerParts {
                names: name(format!("s{i}")),
                server_type: i,
                buffer: s.buffer,
                addresses: Vec::new(),
            })
            .collect(),
        job_types: (0..job_types)
            .map(|l| JobTypeParts {
                names: name(char::from(b'a' + u8::try_from(l).unwrap()).to_string()),
                arrivals: ArrivalRates::Each(arrival_rate),
                size: 1.0,
            })
            .collect(),
        rates: Vec::new(),
        edges: Edges::from_rows((0..job_types).map(|l| {
            let holders = (0..servers.len()).filter(|&r| servers[r].holds.contains(&l));
            holders.map(|r| u32::try_from(r).unwrap()).collect::<Vec<_>>()
        })),
        settings: Settings { service, emulate: Emulate { time_scale }, ..Settings::default() },
    };
    Arc::new(Fleet::new(parts).unwrap())
}

/// An answer as it came over the wire.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
    pub(crate) took: Duration,
    pub(crate) ended: Instant,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let named = |line: &&str| line.to_ascii_lowercase().starts_with(&format!("{name}: "));
        self.head.lines().find(named).map(|line| &line[name.len() + 2..])
    }

    pub(crate) fn seconds(&self, name: &str) -> f64 {
        self.header(name).unwrap_or_else(|| panic!("no {name} in {}", self.head)).parse().unwrap()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

/// A request as bytes; `headers` are lines that end in `\r\n`.
pub(crate) fn request(headers: &str, body: &str) -> String {
    let length = body.len();
    format!("POST /v1 HTTP/1.1\r\nhost: t\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}")
}

/// Sends the request and leaves the connection open.
pub(crate) async fn send(address: SocketAddr, request: &str) -> TcpStream {
    let mut connection = TcpStream::connect(address).await.unwrap();
    connection.set_nodelay(true).unwrap();
    connection.write_all(request.as_bytes()).await.unwrap();
    connection
}

/// Sends the request and reads the whole answer.
pub(crate) async fn ask(address: SocketAddr, request: &str) -> Answer {
    let mut connection = TcpStream::connect(address).await.unwrap();
    connection.set_nodelay(true).unwrap();
    let start = Instant::now();
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    let whole = tokio::time::timeout(LONGEST_ANSWER, connection.read_to_string(&mut text)).await;
    whole.expect("an answer within 10 s").unwrap();
    let ended = Instant::now();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, head: head.to_owned(), body: body.to_owned(), took: ended - start, ended }
}

/// Headers of a request for job type `job_type` of size `size`.
pub(crate) fn job(job_type: &str, size: f64) -> String {
    request(&format!("x-job-type: {job_type}\r\nx-service-s: {size}\r\n"), "")
}

/// Polls until the claim holds, at most 2 seconds.
pub(crate) async fn eventually(claim: impl Fn() -> bool) {
    let start = Instant::now();
    while !claim() {
        assert!(start.elapsed() < Duration::from_secs(2), "it did not come true within 2 s");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
