//! The monthly AI credit that a creator's organizations without a subscription share.
//!
//! Each draws a part of the credit before using it, so an edge checks a completion against its organization's own
//! budget, and the parts never exceed the credit. An unused part is returned after no edge has requested it for half an
//! hour.

use domain::{OrgId, Timestamp, month::Month, usage::Microcents};
use sqlx::{PgExecutor, PgPool};

/// The budget of an organization's completions in a month.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DrawnCredit {
    /// The drawn part of the credit, or all of it when the organization shares with no other.
    pub part: Microcents,
    /// Whether the credit is shared, because the organization has a creator and no subscription.
    pub is_shared: bool,
}

/// Raises an organization's part of the free plan's `credit` for a month by `step`, as far as the other organizations
/// of its creator leave room, and returns the part.
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

/// Returns the month's cost of all organizations that share the credit with `org`, including itself and deleted ones.
pub async fn sum_shared_cost(pool: &PgPool, org: &OrgId, month: Month) -> Result<Microcents, sqlx::Error> {
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
