//! `/suspensions`: suspended sites, for their owners.

use admin_http::{
    error::ApiError,
    extract::{Json, PageQuery, Query},
};
use api::{
    Page,
    suspensions::{SuspendedAccount, SuspendedSite, SuspensionList},
};
use app::{App, auth::CliUser};
use axum::extract::State;
use db::projects::suspension;
use domain::{Account, ProjectId};

use crate::projects::{Whose, find_member_org};

/// Lists which of your sites, or of an organization's, the operator has taken down.
///
/// Your list includes shares. Visitors get 403, or 451 if the reason is `legal`. During the suspension the site stays
/// unchanged: it cannot be published to, moved or deleted, and keeps its domains. If the account is suspended, this
/// applies to all its sites, and its AI keys do not work.
#[utoipa::path(
    get, path = "/suspensions", operation_id = "list_suspensions", tag = "Projects",
    params(Whose, Page),
    responses((status = 200, description = "The suspended sites", body = SuspensionList)),
    extensions(("x-errors" = json!({
        "not_found": "the organization does not exist, or you do not belong to it",
    }))),
)]
pub async fn list(
    State(app): State<App>,
    caller: CliUser,
    Query(whose): Query<Whose>,
    page: PageQuery<ProjectId>,
) -> Result<Json<SuspensionList>, ApiError> {
    let owner = match whose.org {
        None => Account::User(caller.user.id.clone()),
        Some(org) => find_member_org(&app, &caller.user.id, &org).await?,
    };
    let now = app.clock.now();
    let mut rows = suspension::page(&app.db, &owner, page.before.as_ref(), page.rows(), now).await?;
    let next_cursor = page.truncate(&mut rows, |row| row.id.to_string());
    let account = suspension::find_account(&app.db, &owner).await?;
    let account = account.map(|found| SuspendedAccount { reason: found.reason, suspended_at: found.suspended_at });
    let view = |row: suspension::SuspendedSite| SuspendedSite {
        project: row.project,
        reason: row.reason,
        suspended_at: row.suspended_at,
    };
    Ok(Json(SuspensionList { account, suspensions: rows.into_iter().map(view).collect(), next_cursor }))
}
