//! A server at its address, and the open connections to it.
//!
//! HTTP/1.1: a small pool, last in, first out, without tasks ([`http1`]).
//! HTTP/2: connections that requests share ([`http2`]). With TLS or without ([`tls`], [`stream`]).
//!
//! A [`Lease`] is a connection in use, or a part of a shared one. One of its own goes back to the pool when its answer was
//! read to the end, and is otherwise cut off on drop; of a shared one the request is reset: either way a server learns at
//! once that nobody waits any more. A request that meets a connection which the server has just closed, and of which no
//! byte was sent, goes out again on another one; the other ways to fail are told apart ([`Sent`]).

mod http1;
mod http2;
pub(crate) mod names;
mod stream;
mod tls;

use std::borrow::Cow;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderValue, Request, Response, Uri, Version, header};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use shortline_core::fleet::settings::{Address, Protocol};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use crate::descriptors;
use crate::errors::Refusal;
use crate::headers;
use crate::hints::HintSender;
use crate::request_body::{Abandon, RequestBody};
pub(crate) use http2::cause as h2_cause;
pub(crate) use stream::ServerStream;
use stream::Tcp;
use tls::Handshake;
pub(crate) use tls::TlsClient;
pub use tls::TlsError;

/// Most bytes of an answer that are read at once, and of its head. A client that reads slowly keeps a few of these here.
pub(crate) const PIECE: usize = 32 << 10;

/// Where a server is and what it is spoken to in.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    address: Address,
    tls: Option<Handshake>,
}

/// A server at its address.
#[derive(Debug)]
pub(crate) struct Upstream {
    endpoint: Endpoint,
    target: Target,
    /// What `host` says if the client does not.
    authority: HeaderValue,
    /// What `x-served-by` says.
    name: HeaderValue,
    pool: Mutex<Pool>,
    /// Whether it has been seen to speak HTTP/2.
    shares: AtomicBool,
    /// Most requests at once on one connection of HTTP/2.
    most: Arc<AtomicUsize>,
    /// Who opens a connection that can be shared; the others wait for it.
    opening: tokio::sync::Mutex<()>,
    /// Why it could not be reached last.
    unreachable: Mutex<Option<String>>,
    /// Why TLS failed last, so that the log says it once.
    tls_failure: Mutex<Option<String>>,
}

#[derive(Debug)]
enum Target {
    Address(SocketAddr),
    /// Looked up anew for every connection.
    Name(String, u16),
}

/// Open connections.
#[derive(Default, Debug)]
struct Pool {
    /// Of HTTP/1.1, those that nobody uses, the least recently used first.
    #[expect(clippy::vec_box, reason = "a connection goes in and out with every request: a pointer is less to move")]
    idle: Vec<Box<http1::Connection>>,
    /// Of them those that were not used since the last sweep: the shortest the list has been.
    unused: usize,
    /// Of HTTP/2, all.
    shared: Vec<http2::Shared>,
    /// The server has another address now: nothing is kept any more.
    retired: bool,
}

/// A connection in use.
#[derive(Debug)]
pub(crate) struct Lease {
    upstream: Arc<Upstream>,
    part: Part,
}

#[derive(Debug)]
enum Part {
    /// One of its own.
    Http1 {
        connection: Box<http1::Connection>,
        /// Whether it has served requests before.
        reused: bool,
    },
    /// A part of one.
    Http2 {
        stream: http2::Stream,
        /// Ends the sending of the request's body.
        abandon: Option<Abandon>,
    },
}

/// The body of an answer, as far as it is still to come by way of its lease ([`Lease::poll_frame`]).
#[derive(Debug)]
pub(crate) enum AnswerBody {
    Http1(http1::Remaining),
    Http2(Incoming),
    /// It has broken off.
    Broken,
}

