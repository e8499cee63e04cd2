//! Permits for orgs, and their re-check under the org's lock.

use std::marker::PhantomData;

use domain::{OrgId, OrgName, UserId, role::Role};
use sqlx::{PgConnection, PgExecutor};

use super::{LockedOrg, LockedPermit, OrgPermit, Permit, PermitError, PermitLevel, Resource, ResourceKind};
use crate::orgs::org::{Org, select_orgs};

impl Resource for Org {
    const KIND: ResourceKind = ResourceKind::Org;
    type Actor = OrgActor;
}

/// The person who acts on an org.
#[derive(Debug)]
pub struct OrgActor {
    user: UserId,
    role: Role,
}

impl<L> Permit<Org, L> {
    /// Returns the person who acts.
    pub fn user(&self) -> &UserId {
        &self.actor.user
    }

    /// Returns the actor's role, which is at least that of the level.
    pub fn role(&self) -> Role {
        self.actor.role
    }
}

/// Permits `user` to act on the org called `name`.
pub async fn org<L: PermitLevel>(
    db: impl PgExecutor<'_>,
    user: &UserId,
    name: &OrgName,
) -> Result<OrgPermit<L>, PermitError> {
    let row = select_orgs!("WHERE m.user_id = $1 AND o.name = $2", user.as_str(), name.as_str())
        .fetch_optional(db)
        .await?
        .ok_or(PermitError::NotFound(ResourceKind::Org))?;
    let (org, role) = row.split();
    grant(org, user.clone(), role)
}

fn grant<L: PermitLevel>(org: Org, user: UserId, role: Role) -> Result<OrgPermit<L>, PermitError> {
    if role < L::ROLE {
        return Err(PermitError::Role(ResourceKind::Org, L::ROLE));
    }
    Ok(Permit { row: org, actor: OrgActor { user, role }, level: PhantomData })
}

/// Locks the org until the end of the transaction, and checks again that the actor may act: if two owners demote each
/// other concurrently, the second is no longer an owner.
pub async fn lock<L: PermitLevel>(conn: &mut PgConnection, permit: OrgPermit<L>) -> Result<LockedOrg<L>, PermitError> {
    let role = lock_role(conn, &permit).await?;
    let Permit { row, actor, .. } = permit;
    grant(row, actor.user, role).map(LockedPermit)
}

/// Locks and checks like [`lock`], for an operation that may lock the org again in another transaction.
pub async fn confirm<L: PermitLevel>(conn: &mut PgConnection, permit: &OrgPermit<L>) -> Result<(), PermitError> {
    let role = lock_role(conn, permit).await?;
    if role < L::ROLE { Err(PermitError::Role(ResourceKind::Org, L::ROLE)) } else { Ok(()) }
}

async fn lock_role<L>(conn: &mut PgConnection, permit: &OrgPermit<L>) -> Result<Role, PermitError> {
    const GONE: PermitError = PermitError::NotFound(ResourceKind::Org);
    lock_row(conn, &permit.id).await?.ok_or(GONE)?;
    // A separate statement, so that it sees everything committed while waiting for the lock.
    sqlx::query_scalar!(
        "SELECT role FROM org_members WHERE org_id = $1 AND user_id = $2",
        permit.id.as_str(),
        permit.user().as_str(),
    )
    .fetch_optional(conn)
    .await?
    .ok_or(GONE)
}

/// Locks the org's row against changes, but not against new rows that refer to it.
pub(crate) async fn lock_row(conn: &mut PgConnection, org: &OrgId) -> Result<Option<()>, sqlx::Error> {
    let found = sqlx::query_scalar!("SELECT id FROM orgs WHERE id = $1 FOR NO KEY UPDATE", org.as_str());
    Ok(found.fetch_optional(conn).await?.map(drop))
}
