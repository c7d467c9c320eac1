//! Where the messages of an HTTP/1 client begin and end, read more strictly than needed.
//!
//! Request smuggling lives on two readers of one stream that find different ends of a message. So nothing that could
//! be read in two ways goes any further: [`Framing`] follows the stream in front of the HTTP library and names the
//! first [`Fault`] in it. Its rules are those of RFC 9112 without the liberties that it grants:
//! - lines end in CR LF (2.2), none begins with a blank (5.2, "obs-fold"), a name is followed by its colon (5.1);
//! - no control characters, but for tabs in values; method and names are tokens, the target has no blanks;
//! - at most one `content-length`, digits only; or one `transfer-encoding: chunked`; never both, and the latter not in
//!   HTTP/1.0 (6.1 to 6.3);
//! - chunk sizes have up to 16 hexadecimal digits, chunks end in CR LF (7.1);
//! - heads, and trailers, within [`HeadLimits`].
//!
//! A head is good as a whole or not at all, so an incomplete one is to be held back. Bodies pass as they come; of a
//! known length they are skipped, not looked at. Every byte of a head is looked at once: O(bytes), however they are cut.

use memchr::memchr;

use crate::chunked::Chunked;

/// Limits on the head of a request, and on trailers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct HeadLimits {
    /// Most bytes, line ends included.
    pub(crate) bytes: usize,
    /// Most header lines.
    pub(crate) lines: usize,
}

/// Longest request target: what the HTTP library takes.
const LONGEST_TARGET: usize = u16::MAX as usize - 1;

/// First bytes of an HTTP/2 connection (RFC 9113, 3.4).
const HTTP2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// What is wrong with a request's bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// Not HTTP, or HTTP that others could read differently; with what is wrong.
    Malformed(&'static str),
    /// Transfer codings beside `chunked`.
    Coding,
    /// The request line is too long.
    TargetTooLong,
    /// The head, or the trailers, have more bytes or lines than the limits.
    HeadTooLarge,
    /// The head did not come in time (seen by the clock, not by [`Framing`]).
    HeadTooSlow,
}

/// How far bytes may go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// So many of them; what follows is to be held back and shown again, with more behind it.
    Pass(usize),
    /// So many of them, then no more.
    Fault {
        good: usize,
        fault: Fault,
        /// Whether it is in a body whose head has passed.
        in_body: bool,
    },
}

/// The framing of one connection.
#[derive(Debug)]
pub(crate) struct Framing {
    limits: HeadLimits,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// At the very beginning: HTTP/2 is still possible.
    First,
    /// In a head, the first bytes of which are to be shown again.
    Head(Head),
    /// So many bytes of a body are still to come.
    Body(u64),
    /// In a chunked body.
    Chunked(Chunked),
    /// After a request that asks for another protocol: what follows is of that, or the next request.
    Asked,
    /// HTTP/2.
    Http2,
    /// Bytes of the protocol that was switched to.
    Other,
}

/// What is known of a head so far.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Head {
    /// Bytes of whole lines that were looked at.
    checked: usize,
    /// Bytes that were searched for the end of a line.
    searched: usize,
    /// Lines so far, the request line included.
    lines: usize,
    is_http10: bool,
    length: Option<u64>,
    coding: Coding,
    upgrade: bool,
    connection_upgrade: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Coding {
    #[default]
    None,
    Chunked,
    /// Others, not `chunked` at the end so far.
    Unframed,
    /// Others, and `chunked` at the end.
    Others,
}

impl Framing {
    pub(crate) fn new(limits: HeadLimits) -> Self {
        Self { limits, state: State::First }
    }

