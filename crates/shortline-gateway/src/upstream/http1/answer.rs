//! The head of an answer, and what it says about the body (RFC 9112, 6.3) and the connection (9.3).

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, Version, header};
use hyper::ext::ReasonPhrase;

use super::Error;
use super::body::Remaining;
use crate::chunked::Chunked;
use crate::client_stream::framing::digits;

/// Most header lines of a head.
const MOST_LINES: usize = 100;

/// A head that has come.
#[derive(Debug)]
pub(super) enum Head {
    /// Of an interim answer (1xx, but for 101).
    Interim(StatusCode, HeaderMap),
    /// Of the answer; `keeps`: whether the connection takes another request behind it.
    Final { answer: Response<Remaining>, keeps: bool },
}

/// Reads the head that bytes begin with; and its length. `None`: it is not complete.
///
/// # Errors
/// If it is none of HTTP/1, or its body could be read in two ways.
pub(super) fn read(bytes: &Bytes, asked: &Method) -> Result<Option<(Head, usize)>, Error> {
    let mut lines = [const { std::mem::MaybeUninit::uninit() }; MOST_LINES];
    let mut head = httparse::Response::new(&mut []);
    let parsed = httparse::ParserConfig::default().parse_response_with_uninit_headers(&mut head, bytes, &mut lines);
    let head_length = match parsed.map_err(Error::Head)? {
        httparse::Status::Complete(length) => length,
        httparse::Status::Partial => return Ok(None),
    };
    let status = head.code.and_then(|code| StatusCode::from_u16(code).ok());
    let status = status.ok_or(Error::Head(httparse::Error::Status))?;
    let mut headers = HeaderMap::with_capacity(head.headers.len() + 1);
    for line in &*head.headers {
        let name =
            HeaderName::from_bytes(line.name.as_bytes()).map_err(|_| Error::Head(httparse::Error::HeaderName))?;
        let value = HeaderValue::from_maybe_shared(bytes.slice_ref(line.value));
        headers.append(name, value.map_err(|_| Error::Head(httparse::Error::HeaderValue))?);
    }
    if status.is_informational() && status != StatusCode::SWITCHING_PROTOCOLS {
        return Ok(Some((Head::Interim(status, headers), head_length)));
    }
    let version = if head.version == Some(0) { Version::HTTP_10 } else { Version::HTTP_11 };
    let length = content_length(&headers)?;
    if let Some(length) = length {
        // One line for whoever is next, and none of its own reading.
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
    let (body, keeps) = what_follows((status, version, length), asked, &headers)?;
    let mut answer = Response::new(body);
    if let Some(reason) = head.reason
        && status.canonical_reason() != Some(reason)
        && let Ok(reason) = ReasonPhrase::try_from(reason.as_bytes())
    {
        answer.extensions_mut().insert(reason);
    }
    (*answer.status_mut(), *answer.version_mut(), *answer.headers_mut()) = (status, version, headers);
    Ok(Some((Head::Final { answer, keeps }, head_length)))
}

/// The body behind a head, and whether the connection goes on behind it.
fn what_follows(
    (status, version, length): (StatusCode, Version, Option<u64>),
    asked: &Method,
    headers: &HeaderMap,
) -> Result<(Remaining, bool), Error> {
    let keeps = match version {
        Version::HTTP_10 => says(headers, "keep-alive"),
        _ => !says(headers, "close"),
    };
    if status == StatusCode::SWITCHING_PROTOCOLS {
        return Ok((Remaining::Nothing, false));
    }
    if asked == Method::HEAD || status == StatusCode::NOT_MODIFIED {
        return Ok((Remaining::Nothing, keeps));
    }
    if status == StatusCode::NO_CONTENT {
        // One that announces a body may send it.
        let is_bare = length.unwrap_or(0) == 0 && !headers.contains_key(header::TRANSFER_ENCODING);
        return Ok((Remaining::Nothing, keeps && is_bare));
    }
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    if let Some(coding) = codings.next() {
        if version == Version::HTTP_10 {
            return Err(Error::Framing("`transfer-encoding` in HTTP/1.0"));
        }
        if !coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked") || codings.next().is_some() {
            return Err(Error::Framing("a transfer coding beside `chunked`, which nobody here undoes"));
        }
        // A length beside it may be what another reader goes by: nothing follows on this connection.
        return Ok((Remaining::Chunked(Chunked::new(), Vec::new()), keeps && length.is_none()));
    }
    Ok(match length {
        Some(0) => (Remaining::Nothing, keeps),
        Some(length) => (Remaining::Length(length), keeps),
        None => (Remaining::UntilClose, false),
    })
}

/// Whether `connection` says so.
fn says(headers: &HeaderMap, what: &str) -> bool {
    headers
        .get_all(header::CONNECTION)
        .iter()
        .flat_map(|line| line.as_bytes().split(|&byte| byte == b','))
        .any(|option| option.trim_ascii().eq_ignore_ascii_case(what.as_bytes()))
}

