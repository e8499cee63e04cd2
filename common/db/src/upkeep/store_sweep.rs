//! The database's record of the packs in the store: which it wants, the progress of the sweep, and the packs in the
//! trash.
//!
//! The sweep itself, with its safety checks, is in admin.

use std::time::Duration;

use domain::{DeploymentId, Timestamp, deployment::DeploymentStatus};
use sqlx::{PgConnection, PgExecutor, PgPool};

/// The database's record of a pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PackRecord {
    /// It belongs to a deployment or a pending upload.
    Wanted,
    /// Its removal is queued.
    Queued,
    /// Its upload failed.
    Failed,
    /// This database had it deleted, and it was seen in the trash.
    Deleted,
    /// There is no record.
    Unknown,
}

/// The progress of the sweep, and the reason it stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SweepState {
    /// The time before which the database knew every pack written; `None` until the first scan of the store.
    pub in_step_until: Option<Timestamp>,
    /// The last pack scanned in this round; `None` at its beginning.
    pub position: Option<DeploymentId>,
    /// The number of packs scanned in this round.
    pub looked: i64,
    /// The number of scanned packs without a record.
    pub unknown: i64,
    /// The last pack scanned in the trash.
    pub trash_position: Option<DeploymentId>,
    /// The total seconds that the trash has been watched.
    pub watched_seconds: i64,
    /// The reason the sweep is stopped, as one word; `None` while it runs.
    pub stopped_for: Option<String>,
    /// The time since which the sweep is stopped.
    pub stopped_at: Option<Timestamp>,
}

/// Returns the state of the sweep.
pub async fn state(db: impl PgExecutor<'_>) -> Result<SweepState, sqlx::Error> {
    sqlx::query_as!(
        SweepState,
        "SELECT in_step_until, position, looked, unknown, trash_position, watched_seconds, stopped_for, stopped_at
           FROM store_sweep",
    )
    .fetch_one(db)
    .await
}

/// Returns the time by the clock of Postgres.
pub async fn clock(db: impl PgExecutor<'_>) -> Result<Timestamp, sqlx::Error> {
    sqlx::query_scalar!(r#"SELECT clock_timestamp() AS "now!""#).fetch_one(db).await
}

/// Returns the newest deployment.
pub async fn newest_deployment(db: impl PgExecutor<'_>) -> Result<Option<DeploymentId>, sqlx::Error> {
    sqlx::query_scalar!("SELECT id FROM deployments ORDER BY id DESC LIMIT 1").fetch_optional(db).await
}

/// Returns the database's record of each pack, looked up by key.
pub async fn find_records(
    db: impl PgExecutor<'_>,
    ids: &[DeploymentId],
) -> Result<Vec<(DeploymentId, PackRecord)>, sqlx::Error> {
    let texts: Vec<String> = ids.iter().map(DeploymentId::to_string).collect();
    let rows = sqlx::query!(
        r#"SELECT given.id AS "id!: DeploymentId", d.status AS "status?: DeploymentStatus",
                  r.deployment_id IS NOT NULL AS "is_queued!", COALESCE(t.is_deletion, false) AS "is_deleted!"
           FROM unnest($1::text[]) AS given (id)
           LEFT JOIN LATERAL (SELECT status FROM deployments WHERE id = given.id LIMIT 1) d ON true
           LEFT JOIN LATERAL (SELECT deployment_id FROM pack_removals WHERE deployment_id = given.id LIMIT 1) r ON true
           LEFT JOIN LATERAL (SELECT is_deletion FROM trashed_packs WHERE deployment_id = given.id LIMIT 1) t ON true"#,
        &texts,
    )
    .fetch_all(db)
    .await?;
    let records = rows.into_iter().map(|row| {
        let record = match (row.status, row.is_queued, row.is_deleted) {
            (Some(DeploymentStatus::Failed), ..) => PackRecord::Failed,
            (Some(_), ..) => PackRecord::Wanted,
            (None, true, _) => PackRecord::Queued,
            (None, false, true) => PackRecord::Deleted,
            (None, false, false) => PackRecord::Unknown,
        };
        (row.id, record)
    });
    Ok(records.collect())
}

/// Records the progress of the sweep, and that it runs.
pub async fn advance(
    db: impl PgExecutor<'_>,
    in_step_until: Timestamp,
    position: Option<&DeploymentId>,
    looked: i64,
    unknown: i64,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE store_sweep SET in_step_until = $1, position = $2, looked = $3, unknown = $4,
                                stopped_for = NULL, stopped_at = NULL",
        in_step_until,
        position.map(DeploymentId::as_str),
        looked,
        unknown,
    )
    .execute(db)
    .await
    .map(drop)
}

