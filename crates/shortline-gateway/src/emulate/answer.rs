//! From a request to a job to an answer, as an inference server would give it.
//!
//! - The job type is the header `x-job-type`, else the `model` member of the JSON body; the size is the header
//!   `x-service-s` (seconds on a server of rate 1), else drawn from `[service]`.
//! - An answer comes when service ends: `x-emulated-server`, `x-queue-wait-s`, `x-service-time-s` (real seconds, after
//!   `time_scale`) and a small OpenAI-like JSON body. With `"stream": true` in the body, or `Accept:
//!   text/event-stream`, it is [`CHUNKS`] server-sent events: the head when service begins, the last event when it
//!   ends, the others evenly in between (under `ps`, as if the job were alone at the server; the end is exact) - and
//!   without `x-service-time-s`, which is not known yet.
//! - Errors are `{"error": {"code", "message", "type"}}`: 400 `missing_job_type`, `bad_service_s`, `unknown_size`; 404
//!   `unknown_job_type`, `job_type_not_held`; 413 `body_too_large`; 503 `no_capacity` with `Retry-After`.
//! - `GET /healthz` answers 200 at once, `GET /v1/models` lists what the server holds.

use std::borrow::Cow;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderName, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Either, Full, Limited};
use hyper::body::Incoming;
use serde::Deserialize;
use serde_json::json;
use shortline_core::JobTypeId;
use tokio::sync::mpsc;

use super::queue::{Nanos, Times};
use super::server::{Job, Server};

/// Server-sent events of a streamed answer, without the closing `[DONE]`.
const CHUNKS: u32 = 8;

/// Longest request body that is read.
const BODY_LIMIT: usize = 64 << 20;

/// Largest `x-service-s`: about 30 years.
const LONGEST_SERVICE_S: f64 = 1e9;

const JOB_TYPE: HeaderName = HeaderName::from_static("x-job-type");
const SERVICE: HeaderName = HeaderName::from_static("x-service-s");
const SERVER: HeaderName = HeaderName::from_static("x-emulated-server");
const QUEUE_WAIT: HeaderName = HeaderName::from_static("x-queue-wait-s");
const SERVICE_TIME: HeaderName = HeaderName::from_static("x-service-time-s");

/// An answer: whole, or event by event.
pub(super) type Answer = Response<Either<Full<Bytes>, Events>>;

/// Answers one request. Dropped before it resolves - the client went away - it takes its job off the server.
pub(super) async fn answer(server: Arc<Server>, request: Request<Incoming>) -> Result<Answer, Infallible> {
    let mut response = match (request.method(), request.uri().path()) {
        (&Method::GET, "/healthz") => whole(StatusCode::OK, &json!({"status": "ok", "jobs": server.jobs()})),
        (&Method::GET, "/v1/models") => whole(StatusCode::OK, &models(&server)),
        _ => serve(&server, request).await.unwrap_or_else(|refusal| refusal.into_answer()),
    };
    // Names come from a file and may hold what a header may not: then the header is left out.
    if let Ok(name) = HeaderValue::from_bytes(server.name.as_bytes()) {
        response.headers_mut().insert(SERVER, name);
    }
    Ok(response)
}

async fn serve(server: &Arc<Server>, request: Request<Incoming>) -> Result<Answer, Refusal> {
    let (head, body) = request.into_parts();
    let body = match Limited::new(body, BODY_LIMIT).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => {
            let message = format!("bodies of more than {BODY_LIMIT} bytes are not read");
            return Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", message));
        }
        Err(error) => return Err(Refusal::new(StatusCode::BAD_REQUEST, "broken_body", error.to_string())),
    };
    let wanted = Wanted::read(&body);
    let job_type = job_type(server, &head.headers, wanted.as_ref())?;
    let size = size(server, &head.headers)?;
    let streams = wanted.as_ref().is_some_and(|wanted| wanted.stream) || accepts_events(&head.headers);

    let job = server.admit(job_type, size).map_err(|_no_room| Refusal::no_capacity(server))?;
    let model = server.common.fleet.job_type_name(job_type);
    if streams { stream(server, job, model).await } else { complete(server, job, &model).await }
}

/// What the body asks for. Anything but a JSON object asks for nothing.
#[derive(Deserialize)]
struct Wanted<'a> {
    #[serde(borrow)]
    model: Option<Cow<'a, str>>,
    #[serde(default)]
    stream: bool,
}

impl<'a> Wanted<'a> {
    fn read(body: &'a [u8]) -> Option<Self> {
        if body.trim_ascii_start().starts_with(b"{") { serde_json::from_slice(body).ok() } else { None }
    }
}

fn job_type(server: &Server, headers: &HeaderMap, wanted: Option<&Wanted<'_>>) -> Result<JobTypeId, Refusal> {
    let named = headers.get(JOB_TYPE).map(|value| String::from_utf8_lossy(value.as_bytes()));
    let named = named.or_else(|| wanted?.model.clone()).ok_or_else(|| {
        let message = "no header `x-job-type` and no `model` in a JSON body".to_owned();
        Refusal::new(StatusCode::BAD_REQUEST, "missing_job_type", message)
    })?;
    let job_type = server.common.fleet.find_job_type(&named).ok_or_else(|| {
        let message = format!("`{named}` is not a job type of the fleet");
        Refusal::new(StatusCode::NOT_FOUND, "unknown_job_type", message)
    })?;
    if server.holds(job_type) {
        Ok(job_type)
    } else {
        let message = format!("server `{}` does not hold `{named}`", server.name);
        Err(Refusal::new(StatusCode::NOT_FOUND, "job_type_not_held", message))
    }
}

