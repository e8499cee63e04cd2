//! Requests, and the chat completions that they are translated to.

use bytes::Bytes;
use config::{Gateway, models::ModelCatalog};
use gateway_request::{asks::RequestLimits, models::ServedModels};
use serde_json::{Value, json};

use crate::{ClientFormat, CompletionApi};

fn models() -> ServedModels {
    let mut config = Gateway::default();
    // The operator's models do not support images by default.
    config.models.get_mut("svc/gpt-oss-120b").unwrap().vision = true;
    ServedModels::new(&ModelCatalog::from_config(&config, |_| Some("key".to_owned())).unwrap(), &config, None).unwrap()
}

/// Returns the provider's body for a request to this model with these fields, and the warning.
fn sent_to(model: &str, fields: &Value) -> (Value, Option<String>) {
    let mut request = json!({ "model": model, "input": "Hi?" });
    request.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let read =
        CompletionApi::Responses.read(Bytes::from(request.to_string()).into(), &models(), &RequestLimits::default());
    let read = read.unwrap_or_else(|error| panic!("{request}: {error:?}"));
    let ClientFormat::Responses(context) = read.format else { panic!("another format") };
    let warning = context.warning.map(|warning| warning.to_str().unwrap().to_owned());
    (serde_json::from_slice(&read.body.joined()).unwrap(), warning)
}

fn sent(fields: &Value) -> Value {
    sent_to("svc/gpt-oss-120b", fields).0
}

fn messages(input: &Value) -> Value {
    sent(&json!({ "input": input }))["messages"].take()
}

/// Returns the code and the parameter of the error for a request with these fields.
fn refused(fields: &Value) -> (String, String) {
    let mut request = json!({ "model": "svc/gpt-oss-120b", "input": "Hi?" });
    request.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let error = CompletionApi::Responses
        .read(Bytes::from(request.to_string()).into(), &models(), &RequestLimits::default())
        .err();
    let error = error.unwrap_or_else(|| panic!("{request} was accepted"));
    let error: Value = serde_json::from_str(&error.to_json()).unwrap();
    let text = |name: &str| error["error"][name].as_str().unwrap_or_default().to_owned();
    assert!(text("message").contains(&text("param")), "{error}");
    (text("code"), text("param"))
}

#[test]
fn items_become_messages() {
    let said = |role: &str, text: &str| json!({ "role": role, "content": text });
    for (input, expected) in [
        (json!("Hi?"), json!([said("user", "Hi?")])),
        (json!([{ "role": "user", "content": "Hi?" }]), json!([said("user", "Hi?")])),
        (
            json!([{ "type": "message", "id": "msg_1", "role": "user", "status": "completed", "content": [{ "type": "input_text", "text": "a\u{e9}\n\"" }] }]),
            json!([said("user", "a\u{e9}\n\"")]),
        ),
        (
            json!([{ "role": "user", "content": [
                { "type": "input_text", "text": "What?" },
                { "type": "input_image", "image_url": "data:image/png;base64,AA==", "detail": "auto" },
                { "type": "input_image", "image_url": "https://a.example/b.png", "detail": "low" },
            ] }]),
            json!([{ "role": "user", "content": [
                { "type": "text", "text": "What?" },
                { "type": "image_url", "image_url": { "url": "data:image/png;base64,AA==" } },
                { "type": "image_url", "image_url": { "url": "https://a.example/b.png", "detail": "low" } },
            ] }]),
        ),
        (
            json!([
                { "role": "user", "content": "a" },
                { "type": "message", "role": "assistant", "id": "msg_2", "status": "completed", "content": [
                    { "type": "output_text", "text": "b", "annotations": [], "logprobs": [] },
                    { "type": "refusal", "refusal": "c" },
                ] },
                { "role": "user", "content": "d" },
            ]),
            json!([
                said("user", "a"),
                { "role": "assistant", "content": [{ "type": "text", "text": "b" }, { "type": "text", "text": "c" }] },
                said("user", "d"),
            ]),
        ),
        // Instructions before the first message are merged; later ones stay in place.
        (
            json!([
                { "role": "developer", "content": [{ "type": "input_text", "text": "a" }, { "type": "input_text", "text": "b" }] },
                { "role": "system", "content": "c" },
                { "role": "user", "content": "d" },
                { "role": "developer", "content": "e" },
            ]),
            json!([said("system", "a\n\nb\n\nc"), said("user", "d"), said("system", "e")]),
        ),
        (
            json!([{ "role": "user", "content": "a" }, { "type": "web_search_call", "id": "ws_1" }]),
            json!([said("user", "a")]),
        ),
    ] {
        assert_eq!(messages(&input), expected, "{input}");
    }
    let body =
        sent(&json!({ "instructions": "Be brief.", "input": [said("developer", "Be kind."), said("user", "Hi?")] }));
    assert_eq!(body["messages"], json!([said("system", "Be brief.\n\nBe kind."), said("user", "Hi?")]));
}

