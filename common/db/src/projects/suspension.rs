//! Taking a site down, and letting it be served again: the operator's, so without a permit.

use domain::{ProjectName, ShareName, Timestamp, changes::Touched, site::Suspension};
use sqlx::PgConnection;

use super::project::{Project, select_projects};

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
