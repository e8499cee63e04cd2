//! Proves that the caller may act on a project, and carries its row as a permit that the SQL functions require.

use admin_http::error::ApiError;
use axum::{
    extract::{FromRequestParts, RawPathParams},
    http::request::Parts,
};
use db::permits::{self, PermitLevel, ProjectPermit};
use domain::{Account, ProjectName};

use super::{Caller, CliUser};
use crate::App;

/// The project `{name}` of the path, on which the caller may act at level `L`. Rejects with 401 (a deploy token where
/// only people may act), 404 (no such project, or not accessible to the caller) or 403 (insufficient role).
#[derive(Debug)]
pub struct ProjectAccess<L>(pub ProjectPermit<L>);

impl<L: PermitLevel> FromRequestParts<App> for ProjectAccess<L> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let caller = if L::DEPLOY_TOKENS {
            <Caller as FromRequestParts<App>>::from_request_parts(parts, app).await?
        } else {
            Caller::User(<CliUser as FromRequestParts<App>>::from_request_parts(parts, app).await?)
        };
        let parameters =
            RawPathParams::from_request_parts(parts, app).await.map_err(|_| ApiError::not_found("project"))?;
        let name = parameters.iter().find_map(|(key, value)| (key == "name").then(|| value.parse().ok()).flatten());
        let name: ProjectName = name.ok_or_else(|| ApiError::not_found("project"))?;
        Ok(Self(db::in_time(permits::project(&app.db, &caller.account(), &name, app.clock.now())).await?))
    }
}

impl Caller {
    /// Returns the account that the caller acts for.
    pub fn account(&self) -> Account {
        match self {
            Self::User(caller) => Account::User(caller.user.id.clone()),
            Self::Deploy(caller) => Account::Org(caller.org.clone()),
        }
    }
}
