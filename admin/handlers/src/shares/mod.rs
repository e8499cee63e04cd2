//! `/shares`: temporary pages without a project. [`create`] creates one.

pub mod create;

use admin_http::{
    error::ApiError,
    extract::{Json, PageQuery, Path},
};
use api::{
    Done, Page,
    shares::{Share, ShareList},
};
use app::{App, auth::CliUser};
use axum::{extract::State, response::IntoResponse};
use db::{
    audit::NewAuditEntry,
    permits::{self, Admin, ProjectPermit},
    projects::{self, DeleteProjectError, shares},
};
use domain::{Account, ProjectId, ProjectName, audit::Action};

/// Lists your live shares, newest first.
///
/// A share whose days are over is not listed.
#[utoipa::path(
    get, path = "/shares", operation_id = "list_shares", tag = "Shares",
    params(Page),
    responses((status = 200, description = "The shares", body = ShareList)),
)]
pub async fn list(
    State(app): State<App>,
    caller: CliUser,
    page: PageQuery<ProjectId>,
) -> Result<Json<ShareList>, ApiError> {
    let now = app.clock.now();
    let mut rows = shares::page(&app.db, &caller.user.id, page.before.as_ref(), page.rows(), now).await?;
    let next_cursor = page.truncate(&mut rows, |row| row.id.to_string());
    let view = |row: shares::Share| Share {
        url: app.addresses.share_url(&row.name),
        name: row.name,
        project: row.project,
        expires_at: row.expires_at,
        created_at: row.created_at,
        files: u32::try_from(row.files).unwrap_or_default(),
        bytes: u64::try_from(row.bytes).unwrap_or_default(),
        protected: row.protected,
    };
    Ok(Json(ShareList { shares: rows.into_iter().map(view).collect(), next_cursor }))
}

/// Deletes one of your shares, with its files.
///
/// When the response arrives, no running edge serves it any more.
#[utoipa::path(
    delete, path = "/shares/{name}", operation_id = "delete_share", tag = "Shares",
    params(
        ("name" = String, Path, description = "The three words of the share's address, or the name of its `tmp-…` project"),
    ),
    responses((status = 200, description = "The share was deleted", body = Done, headers(("X-Svc-Propagation")))),
    extensions(("x-errors" = json!({
        "suspended": "the operator has suspended the share, or you",
    }))),
)]
pub async fn delete(
    State(app): State<App>,
    caller: CliUser,
    Path(name): Path<String>,
) -> Result<impl IntoResponse, ApiError> {
    let no_share = || ApiError::not_found("share");
    let user = caller.user.id.clone();
    let project = match name.parse() {
        Ok(words) => shares::find_project(&app.db, &user, &words).await?,
        Err(_) => name.parse().ok().filter(ProjectName::is_ephemeral),
    };
    let project = project.ok_or_else(no_share)?;
    let owner = Account::User(user);
    let project: ProjectPermit<Admin> = permits::project(&app.db, &owner, &project, app.clock.now()).await?;
    let mut change = app.change(caller.actor()).await?;
    let now = change.now();
    let touched = match projects::delete(&mut change, &project, app.plans(), now).await {
        Err(DeleteProjectError::Gone) => return Err(no_share()),
        deleted => deleted?,
    };
    change.touch(touched);
    change.audit(NewAuditEntry::for_project(Action::ShareDelete, &project));
    Ok((change.commit().await?, Json(Done::OK)))
}
