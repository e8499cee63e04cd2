//! `/orgs/:name/installations`: the code host installations that members have shared with the organization.

use admin_http::{
    error::ApiError,
    extract::{Json, Path},
};
use api::{
    Done,
    vcs::{Installation, InstallationList, ShareInstallation},
};
use app::{
    App,
    auth::{CliUser, OrgAccess},
};
use axum::{extract::State, http::StatusCode};
use db::{audit::NewAuditEntry, code_host::installations, permits::Member};
use domain::audit::Action;
use serde::Deserialize;

use crate::vcs;

/// The installation of the path. The organization of the path is in [`OrgAccess`].
#[derive(Debug, Deserialize)]
pub struct InstallationPath {
    id: i64,
}

/// Lists the installations that are shared with an organization, newest first.
///
/// `mine` marks those that you shared.
#[utoipa::path(
    get, path = "/orgs/{name}/installations", operation_id = "list_org_installations", tag = "Code host",
    params(("name" = String, Path, description = "The organization's name")),
    responses((status = 200, description = "The installations", body = InstallationList)),
)]
pub async fn list(
    State(app): State<App>,
    OrgAccess(org): OrgAccess<Member>,
) -> Result<Json<InstallationList>, ApiError> {
    let shared = installations::shared_with_org(&app.db, &org).await?;
    let installations = shared.into_iter().map(|shared| {
        let mine = shared.shared_by == *org.user();
        vcs::view(shared, mine)
    });
    Ok(Json(InstallationList { installations: installations.collect() }))
}

/// Shares one of your installations with an organization.
///
/// Members can then link the organization's projects to repositories that the installation can access.
#[utoipa::path(
    post, path = "/orgs/{name}/installations", operation_id = "share_installation", tag = "Code host", request_body = ShareInstallation,
    params(("name" = String, Path, description = "The organization's name")),
    responses(
        (status = 200, description = "The installation was shared with this organization before", body = Installation),
        (status = 201, description = "The installation is shared now", body = Installation),
    ),
    extensions(("x-errors" = json!({
        "not_found": "the organization does not exist, or you do not belong to it, or the installation is not one of yours",
        "shared_elsewhere": "the installation is shared with another organization",
        "code_host_error": "the code host does not answer as it should, or wants you to sign in again",
        "busy": "the server is stopping; try again",
    }))),
)]
pub async fn share(
    State(app): State<App>,
    caller: CliUser,
    OrgAccess(org): OrgAccess<Member>,
    Json(body): Json<ShareInstallation>,
) -> Result<(StatusCode, Json<Installation>), ApiError> {
    let seen = vcs::find_own(&app, &caller.user.id, body.installation_id).await?;
    let mut change = app.change(caller.actor()).await?;
    let now = change.now();
    let is_new = db::code_host::sharing::share(&mut change, &org, &seen, now).await?;
    if is_new {
        let entry = NewAuditEntry::for_org(Action::InstallationShare, &org.id, &org.name);
        let entry = entry.with("installation", seen.id).with("account", &*seen.account);
        change.audit(entry);
    }
    change.commit().await?;
    let shared = installations::shared_with_org(&app.db, &org).await?;
    let shared = shared.into_iter().find(|shared| shared.id == seen.id);
    let shared = shared.ok_or_else(|| ApiError::not_found("installation"))?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(vcs::view(shared, true))))
}

/// Stops sharing an installation with an organization.
///
/// The organization's projects linked through it are unlinked; they keep serving what they serve.
#[utoipa::path(
    delete, path = "/orgs/{name}/installations/{id}", operation_id = "unshare_installation", tag = "Code host",
    params(
        ("name" = String, Path, description = "The organization's name"),
        ("id" = i64, Path, description = "The installation's id"),
    ),
    responses((status = 200, description = "The installation is no longer shared", body = Done)),
    extensions(("x-errors" = json!({
        "forbidden": "only the member who shared the installation, admins and owners may",
    }))),
)]
pub async fn unshare(
    State(app): State<App>,
    caller: CliUser,
    OrgAccess(org): OrgAccess<Member>,
    Path(InstallationPath { id }): Path<InstallationPath>,
) -> Result<Json<Done>, ApiError> {
    let mut change = app.change(caller.actor()).await?;
    let unlinked = db::code_host::sharing::unshare(&mut change, &org, id).await?;
    let entry = NewAuditEntry::for_org(Action::InstallationUnshare, &org.id, &org.name);
    change.audit(entry.with("installation", id));
    for link in &unlinked {
        change.audit(link.entry());
    }
    change.commit().await?;
    Ok(Json(Done::OK))
}
