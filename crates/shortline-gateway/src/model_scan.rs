//! Finds the top-level `model` member of a JSON object that arrives in pieces.
//!
//! A state machine over chunks: it keeps a few bytes of state, decodes nothing but the member's value (and the first
//! bytes of each top-level key), and gives the same answer wherever the chunks are cut. Strings it is not interested
//! in are crossed with `memchr`, so megabytes of messages in front of `model` cost little.
//!
//! Guarantees, for a body that is valid JSON: the answer is the value of the *first* top-level member whose decoded
//! key is `model` (`"mod\u0065l"` counts, a `model` inside another member does not). Not a validator: other members
//! are measured, not checked. When a key occurs twice the first one decides; some servers take the last one, and
//! then answer for themselves.

use memchr::memchr2;

/// What is known after a piece.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Scan {
    /// Nothing yet; feed the next piece.
    More,
    /// The value of `model`.
    Found(String),
    /// There is no usable `model`, whatever follows.
    Absent(Absent),
}

/// Why a body gives no `model`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Absent {
    /// The first byte that is not white space is no `{`: some other kind of body.
    NotAnObject,
    /// An object without a top-level member `model`.
    NoMember,
    /// `model` is there, but is no string.
    NotAString,
    /// Not JSON.
    Malformed {
        /// The byte, counted from 0, that cannot stand where it does.
        at: u64,
    },
}

const MEMBER: &[u8] = b"model";

/// The scanner's state between pieces.
#[derive(Debug)]
pub(crate) struct ModelScan {
    state: State,
    text: Text,
    /// Bytes of earlier pieces.
    seen: u64,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum State {
    /// Before the object.
    Start,
    /// After `{`: a key or `}`.
    FirstKey,
    /// After `,`: a key.
    NextKey,
    InKey,
    Colon {
        is_model: bool,
    },
    Value {
        is_model: bool,
    },
    InModel,
    /// Inside a string that does not matter, `depth` containers below the object.
    InString {
        depth: u32,
        escaped: bool,
    },
    /// Inside a nested container, at least one deep.
    Nested {
        depth: u32,
    },
    /// Inside a number, `true`, `false` or `null`.
    Bare,
    /// After a value: `,` or `}`.
    AfterValue,
}

impl ModelScan {
    pub(crate) fn new() -> Self {
        Self { state: State::Start, text: Text::default(), seen: 0 }
    }

    /// Reads the next piece. After an answer other than [`Scan::More`] there is nothing left to feed.
    pub(crate) fn feed(&mut self, piece: &[u8]) -> Scan {
        let mut i = 0;
        while i < piece.len() {
            match self.step(&piece[i..]) {
                Ok(Step::On(read)) => i += read,
                Ok(Step::Done(answer)) => return answer,
                Err(BadByte(offset)) => {
                    return Scan::Absent(Absent::Malformed { at: self.seen + (i + offset) as u64 });
                }
            }
        }
        self.seen += piece.len() as u64;
        Scan::More
    }

    /// The body is over and `model` was not found: why.
    pub(crate) fn end(&self) -> Absent {
        match self.state {
            State::Start => Absent::NotAnObject,
            _ => Absent::Malformed { at: self.seen },
        }
    }

    /// Reads at least one byte of `rest`, which is not empty.
    fn step(&mut self, rest: &[u8]) -> Result<Step, BadByte> {
        match self.state {
            State::InString { depth, escaped } => return Ok(self.skip_string(rest, depth, escaped)),
            State::Nested { depth } => return Ok(self.skip_nested(rest, depth)),
            State::Bare => return Ok(self.skip_bare(rest)),
            State::InKey => {
                let (read, closed) = self.text.push(rest, MEMBER.len())?;
                if closed {
                    self.state = State::Colon { is_model: self.text.decoded == MEMBER };
                }
                return Ok(Step::On(read));
            }
            State::InModel => {
                let (read, closed) = self.text.push(rest, usize::MAX)?;
                return if closed { self.text.finish(read).map(Step::Done) } else { Ok(Step::On(read)) };
            }
            _ => {}
        }
        let byte = rest[0];
        if matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
            return Ok(Step::On(1));
        }
        self.state = match (self.state, byte) {
            (State::Start, b'{') => State::FirstKey,
            (State::Start, _) => return Ok(Step::Done(Scan::Absent(Absent::NotAnObject))),
            (State::FirstKey | State::NextKey, b'"') => {
                self.text = Text::reusing(std::mem::take(&mut self.text.decoded));
                State::InKey
            }
            (State::FirstKey | State::AfterValue, b'}') => return Ok(Step::Done(Scan::Absent(Absent::NoMember))),
            (State::Colon { is_model }, b':') => State::Value { is_model },
            (State::Value { is_model: true }, b'"') => {
                self.text = Text::reusing(std::mem::take(&mut self.text.decoded));
                State::InModel
            }
            (State::Value { is_model: false }, b'"') => State::InString { depth: 0, escaped: false },
            (State::Value { is_model: false }, b'{' | b'[') => State::Nested { depth: 1 },
            (State::Value { is_model: false }, b'-' | b'0'..=b'9' | b't' | b'f' | b'n') => State::Bare,
            (State::Value { is_model: true }, b'{' | b'[' | b'-' | b'0'..=b'9' | b't' | b'f' | b'n') => {
                return Ok(Step::Done(Scan::Absent(Absent::NotAString)));
            }
            (State::AfterValue, b',') => State::NextKey,
            _ => return Err(BadByte(0)),
        };
        Ok(Step::On(1))
    }

