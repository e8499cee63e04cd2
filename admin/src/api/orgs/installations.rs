//! `/orgs/:name/installations`: the code host's installations that members have shared with the org.

use api::{
    Done,
    error::ErrorEnvelope,
    vcs::{Installation, InstallationList, ShareInstallation},
};
use axum::{extract::State, http::StatusCode};
use db::{
    audit::{self, Entry},
    installations::{self, ShareError, UnshareError},
    orgs::Member,
};
use domain::audit::Action;
use serde::Deserialize;

use crate::{
    api::vcs,
    app::App,
    auth::{CliUser, OrgAccess},
    error::{ApiError, Code},
    extract::{Json, Path},
};

/// The installation of the path. The org of the path is in [`OrgAccess`].
#[derive(Debug, Deserialize)]
pub struct Named {
    id: i64,
}

/// The installations that are shared with the organization, newest first. `mine` says which ones you shared.
#[utoipa::path(
    get, path = "/orgs/{name}/installations", tag = "Code host",
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

/// Shares one of your own installations: members can then link the organization's projects to its repositories.
#[utoipa::path(
    post, path = "/orgs/{name}/installations", tag = "Code host", request_body = ShareInstallation,
    params(("name" = String, Path, description = "The organization's name")),
    responses(
        (status = 200, description = "It was shared with this organization already", body = Installation),
        (status = 201, description = "It is shared now", body = Installation),
        (status = 404, description = "`not_found`: no such organization, or no such installation of yours", body = ErrorEnvelope),
        (status = 409, description = "`shared_elsewhere`: another organization has it", body = ErrorEnvelope),
        (status = 502, description = "`code_host_error`: the code host does not answer, or wants you to sign in again", body = ErrorEnvelope),
    ),
)]
pub async fn share(
    State(app): State<App>,
    caller: CliUser,
    OrgAccess(org): OrgAccess<Member>,
    Json(body): Json<ShareInstallation>,
) -> Result<(StatusCode, Json<Installation>), ApiError> {
    let seen = vcs::find_own(&app, &caller.user.id, body.installation_id).await?;
    let now = app.clock.now();
    let mut tx = app.db.begin().await?;
    let is_new = installations::share(&mut tx, &org, &seen, now).await?;
    if is_new {
        let entry = Entry::of_org(caller.actor(), Action::InstallationShare, &org.id, &org.name);
        let entry = entry.with("installation", seen.id).with("account", &*seen.account);
        audit::record(&mut tx, &entry, now).await?;
    }
    tx.commit().await?;
    let shared = installations::shared_with_org(&app.db, &org).await?;
    let shared = shared.into_iter().find(|shared| shared.id == seen.id);
    let shared = shared.ok_or_else(|| ApiError::not_found("installation"))?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(vcs::view(shared, true))))
}

/// Ends the sharing. The organization's projects that are linked through it are unlinked; what they serve stays.
#[utoipa::path(
    delete, path = "/orgs/{name}/installations/{id}", tag = "Code host",
    params(
        ("name" = String, Path, description = "The organization's name"),
        ("id" = i64, Path, description = "The installation's id"),
    ),
    responses(
        (status = 200, description = "It is shared no more", body = Done),
        (status = 403, description = "`forbidden`: only who shared it, and admins, may", body = ErrorEnvelope),
    ),
)]
pub async fn unshare(
    State(app): State<App>,
    caller: CliUser,
    OrgAccess(org): OrgAccess<Member>,
    Path(Named { id }): Path<Named>,
) -> Result<Json<Done>, ApiError> {
    let now = app.clock.now();
    let mut tx = app.db.begin().await?;
    let unlinked = installations::unshare(&mut tx, &org, id).await?;
    let entry = Entry::of_org(caller.actor(), Action::InstallationUnshare, &org.id, &org.name);
    audit::record(&mut tx, &entry.with("installation", id), now).await?;
    for link in &unlinked {
        audit::record(&mut tx, &link.entry(caller.actor()), now).await?;
    }
    tx.commit().await?;
    Ok(Json(Done::OK))
}

impl From<ShareError> for ApiError {
    fn from(error: ShareError) -> Self {
        match error {
            ShareError::Elsewhere => Self::new(
                Code::SharedElsewhere,
                "This installation is shared with another organization; it has to be unshared there first.",
            ),
            ShareError::Gone => Self::not_found("organization"),
            ShareError::Db(error) => error.into(),
        }
    }
}

impl From<UnshareError> for ApiError {
    fn from(error: UnshareError) -> Self {
        match error {
            UnshareError::NotFound => Self::not_found("installation"),
            UnshareError::Role => Self::new(
                Code::Forbidden,
                "Only who shared the installation, and the organization's admins, may unshare it; ask one of them.",
            ),
            UnshareError::Db(error) => error.into(),
        }
    }
}
