//! `POST /v1/embeddings` and `POST /v1/completions`: real clients with every shipped dialect, and what is the gateway's own.

use serde_json::{Value, json};

use super::{
    Gateway,
    clients::{at_localhost, python, run},
    create_key,
};
use crate::{
    BACKGROUND,
    metrics::Page,
    stubs::provider::{
        KEY, Provider, Script,
        dialects::Dialect,
        paths::{COMPLETION_TOKENS, FILLED, TEXT_TOKENS, count},
    },
    world::{Builder, World, eventually, ports, request::Request, tools},
};

const PYTHON: &str = include_str!("clients/endpoints.py");
const NODE: &str = include_str!("clients/endpoints.mjs");

/// The shipped models, and some for the other endpoints.
fn models() -> Value {
    let mut models = serde_json::to_value(config::Gateway::default().models).unwrap();
    for (id, provider, route, output) in [
        ("svc/mistral-embed", "mistral", "embeddings", 0),
        ("svc/codestral", "mistral", "completions", 90),
        ("svc/bge-m3", "ovhcloud", "embeddings", 0),
        ("svc/qwen-fim", "ovhcloud", "completions", 40),
    ] {
        models[id] = json!({
            "provider": provider, "upstream": "upstream-name", "input_cents": 10, "output_cents": output,
            "context": 8_192, "routes": [route],
        });
    }
    models
}

fn with_models(builder: Builder) -> Builder {
    builder.set("GATEWAY__MODELS", models())
}

impl Gateway {
    fn ask(&self, path: &str, body: &Value) -> Request {
        self.world.edge().post(&self.url(path)).bearer(&self.key).json(body)
    }

    fn embed(&self, fields: &Value) -> Request {
        self.ask("/v1/embeddings", &with(json!({ "model": "svc/bge-m3", "input": "a" }), fields))
    }

    fn fill(&self, fields: &Value) -> Request {
        self.ask("/v1/completions", &with(json!({ "model": "svc/qwen-fim", "prompt": "a" }), fields))
    }
}

fn with(mut body: Value, fields: &Value) -> Value {
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    body
}

/// Waits until Postgres has this many completions, with these tokens.
async fn assert_metered(world: &World, expected: (i64, i64, i64)) {
    let sum = async |what: &str| world.sql_number(&format!("SELECT coalesce({what}, 0)::bigint FROM ai_usage")).await;
    eventually(BACKGROUND, "all is metered", async || {
        let found = (sum("count(*)").await, sum("sum(prompt_tokens)").await, sum("sum(completion_tokens)").await);
        found == expected
    })
    .await;
    assert_eq!(world.sql_number("SELECT count(*) FROM ai_usage WHERE estimated").await, 0);
}

#[tokio::test]
async fn real_clients_embed_and_fill_in_with_every_provider() {
    let mut shipped = serde_json::to_value(config::Gateway::default().providers).unwrap();
    let (mut builder, mut providers) = (at_localhost(World::builder()), Vec::new());
    for (name, variable, dialect) in
        [("mistral", "MISTRAL_API_KEY", "mistral"), ("ovhcloud", "OVH_AI_ENDPOINTS_ACCESS_TOKEN", "vllm")]
    {
        let provider = Provider::start_as(Dialect::named(dialect)).await;
        shipped[name]["base_url"] = format!("{}/v1", provider.url).into();
        builder = builder.variable(variable, KEY);
        providers.push(provider);
    }
    let world =
        with_models(builder.set("GATEWAY__PROVIDERS", shipped).set("LIMITS__GATEWAY_PER_MIN", 10_000)).start().await;
    let key = create_key(&world.user("ada").await).await;
    let embedders = json!(["svc/bge-m3", "svc/mistral-embed"]).to_string();
    let fillers = json!(["svc/qwen-fim", "svc/codestral"]).to_string();
    for (name, client) in [("openai-python", python(PYTHON)), ("openai-node", tools::node(NODE))] {
        let output = run(client, &world, &key, &[("EMBEDDERS", &embedders), ("FILLERS", &fillers)]).await;
        assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), "all is well", "{name}");
    }
    // What is charged is what the providers have counted.
    let (mut requests, mut prompt, mut completion) = (0, 0, 0);
    for asked in providers.iter().flat_map(Provider::asked) {
        let body = asked.body();
        requests += 1;
        if asked.path().ends_with("embeddings") {
            prompt += TEXT_TOKENS * count(&body["input"]);
        } else {
            prompt += TEXT_TOKENS * count(&body["prompt"]);
            completion += COMPLETION_TOKENS * count(&body["prompt"]);
        }
    }
    assert!(requests > 20 && completion > 0);
    assert_metered(&world, (requests, i64::try_from(prompt).unwrap(), i64::try_from(completion).unwrap())).await;
}

