//! Permits for projects.

use std::marker::PhantomData;

use domain::{Account, OrgId, ProjectId, ProjectName, Timestamp, UserId};
use sqlx::PgExecutor;

use super::{Deploy, Permit, PermitError, PermitLevel, ProjectPermit, Resource, ResourceKind};
use crate::projects::project::{Project, select_projects};

impl Resource for Project {
    const KIND: ResourceKind = ResourceKind::Project;
    type Actor = ();
}

/// Permits `actor`, a person or an org's deploy token, to act on the project called `name`. An expired share is not found.
pub async fn project<L: PermitLevel>(
    db: impl PgExecutor<'_>,
    actor: &Account,
    name: &ProjectName,
    now: Timestamp,
) -> Result<ProjectPermit<L>, PermitError> {
    let row = select_projects!(
        more r#", m.role AS "role?""#,
        "LEFT JOIN org_members m ON m.org_id = p.org_id AND m.user_id = $2
         WHERE p.name = $1 AND (p.expires_at IS NULL OR p.expires_at > $4)
           AND (p.user_id = $2 OR m.user_id IS NOT NULL OR p.org_id = $3)",
        name.as_str(),
        actor.as_user().map(UserId::as_str),
        actor.as_org().map(OrgId::as_str),
        now,
    )
    .fetch_optional(db)
    .await?
    .ok_or(PermitError::NotFound(ResourceKind::Project))?;
    let allowed = match actor {
        Account::User(_) => row.role.is_none_or(|role| role >= L::ROLE),
        Account::Org(_) => L::DEPLOY_TOKENS,
    };
    if !allowed {
        return Err(PermitError::Role(ResourceKind::Project, L::ROLE));
    }
    let project = Project {
        id: row.id,
        name: row.name,
        owner: row.owner,
        org_id: row.org_id,
        org: row.org,
        org_creator: row.org_creator,
        active_deployment_id: row.active_deployment_id,
        access_mode: row.access_mode,
        share_name: row.share_name,
        expires_at: row.expires_at,
        created_at: row.created_at,
    };
    Ok(Permit { row: project, actor: (), level: PhantomData })
}

/// Permits a push to deploy to its repository's linked project. The caller has checked that the link is live.
pub(crate) async fn linked_project(
    db: impl PgExecutor<'_>,
    id: &ProjectId,
) -> Result<Option<ProjectPermit<Deploy>>, sqlx::Error> {
    let project = select_projects!("WHERE p.id = $1", id.as_str()).fetch_optional(db).await?;
    Ok(project.map(|row| Permit { row, actor: (), level: PhantomData }))
}
