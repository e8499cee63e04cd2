//! `/orgs/:name/invites`: sending and revoking invites.

use admin_http::{
    addresses::paths,
    error::ApiError,
    extract::{Json, PageQuery, Path},
};
use api::{
    Done, Page,
    invites::{CreateInvite, CreatedInvite, Invite, InviteList},
};
use app::{
    App,
    auth::{CliUser, OrgAccess},
    rates::Bucket,
};
use axum::{extract::State, http::StatusCode};
use db::{
    audit::NewAuditEntry,
    letters,
    orgs::invites::{self},
    permits::{self, Admin, LockedOrg},
};
use domain::{InviteId, audit::Action, opaque::OpaqueSecret, role::Role};
use mail::{invite::Invitation, kinds::LetterKind};
use serde::Deserialize;

/// The invite in a path.
#[derive(Debug, Deserialize)]
pub struct InvitePath {
    id: InviteId,
}

/// Lists an organization's pending invites, newest first.
///
/// Needs the role of an admin. The links themselves are shown once, when an invite is made.
#[utoipa::path(
    get, path = "/orgs/{name}/invites", operation_id = "list_invites", tag = "Invites",
    params(("name" = String, Path, description = "The organization's name"), Page),
    responses((status = 200, description = "The invites", body = InviteList)),
    extensions(("x-errors" = json!({
        "forbidden": "only admins and owners of the organization may",
    }))),
)]
pub async fn list(
    State(app): State<App>,
    OrgAccess(org): OrgAccess<Admin>,
    page: PageQuery<InviteId>,
) -> Result<Json<InviteList>, ApiError> {
    let mut invites = invites::page(&app.db, &org, page.before.as_ref(), page.rows(), app.clock.now()).await?;
    let next_cursor = page.truncate(&mut invites, |invite| invite.id.to_string());
    Ok(Json(InviteList { invites: invites.into_iter().map(view).collect(), next_cursor }))
}

/// Invites a person to an organization.
///
/// The invitation is sent by mail if the platform sends mail, unless its recipient has unsubscribed or has received
/// several today. The link is in this response only and is not shown again; the invite expires after 14 days.
#[utoipa::path(
    post, path = "/orgs/{name}/invites", operation_id = "create_invite", tag = "Invites", request_body = CreateInvite,
    params(("name" = String, Path, description = "The organization's name")),
    responses((status = 201, description = "The invite, with its link", body = CreatedInvite)),
    extensions(("x-errors" = json!({
        "forbidden": "only admins and owners of the organization may",
        "plan_limit_reached": "the plan has no seat for one more, or too many invites are pending",
    }))),
)]
pub async fn create(
    State(app): State<App>,
    caller: CliUser,
    OrgAccess(org): OrgAccess<Admin>,
    Json(body): Json<CreateInvite>,
) -> Result<(StatusCode, Json<CreatedInvite>), ApiError> {
    let secret = OpaqueSecret::generate();
    let mut change = app.change(caller.actor()).await?;
    let now = change.now();
    let org = permits::lock(&mut change, org).await?;
    let invite =
        invites::create(&mut change, &org, &caller.user, &body.email, body.role, &secret.hash(), app.plans(), now)
            .await?;
    let entry = NewAuditEntry::for_org(Action::InviteCreate, &org.id, &org.name)
        .with("invite", invite.id.as_str())
        .with("email", invite.email.as_str())
        .with("role", Role::from(invite.role).as_str());
    change.audit(entry);
    change.commit().await?;
    let invite_url = format!("{}{}/{}", app.console.origin(), paths::INVITES, secret.expose());
    // After the commit, so that no mail links to an invite that was rolled back, and no lock is held during SMTP.
    let email_sent = mail_invitation(&app, &caller, &org, &invite, &invite_url).await;
    Ok((StatusCode::CREATED, Json(CreatedInvite { invite: view(invite), invite_url, email_sent })))
}

/// Revokes a pending invite, whose link then stops working.
///
/// Needs the role of an admin.
#[utoipa::path(
    delete, path = "/orgs/{name}/invites/{id}", operation_id = "revoke_invite", tag = "Invites",
    params(
        ("name" = String, Path, description = "The organization's name"),
        ("id" = String, Path, description = "The invite's id"),
    ),
    responses((status = 200, description = "The invite was revoked", body = Done)),
    extensions(("x-errors" = json!({
        "forbidden": "only admins and owners of the organization may",
    }))),
)]
pub async fn revoke(
    State(app): State<App>,
    caller: CliUser,
    OrgAccess(org): OrgAccess<Admin>,
    Path(InvitePath { id }): Path<InvitePath>,
) -> Result<Json<Done>, ApiError> {
    let mut change = app.change(caller.actor()).await?;
    let now = change.now();
    let org = permits::lock(&mut change, org).await?;
    let revoked = invites::revoke(&mut change, &org, &id, now).await?;
    let email = revoked.ok_or_else(|| ApiError::not_found("invite"))?;
    let entry = NewAuditEntry::for_org(Action::InviteRevoke, &org.id, &org.name)
        .with("invite", id.as_str())
        .with("email", email.as_str());
    change.audit(entry);
    change.commit().await?;
    Ok(Json(Done::OK))
}

/// Sends the invitation by mail and returns whether a mail server accepted it.
///
/// No mail is sent if the recipient has unsubscribed or too many were sent, whatever became of those invites. Limits
/// count senders and recipients as well as organizations, because organizations are free to create.
async fn mail_invitation(
    app: &App,
    caller: &CliUser,
    org: &LockedOrg<Admin>,
    invite: &invites::Invite,
    url: &str,
) -> bool {
    if !app.mailer.is_configured() {
        return false;
    }
    let (sender, mailbox, kind) = (caller.user.id.as_str(), invite.email.mailbox(), LetterKind::Invitation);
    match letters::is_unsubscribed(&app.db, &mailbox, kind.as_str()).await {
        Ok(false) => {}
        Ok(true) => return false,
        Err(error) => {
            tracing::warn!(
                "an invitation is not sent, because it is not known whether its recipient wants any: {error}"
            );
            return false;
        }
    }
    // The recipient's limit comes last, so that mails refused by the others do not use it up.
    for (bucket, key) in [
        (Bucket::InviteMailOfPerson, sender),
        (Bucket::InviteMail, org.id.as_str()),
        (Bucket::InviteMailAgain, &format!("{sender} {mailbox}")),
        (Bucket::InviteMailToMailbox, mailbox.as_str()),
    ] {
        if app.rate_limits.count(bucket, key).await.check().is_err() {
            return false;
        }
    }
    let invitation = Invitation {
        org: &org.name,
        display_name: org.display_name.as_ref(),
        role: invite.role,
        sender: invite.invited_by.as_deref().unwrap_or_default(),
        url,
    };
    app.mailer.send(&app.master_key, &caller.user.id.clone().into(), &invite.email, kind, &invitation).await
}

fn view(invite: invites::Invite) -> Invite {
    Invite {
        id: invite.id,
        email: invite.email,
        role: invite.role,
        invited_by: invite.invited_by,
        created_at: invite.created_at,
        expires_at: invite.expires_at,
    }
}
