//! A server at its address, and the open connections to it.
//!
//! A small pool over `hyper::client::conn`, last in, first out, one task per connection and none per request. A
//! [`Lease`] is a connection in use: it goes back to the pool when its answer was read to the end, and is otherwise
//! cut off on drop, so that a server learns at once that nobody waits any more. A request that meets a connection
//! which the server has just closed, and of which no byte was sent, goes out again on another one.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{HeaderValue, Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use shortline_core::fleet::settings::Address;
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::AbortHandle;

use crate::descriptors;
use crate::errors::Refusal;
use crate::request_body::RequestBody;

/// A server at its address.
#[derive(Debug)]
pub(crate) struct Upstream {
    address: Address,
    target: Target,
    /// What `host` says if the client does not.
    authority: HeaderValue,
    /// What `x-served-by` says.
    name: HeaderValue,
    pool: Mutex<Pool>,
}

#[derive(Debug)]
enum Target {
    Address(SocketAddr),
    /// Looked up anew for every connection.
    Name(String, u16),
}

/// Idle connections, the least recently used first.
#[derive(Default, Debug)]
struct Pool {
    idle: Vec<Connection>,
    /// Connections that were not used since the last sweep: the shortest the list has been.
    unused: usize,
    /// The server has another address now: nothing is kept any more.
    retired: bool,
}

/// An open connection; dropping it closes it at once, whatever is under way.
#[derive(Debug)]
struct Connection {
    sender: SendRequest<RequestBody>,
    task: AbortHandle,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A connection in use.
#[derive(Debug)]
pub(crate) struct Lease {
    upstream: Arc<Upstream>,
    connection: Connection,
    /// Whether it has served requests before.
    reused: bool,
}

/// What became of a request on a connection.
#[derive(Debug)]
pub(crate) enum Sent {
    /// The server answers.
    Answer(Response<Incoming>),
    /// The connection was already closed and nothing was sent; here is the request again.
    Stale(Request<RequestBody>),
    /// It failed.
    Failed,
}

impl Upstream {
    /// A server called `name` at `address`.
    pub(crate) fn new(name: &str, address: &Address) -> Self {
        let target = match address.host.parse::<IpAddr>() {
            Ok(ip) => Target::Address(SocketAddr::new(ip, address.port)),
            Err(_) => Target::Name(address.host.clone(), address.port),
        };
        Self {
            address: address.clone(),
            target,
            authority: HeaderValue::try_from(address.to_string())
                .unwrap_or_else(|_| HeaderValue::from_static("localhost")),
            name: header_value(name),
            pool: Mutex::default(),
        }
    }

    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    pub(crate) fn authority(&self) -> &HeaderValue {
        &self.authority
    }

    pub(crate) fn name(&self) -> &HeaderValue {
        &self.name
    }

    /// An open connection that nobody uses.
    pub(crate) fn idle(self: &Arc<Self>) -> Option<Lease> {
        self.take_idle().map(|connection| Lease { upstream: Arc::clone(self), connection, reused: true })
    }

    /// A new connection; `socket` is held as long as it is open.
    ///
    /// # Errors
    /// [`Refusal::UpstreamConnect`] if the server cannot be reached within `at_most`, [`Refusal::OutOfSockets`] if that
    /// is because this machine can open no more connections.
    pub(crate) async fn connect(
        self: &Arc<Self>,
        at_most: Duration,
        socket: OwnedSemaphorePermit,
    ) -> Result<Lease, Refusal> {
        match tokio::time::timeout(at_most, self.open(socket)).await {
            Ok(Ok(connection)) => Ok(Lease { upstream: Arc::clone(self), connection, reused: false }),
            Ok(Err(error)) if descriptors::is_exhausted(&error) => {
                tracing::debug!(server = ?self.name, %error, "no socket for a connection");
                Err(Refusal::OutOfSockets)
            }
            Ok(Err(error)) => {
                tracing::debug!(server = ?self.name, %error, "cannot connect");
                Err(Refusal::UpstreamConnect)
            }
            Err(_) => {
                tracing::debug!(server = ?self.name, timeout_s = at_most.as_secs_f64(), "connect timed out");
                Err(Refusal::UpstreamConnect)
            }
        }
    }

    /// Closes all connections that nobody uses.
    pub(crate) fn close_idle(&self) {
        let closed = std::mem::take(&mut self.lock().idle);
        drop(closed);
    }

    /// The server is elsewhere now: connections are closed as soon as nobody uses them.
    pub(crate) fn retire(&self) {
        self.lock().retired = true;
        self.close_idle();
    }

    /// Closes the connections that were not used since the last call.
    pub(crate) fn sweep(&self) {
        let closed: Vec<Connection> = {
            let mut pool = self.lock();
            let unused = pool.unused.min(pool.idle.len());
            let mut closed: Vec<Connection> = pool.idle.drain(..unused).collect();
            closed.extend(pool.idle.extract_if(.., |connection| connection.sender.is_closed()));
            pool.unused = pool.idle.len();
            closed
        };
        drop(closed);
    }

    /// The most recently used connection that is ready; closed ones on the way are thrown out.
    fn take_idle(&self) -> Option<Connection> {
        let mut pool = self.lock();
        let mut i = pool.idle.len();
        while i > 0 {
            i -= 1;
            if pool.idle[i].sender.is_closed() {
                drop(pool.idle.remove(i));
            } else if pool.idle[i].sender.is_ready() {
                let connection = pool.idle.remove(i);
                pool.unused = pool.unused.min(pool.idle.len());
                return Some(connection);
            }
        }
        pool.unused = pool.unused.min(pool.idle.len());
        None
    }

    async fn open(&self, socket: OwnedSemaphorePermit) -> io::Result<Connection> {
        let stream = match &self.target {
            Target::Address(address) => TcpStream::connect(address).await?,
            Target::Name(host, port) => TcpStream::connect((host.as_str(), *port)).await?,
        };
        stream.set_nodelay(true)?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        let task = tokio::spawn(async move {
            // Given back after the connection is closed.
            let _socket = socket;
            if let Err(error) = connection.await {
                tracing::debug!(%error, "connection to a server failed");
            }
        });
        Ok(Connection { sender, task: task.abort_handle() })
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
        let Self { upstream, connection, .. } = self;
        if !connection.sender.is_closed() {
            let mut pool = upstream.lock();
            if !pool.retired {
                pool.idle.push(connection);
            }
        }
    }

    /// Sends a request and waits for the head of the answer.
    pub(crate) async fn send(&mut self, request: Request<RequestBody>) -> Sent {
        match self.connection.sender.try_send_request(request).await {
            Ok(response) => Sent::Answer(response),
            Err(mut error) => match error.take_message() {
                Some(request) if self.reused => Sent::Stale(request),
                _ => {
                    tracing::debug!(error = %error.into_error(), "a server failed before it answered");
                    Sent::Failed
                }
            },
        }
    }
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
