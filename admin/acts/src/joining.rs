//! Joining an organization by an invite, shared by the API's `/invites` and the console's invite page.

use admin_http::error::ApiError;
use api::invites::InvitePreview;
use app::{
    App,
    auth::{self, CliUser},
    edges::Propagation,
};
pub use db::orgs::invites::AcceptedInvite;
use db::{
    audit::NewAuditEntry,
    orgs::invites::{self, AcceptInviteError},
};
use domain::{audit::Action, changes::ChangeSubject, opaque::OpaqueSecret};

/// Finds the pending invite of a link's token.
pub async fn preview(app: &App, token: &str) -> Result<Option<InvitePreview>, ApiError> {
    let Some(secret) = OpaqueSecret::parse(token) else { return Ok(None) };
    let preview = invites::preview(&app.db, &secret.hash(), app.clock.now()).await?;
    Ok(preview.map(|preview| InvitePreview {
        org: preview.org,
        display_name: preview.display_name,
        role: preview.role,
        invited_by: preview.invited_by,
        expires_at: preview.expires_at,
    }))
}

/// Accepts the invite of a link's token for `caller`.
pub async fn join(app: &App, caller: &CliUser, token: &str) -> Result<(AcceptedInvite, Propagation), ApiError> {
    let secret = OpaqueSecret::parse(token).ok_or_else(invite_not_found)?;
    // The console's page is not behind the middleware that checks this.
    auth::require_unsuspended(app, caller).await?;
    let mut change = app.change(caller.actor()).await?;
    let now = change.now();
    let joined = invites::accept(&mut change, &secret.hash(), &caller.user.id, app.plans(), now).await?;
    let Some(invite) = &joined.invite else { return Ok((joined, Propagation::NONE)) };
    let entry = NewAuditEntry::for_org(Action::InviteAccept, &joined.org.id, &joined.org.name)
        .with("invite", invite.as_str())
        .with("role", joined.role.as_str());
    change.audit(entry);
    change.touch(ChangeSubject::Org(joined.org.id.clone()));
    Ok((joined, change.commit().await?))
}

/// Returns the error for a link whose invite is not pending.
pub fn invite_not_found() -> ApiError {
    AcceptInviteError::NotFound.into()
}
