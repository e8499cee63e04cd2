//! `/usage/ai` and `/orgs/:name/usage/ai`.

use domain::month::Month;
use serde::{Deserialize, Serialize};

/// Which month.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
pub struct UsageQuery {
    /// `YYYY-MM`, in UTC; the current month when absent.
    #[cfg_attr(feature = "openapi", param(value_type = Option<String>, pattern = "^[0-9]{4}-(0[1-9]|1[0-2])$", example = "2026-11"))]
    pub month: Option<Month>,
}

/// What was used in a month: counts and names, never prompts or completions.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AiUsage {
    /// By model, sorted by its name.
    pub usage: Vec<ModelUsage>,
    /// Of all models.
    pub totals: UsageTotals,
}

/// A model's share.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ModelUsage {
    /// `svc/…`.
    pub model: String,
    /// Completions.
    pub requests: u64,
    /// Tokens read.
    pub prompt_tokens: u64,
    /// Tokens written.
    pub completion_tokens: u64,
}

/// The sum of all models.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UsageTotals {
    /// Completions.
    pub requests: u64,
    /// Tokens read.
    pub prompt_tokens: u64,
    /// Tokens written.
    pub completion_tokens: u64,
}
