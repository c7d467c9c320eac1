//! `POST /reload`, `PUT /servers/NAME`, `DELETE /servers/NAME`: orders that exchange the fleet.
//!
//! 200 with what was done, or an error that says why nothing was: 400 if the new fleet is at fault (the message is that of
//! the fleet file's reader, with all faults and their places), 404 for a server that is not there.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;

use crate::errors::{ErrorBody, ErrorObject, json_response};
use crate::gateway::Gateway;
use crate::operator::percent_decoded;
use crate::put_server::PutServer;
use crate::reload::{ReloadError, Reloaded};

/// Most bytes of the description of a server.
const DESCRIPTION: usize = 1 << 20;

/// An order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    Reload,
    Put(String),
    Delete(String),
}

/// The order that a request gives, if it is one.
pub(crate) fn of(method: &Method, path: &str) -> Option<Order> {
    if path == "/reload" {
        return (method == Method::POST).then_some(Order::Reload);
    }
    let name = server(path)?;
    match *method {
        Method::PUT => Some(Order::Put(percent_decoded(name))),
        Method::DELETE => Some(Order::Delete(percent_decoded(name))),
        _ => None,
    }
}

/// The server that a path names, as written, if it is one of `/servers/NAME`.
pub(crate) fn server(path: &str) -> Option<&str> {
    path.strip_prefix("/servers/").filter(|name| !name.is_empty() && !name.contains('/'))
}

impl Order {
    /// Carries it out, on a thread where it may take its time.
    pub(crate) async fn carry_out(self, gateway: &Arc<Gateway>, body: Incoming) -> Response<Bytes> {
        let description = match Limited::new(body, DESCRIPTION).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) => return refused(StatusCode::BAD_REQUEST, "bad_request", &format!("the body: {error}")),
        };
        let gateway = Arc::clone(gateway);
        let work = move || match self {
            Self::Reload => gateway.reload("POST /reload"),
            Self::Put(name) => PutServer::from_json(&gateway.fleet(), &name, &description)
                .and_then(|server| gateway.put_server(server)),
            Self::Delete(name) => gateway.delete_server(&name),
        };
        match tokio::task::spawn_blocking(work).await {
            Ok(result) => answer(&result),
            Err(error) => refused(StatusCode::INTERNAL_SERVER_ERROR, "reload_failed", &error.to_string()),
        }
    }
}

fn answer(result: &Result<Reloaded, ReloadError>) -> Response<Bytes> {
    match result {
        Ok(reloaded) => json_response(StatusCode::OK, reloaded),
        Err(error @ ReloadError::NoSuchServer(_)) => {
            refused(StatusCode::NOT_FOUND, "unknown_server", &error.to_string())
        }
        Err(error) => refused(StatusCode::BAD_REQUEST, "bad_fleet", &error.to_string()),
    }
}

fn refused(status: StatusCode, code: &str, message: &str) -> Response<Bytes> {
    json_response(status, &ErrorBody { error: ErrorObject { code, message, kind: "invalid_request_error" } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_told_by_method_and_path() {
        assert_eq!(of(&Method::POST, "/reload"), Some(Order::Reload));
        assert_eq!(of(&Method::PUT, "/servers/gpu%2D0"), Some(Order::Put("gpu-0".into())));
        assert_eq!(of(&Method::DELETE, "/servers/gpu-0"), Some(Order::Delete("gpu-0".into())));
        let others = [
            (Method::GET, "/reload"),
            (Method::POST, "/servers/a/drain"),
            (Method::PUT, "/servers/"),
            (Method::GET, "/servers/a"),
        ];
        for (method, path) in others {
            assert_eq!(of(&method, path), None, "{method} {path}");
        }
    }
}
