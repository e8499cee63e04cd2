//! Anthropic's Messages (`POST /v1/messages`), translated to chat completions and back.
//!
//! `translate` and `conversation` parse a request ([`request`]) and write the chat completion's body. `answer` writes
//! whole answers, [`MessageEvents`] streamed ones, and `errors` refusals. This module only maps inputs to outputs: access,
//! cost and the choice of provider are decided elsewhere, on the chat completion.
//!
//! Features that Anthropic runs or stores are not available. Its tools are left out and listed in a header; its blocks,
//! files, containers and servers are refused by name. Fields that only control its caches and accounting are ignored.

mod answer;
mod conversation;
mod ending;
mod errors;
mod events;
mod request;
mod translate;
mod usage;

use bytes::Bytes;
use gateway_request::{
    asks::RequestLimits,
    error::ApiError,
    models::ServedModels,
    request::{self as chat_request, CompletionRequest},
    request_body::ReadBody,
};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::value::RawValue;

use self::translate::RequestPurpose;
pub(super) use self::{
    answer::whole,
    errors::{FailedRequest, event as error_event},
    events::MessageEvents,
};
use super::chat::{ElementsError, for_each_element};

/// The header in which Anthropic's clients look for a request's id.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("request-id");

/// The header that qualifies a token count.
pub const TOKEN_COUNT: HeaderName = HeaderName::from_static("x-svc-token-count");

/// Fields of the chat completion that are left out for a provider that does not support them.
pub(super) const HINTS: &[&str] = &["parallel_tool_calls", "reasoning_effort", "top_k"];

/// The signature of the thoughts in our answers. Clients send thoughts back with it, and drop thoughts without one. The
/// gateway accepts thoughts with any signature.
const SIGNATURE: &str = "c3Zj";

/// The header that lists the tools left out of a request.
const WARNING: HeaderName = HeaderName::from_static("x-svc-warning");

/// The context of a request for translating its answer.
pub struct MessagesContext {
    request_id: String,
    /// The requested model's name as JSON, by which clients look up what they know of the model.
    model: Box<RawValue>,
    /// Whether the answer includes thoughts. Clients that did not request them expect the first block to be the text.
    shows_thinking: bool,
    stop_sequences: Vec<String>,
    max_tokens: Option<u64>,
    warnings: Vec<String>,
    /// The path of the first image in the client's messages, if any.
    first_image: Option<String>,
}

impl MessagesContext {
    pub(super) fn identify(&mut self, request_id: &str) {
        request_id.clone_into(&mut self.request_id);
    }

    fn message_id(&self) -> String {
        ["msg_", self.request_id.strip_prefix("req_").unwrap_or(&self.request_id)].concat()
    }

    /// Rewrites an error in the words that clients of this format act on.
    pub(super) fn rewrite_error(&self, error: ApiError) -> ApiError {
        match (error.param_and_maximum(), self.max_tokens) {
            // Claude Code parses the number and retries with it.
            (Some(("max_tokens", most)), Some(asked)) if asked > most => {
                let model = self.model.get().trim_matches('"');
                let rule = "which is the maximum allowed number of output tokens for";
                error.with_message(format!("max_tokens: {asked} > {most}, {rule} {model}"))
            }
            // The chat messages differ from the client's, but the first part with an image is the same in both.
            _ => error.rename_param(|chat| {
                let is_part = chat.starts_with("messages[") && chat.ends_with(']');
                if is_part { self.first_image.clone() } else { messages_field_name(chat) }
            }),
        }
    }

    pub(super) fn add_headers(&self, headers: &mut HeaderMap) {
        if self.warnings.is_empty() {
            return;
        }
        let is_plain = |letter: &char| letter.is_ascii_graphic() || *letter == ' ';
        let tools: String = self.warnings.join(", ").chars().filter(is_plain).take(limits::LEFT_OUT_CHARS).collect();
        let warning = format!("left out tools that Anthropic defines and this model does not know: {tools}");
        if let Ok(warning) = HeaderValue::from_str(&warning) {
            headers.insert(WARNING, warning);
        }
    }
}

pub(super) fn to_chat(body: &[u8]) -> Result<(Vec<u8>, MessagesContext), ApiError> {
    translate::translate(body, RequestPurpose::Answer)
}

/// Validates a request for a token count.
pub fn count_tokens(
    body: ReadBody,
    models: &ServedModels,
    asks: &RequestLimits,
) -> Result<CompletionRequest, ApiError> {
    let (chat, context) = translate::translate(&body.bytes, RequestPurpose::Count)?;
    chat_request::validate_chat(body.translated_to(chat)?, models, asks, HINTS)
        .map_err(|error| context.rewrite_error(error))
}

/// Returns the JSON body of the response to a request for a token count.
pub fn token_count(input_tokens: u64) -> Bytes {
    format!("{{\"input_tokens\":{input_tokens}}}").into()
}

/// Returns the name of a chat completion's field in the client's request, if it differs.
fn messages_field_name(chat: &str) -> Option<String> {
    let name = match chat {
        "stop" => "stop_sequences",
        "response_format" => "output_config.format",
        "reasoning_effort" => "output_config.effort",
        _ => return None,
    };
    Some(name.to_owned())
}

fn parse<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, ApiError> {
    serde_json::from_str(text).map_err(|error| parse_error(&error))
}

/// Calls `each` with the elements of an array, until it refuses one.
fn for_each<'a, T: Deserialize<'a>>(
    array: &'a RawValue,
    each: impl FnMut(usize, T) -> Result<(), ApiError>,
) -> Result<(), ApiError> {
    for_each_element(array.get(), each).map_err(|error| match error {
        ElementsError::Json(error) => parse_error(&error),
        ElementsError::Refused(error) => error,
    })
}

fn parse_error(error: &serde_json::Error) -> ApiError {
    let detail = error.to_string();
    // The quoted value may be as long as the body; what was expected, and where, follows it.
    let cut = detail.char_indices().rev().nth(limits::QUOTED_CHARS);
    ApiError::invalid_json(cut.map_or(&*detail, |(start, _)| detail.get(start..).unwrap_or_default()))
}

#[cfg(test)]
mod tests;
