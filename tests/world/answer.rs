//! A response, and assertions about it.

use bytes::Bytes;
use reqwest::{StatusCode, Version, header::HeaderMap};
use serde_json::Value;

/// A response with its whole body. `what` names the request in messages.
#[derive(Debug, Clone)]
pub struct Answer {
    pub what: String,
    pub status: StatusCode,
    pub version: Version,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    pub async fn read(what: String, response: reqwest::Response) -> Self {
        let (status, version, headers) = (response.status(), response.version(), response.headers().clone());
        let body = response.bytes().await.unwrap_or_else(|e| panic!("{what}: the answer broke off: {e:?}"));
        Self { what, status, version, headers, body }
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Returns the value of a header, and panics if it is missing.
    #[track_caller]
    pub fn header(&self, name: &str) -> &str {
        self.find_header(name).unwrap_or_else(|| panic!("{}: no {name} in {:?}", self.what, self.headers))
    }

    pub fn find_header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    #[track_caller]
    pub fn assert_status(self, status: u16) -> Self {
        assert_eq!(self.status.as_u16(), status, "{}: {}", self.what, self.text());
        self
    }

    /// Asserts the status and that the body is JSON, and returns the body.
    #[track_caller]
    pub fn json(self, status: u16) -> Value {
        let answer = self.assert_status(status);
        assert!(answer.header("content-type").starts_with("application/json"), "{}", answer.what);
        answer.assert_request_id();
        serde_json::from_slice(&answer.body).unwrap_or_else(|e| panic!("{}: {e}: {}", answer.what, answer.text()))
    }

    /// Asserts a 200 with a JSON body, and returns the body.
    #[track_caller]
    pub fn ok(self) -> Value {
        self.json(200)
    }

    /// Asserts a 201 with a JSON body, and returns the body.
    #[track_caller]
    pub fn created(self) -> Value {
        self.json(201)
    }

    /// Asserts the status and an error envelope with this code and nothing else, and returns the message.
    #[track_caller]
    pub fn assert_error(self, status: u16, code: &str) -> String {
        let what = self.what.clone();
        let body = self.json(status);
        assert_keys(&body, "error");
        assert_keys(&body["error"], "code message");
        assert_eq!(body["error"]["code"], code, "{what}: {body}");
        let message = body["error"]["message"].as_str().unwrap().to_owned();
        assert!(!message.is_empty(), "{what}: an error without a sentence");
        message
    }

    #[track_caller]
    pub fn assert_body(self, status: u16, body: impl AsRef<[u8]>) -> Self {
        let answer = self.assert_status(status);
        let body = body.as_ref();
        assert!(answer.body == body, "{}: {} instead of {}", answer.what, answer.text(), String::from_utf8_lossy(body));
        answer
    }

    #[track_caller]
    pub fn assert_redirect(self, status: u16, location: &str) -> Self {
        let answer = self.assert_status(status);
        assert_eq!(answer.header("location"), location, "{}", answer.what);
        answer
    }

    #[track_caller]
    fn assert_request_id(&self) {
        assert!(!self.header("x-request-id").is_empty());
    }
}

/// Asserts that of several concurrent creations one succeeded with 201, and the others report a taken name.
#[track_caller]
pub fn assert_one_took_the_name(answers: Vec<Answer>) {
    let (created, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(|answer| answer.status == 201);
    assert_eq!(created.len(), 1);
    for answer in refused {
        answer.assert_error(409, "name_taken");
    }
}

/// Asserts that `value` is an object with exactly these keys, separated by spaces.
#[track_caller]
pub fn assert_keys(value: &Value, wanted: &str) {
    let mut wanted: Vec<_> = wanted.split_whitespace().collect();
    wanted.sort_unstable();
    let mut found: Vec<_> = value.as_object().unwrap_or_else(|| panic!("not an object: {value}")).keys().collect();
    found.sort_unstable();
    assert_eq!(found, wanted, "{value}");
}

/// Returns the id in `value`, and panics unless it is a public id with this prefix.
#[track_caller]
pub fn parse_id(value: &Value, prefix: &str) -> String {
    let text = value.as_str().unwrap_or_else(|| panic!("not an id: {value}"));
    let body = text.strip_prefix(prefix).unwrap_or_else(|| panic!("{text} does not begin with {prefix}"));
    assert_eq!(body.len(), 20, "{text}");
    assert!(body.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()), "{text}");
    text.to_owned()
}

/// Returns the time in `value` in seconds since 1970, and panics unless it is RFC 3339 in UTC, with `Z`.
#[track_caller]
pub fn parse_timestamp(value: &Value) -> i64 {
    let text = value.as_str().unwrap_or_else(|| panic!("not a timestamp: {value}"));
    assert!(text.ends_with('Z'), "{text} is not in UTC");
    let format = &time::format_description::well_known::Rfc3339;
    time::OffsetDateTime::parse(text, format).unwrap_or_else(|e| panic!("{text}: {e}")).unix_timestamp()
}

/// Returns the token in `value`, and panics unless it has the form of the platform's tokens.
#[track_caller]
pub fn parse_secret(value: &Value) -> String {
    let text = value.as_str().unwrap_or_else(|| panic!("not a secret: {value}"));
    let tail = text.strip_prefix("svc_").unwrap_or_else(|| panic!("{text}"));
    assert_eq!(tail.len(), 43);
    assert!(tail.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_'));
    text.to_owned()
}
