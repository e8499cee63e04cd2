//! Answers, streamed and whole.

use bytes::BytesMut;
use gateway_request::error::{ApiError, ProviderError};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::{ResponseEvents, ResponsesContext, to_chat, whole};
use crate::TranslateEvents as _;

fn context(fields: &Value) -> ResponsesContext {
    let mut request = json!({ "model": "svc/m", "input": "Hi?" });
    request.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let (_, mut context) = to_chat(request.to_string().as_bytes()).unwrap();
    context.identify("req_0a", domain::Timestamp::from_unix_millis(5_000));
    context
}

fn tools() -> Value {
    json!({ "tools": [
        { "type": "function", "name": "f" },
        { "type": "custom", "name": "patch" },
        { "type": "namespace", "name": "agents", "tools": [{ "type": "function", "name": "spawn" }] },
    ] })
}

/// Parses the data of events; each has its type twice.
fn parsed(text: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(text).unwrap();
    let events = text.split_terminator("\n\n").map(|event| {
        let (name, data) = event.strip_prefix("event: ").unwrap().split_once("\ndata: ").unwrap();
        let data: Value = serde_json::from_str(data).unwrap_or_else(|error| panic!("{error}: {data}"));
        assert_eq!(data["type"], name);
        data
    });
    let events: Vec<Value> = events.collect();
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], number, "{event}");
    }
    events
}

fn frame(delta: &Value, reason: Option<&str>) -> String {
    let choice = json!({ "index": 0, "delta": delta, "finish_reason": reason });
    format!(
        "data: {}\n\n",
        json!({ "id": "c", "object": "chat.completion.chunk", "model": "svc/m", "choices": [choice], "usage": null })
    )
}

const USAGE: &str = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":4,\"total_tokens\":13,\
    \"prompt_tokens_details\":{\"cached_tokens\":3},\"completion_tokens_details\":{\"reasoning_tokens\":2}}}\n\n";
const DONE: &str = "data: [DONE]\n\n";

/// Returns the events for these frames, the last of which has the reason.
fn streamed(fields: &Value, deltas: &[Value], reason: &str) -> Vec<Value> {
    let mut events = ResponseEvents::new(context(fields));
    let mut out = BytesMut::new();
    let mut frames: Vec<String> = deltas.iter().map(|delta| frame(delta, None)).collect();
    frames.extend([frame(&json!({}), Some(reason)), USAGE.to_owned(), ": a comment\n\n".to_owned(), DONE.to_owned()]);
    for frame in frames {
        events.push(frame.as_bytes(), &mut out).unwrap();
    }
    parsed(&out)
}

fn accumulated(events: &[Value]) -> Vec<Value> {
    let mut output: Vec<Value> = Vec::new();
    for event in events {
        let at = event["output_index"].as_u64().map(|at| usize::try_from(at).unwrap());
        let part =
            event["content_index"].as_u64().or(event["summary_index"].as_u64()).map(|at| usize::try_from(at).unwrap());
        let list = if event["summary_index"].is_u64() { "summary" } else { "content" };
        let add =
            |value: &mut Value| *value = json!(value.as_str().unwrap().to_owned() + event["delta"].as_str().unwrap());
        if let Some(id) = event["item_id"].as_str() {
            assert_eq!(output[at.unwrap()]["id"], id, "{event}");
        }
        match event["type"].as_str().unwrap() {
            "response.output_item.added" => {
                assert_eq!(at, Some(output.len()));
                output.push(event["item"].clone());
            }
            "response.content_part.added" | "response.reasoning_summary_part.added" => {
                let parts = output[at.unwrap()][list].as_array_mut().unwrap();
                assert_eq!(part, Some(parts.len()));
                parts.push(event["part"].clone());
            }
            "response.output_text.delta"
            | "response.reasoning_text.delta"
            | "response.reasoning_summary_text.delta" => {
                add(&mut output[at.unwrap()][list][part.unwrap()]["text"]);
            }
            "response.refusal.delta" => add(&mut output[at.unwrap()][list][part.unwrap()]["refusal"]),
            "response.function_call_arguments.delta" => add(&mut output[at.unwrap()]["arguments"]),
            "response.custom_tool_call_input.delta" => add(&mut output[at.unwrap()]["input"]),
            "response.output_text.done" | "response.reasoning_text.done" | "response.reasoning_summary_text.done" => {
                assert_eq!(output[at.unwrap()][list][part.unwrap()]["text"], event["text"]);
            }
            "response.refusal.done" => {
                assert_eq!(output[at.unwrap()][list][part.unwrap()]["refusal"], event["refusal"]);
            }
            "response.content_part.done" | "response.reasoning_summary_part.done" => {
                assert_eq!(output[at.unwrap()][list][part.unwrap()], event["part"]);
            }
            "response.function_call_arguments.done" => {
                assert_eq!(output[at.unwrap()]["arguments"], event["arguments"]);
                assert_eq!(output[at.unwrap()]["name"], event["name"]);
            }
            "response.custom_tool_call_input.done" => assert_eq!(output[at.unwrap()]["input"], event["input"]),
            "response.output_item.done" => {
                output[at.unwrap()]["status"] = event["item"]["status"].clone();
                assert_eq!(output[at.unwrap()], event["item"]);
            }
            "response.created" | "response.in_progress" => assert_eq!(event["response"]["output"], json!([])),
            "response.completed" | "response.incomplete" => assert_eq!(event["response"]["output"], json!(output)),
            other => panic!("{other}"),
        }
    }
    output
}

