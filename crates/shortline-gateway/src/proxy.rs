//! The path of a request: job type, server, forward, answer.

use std::convert::Infallible;
use std::sync::Arc;

use http::{HeaderValue, Method, Request, Response, Uri, Version, header, request};
use hyper::body::Incoming;
use shortline_core::JobTypeId;
use shortline_core::fleet::settings::JobTypeSource;

use crate::attempts::forward;
use crate::epoch::Epoch;
use crate::errors::Refusal;
use crate::exchange::Exchange;
use crate::fleet_server::Server;
use crate::gateway::Gateway;
use crate::headers;
use crate::in_flight::{Reason, Route, Waited};
use crate::job_type::Named;
use crate::request_body::RequestBody;
use crate::response_body::{ResponseBody, Sender, Streamed};
use crate::upstream::header_value;

/// Answers one request of the client at `peer`. Always answers: what goes wrong becomes a refusal.
pub(crate) async fn handle(
    gateway: Arc<Gateway>,
    peer: HeaderValue,
    request: Request<Incoming>,
) -> Result<Response<ResponseBody>, Infallible> {
    let (head, body) = request.into_parts();
    let mut exchange = Exchange::begin(&gateway, &head);
    let epoch = gateway.dispatch.epoch();
    let mut end = gateway.cut_off.1.clone();
    let answered = tokio::select! {
        biased;
        answered = answer(&epoch, &mut exchange, &peer, head, RequestBody::new(body)) => answered,
        () = end.ending() => Err(Refusal::CutOff),
    };
    match answered {
        Ok((answer, sender)) => Ok(pass_on(&epoch, exchange, answer, sender).await),
        Err(refusal) => Ok(refuse(&epoch, exchange, &refusal)),
    }
}

/// The head of the answer of the server that serves the request.
async fn answer(
    epoch: &Arc<Epoch>,
    exchange: &mut Exchange,
    peer: &HeaderValue,
    mut head: request::Parts,
    mut body: RequestBody,
) -> Result<(Response<Incoming>, Sender), Refusal> {
    let (job_type, server) = match place(epoch, exchange, &mut head, &mut body).await {
        Ok(placed) => placed,
        Err(refusal) => {
            // A client that waits for "100 Continue" has sent nothing that would be in the way.
            if !head.headers.contains_key(header::EXPECT) {
                body.discard().await;
            }
            return Err(refusal);
        }
    };
    headers::to_server(&mut head.headers, peer, head.uri.authority(), server.upstream().authority());
    forward(epoch, exchange, job_type, to_origin_form(head), body).await
}

/// Finds the job type and a place at a server, waiting in line for it if need be.
async fn place(
    epoch: &Arc<Epoch>,
    exchange: &mut Exchange,
    head: &mut request::Parts,
    body: &mut RequestBody,
) -> Result<(JobTypeId, Arc<Server>), Refusal> {
    headers::check(head)?;
    if head.method == Method::CONNECT {
        return Err(Refusal::Unsupported("CONNECT"));
    }
    if headers::wants_websocket(&head.headers) {
        return Err(Refusal::Unsupported("WebSocket"));
    }
    let Named { job_type, by } = epoch.finder.find(&epoch.fleet, head, body).await?;
    let record = epoch.job_type(job_type);
    exchange.set_job_type(record);
    if matches!(by, JobTypeSource::Path | JobTypeSource::Host) {
        // The request itself does not name it, so the server is told.
        head.headers.insert(headers::X_JOB_TYPE, header_value(record.name()));
    }
    let (place, reason) = loop {
        match exchange.gateway.dispatch.route(epoch, job_type) {
            Route::Placed(place, reason) => break (place, reason),
            Route::InLine(line) => match line.place(epoch.limits.queue).await {
                Waited::Placed(place) => break (place, Reason::Waited),
                Waited::TooLong => return Err(Refusal::QueueTimeout),
                // The next fleet is asked.
                Waited::Dismissed => {}
            },
            Route::Blocked(refusal) => {
                exchange.blocked();
                return Err(refusal);
            }
        }
    };
    let server = Arc::clone(place.server());
    exchange.placed(place, reason);
    Ok((job_type, server))
}

/// The request as a server expects it: HTTP/1.1, the target without scheme and host.
fn to_origin_form(mut head: request::Parts) -> request::Parts {
    if head.uri.authority().is_some() {
        head.uri = head.uri.into_parts().path_and_query.map_or_else(|| Uri::from_static("/"), Uri::from);
    }
    head.version = Version::HTTP_11;
    head
}

/// The server's answer, for the client.
async fn pass_on(
    epoch: &Epoch,
    mut exchange: Exchange,
    answer: Response<Incoming>,
    sender: Sender,
) -> Response<ResponseBody> {
    let (mut head, incoming) = answer.into_parts();
    head.version = Version::HTTP_11;
    headers::to_client(&mut head.headers, epoch.served_by.then(|| sender.lease.upstream().name()));
    exchange.answered(head.status);
    match Streamed::begin(exchange, incoming, sender, epoch.limits.idle).await {
        Ok(body) => Response::from_parts(head, ResponseBody::Streamed(body)),
        Err(exchange) => refuse(epoch, exchange, &Refusal::UpstreamError),
    }
}

/// The gateway's own answer.
fn refuse(epoch: &Epoch, mut exchange: Exchange, refusal: &Refusal) -> Response<ResponseBody> {
    exchange.leave_server();
    let retry_after_s = exchange.gateway.retry_s(refusal, exchange.job_type());
    let response = refusal.response(epoch.no_capacity_status, retry_after_s);
    exchange.set_outcome(refusal.outcome());
    exchange.answered(response.status());
    exchange.passed_on(response.body().len());
    response.map(ResponseBody::Own)
}
