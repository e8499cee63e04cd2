//! `/usage/ai` and `/orgs/:name/usage/ai`, with what is below them.

use domain::{
    CompletionId, Timestamp, TokenId,
    month::Month,
    usage::{Ending, MonthlyLimit},
};
use serde::{Deserialize, Serialize};

/// The month that is asked for.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
pub struct UsageQuery {
    /// The month as `YYYY-MM`, in UTC; the current one when absent.
    #[cfg_attr(feature = "openapi", param(value_type = Option<String>, pattern = "^[0-9]{4}-(0[1-9]|1[0-2])$", example = "2026-11"))]
    pub month: Option<Month>,
}

/// An account's use of the AI gateway in a month: counts and names of models, never prompts or completions.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AiUsage {
    /// The usage of each model, sorted by its id.
    pub usage: Vec<ModelUsage>,
    /// The usage of all models together.
    pub totals: UsageTotals,
}

/// An account's use of the AI gateway on the days of a month.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AiUsageDays {
    /// The UTC days with a completion, in their order.
    pub days: Vec<AiUsageDay>,
}

/// An account's use of the AI gateway on a UTC day.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AiUsageDay {
    /// The day, as `YYYY-MM-DD`.
    #[cfg_attr(feature = "openapi", schema(pattern = "^[0-9]{4}-[0-9]{2}-[0-9]{2}$", example = "2026-11-22"))]
    pub day: String,
    /// The usage of each model, sorted by its id.
    pub usage: Vec<ModelUsage>,
}

/// The limit that an organization has set for the cost of all its AI keys in a UTC month.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AiLimit {
    /// The limit in euro cents; null when only the plan bounds the cost.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u32>, maximum = 100_000_000))]
    pub monthly_limit_cents: Option<MonthlyLimit>,
    /// What the keys have cost in this UTC month, in euro cents, rounded up.
    pub month_cents: u64,
    /// What the keys have cost in this UTC month, in millionths of a euro cent, exactly. Absent from a service of the version before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = u64))]
    pub month_microcents: Option<u64>,
}

/// The request to limit the cost of an organization's AI keys in a UTC month.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SetAiLimit {
    /// The limit in euro cents; null removes it.
    #[serde(deserialize_with = "super::nullable")]
    #[cfg_attr(feature = "openapi", schema(required, value_type = Option<u32>, maximum = 100_000_000))]
    pub monthly_limit_cents: Option<MonthlyLimit>,
}

/// The usage of one model.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ModelUsage {
    /// The model's id, such as `svc/…`.
    pub model: String,
    /// What it was used for.
    #[serde(flatten)]
    pub used: UsageTotals,
}

/// Completions with their tokens and their cost, summed.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UsageTotals {
    /// The number of completions.
    pub requests: u64,
    /// The number of tokens in prompts.
    pub prompt_tokens: u64,
    /// The number of tokens in completions.
    pub completion_tokens: u64,
    /// The number of tokens in prompts that providers had in their caches: a part of `prompt_tokens`.
    #[serde(default)]
    pub cached_tokens: u64,
    /// The number of tokens in prompts that providers have put into their caches: a part of `prompt_tokens`.
    #[serde(default)]
    pub cache_write_tokens: u64,
    /// The number of tokens in completions that models have thought with: a part of `completion_tokens`.
    #[serde(default)]
    pub reasoning_tokens: u64,
    /// The number of images in prompts.
    #[serde(default)]
    pub images: u64,
    /// What the completions cost, in millionths of a euro cent, exactly.
    #[serde(default)]
    pub cost_microcents: u64,
}

impl UsageTotals {
    /// Adds others to these.
    pub fn add(&mut self, others: &Self) {
        self.requests += others.requests;
        self.prompt_tokens += others.prompt_tokens;
        self.completion_tokens += others.completion_tokens;
        self.cached_tokens += others.cached_tokens;
        self.cache_write_tokens += others.cache_write_tokens;
        self.reasoning_tokens += others.reasoning_tokens;
        self.images += others.images;
        self.cost_microcents += others.cost_microcents;
    }
}

/// Completions of an account's AI keys in the last thirty days, the newest first.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AiRequests {
    /// The completions.
    pub requests: Vec<AiRequest>,
    /// The `cursor` of the next page; null on the last one.
    pub next_cursor: Option<String>,
}

/// A completion: what it was charged for, and nothing of what it said.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AiRequest {
    /// The completion's id, which the header `x-svc-completion` of its answer has.
    pub id: CompletionId,
    /// The time at which it was admitted.
    pub created_at: Timestamp,
    /// The key that it was asked for with.
    pub key: TokenId,
    /// The model's id, such as `svc/…`.
    pub model: String,
    /// The provider that served it, which the header `x-svc-provider` of its answer has.
    #[serde(default)]
    pub provider: String,
    /// The number of tokens in the prompt.
    pub prompt_tokens: u64,
    /// The number of tokens in the completion.
    pub completion_tokens: u64,
    /// The number of tokens in the prompt that the provider had in its cache; null when it has not said so.
    pub cached_tokens: Option<u64>,
    /// The number of tokens in the prompt that the provider has put into its cache; null when it has not said so.
    pub cache_write_tokens: Option<u64>,
    /// The number of tokens in the completion that the model has thought with; null when the provider has not said so.
    pub reasoning_tokens: Option<u64>,
    /// The number of images in the prompt.
    pub images: u64,
    /// What it costs, in millionths of a euro cent, exactly. The header `x-svc-cost` has it in millionths of a euro, rounded up.
    pub cost_microcents: u64,
    /// The kinds of tokens that have a price of their own and that the provider has not reported: `cached_input`, `cache_write`,
    /// `reasoning`. They were charged at the dearer price.
    pub assumed: Vec<String>,
    /// Whether the numbers of tokens are the gateway's estimate, because the provider reported none.
    pub estimated: bool,
    /// How it ended; null where that was not recorded.
    pub ended: Option<Ending>,
}
