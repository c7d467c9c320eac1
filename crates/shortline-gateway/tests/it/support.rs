//! Hand-written peers: servers and clients that speak HTTP/1.1 byte by byte, so that they can misbehave.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use shortline_core::Fleet;
use shortline_core::fleet::settings::{Address, Protocol, Settings};
use shortline_core::fleet::{
    ArrivalRates, FleetParts, JobTypeParts, Names, RateOverride, ServerParts, ServerTypeParts, Speed,
};
use shortline_core::graph::Edges;
use shortline_gateway::{Gateway, Options, Served, Trigger, shutdown};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Far more than anything here takes; a test that needs it has hung.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A message as it came over the wire.
#[derive(Debug, Clone, Default)]
pub(crate) struct Message {
    /// Request line or status line.
    pub(crate) first: String,
    /// Headers with lower-case names; repeated ones joined by " | ".
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
    /// Trailers of a chunked body.
    pub(crate) trailers: BTreeMap<String, String>,
}

impl Message {
    pub(crate) fn status(&self) -> u16 {
        self.first.split(' ').nth(1).expect("a status line").parse().expect("a status")
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("text")
    }

    pub(crate) fn error_code(&self) -> String {
        let body: serde_json::Value = serde_json::from_slice(&self.body)
            .unwrap_or_else(|e| panic!("{} with a body that is no JSON ({e}): {:?}", self.first, self.text()));
        let error = &body["error"];
        assert!(error["message"].is_string() && error["type"].is_string(), "{body}");
        error["code"].as_str().expect("a code").to_owned()
    }
}

/// Either end of a connection.
#[derive(Debug)]
pub(crate) struct Peer {
    stream: BufReader<TcpStream>,
}

impl Peer {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        Self::new(TcpStream::connect(address).await.expect("the gateway listens"))
    }

    pub(crate) fn new(stream: TcpStream) -> Self {
        stream.set_nodelay(true).unwrap();
        Self { stream: BufReader::new(stream) }
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_send(bytes).await.expect("the peer reads");
    }

    pub(crate) async fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> std::io::Result<()> {
        self.stream.get_mut().write_all(bytes.as_ref()).await
    }

    /// Closes so that the peer sees a reset.
    pub(crate) fn reset(self) {
        let stream = self.stream.into_inner();
        socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
    }

    async fn line(&mut self) -> std::io::Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end_matches("\r\n").to_owned())
    }

    async fn header_lines(&mut self) -> std::io::Result<BTreeMap<String, String>> {
        let mut headers = BTreeMap::<String, String>::new();
        loop {
            let line = self.line().await?;
            let Some((name, value)) = line.split_once(':') else { return Ok(headers) };
            let value = value.trim();
            headers
                .entry(name.to_ascii_lowercase())
                .and_modify(|v| *v = format!("{v} | {value}"))
                .or_insert_with(|| value.to_owned());
        }
    }

    /// Request line or status line, and headers.
    pub(crate) async fn head(&mut self) -> std::io::Result<Message> {
        let first = self.line().await?;
        Ok(Message { first, headers: self.header_lines().await?, ..Message::default() })
    }

    /// The next chunk of a chunked body; empty = the last one (trailers are left to read).
    pub(crate) async fn chunk(&mut self) -> std::io::Result<Vec<u8>> {
        let size = usize::from_str_radix(&self.line().await?, 16).expect("a chunk size");
        let mut data = vec![0; size];
        if size > 0 {
            self.stream.read_exact(&mut data).await?;
            self.line().await?;
        }
        Ok(data)
    }

    /// The rest of a message whose head was read. Fails if it is cut short.
    pub(crate) async fn body(&mut self, mut message: Message, of_response: bool) -> std::io::Result<Message> {
        if message.header("transfer-encoding").is_some_and(|v| v.contains("chunked")) {
            loop {
                let chunk = self.chunk().await?;
                if chunk.is_empty() {
                    break;
                }
                message.body.extend(chunk);
            }
            message.trailers = self.header_lines().await?;
        } else if let Some(length) = message.header("content-length") {
            message.body = vec![0; length.parse().expect("a length")];
            self.stream.read_exact(&mut message.body).await?;
        } else if of_response && !matches!(message.status(), 204 | 304) {
            self.stream.read_to_end(&mut message.body).await?;
        }
        Ok(message)
    }

    /// A whole answer.
    pub(crate) async fn answer(&mut self) -> Message {
        self.try_answer().await.expect("a whole answer")
    }

    pub(crate) async fn try_answer(&mut self) -> std::io::Result<Message> {
        let read = async {
            let mut head = self.head().await?;
            while head.status() == 100 {
                head = self.head().await?;
            }
            self.body(head, true).await
        };
        tokio::time::timeout(PATIENCE, read).await.expect("no answer: a hang")
    }

    /// The next piece of what comes; `None`: the end.
    pub(crate) async fn some(&mut self) -> Option<Vec<u8>> {
        let piece = self.stream.fill_buf().await.ok()?.to_vec();
        self.stream.consume(piece.len());
        (!piece.is_empty()).then_some(piece)
    }

    /// So many bytes.
    pub(crate) async fn exactly(&mut self, bytes: usize) -> Vec<u8> {
        let mut read = vec![0; bytes];
        tokio::time::timeout(PATIENCE, self.stream.read_exact(&mut read)).await.expect("a hang").expect("all of it");
        read
    }

    /// Ends the sending, and goes on reading.
    pub(crate) async fn shut(&mut self) {
        self.stream.get_mut().shutdown().await.unwrap();
    }

    /// Keeps the connection open, unread.
    pub(crate) async fn is_open_for(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    /// Whether the other end has closed, and nothing more came.
    pub(crate) async fn is_closed(&mut self) -> bool {
        let mut byte = [0];
        match tokio::time::timeout(PATIENCE, self.stream.read(&mut byte)).await.expect("the connection stays open") {
            Ok(read) => read == 0,
            Err(_) => true,
        }
    }
}

