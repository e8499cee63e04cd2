//! `/projects`: creating, showing and deleting projects. [`list`](mod@list) lists them.

pub mod list;

use admin_http::{addresses, error::ApiError, extract::Json};
use api::{
    Done,
    access::Access,
    projects::{CreateProject, Project, ProjectDetail, Repo},
};
use app::{
    App,
    auth::{CliUser, ProjectAccess},
};
use axum::{extract::State, http::StatusCode, response::IntoResponse};
use db::{
    audit::NewAuditEntry,
    code_host::repo_links::{self, RepoLink},
    orgs,
    permits::{Admin, Deploy},
    projects::{self, deployments, domains},
};
use domain::{
    Account, OrgName, UserId,
    addresses::PlatformAddresses,
    audit::Action,
    changes::PendingChange,
    limits::DETAIL_DEPLOYMENTS,
    names::{self, NameError},
};
use serde::Deserialize;

use crate::{
    deployments::{retained_deployments, view as deployment_view},
    domains::view as domain_view,
};

/// The query that selects whose projects are listed.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Whose {
    /// The name of an organization that you belong to; your personal projects when absent.
    pub(super) org: Option<String>,
}

/// Rejects a name reserved for the platform: one of its hosts, or one that would be taken for the platform's.
pub fn reject_reserved_name(app: &App, name: &str) -> Result<(), ApiError> {
    if names::is_reserved(name) || app.addresses.reserves(name) {
        return Err(ApiError::invalid(format!("`name`: {}.", NameError::Reserved)));
    }
    Ok(())
}

/// Creates a project. Its name becomes its subdomain.
///
/// The name is the project's address below the site domain. A name that another account has published under is
/// taken.
#[utoipa::path(
    post, path = "/projects", operation_id = "create_project", tag = "Projects", request_body = CreateProject,
    responses((status = 201, description = "The project", body = Project)),
    extensions(("x-errors" = json!({
        "not_found": "the organization does not exist, or you do not belong to it",
        "suspended": "the operator has suspended the owner, or you",
        "plan_limit_reached": "the owner has as many projects as the plan allows",
        "name_taken": "a project has this name, or somebody else gave it up less than 30 days ago",
    }))),
)]
pub async fn create(
    State(app): State<App>,
    caller: CliUser,
    Json(body): Json<CreateProject>,
) -> Result<(StatusCode, Json<Project>), ApiError> {
    let owner = match body.org {
        None => Account::User(caller.user.id.clone()),
        Some(org) => find_member_org(&app, &caller.user.id, &org).await?,
    };
    reject_reserved_name(&app, body.name.as_str())?;
    let mut change = app.change(caller.actor()).await?;
    let now = change.now();
    let project = projects::create(&mut change, &owner, &caller.user.id, body.name, app.plans(), now).await?;
    change.audit(NewAuditEntry::for_project(Action::ProjectCreate, &project));
    change.touch(PendingChange::new(&project.id).with_hosts([project.host()]));
    // Edges have nothing to serve before the first deployment.
    change.commit_without_waiting().await?;
    Ok((StatusCode::CREATED, Json(view(&app.addresses, project))))
}

/// Shows a project with its 20 newest deployments, its domains, its access mode and its repository.
///
/// An organization's `deploy` token may do this too.
#[utoipa::path(
    get, path = "/projects/{name}", operation_id = "show_project", tag = "Projects",
    params(("name" = String, Path, description = "The project's name")),
    responses((status = 200, description = "The project", body = ProjectDetail)),
)]
pub async fn show(
    State(app): State<App>,
    ProjectAccess(project): ProjectAccess<Deploy>,
) -> Result<Json<ProjectDetail>, ApiError> {
    let deployments = deployments::page(&app.db, &project, None, DETAIL_DEPLOYMENTS).await?;
    let kept = retained_deployments(&app, &project).await?;
    let domains = domains::list(&app.db, &project, app.clock.now()).await?;
    Ok(Json(ProjectDetail {
        deployments: deployments.into_iter().map(|row| deployment_view(&app.addresses, &project, &kept, row)).collect(),
        domains: domains.into_iter().map(|domain| domain_view(&app, domain)).collect(),
        access: Access { mode: project.access_mode },
        repo: repo_links::find(&app.db, &project).await?.as_ref().map(view_repo),
        project: view(&app.addresses, project.clone()),
    }))
}

fn view_repo(link: &RepoLink) -> Repo {
    Repo {
        repo: link.repo.to_string(),
        branch: link.branch.to_string(),
        directory: link.directory.to_string(),
        waits_for: link.waits_for.clone(),
    }
}

/// Deletes a project with everything that it owns, including deployments and their files.
///
/// When the response arrives, no running edge serves it. If it ever served anything, its owner keeps the name for 30
/// days.
#[utoipa::path(
    delete, path = "/projects/{name}", operation_id = "delete_project", tag = "Projects",
    params(("name" = String, Path, description = "The project's name")),
    responses((status = 200, description = "The project was deleted", body = Done, headers(("X-Svc-Propagation")))),
    extensions(("x-errors" = json!({
        "forbidden": "only admins and owners of the organization that owns the project may",
        "suspended": "the operator has suspended the project, its owner, or you",
    }))),
)]
pub async fn delete(
    State(app): State<App>,
    caller: CliUser,
    ProjectAccess(project): ProjectAccess<Admin>,
) -> Result<impl IntoResponse, ApiError> {
    let mut change = app.change(caller.actor()).await?;
    let now = change.now();
    let touched = projects::delete(&mut change, &project, app.plans(), now).await?;
    change.touch(touched);
    change.audit(NewAuditEntry::for_project(Action::ProjectDelete, &project));
    Ok((change.commit().await?, Json(Done::OK)))
}

pub(super) async fn find_member_org(app: &App, user: &UserId, name: &str) -> Result<Account, ApiError> {
    let no_org = || ApiError::not_found("organization");
    let name: OrgName = name.parse().map_err(|_| no_org())?;
    let membership = orgs::membership(&app.db, user, &name).await?.ok_or_else(no_org)?;
    Ok(Account::Org(membership.org().clone()))
}

/// Converts a project to its API view.
pub fn view(addresses: &PlatformAddresses, project: db::projects::Project) -> Project {
    Project {
        url: addresses::project_url(addresses, &project),
        id: project.id,
        name: project.name,
        org: project.org,
        active_deployment_id: project.active_deployment_id,
        expires_at: project.expires_at,
        created_at: project.created_at,
    }
}
