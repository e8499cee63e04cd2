//! `/orgs`: creating, listing, showing, renaming and deleting organizations. Their parts have files of their own.

pub mod icon;
pub mod installations;
pub mod members;
pub mod payer;
pub mod tokens;

use admin_http::{
    error::ApiError,
    extract::{Json, PageQuery},
};
use api::{
    Done, Page,
    orgs::{CreateOrg, Member as MemberView, Org, OrgDetail, OrgList, RenameOrg},
};
use app::{
    App,
    auth::{CliUser, OrgAccess},
};
use axum::{extract::State, http::StatusCode, response::IntoResponse};
use db::{
    audit::NewAuditEntry,
    orgs::{self, members as org_members},
    permits::{self, Admin, Member, Owner},
};
use domain::{OrgId, OrgName, audit::Action, changes::ChangeSubject, orgs::DisplayName, role::Role};

use crate::projects::reject_reserved_name;

/// Lists your organizations with your role in each, newest first.
///
/// A role is `owner`, `admin` or `member`.
#[utoipa::path(
    get, path = "/orgs", operation_id = "list_orgs", tag = "Organizations",
    params(Page),
    responses((status = 200, description = "The organizations", body = OrgList)),
)]
pub async fn list(State(app): State<App>, caller: CliUser, page: PageQuery<OrgId>) -> Result<Json<OrgList>, ApiError> {
    let mut rows = orgs::page(&app.db, &caller.user.id, page.before.as_ref(), page.rows()).await?;
    let next_cursor = page.truncate(&mut rows, |(org, _)| org.id.to_string());
    Ok(Json(OrgList { orgs: rows.iter().map(|(org, role)| view(org, *role)).collect(), next_cursor }))
}

/// Creates an organization. You become its owner, and it counts against your plan.
///
/// The name is part of addresses and cannot be changed later; the display name can.
#[utoipa::path(
    post, path = "/orgs", operation_id = "create_org", tag = "Organizations", request_body = CreateOrg,
    responses((status = 201, description = "The organization", body = Org)),
    extensions(("x-errors" = json!({
        "plan_limit_reached": "you have created as many organizations as your plan allows",
        "name_taken": "an organization has this name, or one that others owned had it less than 30 days ago",
    }))),
)]
pub async fn create(
    State(app): State<App>,
    caller: CliUser,
    Json(body): Json<CreateOrg>,
) -> Result<(StatusCode, Json<Org>), ApiError> {
    reject_reserved_name(&app, body.name.as_str())?;
    let mut change = app.change(caller.actor()).await?;
    let now = change.now();
    let org = orgs::create(&mut change, &caller.user, &body.name, body.display_name.as_ref(), app.plans(), now).await?;
    change.audit(NewAuditEntry::for_org(Action::OrgCreate, &org.id, &org.name));
    change.commit().await?;
    Ok((StatusCode::CREATED, Json(view(&org, Role::Owner))))
}

/// Shows an organization with its members and the number of its projects.
///
/// Every member may see it.
#[utoipa::path(
    get, path = "/orgs/{name}", operation_id = "show_org", tag = "Organizations",
    params(("name" = String, Path, description = "The organization's name")),
    responses((status = 200, description = "The organization", body = OrgDetail)),
)]
pub async fn show(State(app): State<App>, OrgAccess(org): OrgAccess<Member>) -> Result<Json<OrgDetail>, ApiError> {
    let members = org_members::list(&app.db, &org).await?.into_iter().map(view_member).collect();
    let projects = orgs::count_projects(&app.db, &org).await?;
    let projects = u64::try_from(projects).unwrap_or_default();
    Ok(Json(OrgDetail { org: view(&org, org.role()), members, projects }))
}

/// Changes an organization's display name. Its name, which is used in addresses, stays the same.
///
/// Needs the role of an admin.
#[utoipa::path(
    patch, path = "/orgs/{name}", operation_id = "rename_org", tag = "Organizations", request_body = RenameOrg,
    params(("name" = String, Path, description = "The organization's name")),
    responses((status = 200, description = "The organization", body = Org)),
    extensions(("x-errors" = json!({
        "forbidden": "only admins and owners of the organization may",
    }))),
)]
pub async fn rename(
    State(app): State<App>,
    caller: CliUser,
    OrgAccess(org): OrgAccess<Admin>,
    Json(body): Json<RenameOrg>,
) -> Result<Json<Org>, ApiError> {
    let mut change = app.change(caller.actor()).await?;
    let org = permits::lock(&mut change, org).await?;
    orgs::rename(&mut change, &org, body.display_name.as_ref()).await?;
    let entry = NewAuditEntry::for_org(Action::OrgUpdate, &org.id, &org.name)
        .with("display_name", body.display_name.as_ref().map(DisplayName::as_str));
    change.audit(entry);
    change.commit().await?;
    let renamed = db::orgs::Org { display_name: body.display_name, ..db::orgs::Org::clone(&org) };
    Ok(Json(view(&renamed, org.role())))
}

/// Deletes an organization with its members, invites, tokens and icon.
///
/// Its projects must be moved or deleted first, and its subscription cancelled and over. Its invoices are kept. If
/// others joined it, or it published or paid anything, its name stays reserved for its owners for 30 days.
#[utoipa::path(
    delete, path = "/orgs/{name}", operation_id = "delete_org", tag = "Organizations",
    params(("name" = String, Path, description = "The organization's name")),
    responses(
        (status = 200, description = "The organization was deleted", body = Done, headers(("X-Svc-Propagation"))),
    ),
    extensions(("x-errors" = json!({
        "forbidden": "only owners of the organization may",
        "suspended": "the operator has suspended the organization, or you",
        "org_not_empty": "the organization still has projects",
        "subscription_active": "the organization's subscription has not ended yet",
    }))),
)]
pub async fn delete(
    State(app): State<App>,
    caller: CliUser,
    OrgAccess(org): OrgAccess<Owner>,
) -> Result<impl IntoResponse, ApiError> {
    let mut change = app.change(caller.actor()).await?;
    let now = change.now();
    let org = permits::lock(&mut change, org).await?;
    orgs::delete(&mut change, &org, app.plans(), now).await?;
    let entry = NewAuditEntry::for_org(Action::OrgDelete, &org.id, &org.name);
    change.audit(entry);
    change.touch(ChangeSubject::Org(org.id.clone()));
    Ok((change.commit().await?, Json(Done::OK)))
}

/// Converts an organization to its API view for one of its members.
pub fn view(org: &db::orgs::Org, role: Role) -> Org {
    Org {
        name: org.name.clone(),
        display_name: org.display_name.clone(),
        icon_url: org.icon.as_ref().map(|version| icon_url(&org.name, version)),
        role,
        created_at: org.created_at,
    }
}

fn icon_url(name: &OrgName, version: &str) -> String {
    format!("/orgs/{name}/icon?v={version}")
}

fn view_member(row: org_members::OrgMember) -> MemberView {
    MemberView { login: row.login, role: row.role, joined: row.joined_at }
}
