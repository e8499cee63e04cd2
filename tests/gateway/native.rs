//! Responses and messages that pass as they are, where the model's provider has the endpoint itself: what the provider gets and what
//! the client gets, byte by byte, and what that costs.

use serde_json::{Value, json};

use super::{Gateway, create_key};
use crate::{
    BACKGROUND,
    stubs::provider::{Act, KEY, Provider, SECRET, Script},
    world::{Builder, World, answer::Answer, eventually},
};

const MODEL: &str = "svc/gpt-oss-20b";

/// The shipped models, of which one has every endpoint at its provider.
pub(super) fn with_routes(world: Builder) -> Builder {
    let mut models = serde_json::to_value(config::Gateway::default().models).unwrap();
    models[MODEL]["routes"] = json!(["chat", "responses", "messages"]);
    world.set("GATEWAY__MODELS", models)
}

async fn post(gateway: &Gateway, path: &str, body: &str) -> Answer {
    let request = gateway.world.edge().post(&gateway.url(path)).bearer(&gateway.key);
    request.header("content-type", "application/json").header("anthropic-beta", "x-1").body(body.to_owned()).await
}

pub(super) fn json_answer(body: &str) -> Script {
    Script::answer(200, &[("content-type", "application/json")], body.as_bytes())
}

/// Waits until so many rows of exact usage of 9 + 12 tokens are there, and no others.
async fn counted(gateway: &Gateway, rows: i64) {
    let exact = "SELECT count(*) FROM ai_usage WHERE NOT estimated AND prompt_tokens = 9 AND completion_tokens = 12";
    eventually(BACKGROUND, "each is counted once, as reported", async || gateway.world.sql_number(exact).await == rows)
        .await;
    assert_eq!(gateway.world.sql_number("SELECT count(*) FROM ai_usage WHERE certainty < 3").await, rows);
}

pub(super) const RESPONSE: &str = r#"{ "id" : "resp_1","object":"response","model": "upstream-name","status":"completed","error":null,"output":[ {"type":"message","id":"msg_1","role":"assistant","content":[{"type":"output_text","text":"H\u0069!"}]} ],"usage":{"input_tokens":9,"input_tokens_details":{"cached_tokens":4},"output_tokens":12,"output_tokens_details":{"reasoning_tokens":3},"total_tokens":21} }"#;
pub(super) const MESSAGE: &str = r#"{"type":"message","id":"msg_1", "role":"assistant","model":"upstream-name","content":[{"type":"thinking","thinking":"so","signature":"x/+="},{"type":"text","text":"H\u0069!"}],"stop_reason":"end_turn","usage":{"input_tokens":3,"cache_creation_input_tokens":2,"cache_read_input_tokens":4,"output_tokens":12}}"#;
pub(super) const RESPONSE_EVENTS: [&str; 4] = [
    "event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":{\"id\":\"resp_1\",\"model\":\"upstream-name\"}}\n\n",
    "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":1,\"item_id\":\"msg_1\",\"delta\":\"H\\u0069 \"}\n\n",
    "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":2,\"item_id\":\"msg_1\",\"delta\":\"there\"}\n\n",
    "event: response.completed\ndata: {\"type\":\"response.completed\",\"sequence_number\":3,\"response\":{\"id\":\"resp_1\",\"model\":\"upstream-name\",\"usage\":{\"input_tokens\":9,\"output_tokens\":12}}}\n\n",
];
pub(super) const MESSAGE_EVENTS: [&str; 6] = [
    "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"model\":\"upstream-name\",\"usage\":{\"input_tokens\":9,\"output_tokens\":1}}}\n\n",
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"H\\u0069 \"}}\n\n",
    "event: ping\ndata: {\"type\": \"ping\"}\n\n",
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"there\"}}\n\n",
    "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":12}}\n\n",
    "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
];

pub(super) fn stream(events: &[&str]) -> Script {
    Script::stream(events.iter().map(|event| event.as_bytes().to_vec()), true)
}

