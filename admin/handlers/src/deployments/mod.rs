//! `/projects/:name/deployments`: listing, showing, activating and deleting deployments. [`upload`] uploads one,
//! [`files`] lists its files, [`archive`] downloads them, [`icon`] serves its icon, and [`lookup`] finds its project.

pub mod archive;
pub mod files;
pub mod icon;
pub mod lookup;
pub mod upload;

use std::time::Duration;

use admin_http::{
    addresses,
    error::ApiError,
    extract::{Json, PageQuery, Path},
};
use api::{
    Done, Page,
    deployments::{Activated, Deployment, DeploymentList},
};
use app::{
    App,
    auth::{Caller, CliUser, ProjectAccess},
};
use axum::{extract::State, response::IntoResponse};
use db::{
    audit::NewAuditEntry,
    billing::plan,
    permits::{AtLeast, Deploy, Member, ProjectPermit},
    projects::{Project, deployments::KeptDeployments},
};
use domain::{DeploymentId, addresses::PlatformAddresses, audit::Action, deployment::DeploymentStatus};
use packs::StoreError;
use serde::Deserialize;

/// Timeout of the check that the store has a deployment's files, before it is activated.
const PACK_LOOK: Duration = Duration::from_secs(5);

/// The deployment of the path. The project of the path is in [`ProjectAccess`].
#[derive(Debug, Deserialize)]
pub struct DeploymentPath {
    id: DeploymentId,
}

/// Lists a project's deployments, newest first.
///
/// Failed deployments are listed with their reason.
#[utoipa::path(
    get, path = "/projects/{name}/deployments", operation_id = "list_deployments", tag = "Deployments",
    params(("name" = String, Path, description = "The project's name"), Page),
    responses((status = 200, description = "The deployments", body = DeploymentList)),
)]
pub async fn list(
    State(app): State<App>,
    ProjectAccess(project): ProjectAccess<Member>,
    page: PageQuery<DeploymentId>,
) -> Result<Json<DeploymentList>, ApiError> {
    let mut rows = db::projects::deployments::page(&app.db, &project, page.before.as_ref(), page.rows()).await?;
    let next_cursor = page.truncate(&mut rows, |row| row.id.to_string());
    let kept = retained_deployments(&app, &project).await?;
    let deployments = rows.into_iter().map(|row| view(&app.addresses, &project, &kept, row)).collect();
    Ok(Json(DeploymentList { deployments, next_cursor }))
}

/// Shows one deployment of a project.
///
/// A failed one has its reason. The live one is the project's `active_deployment_id`.
#[utoipa::path(
    get, path = "/projects/{name}/deployments/{id}", operation_id = "show_deployment", tag = "Deployments",
    params(
        ("name" = String, Path, description = "The project's name"),
        ("id" = String, Path, description = "The deployment's id"),
    ),
    responses((status = 200, description = "The deployment", body = Deployment)),
)]
pub async fn show(
    State(app): State<App>,
    ProjectAccess(project): ProjectAccess<Member>,
    Path(DeploymentPath { id }): Path<DeploymentPath>,
) -> Result<Json<Deployment>, ApiError> {
    let row = db::projects::deployments::find(&app.db, &project, &id).await?;
    let row = row.ok_or_else(|| ApiError::not_found("deployment"))?;
    Ok(Json(view(&app.addresses, &project, &retained_deployments(&app, &project).await?, row)))
}

/// Makes one of a project's deployments live, to roll back or forward.
///
/// No files are copied, so this takes effect once every edge knows. An organization's `deploy` token may do this too.
#[utoipa::path(
    post, path = "/projects/{name}/deployments/{id}/activate", operation_id = "activate_deployment", tag = "Deployments",
    params(
        ("name" = String, Path, description = "The project's name"),
        ("id" = String, Path, description = "The deployment's id"),
    ),
    responses(
        (status = 200, description = "The deployment is served now", body = Activated, headers(("X-Svc-Propagation"))),
    ),
    extensions(("x-errors" = json!({
        "suspended": "the operator has suspended the project, its owner, or you",
        "not_activatable": "the deployment is neither live nor superseded",
        "files_unavailable": "the store does not answer, or has lost or damaged the deployment's files",
        "busy": "too many deployments are being looked into, or too many requests are under way",
    }))),
)]
pub async fn activate(
    State(app): State<App>,
    caller: Caller,
    ProjectAccess(project): ProjectAccess<Deploy>,
    Path(DeploymentPath { id }): Path<DeploymentPath>,
) -> Result<impl IntoResponse, ApiError> {
    require_pack(&app, &caller, &project, &id).await?;
    let mut change = app.change(caller.actor()).await?;
    let now = change.now();
    let touched = db::projects::deployments::activate(&mut change, &project, &id, now).await?;
    change.audit(NewAuditEntry::for_project(Action::DeploymentActivate, &project).with("deployment", id.as_str()));
    change.touch(touched);
    Ok((change.commit().await?, Json(Activated { ok: true, active_deployment_id: id })))
}

