//! What providers find wrong with requests, and answers in which they say nothing: the codes that clients act on.

use super::{Gateway, frames_of};
use crate::{
    BACKGROUND,
    stubs::provider::{Act, SECRET, Script, choice, completion, event, usual_events, zipped},
    world::eventually,
};
use serde_json::{Value, json};

/// Errors of providers, with the code and the `param` that become of them.
fn complaints() -> Vec<(Value, &'static str, Value)> {
    let with =
        |message: &str| json!({ "error": { "message": format!("{message} {SECRET}"), "type": "x", "code": 400 } });
    vec![
        (with("This model's maximum context length is 131072 tokens."), "context_length_exceeded", json!("messages")),
        (with("Unsupported parameter: 'temperature'"), "unsupported_parameter", json!("temperature")),
        // The client has not sent it.
        (with("Unsupported parameter: 'seed'"), "unsupported_parameter", Value::Null),
        (with("max_tokens is too large: 5000"), "invalid_value", json!("max_tokens")),
        (with("x is not a multimodal model"), "invalid_value", json!("messages")),
        (with("triggering our content management policy"), "content_filter", json!("messages")),
        (with("`tools` must not be an empty array"), "invalid_value", Value::Null),
    ]
}

#[tokio::test]
async fn what_a_provider_complains_of_becomes_a_code_and_none_of_its_words_pass() {
    let gateway = Gateway::start().await;
    let complete = async |stream: bool| gateway.complete(&json!({ "stream": stream, "temperature": 0.5 })).await;
    let role = usual_events(1).remove(0);
    for (body, code, param) in complaints() {
        let bytes = body.to_string().into_bytes();
        let json_type = ("content-type", "application/json");
        for status in [400, 413, 422] {
            gateway.provider.next(Script::answer(status, &[json_type], &bytes));
            let error = complete(status == 400).await.assert_openai_error(400, code);
            if status == 400 || param != Value::Null {
                assert_eq!(error["param"], param, "{body}");
            }
        }
        // Compressed, and in pieces.
        let gzip = [json_type, ("content-encoding", "gzip")];
        let zipped = zipped(std::slice::from_ref(&bytes)).concat();
        for script in [Script::answer(400, &gzip, &zipped), Script::answer(400, &[], &bytes).cut(9)] {
            gateway.provider.next(script);
            complete(false).await.assert_openai_error(400, code);
        }
        // With 200: as a whole answer, and as a stream that has said nothing yet.
        let event = format!("data: {body}");
        for script in [
            Script::json(&body),
            Script::events(&[event.as_str(), "data: [DONE]"]),
            Script::stream([format!(": hm\n\ndata:\n\n{role}\n\n{event}\n\n").into_bytes()], true),
            Script::events(&[&format!("event: error\n{event}")]),
            Script::stream([bytes.clone()], true),
        ] {
            for stream in [false, true] {
                gateway.provider.next(script.clone());
                let error = complete(stream).await.assert_openai_error(400, code);
                assert_eq!(error["param"], param, "{body}");
            }
        }
    }
    let long = json!({ "error": { "message": "context_length_exceeded", "code": 500 } }).to_string();
    gateway.provider.next(Script::answer(500, &[], long.as_bytes()));
    let error = complete(false).await.assert_openai_error(400, "context_length_exceeded");
    // One without an end is judged by what has come.
    let endless = format!("HTTP/1.1 400 Whatever\r\ncontent-length: 9000\r\n\r\n{long}");
    gateway.provider.next(Script(vec![Act::Send(endless.into_bytes()), Act::Hang]));
    complete(false).await.assert_openai_error(400, "context_length_exceeded");
    let said = "This model's maximum context length is 131072 tokens. Please reduce the length of the messages.";
    assert!(error["message"].as_str().unwrap().starts_with(said), "{error}");
    gateway.provider.next(Script::answer(
        416,
        &[],
        b"{\"message\":\"max_completion_tokens is limited for this model\"}",
    ));
    assert_eq!(complete(false).await.assert_openai_error(400, "invalid_value")["param"], "max_tokens");
    // Nothing of it is charged.
    complete(false).await.ok();
    let metered = "SELECT count(*) FROM ai_usage";
    eventually(BACKGROUND, "the last one is metered", async || gateway.world.sql_number(metered).await >= 1).await;
    assert_eq!(gateway.world.sql_number(metered).await, 1);
}

