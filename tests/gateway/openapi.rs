//! `GET /v1/openapi.json`: the gateway's description, held against what the gateway answers.

use serde_json::{Value, json};

use super::Gateway;
use crate::{
    stubs::provider::{SECRET, Script},
    world::answer::Answer,
};

/// The document as it stands in the repository.
const DOCUMENT: &str = include_str!("../../edge/gateway/src/openapi.json");

const PATH: &str = "/v1/openapi.json";

#[tokio::test]
async fn the_document_is_served_without_a_key() {
    let gateway = Gateway::start().await;
    let edge = gateway.world.edge();
    let answer = edge.get(&gateway.url(PATH)).await.assert_status(200);
    assert_eq!(answer.header("content-type"), "application/json");
    assert_eq!(answer.header("cache-control"), "public, max-age=300");
    assert!(answer.header("x-request-id").starts_with("req_"));
    assert_eq!(answer.text(), DOCUMENT);
    // A key makes no difference, nor does one that is not valid.
    assert_eq!(gateway.get(PATH).await.assert_status(200).text(), DOCUMENT);
    assert_eq!(edge.get(&gateway.url(PATH)).bearer("svc_x").await.assert_status(200).text(), DOCUMENT);

    let head = edge.head(&gateway.url(PATH)).await.assert_status(200);
    assert_eq!((head.header("content-length"), head.body.len()), (DOCUMENT.len().to_string().as_str(), 0));
    let refused = edge.post(&gateway.url(PATH)).await;
    assert_eq!(refused.header("allow"), "GET, HEAD, OPTIONS");
    refused.assert_openai_error(405, "method_not_allowed");
    edge.get(&gateway.url("/v1/openapi")).await.assert_openai_error(404, "unknown_url");
}

#[tokio::test]
async fn answers_are_as_described() {
    let gateway = Gateway::start_with(|world| world.set("GATEWAY__QUEUE_SECONDS", 0)).await;
    let edge = gateway.world.edge();
    let document: Value = serde_json::from_str(DOCUMENT).unwrap();
    let completions = Operation { document: &document, path: "/v1/chat/completions", method: "post" };
    let models = Operation { document: &document, path: "/v1/models", method: "get" };
    let model = Operation { document: &document, path: "/v1/models/{model}", method: "get" };

    completions.assert_describes(&gateway.complete(&json!({})).await, 200);
    completions.assert_describes(&gateway.stream().await, 200);
    completions.assert_describes(&gateway.post("{").await, 400);
    completions.assert_describes(&gateway.post("{}").await, 400);
    completions.assert_describes(&gateway.complete(&json!({ "n": "x" })).await, 400);
    completions.assert_describes(&gateway.complete(&json!({ "stream": "x" })).await, 400);
    completions.assert_describes(&gateway.complete(&json!({ "model": "x" })).await, 404);
    completions.assert_describes(&gateway.complete(&json!({ "user": "x".repeat(70_000) })).await, 413);
    let compressed = gateway.complete(&json!({})).header("content-encoding", "br");
    completions.assert_describes(&compressed.await, 415);
    for (status, ours) in [(400, 400), (401, 502), (429, 503), (500, 502), (504, 504)] {
        gateway.provider.next(Script::answer(status, &[("retry-after", "3")], SECRET.as_bytes()));
        completions.assert_describes(&gateway.complete(&json!({})).await, ours);
    }
    completions.assert_describes(&edge.post(&gateway.url("/v1/chat/completions")).await, 401);

    let responses = Operation { document: &document, path: "/v1/responses", method: "post" };
    responses.assert_describes(&gateway.respond(&json!({ "tools": [{ "type": "web_search" }] })).await, 200);
    responses.assert_describes(&gateway.respond(&json!({ "stream": true })).await, 200);
    responses.assert_describes(&gateway.respond(&json!({ "input": null })).await, 400);
    responses.assert_describes(&gateway.respond(&json!({ "model": "x" })).await, 404);
    responses.assert_describes(&edge.post(&gateway.url("/v1/responses")).await, 401);

    models.assert_describes(&gateway.get("/v1/models").await, 200);
    models.assert_describes(&edge.get(&gateway.url("/v1/models")).await, 401);
    model.assert_describes(&gateway.get("/v1/models/svc/qwen3-32b").await, 200);
    model.assert_describes(&gateway.get("/v1/models/svc/none").await, 404);
}

