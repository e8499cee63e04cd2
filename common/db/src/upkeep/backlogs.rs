//! The lengths of job queues, so that somebody is notified when a queue stalls.
//!
//! One admin counts for all, and only up to [`MOST_ROWS`]: a queue that long has been reported for hours.

use domain::Timestamp;
use serde::{Deserialize, Serialize};
use sqlx::PgPool;

/// The maximum number of rows counted per queue.
const MOST_ROWS: i64 = 1_000_000;

/// The lengths of all queues.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobBacklogs {
    /// Rows of traffic that are not folded into hours yet.
    pub traffic_rows: i64,
    /// Pushes of linked repositories that are not deployed yet.
    pub pushes: i64,
    /// The time since which the first of them is due.
    pub pushes_since: Option<Timestamp>,
    /// Packs to be removed.
    pub pack_removals: i64,
    /// The time since which the first of them is due.
    pub pack_removals_since: Option<Timestamp>,
    /// Changes that were not sent to edges yet.
    pub unsent_changes: i64,
    /// The time the first of them was made.
    pub unsent_changes_since: Option<Timestamp>,
    /// The earliest expiry of a certificate in use.
    pub certificate_end: Option<Timestamp>,
    /// Certificates in use that expire before the requested time.
    pub certificates_ending: i64,
}

/// Counts the queues, and the certificates that expire before `ending_before`.
pub async fn count(pool: &PgPool, ending_before: Timestamp) -> Result<JobBacklogs, sqlx::Error> {
    // In use: it belongs to an order, or did not come from an authority and has no newer one that covers its names.
    sqlx::query_as!(
        JobBacklogs,
        r#"SELECT (SELECT count(*) FROM (SELECT FROM traffic_recent LIMIT $2) AS counted) AS "traffic_rows!",
                  (SELECT count(*) FROM (SELECT FROM repo_deploys LIMIT $2) AS counted) AS "pushes!",
                  (SELECT min(next_attempt_at) FROM repo_deploys) AS "pushes_since: Timestamp",
                  (SELECT count(*) FROM (SELECT FROM pack_removals LIMIT $2) AS counted) AS "pack_removals!",
                  (SELECT min(next_attempt_at) FROM pack_removals) AS "pack_removals_since: Timestamp",
                  (SELECT count(*) FROM (SELECT FROM route_changes WHERE published_at IS NULL LIMIT $2) AS counted)
                      AS "unsent_changes!",
                  (SELECT created_at FROM route_changes WHERE published_at IS NULL ORDER BY seq LIMIT 1)
                      AS "unsent_changes_since: Timestamp",
                  (SELECT c.not_after FROM certificates c
                    WHERE (c.source <> 'acme' OR EXISTS (SELECT FROM certificate_orders o WHERE o.certificate_id = c.id))
                      AND NOT EXISTS (SELECT FROM certificates n WHERE n.names @> c.names AND n.created_at > c.created_at)
                    ORDER BY c.not_after LIMIT 1) AS "certificate_end: Timestamp",
                  (SELECT count(*) FROM certificates c
                    WHERE c.not_after < $1
                      AND (c.source <> 'acme' OR EXISTS (SELECT FROM certificate_orders o WHERE o.certificate_id = c.id))
                      AND NOT EXISTS (SELECT FROM certificates n WHERE n.names @> c.names AND n.created_at > c.created_at))
                      AS "certificates_ending!""#,
        ending_before,
        MOST_ROWS,
    )
    .fetch_one(pool)
    .await
}