    fn skip_string(&mut self, rest: &[u8], depth: u32, escaped: bool) -> Step {
        if escaped {
            self.state = State::InString { depth, escaped: false };
            return Step::On(1);
        }
        let Some(at) = memchr2(b'"', b'\\', rest) else { return Step::On(rest.len()) };
        self.state = match (rest[at], depth) {
            (b'\\', _) => State::InString { depth, escaped: true },
            (_, 0) => State::AfterValue,
            (_, _) => State::Nested { depth },
        };
        Step::On(at + 1)
    }

    fn skip_nested(&mut self, rest: &[u8], mut depth: u32) -> Step {
        for (i, byte) in rest.iter().enumerate() {
            match byte {
                b'"' => {
                    self.state = State::InString { depth, escaped: false };
                    return Step::On(i + 1);
                }
                b'{' | b'[' => depth = depth.saturating_add(1),
                b'}' | b']' if depth == 1 => {
                    self.state = State::AfterValue;
                    return Step::On(i + 1);
                }
                b'}' | b']' => depth -= 1,
                _ => {}
            }
        }
        self.state = State::Nested { depth };
        Step::On(rest.len())
    }

    fn skip_bare(&mut self, rest: &[u8]) -> Step {
        let part = |b: &u8| matches!(b, b'0'..=b'9' | b'a'..=b'z' | b'E' | b'+' | b'-' | b'.');
        let end = rest.iter().position(|b| !part(b));
        if end.is_some() {
            self.state = State::AfterValue;
        }
        Step::On(end.unwrap_or(rest.len()))
    }
}

enum Step {
    /// This many bytes were read.
    On(usize),
    Done(Scan),
}

/// Offset of a byte that cannot stand where it does.
struct BadByte(usize);

/// Decodes one JSON string, piece by piece, its opening quote already read.
#[derive(Default, Debug)]
struct Text {
    decoded: Vec<u8>,
    escape: Escape,
    /// The first half of a surrogate pair whose second half has to come next.
    high: Option<u16>,
}

#[derive(Clone, Copy, Default, Debug)]
enum Escape {
    #[default]
    None,
    Backslash,
    Unicode {
        digits: u8,
        value: u16,
    },
}

impl Text {
    fn reusing(mut buffer: Vec<u8>) -> Self {
        buffer.clear();
        Self { decoded: buffer, ..Self::default() }
    }

    /// Reads up to the closing quote or the end of `rest`; returns how much and whether the string is closed. Stops
    /// storing once more than `enough` bytes are decoded.
    fn push(&mut self, rest: &[u8], enough: usize) -> Result<(usize, bool), BadByte> {
        let mut i = 0;
        while i < rest.len() {
            match self.escape {
                Escape::None => {
                    let end = memchr2(b'"', b'\\', &rest[i..]).map_or(rest.len(), |n| i + n);
                    if let Some(control) = rest[i..end].iter().position(|&b| b < 0x20) {
                        return Err(BadByte(i + control));
                    }
                    if end > i {
                        self.store(&rest[i..end], enough).map_err(|()| BadByte(i))?;
                    }
                    match rest.get(end) {
                        None => return Ok((end, false)),
                        Some(b'"') if self.high.is_some() => return Err(BadByte(end)),
                        Some(b'"') => return Ok((end + 1, true)),
                        Some(_) => self.escape = Escape::Backslash,
                    }
                    i = end + 1;
                }
                Escape::Backslash => {
                    self.escape = Escape::None;
                    let plain = match rest[i] {
                        byte @ (b'"' | b'\\' | b'/') => byte,
                        b'b' => 8,
                        b'f' => 12,
                        b'n' => b'\n',
                        b'r' => b'\r',
                        b't' => b'\t',
                        b'u' => {
                            self.escape = Escape::Unicode { digits: 0, value: 0 };
                            i += 1;
                            continue;
                        }
                        _ => return Err(BadByte(i)),
                    };
                    self.store(&[plain], enough).map_err(|()| BadByte(i))?;
                    i += 1;
                }
                Escape::Unicode { digits, value } => {
                    let digit = char::from(rest[i]).to_digit(16).ok_or(BadByte(i))?;
                    let value = value << 4 | u16::try_from(digit).expect("a hexadecimal digit is below 16");
                    self.escape = Escape::Unicode { digits: digits + 1, value };
                    if digits == 3 {
                        self.escape = Escape::None;
                        self.unit(value, enough).map_err(|()| BadByte(i))?;
                    }
                    i += 1;
                }
            }
        }
        Ok((i, false))
    }

