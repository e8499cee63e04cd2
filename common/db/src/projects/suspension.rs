//! Taking a site down, and letting it be served again: the operator's, so without a permit. Owners see what is down.

use domain::{
    Account, OrgId, ProjectId, ProjectName, ShareName, Timestamp, UserId, changes::Touched, site::Suspension,
};
use sqlx::{PgConnection, PgExecutor};

use super::project::{Project, select_projects};

/// A site that the operator has taken down.
#[derive(Debug, Clone)]
pub struct SuspendedSite {
    /// The project's id.
    pub id: ProjectId,
    /// The project's name.
    pub project: ProjectName,
    /// The reason.
    pub reason: Suspension,
    /// Time of the suspension.
    pub suspended_at: Timestamp,
}

/// Returns the owner's suspended sites, shares included, those of the newest projects first: at most `rows`, older than
/// `before`.
pub async fn page(
    db: impl PgExecutor<'_>,
    owner: &Account,
    before: Option<&ProjectId>,
    rows: i64,
    now: Timestamp,
) -> Result<Vec<SuspendedSite>, sqlx::Error> {
    sqlx::query_as!(
        SuspendedSite,
        r#"SELECT id, name AS project, COALESCE(suspended_for, 'abuse') AS "reason!: Suspension",
                  suspended_at AS "suspended_at!"
           FROM projects
           WHERE (user_id = $1 OR org_id = $2) AND suspended_at IS NOT NULL AND (expires_at IS NULL OR expires_at > $3)
                 AND ($4::text IS NULL OR id < $4)
           ORDER BY id DESC LIMIT $5"#,
        owner.as_user().map(UserId::as_str),
        owner.as_org().map(OrgId::as_str),
        now as Timestamp,
        before.map(ProjectId::as_str),
        rows,
    )
    .fetch_all(db)
    .await
}

/// Suspends a site for `reason`, or resumes it when there is none; a suspended site may be given another reason. It is that
/// of the project called `name`, else the share of these words. Returns the project, and what the edges have to forget;
/// `None` when there is no such site.
pub async fn set_suspended(
    conn: &mut PgConnection,
    name: Option<&ProjectName>,
    share: Option<&ShareName>,
    reason: Option<Suspension>,
    now: Timestamp,
) -> Result<Option<(Project, Touched)>, sqlx::Error> {
    // Three words may be the name of a project as well, which has a share of the same words as its neighbour then.
    let project = select_projects!(
        "WHERE p.name = $1 OR p.share_name = $2
         ORDER BY p.share_name IS NOT NULL, p.id LIMIT 1 FOR NO KEY UPDATE OF p",
        name.map(ProjectName::as_str),
        share.map(ShareName::as_str),
    )
    .fetch_optional(&mut *conn)
    .await?;
    let Some(project) = project else { return Ok(None) };
    sqlx::query!(
        "UPDATE projects SET suspended_for = $2, suspended_at = CASE WHEN $2::text IS NULL THEN NULL ELSE $3::timestamptz END
         WHERE id = $1",
        project.id.as_str(),
        reason.map(Suspension::as_str),
        now as Timestamp,
    )
    .execute(conn)
    .await?;
    let touched = Touched::new(&project.id);
    Ok(Some((project, touched)))
}
