//! `/v1/models`: what there is to ask for.

use serde_json::{Value, json};
use shortline_core::fleet::settings::{Route, RouteMatch};

use crate::support::{Backend, Message, OK, Plan, Running, call, get};

fn plan(backend: &Backend) -> Plan {
    Plan::new(&[("a", &[0, 1]), ("org/b", &[1]), ("nowhere", &[])]).server("x", 1.0, None, backend.address).server(
        "y",
        1.0,
        None,
        backend.address,
    )
}

fn ids(answer: &Message) -> Vec<String> {
    let list: Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(list["object"], "list");
    list["data"].as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap().to_owned()).collect()
}

async fn ask(running: &Running, path: &str) -> Message {
    call(running.address, format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n")).await
}

#[tokio::test]
async fn the_models_are_the_job_types_with_a_server_up() {
    let backend = Backend::echo().await;
    let running = plan(&backend).serve("jfsq", 1).await;
    let both = ask(&running, "/v1/models?limit=2").await;
    assert_eq!((both.status(), both.header("content-type")), (200, Some("application/json")));
    assert_eq!(ids(&both), ["a", "org/b"]);
    running.gateway.set_up("y", false);
    assert_eq!(ids(&ask(&running, "/v1/models").await), ["a"]);
    running.gateway.set_up("x", false);
    assert_eq!(ids(&ask(&running, "/v1/models/").await), [""; 0]);
    running.gateway.set_up("y", true);
    assert_eq!(ids(&ask(&running, "/v1/models").await), ["a", "org/b"]);
    assert_eq!(backend.requests(), 0);
    assert_eq!(running.metric("shortline_requests_total{job_type=\"\",outcome=\"models\"}").await, 4);
    running.stop().await;
}

#[tokio::test]
async fn a_model_is_none_while_one_server_has_lost_it_and_the_others_are_down() {
    const NO_MODEL: &str = r#"{"error":{"code":"model_not_found","message":"The model `a` does not exist"}}"#;
    let answer = format!("HTTP/1.1 404 Not Found\r\ncontent-length: {}\r\n\r\n{NO_MODEL}", NO_MODEL.len());
    let (x, y) = (Backend::replying(answer).await, Backend::replying(OK).await);
    let plan =
        Plan::new(&[("a", &[0, 1]), ("b", &[0])]).server("x", 2.0, None, x.address).server("y", 1.0, None, y.address);
    let running = plan.settings(|settings| settings.health.model_lost_s = 3.0).serve("jfsq", 1).await;
    assert_eq!(ids(&ask(&running, "/v1/models").await), ["a", "b"]);
    assert_eq!(call(running.address, get("a")).await.status(), 200);
    assert_eq!((x.requests(), y.requests()), (1, 1), "both were asked");
    assert_eq!(ids(&ask(&running, "/v1/models").await), ["a", "b"], "the other has it");
    running.gateway.set_up("y", false);
    assert_eq!(ids(&ask(&running, "/v1/models").await), ["b"], "the one that is up has not");
    assert_eq!(ask(&running, "/v1/models/a").await.error_code(), "model_not_found");
    crate::support::eventually(|| running.gateway.status().servers.iter().all(|server| server.lost.is_empty())).await;
    assert_eq!(ids(&ask(&running, "/v1/models").await), ["a", "b"], "it is asked again");
    running.stop().await;
}

#[tokio::test]
async fn one_model_is_shown_as_clients_of_the_openai_api_expect_it() {
    let backend = Backend::echo().await;
    let running = plan(&backend).serve("jfsq", 1).await;
    for path in ["/v1/models/org/b", "/v1/models/org%2Fb"] {
        let answer = ask(&running, path).await;
        let mut model: Value = serde_json::from_slice(&answer.body).unwrap();
        assert!(model["created"].as_u64().unwrap() > 1_600_000_000, "{model}");
        model["created"] = 0.into();
        assert_eq!(model, json!({ "id": "org/b", "object": "model", "created": 0, "owned_by": "test" }));
    }
    for path in ["/v1/models/nowhere", "/v1/models/c"] {
        let missing = ask(&running, path).await;
        assert_eq!((missing.status(), missing.error_code().as_str()), (404, "model_not_found"));
    }
    running.stop().await;
}

#[tokio::test]
async fn a_request_that_names_a_job_type_goes_to_its_server() {
    let backend = Backend::echo().await;
    let running = plan(&backend).serve("jfsq", 1).await;
    let by_header = get("a").replacen("GET / ", "GET /v1/models ", 1);
    assert!(call(running.address, &by_header).await.text().starts_with("GET /v1/models "));
    let posted = "POST /v1/models HTTP/1.1\r\nhost: a\r\ncontent-length: 13\r\n\r\n{\"model\":\"a\"}";
    assert!(call(running.address, posted).await.text().starts_with("POST /v1/models "));
    for path in ["/v1/modelss", "/v1", "/v2/models"] {
        assert_eq!(ask(&running, path).await.error_code(), "missing_job_type");
    }
    running.stop().await;

    let route = Route { matches: RouteMatch::PathPrefix("/v1/models".into()), job_type: 0 };
    let routed = plan(&backend).settings(|settings| settings.routes = vec![route]).serve("jfsq", 1).await;
    assert!(ask(&routed, "/v1/models").await.text().starts_with("GET /v1/models "));
    routed.stop().await;
}

#[tokio::test]
async fn models_false_leaves_the_path_to_the_servers() {
    let backend = Backend::echo().await;
    let running = plan(&backend).settings(|settings| settings.gateway.models = false).serve("jfsq", 1).await;
    assert_eq!(ask(&running, "/v1/models").await.error_code(), "missing_job_type");
    running.stop().await;
}
