//! The known heads of linked branches, from webhooks and from polling. A head that no webhook reported is a push whose
//! webhook was lost.

use domain::{ProjectId, Timestamp, repo::CommitSha};
use sqlx::{PgConnection, PgExecutor};

/// A link whose branch is due for a check.
#[derive(Debug)]
pub struct DueCheck {
    /// The linked project.
    pub project: ProjectId,
    /// The last known head of the branch; `None` when it is unknown.
    pub known: Option<CommitSha>,
}

/// Takes at most `limit` live links that are due for a check, the longest due first, and makes them due again at
/// `next`. Links with a queued push are skipped, because that push deploys the current head.
pub async fn take_due(
    db: impl PgExecutor<'_>,
    now: Timestamp,
    next: Timestamp,
    limit: i64,
) -> Result<Vec<DueCheck>, sqlx::Error> {
    sqlx::query_as!(
        DueCheck,
        "UPDATE repo_links SET check_head_at = $2 WHERE project_id IN (
             SELECT l.project_id
             FROM repo_links l
             JOIN projects p ON p.id = l.project_id AND p.org_id IS NOT DISTINCT FROM l.org_id
             JOIN installations i ON i.id = l.installation_id AND i.suspended_at IS NULL
             WHERE l.check_head_at <= $1
               AND NOT EXISTS (SELECT FROM repo_deploys d WHERE d.project_id = l.project_id)
             ORDER BY l.check_head_at LIMIT $3 FOR NO KEY UPDATE OF l SKIP LOCKED)
         RETURNING project_id AS project, head_sha AS known",
        now,
        next,
        limit,
    )
    .fetch_all(db)
    .await
}

/// Makes every link through the same installation due at `until` at the earliest.
pub async fn postpone(db: impl PgExecutor<'_>, project: &ProjectId, until: Timestamp) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE repo_links SET check_head_at = $2
         WHERE installation_id = (SELECT installation_id FROM repo_links WHERE project_id = $1) AND check_head_at < $2",
        project.as_str(),
        until,
    )
    .execute(db)
    .await
    .map(drop)
}

/// Records the first known head of a branch, from which pushes are detected.
pub async fn record_first(db: impl PgExecutor<'_>, project: &ProjectId, head: &CommitSha) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE repo_links SET head_sha = $2 WHERE project_id = $1 AND head_sha IS NULL",
        project.as_str(),
        head.as_str(),
    )
    .execute(db)
    .await
    .map(drop)
}

/// Queues the push that moved the branch to `head`. Returns false when a webhook has reported a push since the check
/// began, or a push is queued.
pub async fn queue_missed(
    conn: &mut PgConnection,
    check: &DueCheck,
    head: &CommitSha,
    pusher: &str,
    now: Timestamp,
) -> Result<bool, sqlx::Error> {
    let queued = sqlx::query!(
        "WITH heard AS (
             UPDATE repo_links SET head_sha = $3 WHERE project_id = $1 AND head_sha IS NOT DISTINCT FROM $2
             RETURNING project_id)
         INSERT INTO repo_deploys (project_id, sha, pusher, queued_at, next_attempt_at)
         SELECT project_id, $3, $4, $5, $5 FROM heard
         ON CONFLICT (project_id) DO NOTHING",
        check.project.as_str(),
        check.known.as_ref().map(CommitSha::as_str),
        head.as_str(),
        pusher,
        now,
    )
    .execute(conn)
    .await?;
    Ok(queued.rows_affected() == 1)
}
