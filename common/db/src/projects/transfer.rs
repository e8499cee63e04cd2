//! The transfer of a project to another owner.

use domain::{
    Account, OrgId, UserId,
    access::AccessMode,
    changes::PendingChange,
    plans::{LimitReached, Plans},
};
use sqlx::PgConnection;

use super::{
    domains,
    project::Project,
    suspension::{self, SuspendedError},
};
use crate::{
    billing::plan,
    code_host::repo_links,
    orgs::Membership,
    permits::{Admin, AtLeast, ProjectPermit},
    quotas::{self, QuotaError},
    stats::public,
};

/// The new owner of a project.
#[derive(Debug, Clone, Copy)]
pub enum TransferDestination<'a> {
    /// The person who transfers it.
    Personal(&'a UserId),
    /// An org of which the person who transfers it is a member.
    Org(&'a Membership),
}

impl TransferDestination<'_> {
    /// Returns the new owner's account.
    pub fn account(&self) -> Account {
        match self {
            Self::Personal(user) => Account::User((*user).clone()),
            Self::Org(membership) => Account::Org(membership.org().clone()),
        }
    }
}

/// The reason a project was not transferred.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// The project was deleted or moved meanwhile.
    #[error("the project is gone")]
    Gone,
    /// The org was deleted.
    #[error("the organization is gone")]
    OrgGone,
    /// A share cannot be transferred.
    #[error("a share cannot be moved")]
    Share,
    /// The site is open to the org's members only, so that a personal project would have to become public.
    #[error("the site is open to the organization's members only")]
    OrgGated,
    /// The operator has suspended the project, its owner, or its new owner.
    #[error(transparent)]
    Suspended(#[from] SuspendedError),
    /// The new owner's plan has no room for the project, its files or its domains.
    #[error(transparent)]
    Quota(#[from] LimitReached),
    /// A database error.
    #[error(transparent)]
    Db(#[from] sqlx::Error),
}

/// Transfers the project with its files and custom domains, which must fit the new owner's plan; `None` if it is
/// already there. Ends the sessions of visitors that a gate has let in, the repository link and the public statistics
/// link.
pub async fn transfer(
    conn: &mut PgConnection,
    project: &ProjectPermit<impl AtLeast<Admin>>,
    to: TransferDestination<'_>,
    plans: &Plans,
) -> Result<Option<(Project, PendingChange)>, TransferError> {
    if project.share_name.is_some() {
        return Err(TransferError::Share);
    }
    // Read again under the lock: a permit to move it out of one org is not valid in the next.
    let stored = sqlx::query!(
        "SELECT access_mode, user_id FROM projects
           WHERE id = $1 AND org_id IS NOT DISTINCT FROM $2 FOR UPDATE",
        project.id.as_str(),
        project.org_id.as_ref().map(OrgId::as_str),
    )
    .fetch_optional(&mut *conn)
    .await?
    .ok_or(TransferError::Gone)?;
    let (user, org) = match to {
        TransferDestination::Personal(user) => (Some(user), None),
        TransferDestination::Org(membership) => (None, Some(membership)),
    };
    if stored.user_id.as_ref() == user && project.org_id.as_ref() == org.map(Membership::org) {
        return Ok(None);
    }
    if org.is_none() && stored.access_mode == AccessMode::Org {
        return Err(TransferError::OrgGated);
    }
    // A transfer must neither end a suspension nor move the site of another account into one.
    if let Some(suspended) = suspension::find_for_project(&mut *conn, &project.id).await? {
        return Err(suspended.into());
    }
    let owner = to.account();
    let allowance = plan::lock_allowance(conn, plans, &owner).await?;
    if let Some(suspended) = suspension::find_for_account(&mut *conn, &owner).await? {
        return Err(suspended.into());
    }
    quotas::projects(&mut *conn, &owner, &allowance).await?;
    let its = domains::count(&mut *conn, &project.id).await?;
    if its > 0 {
        quotas::domains(&mut *conn, &owner, its, &allowance).await?;
    }
    let its = quotas::stored_by_project(&mut *conn, &project.id).await?;
    quotas::stored_bytes(&mut *conn, &owner, its, &allowance).await?;
    let moved = sqlx::query!(
        "UPDATE projects SET user_id = $2, org_id = $3, access_version = access_version + 1 WHERE id = $1",
        project.id.as_str(),
        user.map(UserId::as_str),
        org.map(|membership| membership.org().as_str()),
    )
    .execute(&mut *conn)
    .await;
    match moved {
        Err(sqlx::Error::Database(error)) if error.is_foreign_key_violation() => return Err(TransferError::OrgGone),
        moved => moved?,
    };
    // The new owner may not read through the former owner's installation, and has given nobody the statistics link.
    repo_links::end_link(&mut *conn, &project.id).await?;
    public::disable_for_transfer(conn, &project.id).await?;
    let moved = Project {
        owner: to.account(),
        org_id: org.map(|membership| membership.org().clone()),
        org: org.map(|membership| membership.name().clone()),
        org_creator: None,
        ..Project::clone(project)
    };
    Ok(Some((moved, PendingChange::new(&project.id))))
}

impl From<QuotaError> for TransferError {
    fn from(error: QuotaError) -> Self {
        match error {
            QuotaError::Reached(reached) => Self::Quota(reached),
            QuotaError::Db(error) => Self::Db(error),
        }
    }
}
