//! `/usage/ai` and `/orgs/:name/usage/ai`: the usage of the AI gateway, and an organization's limit on its cost.

use std::collections::BTreeMap;

use admin_http::{
    error::ApiError,
    extract::{Json, Query},
};
use api::usage::{AiLimit, AiUsage, AiUsageDay, AiUsageDays, ModelUsage, SetAiLimit, UsageQuery, UsageTotals};
use app::{
    App,
    auth::{CliUser, OrgAccess},
};
use axum::{extract::State, response::IntoResponse};
use db::{
    audit::NewAuditEntry,
    gateway::ai_usage,
    orgs::ai_limit,
    permits::{self, Member, Owner},
};
use domain::{
    Account,
    audit::Action,
    changes::ChangeSubject,
    month::Month,
    usage::{Microcents, MonthlyLimit},
};
use time::Date;

/// Shows the usage of your own AI keys in a month.
///
/// By model, with tokens, requests and cost. Months are UTC months.
#[utoipa::path(
    get, path = "/usage/ai", operation_id = "show_ai_usage", tag = "Usage",
    params(UsageQuery),
    responses((status = 200, description = "Completions and tokens by model", body = AiUsage)),
)]
pub async fn for_user(
    State(app): State<App>,
    caller: CliUser,
    Query(query): Query<UsageQuery>,
) -> Result<Json<AiUsage>, ApiError> {
    let month = query.month.unwrap_or_else(|| Month::from_timestamp(app.clock.now()));
    Ok(Json(view(ai_usage::list_for_user(&app.db, &caller.user.id, month).await?)))
}

/// Shows the usage of an organization's AI keys in a month.
///
/// By model, with tokens, requests and cost. Months are UTC months.
#[utoipa::path(
    get, path = "/orgs/{name}/usage/ai", operation_id = "show_org_ai_usage", tag = "Usage",
    params(("name" = String, Path, description = "The organization's name"), UsageQuery),
    responses((status = 200, description = "Completions and tokens by model", body = AiUsage)),
)]
pub async fn for_org(
    State(app): State<App>,
    OrgAccess(org): OrgAccess<Member>,
    Query(query): Query<UsageQuery>,
) -> Result<Json<AiUsage>, ApiError> {
    let month = query.month.unwrap_or_else(|| Month::from_timestamp(app.clock.now()));
    Ok(Json(view(ai_usage::list_for_org(&app.db, &org, month).await?)))
}

/// Shows the usage of your own AI keys in a month, by day.
///
/// Days are UTC days. A day on which nothing was requested is not listed.
#[utoipa::path(
    get, path = "/usage/ai/days", operation_id = "list_ai_usage_days", tag = "Usage",
    params(UsageQuery),
    responses((status = 200, description = "Completions and tokens by day and model", body = AiUsageDays)),
)]
pub async fn days_for_user(
    State(app): State<App>,
    caller: CliUser,
    Query(query): Query<UsageQuery>,
) -> Result<Json<AiUsageDays>, ApiError> {
    let month = query.month.unwrap_or_else(|| Month::from_timestamp(app.clock.now()));
    Ok(Json(days_view(ai_usage::list_days_for_user(&app.db, &caller.user.id, month).await?)))
}

/// Shows the usage of an organization's AI keys in a month, by day.
///
/// Days are UTC days. A day on which nothing was requested is not listed.
#[utoipa::path(
    get, path = "/orgs/{name}/usage/ai/days", operation_id = "list_org_ai_usage_days", tag = "Usage",
    params(("name" = String, Path, description = "The organization's name"), UsageQuery),
    responses((status = 200, description = "Completions and tokens by day and model", body = AiUsageDays)),
)]
pub async fn days_for_org(
    State(app): State<App>,
    OrgAccess(org): OrgAccess<Member>,
    Query(query): Query<UsageQuery>,
) -> Result<Json<AiUsageDays>, ApiError> {
    let month = query.month.unwrap_or_else(|| Month::from_timestamp(app.clock.now()));
    Ok(Json(days_view(ai_usage::list_days_for_org(&app.db, &org, month).await?)))
}

