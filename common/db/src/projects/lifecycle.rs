//! The creation and deletion of projects.

use std::time::Duration;

use domain::{
    Account, OrgId, ProjectId, ProjectName, Timestamp, UserId,
    addresses::HostKey,
    changes::PendingChange,
    limits::PROJECT_RESTORABLE,
    names::NewProjectName,
    plans::{LimitReached, Plans},
};
use sqlx::PgConnection;

use super::{
    deleted, domains,
    project::{self, Project},
    suspension::{self, SuspendedError},
};
use crate::{
    billing::plan,
    names::{self, ReservedName},
    permits::{Admin, AtLeast, ProjectPermit},
    quotas::{self, QuotaError},
    upkeep::{held_packs, pack_removals},
};

/// The reason a project was not created.
#[derive(Debug, thiserror::Error)]
pub enum CreateProjectError {
    /// The name is in use.
    #[error("the name is taken")]
    NameTaken,
    /// The name is reserved for another former owner for a while.
    #[error("the name is kept for its former owner")]
    NameKept,
    /// The owner was deleted meanwhile.
    #[error("the owner is gone")]
    OwnerGone,
    /// The operator has suspended the owner.
    #[error(transparent)]
    Suspended(#[from] SuspendedError),
    /// The owner's plan allows no more.
    #[error(transparent)]
    Quota(#[from] LimitReached),
    /// A database error.
    #[error(transparent)]
    Db(sqlx::Error),
}

impl From<sqlx::Error> for CreateProjectError {
    fn from(error: sqlx::Error) -> Self {
        let owner_gone = error.as_database_error().is_some_and(sqlx::error::DatabaseError::is_foreign_key_violation);
        if owner_gone { Self::OwnerGone } else { Self::Db(error) }
    }
}

impl From<QuotaError> for CreateProjectError {
    fn from(error: QuotaError) -> Self {
        match error {
            QuotaError::Reached(reached) => Self::Quota(reached),
            QuotaError::Db(error) => error.into(),
        }
    }
}

/// Creates a project without a deployment, if its owner's plan has room. A name reserved for `owner` or `creator` is
/// free.
pub async fn create(
    conn: &mut PgConnection,
    owner: &Account,
    creator: &UserId,
    name: NewProjectName,
    plans: &Plans,
    now: Timestamp,
) -> Result<Project, CreateProjectError> {
    let allowance = plan::lock_allowance(conn, plans, owner).await?;
    if let Some(suspended) = suspension::find_for_account(&mut *conn, owner).await? {
        return Err(suspended.into());
    }
    quotas::projects(&mut *conn, owner, &allowance).await?;
    let name = ProjectName::from(name);
    let id = ProjectId::new(now);
    let inserted = sqlx::query!(
        "INSERT INTO projects (id, name, user_id, org_id, created_at) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (name) DO NOTHING",
        id.as_str(),
        name.as_str(),
        owner.as_user().map(UserId::as_str),
        owner.as_org().map(OrgId::as_str),
        now,
    )
    .execute(&mut *conn)
    .await?;
    if inserted.rows_affected() == 0 {
        return Err(CreateProjectError::NameTaken);
    }
    let accounts = [owner.to_string(), creator.to_string()];
    if !names::reclaim(&mut *conn, ReservedName::Project(&name), &accounts, now).await? {
        return Err(CreateProjectError::NameKept);
    }
    Ok(project::find(conn, &id).await?)
}

/// The reason a project was not deleted.
#[derive(Debug, thiserror::Error)]
pub enum DeleteProjectError {
    /// The project was deleted or moved meanwhile.
    #[error("the project is gone")]
    Gone,
    /// The operator has suspended the project or its owner; deletion would also remove what is known about it.
    #[error(transparent)]
    Suspended(#[from] SuspendedError),
    /// A database error.
    #[error(transparent)]
    Db(#[from] sqlx::Error),
}

/// Deletes the project and everything it owns, and reserves its name and domains for its owner. Except behind a share,
/// it can be restored for [`PROJECT_RESTORABLE`], after which its packs are removed. An account keeps its newest
/// deleted projects, up to the numbers of projects and of stored bytes that its plan allows.
pub async fn delete(
    conn: &mut PgConnection,
    project: &ProjectPermit<impl AtLeast<Admin>>,
    plans: &Plans,
    now: Timestamp,
) -> Result<PendingChange, DeleteProjectError> {
    // A permit to delete it in one org is not valid in the next.
    let org = project.org_id.as_ref().map(OrgId::as_str);
    let owner = sqlx::query_scalar!(
        r#"SELECT COALESCE(org_id, user_id) AS "owner!: Account" FROM projects
           WHERE id = $1 AND org_id IS NOT DISTINCT FROM $2 FOR UPDATE"#,
        project.id.as_str(),
        org,
    );
    let Some(owner) = owner.fetch_optional(&mut *conn).await? else {
        return Err(DeleteProjectError::Gone);
    };
    if let Some(suspended) = suspension::find_for_project(&mut *conn, &project.id).await? {
        return Err(suspended.into());
    }
    // A share's generated name is not reserved, and a share is meant to disappear.
    let is_share = project.share_name.is_some();
    if !is_share {
        let limits = plan::limits(&mut *conn, plans, &owner).await?;
        names::retire_project_name(&mut *conn, &project.id, &project.name, &owner, &limits, now).await?;
        names::retire_domains(&mut *conn, &project.id, None, &owner, now).await?;
        deleted::store(&mut *conn, &project.id, now).await?;
    }
    let kept = if is_share { Duration::ZERO } else { PROJECT_RESTORABLE };
    let touched = remove(&mut *conn, &project.id, &project.host(), now, kept).await?.ok_or(DeleteProjectError::Gone)?;
    if !is_share {
        let payer = held_packs::payer(&mut *conn, &owner).await?;
        let limits = plan::limits(&mut *conn, plans, &payer).await?;
        deleted::trim(conn, &owner, &payer, &limits, now).await?;
    }
    Ok(touched)
}

/// Deletes an expired share's project like [`delete`], without a permit or kept rows. Its packs are removed after
/// `kept`.
pub(crate) async fn remove(
    conn: &mut PgConnection,
    id: &ProjectId,
    host: &HostKey,
    now: Timestamp,
    kept: Duration,
) -> Result<Option<PendingChange>, sqlx::Error> {
    // Lock first: a concurrent promotion waits here, and then finds no project.
    let found = sqlx::query_scalar!("SELECT true FROM projects WHERE id = $1 FOR UPDATE", id.as_str())
        .fetch_optional(&mut *conn)
        .await?;
    if found.is_none() {
        return Ok(None);
    }
    pack_removals::queue_project(conn, id, now, kept).await?;
    let mut hosts = domains::detach_all(conn, id).await?;
    hosts.push(host.clone());
    sqlx::query!("DELETE FROM projects WHERE id = $1", id.as_str()).execute(&mut *conn).await?;
    Ok(Some(PendingChange::new(id).with_hosts(hosts)))
}