/// Why an answer does not go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AnswerError {
    #[error(transparent)]
    Http1(#[from] http1::Error),
    #[error(transparent)]
    Http2(#[from] hyper::Error),
}

/// What became of a request on a connection.
#[derive(Debug)]
pub(crate) enum Sent {
    /// The server answers.
    Answer(Response<AnswerBody>),
    /// The connection was already closed and nothing was sent.
    Stale,
    /// The server closed a connection that had been used before, and of its answer no byte had come: it may have closed
    /// before it saw the request.
    Dropped,
    /// The server says that it did nothing about it.
    Unprocessed,
    /// It failed.
    Failed,
}

/// A connection that has just been opened.
enum Opened {
    Http1(Box<http1::Connection>),
    Http2(http2::Shared),
}

impl AnswerBody {
    /// Whether nothing is to come.
    pub(crate) fn is_end_stream(&self) -> bool {
        match self {
            Self::Http1(remaining) => remaining.is_end(),
            Self::Http2(incoming) => incoming.is_end_stream(),
            Self::Broken => false,
        }
    }

    /// How much is to come.
    pub(crate) fn size_hint(&self) -> SizeHint {
        match self {
            Self::Http1(remaining) => remaining.size_hint(),
            Self::Http2(incoming) => incoming.size_hint(),
            Self::Broken => SizeHint::default(),
        }
    }
}

impl Endpoint {
    /// A server's address; `tls` is asked for if it is `https`.
    ///
    /// # Errors
    /// If there is no TLS to be had for it.
    pub(crate) fn new<'t>(
        address: &Address,
        tls: impl FnOnce() -> Result<&'t TlsClient, TlsError>,
    ) -> Result<Self, TlsError> {
        let tls = if address.https { Some(tls()?.handshake(address)?) } else { None };
        Ok(Self { address: address.clone(), tls })
    }
}

impl Upstream {
    /// A server called `name` at `endpoint`.
    pub(crate) fn new(name: &str, endpoint: &Endpoint) -> Self {
        let address = &endpoint.address;
        let target = match address.host.parse::<IpAddr>() {
            Ok(ip) => Target::Address(SocketAddr::new(ip, address.port)),
            Err(_) => Target::Name(address.host.clone(), address.port),
        };
        let plain = Address { https: false, ..address.clone() };
        Self {
            endpoint: endpoint.clone(),
            target,
            shares: AtomicBool::new(address.protocol == Protocol::Http2),
            authority: HeaderValue::try_from(plain.to_string())
                .unwrap_or_else(|_| HeaderValue::from_static("localhost")),
            name: header_value(name),
            pool: Mutex::default(),
            most: Arc::new(AtomicUsize::new(http2::MOST_AT_FIRST)),
            opening: tokio::sync::Mutex::default(),
            unreachable: Mutex::default(),
            tls_failure: Mutex::default(),
        }
    }

    /// Whether it is at `endpoint`, spoken to with the same trust.
    pub(crate) fn is_at(&self, endpoint: &Endpoint) -> bool {
        let same_trust = match (&self.endpoint.tls, &endpoint.tls) {
            (None, None) => true,
            (Some(mine), Some(other)) => mine.is_same(other),
            _ => false,
        };
        same_trust && self.endpoint.address == endpoint.address
    }

    /// As the fleet file has it.
    pub(crate) fn address(&self) -> String {
        self.endpoint.address.to_string()
    }

    /// Why it could not be reached last, if it ever could not.
    pub(crate) fn why_unreachable(&self) -> Option<String> {
        self.unreachable.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn is_unreachable(&self, why: String) -> Refusal {
        *self.unreachable.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
        Refusal::UpstreamConnect
    }

    pub(crate) fn authority(&self) -> &HeaderValue {
        &self.authority
    }

    pub(crate) fn name(&self) -> &HeaderValue {
        &self.name
    }

    /// Its name as logs show it, without quotes: it is the one of the fleet file.
    fn log_name(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self.name.as_bytes())
    }

    /// An open connection that nobody uses, or a part of one that others use. Unless `checked`, a server may have closed
    /// it meanwhile, which the request is going to learn.
    pub(crate) fn idle(self: &Arc<Self>, checked: bool) -> Option<Lease> {
        self.take_idle(checked).map(|part| Lease { upstream: Arc::clone(self), part })
    }

