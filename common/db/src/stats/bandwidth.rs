//! The bandwidth of accounts: the bytes that their sites sent to people, by calendar month. Agents and automation do
//! not count.
//!
//! Traffic is charged to the owner of its project when an edge's batch arrives (the SQL function `append_traffic`), and
//! summed when it is folded into hours. So deleting a project returns nothing, and a new owner pays for traffic from
//! the transfer on. Traffic that arrives after a project's deletion is charged to its last owner until
//! [`delete_former_owners`] deletes that record; within the hour of a transfer, later traffic is the new owner's.

use domain::{Account, Timestamp, month::Month};
use sqlx::{PgExecutor, PgPool};

/// Returns the bytes that the account's sites have sent to people in a month, for comparison with its plan.
pub async fn sum_month(pool: &PgPool, account: &Account, month: Month) -> Result<u64, sqlx::Error> {
    let bytes = sqlx::query_scalar!(
        r#"SELECT (COALESCE((SELECT people_bytes FROM bandwidth_months WHERE month = $2 AND account = $1), 0)
                   + COALESCE((SELECT sum(sums[11]) FROM traffic_recent
                               WHERE account = $1 AND hour >= $3 AND hour < $4), 0))::bigint AS "bytes!""#,
        account.as_str(),
        month.first_day(),
        month.start(),
        month.next().start(),
    )
    .fetch_one(pool)
    .await?;
    Ok(u64::try_from(bytes).unwrap_or(0))
}

/// Deletes at most `limit` monthly sums from before `month`, and returns their number.
pub async fn delete_before(db: impl PgExecutor<'_>, month: Month, limit: i64) -> Result<u64, sqlx::Error> {
    let deleted = sqlx::query!(
        "DELETE FROM bandwidth_months WHERE ctid = ANY(ARRAY(
             SELECT ctid FROM bandwidth_months WHERE month < $1 ORDER BY month LIMIT $2))",
        month.first_day(),
        limit,
    )
    .execute(db)
    .await?;
    Ok(deleted.rows_affected())
}

/// Deletes at most `limit` former ownerships of projects that ended before `before`, and returns their number.
pub async fn delete_former_owners(db: impl PgExecutor<'_>, before: Timestamp, limit: i64) -> Result<u64, sqlx::Error> {
    let deleted = sqlx::query!(
        "DELETE FROM former_owners WHERE ctid = ANY(ARRAY(
             SELECT ctid FROM former_owners WHERE until < $1 ORDER BY until LIMIT $2))",
        before,
        limit,
    )
    .execute(db)
    .await?;
    Ok(deleted.rows_affected())
}
