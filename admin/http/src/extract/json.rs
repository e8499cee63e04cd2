//! JSON bodies of requests and responses. A request's `Content-Type` is ignored: its body must be JSON in any case.

use std::time::Duration;

use axum::{
    body::{Body, Bytes},
    extract::{FromRequest, Request},
    response::{IntoResponse, Response},
};
use domain::limits::JSON_BODY_BYTES;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde::{Serialize, de::DeserializeOwned};

use crate::error::{ApiError, Code, PossibleError};

/// Timeout of reading a JSON body.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// The errors of [`Json`], [`read_body`] and [`read_body_up_to`].
pub const BODY_ERRORS: &[PossibleError] = &[
    PossibleError::new(
        Code::InvalidRequest,
        "the body breaks a rule, or did not arrive whole; the message names the field",
    ),
    PossibleError::new(Code::PayloadTooLarge, "the body is larger than the limit"),
    PossibleError::new(Code::RequestTimeout, "the body did not arrive in time"),
];

/// A JSON body of a request or a response. Fields that `T` does not have are ignored.
#[derive(Debug, Clone, Copy)]
pub struct Json<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Json<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _state: &S) -> Result<Self, ApiError> {
        let body = read_body(request.into_body()).await?;
        parse(&body).map(Self).map_err(ApiError::invalid)
    }
}

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        axum::Json(self.0).into_response()
    }
}

/// Returns the error for a body that did not arrive in time, which is the same as the edge's.
pub fn late_body() -> ApiError {
    ApiError::new(Code::RequestTimeout, "The body did not arrive in time; send the request again.")
}

/// Reads a body of at most [`JSON_BODY_BYTES`].
pub async fn read_body(body: Body) -> Result<Bytes, ApiError> {
    read_body_up_to(body, JSON_BODY_BYTES).await
}

/// Reads a body of at most `most` bytes.
pub async fn read_body_up_to(body: Body, most: usize) -> Result<Bytes, ApiError> {
    let limited = Limited::new(body, most);
    let collected = tokio::time::timeout(BODY_TIMEOUT, limited.collect()).await.map_err(|_| late_body())?;
    collected.map(http_body_util::Collected::to_bytes).map_err(|error| {
        if error.downcast_ref::<LengthLimitError>().is_some() {
            ApiError::new(Code::PayloadTooLarge, format!("The body is larger than {}.", domain::size(most as u64)))
        } else {
            ApiError::invalid("The body ended before it was complete.")
        }
    })
}

/// Parses a body, or returns a sentence that names the field and the rule.
fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    match body.trim_ascii().first() {
        None => return Err("The body is empty; send a JSON object.".to_owned()),
        // Serde would accept an array, and read its items as the fields in order.
        Some(b'[') => return Err("The body must be a JSON object.".to_owned()),
        Some(_) => {}
    }
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let value = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let path = error.path().to_string();
        describe(&path, error.inner())
    })?;
    deserializer.end().map_err(|error| describe(".", &error))?;
    Ok(value)
}

fn describe(path: &str, error: &serde_json::Error) -> String {
    use serde_json::error::Category;
    let text = error.to_string();
    let reason = text.rsplit_once(" at line ").map_or(&*text, |(reason, _)| reason);
    match error.classify() {
        Category::Data => describe_field(path, reason),
        Category::Eof => "The body is not complete JSON.".to_owned(),
        Category::Syntax | Category::Io => {
            format!("The body is not valid JSON: {reason} (line {}, column {}).", error.line(), error.column())
        }
    }
}

/// Rewrites serde's message about a field so that people can act on it. Leaves out values, which may be secret.
fn describe_field(path: &str, reason: &str) -> String {
    let field = if matches!(path, "." | "" | "?") { "The body".to_owned() } else { format!("`{path}`") };
    if let Some(missing) = reason.strip_prefix("missing field ") {
        return format!("{missing} is missing.");
    }
    if let Some(twice) = reason.strip_prefix("duplicate field ") {
        return format!("{twice} is given twice.");
    }
    if let Some((_, expected)) = reason.split_once(", expected ") {
        let expected = expected.strip_prefix("one of ").map_or(expected.to_owned(), |list| format!("one of {list}"));
        let expected = if expected.starts_with("struct ") { "a JSON object" } else { &expected };
        return format!("{field} must be {expected}.");
    }
    // Messages of the domain types already start with the field's name.
    let own = path.rsplit('.').next().is_some_and(|name| reason.starts_with(&format!("{name} ")));
    if own { format!("{reason}.") } else { format!("{field}: {reason}.") }
}

