//! The body of a request on its way to the server.
//!
//! While the job type is looked for, pieces are held; afterwards they are replayed and the rest streams through, one
//! frame at a time and no faster than the server takes it. A copy may be [kept](KeptBody) for a second server.
//! [`Progress`] tells the one who waits for the answer whose
//! turn it is while the body is under way.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::errors::{NoModel, Refusal};
use crate::headers;
use crate::kept_body::KeptBody;
use crate::model_scan::{ModelScan, Scan};

/// Of a refused request's body this much is read and thrown away, so that a client that sends it all before it reads
/// gets to see the refusal instead of a reset connection.
const DISCARD_BYTES: usize = 16 << 20;
/// And for at most this long.
const DISCARD_TIME: Duration = Duration::from_secs(1);

/// A body of at most so many bytes that is all here takes no time to send.
const AT_ONCE: usize = 64 << 10;

/// A request's body: pieces already read, then the rest.
#[derive(Debug)]
pub(crate) struct RequestBody {
    held: VecDeque<Frame<Bytes>>,
    /// `None`: there is no more.
    rest: Option<Incoming>,
    progress: Option<Arc<Progress>>,
    kept: Option<Arc<KeptBody>>,
    /// Rings when nobody waits for the answer any more.
    abandoned: Option<oneshot::Receiver<()>>,
}

/// Ends the sending of a body when it is dropped.
#[derive(Debug)]
pub(crate) struct Abandon {
    _rings: oneshot::Sender<()>,
}

/// Why a body does not go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Broken {
    /// The client broke off.
    #[error("the client broke off its request")]
    Client(#[source] hyper::Error),
    /// Nobody waits for the answer any more.
    #[error("the request was abandoned")]
    Abandoned,
}

impl RequestBody {
    pub(crate) fn new(rest: Incoming) -> Self {
        Self { held: VecDeque::new(), rest: Some(rest), progress: None, kept: None, abandoned: None }
    }

    /// A body that is all here.
    pub(crate) fn of(held: impl IntoIterator<Item = Frame<Bytes>>) -> Self {
        Self { held: held.into_iter().collect(), rest: None, progress: None, kept: None, abandoned: None }
    }

    /// Keeps a copy of what is here and of what passes from now on, unless it is already clear that it is longer than
    /// `limit`.
    pub(crate) fn keep(&mut self, limit: u64) -> Option<Arc<KeptBody>> {
        let size = self.size_hint();
        if size.lower() > limit {
            return None;
        }
        let kept = KeptBody::new(limit, size.upper().is_some_and(|upper| upper <= limit));
        if self.has_all() {
            // Now, and not as it passes: it may have to pass twice (see `again`).
            self.held.iter().for_each(|frame| kept.pass(frame));
            kept.end();
        } else {
            self.kept = Some(Arc::clone(&kept));
        }
        Some(kept)
    }

    /// Reads until the top-level member `model` is found; what is read is held for the server.
    ///
    /// # Errors
    /// A refusal if the body breaks off, stops for longer than `idle`, or goes on past `limit` bytes.
    pub(crate) async fn model(&mut self, limit: u64, idle: Duration) -> Result<Result<String, NoModel>, Refusal> {
        let mut scan = ModelScan::new();
        let mut room = limit;
        loop {
            let frame = match tokio::time::timeout(idle, self.next()).await {
                Err(_) => return Err(Refusal::ClientTimeout),
                Ok(Some(Err(_))) => return Err(Refusal::BadRequest),
                Ok(None) => return Ok(Err(NoModel::Absent(scan.end()))),
                Ok(Some(Ok(frame))) => frame,
            };
            let mut too_large = false;
            let answer = frame.data_ref().map_or(Scan::More, |data| {
                let within = usize::try_from(room).map_or(data.len(), |room| data.len().min(room));
                too_large = within < data.len();
                room -= within as u64;
                scan.feed(&data[..within])
            });
            self.held.push_back(headers::with_fit_trailers(frame));
            match answer {
                Scan::Found(model) => return Ok(Ok(model)),
                Scan::Absent(absent) => return Ok(Err(NoModel::Absent(absent))),
                Scan::More if too_large => return Err(Refusal::BodyTooLarge { limit }),
                Scan::More => {}
            }
        }
    }

