//! `/usage/ai/requests` and `/orgs/:name/usage/ai/requests`: an account's paid completions, one by one.

use std::time::Duration;

use admin_http::{
    error::ApiError,
    extract::{Json, PageQuery},
};
use api::{
    Page,
    usage::{AiRequest, AiRequests},
};
use app::{
    App,
    auth::{CliUser, OrgAccess},
};
use axum::extract::State;
use db::{
    gateway::ai_requests::{self, RecordedRequest},
    permits::Member,
};
use domain::{CompletionId, Timestamp};

/// The age up to which completions are listed one by one.
const LISTED: Duration = Duration::from_hours(30 * 24);

/// Lists the completions of your own AI keys in the last thirty days, newest first.
///
/// Only numbers and names are recorded, never prompts or completions. A completion that cost nothing, because its
/// provider failed or was not contacted, is not listed. A completion may take some seconds to appear.
#[utoipa::path(
    get, path = "/usage/ai/requests", operation_id = "list_ai_requests", tag = "Usage",
    params(Page),
    responses((status = 200, description = "The completions", body = AiRequests)),
)]
pub async fn for_user(
    State(app): State<App>,
    caller: CliUser,
    page: PageQuery<CompletionId>,
) -> Result<Json<AiRequests>, ApiError> {
    let before = page.before.as_ref();
    let rows = ai_requests::page_for_user(&app.db, &caller.user.id, first_listed(&app), before, page.rows()).await?;
    Ok(Json(view(&page, rows)))
}

/// Lists the completions of an organization's AI keys like `GET /usage/ai/requests`: thirty days, newest first.
///
/// Only what was used is kept, never a prompt or a response.
#[utoipa::path(
    get, path = "/orgs/{name}/usage/ai/requests", operation_id = "list_org_ai_requests", tag = "Usage",
    params(("name" = String, Path, description = "The organization's name"), Page),
    responses((status = 200, description = "The completions", body = AiRequests)),
)]
pub async fn for_org(
    State(app): State<App>,
    OrgAccess(org): OrgAccess<Member>,
    page: PageQuery<CompletionId>,
) -> Result<Json<AiRequests>, ApiError> {
    let rows = ai_requests::page_for_org(&app.db, &org, first_listed(&app), page.before.as_ref(), page.rows()).await?;
    Ok(Json(view(&page, rows)))
}

fn first_listed(app: &App) -> Timestamp {
    app.clock.now() - LISTED
}

fn view(page: &PageQuery<CompletionId>, mut rows: Vec<RecordedRequest>) -> AiRequests {
    let next_cursor = page.truncate(&mut rows, |row| row.id.to_string());
    let requests = rows.into_iter().map(|row| {
        let kinds = row.details.kinds;
        AiRequest {
            id: row.id,
            created_at: row.created_at,
            key: row.token,
            model: row.model,
            provider: row.provider,
            prompt_tokens: row.prompt_tokens,
            completion_tokens: row.completion_tokens,
            cached_tokens: kinds.cached,
            cache_write_tokens: kinds.cache_write,
            reasoning_tokens: kinds.reasoning,
            images: kinds.images,
            cost_microcents: row.cost.0,
            assumed: row.details.assumed.names().map(str::to_owned).collect(),
            estimated: row.is_estimated,
            ended: row.details.ending,
        }
    });
    AiRequests { requests: requests.collect(), next_cursor }
}
