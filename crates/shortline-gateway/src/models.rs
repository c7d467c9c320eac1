//! `GET /v1/models`: the models that a client of the OpenAI API can ask for at this moment.
//!
//! These are the job types that some server takes requests of: all that the fleet's servers hold, less those whose
//! servers are all down, and less the models that they have lost. No server is asked. `/v1/models/NAME` is one of them.
//!
//! `HEAD` gets the same without the body. A request that names a job type, by its header or by the path of a `[[route]]`, goes to a server as any other, and so
//! does every other method; `[gateway] models = false` makes all of them go there.

use bytes::Bytes;
use http::request::Parts;
use http::{Method, Response, StatusCode};
use serde::Serialize;

use crate::epoch::Epoch;
use crate::errors::{ErrorBody, ErrorObject, json_response};
use crate::gateway::Gateway;
use crate::headers;
use crate::operator::percent_decoded;

const PATH: &str = "/v1/models";

/// A list of models, as the OpenAI API writes it.
#[derive(Serialize)]
struct List<'a> {
    object: &'static str,
    data: Vec<Model<'a>>,
}

/// One model. Whoever reads these expects all four members.
#[derive(Serialize)]
struct Model<'a> {
    id: &'a str,
    object: &'static str,
    /// The start of the gateway, in seconds since 1970.
    created: u64,
    /// The fleet's name.
    owned_by: &'a str,
}

/// The answer, if the request asks for models and names no job type.
pub(crate) fn answer(gateway: &Gateway, epoch: &Epoch, head: &Parts) -> Option<Response<Bytes>> {
    let behind = head.uri.path().strip_prefix(PATH)?;
    let asks = epoch.fleet.settings().gateway.models
        && [Method::GET, Method::HEAD].contains(&head.method)
        && !epoch.finder.is_named_in(head);
    if !asks || headers::check(head, epoch.limits.client.head.lines).is_err() {
        return None;
    }
    match behind.strip_prefix('/').filter(|name| !name.is_empty()) {
        Some(name) => Some(one(gateway, &percent_decoded(name))),
        None if matches!(behind, "" | "/") => Some(all(gateway)),
        None => None,
    }
}

fn all(gateway: &Gateway) -> Response<Bytes> {
    let (epoch, served) = gateway.dispatch.served();
    let data = served.iter().map(|&id| model(gateway, &epoch, epoch.job_type(id).name())).collect();
    json_response(StatusCode::OK, &List { object: "list", data })
}

fn one(gateway: &Gateway, name: &str) -> Response<Bytes> {
    let (epoch, served) = gateway.dispatch.served();
    if epoch.fleet.find_job_type(name).is_some_and(|id| served.contains(&id)) {
        return json_response(StatusCode::OK, &model(gateway, &epoch, name));
    }
    let message = format!("no server that is up has the model `{name}`; {PATH} lists those there are");
    let error = ErrorObject { code: "model_not_found", message: &message, kind: "invalid_request_error" };
    json_response(StatusCode::NOT_FOUND, &ErrorBody { error })
}

fn model<'a>(gateway: &Gateway, epoch: &'a Epoch, id: &'a str) -> Model<'a> {
    Model { id, object: "model", created: gateway.created_s, owned_by: epoch.fleet.name() }
}
