//! The fields of a chat completion that a response is made of: those of a whole answer, and of a frame.

use domain::usage::Assumed;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::text::JsonString;

/// A frame of a stream, or a whole answer.
#[derive(Debug, Deserialize)]
pub(super) struct Completion<'c> {
    #[serde(borrow)]
    pub(super) choices: Option<Vec<Choice<'c>>>,
    #[serde(borrow)]
    pub(super) usage: Option<&'c RawValue>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Choice<'c> {
    pub(super) index: Option<u64>,
    /// In a frame.
    #[serde(borrow)]
    pub(super) delta: Option<Delta<'c>>,
    /// In a whole answer.
    #[serde(borrow)]
    pub(super) message: Option<Delta<'c>>,
    #[serde(borrow)]
    pub(super) finish_reason: Option<JsonString<'c>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Delta<'c> {
    #[serde(borrow)]
    pub(super) content: Option<JsonString<'c>>,
    #[serde(borrow)]
    pub(super) reasoning_content: Option<JsonString<'c>>,
    /// The name that newer servers have for `reasoning_content`; some send both.
    #[serde(borrow)]
    pub(super) reasoning: Option<JsonString<'c>>,
    #[serde(borrow)]
    pub(super) refusal: Option<JsonString<'c>>,
    #[serde(borrow)]
    pub(super) tool_calls: Option<Vec<CallDelta<'c>>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct CallDelta<'c> {
    pub(super) index: Option<u64>,
    #[serde(borrow)]
    pub(super) id: Option<JsonString<'c>>,
    #[serde(borrow)]
    pub(super) function: Option<FunctionDelta<'c>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct FunctionDelta<'c> {
    #[serde(borrow)]
    pub(super) name: Option<JsonString<'c>>,
    #[serde(borrow)]
    pub(super) arguments: Option<JsonString<'c>>,
}

/// The parts of a usage report that a response says in other words, beside its sums.
#[derive(Debug, Default, Clone, Copy, Deserialize)]
pub(super) struct UsageDetails {
    #[serde(default)]
    pub(super) prompt_tokens_details: Option<PromptDetails>,
    #[serde(default)]
    pub(super) completion_tokens_details: Option<CompletionDetails>,
    #[serde(default)]
    pub(super) estimated: bool,
    #[serde(default)]
    pub(super) cost_microeuros: Option<u64>,
    #[serde(default)]
    pub(super) cost_assumed: Option<Assumed>,
}

#[derive(Debug, Default, Clone, Copy, Deserialize)]
pub(super) struct PromptDetails {
    #[serde(default)]
    pub(super) cached_tokens: Option<u64>,
}

#[derive(Debug, Default, Clone, Copy, Deserialize)]
pub(super) struct CompletionDetails {
    #[serde(default)]
    pub(super) reasoning_tokens: Option<u64>,
}
