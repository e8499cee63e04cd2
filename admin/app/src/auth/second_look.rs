//! Repeats permission checks during uploads and downloads, which may take hours: permissions may be revoked meanwhile.

use std::time::Duration;

use admin_http::error::ApiError;
use db::{
    permits::{self, Deploy, ProjectPermit},
    projects::Project,
    sign_in::{sessions, tokens},
};
use domain::Timestamp;
use sqlx::{PgConnection, PgExecutor};
use tokio::time::sleep;

use super::{Caller, Credential, CredentialError};
use crate::App;

/// The interval between checks while a body is transferred.
const LOOK_EVERY: Duration = Duration::from_secs(5);

impl Credential {
    /// Returns whether the credential is still valid.
    pub async fn is_live(&self, db: impl PgExecutor<'_>, now: Timestamp) -> Result<bool, sqlx::Error> {
        match self {
            Self::Token(token) => tokens::is_live(db, token).await,
            Self::Session(session) => sessions::is_live(db, session, now).await,
        }
    }
}

/// The subject of the permission that is checked again.
#[derive(Debug, Clone, Copy)]
pub enum AccessSubject<'a> {
    /// The caller's own account.
    Own,
    /// A project that is published to or read.
    Project(&'a Project),
}

/// Fails unless the caller's credential is still valid and the caller may still act on the subject.
pub async fn recheck(
    conn: &mut PgConnection,
    caller: &Caller,
    subject: AccessSubject<'_>,
    now: Timestamp,
) -> Result<(), ApiError> {
    let (is_live, ended) = match caller {
        Caller::User(user) => {
            let ended = match user.credential {
                Credential::Token(_) => CredentialError::Revoked,
                Credential::Session(_) => CredentialError::SignedOut,
            };
            (user.credential.is_live(&mut *conn, now).await?, ended)
        }
        Caller::Deploy(org) => (tokens::is_live(&mut *conn, &org.token.id).await?, CredentialError::Revoked),
    };
    if !is_live {
        return Err(ended.to_error());
    }
    if let AccessSubject::Project(project) = subject {
        let again: ProjectPermit<Deploy> = permits::project(conn, &caller.account(), &project.name, now).await?;
        // Another project may have taken the name.
        if again.id != project.id {
            return Err(ApiError::not_found("project"));
        }
    }
    Ok(())
}

/// Completes with the refusal once the permission is revoked. Run it concurrently with the transfer of a body.
pub async fn until_revoked(app: &App, caller: &Caller, subject: AccessSubject<'_>) -> ApiError {
    loop {
        sleep(LOOK_EVERY).await;
        let looking = async {
            let mut conn = app.db.acquire().await?;
            recheck(&mut conn, caller, subject, app.clock.now()).await
        };
        match db::in_time(looking).await {
            Err(error) if error.code().status().is_client_error() => return error,
            // While the database is unavailable, nobody can revoke it either.
            Ok(()) | Err(_) => {}
        }
    }
}
