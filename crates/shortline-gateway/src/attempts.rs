//! Sending a request to its server, and to others as long as that is safe ([`retry`]).
//!
//! What a server does is reported to its breaker here, as far as the head of its answer tells it; the rest of the
//! answer is watched by `response_body`. A request that goes elsewhere gets its new place first and gives the old one
//! back then, so that it is never nowhere; what the old server said is passed on if there is no new place.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header, request};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use shortline_core::JobTypeId;
use shortline_core::live::ServerKey;
use tokio::time::Instant;

use crate::epoch::{Epoch, Limits};
use crate::errors::Refusal;
use crate::exchange::Exchange;
use crate::fleet_server::Server;
use crate::gateway::Gateway;
use crate::grpc;
use crate::headers;
use crate::health::Report;
use crate::hints::HintSender;
use crate::kept_body::KeptBody;
use crate::model_lost;
use crate::request_body::{Late, Progress, RequestBody};
use crate::response_body::Sender;
use crate::retry::{self, Cause};
use crate::upstream::Sent;

/// For so long an answer that may say "no such model" is waited for, before it is passed on as it comes.
const PEEK_TIME: Duration = Duration::from_secs(1);

/// How often a request is sent to a server that took no notice of it: its kept-alive connections had just closed, or it
/// goes away. More in a row is a fault.
const MOST_STALE: usize = 100;

/// What one server made of a request.
#[derive(Debug)]
enum Attempt {
    Answer(Response<Incoming>, Sender),
    /// With the request, if nothing of it was sent.
    Failed(Refusal, Option<Request<RequestBody>>),
}

/// What is needed to send a request again.
#[derive(Debug)]
struct Spare {
    head: request::Parts,
    body: Arc<KeptBody>,
}

/// Sends the request to the server where it has its place, or else to others, and waits for the head of an answer.
///
/// # Errors
/// The refusal to answer with.
pub(crate) async fn forward(
    epoch: &Epoch,
    exchange: &mut Exchange,
    job_type: JobTypeId,
    head: request::Parts,
    mut body: RequestBody,
    may_switch: bool,
) -> Result<(Response<Incoming>, Sender), Refusal> {
    let gateway = Arc::clone(&exchange.gateway);
    let settings = &epoch.fleet.settings().retry;
    gateway.retry_budget.deposit();
    let method = head.method.clone();
    let has_others = settings.attempts > 1 && epoch.fleet.graph().degree(job_type.index()) > 1;
    let spare = match has_others {
        true => body.keep(settings.body_limit).map(|body| Spare { head: head.clone(), body }),
        false => None,
    };
    let deadline = Instant::now() + epoch.limits.first_byte;
    let mut tried: Vec<ServerKey> = Vec::new();
    let mut request = Request::from_parts(head, body);
    loop {
        let Some(server) = exchange.server().cloned() else { return Err(Refusal::UpstreamError) };
        let hints = exchange.hints();
        let mut attempt = send(&gateway, &epoch.limits, &server, request, hints, deadline, may_switch).await;
        let (cause, report) = judge(epoch, exchange, &mut attempt, &method).await;
        if let Some(report) = report {
            exchange.report(report);
        }
        let again = cause.filter(|cause| has_others && cause.is_safe_for(&method) && Instant::now() < deadline);
        if let Some(cause) = again
            && tried.len() + 1 < settings.attempts as usize
            && let Some(next) = next_request(&mut attempt, spare.as_ref())
        {
            tried.extend(exchange.key());
            if move_on(exchange, settings, cause, &tried) {
                if let Attempt::Answer(answer, sender) = attempt {
                    let_go(&gateway, answer, sender).await;
                }
                request = next;
                continue;
            }
        }
        return match attempt {
            Attempt::Answer(answer, sender) => Ok((answer, sender)),
            Attempt::Failed(refusal, _) => Err(refusal),
        };
    }
}

/// Gives the request a place at a server that was not tried; whether it has one.
fn move_on(
    exchange: &mut Exchange,
    settings: &shortline_core::fleet::settings::Retry,
    cause: Cause,
    tried: &[ServerKey],
) -> bool {
    let gateway = Arc::clone(&exchange.gateway);
    if !gateway.retry_budget.withdraw(settings) {
        gateway.stats.retries.withheld();
        return false;
    }
    let job_type = exchange.job_type().map(|job_type| job_type.name().to_owned());
    match job_type.and_then(|job_type| gateway.dispatch.route_avoiding(&job_type, tried)) {
        Some((place, reason)) => {
            gateway.stats.retries.count(cause);
            exchange.moved(place, reason);
            true
        }
        None => {
            gateway.retry_budget.refund();
            false
        }
    }
}

/// The request once more: the one that was not sent, or a copy.
fn next_request(attempt: &mut Attempt, spare: Option<&Spare>) -> Option<Request<RequestBody>> {
    if let Attempt::Failed(_, unsent @ Some(_)) = attempt {
        return unsent.take();
    }
    let spare = spare?;
    Some(Request::from_parts(spare.head.clone(), RequestBody::of(spare.body.again()?)))
}

