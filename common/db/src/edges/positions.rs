//! The positions of edges, recorded in Postgres. Receipts are counted by the faster heartbeats over Redis; these
//! records also show that an edge is running.

use std::time::Duration;

use domain::{ChangePosition, Epoch};
use sqlx::PgExecutor;

/// An edge that has recorded its position recently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedEdge {
    /// The id of the edge process.
    pub id: String,
    /// The position up to which it has applied every change.
    pub position: ChangePosition,
}

/// Records that an edge is running and has applied every change up to a position, or that it is leaving.
pub async fn record(
    db: impl PgExecutor<'_>,
    edge: &str,
    reached: &ChangePosition,
    is_leaving: bool,
) -> Result<(), sqlx::Error> {
    sqlx::query!("SELECT record_edge($1, $2, $3, $4)", edge, reached.epoch.as_str(), reached.seq, is_leaving)
        .execute(db)
        .await
        .map(drop)
}

/// Returns at most `limit` edges that recorded their position `within` the last moments, by the clock of Postgres.
pub async fn list_recorded(
    db: impl PgExecutor<'_>,
    within: Duration,
    limit: i64,
) -> Result<Vec<RecordedEdge>, sqlx::Error> {
    let rows = sqlx::query!(
        "SELECT edge_id, epoch, seq FROM edge_positions
         WHERE seen_at > clock_timestamp() - make_interval(secs => $1) ORDER BY edge_id LIMIT $2",
        within.as_secs_f64(),
        limit,
    )
    .fetch_all(db)
    .await?;
    let edge = |(id, epoch, seq): (String, Epoch, i64)| RecordedEdge { id, position: ChangePosition { epoch, seq } };
    Ok(rows.into_iter().map(|row| edge((row.edge_id, row.epoch, row.seq))).collect())
}
