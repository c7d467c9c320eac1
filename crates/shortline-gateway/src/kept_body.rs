//! A copy of a request's body as it passes to its server, so that it can be sent to another one.
//!
//! The pieces are shared, not copied: what is kept costs the memory of the body until the answer has begun. A body
//! that turns out longer than the limit is not kept: what is there is let go at once.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::HeaderMap;
use http_body::Frame;

/// A body being kept.
#[derive(Debug)]
pub(crate) struct KeptBody {
    limit: u64,
    kept: Mutex<Kept>,
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
    pub(crate) fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self { limit, kept: Mutex::default() })
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
        let kept = KeptBody::new(5);
        kept.pass(&Frame::data(Bytes::from_static(b"abc")));
        kept.pass(&Frame::data(Bytes::from_static(b"de")));
        assert!(kept.again().is_none(), "more may come");
        kept.pass(&Frame::trailers(HeaderMap::new()));
        kept.end();
        let again = kept.again().unwrap();
        assert_eq!((data(&again), again.len()), (b"abcde".to_vec(), 3));
        assert_eq!(kept.again().map(|again| again.len()), Some(3), "as often as it takes");

        let kept = KeptBody::new(4);
        kept.pass(&Frame::data(Bytes::from_static(b"abc")));
        kept.pass(&Frame::data(Bytes::from_static(b"de")));
        kept.end();
        assert!(kept.again().is_none());
    }
}
