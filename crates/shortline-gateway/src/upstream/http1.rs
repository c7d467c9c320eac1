//! HTTP/1.1 to a server: a connection for one request at a time, driven by whoever uses it.
//!
//! hyper's end of a connection is a future that has to be polled for anything to happen. In a task of its own that costs
//! every request two wake-ups and two switches of tasks; here the request's own task polls it, where it waits for the
//! answer's head ([`Connection::send`]) and for its body ([`Connection::poll_frame`]). What that poll does not bring
//! about does not come at all, so what waits behind it is looked at without a waker. Both ends of hyper's channels are in
//! one task then, and wake it when one of them has something for the other; a [`Gate`] keeps what would only wake a task
//! that is awake.
//!
//! Nobody drives an idle connection: that its server has closed it is seen by the request that it is given, which is put
//! back; from then on, and at every sweep, when it is looked at ([`Connection::is_ready`]). A task of its own is for what goes on while nobody
//! waits ([`Connection::run_by_itself`]): an upload behind an answer that has begun, the way to another protocol.

use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{
    AtomicU8,
    Ordering::{AcqRel, Acquire, Release},
};
use std::task::{Context, Poll, Wake, Waker};

use atomic_waker::AtomicWaker;
use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::PIECE;
use super::interim::{Interim, Watched};
use super::stream::ServerStream;
use crate::alarm::Alarm;
use crate::hints::HintSender;
use crate::request_body::RequestBody;

/// An open connection; dropping it closes it at once, whatever is under way.
pub(super) struct Connection {
    sender: SendRequest<RequestBody>,
    interim: Arc<Interim>,
    /// Where it leads.
    peer: IpAddr,
    driver: Driver,
    /// For the head of an answer.
    alarm: Alarm,
}

/// What makes a connection move.
enum Driver {
    /// Whoever polls this, which wakes through the gate.
    Here(Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>, Arc<Gate>, Waker),
    /// A task of its own.
    Task(AbortHandle),
    /// Nothing: it has ended.
    Ended,
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Driver::Task(task) = &self.driver {
            task.abort();
        }
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("peer", &self.peer).finish_non_exhaustive()
    }
}

impl Connection {
    /// Begins HTTP/1.1 on a connection that leads to `peer`.
    pub(super) async fn open(stream: ServerStream, peer: IpAddr) -> hyper::Result<Self> {
        let interim = Arc::<Interim>::default();
        let stream = TokioIo::new(Watched::new(stream, Arc::clone(&interim)));
        let (sender, connection) = http1::Builder::new().max_buf_size(PIECE).handshake(stream).await?;
        let gate = Arc::<Gate>::default();
        let waker = Waker::from(Arc::clone(&gate));
        let driver = Driver::Here(Box::pin(connection.with_upgrades()), gate, waker);
        Ok(Self { sender, interim, peer, driver, alarm: Alarm::default() })
    }

    /// Where it leads.
    pub(super) fn peer(&self) -> IpAddr {
        self.peer
    }

    /// Whether it takes a request, as far as it is known: it may have been closed meanwhile.
    pub(super) fn seems_ready(&self) -> bool {
        self.sender.is_ready()
    }

    /// Whether anything has come since the last request was about to be sent.
    pub(super) fn has_come(&self) -> bool {
        self.interim.has_come()
    }

    /// Whether it is open and takes a request. The task that was waiting for it is forgotten.
    pub(super) fn is_ready(&mut self) -> bool {
        let looked = self.driver.then(&mut Context::from_waker(Waker::noop()), |_| Poll::Ready(self.sender.is_ready()));
        looked == Poll::Ready(true)
    }

