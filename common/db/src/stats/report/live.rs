//! Traffic of the last hours.

use domain::{
    Timestamp,
    traffic::{OTHER, TrafficCount, TrafficEntryKind, TrafficSums},
};
use sqlx::{PgExecutor, PgPool};

use super::{ListKind, StatsPermit, count, parse_sums};

/// The lengths to which lists are cut.
#[derive(Debug, Clone, Copy)]
pub struct TopLengths {
    /// Paths.
    pub paths: i64,
    /// Countries.
    pub countries: i64,
}

/// A project's traffic within some hours.
#[derive(Debug, Clone, Default)]
pub struct LiveTraffic {
    /// The hours that had any traffic, in order.
    pub hours: Vec<(Timestamp, TrafficSums)>,
    /// Hostnames, the most frequent first.
    pub hostnames: Vec<(String, TrafficCount)>,
    /// The most frequent paths.
    pub paths: Vec<(String, TrafficCount)>,
    /// The most frequent countries.
    pub countries: Vec<(String, TrafficCount)>,
    /// Every [`AgentKey`](domain::traffic::AgentKey) as stored, and the key of those that found no room.
    pub agents: Vec<(String, TrafficCount)>,
    /// Whether any hostname, path or country found no room of its own.
    pub is_truncated: bool,
}

/// Returns the traffic of these hours, from one snapshot.
pub async fn live(
    pool: &PgPool,
    project: &StatsPermit,
    hours: &[Timestamp],
    lengths: TopLengths,
) -> Result<LiveTraffic, sqlx::Error> {
    let mut snapshot = pool.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
    let of_hours = hourly_sums(&mut *snapshot, project, hours).await?;
    // Keys beyond the length of their list are cut off; `(other)` is an entry only in the list of agents.
    let entries = sqlx::query!(
        r#"SELECT kind AS "kind!", key AS "key!", requests AS "requests!", bytes AS "bytes!"
           FROM (SELECT kind, key, sum(requests)::bigint AS requests, sum(bytes)::bigint AS bytes,
                        row_number() OVER (PARTITION BY kind
                                           ORDER BY sum(requests) DESC, sum(bytes) DESC, key) AS place
                 FROM (SELECT kind, key, requests, bytes FROM traffic_hour_entries
                       WHERE hour = ANY($2) AND project_id = $1 AND kind IN ('hostname', 'path', 'country', 'agent')
                       UNION ALL
                       SELECT entry.kind, entry.key, entry.requests, entry.bytes
                       FROM traffic_recent AS recent,
                            unnest(recent.kinds, recent.keys, recent.requests, recent.bytes)
                                AS entry (kind, key, requests, bytes)
                       WHERE recent.project_id = $1 AND recent.hour = ANY($2)
                         AND entry.kind IN ('hostname', 'path', 'country', 'agent')) AS parts
                 WHERE key <> $3 OR kind = 'agent'
                 GROUP BY kind, key) AS ranked
           WHERE place <= CASE kind WHEN 'path' THEN $4::bigint WHEN 'country' THEN $5::bigint ELSE place END
           ORDER BY kind, place"#,
        project.0.as_str(),
        hours as &[Timestamp],
        OTHER,
        lengths.paths,
        lengths.countries,
    )
    .fetch_all(&mut *snapshot)
    .await?;
    let is_truncated = sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM traffic_hour_entries
                          WHERE hour = ANY($2) AND project_id = $1 AND kind IN ('hostname', 'path', 'country')
                            AND key = $3)
                  OR EXISTS (SELECT FROM traffic_recent AS recent, unnest(recent.kinds, recent.keys) AS entry (kind, key)
                             WHERE recent.project_id = $1 AND recent.hour = ANY($2)
                               AND entry.kind IN ('hostname', 'path', 'country') AND entry.key = $3)
               AS "is_truncated!""#,
        project.0.as_str(),
        hours as &[Timestamp],
        OTHER,
    )
    .fetch_one(&mut *snapshot)
    .await?;
    snapshot.commit().await?;

    let mut live = LiveTraffic { hours: of_hours, is_truncated, ..LiveTraffic::default() };
    for row in entries {
        let list = match &*row.kind {
            kind if kind == TrafficEntryKind::Hostname.as_str() => &mut live.hostnames,
            kind if kind == TrafficEntryKind::Path.as_str() => &mut live.paths,
            kind if kind == TrafficEntryKind::Country.as_str() => &mut live.countries,
            _ => &mut live.agents,
        };
        list.push((row.key, TrafficCount { requests: count(row.requests), bytes: count(row.bytes) }));
    }
    Ok(live)
}

