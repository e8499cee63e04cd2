//! The context of a request for translating its answer.

use domain::Timestamp;
use gateway_request::error::ApiError;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::value::RawValue;

use super::{
    input::MessageSource,
    tools::{ClientTool, ToolsByFunction},
};

/// The header that lists what was left out of a request.
const WARNING: HeaderName = HeaderName::from_static("x-svc-warning");

/// The context of a request for translating its answer.
pub struct ResponsesContext {
    /// The common part of the ids of the response and its items.
    pub(super) id: String,
    /// Unix seconds.
    pub(super) created_at: u64,
    pub(super) echo: EchoedFields,
    pub(super) flattened: ToolsByFunction,
    /// Whether the client requested the model's thoughts as a summary.
    pub(super) wants_summary: bool,
    pub(super) places: Vec<MessageSource>,
    pub(super) tool_places: Vec<String>,
    pub(super) warning: Option<HeaderValue>,
}

/// The fields that a response repeats, if they are short: a stream contains them three times, and holds them to its
/// end.
#[derive(Debug)]
pub(super) struct EchoedFields {
    pub(super) model: Option<Box<RawValue>>,
    pub(super) instructions: Option<Box<RawValue>>,
    pub(super) tools: Option<Box<RawValue>>,
    pub(super) tool_choice: Option<Box<RawValue>>,
    pub(super) text: Option<Box<RawValue>>,
    pub(super) reasoning: Option<Box<RawValue>>,
    pub(super) metadata: Option<Box<RawValue>>,
    pub(super) max_output_tokens: Option<Box<RawValue>>,
    pub(super) temperature: Option<Box<RawValue>>,
    pub(super) top_p: Option<Box<RawValue>>,
    pub(super) user: Option<Box<RawValue>>,
    pub(super) safety_identifier: Option<Box<RawValue>>,
    pub(super) prompt_cache_key: Option<Box<RawValue>>,
    pub(super) parallel_tool_calls: bool,
}

impl EchoedFields {
    pub(super) fn if_short(value: Option<&RawValue>) -> Option<Box<RawValue>> {
        value.filter(|value| value.get().len() <= limits::ECHOED_BYTES).map(one_line)
    }

    /// Returns the client's own labels, on which clients rely.
    pub(super) fn metadata(value: Option<&RawValue>) -> Result<Option<Box<RawValue>>, ApiError> {
        match value {
            None => Ok(None),
            Some(value) if !value.get().starts_with('{') => Err(ApiError::invalid_type("metadata", "an object")),
            Some(value) if value.get().len() > limits::METADATA_BYTES => {
                let rule = format!("it is larger than {}", domain::size(limits::METADATA_BYTES as u64));
                Err(ApiError::invalid_value("metadata", &rule))
            }
            Some(value) => Ok(Some(one_line(value))),
        }
    }
}

/// Returns the value on one line, as an event's data requires.
fn one_line(value: &RawValue) -> Box<RawValue> {
    let text = value.get();
    if !text.contains(['\n', '\r']) {
        return value.to_owned();
    }
    // Raw line breaks occur only between tokens.
    RawValue::from_string(text.replace(['\n', '\r'], " ")).unwrap_or_else(|_| value.to_owned())
}

impl ResponsesContext {
    /// Returns the name of a chat completion's field in the client's request.
    pub(crate) fn request_param(&self, chat: &str) -> Option<String> {
        if let Some((index, field)) = indexed(chat, "messages") {
            return Some(match self.places.get(index)? {
                MessageSource::Instructions => "instructions".to_owned(),
                MessageSource::Input => "input".to_owned(),
                MessageSource::Item(item) => {
                    let part = field.starts_with(".content[").then(|| field.split_inclusive(']').next()).flatten();
                    format!("input[{item}]{}", part.unwrap_or_default())
                }
            });
        }
        if let Some((index, field)) = indexed(chat, "tools") {
            let field = field.strip_prefix(".function").unwrap_or(field);
            return Some(format!("{}{field}", self.tool_places.get(index)?));
        }
        responses_field_name(chat).map(str::to_owned)
    }

    /// Sets the response's id, derived from the request's, and its time.
    pub(crate) fn identify(&mut self, request_id: &str, now: Timestamp) {
        request_id.trim_start_matches("req_").clone_into(&mut self.id);
        self.created_at = now.unix_millis() / 1_000;
    }

    pub(crate) fn add_headers(&self, headers: &mut HeaderMap) {
        if let Some(warning) = &self.warning {
            headers.insert(WARNING, warning.clone());
        }
    }

    /// Returns the client's tool behind a function, if it is more than the function.
    pub(super) fn find_tool(&self, function: &str) -> Option<&ClientTool> {
        self.flattened.get(function)
    }
}

/// Returns the name of a chat completion's field in a Responses request, if it differs.
pub(super) fn responses_field_name(chat: &str) -> Option<&'static str> {
    Some(match chat {
        "messages" => "input",
        "max_tokens" | "max_completion_tokens" => "max_output_tokens",
        "reasoning_effort" => "reasoning.effort",
        "verbosity" => "text.verbosity",
        _ if chat.starts_with("response_format") => "text.format",
        _ => return None,
    })
}

/// Parses the index and the rest of a path such as `messages[3].role`.
fn indexed<'p>(place: &'p str, array: &str) -> Option<(usize, &'p str)> {
    let (index, rest) = place.strip_prefix(array)?.strip_prefix('[')?.split_once(']')?;
    Some((index.parse().ok()?, rest))
}
