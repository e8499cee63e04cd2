//! Refusals in `OpenAI`'s shape: `{"error": {message, type, param, code}}`. The only file of the gateway that chooses
//! statuses.

use std::{borrow::Cow, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use serde_json::json;

use super::meter::Refused;
use crate::limits;

/// Tells both of `OpenAI`'s own clients not to try again: they would sleep until `Retry-After`, however late it is.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// Why a request gets no completion. The message is ours in every word.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    kind: &'static str,
    code: Option<&'static str>,
    param: Option<Cow<'static, str>>,
    message: Cow<'static, str>,
    retry_after: Option<Duration>,
    /// Trying again is of no use before a long time.
    is_final: bool,
    allow: Option<&'static str>,
}

impl Refusal {
    fn new(status: StatusCode, code: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        let kind = match status.as_u16() {
            401 => "authentication_error",
            429 => "requests",
            500.. => "server_error",
            _ => "invalid_request_error",
        };
        Self {
            status,
            kind,
            code: Some(code),
            param: None,
            message: message.into(),
            retry_after: None,
            is_final: false,
            allow: None,
        }
    }

    fn about(mut self, param: impl Into<Cow<'static, str>>) -> Self {
        self.param = Some(param.into());
        self
    }

    fn after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    pub(super) fn unknown_url(method: &Method, path: &str) -> Self {
        let path = shortened(path);
        let message = format!("Unknown request URL: {method} {path}. Please check the URL for typos.");
        Self::new(StatusCode::NOT_FOUND, "unknown_url", message)
    }

