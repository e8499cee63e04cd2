//! The body that a provider gets for a request, and the requests that are refused.

use futures_util::stream;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{Gateway, create_key, request};
use crate::{
    BACKGROUND,
    stubs::provider::{KEY, Script},
    world::{eventually, request::Request},
};

const LARGEST: usize = 64 * 1024;
/// Completions that one account may have under way.
const MOST_UNDER_WAY: usize = 40;

#[tokio::test]
async fn the_provider_gets_the_body_and_nothing_else_of_the_client() {
    let gateway = Gateway::start().await;
    let body = r#"{"messages":[{"role":"user","content":[{"type":"text","text":"\u00e9 é"},{"type":"image_url","image_url":{"url":"data:,x"}}]}],
        "seed": 123456789012345678901234567890, "temperature":1.0e0,"tools":[{"type":"function","function":{"name":"f","parameters":{"b":1,"a":2}}}],
        "response_format":{"type":"json_schema"},"n":2,"x_unknown":{"z":[1, 2.50]},"model":"svc/mistral-small","store":true}"#;
    let answer = gateway
        .post(body)
        .header("x-secret-of-client", "1")
        .header("cookie", "a=b")
        .header("openai-organization", "org-1")
        .header("user-agent", "client/1")
        .header("x-forwarded-for", "203.0.113.9")
        .await;
    let completion = answer.assert_hides_provider().ok();
    assert_eq!(completion["model"], "svc/mistral-small");

    let asked = gateway.provider.last_asked();
    let mut lines = asked.head.lines();
    assert_eq!(lines.next(), Some("POST /v1/chat/completions HTTP/1.1"));
    let mut fields: Vec<_> = lines.map(|line| line.split_once(':').unwrap().0.to_ascii_lowercase()).collect();
    fields.sort_unstable();
    let expected =
        ["accept", "accept-encoding", "authorization", "content-length", "content-type", "host", "user-agent"];
    assert_eq!(fields, expected);
    assert_eq!(asked.header("authorization"), Some(format!("Bearer {KEY}").as_str()));
    assert_eq!(asked.header("accept-encoding"), Some("identity"));
    assert!(!asked.head.contains("client/1") && !asked.text.contains("svc/") && !asked.text.contains(&gateway.key));

    // Byte by byte as it was sent, except for `model`, `store`, the ceiling, and the space between fields.
    let expected =
        body.replace("\"svc/mistral-small\"", "\"mistral-small-latest\"").replace("\"store\":true", "\"store\":false");
    let expected = expected.replace(",\n        ", ",").replace(", \"temperature", ",\"temperature");
    assert_eq!(asked.text, expected.strip_suffix('}').unwrap().to_owned() + r#","max_tokens":4096}"#);
}

#[tokio::test]
async fn max_tokens_has_a_ceiling_that_is_also_the_default() {
    let gateway = Gateway::start().await;
    for (fields, max_tokens, max_completion_tokens) in [
        (json!({}), json!(4096), Value::Null),
        (json!({ "max_tokens": null }), json!(4096), Value::Null),
        (json!({ "max_tokens": 4096 }), json!(4096), Value::Null),
        (json!({ "max_tokens": 1 }), json!(1), Value::Null),
        // A server that does not know the newer name would ignore it.
        (json!({ "max_completion_tokens": 7 }), json!(7), Value::Null),
        (json!({ "max_completion_tokens": 7, "max_tokens": null }), json!(7), Value::Null),
        (json!({ "max_completion_tokens": 7, "max_tokens": 6 }), json!(6), Value::Null),
    ] {
        gateway.complete(&fields).await.ok();
        let body = gateway.provider.last_asked().body();
        assert_eq!((&body["max_tokens"], &body["max_completion_tokens"]), (&max_tokens, &max_completion_tokens));
    }
    let asked = gateway.provider.asked().len();
    for name in ["max_tokens", "max_completion_tokens"] {
        for value in [json!(4097), json!(0), json!(-1), json!(1.5), json!("10"), json!(true), json!(1e30)] {
            for stream in [true, false] {
                let answer = gateway.complete(&json!({ name: value, "stream": stream })).await;
                let error = answer.assert_openai_error(400, "invalid_value");
                assert_eq!((&error["param"], &error["type"]), (&name.into(), &"invalid_request_error".into()));
            }
        }
    }
    assert_eq!(gateway.provider.asked().len(), asked);
}

#[tokio::test]
async fn usage_is_asked_for_in_every_stream() {
    let gateway = Gateway::start().await;
    for options in [Value::Null, json!({}), json!({ "include_usage": false }), json!({ "include_obfuscation": false })]
    {
        gateway.complete(&json!({ "stream": true, "stream_options": options })).await.frames();
        let asked = gateway.provider.last_asked();
        assert_eq!(asked.header("accept"), Some("text/event-stream"));
        let sent = &asked.body()["stream_options"];
        assert_eq!(sent["include_usage"], true);
        assert_eq!(sent.get("include_obfuscation"), options.get("include_obfuscation"));
    }
    gateway.complete(&json!({ "stream": false })).await.ok();
    assert!(gateway.provider.last_asked().body().get("stream_options").is_none());
}