fn size(server: &Server, headers: &HeaderMap) -> Result<Option<f64>, Refusal> {
    let refuse = |code, message| Err(Refusal::new(StatusCode::BAD_REQUEST, code, message));
    match headers.get(SERVICE) {
        Some(value) => match value.to_str().ok().and_then(|text| text.trim().parse::<f64>().ok()) {
            Some(size) if (0.0..=LONGEST_SERVICE_S).contains(&size) => Ok(Some(size)),
            _ => refuse("bad_service_s", format!("x-service-s is {value:?}, must be seconds in 0..=1e9")),
        },
        None if server.common.law.is_none() => refuse(
            "unknown_size",
            "[service] distribution = \"trace\": the request must say its size in the header x-service-s".to_owned(),
        ),
        None => Ok(None),
    }
}

fn accepts_events(headers: &HeaderMap) -> bool {
    headers.get_all(ACCEPT).iter().any(|value| value.to_str().is_ok_and(|text| text.contains("text/event-stream")))
}

async fn complete(server: &Server, mut job: Job, model: &str) -> Result<Answer, Refusal> {
    let times = (&mut job.ended).await.map_err(|_closed| Refusal::stopping())?;
    server.common.note_answered(&times);
    let content = format!("{model} done by {}", server.name);
    let mut response = whole(
        StatusCode::OK,
        &json!({
            "id": id(server, &job),
            "object": "chat.completion",
            "model": model,
            "choices": [{
                "index": 0,
                "message": {"role": "assistant", "content": content},
                "finish_reason": "stop",
            }],
        }),
    );
    let headers = response.headers_mut();
    headers.insert(QUEUE_WAIT, seconds(times.started - times.arrived));
    headers.insert(SERVICE_TIME, seconds(times.ended - times.started));
    Ok(response)
}

async fn stream(server: &Arc<Server>, mut job: Job, model: String) -> Result<Answer, Refusal> {
    let times = (&mut job.started).await.map_err(|_closed| Refusal::stopping())?;
    let (sender, events) = mpsc::channel(1);
    tokio::spawn(play(Arc::clone(server), job, model, times, sender));
    let mut response = Response::new(Either::Right(Events(events)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(QUEUE_WAIT, seconds(times.started - times.arrived));
    Ok(response)
}

/// Sends the events on their times until the job ends or the client goes away; either way the job is then dropped.
async fn play(server: Arc<Server>, mut job: Job, model: String, expected: Times, events: mpsc::Sender<Bytes>) {
    let id = id(&server, &job);
    let event = |content: &str, finish: Option<&str>| {
        let choice = json!({"index": 0, "delta": {"content": content}, "finish_reason": finish});
        let chunk = json!({"id": id, "object": "chat.completion.chunk", "model": model, "choices": [choice]});
        format!("data: {chunk}\n\n")
    };
    let step = (expected.ended - expected.started) / u64::from(CHUNKS);
    let sent_all = async {
        for i in 1..CHUNKS {
            let due = server.common.instant(expected.started.saturating_add(step.saturating_mul(u64::from(i))));
            server.common.timer.sleep_until(due).await;
            events.send(event(&format!("part {i} "), None).into()).await.ok()?;
        }
        let times = (&mut job.ended).await.ok()?;
        server.common.note_answered(&times);
        events.send(format!("{}data: [DONE]\n\n", event("done", Some("stop"))).into()).await.ok()
    };
    tokio::select! {
        _ended_or_stopped = sent_all => {}
        () = events.closed() => {}
    }
}

fn id(server: &Server, job: &Job) -> String {
    format!("emulated-{}-{}", server.name, job.number)
}

fn seconds(time: Nanos) -> HeaderValue {
    HeaderValue::try_from(format!("{:.6}", time as f64 / 1e9)).expect("digits and a point are a header value")
}

fn models(server: &Server) -> serde_json::Value {
    let fleet = &server.common.fleet;
    let held = fleet.job_types().filter(|&job_type| server.holds(job_type));
    let data: Vec<_> = held.map(|l| json!({"id": fleet.job_type_name(l), "object": "model"})).collect();
    json!({"object": "list", "data": data})
}

fn whole(status: StatusCode, body: &serde_json::Value) -> Answer {
    let mut response = Response::new(Either::Left(Full::from(body.to_string())));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Why a request does not become a job.
struct Refusal {
    status: StatusCode,
    code: &'static str,
    message: String,
}

impl Refusal {
    fn new(status: StatusCode, code: &'static str, message: String) -> Self {
        Self { status, code, message }
    }

    fn no_capacity(server: &Server) -> Self {
        let message = format!("server `{}` is full", server.name);
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "no_capacity", message)
    }

    fn stopping() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", "the emulator is stopping".to_owned())
    }

    fn into_answer(self) -> Answer {
        let kind = if self.status.is_client_error() { "invalid_request_error" } else { "overloaded_error" };
        let error = json!({"error": {"code": self.code, "message": self.message, "type": kind}});
        let mut response = whole(self.status, &error);
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

/// The body of a streamed answer.
#[derive(Debug)]
pub(super) struct Events(mpsc::Receiver<Bytes>);

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|event| event.map(|event| Ok(Frame::data(event))))
    }
}
