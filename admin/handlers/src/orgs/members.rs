//! `/orgs/:name/members/:login`: changing roles and ending memberships. Every change invalidates what edges have cached
//! about who may see the organization's sites.

use admin_http::{
    error::{ApiError, Code},
    extract::{Json, Path},
};
use api::{
    Done,
    orgs::{Member as MemberView, SetRole},
};
use app::{
    App,
    auth::{CliUser, OrgAccess},
    change::Change,
    edges::Propagation,
};
use axum::{extract::State, response::IntoResponse};
use db::{
    audit::NewAuditEntry,
    orgs::{
        members::{self, OrgMember},
        payer::PayerChange,
    },
    permits::{self, LockedOrg, Member, Owner, PermitLevel},
    projects::suspension,
};
use domain::{audit::Action, changes::ChangeSubject, role::Role};
use serde::Deserialize;

use super::view_member;

/// The member in a path.
#[derive(Debug, Deserialize)]
pub struct MemberPath {
    login: String,
}

/// Changes a member's role.
///
/// Needs the role of an owner. The last owner keeps the role.
///
/// A person who is no longer an owner pays for the organization no more: a subscription that they pay for ends with the
/// paid month, and without one see `POST /orgs/{name}/payer`.
#[utoipa::path(
    put, path = "/orgs/{name}/members/{login}", operation_id = "set_member_role", tag = "Organizations", request_body = SetRole,
    params(
        ("name" = String, Path, description = "The organization's name"),
        ("login" = String, Path, description = "The member's login at the code host"),
    ),
    responses(
        (status = 200, description = "The member, with the new role", body = MemberView, headers(("X-Svc-Propagation"))),
    ),
    extensions(("x-errors" = json!({
        "forbidden": "only owners of the organization may",
        "last_owner": "the organization would have no owner",
    }))),
)]
pub async fn set_role(
    State(app): State<App>,
    caller: CliUser,
    OrgAccess(org): OrgAccess<Owner>,
    Path(MemberPath { login }): Path<MemberPath>,
    Json(body): Json<SetRole>,
) -> Result<impl IntoResponse, ApiError> {
    let mut change = app.change(caller.actor()).await?;
    let now = change.now();
    let org = permits::lock(&mut change, org).await?;
    let member = members::find(&mut *change, &org, &login).await?.ok_or_else(|| ApiError::not_found("member"))?;
    if member.role == body.role {
        return Ok((Propagation::NONE, Json(view_member(member))));
    }
    let payer = members::set_role(&mut change, &org, &member, body.role, app.plans(), now).await?;
    let entry = NewAuditEntry::for_org(Action::MemberRole, &org.id, &org.name)
        .with("login", &*member.login)
        .with("from", member.role.as_str())
        .with("to", body.role.as_str())
        .concerning(&member.user);
    change.audit(entry);
    if body.role < Role::Owner {
        settle_payment(&app, &mut change, &org, &member, (payer, &caller)).await?;
    }
    change.touch(ChangeSubject::Org(org.id.clone()));
    let propagation = change.commit().await?;
    let member = OrgMember { role: body.role, ..member };
    Ok((propagation, Json(view_member(member))))
}

/// Removes a member from an organization, or leaves it.
///
/// Admins remove other members, only owners remove owners, and every member may leave except the last owner. Pending
/// invites that the member sent are revoked. A subscription that they pay for ends with the paid month, and what becomes
/// of an organization without one is said at `POST /orgs/{name}/payer`.
#[utoipa::path(
    delete, path = "/orgs/{name}/members/{login}", operation_id = "remove_member", tag = "Organizations",
    params(
        ("name" = String, Path, description = "The organization's name"),
        ("login" = String, Path, description = "The member's login at the code host; your own to leave"),
    ),
    responses(
        (status = 200, description = "The person is no longer a member", body = Done, headers(("X-Svc-Propagation"))),
    ),
    extensions(("x-errors" = json!({
        "forbidden": "your role does not allow you to remove this member",
        "suspended": "the operator has suspended you, so that you may leave and remove nobody else",
        "last_owner": "the organization would have no owner",
    }))),
)]
pub async fn remove(
    State(app): State<App>,
    caller: CliUser,
    OrgAccess(org): OrgAccess<Member>,
    Path(MemberPath { login }): Path<MemberPath>,
) -> Result<impl IntoResponse, ApiError> {
    let mut change = app.change(caller.actor()).await?;
    let now = change.now();
    let org = permits::lock(&mut change, org).await?;
    let member = members::find(&mut *change, &org, &login).await?;
    let (member, action) = match member {
        Some(member) if member.user == *org.user() => (member, Action::MemberLeave),
        Some(member) if org.role().may_remove(member.role) => (member, Action::MemberRemove),
        Some(owner) if owner.role == Role::Owner && org.role() == Role::Admin => {
            return Err(ApiError::new(Code::Forbidden, "Only owners may remove an owner; ask one of them."));
        }
        None if org.role() >= Role::Admin => return Err(ApiError::not_found("member")),
        Some(_) | None => {
            let reason = "Only an owner or admin of the organization may remove others; you may leave it yourself.";
            return Err(ApiError::new(Code::Forbidden, reason));
        }
    };
    // Suspended people may leave; the middleware lets them call this operation only for that.
    if matches!(action, Action::MemberRemove)
        && let Some(suspended) = suspension::find_for_actor(&mut *change, caller.actor(), None).await?
    {
        return Err(suspended.into());
    }
    let payer = members::remove(&mut change, &org, &member, app.plans(), now).await?;
    let entry = NewAuditEntry::for_org(action, &org.id, &org.name)
        .with("login", &*member.login)
        .with("role", member.role.as_str())
        .concerning(&member.user);
    change.audit(entry);
    settle_payment(&app, &mut change, &org, &member, (payer, &caller)).await?;
    change.touch(ChangeSubject::Org(org.id.clone()));
    Ok((change.commit().await?, Json(Done::OK)))
}

/// Ends what an organization charges to a person who is an owner no more, and notes who pays instead.
async fn settle_payment<L: PermitLevel>(
    app: &App,
    change: &mut Change<'_>,
    org: &LockedOrg<L>,
    former: &OrgMember,
    (payer, caller): (PayerChange, &CliUser),
) -> Result<(), ApiError> {
    billing::cancel_for_former_owner(app, change, &org.id, &former.user).await?;
    if payer == PayerChange::TakenOver {
        let entry = NewAuditEntry::for_org(Action::OrgTakeOver, &org.id, &org.name);
        change.audit(entry.with("login", &*caller.user.vcs_login));
    }
    Ok(())
}
