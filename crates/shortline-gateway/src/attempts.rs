//! Sending a request to its server, and to others as long as that is safe ([`retry`]).
//!
//! What a server does is reported to its breaker here, as far as the head of its answer tells it; the rest of the
//! answer is watched by `response_body`. A request that goes elsewhere gets its new place first and gives the old one
//! back then, so that it is never nowhere; what the old server said is passed on if there is no new place. One that may
//! wait for a new place does so in line, at its age.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, header, request};
use http_body::Body;
use shortline_core::JobTypeId;
use shortline_core::live::ServerKey;
use tokio::time::Instant;

use crate::breaker::seconds;
use crate::epoch::{Epoch, Limits};
use crate::errors::Refusal;
use crate::exchange::Exchange;
use crate::fleet_server::Server;
use crate::gateway::Gateway;
use crate::grpc;
use crate::headers;
use crate::health::{Failing, Report};
use crate::hints::HintSender;
use crate::in_flight::{Again, Reason, Waited};
use crate::kept_body::KeptBody;
use crate::model_lost;
use crate::request_body::{Late, Progress, RequestBody};
use crate::response_body::Sender;
use crate::retry::{self, Cause};
use crate::upstream::{AnswerBody, Lease, Sent};

/// For so long an answer that may say "no such model" is waited for, before it is passed on as it comes.
const PEEK_TIME: Duration = Duration::from_secs(1);

/// How often a request is sent to a server whose kept-alive connections had just closed. More in a row is a fault.
const MOST_STALE: usize = 100;

/// What one server made of a request.
type Attempt = Result<(Response<AnswerBody>, Sender), Failure>;

/// Why a server gives no answer.
#[derive(Debug)]
enum Failure {
    /// With the refusal to give instead.
    Known(Refusal),
    /// It closed a connection that had been used before, and had not said a byte: a race, not a fault.
    Dropped,
    /// It says that it did nothing about the request, and said so twice where that was possible.
    Unprocessed,
}

impl Failure {
    fn refusal(self) -> Refusal {
        match self {
            Self::Known(refusal) => refusal,
            Self::Dropped | Self::Unprocessed => Refusal::UpstreamError,
        }
    }
}

/// A request as the client has sent it, but for its body.
#[derive(Debug)]
pub(crate) struct Outgoing<'a> {
    pub(crate) head: &'a request::Parts,
    /// Where it comes from.
    pub(crate) peer: &'a HeaderValue,
    /// What `traceparent` says, if the client does not.
    pub(crate) trace: Option<headers::Trace>,
    /// The protocol that it asks for.
    pub(crate) protocol: Option<&'a HeaderValue>,
}

impl Outgoing<'_> {
    /// The request as this server expects it: HTTP/1.1, the target without scheme and host.
    fn to(&self, server: &Server, body: RequestBody) -> Request<RequestBody> {
        let mut request = Request::new(body);
        let Self { head, peer, trace, .. } = self;
        let authority = head.uri.authority();
        *request.method_mut() = head.method.clone();
        *request.uri_mut() = match (authority, head.uri.path_and_query()) {
            (None, _) => head.uri.clone(),
            (Some(_), None) => Uri::from_static("/"),
            (Some(_), Some(path)) => Uri::from(path.clone()),
        };
        let upstream = server.upstream();
        *request.headers_mut() =
            headers::for_server(&head.headers, peer, trace.as_ref(), authority, upstream.authority());
        if let Some(protocol) = self.protocol {
            headers::ask_to_switch(request.headers_mut(), protocol);
        }
        request
    }
}