/// Returns the response to a whole answer with this message.
fn answered(fields: &Value, message: &Value, reason: &str) -> Value {
    let usage: Value = serde_json::from_str(USAGE.trim().strip_prefix("data: ").unwrap()).unwrap();
    let chat = json!({ "id": "c", "object": "chat.completion", "model": "svc/m", "choices": [
        { "index": 0, "message": message, "logprobs": null, "finish_reason": reason },
    ], "usage": usage["usage"] });
    serde_json::from_slice(&whole(context(fields), chat.to_string().as_bytes()).unwrap()).unwrap()
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap().strip_prefix("response.").unwrap_or("error")).collect()
}

#[test]
fn a_message_has_the_events_of_openai() {
    let deltas =
        [json!({ "role": "assistant", "content": "" }), json!({ "content": "H\"" }), json!({ "content": "\u{e9}\n" })];
    let events = streamed(&json!({ "metadata": { "a": "b" }, "instructions": "Be brief." }), &deltas, "stop");
    let expected = "created in_progress output_item.added content_part.added output_text.delta output_text.delta output_text.done \
                    content_part.done output_item.done completed";
    assert_eq!(kinds(&events).join(" "), expected);
    let text = json!({ "type": "output_text", "annotations": [], "logprobs": [], "text": "H\"\u{e9}\n" });
    let message =
        json!({ "type": "message", "id": "msg_0a00", "status": "completed", "role": "assistant", "content": [text] });
    assert_eq!(accumulated(&events), std::slice::from_ref(&message));
    assert_eq!(
        events[4],
        json!({ "type": "response.output_text.delta", "sequence_number": 4, "item_id": "msg_0a00", "output_index": 0, "content_index": 0, "delta": "H\"", "logprobs": [] })
    );
    let response = json!({
        "id": "resp_0a", "object": "response", "created_at": 5, "status": "completed", "background": false, "error": null,
        "incomplete_details": null, "instructions": "Be brief.", "max_output_tokens": null, "max_tool_calls": null,
        "metadata": { "a": "b" }, "model": "svc/m", "output": [message], "parallel_tool_calls": true,
        "previous_response_id": null, "prompt_cache_key": null, "reasoning": { "effort": null, "summary": null },
        "safety_identifier": null, "service_tier": "default", "store": false, "temperature": null,
        "text": { "format": { "type": "text" } }, "tool_choice": "auto", "tools": [], "top_logprobs": 0, "top_p": null,
        "truncation": "disabled", "user": null,
        "usage": {
            "input_tokens": 9, "input_tokens_details": { "cached_tokens": 3 }, "output_tokens": 4,
            "output_tokens_details": { "reasoning_tokens": 2 }, "total_tokens": 13,
        },
    });
    assert_eq!(events[9]["response"], response);
    assert_eq!(events[0]["response"]["status"], "in_progress");
    let whole = answered(
        &json!({ "metadata": { "a": "b" }, "instructions": "Be brief." }),
        &json!({ "role": "assistant", "content": "H\"\u{e9}\n" }),
        "stop",
    );
    assert_eq!(whole, response);
}