/// Sends one request on a connection of its own.
pub(crate) async fn call(address: SocketAddr, request: impl AsRef<[u8]>) -> Message {
    let mut peer = Peer::connect(address).await;
    peer.send(request).await;
    peer.answer().await
}

/// A GET of this job type.
pub(crate) fn get(job_type: &str) -> String {
    format!("GET / HTTP/1.1\r\nhost: test\r\nx-job-type: {job_type}\r\n\r\n")
}

/// A POST of a JSON body.
pub(crate) fn post(body: &str) -> String {
    format!(
        "POST /v1 HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

pub(crate) const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// A server that is scripted by a closure.
#[derive(Debug)]
pub(crate) struct Backend {
    pub(crate) address: SocketAddr,
    pub(crate) connections: Arc<AtomicUsize>,
    pub(crate) requests: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Backend {
    /// Answers each request (head read, body not) with `script`, which gives the connection back to be kept alive.
    pub(crate) async fn scripted<F, A>(script: F) -> Self
    where
        F: Fn(Peer, Message) -> A + Send + Sync + 'static,
        A: Future<Output = Option<Peer>> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (connections, requests) = <(Arc<AtomicUsize>, Arc<AtomicUsize>)>::default();
        let counted = (Arc::clone(&connections), Arc::clone(&requests));
        let script = Arc::new(script);
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                counted.0.fetch_add(1, SeqCst);
                let (script, requests) = (Arc::clone(&script), Arc::clone(&counted.1));
                tokio::spawn(async move {
                    let mut peer = Peer::new(stream);
                    while let Ok(head) = peer.head().await {
                        requests.fetch_add(1, SeqCst);
                        match script(peer, head).await {
                            Some(kept) => peer = kept,
                            None => return,
                        }
                    }
                });
            }
        });
        Self { address, connections, requests, task }
    }

    /// Reads the body and answers with these bytes.
    pub(crate) async fn replying(answer: impl Into<String>) -> Self {
        let answer = Arc::new(answer.into());
        Self::scripted(move |mut peer, head| {
            let answer = Arc::clone(&answer);
            async move {
                peer.body(head, false).await.ok()?;
                peer.try_send(answer.as_bytes()).await.ok()?;
                Some(peer)
            }
        })
        .await
    }

    /// Answers with the request as it came, its head as text and its body.
    pub(crate) async fn echo() -> Self {
        Self::scripted(|mut peer, head| async move {
            let message = peer.body(head, false).await.ok()?;
            let mut text = format!("{}\n", message.first);
            for (name, value) in &message.headers {
                text.push_str(&format!("{name}: {value}\n"));
            }
            for (name, value) in &message.trailers {
                text.push_str(&format!("trailer {name}: {value}\n"));
            }
            text.push_str(&format!("body of {} bytes", message.body.len()));
            peer.try_send(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{text}", text.len())).await.ok()?;
            Some(peer)
        })
        .await
    }

    pub(crate) fn requests(&self) -> usize {
        self.requests.load(SeqCst)
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(SeqCst)
    }
}

/// A server that holds each request until it is told to answer.
#[derive(Debug)]
pub(crate) struct Holding {
    pub(crate) backend: Backend,
    release: Arc<tokio::sync::Semaphore>,
}

impl Holding {
    pub(crate) async fn start() -> Self {
        let release = Arc::new(tokio::sync::Semaphore::new(0));
        let gate = Arc::clone(&release);
        let backend = Backend::scripted(move |mut peer, _| {
            let gate = Arc::clone(&gate);
            async move {
                gate.acquire().await.ok()?.forget();
                peer.try_send(OK).await.ok()?;
                Some(peer)
            }
        })
        .await;
        Self { backend, release }
    }

    /// Lets the longest-held request (or the next to come) have its answer.
    pub(crate) fn answer_one(&self) {
        self.release.add_permits(1);
    }

    /// Waits until `n` requests have come in all.
    pub(crate) async fn received(&self, n: usize) {
        eventually(|| self.backend.requests() >= n).await;
    }
}

