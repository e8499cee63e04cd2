use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use config::models::MAX_TOKENS;
use domain::gateway::TokenLimit;
use gateway_request::{
    endpoints::{CHAT_COMPLETIONS, COMPLETIONS, COUNT_TOKENS, EMBEDDINGS, MESSAGES, MODELS, OPENAPI, RESPONSES},
    request,
};
use http::{HeaderMap, Method};
use http_types::X_REQUEST_ID;
use meter::{RateLimit, RateLimits};
use openai::error_code::ErrorCode;
use serde_json::Value;

use super::*;
use crate::{cors, rate_headers, route::GatewayRoute};

fn document() -> Value {
    serde_json::from_str(DOCUMENT).unwrap()
}

fn resolve<'d>(document: &'d Value, value: &'d Value) -> &'d Value {
    match value["$ref"].as_str() {
        Some(reference) => {
            let target = document.pointer(reference.strip_prefix('#').unwrap());
            target.unwrap_or_else(|| panic!("{reference} leads nowhere"))
        }
        None => value,
    }
}

fn strings(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
}

fn codes(response: &Value) -> Vec<&str> {
    let schema = response.pointer("/content/application~1json/schema/allOf/1/properties/error/properties/code/enum");
    schema.map(strings).unwrap_or_default()
}

fn operations(document: &Value) -> impl Iterator<Item = (&str, Method, &Value)> {
    document["paths"].as_object().unwrap().iter().flat_map(|(path, item)| {
        let operations = item.as_object().unwrap().iter().filter(|(name, _)| *name != "parameters");
        operations.map(move |(method, operation)| (path.as_str(), method.to_uppercase().parse().unwrap(), operation))
    })
}

#[test]
fn every_reference_leads_somewhere() {
    fn check(document: &Value, value: &Value) {
        match value {
            Value::Object(fields) => {
                resolve(document, value);
                fields.values().for_each(|field| check(document, field));
            }
            Value::Array(items) => items.iter().for_each(|item| check(document, item)),
            _ => {}
        }
    }
    let document = document();
    assert_eq!(document["openapi"], "3.1.0");
    check(&document, &document);
}

#[test]
fn the_paths_and_methods_are_those_of_the_router() {
    let document = document();
    let mut documented: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (path, method, _) in operations(&document) {
        documented.entry(path).or_default().insert(method.to_string());
    }
    let model_path = format!("{MODELS}/{{model}}");
    let routed =
        [CHAT_COMPLETIONS, COMPLETIONS, EMBEDDINGS, RESPONSES, MESSAGES, COUNT_TOKENS, MODELS, &model_path, OPENAPI]
            .map(|path| {
                let methods = GatewayRoute::find(path).unwrap().methods();
                (path, methods.split(", ").map(str::to_owned).collect::<BTreeSet<String>>())
            });
    assert_eq!(documented, BTreeMap::from(routed));
}

#[test]
fn every_error_code_is_described_with_its_status_and_type() {
    let document = document();
    let error = &document["components"]["schemas"]["Error"]["properties"];
    let all: Vec<_> = ErrorCode::ALL.iter().map(|code| code.as_str()).collect();
    assert_eq!(strings(&error["code"]["enum"]), all);
    let kinds: BTreeSet<_> = ErrorCode::ALL.iter().map(|code| code.kind()).collect();
    assert_eq!(strings(&error["type"]["enum"]).into_iter().collect::<BTreeSet<_>>(), kinds);

    let code_of = |text: &str| *ErrorCode::ALL.iter().find(|code| code.as_str() == text).unwrap();
    let mut described = BTreeSet::new();
    let mut check = |status: &str, response: &Value| {
        for code in codes(response) {
            assert_eq!(code_of(code).status().as_str(), status, "{code}");
            described.insert(code_of(code).as_str());
        }
    };
    for (_, _, operation) in operations(&document) {
        for (status, response) in operation["responses"].as_object().unwrap() {
            check(status, resolve(&document, response));
        }
    }
    // The shared responses that belong to no operation.
    let responses = &document["components"]["responses"];
    check("400", &responses["MalformedRequest"]);
    check("421", &responses["MisdirectedRequest"]);
    check("431", &responses["HeadersTooLarge"]);
    check("404", &responses["UnknownUrl"]);
    check("405", &responses["MethodNotAllowed"]);
    assert_eq!(described, all.into_iter().collect());
}

#[test]
fn a_completion_can_fail_with_every_code_but_those_of_faults_and_wrong_addresses() {
    let document = document();
    let described = [CHAT_COMPLETIONS, COMPLETIONS, EMBEDDINGS, RESPONSES].map(|path| {
        let operation = &document["paths"][path]["post"]["responses"];
        let responses = operation.as_object().unwrap().values();
        responses.flat_map(|response| codes(resolve(&document, response))).collect::<BTreeSet<_>>()
    });
    let is_of_completion = |code: &&ErrorCode| {
        let (fault, address) = (
            matches!(code, ErrorCode::MalformedRequest | ErrorCode::MisdirectedRequest | ErrorCode::HeadersTooLarge),
            matches!(code, ErrorCode::UnknownUrl | ErrorCode::MethodNotAllowed),
        );
        !fault && !address
    };
    let expected = ErrorCode::ALL.iter().filter(is_of_completion).map(|code| code.as_str()).collect();
    let expected: BTreeSet<_> = expected;
    assert!(described.iter().all(|described| *described == expected), "{described:?}");
}

