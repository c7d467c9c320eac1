//! The record of one request, from its arrival to the end of its answer.
//!
//! It is carried along with the request and closed by its drop, so that every request is counted and logged exactly
//! once, however it ends. Until something else is known the outcome is that the client went away, or, when the gateway
//! ends, that it was cut off.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::time::Duration;

use http::{HeaderMap, Method, StatusCode, Uri, request};
use shortline_core::live::ServerKey;
use shortline_core::{Arrival, JobTypeId};
use tokio::time::Instant;

use crate::epoch::Epoch;
use crate::fleet_server::Server;
use crate::gateway::Gateway;
use crate::grpc;
use crate::health::{Doubt, Failing, Report};
use crate::hints::HintSender;
use crate::in_flight::{InFlight, Reason};
use crate::outcome::Outcome;
use crate::retry::Cause;
use crate::stats::JobTypeRecord;

/// One request's record.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) gateway: Arc<Gateway>,
    job_type: Option<Arc<JobTypeRecord>>,
    /// Whether its own `model` says its job type.
    names_model: bool,
    arrived: Instant,
    waited: Duration,
    /// Since when it is in line.
    in_line_since: Option<Instant>,
    reason: Option<Reason>,
    server: Option<Arc<Server>>,
    /// The job's place at its server, as long as it is there.
    place: Option<InFlight>,
    status: Option<StatusCode>,
    /// Whether the client speaks gRPC.
    grpc: bool,
    /// What the answer says in gRPC.
    grpc_status: Option<u16>,
    /// Where interim answers go, if the client takes them.
    hints: Option<HintSender>,
    bytes: u64,
    /// Bytes from the client, of a tunnel.
    received: Option<u64>,
    outcome: Outcome,
    /// Whether its server has failed at it.
    failed: bool,
    /// How often it was sent to another server.
    retries: u32,
    /// What the access log wants to know, if there is one.
    line: Option<Box<Line>>,
}

/// Of a request's line in the access log, what is not known otherwise.
#[derive(Debug)]
struct Line {
    method: Method,
    uri: Uri,
    /// Servers that had it in vain, and why.
    tried: String,
}

impl Exchange {
    /// A request arrives.
    pub(crate) fn begin(gateway: &Arc<Gateway>, head: &request::Parts) -> Self {
        gateway.stats.running.fetch_add(1, Relaxed);
        let logged = tracing::enabled!(target: "shortline::access", tracing::Level::INFO);
        Self {
            gateway: Arc::clone(gateway),
            job_type: None,
            names_model: false,
            arrived: Instant::now(),
            waited: Duration::ZERO,
            in_line_since: None,
            reason: None,
            server: None,
            place: None,
            status: None,
            grpc: grpc::is_spoken(head),
            grpc_status: None,
            hints: None,
            bytes: 0,
            received: None,
            outcome: Outcome::ClientAbort,
            failed: false,
            retries: 0,
            line: logged
                .then(|| Box::new(Line { method: head.method.clone(), uri: head.uri.clone(), tried: String::new() })),
        }
    }

    /// Its job type is known; `names_model`: by the `model` in its body.
    pub(crate) fn set_job_type(&mut self, job_type: &Arc<JobTypeRecord>, names_model: bool) {
        job_type.arrived();
        self.job_type = Some(Arc::clone(job_type));
        self.names_model = names_model;
    }

    pub(crate) fn names_model(&self) -> bool {
        self.names_model
    }

    /// When it came.
    pub(crate) fn arrived(&self) -> Instant {
        self.arrived
    }

    /// It waits in line from now on, until it has a place or ends.
    pub(crate) fn waits(&mut self) {
        self.in_line_since.get_or_insert_with(Instant::now);
    }

    /// It does not wait any more; whether it did.
    fn end_wait(&mut self) -> bool {
        let since = self.in_line_since.take();
        self.waited += since.map_or(Duration::ZERO, |since| since.elapsed());
        since.is_some()
    }