    /// Reads on while the request waits for something else, until `limit` bytes are held for the server: only who reads
    /// meets the end of a stream that does not fit into the system. Ends if the body goes wrong, and not otherwise.
    pub(crate) async fn read_ahead(&mut self, limit: u64) -> Refusal {
        let mut held: u64 = self.held.iter().filter_map(Frame::data_ref).map(|data| data.len() as u64).sum();
        while held < limit {
            match self.next().await {
                Some(Ok(frame)) => {
                    held += frame.data_ref().map_or(0, |data| data.len() as u64);
                    self.held.push_back(headers::with_fit_trailers(frame));
                }
                Some(Err(_)) => return Refusal::BadRequest,
                None => {
                    self.rest = None;
                    break;
                }
            }
        }
        std::future::pending().await
    }

    async fn next(&mut self) -> Option<Result<Frame<Bytes>, hyper::Error>> {
        self.rest.as_mut()?.frame().await
    }

    /// The same body once more, if all of it is held. The pieces are shared, not copied.
    pub(crate) fn again(&self) -> Option<Self> {
        if !self.has_all() {
            return None;
        }
        let held: Vec<_> = self
            .held
            .iter()
            .filter_map(|frame| match (frame.data_ref(), frame.trailers_ref()) {
                (Some(data), _) => Some(Frame::data(data.clone())),
                (None, Some(trailers)) => Some(Frame::trailers(trailers.clone())),
                (None, None) => None,
            })
            .collect();
        Some(Self::of(held))
    }

    /// What ends the sending of the body, if some of it is still to come.
    pub(crate) fn abandon(&mut self) -> Option<Abandon> {
        if self.has_all() {
            return None;
        }
        let (rings, abandoned) = oneshot::channel();
        self.abandoned = Some(abandoned);
        Some(Abandon { _rings: rings })
    }

    /// Whether nothing is to come from the client.
    pub(crate) fn has_all(&self) -> bool {
        self.rest.as_ref().is_none_or(Body::is_end_stream)
    }

    /// Throws the rest away, within bounds.
    pub(crate) async fn discard(&mut self) {
        self.held.clear();
        let rest = async {
            let mut read = 0;
            while read < DISCARD_BYTES
                && let Some(Ok(frame)) = self.next().await
            {
                read += frame.data_ref().map_or(0, Bytes::len);
            }
        };
        // Out of time: the connection closes, as it would have without the courtesy.
        let _: Result<(), _> = tokio::time::timeout(DISCARD_TIME, rest).await;
    }

    /// A view of how far the body is, if it takes time: some of it is still to come from the client, or it is large.
    pub(crate) fn watch(&mut self) -> Option<Arc<Progress>> {
        let held = || self.held.iter().filter_map(Frame::data_ref).map(Bytes::len).sum::<usize>();
        self.progress = (!self.has_all() || held() > AT_ONCE).then(|| Arc::new(Progress::new()));
        self.progress.clone()
    }

    /// This piece passes; `None`: there is no more.
    fn keep_passing(&self, frame: Option<&Frame<Bytes>>) {
        let Some(kept) = &self.kept else { return };
        if let Some(frame) = frame {
            kept.pass(frame);
        }
        if frame.is_none() || self.is_end_stream() {
            kept.end();
        }
    }

    /// It is not sent any more: what is still to come is put back for another server, if it is kept for one.
    fn put_back(&mut self) {
        let rest = self.rest.take();
        if let Some(kept) = self.kept.take()
            && let Some(rest) = rest.filter(|rest| !rest.is_end_stream())
        {
            self.held.drain(..).for_each(|frame| kept.pass(&frame));
            kept.put_back(rest);
        }
    }

    fn note(&self, stage: Stage) {
        if let Some(progress) = &self.progress {
            progress.note(stage);
        }
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        self.put_back();
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        if let Some(frame) = self.held.pop_front() {
            self.keep_passing(Some(&frame));
            self.note(if self.is_end_stream() { Stage::Sent } else { Stage::Server });
            return Poll::Ready(Some(Ok(frame)));
        }
        if let Some(abandoned) = &mut self.abandoned
            && Pin::new(abandoned).poll(cx).is_ready()
        {
            self.abandoned = None;
            self.put_back();
            return Poll::Ready(Some(Err(Broken::Abandoned)));
        }
        let Some(rest) = &mut self.rest else { return Poll::Ready(None) };
        let polled = Pin::new(&mut *rest).poll_frame(cx);
        let is_end = rest.is_end_stream();
        self.note(match &polled {
            Poll::Pending => Stage::Client,
            Poll::Ready(Some(Ok(_))) if !is_end => Stage::Server,
            Poll::Ready(Some(Err(_))) => Stage::Broken,
            Poll::Ready(_) => Stage::Sent,
        });
        let polled = polled.map_ok(headers::with_fit_trailers);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => self.keep_passing(Some(frame)),
            Poll::Ready(None) => self.keep_passing(None),
            Poll::Ready(Some(Err(_))) | Poll::Pending => {}
        }
        polled.map_err(Broken::Client)
    }

    fn is_end_stream(&self) -> bool {
        self.held.is_empty() && self.has_all()
    }

    fn size_hint(&self) -> SizeHint {
        let held = self.held.iter().filter_map(Frame::data_ref).map(|data| data.len() as u64).sum::<u64>();
        let rest = self.rest.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint);
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower() + held);
        // A length would leave no room for trailers.
        let has_trailers = self.held.iter().any(Frame::is_trailers);
        if let Some(upper) = rest.upper().filter(|_| !has_trailers) {
            hint.set_upper(upper + held);
        }
        hint
    }
}

