//! HTTP/2 to a server: connections that many requests share.
//!
//! A request goes to the first connection with fewer requests under way than the server allows at once
//! (`SETTINGS_MAX_CONCURRENT_STREAMS`; [`MOST_AT_FIRST`] until the end of its first request ever, when it has surely said). A connection on which the server has said that it goes
//! away (GOAWAY) takes no more; requests that it has not begun are known by their error ([`is_unprocessed`]) and go out
//! again elsewhere, the others run on. A dead connection is found by pings ([`PING_EVERY`], [`PING_TIMEOUT`]).

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use http::uri::Scheme;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};

use tokio::sync::Notify;

use super::stream::ServerStream;
use crate::request_body::RequestBody;

/// How often a connection is asked for a sign of life.
const PING_EVERY: Duration = Duration::from_secs(10);
/// How long it may take to give it.
const PING_TIMEOUT: Duration = Duration::from_secs(5);

/// Most bytes of an answer that the server may send before they are passed on: what a client that reads slowly keeps here.
const WINDOW: u32 = 256 << 10;
/// The same of all answers on a connection: as many as the protocol has, so that a client that reads slowly never takes
/// from the others.
const ALL_WINDOWS: u32 = (1 << 31) - 1;

/// Most requests at once before the server has said: what HTTP/2 advises servers to allow at least.
pub(super) const MOST_AT_FIRST: usize = 100;

/// A connection that requests share.
#[derive(Debug)]
pub(super) struct Shared {
    sender: SendRequest<RequestBody>,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    /// Where it leads.
    peer: IpAddr,
    secure: bool,
    under_way: AtomicUsize,
    /// Most requests at once, as the server said last, on whichever connection.
    most: Arc<AtomicUsize>,
    /// Whether the server has said that it goes away.
    leaves: AtomicBool,
    /// Whether it was used since the last sweep.
    used: AtomicBool,
    /// A request has ended.
    ended: Notify,
}

/// One request's part of a connection.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) sender: SendRequest<RequestBody>,
    state: Arc<State>,
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.state.under_way.fetch_sub(1, Relaxed);
        self.state.ended.notify_one();
    }
}

impl Stream {
    pub(super) fn scheme(&self) -> Scheme {
        if self.state.secure { Scheme::HTTPS } else { Scheme::HTTP }
    }

    /// The connection takes no more requests.
    pub(super) fn leave(&self) {
        self.state.leaves.store(true, Relaxed);
    }
}

impl Shared {
    /// Begins HTTP/2 on a connection.
    pub(super) async fn open(
        stream: ServerStream,
        peer: IpAddr,
        secure: bool,
        most: &Arc<AtomicUsize>,
    ) -> hyper::Result<Self> {
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_TIMEOUT)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(ALL_WINDOWS)
            .initial_max_send_streams(most.load(Relaxed))
            .handshake(TokioIo::new(stream))
            .await?;
        let state = Arc::new(State {
            peer,
            secure,
            under_way: AtomicUsize::new(0),
            most: Arc::clone(most),
            leaves: AtomicBool::new(false),
            used: AtomicBool::new(true),
            ended: Notify::new(),
        });
        let told = Arc::clone(&state);
        tokio::spawn(async move {
            let mut connection = std::pin::pin!(connection);
            let ended = loop {
                let runs = std::future::poll_fn(|cx| {
                    let polled = connection.as_mut().poll(cx);
                    told.most.store(connection.current_max_send_streams(), Relaxed);
                    polled
                });
                // What the server allows comes to be known without a turn of the connection.
                tokio::select! {
                    biased;
                    ended = runs => break ended,
                    () = told.ended.notified() => {}
                }
            };
            if let Err(error) = ended {
                tracing::debug!(%error, "connection to a server failed");
            }
        });
        Ok(Self { sender, state })
    }

    /// A part of the connection, if it has one to give. Not to be called by two at once.
    pub(super) fn stream(&self) -> Option<Stream> {
        if !self.is_open() || self.state.under_way.load(Relaxed) >= self.state.most.load(Relaxed).max(1) {
            return None;
        }
        Some(self.first_stream())
    }

    /// A part of a connection that nobody else has seen yet.
    pub(super) fn first_stream(&self) -> Stream {
        self.state.under_way.fetch_add(1, Relaxed);
        self.state.used.store(true, Relaxed);
        Stream { sender: self.sender.clone(), state: Arc::clone(&self.state) }
    }

    /// Where it leads.
    pub(super) fn peer(&self) -> IpAddr {
        self.state.peer
    }

    /// Whether it takes requests.
    pub(super) fn is_open(&self) -> bool {
        !self.sender.is_closed() && !self.state.leaves.load(Relaxed)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.state.under_way.load(Relaxed) == 0
    }

    /// Whether it was not used since the last call.
    pub(super) fn is_unused(&self) -> bool {
        !self.state.used.swap(false, Relaxed) && self.is_idle()
    }
}

/// Whether the server has said of a failed request that it did nothing about it (RFC 9113, 8.7): its stream was refused,
/// or is beyond the last one that the server took before it went away.
pub(super) fn is_unprocessed(error: &hyper::Error) -> bool {
    let refused = |e: &h2::Error| e.is_reset() && e.is_remote() && e.reason() == Some(h2::Reason::REFUSED_STREAM);
    is_going_away(error) || cause(error).is_some_and(refused)
}

/// Whether a request failed because the server goes away and has not begun it.
pub(super) fn is_going_away(error: &hyper::Error) -> bool {
    cause(error).is_some_and(|error| error.is_go_away() && error.is_remote())
}

/// What HTTP/2 says of an error.
pub(crate) fn cause<'e>(error: &'e (dyn std::error::Error + 'static)) -> Option<&'e h2::Error> {
    let sources = std::iter::successors(Some(error), |&error| error.source());
    sources.filter_map(|error| error.downcast_ref::<h2::Error>()).next()
}
