use super::*;

fn answered(fields: &Value, chat: &Value) -> Value {
    let answer = whole(&context(fields), chat.to_string().as_bytes()).unwrap();
    serde_json::from_slice(&answer).unwrap()
}

fn completion(message: &Value, finish_reason: &str) -> Value {
    json!({
        "id": "chatcmpl-0a/1", "object": "chat.completion", "created": 1, "model": "svc/real",
        "choices": [{ "index": 0, "message": message, "finish_reason": finish_reason }],
        "usage": { "prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12 },
    })
}

#[test]
fn a_whole_answer_is_a_message() {
    let message = json!({ "role": "assistant", "content": "Hi\n\"you\"", "reasoning_content": "Hm", "tool_calls": [
        { "id": "call_1", "type": "function", "function": { "name": "ls", "arguments": "{\"path\": \"a\\\"b\"}" } },
        { "type": "function", "function": { "name": "pwd", "arguments": "" } },
        { "id": "call_3", "type": "function", "function": { "name": "rm", "arguments": "{\"path\"" } },
    ] });
    let chat = completion(&message, "tool_calls");
    let usage = json!({
        "input_tokens": 9, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 3,
    });
    let calls = [
        json!({ "type": "tool_use", "id": "call_1", "name": "ls", "input": { "path": "a\"b" } }),
        json!({ "type": "tool_use", "id": "toolu_0a1_1", "name": "pwd", "input": {} }),
        json!({ "type": "tool_use", "id": "call_3", "name": "rm", "input": { "arguments": "{\"path\"" } }),
    ];
    let text = json!({ "type": "text", "text": "Hi\n\"you\"" });
    let mut expected = json!({
        "id": "msg_0a1", "type": "message", "role": "assistant", "model": "svc/qwen3-32b", "stop_reason": "tool_use",
        "stop_sequence": null, "usage": usage, "content": [text, calls[0], calls[1], calls[2]],
    });
    assert_eq!(answered(&json!({}), &chat), expected, "thoughts are for those who ask for them");
    let thinking = json!({ "type": "thinking", "thinking": "Hm", "signature": SIGNATURE });
    expected["content"].as_array_mut().unwrap().insert(0, thinking);
    assert_eq!(answered(&json!({ "thinking": { "type": "adaptive" } }), &chat), expected);
    // Answers are accepted as input.
    let turns = json!([{ "role": "assistant", "content": expected["content"] }]);
    assert_eq!(messages(&json!({ "messages": turns }))[0]["reasoning_content"], "Hm");
}

#[test]
fn answers_end_for_a_reason() {
    let sequences = json!({ "stop_sequences": ["END"] });
    let words = json!({ "content": "x" });
    let call = json!({ "tool_calls": [{ "id": "a", "function": { "name": "f", "arguments": "{}" } }] });
    for (message, finish, more, reason, sequence) in [
        (&words, "stop", json!({}), "end_turn", None),
        (&words, "stop", json!({ "stop_reason": "END" }), "stop_sequence", Some("END")),
        (&words, "stop", json!({ "matched_stop": "END" }), "stop_sequence", Some("END")),
        (&words, "stop", json!({ "stop_reason": "other" }), "end_turn", None),
        (&words, "stop", json!({ "stop_reason": 128_009 }), "end_turn", None),
        (&words, "length", json!({}), "max_tokens", None),
        (&words, "content_filter", json!({}), "refusal", None),
        (&json!({ "refusal": "No." }), "stop", json!({}), "refusal", None),
        (&call, "tool_calls", json!({}), "tool_use", None),
        (&call, "stop", json!({}), "tool_use", None),
        (&call, "length", json!({}), "max_tokens", None),
    ] {
        let mut chat = completion(message, finish);
        chat["choices"][0].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let answer = answered(&sequences, &chat);
        assert_eq!((&answer["stop_reason"], &answer["stop_sequence"]), (&json!(reason), &json!(sequence)), "{chat}");
    }
    let refused = answered(&json!({}), &completion(&json!({ "content": null, "refusal": "No." }), "stop"));
    assert_eq!(refused["content"], json!([{ "type": "text", "text": "No." }]));
}

#[test]
fn usage_tells_cached_tokens_from_others() {
    let of = |usage: Value| {
        let mut chat = completion(&json!({ "content": "x" }), "stop");
        chat["usage"] = usage;
        let usage = answered(&json!({}), &chat)["usage"].clone();
        let count = |name: &str| usage[name].as_u64().unwrap();
        let prompt = ["input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"].map(count);
        (prompt, count("output_tokens"), usage["estimated"] == true)
    };
    let sums = |more: Value| {
        let mut usage = json!({ "prompt_tokens": 100, "completion_tokens": 5 });
        usage.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        usage
    };
    assert_eq!(of(sums(json!({}))), ([100, 0, 0], 5, false));
    assert_eq!(of(sums(json!({ "prompt_tokens_details": null }))), ([100, 0, 0], 5, false));
    assert_eq!(of(sums(json!({ "prompt_tokens_details": { "cached_tokens": 64 } }))), ([36, 64, 0], 5, false));
    let details = json!({ "cached_tokens": 64, "cache_creation_tokens": 30 });
    assert_eq!(of(sums(json!({ "prompt_tokens_details": details }))), ([6, 64, 30], 5, false));
    // More than the total.
    assert_eq!(of(sums(json!({ "prompt_tokens_details": { "cached_tokens": 640 } }))), ([0, 100, 0], 5, false));
    assert_eq!(of(sums(json!({ "estimated": true }))), ([100, 0, 0], 5, true));
    // As in the meter, tokens that are only in the total belong to the completion.
    assert_eq!(of(json!({ "prompt_tokens": 4, "total_tokens": 9 })), ([4, 0, 0], 5, false));
}

#[test]
fn the_last_of_a_repeated_field_counts() {
    let chat =
        br#"{"choices":[{"message":{"content":"x"}}],"usage":null,"usage":{"prompt_tokens":3,"completion_tokens":2}}"#;
    let answer: Value = serde_json::from_slice(&whole(&context(&json!({})), chat).unwrap()).unwrap();
    assert_eq!((&answer["usage"]["input_tokens"], &answer["usage"]["output_tokens"]), (&3.into(), &2.into()));
    for chat in ["", "7", "{}", r#"{"choices":7}"#, r#"{"choices":[7]}"#] {
        assert!(whole(&context(&json!({})), chat.as_bytes()).is_none(), "{chat}");
    }
}
