//! What jobs do with traffic: days are made of hours, and what is old or of deleted projects goes.

use domain::Timestamp;
use sqlx::PgPool;
use time::Date;

/// Makes days of the hours before `until`, a UTC midnight, that no day has yet: of `most` hours and the others of their days.
/// Returns the number of days made.
pub async fn roll(pool: &PgPool, until: Timestamp, most: i64) -> Result<u64, sqlx::Error> {
    let made = sqlx::query_scalar!(r#"SELECT roll_traffic($1, $2) AS "made!""#, until, most).fetch_one(pool).await?;
    Ok(made.unsigned_abs())
}

/// Deletes at most `limit` rows of hours before `until`. None go while one of these hours is in no day yet.
pub async fn delete_hours(pool: &PgPool, until: Timestamp, limit: i64) -> Result<u64, sqlx::Error> {
    let deleted = sqlx::query_scalar!(
        r#"WITH entries AS (
               DELETE FROM traffic_hour_entries WHERE ctid = ANY(ARRAY(
                   SELECT ctid FROM traffic_hour_entries
                   WHERE hour < $1 AND NOT EXISTS (SELECT FROM traffic_hours WHERE NOT is_rolled AND hour < $1)
                   ORDER BY hour LIMIT $2))
               RETURNING 1
           ), hours AS (
               DELETE FROM traffic_hours WHERE ctid = ANY(ARRAY(
                   SELECT ctid FROM traffic_hours
                   WHERE hour < $1 AND is_rolled AND NOT EXISTS (SELECT FROM entries)
                   ORDER BY hour LIMIT $2))
               RETURNING 1
           )
           SELECT (SELECT count(*) FROM entries) + (SELECT count(*) FROM hours) AS "deleted!""#,
        until,
        limit,
    )
    .fetch_one(pool)
    .await?;
    Ok(deleted.unsigned_abs())
}

/// Deletes at most `limit` rows each of days before `until`, and of their keys.
pub async fn delete_days(pool: &PgPool, until: Date, limit: i64) -> Result<u64, sqlx::Error> {
    let deleted = sqlx::query_scalar!(
        r#"WITH entries AS (
               DELETE FROM traffic_day_entries WHERE ctid = ANY(ARRAY(
                   SELECT ctid FROM traffic_day_entries WHERE day < $1 ORDER BY day LIMIT $2))
               RETURNING 1
           ), days AS (
               DELETE FROM traffic_days WHERE ctid = ANY(ARRAY(
                   SELECT ctid FROM traffic_days WHERE day < $1 ORDER BY day LIMIT $2))
               RETURNING 1
           )
           SELECT greatest((SELECT count(*) FROM entries), (SELECT count(*) FROM days)) AS "deleted!""#,
        until,
        limit,
    )
    .fetch_one(pool)
    .await?;
    Ok(deleted.unsigned_abs())
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

/// Deletes at most `limit` rows of a table each of the project that was deleted first, of `hours` and `days`: all that may be
/// there. A project without rows is done with once it was deleted before `settled`: until then an edge may still be
/// writing its last. Returns the number of rows deleted, and of projects done with.
pub async fn delete_removed(
    pool: &PgPool,
    hours: &[Timestamp],
    days: &[Date],
    settled: Timestamp,
    limit: i64,
) -> Result<u64, sqlx::Error> {
    let deleted = sqlx::query_scalar!(
        r#"WITH chosen AS (
               SELECT project_id, queued_at FROM traffic_removals AS removal
               WHERE queued_at < $3 OR EXISTS (
                   SELECT FROM traffic_hours WHERE hour = ANY($1) AND project_id = removal.project_id)
               ORDER BY queued_at LIMIT 1
           ), hour_entries AS (
               DELETE FROM traffic_hour_entries WHERE ctid = ANY(ARRAY(
                   SELECT ctid FROM traffic_hour_entries
                   WHERE hour = ANY($1) AND project_id = (SELECT project_id FROM chosen) LIMIT $4))
               RETURNING 1
           ), gone_hours AS (
               DELETE FROM traffic_hours
               WHERE hour = ANY($1) AND project_id = (SELECT project_id FROM chosen)
                 AND (SELECT count(*) FROM hour_entries) < $4
               RETURNING 1
           ), day_entries AS (
               DELETE FROM traffic_day_entries WHERE ctid = ANY(ARRAY(
                   SELECT ctid FROM traffic_day_entries
                   WHERE day = ANY($2) AND project_id = (SELECT project_id FROM chosen) LIMIT $4))
               RETURNING 1
           ), gone_days AS (
               DELETE FROM traffic_days
               WHERE day = ANY($2) AND project_id = (SELECT project_id FROM chosen)
                 AND (SELECT count(*) FROM day_entries) < $4
               RETURNING 1
           ), done AS (
               DELETE FROM traffic_removals AS removal USING chosen
               WHERE removal.project_id = chosen.project_id AND chosen.queued_at < $3
                 AND NOT EXISTS (SELECT FROM hour_entries) AND NOT EXISTS (SELECT FROM gone_hours)
                 AND NOT EXISTS (SELECT FROM day_entries) AND NOT EXISTS (SELECT FROM gone_days)
               RETURNING 1
           )
           SELECT (SELECT count(*) FROM hour_entries) + (SELECT count(*) FROM gone_hours)
                  + (SELECT count(*) FROM day_entries) + (SELECT count(*) FROM gone_days)
                  + (SELECT count(*) FROM done) AS "deleted!""#,
        hours as &[Timestamp],
        days,
        settled,
        limit,
    )
    .fetch_one(pool)
    .await?;
    Ok(deleted.unsigned_abs())
}