/// Sends the request to the server where it has its place, or else to others, and waits for the head of an answer.
///
/// # Errors
/// The refusal to answer with.
pub(crate) async fn forward(
    epoch: &Epoch,
    exchange: &mut Exchange,
    job_type: JobTypeId,
    outgoing: &Outgoing<'_>,
    mut body: RequestBody,
) -> Result<(Response<AnswerBody>, Sender), Refusal> {
    let gateway = Arc::clone(&exchange.gateway);
    let settings = &epoch.fleet.settings().retry;
    gateway.retry_budget.deposit();
    let method = &outgoing.head.method;
    let has_others = epoch.fleet.graph().degree(job_type.index()) > 1;
    let is_empty = body.is_end_stream();
    let keeps = !is_empty && (settings.attempts > 1 && has_others || retry::is_idempotent(method));
    let kept = if keeps { body.keep(settings.body_limit) } else { None };
    let may_retry = settings.attempts > 1 && (has_others || epoch.waits && epoch.limits.hold.is_some());
    let mut deadline = Instant::now() + epoch.limits.first_byte;
    let mut tried: Vec<ServerKey> = Vec::new();
    let mut doubts = Vec::new();
    // Whether its server has had a whole `first_byte_s`: one that gets what others have left of it is not to blame.
    let mut has_full_time = true;
    loop {
        let Some(server) = exchange.server().cloned() else { return Err(Refusal::UpstreamError) };
        let mut request = Some(outgoing.to(&server, body));
        // An upload that is still under way has clocks of its own.
        let blames_lateness = has_full_time || request.as_ref().is_some_and(|request| !request.body().has_all());
        let sending = Sending {
            gateway: &gateway,
            limits: &epoch.limits,
            server: &server,
            hints: exchange.hints(),
            deadline,
            may_switch: outgoing.protocol.is_some(),
        };
        let mut attempt = sending.send(&mut request, false).await;
        if matches!(attempt, Err(Failure::Dropped))
            && retry::is_idempotent(method)
            && let Some(again) = copy_of_body(kept.as_deref(), is_empty)
        {
            request = Some(outgoing.to(&server, again));
            attempt = Box::pin(sending.send(&mut request, true)).await;
        }
        let Judgement { cause, report, doubt } = judge(epoch, exchange, job_type, &mut attempt, method).await;
        if let Some(report) =
            report.filter(|_| blames_lateness || !matches!(attempt, Err(Failure::Known(Refusal::UpstreamTimeout))))
        {
            exchange.report(report);
        }
        let again = cause.filter(|cause| may_retry && cause.is_safe_for(method) && Instant::now() < deadline);
        if let Some(cause) = again
            && (cause == Cause::Connect || tried.len() + 1 < settings.attempts as usize)
            && (request.is_some() || is_empty || kept.as_ref().is_some_and(|kept| kept.can_be_whole()))
        {
            tried.extend(exchange.key());
            exchange.tried(cause);
            doubts.extend(doubt.and_then(|doubt| exchange.doubt(doubt)));
            match Box::pin(move_on(epoch, exchange, cause, &mut tried)).await {
                Onward::Placed => has_full_time = false,
                Onward::PlacedLater => {
                    has_full_time = true;
                    deadline = Instant::now() + epoch.limits.first_byte;
                }
                Onward::Refused(refusal) => return Err(refusal),
                Onward::Nowhere => return attempt.map_err(Failure::refusal),
            }
            if let Ok((answer, sender)) = attempt {
                Box::pin(let_go(&gateway, answer, sender)).await;
            }
            body = match (request, &kept) {
                (Some(unsent), _) => unsent.into_body(),
                (None, Some(kept)) => RequestBody::of(Box::pin(kept.whole(epoch.limits.idle)).await?),
                (None, None) if is_empty => RequestBody::of([]),
                (None, None) => return Err(Refusal::UpstreamError),
            };
            continue;
        }
        match (&attempt, doubt) {
            (Ok((answer, _)), None) if answer.status().as_u16() < 500 => exchange.confirm(doubts),
            // Nobody else is ever asked.
            (Ok(_), Some(pause @ Report::Pause(..))) if settings.attempts == 1 && !exchange.is_indispensable(epoch) => {
                exchange.report(pause);
            }
            _ => {}
        }
        return attempt.map_err(Failure::refusal);
    }
}

/// The body once more, if all of it has passed and was kept.
fn copy_of_body(kept: Option<&KeptBody>, is_empty: bool) -> Option<RequestBody> {
    if is_empty { Some(RequestBody::of([])) } else { Some(RequestBody::of(kept?.again()?)) }
}

