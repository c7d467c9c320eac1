//! A chunked body (RFC 9112, 7.1), byte by byte.
//!
//! Read more strictly than needed, since the next reader of the stream may read it otherwise: sizes have up to 16
//! hexadecimal digits, lines end in CR LF, a chunk ends where its size says. Trailers are header lines by their form, and
//! within the limits of heads.

use crate::client_stream::framing::{Fault, HeadLimits};

/// Where in a chunked body; with what is to come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Chunked {
    /// In a chunk's size: its value and digits so far.
    Size(u64, u8),
    /// In the extension behind the size.
    Extension(u64),
    /// Before the LF of the size's line.
    SizeEnd(u64),
    Data(u64),
    /// Before CR and LF of a chunk's end.
    DataEnd,
    DataEndLf,
    /// At the beginning of a line of the trailers; bytes so far.
    Trailer(usize),
    /// Within one.
    InTrailer(usize),
    /// Before the LF of one.
    TrailerEnd(usize),
    /// Before the last LF.
    End,
}

impl Chunked {
    /// At its beginning.
    pub(crate) fn new() -> Self {
        Self::Size(0, 0)
    }

    /// Whether data comes next.
    pub(crate) fn is_data(self) -> bool {
        matches!(self, Self::Data(_))
    }

    /// Whether the trailers have begun: header lines, and the empty line behind them.
    pub(crate) fn is_trailer(self) -> bool {
        matches!(self, Self::Trailer(_) | Self::InTrailer(_) | Self::TrailerEnd(_) | Self::End)
    }

    /// Servers pad sizes with blanks: if this byte is one, it is taken as the beginning of an extension.
    pub(crate) fn padded(self, byte: u8) -> Self {
        match (self, byte) {
            (Self::Size(size, 1..), b' ' | b'\t') => Self::Extension(size),
            _ => self,
        }
    }

    /// Takes some bytes, at least one; `None`: the body has ended.
    pub(crate) fn advance(self, bytes: &[u8], limits: HeadLimits) -> Result<(usize, Option<Self>), Fault> {
        let byte = bytes[0];
        let next = match (self, byte) {
            (Self::Data(left), _) => {
                let skipped = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
                let next = match left - skipped as u64 {
                    0 => Self::DataEnd,
                    left => Self::Data(left),
                };
                return Ok((skipped, Some(next)));
            }
            (Self::Size(size, digits @ 0..16), b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                let digit = char::from(byte).to_digit(16).map_or(0, u64::from);
                Self::Size(size << 4 | digit, digits + 1)
            }
            (Self::Size(size, 1..) | Self::Extension(size), b'\r') => Self::SizeEnd(size),
            (Self::Size(size, 1..), b';') => Self::Extension(size),
            (Self::Extension(size), b'\t' | b' '..=b'~' | 0x80..) => Self::Extension(size),
            (Self::SizeEnd(0), b'\n') => Self::Trailer(0),
            (Self::SizeEnd(size), b'\n') => Self::Data(size),
            (Self::DataEnd, b'\r') => Self::DataEndLf,
            (Self::DataEndLf, b'\n') => Self::Size(0, 0),
            (Self::Trailer(_), b'\r') => Self::End,
            (Self::End, b'\n') => return Ok((1, None)),
            (Self::Trailer(seen) | Self::InTrailer(seen) | Self::TrailerEnd(seen), _) if seen >= limits.bytes => {
                return Err(Fault::HeadTooLarge);
            }
            (Self::InTrailer(seen), b'\r') => Self::TrailerEnd(seen + 1),
            (Self::TrailerEnd(seen), b'\n') => Self::Trailer(seen + 1),
            (Self::Trailer(seen), b'!'..=b'~') => Self::InTrailer(seen + 1),
            (Self::InTrailer(seen), b'\t' | b' '..=b'~' | 0x80..) => Self::InTrailer(seen + 1),
            (Self::Size(..) | Self::Extension(_) | Self::SizeEnd(_), _) => {
                return Err(Fault::Malformed("a chunk's size is not up to 16 hexadecimal digits and CR LF"));
            }
            (Self::DataEnd | Self::DataEndLf, _) => {
                return Err(Fault::Malformed("a chunk does not end where its size says"));
            }
            _ => return Err(Fault::Malformed("the trailers are no header lines that end in CR LF")),
        };
        Ok((1, Some(next)))
    }
}
