//! `POST /v1/messages`: Anthropic's format, in front of a provider that speaks chat completions.

use serde_json::{Value, json};
use tokio::time::timeout;

use super::Gateway;
use crate::{
    BACKGROUND,
    stubs::provider::{Act, SECRET, Script, choice, completion, event, usual_events},
    world::{
        answer::{Answer, assert_keys},
        eventually,
        request::Request,
    },
};

const PATH: &str = "/v1/messages";
const COUNT_PATH: &str = "/v1/messages/count_tokens";

impl Gateway {
    /// Asks for a message, with these fields beside the usual ones, as Anthropic's clients do.
    pub(super) fn message(&self, fields: &Value) -> Request {
        self.message_at(PATH, fields)
    }

    fn message_at(&self, path: &str, fields: &Value) -> Request {
        let mut body = json!({ "model": "svc/gpt-oss-20b", "messages": [{ "role": "user", "content": "Hi?" }], "max_tokens": 100 });
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let request = self.world.edge().post(&self.url(&format!("{path}?beta=true"))).header("x-api-key", &self.key);
        request.header("anthropic-version", "2023-06-01").header("anthropic-beta", "x-2020-01-01").json(&body)
    }

    /// Waits until Postgres has this many completions with these sums.
    async fn assert_metered(&self, requests: i64, prompt: u64, completion: u64) {
        let sums = "SELECT count(*) * 1000000 + coalesce(sum(prompt_tokens), 0)::bigint * 1000 \
                    + coalesce(sum(completion_tokens), 0)::bigint FROM ai_usage";
        let expected = requests * 1_000_000 + i64::try_from(prompt * 1_000 + completion).unwrap();
        eventually(BACKGROUND, "all is metered", async || self.world.sql_number(sums).await == expected).await;
    }
}

impl Answer {
    /// Checks that this is an error in Anthropic's shape with nothing of the provider in it, and returns its message.
    #[track_caller]
    pub(super) fn assert_anthropic_error(self, status: u16, kind: &str) -> String {
        let answer = self.assert_hides_provider();
        let id = answer.header("request-id").to_owned();
        assert_eq!(answer.header("x-request-id"), id);
        let body = answer.json(status);
        assert_keys(&body, "type error request_id");
        assert_keys(&body["error"], "type message");
        assert_eq!(
            (&body["type"], &body["error"]["type"], &body["request_id"]),
            (&json!("error"), &json!(kind), &json!(id))
        );
        body["error"]["message"].as_str().unwrap().to_owned()
    }

    /// The data of a stream's events.
    #[track_caller]
    fn events(self) -> Vec<Value> {
        let answer = self.assert_status(200).assert_hides_provider();
        assert!(answer.header("content-type").starts_with("text/event-stream"));
        let event = |event: &str| {
            let (name, data) = event.strip_prefix("event: ").and_then(|event| event.split_once("\ndata: ")).unwrap();
            let data: Value = serde_json::from_str(data).unwrap();
            assert_eq!(data["type"], name);
            data
        };
        answer.text().split_terminator("\n\n").map(event).collect()
    }
}

/// The pieces of one kind, as one text.
fn joined(events: &[Value], field: &str) -> String {
    events.iter().filter_map(|event| event["delta"][field].as_str()).collect()
}

/// The tokens of `usage`: of the prompt, and of the answer.
fn tokens(usage: &Value) -> (u64, u64) {
    let count = |name: &str| usage[name].as_u64().unwrap();
    let prompt = count("input_tokens") + count("cache_read_input_tokens") + count("cache_creation_input_tokens");
    (prompt, count("output_tokens"))
}

/// A frame with this piece of what the model says.
fn said(delta: &Value) -> String {
    event(&json!([choice(delta, None)]), &Value::Null)
}

