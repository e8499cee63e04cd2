//! The days and hours in which the site had a path.

use std::collections::HashSet;

use domain::{
    Timestamp,
    traffic::{HOUR, TrafficEntryKind},
};
use sqlx::PgPool;

use super::{
    DayRange, ListKind, StatsPermit,
    days::{by_hour, read_day_lists, sums},
};

/// A day or hour in which requests of a path got a file or a redirect.
#[derive(Debug, Clone)]
pub struct ServedPath {
    /// The path.
    pub path: String,
    /// The beginning of the day or hour.
    pub begin: Timestamp,
    /// The end of the day or hour.
    pub end: Timestamp,
}

/// Returns the hours, or days where hours are not stored, in which these paths were served. A day counts only if the
/// path is among its most frequent.
pub async fn list_served(
    pool: &PgPool,
    project: &StatsPermit,
    range: DayRange,
    paths: &[String],
) -> Result<Vec<ServedPath>, sqlx::Error> {
    let mut snapshot = pool.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
    let found = sums(&mut snapshot, project, range).await?;
    let hours = by_hour(range, &found);
    let of_hours = sqlx::query!(
        r#"SELECT hour AS "hour!", key AS "key!" FROM traffic_hour_entries
           WHERE hour = ANY($2) AND project_id = $1 AND kind = $3 AND key = ANY($4)
           UNION
           SELECT recent.hour, entry.key
           FROM traffic_recent AS recent, unnest(recent.kinds, recent.keys) AS entry (kind, key)
           WHERE recent.project_id = $1 AND recent.hour = ANY($2) AND entry.kind = $3 AND entry.key = ANY($4)"#,
        project.0.as_str(),
        &hours as &[Timestamp],
        TrafficEntryKind::Path.as_str(),
        paths,
    )
    .fetch_all(&mut *snapshot)
    .await?;
    let mut answered: Vec<ServedPath> =
        of_hours.into_iter().map(|row| ServedPath { path: row.key, begin: row.hour, end: row.hour + HOUR }).collect();
    let wanted: HashSet<&str> = paths.iter().map(String::as_str).collect();
    read_day_lists(&mut snapshot, project, &found, &[ListKind::Path], &mut |entry| {
        if wanted.contains(entry.key) {
            answered.push(ServedPath { path: entry.key.to_owned(), begin: entry.begin, end: entry.end });
        }
    })
    .await?;
    snapshot.commit().await?;
    Ok(answered)
}
