//! The parts of a usage report that a response says in other words, beside its sums.

use domain::usage::Assumed;
use serde::Deserialize;

/// What a chat completion's `usage` may say beside its sums.
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