#[test]
fn thoughts_are_an_item_of_their_own() {
    let deltas = [
        json!({ "reasoning_content": "so" }),
        json!({ "reasoning": " then" }),
        json!({ "content": "a", "refusal": null }),
    ];
    for (fields, list, part, events) in [
        (
            json!({}),
            "content",
            "reasoning_text",
            "content_part.added reasoning_text.delta reasoning_text.delta reasoning_text.done content_part.done",
        ),
        (
            json!({ "reasoning": { "summary": "auto" } }),
            "summary",
            "summary_text",
            "reasoning_summary_part.added reasoning_summary_text.delta reasoning_summary_text.delta reasoning_summary_text.done reasoning_summary_part.done",
        ),
    ] {
        let streamed = streamed(&fields, &deltas, "stop");
        assert!(
            kinds(&streamed)
                .join(" ")
                .contains(&format!("output_item.added {events} output_item.done output_item.added"))
        );
        let output = accumulated(&streamed);
        assert_eq!(
            (&output[0]["type"], &output[0]["id"], &output[0]["status"]),
            (&json!("reasoning"), &json!("rs_0a00"), &json!("completed"))
        );
        assert_eq!(output[0][list], json!([{ "type": part, "text": "so then" }]));
        assert_eq!(output[1]["content"][0]["text"], "a");
        let whole = answered(&fields, &json!({ "reasoning_content": "so then", "content": "a" }), "stop");
        assert_eq!(whole["output"], json!(output));
    }
}

#[test]
fn calls_come_back_as_the_clients_tools() {
    let call = |index: u64, id: Option<&str>, name: Option<&str>, arguments: &str| json!({ "tool_calls": [{ "index": index, "id": id, "type": "function", "function": { "name": name, "arguments": arguments } }] });
    let deltas = [
        json!({ "content": "I call." }),
        call(0, Some("a"), Some("f"), ""),
        call(0, None, None, "{\"x\""),
        call(1, Some("b"), Some("patch"), "{\"input\": \"+\\n"),
        // The pieces of two calls may alternate.
        call(0, None, None, ":1}"),
        call(1, None, None, "\\\"-\\\"\"}"),
        call(2, Some("c"), Some("agents__spawn"), ""),
        call(3, None, Some("patch"), "bare"),
    ];
    let events = streamed(&tools(), &deltas, "tool_calls");
    let output = accumulated(&events);
    let expected = json!([
        { "type": "function_call", "id": "fc_0a01", "status": "completed", "call_id": "a", "name": "f", "arguments": "{\"x\":1}" },
        { "type": "custom_tool_call", "id": "ctc_0a02", "status": "completed", "call_id": "b", "name": "patch", "input": "+\n\"-\"" },
        { "type": "function_call", "id": "fc_0a03", "status": "completed", "call_id": "c", "namespace": "agents", "name": "spawn", "arguments": "{}" },
        { "type": "custom_tool_call", "id": "ctc_0a04", "status": "completed", "call_id": "call_0a04", "name": "patch", "input": "bare" },
    ]);
    assert_eq!(json!(output[1..]), expected);
    assert_eq!(events.last().unwrap()["response"]["status"], "completed");
    let call = |id: Option<&str>, name: &str, arguments: &str| json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments } });
    let message = json!({ "content": "I call.", "tool_calls": [
        call(Some("a"), "f", "{\"x\":1}"), call(Some("b"), "patch", "{\"input\": \"+\\n\\\"-\\\"\"}"),
        call(Some("c"), "agents__spawn", ""), call(None, "patch", "bare"),
    ] });
    assert_eq!(answered(&tools(), &message, "tool_calls")["output"], json!(output));
}

#[test]
fn an_answer_that_ends_early_says_why() {
    for (reason, expected) in [("length", "max_output_tokens"), ("content_filter", "content_filter")] {
        let events = streamed(&json!({}), &[json!({ "content": "a" })], reason);
        let output = accumulated(&events);
        let response = &events.last().unwrap()["response"];
        assert_eq!(
            (&response["status"], &response["incomplete_details"]),
            (&json!("incomplete"), &json!({ "reason": expected }))
        );
        assert_eq!((kinds(&events).last(), &output[0]["status"]), (Some(&"incomplete"), &json!("incomplete")));
    }
    let events = streamed(&json!({}), &[json!({ "content": "a" }), json!({ "refusal": "No." })], "stop");
    let output = accumulated(&events);
    assert_eq!(output[0]["content"][1], json!({ "type": "refusal", "refusal": "No." }));
    // An empty answer has no items.
    assert_eq!(accumulated(&streamed(&json!({}), &[], "stop")), [] as [Value; 0]);
}

