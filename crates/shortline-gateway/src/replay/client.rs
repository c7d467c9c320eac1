//! Sends requests on time and hears their answers out.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName};
use http::uri::{PathAndQuery, Scheme, Uri};
use http::{HeaderValue, Method, Request as HttpRequest};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client as HyperClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::record::{Answered, Outcome, Record};
use super::schedule::Request;
use super::{Options, Progress, ReplayError};

/// The sender wakes this long before a request is due and spins over the rest; see `emulate/timer.rs`.
const SPIN: Duration = Duration::from_micros(100);

/// The sender looks this often whether it should stop.
const LONGEST_SLEEP: Duration = Duration::from_millis(50);

/// Requests due later than this (30 years) are due then.
const LATEST_S: f64 = 1e9;

/// Idle connections are kept this long: bursts come back.
const KEEP_IDLE: Duration = Duration::from_secs(90);

/// How far sending may be behind the end of its time.
const LATEST_END: Duration = Duration::from_secs(1);

/// Where requests go: `http://HOST[:PORT][/PATH]`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target(Uri);

impl std::str::FromStr for Target {
    type Err = ReplayError;

    fn from_str(text: &str) -> Result<Self, ReplayError> {
        let refuse = |why: &str| ReplayError::Target { target: text.to_owned(), why: why.to_owned() };
        let uri: Uri = if text.contains("://") { text.to_owned() } else { format!("http://{text}") }
            .parse()
            .map_err(|error: http::uri::InvalidUri| refuse(&error.to_string()))?;
        match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTP => {}
            _ => return Err(refuse("only http is spoken")),
        }
        if uri.host().is_none_or(str::is_empty) {
            return Err(refuse("there is no host"));
        }
        let mut parts = uri.into_parts();
        parts.path_and_query.get_or_insert(PathAndQuery::from_static("/"));
        Uri::from_parts(parts).map(Self).map_err(|error| refuse(&error.to_string()))
    }
}

/// What requests of one job type have in common.
#[derive(Debug)]
struct Template {
    name: HeaderValue,
    body: Bytes,
}

/// The HTTP side: a connection pool and what to write.
#[derive(Debug)]
pub(super) struct Client {
    http: HyperClient<HttpConnector, Full<Bytes>>,
    target: Uri,
    templates: Vec<Template>,
}

impl Client {
    pub(super) fn new(target: &Target, job_types: &[String]) -> Result<Self, ReplayError> {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let http = HyperClient::builder(TokioExecutor::new()).pool_idle_timeout(KEEP_IDLE).build(connector);
        let template = |name: &String| {
            let header = HeaderValue::from_bytes(name.as_bytes()).map_err(|_| ReplayError::Unsendable(name.clone()))?;
            Ok(Template { name: header, body: serde_json::json!({"model": name}).to_string().into() })
        };
        let templates = job_types.iter().map(template).collect::<Result<_, ReplayError>>()?;
        Ok(Self { http, target: target.0.clone(), templates })
    }

    fn request(&self, request: Request) -> HttpRequest<Full<Bytes>> {
        let template = &self.templates[request.job_type as usize];
        let mut http = HttpRequest::new(Full::new(template.body.clone()));
        *http.method_mut() = Method::POST;
        *http.uri_mut() = self.target.clone();
        let headers = http.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(HeaderName::from_static("x-job-type"), template.name.clone());
        if let Some(size) = request.size {
            let size = HeaderValue::try_from(size.to_string()).expect("a number is a header value");
            headers.insert(HeaderName::from_static("x-service-s"), size);
        }
        http
    }

    /// Sends one request and reads its answer to the end.
    async fn ask(&self, request: Request) -> Outcome {
        let response = match self.http.request(self.request(request)).await {
            Ok(response) => response,
            Err(error) => return Outcome::Aborted(reason(&error)),
        };
        let (head, mut body) = response.into_parts();
        while let Some(frame) = body.frame().await {
            if let Err(error) = frame {
                return Outcome::Aborted(format!("the answer broke off: {}", innermost(&error)));
            }
        }
        let by =
            |name: &str| head.headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        Outcome::Status { status: head.status, server: by("x-served-by").or_else(|| by("x-emulated-server")) }
    }
}

