//! Asks the admin address all the while, from a thread of its own.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::client::quantile;

const EVERY: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(10);

/// The body of an admin page.
pub(crate) fn page(admin: SocketAddr, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&admin, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET {path} HTTP/1.1\r\nhost: bench\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    match answer.split_once("\r\n\r\n") {
        Some((head, body)) if head.starts_with("HTTP/1.1 200") => Ok(body.to_owned()),
        _ => Err(std::io::Error::other(format!("{path}: {answer}"))),
    }
}

/// The thread; it runs until [`finish`](Poller::finish).
#[derive(Debug)]
pub(crate) struct Poller {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<std::io::Result<Vec<f64>>>,
}

impl Poller {
    pub(crate) fn start(admin: SocketAddr) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || {
            let mut times_ms = Vec::new();
            while !ended.load(Relaxed) {
                for path in ["/status", "/metrics", "/healthz"] {
                    let began = Instant::now();
                    page(admin, path)?;
                    times_ms.push(began.elapsed().as_secs_f64() * 1e3);
                }
                std::thread::sleep(EVERY);
            }
            Ok(times_ms)
        });
        Self { is_over, thread }
    }

    /// Median, 99 % and largest time of an answer in ms.
    pub(crate) fn finish(self) -> [f64; 3] {
        self.is_over.store(true, Relaxed);
        let times_ms = self.thread.join().unwrap().expect("the admin address answers");
        [0.5, 0.99, 1.0].map(|q| quantile(times_ms.clone(), q))
    }
}
