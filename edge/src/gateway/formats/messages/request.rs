//! The body of a request, as far as it is looked at. Fields that are not here mean nothing to the models that the gateway
//! serves (`cache_control`, `metadata`, `context_management`, `service_tier`, …) and are skipped.
//!
//! Text stays in its JSON form, so that it is copied without being decoded.

use std::{
    borrow::{Borrow, Cow},
    ops::Deref,
};

use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::RawValue;

/// A decoded string, which is copied only if it has escapes.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(transparent)]
pub(super) struct Str<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

impl Borrow<str> for Str<'_> {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl Deref for Str<'_> {
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
    #[serde(borrow)]
    pub(super) messages: Option<Vec<Message<'a>>>,
    #[serde(borrow)]
    pub(super) system: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) tools: Option<Vec<Tool<'a>>>,
    #[serde(borrow)]
    pub(super) tool_choice: Option<ToolChoice<'a>>,
    #[serde(borrow)]
    pub(super) thinking: Option<Thinking<'a>>,
    #[serde(borrow)]
    pub(super) output_config: Option<OutputConfig<'a>>,
    /// The older place of `output_config.format`.
    #[serde(borrow)]
    pub(super) output_format: Option<OutputFormat<'a>>,
    #[serde(borrow)]
    pub(super) stop_sequences: Option<Vec<Str<'a>>>,
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
pub(super) struct Message<'a> {
    #[serde(borrow)]
    pub(super) role: Cow<'a, str>,
    /// A string or blocks.
    #[serde(borrow)]
    pub(super) content: &'a RawValue,
}

/// A content block of any type, with the fields of all of them.
#[derive(Deserialize)]
pub(super) struct Block<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Cow<'a, str>,
    /// Of `text`.
    #[serde(borrow)]
    pub(super) text: Option<&'a RawValue>,
    /// Of `thinking`.
    #[serde(borrow)]
    pub(super) thinking: Option<&'a RawValue>,
    /// Of `image` and `document` an object, of `search_result` a string.
    #[serde(borrow)]
    pub(super) source: Option<&'a RawValue>,
    /// Of `document` and `search_result`.
    #[serde(borrow)]
    pub(super) title: Option<Str<'a>>,
    /// Of `document`.
    #[serde(borrow)]
    pub(super) context: Option<Str<'a>>,
    /// Of `tool_use`, with the two that follow.
    #[serde(borrow)]
    pub(super) id: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) name: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) input: Option<&'a RawValue>,
    /// Of `tool_result`, with the two that follow.
    #[serde(borrow)]
    pub(super) tool_use_id: Option<&'a RawValue>,
    /// A string or blocks; of `search_result`, too.
    #[serde(borrow)]
    pub(super) content: Option<&'a RawValue>,
    pub(super) is_error: Option<bool>,
    /// Of `tool_reference`.
    #[serde(borrow)]
    pub(super) tool_name: Option<Str<'a>>,
    /// Of `tool_addition` and `tool_removal`.
    #[serde(borrow)]
    pub(super) tool: Option<ToolChange<'a>>,
}

impl<'a> Block<'a> {
    /// A block of text, which is a JSON string.
    pub(super) fn of_text(text: &'a RawValue) -> Self {
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
pub(super) struct Source<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) media_type: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) data: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) url: Option<&'a RawValue>,
    /// A string or blocks.
    #[serde(borrow)]
    pub(super) content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct Tool<'a> {
    /// Absent, null or `custom` for the client's own; anything else is a tool that Anthropic has defined.
    #[serde(rename = "type", borrow)]
    pub(super) kind: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) name: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) description: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) input_schema: Option<&'a RawValue>,
    pub(super) strict: Option<bool>,
    /// Whether the model sees it only after a `tool_reference` or `tool_addition` has named it.
    pub(super) defer_loading: Option<bool>,
}

/// What `tool_addition` and `tool_removal` are about.
#[derive(Deserialize)]
pub(super) struct ToolChange<'a> {
    /// The name of a tool in `tools`.
    #[serde(borrow)]
    pub(super) name: Option<Str<'a>>,
    /// A tool that is defined here.
    #[serde(borrow)]
    pub(super) definition: Option<Box<Tool<'a>>>,
}

#[derive(Deserialize)]
pub(super) struct ToolChoice<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) name: Option<Str<'a>>,
    pub(super) disable_parallel_tool_use: Option<bool>,
}

#[derive(Deserialize)]
pub(super) struct Thinking<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Cow<'a, str>,
    pub(super) budget_tokens: Option<u64>,
}

#[derive(Deserialize)]
pub(super) struct OutputConfig<'a> {
    #[serde(borrow)]
    pub(super) effort: Option<Str<'a>>,
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