#[tokio::test]
async fn messages_are_answered_whole_and_as_streams() {
    let gateway = Gateway::start().await;
    let answer = gateway.message(&json!({ "system": "S", "top_k": 3, "metadata": { "user_id": "u" } })).await;
    for name in ["x-ratelimit-limit-requests", "request-id"] {
        assert!(answer.find_header(name).is_some(), "{name} in {:?}", answer.headers);
    }
    let message = answer.assert_hides_provider().ok();
    assert_keys(&message, "id type role model content stop_reason stop_sequence usage");
    assert!(message["id"].as_str().unwrap().starts_with("msg_"), "{message}");
    assert_eq!(message["model"], "svc/gpt-oss-20b");
    assert_eq!(message["content"], json!([{ "type": "text", "text": "Hello!" }]));
    let asked = gateway.provider.last_asked();
    assert!(asked.header("x-api-key").is_none() && asked.header("anthropic-version").is_none(), "{}", asked.head);
    let messages = json!([{ "role": "system", "content": "S" }, { "role": "user", "content": "Hi?" }]);
    assert_eq!(asked.body(), json!({ "model": "gpt-oss-20b", "messages": messages, "max_tokens": 100, "top_k": 3 }));

    for (bytes, end) in [(1, "\n"), (61, "\r\n"), (100_000, "\n")] {
        let pieces =
            usual_events(4).into_iter().map(|event| [event.as_bytes(), end.as_bytes(), end.as_bytes()].concat());
        gateway.provider.next(Script::stream(pieces, true).cut(bytes));
        let events = gateway.message(&json!({ "stream": true })).await.events();
        let names: Vec<_> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
        assert_eq!((names[0], names[names.len() - 1]), ("message_start", "message_stop"), "{names:?}");
        assert_eq!(joined(&events, "text"), "wörd0 wörd1 wörd2 wörd3 ");
        let last = &events[events.len() - 2];
        assert_eq!((&last["delta"]["stop_reason"], tokens(&last["usage"])), (&json!("end_turn"), (9, 4)));
    }
    // The other way round: a whole answer for a stream, and a stream for a whole answer.
    gateway.provider.next(Script::completion());
    let events = gateway.message(&json!({ "stream": true })).await.events();
    assert_eq!((joined(&events, "text").as_str(), tokens(&events[events.len() - 2]["usage"])), ("Hello!", (9, 12)));
    gateway.provider.next(Script::usual_stream(2));
    let message = gateway.message(&json!({})).await.ok();
    assert_eq!((&message["content"][0]["text"], tokens(&message["usage"])), (&json!("wörd0 wörd1 "), (9, 2)));
    gateway.assert_metered(6, 6 * 9, 12 + 3 * 4 + 12 + 2).await;
}

#[tokio::test]
async fn each_word_arrives_before_the_next_is_said() {
    let gateway = Gateway::start().await;
    // Held before the second word and before the third.
    gateway.provider.next(Script::usual_stream(3).held_after(3).held_after(5));
    let (_, response) = gateway.message(&json!({ "stream": true })).open().await;
    let (mut response, mut text) = (response.unwrap(), String::new());
    let hear = async {
        let mut held = ["wörd0", "wörd1"].iter();
        let mut next = held.next();
        while let Some(chunk) = response.chunk().await.unwrap() {
            text.push_str(std::str::from_utf8(&chunk).unwrap());
            while next.is_some_and(|word| text.contains(*word)) {
                gateway.provider.go_on();
                next = held.next();
            }
        }
    };
    timeout(BACKGROUND, hear).await.expect("a word was kept back until the next came");
    assert!(text.contains("wörd2") && text.ends_with("data: {\"type\":\"message_stop\"}\n\n"), "{text}");
}

