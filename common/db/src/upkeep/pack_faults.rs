//! Packs that a scan of the store found lost or damaged.

use domain::{DeploymentId, Timestamp};
use sqlx::PgExecutor;

/// The owner of a deployment, for display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeploymentOwner {
    /// The project's name, or the three words of a share.
    pub project: String,
    /// The person or the organization.
    pub owner: String,
}

/// Returns deployments after the id `after` whose packs must be in the store, sorted: the live ones, or the others.
pub async fn page(
    db: impl PgExecutor<'_>,
    is_live: bool,
    after: Option<&DeploymentId>,
    rows: i64,
) -> Result<Vec<DeploymentId>, sqlx::Error> {
    sqlx::query_scalar!(
        "SELECT id FROM deployments
         WHERE status = $1 AND ($2::text IS NULL OR id > $2) ORDER BY id LIMIT $3",
        if is_live { "live" } else { "superseded" },
        after.map(DeploymentId::as_str),
        rows,
    )
    .fetch_all(db)
    .await
}

/// Returns the approximate total size of all packs in bytes.
pub async fn stored_bytes(db: impl PgExecutor<'_>) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT coalesce(sum(coalesce(stored_bytes, bytes)), 0)::bigint AS "bytes!" FROM deployments
           WHERE status IN ('live', 'superseded')"#,
    )
    .fetch_one(db)
    .await
}

/// Returns the owner of a deployment; `None` when it does not exist or has no files.
pub async fn find_owner(db: impl PgExecutor<'_>, id: &DeploymentId) -> Result<Option<DeploymentOwner>, sqlx::Error> {
    sqlx::query_as!(
        DeploymentOwner,
        r#"SELECT coalesce(p.share_name, p.name) AS "project!: String", coalesce(o.name, u.vcs_login) AS "owner!: String"
           FROM deployments d JOIN projects p ON p.id = d.project_id
           LEFT JOIN orgs o ON o.id = p.org_id LEFT JOIN users u ON u.id = p.user_id
           WHERE d.id = $1 AND d.status IN ('live', 'superseded')"#,
        id.as_str(),
    )
    .fetch_optional(db)
    .await
}

/// Records a fault, with the first affected file and the number of affected files.
pub async fn record(
    db: impl PgExecutor<'_>,
    id: &DeploymentId,
    kind: &str,
    path: Option<&str>,
    paths: i32,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "INSERT INTO pack_faults (deployment_id, kind, project_id, path, paths, found_at)
         SELECT id, $2, project_id, $3, $4, $5 FROM deployments WHERE id = $1
         ON CONFLICT (deployment_id, kind) DO UPDATE SET
             path = excluded.path, paths = excluded.paths, repaired_at = NULL,
             found_at = CASE WHEN pack_faults.repaired_at IS NULL THEN pack_faults.found_at ELSE excluded.found_at END",
        id.as_str(),
        kind,
        path,
        paths,
        now,
    )
    .execute(db)
    .await
    .map(drop)
}

/// Records that a pack, as it was read from `since` on, is whole. Returns whether it had a fault that was found before.
pub async fn mark_repaired(
    db: impl PgExecutor<'_>,
    id: &DeploymentId,
    since: Timestamp,
    now: Timestamp,
) -> Result<bool, sqlx::Error> {
    let repaired = sqlx::query!(
        "UPDATE pack_faults SET repaired_at = $2 WHERE deployment_id = $1 AND repaired_at IS NULL AND found_at <= $3",
        id.as_str(),
        now,
        since,
    )
    .execute(db)
    .await?;
    Ok(repaired.rows_affected() > 0)
}

/// Returns the faulty deployments after the id `after`, sorted.
pub async fn list_open(
    db: impl PgExecutor<'_>,
    after: Option<&DeploymentId>,
    rows: i64,
) -> Result<Vec<DeploymentId>, sqlx::Error> {
    sqlx::query_scalar!(
        "SELECT DISTINCT deployment_id FROM pack_faults
         WHERE repaired_at IS NULL AND ($1::text IS NULL OR deployment_id > $1) ORDER BY deployment_id LIMIT $2",
        after.map(DeploymentId::as_str),
        rows,
    )
    .fetch_all(db)
    .await
}

/// Counts the faults by kind.
pub async fn count_by_kind(db: impl PgExecutor<'_>) -> Result<Vec<(String, i64)>, sqlx::Error> {
    let rows =
        sqlx::query!(r#"SELECT kind, count(*) AS "count!" FROM pack_faults WHERE repaired_at IS NULL GROUP BY kind"#)
            .fetch_all(db)
            .await?;
    Ok(rows.into_iter().map(|row| (row.kind, row.count)).collect())
}

/// Counts the lost or damaged packs.
pub async fn count_packs(db: impl PgExecutor<'_>) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT count(DISTINCT deployment_id) AS "count!" FROM pack_faults WHERE repaired_at IS NULL"#
    )
    .fetch_one(db)
    .await
}
