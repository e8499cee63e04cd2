use http::HeaderMap;
use serde_json::{Value, json};

use super::*;

mod answers;
mod streams;

fn request(fields: &Value) -> String {
    let mut request =
        json!({ "model": "svc/qwen3-32b", "max_tokens": 7, "messages": [{ "role": "user", "content": "Hi?" }] });
    request.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    request.to_string()
}

fn translated(fields: &Value) -> (Value, MessagesContext) {
    let (chat, context) = to_chat(request(fields).as_bytes()).unwrap_or_else(|error| panic!("{error:?}: {fields}"));
    (serde_json::from_slice(&chat).unwrap(), context)
}

fn context(fields: &Value) -> MessagesContext {
    let (_, mut context) = translated(fields);
    context.identify("req_0a1");
    context
}

fn messages(fields: &Value) -> Value {
    translated(fields).0["messages"].take()
}

fn said(content: &Value) -> Value {
    messages(&json!({ "messages": [{ "role": "user", "content": content }] }))
}

fn error_of(fields: &Value) -> String {
    let error = to_chat(request(fields).as_bytes()).err().unwrap_or_else(|| panic!("{fields} passes"));
    assert_eq!(error.status(), 400, "{fields}");
    error.message().to_owned()
}

#[test]
fn the_usual_fields_have_their_counterparts() {
    let (chat, _) = translated(&json!({
        "system": "Be brief.", "stop_sequences": ["\n\nHuman:", "END"], "temperature": 0.70, "top_p": 0.9, "top_k": 40,
        "stream": true, "metadata": { "user_id": "u" }, "service_tier": "auto", "cache_control": { "type": "ephemeral" },
        "context_management": { "edits": [] }, "mcp_servers": [], "container": null, "inference_geo": "eu", "unheard_of": 1,
    }));
    assert_eq!(
        chat,
        json!({
            "model": "svc/qwen3-32b", "max_tokens": 7, "stream": true, "stop": ["\n\nHuman:", "END"], "temperature": 0.70,
            "top_p": 0.9, "top_k": 40,
            "messages": [{ "role": "system", "content": "Be brief." }, { "role": "user", "content": "Hi?" }],
        })
    );
    // Text is copied as written.
    let body = br#"{"model":"svc/x","max_tokens":1,"messages":[{"role":"user","content":[{"type":"text","text":"\u00e9\/"}]}]}"#;
    let (chat, _) = to_chat(body).unwrap();
    assert!(String::from_utf8(chat).unwrap().contains(r#""content":"\u00e9\/""#));
}

#[test]
fn content_of_each_kind_is_translated() {
    let text = |text: &str| json!({ "type": "text", "text": text });
    let image = |url: &str| json!({ "type": "image_url", "image_url": { "url": url } });
    for (content, translated) in [
        (json!("Hi"), json!("Hi")),
        (json!([]), json!("")),
        (
            json!([{ "type": "text", "text": "Hi", "cache_control": { "type": "ephemeral" }, "citations": null }]),
            json!("Hi"),
        ),
        (json!([text("a"), text("b")]), json!([text("a"), text("b")])),
        (
            json!([{ "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "QUJD" } }]),
            json!([image("data:image/png;base64,QUJD")]),
        ),
        (
            json!([text("a"), { "type": "image", "source": { "type": "url", "url": "https://x.example/\"i\"" } }]),
            json!([text("a"), image("https://x.example/\"i\"")]),
        ),
        (
            json!([{ "type": "document", "title": "T", "context": "C", "citations": { "enabled": true },
                "source": { "type": "text", "media_type": "text/plain", "data": "D\n" } }]),
            json!([text("T"), text("C"), text("D\n")]),
        ),
        (
            json!([{ "type": "document", "source": { "type": "content", "content": "D" } }, text("a")]),
            json!([text("D"), text("a")]),
        ),
        (
            json!([{ "type": "document", "source": { "type": "content", "content": [text("D"), text("E")] } }]),
            json!([text("D"), text("E")]),
        ),
        (
            json!([{ "type": "search_result", "title": "T", "source": "https://x.example", "content": [text("R")] }]),
            json!([text("T\nhttps://x.example"), text("R")]),
        ),
    ] {
        assert_eq!(said(&content), json!([{ "role": "user", "content": translated }]), "{content}");
    }
}

#[test]
fn results_of_tools_come_before_what_the_user_says() {
    let result = |id: &str, content: Value| json!({ "type": "tool_result", "tool_use_id": id, "content": content });
    let tool = |id: &str, content: &str| json!({ "role": "tool", "content": content, "tool_call_id": id });
    let text = |text: &str| json!({ "type": "text", "text": text });
    let png = json!({ "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "QUJD" } });
    assert_eq!(said(&json!([result("a", json!("1"))])), json!([tool("a", "1")]));
    assert_eq!(
        said(&json!([text("so"), result("a", json!([text("1"), text("2")])), result("b", json!([]))])),
        json!([tool("a", "1\n\n2"), tool("b", ""), { "role": "user", "content": "so" }])
    );
    let failed = json!({ "type": "tool_result", "tool_use_id": "a", "content": "no such file", "is_error": true });
    assert_eq!(said(&json!([failed])), json!([tool("a", "Error: no such file")]));
    assert_eq!(said(&json!([{ "type": "tool_result", "tool_use_id": "a" }])), json!([tool("a", "")]));
    assert_eq!(
        said(&json!([result("a", json!([png, text("1")])), text("so")])),
        json!([tool("a", "1"), { "role": "user", "content": [
            { "type": "text", "text": "What the call a shows:" },
            { "type": "image_url", "image_url": { "url": "data:image/png;base64,QUJD" } },
            text("so"),
        ] }])
    );
}

#[test]
fn turns_of_the_model_keep_words_thoughts_and_calls() {
    let spoken = |content: Value| {
        let turns = messages(&json!({ "messages": [{ "role": "assistant", "content": content }] }));
        turns[0].clone()
    };
    let call = json!({ "type": "tool_use", "id": "toolu_1", "name": "ls", "input": { "path": "a\"b", "n": 1.0 }, "caller": {} });
    let called = json!([{ "id": "toolu_1", "type": "function",
        "function": { "name": "ls", "arguments": "{\"n\":1.0,\"path\":\"a\\\"b\"}" } }]);
    for (content, turn) in [
        (json!("Hi"), json!({ "role": "assistant", "content": "Hi" })),
        (json!([call]), json!({ "role": "assistant", "content": null, "tool_calls": called })),
        (
            json!([{ "type": "thinking", "thinking": "Hm", "signature": SIGNATURE }, { "type": "text", "text": "a" }, call]),
            json!({ "role": "assistant", "content": "a", "reasoning_content": "Hm", "tool_calls": called }),
        ),
        (
            json!([{ "type": "thinking", "thinking": "1", "signature": "of others" }, { "type": "redacted_thinking",
                "data": "x" }, { "type": "thinking", "thinking": "2" }, { "type": "thinking", "thinking": "" }]),
            json!({ "role": "assistant", "content": "", "reasoning_content": "1\n\n2" }),
        ),
        (
            json!([{ "type": "text", "text": "a" }, { "type": "text", "text": "\u{e9}" }]),
            json!({ "role": "assistant", "content": "a\n\n\u{e9}" }),
        ),
    ] {
        assert_eq!(spoken(content.clone()), turn, "{content}");
    }
}

#[test]
fn the_system_speaks_first_and_later_through_the_user() {
    let text = |text: &str| json!({ "type": "text", "text": text });
    let turns = json!([
        { "role": "user", "content": "a" }, { "role": "system", "content": [text("S2")] },
        { "role": "assistant", "content": "b" }, { "role": "user", "content": "c" }, { "role": "system", "content": "S3" },
    ]);
    let system = json!([text("x-anthropic-billing-header: cc_version=1;"), text("S1")]);
    assert_eq!(
        messages(&json!({ "system": system, "messages": turns })),
        json!([
            { "role": "system", "content": "S1\n\nS2" }, { "role": "user", "content": "a" },
            { "role": "assistant", "content": "b" }, { "role": "user", "content": "c" },
            { "role": "user", "content": "<system-reminder>\nS3\n</system-reminder>" },
        ])
    );
}

#[test]
fn the_clients_tools_are_functions_and_others_are_left_out() {
    let schema = json!({ "type": "object" });
    let (chat, context) = translated(&json!({
        "tools": [
            { "name": "a", "description": "A", "input_schema": schema, "cache_control": { "type": "ephemeral" } },
            { "type": "custom", "name": "b", "input_schema": schema, "strict": true, "eager_input_streaming": true },
            { "type": "web_search_20250305", "name": "web_search", "max_uses": 5 },
            { "type": "bash_20250124", "name": "bash" },
        ],
        "tool_choice": { "type": "tool", "name": "b", "disable_parallel_tool_use": true },
    }));
    assert_eq!(
        chat["tools"],
        json!([
            { "type": "function", "function": { "name": "a", "description": "A", "parameters": schema } },
            { "type": "function", "function": { "name": "b", "parameters": schema, "strict": true } },
        ])
    );
    assert_eq!(chat["tool_choice"], json!({ "type": "function", "function": { "name": "b" } }));
    assert_eq!(chat["parallel_tool_calls"], false);
    let mut headers = HeaderMap::new();
    context.add_headers(&mut headers);
    let warning = headers["x-svc-warning"].to_str().unwrap();
    assert!(warning.ends_with(": web_search_20250305, bash_20250124"), "{warning}");

    let tools = json!([{ "name": "a", "input_schema": schema }]);
    for (choice, translated_choice) in [("auto", "auto"), ("any", "required"), ("none", "none")] {
        let (chat, _) = translated(&json!({ "tools": tools, "tool_choice": { "type": choice } }));
        assert_eq!((&chat["tool_choice"], chat.get("parallel_tool_calls")), (&translated_choice.into(), None));
    }
    let hosted = json!([{ "type": "web_search_20250305", "name": "web_search" }]);
    let (chat, _) = translated(&json!({ "tools": hosted, "tool_choice": { "type": "auto" } }));
    assert_eq!((chat.get("tools"), chat.get("tool_choice")), (None, None));
}

#[test]
fn tools_that_the_model_does_not_see_are_not_counted() {
    const MANY: usize = 2 * limits::TRANSLATED_TOOLS;
    let tool = |number: usize, is_deferred: bool| json!({ "name": format!("t{number}"), "input_schema": {}, "defer_loading": is_deferred });
    let deferred: Vec<_> = (0..MANY).map(|number| tool(number, number > 0)).collect();
    let change = |kind: &str, number: usize| json!({ "type": kind, "tool": { "definition": tool(number, false) } });
    let changes = (1..MANY).flat_map(|number| ["tool_addition", "tool_removal"].map(|kind| change(kind, number)));
    let changing = json!([{ "role": "user", "content": changes.collect::<Vec<_>>() }]);
    for fields in [json!({ "tools": deferred }), json!({ "tools": [tool(0, false)], "messages": changing })] {
        assert_eq!(translated(&fields).0["tools"].as_array().unwrap().len(), 1);
    }
}

#[test]
fn deferred_tools_are_there_once_they_are_named() {
    let names = |turns: Value| {
        let tool =
            |name: &str, is_deferred: bool| json!({ "name": name, "input_schema": {}, "defer_loading": is_deferred });
        let (chat, _) = translated(&json!({ "messages": turns, "tools": [tool("a", false), tool("b", true)] }));
        let tools = chat["tools"].as_array().unwrap();
        tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let system = |change: Value| json!([{ "role": "user", "content": "x" }, { "role": "system", "content": [change] }]);
    assert_eq!(names(json!([{ "role": "user", "content": "x" }])), ["a"]);
    let found = json!([{ "type": "tool_reference", "tool_name": "b" }]);
    let result = json!({ "type": "tool_result", "tool_use_id": "t", "content": found });
    let turns = json!([{ "role": "user", "content": [result] }]);
    assert_eq!(names(turns.clone()), ["a", "b"]);
    assert_eq!(messages(&json!({ "messages": turns }))[0]["content"], "The tool `b` is available now.");
    let reference = |name: &str| json!({ "type": "tool_reference", "name": name });
    assert_eq!(names(system(json!({ "type": "tool_addition", "tool": reference("b") }))), ["a", "b"]);
    assert_eq!(
        names(json!([{ "role": "user", "content": [{ "type": "tool_removal", "tool": reference("a") }] },
        { "role": "system", "content": [{ "type": "tool_addition", "tool": reference("b") }] }])),
        ["b"]
    );
    let definition = json!({ "type": "tool_definition", "definition": { "name": "c", "input_schema": {} } });
    assert_eq!(names(system(json!({ "type": "tool_addition", "tool": definition }))), ["a", "c"]);
}

#[test]
fn thought_and_form_are_asked_for_in_the_chat_completions_words() {
    for (fields, effort, shows) in [
        (json!({}), None, false),
        (json!({ "thinking": { "type": "enabled", "budget_tokens": 1024 } }), Some("low"), true),
        (json!({ "thinking": { "type": "enabled", "budget_tokens": 8000 } }), Some("medium"), true),
        (json!({ "thinking": { "type": "enabled", "budget_tokens": 31999 } }), Some("high"), true),
        (json!({ "thinking": { "type": "adaptive", "display": "omitted" } }), None, true),
        (json!({ "thinking": { "type": "adaptive" }, "output_config": { "effort": "xhigh" } }), Some("high"), true),
        (
            json!({ "thinking": { "type": "enabled", "budget_tokens": 9 }, "output_config": { "effort": "medium" } }),
            Some("medium"),
            true,
        ),
        (json!({ "output_config": { "effort": "low" } }), Some("low"), false),
        (json!({ "thinking": { "type": "disabled" }, "output_config": { "effort": "high" } }), None, false),
    ] {
        let (chat, context) = translated(&fields);
        assert_eq!((chat["reasoning_effort"].as_str(), context.shows_thinking), (effort, shows), "{fields}");
    }
    let format = json!({ "type": "json_schema", "schema": { "type": "object" } });
    for fields in [json!({ "output_config": { "format": format } }), json!({ "output_format": format })] {
        let schema = json!({ "name": "output", "strict": true, "schema": { "type": "object" } });
        assert_eq!(translated(&fields).0["response_format"], json!({ "type": "json_schema", "json_schema": schema }));
    }
}

#[test]
fn what_cannot_be_done_is_refused_by_name() {
    let said = |block: Value| json!({ "messages": [{ "role": "user", "content": [block] }] });
    let source = |source: Value| said(json!({ "type": "document", "source": source }));
    for (fields, words) in [
        (json!({ "model": null }), "'model'"),
        (json!({ "model": 7 }), "'model'"),
        (json!({ "max_tokens": null }), "'max_tokens'"),
        (json!({ "messages": null }), "'messages'"),
        (json!({ "messages": [] }), "'messages'"),
        (json!({ "messages": [{ "role": "tool", "content": "" }] }), "'messages.0.role'"),
        (json!({ "messages": [{ "role": "user", "content": 7 }] }), "'messages.0.content'"),
        (json!({ "messages": [{ "role": "user" }] }), "missing field `content`"),
        (json!({ "messages": "x".repeat(70_000) }), "expected a sequence"),
        (json!({ "system": 7 }), "'system'"),
        (json!({ "system": [{ "type": "image" }] }), "'system.0.type'"),
        (json!({ "container": "c" }), "'container'"),
        (json!({ "mcp_servers": [{ "type": "url", "url": "https://x.example", "name": "x" }] }), "'mcp_servers'"),
        (json!({ "tools": [{ "name": "a" }] }), "'tools.0.input_schema'"),
        (json!({ "tools": [{ "input_schema": {} }] }), "'tools.0.name'"),
        (json!({ "tool_choice": { "type": "any" } }), "'tool_choice'"),
        (
            json!({ "tool_choice": { "type": "all" }, "tools": [{ "name": "a", "input_schema": {} }] }),
            "'tool_choice.type'",
        ),
        (
            json!({ "tool_choice": { "type": "tool", "name": "b" }, "tools": [{ "name": "a", "input_schema": {} }] }),
            "'tool_choice.name'",
        ),
        (json!({ "output_config": { "format": { "type": "xml" } } }), "'output_config.format.type'"),
        (said(json!({ "type": "text" })), "'messages.0.content.0.text'"),
        (said(json!({ "type": "text", "text": [] })), "'messages.0.content.0.text'"),
        (said(json!({ "type": "container_upload", "file_id": "f" })), "`container_upload`"),
        (
            said(json!({ "type": "image", "source": { "type": "file", "file_id": "f" } })),
            "'messages.0.content.0.source.type'",
        ),
        (
            said(json!({ "type": "image", "source": { "type": "base64", "data": "QUJD" } })),
            "'messages.0.content.0.source'",
        ),
        (source(json!({ "type": "base64", "media_type": "application/pdf", "data": "QUJD" })), "`application/pdf`"),
        (source(json!({ "type": "url", "url": "https://x.example/a.pdf" })), "`url`"),
        (said(json!({ "type": "tool_result", "content": "" })), "'messages.0.content.0.tool_use_id'"),
        (
            json!({ "messages": [{ "role": "assistant", "content": [{ "type": "server_tool_use", "id": "s", "name": "web_search", "input": {} }] }] }),
            "`server_tool_use`",
        ),
    ] {
        let message = error_of(&fields);
        assert!(message.contains(words), "{message}");
        assert!(message.len() < 400, "{message}");
    }
    for body in [&b"{"[..], b"\xff", b"[]", br#"{"model":"a","model":"b"}"#] {
        assert_eq!(to_chat(body).err().unwrap().code().as_str(), "invalid_json");
    }
}

#[test]
fn errors_have_anthropics_shape_and_words() {
    let request = FailedRequest::new("req_1");
    let shown = |error: ApiError| {
        let response = request.error(error);
        let body: Value = serde_json::from_slice(response.body()).unwrap();
        (response.status().as_u16(), body)
    };
    let (status, body) = shown(ApiError::model_not_found("x"));
    let message = "The model `x` does not exist. GET /v1/models lists those that do.";
    let error = json!({ "type": "not_found_error", "message": message });
    assert_eq!((status, body), (404, json!({ "type": "error", "error": error, "request_id": "req_1" })));
    for (error, status, kind) in [
        (ApiError::missing_key(), 401, "authentication_error"),
        (ApiError::body_too_large(65_536, ""), 413, "request_too_large"),
        (ApiError::too_many_at_once(1), 429, "rate_limit_error"),
        (ApiError::busy(), 503, "overloaded_error"),
        (ApiError::model_unavailable("x"), 503, "api_error"),
        (gateway_request::error::ProviderError::FAILED.into(), 502, "api_error"),
        (gateway_request::error::ProviderError::Timeout.into(), 504, "timeout_error"),
    ] {
        let (found, body) = shown(error);
        assert_eq!((found, body["error"]["type"].as_str()), (status, Some(kind)), "{body}");
    }
    // By which Claude Code lowers its ceiling.
    let context = context(&json!({ "max_tokens": 32000 }));
    let error = ApiError::invalid_value("max_tokens", "expected an integer from 1 to 4096").with_maximum(4096);
    assert_eq!(
        context.rewrite_error(error).message(),
        "max_tokens: 32000 > 4096, which is the maximum allowed number of output tokens for svc/qwen3-32b"
    );
    let error = ApiError::invalid_value("stop", "no");
    assert_eq!(context.rewrite_error(error).message(), "Invalid 'stop_sequences': no.");
}
