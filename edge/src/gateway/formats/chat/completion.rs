//! The fields of a chat completion that an answer in another format is made of: those of a whole one, and of a frame. Words are
//! strings, or the answer is none; what else should be a string and is none counts as absent.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::text::JsonString;

/// A frame of a stream, or a whole answer.
#[derive(Debug, Deserialize)]
pub(in super::super) struct Completion<'c> {
    #[serde(borrow)]
    pub(in super::super) choices: Option<Vec<Choice<'c>>>,
    #[serde(borrow)]
    pub(in super::super) usage: Option<&'c RawValue>,
}

/// One of a chat completion's choices, or of a frame's.
#[derive(Debug, Deserialize)]
pub(in super::super) struct Choice<'c> {
    pub(in super::super) index: Option<u64>,
    /// In a frame.
    #[serde(borrow)]
    delta: Option<Said<'c>>,
    /// In a whole answer.
    #[serde(borrow)]
    message: Option<Said<'c>>,
    #[serde(borrow)]
    finish_reason: Option<&'c RawValue>,
    /// The text at which the model was stopped, or the number of its last token: vLLM's name of it, and that of `SGLang`.
    #[serde(borrow)]
    stop_reason: Option<&'c RawValue>,
    #[serde(borrow)]
    matched_stop: Option<&'c RawValue>,
}

/// What the model says: in a frame, a piece of it.
#[derive(Debug, Deserialize)]
pub(in super::super) struct Said<'c> {
    #[serde(borrow)]
    content: Option<JsonString<'c>>,
    #[serde(borrow)]
    reasoning_content: Option<&'c RawValue>,
    /// The newer name of the same; some servers send both.
    #[serde(borrow)]
    reasoning: Option<&'c RawValue>,
    #[serde(borrow)]
    refusal: Option<&'c RawValue>,
    #[serde(borrow)]
    tool_calls: Option<Vec<ToolCall<'c>>>,
}

/// A call of a tool: in a frame, a piece of one.
#[derive(Debug, Deserialize)]
pub(in super::super) struct ToolCall<'c> {
    pub(in super::super) index: Option<u64>,
    #[serde(borrow)]
    id: Option<&'c RawValue>,
    #[serde(borrow)]
    function: Option<Function<'c>>,
}

#[derive(Debug, Deserialize)]
struct Function<'c> {
    #[serde(borrow)]
    name: Option<&'c RawValue>,
    #[serde(borrow)]
    arguments: Option<&'c RawValue>,
}

impl<'c> Choice<'c> {
    /// What the model says.
    pub(in super::super) fn said(&self) -> Option<&Said<'c>> {
        self.delta.as_ref().or(self.message.as_ref())
    }

    /// Why the choice ends, if it does.
    pub(in super::super) fn finish_reason(&self) -> Option<JsonString<'c>> {
        self.finish_reason.and_then(JsonString::of)
    }

    /// The text at which the model was stopped.
    pub(in super::super) fn stop(&self) -> Option<JsonString<'c>> {
        text(self.stop_reason).or_else(|| text(self.matched_stop))
    }
}

impl<'c> Said<'c> {
    /// The words, if there are any.
    pub(in super::super) fn content(&self) -> Option<JsonString<'c>> {
        self.content.filter(|text| !text.escaped().is_empty())
    }

    /// The words with which the model refuses, if there are any.
    pub(in super::super) fn refusal(&self) -> Option<JsonString<'c>> {
        text(self.refusal)
    }

    /// The thoughts, if there are any.
    pub(in super::super) fn thoughts(&self) -> Option<JsonString<'c>> {
        text(self.reasoning_content).or_else(|| text(self.reasoning))
    }

    /// The calls of tools.
    pub(in super::super) fn calls(&self) -> &[ToolCall<'c>] {
        self.tool_calls.as_deref().unwrap_or_default()
    }
}

impl<'c> ToolCall<'c> {
    pub(in super::super) fn id(&self) -> Option<JsonString<'c>> {
        text(self.id)
    }

    pub(in super::super) fn name(&self) -> Option<JsonString<'c>> {
        text(self.function.as_ref()?.name)
    }

    /// The arguments: JSON in a string, or, from some servers, an object.
    pub(in super::super) fn arguments(&self) -> Option<&'c RawValue> {
        self.function.as_ref()?.arguments
    }
}

/// The field, if it is a string with anything in it.
fn text(field: Option<&RawValue>) -> Option<JsonString<'_>> {
    field.and_then(JsonString::of).filter(|text| !text.escaped().is_empty())
}
