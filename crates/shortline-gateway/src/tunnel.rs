//! A connection on which the protocol was switched: WebSocket, or any other that HTTP/1.1 `upgrade` names; or a stream of
//! HTTP/2 that has become one ([`crate::websocket`]).
//!
//! Bytes are copied both ways until both sides have ended, or one fails. A side that ends its sending (half-close) is
//! passed on as such, and the other may go on. The job stays at its server all the time. A tunnel through which nothing
//! moves for `idle_s` is closed, so protocols with long pauses need their pings; at the end of the gateway it is cut
//! off when the grace is over.

use std::io::{self, Cursor};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, Version, request};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;

use crate::exchange::Exchange;
use crate::headers;
use crate::health::{Failing, Report};
use crate::outcome::Outcome;
use crate::upstream::ServerStream;
use crate::websocket::{Handshake, Verdict};

/// Whose fault an error is.
type Blame = fn(io::Error) -> Broken;

/// Bytes copied at once, in each direction.
const PIECE: usize = 16 << 10;

/// A tunnel that is to begin when the client's end has left HTTP.
#[derive(Debug)]
pub(crate) struct Tunnel {
    pub(crate) client: OnUpgrade,
    pub(crate) server: ServerStream,
    /// What the server has sent already.
    pub(crate) first: Bytes,
    pub(crate) exchange: Exchange,
    /// Longest pause.
    pub(crate) idle: Duration,
}

/// A client's wish for another protocol.
#[derive(Debug)]
pub(crate) struct Switch {
    pub(crate) protocol: HeaderValue,
    pub(crate) client: OnUpgrade,
    /// From HTTP/2: the gateway's own with the server.
    pub(crate) handshake: Option<Handshake>,
}

impl Switch {
    /// What a request asks for, if it can have it: in HTTP/1.1, without a body, and not HTTP/2 (which a client can have
    /// by prior knowledge); in HTTP/2, WebSocket.
    pub(crate) fn asked_for(head: &mut request::Parts, has_no_body: bool) -> Option<Self> {
        if let Some(handshake) = Handshake::begin(head) {
            let protocol = HeaderValue::from_static("websocket");
            return Some(Self { protocol, client: head.extensions.remove()?, handshake: Some(handshake) });
        }
        if !has_no_body || head.version != Version::HTTP_11 {
            return None;
        }
        let protocol = headers::asks_to_switch(&head.headers)?.clone();
        Some(Self { protocol, client: head.extensions.remove()?, handshake: None })
    }

    /// What a server's answer means.
    pub(crate) fn verdict<B>(&self, answer: &Response<B>) -> Verdict {
        match &self.handshake {
            Some(handshake) => handshake.verdict(answer),
            None if answer.status() == StatusCode::SWITCHING_PROTOCOLS => Verdict::Switched,
            None => Verdict::Declined,
        }
    }
}

/// Why it ended before both sides had.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error("the client broke off: {0}")]
    Client(io::Error),
    #[error("the server broke off: {0}")]
    Server(io::Error),
    #[error("nothing moved for idle_s")]
    Idle,
    #[error("the gateway ends")]
    CutOff,
}

impl Tunnel {
    /// Runs it to its end.
    pub(crate) async fn run(self) {
        let Self { client, server, first, mut exchange, idle } = self;
        let client = match client.await {
            Ok(client) => client,
            Err(error) => return tracing::debug!(%error, "the client has gone before the protocol was switched"),
        };
        let gateway = Arc::clone(&exchange.gateway);
        let moved = Moved::new();
        let server_has_ended = AtomicBool::new(false);
        let ended = {
            let (from_client, to_client) = tokio::io::split(TokioIo::new(client));
            let (from_server, to_server) = tokio::io::split(server);
            let from_server = Cursor::new(first).chain(from_server);
            let up = copy(from_client, to_server, &moved.up, &moved, (Broken::Client, Broken::Server));
            let down = copy(from_server, to_client, &moved.down, &moved, (Broken::Server, Broken::Client));
            let down = async { down.await.inspect(|()| server_has_ended.store(true, Relaxed)) };
            tokio::select! {
                biased;
                ended = async { tokio::try_join!(up, down) } => ended.map(drop),
                () = moved.idle(idle) => Err(Broken::Idle),
                () = gateway.cut_off.ordered() => Err(Broken::CutOff),
            }
        };
        exchange.passed_on(usize::try_from(moved.down.load(Relaxed)).unwrap_or(usize::MAX));
        exchange.received(moved.up.load(Relaxed));
        match ended {
            Ok(()) => exchange.complete(),
            // It had said all it had to say, and does not read what the client still sends.
            Err(Broken::Server(_)) if server_has_ended.load(Relaxed) => exchange.complete(),
            Err(broken) => {
                tracing::debug!(%broken, "a tunnel broke off");
                if matches!(broken, Broken::Server(_)) {
                    exchange.report(Report::Failed(Failing::Tunnel));
                }
                exchange.set_outcome(match broken {
                    Broken::Client(_) => Outcome::ClientAbort,
                    Broken::Server(_) => Outcome::UpstreamAbort,
                    Broken::Idle => Outcome::UpstreamTimeout,
                    Broken::CutOff => Outcome::CutOff,
                });
            }
        }
    }
}

/// What has moved.
#[derive(Debug)]
struct Moved {
    began: Instant,
    /// When something moved last, milliseconds after `began`.
    last_ms: AtomicU64,
    /// Bytes to the server.
    up: AtomicU64,
    /// Bytes to the client.
    down: AtomicU64,
}

impl Moved {
    fn new() -> Self {
        let zero = || AtomicU64::new(0);
        Self { began: Instant::now(), last_ms: zero(), up: zero(), down: zero() }
    }

    fn note(&self) {
        self.last_ms.store(u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX), Relaxed);
    }

    /// Waits until nothing has moved for so long.
    async fn idle(&self, at_most: Duration) {
        loop {
            let deadline = self.began + Duration::from_millis(self.last_ms.load(Relaxed)) + at_most;
            if Instant::now() >= deadline {
                return;
            }
            tokio::time::sleep_until(deadline).await;
        }
    }
}

/// Copies to the end of `from`, which is passed on.
async fn copy(
    mut from: impl AsyncReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin,
    bytes: &AtomicU64,
    moved: &Moved,
    (of_from, of_to): (Blame, Blame),
) -> Result<(), Broken> {
    let mut piece = vec![0; PIECE];
    loop {
        let read = from.read(&mut piece).await.map_err(of_from)?;
        moved.note();
        if read == 0 {
            return to.shutdown().await.map_err(of_to);
        }
        to.write_all(&piece[..read]).await.map_err(of_to)?;
        to.flush().await.map_err(of_to)?;
        bytes.fetch_add(read as u64, Relaxed);
        moved.note();
    }
}