/// Whose turn it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum Stage {
    /// The server has to take the next piece.
    Server,
    /// The client has to send the next piece.
    Client,
    /// All of it is sent.
    Sent,
    /// The client broke off.
    Broken,
}

/// How far a streaming upload is.
#[derive(Debug)]
pub(crate) struct Progress {
    began: Instant,
    /// When it last moved, milliseconds after `began`.
    moved_ms: AtomicU64,
    stage: AtomicU8,
}

/// What a watcher of [`Progress`] finds when its alarm rings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Late {
    /// Nobody is late before this moment.
    NotBefore(Instant),
    /// The client stopped sending.
    Client,
    /// The server stopped taking, or does not answer.
    Server,
}

impl Progress {
    fn new() -> Self {
        Self { began: Instant::now(), moved_ms: AtomicU64::new(0), stage: AtomicU8::new(Stage::Server as u8) }
    }

    fn note(&self, stage: Stage) {
        self.stage.store(stage as u8, Relaxed);
        if stage != Stage::Client {
            let moved = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
            self.moved_ms.store(moved, Relaxed);
        }
    }

    /// Whether the server has all of it.
    pub(crate) fn is_sent(&self) -> bool {
        self.stage.load(Relaxed) == Stage::Sent as u8
    }

    /// Whether the client has to send the next piece, or broke off.
    pub(crate) fn is_up_to_client(&self) -> bool {
        [Stage::Client as u8, Stage::Broken as u8].contains(&self.stage.load(Relaxed))
    }

    /// Whether the client broke off.
    pub(crate) fn is_broken(&self) -> bool {
        self.stage.load(Relaxed) == Stage::Broken as u8
    }

    /// Who is late: the client or a server that takes the body may pause for `idle`, a server that has all of it may
    /// think for `first_byte`.
    pub(crate) fn late(&self, idle: Duration, first_byte: Duration) -> Late {
        let stage = self.stage.load(Relaxed);
        let pause = if stage == Stage::Sent as u8 { first_byte } else { idle };
        let deadline = self.began + Duration::from_millis(self.moved_ms.load(Relaxed)) + pause;
        if Instant::now() < deadline {
            Late::NotBefore(deadline)
        } else if stage == Stage::Client as u8 {
            Late::Client
        } else {
            Late::Server
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Duration = Duration::from_secs(60);
    const FIRST: Duration = Duration::from_secs(600);

    #[tokio::test(start_paused = true)]
    async fn the_one_whose_turn_it_is_is_late() {
        let progress = Progress::new();
        let begin = Instant::now();
        assert_eq!(progress.late(IDLE, FIRST), Late::NotBefore(begin + IDLE));
        tokio::time::advance(Duration::from_secs(59)).await;
        progress.note(Stage::Server);
        tokio::time::advance(Duration::from_secs(1)).await;
        progress.note(Stage::Client);
        assert_eq!(progress.late(IDLE, FIRST), Late::NotBefore(begin + Duration::from_secs(119)));
        tokio::time::advance(Duration::from_secs(59)).await;
        assert_eq!(progress.late(IDLE, FIRST), Late::Client);
        progress.note(Stage::Server);
        tokio::time::advance(IDLE).await;
        assert_eq!(progress.late(IDLE, FIRST), Late::Server);
        progress.note(Stage::Sent);
        tokio::time::advance(IDLE).await;
        assert!(matches!(progress.late(IDLE, FIRST), Late::NotBefore(_)));
        tokio::time::advance(FIRST).await;
        assert_eq!(progress.late(IDLE, FIRST), Late::Server);
    }
}