#[test]
fn the_models_turn_is_one_message_and_its_tools_answer_after_it() {
    let call = |id: &str| json!({ "type": "function_call", "id": "fc_1", "call_id": id, "name": "f", "arguments": "{\"a\":1}", "status": "completed" });
    let called =
        |id: &str| json!({ "id": id, "type": "function", "function": { "name": "f", "arguments": "{\"a\":1}" } });
    let input = json!([
        { "role": "user", "content": "a" },
        { "type": "reasoning", "id": "rs_1", "summary": [], "content": [{ "type": "reasoning_text", "text": "so" }], "encrypted_content": "x" },
        { "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": "b" }] },
        call("1"),
        call("2"),
        { "type": "function_call_output", "call_id": "1", "output": [
            { "type": "input_text", "text": "one" }, { "type": "input_image", "image_url": "data:image/png;base64,AA==" },
        ] },
        { "type": "function_call_output", "call_id": "2", "output": "two" },
        { "type": "reasoning", "summary": [{ "type": "summary_text", "text": "then" }], "encrypted_content": null },
        { "type": "custom_tool_call", "call_id": "3", "name": "patch", "input": "*** \"x\"\n" },
        { "type": "custom_tool_call_output", "call_id": "3", "output": "done" },
        { "type": "function_call", "call_id": "4", "namespace": "agents", "name": "spawn", "arguments": "" },
        { "type": "function_call_output", "call_id": "4", "output": [] },
    ]);
    let tool = |id: &str, content: &str| json!({ "role": "tool", "content": content, "tool_call_id": id });
    let expected = json!([
        { "role": "user", "content": "a" },
        { "role": "assistant", "content": "b", "reasoning_content": "so", "tool_calls": [called("1"), called("2")] },
        tool("1", "one"),
        tool("2", "two"),
        { "role": "user", "content": [{ "type": "image_url", "image_url": { "url": "data:image/png;base64,AA==" } }] },
        { "role": "assistant", "content": null, "reasoning_content": "then", "tool_calls": [
            { "id": "3", "type": "function", "function": { "name": "patch", "arguments": "{\"input\":\"*** \\\"x\\\"\\n\"}" } },
        ] },
        tool("3", "done"),
        { "role": "assistant", "content": null, "tool_calls": [
            { "id": "4", "type": "function", "function": { "name": "agents__spawn", "arguments": "{}" } },
        ] },
        tool("4", ""),
    ]);
    assert_eq!(messages(&input), expected);
}

#[test]
fn tools_become_functions() {
    let parameters = json!({ "type": "object", "properties": {} });
    let fields = json!({
        "tools": [
            { "type": "function", "name": "f", "description": "d", "strict": true, "parameters": parameters },
            { "type": "function", "name": "g", "strict": false, "parameters": null },
            { "type": "custom", "name": "patch", "description": "Patches.", "format": { "type": "grammar", "syntax": "lark", "definition": "start: x" } },
            { "type": "custom", "name": "note", "description": "Notes.", "format": { "type": "text" } },
            { "type": "namespace", "name": "agents", "description": "", "tools": [{ "type": "function", "name": "spawn", "parameters": parameters }] },
            { "type": "web_search", "external_web_access": true },
            { "type": "mcp", "server_label": "x", "server_url": "https://a.example" },
            { "type": "of_the_future" },
        ],
        "parallel_tool_calls": false,
    });
    let (body, warning) = sent_to("svc/gpt-oss-120b", &fields);
    let function = |function: &Value| json!({ "type": "function", "function": function });
    let text = json!({ "type": "object", "properties": { "input": { "type": "string" } }, "required": ["input"], "additionalProperties": false });
    let grammar = "Patches.\n\n`input` follows this lark grammar:\nstart: x";
    let expected = json!([
        function(&json!({ "name": "f", "description": "d", "strict": true, "parameters": parameters })),
        function(&json!({ "name": "g" })),
        function(&json!({ "name": "patch", "description": grammar, "parameters": text })),
        function(&json!({ "name": "note", "description": "Notes.", "parameters": text })),
        function(&json!({ "name": "agents__spawn", "parameters": parameters })),
    ]);
    assert_eq!((&body["tools"], &body["parallel_tool_calls"]), (&expected, &json!(false)));
    assert_eq!(warning.as_deref(), Some("left out: web_search; mcp; a tool of a kind that is unknown here"));

    let hosted = json!({ "tools": [{ "type": "web_search" }], "tool_choice": "auto", "parallel_tool_calls": true });
    let body = sent(&hosted);
    assert!(["tools", "tool_choice", "parallel_tool_calls"].iter().all(|name| body.get(name).is_none()), "{body}");
}