/// What this attempt is a cause for, and what it says of the server.
async fn judge(
    epoch: &Epoch,
    exchange: &Exchange,
    attempt: &mut Attempt,
    method: &Method,
) -> (Option<Cause>, Option<Report>) {
    let (answer, sender) = match attempt {
        Attempt::Answer(answer, sender) => (answer, sender),
        Attempt::Failed(Refusal::UpstreamConnect, _) => return (Some(Cause::Connect), Some(Report::Failed)),
        Attempt::Failed(Refusal::UpstreamError, _) => return (Some(Cause::Reset), Some(Report::Failed)),
        Attempt::Failed(Refusal::UpstreamTimeout, _) => return (None, Some(Report::Failed)),
        Attempt::Failed(..) => return (None, None),
    };
    let health = &epoch.fleet.settings().health;
    if health.model_lost_status.contains(&answer.status().as_u16())
        && method != Method::HEAD
        && says_model_lost(answer, sender).await
    {
        exchange.lose_model();
        return (Some(Cause::ModelLost), Some(Report::BeganWell));
    }
    let pause = match answer.status().as_u16() {
        429 | 503 if health.obey_retry_after => retry::pause(answer.headers(), SystemTime::now()),
        _ => None,
    };
    let report = match (pause, answer.status().as_u16()) {
        (Some(pause), _) => Some(Report::Pause(pause)),
        (None, 502..=504) => Some(Report::Failed),
        (None, 429) => None,
        (None, _) if exchange.is_grpc() && grpc::says_unavailable(answer.headers()) => Some(Report::Failed),
        (None, _) => Some(Report::BeganWell),
    };
    (Cause::of(answer.status(), answer.headers()), report)
}

/// Whether the server says that it does not have the model. What is read for that is kept for the client.
async fn says_model_lost(answer: &mut Response<Incoming>, sender: &mut Sender) -> bool {
    let is_small = answer.body().size_hint().lower() <= model_lost::MOST_BYTES as u64;
    if !is_small || answer.headers().contains_key(header::CONTENT_ENCODING) {
        return false;
    }
    let body = answer.body_mut();
    let mut text = Vec::new();
    let read = async {
        while text.len() <= model_lost::MOST_BYTES {
            let Some(Ok(frame)) = body.frame().await else { return };
            text.extend_from_slice(frame.data_ref().map_or(&[], Bytes::as_ref));
            sender.ahead.push_back(frame);
        }
    };
    // Out of time: what came is looked at, the rest is passed on as it comes.
    let _: Result<(), _> = tokio::time::timeout(PEEK_TIME, read).await;
    text.len() <= model_lost::MOST_BYTES && model_lost::says_so(&text)
}

/// Lets go of an answer that nobody gets; its connection is kept if all of it is here.
async fn let_go(gateway: &Gateway, mut answer: Response<Incoming>, sender: Sender) {
    let body = answer.body_mut();
    while let Poll::Ready(Some(Ok(_))) = std::future::poll_fn(|cx| {
        Poll::Ready(Pin::new(&mut *body).poll_frame(cx) as Poll<Option<Result<Frame<Bytes>, _>>>)
    })
    .await
    {}
    if body.is_end_stream() && sender.upload.as_ref().is_none_or(|upload| upload.is_sent()) {
        gateway.give_back(sender.lease);
    }
}

/// Sends the request to this server and waits for the head of its answer.
async fn send(
    gateway: &Gateway,
    limits: &Limits,
    server: &Server,
    mut request: Request<RequestBody>,
    hints: Option<&HintSender>,
    deadline: Instant,
    may_switch: bool,
) -> Attempt {
    let upload = request.body_mut().watch();
    for _ in 0..MOST_STALE {
        let mut lease = match gateway.lease(server, limits).await {
            Ok(lease) => lease,
            Err(refusal) => return Attempt::Failed(refusal, Some(request)),
        };
        if may_switch && lease.is_shared() {
            return Attempt::Failed(Refusal::Unsupported("a switch of protocols with a server over HTTP/2"), None);
        }
        let refusal = match in_time(lease.send(request, hints), upload.as_deref(), limits, deadline).await {
            Ok(Sent::Answer(answer))
                if answer.status() == StatusCode::SWITCHING_PROTOCOLS && !may_switch
                    || !headers::is_plainly_framed(answer.headers()) =>
            {
                Refusal::UpstreamError
            }
            Ok(Sent::Answer(answer)) => return Attempt::Answer(answer, Sender::new(lease, upload)),
            Ok(Sent::Stale(again)) => {
                request = again;
                continue;
            }
            Ok(Sent::Failed) if upload.is_some_and(|upload| upload.is_broken()) => Refusal::BadRequest,
            Ok(Sent::Failed) => Refusal::UpstreamError,
            Err(refusal) => refusal,
        };
        return Attempt::Failed(refusal, None);
    }
    Attempt::Failed(Refusal::UpstreamError, Some(request))
}

/// Waits for the answer's head until the deadline, and while a body is under way as long as it moves.
async fn in_time(
    send: impl Future<Output = Sent>,
    upload: Option<&Progress>,
    limits: &Limits,
    deadline: Instant,
) -> Result<Sent, Refusal> {
    let Some(upload) = upload else {
        return tokio::time::timeout_at(deadline, send).await.map_err(|_| Refusal::UpstreamTimeout);
    };
    let mut send = std::pin::pin!(send);
    loop {
        match upload.late(limits.idle, limits.first_byte) {
            Late::Client => return Err(Refusal::ClientTimeout),
            Late::Server => return Err(Refusal::UpstreamTimeout),
            Late::NotBefore(deadline) => {
                if let Ok(sent) = tokio::time::timeout_at(deadline, &mut send).await {
                    return Ok(sent);
                }
            }
        }
    }
}
