//! Webhooks that were acted on: each counts once, however often it is delivered.

use sqlx::{PgConnection, PgExecutor};

use crate::domain::Timestamp;

/// Notes a delivery, in the transaction that acts on it. False when it was acted on before; a repetition that comes
/// while the first is still under way waits for its end.
pub async fn note(conn: &mut PgConnection, id: &str, event: &str, now: Timestamp) -> Result<bool, sqlx::Error> {
    let noted = sqlx::query!(
        "INSERT INTO webhook_deliveries (id, event, received_at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
        id,
        event,
        now as Timestamp,
    )
    .execute(conn)
    .await?;
    Ok(noted.rows_affected() == 1)
}

/// Forgets up to `limit` deliveries received before `before`. How many there were.
pub async fn delete_old(db: impl PgExecutor<'_>, before: Timestamp, limit: i64) -> Result<u64, sqlx::Error> {
    let deleted = sqlx::query!(
        "DELETE FROM webhook_deliveries WHERE id IN
             (SELECT id FROM webhook_deliveries WHERE received_at < $1 ORDER BY received_at LIMIT $2)",
        before as Timestamp,
        limit,
    )
    .execute(db)
    .await?;
    Ok(deleted.rows_affected())
}
