//! The gateway's errors in `OpenAI`'s shape: `{"error": {message, type, param, code}}`.
//!
//! [`ErrorCode`] lists every code with its status and type; `openapi.json` is tested against it. All messages are
//! written here: the text of a provider's errors never reaches a client.

mod complaint;
mod once;
mod provider;
mod request_fault;

use std::{borrow::Cow, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header};
use http_types::HttpFault;
use meter::AdmissionError;
use serde_json::json;

pub use self::{
    complaint::{ErrorReport, RequestComplaint},
    provider::ProviderError,
    request_fault::{RequestFacts, RequestFault},
};
pub(super) use openai::error_code::ErrorCode;

/// Keeps `OpenAI`'s own clients from retrying: they would sleep until `Retry-After`, however late that is.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");
/// `Retry-After` in milliseconds, which `OpenAI`'s own clients prefer.
const RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retry-after-ms");

/// An error of the gateway: a code, a message for people, and what a client needs to know of a retry.
#[derive(Debug)]
pub struct ApiError {
    code: ErrorCode,
    message: Cow<'static, str>,
    param: Option<Cow<'static, str>>,
    maximum: Option<u64>,
    retry_after: Option<Duration>,
    /// Whether a retry is pointless for a long time, or would be charged again.
    is_final: bool,
    allow: Option<&'static str>,
    /// Whether the body is left unread because there is no memory for it.
    leaves_body: bool,
}

impl ApiError {
    fn new(code: ErrorCode, message: impl Into<Cow<'static, str>>) -> Self {
        let (param, maximum, retry_after, allow) = Default::default();
        Self { code, message: message.into(), param, maximum, retry_after, is_final: false, allow, leaves_body: false }
    }

    fn with_param(mut self, param: impl Into<Cow<'static, str>>) -> Self {
        self.param = Some(param.into());
        self
    }

    /// Returns the error with the greatest value that the field at fault may have.
    #[must_use]
    pub fn with_maximum(self, maximum: u64) -> Self {
        Self { maximum: Some(maximum), ..self }
    }

    fn with_retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    fn with_final(self) -> Self {
        Self { is_final: true, ..self }
    }

    /// Creates the error for a path that the gateway does not serve, with status 404.
    pub fn unknown_url(method: &Method, path: &str) -> Self {
        let path = truncated(path);
        let message = format!("Unknown request URL: {method} {path}. Please check the URL for typos.");
        Self::new(ErrorCode::UnknownUrl, message)
    }

    /// Creates the error for a method that the path does not have, with status 405. `allow` lists those it has.
    pub fn method_not_allowed(method: &Method, path: &str, allow: &'static str) -> Self {
        let message = format!("Not allowed to {method} on {}. It takes {allow}.", truncated(path));
        Self { allow: Some(allow), ..Self::new(ErrorCode::MethodNotAllowed, message) }
    }

    /// Creates the error for a request without an API key, or with another scheme than `Bearer`, with status 401.
    pub fn missing_key() -> Self {
        let message = "You didn't provide an API key. Send a token of kind `ai` as `Authorization: Bearer <API_KEY>`, or as \
                       `x-api-key`.";
        Self::new(ErrorCode::InvalidApiKey, message)
    }

    /// Creates the error for an API key that is malformed, unknown, revoked or of another kind, with status 401.
    pub fn invalid_key() -> Self {
        let message = "Incorrect API key provided. The gateway takes tokens of kind `ai` that are not revoked, and no \
                       others.";
        Self::new(ErrorCode::InvalidApiKey, message)
    }

    /// Creates the error for an API key whose account the operator has suspended, with status 401.
    pub fn suspended_account() -> Self {
        let message = "The account of this API key, or everybody who owns it, is suspended by the operator of the service, so \
                       that none of its keys works. Ask the operator.";
        Self::new(ErrorCode::InvalidApiKey, message)
    }

    /// Creates the error for a client that has presented too many unknown API keys, with status 429.
    pub fn too_many_unknown_keys(retry_after: Duration) -> Self {
        let message = "Too many of the API keys that came from your address were incorrect. Try again after the time \
                       that Retry-After gives.";
        Self::new(ErrorCode::RateLimitExceeded, message).with_retry_after(retry_after)
    }

