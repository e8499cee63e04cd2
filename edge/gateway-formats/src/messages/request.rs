//! The body of a request, as far as it is used. Other fields have no meaning for the models that the gateway serves
//! (`cache_control`, `metadata`, `context_management`, `service_tier`, …) and are ignored.
//!
//! Text stays in its JSON form, so that it is copied without decoding.

use std::{
    borrow::{Borrow, Cow},
    ops::Deref,
};

use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::RawValue;

/// A decoded string, copied only if it has escapes.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(transparent)]
pub(super) struct DecodedStr<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

impl Borrow<str> for DecodedStr<'_> {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl Deref for DecodedStr<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// `POST /v1/messages`, or `…/count_tokens`.
#[derive(Deserialize)]
pub(super) struct MessagesRequest<'a> {
    #[serde(borrow)]
    pub(super) model: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) max_tokens: Option<&'a RawValue>,
    /// An array of [`InputMessage`].
    #[serde(borrow)]
    pub(super) messages: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) system: Option<&'a RawValue>,
    /// An array of [`InputTool`].
    #[serde(borrow)]
    pub(super) tools: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) tool_choice: Option<InputToolChoice<'a>>,
    #[serde(borrow)]
    pub(super) thinking: Option<ThinkingConfig<'a>>,
    #[serde(borrow)]
    pub(super) output_config: Option<OutputConfig<'a>>,
    /// The older form of `output_config.format`.
    #[serde(borrow)]
    pub(super) output_format: Option<OutputFormat<'a>>,
    /// An array of strings.
    #[serde(borrow)]
    pub(super) stop_sequences: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) temperature: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) top_p: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) top_k: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) stream: Option<&'a RawValue>,
    pub(super) container: Option<IgnoredAny>,
    pub(super) mcp_servers: Option<Vec<IgnoredAny>>,
}

#[derive(Deserialize)]
pub(super) struct InputMessage<'a> {
    #[serde(borrow)]
    pub(super) role: Cow<'a, str>,
    /// A string or blocks.
    #[serde(borrow)]
    pub(super) content: &'a RawValue,
}

/// A content block of any type, with the fields of all types.
#[derive(Deserialize)]
pub(super) struct InputBlock<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Cow<'a, str>,
    /// For `text`.
    #[serde(borrow)]
    pub(super) text: Option<&'a RawValue>,
    /// For `thinking`.
    #[serde(borrow)]
    pub(super) thinking: Option<&'a RawValue>,
    /// An object for `image` and `document`, a string for `search_result`.
    #[serde(borrow)]
    pub(super) source: Option<&'a RawValue>,
    /// For `document` and `search_result`.
    #[serde(borrow)]
    pub(super) title: Option<DecodedStr<'a>>,
    /// For `document`.
    #[serde(borrow)]
    pub(super) context: Option<DecodedStr<'a>>,
    /// For `tool_use`, like the next two fields.
    #[serde(borrow)]
    pub(super) id: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) name: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) input: Option<&'a RawValue>,
    /// For `tool_result`, like the next two fields.
    #[serde(borrow)]
    pub(super) tool_use_id: Option<&'a RawValue>,
    /// A string or blocks; also for `search_result`.
    #[serde(borrow)]
    pub(super) content: Option<&'a RawValue>,
    pub(super) is_error: Option<bool>,
    /// For `tool_reference`.
    #[serde(borrow)]
    pub(super) tool_name: Option<DecodedStr<'a>>,
    /// For `tool_addition` and `tool_removal`.
    #[serde(borrow)]
    pub(super) tool: Option<ToolChange<'a>>,
}

impl<'a> InputBlock<'a> {
    pub(super) fn from_text(text: &'a RawValue) -> Self {
        Self {
            kind: Cow::Borrowed("text"),
            text: Some(text),
            thinking: None,
            source: None,
            title: None,
            context: None,
            id: None,
            name: None,
            input: None,
            tool_use_id: None,
            content: None,
            is_error: None,
            tool_name: None,
            tool: None,
        }
    }
}

/// The source of an image or a document.
#[derive(Deserialize)]
pub(super) struct BlockSource<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) media_type: Option<DecodedStr<'a>>,
    #[serde(borrow)]
    pub(super) data: Option<DecodedStr<'a>>,
    #[serde(borrow)]
    pub(super) url: Option<&'a RawValue>,
    /// A string or blocks.
    #[serde(borrow)]
    pub(super) content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct InputTool<'a> {
    /// Absent, null or `custom` for the client's own tools; any other type is a tool defined by Anthropic.
    #[serde(rename = "type", borrow)]
    pub(super) kind: Option<DecodedStr<'a>>,
    #[serde(borrow)]
    pub(super) name: Option<DecodedStr<'a>>,
    #[serde(borrow)]
    pub(super) description: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) input_schema: Option<&'a RawValue>,
    pub(super) strict: Option<bool>,
    /// Whether the model sees the tool only after a `tool_reference` or `tool_addition` names it.
    pub(super) defer_loading: Option<bool>,
}

#[derive(Deserialize)]
pub(super) struct ToolChange<'a> {
    /// The name of a tool in `tools`.
    #[serde(borrow)]
    pub(super) name: Option<DecodedStr<'a>>,
    /// A tool defined here.
    #[serde(borrow)]
    pub(super) definition: Option<Box<InputTool<'a>>>,
}

#[derive(Deserialize)]
pub(super) struct InputToolChoice<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) name: Option<DecodedStr<'a>>,
    pub(super) disable_parallel_tool_use: Option<bool>,
}

#[derive(Deserialize)]
pub(super) struct ThinkingConfig<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Cow<'a, str>,
    pub(super) budget_tokens: Option<u64>,
}

#[derive(Deserialize)]
pub(super) struct OutputConfig<'a> {
    #[serde(borrow)]
    pub(super) effort: Option<DecodedStr<'a>>,
    #[serde(borrow)]
    pub(super) format: Option<OutputFormat<'a>>,
}

#[derive(Deserialize)]
pub(super) struct OutputFormat<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) schema: Option<&'a RawValue>,
}
