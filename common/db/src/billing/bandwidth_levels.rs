//! How far accounts are through the bandwidth of a month: a row stands from 80 percent on. At 100 the edges serve the account's
//! sites at a bounded rate, as long as the account keeps the plan that the row names.

use domain::{Account, Timestamp, month::Month};
use sqlx::{PgConnection, PgExecutor};

/// An account, as its use of a month's bandwidth is judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// The account.
    pub account: Account,
    /// The plan that it is subscribed to.
    pub subscribed: Option<String>,
    /// The level that is recorded.
    pub level: Option<Level>,
}

/// A level that an account has reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Level {
    /// The percentage: 80 or 100.
    pub percent: u8,
    /// The plan that it was subscribed to then.
    pub plan: Option<String>,
}

/// Returns the standing of each of `accounts` in a month.
pub async fn standings(
    db: impl PgExecutor<'_>,
    accounts: &[Account],
    month: Month,
) -> Result<Vec<Standing>, sqlx::Error> {
    let names: Vec<String> = accounts.iter().map(|account| account.as_str().to_owned()).collect();
    let rows = sqlx::query!(
        r#"SELECT given.account AS "account!: Account", s.plan AS "subscribed?", b.percent AS "percent?", b.plan
           FROM unnest($1::text[]) AS given (account)
           LEFT JOIN subscriptions s ON s.account = given.account AND s.status IN ('active', 'past_due')
           LEFT JOIN bandwidth_levels b ON b.account = given.account AND b.month = $2"#,
        &names,
        month.first_day(),
    )
    .fetch_all(db)
    .await?;
    let standings = rows.into_iter().map(|row| Standing {
        account: row.account,
        subscribed: row.subscribed,
        level: row.percent.map(|percent| Level { percent: u8::try_from(percent).unwrap_or(100), plan: row.plan }),
    });
    Ok(standings.collect())
}

/// Records that the account has reached `level` in a month.
pub async fn reach(
    conn: &mut PgConnection,
    account: &Account,
    month: Month,
    level: &Level,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "INSERT INTO bandwidth_levels (account, month, percent, plan, reached_at) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (account, month) DO UPDATE SET
             percent = excluded.percent, plan = excluded.plan, reached_at = excluded.reached_at",
        account.as_str(),
        month.first_day(),
        i16::from(level.percent),
        level.plan.as_deref(),
        now,
    )
    .execute(conn)
    .await
    .map(drop)
}

/// Forgets the level of an account that has room again: its plan allows more.
pub async fn lift(conn: &mut PgConnection, account: &Account, month: Month) -> Result<(), sqlx::Error> {
    sqlx::query!("DELETE FROM bandwidth_levels WHERE account = $1 AND month = $2", account.as_str(), month.first_day(),)
        .execute(conn)
        .await
        .map(drop)
}

/// Deletes at most `limit` levels of months before `month`, and returns their number.
pub async fn delete_before(db: impl PgExecutor<'_>, month: Month, limit: i64) -> Result<u64, sqlx::Error> {
    let deleted = sqlx::query!(
        "DELETE FROM bandwidth_levels WHERE (account, month) IN (
             SELECT account, month FROM bandwidth_levels WHERE month < $1 LIMIT $2)",
        month.first_day(),
        limit,
    )
    .execute(db)
    .await?;
    Ok(deleted.rows_affected())
}