/// Waits until something is so.
pub(crate) async fn eventually(mut holds: impl FnMut() -> bool) {
    let wait = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.expect("it never came to be");
}

/// A fleet in a few words. Servers and server types by name, rows as server indices.
#[derive(Clone)]
pub(crate) struct Plan {
    parts: FleetParts,
    addresses: Vec<Address>,
}

impl Plan {
    /// Job types `names[l]`, held by servers `rows[l]`.
    pub(crate) fn new(job_types: &[(&str, &[u32])]) -> Self {
        let named = |name: &str| Names { base: name.into(), count: None };
        let job_type =
            |(name, _): &(&str, _)| JobTypeParts { names: named(name), arrivals: ArrivalRates::Unknown, size: 1.0 };
        Self {
            parts: FleetParts {
                name: "test".into(),
                server_types: Vec::new(),
                servers: Vec::new(),
                job_types: job_types.iter().map(job_type).collect(),
                rates: Vec::new(),
                edges: Edges::from_rows(job_types.iter().map(|(_, row)| row.iter().copied())),
                settings: Settings::default(),
            },
            addresses: Vec::new(),
        }
    }

    /// One more server, of a type of its own.
    pub(crate) fn server(mut self, name: &str, rate: f64, buffer: Option<u32>, address: SocketAddr) -> Self {
        let server_type = self.parts.server_types.len();
        self.parts.server_types.push(ServerTypeParts {
            name: format!("type of {name}"),
            speed: Speed::Rate(rate),
            slots: 1,
        });
        let names = Names { base: name.into(), count: None };
        self.parts.servers.push(ServerParts { names, server_type, buffer, addresses: Vec::new() });
        self.addresses.push(Address::new(false, address.ip().to_string(), address.port()));
        self
    }

    /// A `[[rate]]`.
    pub(crate) fn rate(mut self, job_type: usize, server_type: usize, rate: f64) -> Self {
        self.parts.rates.push(RateOverride { job_type, server_type, rate });
        self
    }

    /// What the last server is spoken to in.
    pub(crate) fn protocol(mut self, protocol: Protocol) -> Self {
        self.addresses.last_mut().expect("a server").protocol = protocol;
        self
    }

    pub(crate) fn settings(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.parts.settings);
        self
    }

    pub(crate) fn fleet(&self) -> Arc<Fleet> {
        let mut parts = self.parts.clone();
        for (server, address) in parts.servers.iter_mut().zip(&self.addresses) {
            server.addresses = vec![address.clone()];
        }
        Arc::new(Fleet::new(parts).expect("a valid fleet"))
    }

    /// Serves it by `policy`, with a seed.
    pub(crate) async fn serve(&self, policy: &str, seed: u64) -> Running {
        let options = Options { policy: Some(policy.parse().unwrap()), seed, ..Options::new(self.fleet()) };
        Running::start(Gateway::new(options).expect("a gateway"), PATIENCE).await
    }
}

/// A gateway that serves, and its ends.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) admin: SocketAddr,
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) trigger: Trigger,
    task: JoinHandle<Served>,
}

impl Running {
    pub(crate) async fn start(gateway: Gateway, grace: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let admin_listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, admin) = (listener.local_addr().unwrap(), admin_listener.local_addr().unwrap());
        let gateway = Arc::new(gateway);
        let (trigger, shutdown) = shutdown();
        let serving = Arc::clone(&gateway).serve(listener, Some(admin_listener), shutdown, grace);
        let task = tokio::spawn(async { serving.await.expect("an admin server") });
        Self { address, admin, gateway, trigger, task }
    }

    /// Jobs at all servers, and in line.
    pub(crate) fn jobs(&self) -> u64 {
        let status = self.gateway.status();
        status.servers.iter().map(|s| s.in_flight).sum::<u64>() + status.waiting_total as u64
    }

    pub(crate) fn routed(&self) -> Vec<u64> {
        self.gateway.status().servers.iter().map(|s| s.routed_total).collect()
    }

    /// Waits for all jobs to have left.
    pub(crate) async fn settled(&self) {
        eventually(|| self.jobs() == 0).await;
    }

    /// A sample of `/metrics`.
    pub(crate) async fn metric(&self, sample: &str) -> u64 {
        let text = call(self.admin, "GET /metrics HTTP/1.1\r\nhost: a\r\n\r\n").await.text();
        let value = text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
        value.map_or(0, |v| v.parse().expect("a whole number"))
    }

    /// Waits for serving to end.
    pub(crate) async fn ended(self) -> Served {
        tokio::time::timeout(PATIENCE, self.task).await.expect("it does not stop").unwrap()
    }

    /// Stops and checks that nothing is left.
    pub(crate) async fn stop(self) {
        self.trigger.drain();
        let gateway = Arc::clone(&self.gateway);
        self.ended().await;
        assert!(gateway.status().servers.iter().all(|s| s.in_flight == 0));
    }
}