#[tokio::test]
async fn refused_admissions_are_as_described() {
    let document: Value = serde_json::from_str(DOCUMENT).unwrap();
    let completions = Operation { document: &document, path: "/v1/chat/completions", method: "post" };
    let mut gateway = Gateway::start_with(|world| world.set("LIMITS__GATEWAY_PER_MIN", 1)).await;
    completions.assert_describes(&gateway.complete(&json!({})).await, 200);
    completions.assert_describes(&gateway.complete(&json!({})).await, 429);
    // What was refused for a minute stays refused, whatever becomes of Redis.
    gateway.world.redis.kill();
    completions.assert_describes(&gateway.complete(&json!({})).await, 429);

    let mut gateway = Gateway::start().await;
    gateway.world.redis.kill();
    let answer = gateway.complete(&json!({})).await;
    assert!(answer.find_header("retry-after").is_some(), "{:?}", answer.headers);
    completions.assert_describes(&answer, 503);

    let gateway = Gateway::start_with(|world| world.set("LIMITS__GATEWAY_TOKENS_PER_DAY", 10)).await;
    let answer = gateway.complete(&json!({})).await;
    assert_eq!(answer.header("x-should-retry"), "false");
    completions.assert_describes(&answer, 429);
}

/// One operation of the document.
struct Operation<'d> {
    document: &'d Value,
    path: &'d str,
    method: &'d str,
}

impl Operation<'_> {
    /// Checks an answer's status, error code, media type and headers against the document.
    #[track_caller]
    fn assert_describes(&self, answer: &Answer, status: u16) {
        let what = format!("{} {}: {}", self.method, self.path, answer.text());
        assert_eq!(answer.status.as_u16(), status, "{what}");
        let response = &self.document["paths"][self.path][self.method]["responses"][status.to_string()];
        let response = self.resolve(response);
        assert!(response.is_object(), "{status} is not described for {what}");

        let media_type = answer.header("content-type").split(';').next().unwrap().trim();
        let content = &response["content"][media_type];
        assert!(content.is_object(), "{media_type} is not described for {what}");
        if status >= 400 {
            let error: Value = serde_json::from_slice(&answer.body).unwrap();
            let codes = &content["schema"]["allOf"][1]["properties"]["error"]["properties"]["code"]["enum"];
            let has = |list: &Value, value: &Value| list.as_array().is_some_and(|list| list.contains(value));
            assert!(has(codes, &error["error"]["code"]), "the code is not described for {what}");
            let kinds = &self.document["components"]["schemas"]["Error"]["properties"]["type"]["enum"];
            assert!(has(kinds, &error["error"]["type"]), "the type is not described for {what}");
        }

        let described = response["headers"].as_object().unwrap();
        let find = |name: &str| described.iter().find(|(described, _)| described.eq_ignore_ascii_case(name));
        let is_ours = |name: &str| {
            name.starts_with("x-")
                || ["retry-after", "retry-after-ms", "allow", "www-authenticate", "cache-control"].contains(&name)
        };
        for name in answer.headers.keys().map(reqwest::header::HeaderName::as_str).filter(|name| is_ours(name)) {
            assert!(find(name).is_some(), "{name} is not described for {what}");
        }
        for (name, header) in described {
            if self.resolve(header)["required"] == true {
                assert!(answer.find_header(&name.to_lowercase()).is_some(), "{name} is missing in {what}");
            }
        }
    }

    fn resolve<'v>(&'v self, value: &'v Value) -> &'v Value {
        let reference = value["$ref"].as_str().and_then(|reference| reference.strip_prefix('#'));
        reference.map_or(value, |pointer| self.document.pointer(pointer).unwrap())
    }
}