/// Rejects a deployment whose files are missing or damaged. Its existence is checked elsewhere.
async fn require_pack(
    app: &App,
    caller: &Caller,
    project: &ProjectPermit<Deploy>,
    id: &DeploymentId,
) -> Result<(), ApiError> {
    let row = db::projects::deployments::find(&app.db, project, id).await?;
    if row.is_none_or(|row| !row.status.has_files()) {
        return Ok(());
    }
    let turn = app.bounds.listing(&caller.paying_account()).await?;
    let (store, id) = (app.store.clone(), id.clone());
    // A separate task: reading a manifest holds memory, and so the permit, even after the client disconnects.
    let looking = app.in_background(async move {
        let _turn = turn;
        Ok(store.probe(&id).await)
    });
    match tokio::time::timeout(PACK_LOOK, looking).await {
        Ok(looked) => looked?.map_err(files::files_unavailable),
        Err(_) => Err(files::files_unavailable(StoreError::Io(std::io::ErrorKind::TimedOut.into()))),
    }
}

/// Deletes a deployment that is not live, with its files.
///
/// The deployment can no longer be activated, and its own address is no longer served.
#[utoipa::path(
    delete, path = "/projects/{name}/deployments/{id}", operation_id = "delete_deployment", tag = "Deployments",
    params(
        ("name" = String, Path, description = "The project's name"),
        ("id" = String, Path, description = "The deployment's id"),
    ),
    responses(
        (status = 200, description = "The deployment was deleted", body = Done, headers(("X-Svc-Propagation"))),
    ),
    extensions(("x-errors" = json!({
        "suspended": "the operator has suspended the project, its owner, or you",
        "deployment_live": "the deployment is live; activate another one first",
    }))),
)]
pub async fn delete(
    State(app): State<App>,
    caller: CliUser,
    ProjectAccess(project): ProjectAccess<Member>,
    Path(DeploymentPath { id }): Path<DeploymentPath>,
) -> Result<impl IntoResponse, ApiError> {
    let mut change = app.change(caller.actor()).await?;
    let now = change.now();
    let touched = db::projects::deployments::delete(&mut change, &project, &id, now).await?;
    change.audit(NewAuditEntry::for_project(Action::DeploymentDelete, &project).with("deployment", id.as_str()));
    change.touch(touched);
    Ok((change.commit().await?, Json(Done::OK)))
}

/// Returns which of a project's deployments its plan's number retains.
pub async fn retained_deployments(
    app: &App,
    project: &ProjectPermit<impl AtLeast<Deploy>>,
) -> Result<KeptDeployments, ApiError> {
    let mut conn = app.db.acquire().await?;
    let number = plan::kept_deployments(&mut conn, app.plans(), &project.owner).await?;
    Ok(db::projects::deployments::find_kept(&mut *conn, project, number).await?)
}

/// Converts a deployment to its API view.
pub fn view(
    addresses: &PlatformAddresses,
    project: &Project,
    kept: &KeptDeployments,
    row: db::projects::deployments::Deployment,
) -> Deployment {
    let own_address = project.share_name.is_none();
    Deployment {
        url: if own_address {
            addresses.deployment_url(&row.id, &project.name)
        } else {
            addresses::project_url(addresses, project)
        },
        active: row.status == DeploymentStatus::Live,
        expires_at: kept.expires_at(&row),
        id: row.id,
        status: row.status,
        created_at: row.created_at,
        files: u32::try_from(row.files).unwrap_or_default(),
        bytes: u64::try_from(row.bytes).unwrap_or_default(),
        cli_version: row.cli_version,
        git_sha: row.git_sha,
        created_by: row.created_by,
        failure: row.failure,
    }
}