#[test]
fn a_stream_that_fails_has_its_beginning_and_its_end() {
    for said in [&[][..], &[json!({ "content": "a" })]] {
        let mut events = ResponseEvents::new(context(&json!({})));
        let mut out = BytesMut::new();
        for delta in said {
            events.push(frame(delta, None).as_bytes(), &mut out).unwrap();
        }
        events.fail(ApiError::from(ProviderError::Timeout), &mut out);
        let events = parsed(&out);
        let [first, .., error, failed] = &events[..] else { panic!("{events:?}") };
        assert_eq!(
            (&first["type"], &error["type"], &failed["type"]),
            (&json!("response.created"), &json!("error"), &json!("response.failed"))
        );
        assert_eq!((&error["code"], &error["error"]["code"]), (&json!("upstream_timeout"), &json!("upstream_timeout")));
        assert!(error["message"].as_str().unwrap().contains("lower max_output_tokens"), "{error}");
        assert_eq!(
            (&failed["response"]["status"], &failed["response"]["error"]["code"]),
            (&json!("failed"), &json!("server_error"))
        );
    }
}

#[test]
fn what_is_no_completion_is_refused() {
    for chat in ["", "[]", "{\"choices\":7}", "{\"choices\":[{\"message\":{\"content\":[]}}]}"] {
        assert!(whole(context(&json!({})), chat.as_bytes()).is_none(), "{chat}");
        if chat.is_empty() {
            // An event without data is ignored.
            continue;
        }
        let mut events = ResponseEvents::new(context(&json!({})));
        assert!(events.push(format!("data: {chat} \n\n").as_bytes(), &mut BytesMut::new()).is_err(), "{chat}");
    }
}

#[test]
fn halves_of_a_character_come_together() {
    let mut events = ResponseEvents::new(context(&json!({})));
    let mut out = BytesMut::new();
    for half in ["\\ud83e", "\\udd80"] {
        let frame = format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{half}\"}}}}]}}\n\n");
        events.push(frame.as_bytes(), &mut out).unwrap();
    }
    events.push(DONE.as_bytes(), &mut out).unwrap();
    let text = std::str::from_utf8(&out).unwrap();
    let last = text.split_terminator("\n\n").last().unwrap().split_once("\ndata: ").unwrap().1;
    let last: Value = serde_json::from_str(last).unwrap();
    assert_eq!(last["response"]["output"][0]["content"][0]["text"], "\u{1f980}");
}

#[test]
fn arguments_that_stay_blank_are_an_object_and_no_white_space_gets_lost_otherwise() {
    for (pieces, told) in
        [(&["", " ", "\n\t", "\u{2004}"][..], "{}"), (&[" ", "{\"a\":", " ", "1}"], " {\"a\": 1}"), (&[], "{}")]
    {
        let call = |function: Value| json!({ "tool_calls": [{ "index": 0, "id": "a", "function": function }] });
        let mut deltas = vec![call(json!({ "name": "f" }))];
        deltas.extend(pieces.iter().map(|piece| call(json!({ "arguments": piece }))));
        let output = accumulated(&streamed(&json!({}), &deltas, "tool_calls"));
        assert_eq!(output[0]["arguments"], told, "{pieces:?}");
    }
}

proptest! {
    #[test]
    fn a_stream_says_what_the_whole_answer_says(
        thoughts in proptest::collection::vec("\\PC{0,8}", 0..4),
        words in proptest::collection::vec("(?s).{0,8}", 0..6),
        calls in proptest::collection::vec(proptest::collection::vec("[ \n\u{2004}]{0,2}|\\PC{0,5}", 0..4), 0..3),
        summarizes in any::<bool>(),
    ) {
        let fields = if summarizes { json!({ "reasoning": { "summary": "auto" } }) } else { json!({}) };
        let mut deltas: Vec<Value> = thoughts.iter().map(|thought| json!({ "reasoning_content": thought })).collect();
        deltas.extend(words.iter().map(|word| json!({ "content": word })));
        for (index, pieces) in calls.iter().enumerate() {
            let name = json!({ "tool_calls": [{ "index": index, "id": format!("c{index}"), "function": { "name": "f" } }] });
            deltas.push(name);
            deltas.extend(pieces.iter().map(|piece| json!({ "tool_calls": [{ "index": index, "function": { "arguments": piece } }] })));
        }
        let events = streamed(&fields, &deltas, "stop");
        let output = accumulated(&events);
        let called: Vec<_> = calls.iter().enumerate().map(|(index, pieces)| json!({
            "id": format!("c{index}"), "type": "function", "function": { "name": "f", "arguments": pieces.concat() },
        })).collect();
        let message = json!({ "reasoning_content": thoughts.concat(), "content": words.concat(), "tool_calls": called });
        let whole = answered(&fields, &message, "stop");
        prop_assert_eq!(&whole["output"], &json!(output));
        prop_assert_eq!(&whole, &events.last().unwrap()["response"]);
    }
}
