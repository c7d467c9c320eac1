//! The admin address: `/`, `/status`, `/metrics`, `/healthz`, `/readyz`.
//!
//! It has a thread and a runtime of its own, so that it answers while the traffic keeps everything else busy. The same
//! thread measures the rates.
//!
//! * `/healthz`: 200 as long as the process lives.
//! * `/readyz`: 200, and 503 from the moment the gateway is told to stop.
//! * `/`: the same as `/status` for people, see [`dashboard`].
//! * `/status`: [`Status`](crate::Status) as JSON.
//! * `/fleet`: the fleet file with what was measured, see [`fleet_page`].
//! * `/metrics`: Prometheus' OpenMetrics text.
//! * `POST /servers/NAME/drain`, `down`, `up`: see [`operator`].
//! * `POST /reload`, `PUT` and `DELETE /servers/NAME`: see [`reload`](crate::reload). They work on a thread of their own, so that
//!   a large fleet keeps nothing else waiting.

use std::convert::Infallible;
use std::io;
use std::net::TcpListener as StdListener;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::dashboard;
use crate::errors::{ErrorBody, ErrorObject, json_response};
use crate::fleet_page;
use crate::gateway::Gateway;
use crate::metrics;
use crate::operator;
use crate::orders;
use crate::server::Listener;

const PATHS: &str = "/, /status, /fleet, /metrics, /healthz, /readyz, and POST /reload, PUT or DELETE /servers/NAME, POST /servers/NAME/drain, down or up";
/// A client that sends no request for this long is let go.
const IDLE: Duration = Duration::from_secs(30);
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The running admin server; dropping it stops it.
#[derive(Debug)]
pub(crate) struct Admin {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Admin {
    /// Starts answering on `listener`.
    ///
    /// # Errors
    /// If the system gives no thread or runtime.
    pub(crate) fn start(gateway: &Arc<Gateway>, listener: StdListener) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        listener.set_nonblocking(true)?;
        let listener = {
            let _in_runtime = runtime.enter();
            TcpListener::from_std(listener)?
        };
        let (stop, stopped) = oneshot::channel();
        let state = Arc::new((Arc::clone(gateway), metrics::registry(gateway)));
        let timekeeper = Arc::clone(gateway).keep_time();
        let thread = std::thread::Builder::new().name("shortline-admin".into()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = answer_all(listener, state) => {}
                    () = timekeeper => {}
                    _ = stopped => {}
                }
            });
            // Without waiting for its threads: one may be reading from a disk that does not answer.
            runtime.shutdown_background();
        })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Admin {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the admin thread panicked");
        }
    }
}

type State = Arc<(Arc<Gateway>, Registry)>;

async fn answer_all(listener: TcpListener, state: State) {
    let mut clients = Listener::new(listener);
    loop {
        let (stream, _) = clients.accept().await;
        let state = Arc::clone(&state);
        tokio::spawn(async move {
            let service = service_fn(|request: Request<Incoming>| {
                let state = Arc::clone(&state);
                async move {
                    Ok::<_, Infallible>(match orders::of(request.method(), request.uri().path()) {
                        Some(order) => order.carry_out(&state.0, request.into_body()).await.map(Full::new),
                        None if request.uri().path() == "/fleet" && is_read(request.method()) => fleet(&state).await,
                        None => answer(&state, &request),
                    })
                }
            });
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(IDLE)
                .serve_connection(TokioIo::new(stream), service);
            if let Err(error) = connection.await {
                tracing::debug!(%error, "admin connection failed");
            }
        });
    }
}

const READ: &str = "GET, HEAD";

fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

/// On a thread of its own: a large fleet has a long file.
async fn fleet(state: &State) -> Response<Full<Bytes>> {
    let gateway = Arc::clone(&state.0);
    match tokio::task::spawn_blocking(move || fleet_page::page(&gateway)).await {
        Ok(file) => respond(StatusCode::OK, "application/toml; charset=utf-8", file),
        Err(panic) => error(StatusCode::INTERNAL_SERVER_ERROR, "fleet", &panic.to_string()),
    }
}

fn answer(state: &State, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let (gateway, registry) = &**state;
    if let Some((server, word)) = operator::order(request.uri().path()) {
        return operator::answer(gateway, request.method(), &server, word).map(Full::new);
    }
    let path = request.uri().path();
    if let Some(allowed) = methods(path)
        && !(allowed == READ && is_read(request.method()))
    {
        let message = format!("`{path}` takes {allowed} only");
        let mut response = error(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", &message);
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
        return response;
    }
    match path {
        "/" => {
            let (fleet, is_valid) = (gateway.fleet(), gateway.reloads.valid.load(Relaxed));
            let page = dashboard::page(fleet.name(), &gateway.status(), is_valid, gateway.is_ready());
            respond(StatusCode::OK, "text/html; charset=utf-8", page)
        }
        "/healthz" => text(StatusCode::OK, "ok\n"),
        "/readyz" if gateway.is_ready() => text(StatusCode::OK, "ready\n"),
        "/readyz" => text(StatusCode::SERVICE_UNAVAILABLE, "draining\n"),
        "/status" => json_response(StatusCode::OK, &gateway.status()).map(Full::new),
        "/metrics" => {
            let mut body = String::new();
            match prometheus_client::encoding::text::encode(&mut body, registry) {
                Ok(()) => respond(StatusCode::OK, OPEN_METRICS, body),
                Err(fmt) => error(StatusCode::INTERNAL_SERVER_ERROR, "encoding", &fmt.to_string()),
            }
        }
        _ => error(StatusCode::NOT_FOUND, "not_found", &nothing_at(path)),
    }
}

/// What a path takes, except for the operator's words; `None`: there is no such path.
fn methods(path: &str) -> Option<&'static str> {
    match path {
        "/" | "/status" | "/fleet" | "/metrics" | "/healthz" | "/readyz" => Some(READ),
        "/reload" => Some("POST"),
        _ => orders::server(path).map(|_| "PUT, DELETE"),
    }
}

fn nothing_at(path: &str) -> String {
    match path.strip_prefix("/servers/").and_then(|rest| rest.split_once('/')) {
        Some((server, word)) if !server.is_empty() => {
            format!(
                "a server cannot be told to `{word}`; it can be told {}, as by POST /servers/{server}/drain",
                operator::WORDS
            )
        }
        _ => format!("there is no `{path}`; there are {PATHS}"),
    }
}

fn text(status: StatusCode, body: &'static str) -> Response<Full<Bytes>> {
    respond(status, "text/plain; charset=utf-8", body)
}

fn respond(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

fn error(status: StatusCode, code: &str, message: &str) -> Response<Full<Bytes>> {
    let error = ErrorObject { code, message, kind: "invalid_request_error" };
    json_response(status, &ErrorBody { error }).map(Full::new)
}
