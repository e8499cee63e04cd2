//! Pending device flows. Our own device code is stored only as a hash.

use domain::{Timestamp, UserId};
use sqlx::{PgConnection, PgPool};

use crate::sign_in::users::User;

/// The state of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "text", rename_all = "lowercase")]
pub enum GrantState {
    /// The person has not answered yet.
    Pending,
    /// The person approved; the next poll gets the token.
    Approved,
    /// The person declined.
    Denied,
    /// The token was issued.
    Used,
}

/// A pending flow.
#[derive(Debug, Clone)]
pub struct DeviceGrant {
    /// The state.
    pub state: GrantState,
    /// The code host's device code, sealed; `None` for local accounts.
    pub sealed_device_code: Option<Vec<u8>>,
    /// The seconds to wait between polls.
    pub interval_seconds: i32,
    /// The person who approved.
    pub user_id: Option<UserId>,
    /// The expiry of both codes.
    pub expires_at: Timestamp,
    /// The time of the client's previous poll.
    pub last_polled_at: Option<Timestamp>,
}

/// A flow to begin.
#[derive(Debug)]
pub struct NewDeviceGrant<'a> {
    /// SHA-256 of our device code.
    pub device_code_hash: &'a [u8; 32],
    /// The code that the person types.
    pub user_code: &'a str,
    /// The code host's device code, sealed.
    pub sealed_device_code: Option<&'a [u8]>,
    /// The seconds to wait between polls.
    pub interval_seconds: i32,
    /// The expiry of both codes.
    pub expires_at: Timestamp,
}

/// Begins a flow. Returns false when an unexpired flow has the same user code: retry with another.
pub async fn insert(pool: &PgPool, grant: &NewDeviceGrant<'_>, now: Timestamp) -> Result<bool, sqlx::Error> {
    let inserted = sqlx::query!(
        "INSERT INTO device_grants AS g
             (device_code_hash, user_code, sealed_device_code, interval_seconds, created_at, expires_at)
         VALUES ($1, $2, $3, $4, $5, $6)
         ON CONFLICT (user_code) DO UPDATE
             SET device_code_hash = excluded.device_code_hash, sealed_device_code = excluded.sealed_device_code,
                 interval_seconds = excluded.interval_seconds, created_at = excluded.created_at,
                 expires_at = excluded.expires_at, state = 'pending', user_id = NULL, last_polled_at = NULL
             WHERE g.expires_at <= $5",
        grant.device_code_hash,
        grant.user_code,
        grant.sealed_device_code,
        grant.interval_seconds,
        now,
        grant.expires_at,
    )
    .execute(pool)
    .await?;
    Ok(inserted.rows_affected() == 1)
}

/// Returns a flow as it was before this poll, and records the poll, atomically so that concurrent polls are ordered.
pub async fn poll(
    pool: &PgPool,
    device_code_hash: &[u8; 32],
    now: Timestamp,
) -> Result<Option<DeviceGrant>, sqlx::Error> {
    sqlx::query_as!(
        DeviceGrant,
        "WITH before AS (SELECT * FROM device_grants WHERE device_code_hash = $1 FOR UPDATE)
           UPDATE device_grants g SET last_polled_at = $2 FROM before b WHERE g.device_code_hash = b.device_code_hash
           RETURNING b.state, b.sealed_device_code, b.interval_seconds,
                     b.user_id, b.expires_at,
                     b.last_polled_at",
        device_code_hash,
        now,
    )
    .fetch_optional(pool)
    .await
}

/// Sets the interval between polls.
pub async fn set_interval(pool: &PgPool, device_code_hash: &[u8; 32], seconds: i32) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE device_grants SET interval_seconds = greatest(interval_seconds, $2) WHERE device_code_hash = $1",
        device_code_hash,
        seconds,
    )
    .execute(pool)
    .await
    .map(drop)
}

/// Records that the person declined at the code host.
pub async fn deny(pool: &PgPool, device_code_hash: &[u8; 32]) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE device_grants SET state = 'denied' WHERE device_code_hash = $1 AND state = 'pending'",
        device_code_hash,
    )
    .execute(pool)
    .await
    .map(drop)
}

/// Uses up the device code. Returns false when a concurrent poll did, so that there is no second token.
pub async fn redeem(conn: &mut PgConnection, device_code_hash: &[u8; 32]) -> Result<bool, sqlx::Error> {
    let used = sqlx::query!(
        "UPDATE device_grants SET state = 'used' WHERE device_code_hash = $1 AND state IN ('pending', 'approved')",
        device_code_hash,
    )
    .execute(conn)
    .await?;
    Ok(used.rows_affected() == 1)
}

/// Records the answer on the local page: approved as `user`, or declined. Returns false if `user_code` is not pending.
pub async fn answer(
    conn: &mut PgConnection,
    user_code: &str,
    user: Option<&User>,
    now: Timestamp,
) -> Result<bool, sqlx::Error> {
    let state = if user.is_some() { GrantState::Approved } else { GrantState::Denied };
    let answered = sqlx::query!(
        "UPDATE device_grants SET state = $2, user_id = $3
         WHERE user_code = $1 AND state = 'pending' AND expires_at > $4",
        user_code,
        state as GrantState,
        user.map(|user| user.id.as_str()),
        now,
    )
    .execute(conn)
    .await?;
    Ok(answered.rows_affected() == 1)
}

/// Deletes at most `limit` flows that expired before `before`, and returns their number.
pub async fn delete_expired(pool: &PgPool, before: Timestamp, limit: i64) -> Result<u64, sqlx::Error> {
    let deleted = sqlx::query!(
        "DELETE FROM device_grants WHERE device_code_hash IN
             (SELECT device_code_hash FROM device_grants WHERE expires_at < $1 ORDER BY expires_at LIMIT $2)",
        before,
        limit,
    )
    .execute(pool)
    .await?;
    Ok(deleted.rows_affected())
}