#[tokio::test]
async fn requests_and_answers_pass_byte_by_byte() {
    let gateway = Gateway::start_with(with_routes).await;
    let named = |text: &str| text.replace("upstream-name", MODEL);
    let body = r#"{ "model" : "svc/gpt-oss-20b", "input":[ {"type":"message","role":"user","content":"H\u0069?"}, {"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"a+/="}],"reasoning": {"effort":"low"},"service_tier":"priority","tools":[{"type":"web_search"},{"type":"function","name":"f","parameters":{"type":"object"}}],"max_output_tokens":100,"store":true}"#;
    let sent = r#"{"model":"gpt-oss-20b","input":[ {"type":"message","role":"user","content":"H\u0069?"}, {"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"a+/="}],"reasoning": {"effort":"low"},"tools":[{"type":"function","name":"f","parameters":{"type":"object"}}],"max_output_tokens":100,"store":false}"#;
    gateway.provider.next(json_answer(RESPONSE));
    let answer = post(&gateway, "/v1/responses", body).await.assert_hides_provider();
    assert_eq!((answer.status.as_u16(), answer.text()), (200, named(RESPONSE)));
    assert_eq!((answer.header("x-svc-warning"), answer.header("x-svc-provider")), ("left out: web_search", "ovhcloud"));
    let asked = gateway.provider.last_asked();
    assert_eq!(asked.text, sent);
    assert!(asked.head.starts_with("POST /v1/responses HTTP/1.1"), "{}", asked.head);
    assert_eq!(asked.header("authorization"), Some(&*format!("Bearer {KEY}")));
    assert_eq!(asked.header("x-api-key"), None);

    let body = r#"{"model":"svc/gpt-oss-20b","max_tokens":100,"system":[{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}}],"messages":[ {"role":"user","content":"H\u0069?"} ],"metadata":{"user_id":"u"}}"#;
    let sent = r#"{"model":"gpt-oss-20b","max_tokens":100,"system":[{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}}],"messages":[ {"role":"user","content":"H\u0069?"} ]}"#;
    gateway.provider.next(json_answer(MESSAGE));
    let answer = post(&gateway, "/v1/messages", body).await.assert_hides_provider();
    assert_eq!((answer.status.as_u16(), answer.text()), (200, named(MESSAGE)));
    let asked = gateway.provider.last_asked();
    assert_eq!(asked.text, sent);
    assert!(asked.head.starts_with("POST /v1/messages HTTP/1.1"), "{}", asked.head);
    assert_eq!((asked.header("x-api-key"), asked.header("anthropic-version")), (Some(KEY), Some("2023-06-01")));
    assert!(asked.header("authorization").is_none() && asked.header("anthropic-beta").is_none(), "{}", asked.head);

    for (path, events, body) in [
        ("/v1/responses", &RESPONSE_EVENTS[..], json!({ "model": MODEL, "input": "Hi?", "stream": true })),
        (
            "/v1/messages",
            &MESSAGE_EVENTS[..],
            json!({ "model": MODEL, "max_tokens": 9, "stream": true, "messages": [{ "role": "user", "content": "Hi?" }] }),
        ),
    ] {
        for script in [stream(events), stream(events).cut(7)] {
            gateway.provider.next(script);
            let answer = post(&gateway, path, &body.to_string()).await.assert_hides_provider();
            assert_eq!((answer.status.as_u16(), answer.text()), (200, named(&events.concat())));
        }
    }
    // Models without the endpoint are asked for chat completions.
    let body = json!({ "model": "svc/qwen3-32b", "input": "Hi?" });
    let answer = post(&gateway, "/v1/responses", &body.to_string()).await.json(200);
    assert_eq!(answer["output"][0]["content"][0]["text"], "Hello!");
    assert!(gateway.provider.last_asked().head.starts_with("POST /v1/chat/completions"));
    counted(&gateway, 7).await;
}