    /// Creates the error for a request whose key, limits or kept answer cannot be looked up, with status 503.
    pub fn limits_unavailable(retry_after: Duration) -> Self {
        let message = "The gateway cannot check your limits just now, and serves nothing unchecked. Try again shortly.";
        Self::new(ErrorCode::ServiceUnavailable, message).with_retry_after(retry_after)
    }

    /// Creates the error for a request beyond the completions or kept answers that an edge has room for, with
    /// status 503. It also answers a request whose validation the stopping runtime has cancelled.
    pub fn busy() -> Self {
        let message = "The gateway has as many completions under way as it takes. Try again shortly.";
        Self::new(ErrorCode::ServiceUnavailable, message).with_retry_after(limits::BUSY_RETRY)
    }

    pub(super) fn no_memory() -> Self {
        let message = "The gateway has no memory for the body of your request just now. Try again shortly, with fewer \
                       requests at a time.";
        let retry = Duration::from_secs(limits::FLIGHT_RETRY_SECONDS);
        Self { leaves_body: true, ..Self::new(ErrorCode::ServiceUnavailable, message).with_retry_after(retry) }
    }

    /// Creates the error for a request that is refused for lack of memory for its whole answer, with status 503. It
    /// applies before the provider is asked, so nothing is charged.
    pub fn no_memory_for_answer() -> Self {
        let message = "The gateway has no memory for a whole answer just now. Try again shortly, with fewer requests at a \
                       time, or ask for a stream.";
        Self::new(ErrorCode::ServiceUnavailable, message)
            .with_retry_after(Duration::from_secs(limits::FLIGHT_RETRY_SECONDS))
    }

    /// Creates the error for an account that has `most` pending completions, its limit, with status 429.
    pub fn too_many_at_once(most: usize) -> Self {
        let message = format!(
            "This account has {most} completions under way, which is as many as it may have. Wait for one of them to end."
        );
        Self::new(ErrorCode::RateLimitExceeded, message).with_retry_after(limits::BUSY_RETRY)
    }

    pub(super) fn unsupported_coding() -> Self {
        let message = "The body's Content-Encoding is not one that the gateway reads. Send the body as it is, or encoded once, \
                       with gzip or zstd.";
        Self::new(ErrorCode::UnsupportedMediaType, message)
    }

    pub(super) fn damaged_body(coding: &'static str) -> Self {
        Self::invalid_json(&format!("it is not intact {coding} data, as its Content-Encoding says"))
    }

    /// `most` is the limit in bytes; `remedy` tells the client how to raise it.
    pub fn body_too_large(most: u64, remedy: &str) -> Self {
        let message = format!(
            "Request too large (request_too_large): the body is larger than {}. Please reduce the length of the messages. \
             It counts decompressed; {remedy}.",
            domain::size(most)
        );
        Self::new(ErrorCode::RequestTooLarge, message)
    }

    /// The prompt is longer than the model's context, of `context` tokens where that is configured. Clients recognize
    /// this error by its sentences, which no other error contains.
    pub(super) fn context_length_exceeded(context: Option<u32>) -> Self {
        let maximum = context.map_or_else(|| "exceeded".to_owned(), |tokens| format!("{tokens} tokens"));
        let message = format!(
            "This model's maximum context length is {maximum}. Please reduce the length of the messages. \
             (context_length_exceeded: the prompt exceeds the context window)"
        );
        Self::new(ErrorCode::ContextLengthExceeded, message).with_param("messages")
    }

    pub(super) fn body_timed_out() -> Self {
        Self::new(ErrorCode::RequestTimeout, "The body did not arrive in time. Send the request again.")
    }

    /// Creates the error for a body that broke off, or a client that left before its request was sent to the
    /// provider, with status 400.
    pub fn body_cut_off() -> Self {
        Self::new(ErrorCode::InvalidJson, "The body broke off. Send the request again.")
    }

