//! Packs of deleted deployments, queued in the transaction of the deletion, and moved to the store's trash by a job.

use std::time::Duration;

use domain::{
    DeploymentId, ProjectId, Timestamp, UserId,
    limits::{PACK_LEAST_BYTES, PACK_OVERHEAD_BYTES},
};
use sqlx::{PgConnection, PgExecutor};

use crate::projects::deployments::UploadContent;

/// A pack to remove.
#[derive(Debug)]
pub struct PackRemoval {
    /// The deployment that the pack belonged to.
    pub deployment_id: DeploymentId,
    /// The number of failed attempts.
    pub attempts: i32,
}

/// A deleted deployment, with the bytes that its pack counts with in the store.
pub(crate) struct DeletedPack {
    pub(crate) id: DeploymentId,
    pub(crate) counted_bytes: i64,
}

/// Queues the packs of deployments of an existing project. Its owner pays for them until they are deleted.
pub(crate) async fn queue(
    conn: &mut PgConnection,
    project: &ProjectId,
    deleted: &[DeletedPack],
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    let ids: Vec<String> = deleted.iter().map(|deleted| deleted.id.to_string()).collect();
    let bytes: Vec<i64> = deleted.iter().map(|deleted| deleted.counted_bytes).collect();
    sqlx::query!(
        "INSERT INTO pack_removals (deployment_id, project, queued_at, next_attempt_at, payer, bytes)
         SELECT given.id, p.name, $4, $4, payer_of(COALESCE(p.org_id, p.user_id)), given.bytes
         FROM projects p, unnest($2::text[], $3::bigint[]) AS given (id, bytes) WHERE p.id = $1
         ON CONFLICT DO NOTHING",
        project.as_str(),
        &ids,
        &bytes,
        now,
    )
    .execute(conn)
    .await
    .map(drop)
}

/// Queues the removal at `due` of the pack of a deployment that `user` is about to create, in case it is not created.
pub async fn queue_uncreated(
    conn: &mut PgConnection,
    id: &DeploymentId,
    user: &UserId,
    now: Timestamp,
    due: Timestamp,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "INSERT INTO pack_removals (deployment_id, queued_at, next_attempt_at, payer) VALUES ($1, $2, $3, $4)
         ON CONFLICT DO NOTHING",
        id.as_str(),
        now,
        due,
        user.as_str(),
    )
    .execute(conn)
    .await
    .map(drop)
}

/// Records the size of a pack that was queued by [`queue_uncreated`] and is now written.
pub async fn record_bytes(
    db: impl PgExecutor<'_>,
    id: &DeploymentId,
    content: UploadContent,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE pack_removals SET bytes = $2 WHERE deployment_id = $1",
        id.as_str(),
        i64::try_from(content.counted_bytes()).unwrap_or(i64::MAX),
    )
    .execute(db)
    .await
    .map(drop)
}

/// Queues the packs of everything a project ever deployed. Packs that could be restored with it wait for `kept`.
pub(crate) async fn queue_project(
    conn: &mut PgConnection,
    project: &ProjectId,
    now: Timestamp,
    kept: Duration,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "INSERT INTO pack_removals (deployment_id, project, queued_at, next_attempt_at, payer, bytes)
         SELECT d.id, p.name, $2::timestamptz, CASE WHEN d.status IN ('live', 'superseded') THEN $3 ELSE $2 END,
                payer_of(COALESCE(p.org_id, p.user_id)),
                CASE WHEN d.status IN ('live', 'superseded')
                     THEN greatest(COALESCE(d.stored_bytes, d.bytes) + $4::bigint, $5) ELSE 0 END
         FROM deployments d JOIN projects p ON p.id = d.project_id WHERE d.project_id = $1 ON CONFLICT DO NOTHING",
        project.as_str(),
        now,
        (now + kept),
        PACK_OVERHEAD_BYTES,
        PACK_LEAST_BYTES,
    )
    .execute(conn)
    .await
    .map(drop)
}

/// Removes packs from the queue whose deployments were restored.
pub(crate) async fn dequeue(conn: &mut PgConnection, ids: &[String]) -> Result<(), sqlx::Error> {
    sqlx::query!("DELETE FROM pack_removals WHERE deployment_id = ANY($1)", ids).execute(conn).await.map(drop)
}

/// Removes a newly created deployment's pack from the queue. Returns false if its removal may have begun.
pub async fn cancel(conn: &mut PgConnection, id: &DeploymentId) -> Result<bool, sqlx::Error> {
    let cancelled =
        sqlx::query!("DELETE FROM pack_removals WHERE deployment_id = $1", id.as_str()).execute(conn).await?;
    Ok(cancelled.rows_affected() == 1)
}

/// Returns at most `limit` packs due for removal by both `now` and the clock of Postgres, so that one wrong clock does
/// no harm.
pub async fn list_due(db: impl PgExecutor<'_>, now: Timestamp, limit: i64) -> Result<Vec<PackRemoval>, sqlx::Error> {
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

/// Records that a pack was removed; with `second`, that it is in the trash, watched for that many seconds so far.
pub async fn mark_removed(db: impl PgExecutor<'_>, id: &DeploymentId, second: Option<i64>) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "WITH removed AS (DELETE FROM pack_removals WHERE deployment_id = $1 RETURNING project, payer, bytes)
         INSERT INTO trashed_packs (deployment_id, project, is_deletion, seen_at_second, payer, bytes)
         SELECT $1, removed.project, true, $2::bigint, removed.payer, removed.bytes
         FROM removed WHERE $2::bigint IS NOT NULL
         ON CONFLICT (deployment_id) DO UPDATE
         SET project = excluded.project, is_deletion = true, seen_at_second = excluded.seen_at_second,
             payer = excluded.payer, bytes = excluded.bytes",
        id.as_str(),
        second,
    )
    .execute(db)
    .await
    .map(drop)
}

/// Records that the pack could not be removed, and postpones the next attempt by `pause`.
pub async fn postpone(
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
