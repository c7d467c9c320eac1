//! Clients: one request, many at a given rate whatever comes back (open loop), or one after the other (closed loop).

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// After this long without an answer a request counts as lost.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The body of a server's answer.
pub(crate) const ANSWER: &[u8] = &[b'x'; 200];

/// How requests ended.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    /// Status and seconds, by request.
    pub(crate) answered: Vec<(u16, f64)>,
    /// Requests without an answer, and why.
    pub(crate) lost: Vec<String>,
}

impl Answers {
    pub(crate) fn with(&self, is_wanted: impl Fn(u16) -> bool) -> usize {
        self.answered.iter().filter(|a| is_wanted(a.0)).count()
    }

    /// The `q`-quantile of the times of these answers, in ms; NaN without any.
    pub(crate) fn quantile_ms(&self, q: f64, is_wanted: impl Fn(u16) -> bool) -> f64 {
        quantile(self.answered.iter().filter(|a| is_wanted(a.0)).map(|a| a.1 * 1e3).collect(), q)
    }

    pub(crate) fn extend(&mut self, others: Self) {
        self.answered.extend(others.answered);
        self.lost.extend(others.lost);
    }

    fn add(&mut self, result: Result<u16, String>, began: Instant) {
        match result {
            Ok(status) => self.answered.push((status, began.elapsed().as_secs_f64())),
            Err(why) => self.lost.push(why),
        }
    }
}

/// The `q`-quantile; NaN of nothing.
pub(crate) fn quantile(mut values: Vec<f64>, q: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(((values.len() as f64 * q) as usize).min(values.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}

pub(crate) fn request(job_type: &str) -> String {
    format!("GET / HTTP/1.1\r\nhost: bench\r\nx-job-type: {job_type}\r\n\r\n")
}

/// One request and its whole answer; the status, and whether the connection can be used again.
///
/// # Errors
/// If there is no answer, or a part of one, or a wrong one.
pub(crate) async fn exchange(stream: &mut TcpStream, job_type: &str) -> std::io::Result<(u16, bool)> {
    stream.write_all(request(job_type).as_bytes()).await?;
    let mut read = Vec::with_capacity(1024);
    let head = loop {
        more(stream, &mut read).await?;
        if let Some(end) = read.windows(4).position(|w| w == b"\r\n\r\n") {
            break end + 4;
        }
    };
    let text = String::from_utf8_lossy(&read[..head]).to_ascii_lowercase();
    let status = text[9..12].parse().map_err(std::io::Error::other)?;
    let length = text.split("content-length: ").nth(1).and_then(|rest| rest.lines().next()?.parse().ok());
    let length: usize = length.ok_or_else(|| std::io::Error::other("an answer without length"))?;
    while read.len() < head + length {
        more(stream, &mut read).await?;
    }
    let body = &read[head..];
    if !is_right(status, body) {
        let body = String::from_utf8_lossy(body);
        return Err(std::io::Error::other(format!("a wrong answer: {status} {body}")));
    }
    Ok((status, !text.contains("connection: close")))
}

async fn more(stream: &mut TcpStream, read: &mut Vec<u8>) -> std::io::Result<()> {
    match stream.read_buf(read).await? {
        0 => Err(std::io::Error::other(format!("broken off after {} bytes", read.len()))),
        _ => Ok(()),
    }
}

/// Whether this is the whole body that belongs to a status: a server's, or the gateway's refusal.
fn is_right(status: u16, body: &[u8]) -> bool {
    match status {
        200 => body == ANSWER,
        _ => serde_json::from_slice(body).is_ok_and(|body: serde_json::Value| body["error"]["code"].is_string()),
    }
}

type Idle = Arc<Mutex<Vec<TcpStream>>>;

async fn ask(target: SocketAddr, job_type: &str, idle: &Idle) -> Result<u16, String> {
    let kept = idle.lock().unwrap().pop();
    let asked = async {
        let mut stream = match kept {
            Some(stream) => stream,
            None => TcpStream::connect(target).await?,
        };
        let (status, is_reusable) = exchange(&mut stream, job_type).await?;
        if is_reusable {
            idle.lock().unwrap().push(stream);
        }
        std::io::Result::Ok(status)
    };
    match tokio::time::timeout(PATIENCE, asked).await {
        Ok(asked) => asked.map_err(|error| error.to_string()),
        Err(_) => Err("a hang".to_owned()),
    }
}

/// So many requests a second for so long, then waits for what is still to come.
pub(crate) async fn open_loop(target: SocketAddr, job_type: &'static str, per_s: f64, lasts: Duration) -> Answers {
    let (idle, answers) = (Idle::default(), Arc::<Mutex<Answers>>::default());
    let (mut tasks, began) = (JoinSet::new(), Instant::now());
    for i in 0..(per_s * lasts.as_secs_f64()) as u64 {
        tokio::time::sleep_until((began + Duration::from_secs_f64(i as f64 / per_s)).into()).await;
        let (idle, answers) = (Arc::clone(&idle), Arc::clone(&answers));
        tasks.spawn(async move {
            let began = Instant::now();
            let result = ask(target, job_type, &idle).await;
            answers.lock().unwrap().add(result, began);
        });
        while tasks.try_join_next().is_some() {}
    }
    tasks.join_all().await;
    std::mem::take(&mut *answers.lock().unwrap())
}

/// So many requests in all, over so many connections, each one after the other.
pub(crate) async fn closed_loop(target: SocketAddr, connections: usize, requests: usize) -> Answers {
    let mut tasks = JoinSet::new();
    for _ in 0..connections {
        tasks.spawn(async move {
            let (idle, mut answers) = (Idle::default(), Answers::default());
            for _ in 0..requests / connections {
                let began = Instant::now();
                answers.add(ask(target, "a", &idle).await, began);
            }
            answers
        });
    }
    let mut all = Answers::default();
    for answers in tasks.join_all().await {
        all.extend(answers);
    }
    all
}
