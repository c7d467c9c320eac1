//! The path of a request: job type, server, forward, answer.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, Version, header, request};
use http_body::Body;
use hyper::body::Incoming;
use shortline_core::JobTypeId;
use shortline_core::fleet::settings::JobTypeSource;
use tokio::time::Instant;

use crate::attempts::{Outgoing, forward};
use crate::epoch::Epoch;
use crate::errors::Refusal;
use crate::exchange::Exchange;
use crate::gateway::Gateway;
use crate::headers;
use crate::health::{Failing, Report};
use crate::hints::Hints;
use crate::in_flight::{InLine, Reason, Route, Waited};
use crate::job_type::Named;
use crate::link::Link;
use crate::models;
use crate::outcome::Outcome;
use crate::paced::Paced;
use crate::request_body::RequestBody;
use crate::response_body::{ResponseBody, Sender, Streamed};
use crate::tunnel::{Switch, Tunnel};
use crate::upstream::{AnswerBody, header_value};
use crate::websocket::{self, Verdict};

/// Answers one request of the client at `peer`. Always answers: what goes wrong becomes a refusal.
pub(crate) async fn handle(
    gateway: Arc<Gateway>,
    link: Arc<Link>,
    peer: HeaderValue,
    request: Request<Incoming>,
) -> Result<Response<Paced<ResponseBody>>, Infallible> {
    let (mut head, body) = request.into_parts();
    let is_http2 = head.version == Version::HTTP_2;
    let paced_by = (!is_http2).then(|| Arc::clone(&link));
    let paced = |response: Response<ResponseBody>| Ok(response.map(|body| Paced::new(body, paced_by)));
    let mut exchange = Exchange::begin(&gateway, &head);
    let epoch = gateway.dispatch.epoch();
    if let Some(refusal) = link.refusal(&head.method) {
        return paced(refuse(&epoch, exchange, &refusal));
    }
    if let Some(models) = models::answer(&gateway, &epoch, &head) {
        link.answer(models.status());
        return paced(list(exchange, models));
    }
    let switch = Switch::asked_for(&mut head, body.is_end_stream());
    if head.version == Version::HTTP_11 {
        let hints = std::future::poll_fn(|cx| Poll::Ready(Hints::begin(&link, cx.waker())));
        exchange.set_hints(hints.await);
    }
    let answered = {
        let answer = pin!(answer(&epoch, &mut exchange, &peer, &mut head, RequestBody::new(body), switch.as_ref()));
        let mut answer = pin!(gateway.cut_off.unless_ordered(answer));
        match is_http2 {
            // A request over HTTP/2 has a task of its own.
            true => gateway.cut_off.wakes(&mut answer).await,
            false => answer.await,
        }
    };
    link.hints.end();
    let response = match (answered, switch) {
        (Ok((answer, sender)), Some(switch)) => match switch.verdict(&answer) {
            Verdict::Switched => switch_over(&epoch, exchange, answer, sender, switch, &link),
            Verdict::Declined => pass_on(&epoch, is_http2, exchange, answer, sender),
            Verdict::Broken => {
                exchange.report(Report::Failed(Failing::NoProof));
                refuse(&epoch, exchange, &Refusal::UpstreamError)
            }
        },
        (Ok((answer, sender)), None) => pass_on(&epoch, is_http2, exchange, answer, sender),
        (Err(refusal), _) => refuse(&epoch, exchange, &refusal),
    };
    link.answer(response.status());
    paced(response)
}

/// The head of the answer of the server that serves the request.
async fn answer(
    epoch: &Arc<Epoch>,
    exchange: &mut Exchange,
    peer: &HeaderValue,
    head: &mut request::Parts,
    mut body: RequestBody,
    switch: Option<&Switch>,
) -> Result<(Response<AnswerBody>, Sender), Refusal> {
    let job_type = match place(epoch, exchange, head, &mut body).await {
        Ok(job_type) => job_type,
        Err(refusal) => {
            // A client that waits for "100 Continue" has sent nothing that would be in the way.
            if !head.headers.contains_key(header::EXPECT) {
                Box::pin(body.discard()).await;
            }
            return Err(refusal);
        }
    };
    let trace = headers::new_trace(&head.headers);
    let outgoing = Outgoing { head, peer, trace, protocol: switch.map(|switch| &switch.protocol) };
    forward(epoch, exchange, job_type, &outgoing, body).await
}