    /// Sends the request and waits for the head of the answer, at most until the deadline: `None`. A request of which
    /// nothing was sent is put back.
    ///
    /// # Panics
    /// If there is no request.
    pub(super) async fn send(
        &mut self,
        request: &mut Option<Request<RequestBody>>,
        hints: Option<&HintSender>,
        deadline: Option<Instant>,
    ) -> Option<hyper::Result<Response<Incoming>>> {
        let Self { sender, interim, driver, alarm, .. } = self;
        interim.expect(hints);
        // Before the request, which wakes who drives the connection.
        driver.close().await;
        let mut answer = pin!(sender.try_send_request(request.take().expect("a request")));
        let answer = std::future::poll_fn(|cx| match (driver.then(cx, |cx| answer.as_mut().poll(cx)), deadline) {
            (Poll::Ready(answer), _) => Poll::Ready(Some(answer)),
            (Poll::Pending, Some(deadline)) => alarm.poll(deadline, cx).map(|()| None),
            (Poll::Pending, None) => Poll::Pending,
        })
        .await?;
        Some(answer.map_err(|mut error| {
            *request = error.take_message();
            error.into_error()
        }))
    }

    /// The next piece of the answer.
    pub(super) fn poll_frame(
        &mut self,
        answer: &mut Incoming,
        cx: &mut Context<'_>,
    ) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        self.driver.then(cx, |cx| Pin::new(answer).poll_frame(cx))
    }

    /// From now on it moves whether or not somebody waits for an answer.
    pub(super) fn run_by_itself(&mut self) {
        self.driver = match std::mem::replace(&mut self.driver, Driver::Ended) {
            Driver::Here(connection, ..) => {
                let run = async {
                    if let Err(error) = connection.await {
                        tracing::debug!(%error, "connection to a server failed");
                    }
                };
                Driver::Task(tokio::spawn(run).abort_handle())
            }
            driver => driver,
        };
    }
}

impl Driver {
    /// This task is going to move the connection.
    async fn close(&mut self) {
        if let Self::Here(_, gate, _) = self {
            std::future::poll_fn(|cx| {
                gate.close(cx.waker());
                Poll::Ready(())
            })
            .await;
        }
    }

    /// Moves the connection as far as it goes, then looks with `look` at what that has brought. To be called again when
    /// it has brought something.
    fn then<T>(&mut self, cx: &mut Context<'_>, look: impl FnOnce(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
        match self {
            Self::Task(_) => return look(cx),
            Self::Here(connection, gate, waker) => {
                gate.close(cx.waker());
                match connection.as_mut().poll(&mut Context::from_waker(waker)) {
                    Poll::Pending => {
                        let looked = look(&mut Context::from_waker(Waker::noop()));
                        if gate.open() && looked.is_pending() {
                            cx.waker().wake_by_ref();
                        }
                        return looked;
                    }
                    Poll::Ready(Ok(())) => {}
                    Poll::Ready(Err(error)) => tracing::debug!(%error, "connection to a server failed"),
                }
                // Dropped with all that waits for it.
                *self = Self::Ended;
            }
            Self::Ended => {}
        }
        look(&mut Context::from_waker(Waker::noop()))
    }
}

/// Keeps wake-ups of a connection from a task that is just polling it.
#[derive(Default, Debug)]
struct Gate {
    task: AtomicWaker,
    state: AtomicU8,
}

/// Wake-ups pass.
const OPEN: u8 = 0;
/// Wake-ups are kept.
const CLOSED: u8 = 1;
/// One was kept.
const KEPT: u8 = 2;

impl Gate {
    /// This task is about to poll.
    fn close(&self, task: &Waker) {
        self.task.register(task);
        self.state.store(CLOSED, Release);
    }

    /// It has polled; whether a wake-up was kept.
    fn open(&self) -> bool {
        self.state.swap(OPEN, AcqRel) == KEPT
    }
}

impl Wake for Gate {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // From another thread as well: what it brings after the poll is looked at when the gate opens.
        if self.state.compare_exchange(CLOSED, KEPT, AcqRel, Acquire) == Err(OPEN) {
            self.task.wake();
        }
    }
}
