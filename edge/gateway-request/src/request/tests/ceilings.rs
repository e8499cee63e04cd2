//! The token ceiling reaches a provider under the names in its entry.

use std::collections::BTreeMap;

use config::gateway::TokenLimitField;

use super::*;

#[test]
fn the_ceiling_is_sent_under_the_names_that_the_provider_knows() {
    let rename = |theirs: &str| -> BTreeMap<String, String> { [("max_tokens".to_owned(), theirs.to_owned())].into() };
    let older = ProviderQuirks::default();
    let newer = ProviderQuirks { ceiling: TokenLimitField::MaxCompletionTokens, ..ProviderQuirks::default() };
    let both = ProviderQuirks { ceiling: TokenLimitField::Both, ..ProviderQuirks::default() };
    let renamed = ProviderQuirks { rename: rename("limit"), ..ProviderQuirks::default() };
    let one_of_both = ProviderQuirks { drop: vec!["max_completion_tokens".into()], ..both.clone() };
    let both_as_one = ProviderQuirks { rename: rename("max_completion_tokens"), ..both.clone() };
    // The sent and the reserved ceiling.
    for (quirks, fields, expected, reserved) in [
        (&older, r#""max_completion_tokens":5,"seed":1"#, r#""max_tokens":5,"seed":1"#, 5),
        (&older, r#""max_tokens":null,"max_completion_tokens":5"#, r#""max_tokens":5"#, 5),
        (&older, r#""max_tokens":6,"max_completion_tokens":5"#, r#""max_tokens":6"#, 6),
        (&older, r#""max_completion_tokens":5,"max_tokens" : 6"#, r#""max_tokens" : 6"#, 6),
        (&newer, r#""max_tokens":6"#, r#""max_completion_tokens":6"#, 6),
        (&newer, r#""max_tokens":6,"max_completion_tokens":5"#, r#""max_completion_tokens":5"#, 5),
        (&newer, r#""seed":1"#, r#""seed":1,"max_completion_tokens":4096"#, 4096),
        (&both, r#""seed":1"#, r#""seed":1,"max_tokens":4096,"max_completion_tokens":4096"#, 4096),
        (&both, r#""max_tokens":6"#, r#""max_tokens":6,"max_completion_tokens":6"#, 6),
        (&both, r#""max_completion_tokens":5"#, r#""max_tokens":5,"max_completion_tokens":5"#, 5),
        (&both, r#""max_tokens":7,"max_completion_tokens":9"#, r#""max_tokens":7,"max_completion_tokens":9"#, 9),
        (&one_of_both, r#""max_completion_tokens":5"#, r#""max_tokens":5"#, 5),
        (&both_as_one, r#""max_completion_tokens":5"#, r#""max_completion_tokens":5"#, 5),
        (&both_as_one, r#""seed":1"#, r#""seed":1,"max_completion_tokens":4096"#, 4096),
        // A client that uses the provider's own name changes nothing.
        (&renamed, r#""limit":100000"#, r#""limit":4096"#, 4096),
        (&renamed, r#""limit":100000,"max_completion_tokens":5"#, r#""limit":5"#, 5),
    ] {
        let body = format!(r#"{{"model":"svc/qwen3-32b","messages":[{{"role":"user"}}],{fields}}}"#);
        let request = validate(&body.into(), &models(quirks), &RequestLimits::default()).unwrap();
        let sent = String::from_utf8(request.body.joined().to_vec()).unwrap();
        let sent = sent.split_once("}],").unwrap().1.strip_suffix('}').unwrap();
        assert_eq!((sent, request.max_usage.completion), (expected, reserved), "{fields} for {quirks:?}");
    }
}

#[test]
fn every_shipped_provider_gets_a_ceiling_that_it_knows() {
    let config = Gateway::default();
    let models = ModelCatalog::from_config(&config, |_| Some("key".to_owned())).unwrap();
    let models = ServedModels::new(&models, &config, None).unwrap();
    for (model, names) in [
        ("svc/mistral-small", &["max_tokens"][..]),
        ("svc/llama-3.3-70b-instruct", &["max_tokens", "max_completion_tokens"]),
        ("svc/gpt-oss-20b", &["max_tokens", "max_completion_tokens"]),
    ] {
        for (field, value) in [(r#","max_tokens":5"#, 5), (r#","max_completion_tokens":5"#, 5), ("", 4096)] {
            let body = format!(r#"{{"model":"{model}","messages":[{{"role":"user"}}]{field}}}"#);
            let sent = validate(&body.into(), &models, &RequestLimits::default()).unwrap().body.joined();
            let sent: serde_json::Value = serde_json::from_slice(&sent).unwrap();
            for name in ["max_tokens", "max_completion_tokens"] {
                let expected = names.contains(&name).then_some(value);
                assert_eq!(sent.get(name).and_then(serde_json::Value::as_u64), expected, "{model}: {sent}");
            }
        }
    }
}
