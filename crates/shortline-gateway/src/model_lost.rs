//! Does this answer say that the server does not have the model?
//!
//! A server that restarted without one of its models, or dropped it for want of memory, is well otherwise: only the way
//! from this job type to this server is broken. Servers say so in a small JSON body beside a status (404), each in its
//! way:
//!
//! | server | body |
//! |---|---|
//! | OpenAI's API | `{"error": {"message": "The model `x` does not exist ...", "code": "model_not_found"}}` |
//! | vLLM, SGLang | `{"error": {"message": "The model `x` does not exist.", "type": "NotFoundError", "code": 404}}`, older ones without `error` around it |
//! | Ollama | `{"error": "model 'x' not found, try pulling it first"}`, or with `error` as above |
//!
//! | TorchServe | `{"code": 404, "type": "ModelNotFoundException", "message": "Model not found: x"}` |
//! | Triton | `{"error": "Request for unknown model: 'x' is not found"}` |
//!
//! (TGI and other servers of one model do not look at the name and never say so.) So: a code `model_not_found`, or a
//! message with the word "model" and one of "does not exist", "not found", "not loaded", "unknown model". A plain 404 (a
//! path that the server does not know) says none of that and passes as any answer.
//!
//! **Which model?** A request that reaches the server by a header or a route may ask for any model at all: its client's
//! typo is not the server's loss, nor is an adapter that some other job type stands for. So what the answer names counts:
//!
//! | the message | the request's own `model` is the job type | header, path or host say the job type |
//! |---|---|---|
//! | names the job type | lost | lost |
//! | names something else, in quotes | an answer like any other | an answer like any other |
//! | names nothing in quotes | lost | an answer like any other |
//!
//! What is in quotes (`` ` ``, `'` or `"`) is a name, and where nothing is, the job type counts as named if it stands there as a
//! whole word. Ollama's tag `:latest` may be there or not.

use serde::Deserialize;

/// Larger bodies are not looked at: none that says so is nearly that long.
pub(crate) const MOST_BYTES: usize = 64 << 10;

#[derive(Deserialize)]
struct Answer {
    error: Option<Said>,
    message: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Said {
    Words(String),
    Object { message: Option<String>, code: Option<serde_json::Value> },
}

/// Whether this body says that the server does not have the model of this job type; `is_named`: by the request's own
/// `model`.
pub(crate) fn says_so(body: &[u8], job_type: &str, is_named: bool) -> bool {
    let Ok(answer) = serde_json::from_slice::<Answer>(body) else { return false };
    let (message, code) = match (answer.error, answer.message) {
        (Some(Said::Words(words)), _) => (Some(words), None),
        (Some(Said::Object { message, code }), _) => (message, code),
        (None, message) => (message, None),
    };
    let message = message.unwrap_or_default();
    let is_code = matches!(code, Some(serde_json::Value::String(code)) if code == "model_not_found");
    (is_code || tells_of_no_model(&message)) && names(&message, job_type).unwrap_or(is_named)
}

fn tells_of_no_model(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    let no = ["does not exist", "not found", "not loaded", "unknown model"];
    message.contains("model") && no.iter().any(|no| message.contains(no))
}

/// Whether the message names this model; `None`: it may name none.
fn names(message: &str, model: &str) -> Option<bool> {
    let quoted = quoted(message);
    if !quoted.is_empty() {
        return Some(quoted.iter().any(|name| untagged(name) == untagged(model)));
    }
    has_word(message, model).then_some(true)
}

fn untagged(name: &str) -> &str {
    name.strip_suffix(":latest").unwrap_or(name)
}

/// What is in quotes. An apostrophe within a word is none.
fn quoted(message: &str) -> Vec<&str> {
    let (mut quoted, mut at) = (Vec::new(), 0);
    while let Some(begin) = message[at..].find(['`', '\'', '"']).map(|i| at + i) {
        at = begin + 1;
        let quote = &message[begin..at];
        let within_word = message[..begin].ends_with(char::is_alphanumeric);
        if let Some(length) = message[at..].find(quote).filter(|_| !within_word) {
            quoted.push(&message[at..at + length]);
            at += length + 1;
        }
    }
    quoted
}

/// Whether these are words of the message: what goes on in a letter, a digit or one of `-_./:@+` is a longer name, but
/// for the marks that end a sentence.
fn has_word(message: &str, word: &str) -> bool {
    let joins = |c: char| c.is_alphanumeric() || "-_/@+".contains(c);
    let goes_on = |rest: &str| {
        let mut next = rest.chars();
        next.next().is_some_and(|c| joins(c) || ".:".contains(c) && next.next().is_some_and(joins))
    };
    let comes_from = |before: &str| {
        let mut last = before.chars().rev();
        last.next().is_some_and(|c| joins(c) || ".:".contains(c) && last.next().is_some_and(joins))
    };
    !word.is_empty()
        && message
            .match_indices(word)
            .any(|(at, _)| !comes_from(&message[..at]) && !goes_on(&message[at + word.len()..]))
}

#[cfg(test)]
mod tests {
    use super::says_so;

