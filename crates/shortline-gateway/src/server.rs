//! Serving: accept connections, stop when told.
//!
//! HTTP/1.1 and HTTP/2 without TLS on one port; which one a connection speaks is seen by its first bytes. A connection
//! on which the protocol was switched stays one: it goes on as a tunnel ([`crate::tunnel`]). When the
//! shutdown begins the listener closes, idle connections are let go, and running requests have the grace to finish;
//! after it, or when told to end at once, what still runs is cut off: requests whose answer has not begun are refused,
//! the others break off, and both count as `cut_off`. Either way every job has left its server when
//! [`Gateway::serve`] returns.
//!
//! A client that shuts down its sending side counts as gone, even if it would still read: closing looks the same on the
//! wire, and a job whose client has closed must leave its server at once, not when the answer cannot be delivered.
//! (Hence not hyper's `half_close`.)

use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::task::{Poll, ready};
use std::time::Duration;

use http::HeaderValue;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto;
use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::admin::Admin;
use crate::alarm::ConnectionTimer;
use crate::checks::keep_checking;
use crate::client_stream::ClientStream;
use crate::gateway::Gateway;
use crate::link::Link;
use crate::per_client;
use crate::proxy;
use crate::shutdown::Shutdown;
use crate::streams::{Over, Silence, Streams};

/// Clients that the system lets wait to be accepted, if its own limit allows. Beyond it a burst of clients is turned to try
/// again a second later; by itself it is 128.
const BACKLOG: i32 = 4096;

/// Pause after a failed `accept` that is not the client's fault (no file descriptors left, for one).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Refusals have this long to reach their clients when the gateway ends.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// Least time between two log lines about one listener.
const COMPLAINTS: Duration = Duration::from_secs(1);

/// The smallest buffer that hyper works with.
const LEAST_BUFFER: usize = 8 << 10;

/// Most bytes of an answer over HTTP/2 that wait to be written.
const SEND_BUFFER: usize = 64 << 10;

/// Header lines that hyper takes without being told.
const HYPER_HEADERS: usize = 100;

/// How serving ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Served {
    /// Requests that were cut off because the grace was over or the end was ordered.
    pub cut_off: u64,
}

