//! A request on its way to the server.
//!
//! Head and small pieces of the body are gathered and leave in one write; larger pieces are not copied. The body is asked
//! for its next piece when those before are written, so that it moves as fast as the server takes it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, header, request};
use http_body::{Body, Frame};
use tokio::io::AsyncWrite;

use super::Error;
use super::answer::content_length;
use crate::request_body::RequestBody;

/// A piece of a body up to this size is copied.
const SMALL: usize = 2 << 10;
/// So many bytes are enough for a write.
const ENOUGH: usize = 8 << 10;

/// What of a request is still to be written.
#[derive(Default, Debug)]
pub(super) struct Upload {
    /// Gathered bytes, and how many of them are written.
    gathered: Vec<u8>,
    written: usize,
    /// Behind them, what was not copied.
    piece: Bytes,
    /// What comes then.
    rest: Option<(RequestBody, Coding)>,
    /// Whether something was written that may lie in a buffer.
    unflushed: bool,
}

/// How a body is told from what follows it.
#[derive(Debug)]
enum Coding {
    /// By its length: so many bytes are left.
    Length(u64),
    /// In chunks; whether the last one's end is still to be written, and the trailers that the head announces.
    Chunked { open: bool, trailers: Vec<HeaderName> },
}

impl Coding {
    /// The next piece: what frames it goes to the `gathered` bytes, and it too if it is small.
    fn add(&mut self, frame: Frame<Bytes>, gathered: &mut Vec<u8>, piece: &mut Bytes) -> Result<(), Error> {
        let data = match (frame.into_data(), &mut *self) {
            (Ok(data), _) if data.is_empty() => return Ok(()),
            (Ok(data), Self::Length(left)) => {
                *left = left.checked_sub(data.len() as u64).ok_or(Error::Length)?;
                data
            }
            (Ok(data), Self::Chunked { open, .. }) => {
                *open = true;
                gathered.extend_from_slice(format!("{:x}\r\n", data.len()).as_bytes());
                data
            }
            // Behind a body of a known length there is no room for them.
            (Err(_), Self::Length(_)) => return Ok(()),
            (Err(frame), Self::Chunked { trailers: announced, .. }) => {
                gathered.extend_from_slice(b"0\r\n");
                let trailers = frame.into_trailers().unwrap_or_default();
                for (name, value) in trailers.iter().filter(|(name, _)| announced.contains(name)) {
                    write_line(name.as_str(), value.as_bytes(), gathered);
                }
                gathered.extend_from_slice(b"\r\n");
                *self = Self::Length(0);
                return Ok(());
            }
        };
        if data.len() <= SMALL {
            gathered.extend_from_slice(&data);
        } else {
            *piece = data;
        }
        Ok(())
    }

    /// There are no more pieces.
    fn end(&mut self, gathered: &mut Vec<u8>) -> Result<(), Error> {
        match self {
            Self::Length(0) => Ok(()),
            Self::Length(_) => Err(Error::Length),
            Self::Chunked { .. } => {
                gathered.extend_from_slice(b"0\r\n\r\n");
                Ok(())
            }
        }
    }
}

/// The trailers that a head announces.
fn announced(headers: &HeaderMap) -> Vec<HeaderName> {
    let lines = headers.get_all(header::TRAILER).iter();
    let names = lines.flat_map(|line| line.as_bytes().split(|&byte| byte == b','));
    names.filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok()).collect()
}

/// A header line.
fn write_line(name: &str, value: &[u8], to: &mut Vec<u8>) {
    for part in [name.as_bytes(), b": ", value, b"\r\n"] {
        to.extend_from_slice(part);
    }
}

impl Upload {
    /// Begins with a request, behind one of which all is written.
    ///
    /// # Errors
    /// If its headers and its body contradict each other.
    pub(super) fn begin(&mut self, request: Request<RequestBody>) -> Result<(), Error> {
        let (head, body) = request.into_parts();
        self.gathered.clear();
        self.gathered.shrink_to(ENOUGH);
        (self.written, self.unflushed) = (0, false);
        let path = head.uri.path_and_query().map_or("/", |target| target.as_str());
        for part in [head.method.as_str(), " ", path, " HTTP/1.1\r\n"] {
            self.gathered.extend_from_slice(part.as_bytes());
        }
        for (name, value) in &head.headers {
            write_line(name.as_str(), value.as_bytes(), &mut self.gathered);
        }
        let coding = match content_length(&head.headers)? {
            Some(length) => Coding::Length(length),
            None => self.code(&head, &body),
        };
        self.gathered.extend_from_slice(b"\r\n");
        self.rest = match (&coding, body.is_end_stream()) {
            (Coding::Length(0), true) => None,
            _ => Some((body, coding)),
        };
        Ok(())
    }

