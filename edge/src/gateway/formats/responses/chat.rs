//! The body of a chat completion, as a translation writes it.

use serde::Serialize;
use serde_json::value::RawValue;

use super::text::{JsonString, Text};

/// The body. Fields that are absent in the client's request are left out.
#[derive(Debug, Serialize)]
pub(super) struct ChatBody<'b> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) model: Option<&'b RawValue>,
    pub(super) messages: Vec<Message<'b>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tools: Vec<Tool<'b>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_choice: Option<ToolChoice>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parallel_tool_calls: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) response_format: Option<ResponseFormat<'b>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) verbosity: Option<JsonString<'b>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reasoning_effort: Option<JsonString<'b>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_tokens: Option<&'b RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) temperature: Option<&'b RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) top_p: Option<&'b RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) user: Option<JsonString<'b>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) safety_identifier: Option<JsonString<'b>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) prompt_cache_key: Option<JsonString<'b>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stream: Option<&'b RawValue>,
}

/// A message.
#[derive(Debug, Default, Serialize)]
pub(super) struct Message<'b> {
    pub(super) role: &'static str,
    pub(super) content: Option<Content<'b>>,
    /// What the model thought before an answer of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reasoning_content: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tool_calls: Vec<ToolCall<'b>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_call_id: Option<JsonString<'b>>,
}

/// The content of a message.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Content<'b> {
    Text(Text<'b>),
    Parts(Vec<Part<'b>>),
}

/// A part of a message's content.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Part<'b> {
    Text { text: Text<'b> },
    ImageUrl { image_url: Image<'b> },
}

#[derive(Debug, Serialize)]
pub(super) struct Image<'b> {
    pub(super) url: JsonString<'b>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) detail: Option<JsonString<'b>>,
}

/// A call of a tool that the model has made.
#[derive(Debug, Serialize)]
pub(super) struct ToolCall<'b> {
    pub(super) id: JsonString<'b>,
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) function: CalledFunction<'b>,
}

#[derive(Debug, Serialize)]
pub(super) struct CalledFunction<'b> {
    pub(super) name: String,
    pub(super) arguments: Text<'b>,
}

/// A tool: all that chat completions have are functions.
#[derive(Debug, Serialize)]
pub(super) struct Tool<'b> {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) function: Function<'b>,
}

#[derive(Debug, Serialize)]
pub(super) struct Function<'b> {
    pub(super) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<Text<'b>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parameters: Option<&'b RawValue>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) strict: bool,
}

/// Which tool the model is to call.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum ToolChoice {
    Mode(&'static str),
    Function {
        #[serde(rename = "type")]
        kind: &'static str,
        function: FunctionName,
    },
}

#[derive(Debug, Serialize)]
pub(super) struct FunctionName {
    pub(super) name: String,
}

/// The format of the model's words.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ResponseFormat<'b> {
    JsonObject,
    JsonSchema { json_schema: JsonSchema<'b> },
}

#[derive(Debug, Serialize)]
pub(super) struct JsonSchema<'b> {
    pub(super) name: JsonString<'b>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<JsonString<'b>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) schema: Option<&'b RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) strict: Option<bool>,
}
