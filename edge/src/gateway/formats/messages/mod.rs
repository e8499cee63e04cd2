//! Anthropic's messages (`POST /v1/messages`), translated to chat completions and back.

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Response};
use serde_json::json;

use super::TranslateEvents;
use crate::gateway::{error::ApiError, models::ServedModels, sse::StreamError};

/// Fields of the chat completion that are left out for a provider that does not take them.
pub(super) const HINTS: &[&str] = &[];

/// What the translation of an answer needs to know of its request.
pub(in crate::gateway) struct RequestContext;

impl RequestContext {
    /// The name that a field of the chat completion has in the client's request.
    #[expect(clippy::unused_self, reason = "nothing is translated yet")]
    pub(super) fn param(&self, _chat: &str) -> Option<String> {
        None
    }

    /// Adds the headers of the answer.
    #[expect(clippy::unused_self, reason = "nothing is translated yet")]
    pub(super) fn add_headers(&self, _headers: &mut HeaderMap) {}
}

/// Translates the body of a request to that of a chat completion.
pub(super) fn to_chat(_body: &[u8]) -> Result<(Vec<u8>, RequestContext), ApiError> {
    Err(ApiError::unknown_url(&http::Method::POST, "/v1/messages"))
}

/// Translates a whole answer. Returns `None` if it is no chat completion.
pub(super) fn whole(_context: RequestContext, _chat: &[u8]) -> Option<Bytes> {
    None
}

/// The answer for an error.
pub(super) fn error(error: ApiError) -> Response<Bytes> {
    let kind = error.code().as_str();
    let json = json!({"type": "error", "error": {"type": kind, "message": error.message()}}).to_string();
    error.into_response_with(json)
}

/// Translates a stream.
pub(in crate::gateway) struct Events;

impl Events {
    pub(super) fn new(_context: RequestContext) -> Self {
        Self
    }
}

impl TranslateEvents for Events {
    fn push(&mut self, _chat: &[u8], _out: &mut BytesMut) -> Result<(), StreamError> {
        Ok(())
    }

    fn fail(&mut self, _error: ApiError, _out: &mut BytesMut) {}
}

/// Answers `POST /v1/messages/count_tokens`.
pub(in crate::gateway) fn count_tokens(_body: &[u8], _models: &ServedModels) -> Result<Bytes, ApiError> {
    Err(ApiError::unknown_url(&http::Method::POST, "/v1/messages/count_tokens"))
}
