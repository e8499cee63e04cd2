//! The details of a usage report that a response reports under other names.

use domain::usage::AssumedKinds;
use serde::Deserialize;

/// The fields of a chat completion's `usage` other than its totals.
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
    pub(super) cost_assumed: Option<AssumedKinds>,
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
