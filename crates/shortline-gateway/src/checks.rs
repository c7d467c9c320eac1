//! Active checks: each server is asked how it is, on a connection of its own.
//!
//! A check is `GET path`; a status from 200 to 399 within `timeout_s` is good. The next one of the same server comes
//! `interval_s` after it began, give or take a fifth, so that servers are not asked all at once. What results mean is
//! the [`breaker`](crate::breaker)'s business. An exchange of the fleet ends the checks of the old one and keeps the
//! schedule of the servers that stay, unless there is something new to learn: at other checks than before, and at a server
//! that has moved, the next one comes at once. What is known of the health of one that comes back holds in the new one, too.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Request, header};
use http_body::Frame;
use shortline_core::fleet::settings::Checks;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::breaker::seconds;
use crate::epoch::Epoch;
use crate::errors::Refusal;
use crate::fleet_server::Server;
use crate::gateway::Gateway;
use crate::request_body::RequestBody;
use crate::upstream::Sent;

/// How soon an exchange of the fleet is seen.
const LOOK: Duration = Duration::from_millis(250);

/// Checks the servers of whatever fleet is in service, for ever.
pub(crate) async fn keep_checking(gateway: Arc<Gateway>) {
    let mut former = None;
    loop {
        let epoch = gateway.dispatch.epoch();
        epoch.servers().iter().for_each(|server| server.apply_health(&gateway.dispatch));
        // Dropped, and so ended, when another fleet is in service.
        let mut checks = JoinSet::new();
        match &epoch.fleet.settings().health.checks {
            Some(settings) => {
                if former.replace(settings.clone()).is_some_and(|former| former != *settings) {
                    epoch.servers().iter().for_each(|server| at_once(server));
                }
                let settings = Arc::new(settings.clone());
                for server in epoch.servers() {
                    checks.spawn(check_for_ever(Arc::clone(&gateway), Arc::clone(server), Arc::clone(&settings)));
                }
            }
            None => forget(&gateway, &epoch),
        }
        while Arc::ptr_eq(&epoch, &gateway.dispatch.epoch()) {
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// Its next check is due, if it is checked at all.
pub(crate) fn at_once(server: &Server) {
    if server.health().next_check().is_some() {
        server.health().set_next_check(Some(Instant::now()));
    }
}

/// There are no checks: what earlier ones said is void.
fn forget(gateway: &Gateway, epoch: &Epoch) {
    for server in epoch.servers().iter().filter(|server| server.health().next_check().is_some()) {
        server.health().set_next_check(None);
        server.change(&gateway.dispatch, "no checks", None, |breaker| breaker.unchecked());
    }
}

async fn check_for_ever(gateway: Arc<Gateway>, server: Arc<Server>, checks: Arc<Checks>) {
    loop {
        if let Some(next) = server.health().next_check() {
            tokio::time::sleep_until(next).await;
        }
        let next = Instant::now() + seconds(checks.interval_s * gateway.dispatch.jitter());
        server.health().set_next_check(Some(next));
        match tokio::time::timeout(seconds(checks.timeout_s), ask(&gateway, &server, &checks)).await {
            // The gateway's own trouble says nothing about the server.
            Ok(Err(Refusal::OutOfSockets)) => {}
            result => {
                let failed = match result {
                    Ok(Ok(status)) if (200..400).contains(&status) => None,
                    Ok(Ok(status)) => Some(format!("GET {}: status {status}", checks.path)),
                    Ok(Err(Refusal::UpstreamConnect)) => server.upstream().why_unreachable(),
                    Ok(Err(_)) => Some(format!("GET {}: broke off before its answer", checks.path)),
                    Err(_) => Some(format!("GET {}: no answer within {} s", checks.path, checks.timeout_s)),
                };
                let good = failed.is_none();
                tracing::debug!(server = server.name(), good, failed, "check");
                let (epoch, now) = (gateway.dispatch.epoch(), Instant::now());
                let health = &epoch.fleet.settings().health;
                let why = failed.as_ref().map(|why| why as &dyn std::fmt::Display);
                server.change(&gateway.dispatch, "checks", why, |breaker| breaker.checked(good, &checks, now, health));
            }
        }
    }
}

/// Asks the server once: the status of its answer.
async fn ask(gateway: &Gateway, server: &Server, checks: &Checks) -> Result<u16, Refusal> {
    let mut lease = gateway.new_lease(server, seconds(checks.timeout_s)).await?;
    let mut request = Request::new(RequestBody::of(std::iter::empty::<Frame<_>>()));
    *request.uri_mut() = checks.path.parse().map_err(|_| Refusal::BadRequest)?;
    request.headers_mut().insert(header::HOST, lease.upstream().authority().clone());
    request.headers_mut().insert(header::USER_AGENT, HeaderValue::from_static("shortline-check"));
    match lease.send(&mut Some(request), None, None).await {
        Some(Sent::Answer(answer)) => Ok(answer.status().as_u16()),
        Some(Sent::Stale | Sent::Dropped | Sent::Unprocessed | Sent::Failed) | None => Err(Refusal::UpstreamError),
    }
}
