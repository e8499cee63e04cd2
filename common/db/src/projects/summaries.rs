//! The details that lists of projects show beyond each row.

use std::collections::HashMap;

use domain::{
    ProjectId, Timestamp,
    limits::{PACK_LEAST_BYTES, PACK_OVERHEAD_BYTES},
    site::Suspension,
};
use sqlx::PgPool;

use super::{Project, domains};

/// The details of a project in a list.
#[derive(Debug, Clone, Default)]
pub struct ProjectListDetails {
    /// The time of the live deployment; `None` before the first one.
    pub deployed_at: Option<Timestamp>,
    /// Whether the newest deployment failed.
    pub last_failed: bool,
    /// The reason the operator has suspended it or its owner.
    pub suspended: Option<Suspension>,
    /// The bytes that the project counts with in the store.
    pub stored_bytes: u64,
    /// The number of domains for which somebody has to fix something.
    pub domains_blocked: u32,
    /// The number of domains whose certificate is pending without anything to fix.
    pub domains_coming: u32,
    /// The requests by hour, in order, without hours that had none.
    pub requests: Vec<(Timestamp, u64)>,
}

/// Returns the summaries of projects that the caller may list, with the requests of these hours. A page bounds the
/// number of projects, and each statement reads all of them by an index.
pub async fn list_summaries(
    pool: &PgPool,
    listed: &[Project],
    hours: &[Timestamp],
    now: Timestamp,
) -> Result<HashMap<ProjectId, ProjectListDetails>, sqlx::Error> {
    let ids: Vec<&str> = listed.iter().map(|project| project.id.as_str()).collect();
    let rows = sqlx::query!(
        r#"SELECT p.id AS "id!", live.created_at AS "deployed_at?",
                  COALESCE((SELECT status = 'failed' FROM deployments WHERE project_id = p.id ORDER BY id DESC LIMIT 1),
                           false) AS "last_failed!",
                  (SELECT COALESCE(sum(greatest(COALESCE(stored_bytes, bytes) + $2::bigint, $3)), 0)::bigint
                   FROM deployments WHERE project_id = p.id AND status IN ('live', 'superseded')) AS "stored_bytes!",
                  CASE WHEN p.suspended_at IS NOT NULL THEN COALESCE(p.suspended_for, 'abuse') ELSE s.reason END
                      AS "suspended?: Suspension"
           FROM projects p LEFT JOIN deployments live ON live.id = p.active_deployment_id
                LEFT JOIN account_suspensions s ON s.account = COALESCE(p.org_id, p.user_id)
           WHERE p.id = ANY($1)"#,
        &ids as &[&str],
        PACK_OVERHEAD_BYTES,
        PACK_LEAST_BYTES,
    )
    .fetch_all(pool)
    .await?;
    let mut summaries: HashMap<ProjectId, ProjectListDetails> = HashMap::with_capacity(rows.len());
    for row in rows {
        let stored_bytes = count(row.stored_bytes);
        let summary = ProjectListDetails {
            deployed_at: row.deployed_at,
            last_failed: row.last_failed,
            suspended: row.suspended,
            stored_bytes,
            ..ProjectListDetails::default()
        };
        summaries.insert(row.id, summary);
    }
    for (project, domain) in domains::list_for_projects(pool, &ids, now).await? {
        let Some(summary) = summaries.get_mut(&project) else { continue };
        if domain.is_blocked() {
            summary.domains_blocked += 1;
        } else if !domain.tls_ready {
            summary.domains_coming += 1;
        }
    }
    let hours = sqlx::query!(
        r#"SELECT project_id AS "project_id!: ProjectId", hour AS "hour!", sum(requests)::bigint AS "requests!"
           FROM (SELECT project_id, hour, requests FROM traffic_hours WHERE hour = ANY($2) AND project_id = ANY($1)
                 UNION ALL
                 SELECT project_id, hour, sums[1] FROM traffic_recent WHERE project_id = ANY($1) AND hour = ANY($2))
                AS parts (project_id, hour, requests)
           GROUP BY project_id, hour ORDER BY hour"#,
        &ids as &[&str],
        hours as &[Timestamp],
    )
    .fetch_all(pool)
    .await?;
    for row in hours {
        if let Some(summary) = summaries.get_mut(&row.project_id) {
            summary.requests.push((row.hour, count(row.requests)));
        }
    }
    Ok(summaries)
}

fn count(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}
