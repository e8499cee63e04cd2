//! Deployments that are kept no longer, and uploads whose program died.

use domain::{DeploymentId, ProjectId, Timestamp, changes::Touched, limits::DEPLOYMENT_KEPT};
use sqlx::{PgConnection, PgExecutor};

use super::pack_removals;
use crate::projects::{
    deployments::lock_project,
    project::{Project, select_projects},
};

/// Returns projects that have more than `least` deployments which are not live, some of them old enough to expire: at
/// most `rows`, those after the project `after`.
pub async fn crowded_projects(
    db: impl PgExecutor<'_>,
    least: u32,
    after: Option<&ProjectId>,
    rows: i64,
    now: Timestamp,
) -> Result<Vec<Project>, sqlx::Error> {
    select_projects!(
        "WHERE p.id IN (
             SELECT project_id FROM deployments
             WHERE status IN ('superseded', 'failed') AND ($2::text IS NULL OR project_id > $2)
             GROUP BY project_id HAVING count(*) >= $1 AND min(created_at) < $3)
         ORDER BY p.id LIMIT $4",
        i64::from(least.max(1)),
        after.map(ProjectId::as_str),
        now - DEPLOYMENT_KEPT,
        rows,
    )
    .fetch_all(db)
    .await
}

/// Deletes a project's oldest deployments beyond the newest `kept`, which include the live one, and its oldest failed ones
/// beyond as many; at most `rows`. Those that were made or served within [`DEPLOYMENT_KEPT`] stay. Their packs are queued
/// for removal. Returns their ids, and what the edges have to forget.
pub async fn expire(
    conn: &mut PgConnection,
    project: &Project,
    kept: u32,
    rows: i64,
    now: Timestamp,
) -> Result<(Vec<DeploymentId>, Touched), sqlx::Error> {
    let nothing = Touched::new(&project.id);
    if lock_project(conn, &project.id).await?.is_none() {
        return Ok((Vec::new(), nothing));
    }
    let mut expired = sqlx::query_scalar!(
        "DELETE FROM deployments WHERE id IN (
             SELECT id FROM (
                 SELECT id, status, created_at, superseded_at,
                        row_number() OVER (PARTITION BY status = 'failed' ORDER BY id DESC) AS place
                 FROM deployments WHERE project_id = $1 AND status IN ('live', 'superseded', 'failed')
             ) ranked
             WHERE place > $2 AND status <> 'live' AND created_at < $3
               AND (superseded_at IS NULL OR superseded_at < $3)
             ORDER BY id LIMIT $4)
         RETURNING id",
        project.id.as_str(),
        i64::from(kept),
        now - DEPLOYMENT_KEPT,
        rows,
    )
    .fetch_all(&mut *conn)
    .await?;
    expired.sort();
    for id in &expired {
        pack_removals::queue(conn, id, now).await?;
    }
    let hosts: Vec<_> = expired.iter().filter_map(|id| project.deployment_host(id)).collect();
    Ok((expired, nothing.with_hosts(hosts)))
}

/// Fails uploads that began before `before`, whose program must have died. Returns their number.
pub async fn fail_stuck(
    conn: &mut PgConnection,
    before: Timestamp,
    reason: &str,
    limit: i64,
) -> Result<u64, sqlx::Error> {
    let failed = sqlx::query!(
        "UPDATE deployments SET status = 'failed', failure = $2 WHERE status = 'uploading' AND id IN (
             SELECT id FROM deployments WHERE status = 'uploading' AND created_at < $1 LIMIT $3 FOR UPDATE SKIP LOCKED)",
        before,
        reason,
        limit,
    )
    .execute(conn)
    .await?;
    Ok(failed.rows_affected())
}

/// Returns those of the deployments that have, or may yet get, files. The packs of the others are orphans.
pub async fn keeping_packs(db: impl PgExecutor<'_>, ids: &[DeploymentId]) -> Result<Vec<DeploymentId>, sqlx::Error> {
    let ids: Vec<String> = ids.iter().map(DeploymentId::to_string).collect();
    sqlx::query_scalar!("SELECT id FROM deployments WHERE id = ANY($1) AND status <> 'failed'", &ids,)
        .fetch_all(db)
        .await
}