    pub(crate) fn job_type(&self) -> Option<&JobTypeRecord> {
        self.job_type.as_deref()
    }

    /// Its job type's record, to be held beside it.
    pub(crate) fn job_type_record(&self) -> Option<Arc<JobTypeRecord>> {
        self.job_type.clone()
    }

    /// It got a place at a server.
    pub(crate) fn placed(&mut self, place: InFlight, reason: Reason) {
        self.end_wait();
        if reason == Reason::Waited {
            self.gateway.dispatch.count_decision(reason);
        }
        self.gateway.stats.waiting_s.observe(self.waited);
        self.reason = Some(reason);
        self.server = Some(Arc::clone(place.server()));
        self.place = Some(place);
    }

    /// It goes on to another server.
    pub(crate) fn moved(&mut self, place: InFlight, reason: Reason) {
        self.end_wait();
        self.retries += 1;
        self.failed = false;
        self.reason = Some(reason);
        self.server = Some(Arc::clone(place.server()));
        self.place = Some(place);
    }

    /// The server that has or had it.
    pub(crate) fn server(&self) -> Option<&Arc<Server>> {
        self.server.as_ref()
    }

    /// When it came, among others.
    pub(crate) fn arrival(&self) -> Option<Arrival> {
        self.place.as_ref().map(InFlight::arrival)
    }

    /// Since when it had found no server up when it got its place.
    pub(crate) fn none_up_since(&self) -> Option<Instant> {
        self.place.as_ref().and_then(InFlight::none_up_since)
    }

    /// Its place, for the dispatcher.
    pub(crate) fn key(&self) -> Option<ServerKey> {
        self.place.as_ref().and_then(InFlight::key)
    }

    /// It fares like this at its server.
    pub(crate) fn report(&mut self, report: Report) {
        self.failed |= matches!(report, Report::Failed(_) | Report::FailedMaybe(_));
        if let Some(place) = &self.place
            && place.report(report)
            && let (Report::FailedMaybe(why), Some(job_type)) = (report, &self.job_type)
        {
            place.server().keep_from(&self.gateway.dispatch, job_type, why);
        }
    }

    /// Its answer says neither that the server is well nor that it is not.
    pub(crate) fn says_nothing(&mut self) {
        self.failed = true;
    }

    /// What its answer would say of its server, if another one took the request.
    pub(crate) fn doubt(&self, report: Report) -> Option<Doubt> {
        self.place.as_ref().map(|place| place.doubt(report))
    }

    /// Whether another server gets requests of its job type.
    pub(crate) fn is_served_elsewhere(&self, epoch: &Epoch, job_type: JobTypeId) -> bool {
        let id = self.server.as_ref().and_then(|server| epoch.fleet.find_server(server.name()));
        id.is_some_and(|id| epoch.is_served_beside(job_type, id))
    }

    /// Whether some job type has no other server than its.
    pub(crate) fn is_indispensable(&self, epoch: &Epoch) -> bool {
        self.server.as_ref().is_some_and(|server| epoch.cannot_spare(server))
    }

    /// Another server took the request: so it was not the request's fault.
    pub(crate) fn confirm(&self, doubts: Vec<Doubt>) {
        doubts.into_iter().for_each(|doubt| doubt.confirm(&self.gateway.dispatch));
    }

    /// It goes on to another server, because of this.
    pub(crate) fn tried(&mut self, cause: Cause) {
        if let (Some(line), Some(server)) = (&mut self.line, &self.server) {
            let separator = if line.tried.is_empty() { "" } else { ", " };
            line.tried.push_str(&format!("{separator}{}: {}", server.name(), cause.name()));
        }
    }

    /// Its server does not have its model; whether another one may have it.
    pub(crate) fn lose_model(&self) -> bool {
        match (&self.server, &self.job_type) {
            (Some(server), Some(job_type)) => server.lose(&self.gateway.dispatch, job_type),
            _ => false,
        }
    }