    /// Creates the error for a body that cannot be parsed, with status 400. `detail` ends the message.
    pub fn invalid_json(detail: &str) -> Self {
        let message = format!("We could not parse the JSON body of your request: {detail}.");
        Self::new(ErrorCode::InvalidJson, message)
    }

    /// Creates the error for a required field that is absent, with status 400.
    pub fn missing_parameter(param: &'static str) -> Self {
        let message = format!("Missing required parameter: '{param}'.");
        Self::new(ErrorCode::MissingRequiredParameter, message).with_param(param)
    }

    /// Creates the error for a field of the wrong JSON type, with status 400. `expected` names the right ones.
    pub fn invalid_type(param: impl Into<Cow<'static, str>>, expected: &str) -> Self {
        let param = param.into();
        let message = format!("Invalid type for '{param}': expected {expected}.");
        Self::new(ErrorCode::InvalidType, message).with_param(param)
    }

    /// Creates the error for a field or header with a value that is not allowed, with status 400. `rule` says why and
    /// ends the message.
    pub fn invalid_value(param: impl Into<Cow<'static, str>>, rule: &str) -> Self {
        let param = param.into();
        let message = format!("Invalid '{param}': {rule}.");
        Self::new(ErrorCode::InvalidValue, message).with_param(param)
    }

    /// Creates the error for a name that no model has, with status 404.
    pub fn model_not_found(id: &str) -> Self {
        let message = format!("The model `{}` does not exist. GET /v1/models lists those that do.", truncated(id));
        Self::new(ErrorCode::ModelNotFound, message).with_param("model")
    }

    /// The model is served at other endpoints.
    pub(super) fn wrong_endpoint(id: &str, endpoints: &[&str]) -> Self {
        let message = format!("The model `{id}` is not served at this endpoint. Ask it at {}.", endpoints.join(" or "));
        Self::new(ErrorCode::InvalidValue, message).with_param("model")
    }

    /// Creates the error for a model to whose provider the operator has set no key, with status 503.
    /// Clients are told not to retry.
    pub fn model_unavailable(id: &str) -> Self {
        let message = format!(
            "The model `{id}` is not available here: the operator has set no API key for its provider. Use another model: GET \
             /v1/models, or `svc ai models`, lists those that are."
        );
        Self::new(ErrorCode::ModelUnavailable, message).with_param("model").with_final()
    }

    /// An image at `place` was sent to a model that reads only text.
    pub(super) fn no_images(id: &str, place: String) -> Self {
        let rule = format!(
            "the model `{id}` reads text alone; leave the image out, or ask a model with \"image\" in its `input_modalities`, which \
             GET /v1/models lists"
        );
        Self::invalid_value(place, &rule)
    }

    /// Returns whether the rest of the request's body is left unread, because there is no memory for it.
    pub fn skips_body(&self) -> bool {
        self.leaves_body
    }

    /// Returns the HTTP status, which the code determines.
    pub fn status(&self) -> StatusCode {
        self.code.status()
    }

    /// Returns the code, from which other formats derive their error types.
    pub fn code(&self) -> ErrorCode {
        self.code
    }

    /// Returns the field at fault and the greatest value that it may have. Returns `None` if either is not known.
    pub fn param_and_maximum(&self) -> Option<(&str, u64)> {
        Some((self.param.as_deref()?, self.maximum?))
    }

    /// Returns the message, which tells people what is wrong and what to do about it.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Replaces the name of the field at fault, also in the message, by what `rename` returns for it. `None` keeps
    /// the name.
    #[must_use]
    pub fn rename_param(mut self, rename: impl FnOnce(&str) -> Option<String>) -> Self {
        if let Some(param) = &self.param
            && let Some(renamed) = rename(param)
        {
            self.message = self.message.replacen(&format!("'{param}'"), &format!("'{renamed}'"), 1).into();
            self.param = Some(renamed.into());
        }
        self
    }

    /// Returns the error with another message, and the same code and headers.
    #[must_use]
    pub fn with_message(mut self, message: String) -> Self {
        self.message = message.into();
        self
    }

