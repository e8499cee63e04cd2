//! The queue of usage for an operator's own system: the completions that were recorded since the system was configured, until it has
//! taken them.
//!
//! A trigger queues them, in the transaction that records them, so none is left out. One that is recorded again is queued again.

use std::time::Duration;

use domain::{
    CompletionId, Timestamp, TokenId,
    usage::{Assumed, Ending},
};
use sqlx::PgPool;

/// How sending stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Failures in a row.
    pub failures: i32,
    /// What the last of them was.
    pub error: Option<String>,
    /// When the next try is due.
    pub due_at: Timestamp,
}

/// A completion that waits to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queued {
    /// Its place in the queue.
    pub number: i64,
    /// Its id.
    pub id: String,
    /// The completion's row of usage; none if the row was deleted since.
    pub usage: Option<Recorded>,
}

/// A completion as its row of usage has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// The completion.
    pub id: CompletionId,
    /// The account, a person's or an organization's id.
    pub account: String,
    /// The key.
    pub token: TokenId,
    /// The model.
    pub model: String,
    /// The provider.
    pub provider: String,
    /// Tokens read.
    pub prompt_tokens: i64,
    /// Tokens written.
    pub completion_tokens: i64,
    /// Tokens read that the provider had in its cache; none where it has not said so, or an older program has recorded it.
    pub cached_tokens: Option<i64>,
    /// Tokens read that the provider has put into its cache, likewise.
    pub cache_write_tokens: Option<i64>,
    /// Tokens that the model has thought with, likewise.
    pub reasoning_tokens: Option<i64>,
    /// Images read.
    pub images: i64,
    /// The kinds of tokens that were charged at the dearer price, because the provider has not reported them.
    pub assumed: Assumed,
    /// How it ended, where that was recorded.
    pub ending: Option<Ending>,
    /// The cost, in millionths of a cent.
    pub cost_microcents: i64,
    /// How certain that is; see [`Certainty::number`](domain::usage::Certainty::number).
    pub certainty: i16,
    /// When it was admitted.
    pub at: Timestamp,
}

/// Begins to queue what is recorded, unless that has begun. Returns how sending stands.
pub async fn begin(pool: &PgPool, now: Timestamp) -> Result<Standing, sqlx::Error> {
    sqlx::query!("INSERT INTO usage_export (since, due_at) VALUES ($1, $1) ON CONFLICT DO NOTHING", now as Timestamp)
        .execute(pool)
        .await?;
    sqlx::query_as!(Standing, "SELECT failures, error, due_at FROM usage_export").fetch_one(pool).await
}

/// Returns how sending stands; none while nothing is sent.
pub async fn standing(pool: &PgPool) -> Result<Option<Standing>, sqlx::Error> {
    sqlx::query_as!(Standing, "SELECT failures, error, due_at FROM usage_export").fetch_optional(pool).await
}

/// Returns how many completions wait, as far as `most`.
pub async fn waiting(pool: &PgPool, most: i64) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM (SELECT FROM usage_export_queue ORDER BY number LIMIT $1) AS queued"#,
        most
    )
    .fetch_one(pool)
    .await
}

/// Whether anything is queued, or may be.
pub async fn is_on(pool: &PgPool) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM usage_export) OR (SELECT min(number) FROM usage_export_queue) IS NOT NULL AS "is_on!""#
    )
    .fetch_one(pool)
    .await
}

/// Ends the queueing, and forgets what waits: at most `limit` rows. Returns how many were forgotten.
pub async fn end(pool: &PgPool, limit: i64) -> Result<u64, sqlx::Error> {
    sqlx::query!("DELETE FROM usage_export").execute(pool).await?;
    let forgotten = sqlx::query!(
        "DELETE FROM usage_export_queue WHERE id IN (SELECT id FROM usage_export_queue ORDER BY number LIMIT $1)",
        limit
    );
    Ok(forgotten.execute(pool).await?.rows_affected())
}

/// Returns the completions that wait for the longest time, at most `limit`, in their order.
pub async fn next(pool: &PgPool, limit: i64) -> Result<Vec<Queued>, sqlx::Error> {
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
            Some(Recorded {
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
                assumed: Assumed::from(row.assumed.unwrap_or(0)),
                ending: row.ending.and_then(Ending::from_number),
                cost_microcents: row.cost_microcents?,
                certainty: row.certainty?,
                at: row.at?,
            })
        })();
        Queued { number: row.number, id: row.queued_id, usage }
    });
    Ok(queued.collect())
}

/// Takes what was sent out of the queue, unless it was recorded again meanwhile.
pub async fn sent(pool: &PgPool, queued: &[Queued], now: Timestamp) -> Result<(), sqlx::Error> {
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

/// Notes a failure, after which the next try is due in `pause`.
pub async fn failed(pool: &PgPool, error: &str, now: Timestamp, pause: Duration) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE usage_export SET failures = failures + 1, error = $1, due_at = $2",
        error,
        (now + pause) as Timestamp
    )
    .execute(pool)
    .await
    .map(drop)
}
