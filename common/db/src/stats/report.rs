//! What people read of a project's traffic: hours, days, and the most frequent of each kind.

use domain::{
    Timestamp,
    traffic::{Count, EntryKind, OTHER, Sums},
};
use sqlx::PgPool;
use time::Date;

use crate::permits::{AtLeast, Member, ProjectPermit};

/// Lists are cut to these lengths.
#[derive(Debug, Clone, Copy)]
pub struct TopLengths {
    /// Paths.
    pub paths: i64,
    /// Countries.
    pub countries: i64,
}

/// A project's traffic within some hours.
#[derive(Debug, Clone, Default)]
pub struct Live {
    /// The hours that had any, in order.
    pub hours: Vec<(Timestamp, Sums)>,
    /// Hostnames, the most frequent first.
    pub hostnames: Vec<(String, Count)>,
    /// The most frequent paths.
    pub paths: Vec<(String, Count)>,
    /// The most frequent countries.
    pub countries: Vec<(String, Count)>,
    /// Whether some key of these kinds found no room of its own.
    pub is_truncated: bool,
}

/// Returns the traffic of these hours, all of one moment.
pub async fn live(
    pool: &PgPool,
    project: &ProjectPermit<impl AtLeast<Member>>,
    hours: &[Timestamp],
    lengths: TopLengths,
) -> Result<Live, sqlx::Error> {
    let mut snapshot = pool.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
    let of_hours = sqlx::query!(
        "SELECT hour, requests, bytes, cache_hits, cache_misses,
                status_2xx, status_3xx, status_4xx, status_5xx, status_other
         FROM traffic_hours WHERE hour = ANY($2) AND project_id = $1 ORDER BY hour",
        project.id.as_str(),
        hours as &[Timestamp],
    )
    .fetch_all(&mut *snapshot)
    .await?;
    // A key beyond the length of its list is read no further; `(other)` is no entry of a list.
    let entries = sqlx::query!(
        r#"SELECT kind AS "kind!", key AS "key!", requests AS "requests!", bytes AS "bytes!"
           FROM (SELECT kind, key, sum(requests)::bigint AS requests, sum(bytes)::bigint AS bytes,
                        row_number() OVER (PARTITION BY kind
                                           ORDER BY sum(requests) DESC, sum(bytes) DESC, key) AS place
                 FROM traffic_hour_entries
                 WHERE hour = ANY($2) AND project_id = $1 AND kind IN ('hostname', 'path', 'country') AND key <> $3
                 GROUP BY kind, key) AS ranked
           WHERE place <= CASE kind WHEN 'path' THEN $4::bigint WHEN 'country' THEN $5::bigint ELSE place END
           ORDER BY kind, place"#,
        project.id.as_str(),
        hours as &[Timestamp],
        OTHER,
        lengths.paths,
        lengths.countries,
    )
    .fetch_all(&mut *snapshot)
    .await?;
    let is_truncated = sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM traffic_hour_entries
                          WHERE hour = ANY($2) AND project_id = $1 AND kind IN ('hostname', 'path', 'country') AND key = $3)
               AS "is_truncated!""#,
        project.id.as_str(),
        hours as &[Timestamp],
        OTHER,
    )
    .fetch_one(&mut *snapshot)
    .await?;
    snapshot.commit().await?;

    let mut live = Live { is_truncated, ..Live::default() };
    live.hours.extend(of_hours.into_iter().map(|row| {
        let statuses = [row.status_2xx, row.status_3xx, row.status_4xx, row.status_5xx, row.status_other].map(count);
        let (requests, bytes) = (count(row.requests), count(row.bytes));
        let (cache_hits, cache_misses) = (count(row.cache_hits), count(row.cache_misses));
        (row.hour, Sums { requests, bytes, cache_hits, cache_misses, statuses })
    }));
    for row in entries {
        let list = match &*row.kind {
            kind if kind == EntryKind::Hostname.as_str() => &mut live.hostnames,
            kind if kind == EntryKind::Path.as_str() => &mut live.paths,
            _ => &mut live.countries,
        };
        list.push((row.key, Count { requests: count(row.requests), bytes: count(row.bytes) }));
    }
    Ok(live)
}

/// A day's sums.
#[derive(Debug, Clone, Copy)]
pub struct DayTraffic {
    /// The UTC day.
    pub day: Date,
    /// The number of answers.
    pub requests: u64,
    /// Bytes of bodies that were sent.
    pub bytes: u64,
    /// Answers whose body was in the edge's memory.
    pub cache_hits: u64,
}

/// Returns the traffic of these days that had any, in order; `hours` are those of them that may be there still.
///
/// Of a day that has both, its own row and hours, the higher sums are right: the row lacks what came later, or the
/// hours have gone in part.
pub async fn history(
    pool: &PgPool,
    project: &ProjectPermit<impl AtLeast<Member>>,
    days: &[Date],
    hours: &[Timestamp],
) -> Result<Vec<DayTraffic>, sqlx::Error> {
    let rows = sqlx::query!(
        r#"SELECT day AS "day!", max(requests) AS "requests!", max(bytes) AS "bytes!", max(cache_hits) AS "cache_hits!"
           FROM (SELECT day, requests, bytes, cache_hits FROM traffic_days WHERE day = ANY($2) AND project_id = $1
                 UNION ALL
                 SELECT (hour AT TIME ZONE 'UTC')::date, sum(requests)::bigint, sum(bytes)::bigint,
                        sum(cache_hits)::bigint
                 FROM traffic_hours WHERE hour = ANY($3) AND project_id = $1
                 GROUP BY 1) AS found
           GROUP BY day ORDER BY day"#,
        project.id.as_str(),
        days,
        hours as &[Timestamp],
    )
    .fetch_all(pool)
    .await?;
    let found = rows.into_iter().map(|row| DayTraffic {
        day: row.day,
        requests: count(row.requests),
        bytes: count(row.bytes),
        cache_hits: count(row.cache_hits),
    });
    Ok(found.collect())
}

fn count(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
