//! `OpenAI`'s responses (`POST /v1/responses`), translated to chat completions and back.

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Response};

use super::TranslateEvents;
use crate::gateway::{
    error::ApiError,
    sse::{StreamError, payloads},
};

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
    Err(ApiError::unknown_url(&http::Method::POST, "/v1/responses"))
}

/// Translates a whole answer. Returns `None` if it is no chat completion.
pub(super) fn whole(_context: RequestContext, _chat: &[u8]) -> Option<Bytes> {
    None
}

/// The answer for an error.
pub(super) fn error(error: ApiError) -> Response<Bytes> {
    let message = error.message().replace("max_tokens", "max_output_tokens");
    error.with_message(message).into_response()
}

/// Translates a stream.
pub(in crate::gateway) struct Events;

impl Events {
    pub(super) fn new(_context: RequestContext) -> Self {
        Self
    }
}

impl TranslateEvents for Events {
    fn push(&mut self, chat: &[u8], out: &mut BytesMut) -> Result<(), StreamError> {
        for payload in payloads(chat) {
            out.extend_from_slice(&payload);
        }
        Ok(())
    }

    fn fail(&mut self, _error: ApiError, _out: &mut BytesMut) {}
}
