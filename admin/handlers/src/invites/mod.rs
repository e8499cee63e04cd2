//! `/invites/:token`: previewing and accepting an invite by its link. [`sent`] sends and revokes invites.

pub mod sent;

use acts::joining::{AcceptedInvite, invite_not_found, join, preview};
use admin_http::{
    error::ApiError,
    extract::{Json, Path},
};
use api::{invites::InvitePreview, orgs::Org};
use app::{App, auth::CliUser};
use axum::{extract::State, http::header, response::IntoResponse};

use crate::orgs;

/// Previews an invite for the holder of its link.
///
/// Responds with 404 if the invite was accepted or revoked, or has expired.
#[utoipa::path(
    get, path = "/invites/{token}", operation_id = "preview_invite", tag = "Invites", security(()),
    params(("token" = String, Path, description = "The last part of the invite's link")),
    responses((status = 200, description = "The invite", body = InvitePreview, headers(("Cache-Control")))),
    extensions(("x-errors" = json!({
        "not_found": "there is no such invite: it was accepted or revoked, or has expired",
    }))),
)]
pub async fn show(State(app): State<App>, Path(token): Path<String>) -> Result<impl IntoResponse, ApiError> {
    let preview = preview(&app, &token).await?.ok_or_else(invite_not_found)?;
    Ok(([(header::CACHE_CONTROL, "no-store")], Json(preview)))
}

/// Accepts an invite: you join the organization in the invited role.
///
/// The invite is used up. If you already have that role or a higher one, nothing changes, and the response shows your
/// role.
#[utoipa::path(
    post, path = "/invites/{token}/accept", operation_id = "accept_invite", tag = "Invites",
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
    let (AcceptedInvite { org, role, .. }, propagation) = join(&app, &caller, &token).await?;
    Ok((propagation, Json(orgs::view(&org, role))))
}