    #[test]
    fn the_forms_that_servers_use_are_understood() {
        for body in [
            r#"{"error":{"message":"The model `x` does not exist or you do not have access to it.","type":"invalid_request_error","param":null,"code":"model_not_found"}}"#,
            r#"{"object":"error","message":"The model `x` does not exist.","type":"NotFoundError","param":null,"code":404}"#,
            r#"{"error":{"message":"The model `x` does not exist.","type":"NotFoundError","param":"model","code":404}}"#,
            r#"{"error":"model 'x' not found, try pulling it first"}"#,
            r#"{"error":"model 'x:latest' not found, try pulling it first"}"#,
            r#"{"error":{"message":"model \"x\" not found, try pulling it first","type":"api_error","param":null,"code":null}}"#,
            r#"{"error":{"message":"Model x is not loaded","code":"whatever"}}"#,
            r#"{"code":404,"type":"ModelNotFoundException","message":"Model not found: x"}"#,
            r#"{"error":"Request for unknown model: 'x' is not found"}"#,
            r#"{"error":"Can't serve Model x: not found."}"#,
        ] {
            for is_named in [true, false] {
                assert!(says_so(body.as_bytes(), "x", is_named), "{body}");
            }
            for other in ["y", "model", "The", "the", "x.5", "xx", "x:7b", "x/x"] {
                assert!(!says_so(body.as_bytes(), other, false), "{body} says nothing of {other}");
            }
        }
    }

    #[test]
    fn what_names_another_model_says_nothing_and_what_names_none_only_if_the_request_did() {
        let typo = br#"{"error":{"message":"The model `typo` does not exist.","code":404}}"#;
        assert!(!says_so(typo, "x", true) && !says_so(typo, "x", false));
        for nameless in [r#"{"error":{"code":"model_not_found"}}"#, r#"{"error":"Model is not loaded"}"#] {
            assert!(says_so(nameless.as_bytes(), "x", true) && !says_so(nameless.as_bytes(), "x", false));
        }
        let longer = br#"{"error":"model meta/x-7b.q4 not found"}"#;
        assert!(says_so(longer, "meta/x-7b.q4", false));
        for part in ["x", "meta", "x-7b", "7b", "meta/x", "q4", "meta/x-7b"] {
            assert!(!says_so(longer, part, false), "{part}");
        }
    }

    #[test]
    fn other_answers_are_left_alone() {
        for body in [
            r#"{"detail":"Not Found"}"#,
            r#"{"error":"file not found"}"#,
            r#"{"error":{"message":"no such response","code":404}}"#,
            r#"{"error":{"message":"The model is overloaded"}}"#,
            r#"["model not found"]"#,
            "model not found",
            "",
        ] {
            assert!(!says_so(body.as_bytes(), "x", true), "{body}");
        }
    }
}