/// How it goes on with a request that may go to another server.
enum Onward {
    /// It has a place there.
    Placed,
    /// It has one, after a wait in line.
    PlacedLater,
    /// It is refused.
    Refused(Refusal),
    /// It stays with what the last server said.
    Nowhere,
}

/// Gives the request a place at a server that was not tried. It may have to wait for it.
async fn move_on(epoch: &Epoch, exchange: &mut Exchange, cause: Cause, tried: &mut Vec<ServerKey>) -> Onward {
    let gateway = Arc::clone(&exchange.gateway);
    let settings = epoch.fleet.settings();
    let Some((job_type, arrival)) = exchange.job_type_record().zip(exchange.arrival()) else { return Onward::Nowhere };
    let is_free = cause == Cause::Connect;
    if !is_free && !gateway.retry_budget.withdraw(&settings.retry) {
        gateway.stats.retries.withheld();
        return Onward::Nowhere;
    }
    let none_up_since = exchange.none_up_since();
    let onward = loop {
        let line = match gateway.dispatch.route_again(&job_type, tried, arrival, cause.did_nothing()) {
            Again::Placed(mut place, reason) => {
                place.set_none_up_since(none_up_since);
                exchange.moved(place, reason);
                break Onward::Placed;
            }
            Again::InLine(line) => line,
            Again::Blocked(refusal) => break Onward::Refused(refusal),
            Again::Nowhere => break Onward::Nowhere,
        };
        if is_free && line.is_held() {
            // Nobody else is left, and it waits: until the probe the server is as good as down.
            exchange.report(Report::Pause(seconds(settings.health.open_s), Failing::Connect));
        }
        exchange.leave_server();
        exchange.waits();
        match line.place(&epoch.limits, exchange.arrived(), none_up_since).await {
            Waited::Placed(place) => {
                // A server that was down and is up again may be asked once more.
                tried.retain(|tried| Some(*tried) != place.key());
                gateway.dispatch.count_decision(Reason::Waited);
                exchange.moved(place, Reason::Waited);
                break Onward::PlacedLater;
            }
            Waited::TooLong => break Onward::Refused(Refusal::QueueTimeout),
            Waited::NoServerUp => break Onward::Refused(Refusal::NoServerUp),
            Waited::Dismissed => {}
        }
    };
    match onward {
        Onward::Placed | Onward::PlacedLater => gateway.stats.retries.count(cause),
        Onward::Refused(_) | Onward::Nowhere if !is_free => gateway.retry_budget.refund(),
        Onward::Refused(_) | Onward::Nowhere => {}
    }
    match onward {
        // It has an answer of its own to say so.
        Onward::Refused(_) if cause == Cause::Refused => Onward::Nowhere,
        onward => onward,
    }
}

/// What an attempt comes to.
#[derive(Clone, Copy, Debug)]
struct Judgement {
    /// For this the request may be sent again.
    cause: Option<Cause>,
    /// This it says of the server.
    report: Option<Report>,
    /// And this, if another server takes the request.
    doubt: Option<Report>,
}

impl Judgement {
    fn of(cause: Option<Cause>, report: Option<Report>) -> Self {
        Self { cause, report, doubt: None }
    }

    /// Something is to be done about the server, but which one, the server's load or the request's owner, is not said.
    fn doubtful(cause: Option<Cause>, doubt: Report) -> Self {
        Self { cause, report: None, doubt: Some(doubt) }
    }
}

