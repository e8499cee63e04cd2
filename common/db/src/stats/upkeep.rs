//! What jobs do with traffic: batches are added to hours, days are made of hours, and what is old or of deleted projects
//! goes.

use std::collections::HashMap;

use domain::{
    ProjectId, Timestamp,
    traffic::sketch::{Register, Sketch},
};
use sqlx::{PgConnection, PgPool};
use time::Date;

/// Adds at most `most` parts of batches to their hours, of the projects in one shard of `shards`. Returns their number.
pub async fn fold(pool: &PgPool, most: i64, shard: i32, shards: i32) -> Result<u64, sqlx::Error> {
    let folded = sqlx::query_scalar!(r#"SELECT fold_traffic($1, $2, $3) AS "folded!""#, most, shard, shards)
        .fetch_one(pool)
        .await?;
    Ok(folded.unsigned_abs())
}

/// Makes days of the hours before `until`, a UTC midnight, that no day has yet: of `most` hours and the others of their
/// days. Returns the number of days made.
pub async fn roll(pool: &PgPool, until: Timestamp, most: i64) -> Result<u64, sqlx::Error> {
    let mut tx = pool.begin().await?;
    let rolled = sqlx::query!(
        r#"SELECT rolled_day AS "day!", rolled_project AS "project!: ProjectId" FROM roll_traffic($1, $2)"#,
        until,
        most,
    )
    .fetch_all(&mut *tx)
    .await?;
    let days: Vec<Date> = rolled.iter().map(|row| row.day).collect();
    let projects: Vec<&str> = rolled.iter().map(|row| row.project.as_str()).collect();
    count_visitors(&mut tx, &days, &projects).await?;
    tx.commit().await?;
    Ok(rolled.len().try_into().unwrap_or(u64::MAX))
}

/// Estimates the visitors of these days of projects, where there is a sketch of them.
async fn count_visitors(conn: &mut PgConnection, days: &[Date], projects: &[&str]) -> Result<(), sqlx::Error> {
    let sketches = sqlx::query!(
        "SELECT seen.day, seen.project_id, seen.registers
         FROM unnest($1::date[], $2::text[]) AS wanted (day, project_id)
         JOIN traffic_visitors AS seen ON seen.day = wanted.day AND seen.project_id = wanted.project_id",
        days,
        projects as &[&str],
    )
    .fetch_all(&mut *conn)
    .await?;
    let mut by_day: HashMap<(Date, String), Sketch> = HashMap::new();
    for row in sketches {
        let sketch = by_day.entry((row.day, row.project_id)).or_default();
        sketch.extend(row.registers.into_iter().filter_map(Register::from_stored));
    }
    let (mut days, mut projects, mut visitors) = (Vec::new(), Vec::new(), Vec::new());
    for ((day, project), sketch) in by_day {
        days.push(day);
        projects.push(project);
        visitors.push(i64::try_from(sketch.estimate()).unwrap_or(i64::MAX));
    }
    sqlx::query!(
        "UPDATE traffic_days AS known SET visitors = counted.visitors
         FROM unnest($1::date[], $2::text[], $3::bigint[]) AS counted (day, project_id, visitors)
         WHERE known.day = counted.day AND known.project_id = counted.project_id",
        &days,
        &projects,
        &visitors,
    )
    .execute(conn)
    .await
    .map(drop)
}

/// A table that lies in partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Divided {
    /// What hours are made of, in partitions of a day.
    HourEntries,
    /// Hours, in partitions of a day.
    Hours,
    /// Days, in partitions of a month.
    Days,
}

impl Divided {
    /// Every such table. An hour goes after what it is made of.
    pub const ALL: [Self; 3] = [Self::HourEntries, Self::Hours, Self::Days];

    const fn as_str(self) -> &'static str {
        match self {
            Self::HourEntries => "traffic_hour_entries",
            Self::Hours => "traffic_hours",
            Self::Days => "traffic_days",
        }
    }
}

/// Makes the partition in which `day` lies. Returns whether it did: not when there is one, or when the default partition
/// holds more of its rows than may be moved while others wait.
pub async fn add_partition(pool: &PgPool, table: Divided, day: Date) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(r#"SELECT add_traffic_partition($1, $2) AS "added!""#, table.as_str(), day)
        .fetch_one(pool)
        .await
}