#[cfg(test)]
mod tests {
    use api::{
        access::{SetAccess, SetPassword},
        projects::CreateProject,
        tokens::CreateToken,
    };

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stands_still_is_late_and_not_wrong() {
        let still = Body::from_stream(futures_util::stream::pending::<Result<Bytes, std::io::Error>>());
        assert_eq!(read_body(still).await.unwrap_err().code(), Code::RequestTimeout);
    }

    fn refusal<T: DeserializeOwned>(body: &str) -> String {
        parse::<T>(body.as_bytes()).err().unwrap()
    }

    #[test]
    fn refusals_name_the_field_and_the_rule() {
        assert_eq!(refusal::<CreateProject>("{}"), "`name` is missing.");
        assert_eq!(refusal::<CreateProject>(r#"{"name": 7}"#), "`name` must be a string.");
        assert_eq!(refusal::<CreateProject>(r#"{"name": null}"#), "`name` must be a string.");
        assert_eq!(refusal::<CreateProject>(r#"{"name": "a"}"#), "name must be 3 to 40 characters of a-z, 0-9 and -.");
        assert_eq!(refusal::<CreateProject>(r#"{"name":"abc","name":"abd"}"#), "`name` is given twice.");
        assert_eq!(refusal::<CreateToken>(r#"{"kind":"deploy"}"#), "`kind` must be `cli` or `ai`.");
        assert_eq!(refusal::<SetPassword>(r#"{"password":"abc"}"#), "password must be 4 to 128 characters.");
        for body in ["7", "null", r#""cli""#, r#"["cli"]"#, r#"[{"kind":"cli"}]"#] {
            assert_eq!(refusal::<CreateToken>(body), "The body must be a JSON object.", "{body}");
        }
        for kind in ["null", "7", "true", r#"["cli"]"#, r#"{"cli":null}"#] {
            assert_eq!(refusal::<CreateToken>(&format!(r#"{{"kind":{kind}}}"#)), "`kind` must be a string.");
            assert_eq!(refusal::<SetAccess>(&format!(r#"{{"mode":{kind}}}"#)), "`mode` must be a string.");
        }
    }

    #[test]
    fn refusals_never_repeat_a_value() {
        assert!(!refusal::<CreateProject>(r#"{"name":"abc","org":["hunter2"]}"#).contains("hunter2"));
        assert!(!refusal::<CreateToken>(r#"{"kind":"hunter2"}"#).contains("hunter2"));
    }

    #[test]
    fn what_is_not_json_is_refused() {
        assert_eq!(refusal::<CreateToken>("  "), "The body is empty; send a JSON object.");
        assert_eq!(refusal::<CreateToken>(r#"{"kind":"#), "The body is not complete JSON.");
        for body in ["{kind: 1}", r#"{"kind":"cli"} x"#, r#"{"kind":"cli","label":1e999}"#, "\u{feff}{}"] {
            assert!(refusal::<CreateToken>(body).starts_with("The body is not valid JSON"), "{body}");
        }
        assert!(parse::<CreateToken>(b"{\"kind\":\"cli\",\"label\":\"\xff\"}").is_err());
    }

    #[test]
    fn unknown_fields_are_ignored() {
        assert!(parse::<CreateToken>(br#"{"kind":"cli","colour":{"deep":[1]}}"#).is_ok());
        // Unknown fields are skipped without recursion, so their depth does not matter.
        let deep = format!(r#"{{"kind":"cli","x":{}1{}}}"#, "[".repeat(50_000), "]".repeat(50_000));
        assert!(parse::<CreateToken>(deep.as_bytes()).is_ok());
    }
}
