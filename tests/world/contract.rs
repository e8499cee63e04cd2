//! Checks the API's responses against `openapi.json`: each response that a test receives must be described, with its
//! status, error code, media type and headers.

use std::sync::LazyLock;

use reqwest::Method;
use serde_json::Value;

use super::answer::Answer;

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| serde_json::from_str(include_str!("../../openapi.json")).unwrap());

/// The body of every error. The examples beside it are the codes that a response may have.
const ERROR: &str = "#/components/schemas/Error";

/// Headers of the connection and the body, and those that the edge adds to every response.
const OF_TRANSPORT: [&str; 7] = [
    "connection",
    "content-length",
    "content-type",
    "date",
    "server",
    "strict-transport-security",
    "transfer-encoding",
];

/// Fails unless `answer`, the API's response to `method path`, is described.
#[track_caller]
pub fn check(method: &Method, path: &str, answer: &Answer) {
    let what = format!("{}: {} {} is not as openapi.json describes it", answer.what, answer.status, answer.text());
    let path = path.split(['?', '#']).next().unwrap();
    let described = described(method, path, answer.status.as_str());
    let described = described.unwrap_or_else(|| panic!("{what}: the status is not described"));

    let is_described = |name: &str| entries(&described["headers"]).any(|(known, _)| known.eq_ignore_ascii_case(name));
    for name in answer.headers.keys().map(reqwest::header::HeaderName::as_str) {
        assert!(OF_TRANSPORT.contains(&name) || is_described(name), "{what}: the header {name} is not described");
    }
    for (name, header) in entries(&described["headers"]) {
        let is_required = resolved(header)["required"] == true;
        assert!(!is_required || answer.headers.contains_key(name), "{what}: the header {name} is missing");
    }
    if answer.body.is_empty() {
        return;
    }
    let media_type = answer.header("content-type").split(';').next().unwrap();
    let content = &described["content"][media_type];
    assert!(content.is_object(), "{what}: the type {media_type} is not described");
    if content["schema"]["$ref"] == ERROR {
        let body: Value = serde_json::from_slice(&answer.body).unwrap_or_else(|e| panic!("{what}: {e}"));
        let code = body["error"]["code"].as_str().unwrap_or_default();
        let is_described = entries(&content["examples"]).any(|(known, _)| known == code);
        assert!(is_described, "{what}: the code is not one of its examples");
    }
}

/// Returns the description of this status for the operation, or for any path if there is no such operation.
fn described(method: &Method, path: &str, status: &str) -> Option<&'static Value> {
    // Prefer the most literal of the matching paths.
    let fitting = entries(&DOCUMENT["paths"]).filter(|(template, _)| fits(template, path));
    let item = fitting.min_by_key(|(template, _)| template.matches('{').count());
    let response = match item {
        None => answer_of_no_operation(status, "404", "PathNotFound"),
        Some((_, item)) => {
            let method = if method == Method::HEAD { "get" } else { &method.as_str().to_ascii_lowercase() };
            match item.get(method) {
                None => answer_of_no_operation(status, "405", "MethodNotAllowed"),
                Some(operation) => operation["responses"].get(status),
            }
        }
    };
    response.map(resolved)
}

fn answer_of_no_operation(status: &str, wanted: &str, name: &str) -> Option<&'static Value> {
    let name = if status == "502" { "BadGateway" } else { name };
    (status == wanted || status == "502").then(|| &DOCUMENT["components"]["responses"][name])
}

fn fits(template: &str, path: &str) -> bool {
    let (template, path) = (template.split('/'), path.split('/'));
    template.clone().count() == path.clone().count()
        && template.zip(path).all(|(part, given)| part == given || part.starts_with('{') && !given.is_empty())
}

fn resolved(value: &'static Value) -> &'static Value {
    let target = value["$ref"].as_str().map(|reference| reference.trim_start_matches('#'));
    target.map_or(value, |pointer| DOCUMENT.pointer(pointer).unwrap_or_else(|| panic!("{pointer} leads nowhere")))
}

fn entries(value: &'static Value) -> impl Iterator<Item = (&'static str, &'static Value)> {
    value.as_object().into_iter().flatten().map(|(name, value)| (&**name, value))
}

#[cfg(test)]
mod tests {
    use reqwest::{StatusCode, Version, header::HeaderMap};
    use serde_json::json;

    use super::*;

    fn answer(status: u16, code: &str) -> Answer {
        let mut headers = HeaderMap::new();
        headers.insert("content-type", "application/json".parse().unwrap());
        headers.insert("x-request-id", "req_0123456789".parse().unwrap());
        Answer {
            what: "a request".to_owned(),
            status: StatusCode::from_u16(status).unwrap(),
            version: Version::HTTP_11,
            headers,
            body: json!({ "error": { "code": code, "message": "" } }).to_string().into(),
        }
    }

    #[test]
    fn described_answers_pass() {
        check(&Method::GET, "/projects/engine?x=y", &answer(404, "not_found"));
        check(&Method::POST, "/projects", &answer(409, "name_taken"));
        check(&Method::GET, "/nothing", &answer(404, "not_found"));
    }

    #[test]
    #[should_panic(expected = "the code is not one of")]
    fn another_code_does_not() {
        check(&Method::POST, "/projects", &answer(409, "domain_taken"));
    }

    #[test]
    #[should_panic(expected = "the status is not described")]
    fn another_status_does_not() {
        check(&Method::GET, "/projects/engine", &answer(409, "name_taken"));
    }

    #[test]
    #[should_panic(expected = "the header x-secret is not described")]
    fn another_header_does_not() {
        let mut answer = answer(404, "not_found");
        answer.headers.insert("x-secret", "1".parse().unwrap());
        check(&Method::GET, "/projects/engine", &answer);
    }

    #[test]
    #[should_panic(expected = "the header X-Request-Id is missing")]
    fn a_missing_header_does_not() {
        let mut answer = answer(404, "not_found");
        answer.headers.clear();
        check(&Method::GET, "/projects/engine", &answer);
    }
}
