//! `/usage/ai` and `/orgs/:name/usage/ai`, with what is below them.

use domain::{month::Month, usage::MonthlyLimit};
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
    /// The number of completions.
    pub requests: u64,
    /// The number of tokens in prompts.
    pub prompt_tokens: u64,
    /// The number of tokens in completions.
    pub completion_tokens: u64,
}

/// The usage of all models together.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UsageTotals {
    /// The number of completions.
    pub requests: u64,
    /// The number of tokens in prompts.
    pub prompt_tokens: u64,
    /// The number of tokens in completions.
    pub completion_tokens: u64,
}
