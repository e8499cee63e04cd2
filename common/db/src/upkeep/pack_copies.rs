//! Packs that were copied to a replica of the store.

use domain::{DeploymentId, Timestamp};
use sqlx::PgExecutor;

/// Returns deployments after the id `after` whose packs were not copied to `replica`, sorted.
pub async fn list_missing(
    db: impl PgExecutor<'_>,
    replica: &str,
    after: Option<&DeploymentId>,
    rows: i64,
) -> Result<Vec<DeploymentId>, sqlx::Error> {
    sqlx::query_scalar!(
        "SELECT id FROM deployments
         WHERE status IN ('live', 'superseded') AND ($2::text IS NULL OR id > $2)
           AND NOT EXISTS (SELECT FROM pack_copies WHERE deployment_id = deployments.id AND replica = $1)
         ORDER BY id LIMIT $3",
        replica,
        after.map(DeploymentId::as_str),
        rows,
    )
    .fetch_all(db)
    .await
}

/// Records that a pack was copied.
pub async fn mark_copied(
    db: impl PgExecutor<'_>,
    id: &DeploymentId,
    replica: &str,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "INSERT INTO pack_copies (deployment_id, replica, copied_at) VALUES ($1, $2, $3)
         ON CONFLICT (deployment_id, replica) DO UPDATE SET copied_at = excluded.copied_at",
        id.as_str(),
        replica,
        now,
    )
    .execute(db)
    .await
    .map(drop)
}