    pub(super) fn wrong_method(method: &Method, path: &str, allow: &'static str) -> Self {
        let message = format!("Not allowed to {method} on {}. It takes {allow}.", shortened(path));
        let refusal = Self::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message);
        Self { allow: Some(allow), ..refusal }
    }

    pub(super) fn no_key() -> Self {
        Self::new(
            StatusCode::UNAUTHORIZED,
            "invalid_api_key",
            "You didn't provide an API key. Send a token of kind `ai` as `Authorization: Bearer <API_KEY>`.",
        )
    }

    pub(super) fn wrong_key() -> Self {
        Self::new(
            StatusCode::UNAUTHORIZED,
            "invalid_api_key",
            "Incorrect API key provided. The gateway takes tokens of kind `ai` that are not revoked, and no others.",
        )
    }

    pub(super) fn unavailable(retry_after: Duration) -> Self {
        let message = "The gateway cannot check your limits just now, and serves nothing unchecked. Try again shortly.";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "service_unavailable", message).after(retry_after)
    }

    pub(super) fn busy() -> Self {
        let message = "The gateway has as many completions under way as it takes. Try again shortly.";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "service_unavailable", message).after(limits::BUSY_RETRY)
    }

    pub(super) fn compressed() -> Self {
        let message = "The body is compressed, which the gateway does not read. Send it without Content-Encoding.";
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message)
    }

    pub(super) fn too_large() -> Self {
        let message = format!("The body is larger than {} KB. Send less.", limits::COMPLETION_BYTES / 1024);
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "request_too_large", message)
    }

    pub(super) fn too_slow() -> Self {
        let message = "The body did not arrive in time. Send the request again.";
        Self::new(StatusCode::REQUEST_TIMEOUT, "request_timeout", message)
    }

    pub(super) fn broken_body() -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_json", "The body broke off. Send the request again.")
    }

    pub(super) fn invalid_json(detail: &str) -> Self {
        let message = format!("We could not parse the JSON body of your request: {detail}.");
        Self::new(StatusCode::BAD_REQUEST, "invalid_json", message)
    }

    pub(super) fn missing(param: &'static str) -> Self {
        let message = format!("Missing required parameter: '{param}'.");
        Self::new(StatusCode::BAD_REQUEST, "missing_required_parameter", message).about(param)
    }

    pub(super) fn wrong_type(param: impl Into<Cow<'static, str>>, expected: &str) -> Self {
        let param = param.into();
        let message = format!("Invalid type for '{param}': expected {expected}.");
        Self::new(StatusCode::BAD_REQUEST, "invalid_type", message).about(param)
    }

    pub(super) fn invalid_value(param: impl Into<Cow<'static, str>>, rule: &str) -> Self {
        let param = param.into();
        let message = format!("Invalid '{param}': {rule}.");
        Self::new(StatusCode::BAD_REQUEST, "invalid_value", message).about(param)
    }

    pub(super) fn unknown_model(id: &str) -> Self {
        let message = format!("The model `{}` does not exist. GET /v1/models lists those that do.", shortened(id));
        Self::new(StatusCode::NOT_FOUND, "model_not_found", message).about("model")
    }

    pub(super) fn model_unavailable(id: &str) -> Self {
        let message = format!(
            "The model `{id}` is not available here: the operator has set no API key for its provider. Use another model."
        );
        let refusal = Self::new(StatusCode::SERVICE_UNAVAILABLE, "model_unavailable", message).about("model");
        Self { is_final: true, ..refusal }
    }

    /// What the meter said no to.
    pub(super) fn metered(refused: &Refused) -> Self {
        let limited = |kind, code, message, wait: Duration, is_final| {
            let refusal = Self::new(StatusCode::TOO_MANY_REQUESTS, code, message).after(wait);
            Self { kind, is_final, ..refusal }
        };
        match refused {
            Refused::Requests { retry_after, .. } => {
                let message = "Your account has made as many requests as it may in a minute. Try again after the time \
                               that Retry-After gives.";
                limited("requests", "rate_limit_exceeded", message, *retry_after, false)
            }
            Refused::Tokens { retry_after, .. } => {
                let message = "Your account's tokens of today are used up, or this request could use more than are \
                               left: lower max_tokens, or come back after midnight UTC.";
                limited("tokens", "daily_token_limit_exceeded", message, *retry_after, true)
            }
            Refused::Credit { retry_after } => {
                let message = "Your plan's AI credit of this month is used up, or this request could use more than is \
                               left: lower max_tokens, or change your plan.";
                limited("insufficient_quota", "insufficient_quota", message, *retry_after, true)
            }
            Refused::Unavailable { retry_after } => Self::unavailable(*retry_after),
        }
    }

    /// The provider did not do its part.
    pub(super) fn upstream(fault: Fault) -> Self {
        match fault {
            Fault::Slow => Self::new(
                StatusCode::GATEWAY_TIMEOUT,
                "upstream_timeout",
                "The model's provider took too long. Try again, or lower max_tokens.",
            ),
            Fault::Failed { retry_after } => {
                let message = "The model's provider failed. Try again shortly.";
                let refusal = Self::new(StatusCode::BAD_GATEWAY, "upstream_error", message);
                Self { kind: "upstream_error", retry_after, ..refusal }
            }
            Fault::Limited { retry_after } => {
                let message = "The model's provider takes no more requests just now. Try again shortly.";
                let refusal = Self::new(StatusCode::TOO_MANY_REQUESTS, "rate_limit_exceeded", message);
                Self { retry_after, ..refusal }
            }
            Fault::Refused => Self::new(
                StatusCode::BAD_REQUEST,
                "invalid_value",
                "The model's provider takes the request for invalid: check the messages against the model's context \
                 length, and the optional fields against what the model can do.",
            ),
        }
    }

    /// The body, in one line.
    pub(super) fn json(&self) -> String {
        let error = json!({"error": {
            "message": self.message, "type": self.kind, "param": self.param, "code": self.code,
        }});
        error.to_string()
    }

    /// The whole answer but for what every answer has.
    pub(super) fn into_parts(self) -> (StatusCode, HeaderMap, Bytes) {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(wait) = self.retry_after {
            // Rounded up: a client that comes back in time is not refused again.
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds.max(1)));
        }
        if self.is_final {
            headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"));
        }
        if let Some(allow) = self.allow {
            headers.insert(header::ALLOW, HeaderValue::from_static(allow));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        (self.status, headers, self.json().into())
    }
}

/// What can go wrong at a provider, as far as a client is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// It cannot be reached, broke off, does not take our key, or says what is no answer.
    Failed {
        /// When it wants to be asked again.
        retry_after: Option<Duration>,
    },
    /// It was silent for too long.
    Slow,
    /// It has had too many requests of ours.
    Limited {
        /// When it wants to be asked again.
        retry_after: Option<Duration>,
    },
    /// It finds fault with the request.
    Refused,
}

impl Fault {
    pub(super) const FAILED: Self = Self::Failed { retry_after: None };
}

/// What a client sent, for a message: not at any length.
fn shortened(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(limits::QUOTED_CHARS) {
        None => Cow::Borrowed(text),
        Some((end, _)) => format!("{}…", &text[..end]).into(),
    }
}
