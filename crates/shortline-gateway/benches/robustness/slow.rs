//! Clients that ask for 100 MiB each and read little of it, or nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::client::{Answers, PATIENCE, open_loop, request};
use crate::poller::Poller;
use crate::processes::{Gateway, Server, tcp_kib};
use crate::report::{Report, metric, under_way};
use crate::scenarios::{any, block_on};

/// Memory of the gateway's process that one slow reader may cost.
const READER_KIB: u64 = 192;
/// What the system may hold for it, in all sockets from the server to the client.
const SOCKETS_KIB: u64 = 1024;

/// Bytes that slow readers read fast at first.
const QUICK: u64 = 512 << 10;

/// A client with as little room for what it does not read as the system allows.
async fn ask(gateway: &Gateway) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(gateway.address).await.unwrap();
    stream.write_all(request("large").as_bytes()).await.unwrap();
    stream
}

/// [`QUICK`] as fast as it comes, so that who sends gets used to it, then 1 KiB a second; all of it has to be of a good
/// answer. `slow` counts those that have come to the second part.
async fn read_slowly(mut stream: TcpStream, seconds: u64, slow: Arc<AtomicU64>) -> std::io::Result<TcpStream> {
    let (mut piece, mut is_in_body) = ([0; 1024], false);
    for n in 0..QUICK / piece.len() as u64 + seconds {
        if n == QUICK / piece.len() as u64 {
            slow.fetch_add(1, Relaxed);
        }
        stream.read_exact(&mut piece).await?;
        let is_right = match is_in_body {
            false => piece.starts_with(b"HTTP/1.1 200 "),
            true => piece == [b'x'; 1024],
        };
        if !is_right {
            return Err(std::io::Error::other(String::from_utf8_lossy(&piece).into_owned()));
        }
        is_in_body = true;
        if n >= QUICK / piece.len() as u64 {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
    Ok(stream)
}

/// Many clients that read 1 KB/s, and others beside them.
pub(crate) fn readers_of_a_kilobyte_a_second(report: &mut Report) {
    let (readers, seconds) = if report.is_short { (100, 4) } else { (1_000, 30) };
    let (large, good) = (Server::start("large"), Server::start("5"));
    let gateway = Gateway::start("[health]\ntrip_after = 0", &[(&large, "large"), (&good, "a")]);
    let (poller, rss, tcp) = (Poller::start(&gateway), gateway.process.rss_kib(), tcp_kib());
    // From a thread of their own, or they would wait for the readers' turns here.
    let (target, lasts, slow) = (gateway.address, Duration::from_secs(seconds), Arc::new(AtomicU64::new(0)));
    let all_slow = Arc::clone(&slow);
    let others = std::thread::spawn(move || {
        let (mut beside_fast, began) = (Answers::default(), Instant::now());
        while all_slow.load(Relaxed) < readers && began.elapsed() < PATIENCE {
            beside_fast.extend(block_on(open_loop(target, "a", 50.0, Duration::from_secs(1))));
        }
        let fast_s = began.elapsed().as_secs_f64();
        (fast_s, beside_fast, block_on(open_loop(target, "a", 50.0, lasts)))
    });
    block_on(async {
        let mut tasks = Vec::new();
        for _ in 0..readers {
            let stream = ask(&gateway).await;
            tasks.push(tokio::spawn(read_slowly(stream, seconds, Arc::clone(&slow))));
        }
        tokio::time::sleep(lasts).await;
        let [grown, held] = [gateway.process.rss_kib().saturating_sub(rss), tcp_kib().saturating_sub(tcp)];
        report.figure(format!(
            "{readers} slow readers: {} KiB each, and {} KiB each in all sockets of the machine",
            grown / readers,
            held / readers
        ));
        report.holds(grown < readers * READER_KIB, &format!("less than {READER_KIB} KiB a reader"));
        report.holds(held < readers * SOCKETS_KIB, &format!("less than {SOCKETS_KIB} KiB a reader in sockets"));
        let mut lost = Vec::new();
        for task in tasks {
            lost.extend(task.await.unwrap().err());
        }
        report.figure(format!("{} still read after {seconds} s", readers - lost.len() as u64));
        report
            .holds(lost.is_empty(), &format!("{} slow readers are cut off, the first: {:?}", lost.len(), lost.first()));
    });
    let (fast_s, beside_fast, mut fresh) = others.join().unwrap();
    report.admin(poller);
    let [fast_ms, slow_ms] = [&beside_fast, &fresh].map(|others| others.quantile_ms(0.99, any));
    report.figure(format!(
        "others: p99 {fast_ms:.1} ms in the {fast_s:.0} s until all readers were slow (every core is busy), {slow_ms:.1} ms then"
    ));
    report.in_time(slow_ms < 100.0, "the others' p99 beside slow readers is below 100 ms");
    fresh.extend(beside_fast);
    report.count("others that are served", fresh.with(|status| status == 200), fresh.answered.len());
    report.all_answered(&fresh);
    // All readers have left: clients that abort are ended requests too.
    report.counts(&gateway, readers as usize + fresh.answered.len());
}

/// Clients that read nothing at all are cut off after `idle_s`: their jobs leave the server, though they never close.
pub(crate) fn readers_of_nothing(report: &mut Report) {
    const IDLE: Duration = Duration::from_secs(2);
    let readers = if report.is_short { 20 } else { 200 };
    let large = Server::start("large");
    let settings = format!("[timeouts]\nidle_s = {}\n[health]\ntrip_after = 0", IDLE.as_secs());
    let gateway = Gateway::start(&settings, &[(&large, "large")]);
    let poller = Poller::start(&gateway);
    let (first, last, clients) = block_on(async {
        let (began, mut clients) = (Instant::now(), Vec::new());
        for _ in 0..readers {
            clients.push(ask(&gateway).await);
        }
        let since_asked = |held: fn(usize, usize) -> bool| {
            while !held(metric(&gateway, "shortline_requests_total"), readers) && began.elapsed() < PATIENCE {
                std::thread::sleep(Duration::from_millis(20));
            }
            began.elapsed()
        };
        let first = since_asked(|ended, _| ended > 0);
        (first, since_asked(|ended, all| ended == all), clients)
    });
    report.admin(poller);
    let [first_s, last_s] = [first, last].map(|since| since.as_secs_f64());
    report.figure(format!("idle_s {}: {readers} cut off from {first_s:.2} to {last_s:.2} s on", IDLE.as_secs()));
    report.holds(first >= IDLE, "nobody is cut off before idle_s");
    report.in_time(last < IDLE + Duration::from_secs(2), "all are cut off within 2 s after idle_s");
    report.count("jobs left at the server by clients that are still there", under_way(&gateway), 0);
    report.counts(&gateway, readers);
    drop(clients);
}
