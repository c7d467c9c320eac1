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
//! So: a code `model_not_found`, or a message with the word "model" and one of "does not exist", "not found", "not
//! loaded". A plain 404 (a path that the server does not know) says none of that and passes as any answer.

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

/// Whether this body says so.
pub(crate) fn says_so(body: &[u8]) -> bool {
    let Ok(answer) = serde_json::from_slice::<Answer>(body) else { return false };
    match (answer.error, answer.message) {
        (Some(Said::Object { code: Some(serde_json::Value::String(code)), .. }), _) if code == "model_not_found" => {
            true
        }
        (Some(Said::Words(words)), _) => tells_of_no_model(&words),
        (Some(Said::Object { message: Some(message), .. }), _) | (None, Some(message)) => tells_of_no_model(&message),
        _ => false,
    }
}

fn tells_of_no_model(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    message.contains("model") && ["does not exist", "not found", "not loaded"].iter().any(|no| message.contains(no))
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
            r#"{"error":{"message":"model \"x\" not found, try pulling it first","type":"api_error","param":null,"code":null}}"#,
            r#"{"error":{"message":"Model x is not loaded","code":"whatever"}}"#,
        ] {
            assert!(says_so(body.as_bytes()), "{body}");
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
            assert!(!says_so(body.as_bytes()), "{body}");
        }
    }
}