    /// Takes one UTF-16 unit of a `\u` escape.
    fn unit(&mut self, unit: u16, enough: usize) -> Result<(), ()> {
        let code = match (self.high.take(), unit) {
            (None, 0xD800..=0xDBFF) => {
                self.high = Some(unit);
                return Ok(());
            }
            (Some(high), 0xDC00..=0xDFFF) => 0x1_0000 + ((u32::from(high) - 0xD800) << 10 | (u32::from(unit) - 0xDC00)),
            (Some(_), _) => return Err(()),
            (None, _) => u32::from(unit),
        };
        let character = char::from_u32(code).ok_or(())?;
        self.store(character.encode_utf8(&mut [0; 4]).as_bytes(), enough)
    }

    fn store(&mut self, bytes: &[u8], enough: usize) -> Result<(), ()> {
        if self.high.is_some() {
            return Err(());
        }
        if self.decoded.len() <= enough {
            let room = enough.saturating_add(1) - self.decoded.len();
            self.decoded.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
        Ok(())
    }

    /// The decoded string as an answer; `closing` is the offset behind its closing quote.
    fn finish(&mut self, closing: usize) -> Result<Scan, BadByte> {
        String::from_utf8(std::mem::take(&mut self.decoded)).map(Scan::Found).map_err(|_| BadByte(closing - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn scan(pieces: &[&[u8]]) -> Scan {
        let mut scan = ModelScan::new();
        for piece in pieces {
            match scan.feed(piece) {
                Scan::More => {}
                answer => return answer,
            }
        }
        Scan::Absent(scan.end())
    }

    fn whole(body: &str) -> Scan {
        scan(&[body.as_bytes()])
    }

    fn found(name: &str) -> Scan {
        Scan::Found(name.to_owned())
    }

    #[test]
    fn the_member_is_found_first_last_and_behind_everything_else() {
        assert_eq!(whole(r#"{"model":"a"}"#), found("a"));
        assert_eq!(whole(" \n{ \"n\" : 1e-3 ,\t\"model\" : \"a b\" } "), found("a b"));
        assert_eq!(whole(r#"{"m":[{"model":"x"},"]}"],"o":{"model":"y"},"model":"a"}"#), found("a"));
        assert_eq!(whole(r#"{"s":"\\\"model\":\"x\"","t":true,"u":null,"model":"a"}"#), found("a"));
    }

    #[test]
    fn escapes_in_key_and_value_are_decoded() {
        assert_eq!(whole(r#"{"\u006dod\u0065l":"a\/\u00e9\ud83d\ude00\n"}"#), found("a/é😀\n"));
        assert_eq!(whole(r#"{"model\u0000":"x","modelx":"y","mode":"z","model":"a"}"#), found("a"));
    }

    #[test]
    fn of_two_members_the_first_decides() {
        assert_eq!(whole(r#"{"model":"a","model":"b"}"#), found("a"));
        assert_eq!(whole(r#"{"model":null,"model":"b"}"#), Scan::Absent(Absent::NotAString));
    }

    #[test]
    fn bodies_without_a_model_say_why() {
        assert_eq!(whole(r#"{"a":1}"#), Scan::Absent(Absent::NoMember));
        assert_eq!(whole("{}"), Scan::Absent(Absent::NoMember));
        assert_eq!(whole(r#"{"model":7}"#), Scan::Absent(Absent::NotAString));
        assert_eq!(whole(r#"["model"]"#), Scan::Absent(Absent::NotAnObject));
        assert_eq!(whole(""), Scan::Absent(Absent::NotAnObject));
        assert_eq!(whole(r#"{"a":1"#), Scan::Absent(Absent::Malformed { at: 6 }));
        assert_eq!(whole(r#"{a:1}"#), Scan::Absent(Absent::Malformed { at: 1 }));
        assert_eq!(whole(r#"{"a" 1}"#), Scan::Absent(Absent::Malformed { at: 5 }));
        assert_eq!(whole(r#"{"a":1,}"#), Scan::Absent(Absent::Malformed { at: 7 }));
        assert_eq!(whole(r#"{"model":"\ud800"}"#), Scan::Absent(Absent::Malformed { at: 16 }));
        assert_eq!(whole("{\"model\":\"a\nb\"}"), Scan::Absent(Absent::Malformed { at: 11 }));
        assert!(matches!(scan(&[b"{\"model\":\"\xff\"}"]), Scan::Absent(Absent::Malformed { .. })));
    }

    #[test]
    fn the_place_of_a_fault_does_not_depend_on_the_chunks() {
        let body = br#"{"abc":"def","model" x}"#;
        for cut in 0..=body.len() {
            assert_eq!(scan(&[&body[..cut], &body[cut..]]), Scan::Absent(Absent::Malformed { at: 21 }), "cut at {cut}");
        }
    }

    /// JSON values with keys that are or almost are `model`.
    fn json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(serde_json::Value::from),
            any::<f64>().prop_map(serde_json::Value::from),
            any::<i64>().prop_map(serde_json::Value::from),
            text().prop_map(serde_json::Value::from),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(serde_json::Value::from),
                prop::collection::vec((text(), inner), 0..5).prop_map(|m| m.into_iter().collect()),
            ]
        })
    }

    fn text() -> impl Strategy<Value = String> {
        prop_oneof![Just("model".to_owned()), "mod[a-f]l?", any::<String>(), "[\"\\\\{}\\[\\]:, \u{1}-\u{20}é😀]{0,8}"]
    }

    /// Writes a string with a random subset of its UTF-16 units as `\u` escapes.
    fn write_string(s: &str, escapes: &mut impl Iterator<Item = bool>, out: &mut String) {
        out.push('"');
        for c in s.chars() {
            if escapes.next().unwrap_or(false) {
                c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
            } else {
                let plain = serde_json::to_string(&c.to_string()).unwrap();
                out.push_str(&plain[1..plain.len() - 1]);
            }
        }
        out.push('"');
    }

    proptest! {
        #[test]
        fn it_gives_the_answer_of_a_full_parser_on_every_chunking(
            members in prop::collection::vec((text(), json()), 0..8),
            escapes in prop::collection::vec(any::<bool>(), 0..80),
            cuts in prop::collection::vec(1_usize..12, 1..20),
        ) {
            let mut escapes = escapes.into_iter();
            let mut body = String::from(" {");
            for (i, (key, value)) in members.iter().enumerate() {
                if i > 0 { body.push(','); }
                write_string(key, &mut escapes, &mut body);
                body.push_str(" : ");
                match value {
                    serde_json::Value::String(s) => write_string(s, &mut escapes, &mut body),
                    other => body.push_str(&other.to_string()),
                }
            }
            body.push_str("}\n");
            prop_assert!(serde_json::from_str::<serde_json::Value>(&body).is_ok());
            let expected = match members.iter().find(|(key, _)| key == "model") {
                None => Scan::Absent(Absent::NoMember),
                Some((_, serde_json::Value::String(model))) => Scan::Found(model.clone()),
                Some(_) => Scan::Absent(Absent::NotAString),
            };
            let mut pieces: Vec<&[u8]> = Vec::new();
            let mut rest = body.as_bytes();
            let mut cuts = cuts.iter().cycle();
            while !rest.is_empty() {
                let (piece, tail) = rest.split_at((*cuts.next().unwrap()).min(rest.len()));
                pieces.push(piece);
                rest = tail;
            }
            prop_assert_eq!(scan(&pieces), expected.clone());
            prop_assert_eq!(whole(&body), expected);
        }

        #[test]
        fn arbitrary_bytes_never_panic_and_chunks_never_matter(body in prop::collection::vec(any::<u8>(), 0..200), cut in 0_usize..200) {
            let cut = cut.min(body.len());
            prop_assert_eq!(scan(&[&body[..cut], &body[cut..]]), scan(&[&body]));
        }

        #[test]
        fn bytes_of_json_syntax_never_panic_and_chunks_never_matter(body in "[ {}\\[\\]:,\"\\\\umodel0-9a-f]{0,60}", cut in 0_usize..60) {
            let body = format!("{{{body}");
            let cut = cut.min(body.len());
            prop_assert_eq!(scan(&[&body.as_bytes()[..cut], &body.as_bytes()[cut..]]), whole(&body));
        }
    }
}
