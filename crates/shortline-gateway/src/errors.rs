//! Refusals: what a client gets when its request cannot be served.
//!
//! Always a complete HTTP answer with a JSON body `{"error": {"code", "message", "type"}}`; `code` is for programs,
//! `message` names the remedy, `type` follows the OpenAI API so that its clients sort it right. Answers with status
//! 429 and 503 carry `retry-after` (the caller knows the seconds).

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use serde::Serialize;

use crate::grpc;
use crate::model_scan::Absent;
use crate::outcome::Outcome;

/// Names from a request are shown up to this many characters.
const SHOWN: usize = 100;

/// What is said to requests in codings that the gateway does not undo.
pub(crate) const OTHER_CODINGS: &str = "transfer codings other than chunked; compress with content-encoding";

/// Why a request is not served.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Refusal {
    /// No source names a job type; with what the body said, if it was asked.
    MissingJobType(Option<NoModel>),
    /// The named job type is not in the fleet.
    UnknownJobType(String),
    /// The body went on past the limit without a `model`.
    BodyTooLarge { limit: u64 },
    /// The policy found no place (`waits`: and the line is full).
    NoCapacity { waits: bool },
    /// No server that holds the job type is up.
    NoServerUp,
    /// No server of the fleet holds the job type.
    NotHeld,
    /// The wait in line took too long.
    QueueTimeout,
    /// The gateway cannot open another connection.
    OutOfSockets,
    /// The server could not be reached.
    UpstreamConnect,
    /// The server did not answer in time.
    UpstreamTimeout,
    /// The server broke off, or answered something that is not HTTP.
    UpstreamError,
    /// The gateway ends before the answer began.
    CutOff,
    /// The client stopped sending its request.
    ClientTimeout,
    /// The request broke off, or its body is not HTTP.
    BadRequest,
    /// The head of the request contradicts HTTP or itself; with what is wrong and what would be right.
    Malformed(&'static str),
    /// The request line is longer than what is taken.
    TargetTooLong,
    /// The head has more bytes or lines than `[gateway]` allows.
    HeadTooLarge,
    /// The head took longer than `header_s`.
    HeadTooSlow,
    /// A protocol the gateway does not speak.
    Unsupported(&'static str),
}

/// Why the body gave no `model`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum NoModel {
    /// Compressed, so it was not looked at.
    Encoded,
    /// Looked at in vain.
    Absent(Absent),
}

impl Refusal {
    /// How it is counted.
    pub(crate) fn outcome(&self) -> Outcome {
        match self {
            Self::MissingJobType(_) => Outcome::MissingJobType,
            Self::UnknownJobType(_) => Outcome::UnknownJobType,
            Self::BodyTooLarge { .. } => Outcome::BodyTooLarge,
            Self::NoCapacity { .. } => Outcome::NoCapacity,
            Self::NoServerUp | Self::NotHeld => Outcome::NoServerUp,
            Self::QueueTimeout => Outcome::QueueTimeout,
            Self::OutOfSockets => Outcome::OutOfSockets,
            Self::UpstreamConnect => Outcome::UpstreamConnect,
            Self::UpstreamTimeout => Outcome::UpstreamTimeout,
            Self::UpstreamError => Outcome::UpstreamError,
            Self::CutOff => Outcome::CutOff,
            Self::ClientTimeout | Self::HeadTooSlow => Outcome::ClientTimeout,
            Self::TargetTooLong | Self::HeadTooLarge => Outcome::HeaderTooLarge,
            Self::BadRequest | Self::Malformed(_) => Outcome::BadRequest,
            Self::Unsupported(_) => Outcome::Unsupported,
        }
    }

    /// Its status; `no_capacity` is `[gateway] no_capacity_status`.
    fn status(&self, no_capacity: StatusCode) -> StatusCode {
        match self {
            Self::MissingJobType(_) | Self::BadRequest | Self::Malformed(_) => StatusCode::BAD_REQUEST,
            Self::UnknownJobType(_) => StatusCode::NOT_FOUND,
            Self::BodyTooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::NoCapacity { .. } => no_capacity,
            Self::NoServerUp | Self::NotHeld | Self::QueueTimeout | Self::OutOfSockets | Self::CutOff => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Self::UpstreamConnect | Self::UpstreamError => StatusCode::BAD_GATEWAY,
            Self::UpstreamTimeout => StatusCode::GATEWAY_TIMEOUT,
            Self::ClientTimeout | Self::HeadTooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::TargetTooLong => StatusCode::URI_TOO_LONG,
            Self::HeadTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::Unsupported(_) => StatusCode::NOT_IMPLEMENTED,
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::NoCapacity { .. } | Self::QueueTimeout | Self::OutOfSockets => "overloaded_error",
            Self::NoServerUp
            | Self::NotHeld
            | Self::UpstreamConnect
            | Self::UpstreamTimeout
            | Self::UpstreamError
            | Self::CutOff => "server_error",
            _ => "invalid_request_error",
        }
    }

