//! The scenarios: what happens, and what has to hold.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use tokio::net::TcpStream;

use crate::client::{closed_loop, exchange, open_loop};
use crate::poller::Poller;
use crate::processes::{Gateway, Server};
use crate::report::{Report, metric};
use crate::slow;

type Scenario = fn(&mut Report);

const SCENARIOS: [(&str, Scenario); 8] = [
    ("kill", kill),
    ("hang", hang),
    ("overload", |report| overload(report, "reject")),
    ("overload-wait", |report| overload(report, "wait")),
    ("idle", idle),
    ("slow-readers", slow::readers_of_a_kilobyte_a_second),
    ("silent-readers", slow::readers_of_nothing),
    ("million", million),
];

/// Panics if there is no scenario of one of these names, or of a name with it as a part.
pub(crate) fn assert_exist(names: &[&str]) {
    for name in names {
        assert!(SCENARIOS.iter().any(|s| s.0.contains(name)), "no `{name}`; there are {:?}", SCENARIOS.map(|s| s.0));
    }
}

/// Runs those with one of these in their names, all of them without any.
pub(crate) fn run(names: &[&str], is_short: bool) -> ExitCode {
    shortline_gateway::raise_descriptor_limit().unwrap();
    let mut all_hold = true;
    for (name, scenario) in SCENARIOS {
        if names.is_empty() || names.iter().any(|part| name.contains(part)) {
            let mut report = Report::new(is_short);
            scenario(&mut report);
            all_hold &= report.print(name);
        }
    }
    if all_hold { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

pub(crate) fn any(_: u16) -> bool {
    true
}

fn fleet(servers: &[Server]) -> Vec<(&Server, &'static str)> {
    servers.iter().map(|server| (server, "a")).collect()
}

/// Four of eight servers die by `kill -9` and come back, one after the other, in rounds.
fn kill(report: &mut Report) {
    let (rounds, rate) = (if report.is_short { 1 } else { 5 }, 400.0);
    let mut servers: Vec<Server> = (0..8).map(|_| Server::start("5")).collect();
    let gateway = Gateway::start("[health]\nopen_s = 0.2\nlongest_open_s = 1", &fleet(&servers));
    let poller = Poller::start(&gateway);
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
    report.holds(retries > 0, "some requests met a dead server");
    report.all_answered(&answers);
    report.counts(&gateway, all);
}

/// Three of ten servers accept and read, and never answer; seven serve another job type.
fn hang(report: &mut Report) {
    let lasts = Duration::from_secs(if report.is_short { 2 } else { 30 });
    let hanging: Vec<Server> = (0..3).map(|_| Server::start("hang")).collect();
    let good: Vec<Server> = (0..7).map(|_| Server::start("5")).collect();
    let mut servers = fleet(&good);
    servers.extend(hanging.iter().map(|server| (server, "stuck")));
    let gateway = Gateway::start("[timeouts]\nfirst_byte_s = 1\n[health]\ntrip_after = 0", &servers);
    let poller = Poller::start(&gateway);
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
    report.in_time(p99_beside < 2.0 * p99_before + 20.0, "the others' p99 is at most twice what it was, and 20 ms");
    report.holds(stuck.with(|status| status == 504) == stuck.answered.len(), "hanging ones end with 504");
    for answers in [&before, &beside, &stuck] {
        report.all_answered(answers);
    }
    report.counts(&gateway, before.answered.len() + beside.answered.len() + stuck.answered.len());
}

/// Ten times what four servers can do: 2,000/s where they do 200/s, four places each.
fn overload(report: &mut Report, overflow: &str) {
    let lasts = Duration::from_secs(if report.is_short { 2 } else { 60 });
    let servers: Vec<Server> = (0..4).map(|_| Server::start("20")).collect();
    let settings = format!(
        "[fleet]\nbuffer = 4\noverflow = \"{overflow}\"\nqueue_size = 100\nqueue_timeout_s = 2\n[health]\ntrip_after = 0"
    );
    let gateway = Gateway::start(&settings, &fleet(&servers));
    let (poller, rss) = (Poller::start(&gateway), gateway.process.rss_kib());
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
    report.in_time(goodput > 150.0, "goodput is at least 3/4 of capacity");
    report.in_time(answers.quantile_ms(0.99, |status| status == 503) < 100.0, "p99 of refusals is below 100 ms");
    report.holds(answers.with(|s| s == 200 || s == 503) == answers.answered.len(), "all are served or refused");
    report.holds(grown < 64 << 10, "memory grows by less than 64 MiB");
    report.all_answered(&answers);
    report.counts(&gateway, answers.answered.len());
}

/// Many clients that asked once and keep their connection.
fn idle(report: &mut Report) {
    let clients = if report.is_short { 1_000 } else { 10_000 };
    let server = Server::start("0");
    let gateway = Gateway::start("[timeouts]\nidle_s = 600", &[(&server, "a")]);
    let (poller, rss) = (Poller::start(&gateway), gateway.process.rss_kib());
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
        report.figure(format!("{clients} idle clients: {:.1} KiB each", grown as f64 / clients as f64));
        // What is not optimised takes more.
        let most_kib = if cfg!(debug_assertions) { 48 } else { 32 };
        report.holds(grown < clients as u64 * most_kib, &format!("less than {most_kib} KiB a client"));
        let open = metric(&gateway, "shortline_connections ");
        report.holds(open >= clients, &format!("all stay open, not {open}"));
        open_loop(gateway.address, "a", 50.0, Duration::from_secs(2)).await
    });
    report.admin(poller);
    report.figure(format!("fresh requests beside them: p99 {:.1} ms", fresh.quantile_ms(0.99, any)));
    report.holds(fresh.with(|status| status == 200) == 100, "fresh requests are served");
    report.all_answered(&fresh);
    report.counts(&gateway, clients + fresh.answered.len());
}

/// A million requests leave nothing behind.
fn million(report: &mut Report) {
    let (first, all) = if report.is_short { (5_000, 20_000) } else { (50_000, 1_000_000) };
    let servers: Vec<Server> = (0..2).map(|_| Server::start("0")).collect();
    let gateway = Gateway::start("", &fleet(&servers));
    let poller = Poller::start(&gateway);
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
    report.count("routed to servers", metric(&gateway, "shortline_routed_total"), all);
    report.all_answered(&answers);
    report.counts(&gateway, answers.answered.len());
}
