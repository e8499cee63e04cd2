//! `/invites/:token`: what the holder of an invite's link may do. Sending and revoking them is in [`sent`].

pub mod sent;

use api::{invites::InvitePreview, orgs::Org};
use axum::{extract::State, http::header, response::IntoResponse};
use db::{
    audit::{self, Entry},
    invites::{self, AcceptError},
    route_changes,
};
use domain::{audit::Action, opaque::OpaqueSecret};

use crate::{
    api::orgs,
    app::App,
    auth::CliUser,
    edges::Propagation,
    error::{ApiError, Code},
    extract::{Json, Path},
};

/// Previews an invite for the holder of its link.
///
/// Answers 404 once the invite was accepted or revoked, or has expired.
#[utoipa::path(
    get, path = "/invites/{token}", tag = "Invites", security(()),
    params(("token" = String, Path, description = "The last part of the invite's link")),
    responses((status = 200, description = "The invite", body = InvitePreview, headers(("Cache-Control")))),
    extensions(("x-errors" = json!({
        "not_found": "there is no such invite: it was accepted or revoked, or has expired",
    }))),
)]
pub async fn show(State(app): State<App>, Path(token): Path<String>) -> Result<impl IntoResponse, ApiError> {
    let preview = preview(&app, &token).await?.ok_or(AcceptError::NotFound)?;
    Ok(([(header::CACHE_CONTROL, "no-store")], Json(preview)))
}

/// Accepts an invite: you join the organization in the invited role.
///
/// The invite is used up, unless you have that role or a higher one already: then nothing changes, and the answer tells
/// your role.
#[utoipa::path(
    post, path = "/invites/{token}/accept", tag = "Invites",
    params(("token" = String, Path, description = "The last part of the invite's link")),
    responses(
        (status = 200, description = "The organization, with your role in it", body = Org, headers(("X-Svc-Propagation"))),
    ),
    extensions(("x-errors" = json!({
        "not_found": "there is no such invite: it was accepted or revoked, or has expired",
        "plan_limit_reached": "the organization has as many members as it may",
    }))),
)]
pub async fn accept(
    State(app): State<App>,
    caller: CliUser,
    Path(token): Path<String>,
) -> Result<impl IntoResponse, ApiError> {
    let (org, propagation) = join(&app, &caller, &token).await?;
    Ok((propagation, Json(org)))
}

/// The pending invite behind a link's token.
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

/// Accepts the invite behind a link's token for `caller`.
pub async fn join(app: &App, caller: &CliUser, token: &str) -> Result<(Org, Option<Propagation>), ApiError> {
    let secret = OpaqueSecret::parse(token).ok_or(AcceptError::NotFound)?;
    let now = app.clock.now();
    let mut tx = app.db.begin().await?;
    let joined = invites::accept(&mut tx, &secret.hash(), &caller.user.id, now).await?;
    let view = orgs::view(&joined.org, joined.role);
    let Some(invite) = joined.invite else { return Ok((view, None)) };
    let entry = Entry::of_org(caller.actor(), Action::InviteAccept, &joined.org.id, &joined.org.name)
        .with("invite", invite.as_str())
        .with("role", joined.role.as_str());
    audit::record(&mut tx, &entry, now).await?;
    let change = route_changes::record(&mut tx, &joined.org.id, &[], now).await?;
    tx.commit().await?;
    Ok((view, Some(app.edges.apply(change).await)))
}

impl From<AcceptError> for ApiError {
    fn from(error: AcceptError) -> Self {
        match error {
            AcceptError::NotFound => Self::new(
                Code::NotFound,
                "There is no such invite: it was accepted or revoked, or has expired. Ask for a new one.",
            ),
            AcceptError::Full => Self::new(
                Code::PlanLimitReached,
                "The organization has as many members as it may have; ask its admins to make room.",
            ),
            AcceptError::Db(error) => error.into(),
        }
    }
}
