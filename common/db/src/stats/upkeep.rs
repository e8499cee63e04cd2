//! The clean-up of traffic by jobs: folding batches into hours, rolling hours up into days, and deleting old traffic.

use std::collections::HashMap;

use domain::{
    ProjectId, Timestamp,
    traffic::sketch::{SketchRegister, VisitorSketch},
};
use sqlx::{PgConnection, PgPool};
use time::Date;

/// Folds at most `most` parts of batches into hours, for projects in one shard of `shards`. Returns their number.
pub async fn fold(pool: &PgPool, most: i64, shard: i32, shards: i32) -> Result<u64, sqlx::Error> {
    let folded = sqlx::query_scalar!(r#"SELECT fold_traffic($1, $2, $3) AS "folded!""#, most, shard, shards)
        .fetch_one(pool)
        .await?;
    Ok(folded.unsigned_abs())
}

/// Rolls up hours before `until`, a UTC midnight, that are in no day yet: `most` hours and all others of their days.
/// Returns the number of days created.
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

/// Estimates the visitors of these days of projects, where there is a sketch.
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
    let mut by_day: HashMap<(Date, String), VisitorSketch> = HashMap::new();
    for row in sketches {
        let sketch = by_day.entry((row.day, row.project_id)).or_default();
        sketch.extend(row.registers.into_iter().filter_map(SketchRegister::from_stored));
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

/// A partitioned table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartitionedTable {
    /// The entries of hours, in daily partitions.
    HourEntries,
    /// Hours, in daily partitions.
    Hours,
    /// Days, in monthly partitions.
    Days,
}

impl PartitionedTable {
    /// All partitioned tables, in order of deletion: entries before their hours.
    pub const ALL: [Self; 3] = [Self::HourEntries, Self::Hours, Self::Days];

    const fn as_str(self) -> &'static str {
        match self {
            Self::HourEntries => "traffic_hour_entries",
            Self::Hours => "traffic_hours",
            Self::Days => "traffic_days",
        }
    }
}

/// Creates the partition for `day`. Returns false when it exists, or when the default partition holds more of its rows
/// than may be moved while others wait.
pub async fn add_partition(pool: &PgPool, table: PartitionedTable, day: Date) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(r#"SELECT add_traffic_partition($1, $2) AS "added!""#, table.as_str(), day)
        .fetch_one(pool)
        .await
}

/// Drops the oldest partition before `until`, except hours that are in no day yet, and their entries. Returns whether
/// it did.
pub async fn drop_partition(pool: &PgPool, table: PartitionedTable, until: Timestamp) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(r#"SELECT drop_traffic_partition($1, $2) AS "dropped!""#, table.as_str(), until)
        .fetch_one(pool)
        .await
}

/// Deletes at most `limit` rows of each table's default partition: hours before `hours` if all of these are in days,
/// and days before `days`. Returns the highest number of rows deleted from one table.
pub async fn delete_unpartitioned(pool: &PgPool, hours: Timestamp, days: Date, limit: i64) -> Result<u64, sqlx::Error> {
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

/// Deletes at most `limit` visitor sketches of days before `until`.
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

/// Deletes at most `limit` counts of payers' keys in hours before `until`.
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

/// Deletes at most `limit` edges that have sent nothing since `before`.
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

/// Deletes traffic of the project that was deleted first. `hours` and `days` must include all that may be stored.
///
/// Deletes at most `limit` parts of batches, whose charges stay, then at most `most_hours` hours with all their
/// entries, then days and months. A project without rows is finished if it was deleted before `settled`; until then an
/// edge may still send its last traffic. Returns the number of deleted rows, without entries, plus finished projects.
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
