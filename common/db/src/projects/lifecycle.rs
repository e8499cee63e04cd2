//! Projects from their creation to their deletion.

use std::time::Duration;

use domain::{
    Account, OrgId, ProjectId, ProjectName, Timestamp, UserId,
    addresses::HostKey,
    changes::Touched,
    limits::PROJECT_RESTORABLE,
    names::NewProjectName,
    plans::{LimitReached, Plans},
};
use sqlx::PgConnection;

use super::{
    deleted, domains,
    project::{self, Project},
    suspension::{self, Suspended},
};
use crate::{
    billing::plan,
    names::{self, Name},
    permits::{Admin, AtLeast, ProjectPermit},
    quotas::{self, QuotaError},
    upkeep::{held_packs, pack_removals},
};

/// Why a project was not made.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// The name is taken.
    #[error("the name is taken")]
    NameTaken,
    /// Somebody else gave the name up a short while ago, and may still take it again.
    #[error("the name is kept for its former owner")]
    NameKept,
    /// The owner was deleted in the meantime.
    #[error("the owner is gone")]
    OwnerGone,
    /// The operator has suspended the owner.
    #[error(transparent)]
    Suspended(#[from] Suspended),
    /// The owner's plan allows no more.
    #[error(transparent)]
    Quota(#[from] LimitReached),
    /// The database.
    #[error(transparent)]
    Db(sqlx::Error),
}

impl From<sqlx::Error> for CreateError {
    fn from(error: sqlx::Error) -> Self {
        let owner_gone = error.as_database_error().is_some_and(sqlx::error::DatabaseError::is_foreign_key_violation);
        if owner_gone { Self::OwnerGone } else { Self::Db(error) }
    }
}

impl From<QuotaError> for CreateError {
    fn from(error: QuotaError) -> Self {
        match error {
            QuotaError::Reached(reached) => Self::Quota(reached),
            QuotaError::Db(error) => error.into(),
        }
    }
}

/// Makes a project that serves nothing yet, if its owner's plan has room for it. A name that `owner` or `creator` has given
/// up is theirs at once.
pub async fn create(
    conn: &mut PgConnection,
    owner: &Account,
    creator: &UserId,
    name: NewProjectName,
    plans: &Plans,
    now: Timestamp,
) -> Result<Project, CreateError> {
    let allowance = plan::locked(conn, plans, owner).await?;
    if let Some(suspended) = suspension::of_account(&mut *conn, owner).await? {
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
        return Err(CreateError::NameTaken);
    }
    let accounts = [owner.to_string(), creator.to_string()];
    if !names::reclaim(&mut *conn, Name::Project(&name), &accounts, now).await? {
        return Err(CreateError::NameKept);
    }
    Ok(project::find(conn, &id).await?)
}

/// Why a project was not deleted.
#[derive(Debug, thiserror::Error)]
pub enum DeleteError {
    /// The project was deleted or moved in the meantime.
    #[error("the project is gone")]
    Gone,
    /// The operator has suspended the project, or its owner: with the project would go what is known of it.
    #[error(transparent)]
    Suspended(#[from] Suspended),
    /// The database.
    #[error(transparent)]
    Db(#[from] sqlx::Error),
}

/// Deletes the project and all it owns; its name and its domains are kept for its owner, and for [`PROJECT_RESTORABLE`] it can be restored, unless it
/// is behind a share. Its packs are queued for removal after that. Of an account's deleted projects the newest can be restored: as many as its
/// plan allows projects, and as many bytes of packs as it allows to store.
pub async fn delete(
    conn: &mut PgConnection,
    project: &ProjectPermit<impl AtLeast<Admin>>,
    plans: &Plans,
    now: Timestamp,
) -> Result<Touched, DeleteError> {
    // Who was permitted to delete it in one org may not delete it in the next.
    let org = project.org_id.as_ref().map(OrgId::as_str);
    let owner = sqlx::query_scalar!(
        r#"SELECT COALESCE(org_id, user_id) AS "owner!: Account" FROM projects
           WHERE id = $1 AND org_id IS NOT DISTINCT FROM $2 FOR UPDATE"#,
        project.id.as_str(),
        org,
    );
    let Some(owner) = owner.fetch_optional(&mut *conn).await? else {
        return Err(DeleteError::Gone);
    };
    if let Some(suspended) = suspension::of_project(&mut *conn, &project.id).await? {
        return Err(suspended.into());
    }
    // What a share was called is made up, and is nobody's; and it was made to go.
    let is_share = project.share_name.is_some();
    if !is_share {
        let limits = plan::limits(&mut *conn, plans, &owner).await?;
        names::retire_of_project(&mut *conn, &project.id, &project.name, &owner, &limits, now).await?;
        names::retire_domains(&mut *conn, &project.id, None, &owner, now).await?;
        deleted::keep(&mut *conn, &project.id, now).await?;
    }
    let kept = if is_share { Duration::ZERO } else { PROJECT_RESTORABLE };
    let touched = remove(&mut *conn, &project.id, &project.host(), now, kept).await?.ok_or(DeleteError::Gone)?;
    if !is_share {
        let payer = held_packs::payer(&mut *conn, &owner).await?;
        let limits = plan::limits(&mut *conn, plans, &payer).await?;
        deleted::trim(conn, &owner, &payer, &limits, now).await?;
    }
    Ok(touched)
}

/// Deletes a project as [`delete`] does, without a permit and without keeping its rows: for the reaper of expired shares. Its packs
/// are removed once `kept` has passed.
pub(crate) async fn remove(
    conn: &mut PgConnection,
    id: &ProjectId,
    host: &HostKey,
    now: Timestamp,
    kept: Duration,
) -> Result<Option<Touched>, sqlx::Error> {
    // Locked first: an upload that goes live waits here, then finds nothing to go live in.
    let found = sqlx::query_scalar!("SELECT true FROM projects WHERE id = $1 FOR UPDATE", id.as_str())
        .fetch_optional(&mut *conn)
        .await?;
    if found.is_none() {
        return Ok(None);
    }
    pack_removals::queue_project(conn, id, now, kept).await?;
    let mut hosts = domains::end(conn, id).await?;
    hosts.push(host.clone());
    sqlx::query!("DELETE FROM projects WHERE id = $1", id.as_str()).execute(&mut *conn).await?;
    Ok(Some(Touched::new(id).with_hosts(hosts)))
}