/// The length that all `content-length` say.
pub(super) fn content_length(headers: &HeaderMap) -> Result<Option<u64>, Error> {
    let mut said = None;
    let lines = headers.get_all(header::CONTENT_LENGTH).iter();
    for length in lines.flat_map(|line| line.as_bytes().split(|&byte| byte == b',')) {
        let length = digits(length.trim_ascii()).ok_or(Error::Framing("`content-length` is no number below 2^63"))?;
        if said.replace(length).is_some_and(|before| before != length) {
            return Err(Error::Framing("`content-length` is there with two values"));
        }
    }
    Ok(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn final_head(text: &str, asked: &Method) -> (Response<Remaining>, bool) {
        match read(&Bytes::from(text.to_owned()), asked).unwrap() {
            Some((Head::Final { answer, keeps }, length)) => {
                assert_eq!(length, text.len());
                (answer, keeps)
            }
            other => panic!("{text:?}: {other:?}"),
        }
    }

    #[test]
    fn an_interim_answer_is_told_from_others_however_little_of_it_has_come() {
        let whole = Bytes::from_static(
            b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\nlink: </b>\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
        );
        let end = whole.len() - b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".len();
        for n in 0..end {
            assert!(matches!(read(&whole.slice(..n), &Method::GET), Ok(None)), "{n} bytes");
        }
        for n in end..whole.len() {
            let Ok(Some((Head::Interim(status, headers), length))) = read(&whole.slice(..n), &Method::GET) else {
                panic!("{n} bytes")
            };
            assert_eq!((length, status.as_u16(), headers.get_all("link").iter().count()), (end, 103, 2));
        }
        let rest = read(&whole.slice(end..), &Method::GET);
        assert!(matches!(rest, Ok(Some((Head::Final { keeps: true, .. }, _)))), "{rest:?}");
    }

    #[test]
    fn a_body_is_as_long_as_its_head_says_by_the_rules_of_the_rfc() {
        let (get, head) = (Method::GET, Method::HEAD);
        for (text, asked, body, keeps) in [
            ("200 OK\r\ncontent-length: 5", &get, "Length(5)", true),
            ("200 OK\r\ncontent-length: 5, 5\r\ncontent-length: 5", &get, "Length(5)", true),
            ("200 OK\r\ncontent-length: 0", &get, "Nothing", true),
            ("200 OK\r\ncontent-length: 5\r\nconnection: a, Close", &get, "Length(5)", false),
            ("200 OK\r\ncontent-length: 5", &head, "Nothing", true),
            ("204 No Content", &get, "Nothing", true),
            ("204 No Content\r\ncontent-length: 5", &get, "Nothing", false),
            ("304 Not Modified\r\ncontent-length: 5", &get, "Nothing", true),
            ("304 Not Modified\r\ntransfer-encoding: chunked", &get, "Nothing", true),
            ("101 Switching Protocols\r\ncontent-length: 5", &get, "Nothing", false),
            ("200 OK\r\ntransfer-encoding: Chunked", &get, "Chunked", true),
            ("200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 5", &get, "Chunked", false),
            ("200 OK", &get, "UntilClose", false),
        ] {
            let (answer, kept) = final_head(&format!("HTTP/1.1 {text}\r\n\r\n"), asked);
            let what = format!("{:?}", answer.body());
            assert!(what.starts_with(body) && kept == keeps, "{text:?}: {what}, {kept}");
        }
        let old = |more: &str| final_head(&format!("HTTP/1.0 200 OK\r\ncontent-length: 5{more}\r\n\r\n"), &get).1;
        assert!(!old("") && old("\r\nconnection: Keep-Alive"));
    }

    #[test]
    fn a_head_that_could_be_read_in_two_ways_is_refused() {
        for text in [
            "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 5, 6\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: +5\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: \r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 9223372036854775808\r\n\r\n",
            "HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nx : 1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nx: 1\r\n folded\r\n\r\n",
            "HTTP/1.1 099 Odd\r\n\r\n",
            "HTTP/1.1 2000 Odd\r\n\r\n",
            "HTTP/1.2 200 OK\r\n\r\n",
            "HTTP/2 200\r\n\r\n",
            "ICY 200 OK\r\n\r\n",
        ] {
            assert!(read(&Bytes::from_static(text.as_bytes()), &Method::GET).is_err(), "{text:?}");
        }
        let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(MOST_LINES + 1));
        assert!(read(&Bytes::from(many), &Method::GET).is_err());
    }

    #[test]
    fn a_length_goes_on_as_one_number_whether_or_not_a_body_follows() {
        for (text, asked) in
            [("content-length: 5, 5\r\ncontent-length: 05", Method::GET), ("content-length: 5, 5", Method::HEAD)]
        {
            let (answer, _) = final_head(&format!("HTTP/1.1 200 OK\r\n{text}\r\n\r\n"), &asked);
            assert_eq!(answer.headers().get_all("content-length").iter().collect::<Vec<_>>(), ["5"]);
        }
        for text in
            ["content-length: 5\r\ncontent-length: 6", "content-length: +5", "content-length: 9223372036854775808"]
        {
            let bytes = Bytes::from(format!("HTTP/1.1 200 OK\r\n{text}\r\n\r\n"));
            assert!(matches!(read(&bytes, &Method::HEAD), Err(Error::Framing(_))), "{text}");
        }
    }

    #[test]
    fn a_reason_of_the_servers_own_stays() {
        let (answer, _) = final_head("HTTP/1.1 200 Fine\r\n\r\n", &Method::GET);
        assert_eq!(answer.extensions().get::<ReasonPhrase>().map(ReasonPhrase::as_bytes), Some(&b"Fine"[..]));
        let (answer, _) = final_head("HTTP/1.1 200 OK\r\n\r\n", &Method::GET);
        assert!(answer.extensions().is_empty());
    }
}
