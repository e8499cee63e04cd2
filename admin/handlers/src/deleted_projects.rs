//! `/deleted-projects`: deleted projects, which can be restored for some days.

use admin_http::{
    error::ApiError,
    extract::{Json, PageQuery, Query},
};
use api::{
    Page,
    projects::{DeletedProject, DeletedProjectList, Project, RestoreProject},
};
use app::{App, auth::CliUser};
use axum::{
    extract::{FromRequestParts, RawPathParams, State},
    http::request::Parts,
    response::IntoResponse,
};
use config::acme::CertificateIssuer;
use db::{
    audit::NewAuditEntry,
    certificates::orders,
    permits::{self, Admin, DeletedProjectPermit},
    projects::deleted::{self},
};
use domain::{Account, OrgName, ProjectId, audit::Action};

use crate::projects::{Whose, reject_reserved_name, view as project_view};

/// Lists the deleted projects that you, or an organization, can restore, newest first.
///
/// A project can be restored for 7 days. Shares cannot be restored.
#[utoipa::path(
    get, path = "/deleted-projects", operation_id = "list_deleted_projects", tag = "Projects",
    params(Whose, Page),
    responses((status = 200, description = "The deleted projects", body = DeletedProjectList)),
    extensions(("x-errors" = json!({
        "not_found": "the organization does not exist, or you do not belong to it",
        "forbidden": "only admins and owners of the organization may",
    }))),
)]
pub async fn list(
    State(app): State<App>,
    caller: CliUser,
    Query(whose): Query<Whose>,
    page: PageQuery<ProjectId>,
) -> Result<Json<DeletedProjectList>, ApiError> {
    let owner = match whose.org {
        None => Account::User(caller.user.id.clone()),
        Some(org) => {
            let name: OrgName = org.parse().map_err(|_| ApiError::not_found("organization"))?;
            Account::Org(permits::org::<Admin>(&app.db, &caller.user.id, &name).await?.id.clone())
        }
    };
    let mut rows = deleted::page(&app.db, &owner, page.before.as_ref(), page.rows(), app.clock.now()).await?;
    let next_cursor = page.truncate(&mut rows, |row| row.id.to_string());
    Ok(Json(DeletedProjectList { projects: rows.into_iter().map(view).collect(), next_cursor }))
}

/// Restores a deleted project with all its deployments, variables, access settings and statistics.
///
/// Its live deployment is live again. Custom domains that another project has attached meanwhile stay there; a linked
/// repository stays linked if that is still permitted. The project counts against its owner's plan again.
#[utoipa::path(
    post, path = "/deleted-projects/{id}/restore", operation_id = "restore_project", tag = "Projects", request_body = RestoreProject,
    params(("id" = ProjectId, Path, description = "The project's id")),
    responses((status = 200, description = "The project", body = Project, headers(("X-Svc-Propagation")))),
    extensions(("x-errors" = json!({
        "not_found": "there is no such deleted project, or its 7 days are over, or you may not know of it",
        "forbidden": "only admins and owners of the organization that owned the project may",
        "name_taken": "a project has its name by now; restore it under another one, by `name`",
        "suspended": "the operator has suspended the project's owner, or you",
        "plan_limit_reached": "the owner's plan has no room for the project, its files or its custom domains",
    }))),
)]
pub async fn restore(
    State(app): State<App>,
    caller: CliUser,
    DeletedProjectAccess(project): DeletedProjectAccess,
    Json(RestoreProject { name }): Json<RestoreProject>,
) -> Result<impl IntoResponse, ApiError> {
    if let Some(name) = &name {
        reject_reserved_name(&app, name.as_str())?;
    }
    let mut change = app.change(caller.actor()).await?;
    let now = change.now();
    let restored = deleted::restore(&mut change, &project, &caller.user.id, name, app.plans(), now).await?;
    if app.config.acme.issuer != CertificateIssuer::None {
        for domain in &restored.domains {
            orders::watch(&mut *change, domain, now).await?;
        }
    }
    change.audit(
        NewAuditEntry::for_project(Action::ProjectRestore, &restored.project)
            .with("former_name", project.name.as_str()),
    );
    change.touch(restored.touched);
    let propagation = change.commit().await?;
    app.certificates.wake();
    Ok((propagation, Json(project_view(&app.addresses, restored.project))))
}

/// The deleted project `{id}` of the path, which the caller may restore. Rejects like
/// [`ProjectAccess`](app::auth::ProjectAccess).
#[derive(Debug)]
pub struct DeletedProjectAccess(DeletedProjectPermit<Admin>);

impl FromRequestParts<App> for DeletedProjectAccess {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let caller = <CliUser as FromRequestParts<App>>::from_request_parts(parts, app).await?;
        let no_project = || ApiError::not_found("project");
        let parameters = RawPathParams::from_request_parts(parts, app).await.map_err(|_| no_project())?;
        let id = parameters.iter().find_map(|(key, value)| (key == "id").then(|| value.parse().ok()).flatten());
        let id: ProjectId = id.ok_or_else(no_project)?;
        let permit = permits::deleted_project(&app.db, &caller.user.id, &id, app.clock.now());
        Ok(Self(db::in_time(permit).await?))
    }
}

fn view(project: deleted::DeletedProject) -> DeletedProject {
    DeletedProject {
        restorable_until: project.restorable_until(),
        id: project.id,
        name: project.name,
        org: project.org,
        domains: project.domains,
        deleted_at: project.deleted_at,
    }
}
