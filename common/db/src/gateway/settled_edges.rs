//! Edge runs with nothing left to settle. Redis holds reservations for them only if it restored an older state.

use domain::Timestamp;
use sqlx::{PgExecutor, PgPool};

/// Records that all admissions of these edges are recorded ([`ai_usage::record`](super::ai_usage::record)) or released.
pub async fn record(pool: &PgPool, edges: &[String], now: Timestamp) -> Result<(), sqlx::Error> {
    sqlx::query!("SELECT note_settled_edges($1, $2)", edges, now as Timestamp).fetch_one(pool).await.map(drop)
}

/// Returns those of `edges` that have nothing left to settle.
pub async fn filter_settled(pool: &PgPool, edges: &[String]) -> Result<Vec<String>, sqlx::Error> {
    sqlx::query_scalar!("SELECT edge_id FROM settled_edges WHERE edge_id = ANY ($1)", edges).fetch_all(pool).await
}

/// Deletes at most `limit` edges that were settled before `before`, and returns their number.
pub async fn delete_old(db: impl PgExecutor<'_>, before: Timestamp, limit: i64) -> Result<u64, sqlx::Error> {
    let deleted = sqlx::query!(
        "DELETE FROM settled_edges WHERE edge_id IN
             (SELECT edge_id FROM settled_edges WHERE settled_at < $1 ORDER BY settled_at LIMIT $2)",
        before,
        limit,
    )
    .execute(db)
    .await?;
    Ok(deleted.rows_affected())
}
