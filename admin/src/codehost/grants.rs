//! The tokens that people granted us: kept sealed, renewed before they end, and handed out for one call.

use std::time::Duration;

use db::code_host_grants::{self, Grant, NewGrant};
use domain::{Timestamp, UserId};
use secrecy::{ExposeSecret as _, SecretString};
use secrets::{MasterKey, Purpose};
use serde::{Deserialize, Serialize};
use sqlx::PgConnection;
use tracing::Instrument as _;

use super::{CodeHostError, UserGrant};
use crate::{
    app::App,
    error::{ApiError, Code},
};

/// A token that ends so soon is renewed before it is used.
const EARLY: Duration = Duration::from_mins(2);
/// How long renewing may take before somebody else tries.
const REFRESH_LEASE: Duration = Duration::from_secs(20);
/// How often one who waits for another's renewal looks.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// And how often at most: a little longer than renewing may take.
const LOOKS: u32 = 220;

/// Why there is no token to call the code host with.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// The person has to sign in again.
    #[error("the person has granted no token that works")]
    SignInAgain,
    /// The code host.
    #[error(transparent)]
    Host(#[from] CodeHostError),
    /// The database.
    #[error(transparent)]
    Db(#[from] sqlx::Error),
    /// The row does not open: another master key, or damage.
    #[error("a person's tokens cannot be read: {0}")]
    Sealed(anyhow::Error),
    /// The program stops.
    #[error("the program is stopping")]
    Stopping,
}

/// What is sealed.
#[derive(Serialize, Deserialize)]
struct Tokens {
    token: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    refresh_token: Option<String>,
}

struct Sealed {
    tokens: Vec<u8>,
    expires_at: Option<Timestamp>,
    refresh_expires_at: Option<Timestamp>,
}

/// Keeps what a sign-in granted.
pub(super) async fn keep(
    conn: &mut PgConnection,
    master_key: &MasterKey,
    user: &UserId,
    grant: &UserGrant,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    let sealed = seal(master_key, user, grant, now);
    code_host_grants::keep(conn, user, &sealed.row(), now).await
}

/// A token that speaks for `user` at the code host, good for at least a minute.
pub async fn token(app: &App, user: &UserId) -> Result<SecretString, AccessError> {
    for _ in 0..LOOKS {
        let now = app.clock.now();
        let grant = code_host_grants::find(&app.db, user).await?.ok_or(AccessError::SignInAgain)?;
        let tokens = open(&app.master_key, user, &grant)?;
        if grant.expires_at.is_none_or(|end| now + EARLY < end) {
            return Ok(tokens.token.into());
        }
        let still_good = grant.expires_at.is_some_and(|end| now + CALL < end);
        let refresh_token = tokens.refresh_token.filter(|_| grant.refresh_expires_at.is_none_or(|end| now < end));
        let Some(refresh_token) = refresh_token else {
            return if still_good { Ok(tokens.token.into()) } else { Err(AccessError::SignInAgain) };
        };
        let until = now + REFRESH_LEASE;
        if code_host_grants::begin_refresh(&app.db, user, grant.version, now, until).await? {
            let renewed = renew(app.clone(), user.clone(), grant.version, refresh_token.into());
            // A task of its own: the refresh token works once, so what it gave must be kept, even when the client leaves.
            return app.tasks.spawn(renewed.in_current_span()).await.map_err(|_| AccessError::Stopping)?;
        }
        if still_good {
            return Ok(tokens.token.into());
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    Err(CodeHostError::RateLimited { after: REFRESH_LEASE }.into())
}

/// A call may take so long.
const CALL: Duration = Duration::from_secs(15);

async fn renew(app: App, user: UserId, version: i64, refresh_token: SecretString) -> Result<SecretString, AccessError> {
    let Some(host) = app.code_host.repositories() else { return Err(AccessError::SignInAgain) };
    let answer = host.refresh(&refresh_token).await;
    let now = app.clock.now();
    match answer {
        Ok(Some(grant)) => {
            let sealed = seal(&app.master_key, &user, &grant, now);
            code_host_grants::finish_refresh(&app.db, &user, version, &sealed.row(), now).await?;
            Ok(grant.token)
        }
        Ok(None) => {
            tracing::info!(%user, "the code host takes a person's refresh token no more");
            code_host_grants::abandon_refresh(&app.db, &user, version, true, now).await?;
            Err(AccessError::SignInAgain)
        }
        Err(error) => {
            code_host_grants::abandon_refresh(&app.db, &user, version, false, now).await?;
            Err(error.into())
        }
    }
}

fn seal(master_key: &MasterKey, user: &UserId, grant: &UserGrant, now: Timestamp) -> Sealed {
    let tokens = Tokens {
        token: grant.token.expose_secret().to_owned(),
        refresh_token: grant.refresh_token.as_ref().map(|token| token.expose_secret().to_owned()),
    };
    // Two strings always become JSON.
    let plain = serde_json::to_vec(&tokens).unwrap_or_default();
    Sealed {
        tokens: master_key.seal(Purpose::CodeHost, user.as_str().as_bytes(), &plain),
        expires_at: grant.expires_in.map(|lifetime| now + lifetime),
        refresh_expires_at: grant.refresh_expires_in.map(|lifetime| now + lifetime),
    }
}

fn open(master_key: &MasterKey, user: &UserId, grant: &Grant) -> Result<Tokens, AccessError> {
    let plain = master_key.open(Purpose::CodeHost, user.as_str().as_bytes(), &grant.sealed_tokens);
    let plain = plain.map_err(|error| AccessError::Sealed(error.into()))?;
    serde_json::from_slice(&plain).map_err(|error| AccessError::Sealed(anyhow::anyhow!("{:?}", error.classify())))
}

impl Sealed {
    fn row(&self) -> NewGrant<'_> {
        NewGrant {
            sealed_tokens: &self.tokens,
            expires_at: self.expires_at,
            refresh_expires_at: self.refresh_expires_at,
        }
    }
}

impl From<AccessError> for ApiError {
    fn from(error: AccessError) -> Self {
        match error {
            AccessError::SignInAgain => sign_in_again(),
            AccessError::Host(error) => error.into(),
            AccessError::Db(error) => error.into(),
            AccessError::Stopping => Self::new(Code::Busy, "This server is stopping; please try again."),
            AccessError::Sealed(error) => Self::internal(error),
        }
    }
}

impl From<CodeHostError> for ApiError {
    fn from(error: CodeHostError) -> Self {
        match error {
            CodeHostError::Unauthorized { .. } => sign_in_again().caused_by(error),
            CodeHostError::Unreached => {
                let message = "The installation does not reach the repository, or may not read its contents; grant it \
                               both at the code host.";
                Self::new(Code::NotFound, message).caused_by(error)
            }
            CodeHostError::Suspended => {
                let message = "The installation is suspended; lift the suspension at the code host.";
                Self::new(Code::CodeHostError, message).caused_by(error)
            }
            CodeHostError::RateLimited { after } => {
                let message = "The code host has been asked too often; please try again later.";
                Self::new(Code::CodeHostError, message).retry_after(after).caused_by(error)
            }
            error => {
                let message = "The code host does not answer as it should; please try again in a moment.";
                Self::new(Code::CodeHostError, message).caused_by(error)
            }
        }
    }
}

fn sign_in_again() -> ApiError {
    let message = "The code host does not let us act for you any more; sign in again with `svc login`.";
    ApiError::new(Code::CodeHostError, message)
}
