//! CPU per request of the gateway beside a bare hyper proxy.
//!
//! `cargo bench -p shortline-gateway --bench proxy_cost [-- PAIRS SECONDS]`: one fast backend, 64 kept-alive
//! connections in a closed loop, a 200-byte reply. The proxy under test is a process of its own on core 0, backend
//! and clients are one thread on core 1 (`taskset`); CPU comes from outside, `/proc/PID/task/*/schedstat`. Pairs are
//! interleaved and the median of their ratios is printed, because a shared machine drifts.
//!
//! Backend and clients never sleep: they look for work without end. Who writes to a process that sleeps pays for waking
//! it, several microseconds on a virtual machine, and the slower a proxy, the more often its peers sleep: in such a bench
//! a third of the gateway's CPU was waking them (`-- PAIRS SECONDS sleep` measures it so).
//!
//! The bare proxy is hyper's server and hyper-util's pooling client, and nothing else: no job type, no decision, no
//! header touched but the ones HTTP demands. nginx and HAProxy are measured beside it where they are installed
//! (`apt-get install nginx-light haproxy`): one thread, least connections over the same eight servers, connections to them kept,
//! no log; they do not look into bodies.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a measuring program reports by printing and panicking")]

use std::convert::Infallible;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use shortline_core::Fleet;
use shortline_core::fleet::settings::{Address, Settings};
use shortline_core::fleet::{ArrivalRates, FleetParts, JobTypeParts, Names, ServerParts, ServerTypeParts, Speed};
use shortline_core::graph::Edges;
use shortline_gateway::{Gateway, Options, shutdown};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const CONNECTIONS: usize = 64;
const WARM_UP: Duration = Duration::from_millis(300);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["bare", listen, backend] => block_on(bare(listen.parse().unwrap(), backend.parse().unwrap())),
        ["gateway", listen, backend] => block_on(gateway(listen.parse().unwrap(), backend.parse().unwrap())),
        ["peers", listen, sleep] => peers(listen.parse().unwrap(), *sleep == "sleep"),
        [] => compare(9, 2.0, ""),
        [pairs, seconds] => compare(pairs.parse().unwrap(), seconds.parse().unwrap(), ""),
        [pairs, seconds, "sleep"] => compare(pairs.parse().unwrap(), seconds.parse().unwrap(), "sleep"),
        other => panic!("not understood: {other:?}"),
    }
}

fn block_on(future: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap().block_on(future);
}

/// A process that ends with the benchmark.
struct Process(Child);

impl Process {
    fn start(core: &str, arguments: &[&str]) -> Self {
        let program = std::env::current_exe().unwrap();
        let mut command = Command::new("taskset");
        command.args(["-c", core]).arg(program).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        Self(command.spawn().expect("taskset is there"))
    }

    /// Another proxy, if it is installed: its version, and the process.
    fn start_other(program: &str, arguments: &[&str]) -> Option<(String, Self)> {
        let version = Command::new(program).arg("-v").output().ok()?;
        let text = [version.stdout, version.stderr].concat();
        let version = String::from_utf8_lossy(&text).lines().next().unwrap_or(program).to_owned();
        let child = Command::new("taskset").args(["-c", "0", program]).args(arguments).stderr(Stdio::null()).spawn();
        Some((version, Self(child.expect("taskset is there"))))
    }

