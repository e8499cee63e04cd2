//! Deployments that went live: marks on a line of time.

use domain::{AuditId, DeploymentId, Timestamp, audit::Action};
use sqlx::PgPool;

use super::Readable;

/// A deployment went live: it was published, or the project was pointed at it again.
#[derive(Debug, Clone)]
pub struct Mark {
    /// The deployment.
    pub deployment: DeploymentId,
    /// Time at which it went live.
    pub at: Timestamp,
    /// The commit it was built from, while its record is there.
    pub git_sha: Option<String>,
}

/// Returns the deployments that went live from `from` until `end`, in order: at most the newest `most`.
pub async fn marks(
    pool: &PgPool,
    project: &Readable,
    from: Timestamp,
    end: Timestamp,
    most: i64,
) -> Result<Vec<Mark>, sqlx::Error> {
    let rows = sqlx::query!(
        r#"SELECT log.created_at, log.detail ->> 'deployment' AS "deployment!", deployment.git_sha AS "git_sha?"
           FROM audit_log AS log
           LEFT JOIN deployments AS deployment
             ON deployment.id = log.detail ->> 'deployment' AND deployment.project_id = log.project_id
           WHERE log.project_id = $1 AND log.id >= $2 AND log.id < $3 AND log.action = ANY($4) AND log.detail ? 'deployment'
           ORDER BY log.id DESC LIMIT $5"#,
        project.0.as_str(),
        AuditId::first_of(from) as AuditId,
        AuditId::first_of(end) as AuditId,
        &[Action::DeploymentUpload, Action::DeploymentActivate].map(|action| action.as_str().to_owned()),
        most,
    )
    .fetch_all(pool)
    .await?;
    let mut marks: Vec<Mark> = rows
        .into_iter()
        .rev()
        .filter_map(|row| {
            Some(Mark { deployment: row.deployment.parse().ok()?, at: row.created_at, git_sha: row.git_sha })
        })
        .collect();
    // Pointed at what is live already, a project serves what it did.
    marks.dedup_by(|next, mark| next.deployment == mark.deployment);
    Ok(marks)
}
