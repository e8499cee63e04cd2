//! `/projects/:name/access` and `/password`: who may see a project's site.

use admin_http::{error::ApiError, extract::Json};
use api::{
    Done,
    access::{AccessChanged, SetAccess, SetPassword},
};
use app::{
    App,
    auth::{CliUser, ProjectAccess},
    edges::Propagation,
};
use axum::{extract::State, response::IntoResponse};
use db::{
    audit::NewAuditEntry,
    permits::{Member, ProjectPermit},
    projects::{self, NewAccess},
};
use domain::{access::AccessMode, audit::Action};

/// Changes who may see a project's site.
///
/// When the response arrives, every running edge has applied the change. Visitors admitted before are checked again.
#[utoipa::path(
    put, path = "/projects/{name}/access", operation_id = "set_project_access", tag = "Access", request_body = SetAccess,
    params(("name" = String, Path, description = "The project's name")),
    responses(
        (status = 200, description = "The mode that holds now", body = AccessChanged, headers(("X-Svc-Propagation"))),
    ),
    extensions(("x-errors" = json!({
        "busy": "as many passwords are being hashed as the server does at a time",
    }))),
)]
pub async fn set_access(
    State(app): State<App>,
    caller: CliUser,
    ProjectAccess(project): ProjectAccess<Member>,
    Json(body): Json<SetAccess>,
) -> Result<impl IntoResponse, ApiError> {
    let access = match (body.mode, body.password) {
        (AccessMode::Public, _) => NewAccess::Public,
        (AccessMode::Org, _) => NewAccess::Org,
        (AccessMode::Password, None) => NewAccess::Password(None),
        (AccessMode::Password, Some(password)) => {
            NewAccess::Password(Some(app.bounds.hash(&caller.paying_account(), password).await?))
        }
    };
    let entry = NewAuditEntry::for_project(Action::ProjectAccess, &project).with("mode", body.mode.as_str());
    let (mode, propagation) = change(&app, &caller, &project, access, entry).await?;
    Ok((propagation, Json(AccessChanged { ok: true, mode })))
}

/// Sets a project's password and switches it to the `password` mode.
///
/// Visitors admitted with the previous password must enter the new one.
#[utoipa::path(
    put, path = "/projects/{name}/password", operation_id = "set_project_password", tag = "Access", request_body = SetPassword,
    params(("name" = String, Path, description = "The project's name")),
    responses((status = 200, description = "The password was set", body = Done, headers(("X-Svc-Propagation")))),
    extensions(("x-errors" = json!({
        "busy": "as many passwords are being hashed as the server does at a time",
    }))),
)]
pub async fn set_password(
    State(app): State<App>,
    caller: CliUser,
    ProjectAccess(project): ProjectAccess<Member>,
    Json(body): Json<SetPassword>,
) -> Result<impl IntoResponse, ApiError> {
    let hash = app.bounds.hash(&caller.paying_account(), body.password).await?;
    let entry = NewAuditEntry::for_project(Action::ProjectPasswordSet, &project);
    let (_, propagation) = change(&app, &caller, &project, NewAccess::Password(Some(hash)), entry).await?;
    Ok((propagation, Json(Done::OK)))
}

/// Removes a project's password, which makes its site public again.
///
/// A site that only the organization's members may see stays restricted to them.
#[utoipa::path(
    delete, path = "/projects/{name}/password", operation_id = "remove_project_password", tag = "Access",
    params(("name" = String, Path, description = "The project's name")),
    responses((status = 200, description = "There is no password any more", body = Done, headers(("X-Svc-Propagation")))),
)]
pub async fn delete_password(
    State(app): State<App>,
    caller: CliUser,
    ProjectAccess(project): ProjectAccess<Member>,
) -> Result<impl IntoResponse, ApiError> {
    let entry = NewAuditEntry::for_project(Action::ProjectPasswordRemove, &project);
    let (_, propagation) = change(&app, &caller, &project, NewAccess::WithoutPassword, entry).await?;
    Ok((propagation, Json(Done::OK)))
}

async fn change(
    app: &App,
    caller: &CliUser,
    project: &ProjectPermit<Member>,
    access: NewAccess,
    entry: NewAuditEntry,
) -> Result<(AccessMode, Propagation), ApiError> {
    let mut change = app.change(caller.actor()).await?;
    let (mode, touched) = projects::set_access(&mut change, project, access).await?;
    change.audit(entry);
    change.touch(touched);
    Ok((mode, change.commit().await?))
}
