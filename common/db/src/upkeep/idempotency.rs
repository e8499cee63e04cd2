//! Stored responses to requests with an `Idempotency-Key`. A row without a response is a pending request.

use domain::Timestamp;
use sqlx::PgPool;

/// The result of claiming a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyClaim {
    /// The key was free. The claimant now holds it, and runs the request.
    Fresh,
    /// Another request holds the key and is still pending.
    Running {
        /// The hash of that request.
        request: Vec<u8>,
    },
    /// A request with this key has a response.
    Answered {
        /// The hash of that request.
        request: Vec<u8>,
        /// The status of the response.
        status: i16,
        /// The rest of the response, sealed.
        sealed_answer: Vec<u8>,
    },
    /// The key was released just now; the caller claims it again.
    Released,
}

/// The times before which rows are ignored.
#[derive(Debug, Clone, Copy)]
pub struct ClaimHorizon {
    /// Older responses have expired.
    pub answered: Timestamp,
    /// Pending requests without a sign of life since then have died with their process.
    pub running: Timestamp,
}

/// Claims `scope` for `request`, unless another request holds it.
pub async fn claim(
    pool: &PgPool,
    scope: &[u8; 32],
    request: &[u8; 32],
    now: Timestamp,
    horizon: ClaimHorizon,
) -> Result<KeyClaim, sqlx::Error> {
    let claimed = sqlx::query!(
        "INSERT INTO idempotency_keys AS k (scope_hash, request_hash, created_at) VALUES ($1, $2, $3)
           ON CONFLICT (scope_hash) DO UPDATE
               SET request_hash = excluded.request_hash, created_at = excluded.created_at, alive_at = NULL,
                   status = NULL, sealed_answer = NULL
               WHERE k.created_at < $4 OR (k.sealed_answer IS NULL AND greatest(k.created_at, k.alive_at) < $5)",
        scope,
        request,
        now,
        horizon.answered,
        horizon.running,
    )
    .execute(pool)
    .await?;
    if claimed.rows_affected() == 1 {
        return Ok(KeyClaim::Fresh);
    }
    find_holder(pool, scope).await
}

/// Returns the holder of `scope`, or [`KeyClaim::Released`] if there is none. An expired response is included.
pub async fn find_holder(pool: &PgPool, scope: &[u8; 32]) -> Result<KeyClaim, sqlx::Error> {
    let row = sqlx::query!(
        r#"SELECT request_hash AS "request_hash!", status, sealed_answer FROM idempotency_keys WHERE scope_hash = $1"#,
        scope,
    )
    .fetch_optional(pool)
    .await?;
    Ok(match row {
        None => KeyClaim::Released,
        Some(row) => match (row.status, row.sealed_answer) {
            (Some(status), Some(sealed_answer)) => {
                KeyClaim::Answered { request: row.request_hash, status, sealed_answer }
            }
            _ => KeyClaim::Running { request: row.request_hash },
        },
    })
}

/// Records that the request that claimed `scope` at `claimed_at` is still pending.
pub async fn keep_alive(
    pool: &PgPool,
    scope: &[u8; 32],
    claimed_at: Timestamp,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE idempotency_keys SET alive_at = $3 WHERE scope_hash = $1 AND created_at = $2 AND sealed_answer IS NULL",
        scope,
        claimed_at,
        now,
    )
    .execute(pool)
    .await
    .map(drop)
}

/// Stores the response to the request that claimed `scope` at `claimed_at`, unless another one has taken over.
pub async fn store_response(
    pool: &PgPool,
    scope: &[u8; 32],
    claimed_at: Timestamp,
    status: i16,
    sealed_answer: &[u8],
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE idempotency_keys SET status = $3, sealed_answer = $4
         WHERE scope_hash = $1 AND created_at = $2 AND sealed_answer IS NULL",
        scope,
        claimed_at,
        status,
        sealed_answer,
    )
    .execute(pool)
    .await
    .map(drop)
}

/// Releases the key, because the request failed in a way that a retry may fix.
pub async fn release(pool: &PgPool, scope: &[u8; 32], claimed_at: Timestamp) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "DELETE FROM idempotency_keys WHERE scope_hash = $1 AND created_at = $2 AND sealed_answer IS NULL",
        scope,
        claimed_at,
    )
    .execute(pool)
    .await
    .map(drop)
}

/// Deletes at most `limit` responses from before `before`, and returns their number.
pub async fn delete_expired(pool: &PgPool, before: Timestamp, limit: i64) -> Result<u64, sqlx::Error> {
    let deleted = sqlx::query!(
        "DELETE FROM idempotency_keys WHERE scope_hash IN
             (SELECT scope_hash FROM idempotency_keys WHERE created_at < $1 ORDER BY created_at LIMIT $2)",
        before,
        limit,
    )
    .execute(pool)
    .await?;
    Ok(deleted.rows_affected())
}