    /// A new connection, or a part of one that another request has opened meanwhile; `socket` is held as long as it is
    /// open.
    ///
    /// # Errors
    /// [`Refusal::UpstreamConnect`] if the server cannot be reached within `at_most`, [`Refusal::OutOfSockets`] if that
    /// is because this machine can open no more connections.
    pub(crate) async fn connect(
        self: &Arc<Self>,
        at_most: Duration,
        socket: OwnedSemaphorePermit,
    ) -> Result<Lease, Refusal> {
        let shakes_hands = AtomicBool::new(false);
        let opened = async {
            // Requests that come at once wait for one connection instead of opening one each.
            let _turn = match self.shares.load(Relaxed) {
                true => Some(self.opening.lock().await),
                false => None,
            };
            match self.shares.load(Relaxed).then(|| self.take_idle(true)).flatten() {
                Some(part) => Ok(part),
                None => self.open(socket, &shakes_hands).await.map(|opened| self.part_of(opened)),
            }
        };
        match tokio::time::timeout(at_most, opened).await {
            Ok(Ok(part)) => Ok(Lease { upstream: Arc::clone(self), part }),
            Ok(Err(error)) if descriptors::is_exhausted(&error) => {
                tracing::debug!(server = &*self.log_name(), %error, "no socket for a connection");
                Err(Refusal::OutOfSockets)
            }
            Ok(Err(error)) => {
                tracing::debug!(server = &*self.log_name(), %error, "cannot connect");
                Err(self.is_unreachable(format!("no connection: {error}")))
            }
            Err(_) => {
                let timeout_s = at_most.as_secs_f64();
                tracing::debug!(server = &*self.log_name(), timeout_s, "connect timed out");
                if shakes_hands.load(Relaxed) {
                    self.note_tls(Some(format!("the handshake did not end within `connect_s`, {timeout_s} s")));
                }
                Err(self.is_unreachable(format!("no connection within {timeout_s} s")))
            }
        }
    }

    /// The use of a new connection; one that can be shared is from now on.
    fn part_of(&self, opened: Opened) -> Part {
        match opened {
            Opened::Http1(connection) => Part::Http1 { connection, reused: false },
            Opened::Http2(shared) => {
                self.shares.store(true, Relaxed);
                let stream = shared.first_stream();
                let mut pool = self.lock();
                if !pool.retired {
                    pool.shared.push(shared);
                }
                Part::Http2 { stream, abandon: None }
            }
        }
    }

    /// Closes all connections that nobody uses.
    pub(crate) fn close_idle(&self) {
        let closed = {
            let mut pool = self.lock();
            let shared: Vec<_> = pool.shared.extract_if(.., |shared| shared.is_idle()).collect();
            (std::mem::take(&mut pool.idle), shared)
        };
        drop(closed);
    }

    /// The server is elsewhere now: connections are closed as soon as nobody uses them.
    pub(crate) fn retire(&self) {
        let shared = {
            let mut pool = self.lock();
            pool.retired = true;
            std::mem::take(&mut pool.shared)
        };
        drop(shared);
        self.close_idle();
    }

    /// Whether nothing is kept any more.
    pub(crate) fn is_retired(&self) -> bool {
        self.lock().retired
    }

    /// Closes the connections that were not used since the last call.
    pub(crate) fn sweep(&self) {
        let closed = {
            let mut pool = self.lock();
            let unused = pool.unused.min(pool.idle.len());
            let mut closed: Vec<_> = pool.idle.drain(..unused).collect();
            closed.extend(pool.idle.extract_if(.., |connection| !connection.is_ready()));
            pool.unused = pool.idle.len();
            let shared: Vec<_> = pool.shared.extract_if(.., |shared| !shared.is_open() || shared.is_unused()).collect();
            (closed, shared)
        };
        drop(closed);
    }

    /// The most recently used connection that is ready, or a part of a shared one; closed ones on the way are thrown out.
    fn take_idle(&self, checked: bool) -> Option<Part> {
        let mut pool = self.lock();
        while let Some(mut connection) = pool.idle.pop() {
            pool.unused = pool.unused.min(pool.idle.len());
            drop(pool);
            if if checked { connection.is_ready() } else { connection.seems_ready() } {
                return Some(Part::Http1 { connection, reused: true });
            }
            drop(connection);
            pool = self.lock();
        }
        if pool.shared.is_empty() {
            return None;
        }
        pool.shared.retain(http2::Shared::is_open);
        pool.shared.iter().find_map(http2::Shared::stream).map(|stream| Part::Http2 { stream, abandon: None })
    }

