//! `OpenAI`'s responses (`POST /v1/responses`), translated to chat completions and back.
//!
//! Nothing is stored: a request brings all of its conversation along, as agents do anyway. [`to_chat`] reads it: `request` its
//! fields, `input` the items and `content` theirs, `tools` the tools. [`Events`] writes the answer, from the `items` that the model
//! is at. What `OpenAI` runs itself is left out, and named in the header `x-svc-warning`.

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
use http::Response;

pub(in crate::gateway) use self::{context::RequestContext, events::Events};
pub(super) use self::{events::whole, request::to_chat};
use crate::gateway::error::ApiError;

/// Fields of the chat completion that are left out for a provider that does not take them.
pub(super) const HINTS: &[&str] =
    &["parallel_tool_calls", "prompt_cache_key", "reasoning_effort", "safety_identifier", "user", "verbosity"];

/// The answer for an error.
pub(super) fn error(error: ApiError) -> Response<Bytes> {
    in_own_words(error.rename_param(|param| context::renamed(param).map(str::to_owned))).into_response()
}

/// The error in the words of this format.
pub(super) fn in_own_words(error: ApiError) -> ApiError {
    if !error.message().contains("max_tokens") {
        return error;
    }
    let message = error.message().replace("max_tokens", "max_output_tokens");
    error.with_message(message)
}

#[cfg(test)]
mod tests;