/// Finds the job type and a place at a server, waiting in line for it if need be.
async fn place(
    epoch: &Arc<Epoch>,
    exchange: &mut Exchange,
    head: &mut request::Parts,
    body: &mut RequestBody,
) -> Result<JobTypeId, Refusal> {
    headers::check(head, epoch.limits.client.head.lines)?;
    if head.method == Method::CONNECT {
        return Err(Refusal::Unsupported("CONNECT"));
    }
    let Named { job_type, by } = epoch.finder.find(&epoch.fleet, head, body).await?;
    let record = epoch.job_type(job_type);
    exchange.set_job_type(record, by == JobTypeSource::Model);
    if matches!(by, JobTypeSource::Path | JobTypeSource::Host) {
        // The request itself does not name it, so the server is told.
        head.headers.insert(headers::X_JOB_TYPE, header_value(record.name()));
    }
    let (place, reason) = loop {
        match exchange.gateway.dispatch.route(epoch, job_type) {
            Route::Placed(place, reason) => break (place, reason),
            Route::InLine(line) => {
                exchange.waits();
                match Box::pin(in_line(epoch, line, head, body)).await? {
                    Waited::Placed(place) => break (place, Reason::Waited),
                    Waited::TooLong => return Err(Refusal::QueueTimeout),
                    Waited::NoServerUp => return Err(Refusal::NoServerUp),
                    // The next fleet is asked.
                    Waited::Dismissed => {}
                }
            }
            Route::Blocked(refusal) => {
                exchange.blocked();
                return Err(refusal);
            }
        }
    };
    exchange.placed(place, reason);
    Ok(job_type)
}

/// Waits in line. Over HTTP/1 the body is read ahead meanwhile, within `[retry] body_limit`, unless the client waits to be
/// asked for it.
async fn in_line(
    epoch: &Epoch,
    line: InLine,
    head: &request::Parts,
    body: &mut RequestBody,
) -> Result<Waited, Refusal> {
    let reads = head.version != Version::HTTP_2 && !head.headers.contains_key(header::EXPECT);
    let limit = epoch.fleet.settings().retry.body_limit;
    tokio::select! {
        biased;
        waited = line.place(&epoch.limits, Instant::now(), None) => Ok(waited),
        broken = body.read_ahead(limit), if reads => Err(broken),
    }
}

/// The server's answer, for the client.
fn pass_on(
    epoch: &Epoch,
    is_http2: bool,
    mut exchange: Exchange,
    answer: Response<AnswerBody>,
    sender: Sender,
) -> Response<ResponseBody> {
    let (mut head, incoming) = answer.into_parts();
    head.version = Version::HTTP_11;
    headers::to_client(&mut head.headers, epoch.served_by.then(|| sender.lease.upstream().name()));
    exchange.said(&head.headers);
    exchange.answered(head.status);
    if sender.upload.as_ref().is_some_and(|upload| !upload.is_sent()) && !is_http2 {
        // What of the request has not come by the end of the answer is not read any more.
        head.headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    match Streamed::begin(exchange, incoming, sender, epoch.limits.idle) {
        Ok(body) => Response::from_parts(head, ResponseBody::Streamed(body)),
        Err(exchange) => refuse(epoch, *exchange, &Refusal::UpstreamError),
    }
}

/// The server switches to the protocol that the client has asked for: the connections become a tunnel.
fn switch_over(
    epoch: &Epoch,
    mut exchange: Exchange,
    answer: Response<AnswerBody>,
    sender: Sender,
    switch: Switch,
    link: &Link,
) -> Response<ResponseBody> {
    let (mut head, _) = answer.into_parts();
    let protocol = head.headers.get(header::UPGRADE).cloned().unwrap_or(switch.protocol);
    headers::to_client(&mut head.headers, epoch.served_by.then(|| sender.lease.upstream().name()));
    match switch.handshake {
        None => headers::ask_to_switch(&mut head.headers, &protocol),
        Some(_) => {
            head.status = StatusCode::OK;
            websocket::remove_proof(&mut head.headers);
        }
    }
    let Some((first, server)) = sender.lease.switch() else {
        return refuse(epoch, exchange, &Refusal::UpstreamError);
    };
    exchange.answered(head.status);
    let tunnel = Tunnel { client: switch.client, server, first, exchange, idle: epoch.limits.idle };
    match switch.handshake {
        None => link.set_tunnel(tunnel),
        // The connection goes on; so this is a task of its own.
        Some(_) => drop(tokio::spawn(tunnel.run())),
    }
    Response::from_parts(head, ResponseBody::Own(Bytes::new()))
}

/// The gateway knows the answer itself.
fn list(mut exchange: Exchange, models: Response<Bytes>) -> Response<ResponseBody> {
    exchange.set_outcome(Outcome::Models);
    exchange.answered(models.status());
    exchange.passed_on(models.body().len());
    models.map(ResponseBody::Own)
}

/// The gateway's own answer.
fn refuse(epoch: &Epoch, mut exchange: Exchange, refusal: &Refusal) -> Response<ResponseBody> {
    exchange.leave_server();
    let retry_after_s = exchange.gateway.retry_s(refusal, exchange.job_type());
    let response = match exchange.is_grpc() {
        true => refusal.grpc_response(epoch.no_capacity_status, retry_after_s),
        false => refusal.response(epoch.no_capacity_status, retry_after_s),
    };
    exchange.set_outcome(refusal.outcome());
    exchange.answered(response.status());
    exchange.passed_on(response.body().len());
    response.map(ResponseBody::Own)
}
