//! Packs whose deployment is gone: queued in the transaction that deletes it, moved to the store's trash by a job.

use std::time::Duration;

use domain::{DeploymentId, ProjectId, ProjectName, Timestamp};
use sqlx::{PgConnection, PgExecutor};

/// A pack to remove.
#[derive(Debug)]
pub struct PackRemoval {
    /// The deployment that the pack belonged to.
    pub deployment_id: DeploymentId,
    /// Attempts that failed so far.
    pub attempts: i32,
}

/// Queues the pack of one deployment of `project`, from `due` on.
pub async fn queue(
    conn: &mut PgConnection,
    id: &DeploymentId,
    project: Option<&ProjectName>,
    now: Timestamp,
    due: Timestamp,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "INSERT INTO pack_removals (deployment_id, project, queued_at, next_attempt_at) VALUES ($1, $2, $3, $4)
         ON CONFLICT DO NOTHING",
        id.as_str(),
        project.map(ProjectName::as_str),
        now,
        due,
    )
    .execute(conn)
    .await
    .map(drop)
}

/// Queues the packs of everything a project ever deployed. Those that could be restored with it wait for `kept`.
pub(crate) async fn queue_project(
    conn: &mut PgConnection,
    project: &ProjectId,
    now: Timestamp,
    kept: Duration,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "INSERT INTO pack_removals (deployment_id, project, queued_at, next_attempt_at)
         SELECT d.id, p.name, $2::timestamptz, CASE WHEN d.status IN ('live', 'superseded') THEN $3 ELSE $2 END
         FROM deployments d JOIN projects p ON p.id = d.project_id WHERE d.project_id = $1 ON CONFLICT DO NOTHING",
        project.as_str(),
        now,
        (now + kept),
    )
    .execute(conn)
    .await
    .map(drop)
}

/// Takes packs out of the queue whose deployments were restored.
pub(crate) async fn unqueue(conn: &mut PgConnection, ids: &[String]) -> Result<(), sqlx::Error> {
    sqlx::query!("DELETE FROM pack_removals WHERE deployment_id = ANY($1)", ids).execute(conn).await.map(drop)
}

/// Takes the pack of a deployment out of the queue that was made after all. Returns false when it is not there any more: its
/// removal may have begun.
pub async fn cancel(conn: &mut PgConnection, id: &DeploymentId) -> Result<bool, sqlx::Error> {
    let cancelled =
        sqlx::query!("DELETE FROM pack_removals WHERE deployment_id = $1", id.as_str()).execute(conn).await?;
    Ok(cancelled.rows_affected() == 1)
}

/// Returns at most `limit` packs that are due for removal: by `now`, and by the clock of Postgres, so that neither removes
/// something early when it is wrong.
pub async fn due(db: impl PgExecutor<'_>, now: Timestamp, limit: i64) -> Result<Vec<PackRemoval>, sqlx::Error> {
    sqlx::query_as!(
        PackRemoval,
        "SELECT deployment_id, attempts FROM pack_removals
           WHERE next_attempt_at <= least($1, now()) ORDER BY next_attempt_at LIMIT $2",
        now,
        limit,
    )
    .fetch_all(db)
    .await
}

/// Notes that a pack is removed. When it is in the trash, `second` is for how many seconds that was watched so far.
pub async fn done(db: impl PgExecutor<'_>, id: &DeploymentId, second: Option<i64>) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "WITH removed AS (DELETE FROM pack_removals WHERE deployment_id = $1 RETURNING project)
         INSERT INTO trashed_packs (deployment_id, project, is_deletion, seen_at_second)
         SELECT $1, removed.project, true, $2::bigint FROM removed WHERE $2::bigint IS NOT NULL
         ON CONFLICT (deployment_id) DO UPDATE
         SET project = excluded.project, is_deletion = true, seen_at_second = excluded.seen_at_second",
        id.as_str(),
        second,
    )
    .execute(db)
    .await
    .map(drop)
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
