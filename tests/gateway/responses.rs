//! `POST /v1/responses`: `OpenAI`'s responses over a provider that speaks chat completions.

use serde_json::{Value, json};

use super::Gateway;
use crate::{
    BACKGROUND,
    stubs::provider::{Act, Script, choice, completion, event, usual_events},
    world::{answer::Answer, eventually, request::Request},
};

impl Gateway {
    /// Asks for a response with these fields beside the usual ones.
    pub(super) fn respond(&self, fields: &Value) -> Request {
        let mut request = json!({ "model": "svc/gpt-oss-20b", "input": "Hi?" });
        request.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        self.world.edge().post(&self.url("/v1/responses")).bearer(&self.key).json(&request)
    }

    /// Waits until the account has been charged so many tokens in so many completions, none of them an estimate.
    pub(super) async fn assert_charged(&self, completions: i64, prompt: i64, completion: i64) {
        let exact = format!(
            "SELECT count(*) FROM (SELECT count(*) AS n, sum(prompt_tokens) AS p, sum(completion_tokens) AS c FROM ai_usage \
             WHERE NOT estimated) AS sums WHERE n = {completions} AND p = {prompt} AND c = {completion}"
        );
        eventually(BACKGROUND, &exact, async || self.world.sql_number(&exact).await == 1).await;
    }
}

/// The events of a streamed response.
#[track_caller]
fn events(answer: Answer) -> Vec<Value> {
    let answer = answer.assert_status(200).assert_hides_provider();
    assert!(answer.header("content-type").starts_with("text/event-stream"), "{:?}", answer.headers);
    events_of(&answer.text())
}

#[track_caller]
fn events_of(text: &str) -> Vec<Value> {
    let events = text.split("\n\n").filter(|event| !event.is_empty() && !event.starts_with(':'));
    let events: Vec<Value> = events
        .map(|event| {
            let (name, data) = event.split_once("\ndata: ").unwrap_or_else(|| panic!("{event}"));
            let data: Value = serde_json::from_str(data).unwrap_or_else(|e| panic!("{e}: {data}"));
            assert_eq!(Some(name), data["type"].as_str().map(|kind| format!("event: {kind}")).as_deref());
            data
        })
        .collect();
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], number, "{event}");
    }
    events
}

/// The text of the deltas.
fn words(events: &[Value]) -> String {
    let deltas = events.iter().filter(|event| event["type"] == "response.output_text.delta");
    deltas.map(|event| event["delta"].as_str().unwrap()).collect()
}

fn calls(deltas: &[Value]) -> Vec<String> {
    let mut events: Vec<_> = deltas.iter().map(|delta| event(&json!([choice(delta, None)]), &Value::Null)).collect();
    events.push(event(&json!([choice(&json!({}), Some("tool_calls"))]), &Value::Null));
    events.push(event(&json!([]), &json!({ "prompt_tokens": 20, "completion_tokens": 6, "total_tokens": 26 })));
    events.push("data: [DONE]".to_owned());
    events
}

#[tokio::test]
async fn a_response_is_a_chat_completion_for_the_provider() {
    let gateway = Gateway::start().await;
    let answer = gateway.respond(&json!({ "instructions": "Be brief.", "max_output_tokens": 50 })).await;
    assert!(
        answer.find_header("x-ratelimit-limit-requests").is_some() && answer.find_header("x-svc-warning").is_none()
    );
    let id = answer.header("x-request-id").to_owned();
    let response = answer.assert_hides_provider().ok();
    assert_eq!(response["id"], id.replace("req_", "resp_"));
    assert_eq!((&response["status"], &response["model"]), (&json!("completed"), &json!("svc/gpt-oss-20b")));
    assert_eq!(response["output"][0]["content"][0]["text"], "Hello!");
    let usage = &response["usage"];
    assert_eq!(
        (&usage["input_tokens"], &usage["output_tokens"], &usage["total_tokens"]),
        (&json!(9), &json!(12), &json!(21))
    );
    let asked = gateway.provider.last_asked().body();
    let system = json!({ "role": "system", "content": "Be brief." });
    assert_eq!(asked["messages"], json!([system, { "role": "user", "content": "Hi?" }]));
    assert_eq!(asked["max_tokens"], 50);

    let events = events(gateway.respond(&json!({ "stream": true })).await);
    assert_eq!(words(&events), "wörd0 wörd1 wörd2 wörd3 wörd4 ");
    let response = &events.last().unwrap()["response"];
    assert_eq!(response["output"][0]["content"][0]["text"], words(&events));
    assert_eq!(response["usage"]["output_tokens"], 5);

    // Whatever the provider makes of the wish for a stream.
    gateway.provider.next(Script::completion());
    let streamed = self::events(gateway.respond(&json!({ "stream": true })).await);
    assert_eq!(
        (words(&streamed).as_str(), &streamed.last().unwrap()["response"]["usage"]["output_tokens"]),
        ("Hello!", &json!(12))
    );
    gateway.provider.next(Script::usual_stream(5));
    let whole = gateway.respond(&json!({})).await.ok();
    assert_eq!(whole["output"][0]["content"], response["output"][0]["content"]);
    gateway.assert_charged(4, 36, 34).await;
}

