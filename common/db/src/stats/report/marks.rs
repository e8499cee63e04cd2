//! Deployments that went live, as marks on a timeline.

use domain::{AuditId, DeploymentId, Timestamp, audit::Action};
use sqlx::PgPool;

use super::StatsPermit;

/// A deployment that went live, because it was published or activated again.
#[derive(Debug, Clone)]
pub struct TimelineMark {
    /// The deployment.
    pub deployment: DeploymentId,
    /// The time it went live.
    pub at: Timestamp,
    /// The commit it was built from, while its record exists.
    pub git_sha: Option<String>,
}

/// Returns at most the newest `most` deployments that went live from `from` until `end`, in order.
pub async fn marks(
    pool: &PgPool,
    project: &StatsPermit,
    from: Timestamp,
    end: Timestamp,
    most: i64,
) -> Result<Vec<TimelineMark>, sqlx::Error> {
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
    let mut marks: Vec<TimelineMark> = rows
        .into_iter()
        .rev()
        .filter_map(|row| {
            Some(TimelineMark { deployment: row.deployment.parse().ok()?, at: row.created_at, git_sha: row.git_sha })
        })
        .collect();
    // Activating the live deployment changes nothing that visitors see.
    marks.dedup_by(|next, mark| next.deployment == mark.deployment);
    Ok(marks)
}
