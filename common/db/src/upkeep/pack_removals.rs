//! Packs whose deployment is gone: queued in the transaction that deletes it, removed from the store by a job.

use std::time::Duration;

use domain::{DeploymentId, ProjectId, Timestamp};
use sqlx::{PgConnection, PgExecutor};

/// A pack to remove.
#[derive(Debug)]
pub struct PackRemoval {
    /// The deployment that the pack belonged to.
    pub deployment_id: DeploymentId,
    /// Attempts that failed so far.
    pub attempts: i32,
}

/// Queues the pack of one deployment.
pub async fn queue(conn: &mut PgConnection, id: &DeploymentId, now: Timestamp) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "INSERT INTO pack_removals (deployment_id, queued_at, next_attempt_at) VALUES ($1, $2, $2)
         ON CONFLICT DO NOTHING",
        id.as_str(),
        now,
    )
    .execute(conn)
    .await
    .map(drop)
}

/// Queues the packs of everything a project ever deployed.
pub(crate) async fn queue_project(
    conn: &mut PgConnection,
    project: &ProjectId,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "INSERT INTO pack_removals (deployment_id, queued_at, next_attempt_at)
         SELECT id, $2, $2 FROM deployments WHERE project_id = $1 ON CONFLICT DO NOTHING",
        project.as_str(),
        now,
    )
    .execute(conn)
    .await
    .map(drop)
}

/// Returns at most `limit` packs that are due for removal.
pub async fn due(db: impl PgExecutor<'_>, now: Timestamp, limit: i64) -> Result<Vec<PackRemoval>, sqlx::Error> {
    sqlx::query_as!(
        PackRemoval,
        "SELECT deployment_id, attempts FROM pack_removals
           WHERE next_attempt_at <= $1 ORDER BY next_attempt_at LIMIT $2",
        now,
        limit,
    )
    .fetch_all(db)
    .await
}

/// Notes that the pack is removed.
pub async fn done(db: impl PgExecutor<'_>, id: &DeploymentId) -> Result<(), sqlx::Error> {
    sqlx::query!("DELETE FROM pack_removals WHERE deployment_id = $1", id.as_str()).execute(db).await.map(drop)
}

/// Notes that the pack could not be removed, and puts the next attempt off by `pause`.
pub async fn put_off(
    db: impl PgExecutor<'_>,
    id: &DeploymentId,
    now: Timestamp,
    pause: Duration,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE pack_removals SET attempts = attempts + 1, next_attempt_at = $2 WHERE deployment_id = $1",
        id.as_str(),
        (now + pause),
    )
    .execute(db)
    .await
    .map(drop)
}
