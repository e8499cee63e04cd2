//! The export queue for an operator's own system: completions since its configuration, until the system has received
//! them.
//!
//! A trigger queues a completion in the transaction that records it, so none is missed. Recording it again requeues it.

use std::time::Duration;

use domain::{
    CompletionId, Timestamp, TokenId,
    usage::{AssumedKinds, Ending},
};
use sqlx::PgPool;

/// The state of the export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportState {
    /// The number of consecutive failures.
    pub failures: i32,
    /// The error of the last failure.
    pub error: Option<String>,
    /// The time of the next attempt.
    pub due_at: Timestamp,
}

/// A completion in the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedCompletion {
    /// The position in the queue.
    pub number: i64,
    /// The completion's id.
    pub id: String,
    /// The usage row; `None` if it was deleted since.
    pub usage: Option<ExportedUsage>,
}

/// A completion's usage row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportedUsage {
    /// The completion.
    pub id: CompletionId,
    /// The id of the person or organization.
    pub account: String,
    /// The key.
    pub token: TokenId,
    /// The model.
    pub model: String,
    /// The provider.
    pub provider: String,
    /// The number of prompt tokens.
    pub prompt_tokens: i64,
    /// The number of completion tokens.
    pub completion_tokens: i64,
    /// The prompt tokens that the provider read from its cache; `None` if unreported or recorded by an older program.
    pub cached_tokens: Option<i64>,
    /// The prompt tokens that the provider wrote to its cache; `None` if unreported or recorded by an older program.
    pub cache_write_tokens: Option<i64>,
    /// The completion tokens that the model used for reasoning; `None` if unreported or recorded by an older program.
    pub reasoning_tokens: Option<i64>,
    /// The number of input images.
    pub images: i64,
    /// The kinds of tokens that were charged at the higher price because the provider did not report them.
    pub assumed: AssumedKinds,
    /// The ending, if recorded.
    pub ending: Option<Ending>,
    /// The cost, in millionths of a cent.
    pub cost_microcents: i64,
    /// The certainty of the figures; see [`UsageCertainty::number`](domain::usage::UsageCertainty::number).
    pub certainty: i16,
    /// The time of admission.
    pub at: Timestamp,
}

/// Begins to queue recorded usage, unless that has begun. Returns the state of the export.
pub async fn enable(pool: &PgPool, now: Timestamp) -> Result<ExportState, sqlx::Error> {
    sqlx::query!("INSERT INTO usage_export (since, due_at) VALUES ($1, $1) ON CONFLICT DO NOTHING", now as Timestamp)
        .execute(pool)
        .await?;
    sqlx::query_as!(ExportState, "SELECT failures, error, due_at FROM usage_export").fetch_one(pool).await
}

/// Returns the state of the export; `None` while it is off.
pub async fn find_state(pool: &PgPool) -> Result<Option<ExportState>, sqlx::Error> {
    sqlx::query_as!(ExportState, "SELECT failures, error, due_at FROM usage_export").fetch_optional(pool).await
}

/// Returns the number of queued completions, counting up to `most`.
pub async fn count_waiting(pool: &PgPool, most: i64) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM (SELECT FROM usage_export_queue ORDER BY number LIMIT $1) AS queued"#,
        most
    )
    .fetch_one(pool)
    .await
}

/// Returns whether the export is on or has queued rows.
pub async fn is_on(pool: &PgPool) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM usage_export) OR (SELECT min(number) FROM usage_export_queue) IS NOT NULL AS "is_on!""#
    )
    .fetch_one(pool)
    .await
}

/// Ends the queueing, and deletes at most `limit` queued rows. Returns the number of deleted rows.
pub async fn disable(pool: &PgPool, limit: i64) -> Result<u64, sqlx::Error> {
    sqlx::query!("DELETE FROM usage_export").execute(pool).await?;
    let forgotten = sqlx::query!(
        "DELETE FROM usage_export_queue WHERE id IN (SELECT id FROM usage_export_queue ORDER BY number LIMIT $1)",
        limit
    );
    Ok(forgotten.execute(pool).await?.rows_affected())
}

/// Returns at most `limit` queued completions, the longest queued first.
pub async fn list_next(pool: &PgPool, limit: i64) -> Result<Vec<QueuedCompletion>, sqlx::Error> {
    let rows = sqlx::query!(
        r#"SELECT queued.number AS "number!", queued.id AS "queued_id!", usage.id AS "id?: CompletionId", usage.account_id AS "account?",
                  usage.token_id AS "token?: TokenId", usage.model AS "model?", usage.provider AS "provider?",
                  usage.prompt_tokens AS "prompt_tokens?", usage.completion_tokens AS "completion_tokens?",
                  usage.cached_tokens AS "cached_tokens?", usage.cache_write_tokens AS "cache_write_tokens?",
                  usage.reasoning_tokens AS "reasoning_tokens?", usage.images AS "images?", usage.assumed AS "assumed?",
                  usage.ending AS "ending?",
                  usage.cost_microcents AS "cost_microcents?", usage.certainty AS "certainty?",
                  usage.created_at AS "at?: Timestamp"
           FROM (SELECT id, number FROM usage_export_queue ORDER BY number LIMIT $1) AS queued
           LEFT JOIN ai_usage AS usage ON usage.id = queued.id ORDER BY queued.number"#,
        limit
    )
    .fetch_all(pool)
    .await?;
    let queued = rows.into_iter().map(|row| {
        let usage = (|| {
            Some(ExportedUsage {
                id: row.id?,
                account: row.account?,
                token: row.token?,
                model: row.model?,
                provider: row.provider?,
                prompt_tokens: row.prompt_tokens?,
                completion_tokens: row.completion_tokens?,
                cached_tokens: row.cached_tokens,
                cache_write_tokens: row.cache_write_tokens,
                reasoning_tokens: row.reasoning_tokens,
                images: row.images.unwrap_or(0),
                assumed: AssumedKinds::from(row.assumed.unwrap_or(0)),
                ending: row.ending.and_then(Ending::from_number),
                cost_microcents: row.cost_microcents?,
                certainty: row.certainty?,
                at: row.at?,
            })
        })();
        QueuedCompletion { number: row.number, id: row.queued_id, usage }
    });
    Ok(queued.collect())
}

/// Removes sent completions from the queue, unless they were recorded again meanwhile.
pub async fn mark_sent(pool: &PgPool, queued: &[QueuedCompletion], now: Timestamp) -> Result<(), sqlx::Error> {
    let (ids, numbers): (Vec<_>, Vec<_>) = queued.iter().map(|queued| (queued.id.clone(), queued.number)).unzip();
    let mut tx = pool.begin().await?;
    sqlx::query!(
        "DELETE FROM usage_export_queue AS queued USING unnest($1::text[], $2::bigint[]) AS sent (id, number)
         WHERE queued.id = sent.id AND queued.number = sent.number",
        &ids,
        &numbers
    )
    .execute(&mut *tx)
    .await?;
    sqlx::query!("UPDATE usage_export SET sent_at = $1, failures = 0, error = NULL, due_at = $1", now as Timestamp)
        .execute(&mut *tx)
        .await?;
    tx.commit().await
}

/// Records a failure, and schedules the next attempt after `pause`.
pub async fn record_failure(pool: &PgPool, error: &str, now: Timestamp, pause: Duration) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE usage_export SET failures = failures + 1, error = $1, due_at = $2",
        error,
        (now + pause) as Timestamp
    )
    .execute(pool)
    .await
    .map(drop)
}
