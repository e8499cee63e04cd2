//! What waits for a job, counted: so that somebody is told when a queue stands still.
//!
//! Counted by one admin for all, and never further than [`MOST_ROWS`]: a queue that long has been reported for hours.

use domain::Timestamp;
use serde::{Deserialize, Serialize};
use sqlx::PgPool;

/// Rows of a queue that are counted at most.
const MOST_ROWS: i64 = 1_000_000;

/// What waits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Backlogs {
    /// Rows of traffic that are not folded into hours yet.
    pub traffic_rows: i64,
    /// Pushes of linked repositories that are not deployed yet.
    pub pushes: i64,
    /// Since when the first of them is due.
    pub pushes_since: Option<Timestamp>,
    /// Packs that are to be removed.
    pub pack_removals: i64,
    /// Since when the first of them is due.
    pub pack_removals_since: Option<Timestamp>,
    /// Changes that edges were not told of.
    pub unsent_changes: i64,
    /// When the first of them was made.
    pub unsent_changes_since: Option<Timestamp>,
    /// The end of the certificate in use that ends first.
    pub certificate_end: Option<Timestamp>,
    /// Certificates in use that end before the time that was asked for.
    pub certificates_ending: i64,
}

/// Counts what waits. Certificates count that end before `ending_before`.
pub async fn count(pool: &PgPool, ending_before: Timestamp) -> Result<Backlogs, sqlx::Error> {
    // A certificate is in use while a name has it by an order, or it did not come from an authority, and no newer one covers its names.
    sqlx::query_as!(
        Backlogs,
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