    /// How a body goes whose head does not say.
    fn code(&mut self, head: &request::Parts, body: &RequestBody) -> Coding {
        let length = body.size_hint().exact();
        match length {
            // RFC 9110, 8.6: a method that has a body says so if there is none.
            Some(0) if !matches!(head.method, Method::POST | Method::PUT | Method::PATCH) => Coding::Length(0),
            Some(length) => {
                write_line("content-length", HeaderValue::from(length).as_bytes(), &mut self.gathered);
                Coding::Length(length)
            }
            None => {
                write_line("transfer-encoding", b"chunked", &mut self.gathered);
                Coding::Chunked { open: false, trailers: announced(&head.headers) }
            }
        }
    }

    /// Whether all is written.
    pub(super) fn is_done(&self) -> bool {
        self.rest.is_none() && !self.is_unwritten() && !self.unflushed
    }

    fn is_unwritten(&self) -> bool {
        self.written < self.gathered.len() || !self.piece.is_empty()
    }

    /// Writes as much as goes; ready when that was all.
    ///
    /// # Errors
    /// If the connection fails, or the body.
    pub(super) fn poll(&mut self, to: &mut (impl AsyncWrite + Unpin), cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        loop {
            let body = self.gather(cx)?;
            while self.is_unwritten() {
                let written = ready!(self.poll_write(to, cx)).map_err(Error::Io)?;
                if written == 0 {
                    return Poll::Ready(Err(Error::Io(io::ErrorKind::WriteZero.into())));
                }
                self.wrote(written);
            }
            if body.is_pending() || self.rest.is_none() {
                if self.unflushed {
                    ready!(Pin::new(&mut *to).poll_flush(cx)).map_err(Error::Io)?;
                    self.unflushed = false;
                }
                return body.map(Ok);
            }
        }
    }

    fn poll_write(&self, to: &mut (impl AsyncWrite + Unpin), cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let gathered = &self.gathered[self.written..];
        match (gathered.is_empty(), self.piece.is_empty()) {
            (false, false) => {
                Pin::new(to).poll_write_vectored(cx, &[IoSlice::new(gathered), IoSlice::new(&self.piece)])
            }
            (_, true) => Pin::new(to).poll_write(cx, gathered),
            (true, false) => Pin::new(to).poll_write(cx, &self.piece),
        }
    }

    fn wrote(&mut self, bytes: usize) {
        self.unflushed = true;
        let gathered = bytes.min(self.gathered.len() - self.written);
        self.written += gathered;
        self.piece.advance(bytes - gathered);
        if !self.is_unwritten() {
            self.gathered.clear();
            (self.written, self.piece) = (0, Bytes::new());
        }
    }