/// What this attempt comes to, as far as the head of its answer tells.
async fn judge(
    epoch: &Epoch,
    exchange: &mut Exchange,
    job_type: JobTypeId,
    attempt: &mut Attempt,
    method: &Method,
) -> Judgement {
    let failed = |cause, failing| Judgement::of(cause, Some(Report::Failed(failing)));
    let (answer, sender) = match attempt {
        Ok((answer, sender)) => (answer, sender),
        Err(Failure::Dropped) => return Judgement::of(Some(Cause::Reset), None),
        Err(Failure::Unprocessed) => return failed(Some(Cause::Refused), Failing::Unprocessed),
        Err(Failure::Known(Refusal::UpstreamConnect)) => return failed(Some(Cause::Connect), Failing::Connect),
        Err(Failure::Known(Refusal::UpstreamError)) => return failed(Some(Cause::Reset), Failing::NoAnswer),
        Err(Failure::Known(Refusal::UpstreamTimeout)) => return failed(None, Failing::Late),
        Err(Failure::Known(_)) => return Judgement::of(None, None),
    };
    let health = &epoch.fleet.settings().health;
    if health.model_lost_status.contains(&answer.status().as_u16())
        && method != Method::HEAD
        && Box::pin(says_model_lost(exchange, answer, sender)).await
    {
        let cause = exchange.lose_model().then_some(Cause::ModelLost);
        return Judgement::of(cause, Some(Report::BeganWell));
    }
    if exchange.is_grpc()
        && answer.status() == StatusCode::OK
        && let Some(code) = grpc::status(answer.headers())
    {
        return judge_grpc(code, answer.headers(), health.obey_retry_after);
    }
    let status = answer.status().as_u16();
    let pause = match status {
        429 | 503 if health.obey_retry_after => retry::pause(answer.headers(), SystemTime::now()),
        _ => None,
    };
    let cause = Cause::of(answer.status(), answer.headers());
    let is_failure = health.trip_status.contains(&status);
    let report = match (pause, status) {
        (_, 429) if !is_failure => {
            exchange.says_nothing();
            let why = Failing::OwnStatus(status);
            return Judgement::doubtful(cause, pause.map_or(Report::Failed(why), |pause| Report::Pause(pause, why)));
        }
        (Some(pause), _) => Some(Report::Pause(pause, Failing::Status(status))),
        (None, 502..=504) if is_failure => Some(Report::Failed(Failing::Status(status))),
        // The request itself may have caused it.
        (None, _) if is_failure && !exchange.is_served_elsewhere(epoch, job_type) => None,
        (None, _) if is_failure && exchange.is_indispensable(epoch) => {
            Some(Report::FailedMaybe(Failing::Status(status)))
        }
        (None, _) if is_failure => Some(Report::Failed(Failing::Status(status))),
        (None, _) => Some(Report::BeganWell),
    };
    if !matches!(report, Some(Report::BeganWell)) {
        exchange.says_nothing();
    }
    Judgement::of(cause, report)
}

/// The same of an answer that is nothing but this gRPC status: as of its like among HTTP's, 503 and 429.
fn judge_grpc(code: u16, headers: &HeaderMap, obey_pushback: bool) -> Judgement {
    let pushback = grpc::pushback(headers);
    let pause = pushback.filter(|pause| obey_pushback && !pause.is_zero()).map(retry::at_most_longest);
    let report = pause.map_or(Report::Failed(Failing::Grpc(code)), |pause| Report::Pause(pause, Failing::Grpc(code)));
    match (code, pushback) {
        (grpc::UNAVAILABLE, None) => Judgement::of(Some(Cause::Status), Some(report)),
        (grpc::UNAVAILABLE, Some(_)) => Judgement::of(Some(Cause::Refused), Some(report)),
        (grpc::RESOURCE_EXHAUSTED, Some(_)) => Judgement::doubtful(Some(Cause::Refused), report),
        (grpc::RESOURCE_EXHAUSTED, None) => Judgement::of(None, None),
        _ => Judgement::of(None, Some(Report::BeganWell)),
    }
}

/// Whether the server says that it does not have the model. What is read for that is kept for the client.
async fn says_model_lost(exchange: &Exchange, answer: &mut Response<AnswerBody>, sender: &mut Sender) -> bool {
    let is_small = answer.body().size_hint().lower() <= model_lost::MOST_BYTES as u64;
    if !is_small || answer.headers().contains_key(header::CONTENT_ENCODING) {
        return false;
    }
    let body = answer.body_mut();
    let mut text = Vec::new();
    let read = async {
        while text.len() <= model_lost::MOST_BYTES {
            let Some(Ok(frame)) = poll_fn(|cx| sender.lease.poll_frame(body, cx)).await else { return };
            text.extend_from_slice(frame.data_ref().map_or(&[], Bytes::as_ref));
            sender.ahead.push_back(frame);
        }
    };
    // Out of time: what came is looked at, the rest is passed on as it comes.
    let _: Result<(), _> = tokio::time::timeout(PEEK_TIME, read).await;
    let Some(job_type) = exchange.job_type() else { return false };
    text.len() <= model_lost::MOST_BYTES && model_lost::says_so(&text, job_type.name(), exchange.names_model())
}

