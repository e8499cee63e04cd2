//! Months: the days of a project in one row, written some time after the month has ended.
//!
//! [`condense`] makes them from days without losing a figure; reports read them like days.

mod format;

use domain::{ProjectId, month::Month};
use sqlx::{PgConnection, PgPool};
use time::Date;

use self::format::{DayFigures, MonthDays};
pub(super) use self::format::{ListGroup, for_each_group_entry, parse_day_sums};

/// A month of a project whose days still have their own rows.
#[derive(Debug, Clone)]
pub struct CondensableMonth {
    /// The project.
    pub project: ProjectId,
    /// The month.
    pub month: Month,
}

/// Returns at most `limit` projects with days in the oldest month that has any before `until`, the first of a month.
pub async fn list_condensable(pool: &PgPool, until: Date, limit: i64) -> Result<Vec<CondensableMonth>, sqlx::Error> {
    let rows = sqlx::query!(
        r#"SELECT day AS "day!", project_id AS "project!: ProjectId" FROM traffic_days
           WHERE day < $1 ORDER BY day, project_id LIMIT $2"#,
        until,
        limit,
    )
    .fetch_all(pool)
    .await?;
    let mut found: Vec<CondensableMonth> = Vec::new();
    for row in rows {
        let month = Month::from_date(row.day);
        if !found.iter().any(|known| known.month == month && known.project == row.project) {
            found.push(CondensableMonth { project: row.project, month });
        }
    }
    Ok(found)
}

/// Moves a project's days of a month into the month's row, in one transaction. A day that is already there stays if it
/// has at least as much traffic, because the new one may be made from partly deleted hours.
pub async fn condense(pool: &PgPool, wanted: &CondensableMonth) -> Result<(), sqlx::Error> {
    let CondensableMonth { project, month } = wanted;
    let mut tx = pool.begin().await?;
    let (first, end) = (month.first_day(), month.next().first_day());
    let rows = sqlx::query!(
        r#"DELETE FROM traffic_days WHERE day >= $2 AND day < $3 AND project_id = $1
           RETURNING day AS "day!", visitors AS "visitors!", lists::text AS "lists!",
                     ARRAY[requests, bytes, cache_hits, cache_misses, status_2xx, status_3xx, status_4xx, status_5xx,
                           status_other, pageviews, people_bytes] AS "sums!""#,
        project.as_str(),
        first,
        end,
    )
    .fetch_all(&mut *tx)
    .await?;
    // Another admin has moved the days meanwhile.
    if rows.is_empty() {
        return Ok(());
    }
    // Read after locking the days, so that the second of two concurrent calls sees the result of the first.
    let mut days = stored(&mut tx, project, *month).await?;
    for row in rows {
        days.add(row.day.day(), DayFigures::from_row(row.sums, row.visitors, &row.lists)?);
    }
    let blobs = days.encode()?;
    let [audience, views, requests, errors, agents] = ListGroup::ALL.map(|group| blobs.group(group));
    sqlx::query!(
        "INSERT INTO traffic_months (month, project_id, days, audience, views, requests, errors, agents)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
         ON CONFLICT (project_id, month) DO UPDATE SET
             days = excluded.days, audience = excluded.audience, views = excluded.views, requests = excluded.requests,
             errors = excluded.errors, agents = excluded.agents",
        first,
        project.as_str(),
        blobs.days(),
        audience,
        views,
        requests,
        errors,
        agents,
    )
    .execute(&mut *tx)
    .await?;
    tx.commit().await
}

/// Locks and returns a month's row; empty if there is none.
async fn stored(conn: &mut PgConnection, project: &ProjectId, month: Month) -> Result<MonthDays, sqlx::Error> {
    let row = sqlx::query!(
        "SELECT days, audience, views, requests, errors, agents FROM traffic_months
         WHERE project_id = $1 AND month = $2 FOR UPDATE",
        project.as_str(),
        month.first_day(),
    )
    .fetch_optional(conn)
    .await?;
    let Some(row) = row else { return Ok(MonthDays::default()) };
    let groups = [row.audience, row.views, row.requests, row.errors, row.agents];
    MonthDays::decode(&row.days, groups.iter().flatten().map(Vec::as_slice))
}

/// Deletes at most `limit` months before the one of `until`.
pub async fn delete_before(pool: &PgPool, until: Date, limit: i64) -> Result<u64, sqlx::Error> {
    let deleted = sqlx::query!(
        "DELETE FROM traffic_months WHERE ctid = ANY(ARRAY(
             SELECT ctid FROM traffic_months WHERE month < $1 ORDER BY month LIMIT $2))",
        Month::from_date(until).first_day(),
        limit,
    )
    .execute(pool)
    .await?;
    Ok(deleted.rows_affected())
}

/// Drops the oldest partition of days before `until`, if all its days are in months. Returns whether there was one.
pub async fn drop_partition(pool: &PgPool, until: Date) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(r#"SELECT drop_condensed_partition($1) AS "dropped!""#, until).fetch_one(pool).await
}