/// Records the reason the sweep has stopped. Returns false when it had already stopped for this reason.
pub async fn stop(conn: &mut PgConnection, reason: &str, now: Timestamp) -> Result<bool, sqlx::Error> {
    let stopped = sqlx::query!(
        "UPDATE store_sweep SET stopped_for = $1, stopped_at = $2 WHERE stopped_for IS DISTINCT FROM $1",
        reason,
        now,
    )
    .execute(conn)
    .await?;
    Ok(stopped.rows_affected() == 1)
}

/// Adds the time since the last call, at most `most`, to the time that the trash has been watched. Returns the total
/// seconds.
pub async fn add_watch_time(db: impl PgExecutor<'_>, most: Duration) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar!(
        "UPDATE store_sweep SET watched_at = clock_timestamp(),
             watched_seconds = watched_seconds
                 + least(greatest(extract(epoch FROM clock_timestamp() - COALESCE(watched_at, clock_timestamp())), 0), $1::float8)::bigint
         RETURNING watched_seconds",
        most.as_secs_f64(),
    )
    .fetch_one(db)
    .await
}

/// Records the last pack scanned in the trash; `None` starts again.
pub async fn move_in_trash(db: impl PgExecutor<'_>, position: Option<&DeploymentId>) -> Result<(), sqlx::Error> {
    sqlx::query!("UPDATE store_sweep SET trash_position = $1", position.map(DeploymentId::as_str))
        .execute(db)
        .await
        .map(drop)
}

/// A pack that was seen in the trash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenPack {
    /// The deployment that it belonged to.
    pub deployment_id: DeploymentId,
    /// The name of its project, if known.
    pub project: Option<String>,
    /// Whether this database had it deleted.
    pub is_deletion: bool,
    /// The seconds that the trash had been watched when it was first seen.
    pub seen_at_second: i64,
}

/// Records packs that are in the trash, keeping existing records. Returns the record of each.
pub async fn record_seen(pool: &PgPool, ids: &[DeploymentId], second: i64) -> Result<Vec<SeenPack>, sqlx::Error> {
    let texts: Vec<String> = ids.iter().map(DeploymentId::to_string).collect();
    sqlx::query!(
        "INSERT INTO trashed_packs (deployment_id, is_deletion, seen_at_second)
         SELECT id, false, $2 FROM unnest($1::text[]) AS id ON CONFLICT DO NOTHING",
        &texts,
        second,
    )
    .execute(pool)
    .await?;
    list_seen(pool, ids).await
}

/// Returns the records of packs in the trash.
pub async fn list_seen(pool: &PgPool, ids: &[DeploymentId]) -> Result<Vec<SeenPack>, sqlx::Error> {
    let texts: Vec<String> = ids.iter().map(DeploymentId::to_string).collect();
    sqlx::query_as!(
        SeenPack,
        "SELECT deployment_id, project, is_deletion, seen_at_second FROM trashed_packs WHERE deployment_id = ANY($1)",
        &texts,
    )
    .fetch_all(pool)
    .await
}

/// Records that a pack is no longer in the trash.
pub async fn forget(db: impl PgExecutor<'_>, id: &DeploymentId) -> Result<(), sqlx::Error> {
    sqlx::query!("DELETE FROM trashed_packs WHERE deployment_id = $1", id.as_str()).execute(db).await.map(drop)
}

/// Returns the database's copy id when it last was the store's ruler.
pub async fn find_copy(db: impl PgExecutor<'_>) -> Result<Option<String>, sqlx::Error> {
    sqlx::query_scalar!("SELECT copy FROM store_sweep").fetch_one(db).await
}

/// Records the database's copy id, as the store's ruler.
pub async fn record_copy(db: impl PgExecutor<'_>, copy: &str) -> Result<(), sqlx::Error> {
    sqlx::query!("UPDATE store_sweep SET copy = $1 WHERE copy IS DISTINCT FROM $1", copy).execute(db).await.map(drop)
}
