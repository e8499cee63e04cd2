//! The monthly partitions of recorded usage, by the time in a completion's id, and the default partition.

use domain::{CompletionId, month::Month};
use sqlx::PgPool;

/// Creates the partition of a month. Returns the number of its completions that were moved there from the default
/// partition; `None` when the partition exists, or there are more such completions than may be moved while others wait.
pub async fn create_partition(pool: &PgPool, month: Month) -> Result<Option<u64>, sqlx::Error> {
    let moved = sqlx::query_scalar!("SELECT add_ai_usage_month($1)", month.first_day()).fetch_one(pool).await?;
    Ok(moved.map(i64::unsigned_abs))
}

/// Returns the first completion in the default partition.
pub async fn first_outside(pool: &PgPool) -> Result<Option<CompletionId>, sqlx::Error> {
    sqlx::query_scalar!("SELECT id FROM ai_usage_default ORDER BY id LIMIT 1").fetch_optional(pool).await
}
