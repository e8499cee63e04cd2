//! Proves that the caller may act on an organization, and carries its row as a permit that the SQL functions require.

use admin_http::error::ApiError;
use axum::{
    extract::{FromRequestParts, RawPathParams},
    http::request::Parts,
};
use db::permits::{self, OrgPermit, PermitLevel};
use domain::OrgName;

use super::CliUser;
use crate::App;

/// The organization `{name}` of the path, in which the caller has at least the role `R`. Rejects with 401 (the caller
/// is not a person), 404 (no such organization, or the caller is not a member) or 403 (insufficient role).
#[derive(Debug)]
pub struct OrgAccess<R>(pub OrgPermit<R>);

impl<R: PermitLevel> FromRequestParts<App> for OrgAccess<R> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let caller = <CliUser as FromRequestParts<App>>::from_request_parts(parts, app).await?;
        let parameters =
            RawPathParams::from_request_parts(parts, app).await.map_err(|_| ApiError::not_found("organization"))?;
        let name = parameters.iter().find_map(|(key, value)| (key == "name").then(|| value.parse().ok()).flatten());
        let name: OrgName = name.ok_or_else(|| ApiError::not_found("organization"))?;
        Ok(Self(db::in_time(permits::org(&app.db, &caller.user.id, &name)).await?))
    }
}
