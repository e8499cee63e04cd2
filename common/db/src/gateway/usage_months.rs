//! The partitions of recorded usage: one a month, by the time in a completion's id, and one for what has no month's.

use domain::{CompletionId, month::Month};
use sqlx::PgPool;

/// Makes the partition of a month. Returns the number of completions that had been recorded without it and were moved
/// there; `None` when the month has a partition, or more such completions than may be moved while others wait.
pub async fn make(pool: &PgPool, month: Month) -> Result<Option<u64>, sqlx::Error> {
    let moved = sqlx::query_scalar!("SELECT add_ai_usage_month($1)", month.first_day()).fetch_one(pool).await?;
    Ok(moved.map(i64::unsigned_abs))
}

/// Returns the first of the completions that lie in no month's partition.
pub async fn first_outside(pool: &PgPool) -> Result<Option<CompletionId>, sqlx::Error> {
    sqlx::query_scalar!("SELECT id FROM ai_usage_default ORDER BY id LIMIT 1").fetch_optional(pool).await
}