    /// Looks at the bytes that were not passed yet: those of the last call that were to be held back, and more.
    pub(crate) fn advance(&mut self, bytes: &[u8]) -> Step {
        let (mut at, mut head_at) = (0, None);
        while at < bytes.len() {
            let rest = &bytes[at..];
            match self.state {
                State::Http2 | State::Other => return Step::Pass(bytes.len()),
                State::Asked => return Step::Pass(at),
                State::First if rest.starts_with(HTTP2) => self.state = State::Http2,
                State::First if HTTP2.starts_with(rest) => return Step::Pass(at),
                State::First => self.state = State::Head(Head::default()),
                State::Head(mut head) => match head.advance(rest, self.limits) {
                    Err(fault) => return Step::Fault { good: at, fault, in_body: false },
                    Ok(None) => {
                        self.state = State::Head(head);
                        return Step::Pass(at);
                    }
                    Ok(Some(next)) => {
                        head_at = Some(at);
                        at += head.checked;
                        self.state = next;
                    }
                },
                State::Body(left) => {
                    let skipped = usize::try_from(left).map_or(rest.len(), |left| left.min(rest.len()));
                    at += skipped;
                    self.state = match left - skipped as u64 {
                        0 => State::Head(Head::default()),
                        left => State::Body(left),
                    };
                }
                State::Chunked(chunked) => match chunked.advance(rest, self.limits) {
                    Err(fault) => {
                        // Nothing of a request whose fault is known along with its head needs to go anywhere.
                        return Step::Fault { good: head_at.unwrap_or(at), fault, in_body: head_at.is_none() };
                    }
                    Ok((skipped, next)) => {
                        at += skipped;
                        self.state = next.map_or(State::Head(Head::default()), State::Chunked);
                    }
                },
            }
        }
        Step::Pass(at)
    }

    /// Whether what follows depends on the answer to a request for another protocol.
    pub(crate) fn awaits_answer(&self) -> bool {
        matches!(self.state, State::Asked)
    }

    /// The answer has come: whether the protocol was switched.
    pub(crate) fn answered(&mut self, switched: bool) {
        self.state = if switched { State::Other } else { State::Head(Head::default()) };
    }

    /// Whether it is HTTP/2.
    pub(crate) fn is_http2(&self) -> bool {
        matches!(self.state, State::Http2)
    }

    /// Whether another protocol is spoken: HTTP/2, or the one that was switched to.
    pub(crate) fn is_other(&self) -> bool {
        matches!(self.state, State::Http2 | State::Other)
    }

    /// Whether nothing has come yet.
    pub(crate) fn is_untouched(&self) -> bool {
        matches!(self.state, State::First)
    }

    /// Whether more of a body is to come.
    pub(crate) fn is_in_body(&self) -> bool {
        matches!(self.state, State::Body(_) | State::Chunked(_))
    }
}

impl Head {
    /// Looks at the lines that have come; `bytes` begin with the head. `None`: it is not complete.
    fn advance(&mut self, bytes: &[u8], limits: HeadLimits) -> Result<Option<State>, Fault> {
        while let Some(end) = memchr(b'\n', &bytes[self.searched..]) {
            let end = self.searched + end;
            self.within(end + 1, limits)?;
            let line = bytes[self.checked..end]
                .strip_suffix(b"\r")
                .ok_or(Fault::Malformed("a line of the head ends in LF without CR"))?;
            (self.checked, self.searched) = (end + 1, end + 1);
            match (line.is_empty(), self.lines) {
                // RFC 9112 2.2: empty lines before a request are to be skipped.
                (true, 0) => {}
                (true, _) => return self.end().map(Some),
                (false, 0) => self.request_line(line)?,
                (false, lines) if lines > limits.lines => return Err(Fault::HeadTooLarge),
                (false, _) => self.header(line)?,
            }
            self.lines += usize::from(!line.is_empty());
        }
        self.searched = bytes.len();
        self.within(bytes.len(), limits).map(|()| None)
    }

    fn within(&self, bytes: usize, limits: HeadLimits) -> Result<(), Fault> {
        match bytes > limits.bytes {
            false => Ok(()),
            true if self.lines == 0 => Err(Fault::TargetTooLong),
            true => Err(Fault::HeadTooLarge),
        }
    }

    /// `method SP target SP HTTP/1.x`.
    fn request_line(&mut self, line: &[u8]) -> Result<(), Fault> {
        let method = memchr(b' ', line)
            .filter(|&end| is_token(&line[..end]))
            .filter(|&end| line[..end] != *REPLACED_METHOD.as_bytes());
        let method = method.ok_or(Fault::Malformed("the request line does not begin with a method and a blank"))?;
        let (target, version) = match line[method + 1..].split_last_chunk::<9>() {
            Some((target, version)) if !target.is_empty() && all(target, |byte| (byte > b' ') & (byte != 0x7f)) => {
                (target, version)
            }
            _ => return Err(Fault::Malformed("the request line is not `method target HTTP/1.1`")),
        };
        let path = &target[..memchr(b'?', target).unwrap_or(target.len())];
        if !all(target, |byte| (byte != b'<') & (byte != b'>')) || memchr(b'`', path).is_some() {
            return Err(Fault::Malformed(
                "the request's target has <, > or ` in it, which are written as %3C, %3E, %60",
            ));
        }
        if str::from_utf8(target).is_err() {
            return Err(Fault::Malformed("the request's target is not UTF-8: other bytes are written as %XX"));
        }
        if target.len() > LONGEST_TARGET {
            return Err(Fault::TargetTooLong);
        }
        self.is_http10 = match version {
            b" HTTP/1.1" => false,
            b" HTTP/1.0" => true,
            _ => return Err(Fault::Malformed("the request line is not `method target HTTP/1.1`")),
        };
        Ok(())
    }

