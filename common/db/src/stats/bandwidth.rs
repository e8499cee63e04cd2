//! Bandwidth of accounts: what their sites sent, by project and calendar month, of the rows that people read.

use std::time::Duration;

use domain::{
    Account, OrgId, ProjectId, Timestamp, UserId,
    month::{Month, midnight},
    traffic::{HOUR, HOURS_KEPT, hour_of},
};
use sqlx::PgPool;
use time::Date;

/// How long ago the traffic is that makes an account one of [`busy_accounts`]: an edge may have been cut off.
const LATELY: Duration = Duration::from_hours(3);

/// Bytes of bodies that were sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bandwidth {
    /// To everybody.
    pub bytes: u64,
    /// To people, agents and automation left out.
    pub people_bytes: u64,
}

/// Returns what each project of the account has sent within a month, up to `now`, those that sent most to people first.
/// A project without traffic is left out; what was deleted or moved meanwhile counts no more.
///
/// Of a day that has both, its own row and hours, the one with more requests is right: the row lacks what came later,
/// or the hours have gone in part.
pub async fn by_project(
    pool: &PgPool,
    account: &Account,
    month: Month,
    now: Timestamp,
) -> Result<Vec<(ProjectId, Bandwidth)>, sqlx::Error> {
    let (days, hours) = days_and_hours(month, now);
    let rows = sqlx::query!(
        r#"WITH owned AS (
               SELECT id FROM projects WHERE user_id = $1 OR org_id = $2
           ), found AS (
               SELECT owned.id, known.day, known.requests, known.bytes, known.people_bytes
               FROM owned, traffic_days AS known WHERE known.day = ANY($3) AND known.project_id = owned.id
               UNION ALL
               SELECT of_hours.id, (of_hours.hour AT TIME ZONE 'UTC')::date, sum(of_hours.requests), sum(of_hours.bytes),
                      sum(of_hours.people_bytes)
               FROM (SELECT owned.id, known.hour, known.requests, known.bytes, known.people_bytes
                     FROM owned, traffic_hours AS known WHERE known.hour = ANY($4) AND known.project_id = owned.id
                     UNION ALL
                     SELECT owned.id, recent.hour, recent.sums[1], recent.sums[2], recent.sums[11]
                     FROM owned, traffic_recent AS recent
                     WHERE recent.hour = ANY($4) AND recent.project_id = owned.id) AS of_hours
               GROUP BY 1, 2
           ), best AS (
               SELECT DISTINCT ON (id, day) id, day, bytes, people_bytes FROM found ORDER BY id, day, requests DESC
           )
           SELECT id AS "project!: ProjectId", sum(bytes)::bigint AS "bytes!", sum(people_bytes)::bigint AS "people_bytes!"
           FROM best GROUP BY id ORDER BY sum(people_bytes) DESC, id"#,
        account.as_user().map(UserId::as_str),
        account.as_org().map(OrgId::as_str),
        &days,
        &hours as &[Timestamp],
    )
    .fetch_all(pool)
    .await?;
    let count = |number: i64| u64::try_from(number).unwrap_or(0);
    let bandwidth = rows
        .into_iter()
        .map(|row| (row.project, Bandwidth { bytes: count(row.bytes), people_bytes: count(row.people_bytes) }));
    Ok(bandwidth.collect())
}

/// Returns accounts whose sites were visited within [`LATELY`], or that have reached a level of the month's bandwidth: those
/// whose level may have changed. At most `rows`, in their order, behind `after`.
pub async fn busy_accounts(
    pool: &PgPool,
    month: Month,
    after: Option<&Account>,
    rows: i64,
    now: Timestamp,
) -> Result<Vec<Account>, sqlx::Error> {
    let hours: Vec<Timestamp> = hours_between(now - LATELY, now + HOUR * 2);
    sqlx::query_scalar!(
        r#"SELECT account AS "account!: Account" FROM (
               SELECT COALESCE(org_id, user_id) AS account FROM projects
               WHERE id IN (SELECT project_id FROM traffic_hours WHERE hour = ANY($1)
                            UNION SELECT project_id FROM traffic_recent WHERE hour = ANY($1))
               UNION SELECT account FROM bandwidth_levels WHERE month = $2
           ) AS busy
           WHERE $3::text IS NULL OR account > $3 ORDER BY account LIMIT $4"#,
        &hours as &[Timestamp],
        month.first_day(),
        after.map(Account::as_str),
        rows,
    )
    .fetch_all(pool)
    .await
}

