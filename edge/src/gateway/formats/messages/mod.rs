//! Anthropic's messages (`POST /v1/messages`), translated to chat completions and back.
//!
//! `translate` and `conversation` read a request ([`request`]) and write the chat completion's body. `answer`
//! writes a whole answer, [`Events`] a streamed one, and `errors` what is refused. Everything here is a function of its
//! input: who may ask, what that costs and which provider answers is decided elsewhere, in the chat completion's terms.
//!
//! What Anthropic runs or keeps does not exist here. Its tools are left out, which a header says; blocks, files,
//! containers and servers of its own are refused by name. What only steers its caches and its accounting is skipped.

mod answer;
mod conversation;
mod ending;
mod errors;
mod events;
mod request;
mod translate;
mod usage;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::value::RawValue;

use self::translate::Purpose;
pub(super) use self::{
    answer::whole,
    errors::{FailedRequest, event as error_event},
    events::Events,
};
use crate::{
    gateway::{
        asks::Asks,
        error::ApiError,
        models::ServedModels,
        request::{self as chat_request, CompletionRequest},
        request_body::ReadBody,
    },
    limits,
};

/// Where Anthropic's clients look for a request's id.
pub(in crate::gateway) const REQUEST_ID: HeaderName = HeaderName::from_static("request-id");

/// Says what a count of tokens is.
pub(in crate::gateway) const TOKEN_COUNT: HeaderName = HeaderName::from_static("x-svc-token-count");

/// Fields of the chat completion that are left out for a provider that does not take them.
pub(super) const HINTS: &[&str] = &["parallel_tool_calls", "reasoning_effort", "top_k"];

/// The signature of the thoughts in our answers. Clients send thoughts back with it, and drop those that have none; the gateway
/// takes thoughts whoever has signed them.
const SIGNATURE: &str = "c3Zj";

/// Says which of a request's tools were left out.
const WARNING: HeaderName = HeaderName::from_static("x-svc-warning");

/// What the translation of an answer needs to know of its request.
pub(in crate::gateway) struct RequestContext {
    request_id: String,
    /// The name of the model that was asked for, as JSON. Clients go by it to find what they know of the model.
    model: Box<RawValue>,
    /// Whether thoughts are a part of the answer. Clients that have not asked for them take the first block for the text.
    shows_thinking: bool,
    stop_sequences: Vec<String>,
    max_tokens: Option<u64>,
    /// The types of the tools that were left out.
    warnings: Vec<String>,
    /// The place of an image in the client's messages, if they have any: the first of what they say or show.
    first_image: Option<String>,
}

impl RequestContext {
    /// Tells the answer the request's id.
    pub(super) fn identify(&mut self, request_id: &str) {
        request_id.clone_into(&mut self.request_id);
    }

    /// The id of the message, by which clients tell it from others.
    fn message_id(&self) -> String {
        ["msg_", self.request_id.strip_prefix("req_").unwrap_or(&self.request_id)].concat()
    }

    /// The error about a request, in the words that clients of this format act on.
    pub(super) fn explain(&self, error: ApiError) -> ApiError {
        match (error.bound(), self.max_tokens) {
            // Claude Code reads the number, and asks again for as many.
            (Some(("max_tokens", most)), Some(asked)) if asked > most => {
                let model = self.model.get().trim_matches('"');
                let rule = "which is the maximum allowed number of output tokens for";
                error.with_message(format!("max_tokens: {asked} > {most}, {rule} {model}"))
            }
            // The completion's messages are others than the client's: the first part with an image is the first one in both.
            _ => error.rename_param(|chat| {
                let is_part = chat.starts_with("messages[") && chat.ends_with(']');
                if is_part { self.first_image.clone() } else { own_name(chat) }
            }),
        }
    }

    /// Adds the headers of the answer.
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

/// Translates the body of a request to that of a chat completion.
pub(super) fn to_chat(body: &[u8]) -> Result<(Vec<u8>, RequestContext), ApiError> {
    translate::translate(body, Purpose::Answer)
}

/// Validates a request whose tokens are to be counted.
pub(in crate::gateway) fn count_tokens(
    body: ReadBody,
    models: &ServedModels,
    asks: &Asks,
) -> Result<CompletionRequest, ApiError> {
    let (chat, context) = translate::translate(&body.bytes, Purpose::Count)?;
    chat_request::validate_chat(body.replaced_by(chat), models, asks, HINTS).map_err(|error| context.explain(error))
}

/// The answer to `POST /v1/messages/count_tokens`.
pub(in crate::gateway) fn token_count(input_tokens: u64) -> Bytes {
    format!("{{\"input_tokens\":{input_tokens}}}").into()
}

/// The name that a field of the chat completion has in the client's request, if it has another one.
fn own_name(chat: &str) -> Option<String> {
    let name = match chat {
        "stop" => "stop_sequences",
        "response_format" => "output_config.format",
        "reasoning_effort" => "output_config.effort",
        _ => return None,
    };
    Some(name.to_owned())
}

/// The JSON in `text` as a part of a request.
fn parse<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, ApiError> {
    serde_json::from_str(text).map_err(|error| {
        let detail = error.to_string();
        // The value in it may be as long as the body; what was expected instead, and where, comes after it.
        let cut = detail.char_indices().rev().nth(limits::QUOTED_CHARS);
        ApiError::invalid_json(cut.map_or(&*detail, |(start, _)| detail.get(start..).unwrap_or_default()))
    })
}

#[cfg(test)]
mod tests;
