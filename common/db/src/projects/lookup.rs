//! Finds projects by their deployments.

use domain::{Account, DeploymentId, OrgId, ProjectName, Timestamp, UserId};
use sqlx::PgExecutor;

/// Returns the name of the project that has the deployment, if `actor` may deploy to it. An expired share is not found.
pub async fn find_by_deployment(
    db: impl PgExecutor<'_>,
    actor: &Account,
    id: &DeploymentId,
    now: Timestamp,
) -> Result<Option<ProjectName>, sqlx::Error> {
    sqlx::query_scalar!(
        "SELECT p.name FROM deployments d
           JOIN projects p ON p.id = d.project_id
           LEFT JOIN org_members m ON m.org_id = p.org_id AND m.user_id = $2
           WHERE d.id = $1 AND (p.expires_at IS NULL OR p.expires_at > $4)
             AND (p.user_id = $2 OR m.user_id IS NOT NULL OR p.org_id = $3)",
        id.as_str(),
        actor.as_user().map(UserId::as_str),
        actor.as_org().map(OrgId::as_str),
        now,
    )
    .fetch_optional(db)
    .await
}