#[tokio::test]
async fn models_say_where_they_can_be_asked() {
    let gateway = Gateway::start_with(with_models).await;
    let embedder = gateway.get("/v1/models/svc/bge-m3").await.ok();
    assert_eq!(embedder["supported_endpoints"], json!(["/v1/embeddings"]));
    assert_eq!((&embedder["output_modalities"], &embedder["supported_features"]), (&json!(["embeddings"]), &json!([])));
    assert_eq!((&embedder["pricing"]["output"], embedder.get("max_output_tokens")), (&json!(0), None));
    let filler = gateway.get("/v1/models/svc/qwen-fim").await.ok();
    assert_eq!(filler["supported_endpoints"], json!(["/v1/completions"]));
    assert_eq!(filler["max_output_tokens"], 4_096);
    let chat = gateway.get("/v1/models/svc/mistral-small").await.ok();
    assert_eq!(chat["supported_endpoints"], json!(["/v1/chat/completions", "/v1/responses", "/v1/messages"]));

    let messages = json!([{ "role": "user", "content": "Hi?" }]);
    for (path, body) in [
        ("/v1/embeddings", json!({ "model": "svc/mistral-small", "input": "a" })),
        ("/v1/completions", json!({ "model": "svc/mistral-small", "prompt": "a" })),
        ("/v1/chat/completions", json!({ "model": "svc/bge-m3", "messages": messages })),
        ("/v1/responses", json!({ "model": "svc/bge-m3", "input": "a" })),
    ] {
        let error = gateway.ask(path, &body).await.assert_openai_error(400, "invalid_value");
        assert_eq!(error["param"], "model", "{path}: {error}");
        assert!(error["message"].as_str().unwrap().contains("/v1/"), "{error}");
    }
    let body = json!({ "model": "svc/bge-m3", "messages": messages, "max_tokens": 1 });
    gateway.ask("/v1/messages", &body).await.assert_anthropic_error(400, "invalid_request_error");
    assert_eq!(gateway.provider.asked().len(), 0);
}

#[tokio::test]
async fn embeddings_are_metered_and_pass_as_they_are() {
    let gateway = Gateway::start_with(|world| with_models(world).set("GATEWAY__QUEUE_SECONDS", 0)).await;
    for (fields, first) in [(json!({}), json!(0.0)), (json!({ "encoding_format": "base64" }), Value::Null)] {
        let answer = gateway.embed(&fields).await;
        assert!(answer.header("x-request-id").starts_with("req_"));
        assert!(answer.find_header("x-ratelimit-remaining-tokens").is_some());
        let body = answer.assert_hides_provider().ok();
        assert_eq!((&body["model"], &body["object"]), (&json!("svc/bge-m3"), &json!("list")));
        assert_eq!(body["data"][0]["embedding"][0], first);
        assert_eq!(body["usage"], json!({ "prompt_tokens": 3, "total_tokens": 3, "cost_microeuros": 1 }));
    }
    assert_eq!(gateway.provider.last_asked().body()["encoding_format"], "base64");
    // A provider that answers with numbers although it was asked for base64: what comes out is base64 all the same.
    let numbers = json!({ "data": [{ "embedding": [0.5, -2.0] }], "usage": { "prompt_tokens": 1, "total_tokens": 1 } });
    gateway.provider.next(Script::json(&numbers));
    let body = gateway.embed(&json!({ "encoding_format": "base64" })).await.ok();
    assert_eq!(body["data"][0]["embedding"], "AAAAPwAAAMA=");
    // Where no usage is said, it is estimated.
    gateway.provider.next(Script::json(&json!({ "data": [{ "embedding": [0.5] }] })));
    let body = gateway.embed(&json!({})).await.ok();
    assert_eq!(body["usage"]["estimated"], true);
    // What is no answer costs nothing.
    for answer in [json!({ "data": [] }), json!({ "choices": [] }), json!({ "error": {} })] {
        gateway.provider.next(Script::json(&answer));
        gateway.embed(&json!({})).await.assert_openai_error(502, "upstream_error");
    }
    gateway.provider.next(Script::error(429));
    gateway.embed(&json!({})).await.assert_openai_error(503, "upstream_overloaded");
    let too_long = json!({ "error": { "message": "This model's maximum context length is 8192 tokens. However, your \
        request has 9000 input tokens." } });
    gateway.provider.next(Script::answer(
        400,
        &[("content-type", "application/json")],
        too_long.to_string().as_bytes(),
    ));
    let error = gateway.embed(&json!({})).await.assert_openai_error(400, "context_length_exceeded");
    assert_eq!(error["param"], "input", "{error}");
    // A key may be shown as other services have it.
    let shown = gateway.world.edge().post(&gateway.url("/v1/embeddings")).header("x-api-key", &gateway.key);
    shown.json(&json!({ "model": "svc/bge-m3", "input": "a" })).await.ok();
    gateway.embed(&json!({ "user": "x".repeat(70_000) })).await.assert_openai_error(413, "request_too_large");

    let sum = "SELECT coalesce(sum(completion_tokens), 0)::bigint * 1000 + count(*)::bigint FROM ai_usage";
    eventually(BACKGROUND, "five are metered", async || gateway.world.sql_number(sum).await == 5).await;
}