/// A request whose body has this size.
fn body_of_size(size: usize) -> String {
    let mut body = request(&json!({ "pad": "" })).to_string();
    let pad = "x".repeat(size - body.len());
    body = body.replace("\"pad\":\"\"", &format!("\"pad\":\"{pad}\""));
    assert_eq!(body.len(), size);
    body
}

/// Sends a body of unknown length: in chunks over HTTP/1.1, in frames over HTTP/2.
async fn send_in_pieces(gateway: &Gateway, client: &reqwest::Client, body: &str, piece: usize) -> u16 {
    let pieces: Vec<_> = body.as_bytes().chunks(piece).map(|piece| Ok::<_, std::io::Error>(piece.to_vec())).collect();
    let url = gateway.world.edge().address(&gateway.url("/v1/chat/completions"));
    let request = client.post(url).bearer_auth(&gateway.key).body(reqwest::Body::wrap_stream(stream::iter(pieces)));
    request.send().await.unwrap().status().as_u16()
}

#[tokio::test]
async fn a_bodys_size_is_counted_while_it_is_read() {
    let gateway = Gateway::start().await;
    let edge = gateway.world.edge();
    gateway.post(body_of_size(LARGEST)).await.ok();
    for size in [LARGEST + 1, 1_000_000] {
        gateway.post(body_of_size(size)).await.assert_openai_error(413, "request_too_large");
        for client in [&edge.browser, &edge.old_browser] {
            assert_eq!(send_in_pieces(&gateway, client, &body_of_size(size), 1_000).await, 413);
        }
    }
    assert_eq!(gateway.provider.asked().len(), 1);
    // The size of the pieces makes no difference.
    for client in [&edge.browser, &edge.old_browser] {
        assert_eq!(send_in_pieces(&gateway, client, &body_of_size(500), 1).await, 200);
    }
}

#[tokio::test]
async fn invalid_requests_get_a_code_and_a_param() {
    let gateway = Gateway::start().await;
    let deep = format!(r#"{{"model":"svc/qwen3-32b","messages":{}"#, "[".repeat(60_000));
    for body in ["", "{", "nonsense", "[1]", "\"x\"", "{\"model\":\"svc/qwen3-32b\"}{", "{'model':1}", deep.as_str()] {
        let error = gateway.post(body).await.assert_openai_error(400, "invalid_json");
        assert_eq!(error["type"], "invalid_request_error");
    }
    let not_utf8 = gateway.world.edge().post(&gateway.url("/v1/chat/completions")).bearer(&gateway.key);
    not_utf8.body(b"{\"model\":\"\xff\"}".to_vec()).await.assert_openai_error(400, "invalid_json");
    for (fields, status, code, param) in [
        (json!({ "model": null }), 400, "invalid_type", "model"),
        (json!({ "model": "gpt-4o" }), 404, "model_not_found", "model"),
        (json!({ "model": "svc/GPT-OSS-20B" }), 404, "model_not_found", "model"),
        (json!({ "model": "gpt-oss-20b" }), 404, "model_not_found", "model"),
        (json!({ "messages": [] }), 400, "invalid_value", "messages"),
        (json!({ "messages": null }), 400, "invalid_type", "messages"),
        (json!({ "messages": [{}] }), 400, "invalid_type", "messages[0].role"),
        (json!({ "n": 0 }), 400, "invalid_value", "n"),
        (json!({ "n": 100_000 }), 400, "invalid_value", "n"),
        (json!({ "stream": "yes" }), 400, "invalid_type", "stream"),
    ] {
        let error = gateway.complete(&fields).await.assert_openai_error(status, code);
        assert_eq!(error["param"], param, "{fields}");
    }
    // A quotation of the request is short, and escaped.
    let long = gateway.complete(&json!({ "model": "\"<é>".repeat(2_000) })).await;
    let error = long.assert_openai_error(404, "model_not_found");
    assert!(error["message"].as_str().unwrap().len() < 1_000);
    assert!(gateway.provider.asked().is_empty());
}

#[tokio::test]
async fn one_account_does_not_hold_every_completion() {
    let gateway = Gateway::start_with(|world| world.set("LIMITS__GATEWAY_CONCURRENT", MOST_UNDER_WAY)).await;
    for _ in 0..MOST_UNDER_WAY {
        gateway.provider.next(Script::usual_stream(2).held_after(1));
    }
    // A connection each: one of HTTP/2 takes fewer at once.
    let (edge, url) = (gateway.world.edge(), gateway.url("/v1/chat/completions"));
    let ask = || {
        let body = request(&json!({ "stream": true }));
        Request::new(&edge.old_browser, Method::POST, edge.address(&url).as_str()).bearer(&gateway.key).json(&body)
    };
    let mut asking: JoinSet<_> = (0..=MOST_UNDER_WAY).map(|_| ask().attempt()).collect();
    let refused = asking.join_next().await.unwrap().unwrap().unwrap();
    let error = refused.assert_openai_error(429, "rate_limit_exceeded");
    assert!(error["message"].as_str().unwrap().contains("40 completions under way"), "{error}");
    eventually(BACKGROUND, "all others are asked", async || gateway.provider.asked().len() == MOST_UNDER_WAY).await;
    // Somebody else is served meanwhile.
    let key = create_key(&gateway.world.user("bob").await).await;
    edge.post(&url).bearer(&key).json(&request(&json!({}))).await.ok();
}