    fn header(&mut self, line: &[u8]) -> Result<(), Fault> {
        let name = memchr(b':', line).filter(|&end| is_token(&line[..end]));
        let name = name.ok_or(Fault::Malformed("a header line does not begin with a name and a colon"))?;
        let value = &line[name + 1..];
        if !all(value, |byte| (byte >= b' ') & (byte != 0x7f) | (byte == b'\t')) {
            return Err(Fault::Malformed("a header's value has a control character"));
        }
        let is = |known: &[u8]| line[..name].eq_ignore_ascii_case(known);
        match name {
            7 if is(b"upgrade") => self.upgrade |= !has_token(value, b"h2c"),
            10 if is(b"connection") => self.connection_upgrade |= has_token(value, b"upgrade"),
            14 if is(b"content-length") => {
                let length = digits(value.trim_ascii());
                let length = length.ok_or(Fault::Malformed("`content-length` is not one number below 2^63"))?;
                if self.length.replace(length).is_some() {
                    return Err(Fault::Malformed("`content-length` is there more than once"));
                }
            }
            17 if is(b"transfer-encoding") => self.coding = self.coding.then(value)?,
            _ => {}
        }
        Ok(())
    }

    /// What follows the head.
    fn end(&self) -> Result<State, Fault> {
        match (self.coding, self.length) {
            (Coding::None, None | Some(0)) if self.upgrade && self.connection_upgrade => Ok(State::Asked),
            (Coding::None, length) => Ok(match length {
                None | Some(0) => State::Head(Self::default()),
                Some(length) => State::Body(length),
            }),
            (_, Some(_)) => Err(Fault::Malformed("both `content-length` and `transfer-encoding` are there")),
            _ if self.is_http10 => Err(Fault::Malformed("`transfer-encoding` in HTTP/1.0")),
            (Coding::Chunked, None) => Ok(State::Chunked(Chunked::new())),
            (Coding::Others, None) => Err(Fault::Coding),
            (Coding::Unframed, None) => Err(Fault::Malformed("`transfer-encoding` does not end in `chunked`")),
        }
    }
}

impl Coding {
    /// With another line of `transfer-encoding`.
    fn then(self, value: &[u8]) -> Result<Self, Fault> {
        value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).try_fold(self, |before, coding| {
            let is_chunked = coding.eq_ignore_ascii_case(b"chunked");
            match before {
                Self::Chunked | Self::Others => {
                    Err(Fault::Malformed("something follows `chunked` in `transfer-encoding`"))
                }
                Self::None if is_chunked => Ok(Self::Chunked),
                Self::Unframed if is_chunked => Ok(Self::Others),
                Self::None | Self::Unframed => Ok(Self::Unframed),
            }
        })
    }
}

/// The request that stands for one that is refused: its method is none that [`Framing`] lets pass.
pub(crate) const REPLACED: &[u8] = b"- / HTTP/1.1\r\nconnection: close\r\n\r\n";
/// Its method.
pub(crate) const REPLACED_METHOD: &str = "-";

/// Bytes of tokens (RFC 9110, 5.6.2).
const TOKEN: [bool; 256] = {
    let mut is_token = [false; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        is_token[byte as usize] = byte.is_ascii_alphanumeric();
        byte += 1;
    }
    let marks = b"!#$%&'*+-.^_`|~";
    let mut i = 0;
    while i < marks.len() {
        is_token[marks[i] as usize] = true;
        i += 1;
    }
    is_token
};

fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && all(bytes, |byte| TOKEN[usize::from(byte)])
}

/// As `Iterator::all`, but looks at all of them: without a branch per byte it takes many at once.
fn all(bytes: &[u8], holds: impl Fn(u8) -> bool) -> bool {
    bytes.iter().fold(true, |so_far, &byte| so_far & holds(byte))
}

fn has_token(value: &[u8], token: &[u8]) -> bool {
    value.split(|&byte| byte == b',').any(|one| one.trim_ascii().eq_ignore_ascii_case(token))
}