#[test]
fn every_choice_of_a_tool_is_translated() {
    let function = |name: &str| json!({ "type": "function", "function": { "name": name } });
    for (choice, expected, tools) in [
        (json!("none"), json!("none"), 3),
        (json!("required"), json!("required"), 3),
        (json!({ "type": "function", "name": "f" }), function("f"), 3),
        (json!({ "type": "custom", "name": "patch" }), function("patch"), 3),
        (json!({ "type": "function", "name": "spawn", "namespace": "agents" }), function("agents__spawn"), 3),
        (
            json!({ "type": "allowed_tools", "mode": "required", "tools": [{ "type": "function", "name": "f" }, { "type": "web_search" }] }),
            json!("required"),
            1,
        ),
        (json!({ "type": "web_search" }), Value::Null, 3),
    ] {
        let body = sent(&json!({
            "tools": [
                { "type": "function", "name": "f" },
                { "type": "custom", "name": "patch" },
                { "type": "namespace", "name": "agents", "tools": [{ "type": "function", "name": "spawn" }] },
            ],
            "tool_choice": choice,
        }));
        assert_eq!((&body["tool_choice"], body["tools"].as_array().unwrap().len()), (&expected, tools), "{choice}");
    }
}

#[test]
fn options_have_their_names_in_chat_completions() {
    let schema = json!({ "type": "object" });
    let fields = json!({
        "text": { "format": { "type": "json_schema", "name": "n", "schema": schema, "strict": true }, "verbosity": "low" },
        "reasoning": { "effort": "high", "summary": "auto" },
        "max_output_tokens": 7, "temperature": 0.10, "top_p": 1, "user": "u", "prompt_cache_key": "k", "stream": true,
        "client_metadata": { "a": "b" }, "metadata": { "c": "d" }, "include": ["reasoning.encrypted_content"],
        "truncation": "auto", "service_tier": "priority", "store": false, "background": false, "max_tool_calls": 3,
        "stream_options": { "include_obfuscation": false }, "previous_response_id": null, "conversation": null, "prompt": null,
    });
    let expected = json!({
        "model": "gpt-oss-120b", "messages": [{ "role": "user", "content": "Hi?" }],
        "response_format": { "type": "json_schema", "json_schema": { "name": "n", "schema": schema, "strict": true } },
        "verbosity": "low", "reasoning_effort": "high", "max_tokens": 7, "max_completion_tokens": 7, "temperature": 0.10,
        "top_p": 1, "user": "u", "prompt_cache_key": "k", "stream": true, "stream_options": { "include_usage": true },
    });
    let (body, warning) = sent_to("svc/gpt-oss-120b", &fields);
    assert_eq!((&body, warning), (&expected, None));
    // A provider with a list of fields gets those on it.
    let (body, _) = sent_to("svc/mistral-small", &fields);
    let known = ["verbosity", "prompt_cache_key", "user"].iter().any(|name| body.get(name).is_some());
    assert!(!known && body["reasoning_effort"] == "high" && body["temperature"] == 0.10, "{body}");

    assert_eq!(
        sent(&json!({ "text": { "format": { "type": "json_object" } } }))["response_format"],
        json!({ "type": "json_object" })
    );
    assert!(sent(&json!({ "text": { "format": { "type": "text" } } })).get("response_format").is_none());
    let (_, warning) = sent_to("svc/gpt-oss-120b", &json!({ "store": true, "top_logprobs": 5 }));
    assert_eq!(warning.as_deref(), Some("left out: store (nothing is stored); top_logprobs"));
}

