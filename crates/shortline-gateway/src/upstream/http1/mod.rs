//! HTTP/1.1 to a server: a connection for one request at a time, moved by whoever uses it.
//!
//! The request's own task writes it ([`upload`]) and reads the answer's head ([`answer`]) and [`body`]: no other task has
//! to be woken, and no channel lies between. Both directions move at once, so that a server may answer before it has the
//! whole request. Interim answers pass to the client by way of [`crate::hints`].
//!
//! Nobody looks at an idle connection: that its server has closed it is seen by the request that it is given, before
//! anything is sent, and at every sweep ([`Connection::is_ready`]). A task of its own is for what goes on while nobody
//! reads the answer ([`Connection::run_by_itself`]): an upload behind an answer that has begun.

mod answer;
mod body;
mod upload;

use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, Bytes, BytesMut};
use http::{Method, Request, Response};
use http_body::Frame;
use tokio::io::AsyncReadExt;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::task::coop::unconstrained;
use tokio::time::Instant;
use tokio_util::io::poll_read_buf;

use super::PIECE;
use super::stream::ServerStream;
use crate::alarm::Alarm;
use crate::client_stream::framing::Fault;
use crate::hints::HintSender;
use crate::request_body::{Broken, RequestBody};
use answer::Head;
pub(crate) use body::Remaining;
use upload::Upload;

/// Least room to read into. While answers are long it grows up to [`PIECE`].
const LEAST_ROOM: usize = 4 << 10;

