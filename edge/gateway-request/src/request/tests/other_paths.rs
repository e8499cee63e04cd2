//! Requests for embeddings and legacy completions.

use config::gateway::ModelEntry;
use serde_json::Value;

use super::super::embeddings::EmbeddingsFormat;
use super::*;

/// Returns models of the shipped providers, one for each path.
fn models() -> ServedModels {
    let mut config = Gateway::default();
    for (id, provider, route) in [
        ("svc/mistral-embed", "mistral", ModelRoute::Embeddings),
        ("svc/codestral", "mistral", ModelRoute::Completions),
        ("svc/bge", "ovhcloud", ModelRoute::Embeddings),
        ("svc/qwen-fim", "ovhcloud", ModelRoute::Completions),
    ] {
        let model = ModelEntry {
            routes: vec![route],
            upstream: "upstream".to_owned(),
            output_cents: 0,
            context: Some(8_192),
            ..config.models["svc/mistral-small"].clone()
        };
        config.models.insert(id.to_owned(), ModelEntry { provider: provider.to_owned(), ..model });
    }
    let models = ModelCatalog::from_config(&config, |_| Some("key".to_owned())).unwrap();
    ServedModels::new(&models, &config, None).unwrap()
}

type Validated<F = ()> = Result<CompletionRequest<F>, ApiError>;

