//! `/usage/ai` and `/orgs/:name/usage/ai`: what the AI gateway was used for.

use api::usage::{AiUsage, ModelUsage, UsageQuery, UsageTotals};
use axum::extract::State;
use db::{gateway::ai_usage, permits::Member};
use domain::month::Month;

use crate::{
    app::App,
    auth::{CliUser, OrgAccess},
    error::ApiError,
    extract::{Json, Query},
};

/// Shows what your own AI keys were used for in a month.
#[utoipa::path(
    get, path = "/usage/ai", tag = "Usage",
    params(UsageQuery),
    responses((status = 200, description = "Completions and tokens by model", body = AiUsage)),
)]
pub async fn of_user(
    State(app): State<App>,
    caller: CliUser,
    Query(query): Query<UsageQuery>,
) -> Result<Json<AiUsage>, ApiError> {
    let month = query.month.unwrap_or_else(|| Month::of(app.clock.now()));
    Ok(Json(view(ai_usage::of_user(&app.db, &caller.user.id, month).await?)))
}

/// Shows what an organization's AI keys were used for in a month.
#[utoipa::path(
    get, path = "/orgs/{name}/usage/ai", tag = "Usage",
    params(("name" = String, Path, description = "The organization's name"), UsageQuery),
    responses((status = 200, description = "Completions and tokens by model", body = AiUsage)),
)]
pub async fn of_org(
    State(app): State<App>,
    OrgAccess(org): OrgAccess<Member>,
    Query(query): Query<UsageQuery>,
) -> Result<Json<AiUsage>, ApiError> {
    let month = query.month.unwrap_or_else(|| Month::of(app.clock.now()));
    Ok(Json(view(ai_usage::of_org(&app.db, &org, month).await?)))
}

fn view(models: Vec<ai_usage::ModelUsage>) -> AiUsage {
    let mut totals = UsageTotals::default();
    for model in &models {
        totals.requests += model.requests;
        totals.prompt_tokens += model.prompt_tokens;
        totals.completion_tokens += model.completion_tokens;
    }
    let usage = models.into_iter().map(|model| ModelUsage {
        model: model.model,
        requests: model.requests,
        prompt_tokens: model.prompt_tokens,
        completion_tokens: model.completion_tokens,
    });
    AiUsage { usage: usage.collect(), totals }
}