    fn message(&self) -> String {
        match self {
            Self::MissingJobType(no_model) => {
                let why = no_model.map_or_else(String::new, |no_model| format!(" ({})", no_model.why()));
                format!("the request does not say what kind of job it is{why}; set the header x-job-type, or send a JSON object with a string member `model`")
            }
            Self::UnknownJobType(name) => format!("the fleet has no job type `{}`", shown(name)),
            Self::BodyTooLarge { limit } => format!(
                "the body has no member `model` in its first {limit} bytes; name the job type in the header x-job-type, then bodies of any size pass"
            ),
            Self::NoCapacity { waits: false } => {
                "every server that holds this job type is full; retry after the time in retry-after".to_owned()
            }
            Self::NoCapacity { waits: true } => {
                "every server that holds this job type is full and so is the line in front of them; retry after the time in retry-after".to_owned()
            }
            Self::NoServerUp => "no server that holds this job type is up".to_owned(),
            Self::NotHeld => "no server of the fleet holds this job type; an operator has to give it to one".to_owned(),
            Self::QueueTimeout => "no server became free in time; retry after the time in retry-after".to_owned(),
            Self::OutOfSockets => "the gateway cannot open another connection to a server; retry after the time in retry-after".to_owned(),
            Self::UpstreamConnect => "the chosen server could not be reached".to_owned(),
            Self::UpstreamTimeout => "the chosen server did not answer in time".to_owned(),
            Self::UpstreamError => "the chosen server broke off before it answered, or its answer is not HTTP".to_owned(),
            Self::CutOff => "the gateway stops and the answer had not begun in time; send the request again".to_owned(),
            Self::ClientTimeout => "the request body stopped arriving".to_owned(),
            Self::TargetTooLong => "the request line is too long; send what makes it long in the body".to_owned(),
            Self::HeadTooLarge => "the request's headers are too many or too long; send fewer, or ask the operator to raise max_headers or max_header_bytes".to_owned(),
            Self::HeadTooSlow => "the request's head did not arrive in time".to_owned(),
            Self::BadRequest => "the request broke off, or its body is malformed".to_owned(),
            Self::Malformed(what) => (*what).to_owned(),
            Self::Unsupported(what) => format!("this gateway does not speak {what}"),
        }
    }

    /// The answer. `retry_after_s` is used where the status asks for it.
    pub(crate) fn response(&self, no_capacity: StatusCode, retry_after_s: u64) -> Response<Bytes> {
        let status = self.status(no_capacity);
        let message = self.message();
        let error =
            ErrorBody { error: ErrorObject { code: self.outcome().name(), message: &message, kind: self.kind() } };
        let mut response = json_response(status, &error);
        if matches!(status.as_u16(), 429 | 503 | 529) {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(retry_after_s.max(1)));
        }
        response
    }

    /// The answer for a gRPC client.
    pub(crate) fn grpc_response(&self, no_capacity: StatusCode, retry_after_s: u64) -> Response<Bytes> {
        let status = self.status(no_capacity);
        let retry_after_s = matches!(status.as_u16(), 429 | 503 | 529).then_some(retry_after_s.max(1));
        let message = format!("{}: {}", self.outcome().name(), self.message());
        grpc::answer(grpc::code(status), &message, retry_after_s)
    }
}

impl NoModel {
    fn why(self) -> String {
        match self {
            Self::Encoded => "its body is compressed, so it was not searched".to_owned(),
            Self::Absent(Absent::NotAnObject) => "its body is no JSON object".to_owned(),
            Self::Absent(Absent::NoMember) => "its JSON body has no top-level member `model`".to_owned(),
            Self::Absent(Absent::NotAString) => "`model` in its JSON body is no string".to_owned(),
            Self::Absent(Absent::Malformed { at }) => format!("its body is not JSON, see byte {at}"),
        }
    }
}

/// An answer with a JSON body.
pub(crate) fn json_response(status: StatusCode, body: &impl Serialize) -> Response<Bytes> {
    let text = serde_json::to_vec(body).expect("the bodies made here hold strings, numbers and lists only");
    let mut response = Response::new(Bytes::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// The body of every refusal.
#[derive(Serialize)]
pub(crate) struct ErrorBody<'a> {
    pub(crate) error: ErrorObject<'a>,
}

/// What [`ErrorBody`] wraps.
#[derive(Serialize)]
pub(crate) struct ErrorObject<'a> {
    pub(crate) code: &'a str,
    pub(crate) message: &'a str,
    #[serde(rename = "type")]
    pub(crate) kind: &'a str,
}

fn shown(name: &str) -> String {
    match name.char_indices().nth(SHOWN) {
        None => name.to_owned(),
        Some((end, _)) => format!("{}...", &name[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(refusal: &Refusal) -> serde_json::Value {
        serde_json::from_slice(refusal.response(StatusCode::SERVICE_UNAVAILABLE, 3).body()).unwrap()
    }

    #[test]
    fn a_refusal_is_json_with_code_message_and_type() {
        let error = &body(&Refusal::UnknownJobType("a\"b".into()))["error"];
        assert_eq!(error["code"], "unknown_job_type");
        assert_eq!(error["type"], "invalid_request_error");
        assert_eq!(error["message"], "the fleet has no job type `a\"b`");
    }

    #[test]
    fn long_names_are_cut_at_a_character() {
        let message = body(&Refusal::UnknownJobType("é".repeat(5000)))["error"]["message"].to_string();
        assert!(message.chars().count() < 150, "{message}");
    }

    #[test]
    fn retry_after_is_a_whole_number_from_1_where_a_retry_helps() {
        let retry = |refusal: Refusal, seconds, no_capacity| {
            let response = refusal.response(StatusCode::from_u16(no_capacity).unwrap(), seconds);
            response.headers().get("retry-after").map(|v| v.to_str().unwrap().to_owned())
        };
        assert_eq!(retry(Refusal::NoCapacity { waits: false }, 0, 503), Some("1".into()));
        assert_eq!(retry(Refusal::NoCapacity { waits: true }, 7, 429), Some("7".into()));
        assert_eq!(retry(Refusal::NoServerUp, 5, 529), Some("5".into()));
        assert_eq!(retry(Refusal::UpstreamTimeout, 5, 503), None);
    }
}
