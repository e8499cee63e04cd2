//! `POST /projects/:name/transfer`: moving a project between people and organizations.

use admin_http::{error::ApiError, extract::Json};
use api::projects::{Project, TransferProject};
use app::{
    App,
    auth::{CliUser, ProjectAccess},
    edges::Propagation,
};
use axum::{extract::State, response::IntoResponse};
use db::{
    audit::NewAuditEntry,
    orgs,
    permits::Admin,
    projects::{self, TransferDestination},
};
use domain::audit::Action;

use crate::projects::view;

/// Moves a project into an organization that you belong to, or makes it personal.
///
/// Taking a project out of an organization requires the admin role there. Address, deployments, domains and variables
/// stay; visitors admitted by a gate are checked again, and the public statistics link and the repository link end.
#[utoipa::path(
    post, path = "/projects/{name}/transfer", operation_id = "transfer_project", tag = "Projects", request_body = TransferProject,
    params(("name" = String, Path, description = "The project's name")),
    responses(
        (status = 200, description = "The project, with its new owner", body = Project, headers(("X-Svc-Propagation"))),
    ),
    extensions(("x-errors" = json!({
        "not_found": "the project or the organization does not exist, or you may not know of it",
        "forbidden": "only admins and owners of the organization that owns the project may",
        "suspended": "the operator has suspended the project, its owner, the new owner, or you",
        "plan_limit_reached": "the new owner's plan has no room for the project, its files or its custom domains",
    }))),
)]
pub async fn transfer(
    State(app): State<App>,
    caller: CliUser,
    ProjectAccess(project): ProjectAccess<Admin>,
    Json(body): Json<TransferProject>,
) -> Result<impl IntoResponse, ApiError> {
    let no_org = || ApiError::not_found("organization");
    let mut change = app.change(caller.actor()).await?;
    let target = match &body.org {
        None => None,
        Some(name) => {
            let name = name.parse().map_err(|_| no_org())?;
            Some(orgs::membership(&mut *change, &caller.user.id, &name).await?.ok_or_else(no_org)?)
        }
    };
    let destination = target.as_ref().map_or(TransferDestination::Personal(&caller.user.id), TransferDestination::Org);
    // The project is already there: nothing is committed, not even an audit entry.
    let Some((moved, touched)) = projects::transfer(&mut change, &project, destination, app.plans()).await? else {
        return Ok((Propagation::NONE, Json(view(&app.addresses, project.clone()))));
    };
    if project.org_id.is_some() {
        change.audit(NewAuditEntry::for_project(Action::ProjectTransferOut, &project).with("to", body.org.clone()));
    }
    if let Some(target) = &target {
        let from = project.org.as_ref().map(ToString::to_string);
        let arrived =
            NewAuditEntry::for_project(Action::ProjectTransferIn, &project).in_org(target.org(), target.name());
        change.audit(arrived.with("from", from));
    }
    change.touch(touched);
    Ok((change.commit().await?, Json(view(&app.addresses, moved))))
}
