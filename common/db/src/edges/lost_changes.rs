//! Changes that edges had applied and that the database lacks, because a replica was promoted or a backup restored.
//! Edges record them, and admin notifies the operator.

use std::time::Duration;

use domain::{ChangePosition, Timestamp};
use sqlx::{PgConnection, PgExecutor};

/// The time for which an unacknowledged loss is shown.
pub const SHOWN_FOR: Duration = Duration::from_hours(30 * 24);
/// The maximum number of losses shown.
pub const SHOWN: i64 = 20;

/// Lost changes, as one edge reports them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostChanges {
    /// The newest position of the database that lacks them, when the edge noticed.
    pub newest: ChangePosition,
    /// The number of the first lost change.
    pub first_seq: i64,
    /// The number of the last lost change.
    pub last_seq: i64,
    /// The affected subjects that the edge remembers.
    pub subjects: Vec<String>,
}

/// The combined reports of all edges about one loss: the widest range, and every remembered subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeLoss {
    /// The epoch that lacks the changes.
    pub epoch: String,
    /// The number of the newest change in the database, according to the first report.
    pub newest_seq: i64,
    /// The number of the first lost change.
    pub first_seq: i64,
    /// The number of the last lost change.
    pub last_seq: i64,
    /// The affected subjects that any edge remembers.
    pub subjects: Vec<String>,
    /// The time of the first report.
    pub noted_at: Timestamp,
}

/// Records an edge's report of lost changes.
pub async fn record(db: impl PgExecutor<'_>, edge: &str, lost: &LostChanges) -> Result<(), sqlx::Error> {
    let LostChanges { newest, first_seq, last_seq, subjects } = lost;
    sqlx::query!(
        "SELECT note_lost_changes($1, $2, $3, $4, $5, $6)",
        edge,
        newest.epoch.as_str(),
        newest.seq,
        first_seq,
        last_seq,
        subjects,
    )
    .execute(db)
    .await
    .map(drop)
}

/// Returns at most `limit` unacknowledged losses recorded since `since`, the latest first.
pub async fn list_unacknowledged(
    db: impl PgExecutor<'_>,
    since: Timestamp,
    limit: i64,
) -> Result<Vec<ChangeLoss>, sqlx::Error> {
    sqlx::query_as!(
        ChangeLoss,
        r#"SELECT l.epoch, min(l.newest_seq) AS "newest_seq!", min(l.first_seq) AS "first_seq!", max(l.last_seq) AS "last_seq!",
                  COALESCE((SELECT array_agg(DISTINCT subject ORDER BY subject)
                            FROM lost_changes AS same, unnest(same.subjects) AS subject
                            WHERE same.epoch = l.epoch AND same.acknowledged_at IS NULL), '{}') AS "subjects!",
                  min(l.noted_at) AS "noted_at!"
           FROM lost_changes AS l WHERE l.acknowledged_at IS NULL AND l.noted_at > $1
           GROUP BY l.epoch ORDER BY min(l.noted_at) DESC LIMIT $2"#,
        since,
        limit,
    )
    .fetch_all(db)
    .await
}

/// Returns the epochs of losses without a notification to the operator that were recorded longer than `settled` ago, so
/// that the other edges have reported as well.
pub async fn list_unnotified(
    db: impl PgExecutor<'_>,
    settled: Duration,
    limit: i64,
) -> Result<Vec<String>, sqlx::Error> {
    sqlx::query_scalar!(
        "SELECT epoch FROM lost_changes WHERE told_at IS NULL
         GROUP BY epoch HAVING min(noted_at) < clock_timestamp() - make_interval(secs => $1) ORDER BY epoch LIMIT $2",
        settled.as_secs_f64(),
        limit,
    )
    .fetch_all(db)
    .await
}

/// Marks an epoch's loss as notified. Returns whether an earlier report of it was already notified.
pub async fn mark_notified(conn: &mut PgConnection, epoch: &str, now: Timestamp) -> Result<bool, sqlx::Error> {
    let was_told = sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM lost_changes WHERE epoch = $1 AND told_at IS NOT NULL) AS "was_told!""#,
        epoch,
    )
    .fetch_one(&mut *conn)
    .await?;
    sqlx::query!("UPDATE lost_changes SET told_at = $2 WHERE epoch = $1 AND told_at IS NULL", epoch, now)
        .execute(conn)
        .await?;
    Ok(was_told)
}

/// Acknowledges every loss. Returns the number of reports.
pub async fn acknowledge(db: impl PgExecutor<'_>, now: Timestamp) -> Result<u64, sqlx::Error> {
    let marked = sqlx::query!("UPDATE lost_changes SET acknowledged_at = $1 WHERE acknowledged_at IS NULL", now);
    Ok(marked.execute(db).await?.rows_affected())
}
