//! Packs whose deployment is gone: queued in the transaction that deletes it, removed from the store by a job.

use std::time::Duration;

use domain::{DeploymentId, ProjectId, Timestamp};
use sqlx::{PgConnection, PgExecutor};

/// A pack to remove.
#[derive(Debug)]
pub struct PackRemoval {
    /// Whose pack it is.
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
        now as Timestamp,
    )
    .execute(conn)
    .await
    .map(drop)
}

/// Queues the packs of everything a project ever deployed.
pub(super) async fn queue_project(
    conn: &mut PgConnection,
    project: &ProjectId,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "INSERT INTO pack_removals (deployment_id, queued_at, next_attempt_at)
         SELECT id, $2, $2 FROM deployments WHERE project_id = $1 ON CONFLICT DO NOTHING",
        project.as_str(),
        now as Timestamp,
    )
    .execute(conn)
    .await
    .map(drop)
}

/// Packs whose turn it is.
pub async fn due(db: impl PgExecutor<'_>, now: Timestamp, limit: i64) -> Result<Vec<PackRemoval>, sqlx::Error> {
    sqlx::query_as!(
        PackRemoval,
        r#"SELECT deployment_id AS "deployment_id: DeploymentId", attempts FROM pack_removals
           WHERE next_attempt_at <= $1 ORDER BY next_attempt_at LIMIT $2"#,
        now as Timestamp,
        limit,
    )
    .fetch_all(db)
    .await
}

/// The pack is gone.
pub async fn done(db: impl PgExecutor<'_>, id: &DeploymentId) -> Result<(), sqlx::Error> {
    sqlx::query!("DELETE FROM pack_removals WHERE deployment_id = $1", id.as_str()).execute(db).await.map(drop)
}

/// The pack could not be removed; it is tried again after `pause`.
pub async fn put_off(
    db: impl PgExecutor<'_>,
    id: &DeploymentId,
    now: Timestamp,
    pause: Duration,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE pack_removals SET attempts = attempts + 1, next_attempt_at = $2 WHERE deployment_id = $1",
        id.as_str(),
        (now + pause) as Timestamp,
    )
    .execute(db)
    .await
    .map(drop)
}
