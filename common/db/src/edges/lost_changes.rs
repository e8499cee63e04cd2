//! Changes that edges had applied and that the database lacks, since a copy or a backup took its place. Edges note them, admin tells the
//! operator.

use std::time::Duration;

use domain::{Position, Timestamp};
use sqlx::{PgConnection, PgExecutor};

/// Time for which a loss is shown that nobody acknowledges.
pub const SHOWN_FOR: Duration = Duration::from_hours(30 * 24);
/// Most losses that are shown.
pub const SHOWN: i64 = 20;

/// Lost changes, as one edge knows of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostChanges {
    /// The newest position of the database that lacks them, when the edge noticed.
    pub newest: Position,
    /// The number that the first of them had.
    pub first_seq: i64,
    /// The number that the last of them had.
    pub last_seq: i64,
    /// What they touched, as far as the edge remembers.
    pub subjects: Vec<String>,
}

/// What all edges say of one loss: the widest range, and everything that any of them remembers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// The epoch that lacks the changes.
    pub epoch: String,
    /// The number of the newest change that the database had, by the edge that noticed first.
    pub newest_seq: i64,
    /// The number that the first lost change had.
    pub first_seq: i64,
    /// The number that the last lost change had.
    pub last_seq: i64,
    /// What the changes touched, as far as any edge remembers.
    pub subjects: Vec<String>,
    /// When the first edge noticed.
    pub noted_at: Timestamp,
}

/// Notes what an edge has found lost.
pub async fn note(db: impl PgExecutor<'_>, edge: &str, lost: &LostChanges) -> Result<(), sqlx::Error> {
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

/// Returns the losses noted since `since` that the operator has not acknowledged, the latest first, at most `limit`.
pub async fn unacknowledged(db: impl PgExecutor<'_>, since: Timestamp, limit: i64) -> Result<Vec<Loss>, sqlx::Error> {
    sqlx::query_as!(
        Loss,
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

/// Returns the epochs of losses that the operator has not been told of, noted longer ago than `settled`: by then the other edges
/// have noted what they know as well.
pub async fn untold(db: impl PgExecutor<'_>, settled: Duration, limit: i64) -> Result<Vec<String>, sqlx::Error> {
    sqlx::query_scalar!(
        "SELECT epoch FROM lost_changes WHERE told_at IS NULL
         GROUP BY epoch HAVING min(noted_at) < clock_timestamp() - make_interval(secs => $1) ORDER BY epoch LIMIT $2",
        settled.as_secs_f64(),
        limit,
    )
    .fetch_all(db)
    .await
}

/// Marks the loss of an epoch as told. Returns whether the operator had been told of another edge's report of it before.
pub async fn mark_told(conn: &mut PgConnection, epoch: &str, now: Timestamp) -> Result<bool, sqlx::Error> {
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

/// Marks every loss as seen to. Returns the number of reports of edges.
pub async fn acknowledge(db: impl PgExecutor<'_>, now: Timestamp) -> Result<u64, sqlx::Error> {
    let marked = sqlx::query!("UPDATE lost_changes SET acknowledged_at = $1 WHERE acknowledged_at IS NULL", now);
    Ok(marked.execute(db).await?.rows_affected())
}
