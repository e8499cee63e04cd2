//! The AI credit that organizations without a subscription share: those of each creator have one free plan together. Each draws a part of
//! the month's credit before it uses it, so that an edge judges every completion by its organization's own budget, and all parts together
//! are never more than the credit. What an organization has drawn and not used goes back once no edge has asked for half an hour.

use domain::{OrgId, Timestamp, month::Month, usage::Microcents};
use sqlx::{PgExecutor, PgPool};

/// What an organization's completions may cost in a month.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DrawnCredit {
    /// The part of the credit that it has drawn; all of it when it shares with none.
    pub part: Microcents,
    /// Whether the credit is shared: the organization has no subscription, and a creator.
    pub is_shared: bool,
}

/// Returns the part of the free plan's `credit` that an organization has drawn for a month, after it was raised by `step` as far as the
/// others of its creator leave some.
pub async fn draw(
    db: impl PgExecutor<'_>,
    org: &OrgId,
    month: Month,
    credit: Microcents,
    step: Microcents,
) -> Result<DrawnCredit, sqlx::Error> {
    let signed = |microcents: Microcents| i64::try_from(microcents.0).unwrap_or(i64::MAX);
    let drawn = sqlx::query!(
        r#"SELECT drawn AS "drawn!", is_shared AS "is_shared!" FROM draw_free_credit($1, $2, $3, $4)"#,
        org.as_str(),
        month.first_day(),
        signed(credit),
        signed(step),
    )
    .fetch_one(db)
    .await?;
    Ok(DrawnCredit { part: Microcents(u64::try_from(drawn.drawn).unwrap_or_default()), is_shared: drawn.is_shared })
}

/// Returns what all organizations that share the credit with `org` have cost in a month, itself included, and deleted ones.
pub async fn spent_together(pool: &PgPool, org: &OrgId, month: Month) -> Result<Microcents, sqlx::Error> {
    let since: Timestamp = month.start();
    let cost = sqlx::query_scalar!(
        r#"SELECT COALESCE(sum(cost_microcents), 0)::bigint AS "cost!" FROM ai_usage_days
           WHERE account_id = ANY(ARRAY(SELECT orgs_sharing_month($1, $2))) AND day >= $3 AND day < $4"#,
        org.as_str(),
        since,
        month.first_day(),
        month.next().first_day(),
    )
    .fetch_one(pool)
    .await?;
    Ok(Microcents(u64::try_from(cost).unwrap_or_default()))
}

/// Deletes at most `limit` parts of months before `month`, and returns their number.
pub async fn delete_before(db: impl PgExecutor<'_>, month: Month, limit: i64) -> Result<u64, sqlx::Error> {
    let deleted = sqlx::query!(
        "DELETE FROM free_credit_parts WHERE ctid = ANY(ARRAY(
             SELECT ctid FROM free_credit_parts WHERE month < $1 ORDER BY month LIMIT $2))",
        month.first_day(),
        limit,
    )
    .execute(db)
    .await?;
    Ok(deleted.rows_affected())
}