/// What goes wrong on a connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// It fails.
    #[error("the connection failed")]
    Io(#[source] io::Error),
    /// The server has closed it before the end of its answer.
    #[error("the server closed the connection before the end of its answer")]
    Closed,
    /// What begins is no answer.
    #[error("the server's answer does not begin, or end, as HTTP/1.1 does")]
    Head(#[source] httparse::Error),
    /// The head does not end.
    #[error("the head of the server's answer is longer than {PIECE} bytes")]
    LongHead,
    /// The body could be read in two ways.
    #[error("the server's answer could be read in two ways: {0}")]
    Framing(&'static str),
    /// Its chunks are none.
    #[error("the chunks of the server's answer are broken: {0:?}")]
    Chunks(Fault),
    /// Of the request.
    #[error("the request's body broke off")]
    Body(#[source] Broken),
    /// Of the request.
    #[error("the request's body is not as long as its head says")]
    Length,
}

/// An open connection; dropping it closes it at once, whatever is under way.
#[derive(Debug)]
pub(super) struct Connection {
    stream: Stream,
    /// Where it leads.
    peer: IpAddr,
    upload: Upload,
    /// What has come and was not used yet.
    came: Bytes,
    /// Room to read into, and how much there is to be.
    room: BytesMut,
    most_room: usize,
    /// Whether a request was sent.
    is_used: bool,
    /// Whether anything has come since the last one was about to be sent.
    has_come: bool,
    /// Whether it takes another request, behind the answer under way.
    keeps: bool,
    /// For the head of an answer.
    alarm: Alarm,
}

/// The way to the server.
#[derive(Debug)]
enum Stream {
    /// For whoever polls.
    Here(ServerStream),
    /// In a task of its own.
    Away(Away),
    /// Closed.
    Gone,
}

/// A connection that moves by itself: what it has read, one piece after the other; and the task.
#[derive(Debug)]
struct Away {
    pieces: mpsc::Receiver<Result<Bytes, Error>>,
    task: AbortHandle,
}

impl Drop for Away {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Connection {
    /// A new connection, which leads to `peer`.
    pub(super) fn new(stream: ServerStream, peer: IpAddr) -> Self {
        Self {
            stream: Stream::Here(stream),
            peer,
            upload: Upload::default(),
            came: Bytes::new(),
            room: BytesMut::new(),
            most_room: LEAST_ROOM,
            is_used: false,
            has_come: false,
            keeps: true,
            alarm: Alarm::default(),
        }
    }

    /// Where it leads.
    pub(super) fn peer(&self) -> IpAddr {
        self.peer
    }

    /// Whether it takes a request, as far as it is known: it may have been closed meanwhile.
    pub(super) fn seems_ready(&self) -> bool {
        self.keeps && self.came.is_empty() && self.upload.is_done() && matches!(self.stream, Stream::Here(_))
    }

    /// Nobody uses it for now: room for long answers is let go. Whether it seems ready.
    pub(super) fn rest(&mut self) -> bool {
        if self.most_room > LEAST_ROOM {
            (self.room, self.most_room) = (BytesMut::new(), LEAST_ROOM);
        }
        self.seems_ready()
    }

    /// Whether anything has come since the last request was about to be sent.
    pub(super) fn has_come(&self) -> bool {
        self.has_come
    }

    /// Whether it is open and takes a request. The task that was waiting for it is forgotten.
    pub(super) fn is_ready(&mut self) -> bool {
        self.is_quiet(&mut Context::from_waker(Waker::noop()))
    }

    /// Nothing comes unasked from a server that waits for a request, neither bytes nor the end. Outside of the runtime's
    /// budget for one turn of a task: a connection that is not looked at for want of it is not quiet.
    fn is_quiet(&mut self, cx: &mut Context<'_>) -> bool {
        let read = poll_fn(|cx| Poll::Ready(self.seems_ready() && self.poll_read(cx).is_pending()));
        pin!(unconstrained(read)).poll(cx) == Poll::Ready(true)
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
    ) -> Option<Result<Response<Remaining>, Error>> {
        self.has_come = false;
        // What a server says before the first request of all is its answer to it (that it has no room, say).
        if self.is_used && !poll_fn(|cx| Poll::Ready(self.is_quiet(cx))).await {
            self.stream = Stream::Gone;
            return Some(Err(Error::Closed));
        }
        self.is_used = true;
        let request = request.take().expect("a request");
        let method = request.method().clone();
        // Until its answer has come to its end.
        self.keeps = false;
        if let Err(error) = self.upload.begin(request) {
            return Some(Err(error));
        }
        poll_fn(|cx| match (self.poll_answer(&method, hints, cx), deadline) {
            (Poll::Ready(answer), _) => Poll::Ready(Some(answer)),
            (Poll::Pending, Some(deadline)) => self.alarm.poll(deadline, cx).map(|()| None),
            (Poll::Pending, None) => Poll::Pending,
        })
        .await
    }

    /// The answer to a request with this method.
    fn poll_answer(
        &mut self,
        asked: &Method,
        hints: Option<&HintSender>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Response<Remaining>, Error>> {
        self.send_on(cx)?;
        loop {
            let piece = ready!(self.poll_read(cx))?;
            if piece.is_empty() {
                return Poll::Ready(Err(Error::Closed));
            }
            self.has_come = true;
            self.came = if self.came.is_empty() { piece } else { [&self.came[..], &piece].concat().into() };
            while !self.came.is_empty()
                && let Some((head, length)) = answer::read(&self.came, asked)?
                && length <= PIECE
            {
                self.came.advance(length);
                match (head, hints) {
                    (Head::Final { answer, keeps }, _) => {
                        self.keeps = keeps;
                        return Poll::Ready(Ok(answer));
                    }
                    (Head::Interim(status, headers), Some(hints)) => hints.pass(status, headers),
                    (Head::Interim(..), None) => {}
                }
            }
            if self.came.len() >= PIECE {
                return Poll::Ready(Err(Error::LongHead));
            }
        }
    }

    /// The next piece of the answer.
    pub(super) fn poll_frame(
        &mut self,
        answer: &mut Remaining,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        self.send_on(cx)?;
        loop {
            match answer.next(&mut self.came)? {
                Some(frame) => return Poll::Ready(Some(Ok(frame))),
                None if answer.is_end() => return Poll::Ready(None),
                None => {}
            }
            self.came = ready!(self.poll_read(cx))?;
            if self.came.is_empty() {
                answer.close()?;
            }
        }
    }

    /// Writes on as much as goes.
    fn send_on(&mut self, cx: &mut Context<'_>) -> Result<(), Error> {
        match &mut self.stream {
            Stream::Here(stream) if !self.upload.is_done() => match self.upload.poll(stream, cx) {
                Poll::Ready(sent) => sent,
                Poll::Pending => Ok(()),
            },
            Stream::Here(_) | Stream::Away(_) | Stream::Gone => Ok(()),
        }
    }

    /// What comes next; nothing: the server has closed.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, Error>> {
        match &mut self.stream {
            Stream::Here(stream) => {
                if self.room.capacity() < self.most_room / 2 {
                    self.room.reserve(self.most_room);
                }
                let read = ready!(poll_read_buf(Pin::new(stream), cx, &mut self.room)).map_err(Error::Io)?;
                if read == self.room.capacity() {
                    self.most_room = PIECE.min(2 * self.most_room);
                }
                Poll::Ready(Ok(self.room.split().freeze()))
            }
            Stream::Away(away) => away.pieces.poll_recv(cx).map(|piece| piece.unwrap_or(Ok(Bytes::new()))),
            Stream::Gone => Poll::Ready(Ok(Bytes::new())),
        }
    }

    /// From now on the request is sent whether or not somebody waits for the answer.
    pub(super) fn run_by_itself(&mut self) {
        self.stream = match std::mem::replace(&mut self.stream, Stream::Gone) {
            Stream::Here(stream) => Stream::Away(Away::begin(stream, std::mem::take(&mut self.upload))),
            stream => stream,
        };
    }

    /// The connection itself, behind an answer that switches the protocol; and what has come of that.
    pub(super) fn switch(self) -> Option<(Bytes, ServerStream)> {
        match self.stream {
            Stream::Here(mut stream) => {
                stream.no_more_answers();
                Some((self.came, stream))
            }
            Stream::Away(_) | Stream::Gone => None,
        }
    }
}

impl Away {
    fn begin(stream: ServerStream, mut upload: Upload) -> Self {
        let (pieces, read_pieces) = mpsc::channel(1);
        let run = async move {
            let (mut from, mut to) = tokio::io::split(stream);
            let read = async {
                while let Ok(room) = pieces.reserve().await {
                    let mut piece = BytesMut::with_capacity(PIECE);
                    let read = from.read_buf(&mut piece).await.map_err(Error::Io)?;
                    room.send(Ok(piece.freeze()));
                    if read == 0 {
                        break;
                    }
                }
                Ok(())
            };
            let write = poll_fn(|cx| upload.poll(&mut to, cx));
            if let Err(error) = tokio::try_join!(read, write) {
                // Nobody is there any more: nobody needs to know.
                let _: Result<(), _> = pieces.send(Err(error)).await;
            }
        };
        Self { pieces: read_pieces, task: tokio::spawn(run).abort_handle() }
    }
}
