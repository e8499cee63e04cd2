//! Bandwidth levels: a row for each account that has used at least 80 percent of its monthly bandwidth. At 100 percent
//! the edges limit the rate of the account's sites while the account keeps the plan in the row.

use domain::{Account, Timestamp, month::Month};
use sqlx::{PgConnection, PgExecutor};

/// An account's use of a month's bandwidth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BandwidthStanding {
    /// The account.
    pub account: Account,
    /// The bytes that the account's sites have sent to people. Organizations without a subscription that share a
    /// creator share one free plan and are counted together; bytes used while a subscription was paid are not shared.
    pub used_bytes: u64,
    /// Whether other organizations have sent part of the bytes.
    pub is_shared: bool,
    /// The plan that the account is subscribed to.
    pub subscribed: Option<String>,
    /// The recorded level.
    pub level: Option<BandwidthLevel>,
}

/// A level that an account has reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BandwidthLevel {
    /// The percentage: 80 or 100.
    pub percent: u8,
    /// The plan that the account was subscribed to then.
    pub plan: Option<String>,
}

/// A page of accounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BandwidthPage {
    /// The accounts of the page that have sent enough or have a level.
    pub standings: Vec<BandwidthStanding>,
    /// The last account of the page, used as the cursor; `None` at the end.
    pub last: Option<Account>,
}

/// Reads the next `rows` accounts after `after` that have used bandwidth in a month. Returns those that have sent at
/// least `least_bytes` or have a recorded level.
pub async fn page(
    db: impl PgExecutor<'_>,
    month: Month,
    after: Option<&Account>,
    least_bytes: u64,
    rows: i64,
) -> Result<BandwidthPage, sqlx::Error> {
    // The last account is always included, because it is the cursor.
    let found = sqlx::query!(
        r#"WITH page AS MATERIALIZED (
               SELECT account, people_bytes FROM bandwidth_months
               WHERE month = $1 AND account > $2 ORDER BY account LIMIT $3
           ), recent AS (
               SELECT account, sum(sums[11]) AS people_bytes FROM traffic_recent
               WHERE account > $2 AND account <= (SELECT max(account) FROM page) AND hour >= $4 AND hour < $5
               GROUP BY account
           ), sharing AS MATERIALIZED (
               -- Organizations of the page that share a plan, each found by its key.
               SELECT page.account, o.created_by FROM page
               JOIN LATERAL (SELECT created_by FROM orgs WHERE id = page.account AND created_by IS NOT NULL LIMIT 1) o ON true
               WHERE NOT has_plan(page.account) AND NOT was_paid_since(page.account, $4)
           ), pools AS MATERIALIZED (
               -- Each once, however many of its organizations are on the page.
               SELECT DISTINCT created_by FROM sharing
           ), members AS (
               SELECT pools.created_by, o.id FROM pools
               JOIN LATERAL (SELECT id FROM orgs WHERE created_by = pools.created_by OFFSET 0) o ON NOT has_plan(o.id)
               UNION ALL
               SELECT pools.created_by, o.id FROM pools
               JOIN LATERAL (SELECT id FROM deleted_orgs
                             WHERE created_by = pools.created_by AND deleted_at >= $4 OFFSET 0) o ON true
           ), shared AS MATERIALIZED (
               SELECT m.created_by, sum(COALESCE(b.people_bytes, 0) + COALESCE(r.people_bytes, 0)) AS people_bytes
               FROM members m
               LEFT JOIN LATERAL (SELECT people_bytes FROM bandwidth_months
                                  WHERE month = $1 AND account = m.id LIMIT 1) b ON true
               LEFT JOIN LATERAL (SELECT sum(t.sums[11]) AS people_bytes FROM traffic_recent t
                                  WHERE t.account = m.id AND t.hour >= $4 AND t.hour < $5) r ON true
               WHERE NOT was_paid_since(m.id, $4)
               GROUP BY m.created_by
           ), handed_over AS MATERIALIZED (
               -- What organizations sent that their payer has handed over since: theirs until the month is over.
               SELECT pools.created_by, sum(f.people_bytes) AS people_bytes FROM pools
               JOIN LATERAL (SELECT org_id, people_bytes FROM former_payers
                             WHERE payer = pools.created_by AND left_at >= $4 OFFSET 0) f ON true
               LEFT JOIN LATERAL (SELECT id FROM orgs WHERE id = f.org_id AND created_by = pools.created_by LIMIT 1) again ON true
               WHERE again.id IS NULL GROUP BY pools.created_by
           ), used AS (
               SELECT page.account, COALESCE(shared.people_bytes + COALESCE(handed_over.people_bytes, 0),
                                             page.people_bytes + COALESCE(recent.people_bytes, 0)) AS people_bytes,
                      COALESCE(shared.people_bytes + COALESCE(handed_over.people_bytes, 0) > page.people_bytes + COALESCE(recent.people_bytes, 0), false) AS is_shared
               FROM page
               LEFT JOIN recent ON recent.account = page.account
               LEFT JOIN sharing ON sharing.account = page.account
               LEFT JOIN shared ON shared.created_by = sharing.created_by
               LEFT JOIN handed_over ON handed_over.created_by = sharing.created_by
           )
           SELECT used.account AS "account!: Account", used.people_bytes::bigint AS "used_bytes!",
                  used.is_shared AS "is_shared!",
                  s.plan AS "subscribed?", b.percent AS "percent?", b.plan
           FROM used
           LEFT JOIN bandwidth_levels b ON b.account = used.account AND b.month = $1
           LEFT JOIN subscriptions s ON s.account = used.account AND s.status IN ('active', 'past_due')
           WHERE used.people_bytes >= $6::bigint OR b.account IS NOT NULL
              OR used.account = (SELECT max(account) FROM page)
           ORDER BY used.account"#,
        month.first_day(),
        after.map_or("", Account::as_str),
        rows,
        month.start(),
        month.next().start(),
        i64::try_from(least_bytes).unwrap_or(i64::MAX),
    )
    .fetch_all(db)
    .await?;
    let standings: Vec<BandwidthStanding> = found
        .into_iter()
        .map(|row| BandwidthStanding {
            account: row.account,
            used_bytes: u64::try_from(row.used_bytes).unwrap_or(0),
            is_shared: row.is_shared,
            subscribed: row.subscribed,
            level: row
                .percent
                .map(|percent| BandwidthLevel { percent: u8::try_from(percent).unwrap_or(100), plan: row.plan }),
        })
        .collect();
    Ok(BandwidthPage { last: standings.last().map(|standing| standing.account.clone()), standings })
}