#[tokio::test]
async fn an_error_after_the_streams_head_is_an_event_with_its_code() {
    let gateway = Gateway::start().await;
    for (body, code, param) in complaints().into_iter().take(2) {
        // The head is sent after a second of silence, with a comment.
        let event = format!("data: {body}\n\n").into_bytes();
        gateway.provider.next(Script::stream([event], true).held_after(1));
        let url = gateway.world.edge().address(&gateway.url("/v1/chat/completions"));
        let request = gateway.world.edge().old_browser.post(url).bearer_auth(&gateway.key);
        let body = super::request(&json!({ "stream": true, "temperature": 0.5 }));
        let mut answer = request.json(&body).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.chunk().await.unwrap().unwrap(), ": keep-alive\n\n");
        gateway.provider.go_on();
        let frame = answer.chunk().await.unwrap().unwrap();
        let frame = String::from_utf8(frame.to_vec()).unwrap();
        assert!(!frame.contains(SECRET), "{frame}");
        let error: Value = serde_json::from_str(&frames_of(&frame)[0]).unwrap();
        assert_eq!((&error["error"]["code"], &error["error"]["param"]), (&code.into(), &param));
        assert!(answer.chunk().await.is_err());
    }
}

#[tokio::test]
async fn a_prompt_that_cannot_fit_needs_no_provider() {
    let gateway = Gateway::start().await;
    // The largest body has 32,000 words at most.
    let words = "a ".repeat(31_000);
    let long =
        |model: &str| gateway.complete(&json!({ "model": model, "messages": [{ "role": "user", "content": words }] }));
    long("svc/qwen3-32b").await.ok();
    assert_eq!(gateway.provider.asked().len(), 1);

    let models = json!({ "svc/small": {
        "provider": "mistral", "upstream": "upstream-name", "input_cents": 1, "output_cents": 1, "context": 30_000,
    }});
    let gateway = Gateway::start_with(|world| world.set("GATEWAY__MODELS", models)).await;
    let error = gateway
        .complete(&json!({ "model": "svc/small", "messages": [{ "role": "user", "content": words }] }))
        .await
        .assert_openai_error(400, "context_length_exceeded");
    assert_eq!(error["param"], "messages");
    assert!(error["message"].as_str().unwrap().contains("length is 30000 tokens."), "{error}");
    assert!(gateway.provider.asked().is_empty());
    gateway.complete(&json!({ "model": "svc/small" })).await.ok();
}

#[tokio::test]
async fn an_answer_that_says_nothing_is_an_upstream_error() {
    let gateway = Gateway::start().await;
    let usage = json!({ "prompt_tokens": 9, "completion_tokens": 0, "total_tokens": 9 });
    let empty = |choices: Value, usage: &Value| {
        let mut body = completion("");
        body["choices"] = choices;
        body["usage"] = usage.clone();
        body
    };
    let filtered = json!([choice(&json!({}), Some("content_filter"))]);
    let whole =
        json!([{ "index": 0, "message": { "role": "assistant", "content": null }, "finish_reason": "content_filter" }]);
    let end = "data: [DONE]".to_owned();
    let mut charged = 0;
    for (usage, is_charged) in [(&usage, true), (&Value::Null, false)] {
        for script in [
            Script::json(&empty(json!([]), usage)),
            Script::json(&empty(whole.clone(), usage)),
            Script::events(&[event(&json!([]), usage), end.clone()]),
            Script::events(&[event(&filtered, &Value::Null), event(&json!([]), usage), end.clone()]),
        ] {
            for stream in [false, true] {
                gateway.provider.next(script.clone());
                let answer = gateway.complete(&json!({ "stream": stream })).await;
                assert_eq!(answer.find_header("x-should-retry"), is_charged.then_some("false"), "{script:?}");
                let error = answer.assert_openai_error(502, "upstream_error");
                assert!(error["message"].as_str().unwrap().contains("no answer"), "{error}");
                charged += i64::from(is_charged);
            }
        }
    }
    gateway.complete(&json!({})).await.ok();
    let exact = "SELECT count(*) FROM ai_usage WHERE prompt_tokens = 9 AND completion_tokens = 0 AND NOT estimated";
    eventually(BACKGROUND, "what was reported is charged", async || gateway.world.sql_number(exact).await == charged)
        .await;
    let metered = "SELECT count(*) FROM ai_usage";
    eventually(BACKGROUND, "all is metered", async || gateway.world.sql_number(metered).await == charged + 1).await;
}