    /// Returns the response body, in one line.
    pub fn to_json(&self) -> String {
        let error = json!({"error": {
            "message": self.message, "type": self.code.kind(), "param": self.param, "code": self.code.as_str(),
        }});
        error.to_string()
    }

    /// Returns the response, without the headers that all of the gateway's responses have.
    pub fn into_response(self) -> Response<Bytes> {
        let body = self.to_json();
        self.into_response_with(body)
    }

    /// Returns the response like [`into_response`](Self::into_response), with this JSON as its body.
    pub fn into_response_with(self, body: String) -> Response<Bytes> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(wait) = self.retry_after {
            // Rounded up, so that a client that waits this long is not refused again.
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds.max(1)));
            let millis = u64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
            headers.insert(RETRY_AFTER_MS, HeaderValue::from(millis.max(1)));
        }
        if self.is_final {
            headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"));
        }
        if let Some(allow) = self.allow {
            headers.insert(header::ALLOW, HeaderValue::from_static(allow));
        }
        if self.status() == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        let mut response = Response::new(Bytes::from(body));
        // Read by traces.
        response.extensions_mut().insert(self.code);
        *response.status_mut() = self.status();
        *response.headers_mut() = headers;
        response
    }
}

impl From<HttpFault> for ApiError {
    fn from(fault: HttpFault) -> Self {
        let code = match fault {
            HttpFault::Malformed => ErrorCode::MalformedRequest,
            HttpFault::Misdirected => ErrorCode::MisdirectedRequest,
            HttpFault::CookiesTooLarge => ErrorCode::HeadersTooLarge,
        };
        Self::new(code, fault.message())
    }
}

impl From<&AdmissionError> for ApiError {
    fn from(error: &AdmissionError) -> Self {
        match error {
            AdmissionError::Requests { retry_after, .. } => {
                let message = "Your account has made as many requests as it may in a minute. Try again after the time \
                               that Retry-After gives.";
                Self::new(ErrorCode::RateLimitExceeded, message).with_retry_after(*retry_after)
            }
            AdmissionError::Tokens { retry_after, .. } => {
                let message = "Your account's tokens of today are used up, or this request could use more than are \
                               left: lower max_tokens, or come back after midnight UTC.";
                Self::new(ErrorCode::DailyTokenLimitExceeded, message).with_retry_after(*retry_after).with_final()
            }
            AdmissionError::Credit { retry_after, is_shared } => {
                let message = if *is_shared {
                    "The AI credit of this month that all organizations without a subscription share which the creator \
                     of this one has created is used up, or this request could use more than is left: lower max_tokens, \
                     or choose a plan for this organization (POST /orgs/:name/billing/checkout)."
                } else {
                    "Your plan's AI credit of this month is used up, or this request could use more than is \
                     left: lower max_tokens, or change your plan."
                };
                Self::new(ErrorCode::InsufficientQuota, message).with_retry_after(*retry_after).with_final()
            }
            AdmissionError::AccountLimit { retry_after } => {
                let message = "The organization's monthly limit for its AI keys is reached, or this request could use \
                               more than is left of it: lower max_tokens, or have an owner of the organization change \
                               the limit (`svc ai limit EUROS --org NAME`, or PUT /orgs/:name/usage/ai/limit).";
                Self::new(ErrorCode::LimitReached, message).with_retry_after(*retry_after).with_final()
            }
            AdmissionError::KeyLimit { retry_after } => {
                let message = "This key's monthly limit is reached, or this request could use more than is left of it: \
                               lower max_tokens, or change the key's limit (`svc tokens limit ID EUROS`, with `--org NAME` for \
                               an organization's key, or PATCH /tokens/:id and /orgs/:name/tokens/:id).";
                Self::new(ErrorCode::LimitReached, message).with_retry_after(*retry_after).with_final()
            }
            AdmissionError::Unavailable { retry_after } => Self::limits_unavailable(*retry_after),
        }
    }
}

fn truncated(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(limits::QUOTED_CHARS) {
        None => Cow::Borrowed(text),
        Some((end, _)) => format!("{}…", &text[..end]).into(),
    }
}