    /// CPU time of all its threads.
    fn cpu(&self) -> Duration {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.0.id())).unwrap();
        let of_task = |task: std::fs::DirEntry| {
            let text = std::fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
            text.split(' ').next().and_then(|ns| ns.parse::<u64>().ok()).unwrap_or(0)
        };
        Duration::from_nanos(tasks.map(|task| of_task(task.unwrap())).sum())
    }

    /// Tells it a line.
    fn tell(&mut self, line: &str) {
        writeln!(self.0.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    /// The next line that it says.
    fn hear(&mut self) -> String {
        let mut line = Vec::new();
        let out = self.0.stdout.as_mut().unwrap();
        while !line.ends_with(b"\n") {
            let mut byte = [0];
            out.read_exact(&mut byte).expect("it says a line");
            line.extend(byte);
        }
        String::from_utf8(line).unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _: std::io::Result<()> = self.0.kill();
        let _: std::io::Result<_> = self.0.wait();
    }
}

fn free_port() -> String {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

/// A proxy under test.
struct Contender {
    name: String,
    process: Process,
    address: String,
}

/// Runs the pairs and prints the table.
fn compare(rounds: usize, seconds: f64, sleep: &str) {
    let backend = free_port();
    let folder = std::env::temp_dir().join(format!("proxy-cost-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut peers = Process::start("1", &["peers", &backend, sleep]);
    let mut contenders: Vec<Contender> = ["bare", "gateway"]
        .map(|name| {
            let address = free_port();
            let process = Process::start("0", &[name, &address, &backend]);
            Contender { name: name.to_owned(), process, address }
        })
        .into();
    let (nginx, haproxy) = (free_port(), free_port());
    let nginx_file = write(&folder.join("nginx.conf"), &nginx_conf(&folder, &nginx, &backend));
    let haproxy_file = write(&folder.join("haproxy.cfg"), &haproxy_cfg(&haproxy, &backend));
    let others = [("nginx", vec!["-c", &nginx_file], nginx), ("haproxy", vec!["-db", "-f", &haproxy_file], haproxy)];
    for (program, arguments, address) in others {
        match Process::start_other(program, &arguments) {
            Some((name, process)) => contenders.push(Contender { name, process, address }),
            None => println!("{program} is not installed"),
        }
    }
    std::thread::sleep(Duration::from_secs(1));
    println!(
        "| request | proxy | µs CPU a request | over bare hyper (median of {rounds} interleaved rounds) | requests/s |"
    );
    println!("|---|---|---|---|---|");
    for kind in ["get", "post"] {
        let mut measured: Vec<Vec<(f64, f64)>> = contenders.iter().map(|_| Vec::new()).collect();
        for _ in 0..rounds {
            for (contender, measured) in contenders.iter().zip(&mut measured) {
                measured.push(measure(contender, &mut peers, kind, seconds));
            }
        }
        for (contender, own) in contenders.iter().zip(&measured) {
            let (costs, rates) = own.iter().copied().unzip();
            let (cost, rate) = (median(costs), median(rates));
            let ratio = median(own.iter().zip(&measured[0]).map(|(own, bare)| own.0 / bare.0).collect());
            println!("| {kind} | {} | {cost:.1} | {ratio:.3} | {rate:.0} |", contender.name);
        }
    }
    drop(contenders);
    std::fs::remove_dir_all(folder).unwrap();
}

fn write(path: &std::path::Path, text: &str) -> String {
    std::fs::write(path, text).unwrap();
    path.to_str().expect("a temporary folder with a plain name").to_owned()
}

/// One process, so that its CPU is all of it.
fn nginx_conf(folder: &std::path::Path, listen: &str, backend: &str) -> String {
    let folder = folder.display();
    let servers = format!("server {backend};\n").repeat(8);
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|what| format!("{what}_temp_path {folder}/{what};\n"))
        .concat();
    format!(
        "daemon off; master_process off; pid {folder}/nginx.pid; error_log stderr crit;
        events {{ worker_connections 4096; }}
        http {{
            access_log off; keepalive_requests 1000000000; keepalive_timeout 600s;
            {temporary}
            upstream servers {{ least_conn; {servers} keepalive 64; keepalive_requests 1000000000; }}
            server {{
                listen {listen};
                location / {{ proxy_pass http://servers; proxy_http_version 1.1; proxy_set_header Connection \"\"; }}
            }}
        }}"
    )
}

fn haproxy_cfg(listen: &str, backend: &str) -> String {
    let servers: String = (0..8).map(|i| format!("    server s{i} {backend}\n")).collect();
    format!(
        "global\n    nbthread 1\n    maxconn 4096\ndefaults\n    mode http\n    timeout connect 5s\n    timeout client 60s\n    timeout server 60s\n    http-reuse always\nfrontend in\n    bind {listen}\n    default_backend servers\nbackend servers\n    balance leastconn\n{servers}"
    )
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// CPU per request in microseconds, and requests per second.
fn measure(contender: &Contender, peers: &mut Process, kind: &str, seconds: f64) -> (f64, f64) {
    peers.tell(&format!("{} {kind} {seconds}", contender.address));
    // The clients count from the end of the warm-up on as well.
    std::thread::sleep(WARM_UP);
    let (before, began) = (contender.process.cpu(), Instant::now());
    let requests: f64 = peers.hear().trim().parse().expect("a number of requests");
    let cpu = contender.process.cpu() - before;
    (cpu.as_secs_f64() / requests * 1e6, requests / began.elapsed().as_secs_f64())
}

fn request(kind: &str) -> Vec<u8> {
    let body = r#"{"messages":[{"role":"user","content":"a short question"}],"model":"m","stream":false}"#;
    match kind {
        "get" => b"GET /v1/models HTTP/1.1\r\nhost: localhost\r\nx-job-type: m\r\naccept: */*\r\n\r\n".to_vec(),
        "post" => format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\naccept: */*\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes(),
        other => panic!("no request is called {other}"),
    }
}

/// The backend, and clients as they are ordered on standard input, in one thread.
fn peers(listen: SocketAddr, sleep: bool) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (orders, mut ordered) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || {
        std::io::stdin().lines().map_while(Result::ok).try_for_each(|order| orders.send(order)).unwrap();
    });
    runtime.block_on(async {
        tokio::spawn(backend(listen));
        if !sleep {
            tokio::spawn(async {
                loop {
                    tokio::task::yield_now().await;
                }
            });
        }
        while let Some(order) = ordered.recv().await {
            let words: Vec<&str> = order.split(' ').collect();
            let duration = Duration::from_secs_f64(words[2].parse().unwrap());
            load(words[0].parse().unwrap(), request(words[1]), duration).await;
        }
    });
}

/// Clients in a closed loop; prints how many answers came after the warm-up.
async fn load(target: SocketAddr, request: Vec<u8>, duration: Duration) {
    let answers = Arc::new(AtomicU64::new(0));
    let request = Arc::new(request);
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..CONNECTIONS {
        let (answers, request) = (Arc::clone(&answers), Arc::clone(&request));
        clients.spawn(async move {
            let mut stream = TcpStream::connect(target).await.unwrap();
            stream.set_nodelay(true).unwrap();
            let mut buffer = vec![0; 4096];
            loop {
                stream.write_all(&request).await.unwrap();
                let mut read = 0;
                while !buffer[..read].ends_with(b"xyz") {
                    let n = stream.read(&mut buffer[read..]).await.unwrap();
                    assert!(n > 0, "an answer broke off: {}", String::from_utf8_lossy(&buffer[..read]));
                    read += n;
                }
                assert!(buffer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&buffer[..read]));
                answers.fetch_add(1, Relaxed);
            }
        });
    }
    tokio::time::sleep(WARM_UP).await;
    let before = answers.load(Relaxed);
    tokio::time::sleep(duration).await;
    println!("{}", answers.load(Relaxed) - before);
    clients.abort_all();
}

/// Answers every request with 200 bytes, as fast as it can.
async fn backend(listen: SocketAddr) {
    let body = format!("{}xyz", "x".repeat(197));
    let answer = format!("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let answer = Arc::new(answer);
    let listener = TcpListener::bind(listen).await.unwrap();
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        let answer = Arc::clone(&answer);
        tokio::spawn(async move {
            let (mut buffer, mut read) = (vec![0; 16384], 0);
            loop {
                let Ok(n @ 1..) = stream.read(&mut buffer[read..]).await else { return };
                read += n;
                let whole = buffer[..read].ends_with(b"\r\n\r\n") || buffer[..read].ends_with(b"false}");
                if whole {
                    read = 0;
                    if stream.write_all(answer.as_bytes()).await.is_err() {
                        return;
                    }
                }
            }
        });
    }
}

/// Hyper's server and hyper-util's client, nothing between them.
async fn bare(listen: SocketAddr, backend: SocketAddr) {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let client = Client::builder(TokioExecutor::new()).build::<_, hyper::body::Incoming>(connector);
    let authority: http::uri::Authority = backend.to_string().parse().unwrap();
    let listener = TcpListener::bind(listen).await.unwrap();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        let (client, authority) = (client.clone(), authority.clone());
        tokio::spawn(async move {
            let service = service_fn(|mut request: http::Request<hyper::body::Incoming>| {
                let mut target = std::mem::take(request.uri_mut()).into_parts();
                target.scheme = Some(http::uri::Scheme::HTTP);
                target.authority = Some(authority.clone());
                *request.uri_mut() = http::Uri::from_parts(target).unwrap();
                let answer = client.request(request);
                async { Ok::<_, Infallible>(answer.await.unwrap()) }
            });
            let connection = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            // A client that ends its run closes in mid-request.
            let _: hyper::Result<()> = connection.await;
        });
    }
}

/// The gateway, eight servers, all at the backend's address.
async fn gateway(listen: SocketAddr, backend: SocketAddr) {
    let names = |base: &str| Names { base: base.into(), count: None };
    let address = Address::new(false, backend.ip().to_string(), backend.port());
    let server = |i: usize| ServerParts {
        names: names(&format!("s{i}")),
        server_type: i % 2,
        buffer: None,
        addresses: vec![address.clone()],
    };
    let server_type = |name: &str, rate| ServerTypeParts { name: name.into(), speed: Speed::Rate(rate), slots: 1 };
    let fleet = Fleet::new(FleetParts {
        name: "cost".into(),
        server_types: vec![server_type("fast", 2.0), server_type("slow", 1.0)],
        servers: (0..8).map(server).collect(),
        job_types: vec![JobTypeParts { names: names("m"), arrivals: ArrivalRates::Unknown, size: 1.0 }],
        rates: Vec::new(),
        edges: Edges::Complete,
        settings: Settings::default(),
    });
    let gateway = Arc::new(Gateway::new(Options::new(Arc::new(fleet.unwrap()))).unwrap());
    let (_trigger, shutdown) = shutdown();
    gateway.serve(TcpListener::bind(listen).await.unwrap(), None, shutdown, Duration::ZERO).await.unwrap();
}
