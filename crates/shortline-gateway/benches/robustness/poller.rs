//! Asks the admin address for `/status`, `/metrics` and `/healthz` every 100 ms, from a thread of its own.
//!
//! Load, servers and gateway share the machine with this thread: an answer may have come long before the thread is
//! given a core to read it. The system counts how long a thread that could run waits for a core
//! (`/proc/thread-self/schedstat`); what this thread waited in its last read, from the moment the last of the answer woke
//! it, is no part of the answer's time and is taken off, to the microsecond. What the gateway's admin thread waits for a
//! core is a part of it, and is shown. Where the system does not count, nothing is taken off.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::client::quantile;
use crate::processes::Gateway;

const EVERY: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(10);
const THIS_THREAD: &str = "/proc/thread-self/schedstat";

/// The body of an admin page.
pub(crate) fn page(admin: SocketAddr, path: &str) -> std::io::Result<String> {
    ask(admin, path).map(|(body, _)| body)
}

/// The body of an admin page, and the ms that this thread waited for a core when it could have read the last of it.
fn ask(admin: SocketAddr, path: &str) -> std::io::Result<(String, f64)> {
    let mut stream = TcpStream::connect_timeout(&admin, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET {path} HTTP/1.1\r\nhost: bench\r\nconnection: close\r\n\r\n")?;
    let (mut answer, mut piece) = (Vec::new(), [0; 16384]);
    loop {
        let before_ms = waited_ms(Path::new(THIS_THREAD));
        let came = stream.read(&mut piece)?;
        let own_wait_ms = waited_ms(Path::new(THIS_THREAD)) - before_ms;
        answer.extend_from_slice(&piece[..came]);
        let text = String::from_utf8_lossy(&answer);
        match whole(&text) {
            Some((head, body)) if head.starts_with("http/1.1 200") => return Ok((body.to_owned(), own_wait_ms)),
            Some(_) => return Err(std::io::Error::other(format!("{path}: {text}"))),
            None if came == 0 => return Err(std::io::Error::other(format!("{path} broke off: {text}"))),
            None => {}
        }
    }
}

/// Head, in small letters, and body of an answer that is whole.
fn whole(answer: &str) -> Option<(String, &str)> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let head = head.to_ascii_lowercase();
    let length: usize = head.split("content-length: ").nth(1)?.lines().next()?.parse().ok()?;
    (body.len() == length).then_some((head, body))
}

/// How long a thread has waited for a core so far, in ms; 0 where the system does not count.
fn waited_ms(schedstat: &Path) -> f64 {
    let text = std::fs::read_to_string(schedstat).unwrap_or_default();
    text.split(' ').nth(1).and_then(|ns| ns.parse().ok()).map_or(0.0, |ns: f64| ns / 1e6)
}

/// One answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub(crate) path: &'static str,
    /// How long it took.
    pub(crate) ms: f64,
    /// Of it the wait of the gateway's admin thread for a core.
    pub(crate) admin_wait_ms: f64,
    /// What was taken off: the wait of this thread for a core.
    pub(crate) own_wait_ms: f64,
}

/// The thread; it runs until [`finish`](Poller::finish).
#[derive(Debug)]
pub(crate) struct Poller {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<std::io::Result<Vec<Answer>>>,
}

impl Poller {
    pub(crate) fn start(gateway: &Gateway) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let (ended, admin, schedstat) = (Arc::clone(&is_over), gateway.admin, gateway.admin_schedstat());
        let thread = std::thread::spawn(move || {
            let mut answers = Vec::new();
            while !ended.load(Relaxed) {
                for path in ["/status", "/metrics", "/healthz"] {
                    answers.push(timed(admin, path, &schedstat)?);
                }
                std::thread::sleep(EVERY);
            }
            Ok(answers)
        });
        Self { is_over, thread }
    }

    /// Median and 99 % of the answers' times in ms, and the slowest.
    pub(crate) fn finish(self) -> (f64, f64, Answer) {
        self.is_over.store(true, Relaxed);
        let answers = self.thread.join().unwrap().expect("the admin address answers");
        let [median, p99] = [0.5, 0.99].map(|q| quantile(answers.iter().map(|answer| answer.ms).collect(), q));
        (median, p99, answers.into_iter().max_by(|a, b| a.ms.total_cmp(&b.ms)).expect("it has asked"))
    }
}

fn timed(admin: SocketAddr, path: &'static str, schedstat: &Path) -> std::io::Result<Answer> {
    let (waited_before_ms, began) = (waited_ms(schedstat), Instant::now());
    let (_, own_wait_ms) = ask(admin, path)?;
    let ms = began.elapsed().as_secs_f64() * 1e3 - own_wait_ms;
    Ok(Answer { path, ms, admin_wait_ms: waited_ms(schedstat) - waited_before_ms, own_wait_ms })
}