/// Drops the oldest partition that lies wholly before `until`. Returns whether there was one. Hours that are in no day
/// yet stay, and what they are made of.
pub async fn drop_partition(pool: &PgPool, table: Divided, until: Timestamp) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(r#"SELECT drop_traffic_partition($1, $2) AS "dropped!""#, table.as_str(), until)
        .fetch_one(pool)
        .await
}

/// Deletes at most `limit` rows of each table that lie in no partition of their own: of hours before `hours`, where all of
/// these are in their days, and of days before `days`. Returns the number of rows of one table, the highest.
pub async fn delete_undivided(pool: &PgPool, hours: Timestamp, days: Date, limit: i64) -> Result<u64, sqlx::Error> {
    let deleted = sqlx::query_scalar!(
        r#"WITH entries AS (
               DELETE FROM traffic_hour_entries_default WHERE ctid = ANY(ARRAY(
                   SELECT ctid FROM traffic_hour_entries_default
                   WHERE hour < $1 AND NOT EXISTS (SELECT FROM traffic_hours WHERE NOT is_rolled AND hour < $1)
                   ORDER BY hour LIMIT $3))
               RETURNING 1
           ), hours AS (
               DELETE FROM traffic_hours_default WHERE ctid = ANY(ARRAY(
                   SELECT ctid FROM traffic_hours_default
                   WHERE hour < $1 AND is_rolled AND NOT EXISTS (SELECT FROM entries)
                   ORDER BY hour LIMIT $3))
               RETURNING 1
           ), days AS (
               DELETE FROM traffic_days_default WHERE ctid = ANY(ARRAY(
                   SELECT ctid FROM traffic_days_default WHERE day < $2 ORDER BY day LIMIT $3))
               RETURNING 1
           )
           SELECT greatest((SELECT count(*) FROM entries), (SELECT count(*) FROM hours), (SELECT count(*) FROM days))
               AS "deleted!""#,
        hours,
        days,
        limit,
    )
    .fetch_one(pool)
    .await?;
    Ok(deleted.unsigned_abs())
}

/// Deletes at most `limit` rows of sketches of the visitors of days before `until`.
pub async fn delete_visitors(pool: &PgPool, until: Date, limit: i64) -> Result<u64, sqlx::Error> {
    let deleted = sqlx::query!(
        "DELETE FROM traffic_visitors WHERE ctid = ANY(ARRAY(
             SELECT ctid FROM traffic_visitors WHERE day < $1 ORDER BY day LIMIT $2))",
        until,
        limit,
    )
    .execute(pool)
    .await?;
    Ok(deleted.rows_affected())
}

/// Deletes at most `limit` counts of the keys that payers had in hours before `until`.
pub async fn delete_payer_hours(pool: &PgPool, until: Timestamp, limit: i64) -> Result<u64, sqlx::Error> {
    let deleted = sqlx::query!(
        "DELETE FROM traffic_payer_hours WHERE ctid = ANY(ARRAY(
             SELECT ctid FROM traffic_payer_hours WHERE hour < $1 ORDER BY hour LIMIT $2))",
        until,
        limit,
    )
    .execute(pool)
    .await?;
    Ok(deleted.rows_affected())
}

/// Forgets at most `limit` edges that have sent nothing since `before`.
pub async fn delete_edges(pool: &PgPool, before: Timestamp, limit: i64) -> Result<u64, sqlx::Error> {
    let deleted = sqlx::query!(
        "DELETE FROM traffic_edges WHERE edge_id = ANY(ARRAY(
             SELECT edge_id FROM traffic_edges WHERE recorded_at < $1 ORDER BY recorded_at LIMIT $2))",
        before,
        limit,
    )
    .execute(pool)
    .await?;
    Ok(deleted.rows_affected())
}

