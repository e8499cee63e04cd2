use config::{Gateway, gateway::Quirks, models::Models};
use http::StatusCode;

use super::*;

fn models(quirks: &Quirks) -> ServedModels {
    let mut config = Gateway::default();
    for provider in config.providers.values_mut() {
        provider.quirks = quirks.clone();
    }
    let models = Models::of(&config, |name| (name != "SCW_SECRET_KEY").then(|| "key".to_owned())).unwrap();
    ServedModels::new(&models, &config).unwrap()
}

fn validated(body: &str) -> Result<CompletionRequest, ApiError> {
    validate(&Bytes::copy_from_slice(body.as_bytes()), &models(&Quirks::default()))
}

fn sent(fields: &str) -> String {
    let body = format!(r#"{{"model":"svc/qwen3-32b","messages":[{{"role":"user"}}]{fields}}}"#);
    let sent = validated(&body).unwrap_or_else(|error| panic!("{body}: {error:?}")).body;
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
    let fields = r#","max_tokens": 7 , "seed":123456789012345678901234567890, "x" : {"b":1.0,"a":[ null ]},"temperature":1e0,"tools":[{"x":1}]"#;
    assert_eq!(sent(fields), fields.replace(" , ", ",").replace(", ", ","));
}

#[test]
fn the_ceiling_is_sent_where_the_client_sets_none() {
    assert_eq!(sent(""), r#","max_tokens":4096"#);
    assert_eq!(sent(r#","max_tokens":null"#), r#","max_tokens":4096"#);
    assert_eq!(sent(r#","max_completion_tokens":5"#), r#","max_completion_tokens":5"#);
    assert_eq!(
        sent(r#","max_tokens":4096,"max_completion_tokens":1"#),
        r#","max_tokens":4096,"max_completion_tokens":1"#
    );
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
    assert_eq!(reserved(r#","max_tokens":10,"max_completion_tokens":20"#), 20);
}

#[test]
fn a_providers_quirks_drop_and_rename_fields() {
    let quirks = Quirks {
        drop: vec!["store".into(), "stream_options".into(), "user".into()],
        rename: [("max_completion_tokens".into(), "max_tokens".into()), ("seed".into(), "random_seed".into())].into(),
    };
    let sent = |fields: &str| {
        let body = format!(r#"{{"model":"svc/qwen3-32b","messages":[{{"role":"user"}}],{fields}}}"#);
        let sent = validate(&body.into(), &models(&quirks)).unwrap().body;
        String::from_utf8(sent.to_vec()).unwrap().split_once("}],").unwrap().1.to_owned()
    };
    assert_eq!(
        sent(r#""max_completion_tokens":5,"stream":true,"user":"u","seed" : 1"#),
        r#""max_tokens":5,"stream":true,"random_seed":1}"#
    );
    assert_eq!(sent(r#""max_completion_tokens":5,"max_tokens":6,"store":true"#), r#""max_tokens":6}"#);
    assert_eq!(sent(r#""max_completion_tokens":5,"max_tokens":null"#), r#""max_tokens":5}"#);
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

#[test]
fn what_reaches_beyond_tokens_is_refused() {
    for (fields, param) in [
        (r#""tools":[{"type":"web_search"}]"#, "tools[0].type"),
        (r#""tools":[{"type":"function"},{"type":"web_search_premium"}]"#, "tools[1].type"),
        (r#""tools":[{"type":"code_interpreter"}]"#, "tools[0].type"),
        (r#""tools":[{"type":"document_library","library_ids":["x"]}]"#, "tools[0].type"),
        (r#""tools":[{"type":"connector","connector_id":"x"}]"#, "tools[0].type"),
        (r#""tools":[{"type":null}]"#, "tools[0].type"),
        (r#""tools":[{"type":["function"]}]"#, "tools[0].type"),
        (r#""tools":[{"type":"function","type":"web_search"}]"#, "tools[0].type"),
        (r#""tools":[{"type":"web_search","type":"function"}]"#, "tools[0].type"),
        (r#""tools":[{"TYPE":"web_search"}]"#, "tools[0].TYPE"),
        (r#""tools":[{"t\u0079pe":"web_search"}]"#, "tools[0].type"),
        (r#""tools":[],"tools":[{"type":"web_search"}]"#, "tools"),
        (r#""Tools":[{"type":"web_search"}]"#, "Tools"),
        (r#""TOOLS":[]"#, "TOOLS"),
        (r#""tool\u017f":[{"type":"web_search"}]"#, "tool\u{17f}"),
        (r#""Max_Tokens":100000"#, "Max_Tokens"),
        (r#""max_to\u212aens":100000"#, "max_to\u{212a}ens"),
        (r#""STREAM":true"#, "STREAM"),
        (r#""N":16"#, "N"),
        (r#""Model":"other""#, "Model"),
        (r#""messages":[{"role":"user"}]"#, "messages"),
    ] {
        let (status, error) =
            refused(&format!(r#"{{"model":"svc/qwen3-32b","messages":[{{"role":"user"}}],{fields}}}"#));
        assert_eq!((status.as_u16(), error["code"].as_str()), (400, Some("invalid_value")), "{fields}: {error}");
        assert_eq!(error["param"], param, "{fields}");
    }
    for (message, param) in [
        (
            r#""content":[{"type":"document_url","document_url":"https://example.com/1000-pages.pdf"}]"#,
            "content[0].type",
        ),
        (r#""content":[{"type":"text","text":"hi"},{"type":"file","file_id":"x"}]"#, "content[1].type"),
        (r#""content":[{"type":"input_audio","input_audio":{"data":"x"}}]"#, "content[0].type"),
        (r#""content":[{"type":"reference","reference_ids":[1]}]"#, "content[0].type"),
        (r#""content":[{"type":"document\u005furl","document_url":"x"}]"#, "content[0].type"),
        (r#""content":[{"document_url":"x"}]"#, "content[0].type"),
        (r#""content":[{"type":"text","type":"file"}]"#, "content[0].type"),
        (r#""content":[{"Type":"file","type":"text"}]"#, "content[0].Type"),
        (r#""content":"hi","content":[{"type":"file"}]"#, "content"),
        (r#""Content":[{"type":"file"}]"#, "Content"),
        (r#""ROLE":"system""#, "ROLE"),
    ] {
        let (status, error) =
            refused(&format!(r#"{{"model":"svc/qwen3-32b","messages":[{{"role":"user",{message}}}]}}"#));
        assert_eq!((status.as_u16(), error["code"].as_str()), (400, Some("invalid_value")), "{message}: {error}");
        assert_eq!(error["param"], format!("messages[0].{param}"), "{message}");
    }
    for message in [r#""content":7"#, r#""content":{"type":"text"}"#, r#""content":["hi"]"#] {
        let (status, error) =
            refused(&format!(r#"{{"model":"svc/qwen3-32b","messages":[{{"role":"user",{message}}}]}}"#));
        assert_eq!((status.as_u16(), error["code"].as_str()), (400, Some("invalid_type")), "{message}");
    }
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
        assert_eq!(prompt, bytes.div_ceil(3) + 2 * limits::IMAGE_TOKENS, "{part}");
    }
    let (prompt, bytes) = prompt(r#"{"type":"text","text":"\"image_url\" \"image_url\""}"#);
    assert_eq!(prompt, bytes.div_ceil(3), "only said");
}

#[test]
fn nesting_is_bounded() {
    let body = format!(r#"{{"model":"svc/qwen3-32b","messages":{}{}}}"#, "[".repeat(5_000), "]".repeat(5_000));
    assert_eq!(refused(&body).1["code"], "invalid_json");
}
