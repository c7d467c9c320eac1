//! A copy of a request's body as it passes to its server, so that it can be sent to another one.
//!
//! The pieces are shared, not copied: what is kept costs the memory of the body until the answer has begun. A body
//! that turns out longer than the limit is not kept: what is there is let go at once.
//!
//! A server that refuses early leaves part of the body with the client. When its connection lets go of the body, what is
//! still to come is put back here, and [`KeptBody::whole`] reads it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http_body::Frame;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::sync::Notify;

use crate::errors::Refusal;

/// A connection lets go of a body within this time.
const LET_GO: Duration = Duration::from_secs(1);

/// A body being kept.
#[derive(Debug)]
pub(crate) struct KeptBody {
    limit: u64,
    /// Whether it was known from the start that it is not longer.
    fits: bool,
    kept: Mutex<Kept>,
    /// What is still to come from the client, once the first server's connection has let go of it.
    rest: Mutex<Option<Incoming>>,
    put_back: Notify,
}

#[derive(Default, Debug)]
struct Kept {
    data: Vec<Bytes>,
    trailers: Option<HeaderMap>,
    bytes: u64,
    /// It was longer than the limit.
    too_long: bool,
    /// All of it is here.
    whole: bool,
}

impl KeptBody {
    /// A body of at most so many bytes; `fits`: it is known that it is not longer.
    pub(crate) fn new(limit: u64, fits: bool) -> Arc<Self> {
        Arc::new(Self { limit, fits, kept: Mutex::default(), rest: Mutex::default(), put_back: Notify::new() })
    }

    /// Whether all of it is here, or can be.
    pub(crate) fn can_be_whole(&self) -> bool {
        let kept = self.lock();
        !kept.too_long && (kept.whole || self.fits)
    }

    /// What is still to come from the client; nobody sends it any more.
    pub(crate) fn put_back(&self, rest: Incoming) {
        *self.rest.lock().unwrap_or_else(PoisonError::into_inner) = Some(rest);
        self.put_back.notify_one();
    }

    /// The whole body once more. What is still to come from the client is read, with pauses of at most `idle`.
    ///
    /// # Errors
    /// The refusal to answer with.
    pub(crate) async fn whole(&self, idle: Duration) -> Result<Vec<Frame<Bytes>>, Refusal> {
        while self.again().is_none() {
            let rest = self.rest.lock().unwrap_or_else(PoisonError::into_inner).take();
            let Some(mut rest) = rest else {
                let put_back = tokio::time::timeout(LET_GO, self.put_back.notified());
                put_back.await.map_err(|_| Refusal::UpstreamError)?;
                continue;
            };
            while let Some(frame) =
                tokio::time::timeout(idle, rest.frame()).await.map_err(|_| Refusal::ClientTimeout)?
            {
                self.pass(&frame.map_err(|_| Refusal::BadRequest)?);
                if self.lock().too_long {
                    return Err(Refusal::UpstreamError);
                }
            }
            self.end();
        }
        self.again().ok_or(Refusal::UpstreamError)
    }

    /// The next piece passes.
    pub(crate) fn pass(&self, frame: &Frame<Bytes>) {
        let mut kept = self.lock();
        if let Some(data) = frame.data_ref() {
            kept.bytes += data.len() as u64;
            if kept.bytes > self.limit {
                *kept = Kept { too_long: true, bytes: kept.bytes, ..Kept::default() };
            } else {
                kept.data.push(data.clone());
            }
        } else if !kept.too_long {
            kept.trailers = frame.trailers_ref().cloned();
        }
    }

    /// There is no more.
    pub(crate) fn end(&self) {
        self.lock().whole = true;
    }

    /// The whole body once more; `None`: it is not all here.
    pub(crate) fn again(&self) -> Option<Vec<Frame<Bytes>>> {
        let kept = self.lock();
        (kept.whole && !kept.too_long).then(|| {
            let data = kept.data.iter().cloned().map(Frame::data);
            data.chain(kept.trailers.clone().map(Frame::trailers)).collect()
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(frames: &[Frame<Bytes>]) -> Vec<u8> {
        frames.iter().filter_map(Frame::data_ref).flatten().copied().collect()
    }

    #[test]
    fn a_body_is_kept_whole_or_not_at_all() {
        let kept = KeptBody::new(5, false);
        kept.pass(&Frame::data(Bytes::from_static(b"abc")));
        kept.pass(&Frame::data(Bytes::from_static(b"de")));
        assert!(kept.again().is_none(), "more may come");
        kept.pass(&Frame::trailers(HeaderMap::new()));
        kept.end();
        let again = kept.again().unwrap();
        assert_eq!((data(&again), again.len()), (b"abcde".to_vec(), 3));
        assert_eq!(kept.again().map(|again| again.len()), Some(3), "as often as it takes");

        let kept = KeptBody::new(4, false);
        kept.pass(&Frame::data(Bytes::from_static(b"abc")));
        kept.pass(&Frame::data(Bytes::from_static(b"de")));
        kept.end();
        assert!(kept.again().is_none());
    }
}
