//! The sealed tokens that people granted us at the code host when they signed in, and their refresh.

use domain::{Timestamp, UserId};
use sqlx::{PgConnection, PgExecutor};

/// A person's tokens.
#[derive(Debug)]
pub struct CodeHostGrant {
    /// The access token and refresh token, sealed with the user's id.
    pub sealed_tokens: Vec<u8>,
    /// The expiry of the access token; `None` when it does not expire.
    pub expires_at: Option<Timestamp>,
    /// The expiry of the refresh token.
    pub refresh_expires_at: Option<Timestamp>,
    /// The version of the grant, which increases with every replacement.
    pub version: i64,
}

/// New tokens to store.
#[derive(Debug)]
pub struct NewCodeHostGrant<'a> {
    /// The access token and refresh token, sealed with the user's id.
    pub sealed_tokens: &'a [u8],
    /// The expiry of the access token; `None` when it does not expire.
    pub expires_at: Option<Timestamp>,
    /// The expiry of the refresh token.
    pub refresh_expires_at: Option<Timestamp>,
}

/// Stores the tokens of a sign-in, replacing earlier ones.
pub async fn store(
    conn: &mut PgConnection,
    user: &UserId,
    grant: &NewCodeHostGrant<'_>,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "INSERT INTO code_host_grants AS g (user_id, sealed_tokens, expires_at, refresh_expires_at, updated_at)
         VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (user_id) DO UPDATE
             SET sealed_tokens = excluded.sealed_tokens, expires_at = excluded.expires_at,
                 refresh_expires_at = excluded.refresh_expires_at, updated_at = excluded.updated_at,
                 version = g.version + 1, refreshing_until = NULL",
        user.as_str(),
        grant.sealed_tokens,
        grant.expires_at,
        grant.refresh_expires_at,
        now,
    )
    .execute(conn)
    .await
    .map(drop)
}

/// Returns the user's grant.
pub async fn find(db: impl PgExecutor<'_>, user: &UserId) -> Result<Option<CodeHostGrant>, sqlx::Error> {
    sqlx::query_as!(
        CodeHostGrant,
        "SELECT sealed_tokens, expires_at,
                  refresh_expires_at, version
           FROM code_host_grants WHERE user_id = $1",
        user.as_str(),
    )
    .fetch_optional(db)
    .await
}

/// Deletes the grant of the person with this code host account, who revoked it there.
pub async fn revoke(conn: &mut PgConnection, vcs_id: &str) -> Result<(), sqlx::Error> {
    sqlx::query!("DELETE FROM code_host_grants g USING users u WHERE u.id = g.user_id AND u.vcs_id = $1", vcs_id)
        .execute(conn)
        .await
        .map(drop)
}

/// Acquires the right to refresh this version until `until`. Returns false when another holder has it or has refreshed.
pub async fn begin_refresh(
    db: impl PgExecutor<'_>,
    user: &UserId,
    version: i64,
    now: Timestamp,
    until: Timestamp,
) -> Result<bool, sqlx::Error> {
    let taken = sqlx::query!(
        "UPDATE code_host_grants SET refreshing_until = $4
         WHERE user_id = $1 AND version = $2 AND (refreshing_until IS NULL OR refreshing_until <= $3)",
        user.as_str(),
        version,
        now,
        until,
    )
    .execute(db)
    .await?;
    Ok(taken.rows_affected() == 1)
}

/// Stores refreshed tokens, unless a sign-in has brought newer ones meanwhile.
pub async fn finish_refresh(
    db: impl PgExecutor<'_>,
    user: &UserId,
    version: i64,
    grant: &NewCodeHostGrant<'_>,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE code_host_grants
         SET sealed_tokens = $3, expires_at = $4, refresh_expires_at = $5, updated_at = $6, version = version + 1,
             refreshing_until = NULL
         WHERE user_id = $1 AND version = $2",
        user.as_str(),
        version,
        grant.sealed_tokens,
        grant.expires_at,
        grant.refresh_expires_at,
        now,
    )
    .execute(db)
    .await
    .map(drop)
}

/// Releases the right to refresh without new tokens. With `refused`, the refresh token is known to be used up.
pub async fn abandon_refresh(
    db: impl PgExecutor<'_>,
    user: &UserId,
    version: i64,
    refused: bool,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE code_host_grants
         SET refreshing_until = NULL, refresh_expires_at = CASE WHEN $3 THEN $4 ELSE refresh_expires_at END
         WHERE user_id = $1 AND version = $2",
        user.as_str(),
        version,
        refused,
        now,
    )
    .execute(db)
    .await
    .map(drop)
}
