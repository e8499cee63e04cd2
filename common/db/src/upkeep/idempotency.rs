//! Answers to requests with an `Idempotency-Key`. A row without an answer is a request under way.

use domain::Timestamp;
use sqlx::PgPool;

/// The result of claiming a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// The key was free. It is the claimant's, who runs the request.
    Fresh,
    /// Another request holds it and has not been answered yet.
    Running {
        /// The hash of that request.
        request: Vec<u8>,
    },
    /// A request was answered under it.
    Answered {
        /// The hash of that request.
        request: Vec<u8>,
        /// The status of the answer.
        status: i16,
        /// The rest of the answer, sealed.
        sealed_answer: Vec<u8>,
    },
    /// The key was given up at this moment; the caller claims again.
    Released,
}

/// The ages up to which rows count.
#[derive(Debug, Clone, Copy)]
pub struct Horizon {
    /// Older answers are forgotten.
    pub answered: Timestamp,
    /// Requests under way that showed no life since have died with their process.
    pub running: Timestamp,
}

/// Claims `scope` for `request`, if nobody holds it.
pub async fn claim(
    pool: &PgPool,
    scope: &[u8; 32],
    request: &[u8; 32],
    now: Timestamp,
    horizon: Horizon,
) -> Result<Claim, sqlx::Error> {
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
        return Ok(Claim::Fresh);
    }
    holder(pool, scope).await
}

/// Reads what holds `scope`: [`Claim::Released`] when nothing does. An answer may be older than it counts.
pub async fn holder(pool: &PgPool, scope: &[u8; 32]) -> Result<Claim, sqlx::Error> {
    let row = sqlx::query!(
        r#"SELECT request_hash AS "request_hash!", status, sealed_answer FROM idempotency_keys WHERE scope_hash = $1"#,
        scope,
    )
    .fetch_optional(pool)
    .await?;
    Ok(match row {
        None => Claim::Released,
        Some(row) => match (row.status, row.sealed_answer) {
            (Some(status), Some(sealed_answer)) => Claim::Answered { request: row.request_hash, status, sealed_answer },
            _ => Claim::Running { request: row.request_hash },
        },
    })
}

/// Notes that the request that claimed `scope` at `claimed_at` is under way still.
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

/// Keeps the answer to the request that claimed `scope` at `claimed_at`, unless somebody took it over since.
pub async fn remember(
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

/// Gives the key back: the request failed in a way that a retry may mend.
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

/// Deletes at most `limit` answers from before `before`, and returns their number.
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