fn reason(error: &hyper_util::client::legacy::Error) -> String {
    let why = innermost(error);
    if error.is_connect() { format!("no connection: {why}") } else { format!("no answer: {why}") }
}

fn innermost(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

/// A replay under way.
#[derive(Debug)]
pub(super) struct Run {
    client: Client,
    record: Mutex<Record>,
    start: Instant,
    /// When sending ends, even if it is behind its schedule.
    end: Option<Instant>,
    pub(super) ended_behind: AtomicBool,
    max_outstanding: usize,
    timeout: Duration,
    stop: CancellationToken,
    under_way: TaskTracker,
    sent: AtomicU64,
    pub(super) not_sent: AtomicU64,
}

impl Run {
    pub(super) fn new(client: Client, record: Record, options: &Options) -> Self {
        let start = Instant::now();
        Self {
            client,
            record: Mutex::new(record),
            start,
            end: options.duration.and_then(|duration| start.checked_add(duration + LATEST_END)),
            ended_behind: AtomicBool::new(false),
            max_outstanding: options.max_outstanding,
            timeout: options.timeout,
            stop: options.stop.clone(),
            under_way: TaskTracker::new(),
            sent: AtomicU64::new(0),
            not_sent: AtomicU64::new(0),
        }
    }

    /// Sends every request at its time; never waits for an answer. Blocks the thread.
    pub(super) fn send_all(
        self: &Arc<Self>,
        requests: impl Iterator<Item = Request>,
        runtime: &tokio::runtime::Handle,
    ) {
        for (number, request) in (0..).zip(requests) {
            let due = self.start + Duration::from_secs_f64(request.at_s.min(LATEST_S));
            // A schedule that no machine can keep up with ends with its time all the same.
            if self.end.is_some_and(|end| Instant::now() > end) {
                self.ended_behind.store(true, Ordering::Relaxed);
                return;
            }
            if !self.wait_until(due) {
                return;
            }
            if self.under_way.len() >= self.max_outstanding {
                self.not_sent.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            self.sent.fetch_add(1, Ordering::Relaxed);
            self.under_way.spawn_on(Arc::clone(self).send(number, request, due), runtime);
        }
    }

    /// Whether the time came before the replay was stopped.
    fn wait_until(&self, due: Instant) -> bool {
        loop {
            if self.stop.is_cancelled() {
                return false;
            }
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            } else if left > SPIN {
                std::thread::sleep((left - SPIN).min(LONGEST_SLEEP));
            } else {
                std::hint::spin_loop();
            }
        }
    }

    async fn send(self: Arc<Self>, number: u64, request: Request, due: Instant) {
        let sent = Instant::now();
        let outcome = match tokio::time::timeout(self.timeout, self.client.ask(request)).await {
            Ok(outcome) => outcome,
            Err(_elapsed) => Outcome::Aborted(format!("no answer within {} s", self.timeout.as_secs_f64())),
        };
        let ended = Instant::now();
        let answered = Answered {
            number,
            job_type: request.job_type,
            size: request.size,
            lag: sent.saturating_duration_since(due),
            response: ended.saturating_duration_since(due),
            ended_after: ended.saturating_duration_since(self.start),
        };
        self.record.lock().unwrap_or_else(PoisonError::into_inner).note(&answered, outcome);
    }

    /// Resolves when everything that was sent is answered or aborted. Call it after [`send_all`](Self::send_all).
    pub(super) async fn all_answered(&self) {
        self.under_way.close();
        self.under_way.wait().await;
    }

    pub(super) fn progress(&self, total: Option<u64>) -> Progress {
        let sent = self.sent.load(Ordering::Relaxed);
        let done = sent.saturating_sub(self.under_way.len() as u64);
        Progress { sent, done, total, elapsed: self.start.elapsed() }
    }

    /// The record, samples in order of arrival; empty from then on.
    pub(super) fn take_record(&self) -> Record {
        let mut record = std::mem::take(&mut *self.record.lock().unwrap_or_else(PoisonError::into_inner));
        record.samples.sort_unstable_by_key(|sample| sample.number);
        record
    }
}