/// Deletes traffic of the project that was deleted first, of `hours` and `days`: all that may be there. First at most
/// `limit` parts of batches, then at most `most_hours` hours, each with all its entries, then the days and months. A
/// project without rows is done with once it was deleted before `settled`: until then an edge may still be writing its
/// last. What parts of batches are charged to stays charged. Returns the number of rows deleted, entries left out, and of
/// projects done with.
pub async fn delete_removed(
    pool: &PgPool,
    hours: &[Timestamp],
    days: &[Date],
    settled: Timestamp,
    limit: i64,
    most_hours: i64,
) -> Result<u64, sqlx::Error> {
    let deleted = sqlx::query_scalar!(
        r#"WITH chosen AS (
               SELECT project_id, queued_at FROM traffic_removals AS removal
               WHERE (queued_at < $3
                  OR EXISTS (SELECT FROM traffic_recent WHERE project_id = removal.project_id)
                  OR EXISTS (SELECT FROM traffic_hours WHERE hour = ANY($1) AND project_id = removal.project_id))
                 -- The statistics of a project that can be restored stay with it.
                 AND NOT EXISTS (SELECT FROM deleted_projects WHERE id = removal.project_id)
               ORDER BY queued_at LIMIT 1
           ), gone_recent AS (
               DELETE FROM traffic_recent WHERE ctid = ANY(ARRAY(
                   SELECT ctid FROM traffic_recent WHERE project_id = (SELECT project_id FROM chosen) LIMIT $4))
               RETURNING account, hour, sums
           ), charged AS (
               INSERT INTO bandwidth_months AS known (month, account, people_bytes)
               SELECT date_trunc('month', hour AT TIME ZONE 'UTC')::date, account, sum(sums[11]) FROM gone_recent
               WHERE account IS NOT NULL GROUP BY 1, 2 ORDER BY 1, 2
               ON CONFLICT (month, account) DO UPDATE SET people_bytes = known.people_bytes + excluded.people_bytes
           ), chosen_hours AS (
               SELECT hour FROM traffic_hours
               WHERE hour = ANY($1) AND project_id = (SELECT project_id FROM chosen)
                 AND NOT EXISTS (SELECT FROM gone_recent)
               LIMIT $5
           ), gone_entries AS (
               DELETE FROM traffic_hour_entries
               WHERE hour = ANY(ARRAY(SELECT hour FROM chosen_hours)) AND project_id = (SELECT project_id FROM chosen)
           ), gone_hours AS (
               DELETE FROM traffic_hours
               WHERE hour = ANY(ARRAY(SELECT hour FROM chosen_hours)) AND project_id = (SELECT project_id FROM chosen)
               RETURNING 1
           ), gone_days AS (
               DELETE FROM traffic_days
               WHERE day = ANY($2) AND project_id = (SELECT project_id FROM chosen)
                 AND NOT EXISTS (SELECT FROM chosen_hours) AND NOT EXISTS (SELECT FROM gone_recent)
               RETURNING 1
           ), gone_visitors AS (
               DELETE FROM traffic_visitors
               WHERE day = ANY($2) AND project_id = (SELECT project_id FROM chosen)
                 AND NOT EXISTS (SELECT FROM chosen_hours) AND NOT EXISTS (SELECT FROM gone_recent)
               RETURNING 1
           ), gone_months AS (
               DELETE FROM traffic_months
               WHERE project_id = (SELECT project_id FROM chosen)
                 AND NOT EXISTS (SELECT FROM chosen_hours) AND NOT EXISTS (SELECT FROM gone_recent)
               RETURNING 1
           ), done AS (
               DELETE FROM traffic_removals AS removal USING chosen
               WHERE removal.project_id = chosen.project_id AND chosen.queued_at < $3
                 AND NOT EXISTS (SELECT FROM traffic_recent WHERE project_id = chosen.project_id)
                 AND NOT EXISTS (SELECT FROM chosen_hours) AND NOT EXISTS (SELECT FROM gone_days)
                 AND NOT EXISTS (SELECT FROM gone_visitors) AND NOT EXISTS (SELECT FROM gone_months)
                 -- Days that were moved into a month meanwhile: the month is seen, and goes, the next time.
                 AND NOT EXISTS (
                     SELECT FROM traffic_days WHERE day = ANY($2) AND project_id = chosen.project_id)
               RETURNING 1
           )
           SELECT (SELECT count(*) FROM gone_recent) + (SELECT count(*) FROM gone_hours)
                  + (SELECT count(*) FROM gone_days) + (SELECT count(*) FROM gone_visitors)
                  + (SELECT count(*) FROM gone_months) + (SELECT count(*) FROM done) AS "deleted!""#,
        hours as &[Timestamp],
        days,
        settled,
        limit,
        most_hours,
    )
    .fetch_one(pool)
    .await?;
    Ok(deleted.unsigned_abs())
}
