//! Errors in Anthropic's shape: `{"type": "error", "error": {type, message}, "request_id"}`.

use bytes::Bytes;
use gateway_request::error::ApiError;
use http::Response;
use openai::error_code::ErrorCode;
use serde::Serialize;

/// A request that is answered with an error.
pub struct FailedRequest {
    id: String,
    /// The estimated tokens of its prompt, and the model's context.
    prompt: Option<(u64, u64)>,
}

#[derive(Serialize)]
struct ErrorEnvelope<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    error: ErrorBody<'a>,
    request_id: &'a str,
}

#[derive(Serialize)]
struct ErrorBody<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    message: &'a str,
}

impl FailedRequest {
    pub(crate) fn new(id: &str) -> Self {
        Self { id: id.to_owned(), prompt: None }
    }

    pub(crate) fn with_prompt(self, tokens: u64, context: Option<u32>) -> Self {
        Self { prompt: context.map(|context| (tokens, context.into())), ..self }
    }

    pub(crate) fn error(&self, error: ApiError) -> Response<Bytes> {
        let error = match self.prompt {
            // Claude Code parses the numbers, and drops their difference from its history.
            Some((tokens, context)) if error.code().as_str() == "context_length_exceeded" => {
                let tokens = tokens.max(context + 1);
                error.with_message(format!("prompt is too long: {tokens} tokens > {context} maximum"))
            }
            _ => error,
        };
        let body = to_json(&error, &self.id);
        error.into_response_with(body)
    }
}

pub(crate) fn event(error: &ApiError, request_id: &str) -> String {
    format!("event: error\ndata: {}\n\n", to_json(error, request_id))
}

fn to_json(error: &ApiError, request_id: &str) -> String {
    let error = ErrorBody { kind: kind(error.code()), message: error.message() };
    // Serializes only strings, which cannot fail.
    serde_json::to_string(&ErrorEnvelope { kind: "error", error, request_id }).unwrap_or_default()
}

/// Returns the `type` of an error: the code's own if clients of this format act on it, otherwise that of its status.
fn kind(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::UpstreamOverloaded | ErrorCode::ServiceUnavailable => "overloaded_error",
        _ => match code.status().as_u16() {
            401 => "authentication_error",
            403 => "permission_error",
            404 => "not_found_error",
            413 => "request_too_large",
            429 => "rate_limit_error",
            504 => "timeout_error",
            500.. => "api_error",
            _ => "invalid_request_error",
        },
    }
}
