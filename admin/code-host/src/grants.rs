//! The tokens with which we act for people at the code host: stored sealed, refreshed before they expire, and handed
//! out for one call each.

use std::{sync::Arc, time::Duration};

use admin_http::error::{ApiError, Code};
use db::code_host::grants::{self, CodeHostGrant, NewCodeHostGrant};
use domain::{Clock, Timestamp, UserId};
use secrecy::{ExposeSecret as _, SecretString};
use secrets::{KeyPurpose, MasterKey};
use serde::{Deserialize, Serialize};
use sqlx::{PgConnection, PgPool};
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

use super::{CodeHost, CodeHostError, UserGrant};

/// The remaining lifetime below which a token is refreshed before use.
const EARLY: Duration = Duration::from_mins(2);
/// How long one refresh may take before another request may try.
const REFRESH_LEASE: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(100);
/// The polls before the wait for another request's refresh is given up: together a little longer than
/// [`REFRESH_LEASE`].
const REFRESH_POLLS: u32 = 220;
/// The remaining lifetime down to which a token is used although it could not be refreshed: longer than one call takes.
const LEAST_LIFETIME: Duration = Duration::from_secs(15);

/// An error of obtaining a token with which the code host can be called.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// The person has granted no valid token, and must sign in again.
    #[error("the person has granted no token that works")]
    SignInAgain,
    /// The code host failed.
    #[error(transparent)]
    Host(#[from] CodeHostError),
    /// The database failed.
    #[error(transparent)]
    Db(#[from] sqlx::Error),
    /// The stored tokens cannot be opened: they were sealed with another master key, or are damaged.
    #[error("a person's tokens cannot be read: {0}")]
    Sealed(anyhow::Error),
    /// The program is stopping.
    #[error("the program is stopping")]
    Stopping,
}

/// The stored grants of people, and everything needed to refresh them. Cheap to clone.
#[derive(Clone)]
pub struct UserGrants {
    /// The database that stores the grants, with their tokens sealed.
    pub db: PgPool,
    /// The keys that seal and open the tokens.
    pub master_key: MasterKey,
    /// The code host that refreshes the tokens.
    pub host: Arc<dyn CodeHost>,
    /// The clock that decides whether a token must be refreshed.
    pub clock: Clock,
    /// The tracker of refreshes, so that they outlive the request that started them.
    pub tasks: TaskTracker,
}

#[derive(Serialize, Deserialize)]
struct GrantTokens {
    token: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    refresh_token: Option<String>,
}

struct SealedGrant {
    tokens: Vec<u8>,
    expires_at: Option<Timestamp>,
    refresh_expires_at: Option<Timestamp>,
}

pub(super) async fn store_grant(
    conn: &mut PgConnection,
    master_key: &MasterKey,
    user: &UserId,
    grant: &UserGrant,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    let sealed = seal(master_key, user, grant, now);
    grants::store(conn, user, &sealed.row(), now).await
}

impl UserGrants {
    /// Returns a token of `user` for the code host, refreshing it when needed. It remains valid for longer than one
    /// call takes.
    pub async fn token(&self, user: &UserId) -> Result<SecretString, AccessError> {
        for _ in 0..REFRESH_POLLS {
            let now = self.clock.now();
            let grant = grants::find(&self.db, user).await?.ok_or(AccessError::SignInAgain)?;
            let tokens = open(&self.master_key, user, &grant)?;
            if grant.expires_at.is_none_or(|end| now + EARLY < end) {
                return Ok(tokens.token.into());
            }
            let is_usable = grant.expires_at.is_some_and(|end| now + LEAST_LIFETIME < end);
            let refresh_token = tokens.refresh_token.filter(|_| grant.refresh_expires_at.is_none_or(|end| now < end));
            let Some(refresh_token) = refresh_token else {
                return if is_usable { Ok(tokens.token.into()) } else { Err(AccessError::SignInAgain) };
            };
            let until = now + REFRESH_LEASE;
            if grants::begin_refresh(&self.db, user, grant.version, now, until).await? {
                let renewed = self.clone().renew(user.clone(), grant.version, refresh_token.into());
                // Refresh in a task of its own: the refresh token works only once, so the response must be stored even
                // if the client disconnects.
                return self.tasks.spawn(renewed.in_current_span()).await.map_err(|_| AccessError::Stopping)?;
            }
            if is_usable {
                return Ok(tokens.token.into());
            }
            tokio::time::sleep(POLL).await;
        }
        Err(CodeHostError::RateLimited { after: REFRESH_LEASE }.into())
    }

    async fn renew(self, user: UserId, version: i64, refresh_token: SecretString) -> Result<SecretString, AccessError> {
        let Some(host) = self.host.repositories() else { return Err(AccessError::SignInAgain) };
        let answer = host.refresh(&refresh_token).await;
        let now = self.clock.now();
        match answer {
            Ok(Some(grant)) => {
                let sealed = seal(&self.master_key, &user, &grant, now);
                db::in_time(grants::finish_refresh(&self.db, &user, version, &sealed.row(), now)).await?;
                Ok(grant.token)
            }
            Ok(None) => {
                tracing::info!(%user, "the code host takes a person's refresh token no more");
                db::in_time(grants::abandon_refresh(&self.db, &user, version, true, now)).await?;
                Err(AccessError::SignInAgain)
            }
            Err(error) => {
                db::in_time(grants::abandon_refresh(&self.db, &user, version, false, now)).await?;
                Err(error.into())
            }
        }
    }
}

fn seal(master_key: &MasterKey, user: &UserId, grant: &UserGrant, now: Timestamp) -> SealedGrant {
    let tokens = GrantTokens {
        token: grant.token.expose_secret().to_owned(),
        refresh_token: grant.refresh_token.as_ref().map(|token| token.expose_secret().to_owned()),
    };
    // Two strings always serialize to JSON.
    let plain = serde_json::to_vec(&tokens).unwrap_or_default();
    SealedGrant {
        tokens: master_key.seal(KeyPurpose::CodeHost, user.as_str().as_bytes(), &plain),
        expires_at: grant.expires_in.map(|lifetime| now + lifetime),
        refresh_expires_at: grant.refresh_expires_in.map(|lifetime| now + lifetime),
    }
}

fn open(master_key: &MasterKey, user: &UserId, grant: &CodeHostGrant) -> Result<GrantTokens, AccessError> {
    let plain = master_key.open(KeyPurpose::CodeHost, user.as_str().as_bytes(), &grant.sealed_tokens);
    let plain = plain.map_err(|error| AccessError::Sealed(error.into()))?;
    serde_json::from_slice(&plain).map_err(|error| AccessError::Sealed(anyhow::anyhow!("{:?}", error.classify())))
}

impl SealedGrant {
    fn row(&self) -> NewCodeHostGrant<'_> {
        NewCodeHostGrant {
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
            CodeHostError::NotSetUp => {
                let message = "Signing in is not set up here yet: the operator has to set `code_host.client_id`.";
                Self::new(Code::CodeHostError, message).caused_by(error)
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