#[test]
fn the_limits_are_those_of_the_code() {
    let document = document();
    for path in [CHAT_COMPLETIONS, COMPLETIONS, EMBEDDINGS, RESPONSES] {
        let body = &document["paths"][path]["post"]["requestBody"];
        assert_eq!(body["x-max-bytes"], limits::SMALL_BODY_BYTES);
        assert!(body["description"].as_str().unwrap().contains(&format!("{} KB", limits::SMALL_BODY_BYTES / 1024)));
    }
    let most = u64::from(TokenLimit::MOST.unsigned_abs());
    let field = &document["components"]["schemas"]["ResponseRequest"]["properties"]["max_output_tokens"];
    assert_eq!((&field["minimum"], &field["maximum"]), (&1.into(), &most.into()));
    assert!(field["description"].as_str().unwrap().contains(&MAX_TOKENS.to_string()));
    let fields = &document["components"]["schemas"]["ChatCompletionRequest"]["properties"];
    for (name, maximum) in [("max_tokens", most), ("max_completion_tokens", most), ("n", limits::CHOICES)] {
        assert_eq!((&fields[name]["minimum"], &fields[name]["maximum"]), (&1.into(), &maximum.into()), "{name}");
    }
    assert!(fields["max_tokens"]["description"].as_str().unwrap().contains(&MAX_TOKENS.to_string()));
    let schemas = &document["components"]["schemas"];
    let text = &schemas["CompletionRequest"]["properties"];
    for (name, maximum) in [("max_tokens", most), ("n", limits::CHOICES), ("best_of", limits::CHOICES)] {
        assert_eq!((&text[name]["minimum"], &text[name]["maximum"]), (&1.into(), &maximum.into()), "{name}");
    }
    assert!(text["max_tokens"]["description"].as_str().unwrap().ends_with(&format!("{}.", limits::TEXT_TOKENS)));
    assert_eq!(text["prompt"]["oneOf"][1]["maxItems"], limits::TEXT_CHOICES);
    let embeddings = &schemas["EmbeddingRequest"]["properties"];
    assert_eq!(embeddings["input"]["oneOf"][1]["maxItems"], limits::EMBEDDING_INPUTS);
    assert_eq!(embeddings["dimensions"]["maximum"], limits::EMBEDDING_DIMENSIONS);
    let governed = request::GOVERNED.map(|name| std::str::from_utf8(name).unwrap());
    let listed: BTreeSet<_> = fields.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(listed, governed.into_iter().chain(["messages"]).collect());
}

#[test]
fn messages_are_described_with_their_limits() {
    let document = document();
    for path in [MESSAGES, COUNT_TOKENS] {
        let body = &document["paths"][path]["post"]["requestBody"];
        assert_eq!(body["x-max-bytes"], limits::SMALL_BODY_BYTES);
        assert!(body["description"].as_str().unwrap().contains(&format!("{} KB", limits::SMALL_BODY_BYTES / 1024)));
    }
    let fields = &document["components"]["schemas"]["MessageRequest"]["allOf"][1]["properties"];
    assert_eq!(fields["max_tokens"]["maximum"], u64::from(TokenLimit::MOST.unsigned_abs()));
    let statuses = |path: &str| {
        let responses = document["paths"][path]["post"]["responses"].as_object().unwrap();
        responses.keys().cloned().collect::<BTreeSet<_>>()
    };
    assert_eq!(statuses(MESSAGES), statuses(CHAT_COMPLETIONS));
}

#[test]
fn the_headers_are_those_of_the_code() {
    let document = document();
    let limit = RateLimit { limit: 1, remaining: 1, reset: Duration::ZERO };
    let mut sent = HeaderMap::new();
    rate_headers::insert(&mut sent, &RateLimits { requests: limit, tokens: limit });
    let described = &document["components"]["headers"];
    let rate: Vec<_> = sent.keys().map(http::HeaderName::as_str).collect();
    for name in &rate {
        assert!(described[name].is_object(), "{name}");
        for response in ["BadRequest", "TooManyRequests", "BadGateway", "GatewayTimeout"] {
            assert!(document["components"]["responses"][response]["headers"][name].is_object(), "{response}: {name}");
        }
        assert!(cors::EXPOSED_HEADERS.to_str().unwrap().contains(name), "{name}");
    }
    let others = [
        "x-request-id",
        "x-svc-warning",
        "x-svc-provider",
        "x-svc-completion",
        "x-svc-cost",
        "retry-after",
        "retry-after-ms",
        "x-should-retry",
        "allow",
        "www-authenticate",
        "idempotency-replayed",
    ];
    // A page that cannot read one of them waits too long, or retries something that is charged again.
    for name in others {
        assert!(cors::EXPOSED_HEADERS.to_str().unwrap().split(", ").any(|exposed| exposed == name), "{name}");
    }
    let names: BTreeSet<_> = described.as_object().unwrap().keys().map(|name| name.to_lowercase()).collect();
    assert_eq!(names, rate.into_iter().chain(others).map(str::to_owned).collect());
    for (path, method, operation) in operations(&document) {
        for (status, response) in operation["responses"].as_object().unwrap() {
            let headers = resolve(&document, response)["headers"].as_object().unwrap();
            let has_id = headers.keys().any(|name| name.eq_ignore_ascii_case(X_REQUEST_ID.as_str()));
            assert!(has_id, "{method} {path}: {status}");
        }
    }
}