/// Shows an organization's monthly cost limit for its AI keys, and their cost in this month.
///
/// Requests in progress count at their maximum cost.
#[utoipa::path(
    get, path = "/orgs/{name}/usage/ai/limit", operation_id = "show_org_ai_limit", tag = "Usage",
    params(("name" = String, Path, description = "The organization's name")),
    responses((status = 200, description = "The limit", body = AiLimit)),
)]
pub async fn limit_for_org(
    State(app): State<App>,
    OrgAccess(org): OrgAccess<Member>,
) -> Result<Json<AiLimit>, ApiError> {
    let limit = ai_limit::find(&app.db, &org).await?;
    let cost = ai_usage::sum_org_cost(&app.db, &org, Month::from_timestamp(app.clock.now())).await?;
    Ok(Json(limit_view(limit, cost)))
}

/// Sets or removes the monthly cost limit of an organization's AI keys.
///
/// Once the limit is reached, all of the organization's keys are refused with `limit_reached` until the next UTC month;
/// requests in progress count at their maximum cost. The plan's AI credit limits the cost in any case. The change is in
/// force on every edge when the response arrives.
#[utoipa::path(
    put, path = "/orgs/{name}/usage/ai/limit", operation_id = "set_org_ai_limit", tag = "Usage", request_body = SetAiLimit,
    params(("name" = String, Path, description = "The organization's name")),
    responses((status = 200, description = "The limit", body = AiLimit, headers(("X-Svc-Propagation")))),
    extensions(("x-errors" = json!({
        "forbidden": "only owners of the organization may",
    }))),
)]
pub async fn set_limit_for_org(
    State(app): State<App>,
    caller: CliUser,
    OrgAccess(org): OrgAccess<Owner>,
    Json(body): Json<SetAiLimit>,
) -> Result<impl IntoResponse, ApiError> {
    let limit = body.monthly_limit_cents;
    let mut change = app.change(caller.actor()).await?;
    let month = Month::from_timestamp(change.now());
    let org = permits::lock(&mut change, org).await?;
    ai_limit::set(&mut change, &org, limit).await?;
    let cost = ai_usage::sum_org_cost(&mut *change, &org, month).await?;
    let entry = NewAuditEntry::for_org(Action::UsageLimit, &org.id, &org.name)
        .with("monthly_limit_cents", limit.map(i64::from));
    change.audit(entry);
    change.touch(ChangeSubject::Plan(Account::Org(org.id.clone()).into()));
    Ok((change.commit().await?, Json(limit_view(limit, cost))))
}

fn limit_view(limit: Option<MonthlyLimit>, cost: Microcents) -> AiLimit {
    AiLimit { monthly_limit_cents: limit, month_cents: cost.cents(), month_microcents: Some(cost.0) }
}

fn view(models: Vec<ai_usage::ModelUsage>) -> AiUsage {
    let usage: Vec<_> = models.into_iter().map(model_view).collect();
    let mut totals = UsageTotals::default();
    for model in &usage {
        totals.add(&model.used);
    }
    AiUsage { usage, totals }
}

fn days_view(days: BTreeMap<Date, Vec<ai_usage::ModelUsage>>) -> AiUsageDays {
    let days = days
        .into_iter()
        .map(|(day, models)| AiUsageDay { day: day.to_string(), usage: models.into_iter().map(model_view).collect() });
    AiUsageDays { days: days.collect() }
}

fn model_view(model: ai_usage::ModelUsage) -> ModelUsage {
    let used = UsageTotals {
        requests: model.requests,
        prompt_tokens: model.prompt_tokens,
        completion_tokens: model.completion_tokens,
        cached_tokens: model.cached_tokens,
        cache_write_tokens: model.cache_write_tokens,
        reasoning_tokens: model.reasoning_tokens,
        images: model.images,
        cost_microcents: model.cost.0,
    };
    ModelUsage { model: model.model, used }
}
