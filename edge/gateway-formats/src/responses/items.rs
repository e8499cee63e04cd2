//! The items of an answer that the model is writing.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    super::chat::TextAssembly,
    object::{ContentPart, OutputItem},
    tools::ClientTool,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WordsKind {
    Output,
    Refusal,
    Reasoning,
    /// Thoughts, for a client that requested a summary of them.
    Summary,
}

impl WordsKind {
    fn is_thought(self) -> bool {
        matches!(self, Self::Reasoning | Self::Summary)
    }

    /// Returns the events that begin a part of these words, add to it, and end its words and the part.
    pub(super) fn events(self) -> [&'static str; 4] {
        match self {
            Self::Output => [
                "response.content_part.added",
                "response.output_text.delta",
                "response.output_text.done",
                "response.content_part.done",
            ],
            Self::Refusal => [
                "response.content_part.added",
                "response.refusal.delta",
                "response.refusal.done",
                "response.content_part.done",
            ],
            Self::Reasoning => [
                "response.content_part.added",
                "response.reasoning_text.delta",
                "response.reasoning_text.done",
                "response.content_part.done",
            ],
            Self::Summary => [
                "response.reasoning_summary_part.added",
                "response.reasoning_summary_text.delta",
                "response.reasoning_summary_text.done",
                "response.reasoning_summary_part.done",
            ],
        }
    }

    pub(super) fn part(self, text: Box<RawValue>) -> ContentPart {
        match self {
            Self::Output => ContentPart::OutputText { annotations: [], logprobs: [], text },
            Self::Refusal => ContentPart::Refusal { refusal: text },
            Self::Reasoning => ContentPart::ReasoningText { text },
            Self::Summary => ContentPart::SummaryText { text },
        }
    }
}

/// A message or thoughts that the model is still writing.
#[derive(Debug)]
pub(super) struct OpenItem {
    pub(super) id: String,
    pub(super) output_index: usize,
    pub(super) parts: Vec<ContentPart>,
    pub(super) words: WordsKind,
    pub(super) text: TextAssembly,
}

impl OpenItem {
    pub(super) fn new(words: WordsKind, base: &str, output_index: usize) -> Self {
        let prefix = if words.is_thought() { "rs" } else { "msg" };
        let id = format!("{prefix}_{base}{output_index:02x}");
        Self { id, output_index, parts: Vec::new(), words, text: TextAssembly::default() }
    }

    pub(super) fn accepts(&self, words: WordsKind) -> bool {
        self.words.is_thought() == words.is_thought()
    }

    /// Returns the item with its complete parts, or none at its start.
    pub(super) fn to_item(&self, status: &'static str, parts: Vec<ContentPart>) -> OutputItem {
        let id = self.id.clone();
        match self.words {
            WordsKind::Reasoning => OutputItem::Reasoning { id, status, summary: Vec::new(), content: parts },
            WordsKind::Summary => OutputItem::Reasoning { id, status, summary: parts, content: Vec::new() },
            WordsKind::Output | WordsKind::Refusal => {
                OutputItem::Message { id, status, role: "assistant", content: parts }
            }
        }
    }
}

/// A tool call that the model is still writing.
#[derive(Debug)]
pub(super) struct OpenCall {
    /// The call's index in the chat completion.
    pub(super) index: u64,
    pub(super) id: String,
    pub(super) output_index: usize,
    pub(super) call_id: String,
    /// The function's name, and the client's tool if that is more than the function.
    pub(super) name: String,
    pub(super) tool: Option<ClientTool>,
    pub(super) arguments: TextAssembly,
}

/// The arguments of the function that stands for a custom tool.
#[derive(Debug, Deserialize)]
struct CustomArguments {
    input: String,
}

impl OpenCall {
    pub(super) fn is_custom(&self) -> bool {
        self.tool.as_ref().is_some_and(|tool| tool.is_custom)
    }

    /// Returns the call as an item with its arguments, or with the input of a custom tool.
    pub(super) fn to_item(&self, status: &'static str, said: Box<RawValue>) -> OutputItem {
        let (id, call_id) = (self.id.clone(), self.call_id.clone());
        let (name, namespace) = match &self.tool {
            Some(tool) => (tool.name.clone(), tool.namespace.clone()),
            None => (self.name.clone(), None),
        };
        if self.is_custom() {
            OutputItem::CustomToolCall { id, status, call_id, name, namespace, input: said }
        } else {
            OutputItem::FunctionCall { id, status, call_id, name, namespace, arguments: said }
        }
    }

    /// Returns the arguments, or the input of a custom tool, as a JSON string.
    pub(super) fn take_arguments(&mut self) -> Box<RawValue> {
        let arguments = std::mem::take(&mut self.arguments).into_json();
        if !self.is_custom() {
            return arguments;
        }
        // A model that wrote something else probably meant the text itself.
        let decoded = serde_json::from_str::<String>(arguments.get()).ok();
        let custom = decoded.and_then(|text| serde_json::from_str::<CustomArguments>(&text).ok());
        custom.and_then(|custom| serde_json::value::to_raw_value(&custom.input).ok()).unwrap_or(arguments)
    }
}

pub(super) fn empty() -> Box<RawValue> {
    TextAssembly::default().into_json()
}