/// Replaces the level `before` with `after`; `None` is below every level. Returns false if `before` is outdated.
pub async fn replace(
    conn: &mut PgConnection,
    account: &Account,
    month: Month,
    before: Option<&BandwidthLevel>,
    after: Option<&BandwidthLevel>,
    now: Timestamp,
) -> Result<bool, sqlx::Error> {
    let (account, month) = (account.as_str(), month.first_day());
    let plan = |level: Option<&BandwidthLevel>| level.and_then(|level| level.plan.clone());
    let percent = |level: Option<&BandwidthLevel>| level.map(|level| i16::from(level.percent));
    let done = match (percent(before), percent(after)) {
        (None, None) => return Ok(true),
        (None, Some(percent)) => {
            sqlx::query!(
                "INSERT INTO bandwidth_levels (account, month, percent, plan, reached_at) VALUES ($1, $2, $3, $4, $5)
                 ON CONFLICT (account, month) DO NOTHING",
                account,
                month,
                percent,
                plan(after),
                now,
            )
            .execute(conn)
            .await?
        }
        (Some(was), Some(percent)) => {
            sqlx::query!(
                "UPDATE bandwidth_levels SET percent = $3, plan = $4, reached_at = $5
                 WHERE account = $1 AND month = $2 AND percent = $6 AND plan IS NOT DISTINCT FROM $7",
                account,
                month,
                percent,
                plan(after),
                now,
                was,
                plan(before),
            )
            .execute(conn)
            .await?
        }
        (Some(was), None) => {
            sqlx::query!(
                "DELETE FROM bandwidth_levels
                 WHERE account = $1 AND month = $2 AND percent = $3 AND plan IS NOT DISTINCT FROM $4",
                account,
                month,
                was,
                plan(before),
            )
            .execute(conn)
            .await?
        }
    };
    Ok(done.rows_affected() == 1)
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
