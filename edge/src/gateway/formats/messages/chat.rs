//! The body of a chat completion, as it is written for a translated request.

use std::borrow::Cow;

use serde::{Serialize, Serializer, ser::SerializeMap as _};
use serde_json::value::RawValue;

#[derive(Serialize)]
pub(super) struct ChatBody<'a> {
    pub(super) model: &'a RawValue,
    pub(super) messages: Vec<ChatMessage<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_tokens: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stream: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tools: Vec<ChatTool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_choice: Option<Choice<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parallel_tool_calls: Option<bool>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(super) stop: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) temperature: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) top_p: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) top_k: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reasoning_effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) response_format: Option<ResponseFormat<'a>>,
}

#[derive(Serialize)]
pub(super) struct ChatMessage<'a> {
    pub(super) role: &'static str,
    pub(super) content: Content<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reasoning_content: Option<Text<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tool_calls: Vec<ToolCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_call_id: Option<&'a RawValue>,
}

impl<'a> ChatMessage<'a> {
    pub(super) fn new(role: &'static str, content: Content<'a>) -> Self {
        Self { role, content, reasoning_content: None, tool_calls: Vec::new(), tool_call_id: None }
    }
}

/// The content of a message.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Content<'a> {
    Null,
    Text(Text<'a>),
    Parts(Vec<Part<'a>>),
}

/// A text, as a JSON string or decoded.
#[derive(Serialize, Clone)]
#[serde(untagged)]
pub(super) enum Text<'a> {
    Raw(&'a RawValue),
    Decoded(Cow<'a, str>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Part<'a> {
    Text { text: Text<'a> },
    ImageUrl { image_url: Image<'a> },
}

#[derive(Serialize)]
pub(super) struct Image<'a> {
    pub(super) url: ImageUrl<'a>,
}

/// The address of an image.
pub(super) enum ImageUrl<'a> {
    Given(&'a RawValue),
    /// The image itself, in base64.
    Inline {
        media_type: Cow<'a, str>,
        data: Cow<'a, str>,
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

#[derive(Serialize)]
pub(super) struct ToolCall<'a> {
    pub(super) id: &'a RawValue,
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) function: Call<'a>,
}

#[derive(Serialize)]
pub(super) struct Call<'a> {
    pub(super) name: &'a RawValue,
    pub(super) arguments: Arguments<'a>,
}

/// Arguments in JSON, which a chat completion has in a string.
pub(super) struct Arguments<'a>(pub(super) Option<&'a RawValue>);

impl Serialize for Arguments<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.map_or("{}", RawValue::get))
    }
}

#[derive(Serialize)]
pub(super) struct ChatTool<'a> {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) function: Function<'a>,
}

#[derive(Serialize)]
pub(super) struct Function<'a> {
    pub(super) name: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<&'a RawValue>,
    pub(super) parameters: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) strict: Option<bool>,
}

/// Which tool the model is to call.
pub(super) enum Choice<'a> {
    Word(&'static str),
    Tool(Cow<'a, str>),
}

impl Serialize for Choice<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Named<'a> {
            name: &'a str,
        }
        match self {
            Self::Word(word) => serializer.serialize_str(word),
            Self::Tool(name) => {
                let mut map = serializer.serialize_map(Some(2))?;
                map.serialize_entry("type", "function")?;
                map.serialize_entry("function", &Named { name })?;
                map.end()
            }
        }
    }
}

#[derive(Serialize)]
pub(super) struct ResponseFormat<'a> {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) json_schema: JsonSchema<'a>,
}

#[derive(Serialize)]
pub(super) struct JsonSchema<'a> {
    pub(super) name: &'static str,
    pub(super) strict: bool,
    pub(super) schema: &'a RawValue,
}
