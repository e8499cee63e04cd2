//! The fields of a chat completion, whole or in frames, from which answers in other formats are made. Words must be
//! strings, or the answer is invalid; other fields of the wrong type count as absent.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::text::JsonString;

/// A frame of a stream, or a whole answer.
#[derive(Debug, Deserialize)]
pub(in super::super) struct ChatCompletion<'c> {
    #[serde(borrow)]
    pub(in super::super) choices: Option<Vec<CompletionChoice<'c>>>,
    #[serde(borrow)]
    pub(in super::super) usage: Option<&'c RawValue>,
}

#[derive(Debug, Deserialize)]
pub(in super::super) struct CompletionChoice<'c> {
    pub(in super::super) index: Option<u64>,
    /// In a frame.
    #[serde(borrow)]
    delta: Option<ModelOutput<'c>>,
    /// In a whole answer.
    #[serde(borrow)]
    message: Option<ModelOutput<'c>>,
    #[serde(borrow)]
    finish_reason: Option<&'c RawValue>,
    /// The text that stopped the model, or the number of its last token: `stop_reason` in vLLM, `matched_stop` in
    /// `SGLang`.
    #[serde(borrow)]
    stop_reason: Option<&'c RawValue>,
    #[serde(borrow)]
    matched_stop: Option<&'c RawValue>,
}

/// The model's output, or a piece of it in a frame.
#[derive(Debug, Deserialize)]
pub(in super::super) struct ModelOutput<'c> {
    #[serde(borrow)]
    content: Option<JsonString<'c>>,
    #[serde(borrow)]
    reasoning_content: Option<&'c RawValue>,
    /// The newer name of `reasoning_content`; some servers send both.
    #[serde(borrow)]
    reasoning: Option<&'c RawValue>,
    #[serde(borrow)]
    refusal: Option<&'c RawValue>,
    #[serde(borrow)]
    tool_calls: Option<Vec<ToolCall<'c>>>,
}

#[derive(Debug, Deserialize)]
pub(in super::super) struct ToolCall<'c> {
    pub(in super::super) index: Option<u64>,
    #[serde(borrow)]
    id: Option<&'c RawValue>,
    #[serde(borrow)]
    function: Option<CompletionFunction<'c>>,
}

#[derive(Debug, Deserialize)]
struct CompletionFunction<'c> {
    #[serde(borrow)]
    name: Option<&'c RawValue>,
    #[serde(borrow)]
    arguments: Option<&'c RawValue>,
}

impl<'c> CompletionChoice<'c> {
    pub(in super::super) fn output(&self) -> Option<&ModelOutput<'c>> {
        self.delta.as_ref().or(self.message.as_ref())
    }

    pub(in super::super) fn finish_reason(&self) -> Option<JsonString<'c>> {
        self.finish_reason.and_then(JsonString::from_raw)
    }

    pub(in super::super) fn stop(&self) -> Option<JsonString<'c>> {
        non_empty_string(self.stop_reason).or_else(|| non_empty_string(self.matched_stop))
    }
}

impl<'c> ModelOutput<'c> {
    /// Returns the words, if not empty.
    pub(in super::super) fn content(&self) -> Option<JsonString<'c>> {
        self.content.filter(|text| !text.escaped().is_empty())
    }

    /// Returns the refusal, if not empty.
    pub(in super::super) fn refusal(&self) -> Option<JsonString<'c>> {
        non_empty_string(self.refusal)
    }

    /// Returns the thoughts, if not empty.
    pub(in super::super) fn thoughts(&self) -> Option<JsonString<'c>> {
        non_empty_string(self.reasoning_content).or_else(|| non_empty_string(self.reasoning))
    }

    pub(in super::super) fn calls(&self) -> &[ToolCall<'c>] {
        self.tool_calls.as_deref().unwrap_or_default()
    }
}

impl<'c> ToolCall<'c> {
    pub(in super::super) fn id(&self) -> Option<JsonString<'c>> {
        non_empty_string(self.id)
    }

    pub(in super::super) fn name(&self) -> Option<JsonString<'c>> {
        non_empty_string(self.function.as_ref()?.name)
    }

    /// Returns the arguments: JSON in a string, or an object from some servers.
    pub(in super::super) fn arguments(&self) -> Option<&'c RawValue> {
        self.function.as_ref()?.arguments
    }
}

fn non_empty_string(field: Option<&RawValue>) -> Option<JsonString<'_>> {
    field.and_then(JsonString::from_raw).filter(|text| !text.escaped().is_empty())
}
