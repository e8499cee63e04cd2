//! `/orgs/:name/audit`, `/projects/:name/audit` and `/activity`: the audit log.

use admin_http::{
    error::ApiError,
    extract::{Json, PageQuery},
};
use api::{
    Page,
    audit::{AuditActor, AuditEntry, AuditLog},
};
use app::{
    App,
    auth::{CliUser, OrgAccess, ProjectAccess},
};
use axum::extract::State;
use db::{
    audit::{self, RecordedAuditEntry},
    permits::Admin,
};
use domain::AuditId;
use serde_json::Value;

/// Lists the audit log of a project, newest first.
///
/// Available to admins and owners of the project's organization, and to the owner of a personal project.
#[utoipa::path(
    get, path = "/projects/{name}/audit", operation_id = "list_project_audit", tag = "Audit",
    params(("name" = String, Path, description = "The project's name"), Page),
    responses((status = 200, description = "The entries", body = AuditLog)),
    extensions(("x-errors" = json!({
        "forbidden": "only admins and owners of the organization that owns the project may",
    }))),
)]
pub async fn for_project(
    State(app): State<App>,
    ProjectAccess(project): ProjectAccess<Admin>,
    page: PageQuery<AuditId>,
) -> Result<Json<AuditLog>, ApiError> {
    let rows = audit::page_for_project(&app.db, &project, page.before.as_ref(), page.rows()).await?;
    Ok(Json(log(&page, rows)))
}

/// Lists the audit log of an organization and its projects, newest first.
///
/// Available to admins and owners. Entries of deleted and transferred projects stay in the list up to that moment.
#[utoipa::path(
    get, path = "/orgs/{name}/audit", operation_id = "list_org_audit", tag = "Audit",
    params(("name" = String, Path, description = "The organization's name"), Page),
    responses((status = 200, description = "The entries", body = AuditLog)),
    extensions(("x-errors" = json!({
        "forbidden": "only admins and owners of the organization may",
    }))),
)]
pub async fn for_org(
    State(app): State<App>,
    OrgAccess(org): OrgAccess<Admin>,
    page: PageQuery<AuditId>,
) -> Result<Json<AuditLog>, ApiError> {
    let rows = audit::page_for_org(&app.db, &org, page.before.as_ref(), page.rows()).await?;
    Ok(Json(log(&page, rows)))
}

/// Lists what you did, and what was done to your account, your projects and your memberships, newest first.
///
/// Sign-ins, tokens and projects of your own, and what you changed in organizations, also in those that you have left
/// since. The log of an organization has what others changed there. The token of another actor is not shown.
#[utoipa::path(
    get, path = "/activity", operation_id = "list_activity", tag = "Audit",
    params(Page),
    responses((status = 200, description = "The entries", body = AuditLog)),
)]
pub async fn for_user(
    State(app): State<App>,
    caller: CliUser,
    page: PageQuery<AuditId>,
) -> Result<Json<AuditLog>, ApiError> {
    let mut rows = audit::page_for_user(&app.db, &caller.user.id, page.before.as_ref(), page.rows()).await?;
    for row in &mut rows {
        row.token_id.take_if(|_| row.actor_user_id.as_ref() != Some(&caller.user.id));
    }
    Ok(Json(log(&page, rows)))
}

fn log(page: &PageQuery<AuditId>, mut rows: Vec<RecordedAuditEntry>) -> AuditLog {
    let next_cursor = page.truncate(&mut rows, |row| row.id.to_string());
    AuditLog { entries: rows.into_iter().map(view).collect(), next_cursor }
}

fn view(row: RecordedAuditEntry) -> AuditEntry {
    AuditEntry {
        id: row.id,
        created_at: row.created_at,
        action: row.action,
        actor: AuditActor { kind: row.actor_kind, name: row.actor_name, token: row.token_id },
        org: row.org_name,
        project: row.project_name,
        detail: match row.detail {
            Value::Object(detail) => detail,
            _ => serde_json::Map::new(),
        },
    }
}
