//! `OpenAI`'s Responses (`POST /v1/responses`), translated to chat completions and back.
//!
//! Nothing is stored: each request includes its whole conversation, as agents send it anyway. [`to_chat`] parses a
//! request: `request` its fields, `input` the items, `content` their content, and `tools` the tools. [`ResponseEvents`] writes
//! the answer, with `items` for those in progress. Features that `OpenAI` runs itself are left out and listed in the
//! header `x-svc-warning`.

mod content;
mod context;
mod events;
mod input;
mod items;
mod object;
mod request;
mod tools;
mod usage;
mod warnings;

use bytes::Bytes;
use gateway_request::error::ApiError;
use http::Response;

pub(crate) use self::{context::ResponsesContext, events::ResponseEvents};
pub(super) use self::{events::whole, request::to_chat};

/// Fields of the chat completion that are left out for a provider that does not support them.
pub(super) const HINTS: &[&str] =
    &["parallel_tool_calls", "prompt_cache_key", "reasoning_effort", "safety_identifier", "user", "verbosity"];

pub(super) fn error(error: ApiError) -> Response<Bytes> {
    reword_error(error.rename_param(|param| context::responses_field_name(param).map(str::to_owned))).into_response()
}

/// Rewrites an error in the words of this format.
pub(super) fn reword_error(error: ApiError) -> ApiError {
    if !error.message().contains("max_tokens") {
        return error;
    }
    let message = error.message().replace("max_tokens", "max_output_tokens");
    error.with_message(message)
}

#[cfg(test)]
mod tests;
