//! The scenarios: what happens, and what has to hold.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use tokio::net::{TcpSocket, TcpStream};

use crate::client::{Answers, closed_loop, exchange, open_loop, request};
use crate::poller::{Poller, page};
use crate::processes::{Gateway, Server};

/// The admin address answers faster, always.
const ADMIN_MS: f64 = 50.0;

type Scenario = fn(&mut Report, bool);

const SCENARIOS: [(&str, Scenario); 7] = [
    ("kill", kill),
    ("hang", hang),
    ("overload", |report, is_short| overload(report, is_short, "reject")),
    ("overload-wait", |report, is_short| overload(report, is_short, "wait")),
    ("idle", idle),
    ("slow-readers", slow_readers),
    ("million", million),
];

/// Runs those named, all of them without a name.
pub(crate) fn run(names: &[&str], is_short: bool) -> ExitCode {
    shortline_gateway::raise_descriptor_limit().unwrap();
    for name in names {
        assert!(SCENARIOS.iter().any(|s| s.0 == *name), "no scenario {name}; there are {:?}", SCENARIOS.map(|s| s.0));
    }
    let mut all_hold = true;
    for (name, scenario) in SCENARIOS {
        if names.is_empty() || names.contains(&name) {
            let mut report = Report::default();
            scenario(&mut report, is_short);
            let verdict = if report.broken.is_empty() { "pass" } else { "FAIL" };
            println!("{name}: {verdict}");
            report.figures.iter().for_each(|figure| println!("    {figure}"));
            report.broken.iter().for_each(|broken| println!("    BROKEN: {broken}"));
            all_hold &= report.broken.is_empty();
        }
    }
    if all_hold { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[derive(Debug, Default)]
struct Report {
    figures: Vec<String>,
    broken: Vec<String>,
}

impl Report {
    fn figure(&mut self, text: String) {
        self.figures.push(text);
    }

    fn holds(&mut self, condition: bool, text: &str) {
        if !condition {
            self.broken.push(text.to_owned());
        }
    }

    fn all_answered(&mut self, answers: &Answers) {
        let lost =
            answers.lost.first().map_or(String::new(), |why| format!(": {} lost, first {why}", answers.lost.len()));
        self.holds(answers.lost.is_empty(), &format!("every request gets a status{lost}"));
    }

    fn admin(&mut self, poller: Poller) {
        let [median, p99, most] = poller.finish();
        self.figure(format!("admin: median {median:.1} ms, p99 {p99:.1} ms, at most {most:.1} ms"));
        self.holds(most < ADMIN_MS, "admin answers within 50 ms");
    }

    /// Nothing is under way or in line, and what ended is what was answered.
    fn counts(&mut self, gateway: &Gateway, answered: usize) {
        let counts = || {
            let status: serde_json::Value = serde_json::from_str(&page(gateway.admin, "/status").unwrap()).unwrap();
            let servers = status["servers"].as_array().unwrap();
            let in_flight: u64 = servers.iter().map(|server| server["in_flight"].as_u64().unwrap()).sum();
            let ended = metric(gateway, "shortline_requests_total");
            (in_flight + status["waiting_total"].as_u64().unwrap(), ended)
        };
        // The last client has its answer a moment before the gateway has counted it.
        let began = Instant::now();
        while counts() != (0, answered as f64) && began.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(50));
        }
        let (under_way, ended) = counts();
        self.holds(under_way == 0, &format!("in flight and in line 0 at the end, not {under_way}"));
        self.holds(
            (ended - answered as f64).abs() < 0.5,
            &format!("ended ({ended}) are as many as answered ({answered})"),
        );
    }
}