#[tokio::test]
async fn code_is_filled_in_whole_and_streamed_whatever_the_provider_sends() {
    let metrics = ports::free();
    let listen = format!("127.0.0.1:{metrics}");
    let gateway = Gateway::start_with(|world| with_models(world).set("EDGE__METRICS_LISTEN", listen)).await;
    let whole = gateway.fill(&json!({ "suffix": "b", "max_tokens": 9 })).await.assert_hides_provider().ok();
    assert_eq!((&whole["object"], &whole["choices"][0]["text"]), (&json!("text_completion"), &json!(FILLED)));
    let asked = gateway.provider.last_asked();
    assert_eq!(asked.path(), "/v1/completions");
    assert_eq!(asked.body(), json!({ "model": "upstream-name", "prompt": "a", "suffix": "b", "max_tokens": 9 }));

    let text = |frames: &[Value]| -> String {
        frames.iter().filter_map(|frame| frame["choices"][0]["text"].as_str()).collect()
    };
    let frames = gateway.fill(&json!({ "stream": true })).await.frames();
    assert_eq!((text(&frames).as_str(), &frames.last().unwrap()["usage"]["total_tokens"]), (FILLED, &json!(8)));
    assert_eq!(gateway.provider.last_asked().body()["stream_options"], json!({ "include_usage": true }));
    // One that answers as it was not asked to: whole for a stream, streamed for a whole, without usage, with messages.
    let answer =
        |choice: &Value, usage: &Value| json!({ "id": "c", "object": "x", "choices": [choice], "usage": usage });
    let usage = json!({ "prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8 });
    let said = json!({ "index": 0, "message": { "role": "assistant", "content": FILLED }, "finish_reason": "stop" });
    gateway.provider.next(Script::json(&answer(&said, &usage)));
    let frames = gateway.fill(&json!({ "stream": true })).await.frames();
    assert!(frames.iter().all(|frame| frame["object"] == "text_completion"), "{frames:?}");
    let charged = with(usage.clone(), &json!({ "cost_microeuros": 3 }));
    assert_eq!((text(&frames).as_str(), &frames.last().unwrap()["usage"]), (FILLED, &charged));
    let pieces = ["return ", "n - 1"].map(|piece| {
        let choice = json!({ "index": 0, "text": piece, "finish_reason": null });
        format!("data: {}", json!({ "id": "c", "object": "text_completion", "choices": [choice] }))
    });
    let end = json!({ "id": "c", "object": "text_completion", "choices": [], "usage": usage });
    let last = format!("data: {end}");
    let events = [pieces[0].as_str(), pieces[1].as_str(), last.as_str(), "data: [DONE]"];
    gateway.provider.next(Script::events(&events));
    let whole = gateway.fill(&json!({})).await.ok();
    assert_eq!((&whole["object"], &whole["choices"][0]["text"]), (&json!("text_completion"), &json!(FILLED)));
    assert_metered(&gateway.world, (4, 12, 20)).await;

    // A client that leaves has the stream read to its end.
    gateway.provider.next(Script::events(&events).held_after(2));
    let client = gateway.world.edge().another_browser(true);
    let url = gateway.world.edge().address(&gateway.url("/v1/completions"));
    let body = json!({ "model": "svc/qwen-fim", "prompt": "a", "stream": true });
    let mut stream = client.post(url).bearer_auth(&gateway.key).json(&body).send().await.unwrap();
    stream.chunk().await.unwrap().expect("a first chunk");
    drop((stream, client));
    eventually(BACKGROUND, "the edge knows that the client has gone", async || {
        (Page::of(metrics).await.sum("svc_gateway_drains") - 1.0).abs() < f64::EPSILON
    })
    .await;
    gateway.provider.go_on();
    assert_metered(&gateway.world, (5, 15, 25)).await;
    gateway.fill(&json!({ "echo": true })).await.assert_openai_error(400, "invalid_value");
    let error = gateway.fill(&json!({ "max_tokens": 4_097 })).await.assert_openai_error(400, "invalid_value");
    assert_eq!(error["param"], "max_tokens");
}
