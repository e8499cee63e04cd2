//! The body of a chat completion as written by a translation.

use std::borrow::Cow;

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::text::{ChatText, JsonString};

/// The body's fields beside the model and the messages. Fields that the client's request lacks are omitted.
#[derive(Debug, Default, Serialize)]
pub(in super::super) struct ChatBody<'b> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(in super::super) tools: Vec<ChatTool<'b>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in super::super) tool_choice: Option<ToolChoice<'b>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in super::super) parallel_tool_calls: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in super::super) response_format: Option<ResponseFormat<'b>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in super::super) verbosity: Option<JsonString<'b>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in super::super) reasoning_effort: Option<ChatText<'b>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in super::super) max_tokens: Option<&'b RawValue>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(in super::super) stop: &'b [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in super::super) temperature: Option<&'b RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in super::super) top_p: Option<&'b RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in super::super) top_k: Option<&'b RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in super::super) user: Option<JsonString<'b>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in super::super) safety_identifier: Option<JsonString<'b>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in super::super) prompt_cache_key: Option<JsonString<'b>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in super::super) stream: Option<&'b RawValue>,
}

#[derive(Debug, Default, Serialize)]
pub(in super::super) struct ChatMessage<'b> {
    pub(in super::super) role: &'static str,
    pub(in super::super) content: Option<MessageContent<'b>>,
    /// The model's thoughts before its answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in super::super) reasoning_content: Option<ChatText<'b>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(in super::super) tool_calls: Vec<AssistantToolCall<'b>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in super::super) tool_call_id: Option<JsonString<'b>>,
}

impl<'b> ChatMessage<'b> {
    pub(in super::super) fn new(role: &'static str, content: MessageContent<'b>) -> Self {
        Self { role, content: Some(content), ..Self::default() }
    }
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(in super::super) enum MessageContent<'b> {
    Text(ChatText<'b>),
    Parts(Vec<ChatPart<'b>>),
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(in super::super) enum ChatPart<'b> {
    Text {
        text: ChatText<'b>,
    },
    /// Boxed, as most of many parts are texts.
    ImageUrl {
        image_url: Box<ImageContent<'b>>,
    },
}

#[derive(Debug, Serialize)]
pub(in super::super) struct ImageContent<'b> {
    pub(in super::super) url: ImageUrl<'b>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in super::super) detail: Option<JsonString<'b>>,
}

#[derive(Debug)]
pub(in super::super) enum ImageUrl<'b> {
    Given(JsonString<'b>),
    /// The image's data in base64.
    Inline {
        media_type: Cow<'b, str>,
        data: Cow<'b, str>,
    },
}

impl Serialize for ImageUrl<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Given(url) => url.serialize(serializer),
            Self::Inline { media_type, data } => {
                serializer.collect_str(&format_args!("data:{media_type};base64,{data}"))
            }
        }
    }
}

#[derive(Debug, Serialize)]
pub(in super::super) struct AssistantToolCall<'b> {
    pub(in super::super) id: JsonString<'b>,
    #[serde(rename = "type")]
    pub(in super::super) kind: &'static str,
    pub(in super::super) function: FunctionCall<'b>,
}

impl<'b> AssistantToolCall<'b> {
    pub(in super::super) fn new(id: JsonString<'b>, name: ChatText<'b>, arguments: CallArguments<'b>) -> Self {
        Self { id, kind: "function", function: FunctionCall { name, arguments } }
    }
}

#[derive(Debug, Serialize)]
pub(in super::super) struct FunctionCall<'b> {
    pub(in super::super) name: ChatText<'b>,
    pub(in super::super) arguments: CallArguments<'b>,
}

/// The arguments of a call, which chat completions carry as JSON in a string.
#[derive(Debug)]
pub(in super::super) enum CallArguments<'b> {
    /// Already in a string.
    Text(ChatText<'b>),
    /// As JSON; an empty object if absent.
    Json(Option<&'b RawValue>),
}

impl Serialize for CallArguments<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => text.serialize(serializer),
            Self::Json(json) => serializer.serialize_str(json.map_or("{}", RawValue::get)),
        }
    }
}

/// A tool. In chat completions, all tools are functions.
#[derive(Debug, Serialize)]
pub(in super::super) struct ChatTool<'b> {
    #[serde(rename = "type")]
    kind: &'static str,
    pub(in super::super) function: FunctionDefinition<'b>,
}

impl<'b> From<FunctionDefinition<'b>> for ChatTool<'b> {
    fn from(function: FunctionDefinition<'b>) -> Self {
        Self { kind: "function", function }
    }
}

#[derive(Debug, Serialize)]
pub(in super::super) struct FunctionDefinition<'b> {
    pub(in super::super) name: Cow<'b, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in super::super) description: Option<ChatText<'b>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in super::super) parameters: Option<&'b RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in super::super) strict: Option<bool>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(in super::super) enum ToolChoice<'b> {
    Mode(&'static str),
    Function {
        #[serde(rename = "type")]
        kind: &'static str,
        function: FunctionName<'b>,
    },
}

impl<'b> ToolChoice<'b> {
    pub(in super::super) fn function(name: Cow<'b, str>) -> Self {
        Self::Function { kind: "function", function: FunctionName { name } }
    }
}

#[derive(Debug, Serialize)]
pub(in super::super) struct FunctionName<'b> {
    name: Cow<'b, str>,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(in super::super) enum ResponseFormat<'b> {
    JsonObject,
    JsonSchema { json_schema: JsonSchema<'b> },
}

#[derive(Debug, Serialize)]
pub(in super::super) struct JsonSchema<'b> {
    pub(in super::super) name: ChatText<'b>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in super::super) description: Option<JsonString<'b>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in super::super) schema: Option<&'b RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in super::super) strict: Option<bool>,
}