/// A number below 2^63 in digits.
pub(crate) fn digits(text: &[u8]) -> Option<u64> {
    let text = str::from_utf8(text).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    text.parse().ok().filter(|&number: &u64| number < 1 << 63)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: HeadLimits = HeadLimits { bytes: 200, lines: 5 };

    fn framing() -> Framing {
        Framing::new(LIMITS)
    }

    fn fault(text: &str) -> Option<Fault> {
        match framing().advance(text.as_bytes()) {
            Step::Pass(_) => None,
            Step::Fault { fault, .. } => Some(fault),
        }
    }

    #[test]
    fn messages_are_followed_to_their_ends() {
        let stream = "GET / HTTP/1.1\r\nhost: a\r\n\r\n\
                      POST /a HTTP/1.0\r\ncontent-length: 3\r\n\r\nabc\
                      \r\nPOST /b HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n3;x=\"y\"\r\nabc\r\n00\r\nx-sum: 1\r\n\r\n\
                      GET /c HTTP/1.1\r\n\r\n";
        let mut framing = framing();
        assert_eq!(framing.advance(stream.as_bytes()), Step::Pass(stream.len()));
        assert!(!framing.is_in_body());
        let partial = "GET / HTTP/1.1\r\n\r\nGET / HT";
        assert_eq!(framing.advance(partial.as_bytes()), Step::Pass(18));
        assert_eq!(framing.advance(b"GET / HTTP/1.1\r\ncontent-length: 2\r\n\r\n1"), Step::Pass(38));
        assert!(framing.is_in_body());
    }

    #[test]
    fn what_can_be_read_in_two_ways_is_malformed() {
        let head = |headers: &str| format!("POST / HTTP/1.1\r\nhost: a\r\n{headers}\r\n\r\n");
        for bad in [
            head("content-length: 4\r\ntransfer-encoding: chunked"),
            head("transfer-encoding: chunked\r\ncontent-length: 4"),
            head("content-length: 4\r\ncontent-length: 4"),
            head("content-length: 4\r\ncontent-length: 5"),
            head("content-length: 4, 4"),
            head("content-length: +4"),
            head("content-length: -1"),
            head("content-length: 0x4"),
            head("content-length:"),
            head("content-length: 9223372036854775808"),
            head("transfer-encoding: chunked, identity"),
            head("transfer-encoding: chunked, chunked"),
            head("transfer-encoding: identity"),
            head("transfer-encoding: xchunked"),
            head("transfer-encoding:"),
            head("transfer-encoding: chunked\r\ntransfer-encoding: identity"),
            head("transfer-encoding : chunked"),
            head("x: a\r\n folded"),
            head("x: a\r\n\tfolded"),
            head("x: a\0b"),
            head("x: a\rb"),
            head("x: a\nx: b"),
            head("x"),
            head(": a"),
            head("x y: a"),
            head(" x: a"),
            head("x: a").replace("\r\n", "\n"),
            head("x: a").replace("HTTP/1.1", "HTTP/1.2"),
            head("x: a").replace("HTTP/1.1", "HTTP/2.0"),
            head("x: a").replace("POST", "PO(ST"),
            head("x: a").replace("POST", "- "),
            head("x: a").replace("POST", "-"),
            head("x: a").replace("POST /", "POST"),
            head("x: a").replace("POST /", "POST / /"),
            head("x: a").replace("POST /", "POST  /"),
            head("x: a").replace("POST /", "POST /\0"),
            head("transfer-encoding: chunked").replace("HTTP/1.1", "HTTP/1.0"),
        ] {
            assert!(matches!(fault(&bad), Some(Fault::Malformed(_))), "{bad:?}: {:?}", fault(&bad));
        }
        assert_eq!(fault(&head("transfer-encoding: gzip, chunked")), Some(Fault::Coding));
        assert_eq!(fault(&head("transfer-encoding: gzip\r\ntransfer-encoding: chunked")), Some(Fault::Coding));
    }

    #[test]
    fn broken_chunks_are_found() {
        for body in [
            "x\r\n",
            "\r\n",
            "1\na",
            "1 \r\na\r\n",
            "-1\r\n",
            "0x1\r\na\r\n",
            "00000000000000001\r\n",
            "1\r\nab",
            "1\r\na\n0\r\n",
            "1\r\r\n",
            "1;a\nb\r\n",
            "0\r\nx: 1\n\r\n",
            "0\r\n x: 1\r\n\r\n",
            "0\r\n\n",
            "0\r\nx: \0\r\n",
        ] {
            let head = "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n";
            let together = framing().advance(format!("{head}{body}").as_bytes());
            assert!(
                matches!(together, Step::Fault { good: 0, in_body: false, fault: Fault::Malformed(_) }),
                "{body:?}: {together:?}"
            );
            let mut apart = framing();
            assert_eq!(apart.advance(head.as_bytes()), Step::Pass(head.len()));
            let step = apart.advance(body.as_bytes());
            assert!(matches!(step, Step::Fault { in_body: true, .. }), "{body:?}: {step:?}");
        }
    }

    #[test]
    fn heads_and_trailers_have_limits() {
        let line = |n| format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(n));
        assert_eq!(fault(&line(200 - 18)), None);
        assert_eq!(fault(&line(200 - 17)), Some(Fault::HeadTooLarge));
        assert_eq!(fault(&line(200 - 15)), Some(Fault::TargetTooLong));
        let headers = |n| format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(n));
        assert_eq!(fault(&headers(5)), None);
        assert_eq!(fault(&headers(6)), Some(Fault::HeadTooLarge));
        assert_eq!(fault(&format!("GET / HTTP/1.1\r\na: {}", "b".repeat(200))), Some(Fault::HeadTooLarge));
        let trailers =
            |n| format!("GET / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\na: {}\r\n\r\n", "b".repeat(n));
        assert_eq!(fault(&trailers(200 - 5)), None);
        assert_eq!(fault(&trailers(201 - 5)), Some(Fault::HeadTooLarge));
    }

    #[test]
    fn http2_is_known_by_its_first_bytes_and_not_looked_into() {
        let mut framing = framing();
        assert_eq!(framing.advance(&HTTP2[..5]), Step::Pass(0));
        assert_eq!(framing.advance(HTTP2), Step::Pass(HTTP2.len()));
        assert_eq!(framing.advance(b"\0\n\0"), Step::Pass(3));
        assert!(matches!(fault("PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n"), Some(Fault::Malformed(_))));
    }

    #[test]
    fn what_follows_a_request_for_another_protocol_waits_for_the_answer() {
        let ask = "GET / HTTP/1.1\r\nconnection: keep-alive, Upgrade\r\nupgrade: WebSocket\r\n\r\n";
        let mut framing = framing();
        assert_eq!(framing.advance(format!("{ask}\0\n").as_bytes()), Step::Pass(ask.len()));
        assert!(framing.awaits_answer());
        framing.answered(true);
        assert_eq!(framing.advance(b"\0\n"), Step::Pass(2));
        framing.answered(false);
        assert!(matches!(framing.advance(b"\0\n"), Step::Fault { .. }));
        for ignored in [ask.replace("WebSocket", "h2c"), ask.replace(", Upgrade", "")] {
            assert_eq!(
                fault(&format!("{ignored}\0\n")),
                Some(Fault::Malformed("a line of the head ends in LF without CR"))
            );
        }
    }

    proptest! {
        /// However a stream is cut, the same bytes pass and the same fault is found.
        #[test]
        fn cuts_make_no_difference(
            messages in prop::collection::vec(prop::sample::select(vec![
                "GET / HTTP/1.1\r\nhost: a\r\n\r\n",
                "\r\nPOST / HTTP/1.1\r\ncontent-length: 5\r\n\r\n1\r\n\r\n",
                "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\nA\r\n0123456789\r\n0\r\nx: 1\r\n\r\n",
                "GET / HTTP/1.1\r\nhost: a\n\r\n",
                "POST / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 1\r\n\r\n1",
            ]), 1..5),
            cuts in prop::collection::vec(1_usize..20, 1..40),
        ) {
            let stream = messages.concat().into_bytes();
            let (good, fault) = match framing().advance(&stream) {
                Step::Pass(good) => (good, None),
                Step::Fault { good, fault, .. } => (good, Some(fault)),
            };
            let (mut framing, mut passed, mut held, mut found) = (framing(), 0, Vec::new(), None);
            let (mut at, mut cuts) = (0, cuts.into_iter().cycle());
            while at < stream.len() && found.is_none() {
                let end = (at + cuts.next().unwrap_or(1)).min(stream.len());
                held.extend_from_slice(&stream[at..end]);
                at = end;
                match framing.advance(&held) {
                    Step::Pass(n) => { passed += n; held.drain(..n); }
                    Step::Fault { good, fault, .. } => { passed += good; found = Some(fault); }
                }
            }
            prop_assert_eq!((passed, found), (good, fault));
        }
    }
}