/// The sum of a metric's series.
fn metric(gateway: &Gateway, name: &str) -> f64 {
    let page = page(gateway.admin, "/metrics").unwrap();
    page.lines().filter(|l| l.starts_with(name)).map(|l| l.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn any(_: u16) -> bool {
    true
}

fn fleet(servers: &[Server]) -> Vec<(&Server, &'static str)> {
    servers.iter().map(|server| (server, "a")).collect()
}

/// Four of eight servers die by `kill -9` and come back, one after the other, in rounds.
fn kill(report: &mut Report, is_short: bool) {
    let (rounds, rate) = (if is_short { 1 } else { 5 }, 400.0);
    let mut servers: Vec<Server> = (0..8).map(|_| Server::start("5")).collect();
    let gateway = Gateway::start("[health]\nopen_s = 0.2\nlongest_open_s = 1", &fleet(&servers));
    let poller = Poller::start(gateway.admin);
    let target = gateway.address;
    let load = Duration::from_secs(rounds * 4 + 1);
    let client = std::thread::spawn(move || block_on(open_loop(target, "a", rate, load)));
    for _ in 0..rounds {
        for server in &mut servers[..4] {
            std::thread::sleep(Duration::from_millis(500));
            server.kill();
            std::thread::sleep(Duration::from_millis(400));
            server.restart();
        }
    }
    let answers = client.join().unwrap();
    report.admin(poller);
    let (all, good) = (answers.answered.len(), answers.with(|status| status == 200));
    report.figure(format!(
        "{all} answered at {rate}/s, {} kills, not 200: {} ({:.3} %), p99 {:.0} ms",
        rounds * 4,
        all - good,
        100.0 * (all - good) as f64 / all as f64,
        answers.quantile_ms(0.99, any)
    ));
    let retries = metric(&gateway, "shortline_retries_total");
    report.figure(format!("retries {retries}"));
    report.holds(retries > 0.0, "some requests met a dead server");
    report.all_answered(&answers);
    report.counts(&gateway, all);
}

/// Three of ten servers accept and read, and never answer; seven serve another job type.
fn hang(report: &mut Report, is_short: bool) {
    let lasts = Duration::from_secs(if is_short { 4 } else { 30 });
    let hanging: Vec<Server> = (0..3).map(|_| Server::start("hang")).collect();
    let good: Vec<Server> = (0..7).map(|_| Server::start("5")).collect();
    let mut servers = fleet(&good);
    servers.extend(hanging.iter().map(|server| (server, "stuck")));
    let gateway = Gateway::start("[timeouts]\nfirst_byte_s = 1\n[health]\ntrip_after = 0", &servers);
    let poller = Poller::start(gateway.admin);
    let (before, beside, stuck) = block_on(async {
        let before = open_loop(gateway.address, "a", 300.0, lasts).await;
        let (beside, stuck) = tokio::join!(
            open_loop(gateway.address, "a", 300.0, lasts),
            open_loop(gateway.address, "stuck", 100.0, lasts)
        );
        (before, beside, stuck)
    });
    report.admin(poller);
    let [p99_before, p99_beside] = [&before, &beside].map(|answers| answers.quantile_ms(0.99, any));
    report.figure(format!("others: p99 {p99_before:.1} ms before, {p99_beside:.1} ms beside"));
    report.figure(format!(
        "at hanging ones: {} answered, 504: {}, median {:.0} ms",
        stuck.answered.len(),
        stuck.with(|status| status == 504),
        stuck.quantile_ms(0.5, any)
    ));
    report.holds(before.with(|s| s == 200) == before.answered.len(), "before, the others are served");
    report.holds(beside.with(|s| s == 200) == beside.answered.len(), "beside, the others are served");
    report.holds(p99_beside < 2.0 * p99_before + 20.0, "the others' p99 is at most twice what it was, and 20 ms");
    report.holds(stuck.with(|status| status == 504) == stuck.answered.len(), "hanging ones end with 504");
    for answers in [&before, &beside, &stuck] {
        report.all_answered(answers);
    }
    report.counts(&gateway, before.answered.len() + beside.answered.len() + stuck.answered.len());
}

/// Ten times what four servers can do: 2,000/s where they do 200/s, four places each.
fn overload(report: &mut Report, is_short: bool, overflow: &str) {
    let lasts = Duration::from_secs(if is_short { 4 } else { 60 });
    let servers: Vec<Server> = (0..4).map(|_| Server::start("20")).collect();
    let settings = format!(
        "[fleet]\nbuffer = 4\noverflow = \"{overflow}\"\nqueue_size = 100\nqueue_timeout_s = 2\n[health]\ntrip_after = 0"
    );
    let gateway = Gateway::start(&settings, &fleet(&servers));
    let (poller, rss) = (Poller::start(gateway.admin), gateway.process.rss_kib());
    let answers = block_on(open_loop(gateway.address, "a", 2000.0, lasts));
    report.admin(poller);
    let grown = gateway.process.rss_kib().saturating_sub(rss);
    let goodput = answers.with(|status| status == 200) as f64 / lasts.as_secs_f64();
    report.figure(format!(
        "goodput {goodput:.0}/s of 200/s; refused {}: median {:.2} ms, p99 {:.2} ms; memory + {grown} KiB",
        answers.with(|status| status == 503),
        answers.quantile_ms(0.5, |status| status == 503),
        answers.quantile_ms(0.99, |status| status == 503)
    ));
    report.holds(goodput > 150.0, "goodput is at least 3/4 of capacity");
    report.holds(answers.quantile_ms(0.99, |status| status == 503) < 100.0, "p99 of refusals is below 100 ms");
    report.holds(answers.with(|s| s == 200 || s == 503) == answers.answered.len(), "all are served or refused");
    report.holds(grown < 64 << 10, "memory grows by less than 64 MiB");
    report.all_answered(&answers);
    report.counts(&gateway, answers.answered.len());
}

/// Many clients that asked once and keep their connection.
fn idle(report: &mut Report, is_short: bool) {
    let clients = if is_short { 1_000 } else { 10_000 };
    let server = Server::start("0");
    let gateway = Gateway::start("[timeouts]\nidle_s = 600", &[(&server, "a")]);
    let (poller, rss) = (Poller::start(gateway.admin), gateway.process.rss_kib());
    let fresh = block_on(async {
        let mut kept = Vec::new();
        for _ in 0..clients {
            let mut stream = TcpStream::connect(gateway.address).await.unwrap();
            let (status, is_kept) = exchange(&mut stream, "a").await.unwrap();
            assert!(status == 200 && is_kept, "status {status}, kept: {is_kept}");
            kept.push(stream);
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
        let grown = gateway.process.rss_kib().saturating_sub(rss);
        report.figure(format!("{clients} idle clients: {:.1} KiB each", grown as f64 / f64::from(clients)));
        report.holds(grown < clients as u64 * 32, "less than 32 KiB a client");
        let open = metric(&gateway, "shortline_connections ");
        report.holds(open >= f64::from(clients), &format!("all stay open, not {open}"));
        open_loop(gateway.address, "a", 50.0, Duration::from_secs(2)).await
    });
    report.admin(poller);
    report.figure(format!("fresh requests beside them: p99 {:.1} ms", fresh.quantile_ms(0.99, any)));
    report.holds(fresh.with(|status| status == 200) == 100, "fresh requests are served");
    report.all_answered(&fresh);
    report.counts(&gateway, clients as usize + fresh.answered.len());
}

/// Many clients that read 1 KB/s of 100 MiB.
fn slow_readers(report: &mut Report, is_short: bool) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let (readers, seconds) = if is_short { (100, 5) } else { (1_000, 30) };
    let (large, good) = (Server::start("large"), Server::start("5"));
    let gateway = Gateway::start("[health]\ntrip_after = 0", &[(&large, "large"), (&good, "a")]);
    let (poller, rss) = (Poller::start(gateway.admin), gateway.process.rss_kib());
    let fresh = block_on(async {
        let mut streams = Vec::new();
        for _ in 0..readers {
            let socket = TcpSocket::new_v4().unwrap();
            socket.set_recv_buffer_size(4096).unwrap();
            let mut stream = socket.connect(gateway.address).await.unwrap();
            stream.write_all(request("large").as_bytes()).await.unwrap();
            streams.push(stream);
        }
        let tasks: Vec<_> = streams
            .into_iter()
            .map(|mut stream| {
                tokio::spawn(async move {
                    let mut piece = [0; 1024];
                    for _ in 0..seconds {
                        stream.read_exact(&mut piece).await?;
                        tokio::time::sleep(Duration::from_secs(1)).await;
                    }
                    std::io::Result::Ok(stream)
                })
            })
            .collect();
        let fresh = open_loop(gateway.address, "a", 50.0, Duration::from_secs(seconds)).await;
        let grown = gateway.process.rss_kib().saturating_sub(rss);
        report.figure(format!("{readers} slow readers: {:.0} KiB each", grown as f64 / f64::from(readers)));
        report.holds(grown < readers as u64 * 1024, "less than 1 MiB a reader");
        let mut reading = 0;
        for task in tasks {
            reading += usize::from(task.await.unwrap().is_ok());
        }
        report.figure(format!("{reading} still read after {seconds} s"));
        report.holds(reading == readers as usize, "no slow reader is cut off");
        fresh
    });
    report.admin(poller);
    report.figure(format!("others: p99 {:.1} ms", fresh.quantile_ms(0.99, any)));
    report.holds(fresh.with(|status| status == 200) == fresh.answered.len(), "the others are served");
    report.holds(fresh.quantile_ms(0.99, any) < 100.0, "the others' p99 is below 100 ms");
    report.all_answered(&fresh);
    // All readers have left: clients that abort are ended requests too.
    report.counts(&gateway, readers as usize + fresh.answered.len());
}

/// A million requests leave nothing behind.
fn million(report: &mut Report, is_short: bool) {
    let (first, all) = if is_short { (20_000, 60_000) } else { (50_000, 1_000_000) };
    let servers: Vec<Server> = (0..2).map(|_| Server::start("0")).collect();
    let gateway = Gateway::start("", &fleet(&servers));
    let poller = Poller::start(gateway.admin);
    let target = gateway.address;
    let mut answers = block_on(closed_loop(target, 20, first));
    let (rss, began) = (gateway.process.rss_kib(), Instant::now());
    let rest = block_on(closed_loop(target, 20, all - first));
    let per_s = (all - first) as f64 / began.elapsed().as_secs_f64();
    let after = gateway.process.rss_kib();
    answers.answered.extend(rest.answered);
    answers.lost.extend(rest.lost);
    report.admin(poller);
    report.figure(format!("{all} requests at {per_s:.0}/s; memory {rss} KiB after {first}, {after} KiB at the end"));
    report.holds(after < rss + 4096, "memory grows by less than 4 MiB");
    report.holds(answers.with(|status| status == 200) == all, "all are served");
    let routed = metric(&gateway, "shortline_routed_total");
    report.holds((routed - all as f64).abs() < 0.5, &format!("routed {routed} are all"));
    report.all_answered(&answers);
    report.counts(&gateway, answers.answered.len());
}