#[tokio::test]
async fn failures_are_in_the_formats_shape_without_a_word_of_the_providers() {
    let gateway = Gateway::start_with(|world| {
        with_routes(world).set("GATEWAY__QUEUE_SECONDS", 0).set("GATEWAY__IDLE_SECONDS", 1)
    })
    .await;
    let bodies = [
        ("/v1/responses", json!({ "model": MODEL, "input": "Hi?" })),
        (
            "/v1/messages",
            json!({ "model": MODEL, "max_tokens": 9, "messages": [{ "role": "user", "content": "Hi?" }] }),
        ),
    ];
    let shape = |path: &str, answer: Answer| -> Value {
        let body: Value = serde_json::from_slice(&answer.assert_hides_provider().body).unwrap();
        let is_anthropics = body["type"] == "error" && body["request_id"].is_string();
        assert_eq!(is_anthropics, path == "/v1/messages", "{body}");
        body["error"].clone()
    };
    for (path, body) in &bodies {
        for (script, status) in [
            (Script::error(400), 400),
            (Script::error(429), 503),
            (Script::error(500), 502),
            (Script::json(&json!({ "type": "error", "error": { "message": SECRET } })), 502),
            (Script::json(&json!({ "status": "failed", "output": [], "content": 7 })), 502),
            // What a chat completion is, and not what was asked for.
            (Script::completion(), 502),
            (Script::usual_stream(2), 502),
        ] {
            gateway.provider.next(script);
            let answer = post(&gateway, path, &body.to_string()).await;
            assert_eq!(answer.status.as_u16(), status, "{}", answer.text());
            shape(path, answer);
        }
    }
    for ((path, body), events) in bodies.iter().zip([&RESPONSE_EVENTS[..2], &MESSAGE_EVENTS[..2]]) {
        let mut body = body.clone();
        body["stream"] = true.into();
        for script in [
            stream(events),
            Script::stream(events.iter().map(|event| event.as_bytes().to_vec()), false).then(Act::Hang),
            stream(&[
                events[0],
                events[1],
                &format!("event: error\ndata: {{\"type\":\"error\",\"message\":\"{SECRET}\"}}\n\n"),
            ]),
        ] {
            gateway.provider.next(script);
            let answer = post(&gateway, path, &body.to_string()).await.assert_hides_provider();
            let text = answer.text();
            assert!(text.starts_with(&events.concat().replace("upstream-name", MODEL)), "{text}");
            let last = if *path == "/v1/messages" { "event: error\n" } else { "event: response.failed\n" };
            assert!(text.contains(last), "{text}");
        }
    }
    // What was said before is paid, as an estimate.
    let estimated = "SELECT count(*) FROM ai_usage WHERE estimated AND completion_tokens BETWEEN 1 AND 9";
    eventually(BACKGROUND, "what was begun is counted", async || gateway.world.sql_number(estimated).await == 6).await;
    // And nothing else: rows are written in the order of the requests.
    assert_eq!(gateway.world.sql_number("SELECT count(*) FROM ai_usage WHERE certainty < 3").await, 6);
}

#[tokio::test]
async fn a_second_provider_without_the_endpoint_is_asked_for_a_chat_completion() {
    let (first, second) = (Provider::start().await, Provider::start().await);
    let shipped = config::Gateway::default();
    let mut providers = serde_json::to_value(shipped.providers).unwrap();
    providers["ovhcloud"]["base_url"] = format!("{}/v1", first.url).into();
    providers["scaleway"]["base_url"] = format!("{}/v1", second.url).into();
    let mut models = serde_json::to_value(shipped.models).unwrap();
    models[MODEL]["routes"] = json!(["chat", "responses"]);
    models[MODEL]["fallback"] = json!({ "provider": "scaleway", "upstream": "second" });
    let world = World::builder()
        .variable("OVH_AI_ENDPOINTS_ACCESS_TOKEN", KEY)
        .variable("SCW_SECRET_KEY", KEY)
        .set("GATEWAY__PROVIDERS", providers)
        .set("GATEWAY__MODELS", models)
        .start()
        .await;
    let key = create_key(&world.user("ada").await).await;
    let url = format!("https://ai.svc.localhost:{}/v1/responses", world.public_port());
    for stream in [false, true] {
        first.next(Script::error(503));
        let body = json!({ "model": MODEL, "input": "Hi?", "stream": stream });
        let answer = world.edge().post(&url).bearer(&key).json(&body).await;
        assert_eq!((answer.status.as_u16(), answer.header("x-svc-provider")), (200, "scaleway"), "{}", answer.text());
        let text = answer.text();
        assert!(text.contains(if stream { "response.completed" } else { "output_text" }), "{text}");
        assert!(first.last_asked().head.starts_with("POST /v1/responses "));
        let asked = second.last_asked();
        assert!(asked.head.starts_with("POST /v1/chat/completions ") && asked.body()["model"] == "second");
    }
    let rows = "SELECT count(*) FROM ai_usage WHERE provider = 'scaleway' AND NOT estimated";
    eventually(BACKGROUND, "both are counted", async || world.sql_number(rows).await == 2).await;
}