impl Gateway {
    /// Serves clients on `listener`, and the admin pages on `admin` if given, until the shutdown.
    ///
    /// # Errors
    /// If `listener` does not listen or the admin server cannot be started.
    pub async fn serve(
        self: Arc<Self>,
        listener: TcpListener,
        admin: Option<std::net::TcpListener>,
        mut shutdown: Shutdown,
        grace: Duration,
    ) -> io::Result<Served> {
        // It listens already; this is how the backlog of such a socket changes.
        SockRef::from(&listener).listen(BACKLOG)?;
        let mut timekeeper = JoinSet::new();
        // Stopped last: it answers while connections drain.
        let _admin = match admin {
            Some(listener) => Some(Admin::start(&self, listener)?),
            None => {
                timekeeper.spawn(Arc::clone(&self).keep_time());
                None
            }
        };

        let mut checks = JoinSet::new();
        checks.spawn(keep_checking(Arc::clone(&self)));
        checks.spawn(Arc::clone(&self).follow_names());

        let mut clients = Listener::new(listener);
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                () = shutdown.draining() => break,
                Some(_) = connections.join_next() => {}
                (socket, (stream, peer)) = next_client(&self.client_sockets, &mut clients) => {
                    let Some(entered) = self.clients.enter(peer.ip(), self.dispatch.epoch().limits.per_client) else {
                        self.stats.turned_away.fetch_add(1, Relaxed);
                        connections.spawn(per_client::turn_away(stream, socket));
                        continue;
                    };
                    let connection = Arc::clone(&self).connection(stream, peer, shutdown.clone());
                    connections.spawn(async {
                        let _held = (socket, entered);
                        connection.await;
                    });
                }
            }
        }
        self.draining.store(true, Relaxed);
        drop(clients);
        let in_flight = self.stats.running.load(Relaxed);
        tracing::info!(in_flight, connections = connections.len(), grace_s = grace.as_secs_f64(), "draining");
        {
            let mut drained = pin!(async { while connections.join_next().await.is_some() {} });
            let in_time = tokio::select! {
                () = &mut drained => true,
                () = tokio::time::sleep(grace) => false,
                () = shutdown.ending() => false,
            };
            if !in_time {
                self.cut_off.order();
                // Who is slower than this is cut off without a word.
                let _: Result<(), _> = tokio::time::timeout(LAST_WORDS, drained).await;
            }
        }
        connections.shutdown().await;
        // Requests over HTTP/2 have tasks of their own, which learn of it a moment later.
        let ended = async {
            while self.stats.running.load(Acquire) > 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        if tokio::time::timeout(LAST_WORDS, ended).await.is_err() {
            tracing::warn!(running = self.stats.running.load(Relaxed), "requests outlive their connections");
        }
        let cut_off = self.stats.cut_off();
        tracing::info!(cut_off, "drained");
        Ok(Served { cut_off })
    }

    /// Serves one connection to its end.
    async fn connection(self: Arc<Self>, stream: TcpStream, peer: SocketAddr, mut shutdown: Shutdown) {
        let _open = Open::new(&self);
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "the client is gone already");
            return;
        }
        let peer = forwarded_for(peer.ip());
        let link = Arc::new(Link::default());
        let service = service_fn(|request| proxy::handle(Arc::clone(&self), Arc::clone(&link), peer.clone(), request));
        let limits = self.dispatch.epoch().limits.client;
        let streams = Streams::new(limits.idle);
        let mut builder = auto::Builder::new(streams.clone());
        // An idle connection has this long until the next request; how long its head may take, the stream sees to.
        builder.http1().timer(ConnectionTimer::default()).header_read_timeout(limits.idle.max(limits.header));
        builder.http1().max_buf_size(limits.head.bytes.max(LEAST_BUFFER));
        builder
            .http2()
            // WebSocket over HTTP/2 (RFC 8441).
            .enable_connect_protocol()
            .max_send_buf_size(SEND_BUFFER)
            .max_header_list_size(u32::try_from(limits.head.bytes).unwrap_or(u32::MAX));
        if limits.head.lines > HYPER_HEADERS {
            builder.http1().max_headers(limits.head.lines);
        }
        let stream = TokioIo::new(ClientStream::new(stream, Arc::clone(&link), limits));
        let mut connection = pin!(builder.serve_connection_with_upgrades(stream, service));
        let mut draining = pin!(shutdown.draining());
        let mut silence = Silence::new(streams, limits.header);
        let mut is_drained = false;
        let served = poll_fn(|cx| {
            if !is_drained && draining.as_mut().poll(cx).is_ready() {
                is_drained = true;
                connection.as_mut().graceful_shutdown();
            }
            loop {
                if let Poll::Ready(ended) = connection.as_mut().poll(cx) {
                    return Poll::Ready(ended);
                }
                let Some(since) = link.http2_since() else { return Poll::Pending };
                match ready!(silence.poll(since, cx)) {
                    Over::Tell => connection.as_mut().graceful_shutdown(),
                    Over::End => return Poll::Ready(Ok(())),
                }
            }
        });
        if let Err(error) = self.cut_off.wakes(served).await {
            tracing::debug!(error, "connection to a client failed");
            self.stats.hung_up(&*error);
        }
        if let Some(tunnel) = link.take_tunnel() {
            tunnel.run().await;
        }
    }
}

/// Counts an open client connection.
struct Open<'a>(&'a Gateway);

impl<'a> Open<'a> {
    fn new(gateway: &'a Gateway) -> Self {
        gateway.stats.connections.fetch_add(1, Relaxed);
        Self(gateway)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.stats.connections.fetch_sub(1, Relaxed);
    }
}

/// The client's address for `x-forwarded-for`.
fn forwarded_for(ip: IpAddr) -> HeaderValue {
    HeaderValue::try_from(ip.to_canonical().to_string()).expect("an IP address is a header value")
}

/// The next client, once there is a socket for it; until then it waits in the backlog.
async fn next_client(
    sockets: &Arc<Semaphore>,
    clients: &mut Listener,
) -> (Option<OwnedSemaphorePermit>, (TcpStream, SocketAddr)) {
    if sockets.available_permits() == 0 && clients.may_complain() {
        tracing::warn!("as many client connections as there are file descriptors for; further ones wait");
    }
    // Never closed, so never `None`.
    let socket = Arc::clone(sockets).acquire_owned().await.ok();
    (socket, clients.accept().await)
}

/// A listener that logs what goes wrong, but not more than once in [`COMPLAINTS`].
#[derive(Debug)]
pub(crate) struct Listener {
    listener: TcpListener,
    complained: Option<Instant>,
}

impl Listener {
    pub(crate) fn new(listener: TcpListener) -> Self {
        Self { listener, complained: None }
    }

    /// The next connection; failures that would repeat at once are logged and paused over.
    pub(crate) async fn accept(&mut self) -> (TcpStream, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok(accepted) => return accepted,
                Err(error) if is_the_clients(&error) => {}
                Err(error) => {
                    if self.may_complain() {
                        tracing::error!(%error, "cannot accept connections");
                    }
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn may_complain(&mut self) -> bool {
        let may = self.complained.is_none_or(|last| last.elapsed() >= COMPLAINTS);
        if may {
            self.complained = Some(Instant::now());
        }
        may
    }
}

fn is_the_clients(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionRefused
    )
}