fn embeddings(model: &str, fields: &str) -> Validated<EmbeddingsFormat> {
    validate_embeddings(
        Bytes::from(format!(r#"{{"model":"svc/{model}"{fields}}}"#)).into(),
        &models(),
        &RequestLimits::default(),
    )
}

fn text(model: &str, fields: &str) -> Validated {
    validate_text(
        Bytes::from(format!(r#"{{"model":"svc/{model}"{fields}}}"#)).into(),
        &models(),
        &RequestLimits::default(),
    )
}

/// Returns what follows the model in the provider's body.
fn sent<F>(request: Validated<F>) -> String {
    let request = request.unwrap_or_else(|error| panic!("{error:?}"));
    let body = String::from_utf8(request.body.joined().to_vec()).unwrap();
    body.strip_prefix(r#"{"model":"upstream""#)
        .unwrap_or_else(|| panic!("{body}"))
        .strip_suffix('}')
        .unwrap()
        .to_owned()
}

fn refusal<F>(request: Validated<F>) -> (String, String) {
    let error = request.err().expect("it was accepted").to_json();
    let error: Value = serde_json::from_str(&error).unwrap();
    let text = |name: &str| error["error"][name].as_str().unwrap_or_default().to_owned();
    (text("code"), text("param"))
}

#[test]
fn embeddings_pass_in_the_dialect_of_their_provider() {
    let fields = r#","input": ["a" , [1]],"x":1"#.replace("[1]", "\"b\"");
    assert_eq!(sent(embeddings("bge", &fields)), fields);
    let common = r#","encoding_format":"base64","dimensions":256,"user":"u","metadata":{}"#;
    let input = r#","input":"a""#;
    assert_eq!(
        sent(embeddings("bge", &format!("{input}{common}"))),
        format!(r#"{input},"encoding_format":"base64","dimensions":256,"user":"u""#)
    );
    let mistral = embeddings("mistral-embed", &format!("{input}{common}")).unwrap();
    assert!(mistral.format.as_base64);
    assert_eq!(sent(Ok(mistral)), format!(r#"{input},"output_dimension":256"#));
    // Chat fields without a meaning here are left out.
    let others = r#","stream":false,"n":1,"max_tokens":5,"store":true"#;
    assert_eq!(sent(embeddings("bge", &format!("{input}{others}"))), input);
}

#[test]
fn embeddings_reserve_what_they_may_read_and_nothing_to_write() {
    let usage = |fields: &str| {
        let request = embeddings("bge", fields).unwrap();
        (request.max_usage.prompt, request.max_usage.completion, request.time_limit())
    };
    let (one, completion, longest) = usage(r#","input":"a""#);
    assert!(one > 1 && one < 200 && completion == 0 && longest == limits::EXCHANGE, "{one}");
    let long = format!(r#","input":"{}""#, "x".repeat(10_000));
    assert_eq!(usage(&long).0, 8_192 + limits::INPUT_TOKENS, "no more than the model reads");
    let (many, ..) = usage(&format!(r#","input":[{}"b"]"#, r#""a","#.repeat(999)));
    // One token for each, and those added around it.
    assert!((3_000..8_500).contains(&many), "{many}");
    let (tokens, ..) = usage(&format!(r#","input":[{}1]"#, "1,".repeat(999)));
    assert!((1_000..3_000).contains(&tokens), "{tokens}");
}

#[test]
fn what_is_no_request_for_embeddings_is_refused_by_name() {
    for (fields, code, param) in [
        ("", "missing_required_parameter", "input"),
        (r#","input":7"#, "invalid_type", "input"),
        (r#","input":"","#, "invalid_json", ""),
        (r#","input":"""#, "invalid_value", "input"),
        (r#","input":"a","input":"b""#, "invalid_value", "input"),
        (r#","input":"a","encoding_format":"md5""#, "invalid_value", "encoding_format"),
        (r#","input":"a","dimensions":0"#, "invalid_value", "dimensions"),
        (r#","input":"a","stream":true"#, "invalid_value", "stream"),
        (r#","input":"a","messages":[]"#, "invalid_value", "messages"),
        (r#","input":"a","INPUT":"b""#, "invalid_value", "INPUT"),
        (r#","input":"a","models":["x"]"#, "invalid_value", "models"),
        (r#","input":[{"type":"text","text":"a"}]"#, "invalid_type", "input"),
    ] {
        assert_eq!(refusal(embeddings("bge", fields)), (code.to_owned(), param.to_owned()), "{fields}");
    }
    let many = format!(r#","input":[{}"b"]"#, r#""a","#.repeat(2_048));
    assert_eq!(refusal(embeddings("bge", &many)).1, "input");
    let (code, param) = refusal(embeddings("mistral-embed", r#","input":"a","truncate":true"#));
    assert_eq!((&*code, &*param), ("invalid_value", "truncate"));
}

#[test]
fn a_model_is_asked_at_its_own_endpoints_alone() {
    let asked = Bytes::from_static(br#"{"model":"svc/bge","messages":[{"role":"user"}]}"#);
    for request in [
        embeddings("mistral-small", r#","input":"a""#).map(|request| request.with_format(())),
        text("mistral-small", r#","prompt":"a""#),
        text("bge", r#","prompt":"a""#),
        validate(&asked, &models(), &RequestLimits::default()),
    ] {
        assert_eq!(refusal(request), ("invalid_value".to_owned(), "model".to_owned()));
    }
    let error = embeddings("mistral-small", r#","input":"a""#).err().unwrap();
    assert!(error.message().contains("/v1/chat/completions or /v1/responses or /v1/messages"), "{}", error.message());
    assert_eq!(refusal(embeddings("none", r#","input":"a""#)).0, "model_not_found");
}

#[test]
fn code_is_filled_in_the_dialect_of_its_provider() {
    let fields = r#","prompt":"a","suffix":"b","temperature":0,"stop":["\n"],"max_tokens":9"#;
    assert_eq!(sent(text("qwen-fim", fields)), fields);
    assert_eq!(sent(text("codestral", fields)), fields);
    // The same text, in the only form that some providers accept.
    assert_eq!(sent(text("codestral", r#","prompt":["a"],"max_tokens":9"#)), r#","prompt":"a","max_tokens":9"#);
    // The documented default, since no number is given.
    assert_eq!(sent(text("qwen-fim", r#","prompt":[1,2]"#)), r#","prompt":[1,2],"max_tokens":16"#);
    assert_eq!(
        sent(text("codestral", r#","prompt":"a","seed":1,"user":"u","stream":true,"n":1,"suffix":"","max_tokens":9"#)),
        r#","prompt":"a","random_seed":1,"stream":true,"max_tokens":9"#
    );
    assert!(
        sent(text("qwen-fim", r#","prompt":"a","stream":true"#))
            .ends_with(r#""stream":true,"max_tokens":16,"stream_options":{"include_usage":true}"#)
    );
    assert_eq!(
        sent(text("qwen-fim", r#","prompt":"a","echo":false,"best_of":1,"logprobs":null,"max_tokens":1"#)),
        r#","prompt":"a","logprobs":null,"max_tokens":1"#
    );
}

#[test]
fn every_candidate_of_every_prompt_is_reserved() {
    let mut config = Gateway::default();
    let model = config.models.get_mut("svc/gpt-oss-20b").unwrap();
    model.routes = vec![ModelRoute::Completions];
    config.providers.get_mut("ovhcloud").unwrap().quirks = ProviderQuirks::default();
    let models = ModelCatalog::from_config(&config, |_| Some("key".to_owned())).unwrap();
    let models = ServedModels::new(&models, &config, None).unwrap();
    let of = |fields: &str| {
        let body = format!(r#"{{"model":"svc/gpt-oss-20b","max_tokens":10,{fields}}}"#);
        validate_text(Bytes::from(body).into(), &models, &RequestLimits::default())
    };
    let reserved = |fields: &str| {
        let request = of(fields).unwrap();
        (request.max_usage.completion, request.expected.choices)
    };
    assert_eq!(reserved(r#""prompt":"a""#), (10, 1));
    assert_eq!(reserved(r#""prompt":["a","b","c"],"n":2"#), (60, 6));
    assert_eq!(reserved(r#""prompt":["a","b"],"n":2,"best_of":4"#), (80, 4));
    let sent = of(r#""prompt":"a","best_of":4"#).unwrap().body.joined();
    assert!(String::from_utf8(sent.to_vec()).unwrap().contains(r#""best_of":4"#));
    for (fields, param) in [
        (r#""prompt":"a","n":3,"best_of":2"#.to_owned(), "best_of"),
        (r#""prompt":"a","best_of":2,"stream":true"#.to_owned(), "best_of"),
        (r#""prompt":"a","best_of":17"#.to_owned(), "best_of"),
        (r#""prompt":"a","n":17"#.to_owned(), "n"),
        (format!(r#""prompt":[{}"a"],"n":2"#, r#""a","#.repeat(64)), "n"),
        (format!(r#""prompt":[{}"a"]"#, r#""a","#.repeat(128)), "prompt"),
        (r#""prompt":"a","echo":true"#.to_owned(), "echo"),
        (r#""prompt":"a","suffix":7"#.to_owned(), "suffix"),
        (r#""prompt":"a","tools":[]"#.to_owned(), "tools"),
        (r#""suffix":"a""#.to_owned(), "prompt"),
        (r#""prompt":"a","max_tokens":4097"#.to_owned(), "max_tokens"),
    ] {
        assert_eq!(refusal(of(&fields)).1, param, "{fields}");
    }
    // A provider that ignores it would report less usage than was requested.
    assert_eq!(refusal(text("qwen-fim", r#","prompt":"a","best_of":2"#)).1, "best_of");
    for field in ["best_of", "logprobs", "n"] {
        let refused = text("codestral", &format!(r#","prompt":"a","{field}":2"#));
        if field != "n" {
            assert_eq!(refusal(refused).1, field);
        }
    }
}

#[test]
fn an_answer_may_take_as_long_as_a_slow_model_writes() {
    let longest = |tokens: u64, choices: u64| {
        let body = format!(
            r#"{{"model":"svc/mistral-large","messages":[{{"role":"user"}}],"max_tokens":{tokens},"n":{choices}}}"#
        );
        let asks = RequestLimits::default().with_tokens(1_000_000);
        validate(&Bytes::from(body), &models(), &asks).unwrap().time_limit()
    };
    assert_eq!(longest(1, 1), limits::EXCHANGE);
    assert_eq!(longest(4_096, 4), limits::EXCHANGE);
    assert_eq!(longest(24_000, 3), Duration::from_mins(20));
    assert_eq!(longest(131_072, 1), limits::LONGEST_EXCHANGE);
}
