//! The items of an answer while the model writes them.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    super::chat::Pieces,
    object::{ContentPart, OutputItem},
    tools::ClientTool,
};

/// The kinds of words that a model writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Words {
    Output,
    Refusal,
    Reasoning,
    /// What the model thought, for a client that asked for a summary of it.
    Summary,
}

impl Words {
    /// Whether they are a part of an item of thoughts, and not of a message.
    fn is_thought(self) -> bool {
        matches!(self, Self::Reasoning | Self::Summary)
    }

    /// The events that begin a part of these words, add to it and end it, and that of the end of its words.
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

/// A message, or thoughts, to which the model still adds.
#[derive(Debug)]
pub(super) struct OpenItem {
    pub(super) id: String,
    pub(super) output_index: usize,
    /// The parts that are complete.
    pub(super) parts: Vec<ContentPart>,
    pub(super) words: Words,
    pub(super) text: Pieces,
}

impl OpenItem {
    /// An item that begins with such words.
    pub(super) fn new(words: Words, base: &str, output_index: usize) -> Self {
        let prefix = if words.is_thought() { "rs" } else { "msg" };
        let id = format!("{prefix}_{base}{output_index:02x}");
        Self { id, output_index, parts: Vec::new(), words, text: Pieces::default() }
    }

    /// Whether such words are a part of this item.
    pub(super) fn takes(&self, words: Words) -> bool {
        self.words.is_thought() == words.is_thought()
    }

    /// The item with the parts that are complete, or as it begins.
    pub(super) fn to_item(&self, status: &'static str, parts: Vec<ContentPart>) -> OutputItem {
        let id = self.id.clone();
        match self.words {
            Words::Reasoning => OutputItem::Reasoning { id, status, summary: Vec::new(), content: parts },
            Words::Summary => OutputItem::Reasoning { id, status, summary: parts, content: Vec::new() },
            Words::Output | Words::Refusal => OutputItem::Message { id, status, role: "assistant", content: parts },
        }
    }
}

/// A call of a tool to which the model still adds.
#[derive(Debug)]
pub(super) struct OpenCall {
    /// The number that the chat completion has for it.
    pub(super) index: u64,
    pub(super) id: String,
    pub(super) output_index: usize,
    pub(super) call_id: String,
    /// The function's name, and the client's tool behind it where that is not all.
    pub(super) name: String,
    pub(super) tool: Option<ClientTool>,
    pub(super) arguments: Pieces,
}

/// The arguments of the function that a custom tool has become.
#[derive(Debug, Deserialize)]
struct CustomArguments {
    input: String,
}

impl OpenCall {
    pub(super) fn is_custom(&self) -> bool {
        self.tool.as_ref().is_some_and(|tool| tool.is_custom)
    }

    /// The call as an item, with its arguments, or the text for a custom tool.
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

    /// The arguments, or the text for a custom tool, as a JSON string.
    pub(super) fn take_said(&mut self) -> Box<RawValue> {
        let arguments = std::mem::take(&mut self.arguments).into_json();
        if !self.is_custom() {
            return arguments;
        }
        // A model that has written no such object has probably meant the text itself.
        let decoded = serde_json::from_str::<String>(arguments.get()).ok();
        let custom = decoded.and_then(|text| serde_json::from_str::<CustomArguments>(&text).ok());
        custom.and_then(|custom| serde_json::value::to_raw_value(&custom.input).ok()).unwrap_or(arguments)
    }
}

/// An empty JSON string.
pub(super) fn empty() -> Box<RawValue> {
    Pieces::default().into_json()
}
