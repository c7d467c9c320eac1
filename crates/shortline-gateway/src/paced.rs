//! An answer at the pace of its client.
//!
//! hyper takes as much of a body as its buffer holds, and the same limit holds for its buffer of a request's head, which has
//! to be large. So the body pauses on its own: what was handed over is written before more is. A client that reads slowly
//! costs two pieces of at most [`PIECE`](crate::upstream::PIECE), one to be written and one that the connection to
//! the server holds ready, and what the system holds for it ([`UNSENT`](crate::client_stream::UNSENT)).
//!
//! Over HTTP/2 answers share a connection and have windows of their own: nothing pauses here, but whose turn it is is said
//! to [`streams`](crate::streams).

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use crate::link::Link;
use crate::streams;

/// A body that pauses until its last piece is written.
#[derive(Debug)]
pub(crate) struct Paced<B> {
    body: B,
    /// `None`: it does not pause.
    link: Option<Arc<Link>>,
}

impl<B> Paced<B> {
    pub(crate) fn new(body: B, link: Option<Arc<Link>>) -> Self {
        if link.is_none() {
            streams::gave();
        }
        Self { body, link }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Paced<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let Self { body, link } = &mut *self;
        let Some(link) = link else {
            let polled = Pin::new(body).poll_frame(cx);
            match polled {
                Poll::Ready(_) => streams::gave(),
                Poll::Pending => streams::waits(),
            }
            return polled;
        };
        ready!(link.poll_room(cx));
        let frame = ready!(Pin::new(body).poll_frame(cx));
        if let Some(Ok(frame)) = &frame {
            link.hand_over(frame.data_ref().map_or(0, Bytes::len));
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::{BodyExt, channel::Channel};
    use std::convert::Infallible;

    #[tokio::test]
    async fn a_body_pauses_until_its_last_piece_is_written_and_then_goes_on_by_itself() {
        let (mut server, body) = Channel::<Bytes, Infallible>::new(2);
        for _ in 0..2 {
            server.send_data(Bytes::from_static(&[b'x'; 32 << 10])).await.unwrap();
        }
        let link = Arc::new(Link::default());
        let mut body = Paced::new(body, Some(Arc::clone(&link)));
        assert!(body.frame().await.is_some());
        let next = tokio::spawn(async move { body.frame().await });
        tokio::task::yield_now().await;
        assert!(!next.is_finished(), "the first piece is not written");
        link.all_written();
        assert!(next.await.unwrap().is_some());
    }
}