#[tokio::test]
async fn tools_are_called_and_answer_in_a_second_turn() {
    let gateway = Gateway::start().await;
    let tools = json!([
        { "type": "function", "name": "f", "parameters": { "type": "object" }, "strict": false },
        { "type": "custom", "name": "patch", "description": "Patches." },
        { "type": "namespace", "name": "agents", "description": "", "tools": [{ "type": "function", "name": "spawn" }] },
        { "type": "web_search" },
    ]);
    let call = |index: u64, name: &str, arguments: &str| json!({ "tool_calls": [{ "index": index, "id": format!("call_{index}"), "type": "function", "function": { "name": name, "arguments": arguments } }] });
    let more = |index: u64, arguments: &str| json!({ "tool_calls": [{ "index": index, "function": { "arguments": arguments } }] });
    gateway.provider.next(Script::events(&calls(&[
        json!({ "role": "assistant", "reasoning_content": "So." }),
        call(0, "f", "{\"a\""),
        more(0, ":1}"),
        call(1, "patch", "{\"input\":\"+x\"}"),
        call(2, "agents__spawn", "{}"),
    ])));
    let user = json!({ "type": "message", "role": "user", "content": [{ "type": "input_text", "text": "Go." }] });
    let answer = gateway.respond(&json!({ "input": [user], "tools": tools, "stream": true })).await;
    assert_eq!(answer.header("x-svc-warning"), "left out: web_search");
    let events = events(answer);
    let output = events.last().unwrap()["response"]["output"].as_array().unwrap().clone();
    let kinds: Vec<_> = output.iter().map(|item| item["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["reasoning", "function_call", "custom_tool_call", "function_call"]);
    assert_eq!((&output[1]["arguments"], &output[2]["input"]), (&json!("{\"a\":1}"), &json!("+x")));
    assert_eq!((&output[3]["namespace"], &output[3]["name"]), (&json!("agents"), &json!("spawn")));
    assert_eq!(gateway.provider.last_asked().body()["tools"].as_array().unwrap().len(), 3);

    // All of it comes back, and the outputs of the tools with it.
    let mut input = vec![user];
    input.extend(output);
    input.extend([
        json!({ "type": "function_call_output", "call_id": "call_0", "output": "one" }),
        json!({ "type": "custom_tool_call_output", "call_id": "call_1", "output": "two" }),
        json!({ "type": "function_call_output", "call_id": "call_2", "output": [{ "type": "input_text", "text": "three" }] }),
    ]);
    let response = gateway.respond(&json!({ "input": input, "tools": tools })).await.ok();
    assert_eq!(response["output"][0]["content"][0]["text"], "Hello!");
    let messages = gateway.provider.last_asked().body()["messages"].take();
    assert_eq!(messages[1]["reasoning_content"], "So.");
    let names: Vec<_> =
        messages[1]["tool_calls"].as_array().unwrap().iter().map(|call| &call["function"]["name"]).collect();
    assert_eq!(names, ["f", "patch", "agents__spawn"]);
    assert_eq!(messages[3], json!({ "role": "tool", "content": "two", "tool_call_id": "call_1" }));
    assert_eq!(messages.as_array().unwrap().len(), 5);
    gateway.assert_charged(2, 29, 18).await;
}

#[tokio::test]
async fn structured_output_refusals_and_early_ends_are_translated() {
    let gateway = Gateway::start().await;
    let format = json!({ "type": "json_schema", "name": "n", "schema": { "type": "object" }, "strict": true });
    gateway.provider.next(Script::json(&completion("{\"a\":1}")));
    let response = gateway.respond(&json!({ "text": { "format": format } })).await.ok();
    assert_eq!(
        (&response["output"][0]["content"][0]["text"], &response["text"]["format"]),
        (&json!("{\"a\":1}"), &format)
    );
    let asked = gateway.provider.last_asked().body();
    assert_eq!(asked["response_format"]["json_schema"]["name"], "n");

    let mut refusal = completion("");
    refusal["choices"][0]["message"]["refusal"] = "No.".into();
    gateway.provider.next(Script::json(&refusal));
    let response = gateway.respond(&json!({})).await.ok();
    assert_eq!(response["output"][0]["content"], json!([{ "type": "refusal", "refusal": "No." }]));
    for (reason, said) in [("length", "max_output_tokens"), ("content_filter", "content_filter")] {
        let mut early = completion("Hel");
        early["choices"][0]["finish_reason"] = reason.into();
        gateway.provider.next(Script::json(&early));
        let events = events(gateway.respond(&json!({ "stream": true })).await);
        let last = events.last().unwrap();
        assert_eq!(
            (&last["type"], &last["response"]["incomplete_details"]["reason"]),
            (&json!("response.incomplete"), &json!(said))
        );
    }
}

#[tokio::test]
async fn errors_have_openais_shape_and_this_formats_names() {
    let gateway = Gateway::start_with(|world| world.set("GATEWAY__QUEUE_SECONDS", 0)).await;
    for (fields, code, param) in [
        (json!({ "previous_response_id": "resp_1" }), "invalid_value", json!("previous_response_id")),
        (
            json!({ "input": [{ "role": "user", "content": [{ "type": "input_file", "file_id": "f" }] }] }),
            "invalid_value",
            json!("input[0].content[0].type"),
        ),
        (json!({ "input": null }), "missing_required_parameter", json!("input")),
        (json!({ "max_output_tokens": 0 }), "invalid_value", json!("max_output_tokens")),
        (json!({ "model": "gpt-5" }), "model_not_found", json!("model")),
    ] {
        let status = if code == "model_not_found" { 404 } else { 400 };
        let error = gateway.respond(&fields).await.assert_openai_error(status, code);
        assert_eq!(error["param"], param, "{fields}");
    }
    let edge = gateway.world.edge();
    edge.post(&gateway.url("/v1/responses")).await.assert_openai_error(401, "invalid_api_key");
    let shown = edge.post(&gateway.url("/v1/responses")).header("x-api-key", &gateway.key);
    shown.json(&json!({ "model": "svc/gpt-oss-20b", "input": "Hi?" })).await.ok();
    let refused = gateway.get("/v1/responses").await;
    assert_eq!(refused.header("allow"), "POST, OPTIONS");
    refused.assert_openai_error(405, "method_not_allowed");
    gateway.get("/v1/responses/resp_1").await.assert_openai_error(404, "unknown_url");
    gateway.respond(&json!({ "user": "x".repeat(70_000) })).await.assert_openai_error(413, "request_too_large");
    for (status, ours, code) in [
        (400, 400, "invalid_value"),
        (429, 503, "upstream_overloaded"),
        (500, 502, "upstream_error"),
        (504, 504, "upstream_timeout"),
    ] {
        for stream in [false, true] {
            gateway.provider.next(Script::error(status));
            gateway.respond(&json!({ "stream": stream })).await.assert_openai_error(ours, code);
        }
    }
    assert_eq!(gateway.world.sql_number("SELECT count(*) FROM ai_usage").await, 0);
}

#[tokio::test]
async fn a_stream_that_fails_says_so_in_its_last_events() {
    let gateway = Gateway::start_with(|world| world.set("GATEWAY__IDLE_SECONDS", 1)).await;
    let pieces =
        |count: usize| usual_events(4).into_iter().take(count).map(|event| format!("{event}\n\n").into_bytes());
    for (script, said, code) in [
        (Script::stream(pieces(3), false).then(Act::Close), "wörd0 wörd1 ", "upstream_error"),
        (Script::stream(pieces(2), false).then(Act::Hang), "wörd0 ", "upstream_timeout"),
    ] {
        gateway.provider.next(script);
        // It ends in good order: the last event says that it failed.
        let events = events(gateway.respond(&json!({ "stream": true })).await);
        assert_eq!(words(&events), said);
        let [.., error, failed] = &events[..] else { panic!("{events:?}") };
        assert_eq!(
            (&events[0]["type"], &error["type"], &error["code"]),
            (&json!("response.created"), &json!("error"), &json!(code))
        );
        assert_eq!((&failed["type"], &failed["response"]["status"]), (&json!("response.failed"), &json!("failed")));
    }
    // Before its first words it has a status.
    gateway.provider.next(Script::stream(pieces(0), true));
    gateway.respond(&json!({ "stream": true })).await.assert_openai_error(502, "upstream_error");
    let words = "SELECT count(*) FROM ai_usage WHERE estimated AND completion_tokens BETWEEN 1 AND 50";
    eventually(BACKGROUND, "what was said is charged", async || gateway.world.sql_number(words).await == 2).await;
}

#[tokio::test]
async fn a_client_that_leaves_is_charged_what_the_provider_says() {
    let gateway = Gateway::start().await;
    gateway.provider.next(Script::usual_stream(5).held_after(3));
    let url = gateway.world.edge().address(&gateway.url("/v1/responses"));
    let request = gateway.world.edge().old_browser.post(url).bearer_auth(&gateway.key);
    let body = json!({ "model": "svc/gpt-oss-20b", "input": "Hi?", "stream": true });
    let mut answer = request.json(&body).send().await.unwrap();
    let first = answer.chunk().await.unwrap().unwrap();
    assert!(first.starts_with(b"event: response.created\n"), "{first:?}");
    drop(answer);
    gateway.provider.go_on();
    gateway.assert_charged(1, 9, 5).await;
}

#[tokio::test]
async fn a_stream_in_any_pieces_is_the_same() {
    let gateway = Gateway::start().await;
    for size in [1, 7, 1000] {
        let mut events = usual_events(5);
        events.insert(2, ": keep-alive".to_owned());
        gateway.provider.next(Script::events(&events).cut(size));
        let events = self::events(gateway.respond(&json!({ "stream": true })).await);
        assert_eq!((words(&events).as_str(), events.len()), ("wörd0 wörd1 wörd2 wörd3 wörd4 ", 13), "{size}");
    }
    gateway.assert_charged(3, 27, 15).await;
}
