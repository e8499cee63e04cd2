//! Permits for deleted projects that can be restored.

use std::marker::PhantomData;

use domain::{ProjectId, Timestamp, UserId, limits::PROJECT_RESTORABLE};
use sqlx::PgExecutor;

use super::{Permit, PermitError, PermitLevel, Resource, ResourceKind};
use crate::projects::deleted::DeletedProject;

impl Resource for DeletedProject {
    const KIND: ResourceKind = ResourceKind::Project;
    type Actor = ();
}

/// A permit for a deleted project. Created by [`deleted_project`].
pub type DeletedProjectPermit<L> = Permit<DeletedProject, L>;

/// Permits `user` to act on a deleted project as before its deletion.
pub async fn deleted_project<L: PermitLevel>(
    db: impl PgExecutor<'_>,
    user: &UserId,
    id: &ProjectId,
    now: Timestamp,
) -> Result<DeletedProjectPermit<L>, PermitError> {
    let row = sqlx::query!(
        r#"SELECT d.id, d.name, COALESCE(d.org_id, d.user_id) AS "owner!: domain::Account", d.org_id,
                  o.name AS "org?: domain::OrgName", d.deleted_at, m.role AS "role?: domain::role::Role",
                  ARRAY(SELECT c.domain FROM jsonb_to_recordset(d.domains) AS c (domain text) ORDER BY 1) AS "domains!: Vec<domain::Hostname>"
           FROM deleted_projects d LEFT JOIN orgs o ON o.id = d.org_id
           LEFT JOIN org_members m ON m.org_id = d.org_id AND m.user_id = $2
           WHERE d.id = $1 AND d.deleted_at > $3 AND (d.user_id = $2 OR m.user_id IS NOT NULL)"#,
        id.as_str(),
        user.as_str(),
        now - PROJECT_RESTORABLE,
    )
    .fetch_optional(db)
    .await?
    .ok_or(PermitError::NotFound(ResourceKind::Project))?;
    if row.role.is_some_and(|role| role < L::ROLE) {
        return Err(PermitError::Role(ResourceKind::Project, L::ROLE));
    }
    let row = DeletedProject {
        id: row.id,
        name: row.name,
        owner: row.owner,
        org_id: row.org_id,
        org: row.org,
        domains: row.domains,
        deleted_at: row.deleted_at,
    };
    Ok(Permit { row, actor: (), level: PhantomData })
}
