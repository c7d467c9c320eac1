//! What a scenario says of itself: figures, and what did not hold.

use std::time::{Duration, Instant};

use crate::client::{Answers, PATIENCE};
use crate::poller::{Poller, page};
use crate::processes::Gateway;

/// The admin address answers faster, always.
const ADMIN_MS: f64 = 50.0;

/// A scenario's figures, and what did not hold.
#[derive(Debug)]
pub(crate) struct Report {
    /// Whether the scenario runs in small; then times are not judged.
    pub(crate) is_short: bool,
    figures: Vec<String>,
    broken: Vec<String>,
}

impl Report {
    pub(crate) fn new(is_short: bool) -> Self {
        Self { is_short, figures: Vec::new(), broken: Vec::new() }
    }

    /// Whether everything held; the rest is printed.
    pub(crate) fn print(&self, name: &str) -> bool {
        println!("{name}: {}", if self.broken.is_empty() { "pass" } else { "FAIL" });
        self.figures.iter().for_each(|figure| println!("    {figure}"));
        self.broken.iter().for_each(|broken| println!("    BROKEN: {broken}"));
        self.broken.is_empty()
    }

    pub(crate) fn figure(&mut self, text: String) {
        self.figures.push(text);
    }

    /// What holds on any machine.
    pub(crate) fn holds(&mut self, condition: bool, text: &str) {
        if !condition {
            self.broken.push(text.to_owned());
        }
    }

    /// What holds where there is time for it.
    pub(crate) fn in_time(&mut self, condition: bool, text: &str) {
        self.holds(condition || self.is_short, text);
    }

    /// A count is what it has to be.
    pub(crate) fn count(&mut self, what: &str, is: usize, wanted: usize) {
        self.holds(is == wanted, &format!("{what}: {is}, not {wanted}"));
    }

    pub(crate) fn all_answered(&mut self, answers: &Answers) {
        let first = answers.lost.first().map_or("", String::as_str);
        self.holds(answers.lost.is_empty(), &format!("{} requests are lost, the first: {first}", answers.lost.len()));
    }

    pub(crate) fn admin(&mut self, poller: Poller) {
        let (median, p99, slowest) = poller.finish();
        self.figure(format!("admin: median {median:.1} ms, p99 {p99:.1} ms, at most {:.1} ms", slowest.ms));
        self.figure(format!(
            "    the slowest: {}, {:.1} ms of it the admin thread's wait for a core, {:.1} ms the bench's taken off",
            slowest.path, slowest.admin_wait_ms, slowest.own_wait_ms
        ));
        self.in_time(slowest.ms < ADMIN_MS, "admin answers within 50 ms");
    }

    /// Nothing is under way or in line, and what ended is what was asked.
    pub(crate) fn counts(&mut self, gateway: &Gateway, asked: usize) {
        let ended = || metric(gateway, "shortline_requests_total");
        // The last client has its answer a moment before the gateway has counted it.
        let began = Instant::now();
        while (under_way(gateway), ended()) != (0, asked) && began.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(50));
        }
        self.count("in flight and in line at the end", under_way(gateway), 0);
        self.count("requests that have ended", ended(), asked);
    }
}

/// Requests at servers and in line.
pub(crate) fn under_way(gateway: &Gateway) -> usize {
    let status: serde_json::Value = serde_json::from_str(&page(gateway.admin, "/status").unwrap()).unwrap();
    let servers = status["servers"].as_array().unwrap();
    let in_flight: u64 = servers.iter().map(|server| server["in_flight"].as_u64().unwrap()).sum();
    (in_flight + status["waiting_total"].as_u64().unwrap()) as usize
}

/// The sum of a metric's series.
pub(crate) fn metric(gateway: &Gateway, name: &str) -> usize {
    let page = page(gateway.admin, "/metrics").unwrap();
    page.lines().filter(|l| l.starts_with(name)).map(|l| l.rsplit(' ').next().unwrap().parse::<usize>().unwrap()).sum()
}
