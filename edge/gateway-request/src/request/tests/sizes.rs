//! Large requests are validated in linear time, written without a second copy, and bounded whatever their shape.

use super::*;

const MB: usize = 1024 * 1024;

fn large() -> RequestLimits {
    RequestLimits::default().with_body(32 * MB as u64).with_tokens(100_000)
}

fn with_messages(messages: &str) -> String {
    format!(r#"{{"model":"svc/gpt-oss-20b","messages":[{messages}]}}"#)
}

/// Returns the bytes scanned to validate a body.
fn work(body: String, models: &ServedModels) -> u64 {
    let body = Bytes::from(body);
    let before = json::work::done();
    let _ = validate(&body, models, &large());
    json::work::done() - before
}

#[test]
fn a_body_is_judged_in_linear_time() {
    let models = models(&ProviderQuirks::default());
    let repeated = |one: &str, bytes: usize| vec![one; bytes / one.len()].join(",");
    let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    let call = r#"{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{\"a\":[1,2]}"},"type":"function"}]}"#;
    let result = |bytes: usize| format!(r#"{{"role":"tool","content":"[{}]"}}"#, repeated("{\\\"a\\\":1}", bytes));
    let shapes: [(&str, &dyn Fn(usize) -> String); 11] = [
        ("words", &|bytes| with_messages(&format!(r#"{{"role":"user","content":"{}"}}"#, "x".repeat(bytes)))),
        ("escapes", &|bytes| with_messages(&format!(r#"{{"role":"user","content":"{}"}}"#, "\\n".repeat(bytes / 2)))),
        ("messages", &|bytes| with_messages(&repeated(r#"{"role":"user","content":"x"}"#, bytes))),
        ("parts", &|bytes| {
            let parts = repeated(r#"{"type":"text","text":"x"}"#, bytes);
            with_messages(&format!(r#"{{"role":"user","content":[{parts}]}}"#))
        }),
        ("calls", &|bytes| with_messages(&repeated(call, bytes))),
        ("results", &|bytes| with_messages(&result(bytes))),
        ("tools", &|bytes| {
            let tools = repeated(r#"{"type":"function","function":{"name":"f","parameters":{"enum":[1,2]}}}"#, bytes);
            format!(r#"{{"model":"svc/gpt-oss-20b","messages":[{{"role":"user"}}],"tools":[{tools}]}}"#)
        }),
        ("members", &|bytes| with_messages(&format!(r#"{{"role":"user","x":{{{}}}}}"#, repeated(r#""a":1"#, bytes)))),
        ("nesting", &|bytes| with_messages(&format!(r#"{{"role":"user","x":[{}]}}"#, repeated(&nested(60), bytes)))),
        ("fields", &|bytes| {
            format!(r#"{{"model":"svc/gpt-oss-20b","messages":[{{"role":"user"}}],{}}}"#, repeated(r#""a":1"#, bytes))
        }),
        ("names", &|bytes| {
            let name = "A".repeat(60_000);
            with_messages(&format!(r#"{{"role":"user",{}}}"#, repeated(&format!("\"{name}\":1"), bytes)))
        }),
    ];
    for (shape, of) in shapes {
        // Both are long enough for their words to be counted.
        let (small, large) = (work(of(MB / 2), &models), work(of(2 * MB), &models));
        assert!(large <= 5 * small.max(MB as u64 / 2), "{shape}: {small} for a quarter, {large} for all");
        assert!(large <= 32 * MB as u64, "{shape}: {large}");
    }
}

#[test]
fn a_large_body_is_sent_as_slices_of_itself() {
    let image = "A".repeat(8 * MB);
    let message = format!(
        r#"{{"role":"user","content":[{{"type":"image_url","image_url":{{"url":"data:image/png;base64,{image}"}}}}]}}"#
    );
    let body = Bytes::from(format!(
        r#"{{"model":"svc/qwen3-32b", "messages":[{message}], "max_tokens":20000,"store":true,"seed":1}}"#
    ));
    let request = validate(&body, &models(&ProviderQuirks::default()), &large()).unwrap();
    let text = request.body.joined();
    let expected = String::from_utf8(body.to_vec()).unwrap().replace("svc/qwen3-32b", "Qwen3-32B");
    let expected = expected.replace("\"store\":true", "\"store\":false").replace(", \"", ",\"");
    assert!(text == expected, "{} bytes", text.len());
    let copied = request.body.into_inner().into_iter().filter(|piece| !body.as_ptr_range().contains(&piece.as_ptr()));
    assert!(copied.map(|piece| piece.len()).sum::<usize>() < 1_000);
    // Neither images nor text beyond the model's context count as words.
    assert_eq!((request.max_usage.prompt, request.expected.prompt), (40 * 1024, 40 * 1024));
    assert_eq!(request.max_usage.completion, 20_000);
}

#[test]
fn what_would_take_more_memory_than_the_body_is_refused_or_not_decoded() {
    let refused = |body: String| {
        let error = validate(&Bytes::from(body), &models(&ProviderQuirks::default()), &large()).err().unwrap();
        serde_json::from_str::<serde_json::Value>(&error.to_json()).unwrap()["error"].take()
    };
    let fields = vec![r#""a":1"#; limits::REQUEST_FIELDS].join(",");
    let error = refused(format!(r#"{{"model":"svc/qwen3-32b",{fields}}}"#));
    assert_eq!(error["code"], "invalid_json");
    assert!(error["message"].as_str().unwrap().contains("too many fields"), "{error}");
    // The most fields that fit into the contract's 64 KB are accepted.
    let fields = vec![r#""":1"#; limits::SMALL_BODY_BYTES / 5].join(",");
    assert_eq!(refused(format!("{{{fields}}}"))["code"], "missing_required_parameter");
    let name = "x".repeat(limits::FIELD_NAME_BYTES);
    assert_eq!(refused(format!(r#"{{"{name}":1}}"#))["code"], "invalid_json");
    let model = format!(r#"{{"model":"{}"}}"#, "\\n".repeat(limits::DECODED_STRING_BYTES));
    assert_eq!(refused(model)["code"], "invalid_type");
    // JSON in a string that is not inspected is counted with a bound that exceeds its actual tokens.
    let content = format!("[{}]", vec!["\\\"\\\""; limits::DECODED_STRING_BYTES / 4].join(","));
    let body = with_messages(&format!(r#"{{"role":"tool","content":"{content}"}}"#));
    let mut config = Gateway::default();
    config.models.get_mut("svc/gpt-oss-20b").unwrap().context = None;
    let models = ModelCatalog::from_config(&config, |_| Some("key".to_owned())).unwrap();
    let models = ServedModels::new(&models, &config, None).unwrap();
    let request = validate(&Bytes::from(body), &models, &large()).unwrap();
    let members = limits::DECODED_STRING_BYTES as u64 / 4;
    assert!(request.max_usage.prompt > members * (limits::MEMBER_TOKENS + limits::UNSEEN_DEPTH));
}

#[test]
fn a_cut_request_is_sent_with_what_it_may_ask() {
    let sent = |fields: &str| {
        let body = format!(r#"{{"model":"svc/qwen3-32b","messages":[{{"role":"user"}}],{fields}}}"#);
        let request =
            validate(&body.into(), &models(&ProviderQuirks::default()), &RequestLimits::default().clamped()).unwrap();
        let text = String::from_utf8(request.body.joined().to_vec()).unwrap();
        (text.split_once("}],").unwrap().1.to_owned(), request.max_usage.completion)
    };
    assert_eq!(sent(r#""max_tokens" : 32000"#), (r#""max_tokens":4096}"#.to_owned(), 4_096));
    assert_eq!(sent(r#""max_completion_tokens":32000,"n":2"#), (r#""max_tokens":4096,"n":2}"#.to_owned(), 8_192));
    assert_eq!(sent(r#""max_tokens" : 4096"#), (r#""max_tokens" : 4096}"#.to_owned(), 4_096));
}
