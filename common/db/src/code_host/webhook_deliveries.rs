//! Processed webhook deliveries: each is processed once, however often it is delivered.

use domain::Timestamp;
use sqlx::{PgConnection, PgExecutor};

/// Records a delivery, in the transaction that processes it. Returns false when it was processed before; a concurrent
/// repetition waits for the first to finish.
///
/// The delivery's id is in a header that the signature does not cover, so the body is deduplicated as well.
pub async fn record(
    conn: &mut PgConnection,
    id: &str,
    body_sha256: &[u8; 32],
    event: &str,
    now: Timestamp,
) -> Result<bool, sqlx::Error> {
    let keys = [format!("body:{}", hex::encode(body_sha256)), format!("delivery:{id}")];
    let noted = sqlx::query!(
        "INSERT INTO webhook_deliveries (id, event, received_at) SELECT id, $2, $3 FROM unnest($1::text[]) AS id
         ON CONFLICT DO NOTHING",
        &keys,
        event,
        now,
    )
    .execute(conn)
    .await?;
    Ok(noted.rows_affected() == 2)
}

/// Deletes at most `limit` deliveries received before `before`, and returns their number.
pub async fn delete_old(db: impl PgExecutor<'_>, before: Timestamp, limit: i64) -> Result<u64, sqlx::Error> {
    let deleted = sqlx::query!(
        "DELETE FROM webhook_deliveries WHERE id IN
             (SELECT id FROM webhook_deliveries WHERE received_at < $1 ORDER BY received_at LIMIT $2)",
        before,
        limit,
    )
    .execute(db)
    .await?;
    Ok(deleted.rows_affected())
}
