//! The body of an answer, taken from the bytes as they come.

use bytes::{Buf, Bytes};
use http::{HeaderMap, HeaderName, HeaderValue};
use http_body::{Frame, SizeHint};

use super::Error;
use crate::chunked::Chunked;
use crate::client_stream::framing::HeadLimits;

/// Limits on trailers.
const TRAILERS: HeadLimits = HeadLimits { bytes: 32 << 10, lines: 100 };

/// What of a body is still to come.
#[derive(Debug)]
pub(crate) enum Remaining {
    /// So many bytes.
    Length(u64),
    /// Chunks; and what has come of the trailers.
    Chunked(Chunked, Vec<u8>),
    /// All until the connection closes.
    UntilClose,
    /// Nothing.
    Nothing,
}

impl Remaining {
    pub(crate) fn is_end(&self) -> bool {
        matches!(self, Self::Nothing)
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        match self {
            Self::Nothing => SizeHint::with_exact(0),
            Self::Length(left) => SizeHint::with_exact(*left),
            Self::Chunked(..) | Self::UntilClose => SizeHint::default(),
        }
    }

    /// The next piece in the bytes that have come; `None`: more is needed, or it has ended.
    ///
    /// # Errors
    /// If chunks or trailers are broken.
    pub(super) fn next(&mut self, came: &mut Bytes) -> Result<Option<Frame<Bytes>>, Error> {
        if came.is_empty() {
            return Ok(None);
        }
        match self {
            Self::Nothing => Ok(None),
            Self::UntilClose => Ok(Some(Frame::data(std::mem::take(came)))),
            Self::Length(left) => {
                let piece = came.split_to(usize::try_from(*left).map_or(came.len(), |left| left.min(came.len())));
                *left -= piece.len() as u64;
                if *left == 0 {
                    *self = Self::Nothing;
                }
                Ok(Some(Frame::data(piece)))
            }
            Self::Chunked(chunked, trailers) => {
                while let Some(&byte) = came.first() {
                    let before = chunked.padded(byte);
                    let (taken, next) = before.advance(came, TRAILERS).map_err(Error::Chunks)?;
                    if before.is_trailer() {
                        trailers.push(byte);
                    }
                    let Some(next) = next else {
                        let trailers = read_trailers(trailers)?;
                        came.advance(taken);
                        *self = Self::Nothing;
                        return Ok((!trailers.is_empty()).then(|| Frame::trailers(trailers)));
                    };
                    *chunked = next;
                    match before.is_data() {
                        true => return Ok(Some(Frame::data(came.split_to(taken)))),
                        false => came.advance(taken),
                    }
                }
                Ok(None)
            }
        }
    }

    /// The connection has closed.
    ///
    /// # Errors
    /// If that is not the end.
    pub(super) fn close(&mut self) -> Result<(), Error> {
        match self {
            Self::UntilClose | Self::Nothing => {
                *self = Self::Nothing;
                Ok(())
            }
            Self::Length(_) | Self::Chunked(..) => Err(Error::Closed),
        }
    }
}

/// Header lines and the empty line behind them.
fn read_trailers(text: &[u8]) -> Result<HeaderMap, Error> {
    let mut lines = [httparse::EMPTY_HEADER; TRAILERS.lines];
    let lines = match httparse::parse_headers(text, &mut lines).map_err(Error::Head)? {
        httparse::Status::Complete((_, lines)) => lines,
        httparse::Status::Partial => return Err(Error::Head(httparse::Error::NewLine)),
    };
    let mut trailers = HeaderMap::with_capacity(lines.len());
    for line in lines {
        let name =
            HeaderName::from_bytes(line.name.as_bytes()).map_err(|_| Error::Head(httparse::Error::HeaderName))?;
        let value = HeaderValue::from_bytes(line.value).map_err(|_| Error::Head(httparse::Error::HeaderValue))?;
        trailers.append(name, value);
    }
    Ok(trailers)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// All of a body that comes in these pieces: its data, its trailers, and what is left behind it.
    fn all(mut body: Remaining, pieces: &[&[u8]]) -> Result<(Vec<u8>, HeaderMap, Vec<u8>), Error> {
        let (mut data, mut trailers, mut left) = (Vec::new(), HeaderMap::new(), Vec::new());
        for piece in pieces {
            let mut came = Bytes::copy_from_slice(piece);
            while !body.is_end() {
                match body.next(&mut came)?.map(Frame::into_data) {
                    Some(Ok(piece)) => data.extend_from_slice(&piece),
                    Some(Err(frame)) => trailers = frame.into_trailers().unwrap(),
                    None => break,
                }
            }
            left.extend_from_slice(&came);
        }
        body.close()?;
        Ok((data, trailers, left))
    }

    fn chunked() -> Remaining {
        Remaining::Chunked(Chunked::new(), Vec::new())
    }

    const CHUNKS: &[u8] =
        b"3\r\nabc\r\n00A ;x=\"y\"\r\n0123456789\r\n1  \r\nd\r\n0\r\nx-sum: 1\r\nx-sum: 2\r\n\r\nrest";

    #[test]
    fn a_body_of_chunks_is_their_data_and_the_trailers() {
        let (data, trailers, left) = all(chunked(), &[CHUNKS]).unwrap();
        assert_eq!((&data[..], &left[..]), (&b"abc0123456789d"[..], &b"rest"[..]));
        assert_eq!(trailers.get_all("x-sum").iter().collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(all(chunked(), &[b"0\r\n\r\n"]).unwrap(), (vec![], HeaderMap::new(), vec![]));
    }

    proptest! {
        #[test]
        fn however_it_is_cut(cuts in prop::collection::vec(1_usize..9, 1..30)) {
            let (mut pieces, mut rest, mut cuts) = (Vec::new(), CHUNKS, cuts.into_iter().cycle());
            while !rest.is_empty() {
                let (piece, behind) = rest.split_at(cuts.next().unwrap_or(1).min(rest.len()));
                pieces.push(piece);
                rest = behind;
            }
            prop_assert_eq!(all(chunked(), &pieces).unwrap(), all(chunked(), &[CHUNKS]).unwrap());
        }
    }

    #[test]
    fn a_body_that_breaks_off_is_not_whole() {
        for n in 0..CHUNKS.len() - b"rest".len() {
            assert!(matches!(all(chunked(), &[&CHUNKS[..n]]), Err(Error::Closed)), "{n} bytes");
        }
        assert!(matches!(all(Remaining::Length(5), &[b"1234"]), Err(Error::Closed)));
        assert_eq!(all(Remaining::Length(5), &[b"12", b"3456"]).unwrap().0, b"12345");
        assert_eq!(all(Remaining::UntilClose, &[b"12", b"3456"]).unwrap().0, b"123456");
    }

    #[test]
    fn broken_chunks_are_found() {
        for bad in ["x\r\n", "1\na", "1\r\nab", "-1\r\n", "0\r\nx 1: a\r\n\r\n", "0\r\n: a\r\n\r\n", "0\r\n\n"] {
            assert!(matches!(all(chunked(), &[bad.as_bytes()]), Err(Error::Chunks(_) | Error::Head(_))), "{bad:?}");
        }
        let long = format!("0\r\nx: {}\r\n\r\n", "a".repeat(TRAILERS.bytes));
        assert!(matches!(all(chunked(), &[long.as_bytes()]), Err(Error::Chunks(_))));
    }
}