/// Returns the sums of those hours that had any traffic, in order.
pub async fn hourly_sums(
    db: impl PgExecutor<'_>,
    project: &StatsPermit,
    hours: &[Timestamp],
) -> Result<Vec<(Timestamp, TrafficSums)>, sqlx::Error> {
    let rows = sqlx::query!(
        r#"SELECT hour AS "hour!",
                  ARRAY[sum(s1), sum(s2), sum(s3), sum(s4), sum(s5), sum(s6), sum(s7), sum(s8), sum(s9), sum(s10),
                        sum(s11)]::bigint[] AS "sums!"
           FROM (SELECT hour, requests, bytes, cache_hits, cache_misses, status_2xx, status_3xx, status_4xx, status_5xx,
                        status_other, pageviews, people_bytes
                 FROM traffic_hours WHERE hour = ANY($2) AND project_id = $1
                 UNION ALL
                 SELECT hour, sums[1], sums[2], sums[3], sums[4], sums[5], sums[6], sums[7], sums[8], sums[9], sums[10],
                        sums[11]
                 FROM traffic_recent WHERE project_id = $1 AND hour = ANY($2))
                AS parts (hour, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11)
           GROUP BY hour ORDER BY hour"#,
        project.0.as_str(),
        hours as &[Timestamp],
    )
    .fetch_all(db)
    .await?;
    Ok(rows.into_iter().map(|row| (row.hour, parse_sums(&row.sums))).collect())
}

/// Returns the traffic of one list entry, such as a hostname, for those hours that had any, in order. The list must be
/// one whose entries are stored unchanged.
pub async fn live_entry(
    pool: &PgPool,
    project: &StatsPermit,
    hours: &[Timestamp],
    list: ListKind,
    key: &str,
) -> Result<Vec<(Timestamp, TrafficCount)>, sqlx::Error> {
    let rows = sqlx::query!(
        r#"SELECT hour AS "hour!", sum(requests)::bigint AS "requests!", sum(bytes)::bigint AS "bytes!"
           FROM (SELECT hour, requests, bytes FROM traffic_hour_entries
                 WHERE hour = ANY($2) AND project_id = $1 AND kind = $3 AND key = $4
                 UNION ALL
                 SELECT recent.hour, entry.requests, entry.bytes
                 FROM traffic_recent AS recent,
                      unnest(recent.kinds, recent.keys, recent.requests, recent.bytes)
                          AS entry (kind, key, requests, bytes)
                 WHERE recent.project_id = $1 AND recent.hour = ANY($2) AND entry.kind = $3 AND entry.key = $4) AS parts
           GROUP BY hour ORDER BY hour"#,
        project.0.as_str(),
        hours as &[Timestamp],
        list.entry_kind().as_str(),
        without_nul(key),
    )
    .fetch_all(pool)
    .await?;
    let count_of = |requests, bytes| TrafficCount { requests: count(requests), bytes: count(bytes) };
    Ok(rows.into_iter().map(|row| (row.hour, count_of(row.requests, row.bytes))).collect())
}

/// A filter of page views: those that match every given field.
#[derive(Debug, Clone, Default)]
pub struct ViewFilter {
    /// The hostname.
    pub hostname: Option<String>,
    /// The path.
    pub page: Option<String>,
    /// The referring host, or an empty string for views that no other site referred.
    pub referrer: Option<String>,
    /// The country, as two letters.
    pub country: Option<String>,
}

/// Returns the matching page views for those hours that had any, in order. The hours bound the rows that are read,
/// because each has a bounded number of views.
pub async fn views_by_hour(
    pool: &PgPool,
    project: &StatsPermit,
    hours: &[Timestamp],
    filter: &ViewFilter,
) -> Result<Vec<(Timestamp, u64)>, sqlx::Error> {
    let part = |part: &Option<String>| part.as_deref().map(without_nul);
    let rows = sqlx::query!(
        r#"SELECT hour AS "hour!", sum(requests)::bigint AS "views!"
           FROM (SELECT hour, key, requests FROM traffic_hour_entries
                 WHERE hour = ANY($2) AND project_id = $1 AND kind = 'view'
                 UNION ALL
                 SELECT recent.hour, entry.key, entry.requests
                 FROM traffic_recent AS recent,
                      unnest(recent.kinds, recent.keys, recent.requests) AS entry (kind, key, requests)
                 WHERE recent.project_id = $1 AND recent.hour = ANY($2) AND entry.kind = 'view') AS parts
           WHERE key <> $3 AND split_part(key, E'	', 1) = coalesce($4, split_part(key, E'	', 1))
             AND split_part(key, E'	', 2) = coalesce($5, split_part(key, E'	', 2))
             AND split_part(key, E'	', 3) = coalesce($6, split_part(key, E'	', 3))
             AND split_part(key, E'	', 4) = coalesce($7, split_part(key, E'	', 4))
           GROUP BY hour ORDER BY hour"#,
        project.0.as_str(),
        hours as &[Timestamp],
        OTHER,
        part(&filter.page),
        part(&filter.referrer),
        part(&filter.country),
        part(&filter.hostname),
    )
    .fetch_all(pool)
    .await?;
    Ok(rows.into_iter().map(|row| (row.hour, count(row.views))).collect())
}

/// Removes NUL, which Postgres does not store.
fn without_nul(key: &str) -> String {
    key.replace('\0', "\u{fffd}")
}
