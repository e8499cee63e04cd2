//! The parts of a usage report that [`usage_report`](crate::gateway::usage_report) does not read, as nothing is charged by them.

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