    /// The answer ends with these trailers.
    pub(crate) fn trailed_by(&mut self, trailers: &HeaderMap) {
        self.said(trailers);
        if self.grpc_status == Some(grpc::UNAVAILABLE) {
            self.report(Report::Failed(Failing::Grpc(grpc::UNAVAILABLE)));
        }
    }

    /// The answer's head, or its trailers, say this; its server's breaker knows already what the head says.
    pub(crate) fn said(&mut self, headers: &HeaderMap) {
        if self.grpc {
            self.grpc_status = grpc::status(headers).or(self.grpc_status);
        }
    }

    /// It found no place.
    pub(crate) fn blocked(&mut self) {
        self.reason = Some(Reason::Blocked);
    }

    /// The answer begins.
    pub(crate) fn answered(&mut self, status: StatusCode) {
        self.status = Some(status);
    }

    /// So many more bytes of the answer's body were passed on.
    pub(crate) fn passed_on(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    /// So many bytes of a tunnel came from the client.
    pub(crate) fn received(&mut self, bytes: u64) {
        self.received = Some(bytes);
    }

    /// The client takes interim answers there.
    pub(crate) fn set_hints(&mut self, hints: HintSender) {
        self.hints = Some(hints);
    }

    pub(crate) fn hints(&self) -> Option<&HintSender> {
        self.hints.as_ref()
    }

    pub(crate) fn is_grpc(&self) -> bool {
        self.grpc
    }

    /// The job is no longer at its server.
    pub(crate) fn leave_server(&mut self) {
        self.place = None;
    }

    /// It ends, or will end, like this.
    pub(crate) fn set_outcome(&mut self, outcome: Outcome) {
        self.outcome = outcome;
    }

    /// The whole answer of the server was passed on.
    pub(crate) fn complete(&mut self) {
        let is_refused = self.status.is_some_and(|status| status.as_u16() == 429)
            || matches!(self.grpc_status, Some(grpc::UNAVAILABLE | grpc::RESOURCE_EXHAUSTED));
        if !self.failed && !is_refused {
            self.report(Report::EndedWell);
        }
        let is_success = self.status.is_some_and(|status| status.is_success());
        if let (Some(server), Some(job_type), true) = (&self.server, &self.job_type, is_success) {
            server.lost().forget(job_type.name());
            job_type.set_nowhere(None);
        }
        if let (Some(place), true) = (&mut self.place, is_success && self.retries == 0 && self.waited.is_zero()) {
            place.took(|| self.arrived.elapsed());
        }
        self.leave_server();
        self.outcome = match (self.status, self.grpc_status) {
            (Some(status), Some(code)) if status.is_success() => grpc::outcome(code),
            (Some(status), _) => Outcome::of_status(status.as_u16()),
            (None, _) => Outcome::Ok,
        };
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.leave_server();
        if self.end_wait() {
            self.gateway.stats.waiting_s.observe(self.waited);
        }
        if self.outcome == Outcome::ClientAbort && self.gateway.cut_off.is_ordered() {
            self.outcome = Outcome::CutOff;
        }
        let response = self.arrived.elapsed();
        self.gateway.stats.ended(self.job_type(), self.outcome, response);
        if let Some(line) = &self.line {
            let Line { method, uri, tried } = &**line;
            tracing::info!(
                target: "shortline::access",
                %method,
                path = uri.path(),
                job_type = self.job_type().map(JobTypeRecord::name),
                server = self.server.as_deref().map(Server::name),
                status = self.status.map(|status| status.as_u16()),
                reason = self.reason.map(Reason::name),
                waiting_s = self.waited.as_secs_f64(),
                response_s = response.as_secs_f64(),
                bytes = self.bytes,
                bytes_received = self.received,
                outcome = self.outcome.name(),
                retries = (self.retries > 0).then_some(self.retries),
                tried = (!tried.is_empty()).then_some(tried.as_str()),
            );
        }
        // Last: who waits for all requests to end finds them counted.
        self.gateway.stats.running.fetch_sub(1, Release);
    }
}
