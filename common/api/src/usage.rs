//! `/usage/ai`, `/orgs/:name/usage/ai`, and the routes below them.

use domain::{
    CompletionId, Timestamp, TokenId,
    month::Month,
    usage::{Ending, MonthlyLimit},
};
use serde::{Deserialize, Serialize};

/// The month to report.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
pub struct UsageQuery {
    /// The month as `YYYY-MM`, in UTC; the current one when absent.
    #[cfg_attr(feature = "openapi", param(value_type = Option<String>, pattern = "^[0-9]{4}-(0[1-9]|1[0-2])$", example = "2026-11"))]
    pub month: Option<Month>,
}

/// An account's usage of the AI gateway in a month: counts and model names, never prompts or completions.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AiUsage {
    /// The usage by model, sorted by model id.
    pub usage: Vec<ModelUsage>,
    /// The usage of all models.
    pub totals: UsageTotals,
}

/// An account's usage of the AI gateway in a month, by day.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AiUsageDays {
    /// The UTC days with at least one completion, in chronological order.
    pub days: Vec<AiUsageDay>,
}

/// An account's usage of the AI gateway on a UTC day.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AiUsageDay {
    /// The day, as `YYYY-MM-DD`.
    #[cfg_attr(feature = "openapi", schema(pattern = "^[0-9]{4}-[0-9]{2}-[0-9]{2}$", example = "2026-11-22"))]
    pub day: String,
    /// The usage by model, sorted by model id.
    pub usage: Vec<ModelUsage>,
}

/// The limit that an organization has set on the combined cost of its AI keys per UTC month.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AiLimit {
    /// The limit in euro cents; null if only the plan limits the cost.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u32>, maximum = 100_000_000))]
    pub monthly_limit_cents: Option<MonthlyLimit>,
    /// The keys' cost in this UTC month, in euro cents, rounded up.
    pub month_cents: u64,
    /// The keys' exact cost in this UTC month, in millionths of a euro cent. Absent in the previous version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = u64))]
    pub month_microcents: Option<u64>,
}

/// The request to limit the combined cost of an organization's AI keys per UTC month.
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
    /// Its totals.
    #[serde(flatten)]
    pub used: UsageTotals,
}

/// Total completions, tokens and cost.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UsageTotals {
    /// The number of completions.
    pub requests: u64,
    /// The number of prompt tokens.
    pub prompt_tokens: u64,
    /// The number of completion tokens.
    pub completion_tokens: u64,
    /// The number of prompt tokens read from providers' caches; included in `prompt_tokens`.
    #[serde(default)]
    pub cached_tokens: u64,
    /// The number of prompt tokens written to providers' caches; included in `prompt_tokens`.
    #[serde(default)]
    pub cache_write_tokens: u64,
    /// The number of reasoning tokens; included in `completion_tokens`.
    #[serde(default)]
    pub reasoning_tokens: u64,
    /// The number of images in prompts.
    #[serde(default)]
    pub images: u64,
    /// The exact cost of the completions, in millionths of a euro cent.
    #[serde(default)]
    pub cost_microcents: u64,
}

impl UsageTotals {
    /// Adds the other totals to these.
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

/// The completions of an account's AI keys in the last thirty days, newest first.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AiRequests {
    /// The completions.
    pub requests: Vec<AiRequest>,
    /// The `cursor` of the next page; null on the last page.
    pub next_cursor: Option<String>,
}

/// A completion and what was charged for it, without its content.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AiRequest {
    /// The completion's id, as in the response header `x-svc-completion`.
    pub id: CompletionId,
    /// The time at which the request was admitted.
    pub created_at: Timestamp,
    /// The key that the request was made with.
    pub key: TokenId,
    /// The model's id, such as `svc/…`.
    pub model: String,
    /// The provider that served it, as in the response header `x-svc-provider`.
    #[serde(default)]
    pub provider: String,
    /// The number of prompt tokens.
    pub prompt_tokens: u64,
    /// The number of completion tokens.
    pub completion_tokens: u64,
    /// The number of prompt tokens read from the provider's cache; null if the provider did not report it.
    pub cached_tokens: Option<u64>,
    /// The number of prompt tokens written to the provider's cache; null if the provider did not report it.
    pub cache_write_tokens: Option<u64>,
    /// The number of reasoning tokens in the completion; null if the provider did not report it.
    pub reasoning_tokens: Option<u64>,
    /// The number of images in the prompt.
    pub images: u64,
    /// The exact cost, in millionths of a euro cent. The header `x-svc-cost` has it in millionths of a euro, rounded
    /// up.
    pub cost_microcents: u64,
    /// The kinds of tokens that have their own price but that the provider did not report: `cached_input`,
    /// `cache_write`, `reasoning`. They were charged at the higher price.
    pub assumed: Vec<String>,
    /// Whether the token counts are the gateway's estimate, because the provider reported none.
    pub estimated: bool,
    /// How the completion ended; null if that was not recorded.
    pub ended: Option<Ending>,
}
