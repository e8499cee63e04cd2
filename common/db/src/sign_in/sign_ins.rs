//! Pending sign-ins at the code host, from the redirect there to the person's return.

use domain::Timestamp;
use sqlx::PgExecutor;

/// A pending sign-in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignIn {
    /// SHA-256 of the secret in the browser's cookie.
    pub browser_hash: Vec<u8>,
    /// The sealed PKCE verifier.
    pub sealed_verifier: Vec<u8>,
    /// The address to which the person returns.
    pub return_to: String,
    /// The time until which the person may return.
    pub expires_at: Timestamp,
}

/// Begins a sign-in.
pub async fn insert(db: impl PgExecutor<'_>, state_hash: &[u8; 32], sign_in: &SignIn) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "INSERT INTO sign_ins (state_hash, browser_hash, sealed_verifier, return_to, expires_at)
         VALUES ($1, $2, $3, $4, $5)",
        state_hash,
        sign_in.browser_hash,
        sign_in.sealed_verifier,
        sign_in.return_to,
        sign_in.expires_at,
    )
    .execute(db)
    .await
    .map(drop)
}

/// Removes and returns a sign-in, so that it is used only once.
pub async fn take(db: impl PgExecutor<'_>, state_hash: &[u8; 32]) -> Result<Option<SignIn>, sqlx::Error> {
    sqlx::query_as!(
        SignIn,
        "DELETE FROM sign_ins WHERE state_hash = $1
           RETURNING browser_hash, sealed_verifier, return_to, expires_at",
        state_hash,
    )
    .fetch_optional(db)
    .await
}

/// Deletes at most `limit` abandoned sign-ins, and returns their number.
pub async fn delete_expired(db: impl PgExecutor<'_>, now: Timestamp, limit: i64) -> Result<u64, sqlx::Error> {
    let deleted = sqlx::query!(
        "DELETE FROM sign_ins WHERE state_hash IN
             (SELECT state_hash FROM sign_ins WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2)",
        now,
        limit,
    )
    .execute(db)
    .await?;
    Ok(deleted.rows_affected())
}
