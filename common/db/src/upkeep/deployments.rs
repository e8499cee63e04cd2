//! The expiry of deployments, and uploads whose program died.

use domain::{
    DeploymentId, ProjectId, Timestamp,
    changes::PendingChange,
    limits::{DEPLOYMENT_KEPT, PACK_LEAST_BYTES, PACK_OVERHEAD_BYTES},
};
use sqlx::{PgConnection, PgPool};

use super::pack_removals;
use crate::projects::{
    deployments::lock_project,
    project::{Project, select_projects},
};

/// Scans the next `rows` projects after `after`, ordered by id. Returns the last id, and those projects that have at
/// least `least` superseded or failed deployments, the oldest old enough to expire. Each project takes an index scan
/// that ends after `least` rows.
pub async fn crowded_projects(
    db: &PgPool,
    least: u32,
    after: Option<&ProjectId>,
    rows: i64,
    now: Timestamp,
) -> Result<(Option<ProjectId>, Vec<Project>), sqlx::Error> {
    let last = sqlx::query_scalar!(
        r#"SELECT max(id) AS "id?: ProjectId" FROM (
               SELECT id FROM projects WHERE $1::text IS NULL OR id > $1 ORDER BY id LIMIT $2) AS page"#,
        after.map(ProjectId::as_str),
        rows,
    )
    .fetch_one(db)
    .await?;
    let Some(last) = last else { return Ok((None, Vec::new())) };
    let crowded = select_projects!(
        "WHERE p.id > COALESCE($2::text, '') AND p.id <= $3
           AND (SELECT d.created_at FROM deployments d
                WHERE d.project_id = p.id AND d.status IN ('superseded', 'failed') ORDER BY d.id LIMIT 1) < $4
           AND EXISTS (SELECT FROM deployments d
                       WHERE d.project_id = p.id AND d.status IN ('superseded', 'failed')
                       ORDER BY d.id OFFSET $1 LIMIT 1)
         ORDER BY p.id",
        i64::from(least.max(1)) - 1,
        after.map(ProjectId::as_str),
        last.as_str(),
        now - DEPLOYMENT_KEPT,
    )
    .fetch_all(db)
    .await?;
    Ok((Some(last), crowded))
}

/// Deletes at most `rows` of a project's oldest deployments beyond the newest `kept`, which include the live one, and
/// of its oldest failed ones beyond the same number, and queues their packs for removal. Keeps those made or served
/// within [`DEPLOYMENT_KEPT`], by either `now` or the clock of Postgres. Returns the deleted ids, and what edges must
/// forget.
pub async fn expire(
    conn: &mut PgConnection,
    project: &Project,
    kept: u32,
    rows: i64,
    now: Timestamp,
) -> Result<(Vec<DeploymentId>, PendingChange), sqlx::Error> {
    let nothing = PendingChange::new(&project.id);
    if lock_project(conn, &project.id).await?.is_none() {
        return Ok((Vec::new(), nothing));
    }
    let expired = sqlx::query_as!(
        pack_removals::DeletedPack,
        r#"DELETE FROM deployments WHERE id IN (
             SELECT id FROM (
                 SELECT id, status, created_at, superseded_at,
                        row_number() OVER (PARTITION BY status = 'failed' ORDER BY id DESC) AS place
                 FROM deployments WHERE project_id = $1 AND status IN ('live', 'superseded', 'failed')
             ) ranked
             WHERE place > $2 AND status <> 'live'
               AND greatest(created_at, superseded_at) < least($3, now()) - make_interval(secs => $5)
             ORDER BY id LIMIT $4)
         RETURNING id, CASE WHEN status = 'superseded'
                            THEN greatest(COALESCE(stored_bytes, bytes) + $6::bigint, $7) ELSE 0 END AS "counted_bytes!""#,
        project.id.as_str(),
        i64::from(kept),
        now,
        rows,
        DEPLOYMENT_KEPT.as_secs_f64(),
        PACK_OVERHEAD_BYTES,
        PACK_LEAST_BYTES,
    )
    .fetch_all(&mut *conn)
    .await?;
    pack_removals::queue(conn, &project.id, &expired, now).await?;
    let mut expired: Vec<DeploymentId> = expired.into_iter().map(|deleted| deleted.id).collect();
    expired.sort();
    let hosts: Vec<_> = expired.iter().filter_map(|id| project.deployment_host(id)).collect();
    Ok((expired, nothing.with_hosts(hosts)))
}

/// Marks uploads that began before `before`, whose program must have died, as failed. Returns their number.
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
