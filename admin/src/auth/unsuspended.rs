//! The extractor of callers who may publish.

use axum::{extract::FromRequestParts, http::request::Parts};
use db::projects::suspension;
use domain::Account;

use super::{Caller, CliUser};
use crate::{app::App, error::ApiError};

/// A caller whose own account is not suspended: for what publishes something, or lets somebody else. Beside the suspension of what is
/// acted on, which the SQL sees to, so that nobody who is suspended goes on in an organization that is not. Rejects with 401, as the
/// caller does, and with 409.
#[derive(Debug, Clone)]
pub struct Unsuspended<C>(pub C);

impl FromRequestParts<App> for Unsuspended<Caller> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let caller = <Caller as FromRequestParts<App>>::from_request_parts(parts, app).await?;
        refuse_suspended(app, &caller.account()).await?;
        Ok(Self(caller))
    }
}

impl FromRequestParts<App> for Unsuspended<CliUser> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let caller = <CliUser as FromRequestParts<App>>::from_request_parts(parts, app).await?;
        refuse_suspended(app, &Account::User(caller.user.id.clone())).await?;
        Ok(Self(caller))
    }
}

async fn refuse_suspended(app: &App, account: &Account) -> Result<(), ApiError> {
    match db::in_time(suspension::of_account(&app.db, account)).await? {
        Some(suspended) => Err(suspended.into()),
        None => Ok(()),
    }
}