    /// `shakes_hands` while it waits for TLS.
    async fn open(&self, socket: OwnedSemaphorePermit, shakes_hands: &AtomicBool) -> io::Result<Opened> {
        let stream = match &self.target {
            Target::Address(address) => TcpStream::connect(address).await?,
            Target::Name(host, port) => TcpStream::connect((host.as_str(), *port)).await?,
        };
        stream.set_nodelay(true)?;
        let peer = stream.peer_addr()?.ip();
        let tcp = Tcp::new(stream, socket);
        let (stream, is_http2) = match &self.endpoint.tls {
            None => (ServerStream::Plain(tcp), self.endpoint.address.protocol == Protocol::Http2),
            Some(tls) => {
                shakes_hands.store(true, Relaxed);
                let shaken = self.encrypt(tls, tcp).await;
                shakes_hands.store(false, Relaxed);
                self.note_tls(shaken.as_ref().err().map(ToString::to_string));
                shaken?
            }
        };
        if is_http2 {
            return http2::Shared::open(stream, peer, self.endpoint.tls.is_some(), &self.most)
                .await
                .map(Opened::Http2)
                .map_err(io::Error::other);
        }
        Ok(Opened::Http1(Box::new(http1::Connection::new(stream, peer))))
    }

    /// The TLS handshake; and whether the server has chosen HTTP/2.
    async fn encrypt(&self, tls: &Handshake, tcp: Tcp) -> io::Result<(ServerStream, bool)> {
        tls.connector.connect(tls.name.clone(), tcp).await.and_then(|stream| {
            let chosen = stream.get_ref().1.alpn_protocol();
            let is_http2 = chosen == Some(b"h2");
            if self.endpoint.address.protocol == Protocol::Http2 && !is_http2 {
                return Err(io::Error::other("the server does not offer HTTP/2 (ALPN), but `protocol` is \"h2\""));
            }
            Ok((ServerStream::Tls(Box::new(stream)), is_http2))
        })
    }