/// Returns what the sites of each of `accounts` have sent to people within a month, up to `now`. An account without
/// traffic is left out.
pub async fn to_people(
    pool: &PgPool,
    accounts: &[Account],
    month: Month,
    now: Timestamp,
) -> Result<Vec<(Account, u64)>, sqlx::Error> {
    let names: Vec<String> = accounts.iter().map(|account| account.as_str().to_owned()).collect();
    let (days, hours) = days_and_hours(month, now);
    let rows = sqlx::query!(
        r#"WITH owned AS (
               SELECT id, user_id AS account FROM projects WHERE user_id = ANY($1)
               UNION ALL SELECT id, org_id FROM projects WHERE org_id = ANY($1)
           ), found AS (
               SELECT owned.id, known.day, known.requests, known.people_bytes
               FROM owned, traffic_days AS known WHERE known.day = ANY($2) AND known.project_id = owned.id
               UNION ALL
               SELECT of_hours.id, (of_hours.hour AT TIME ZONE 'UTC')::date, sum(of_hours.requests),
                      sum(of_hours.people_bytes)
               FROM (SELECT owned.id, known.hour, known.requests, known.people_bytes
                     FROM owned, traffic_hours AS known WHERE known.hour = ANY($3) AND known.project_id = owned.id
                     UNION ALL
                     SELECT owned.id, recent.hour, recent.sums[1], recent.sums[11]
                     FROM owned, traffic_recent AS recent
                     WHERE recent.hour = ANY($3) AND recent.project_id = owned.id) AS of_hours
               GROUP BY 1, 2
           ), best AS (
               SELECT DISTINCT ON (id, day) id, day, people_bytes FROM found ORDER BY id, day, requests DESC
           )
           SELECT owned.account AS "account!: Account", sum(best.people_bytes)::bigint AS "people_bytes!"
           FROM best JOIN owned ON owned.id = best.id GROUP BY owned.account"#,
        &names,
        &days,
        &hours as &[Timestamp],
    )
    .fetch_all(pool)
    .await?;
    Ok(rows.into_iter().map(|row| (row.account, u64::try_from(row.people_bytes).unwrap_or(0))).collect())
}

/// The days of a month, and those of its hours, up to `now`, that are still there one by one.
fn days_and_hours(month: Month, now: Timestamp) -> (Vec<Date>, Vec<Timestamp>) {
    let end = month.next().first_day();
    let days = std::iter::successors(Some(month.first_day()), |day| day.next_day()).take_while(|day| *day < end);
    let oldest = month.start().max(midnight(now.as_datetime().date()) - HOURS_KEPT);
    // An edge whose clock is ahead may be in the next hour.
    (days.collect(), hours_between(oldest, month.next().start().min(now + HOUR * 2)))
}

/// The hours from `from`, rounded down, to before `until`.
fn hours_between(from: Timestamp, until: Timestamp) -> Vec<Timestamp> {
    let from = hour_of(from);
    std::iter::successors(Some(from), |hour| Some(*hour + HOUR)).take_while(|hour| *hour < until).collect()
}

/// Returns what all projects of the account have sent within a month, up to `now`: what its plan is compared with.
pub async fn of_month(
    pool: &PgPool,
    account: &Account,
    month: Month,
    now: Timestamp,
) -> Result<Bandwidth, sqlx::Error> {
    let mut total = Bandwidth::default();
    for (_, bandwidth) in by_project(pool, account, month, now).await? {
        total.bytes += bandwidth.bytes;
        total.people_bytes += bandwidth.people_bytes;
    }
    Ok(total)
}
