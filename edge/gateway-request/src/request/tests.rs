mod ceilings;
mod dialects;
mod differential;
mod other_paths;
mod sizes;
mod tokens;

use config::{Gateway, gateway::ProviderQuirks, models::ModelCatalog};
use http::StatusCode;

use super::*;

fn models(quirks: &ProviderQuirks) -> ServedModels {
    let mut config = Gateway::default();
    for provider in config.providers.values_mut() {
        provider.quirks = quirks.clone();
    }
    config.models.get_mut("svc/qwen3-32b").unwrap().vision = true;
    let models =
        ModelCatalog::from_config(&config, |name| (name != "SCW_SECRET_KEY").then(|| "key".to_owned())).unwrap();
    ServedModels::new(&models, &config, None).unwrap()
}

fn validated(body: &str) -> Result<CompletionRequest, ApiError> {
    validate(&Bytes::copy_from_slice(body.as_bytes()), &models(&ProviderQuirks::default()), &RequestLimits::default())
}

fn sent(fields: &str) -> String {
    let body = format!(r#"{{"model":"svc/qwen3-32b","messages":[{{"role":"user"}}]{fields}}}"#);
    let sent = validated(&body).unwrap_or_else(|error| panic!("{body}: {error:?}")).body.joined();
    let sent = String::from_utf8(sent.to_vec()).unwrap();
    let expected = r#"{"model":"Qwen3-32B","messages":[{"role":"user"}]"#;
    sent.strip_prefix(expected).unwrap_or_else(|| panic!("{sent}")).strip_suffix('}').unwrap().to_owned()
}

fn refused(body: &str) -> (StatusCode, serde_json::Value) {
    let error = validated(body).err().unwrap_or_else(|| panic!("{body} was accepted"));
    (error.status(), serde_json::from_str::<serde_json::Value>(&error.to_json()).unwrap()["error"].take())
}

#[test]
fn other_fields_pass_byte_by_byte() {
    let fields = r#","max_tokens": 7 , "seed":123456789012345678901234567890, "x" : {"b":1.0,"a":[ null ]},"temperature":1e0,"tools":[{"function": {"x":1.0}}]"#;
    assert_eq!(sent(fields), fields.replace(" , ", ",").replace(", ", ","));
}

#[test]
fn the_ceiling_is_sent_where_the_client_sets_none() {
    assert_eq!(sent(""), r#","max_tokens":4096"#);
    assert_eq!(sent(r#","max_tokens":null"#), r#","max_tokens":4096"#);
    assert_eq!(sent(r#","max_completion_tokens":null"#), r#","max_tokens":4096"#);
}

#[test]
fn streams_ask_for_usage() {
    assert!(
        sent(r#","stream":true"#)
            .ends_with(r#","stream":true,"max_tokens":4096,"stream_options":{"include_usage":true}"#)
    );
    for options in [r#"{"include_usage":false,"include_obfuscation":false}"#, r#"{"include_obfuscation":false}"#] {
        let sent = sent(&format!(r#","max_tokens":1,"stream":true,"stream_options":{options}"#));
        let expected = r#","stream_options":{"include_usage":true,"include_obfuscation":false}"#;
        assert!(sent.ends_with(expected), "{sent}");
    }
    assert!(sent(r#","stream":true,"stream_options":null"#).contains(r#""stream_options":{"include_usage":true}"#));
    assert!(!sent(r#","stream":false"#).contains("stream_options"));
}

#[test]
fn store_is_forced_to_false() {
    assert_eq!(sent(r#","store":true,"max_tokens":1"#), r#","store":false,"max_tokens":1"#);
}

#[test]
fn a_limit_cannot_be_passed_by_repeating_or_escaping_its_field() {
    assert_eq!(sent(r#","max_tokens":9999,"max_tokens":3"#), r#","max_tokens":3"#);
    for fields in [
        r#""max_tokens":3,"max_tokens":9999"#,
        r#""m\u0061x_tokens":9999"#,
        r#""max_tokens":3,"\u006d\u0061x_tokens":9999"#,
    ] {
        let (status, error) =
            refused(&format!(r#"{{"model":"svc/qwen3-32b","messages":[{{"role":"user"}}],{fields}}}"#));
        assert_eq!(status, 400);
        assert_eq!((&error["code"], &error["param"]), (&"invalid_value".into(), &"max_tokens".into()));
    }
}

#[test]
fn a_reservation_covers_every_choice() {
    let reserved = |fields: &str| {
        validated(&format!(r#"{{"model":"svc/qwen3-32b","messages":[{{"role":"user"}}]{fields}}}"#))
            .unwrap()
            .max_usage
            .completion
    };
    assert_eq!(reserved(""), 4096);
    assert_eq!(reserved(r#","n":3,"max_tokens":10"#), 30);
    assert_eq!(reserved(r#","n":2,"max_completion_tokens":20"#), 40);
}

#[test]
fn a_providers_quirks_drop_and_rename_fields() {
    let quirks = ProviderQuirks {
        drop: vec!["store".into(), "stream_options".into(), "user".into()],
        rename: [("max_completion_tokens".into(), "max_tokens".into()), ("seed".into(), "random_seed".into())].into(),
        ..ProviderQuirks::default()
    };
    let sent = |fields: &str| {
        let body = format!(r#"{{"model":"svc/qwen3-32b","messages":[{{"role":"user"}}],{fields}}}"#);
        let sent = validate(&body.into(), &models(&quirks), &RequestLimits::default()).unwrap().body.joined();
        String::from_utf8(sent.to_vec()).unwrap().split_once("}],").unwrap().1.to_owned()
    };
    assert_eq!(
        sent(r#""max_completion_tokens":5,"stream":true,"user":"u","seed" : 1"#),
        r#""max_tokens":5,"stream":true,"random_seed":1}"#
    );
    assert_eq!(sent(r#""max_completion_tokens":5,"max_tokens":6,"store":true"#), r#""max_tokens":6}"#);
    assert_eq!(sent(r#""max_completion_tokens":5,"max_tokens":null"#), r#""max_tokens":5}"#);
    // A duplicate field is sent once, since the last one counts.
    assert_eq!(sent(r#""max_tokens":6,"seed":1,"top_p":1,"seed":2"#), r#""max_tokens":6,"top_p":1,"random_seed":2}"#);
}

#[test]
fn invalid_requests_get_a_code_and_a_param() {
    for (body, status, code, param) in [
        ("", 400, "invalid_json", None),
        ("{", 400, "invalid_json", None),
        ("[]", 400, "invalid_json", None),
        ("{} {}", 400, "invalid_json", None),
        ("\u{feff}{}", 400, "invalid_json", None),
        ("{}", 400, "missing_required_parameter", Some("model")),
        (r#"{"model":null}"#, 400, "invalid_type", Some("model")),
        (r#"{"model":7}"#, 400, "invalid_type", Some("model")),
        (r#"{"model":"gpt-4o"}"#, 404, "model_not_found", Some("model")),
        (r#"{"model":"Qwen3-32B"}"#, 404, "model_not_found", Some("model")),
        (r#"{"model":"svc/qwen3-32b"}"#, 400, "missing_required_parameter", Some("messages")),
        (r#"{"model":"svc/qwen3-32b","messages":"hi"}"#, 400, "invalid_type", Some("messages")),
        (r#"{"model":"svc/qwen3-32b","messages":[]}"#, 400, "invalid_value", Some("messages")),
        (r#"{"model":"svc/qwen3-32b","messages":["hi"]}"#, 400, "invalid_type", Some("messages[0]")),
        (r#"{"model":"svc/qwen3-32b","messages":[{"content":"hi"}]}"#, 400, "invalid_type", Some("messages[0].role")),
        (
            r#"{"model":"svc/qwen3-32b","messages":[{"role":"user"},{"role":1}]}"#,
            400,
            "invalid_type",
            Some("messages[1].role"),
        ),
        (r#"{"model":"svc/gpt-oss-120b","messages":[{"role":"user"}]}"#, 503, "model_unavailable", Some("model")),
    ] {
        let (found, error) = refused(body);
        assert_eq!(
            (found.as_u16(), error["code"].as_str(), error["param"].as_str()),
            (status, Some(code), param),
            "{body}"
        );
    }
    for (name, value, code) in [
        ("max_tokens", "0", "invalid_value"),
        ("max_tokens", "-1", "invalid_value"),
        ("max_tokens", "4097", "invalid_value"),
        ("max_tokens", "1.0", "invalid_value"),
        ("max_tokens", "1e3", "invalid_value"),
        ("max_tokens", "\"5\"", "invalid_value"),
        ("max_tokens", "99999999999999999999999", "invalid_value"),
        ("max_completion_tokens", "4097", "invalid_value"),
        ("max_completion_tokens", "true", "invalid_value"),
        ("n", "0", "invalid_value"),
        ("n", "1000", "invalid_value"),
        ("stream", "1", "invalid_type"),
        ("stream_options", "true", "invalid_type"),
    ] {
        let (status, error) =
            refused(&format!(r#"{{"model":"svc/qwen3-32b","messages":[{{"role":"user"}}],"{name}":{value}}}"#));
        assert_eq!((status.as_u16(), &error["code"], &error["param"]), (400, &code.into(), &name.into()), "{value}");
    }
}

// Fields that reach beyond tokens are tested with whole edges in tests/gateway/beyond_tokens.rs.

#[test]
fn the_content_of_a_message_is_text_or_parts() {
    for message in [
        r#""content":7"#,
        r#""content":{"type":"text"}"#,
        r#""content":["hi"]"#,
        r#""content":[{"type":"text","text":{"a":1}}]"#,
        r#""content":[{"type":"text","text":["a"]}]"#,
        r#""content":[{"type":"image_url","image_url":["data:,x"]}]"#,
        r#""content":[{"type":"image_url","image_url":{"url":{"a":1}}}]"#,
    ] {
        let (status, error) =
            refused(&format!(r#"{{"model":"svc/qwen3-32b","messages":[{{"role":"user",{message}}}]}}"#));
        assert_eq!((status.as_u16(), error["code"].as_str()), (400, Some("invalid_type")), "{message}");
    }
    let body = r#"{"model":"svc/qwen3-32b","messages":[{"role":"user"}],"tool_choice":["auto"]}"#;
    assert_eq!(refused(body).1["code"], "invalid_type");
}

#[test]
fn a_part_has_the_fields_of_its_kind_and_no_others() {
    let param = |part: &str| {
        let body = format!(r#"{{"model":"svc/qwen3-32b","messages":[{{"role":"user","content":[{part}]}}]}}"#);
        let error = validated(&body).err()?;
        let error: serde_json::Value = serde_json::from_str(&error.to_json()).unwrap();
        assert_eq!(error["error"]["code"], "invalid_value", "{part}: {error}");
        Some(error["error"]["param"].as_str().unwrap().trim_start_matches("messages[0].content[0].").to_owned())
    };
    // The names by which servers find a part's content whatever its type, and those billed in addition to tokens.
    for name in [
        "uuid",
        "video_url",
        "audio_url",
        "audio",
        "input_audio",
        "input_image",
        "prompt_embeds",
        "image_embeds",
        "audio_embeds",
        "image_pil",
        "tool_reference",
        "file",
        "file_id",
        "document_url",
        "data",
        "source",
        "url",
        "vide\\u006f_url",
        "Video_URL",
        "video_url\\u0000",
        "u\\u0075id",
    ] {
        let decoded: String = serde_json::from_str(&format!("\"{name}\"")).unwrap();
        for value in [r#""https://example.com""#, r#"{"url":"https://example.com"}"#, "false", "0", "[]"] {
            for part in [
                format!(r#"{{"type":"text","text":"x","{name}":{value}}}"#),
                format!(r#"{{"{name}":{value},"type":"text"}}"#),
                format!(r#"{{"type":"image_url","image_url":{{"url":"data:,x"}},"{name}":{value}}}"#),
            ] {
                assert_eq!(param(&part).as_deref(), Some(decoded.as_str()), "{part}");
            }
        }
        assert_eq!(param(&format!(r#"{{"type":"text","text":"x","{name}":null}}"#)), None, "{name}");
    }
}

#[test]
fn arguments_for_the_template_are_single_values() {
    for (arguments, passes) in [
        (r#"{"enable_thinking":false,"thinking_budget":100,"model_identity":"You are Ada.","x":null}"#, true),
        ("null", true),
        (r#"{"tools":[]}"#, false),
        (r#"{"custom_tools":{"a":1}}"#, false),
        (r#"{"builtin_tools":["browser"]}"#, false),
        (r#"{"documents":[{"text":"x"}]}"#, false),
        (format!(r#"{{"tools":"{}"}}"#, "x".repeat(300)).as_str(), false),
        ("7", false),
    ] {
        let param = refused_param(&ProviderQuirks::default(), &format!(r#""chat_template_kwargs":{arguments}"#));
        assert_eq!(param.is_none(), passes, "{arguments}");
    }
    // Fields that the operator allows pass and are counted.
    let quirks = ProviderQuirks { allow: Some(vec!["chat_template_kwargs".into()]), ..ProviderQuirks::default() };
    let reserved = |arguments: &str| {
        let fields = format!(r#""chat_template_kwargs":{arguments}"#);
        let body = format!(r#"{{"model":"svc/gpt-oss-20b","messages":[{{"role":"user"}}],{fields}}}"#);
        let bytes = body.len() as u64;
        validate(&body.into(), &models(&quirks), &RequestLimits::default()).unwrap().max_usage.prompt - bytes
    };
    assert!(reserved(r#"{"enable_thinking":true}"#) < limits::TEMPLATE_TOKENS + 16);
    assert!(reserved(r#"{"tools":[{"a":1,"b":[2,3,4]}]}"#) > limits::TOOLS_TOKENS + 5 * limits::MEMBER_TOKENS);
    assert!(reserved(r#"{"tools":"abcdefgh"}"#) > limits::TOOLS_TOKENS + 3 * 8);
}

#[test]
fn what_is_printed_anew_counts_wherever_it_stands() {
    let beyond_bytes = |message: &str, fields: &str| {
        let body = format!(r#"{{"model":"svc/gpt-oss-20b","messages":[{{{message}}}]{fields}}}"#);
        let bytes = body.len() as u64;
        validated(&body).unwrap_or_else(|error| panic!("{body}: {error:?}")).max_usage.prompt - bytes
    };
    let ones = |length: usize| format!("[1{}]", ",1".repeat(length - 1));
    let tool = format!(r#"{{"type":"function","function":{{"name":"f","parameters":{{"enum":{}}}}}}}"#, ones(100));
    let call = |arguments: &str| {
        format!(
            r#""role":"assistant","tool_calls":[{{"type":"function","function":{{"name":"f","arguments":{arguments}}}}}]"#
        )
    };
    let plain = beyond_bytes(r#""role":"user","content":"x""#, "");
    for (message, fields) in [
        (r#""role":"user""#.to_owned(), format!(r#","tools":[{tool}]"#)),
        (r#""role":"user""#.to_owned(), format!(r#","functions":[{tool}]"#)),
        (r#""role":"user""#.to_owned(), format!(r#","response_format":{{"json_schema":{tool}}}"#)),
        (format!(r#""role":"developer","tools":[{tool}]"#), String::new()),
        (format!(r#""Tools":[{tool}],"role":"developer""#), String::new()),
        (call(&format!("\"{}\"", ones(100))), String::new()),
        (call(&ones(100)), String::new()),
        (format!(r#""role":"tool","content":"{}""#, ones(100)), String::new()),
        (format!(r#""role":"t\u006fol","content":[{{"type":"text","text":"{}"}}]"#, ones(100)), String::new()),
    ] {
        let beyond = beyond_bytes(&message, &fields);
        assert!(beyond >= plain + 100 * limits::MEMBER_TOKENS, "{beyond} for {message} {fields}");
    }
    assert!(beyond_bytes(r#""role":"developer","tools":[]"#, "") > plain + limits::TOOLS_TOKENS);
    // Words of a message are passed on unchanged.
    assert_eq!(beyond_bytes(&format!(r#""role":"user","content":"{}""#, ones(100)), ""), plain);
}

/// Returns the `param` of the error for a request with these additional fields.
fn refused_param(quirks: &ProviderQuirks, fields: &str) -> Option<String> {
    let body = format!(r#"{{"model":"svc/qwen3-32b","messages":[{{"role":"user"}}],{fields}}}"#);
    let error = validate(&body.into(), &models(quirks), &RequestLimits::default()).err()?;
    let error: serde_json::Value = serde_json::from_str(&error.to_json()).unwrap();
    assert_eq!(error["error"]["code"], "invalid_value", "{fields}: {error}");
    Some(error["error"]["param"].as_str().unwrap().to_owned())
}

#[test]
fn an_entry_says_which_fields_its_provider_gets() {
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    let strict = ProviderQuirks { allow: Some(names(&["temperature", "best_of"])), ..ProviderQuirks::default() };
    for (fields, param) in [
        (r#""temperature":1,"x_unknown":1"#, Some("x_unknown")),
        (r#""seed":1"#, Some("seed")),
        (r#""Temperature":1"#, Some("Temperature")),
        (r#""models":["a"]"#, Some("models")),
        // Values without an effect are left out.
        (r#""seed":null,"logprobs":false,"top_logprobs":0,"logit_bias":{},"modalities":["text"],"echo":false"#, None),
        (r#""metadata":{},"extra_body":{ },"plugins":[ ],"service_tier":"auto""#, None),
        (r#""logprobs":true"#, Some("logprobs")),
        (r#""top_logprobs":2"#, Some("top_logprobs")),
        (r#""logit_bias":{"1":2}"#, Some("logit_bias")),
        (r#""web_search_options":{}"#, Some("web_search_options")),
        (r#""x_unknown":false"#, Some("x_unknown")),
        // Fields that the operator allows pass, whatever they are; governed and judged fields always pass.
        (r#""temperature":1,"best_of":2"#, None),
        (r#""max_tokens":1,"n":1,"stream":true,"stream_options":{},"store":false,"tools":[]"#, None),
        (r#""tool_choice":"auto""#, Some("tool_choice")),
    ] {
        assert_eq!(refused_param(&strict, fields).as_deref(), param, "{fields}");
    }
    // Fields that are dropped anyway reach nothing.
    let dropping = ProviderQuirks { drop: names(&["metadata"]), ..ProviderQuirks::default() };
    assert_eq!(refused_param(&dropping, r#""metadata":{"a":"b"}"#), None);
    assert_eq!(refused_param(&dropping, r#""Metadata":{"a":"b"}"#).as_deref(), Some("Metadata"));
}

#[test]
fn a_reservation_covers_what_the_models_tokenizers_make_of_a_prompt() {
    let config = Gateway::default();
    let models = ModelCatalog::from_config(&config, |_| Some("key".to_owned())).unwrap();
    let models = ServedModels::new(&models, &config, None).unwrap();
    // Written by prompts.py, with the tokenizers themselves.
    let lines = include_str!("tests/prompts.jsonl").lines();
    let mut checked = 0;
    for line in lines {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let body = line["body"].as_str().unwrap();
        let reserved =
            validate(&Bytes::from(body.to_owned()), &models, &RequestLimits::default()).unwrap().max_usage.prompt;
        assert!(reserved >= line["tokens"].as_u64().unwrap(), "{reserved} are reserved for {line}");
        checked += 1;
    }
    assert!(checked > 100, "{checked}");
}

#[test]
fn no_more_is_reserved_for_a_prompt_than_the_model_can_read() {
    let reserved = |model: &str| {
        let text = "7".repeat(60_000);
        let body = format!(r#"{{"model":"{model}","messages":[{{"role":"user","content":"{text}"}}]}}"#);
        validated(&body).unwrap().max_usage.prompt
    };
    assert_eq!(reserved("svc/qwen3-32b"), 40 * 1024);
    assert!((60_000..61_000).contains(&reserved("svc/gpt-oss-20b")));
}

#[test]
fn images_go_to_models_that_see_them_alone() {
    let body = |model: &str, parts: &str| {
        format!(
            r#"{{"model":"{model}","messages":[{{"role":"user","content":"x"}},{{"role":"user","content":[{parts}]}}]}}"#
        )
    };
    let image = r#"{"type":"text","text":"x"},{"type":"image_url","image_url":{"url":"data:,x"}}"#;
    for parts in [image, r#"{"type":"text","text":"x"},{"type":"image\u005furl","image_url":"data:,x"}"#] {
        let (status, error) = refused(&body("svc/gpt-oss-20b", parts));
        assert_eq!(
            (status, &error["code"], &error["param"]),
            (StatusCode::BAD_REQUEST, &"invalid_value".into(), &"messages[1].content[1]".into())
        );
        assert!(error["message"].as_str().unwrap().contains("svc/gpt-oss-20b"), "{error}");
    }
    assert!(validated(&body("svc/gpt-oss-20b", r#"{"type":"text","text":"image_url"}"#)).is_ok());
    assert!(validated(&body("svc/mistral-small", image)).is_ok());
}

#[test]
fn an_image_counts_however_its_kind_is_written() {
    let prompt = |parts: &str| {
        let body =
            format!(r#"{{"model":"svc/qwen3-32b","messages":[{{"role":"user","content":[{parts}]}}],"tools":null}}"#);
        (validated(&body).unwrap().max_usage.prompt, body.len() as u64)
    };
    for part in [
        r#"{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}"#,
        r#"{"type":"image\u005furl","image\u005furl":{"url":"https://example.com/a.png"}}"#,
    ] {
        let (prompt, bytes) = prompt(&format!("{part},{part}"));
        assert_eq!(prompt, bytes + limits::TEMPLATE_TOKENS + 2 * limits::IMAGE_TOKENS, "{part}");
    }
    let (prompt, bytes) = prompt(r#"{"type":"text","text":"\"image_url\" \"image_url\""}"#);
    assert_eq!(prompt, bytes + limits::TEMPLATE_TOKENS, "only said");
}

#[test]
fn nesting_is_bounded() {
    let body = format!(r#"{{"model":"svc/qwen3-32b","messages":{}{}}}"#, "[".repeat(5_000), "]".repeat(5_000));
    assert_eq!(refused(&body).1["code"], "invalid_json");
}
