//! `POST /projects/:name/transfer`: from a person to an org, between orgs, and back.

use api::projects::{Project, TransferProject};
use axum::{extract::State, response::IntoResponse};
use db::{
    audit::{self, Entry},
    orgs,
    projects::{self, Administer, Destination, TransferError},
};
use domain::audit::Action;

use crate::{
    api::{domains::most_domains, projects::view},
    app::App,
    auth::{CliUser, ProjectAccess},
    error::{ApiError, Code},
    extract::Json,
};

/// Moves a project into an organization that you belong to, or makes it personal.
///
/// Taking a project out of an organization needs the role of an admin there. Address, deployments, domains and
/// variables stay; visitors whom a gate has let in are asked again.
#[utoipa::path(
    post, path = "/projects/{name}/transfer", tag = "Projects", request_body = TransferProject,
    params(("name" = String, Path, description = "The project's name")),
    responses(
        (status = 200, description = "The project, with its new owner", body = Project, headers(("X-Svc-Propagation"))),
    ),
    extensions(("x-errors" = json!({
        "not_found": "the project or the organization does not exist, or you may not know of it",
        "forbidden": "only admins and owners of the organization that owns the project may",
        "plan_limit_reached": "the new owner's plan has no room for the project's custom domains",
    }))),
)]
pub async fn transfer(
    State(app): State<App>,
    caller: CliUser,
    ProjectAccess(project): ProjectAccess<Administer>,
    Json(body): Json<TransferProject>,
) -> Result<impl IntoResponse, ApiError> {
    let now = app.clock.now();
    let no_org = || ApiError::not_found("organization");
    let mut tx = app.db.begin().await?;
    let target = match &body.org {
        None => None,
        Some(name) => {
            let name = name.parse().map_err(|_| no_org())?;
            Some(orgs::membership(&mut *tx, &caller.user.id, &name).await?.ok_or_else(no_org)?)
        }
    };
    let destination = target.as_ref().map_or(Destination::Personal(&caller.user.id), Destination::Org);
    if project.org_id.is_some() {
        let left = Entry::of_project(caller.actor(), Action::ProjectTransferOut, &project);
        audit::record(&mut tx, &left.with("to", body.org.clone()), now).await?;
    }
    if let Some(target) = &target {
        let came = Entry {
            org: Some((target.org(), target.name())),
            ..Entry::of_project(caller.actor(), Action::ProjectTransferIn, &project)
        };
        let from = project.org.as_ref().map(ToString::to_string);
        audit::record(&mut tx, &came.with("from", from), now).await?;
    }
    // It is there already: nothing is committed, not even that somebody tried.
    let Some((moved, change)) = projects::transfer(&mut tx, &project, destination, most_domains(&app), now).await?
    else {
        return Ok((None, Json(view(&app.addresses, project.clone()))));
    };
    tx.commit().await?;
    Ok((Some(app.edges.apply(change).await), Json(view(&app.addresses, moved))))
}

impl From<TransferError> for ApiError {
    fn from(error: TransferError) -> Self {
        match error {
            TransferError::Gone => Self::not_found("project"),
            TransferError::OrgGone => Self::not_found("organization"),
            TransferError::Share => Self::invalid("A share cannot be moved; publish it as a project instead."),
            TransferError::OrgGated => Self::invalid(
                "`org` cannot be null while only the organization's members may see the site; \
                 set its access to public or password first.",
            ),
            TransferError::DomainLimit => Self::new(
                Code::PlanLimitReached,
                "The new owner's plan has no room for this project's custom domains; detach some first.",
            ),
            TransferError::Db(error) => error.into(),
        }
    }
}