    /// Takes pieces of the body until there is enough to write; pending if the body is.
    fn gather(&mut self, cx: &mut Context<'_>) -> Result<Poll<()>, Error> {
        while self.piece.is_empty() && self.gathered.len() < ENOUGH {
            let Some((body, coding)) = &mut self.rest else { break };
            if let Coding::Chunked { open, .. } = coding
                && std::mem::take(open)
            {
                self.gathered.extend_from_slice(b"\r\n");
            }
            match Pin::new(&mut *body).poll_frame(cx) {
                Poll::Pending => return Ok(Poll::Pending),
                Poll::Ready(Some(frame)) => {
                    coding.add(frame.map_err(Error::Body)?, &mut self.gathered, &mut self.piece)?;
                    // Whoever waits for the end of a body of which all has come learns of it now.
                    if matches!(coding, Coding::Length(0)) && body.is_end_stream() {
                        self.rest = None;
                    }
                }
                Poll::Ready(None) => {
                    coding.end(&mut self.gathered)?;
                    self.rest = None;
                }
            }
        }
        Ok(Poll::Ready(()))
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use proptest::prelude::*;

    use super::*;

    /// Takes a few bytes at every second attempt.
    #[derive(Default)]
    struct Slow {
        most: usize,
        turn: bool,
        taken: Vec<u8>,
        flushed: usize,
    }

    impl AsyncWrite for Slow {
        fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            self.turn = !self.turn;
            if self.turn {
                return Poll::Pending;
            }
            let taken = bytes.len().min(self.most);
            self.taken.extend_from_slice(&bytes[..taken]);
            Poll::Ready(Ok(taken))
        }

        fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.flushed = self.taken.len();
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    /// What a request is written as.
    fn written(request: Request<RequestBody>, most: usize) -> Result<Vec<u8>, Error> {
        let (mut upload, mut slow) = (Upload::default(), Slow { most, ..Slow::default() });
        assert!(upload.is_done());
        upload.begin(request)?;
        while upload.poll(&mut slow, &mut Context::from_waker(Waker::noop()))?.is_pending() {
            assert!(!upload.is_done());
        }
        assert!(upload.is_done() && slow.flushed == slow.taken.len());
        Ok(slow.taken)
    }

    fn request(method: Method, headers: &[(&'static str, &str)], frames: Vec<Frame<Bytes>>) -> Request<RequestBody> {
        let mut request = Request::new(RequestBody::of(frames));
        (*request.method_mut(), *request.uri_mut()) = (method, "/a?b=c".parse().unwrap());
        for (name, value) in headers {
            request.headers_mut().append(*name, value.parse().unwrap());
        }
        request
    }

    fn text(request: Request<RequestBody>) -> String {
        String::from_utf8(written(request, usize::MAX).unwrap()).unwrap()
    }

    fn data(bytes: &'static [u8]) -> Frame<Bytes> {
        Frame::data(Bytes::from_static(bytes))
    }

    #[test]
    fn a_body_has_a_length_or_is_in_chunks_or_is_none() {
        let get = request(Method::GET, &[("host", "h"), ("x", "1"), ("x", "2")], vec![]);
        assert_eq!(text(get), "GET /a?b=c HTTP/1.1\r\nhost: h\r\nx: 1\r\nx: 2\r\n\r\n");
        let post = |headers: &[_], frames| {
            text(request(Method::POST, headers, frames)).split_off("POST /a?b=c HTTP/1.1".len())
        };
        assert_eq!(post(&[], vec![]), "\r\ncontent-length: 0\r\n\r\n");
        assert_eq!(post(&[("content-length", "0")], vec![]), "\r\ncontent-length: 0\r\n\r\n");
        assert_eq!(post(&[], vec![data(b"ab"), data(b"c")]), "\r\ncontent-length: 3\r\n\r\nabc");
        assert_eq!(post(&[("content-length", "3")], vec![data(b"abc")]), "\r\ncontent-length: 3\r\n\r\nabc");
        let mut trailers = HeaderMap::new();
        trailers.insert("x-sum", "1".parse().unwrap());
        trailers.insert("x-unannounced", "1".parse().unwrap());
        assert_eq!(
            post(&[("trailer", "x-a, X-Sum")], vec![data(b"0123456789"), data(b""), Frame::trailers(trailers)]),
            "\r\ntrailer: x-a, X-Sum\r\ntransfer-encoding: chunked\r\n\r\na\r\n0123456789\r\n0\r\nx-sum: 1\r\n\r\n"
        );
    }

    #[test]
    fn a_body_that_is_not_as_long_as_its_head_says_never_looks_whole() {
        for (length, frames) in [("3", vec![data(b"ab")]), ("3", vec![data(b"abcd")]), ("3", vec![])] {
            let body = request(Method::POST, &[("content-length", length)], frames);
            assert!(matches!(written(body, 9), Err(Error::Length)));
        }
        let twice = request(Method::POST, &[("content-length", "3"), ("content-length", "4")], vec![data(b"abc")]);
        assert!(matches!(written(twice, 9), Err(Error::Framing(_))));
    }

    proptest! {
        /// However little is taken at once, and whatever the sizes of the pieces, all of them arrive in their order.
        #[test]
        fn all_of_it_is_written(sizes in prop::collection::vec(0_usize..5000, 0..8), most in 1_usize..6000, chunked: bool) {
            let pieces: Vec<Vec<u8>> = sizes.iter().zip(b'a'..).map(|(&size, byte)| vec![byte; size]).collect();
            let mut frames: Vec<_> = pieces.iter().map(|piece| Frame::data(piece.clone().into())).collect();
            if chunked {
                frames.push(Frame::trailers(HeaderMap::new()));
            }
            let bytes = written(request(Method::PUT, &[], frames), most).unwrap();
            let head = bytes.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
            let mut expected = Vec::new();
            for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
                if chunked {
                    expected.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
                }
                expected.extend_from_slice(piece);
                if chunked {
                    expected.extend_from_slice(b"\r\n");
                }
            }
            if chunked {
                expected.extend_from_slice(b"0\r\n\r\n");
            }
            prop_assert!(bytes[head..] == expected, "{} bytes", bytes.len());
        }
    }
}