/// Lets go of an answer that nobody gets; its connection is kept if all of it is here.
async fn let_go(gateway: &Gateway, mut answer: Response<AnswerBody>, mut sender: Sender) {
    let body = answer.body_mut();
    while let Poll::Ready(Some(Ok(_))) = poll_fn(|cx| Poll::Ready(sender.lease.poll_frame(body, cx))).await {}
    if body.is_end_stream() && sender.upload.as_ref().is_none_or(|upload| upload.is_sent()) {
        gateway.give_back(sender.lease);
    }
}

/// How a request is sent to one server.
struct Sending<'a> {
    gateway: &'a Gateway,
    limits: &'a Limits,
    server: &'a Server,
    hints: Option<&'a HintSender>,
    deadline: Instant,
    may_switch: bool,
}

impl Sending<'_> {
    /// Sends the request and waits for the head of the answer; on a connection that is new if it has to be `fresh`. The
    /// request is put back if it may be sent as it is to another server.
    async fn send(&self, request: &mut Option<Request<RequestBody>>, fresh: bool) -> Attempt {
        let Self { gateway, limits, server, hints, deadline, may_switch } = *self;
        let upload = request.as_mut().and_then(|request| request.body_mut().watch());
        let mut unprocessed = false;
        for attempt in 0..MOST_STALE {
            let lease = match fresh {
                true => gateway.new_lease(server, limits.connect).await,
                false => gateway.lease(server, limits, attempt > 0).await,
            };
            let mut lease = lease.map_err(Failure::Known)?;
            if may_switch && lease.is_shared() {
                return Err(Failure::Known(Refusal::Unsupported("a switch of protocols with a server over HTTP/2")));
            }
            let sent = in_time(&mut lease, request, hints, upload.as_deref(), limits, deadline).await;
            return Err(match sent.map_err(Failure::Known)? {
                Sent::Answer(answer) if answer.status() == StatusCode::SWITCHING_PROTOCOLS && !may_switch => {
                    Failure::Known(Refusal::UpstreamError)
                }
                Sent::Answer(answer) => return Ok((answer, Sender::new(lease, upload))),
                Sent::Stale => continue,
                // Once more: its connection may have been going away.
                Sent::Unprocessed if request.is_some() && !std::mem::replace(&mut unprocessed, true) => continue,
                Sent::Unprocessed => Failure::Unprocessed,
                Sent::Dropped | Sent::Failed if upload.as_ref().is_some_and(|upload| upload.is_broken()) => {
                    Failure::Known(Refusal::BadRequest)
                }
                Sent::Dropped => Failure::Dropped,
                Sent::Failed => Failure::Known(Refusal::UpstreamError),
            });
        }
        Err(Failure::Known(Refusal::UpstreamError))
    }
}

/// Waits for the answer's head until the deadline, and while a body is under way as long as it moves.
async fn in_time(
    lease: &mut Lease,
    request: &mut Option<Request<RequestBody>>,
    hints: Option<&HintSender>,
    upload: Option<&Progress>,
    limits: &Limits,
    deadline: Instant,
) -> Result<Sent, Refusal> {
    let mut send = pin!(lease.send(request, hints, upload.is_none().then_some(deadline)));
    let Some(upload) = upload else {
        return send.await.ok_or(Refusal::UpstreamTimeout);
    };
    loop {
        match upload.late(limits.idle, limits.first_byte) {
            Late::Client => return Err(Refusal::ClientTimeout),
            Late::Server => return Err(Refusal::UpstreamTimeout),
            Late::NotBefore(deadline) => {
                if let Ok(sent) = tokio::time::timeout_at(deadline, &mut send).await {
                    return sent.ok_or(Refusal::UpstreamTimeout);
                }
            }
        }
    }
}