#[tokio::test]
async fn calls_and_thoughts_come_back_in_the_second_turn() {
    let gateway = Gateway::start().await;
    let call = |index: u64, call: Value| {
        let mut call = call;
        call["index"] = index.into();
        said(&json!({ "tool_calls": [call] }))
    };
    gateway.provider.next(Script::events(&[
        said(&json!({ "role": "assistant", "content": "" })),
        said(&json!({ "reasoning_content": "Both " })),
        said(&json!({ "reasoning_content": "at once." })),
        said(&json!({ "content": "I look." })),
        call(0, json!({ "id": "call_a", "type": "function", "function": { "name": "read", "arguments": "" } })),
        call(
            1,
            json!({ "id": "call_b", "type": "function", "function": { "name": "read", "arguments": "{\"path\"" } }),
        ),
        call(0, json!({ "function": { "arguments": "{\"path\":\"a\"}" } })),
        call(1, json!({ "function": { "arguments": ":\"b\"}" } })),
        event(&json!([choice(&json!({}), Some("tool_calls"))]), &Value::Null),
        event(
            &json!([]),
            &json!({ "prompt_tokens": 90, "completion_tokens": 30, "total_tokens": 120,
            "prompt_tokens_details": { "cached_tokens": 64 } }),
        ),
        "data: [DONE]".to_owned(),
    ]));
    let tools = json!([
        { "name": "read", "input_schema": { "type": "object", "properties": { "path": { "type": "string" } } } },
        { "type": "web_search_20250305", "name": "web_search" },
    ]);
    let fields = json!({ "stream": true, "thinking": { "type": "enabled", "budget_tokens": 2000 }, "tools": tools });
    let answer = gateway.message(&fields).await;
    assert!(answer.header("x-svc-warning").contains("web_search_20250305"));
    let events = answer.events();
    let started = events.iter().filter(|event| event["type"] == "content_block_start");
    let mut blocks: Vec<Value> = started.map(|event| event["content_block"].clone()).collect();
    let kinds: Vec<_> = blocks.iter().map(|block| block["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["thinking", "text", "tool_use", "tool_use"]);
    assert_eq!(joined(&events, "partial_json"), r#"{"path":"a"}{"path":"b"}"#);
    let signature = joined(&events, "signature");
    assert!(!signature.is_empty());
    let end = &events[events.len() - 2];
    assert_eq!(
        (&end["delta"]["stop_reason"], &end["usage"]["cache_read_input_tokens"]),
        (&json!("tool_use"), &json!(64))
    );
    assert_eq!(tokens(&end["usage"]), (90, 30));
    let asked = gateway.provider.last_asked().body();
    assert_eq!((&asked["reasoning_effort"], &asked["tools"].as_array().unwrap().len()), (&json!("low"), &1));

    // What a client sends back.
    blocks[0] = json!({ "type": "thinking", "thinking": joined(&events, "thinking"), "signature": signature });
    blocks[1]["text"] = joined(&events, "text").into();
    for (block, path) in [(2, "a"), (3, "b")] {
        blocks[block]["input"] = json!({ "path": path });
    }
    let result = |id: &str, content: &str| json!({ "type": "tool_result", "tool_use_id": id, "content": content });
    let turns = json!([{ "role": "user", "content": "Read." }, { "role": "assistant", "content": blocks },
        { "role": "user", "content": [result("call_a", "A"), result("call_b", "B")] }]);
    gateway.message(&json!({ "messages": turns, "tools": tools })).await.ok();
    let called = |id: &str, path: &str| {
        let function = json!({ "name": "read", "arguments": json!({ "path": path }).to_string() });
        json!({ "id": id, "type": "function", "function": function })
    };
    assert_eq!(
        gateway.provider.last_asked().body()["messages"],
        json!([
            { "role": "user", "content": "Read." },
            { "role": "assistant", "content": "I look.", "reasoning_content": "Both at once.",
              "tool_calls": [called("call_a", "a"), called("call_b", "b")] },
            { "role": "tool", "content": "A", "tool_call_id": "call_a" },
            { "role": "tool", "content": "B", "tool_call_id": "call_b" },
        ])
    );
    gateway.assert_metered(2, 99, 42).await;
}

#[tokio::test]
async fn answers_have_the_form_that_was_asked_for() {
    let gateway = Gateway::start().await;
    let format = json!({ "type": "json_schema", "schema": { "type": "object" } });
    gateway.provider.next(Script::json(&completion("{\"a\":1}")));
    let message = gateway.message(&json!({ "output_config": { "format": format } })).await.ok();
    assert_eq!(message["content"][0]["text"], "{\"a\":1}");
    assert_eq!(gateway.provider.last_asked().body()["response_format"]["json_schema"]["schema"], format["schema"]);

    let mut refused = completion("I will not.");
    refused["choices"][0]["finish_reason"] = "content_filter".into();
    gateway.provider.next(Script::json(&refused));
    assert_eq!(gateway.message(&json!({})).await.ok()["stop_reason"], "refusal");
}

#[tokio::test]
async fn errors_are_in_anthropics_shape() {
    let gateway = Gateway::start_with(|world| world.set("GATEWAY__QUEUE_SECONDS", 0)).await;
    let edge = gateway.world.edge();
    edge.post(&gateway.url(PATH)).await.assert_anthropic_error(401, "authentication_error");
    for path in [PATH, COUNT_PATH] {
        let request = edge.post(&gateway.url(path)).header("x-api-key", format!("svc_{}", "x".repeat(43)));
        request.await.assert_anthropic_error(401, "authentication_error");
        gateway
            .message_at(path, &json!({ "model": "claude-opus-5" }))
            .await
            .assert_anthropic_error(404, "not_found_error");
        let fields = json!({ "mcp_servers": [{ "type": "url", "url": "https://x.example", "name": "x" }] });
        let message = gateway.message_at(path, &fields).await.assert_anthropic_error(400, "invalid_request_error");
        assert!(message.contains("mcp_servers"), "{message}");
    }
    let message =
        gateway.message(&json!({ "max_tokens": 32_000 })).await.assert_anthropic_error(400, "invalid_request_error");
    let words = "max_tokens: 32000 > 4096, which is the maximum allowed number of output tokens for svc/gpt-oss-20b";
    assert_eq!(message, words);
    gateway.message(&json!({ "system": "x".repeat(70_000) })).await.assert_anthropic_error(413, "request_too_large");
    let refused = edge.get(&gateway.url(PATH)).await;
    assert_eq!(refused.header("allow"), "POST, OPTIONS");
    refused.assert_anthropic_error(405, "invalid_request_error");
    assert!(gateway.provider.asked().is_empty());

    for (status, ours, kind) in [
        (400, 400, "invalid_request_error"),
        (429, 503, "overloaded_error"),
        (500, 502, "api_error"),
        (504, 504, "timeout_error"),
    ] {
        for stream in [false, true] {
            gateway.provider.next(Script::error(status));
            gateway.message(&json!({ "stream": stream })).await.assert_anthropic_error(ours, kind);
        }
    }
    // A stream that breaks off says so, and what came of it is charged.
    let pieces = usual_events(4).into_iter().take(3).map(|event| format!("{event}\n\n").into_bytes());
    gateway.provider.next(Script::stream(pieces, false).then(Act::Close));
    let mut events = gateway.message(&json!({ "stream": true })).await.events();
    assert_eq!(events.pop().unwrap()["error"]["type"], "api_error");
    assert_eq!(joined(&events, "text"), "wörd0 wörd1 ");
    let cut = "SELECT count(*) FROM ai_usage WHERE estimated AND completion_tokens > 0";
    eventually(BACKGROUND, "it is charged", async || gateway.world.sql_number(cut).await == 1).await;
}

#[tokio::test]
async fn a_prompt_that_its_provider_finds_too_long_is_said_with_numbers() {
    let gateway = Gateway::start().await;
    let context = 131_072;
    let too_long =
        json!({ "error": { "message": format!("This model's maximum context length is {context} tokens. {SECRET}") } });
    let bytes = too_long.to_string().into_bytes();
    for (status, stream) in [(400, false), (400, true), (413, false), (500, false)] {
        gateway.provider.next(Script::answer(status, &[("content-type", "application/json")], &bytes));
        let answer = gateway.message(&json!({ "stream": stream })).await;
        let message = answer.assert_anthropic_error(400, "invalid_request_error");
        // Claude Code reads both, and drops as much of its history as their difference.
        assert_eq!(message, format!("prompt is too long: {} tokens > {context} maximum", context + 1));
    }
    // As the first that a stream says.
    gateway.provider.next(Script::events(&[format!("data: {too_long}").as_str(), "data: [DONE]"]));
    let answer = gateway.message(&json!({ "stream": true })).await;
    let message = answer.assert_anthropic_error(400, "invalid_request_error");
    assert!(message.starts_with("prompt is too long: "), "{message}");
    assert_eq!(gateway.provider.asked().len(), 5);
    assert_eq!(gateway.world.sql_number("SELECT count(*) FROM ai_usage").await, 0);
}

#[tokio::test]
async fn an_answer_is_charged_although_its_client_leaves() {
    let gateway = Gateway::start().await;
    gateway.provider.next(Script::usual_stream(40).held_after(20));
    let (_, response) = gateway.message(&json!({ "stream": true })).open().await;
    let mut response = response.unwrap();
    response.chunk().await.unwrap().expect("a first chunk");
    drop(response);
    gateway.provider.go_on();
    gateway.assert_metered(1, 9, 40).await;
}

#[tokio::test]
async fn tokens_are_counted_without_the_provider_and_within_the_limit() {
    let gateway = Gateway::start_with(|world| world.set("LIMITS__GATEWAY_PER_MIN", 3)).await;
    let counted = gateway.message_at(COUNT_PATH, &json!({ "max_tokens": null, "system": "x".repeat(1_000) })).await;
    assert_eq!(counted.header("x-svc-token-count"), "upper-bound");
    assert_eq!(counted.header("x-ratelimit-remaining-requests"), "2");
    let counted = counted.ok();
    assert_keys(&counted, "input_tokens");
    assert!((1_000..1_500).contains(&counted["input_tokens"].as_u64().unwrap()), "{counted}");
    gateway.message(&json!({})).await.ok();
    gateway.message_at(COUNT_PATH, &json!({})).await.ok();
    let refused = gateway.message_at(COUNT_PATH, &json!({})).await;
    assert!(refused.find_header("retry-after").is_some());
    refused.assert_anthropic_error(429, "rate_limit_error");
    assert_eq!(gateway.provider.asked().len(), 1);
    gateway.assert_metered(1, 9, 12).await;
}

#[tokio::test]
async fn an_operator_may_give_models_other_names() {
    let aliases = json!({ "claude-*": "svc/qwen3-32b", "claude-opus-5": "svc/mistral-large" });
    let gateway = Gateway::start_with(|world| world.set("GATEWAY__ALIASES", &aliases)).await;
    for (name, upstream) in [("claude-haiku-4-5", "Qwen3-32B"), ("claude-opus-5", "mistral-large-latest")] {
        let message = gateway.message(&json!({ "model": name })).await.ok();
        assert_eq!(message["model"], name, "clients look up what they know of a model by the name that they asked for");
        assert_eq!(gateway.provider.last_asked().body()["model"], upstream);
        let events = gateway.message(&json!({ "model": name, "stream": true })).await.events();
        assert_eq!(events[0]["message"]["model"], name);
        // A chat completion says the model itself.
        let answer = gateway.complete(&json!({ "model": name })).await.ok();
        assert_eq!(answer["model"], gateway.get(&format!("/v1/models/{name}")).await.ok()["id"]);
    }
    gateway.message(&json!({ "model": "gpt-5" })).await.assert_anthropic_error(404, "not_found_error");
    let own = "SELECT count(*) FROM ai_usage WHERE model IN ('svc/qwen3-32b', 'svc/mistral-large')";
    eventually(BACKGROUND, "the models are charged", async || gateway.world.sql_number(own).await == 6).await;
    let list = gateway.get("/v1/models").await.ok();
    assert!(!list.to_string().contains("claude"), "{list}");
    assert!(!gateway.message(&json!({})).await.text().contains(SECRET));
}