#[test]
fn refusals_name_the_fields_of_this_format() {
    let item = |item: &Value| json!({ "input": [{ "role": "user", "content": "a" }, item] });
    let part =
        |part: &Value| item(&json!({ "role": "user", "content": [{ "type": "input_text", "text": "a" }, part] }));
    for (fields, param) in [
        (json!({ "previous_response_id": "resp_1" }), "previous_response_id"),
        (json!({ "conversation": "conv_1" }), "conversation"),
        (json!({ "prompt": { "id": "p" } }), "prompt"),
        (json!({ "background": true }), "background"),
        (json!({ "input": 7 }), "input"),
        (json!({ "input": [] }), "input"),
        (item(&json!(7)), "input[1]"),
        (item(&json!({ "type": "item_reference", "id": "msg_1" })), "input[1]"),
        (item(&json!({ "id": "msg_1" })), "input[1]"),
        (item(&json!({ "type": "compaction", "encrypted_content": "x" })), "input[1].type"),
        (item(&json!({ "type": "of_the_future" })), "input[1].type"),
        (item(&json!({ "role": "narrator", "content": "a" })), "input[1].role"),
        (item(&json!({ "role": "user" })), "input[1].content"),
        (item(&json!({ "type": "function_call", "name": "f", "arguments": "{}" })), "input[1].call_id"),
        (item(&json!({ "type": "function_call", "call_id": "1", "name": "f", "arguments": {} })), "input[1].arguments"),
        (item(&json!({ "type": "function_call_output", "call_id": "1" })), "input[1].output"),
        (part(&json!({ "type": "input_file", "file_id": "file_1" })), "input[1].content[1].type"),
        (part(&json!({ "type": "input_image", "file_id": "file_1" })), "input[1].content[1].image_url"),
        (part(&json!({ "type": "input_text" })), "input[1].content[1].text"),
        (json!({ "instructions": ["a"] }), "instructions"),
        (json!({ "tools": {} }), "tools"),
        (json!({ "tools": [{ "type": "function" }] }), "tools[0].name"),
        (
            json!({ "tools": [{ "type": "namespace", "name": "n", "tools": [{ "type": "custom" }] }] }),
            "tools[0].tools[0].name",
        ),
        (json!({ "tool_choice": "perhaps" }), "tool_choice"),
        (json!({ "text": { "format": { "type": "xml" } } }), "text.format.type"),
        (json!({ "text": { "format": { "type": "json_schema", "schema": {} } } }), "text.format.name"),
        (json!({ "max_output_tokens": 0 }), "max_output_tokens"),
        (json!({ "max_output_tokens": "7" }), "max_output_tokens"),
        (json!({ "stream": "yes" }), "stream"),
        (json!({ "model": "gpt-5" }), "model"),
        (json!({ "metadata": { "a": "x".repeat(limits::METADATA_BYTES) } }), "metadata"),
    ] {
        let (code, found) = refused(&fields);
        assert_eq!(found, param, "{fields}: {code}");
    }
    let error = |body: &str| {
        CompletionApi::Responses
            .read(Bytes::copy_from_slice(body.as_bytes()).into(), &models(), &RequestLimits::default())
            .err()
    };
    for body in ["", "[]", "{\"input\":\"a\",\"input\":\"b\"}", "{\"model\":\"svc/gpt-oss-120b\"}", "{\"input\":\"a\"}"]
    {
        assert_eq!(error(body).unwrap().status(), 400, "{body}");
    }
}

#[test]
fn what_validation_refuses_is_named_by_its_place_in_the_request() {
    let body = json!({ "model": "svc/gpt-oss-120b", "instructions": "a", "input": [
        { "role": "developer", "content": "b" }, { "role": "user", "content": "c" },
        { "role": "user", "content": [{ "type": "input_text", "text": "d" }] },
    ], "tools": [{ "type": "web_search" }, { "type": "function", "name": "f" }] });
    let read = CompletionApi::Responses
        .read(Bytes::from(body.to_string()).into(), &models(), &RequestLimits::default())
        .unwrap();
    let ClientFormat::Responses(context) = read.format else { panic!("another format") };
    for (chat, own) in [
        ("messages", Some("input")),
        ("messages[0].content", Some("instructions")),
        ("messages[1].role", Some("input[1]")),
        ("messages[2].content[0].image_url.url", Some("input[2].content[0]")),
        ("messages[9]", None),
        ("tools[0].function.parameters", Some("tools[1].parameters")),
        ("max_tokens", Some("max_output_tokens")),
        ("reasoning_effort", Some("reasoning.effort")),
        ("response_format.json_schema", Some("text.format")),
        ("temperature", None),
    ] {
        assert_eq!(context.request_param(chat).as_deref(), own, "{chat}");
    }
}

#[test]
fn a_name_that_is_made_of_two_keeps_to_the_length_of_one() {
    use super::super::tools::function_name;
    assert_eq!(function_name(Some("a"), "b"), "a__b");
    assert_eq!(function_name(Some(&"n".repeat(80)), "spawn").len(), limits::FUNCTION_NAME_BYTES);
    assert_eq!(function_name(Some("n"), &"t".repeat(64)), "t".repeat(64));
}