    /// Why the last handshake failed, if it did; a reason is logged once, not for each connection.
    fn note_tls(&self, failure: Option<String>) {
        let tls_name = self.endpoint.tls.as_ref().map(|tls| tls.name.to_str());
        let mut last = self.tls_failure.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(why) = failure.as_ref().filter(|&why| last.as_ref() != Some(why)) {
            tracing::warn!(server = &*self.log_name(), tls_name = tls_name.as_deref(), why, "TLS to a server failed");
        }
        *last = failure;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lease {
    /// Where the connection leads.
    pub(crate) fn upstream(&self) -> &Upstream {
        &self.upstream
    }

    /// Keeps the connection for the next request; for one whose answer was read to the end.
    pub(crate) fn give_back(self) {
        let Self { upstream, part } = self;
        if let Part::Http1 { mut connection, .. } = part
            && connection.rest()
        {
            let mut pool = upstream.lock();
            if !pool.retired {
                pool.idle.push(connection);
            }
        }
    }

    /// Sends the request and waits for the head of the answer, at most until the deadline: `None`; interim ones before it
    /// go to `hints` (over HTTP/1.1). The request is put back if nothing of it was sent, or the server did nothing about it.
    ///
    /// # Panics
    /// If there is no request.
    pub(crate) async fn send(
        &mut self,
        request: &mut Option<Request<RequestBody>>,
        hints: Option<&HintSender>,
        deadline: Option<Instant>,
    ) -> Option<Sent> {
        match &mut self.part {
            Part::Http1 { connection, reused } => Some(match connection.send(request, hints, deadline).await? {
                Ok(response) => Sent::Answer(response.map(AnswerBody::Http1)),
                Err(_) if request.is_some() && *reused => Sent::Stale,
                Err(_) if *reused && !connection.has_come() => Sent::Dropped,
                Err(error) => failed(&error),
            }),
            Part::Http2 { stream, abandon } => {
                let sent = Box::pin(send_http2(stream, abandon, request));
                match deadline {
                    Some(deadline) => tokio::time::timeout_at(deadline, sent).await.ok(),
                    None => Some(sent.await),
                }
            }
        }
    }

    /// The next piece of the answer. One that has broken off stays so.
    pub(crate) fn poll_frame(
        &mut self,
        answer: &mut AnswerBody,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, AnswerError>>> {
        let polled = match (&mut self.part, &mut *answer) {
            (Part::Http1 { connection, .. }, AnswerBody::Http1(remaining)) => {
                connection.poll_frame(remaining, cx).map_err(AnswerError::Http1)
            }
            (_, AnswerBody::Http2(incoming)) => Pin::new(incoming).poll_frame(cx).map_err(AnswerError::Http2),
            // Or it came by another lease.
            (_, AnswerBody::Broken) | (Part::Http2 { .. }, AnswerBody::Http1(_)) => {
                Poll::Ready(Some(Err(http1::Error::Closed.into())))
            }
        };
        if matches!(polled, Poll::Ready(Some(Err(_)))) {
            *answer = AnswerBody::Broken;
        }
        polled.map_ok(headers::with_fit_trailers)
    }

    /// The connection itself, behind an answer that switches the protocol; and what has come of that. `None`: it is
    /// shared, or has closed.
    pub(crate) fn switch(self) -> Option<(Bytes, ServerStream)> {
        match self.part {
            Part::Http1 { connection, .. } => connection.switch(),
            Part::Http2 { .. } => None,
        }
    }

    /// From now on the request is sent whether or not somebody reads the answer.
    pub(crate) fn run_by_itself(&mut self) {
        if let Part::Http1 { connection, .. } = &mut self.part {
            connection.run_by_itself();
        }
    }

    /// Whether other requests share the connection: then the protocol on it cannot be switched.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self.part, Part::Http2 { .. })
    }
}

async fn send_http2(
    stream: &mut http2::Stream,
    abandon: &mut Option<Abandon>,
    request: &mut Option<Request<RequestBody>>,
) -> Sent {
    let (sent, again) = for_http2(request.take().expect("a request"), stream.scheme(), abandon);
    match stream.sender.try_send_request(sent).await {
        Ok(response) => Sent::Answer(response.map(AnswerBody::Http2)),
        Err(mut error) => {
            let unsent = error.take_message();
            let error = error.into_error();
            if http2::is_going_away(&error) {
                stream.leave();
            }
            let (was_sent, is_unprocessed) = (unsent.is_none(), http2::is_unprocessed(&error));
            *request = unsent.map(to_http1).or_else(|| again.filter(|_| is_unprocessed));
            match (was_sent, is_unprocessed) {
                (false, _) => Sent::Stale,
                (true, true) => Sent::Unprocessed,
                (true, false) => failed(&error),
            }
        }
    }
}

/// The request as HTTP/2 has it, with what ends the sending of its body; and once more, if it can be had twice.
fn for_http2(
    request: Request<RequestBody>,
    scheme: Scheme,
    abandon: &mut Option<Abandon>,
) -> (Request<RequestBody>, Option<Request<RequestBody>>) {
    let (mut head, mut body) = request.into_parts();
    let again = body.again().map(|body| Request::from_parts(head.clone(), body));
    *abandon = body.abandon();
    let host = head.headers.remove(header::HOST);
    let authority = host.and_then(|host| Authority::try_from(host.as_bytes()).ok());
    let mut uri = http::uri::Parts::default();
    uri.scheme = Some(scheme);
    uri.authority = Some(authority.unwrap_or_else(|| Authority::from_static("localhost")));
    uri.path_and_query = head.uri.path_and_query().cloned().or_else(|| Some(PathAndQuery::from_static("/")));
    head.uri = Uri::from_parts(uri).expect("scheme, authority and path make a URI");
    head.version = Version::HTTP_2;
    (Request::from_parts(head, body), again)
}

/// The way back, for a request that was not sent.
fn to_http1(request: Request<RequestBody>) -> Request<RequestBody> {
    let (mut head, body) = request.into_parts();
    let uri = head.uri.into_parts();
    if let Some(host) = uri.authority.and_then(|authority| HeaderValue::from_str(authority.as_str()).ok()) {
        head.headers.insert(header::HOST, host);
    }
    head.uri = uri.path_and_query.map_or_else(|| Uri::from_static("/"), Uri::from);
    head.version = Version::HTTP_11;
    Request::from_parts(head, body)
}

fn failed(error: &dyn std::error::Error) -> Sent {
    tracing::debug!(%error, "a server failed before it answered");
    Sent::Failed
}

/// A name as a header value, in UTF-8; control characters, which a header cannot carry, become `?`.
pub(crate) fn header_value(name: &str) -> HeaderValue {
    let name: String = name.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    HeaderValue::try_from(name).expect("a header value is any text without control characters")
}

#[cfg(test)]
mod tests {
    use super::header_value;

    #[test]
    fn names_travel_in_utf_8_and_never_with_control_characters() {
        assert_eq!(header_value("wörd-3").as_bytes(), "wörd-3".as_bytes());
        assert_eq!(header_value("a\r\nx: y").as_bytes(), b"a??x: y");
    }
}
